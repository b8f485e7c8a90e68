"""Many events and subscribers on one thread (asyncio), for what has to happen under load: a sender on several connections, and one server
that stands for all subscribers by its paths. Messages with Content-Length only.

    sink = await Sink.start(lambda path, headers: ...)
    load = Load(sidecar.fanout, "/default/c1", connections=16)
    await load.run(lambda: load.sent >= 10_000)     # goes on until that holds and everything is answered
"""
import asyncio
from collections import Counter

from lib.wait import HANG_S


class Messages(asyncio.Protocol):
    """What both sides read: a head and a body, whole."""

    def __init__(self):
        self.data = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            first, *lines = self.data[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            size = end + 4 + int(headers.get("content-length", 0))
            if len(self.data) < size:
                return
            body, self.data = self.data[end + 4:size], self.data[size:]
            self.on_message(first, headers, body)


class Sink:
    """`on_event(path, headers)` is called for every request; each is answered with 200, `delay_s` later."""

    @classmethod
    async def start(cls, on_event, delay_s=0):
        sink = cls()
        loop = asyncio.get_running_loop()

        class Connection(Messages):
            def on_message(self, first, headers, body):
                on_event(first.split(" ")[1], headers)
                if delay_s:
                    loop.call_later(delay_s, self.answer)
                else:
                    self.answer()

            def answer(self):
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        sink.server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
        sink.url = "http://127.0.0.1:%d" % sink.server.sockets[0].getsockname()[1]
        return sink

    def close(self):
        self.server.close()


class Load:
    """Events with the ids 0, 1, ..; `answers`: the status of each that was answered. `lost`: ids whose connection ended first."""

    def __init__(self, address, path, connections):
        self.address, self.path, self.n_connections = address, path, connections
        self.sent = 0
        self.answers, self.headers, self.lost = {}, {}, []
        self.running = 0
        self.is_enough = lambda: False
        self.ended = asyncio.Event()

    def statuses(self):
        return Counter(self.answers.values())

    def request(self, number):
        return (f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nce-specversion: 1.0\r\n"
                f"ce-type: com.example.load\r\nce-source: /load\r\nce-id: {number}\r\n\r\n{{}}").encode()

    def connection(self):
        load = self

        class Connection(Messages):
            waiting = None

            def connection_made(self, transport):
                super().connection_made(transport)
                load.running += 1
                self.send()

            def send(self):
                if load.is_enough():
                    self.transport.close()
                    return
                self.waiting = load.sent
                load.sent += 1
                self.transport.write(load.request(self.waiting))

            def on_message(self, first, headers, body):
                load.answers[self.waiting] = int(first.split(" ")[1])
                load.headers[self.waiting] = headers
                self.waiting = None
                if headers.get("connection", "").lower() == "close":
                    self.transport.close()
                else:
                    self.send()

            def connection_lost(self, error):
                if self.waiting is not None:
                    load.lost.append(self.waiting)
                load.running -= 1
                if load.running == 0:
                    load.ended.set()

        return Connection()

    async def run(self, is_enough):
        """Until that holds and everything was answered, or the server has closed every connection."""
        self.is_enough = is_enough
        loop = asyncio.get_running_loop()
        for _ in range(self.n_connections):
            await loop.create_connection(self.connection, *self.address)
        await asyncio.wait_for(self.ended.wait(), HANG_S)
