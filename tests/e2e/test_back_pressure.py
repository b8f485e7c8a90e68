"""When Kafka takes nothing, what waits is bounded, and nobody is told that it was stored (eclipse-mosquitto/mosquitto#3687)."""
import socket
import struct

import pytest

from lib.load import Load, check_exactly_once
from lib.mqtt import V5, Client
from lib.server import is_sanitized
from lib.wait import until

BUDGET = 1 << 20
OVERLOADED = {"route": "telemetry", "reason": "overloaded"}


@pytest.fixture
def server(serve, make_config, own_kafka, fleet):
    devices, users = fleet(30)
    server = serve(make_config(own_kafka.bootstrap, devices=devices, kafka={"max_inflight_bytes": BUDGET}))
    server.users = users
    return server


def run_until_all_wait(server, load):
    """Kafka hangs: every connection of the load has met the end of the budget and is no longer read."""
    before = server.metrics().sum("millrace_mqtt_waits_total")
    load.run(until=lambda: server.metrics().sum("millrace_mqtt_waits_total") >= before + len(load.devices))


def test_publishers_pause_and_memory_is_bounded(server, own_kafka, tenant):
    own_kafka.pause()
    before = server.anonymous_memory()
    load = Load(server.mqtt, server.users, per_device=2000, window=2000, size=1000)
    run_until_all_wait(server, load)
    load.run(seconds=2)  # 60 MB are on offer
    metrics = server.metrics()
    assert metrics.sum("millrace_kafka_inflight_bytes") <= BUDGET + 2 * 5000, "at most one record more on each worker"
    assert metrics.ledger("telemetry")["waiting"] == metrics.sum("millrace_kafka_inflight_records") < 2000
    assert is_sanitized() or server.anonymous_memory() - before < 16 << 20
    assert load.acknowledged == 0
    own_kafka.resume()
    load.run()
    assert load.acknowledged == 60_000 and load.lost == 0
    check_exactly_once(load, own_kafka.records(f"hono.telemetry.{tenant}"))
    load.close()


def test_a_full_queue_never_gives_success(server, own_kafka, tenant):
    """QoS 1 waits; QoS 0 is dropped and counted."""
    load = Load(server.mqtt, dict(list(server.users.items())[:4]), per_device=1000, window=1000, size=1000)
    load.run(until=lambda: load.sent == 4000 and all(d.is_accepted for d in load.devices))
    load.run()
    own_kafka.pause()
    more = Load(server.mqtt, dict(list(server.users.items())[4:8]), per_device=1000, window=1000, size=1000)
    run_until_all_wait(server, more)
    with Client(server.mqtt, V5) as zero, Client(server.mqtt, V5) as one:
        name, user = list(server.users.items())[8]
        zero.connect(name, user=user, password="pw")
        for number in range(100):
            zero.publish("telemetry", f"{name} {number}".ljust(5000, "."))
        zero.ping()
        assert server.metrics().sum("millrace_messages_dropped_total", **OVERLOADED) == 100
        name, user = list(server.users.items())[9]
        one.connect(name, user=user, password="pw")
        one.publish("telemetry", f"{name} 0".ljust(5000, "."), 1, 1)
        one.expect_silence(1.5)
        acknowledged = more.acknowledged
        more.run(seconds=0.2)
        assert more.acknowledged == acknowledged, "Kafka hangs, and yet one is acknowledged"
        own_kafka.resume()
        assert one.expect_ack(4, 1) == 0
    more.run()
    assert more.lost == load.lost == 0
    records = own_kafka.records(f"hono.telemetry.{tenant}")
    check_exactly_once(more, [r for r in records if r.key.decode() in {d.id for d in more.devices}])
    assert len(records) == 4000 + 4000 + 1
    load.close()
    more.close()


def test_waiting_connections_do_not_disturb_others(server, own_kafka):
    """Plain topics are exchanged while device data waits for Kafka, and keep-alive rests for those that are not read."""
    own_kafka.pause()
    load = Load(server.mqtt, dict(list(server.users.items())[:4]), per_device=1000, window=1000, size=1000, keep_alive=1)
    run_until_all_wait(server, load)
    with Client(server.mqtt) as reader, Client(server.mqtt) as writer:
        reader.connect("reader")
        assert reader.subscribe([("plant/#", 1)]) == [1]
        writer.connect("writer")
        for number in range(100):
            assert writer.publish_and_wait("plant/a", str(number)) == 0
            assert reader.expect_publish().payload == str(number).encode()
    load.run(seconds=3)  # twice their keep-alive
    assert load.lost == 0
    own_kafka.resume()
    load.run()
    assert load.lost == 0 and load.acknowledged == 4000
    load.close()


def test_those_who_wait_and_go_leave_nothing_behind(server, own_kafka, tenant):
    """A connection that breaks is forgotten at once. What a client sent before it closed in order is its last word: it is
    taken when there is room."""
    own_kafka.pause()
    load = Load(server.mqtt, server.users, per_device=1000, window=1000, size=1000)
    run_until_all_wait(server, load)
    stored = server.metrics().sum("millrace_kafka_inflight_records")
    for device in load.devices:
        device.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    load.close()  # with a reset
    until(lambda: server.metrics().sum("millrace_mqtt_connections") == 0, "the end of the connections")
    own_kafka.resume()
    until(lambda: server.metrics().ledger("telemetry")["waiting"] == 0, "the last report")
    metrics = server.metrics()
    assert metrics.sum("millrace_kafka_inflight_bytes") == 0
    assert metrics.ledger("telemetry")["acknowledged"] == len(own_kafka.records(f"hono.telemetry.{tenant}")) == stored


def test_last_words_of_a_client_are_taken_when_there_is_room(server, own_kafka, tenant):
    own_kafka.pause()
    users = list(server.users.items())
    load = Load(server.mqtt, dict(users[:2]), per_device=1000, window=1000, size=1000)
    run_until_all_wait(server, load)
    waits = server.metrics().sum("millrace_mqtt_waits_total")
    name, user = users[2]
    with Client(server.mqtt) as c:
        c.connect(name, user=user, password="pw")
        c.publish("telemetry", f"{name} 0".ljust(5000, "."), 1, 1)
        until(lambda: server.metrics().sum("millrace_mqtt_waits_total") > waits, "its wait")
    own_kafka.resume()
    load.run()
    until(lambda: server.metrics().ledger("telemetry")["acknowledged"] == 2001, "the last report")
    assert [r.key for r in own_kafka.records(f"hono.telemetry.{tenant}")].count(name.encode()) == 1
    load.close()
