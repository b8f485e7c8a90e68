"""Messages that a mapper rewrites on their way to Kafka (docs/MAPPER.md)"""
import json

import pytest

from lib.mapper import Mapper
from lib.mqtt import PUBACK, PUBREC, V311, V5, Client

PASSWORD = "pw"  # of conftest's devices


@pytest.fixture
def mapper():
    server = Mapper()
    yield server
    server.close()


@pytest.fixture
def server(serve, make_config, kafka, tenant, mapper):
    config = make_config(kafka.bootstrap, mappers={"m": {"url": mapper.url, "timeout": "1s"}},
                         to_kafka=[{"mqtt": "mapped/#", "topic": f"{tenant}.mapped", "create": True, "mapper": "m"}])
    config["tenants"][tenant]["downstream-message-mapper"] = "m"
    return serve(config)


@pytest.fixture
def login(server, tenant):
    opened = []

    def connect(name, version=V5):
        client = Client(server.mqtt, version)
        opened.append(client)
        client.connect(f"{name}-{len(opened)}", user=f"{name}@{tenant}", password=PASSWORD)
        return client

    yield connect
    for client in opened:
        client.close()


def test_payload_type_and_headers_are_the_mappers(login, kafka, tenant, mapper):
    c = login("a1")
    for n in range(20):
        c.publish("event", f"{n}", n % 2 + 1, n + 1)
    assert [c.expect_ack(PUBREC if n % 2 else PUBACK, n + 1) for n in range(20)] == [0] * 20
    records = kafka.records(f"hono.event.{tenant}")
    assert [json.loads(r.value)["was"] for r in records] == [str(n) for n in range(20)], "in order"
    headers = dict(records[0].headers)
    assert (headers["content-type"], headers["plant"], headers["device_id"]) == (b"application/json", b"p1", b"d1")
    assert not {"Server", "Date", "content-length"} & headers.keys()
    path, asked, payload = mapper.requests[0]
    assert (path, payload) == ("/map", "0")
    assert {"orig_address": "event", "tenant_id": tenant, "device_id": "d1", "qos": "1"}.items() <= asked.items()
    assert len(mapper.connections) == 1, "the connection is kept"


def test_a_gateways_message_goes_to_the_device_the_mapper_names(login, kafka, tenant):
    c = login("ga")
    assert c.publish_and_wait("telemetry", "to d2") == 0
    [record] = kafka.records(f"hono.telemetry.{tenant}")
    assert (record.key, dict(record.headers)["device_id"]) == (b"d2", b"d2")
    assert c.publish_and_wait("telemetry", "to d1", 2) == 0x87, "not the gateway's"
    assert c.publish_and_wait("telemetry", "to nobody", 3) == 0x90
    assert len(kafka.records(f"hono.telemetry.{tenant}")) == 1


@pytest.mark.parametrize("payload", ["fail", "hang"])
def test_a_mapper_that_fails_or_hangs_refuses_the_message(server, login, kafka, tenant, payload):
    c = login("a1")
    for n, text in enumerate(["before", payload, "after"], 1):
        c.publish("telemetry", text, 1, n)
    assert [c.expect_ack(PUBACK, n) for n in (1, 2, 3)] == [0, 0x83, 0]
    assert [json.loads(r.value)["was"] for r in kafka.records(f"hono.telemetry.{tenant}")] == ["before", "after"]
    old = login("a1", V311)
    old.publish("telemetry", payload, 1, 1)
    old.expect_closed()
    metrics = server.metrics()
    assert metrics.ledger("telemetry") == {"in": 4, "acknowledged": 2, "rejected": 2, "dropped": 0, "waiting": 0}
    assert metrics.sum("millrace_http_client_requests_total", client="mapper") == 4
    assert metrics.sum("millrace_http_client_requests_in_flight", client="mapper") == 0


def test_a_rule_has_a_mapper_and_a_slow_message_holds_up_its_sender_only(login, kafka, tenant, mapper):
    slow, quick = login("a1"), login("a1")
    slow.publish("mapped/a", "hang", 1, 1)
    slow.publish("mapped/a", "next", 1, 2)
    assert quick.publish_and_wait("mapped/b", "quick") == 0
    assert [json.loads(r.value)["was"] for r in kafka.records(f"{tenant}.mapped")] == ["quick"]
    mapper.release.set()
    assert [slow.expect_ack(PUBACK, n) in (0, 0x83) for n in (1, 2)] == [True, True]


def test_a_mapper_that_is_away_refuses_and_is_found_when_it_comes(server, login, kafka, tenant, mapper):
    mapper.close()
    c = login("a1")
    assert c.publish_and_wait("telemetry", "1") == 0x83
    back = Mapper(mapper.server_address[1])
    try:
        assert c.publish_and_wait("telemetry", "2", 2) == 0
    finally:
        back.close()
    assert [json.loads(r.value)["was"] for r in kafka.records(f"hono.telemetry.{tenant}")] == ["2"]
