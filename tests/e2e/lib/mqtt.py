"""An MQTT client that does what it is told, byte by byte: for packets that no library sends, and for the exact answers."""
import socket
import struct
from collections import namedtuple

from lib.wait import Deadline, is_readable

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)
V311, V5 = 4, 5

Packet = namedtuple("Packet", "type flags body")
Publish = namedtuple("Publish", "topic payload qos retain dup packet_id")


def varint(n):
    out = b""
    while True:
        n, low = n >> 7, n & 127
        out += bytes([low | (128 if n else 0)])
        if not n:
            return out


def read_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n, at
        shift += 7


def text(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack(">H", len(data)) + data


def packet(kind, flags, body):
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


def number_property(identifier, size, value):
    return bytes([identifier]) + value.to_bytes(size, "big")


def text_property(identifier, value):
    return bytes([identifier]) + text(value)


def connect_packet(version, client_id, user=None, password=None, clean=True, keep_alive=0, will=None, properties=b""):
    """`will`: (topic, payload, qos, retain)."""
    flags = 2 * clean
    tail = text(client_id)
    if will:
        topic, payload, qos, retain = will
        flags |= 4 | qos << 3 | retain << 5
        tail += (b"\0" if version == V5 else b"") + text(topic) + text(payload)
    if user is not None:
        flags |= 0x80
        tail += text(user)
    if password is not None:
        flags |= 0x40
        tail += text(password)
    head = text("MQTT") + bytes([version, flags]) + struct.pack(">H", keep_alive)
    if version == V5:
        head += varint(len(properties)) + properties
    return packet(CONNECT, 0, head + tail)


def publish_packet(version, topic, payload, qos=0, packet_id=0, retain=False, dup=False, properties=b""):
    body = text(topic) + (struct.pack(">H", packet_id) if qos else b"")
    if version == V5:
        body += varint(len(properties)) + properties
    payload = payload if isinstance(payload, bytes) else payload.encode()
    return packet(PUBLISH, dup << 3 | qos << 1 | retain, body + payload)


class Client:
    def __init__(self, address, version=V311):
        self.version = version
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Without a DISCONNECT, as a client that died."""
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def fill(self, seconds):
        """Reads what is there within the time: bytes came (True), the end (False), nothing (None)."""
        if not is_readable(self.socket, seconds):
            return None
        try:
            chunk = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.data += chunk
        return bool(chunk)

    def take(self):
        """The next packet that is completely here, or None."""
        if len(self.data) < 2:
            return None
        try:
            n, at = read_varint(self.data, 1)
        except IndexError:
            return None
        if len(self.data) < at + n:
            return None
        head, body = self.data[0], self.data[at:at + n]
        self.data = self.data[at + n:]
        return Packet(head >> 4, head & 15, body)

    def read(self):
        """The next packet, or None at the end of the connection."""
        deadline = Deadline("a packet")
        while True:
            found = self.take()
            if found:
                return found
            if self.fill(deadline.left()) is False:
                return None

    def expect(self, kind):
        found = self.read()
        assert found is not None, f"the connection was closed instead of a packet of type {kind}"
        assert found.type == kind, f"packet {found} instead of type {kind}"
        return found

    def expect_closed(self):
        found = self.read()
        assert found is None, f"{found} instead of the end of the connection"

    def expect_silence(self, seconds):
        """Nothing comes for so long and the connection stays."""
        assert not self.data and self.fill(seconds) is None, f"{self.take()} or the end instead of silence"

    def connect(self, client_id="", expect=0, **options):
        """The session-present flag; the CONNACK has to carry this code."""
        self.send(connect_packet(self.version, client_id, **options))
        connack = self.expect(CONNACK)
        assert connack.body[1] == expect, f"CONNACK {connack.body[1]:#x}, expected {expect:#x}"
        self.connack = connack.body
        return bool(connack.body[0])

    def publish(self, topic, payload, qos=0, packet_id=1, **options):
        self.send(publish_packet(self.version, topic, payload, qos, packet_id, **options))

    def expect_ack(self, kind, packet_id):
        """The reason code of the PUBACK, PUBREC, PUBREL or PUBCOMP for that identifier."""
        body = self.expect(kind).body
        assert struct.unpack_from(">H", body)[0] == packet_id
        return body[2] if len(body) > 2 else 0

    def publish_and_wait(self, topic, payload, packet_id=1, **options):
        """With QoS 1; the reason code of the PUBACK."""
        self.publish(topic, payload, 1, packet_id, **options)
        return self.expect_ack(PUBACK, packet_id)

    def ping(self):
        """Whatever was sent before has been handled, and nothing was answered to it."""
        self.send(b"\xc0\0")
        self.expect(PINGRESP)

    def subscribe(self, filters, packet_id=1):
        """`filters`: (filter, options byte) each; the SUBACK's codes."""
        body = struct.pack(">H", packet_id) + (b"\0" if self.version == V5 else b"")
        self.send(packet(SUBSCRIBE, 2, body + b"".join(text(f) + bytes([options]) for f, options in filters)))
        body = self.expect(SUBACK).body
        assert struct.unpack_from(">H", body)[0] == packet_id
        if self.version == V5:
            n, at = read_varint(body, 2)
            return list(body[at + n:])
        return list(body[2:])

    def expect_publish(self):
        found = self.expect(PUBLISH)
        qos = found.flags >> 1 & 3
        n = struct.unpack_from(">H", found.body)[0]
        at = 2 + n
        packet_id = struct.unpack_from(">H", found.body, at)[0] if qos else 0
        at += 2 if qos else 0
        if self.version == V5:
            n_properties, at = read_varint(found.body, at)
            at += n_properties
        return Publish(found.body[2:2 + n].decode(), found.body[at:], qos, bool(found.flags & 1), bool(found.flags & 8), packet_id)

    def expect_disconnect(self):
        """MQTT 5: the reason code, and then the end."""
        body = self.expect(DISCONNECT).body
        self.expect_closed()
        return body[0] if body else 0
