"""What devices are told of what fails, and Hono's options (docs/DEVICES.md)."""
import json
import re

import pytest

from lib import paho_client
from lib.mqtt import PUBACK, V311, V5, Client, text
from lib.paho_client import Paho

VERSIONS = pytest.mark.parametrize("version", [V311, V5])
TIMEOUT = "2500ms"
USER_PROPERTY = b"\x26"


@pytest.fixture
def login(tenant):
    """login(server, auth id, version, subscribed): a connected client."""
    clients = []

    def connect(server, auth_id="a1", version=V311, errors="error///#"):
        client = Client(server.mqtt, version)
        clients.append(client)
        client.connect(f"client-{len(clients)}", user=f"{auth_id}@{tenant}", password="pw")
        if errors:
            assert client.subscribe([(errors, 0)]) == [0]
        return client

    yield connect
    for client in clients:
        client.close()


def expect_error(client, topic, code):
    """The next packet is this error; its text."""
    found = client.expect_publish()
    body = json.loads(found.payload)
    assert (found.topic, found.qos, found.retain) == (topic, 0, False)
    assert body["code"] == code and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["timestamp"])
    assert body["correlation-id"] == topic.split("/")[4]
    return body["message"]


def expect_end(client):
    if client.version == V5:
        client.expect_disconnect()
    else:
        client.expect_closed()


# --- what we refuse ourselves ---

@VERSIONS
def test_event_with_qos_0_is_told(serve, make_config, kafka, tenant, login, version):
    server = serve(make_config(kafka.bootstrap))
    c = login(server, version=version)
    c.publish("event", "x")
    assert expect_error(c, "error///event/-1/400", 400) == "event with QoS 0"
    c.publish("e/?correlation-id=abc&on-error=ignore", "x")
    expect_error(c, "error///e/abc/400", 400)
    c.ping()
    c.publish("event/?on-error=disconnect", "x")
    expect_error(c, "error///event/-1/400", 400)
    expect_end(c)
    assert kafka.records(f"hono.event.{tenant}") == []


@VERSIONS
def test_gateway_is_told_for_whom_it_may_not_speak(serve, make_config, kafka, tenant, login, version):
    server = serve(make_config(kafka.bootstrap))
    c = login(server, "ga", version, errors="error//+/#")
    c.publish("t//d1", "x", 1, 7)
    expect_error(c, "error//d1/t/7/403", 403)
    assert c.expect_ack(PUBACK, 7) == (0x87 if version == V5 else 0)
    c.publish("telemetry//nobody", "x", 1, 8)
    expect_error(c, "error//nobody/telemetry/8/404", 404)
    assert c.expect_ack(PUBACK, 8) == (0x90 if version == V5 else 0)
    assert c.publish_and_wait("t//d2", "x", 9) == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    assert record.key == b"d2"


@VERSIONS
def test_missing_payload_is_told(serve, make_config, kafka, tenant, login, version):
    c = login(serve(make_config(kafka.bootstrap)), version=version)
    c.publish("telemetry", "", 1, 3)
    assert expect_error(c, "error///telemetry/3/400", 400) == "empty payload without content type"
    assert c.expect_ack(PUBACK, 3) == (0x83 if version == V5 else 0)
    assert kafka.records(f"hono.telemetry.{tenant}") == []


@VERSIONS
def test_an_independent_client_is_told(serve, make_config, kafka, tenant, version):
    server = serve(make_config(kafka.bootstrap))
    version = paho_client.V5 if version == V5 else paho_client.V311
    with Paho(server.mqtt, version, "paho", user=f"a1@{tenant}", password="pw") as c:
        assert c.connect()[0] == 0
        forbidden = 0x87 if version == paho_client.V5 else 0x80
        assert c.subscribe(("error///#", 1), ("error/x/d1/#", 0), ("e//d1/#", 0)) == [0x80, forbidden, 0]
        assert c.publish("telemetry//d2/?correlation-id=42", "x", 1) == (0x87 if version == paho_client.V5 else 0)
        message = c.next_message()
        assert message.topic == "e//d2/telemetry/42/403"
        assert json.loads(message.payload)["code"] == 403


# --- when Kafka is away and hono.delivery_timeout has passed ---

def lose(server, login, version):
    """One publish for each way to be told, all at once; the clients."""
    ways = {"closed": (None, ""), "told": ("error///#", ""), "disconnect": ("error///#", "/?on-error=disconnect"),
            "ignore": (None, "/?on-error=ignore"), "ignore told": ("error///#", "/?on-error=ignore"),
            "skip-ack": (None, "/?on-error=skip-ack"), "skip-ack told": ("e///#", "/?on-error=skip-ack")}
    clients = {way: login(server, version=version, errors=errors) for way, (errors, _) in ways.items()}
    for way, client in clients.items():
        client.publish("telemetry" + ways[way][1], way, 1, 5)
    return clients


def check_lost(clients, version):
    topic = "error///telemetry/5/503"
    if version == V5:
        assert clients["closed"].expect_ack(PUBACK, 5) == 0x83, "the code says it: no reason to close"
    else:
        clients["closed"].expect_closed()
    expect_error(clients["told"], topic, 503)
    assert clients["told"].expect_ack(PUBACK, 5) == (0x83 if version == V5 else 0)
    expect_error(clients["disconnect"], topic, 503)
    expect_end(clients["disconnect"])
    assert clients["ignore"].expect_ack(PUBACK, 5) == (0x80 if version == V5 else 0)
    expect_error(clients["ignore told"], topic, 503)
    assert clients["ignore told"].expect_ack(PUBACK, 5) == (0x80 if version == V5 else 0)
    expect_error(clients["skip-ack told"], "e///telemetry/5/503", 503)
    for way in ("told", "ignore", "ignore told", "skip-ack told"):
        clients[way].ping()


@VERSIONS
def test_lost_messages_while_kafka_is_stopped(serve, make_config, own_kafka, tenant, login, version):
    """Item 6: `told` of 3.1.1 is acknowledged although lost, as Hono has it; the ledger has it as rejected."""
    server = serve(make_config(own_kafka.bootstrap, hono={"delivery_timeout": TIMEOUT}))
    first = login(server, version=version)
    assert first.publish_and_wait("telemetry", "before") == 0
    own_kafka.stop()
    clients = lose(server, login, version)
    check_lost(clients, version)
    clients["skip-ack"].ping()
    metrics = server.metrics()
    ledger = metrics.ledger("telemetry")
    assert (ledger["in"], ledger["acknowledged"], ledger["rejected"]) == (1 + len(clients), 1, len(clients))
    assert metrics.sum("millrace_messages_rejected_total", route="telemetry", reason="unavailable") == len(clients)
    own_kafka.start()
    assert [r.value for r in own_kafka.records(f"hono.telemetry.{tenant}")] == [b"before"]


@VERSIONS
def test_a_hanging_kafka_is_told_likewise(serve, make_config, own_kafka, login, version):
    server = serve(make_config(own_kafka.bootstrap, hono={"delivery_timeout": TIMEOUT}))
    assert login(server, version=version).publish_and_wait("telemetry", "before") == 0
    own_kafka.pause()
    check_lost(lose(server, login, version), version)
    own_kafka.resume()


# --- options ---

def test_a_topic_prefix_is_before_all_topics(serve, make_config, kafka, tenant, login):
    prefix = f"{tenant}-prod."
    server = serve(make_config(kafka.bootstrap, kafka={"topic_prefix": prefix}))
    assert login(server).publish_and_wait("telemetry", "x") == 0
    record, = kafka.records(f"{prefix}hono.telemetry.{tenant}")
    assert record.value == b"x"
    ours = {name for name in kafka.topics() if name.endswith(f".{tenant}")}
    assert {f"{prefix}hono.telemetry.{tenant}", f"{prefix}hono.event.{tenant}"} <= ours
    assert all(name.startswith(prefix) for name in ours)


def test_gateway_tenant_and_trace_are_headers(serve, make_config, kafka, tenant, login):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    server = serve(make_config(kafka.bootstrap, hono={"gateway_id": True, "tenant_id": True}))
    c = login(server, "ga", V5)
    properties = USER_PROPERTY + text("traceparent") + text(trace) + USER_PROPERTY + text("tracestate") + text("v=1")
    assert c.publish_and_wait("t//d2", "x", properties=properties) == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    headers = {name: value.decode() for name, value in record.headers}
    assert (headers["device_id"], headers["gateway_id"], headers["tenant_id"]) == ("d2", "g1", tenant)
    assert (headers["traceparent"], headers["tracestate"]) == (trace, "v=1")
