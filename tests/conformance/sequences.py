"""Plays the packet sequences: JSON files with groups of tests, each a conversation of one client with the server.

Every test is judged twice while it is played once:

    strict   the server's packets are exactly those of the file
    relaxed  so are they, but for what the specification leaves open: a v5 DISCONNECT before the end of a connection may be
             absent, present or carry another code that is an error; a refused CONNECT may be closed without a CONNACK or
             carry another code; the properties of an accepting CONNACK are free; in PUBACK and PUBREC reason 0x10 (nobody
             is subscribed) is as good as 0x00
"""
import json
from collections import namedtuple
from pathlib import Path

import packets
from packets import parse, show
from peer import Failure, Peer

# `relaxed` and `strict` say what went wrong, or are None.
Verdict = namedtuple("Verdict", "file group ver name relaxed strict")

SUCCESS, NO_MATCHING_SUBSCRIBERS, FIRST_ERROR = 0x00, 0x10, 0x80


def connect_packet(version, client_id):
    level = {3: '"MQIsdp" 03', 4: '"MQTT" 04', 5: '"MQTT" 05'}[version]
    return f'10 ~ {level} 02 k0 {"{}" if version == 5 else ""} "{client_id}"'


def connack_code(packet):
    return packets.body(packet)[1]


def is_refusal(packet):
    return packets.kind(packet) == packets.CONNACK and connack_code(packet) != 0


def is_error_disconnect(packet):
    return packets.kind(packet) == packets.DISCONNECT and packets.body(packet)[:1] >= bytes([FIRST_ERROR])


def plain_ack(packet):
    """A PUBACK or PUBREC in its shortest form, a success being a success whether somebody is subscribed or not."""
    content = packets.body(packet)
    reason = content[2] if len(content) > 2 else SUCCESS
    return packet[:1], content[:2], SUCCESS if reason == NO_MATCHING_SUBSCRIBERS else reason, content[4:]


def is_as_good(wanted, got):
    """Whether a packet that differs is still one that the specification allows here."""
    kind = packets.kind(wanted)
    if kind == packets.CONNACK:
        if connack_code(wanted) == 0:
            return packets.kind(got) == packets.CONNACK and connack_code(got) == 0
        return not got or is_refusal(got)
    if kind == packets.DISCONNECT:
        return not got or is_error_disconnect(got)
    if kind in (packets.PUBACK, packets.PUBREC) and packets.kind(got) == kind:
        return plain_ack(got) == plain_ack(wanted)
    return False


class Play:
    """One test being played."""

    def __init__(self, test, peer, helper):
        self.test = test
        self.peer = peer
        self.helper = helper
        self.strict = None
        self.is_closed = False

    def deviate(self, what):
        self.strict = self.strict or what

    async def receive(self, text):
        wanted = parse(text)
        if self.is_closed:  # it closed where a DISCONNECT was due
            return
        got = await self.peer.must(show(wanted))
        if got == wanted:
            return
        what = f"wanted {show(wanted)}, got {show(got)}"
        if not is_as_good(wanted, got):
            raise Failure(what)
        self.deviate(what)
        self.is_closed = not got

    async def be_closed(self):
        while not self.is_closed:
            got = await self.peer.must("the end of the connection")
            if not got:
                return
            what = f"wanted the end of the connection, got {show(got)}"
            if not is_error_disconnect(got) and not is_refusal(got):
                raise Failure(what)
            self.deviate(what)

    async def play(self):
        for message in self.test["msgs"]:
            if message["type"] == "send":
                await self.peer.send(message["payload"])
            elif message["type"] == "recv":
                await self.receive(message["payload"])
            elif message["type"] == "external_publish":
                await self.helper.publish(message["topic"], message["payload"], message["qos"])
            else:
                raise Failure(f"a step of unknown type {message['type']}")
        if self.test.get("expect_disconnect", True):
            await self.be_closed()
        else:
            await self.peer.ping()


class Helper:
    """The other client, who publishes when a test asks for it."""

    def __init__(self, address):
        self.peer = Peer("helper", address)

    async def open(self):
        await self.peer.open()
        await self.peer.send(connect_packet(4, "helper"))
        await self.peer.expect("20 02 00 00")

    async def publish(self, topic, payload, qos):
        topic = parse(f'"{topic}"')
        identifier = b"\0\1" if qos else b""
        content = topic + identifier + payload.encode()
        await self.peer.send(bytes([0x30 | qos << 1]) + packets.varint(len(content)) + content)
        if qos == 1:
            await self.peer.expect("40 02 m1")
        elif qos == 2:
            await self.peer.expect("50 02 m1")
            await self.peer.send("62 02 m1")
            await self.peer.expect("70 02 m1")


async def play_test(test, address, helper, client_id):
    """(relaxed, strict), as in a Verdict."""
    peer = Peer("client", address)
    play = Play(test, peer, helper)
    await peer.open()
    try:
        if test.get("connect", True):
            await peer.send(connect_packet(test["ver"], client_id))
            got = await peer.must("a CONNACK")
            if packets.kind(got) != packets.CONNACK or connack_code(got) != 0:
                raise Failure(f"the CONNECT before the test was answered by {show(got)}")
        await play.play()
    except Failure as failure:
        return str(failure), str(failure)
    finally:
        peer.close()
    return None, play.strict


def load(folder):
    """(file, group, tests) of every file; a test takes what its group says for all. Names are made unique in their group."""
    for path in sorted(Path(folder).glob("*.json")):
        for group in json.loads(path.read_text()):
            inherited = {key: group[key] for key in ("ver", "connect") if key in group}
            tests = []
            seen = {}
            for test in group["tests"]:
                name = test["name"].strip()
                seen[name] = seen.get(name, 0) + 1
                unique = name if seen[name] == 1 else f"{name} ({seen[name]})"
                tests.append(inherited | test | {"name": unique})
            yield path.stem, " ".join(group["group"].split()), tests


async def play_all(folder, address):
    """The verdicts on all tests, played one after the other, since they share topics."""
    helper = Helper(address)
    await helper.open()
    verdicts = []
    for file, group, tests in load(folder):
        for test in tests:
            relaxed, strict = await play_test(test, address, helper, f"client-{len(verdicts)}")
            verdicts.append(Verdict(file, group, test["ver"], test["name"], relaxed, strict))
    helper.peer.close()
    return verdicts
