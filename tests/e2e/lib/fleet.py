"""Devices that take commands over MQTT 5, any number of them on one thread: each connection acknowledges and answers as it is told to,
and everything that came is written down (docs/wire/commands.md)."""
import itertools
import selectors
import threading
from collections import Counter, namedtuple

from lib.mqtt import DISCONNECT, PUBACK, PUBLISH, SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, V5, Client, packet, publish_packet, read_varint, text
from lib.wait import HANG_S, until

Received = namedtuple("Received", "device subject value message_id link dup")

# How long the value of each property of MQTT 5 is (section 2.2.2.2); None: a text or binary data with its length before it.
SIZES = {0x01: 1, 0x02: 4, 0x03: None, 0x08: None, 0x09: None, 0x23: 2}
USER_PROPERTY, SUBSCRIPTION_ID = 0x26, 0x0B


def take_text(data, at):
    n = int.from_bytes(data[at:at + 2], "big")
    return data[at + 2:at + 2 + n], at + 2 + n


def user_properties(data):
    """Of a PUBLISH's properties."""
    at, found = 0, {}
    while at < len(data):
        kind, at = data[at], at + 1
        if kind == USER_PROPERTY:
            name, at = take_text(data, at)
            value, at = take_text(data, at)
            found[name.decode()] = value.decode()
        elif kind == SUBSCRIPTION_ID:
            _, at = read_varint(data, at)
        elif SIZES[kind] is None:
            _, at = take_text(data, at)
        else:
            at += SIZES[kind]
    return found


class Link:
    """One connection of one device or gateway, subscribed."""

    def __init__(self, fleet, client, name, number, filters, answer):
        self.fleet, self.client, self.name, self.number, self.filters = fleet, client, name, number, filters
        self.answer = answer  # the status of its responses; None: it does not respond
        self.acknowledges = True
        self.is_over = False
        self.is_unsubscribed = threading.Event()
        self.responses = {}  # by packet identifier: what was not acknowledged
        self.ids = itertools.count(10)

    def next_id(self):
        return next(self.ids) % 65535 + 1

    def handle(self, found):
        if found.type == PUBLISH:
            self.take(found)
        elif found.type == PUBACK:
            self.responses.pop(found.body[:2], None)
        elif found.type == UNSUBACK:
            self.is_unsubscribed.set()
        elif found.type == DISCONNECT:
            self.is_over = True

    def take(self, found):
        qos, dup, body = found.flags >> 1 & 3, bool(found.flags & 8), found.body
        topic, at = take_text(body, 0)
        identifier = body[at:at + 2] if qos else b""
        n, at = read_varint(body, at + len(identifier))
        properties = user_properties(body[at:at + n])
        _, _, device, _, request, subject = topic.decode().split("/", 5)
        self.fleet.received.append(Received(device or self.name, subject, body[at + n:].decode(), properties["message-id"],
                                            self.number, dup))
        if not self.acknowledges:
            return
        if qos:
            self.client.send(packet(PUBACK, 0, identifier))
        if request and self.answer:
            to = f"c//{device}/s/{request}/{self.answer}"
            self.respond(to, body[at + n:])

    def respond(self, to, payload):
        identifier = self.next_id()
        self.responses[identifier.to_bytes(2, "big")] = to, payload
        self.client.send(publish_packet(V5, to, payload, 1, identifier))

    def leave(self):
        """As a device that goes in good order: it has taken everything that was sent to it before."""
        self.client.send(packet(UNSUBSCRIBE, 2, b"\0\1\0" + b"".join(text(f) for f in self.filters)))
        assert self.is_unsubscribed.wait(HANG_S), "no UNSUBACK"
        self.fleet.forget(self)
        try:
            self.client.send(packet(DISCONNECT, 0, b""))
        except OSError:
            pass  # it was told to go meanwhile
        self.client.close()

    def drop(self):
        """As a device that dies."""
        self.fleet.forget(self)
        self.client.close()


class Fleet:
    """With `received`, everything in its order of arrival here; of one connection that is the order in which it was sent."""

    def __init__(self, tenant, password="pw"):
        self.tenant, self.password = tenant, password
        self.received = []
        self.links = {}
        self.unheard = {}  # of each device, the responses that its last connection ended with: it sends them again, as QoS 1 demands
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.selector = selectors.DefaultSelector()
        self.is_closed = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def connect(self, address, name, filters=("c///q/#",), qos=1, answer=200, expect=None):
        """A new connection, subscribed; `expect`: the codes of the SUBACK."""
        number = next(self.numbers)
        client = Client(address, V5)
        client.connect(f"{name}-{number}", user=f"{name}@{self.tenant}", password=self.password)
        link = Link(self, client, name, number, filters, answer)
        client.send(packet(SUBSCRIBE, 2, b"\0\1\0" + b"".join(text(f) + bytes([qos]) for f in filters)))
        while (found := client.read()).type != SUBACK:
            link.handle(found)  # commands may come before it
        codes = list(found.body[3:])
        assert codes == (expect or [qos] * len(filters)), codes
        with self.lock:
            for to, payload in self.unheard.pop(name, []):
                link.respond(to, payload)
            self.links[client.socket] = link
            self.serve(link)
            self.selector.register(client.socket, selectors.EVENT_READ, link)
        return link

    def forget(self, link):
        with self.lock:
            if self.links.pop(link.client.socket, None):
                self.selector.unregister(link.client.socket)
            self.end(link)

    def end(self, link):
        link.is_over = True
        self.unheard.setdefault(link.name, []).extend(link.responses.values())
        link.responses = {}

    def serve(self, link):
        while found := link.client.take():
            link.handle(found)

    def run(self):
        while not self.is_closed:
            for key, _ in self.selector.select(0.05):
                with self.lock:
                    if key.fileobj not in self.links:
                        continue
                    link = key.data
                    try:
                        is_open = link.client.fill(0) is not False
                        self.serve(link)
                    except OSError:
                        is_open = False
                    if not is_open:
                        del self.links[key.fileobj]
                        self.selector.unregister(key.fileobj)
                        self.end(link)

    def of(self, device):
        return [r for r in list(self.received) if r.device == device]

    def wait(self, n, device=None):
        """Until so many have come."""
        return until(lambda: len(self.of(device) if device else self.received) >= n and (self.of(device) if device else list(self.received)),
                     lambda: f"{n} commands; there are {len(self.of(device) if device else self.received)}")

    def close(self):
        self.is_closed = True
        self.thread.join()
        for sock in self.links:
            sock.close()
        self.selector.close()


def check_order(received):
    """Each device saw its commands, whose values are their numbers, in order; what came again had come before, and is the same by its
    message id. The number of second deliveries."""
    seen, last, n_again = {}, {}, 0
    for r in received:
        key = r.device, r.value
        if key in seen:
            assert seen[key] == r.message_id, f"{r} had the message id {seen[key]} before"
            n_again += 1
            continue
        seen[key] = r.message_id
        before = last.get(r.device, -1)
        assert int(r.value) > before, f"{r} came behind number {before}: {[(o.value, o.link, o.dup) for o in received if o.device == r.device]}"
        last[r.device] = int(r.value)
    assert len(set(seen.values())) == len(seen), "different commands have one message id"
    return n_again


def again(received):
    """What came more than once, each time that it came."""
    times = Counter((r.device, r.value) for r in received)
    return [r for r in received if times[r.device, r.value] > 1]
