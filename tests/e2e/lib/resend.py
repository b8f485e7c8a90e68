"""Many devices as in lib/load.py that send again what was not acknowledged: 3.1.1 after it was closed, 5.0 after code 0x83.

A message says in which round it was sent, `DEVICE NUMBER ROUND`; a round begins when a device sends something again. So a
record that Kafka has twice because it was sent twice can be told from one that somebody else doubled.

    load = ResendLoad(server.mqtt, users, per_device=1000, shapes=[(V5, "event", 1), (V311, "telemetry", 50)], reconnects=True)
    load.run()
    counts = check_resent(load, kafka.records(topic) + kafka.records(another))

`shapes` are given to the devices in turn: version, MQTT topic, window.
"""
import itertools
import time
from collections import Counter, defaultdict, deque

from lib.load import FIRST_ID, IDS, Device, Load
from lib.mqtt import CONNACK, PINGRESP, PUBACK, V5, publish_packet, read_varint

UNAVAILABLE = 0x83


class ResendDevice(Device):
    def __init__(self, load, device_id, user):
        super().__init__(load, device_id, user)
        self.version, self.topic, self.window = next(load.shapes)
        self.round = 0
        self.done = set()  # numbers acknowledged with success
        self.again = []  # numbers refused, to be sent again when nothing is on its way
        self.copies = Counter()  # number: how often it was sent

    def message(self, number, dup=False):
        self.copies[number] += 1
        payload = f"{self.id} {number} {self.round}".ljust(self.load.size, ".")
        return publish_packet(self.version, self.topic, payload, 1, number % IDS + FIRST_ID, dup=dup)

    def send_again(self, dup):
        """In their order, and before anything new: nobody else could put them in order."""
        self.round += 1
        self.waiting = deque(sorted([*self.again, *self.waiting]))
        self.again = []
        for number in self.waiting:
            self.out += self.message(number, dup)

    def fill(self):
        if not self.is_accepted:
            return
        if self.again:
            if not self.waiting:
                self.send_again(dup=False)
            return
        for _ in range(min(self.window - len(self.waiting), self.load.allowance(self))):
            self.out += self.message(self.next)
            self.waiting.append(self.next)
            self.next += 1
            self.load.sent += 1

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
        self.data += chunk
        at = 0
        while len(self.data) - at >= 2 and self.data[at + 1] < 128:  # no packet we get is longer
            n, begin = read_varint(self.data, at + 1)
            if len(self.data) < begin + n:
                break
            self.handle(self.data[at] >> 4, self.data[begin:begin + n])
            at = begin + n
        self.data = self.data[at:]
        self.fill()

    def handle(self, kind, body):
        if kind == PUBACK:
            number = self.waiting.popleft()
            got, wanted = body[0] << 8 | body[1], number % IDS + FIRST_ID
            assert got == wanted, f"{self.id}: PUBACK {got} out of order, {wanted} was the oldest"
            code = body[2] if len(body) > 2 else 0
            self.load.answers[self.topic, code] += 1
            if code == 0:
                self.done.add(number)
                self.load.acknowledged += 1
            else:
                assert self.version == V5 and code == UNAVAILABLE, f"{self.id}: PUBACK with {code:#x}"
                self.again.append(number)
        elif kind == CONNACK:
            assert body[1] == 0, f"{self.id}: CONNACK {body[1]:#x}"
            self.is_accepted = True
            self.send_again(dup=True)
        else:
            assert kind == PINGRESP, f"{self.id}: packet of type {kind}"
            self.load.pongs += 1


class ResendLoad(Load):
    device_type = ResendDevice

    def __init__(self, *arguments, shapes, **options):
        self.shapes = itertools.cycle(shapes)
        self.answers = Counter()  # (MQTT topic, code of the PUBACK): how many
        super().__init__(*arguments, **options)

    def allowance(self, device):
        """The rate is shared evenly."""
        if self.is_finishing:
            return 0
        left = self.window if self.per_device is None else self.per_device - device.next
        if self.rate is not None:
            left = min(left, int(self.rate * (time.monotonic() - self.began) / len(self.devices)) - device.next)
        return max(0, left)

    def is_done(self):
        return super().is_done() and not any(device.again for device in self.devices)

    def refused(self, topic):
        return self.answers[topic, UNAVAILABLE]

    def copies_of(self, topic):
        return sum(sum(device.copies.values()) for device in self.devices if device.topic == topic)


def check_resent(load, records):
    """Every message that was acknowledged is there. Within a round, which is what a device sent in one go, none is there twice
    and they are in order. So each record beyond the first of a message comes from sending it again.

    A device that waits for each acknowledgement before it sends the next message has its messages in order as far as each is
    seen the first time. One with a window cannot be promised that once something was refused: what it sent behind may have been
    stored. Returns the counts of both: {"duplicates", "overtaken"}."""
    sequences, rounds = defaultdict(list), defaultdict(list)
    for record in records:
        device, number, round_ = record.value.rstrip(b".").decode().split(" ")
        assert device == record.key.decode()
        sequences[device].append(int(number))
        rounds[device, int(round_)].append(int(number))
    for (device, round_), numbers in rounds.items():
        wrong = [pair for pair in zip(numbers, numbers[1:]) if pair[0] >= pair[1]]
        assert not wrong, f"{device}, round {round_}: out of order or twice: {wrong[:10]}"
    counts = Counter(duplicates=0, overtaken=0)
    for device in load.devices:
        numbers = sequences.pop(device.id, [])
        firsts = list(dict.fromkeys(numbers))
        missing = device.done - set(firsts)
        assert not missing, f"{device.id}: acknowledged, but not in Kafka: {sorted(missing)[:20]}"
        assert set(firsts) <= set(range(device.next)), f"{device.id}: more than was sent"
        doubled = {n: c for n, c in Counter(numbers).items() if c > device.copies[n]}
        assert not doubled, f"{device.id}: more copies than were sent: {doubled}"
        counts["duplicates"] += len(numbers) - len(firsts)
        overtaken = sum(later < earlier for earlier, later in zip(firsts, firsts[1:]))
        assert device.window > 1 or not overtaken, f"{device.id}: out of order: {firsts[:20]}..."
        counts["overtaken"] += overtaken
    assert not sequences, f"records of nobody: {list(sequences)}"
    return dict(counts)


def check_once(load, records):
    """Every message that was sent is there once, and those of a device in order."""
    assert check_resent(load, records) == {"duplicates": 0, "overtaken": 0}
    assert len(records) == load.sent, f"{len(records)} records of {load.sent} messages"
