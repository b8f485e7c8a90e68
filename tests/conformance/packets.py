"""Packets written as text, and packets read from a connection.

Two notations are understood. The one of the packet sequences, whose tokens stand between spaces:

    two or more hex digits     these bytes
    r12, v12                   a Variable Byte Integer
    s12, m12, k12, H12         two bytes: length of a string, packet identifier, keep-alive, any other
    i12, L12                   one byte, four bytes
    'text'                     these characters

and in the project's own cases three more, so that nobody has to count:

    ~                          the remaining length: the number of bytes behind it
    "text"                     a string or binary data with its length before it
    { ... }                    properties with their length before them
"""
import re

TYPES = ("RESERVED", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
         "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH")
CONNACK, PUBLISH, PUBACK, PUBREC, DISCONNECT = 0x2, 0x3, 0x4, 0x5, 0xe
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"

TOKEN = re.compile(r"""\s*('[^']*'|"[^"]*"|~|\{|\}|[rvsmkHiL]\d+|(?:[0-9A-Fa-f]{2})+)""")
WIDTHS = {"s": 2, "m": 2, "k": 2, "H": 2, "i": 1, "L": 4}


def varint(value):
    """As section 1.5.5 says, but of any size, since some packets are wrong on purpose."""
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _token(token):
    kind = token[0]
    if kind == "'":
        return token[1:-1].encode()
    if kind == '"':
        text = token[1:-1].encode()
        return len(text).to_bytes(2, "big") + text
    if kind in "rv":
        return varint(int(token[1:]))
    if kind in WIDTHS:
        return int(token[1:]).to_bytes(WIDTHS[kind], "big")
    return bytes.fromhex(token)


def parse(text):
    """The bytes that the text describes. ValueError: it is not understood."""
    open_parts = [bytearray()]
    length_at = None
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ValueError(f"not understood: {text[at:]!r}")
        at = match.end()
        token = match[1]
        if token == "~":
            length_at = len(open_parts[0])
        elif token == "{":
            open_parts.append(bytearray())
        elif token == "}":
            properties = open_parts.pop()
            open_parts[-1] += varint(len(properties)) + properties
        else:
            open_parts[-1] += _token(token)
    packet = bytes(open_parts[0])
    if length_at is None:
        return packet
    return packet[:length_at] + varint(len(packet) - length_at) + packet[length_at:]


def show(packet):
    """For people: the type, then the bytes."""
    if not packet:
        return "the end of the connection"
    digits = packet[:40].hex(" ").upper() + (f" ... ({len(packet)} bytes)" if len(packet) > 40 else "")
    return f"{TYPES[packet[0] >> 4]} [{digits}]"


def kind(packet):
    return packet[0] >> 4 if packet else None


def body(packet):
    """What stands behind the remaining length."""
    at = 1
    while packet[at] & 0x80:
        at += 1
    return packet[at + 1:]
