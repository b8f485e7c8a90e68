"""A mapper (docs/MAPPER.md): Python's own HTTP server."""
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lib.wait import HANG_S


class Mapper(ThreadingHTTPServer):
    """Answers by the payload: `fail` with 500, `hang` only once `release` is set, `to d2` for that device, anything else as JSON."""

    daemon_threads = True
    is_closed = False

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.requests = []
        self.connections = set()
        self.release = threading.Event()
        self.url = f"http://localhost:{self.server_address[1]}/map"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.release.set()
        if not self.is_closed:
            self.is_closed = True
            self.shutdown()
            self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        payload = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.requests.append((self.path, dict(self.headers), payload))
        self.server.connections.add(self.client_address)
        if payload == "hang":
            self.server.release.wait(HANG_S)
        body = json.dumps({"was": payload}).encode()
        self.send_response(500 if payload == "fail" else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("plant", "p1")
        if payload.startswith("to "):
            self.send_header("device_id", payload[3:])
        self.end_headers()
        self.wfile.write(body)
