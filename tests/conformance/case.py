"""What the project's own cases stand on.

A case is a coroutine that gets a Stage and plays one conversation, byte for byte; a Failure ends it. It is named by the
specification's statement and what that says. All cases of a run play at the same time on one server, so each keeps to
topics and client identifiers of its own: Stage.topic and Stage.id().

    @case("3.12.4-1", MQTT_3_1_1, MQTT_5)
    async def a_ping_is_answered(t):
        client = await t.connect("client")
        await client.send("C0 00")
        await client.expect("D0 00")
"""
import asyncio
from collections import namedtuple

import packets
from packets import show
from peer import Failure, Peer
from sequences import connack_code

MQTT_3_1_1, MQTT_5 = 4, 5
VERSION_NAMES = {3: "3.1", MQTT_3_1_1: "3.1.1", MQTT_5: "5.0"}

# A client that wants to come back asks for this long.
EXPIRY_S = 600

Case = namedtuple("Case", "statement version name server play")
ALL = []


def case(statement, *versions, server="plain"):
    """Declares a case, for each of the versions. `server` is a key of player.SERVERS."""

    def declare(play):
        for version in versions:
            ALL.append(Case(statement, version, play.__name__, server, play))
        return play

    return declare


def title(which):
    return f"[MQTT-{which.statement}] {VERSION_NAMES[which.version]}: {which.name.replace('_', ' ')}"


class Stage:
    """One case being played."""

    def __init__(self, which, address):
        self.version = which.version
        self.address = address
        self.topic = f"{which.statement}/{which.name}/{which.version}"
        self.peers = []

    @property
    def none(self):
        """Properties that are not there: a zero in 5.0, nothing before."""
        return "{}" if self.version == MQTT_5 else ""

    def id(self, name):
        return f"{self.topic}/{name}"

    async def open(self, name):
        """A connection on which nothing was said yet."""
        peer = await Peer(name, self.address).open()
        self.peers.append(peer)
        return peer

    def connect_packet(self, name, clean=True, keep_alive=0, properties=""):
        """A CONNECT. A session that is not clean is to be kept in any version."""
        head = f'10 ~ "MQTT" {self.version:02X} {"02" if clean else "00"} k{keep_alive}'
        if self.version == MQTT_5:
            head += " { " + (properties if clean else f"11 L{EXPIRY_S} {properties}") + " }"
        return f'{head} "{self.id(name)}"'

    async def connect(self, name, present=False, **how):
        """A client whom the server has accepted."""
        peer = await self.open(name)
        await peer.send(self.connect_packet(name, **how))
        got = await peer.must("a CONNACK")
        if packets.kind(got) != packets.CONNACK or connack_code(got) != 0 or packets.body(got)[0] != present:
            raise Failure(f"{name}: wanted a CONNACK with Session Present {int(present)}, got {show(got)}")
        return peer

    async def subscribe(self, peer, topic, options, packet_id=1, properties="{}"):
        """Subscribes to one filter; the server grants the QoS that is asked for."""
        with_properties = properties if self.version == MQTT_5 else ""
        await peer.send(f'82 ~ m{packet_id} {with_properties} "{topic}" {options:02X}')
        await peer.expect(f"90 ~ m{packet_id} {self.none} {options & 3:02X}")

    async def publish(self, peer, topic, payload, qos=0, packet_id=1, retain=False):
        """Publishes and goes through with it."""
        identifier = f"m{packet_id}" if qos else ""
        await peer.send(f"{0x30 | qos << 1 | retain:02X} ~ \"{topic}\" {identifier} {self.none} '{payload}'")
        if qos == 1:
            await peer.expect(f"40 02 m{packet_id}")
        elif qos == 2:
            await peer.expect(f"50 02 m{packet_id}")
            await peer.send(f"62 02 m{packet_id}")
            await peer.expect(f"70 02 m{packet_id}")

    def message(self, topic, payload, qos=0, packet_id=1, flags=0):
        """A PUBLISH as the server sends it. `flags`: 8 DUP, 1 RETAIN."""
        identifier = f"m{packet_id}" if qos else ""
        return f"{0x30 | qos << 1 | flags:02X} ~ \"{topic}\" {identifier} {self.none} '{payload}'"

    async def disconnect(self, peer):
        """Says good-bye and sees the server close."""
        await peer.send("E0 00")
        await peer.closed()


async def play(which, address):
    """None, or what went wrong."""
    stage = Stage(which, address)
    try:
        await which.play(stage)
    except Failure as failure:
        return str(failure)
    finally:
        for peer in stage.peers:
            peer.close()
    return None


async def play_all(addresses):
    """(case, None or what went wrong) for all; `addresses` by server."""
    failures = await asyncio.gather(*(play(which, addresses[which.server]) for which in ALL))
    return list(zip(ALL, failures))
