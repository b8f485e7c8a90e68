"""One scripted client: raw bytes out, whole packets in. It knows nothing of MQTT but where a packet ends."""
import asyncio
import contextlib

from packets import PINGREQ, PINGRESP, parse, show

# How long to wait for something that must come. Only a server that never sends it makes anybody wait that long.
PATIENCE_S = 20


class Failure(Exception):
    """The server did something else than the case says."""


class Peer:
    def __init__(self, name, address):
        self.name = name
        self.address = address
        self.reader = self.writer = None

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(*self.address)
        return self

    def close(self):
        """Ends the connection without a word; the server sees its end."""
        if self.writer:
            self.writer.close()

    async def send(self, *packets):
        """Writes packets, each as text or bytes, in one go."""
        data = b"".join(p if isinstance(p, bytes) else parse(p) for p in packets)
        with contextlib.suppress(ConnectionError):  # the server may have closed; what it answered is judged, not this
            self.writer.write(data)
            await self.writer.drain()

    async def packet(self, patience_s=PATIENCE_S):
        """The next packet as bytes, b"" at the end of the connection. TimeoutError: nothing came."""
        try:
            return await asyncio.wait_for(self._packet(), patience_s)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    async def _packet(self):
        head = await self.reader.readexactly(2)
        length = head[1] & 0x7f
        shift = 7
        while head[-1] & 0x80:
            head += await self.reader.readexactly(1)
            length |= (head[-1] & 0x7f) << shift
            shift += 7
        return head + await self.reader.readexactly(length)

    async def must(self, wanted):
        """The next packet, or a Failure that says what was wanted."""
        try:
            return await self.packet()
        except TimeoutError:
            raise Failure(f"{self.name}: nothing came instead of {wanted}") from None

    async def expect(self, *packets):
        """Exactly these packets are next."""
        for text in packets:
            wanted = text if isinstance(text, bytes) else parse(text)
            got = await self.must(show(wanted))
            if got != wanted:
                raise Failure(f"{self.name}: wanted {show(wanted)}, got {show(got)}")

    async def closed(self):
        """The server closes, without another packet."""
        got = await self.must("the end of the connection")
        if got:
            raise Failure(f"{self.name}: wanted the end of the connection, got {show(got)}")

    async def ping(self):
        """A packet that is answered in its turn: all that the server had to say to this client before has been read."""
        await self.send(PINGREQ)
        await self.expect(PINGRESP)
