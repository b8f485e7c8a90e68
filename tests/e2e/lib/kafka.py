"""A real Kafka through tools/kafka, and what is in its topics."""
import subprocess
from collections import namedtuple
from pathlib import Path

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (AclBinding, AclOperation, AclPermissionType, AdminClient, AlterConfigOpType, ConfigEntry,
                                   ConfigResource, NewTopic, ResourcePatternType, ResourceType)

from lib.wait import HANG_S, Deadline, until

TOOL = Path(__file__).resolve().parents[3] / "tools" / "kafka"

Record = namedtuple("Record", "partition offset key value headers")


def run(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"tools/kafka {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}"
    return done.stdout


def watermarks(consumer, partition):
    """(first offset, end) of a partition; asked again while a new topic's leader is still taking office."""
    def ask():
        try:
            return consumer.get_watermark_offsets(partition, timeout=HANG_S)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return None
    return until(ask, f"the offsets of {partition}")


def read_all(bootstrap, topic):
    """Every record that is in a topic at this moment, per partition in the order of offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "enable.partition.eof": True, "fetch.wait.max.ms": 10,
                         "isolation.level": "read_committed"})
    try:
        found = consumer.list_topics(topic, timeout=HANG_S).topics[topic]
        assert found.error is None, f"{topic}: {found.error}"
        ends = {}
        for partition in found.partitions:
            low, high = watermarks(consumer, TopicPartition(topic, partition))
            if high > low:
                ends[partition] = high
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        records = []
        deadline = Deadline(f"{topic} to be read")
        while ends:
            for message in consumer.consume(10000, timeout=min(0.02, deadline.left())):
                partition = message.partition()
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ends.pop(partition, None)
                    continue
                if partition not in ends or message.offset() >= ends[partition]:
                    continue
                records.append(Record(partition, message.offset(), message.key(), message.value(), message.headers() or []))
                if message.offset() + 1 == ends[partition]:
                    del ends[partition]
        return records
    finally:
        consumer.close()


class Kafka:
    def __init__(self, folder, *options):
        self.folder = folder
        run("start", folder, *options)
        self.bootstrap = (folder / "bootstrap").read_text().strip()
        self.is_paused = False
        self._admin = None

    @property
    def secure_bootstrap(self):
        return (self.folder / "secure.bootstrap").read_text().strip()

    @property
    def admin(self):
        if not self._admin:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        return self._admin

    def records(self, topic):
        return read_all(self.bootstrap, topic)

    def topics(self):
        return set(self.admin.list_topics(timeout=HANG_S).topics)

    def create(self, *names, partitions=4, **config):
        for future in self.admin.create_topics([NewTopic(name, partitions, config=config) for name in names]).values():
            future.result(HANG_S)

    def delete(self, name):
        for future in self.admin.delete_topics([name]).values():
            future.result(HANG_S)
        until(lambda: name not in self.topics(), f"the end of topic {name}")

    def set_config(self, topic, **config):
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(HANG_S)

    def cut_off(self, topic):
        """Deletes every record that is there."""
        partitions = self.admin.list_topics(topic, timeout=HANG_S).topics[topic].partitions
        for future in self.admin.delete_records([TopicPartition(topic, p, OFFSET_END) for p in partitions]).values():
            future.result(HANG_S)

    def allow(self, user, operation, topic):
        """Access control of the secure listener: a user may do one thing with one topic."""
        rule = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
                          AclOperation[operation.upper()], AclPermissionType.ALLOW)
        for future in self.admin.create_acls([rule]).values():
            future.result(HANG_S)

    def pause(self):
        """The process hangs: its connections stay, nothing answers."""
        run("stop", self.folder, "--signal", "STOP")
        self.is_paused = True

    def resume(self):
        run("stop", self.folder, "--signal", "CONT")
        self.is_paused = False

    def kill(self):
        run("stop", self.folder, "--signal", "KILL")

    def stop(self):
        run("stop", self.folder)
        self.is_paused = False

    def start(self):
        run("start", self.folder)

    def begin(self, *arguments):
        """A command of tools/kafka that runs beside the test."""
        return subprocess.Popen([TOOL, arguments[0], self.folder, *arguments[1:]], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL)

    def heal(self):
        """As a test should find it."""
        if self.is_paused:
            self.resume()
        self.start()

