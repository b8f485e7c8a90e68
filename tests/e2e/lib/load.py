"""Many devices that publish with QoS 1 and a window each, on one thread. MQTT 3.1.1, packets made ahead of time.

Every message says which one of its device it is, so that order, loss and doubles show in Kafka:

    load = Load(server.mqtt, users, per_device=1000)
    load.run(until=lambda: load.acknowledged >= 10_000)
    load.run()                                  # to the last acknowledgement
    check_in_order(load, kafka.records(topic))
"""
import selectors
import socket
import time
from collections import defaultdict, deque

from lib.mqtt import V311, connect_packet, publish_packet
from lib.wait import Deadline

PING_S = 5
FIRST_ID = 1
IDS = 65535


class Device:
    version = V311

    def __init__(self, load, device_id, user):
        self.load = load
        self.id = device_id
        self.user = user
        self.next = 0  # the number of the next message
        self.acknowledged = 0  # all messages before this one have their PUBACK
        self.waiting = deque()  # numbers without PUBACK, in the order they were sent
        self.connections = 0
        self.pongs = 0
        self.socket = None

    def message(self, number, dup=False):
        payload = b"%s %d" % (self.id.encode(), number)
        return publish_packet(V311, self.load.topic, payload.ljust(self.load.size, b"."), 1, number % IDS + FIRST_ID, dup=dup)

    def connect(self):
        self.socket = socket.socket()
        self.socket.connect(self.load.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.out = bytearray(connect_packet(self.version, self.id, user=self.user, password=self.load.password,
                                            keep_alive=self.load.keep_alive))
        self.data = b""
        self.is_accepted = False
        self.last_sent = time.monotonic()
        self.connections += 1
        self.load.selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        self.events = selectors.EVENT_READ | selectors.EVENT_WRITE

    def close(self):
        if self.socket:
            self.load.selector.unregister(self.socket)
            self.socket.close()
            self.socket = None

    def fill(self):
        """New messages up to the window."""
        if not self.is_accepted:
            return
        room = min(self.load.window - len(self.waiting), self.load.allowance(self))
        for _ in range(room):
            self.out += self.message(self.next)
            self.waiting.append(self.next)
            self.next += 1
        self.load.sent += max(0, room)

    def flush(self):
        if self.out:
            try:
                n = self.socket.send(self.out)
                del self.out[:n]
                self.last_sent = time.monotonic()
            except BlockingIOError:
                pass
            except (ConnectionResetError, BrokenPipeError):
                self.lost()
                return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0)
        if wanted != self.events:
            self.load.selector.modify(self.socket, wanted, self)
            self.events = wanted

    def ping(self, now):
        if self.socket and self.is_accepted and not self.out and now - self.last_sent > PING_S:
            self.out += b"\xc0\0"
            self.load.pings += 1
            self.flush()

    def lost(self):
        self.close()
        self.load.lost += 1
        self.load.away.add(self)

    def read(self):
        try:
            chunk = self.socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            self.lost()
            return
        data = self.data + chunk if self.data else chunk
        at, end = 0, len(data)
        waiting = self.waiting
        before = self.acknowledged
        while end - at >= 2:
            kind = data[at]
            if kind == 0x40:  # PUBACK
                if end - at < 4:
                    break
                number = waiting.popleft()
                wanted = number % IDS + FIRST_ID
                got = data[at + 2] << 8 | data[at + 3]
                assert got == wanted, f"{self.id}: PUBACK {got} out of order, {wanted} was the oldest"
                self.acknowledged += 1
                at += 4
            elif kind == 0xD0:  # PINGRESP
                self.pongs += 1
                self.load.pongs += 1
                at += 2
            elif kind == 0x20:  # CONNACK
                if end - at < 4:
                    break
                assert data[at + 3] == 0, f"{self.id}: CONNACK {data[at + 3]}"
                self.is_accepted = True
                # A clean session: what has no PUBACK is sent again, in order.
                for number in waiting:
                    self.out += self.message(number, dup=True)
                at += 4
            else:
                raise AssertionError(f"{self.id}: packet {kind:#x}")
        self.data = data[at:]
        self.load.acknowledged += self.acknowledged - before
        self.fill()


class Load:
    device_type = Device

    def __init__(self, address, users, per_device, window=100, size=100, topic="telemetry", password="pw", rate=None,
                 keep_alive=30, reconnects=False):
        """`users`: {device id: user name}. `per_device`: messages of each; None until told to `finish`. `rate`: messages a
        second over all, else as fast as it goes."""
        self.address = address
        self.per_device = per_device
        self.window, self.size, self.topic, self.password = window, size, topic, password
        self.rate, self.keep_alive, self.reconnects = rate, keep_alive, reconnects
        self.selector = selectors.DefaultSelector()
        self.sent = self.acknowledged = self.lost = self.pings = self.pongs = 0
        self.away = set()
        self.began = time.monotonic()
        self.is_finishing = False
        self.devices = [self.device_type(self, device_id, user) for device_id, user in users.items()]
        for device in self.devices:
            device.connect()

    def allowance(self, device):
        if self.is_finishing:
            return 0
        left = self.window if self.per_device is None else self.per_device - device.next
        if self.rate is not None:
            left = min(left, int(self.rate * (time.monotonic() - self.began)) - self.sent)
        return max(0, left)

    def is_done(self):
        if self.away and self.reconnects:
            return False
        return all(not d.waiting and (self.is_finishing or d.next == self.per_device) for d in self.devices if d not in self.away)

    def finish(self):
        """Nothing new; what was sent still waits for its acknowledgement."""
        self.is_finishing = True

    def reconnect(self):
        for device in list(self.away):
            try:
                device.connect()
            except ConnectionRefusedError:
                device.socket.close()
                device.socket = None
                continue
            self.away.discard(device)

    def run(self, until=None, seconds=None):
        """Goes on until the condition holds, the time is over, or every message has its acknowledgement."""
        deadline = Deadline(lambda: f"the load: {self.sent} sent, {self.acknowledged} acknowledged, {self.lost} lost")
        end = None if seconds is None else time.monotonic() + seconds
        while not (until or self.is_done)():
            now = time.monotonic()
            if end is not None and now >= end:
                return
            progress = self.acknowledged
            for key, events in self.selector.select(0.02):
                device = key.data
                if events & selectors.EVENT_READ:
                    device.read()
                if device.socket:
                    device.flush()
            for device in self.devices:
                device.ping(now)
                if self.rate is not None and device.socket:
                    device.fill()
                    device.flush()
            if self.away and self.reconnects:
                self.reconnect()
            if self.acknowledged != progress or end is not None:
                deadline = Deadline(deadline.what)
            deadline.left()

    def close(self):
        for device in self.devices:
            device.close()
        self.selector.close()


def numbers_by_device(records):
    """{device: its message numbers in the order of the log}; each record has to be in its device's key and payload."""
    found = defaultdict(list)
    for record in records:
        device, _, number = record.value.rstrip(b".").partition(b" ")
        assert device == record.key
        found[device.decode()].append(int(number))
    return found


def check_exactly_once(load, records):
    """Every message that was sent is there once, and those of a device in order."""
    found = numbers_by_device(records)
    for device in load.devices:
        numbers = found.pop(device.id, [])
        assert len(numbers) == device.next, f"{device.id}: {len(numbers)} records of {device.next} messages"
        assert numbers == list(range(device.next)), f"{device.id}: out of order or twice: {numbers[:20]}..."
    assert not found, f"records of nobody: {list(found)}"


def check_acknowledged(load, records):
    """Every message that was acknowledged is there; those of a device in order, as far as each is seen the first time."""
    found = numbers_by_device(records)
    for device in load.devices:
        firsts = list(dict.fromkeys(found.get(device.id, [])))
        missing = set(range(device.acknowledged)) - set(firsts)
        assert not missing, f"{device.id}: acknowledged, but not in Kafka: {sorted(missing)[:20]}"
        assert firsts == sorted(firsts), f"{device.id}: out of order: {firsts[:20]}..."
