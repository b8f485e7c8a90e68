"""Rules from Kafka to MQTT (docs/RULES.md).

Cases from public reports: emqx/emqx#19074 (19), drogue-iot/drogue-cloud#95 (21), aklivity/zilla-examples#74 (25),
vogler75/monster-mq#108 (27).
"""
import struct

import pytest

from lib.mqtt import DISCONNECT, PUBLISH, V311, V5, Client, connect_packet, number_property, packet, read_varint, text
from lib.records import groups, position, put, wait_position
from lib.server import run_command, write_config
from lib.wait import until

WATCHED_S = 1.5  # how long something has to stay away
SESSION_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY = 17, 3, 8, 9, 38
PERSISTENT = number_property(SESSION_EXPIRY, 4, 3600)


@pytest.fixture
def topic(tenant):
    return f"orders-{tenant}"


@pytest.fixture
def group(tenant):
    """The consumer group of the servers of `feed`."""
    return f"g-{tenant}.one"


@pytest.fixture
def feed(serve, make_config, tenant):
    """feed(kafka, rule..., ): a server with these rules; each begins with everything that is there."""
    def start(kafka, *rules, uncommitted=10000, **top):
        rules = [{"from": "earliest"} | rule for rule in rules]
        config = make_config(kafka.bootstrap, to_mqtt=rules, instance="one",
                             kafka={"group": f"g-{tenant}", "max_uncommitted": uncommitted}, **top)
        return serve(config)
    return start


@pytest.fixture
def device():
    """device(server, filter...): a connected client with subscriptions at QoS 1 (or `qos`)."""
    opened = []

    def connect(server, *filters, version=V5, client_id=None, qos=1, **options):
        client = Client(server.mqtt, version)
        opened.append(client)
        client.connect(client_id or f"device-{len(opened)}", **options)
        if filters:
            assert client.subscribe([(f, qos) for f in filters]) == [qos] * len(filters)
        return client

    yield connect
    for client in opened:
        client.close()


def puback(client, publish):
    client.send(packet(4, 0, struct.pack(">H", publish.packet_id)))


def take(client, n):
    """The payloads of the next n messages, each acknowledged."""
    payloads = []
    for _ in range(n):
        publish = client.expect_publish()
        if publish.qos:
            puback(client, publish)
        payloads.append(publish.payload.decode())
    return payloads


def properties_of(client):
    """(topic, {property identifier: value}, [user properties], payload) of the next message, MQTT 5."""
    found = client.expect(PUBLISH)
    n = struct.unpack_from(">H", found.body)[0]
    at = 2 + n + (2 if found.flags & 6 else 0)
    size, at = read_varint(found.body, at)
    end, single, user = at + size, {}, []

    def string(at):
        length = struct.unpack_from(">H", found.body, at)[0]
        return found.body[at + 2:at + 2 + length], at + 2 + length

    while at < end:
        identifier = found.body[at]
        if identifier == USER_PROPERTY:
            name, at = string(at + 1)
            value, at = string(at)
            user.append((name.decode(), value.decode()))
        elif identifier == 2:
            single[2], at = struct.unpack_from(">I", found.body, at + 1)[0], at + 5
        else:
            single[identifier], at = string(at + 1)
    return found.body[2:2 + n].decode(), single, user, found.body[end:]


def numbers(n, begin=0):
    return [str(i) for i in range(begin, begin + n)]


@pytest.mark.tsan
def test_a_record_reaches_its_subscribers_with_its_properties(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}/{header.kind}"})
    new, old = device(server, "in/#"), device(server, "in/d1/+", version=V311)
    put(kafka.bootstrap, topic, ("d1", "21°", [
        ("kind", b"status"), ("content-type", b"text/plain"), ("mqtt.response_topic", b"re/x"),
        ("mqtt.correlation_data", b"\x00\xff"), ("mqtt.expiry_s", b"600"), ("traceparent", b"00-0123-45-01"),
        ("mqtt.client_id", b"somebody"), ("binary", b"\xff\xfe")]))
    name, single, user, payload = properties_of(new)
    assert (name, payload) == ("in/d1/status", "21°".encode())
    assert single.pop(2) in range(580, 601)
    assert single == {CONTENT_TYPE: b"text/plain", RESPONSE_TOPIC: b"re/x", CORRELATION_DATA: b"\x00\xff"}
    assert user == [("kind", "status"), ("traceparent", "00-0123-45-01")]
    assert take(old, 1) == ["21°"]


def test_case_27_the_key_names_the_topic(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "key": r"^(?<d>[^.]+)\.(?<rest>.+)$", "mqtt": "in/{d}/{rest#}"}, {
        "topic": topic, "key": r"^plain:(?<d>.*)$", "mqtt": "plain/{d}", "start_hold": 0})
    client = device(server, "#")
    put(kafka.bootstrap, topic, ("dev-1.status", "1"), ("dev-2.a/b", "2"), ("plain:x", "3"), ("unknown", "4"), (None, "5"),
        ("plain:a/b", "6"), ("plain:+", "7"), ("plain:#", "8"), ("plain:", "9"), ("plain:\x01", "10"), ("dev-3.end", "11"))
    got = []
    for _ in range(4):
        publish = client.expect_publish()
        puback(client, publish)
        got.append((publish.topic, publish.payload))
    assert got == [("in/dev-1/status", b"1"), ("in/dev-2/a/b", b"2"), ("plain/x", b"3"), ("in/dev-3/end", b"11")]
    until(lambda: server.metrics().sum("millrace_to_mqtt_waiting") == 0, "everything to be settled")
    metrics = server.metrics()
    assert metrics.sum("millrace_to_mqtt_dropped_total", reason="no_rule") == 2
    assert metrics.sum("millrace_to_mqtt_dropped_total", reason="topic") == 5


def test_case_21_a_record_is_committed_when_the_device_has_acknowledged_it(feed, kafka, topic, group, device):
    kafka.create(topic)
    rule = {"topic": topic, "mqtt": "in/{key}"}
    server = feed(kafka, rule)
    client = device(server, "in/+", client_id="d")
    put(kafka.bootstrap, topic, ("d", "1"))
    assert client.expect_publish().payload == b"1"
    client.expect_silence(WATCHED_S)
    assert position(kafka.bootstrap, group, topic)[0] == 0
    server.kill()

    server = feed(kafka, rule)
    client = device(server, "in/+", client_id="d")
    assert take(client, 1) == ["1"]
    wait_position(kafka.bootstrap, group, topic, 1)
    server.kill()

    server = feed(kafka, rule)
    client = device(server, "in/+", client_id="d")
    put(kafka.bootstrap, topic, ("d", "2"))
    assert take(client, 1) == ["2"]


def test_a_restart_brings_only_what_was_not_acknowledged(feed, kafka, topic, group, device):
    kafka.create(topic)
    rule = {"topic": topic, "mqtt": "in/{key}"}
    server = feed(kafka, rule)
    a, b = device(server, "in/a"), device(server, "in/b")
    put(kafka.bootstrap, topic, *[("ab"[i % 3 != 0], str(i)) for i in range(30)])
    assert [a.expect_publish().payload.decode() for _ in range(10)] == [str(i) for i in range(0, 30, 3)]
    assert take(b, 20) == [str(i) for i in range(30) if i % 3]
    gaps = (0, "1:" + 10 * "BC")  # one not done, two done, and so on (docs/wire/to-mqtt.md)
    until(lambda: position(kafka.bootstrap, group, topic) == gaps, "what is done to be committed with its gaps")
    assert server.metrics().sum("millrace_kafka_consumed_unsettled", reader="rules") == 10
    server.kill()

    server = feed(kafka, rule)
    a, b = device(server, "in/a"), device(server, "in/b")
    assert take(a, 10) == [str(i) for i in range(0, 30, 3)]
    put(kafka.bootstrap, topic, ("b", "new"))
    assert take(b, 1) == ["new"]
    wait_position(kafka.bootstrap, group, topic, 31)
    assert server.metrics().sum("millrace_kafka_consumed_skipped_total", reader="rules") == 20


def test_an_orderly_stop_loses_nothing_that_was_not_acknowledged(feed, kafka, topic, group, device):
    kafka.create(topic)
    rule = {"topic": topic, "mqtt": "in/{key}", "start_hold": 0}
    server = feed(kafka, rule)
    client = device(server, "in/#")
    until(lambda: server.metrics().sum("millrace_kafka_consumer_partitions", reader="rules") == 4, "the partitions")
    put(kafka.bootstrap, topic, ("d", "1"), ("d", "2"), ("d", "3"))
    assert [client.expect_publish().payload for _ in range(3)] == [b"1", b"2", b"3"]
    assert server.stop() == 0
    assert position(kafka.bootstrap, group, topic)[0] == 0

    server = feed(kafka, rule | {"start_hold": "60s"})
    assert take(device(server, "in/#"), 3) == ["1", "2", "3"]
    wait_position(kafka.bootstrap, group, topic, 3)


def test_case_19_a_backlog_waits_for_devices_after_a_start(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"})
    device(server, "in/#", properties=PERSISTENT, clean=False)
    assert server.stop() == 0
    put(kafka.bootstrap, topic, *[("d", n) for n in numbers(1000)])
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"})
    until(lambda: server.metrics().sum("millrace_to_mqtt_held") == 1000, "the backlog to be read")
    assert take(device(server, "in/d"), 1000) == numbers(1000)


def test_case_25_groups_do_not_grow_with_clients(feed, kafka, topic, group, device, tenant):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"})
    clients = [device(server, f"in/{i}") for i in range(1000)]
    put(kafka.bootstrap, topic, *[(str(i), f"for {i}") for i in range(1000)])
    for i, client in enumerate(clients):
        assert take(client, 1) == [f"for {i}"]
    wait_position(kafka.bootstrap, group, topic, 1000)
    assert set(groups(kafka, f"g-{tenant}")) <= {group, f"g-{tenant}.command.one"}, "one for rules, one for commands"


def test_a_slow_device_does_not_stall_the_others(feed, kafka, topic, device):
    """One partition, ten times as many records as may be uncommitted; the slow device acknowledges nothing."""
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"}, uncommitted=100)
    slow, fast = device(server, "in/slow"), device(server, "in/fast")
    put(kafka.bootstrap, topic, *[(("slow", "fast")[i % 2], str(i)) for i in range(1000)])
    assert take(fast, 500) == [str(i) for i in range(1, 1000, 2)]
    assert server.metrics().sum("millrace_to_mqtt_moved_total") > 0
    assert take(slow, 500) == [str(i) for i in range(0, 1000, 2)]
    until(lambda: server.metrics().sum("millrace_to_mqtt_delivered_total") == 1000, "all to be acknowledged")


def test_a_backlog_larger_than_a_clients_queue_is_delivered_whole(feed, kafka, topic, device):
    kafka.create(topic)
    put(kafka.bootstrap, topic, *[("d", n) for n in numbers(5000)])
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"}, uncommitted=200, limits={"session_queued_messages": 50})
    client = device(server, "in/d")
    assert take(client, 5000) == numbers(5000)
    assert server.metrics().sum("millrace_kafka_consumer_pauses_total", reader="rules") > 0
    until(lambda: server.metrics().sum("millrace_to_mqtt_waiting") == 0, "everything to be settled")
    assert server.metrics().sum("millrace_to_mqtt_dropped_total") == 0


@pytest.mark.parametrize("version", [V311, V5])
def test_a_device_that_acknowledges_nothing_is_closed(feed, kafka, topic, device, version):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}", "ack_timeout": "1s", "hold": "1h"})
    # The other one owes no acknowledgement: a machine that stands still for a second must not make it late.
    silent, other = device(server, "in/x", version=version), device(server, "in/y", qos=0)
    put(kafka.bootstrap, topic, ("x", "1"), ("y", "2"))
    assert silent.expect_publish().payload == b"1"
    assert take(other, 1) == ["2"]
    if version == V5:
        assert silent.expect(DISCONNECT).body[0] == 0x83
    else:
        silent.expect_closed()
    assert server.metrics().sum("millrace_sessions_overdue_total") == 1
    assert take(device(server, "in/x"), 1) == ["1"]
    other.ping()


def test_records_are_held_for_absent_devices_and_only_for_them(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "key": "^keep", "mqtt": "in/{key}", "hold": "1h", "start_hold": 0},
                  {"topic": topic, "mqtt": "in/{key}", "start_hold": 0}, uncommitted=100)
    present = device(server, "in/here")
    put(kafka.bootstrap, topic, *[record for i in range(50) for record in (("keep", str(i)), ("gone", "x"), ("here", str(i)))])
    assert take(present, 50) == numbers(50)
    until(lambda: server.metrics().sum("millrace_to_mqtt_held") == 50, "fifty to be held")
    assert server.metrics().sum("millrace_to_mqtt_dropped_total", reason="no_subscriber") == 50
    late = device(server, "in/keep")
    assert take(late, 50) == numbers(50)


def test_a_hold_ends(feed, kafka, topic, group):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}", "hold": "500ms", "start_hold": 0})
    put(kafka.bootstrap, topic, ("d", "1"))
    wait_position(kafka.bootstrap, group, topic, 1)
    assert server.metrics().sum("millrace_to_mqtt_dropped_total", reason="no_subscriber") == 1


def test_what_a_device_left_unacknowledged_waits_for_it(feed, kafka, topic, device):
    """In a session that outlives its connection, and with `hold` also without one."""
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "key": "^p", "mqtt": "in/{key}", "start_hold": 0},
                  {"topic": topic, "mqtt": "in/{key}", "hold": "1h"})
    keeps = device(server, "in/p", client_id="p", properties=PERSISTENT, clean=False)
    clean = device(server, "in/c", client_id="c")
    put(kafka.bootstrap, topic, ("p", "1"), ("c", "2"))
    for client in (keeps, clean):
        client.expect_publish()
        client.close()
    until(lambda: server.metrics().sum("millrace_to_mqtt_held") == 1, "the session to end")
    put(kafka.bootstrap, topic, ("p", "3"), ("c", "4"))
    keeps = device(server, client_id="p", properties=PERSISTENT, clean=False)
    assert take(keeps, 2) == ["1", "3"]
    assert take(device(server, "in/c", client_id="c"), 2) == ["2", "4"]


def test_qos_is_the_lower_one(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "key": "^0", "mqtt": "q/0", "qos": 0}, {"topic": topic, "key": "^2", "mqtt": "q/2", "qos": 2})
    two, one = device(server, "q/+", qos=2), device(server, "q/+", qos=1)
    put(kafka.bootstrap, topic, ("0", "a"), ("2", "b"))
    assert [two.expect_publish().qos for _ in range(2)] == [0, 2]
    assert [one.expect_publish().qos for _ in range(2)] == [0, 1]


def test_retained_messages_come_from_kafka(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "state/{key}", "retain": True, "start_hold": 0})
    put(kafka.bootstrap, topic, ("a", "1"), ("b", "2"), ("a", "3"), ("b", None))
    until(lambda: server.metrics().sum("millrace_to_mqtt_delivered_total") == 4, "the records to be retained")
    client = device(server, "state/#")
    publish = client.expect_publish()
    assert (publish.topic, publish.payload, publish.retain) == ("state/a", b"3", True)
    puback(client, publish)
    put(kafka.bootstrap, topic, ("a", "4"))
    publish = client.expect_publish()
    assert (publish.payload, publish.retain) == (b"4", False)


def test_topics_are_found_by_expression_also_later_ones(feed, kafka, tenant, device):
    first, later = f"{tenant}.one", f"{tenant}.two"
    kafka.create(first)
    put(kafka.bootstrap, first, ("d", "old"))
    server = feed(kafka, {"topic": f"^{tenant}\\.(?<name>.+)$", "mqtt": "{name}/{key}", "from": "latest"})
    client = device(server, "#")
    until(lambda: server.metrics().sum("millrace_kafka_consumer_partitions", reader="rules") == 4, "the first topic")
    put(kafka.bootstrap, first, ("d", "new"))
    assert take(client, 1) == ["new"]
    kafka.create(later)
    put(kafka.bootstrap, later, ("d", "from its beginning"))
    assert take(client, 1) == ["from its beginning"]


def test_a_rule_loses_nothing_from_when_it_first_ran(feed, kafka, topic, group, device):
    kafka.create(topic)
    rule = {"topic": topic, "mqtt": "in/{key}", "from": "latest"}
    put(kafka.bootstrap, topic, ("d", "before"))
    server = feed(kafka, rule)
    wait_position(kafka.bootstrap, group, topic, 1)
    server.kill()
    put(kafka.bootstrap, topic, ("d", "meanwhile"))
    assert take(device(feed(kafka, rule), "in/#"), 1) == ["meanwhile"]


def test_the_tenant_is_in_the_topics_name(feed, kafka, tenant, device, make_config):
    other = f"{tenant}-b"
    kafka.create(f"x.{tenant}", f"x.{other}")
    listeners = [{"mqtt": "127.0.0.1:0", "tenant": name, "anonymous": True} for name in (tenant, other)]
    server = feed(kafka, {"topic": "x.{tenant}", "mqtt": "in/{key}"}, listeners=listeners, tenants={tenant: {}, other: {}})
    clients = []
    for address in server.mqtt_all:
        server.mqtt = address
        clients.append(device(server, "#"))
    put(kafka.bootstrap, f"x.{tenant}", ("d", "a"))
    put(kafka.bootstrap, f"x.{other}", ("d", "b"))
    assert [take(client, 1) for client in clients] == [["a"], ["b"]]
    for client in clients:
        client.ping()


def test_hops_are_counted_and_a_loop_ends(feed, kafka, tenant, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "down/{key}"}, to_kafka=[{"mqtt": "up/{d}", "topic": topic, "key": "{d}"}])
    reader, writer = device(server, "down/#"), device(server, client_id="w")
    assert writer.publish_and_wait("up/x", "1") == 0
    name, _, user, payload = properties_of(reader)
    assert (name, payload) == ("down/x", b"1")
    assert ("mqtt.hops", "1") in user and ("mqtt.origin", f"{tenant}/w") in user
    put(kafka.bootstrap, topic, ("y", "eight", [("mqtt.hops", b"8")]), ("y", "nine", [("mqtt.hops", b"9")]))
    assert properties_of(reader)[3] == b"eight"
    until(lambda: server.metrics().sum("millrace_to_mqtt_dropped_total", reason="hop_limit") == 1, "the ninth hop to be dropped")


def test_rules_that_feed_each_other_are_named(serve, make_config, kafka, tmp_path, topic):
    config = make_config(kafka.bootstrap, to_kafka=[{"mqtt": "in/#", "topic": topic}],
                         to_mqtt=[{"topic": topic, "mqtt": "in/{key}"}])
    path = write_config(config, tmp_path / "check.yaml")
    done = run_command("check", "-c", path)
    assert done.returncode == 0 and "to_mqtt[0] -> to_kafka[0] -> to_mqtt[0]" in done.stderr
    server = serve(config)
    assert "to_mqtt[0] -> to_kafka[0] -> to_mqtt[0]" in server.log()
    config["to_mqtt"][0]["key"] = "("
    done = run_command("check", "-c", write_config(config, path))
    assert done.returncode == 1 and "to_mqtt[0].key" in done.stderr


def test_kafka_goes_and_comes_back(feed, own_kafka, topic, group, device):
    """Killed under load and started again: every record once and in order."""
    own_kafka.create(topic)
    server = feed(own_kafka, {"topic": topic, "mqtt": "in/{key}"})
    client = device(server, "in/d")
    put(own_kafka.bootstrap, topic, *[("d", n) for n in numbers(500)])
    assert take(client, 250) == numbers(250)
    own_kafka.kill()
    assert take(client, 250) == numbers(250, 250)
    own_kafka.start()
    put(own_kafka.bootstrap, topic, *[("d", n) for n in numbers(500, 500)])
    assert take(client, 500) == numbers(500, 500)
    wait_position(own_kafka.bootstrap, group, topic, 1000)
    own_kafka.pause()
    client.ping()
    own_kafka.resume()
    put(own_kafka.bootstrap, topic, ("d", "last"))
    assert take(client, 1) == ["last"]


def test_a_topic_made_anew_is_read_from_its_beginning(feed, kafka, topic, device):
    kafka.create(topic)
    server = feed(kafka, {"topic": topic, "mqtt": "in/{key}"})
    client = device(server, "in/d")
    put(kafka.bootstrap, topic, *[("d", n) for n in numbers(10)])
    assert take(client, 10) == numbers(10)
    kafka.delete(topic)
    kafka.create(topic)
    put(kafka.bootstrap, topic, ("d", "new"))
    assert take(client, 1) == ["new"]


def test_development_mode_has_it_too(serve, tmp_path, device):
    rule = '{topic: orders, key: "^(?<d>[^.]+)[.]", mqtt: "in/{d}", from: earliest}'
    server = serve(arguments=["--dev", "--mqtt", "127.0.0.1:0",
                              "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", tmp_path / "data",
                              "--set", f"to_mqtt=[{rule}]"])
    client = device(server, "in/+")
    put(server.kafka, "orders", ("d1.x", "1"))
    assert take(client, 1) == ["1"]
