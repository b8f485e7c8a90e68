"""The CloudEvents SDK for Python as a peer of the tests; what it is told: lib/sdk.py."""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import requests
from cloudevents.conversion import to_binary, to_json, to_structured
from cloudevents.http import CloudEvent, from_http


def to_batch(events):
    return {"content-type": "application/cloudevents-batch+json"}, json.dumps([json.loads(to_json(e)) for e in events])


MESSAGES = {"binary": lambda events: to_binary(events[0]), "structured": lambda events: to_structured(events[0]), "batch": to_batch}


def send(url, mode):
    events = []
    for fields in json.load(sys.stdin):
        data = fields.pop("data", None)
        events.append(CloudEvent(fields, data))
    headers, body = MESSAGES[mode](events)
    answer = requests.post(url, headers=headers, data=body, timeout=60)
    print(json.dumps({"status": answer.status_code, "body": answer.text}))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event = from_http(dict(self.headers.items()), body)
        print(to_json(event).decode(), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def receive():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    send(*sys.argv[2:]) if sys.argv[1] == "send" else receive()
