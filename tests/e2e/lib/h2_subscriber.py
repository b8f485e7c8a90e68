"""Subscribers of the fan-out that speak HTTP/2 with prior knowledge, over the h2 library; otherwise as lib/subscriber.py."""
import socket
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

from lib.subscriber import Answer, Request
from lib.wait import HANG_S, Deadline


class H2Subscriber:
    """`answer(request, number)` gives the Answer to the number-th request (from 0), in the thread of its connection; None: later, by
    answer_all()."""

    def __init__(self, answer=None, max_streams=None):
        self.answer = answer or (lambda request, number: Answer(200))
        self.max_streams = max_streams
        self.requests = []
        self.connections = 0
        self.held = []  # (connection, lock, socket, stream)
        self.changed = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.url = f"h2c://{self.host}/"
        self.sockets = []
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.sockets.append(s)
            self.threads.append(threading.Thread(target=self.serve, args=(s,), daemon=True))
            self.threads[-1].start()

    def serve(self, s):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        lock = threading.Lock()
        streams = {}
        with lock:
            connection.initiate_connection()
            if self.max_streams:
                connection.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.max_streams})
            s.sendall(connection.data_to_send())
        try:
            while data := s.recv(65536):
                with lock:
                    for event in connection.receive_data(data):
                        self.handle(event, connection, lock, s, streams)
                    s.sendall(connection.data_to_send())
        except OSError:
            pass

    def handle(self, event, connection, lock, s, streams):
        if isinstance(event, h2.events.RequestReceived):
            streams[event.stream_id] = (event.headers, bytearray())
        elif isinstance(event, h2.events.DataReceived):
            streams[event.stream_id][1].extend(event.data)
            connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            headers, body = streams.pop(event.stream_id)
            pseudo = {name: value for name, value in headers if name.startswith(":")}
            lines = [(name, value) for name, value in headers if not name.startswith(":")] + [("host", pseudo[":authority"])]
            request = Request(pseudo[":method"], pseudo[":path"], lines, bytes(body), time.monotonic())
            with self.changed:
                number = len(self.requests)
                self.requests.append(request)
                self.changed.notify_all()
            answer = self.answer(request, number)
            if answer:
                self.respond(connection, event.stream_id, answer)
            else:
                self.held.append((connection, lock, s, event.stream_id))

    @staticmethod
    def respond(connection, stream, answer):
        headers = [(":status", str(answer.status)), ("content-length", str(len(answer.body)))]
        connection.send_headers(stream, headers + [(name.lower(), value) for name, value in dict(answer.headers).items()])
        connection.send_data(stream, answer.body, end_stream=True)

    def answer_all(self, answer):
        """Those that are held, the last one first."""
        for connection, lock, s, stream in reversed(self.held):
            with lock:
                self.respond(connection, stream, answer)
                s.sendall(connection.data_to_send())
        self.held.clear()

    def wait(self, n):
        """The requests, once there are n."""
        deadline = Deadline(lambda: f"{n} requests at a subscriber, it has {len(self.requests)}")
        with self.changed:
            while len(self.requests) < n:
                self.changed.wait(min(1.0, deadline.left()))
            return list(self.requests)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        for thread in self.threads:
            thread.join(HANG_S)
