"""Device messages become Hono's records (docs/wire/device-data.md)."""
import time

import pytest

from lib.mqtt import V311, V5, Client, text_property

VERSIONS = pytest.mark.parametrize("version", [V311, V5])
CONTENT_TYPE = 3  # the property of MQTT 5


@pytest.fixture
def server(serve, make_config, kafka):
    return serve(make_config(kafka.bootstrap))


@pytest.fixture
def login(server, tenant):
    """login(auth id, version): a connected client."""
    clients = []

    def connect(auth_id="a1", version=V311, to=server):
        client = Client(to.mqtt, version)
        clients.append(client)
        client.connect(f"client-{len(clients)}", user=f"{auth_id}@{tenant}", password="pw")
        return client

    yield connect
    for client in clients:
        client.close()


def headers(record, but=("creation-time",)):
    """As a dictionary of text; no name occurs twice."""
    names = [name for name, _ in record.headers]
    assert len(names) == len(set(names)), f"twice: {names}"
    return {name: value.decode() for name, value in record.headers if name not in but}


@VERSIONS
def test_right_password_is_accepted_without_a_session(server, tenant, version):
    with Client(server.mqtt, version) as c:
        assert c.connect("c", user=f"a1@{tenant}", password="pw") is False


@pytest.mark.parametrize("version, code", [(V311, 4), (V5, 0x86)])
def test_wrong_credentials_are_refused(server, tenant, version, code):
    wrong = [("a1@{}", "wrong"), ("a1@nowhere", "pw"), ("nobody@{}", "pw"), ("a1@{}", None), ("d1@{}", "pw"), ("d2@{}", "pw")]
    for user, password in wrong:
        with Client(server.mqtt, version) as c:
            c.connect("c", user=user.format(tenant), password=password, expect=code)
            c.expect_closed()
    refused = "millrace_mqtt_connects_refused_total"
    assert server.metrics().sum(refused, reason="bad_credentials") == server.metrics().sum(refused) == len(wrong)


@pytest.mark.parametrize("version, code", [(V311, 5), (V5, 0x87)])
def test_disabled_adapter_and_device_are_refused(serve, make_config, kafka, tenant, version, code):
    config = make_config(kafka.bootstrap)
    config["tenants"][tenant]["devices"]["d1"]["enabled"] = False
    off = f"{tenant}-off"
    config["tenants"][off] = {"adapters": [{"type": "hono-mqtt", "enabled": False}], "devices": {"d1": {"password": "pw"}}}
    server = serve(config)
    for user in (f"a1@{tenant}", f"d1@{off}"):
        with Client(server.mqtt, version) as c:
            c.connect("c", user=user, password="pw", expect=code)
            c.expect_closed()


@pytest.mark.tsan
@pytest.mark.parametrize("version, topic", [(V311, "telemetry"), (V5, "t")])
def test_telemetry_is_in_kafka_when_it_is_acknowledged(login, kafka, tenant, version, topic):
    c = login(version=version)
    before = time.time_ns() // 1_000_000
    assert c.publish_and_wait(topic, '{"x":1}') == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    after = time.time_ns() // 1_000_000
    assert (record.key, record.value) == (b"d1", b'{"x":1}')
    assert headers(record) == {"device_id": "d1", "content-type": "application/octet-stream", "orig_adapter": "hono-mqtt",
                               "orig_address": topic, "qos": "1"}
    assert before <= int(dict(record.headers)["creation-time"].decode("ascii")) <= after
    assert kafka.records(f"hono.event.{tenant}") == []


@VERSIONS
def test_qos_0_and_2_have_their_header(login, kafka, tenant, version):
    c = login(version=version)
    c.publish("telemetry", "zero")
    c.publish("telemetry", "two", 2, 5)
    assert c.expect_ack(5, 5) == 0  # PUBREC
    assert {r.value: headers(r)["qos"] for r in kafka.records(f"hono.telemetry.{tenant}")} == {b"zero": "0", b"two": "1"}


def test_content_type_of_the_property_bag(login, kafka, tenant):
    c = login()
    topic = "t/?content-type=application%2Fjson"
    assert c.publish_and_wait(topic, "{}") == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    assert headers(record)["content-type"] == "application/json"
    assert headers(record)["orig_address"] == topic


def test_content_type_of_mqtt_5_unless_the_bag_has_one(login, kafka, tenant):
    c = login(version=V5)
    props = text_property(CONTENT_TYPE, "text/csv")
    assert c.publish_and_wait("t", "1;2", 1, properties=props) == 0
    assert c.publish_and_wait("t/?Content-Type=text%2Fplain", "1;2", 2, properties=props) == 0
    assert [headers(r)["content-type"] for r in kafka.records(f"hono.telemetry.{tenant}")] == ["text/csv", "text/plain"]


@pytest.mark.parametrize("limit, ttl", [(None, "30000"), (10, "10000"), (60, "30000")])
def test_time_to_live_of_an_event(serve, make_config, kafka, tenant, login, limit, ttl):
    config = make_config(kafka.bootstrap)
    if limit:
        config["tenants"][tenant]["resource-limits"] = {"max-ttl": limit}
    c = login(to=serve(config))
    assert c.publish_and_wait("event/?hono-ttl=30", "fire") == 0
    record, = kafka.records(f"hono.event.{tenant}")
    assert headers(record) == {"device_id": "d1", "content-type": "application/octet-stream", "orig_adapter": "hono-mqtt",
                               "orig_address": "event/?hono-ttl=30", "qos": "1", "ttl": ttl}


def test_retain_flag_is_told_and_nothing_is_retained(login, kafka, tenant, server):
    c = login()
    assert c.publish_and_wait("telemetry", "x", retain=True) == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    assert headers(record)["x-opt-retain"] == "true"
    with Client(server.mqtt) as reader:
        reader.connect("reader")
        assert reader.subscribe([("#", 0)]) == [0]
        reader.ping()


@VERSIONS
def test_event_with_qos_0_is_refused(login, kafka, tenant, version):
    c = login(version=version)
    c.publish("event", "lost")
    if version == V5:
        c.expect_disconnect()
    else:
        c.expect_closed()
    c = login(version=version)
    c.publish("event/?on-error=ignore", "lost")
    c.ping()
    assert kafka.records(f"hono.event.{tenant}") == []


@VERSIONS
def test_on_error_decides_about_a_refused_message(login, kafka, tenant, version):
    """`t/<tenant>` without a device is a bad request."""
    bad = f"t/{tenant}/?on-error="
    c = login(version=version)
    c.publish(bad + "ignore", "x", 1, 1)
    assert c.expect_ack(4, 1) == (0x80 if version == V5 else 0)
    c.publish(bad + "skip-ack", "x", 1, 2)
    c.ping()
    assert c.publish_and_wait("telemetry", "good", 3) == 0
    c.publish(bad + "disconnect", "x", 1, 4)
    if version == V5:
        c.expect_disconnect()
    else:
        c.expect_closed()
    assert [r.value for r in kafka.records(f"hono.telemetry.{tenant}")] == [b"good"]


def test_gateway_publishes_for_a_device(login, kafka, tenant):
    c = login("ga")
    topics = ["t//d2", "telemetry//d2", f"t/{tenant}/d2"]
    for topic in topics:
        assert c.publish_and_wait(topic, "x") == 0
    records = kafka.records(f"hono.telemetry.{tenant}")
    assert [(r.key, headers(r)["device_id"], headers(r)["orig_address"]) for r in records] == [(b"d2", "d2", t) for t in topics]


def test_gateway_does_not_publish_for_others(login, kafka, tenant):
    c = login("ga", V5)
    for packet_id, (topic, code) in enumerate([("t//d1", 0x87), ("e//d1", 0x87), ("t/other/d2", 0x87), ("t//nobody", 0x90)], 1):
        assert c.publish_and_wait(topic, "x", packet_id) == code, topic
    d1 = login("a1", V5)
    assert d1.publish_and_wait("t//d2", "x", 9) == 0x87, "a device is not a gateway"
    assert kafka.records(f"hono.telemetry.{tenant}") == kafka.records(f"hono.event.{tenant}") == []


def test_defaults_of_tenant_and_device(serve, make_config, kafka, tenant, login):
    config = make_config(kafka.bootstrap)
    config["tenants"][tenant]["defaults"] = {"unit": "K", "site": "x"}
    config["tenants"][tenant]["devices"]["d1"]["defaults"] = {"unit": "C", "content-type": "text/plain"}
    c = login(to=serve(config))
    assert c.publish_and_wait("telemetry", "21", 1) == 0
    assert c.publish_and_wait("telemetry/?content-type=text%2Fcsv", "21", 2) == 0
    first, second = kafka.records(f"hono.telemetry.{tenant}")
    assert headers(first) == {"device_id": "d1", "content-type": "text/plain", "orig_adapter": "hono-mqtt",
                              "orig_address": "telemetry", "qos": "1", "unit": "C", "site": "x"}
    assert headers(second)["content-type"] == "text/csv"


@VERSIONS
def test_message_without_payload(login, kafka, tenant, version):
    c = login(version=version)
    empty = "telemetry/?content-type=application%2Fvnd.eclipse-hono-empty-notification"
    assert c.publish_and_wait(empty, "", 1) == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    assert record.value is None
    assert headers(record)["content-type"] == "application/vnd.eclipse-hono-empty-notification"
    if version == V5:
        assert c.publish_and_wait("telemetry", "", 2) == 0x83
    else:
        c.publish("telemetry", "", 1, 2)
        c.expect_closed()
    assert len(kafka.records(f"hono.telemetry.{tenant}")) == 1


def test_a_listener_without_hono_has_plain_topics_only(serve, make_config, kafka, tenant):
    config = make_config(kafka.bootstrap)
    config["listeners"][0]["hono"] = False
    server = serve(config)
    with Client(server.mqtt) as reader, Client(server.mqtt) as c:
        reader.connect("reader")
        assert reader.subscribe([("telemetry", 0)]) == [0]
        c.connect("c", user=f"a1@{tenant}", password="pw")
        assert c.publish_and_wait("telemetry", "x") == 0
        assert reader.expect_publish().payload == b"x"
    assert kafka.records(f"hono.telemetry.{tenant}") == []


def test_payload_is_kept_byte_for_byte(login, kafka, tenant):
    payload = bytes(range(256)) * 1024
    assert login().publish_and_wait("telemetry", payload) == 0
    record, = kafka.records(f"hono.telemetry.{tenant}")
    assert record.value == payload


def test_records_of_a_device_are_where_java_clients_put_them(serve, make_config, kafka, tenant, fleet):
    """murmur2 of the key, of four partitions: so an adapter beside us and readers by key agree with us."""
    devices, users = fleet(8)
    server = serve(make_config(kafka.bootstrap, devices=devices))
    for name, user in users.items():
        with Client(server.mqtt) as c:
            c.connect(name, user=user, password="pw")
            assert c.publish_and_wait("t", "x") == 0
    records = kafka.records(f"hono.telemetry.{tenant}")
    assert {r.key.decode(): r.partition for r in records} == {name: murmur2(name.encode()) % 4 for name in users}


def murmur2(data):
    """Kafka's DefaultPartitioner, positive."""
    m, mask = 0x5bd1e995, 0xffffffff
    h = (0x9747b28c ^ len(data)) & mask
    for at in range(0, len(data) & ~3, 4):
        k = int.from_bytes(data[at:at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    tail = data[len(data) & ~3:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7fffffff
