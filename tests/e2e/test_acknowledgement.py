"""An acknowledgement means that Kafka has it.

What others were found to do instead: emqx/emqx#18951, eclipse-mosquitto/mosquitto#3687, drogue-iot/drogue-cloud#95,
SolaceProducts/pubsubplus-connector-kafka-source#75.
"""
import pytest

from lib.mqtt import PUBACK, V311, V5, Client, number_property
from lib.wait import until

WATCHED_S = 1.5  # how long something has to stay away
PAYLOAD_FORMAT = 1


@pytest.fixture
def login(tenant):
    clients = []

    def connect(server, version, auth_id="a1", **options):
        client = Client(server.mqtt, version)
        clients.append(client)
        client.connect(f"client-{len(clients)}", user=f"{auth_id}@{tenant}", password="pw", **options)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.mark.parametrize("version", [V311, V5])
def test_no_puback_while_kafka_hangs(serve, make_config, own_kafka, tenant, login, version):
    server = serve(make_config(own_kafka.bootstrap))
    c = login(server, version)
    assert c.publish_and_wait("telemetry", "0", 1) == 0
    own_kafka.pause()
    for number in (2, 3, 4):
        c.publish("telemetry", str(number), 1, number)
    c.ping()  # they have been handled
    c.expect_silence(WATCHED_S)
    metrics = server.metrics()
    assert metrics.ledger("telemetry") == {"in": 4, "acknowledged": 1, "rejected": 0, "dropped": 0, "waiting": 3}
    own_kafka.resume()
    for number in (2, 3, 4):
        assert c.expect_ack(PUBACK, number) == 0
    assert [r.value for r in own_kafka.records(f"hono.telemetry.{tenant}")] == [b"0", b"2", b"3", b"4"]


def test_pubacks_of_one_connection_keep_the_order_of_its_publishes(serve, make_config, own_kafka, tenant, login):
    """Plain topics between device data, of two Kafka topics; while Kafka hangs none may overtake."""
    server = serve(make_config(own_kafka.bootstrap))
    c = login(server, V5)
    own_kafka.pause()
    topics = ["telemetry", "plain/a", "event", "t//d2", "plain/b", "telemetry"]
    for packet_id, topic in enumerate(topics, 1):
        c.publish(topic, "x", 1, packet_id)
    c.ping()
    c.expect_silence(WATCHED_S)
    own_kafka.resume()
    assert [c.expect_ack(PUBACK, packet_id) for packet_id in range(1, 7)] == [0, 0, 0, 0x87, 0, 0]


def test_status_says_degraded_while_kafka_is_away(serve, make_config, own_kafka, login):
    server = serve(make_config(own_kafka.bootstrap))
    c = login(server, V311)
    own_kafka.stop()
    c.publish("telemetry", "x", 1, 1)
    until(lambda: server.get("/readyz") == (200, "degraded: kafka\n"), "degraded")
    assert server.metrics().sum("millrace_kafka_up") == 0
    c.ping()
    own_kafka.start()
    assert c.expect_ack(PUBACK, 1) == 0
    until(lambda: server.get("/readyz") == (200, "ok\n"), "ok")
    assert server.metrics().sum("millrace_kafka_up") == 1


def test_time_limit_of_delivery_ends_in_a_refusal(serve, make_config, own_kafka, login):
    server = serve(make_config(own_kafka.bootstrap, hono={"delivery_timeout": "2s"}))
    v5, v311 = login(server, V5), login(server, V311)
    own_kafka.pause()
    v311.publish("telemetry", "x", 1, 1)
    assert v5.publish_and_wait("telemetry", "x", 1) == 0x83
    v5.ping()
    v311.expect_closed()
    own_kafka.resume()
    assert v5.publish_and_wait("telemetry", "y", 2) == 0
    ledger = server.metrics().ledger("telemetry")
    assert ledger == {"in": 3, "acknowledged": 1, "rejected": 2, "dropped": 0, "waiting": 0}


def refused(server, login, kafka, tenant, code, topic="telemetry", payload="x", **options):
    """MQTT 5 gets the code and stays, 3.1.1 is closed; nothing of it is in Kafka, other messages are not affected."""
    c = login(server, V5)
    assert c.publish_and_wait("e", "before", 1) == 0
    c.publish(topic, payload, 1, 2, **options)
    c.publish("e", "after", 1, 3)
    assert c.expect_ack(PUBACK, 2) == code
    assert c.expect_ack(PUBACK, 3) == 0
    old = login(server, V311)
    old.publish(topic, payload, 1, 1)
    old.expect_closed()
    assert [r.value for r in kafka.records(f"hono.event.{tenant}")] == [b"before", b"after"]
    ledger = server.metrics().ledger("telemetry")
    assert ledger == {"in": 2, "acknowledged": 0, "rejected": 2, "dropped": 0, "waiting": 0}


@pytest.mark.tsan
def test_record_too_large_for_its_topic(serve, make_config, kafka, tenant, login):
    kafka.create(f"hono.telemetry.{tenant}", **{"max.message.bytes": "2000"})
    server = serve(make_config(kafka.bootstrap))
    refused(server, login, kafka, tenant, 0x97, payload="x" * 3000)
    assert server.metrics().sum("millrace_messages_rejected_total", route="telemetry", reason="too_large") == 2
    assert kafka.records(f"hono.telemetry.{tenant}") == []


def test_record_too_large_for_kafka(serve, make_config, kafka, tenant, login):
    """Its payload fits our limit; with headers it is over Kafka's default of 1,048,588 bytes."""
    server = serve(make_config(kafka.bootstrap, limits={"max_packet_bytes": "4MiB", "output_bytes": "4MiB"}))
    refused(server, login, kafka, tenant, 0x97, payload=b"x" * (2 << 20))
    assert kafka.records(f"hono.telemetry.{tenant}") == []


def test_topic_that_was_deleted(serve, make_config, kafka, tenant, login):
    server = serve(make_config(kafka.bootstrap))
    kafka.delete(f"hono.telemetry.{tenant}")
    refused(server, login, kafka, tenant, 0x90)
    assert server.metrics().sum("millrace_messages_rejected_total", route="telemetry", reason="unknown_topic") == 2
    assert f"hono.telemetry.{tenant}" not in kafka.topics()


def test_topic_that_the_account_may_not_write_to(serve, make_config, secure_kafka, tenant, login):
    names = [f"hono.{kind}.{tenant}" for kind in ("telemetry", "event", "command", "command_response")]
    secure_kafka.create(*names)
    for name in names:
        secure_kafka.allow("millrace", "describe", name)
    secure_kafka.allow("millrace", "write", f"hono.event.{tenant}")
    config = make_config(secure_kafka.secure_bootstrap, kafka={"properties": {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(secure_kafka.folder / "ca.pem"), "sasl.mechanism": "PLAIN",
        "sasl.username": "millrace", "sasl.password": "millrace-secret"}})
    server = serve(config)
    refused(server, login, secure_kafka, tenant, 0x87)
    assert server.metrics().sum("millrace_messages_rejected_total", route="telemetry", reason="denied") == 2


def test_payload_that_is_not_what_its_format_says(serve, make_config, kafka, tenant, login):
    server = serve(make_config(kafka.bootstrap))
    c = login(server, V5)
    text = number_property(PAYLOAD_FORMAT, 1, 1)
    assert c.publish_and_wait("telemetry", b"\xff", 1, properties=text) == 0x99
    assert c.publish_and_wait("telemetry", "ü", 2, properties=text) == 0
    assert [r.value for r in kafka.records(f"hono.telemetry.{tenant}")] == ["ü".encode()]


def test_packet_above_the_announced_maximum(serve, make_config, kafka, tenant, login):
    server = serve(make_config(kafka.bootstrap, limits={"max_packet_bytes": "64KiB"}))
    c = login(server, V5)
    assert number_property(39, 4, 64 << 10) in c.connack, "Maximum Packet Size is told"
    c.publish("telemetry", "x" * (64 << 10), 1)
    assert c.expect_disconnect() == 0x95
    old = login(server, V311)
    old.publish("telemetry", "x" * (64 << 10), 1)
    old.expect_closed()
    assert login(server, V311).publish_and_wait("telemetry", "x" * 60000) == 0
    assert len(kafka.records(f"hono.telemetry.{tenant}")) == 1


def test_window_beyond_the_announced_receive_maximum(serve, make_config, own_kafka, login):
    """MQTT 5 is told that it broke the rule; 3.1.1 knows none and is not read until there is room."""
    server = serve(make_config(own_kafka.bootstrap, limits={"receive_maximum": 10}))
    v5, v311 = login(server, V5), login(server, V311)
    own_kafka.pause()
    for packet_id in range(1, 12):
        v5.publish("telemetry", "x", 1, packet_id)
        v311.publish("telemetry", "x", 1, packet_id)
    assert v5.expect_disconnect() == 0x93
    v311.expect_silence(WATCHED_S)
    own_kafka.resume()
    assert [v311.expect_ack(PUBACK, packet_id) for packet_id in range(1, 12)] == [0] * 11


def test_a_message_is_acknowledged_although_its_sender_has_gone(serve, make_config, own_kafka, tenant, login):
    """It is counted as such, and is in Kafka; nothing is left behind."""
    server = serve(make_config(own_kafka.bootstrap))
    c = login(server, V311)
    own_kafka.pause()
    c.publish("telemetry", "orphan", 1, 1)
    c.ping()
    c.close()
    until(lambda: server.metrics().sum("millrace_mqtt_connections") == 0, "the end of the connection")
    own_kafka.resume()
    until(lambda: server.metrics().ledger("telemetry")["acknowledged"] == 1, "its acknowledgement")
    assert [r.value for r in own_kafka.records(f"hono.telemetry.{tenant}")] == [b"orphan"]
