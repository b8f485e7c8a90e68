"""An application that sends commands to devices, by Kafka alone (docs/wire/commands.md)."""
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from lib.records import put
from lib.wait import HANG_S, until

FAILURE = "application/vnd.eclipse-hono-delivery-failure-notification+json"
SUCCESS = "application/vnd.eclipse-hono-delivery-success-notification+json"
EMPTY = "application/vnd.eclipse-hono-empty-notification"


class Application:
    """What writes commands to Kafka and reads what is told of them."""

    def __init__(self, kafka, tenant, prefix=""):
        self.kafka = kafka
        self.tenant = tenant
        self.prefix = prefix  # before the names of all topics

    def send(self, device="d1", subject="set", value=b"v", key=None, **headers):
        headers = {"device_id": device, "subject": subject} | {n.replace("_", "-") if n != "device_id" else n: v
                                                              for n, v in headers.items()}
        put(self.kafka.bootstrap, f"{self.prefix}hono.command.{self.tenant}",
            (key or device, value, [(n, v.encode() if isinstance(v, str) else v) for n, v in headers.items() if v is not None]))

    def ask(self, correlation_id="abc", **more):
        self.send(response_required="true", correlation_id=correlation_id, **more)

    def answers(self):
        found = self.kafka.records(f"{self.prefix}hono.command_response.{self.tenant}")
        return [(record, {name: value.decode() for name, value in record.headers}) for record in found]

    def next_answers(self, n):
        """The first n, however long they take."""
        return until(lambda: len(self.answers()) >= n and self.answers(), f"{n} answers")[:n]

    def ttds(self, device="d1"):
        events = [dict(r.headers) for r in self.kafka.records(f"{self.prefix}hono.event.{self.tenant}") if r.key == device.encode()]
        return [int(event["ttd"]) for event in events if event["content-type"].decode() == EMPTY]


class Stream:
    """An application that sends many commands to many devices at a steady pace, and keeps what came back: {correlation id: [(status, is
    a notice)]}. The value of a command is its number among those of its device, its correlation id DEVICE-NUMBER."""

    def __init__(self, kafka, tenant, prefix=""):
        self.topic = f"{prefix}hono.command.{tenant}"
        self.answers = {}
        self.sent = {}  # of each device, how many
        self.requests = []  # the correlation ids of those that are to be answered
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all", "enable.idempotence": True,
                                  "linger.ms": 2, "partitioner": "murmur2_random"})
        self.consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused", "enable.auto.commit": False,
                                  "auto.offset.reset": "earliest"})
        topic = f"{prefix}hono.command_response.{tenant}"
        partitions = self.consumer.list_topics(topic, timeout=HANG_S).topics[topic].partitions
        self.consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        self.is_over = False
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        self.consumer.close()

    def listen(self):
        while not self.is_over:
            for message in self.consumer.consume(500, 0.05):
                if message.error():
                    continue
                headers = {name: value.decode() for name, value in message.headers()}
                self.answers.setdefault(headers.get("correlation-id"), []).append(
                    (headers["status"], headers.get("content-type") == FAILURE))

    def send(self, device, is_request=True, **more):
        number = self.sent.get(device, 0)
        self.sent[device] = number + 1
        headers = {"device_id": device, "subject": "s"} | more
        if is_request:
            headers |= {"response-required": "true", "correlation-id": f"{device}-{number}"}
            self.requests.append(f"{device}-{number}")
        self.producer.produce(self.topic, str(number).encode(), device, headers=[(n, v.encode()) for n, v in headers.items()])
        self.producer.poll(0)
        return f"{device}-{number}"

    def flush(self):
        assert self.producer.flush(HANG_S) == 0

    def run(self, devices, seconds, rate, is_request=lambda n: True, on_turn=lambda: None):
        """Sends to the devices in turn. `on_turn` is called about 20 times a second."""
        began, n, turn = time.monotonic(), 0, 0
        while (elapsed := time.monotonic() - began) < seconds:
            for _ in range(int(elapsed * rate) - n):
                self.send(devices[n % len(devices)], is_request(n))
                n += 1
            if elapsed >= turn / 20:
                on_turn()
                turn += 1
            self.producer.poll(0.002)
        self.flush()
        return n

    def unanswered(self):
        return [name for name in self.requests if name not in self.answers]

    def wait_answers(self):
        until(lambda: not self.unanswered(), lambda: f"answers to {self.unanswered()[:10]} and others")

    def notices(self):
        """Of the answers, those that say that a command was not delivered."""
        return {name: found for name, found in self.answers.items() if any(is_notice for _, is_notice in found)}
