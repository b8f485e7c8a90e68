"""Records put into Kafka by somebody else, and where consumer groups stand."""
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from lib.wait import HANG_S, until

# What a broker that has just started says until it has read the groups it coordinates.
COORDINATOR_STARTS = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)


def put(bootstrap, topic, *records, partition=0):
    """Each record is a value, or (key, value), or (key, value, headers). All are there when it returns, in this order."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    failed = []
    for record in records:
        key, value, headers = (*record, None, None)[:3] if isinstance(record, tuple) else (None, record, None)
        producer.produce(topic, value, key, partition=partition, headers=headers or [],
                         on_delivery=lambda error, message: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(HANG_S) == 0 and not failed, failed


def position(bootstrap, group, topic, partition=0):
    """(offset, metadata) of a group; the offset is negative when there is none, None while the group's coordinator starts."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        found, = consumer.committed([TopicPartition(topic, partition)], timeout=HANG_S)
        assert not found.error, found.error
        return found.offset, found.metadata or ""
    except KafkaException as failure:
        if failure.args[0].code() not in COORDINATOR_STARTS:
            raise
        return None, None
    finally:
        consumer.close()


def wait_position(bootstrap, group, topic, offset, partition=0):
    until(lambda: position(bootstrap, group, topic, partition)[0] == offset, f"{group} to stand at {offset} of {topic}")


def groups(kafka, prefix):
    """The names of the groups that begin so."""
    listing = kafka.admin.list_consumer_groups().result(HANG_S)
    return sorted(group.group_id for group in listing.valid if group.group_id.startswith(prefix))
