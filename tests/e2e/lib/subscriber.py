"""Subscribers of the fan-out: HTTP servers of Python's own library, each in a thread, that keep what they were sent and answer what a
test says."""
import threading
import time
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lib.wait import HANG_S, Deadline

Answer = namedtuple("Answer", "status headers body", defaults=({}, b""))


class Request(namedtuple("Request", "method path headers body at")):
    """`headers`: all lines as they came. `at`: when, by the monotonic clock."""

    def all(self, name):
        return [value for have, value in self.headers if have.lower() == name.lower()]

    def header(self, name):
        """The only value; None if there is none."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def attributes(self):
        """Of the event, in binary mode: what stands behind `ce-`, in lower case."""
        found = [(name.lower()[3:], value) for name, value in self.headers if name.lower().startswith("ce-")]
        assert len(dict(found)) == len(found), f"an attribute is there twice: {found}"
        return dict(found)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        pass  # the other side went away


class Subscriber:
    """`answer(request, number)` gives the Answer to the number-th request (from 0); without it everything is answered with 200. A
    list of answers is given one after the other, the last one for ever. `tls`: a context of ssl, for https."""

    def __init__(self, answer=None, tls=None):
        self.answer = answer or (lambda request, number: Answer(200))
        self.requests = []
        self.changed = threading.Condition()
        subscriber = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, list(self.headers.items()), body, time.monotonic())
                with subscriber.changed:
                    number = len(subscriber.requests)
                    subscriber.requests.append(request)
                    subscriber.changed.notify_all()
                answer = subscriber.choose(request, number)
                self.send_response_only(answer.status)
                for name, value in dict(answer.headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_OPTIONS = handle_one

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.host}/"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = f"https://localhost:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def choose(self, request, number):
        if callable(self.answer):
            return self.answer(request, number)
        return self.answer[min(number, len(self.answer) - 1)]

    def wait(self, n):
        """The requests, once there are n."""
        deadline = Deadline(lambda: f"{n} requests at a subscriber, it has {len(self.requests)}")
        with self.changed:
            while len(self.requests) < n:
                self.changed.wait(min(1.0, deadline.left()))
            return list(self.requests)

    def only(self):
        """The one request that has come."""
        assert len(self.requests) == 1, self.requests
        return self.requests[0]

    def ids(self):
        return [request.header("ce-id") for request in self.requests]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(HANG_S)


class Gate:
    """Holds answers back until it is opened: `Subscriber(gate.hold(Answer(200)))`."""

    def __init__(self):
        self.event = threading.Event()

    def hold(self, answer):
        def give(request, number):
            assert self.event.wait(HANG_S)
            return answer
        return give

    def open(self):
        self.event.set()
