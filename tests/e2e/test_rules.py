"""What rules write to a real Kafka, and `millrace explain`.

Cases from public reports: aklivity/zilla#1164, drogue-iot/drogue-cloud#95, SolaceProducts/pubsubplus-connector-kafka-source#75,
rmqtt/rmqtt#299, lensesio/stream-reactor#799.
"""
import json
import struct

import pytest

from lib.mqtt import PUBACK, PUBCOMP, PUBREC, PUBREL, V311, V5, Client, number_property, packet, text, text_property
from lib.server import run_command, write_config
from lib.wait import until

WATCHED_S = 1.5  # how long something has to stay away
EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY = 2, 3, 8, 9, 38


def user_property(name, value):
    return bytes([USER_PROPERTY]) + text(name) + text(value)


@pytest.fixture
def clients():
    opened = []

    def connect(server, version=V5, client_id=None, **options):
        client = Client(server.mqtt, version)
        opened.append(client)
        client.connect(client_id or f"client-{len(opened)}", **options)
        return client

    yield connect
    for client in opened:
        client.close()


@pytest.fixture
def rules(serve, make_config):
    """rules(kafka, rule...): a server with these rules."""
    def start(kafka, *to_kafka, **top):
        return serve(make_config(kafka.bootstrap, to_kafka=list(to_kafka), **top))
    return start


def test_headers_say_what_was_published(rules, kafka, tenant, clients):
    """Case 15: the MQTT topic byte for byte; the rest of the message likewise."""
    server = rules(kafka, {"mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", "key": "{client_id}", "create": True,
                           "headers": {"from": "{tenant}/{site}"}})
    topic = "plant/münchen/größe 1//x"
    properties = (number_property(EXPIRY, 4, 60) + text_property(CONTENT_TYPE, "text/plain") + text_property(RESPONSE_TOPIC, "re/x")
                  + text_property(CORRELATION_DATA, b"\x00\xff") + user_property("traceparent", "00-0123-45-01")
                  + user_property("k", "1") + user_property("k", "2") + user_property("mqtt.topic", "forged"))
    c = clients(server, client_id="c1")
    assert c.publish_and_wait(topic, "21°", 1, retain=True, properties=properties) == 0
    [record] = kafka.records(f"{tenant}.m_c3_bcnchen")
    assert (record.key, record.value) == (b"c1", "21°".encode())
    assert record.headers == [
        ("mqtt.topic", topic.encode()), ("mqtt.qos", b"1"), ("mqtt.retain", b"true"), ("mqtt.client_id", b"c1"),
        ("content-type", b"text/plain"), ("mqtt.response_topic", b"re/x"), ("mqtt.correlation_data", b"\x00\xff"),
        ("mqtt.expiry_s", b"60"), ("mqtt.hops", b"1"), ("mqtt.origin", f"{tenant}/c1".encode()),
        ("from", f"{tenant}/münchen".encode()), ("traceparent", b"00-0123-45-01"), ("k", b"1"), ("k", b"2")]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_100_publishers_and_no_empty_record(rules, kafka, tenant, clients, qos):
    """Case 7: 100 clients, 100 messages each; count in is count out, and only an empty retained publish is null."""
    kafka.create(tenant)
    server = rules(kafka, {"mqtt": "load/{n}", "topic": tenant, "key": "{n}"})
    senders = [clients(server, V311) for _ in range(100)]
    for name, c in enumerate(senders):
        for number in range(100):
            c.publish(f"load/{name}", f"{number}", qos, number + 1)
    for c in senders:
        for kind in [PUBACK] if qos == 1 else [PUBREC] if qos == 2 else []:
            assert [c.expect_ack(kind, number + 1) for number in range(100)] == [0] * 100
        if qos == 2:
            for number in range(100):
                c.send(packet(PUBREL, 2, struct.pack(">H", number + 1)))
            assert [c.expect_ack(PUBCOMP, number + 1) for number in range(100)] == [0] * 100
        c.ping()
    until(lambda: server.metrics().ledger("to_kafka[0]")["acknowledged"] == 10_000, "all records")
    numbers = {}
    for record in kafka.records(tenant):
        numbers.setdefault(record.key, []).append(record.value)
    assert numbers == {str(name).encode(): [str(n).encode() for n in range(100)] for name in range(100)}


def test_only_an_empty_retained_publish_is_null(rules, kafka, tenant, clients):
    kafka.create(tenant)
    server = rules(kafka, {"mqtt": "#", "topic": tenant, "key": "k"})
    c = clients(server)
    for packet_id, (payload, retain) in enumerate([("", False), ("", True), ("x", True)], 1):
        assert c.publish_and_wait("a", payload, packet_id, retain=retain) == 0
    assert [r.value for r in kafka.records(tenant)] == [b"", None, b"x"]


@pytest.mark.parametrize("version", [V311, V5])
def test_no_puback_while_kafka_hangs(rules, own_kafka, tenant, clients, version):
    """Case 9, with one record and with two; what is received is told at once."""
    own_kafka.create(f"{tenant}.a", f"{tenant}.b", f"{tenant}.c")
    server = rules(own_kafka, {"mqtt": "one", "topic": f"{tenant}.a"},
                   {"mqtt": "two", "actions": [{"topic": f"{tenant}.a"}, {"topic": f"{tenant}.b"}]},
                   {"mqtt": "now", "topic": f"{tenant}.c", "ack": "received"})
    s, c, d = clients(server, V311), clients(server, version), clients(server, version)
    assert s.subscribe([("#", 0)]) == [0]
    assert c.publish_and_wait("one", "0", 1) == 0
    assert s.expect_publish().payload == b"0"
    own_kafka.pause()
    c.publish("one", "1", 1, 2)
    c.publish("two", "2", 2, 3)
    assert d.publish_and_wait("now", "3", 1) == 0
    assert sorted(s.expect_publish().payload for _ in range(3)) == [b"1", b"2", b"3"], "subscribers do not wait for Kafka"
    c.ping()
    c.expect_silence(WATCHED_S)
    assert server.metrics().ledger("to_kafka[1]") == {"in": 1, "acknowledged": 0, "rejected": 0, "dropped": 0, "waiting": 1}
    own_kafka.resume()
    assert c.expect_ack(PUBACK, 2) == 0
    assert c.expect_ack(PUBREC, 3) == 0
    assert sorted(r.value for r in own_kafka.records(f"{tenant}.a")) == [b"0", b"1", b"2"], "without a key in any partition"
    assert [r.value for r in own_kafka.records(f"{tenant}.b")] == [b"2"]
    until(lambda: [r.value for r in own_kafka.records(f"{tenant}.c")] == [b"3"], "what was received")


def refused(server, clients, code, reason, topic="bad", payload="x"):
    """MQTT 5 gets the code and stays, 3.1.1 is closed; a publish before and one behind it are not affected."""
    c = clients(server)
    c.publish("good", "before", 1, 1)
    c.publish(topic, payload, 1, 2)
    c.publish("good", "after", 1, 3)
    assert [c.expect_ack(PUBACK, n) for n in (1, 2, 3)] == [0, code, 0]
    old = clients(server, V311)
    old.publish(topic, payload, 1, 1)
    old.expect_closed()
    metrics = server.metrics()
    assert metrics.ledger("bad") == {"in": 2, "acknowledged": 0, "rejected": 2, "dropped": 0, "waiting": 0}
    assert metrics.sum("millrace_messages_rejected_total", route="bad", reason=reason) == 2


def good_and_bad(tenant, **bad):
    return {"mqtt": "good", "topic": f"{tenant}.good"}, {"name": "bad", "mqtt": "bad", "topic": f"{tenant}.bad", **bad}


def test_record_too_large_for_its_topic(rules, kafka, tenant, clients):
    """Case 11, as the next four."""
    kafka.create(f"{tenant}.good")
    kafka.create(f"{tenant}.bad", **{"max.message.bytes": "2000"})
    server = rules(kafka, *good_and_bad(tenant))
    refused(server, clients, 0x97, "too_large", payload="x" * 3000)
    assert kafka.records(f"{tenant}.bad") == []


def test_topic_that_does_not_exist(rules, kafka, tenant, clients):
    kafka.create(f"{tenant}.good")
    server = rules(kafka, *good_and_bad(tenant))
    refused(server, clients, 0x90, "unknown_topic")
    assert f"{tenant}.bad" not in kafka.topics()


def test_partition_that_does_not_exist(rules, kafka, tenant, clients):
    kafka.create(f"{tenant}.good", f"{tenant}.bad")
    server = rules(kafka, *good_and_bad(tenant, partition="77"))
    refused(server, clients, 0x90, "unknown_topic")


def test_topic_that_the_account_may_not_write_to(serve, make_config, secure_kafka, tenant, clients):
    names = [f"hono.{kind}.{tenant}" for kind in ("telemetry", "event", "command", "command_response")]
    secure_kafka.create(*names, f"{tenant}.good", f"{tenant}.bad")
    for name in names + [f"{tenant}.bad"]:
        secure_kafka.allow("millrace", "describe", name)
    secure_kafka.allow("millrace", "write", f"{tenant}.good")
    server = serve(make_config(secure_kafka.secure_bootstrap, to_kafka=list(good_and_bad(tenant)), kafka={"properties": {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(secure_kafka.folder / "ca.pem"), "sasl.mechanism": "PLAIN",
        "sasl.username": "millrace", "sasl.password": "millrace-secret"}}))
    refused(server, clients, 0x87, "denied")


def test_time_limit_of_a_rule_s_topic(rules, own_kafka, tenant, clients):
    own_kafka.create(f"{tenant}.a")
    server = rules(own_kafka, {"mqtt": "#", "topic": f"{tenant}.a", "timeout": "2s"})
    c = clients(server)
    assert c.publish_and_wait("x", "1", 1) == 0
    own_kafka.pause()
    assert c.publish_and_wait("x", "2", 2) == 0x83
    own_kafka.resume()
    assert c.publish_and_wait("x", "3", 3) == 0


def test_names_of_topics_are_legal_and_do_not_meet(rules, kafka, tenant, clients):
    """Case 17: whatever clients put into a topic or a property, the record has a topic of its own."""
    server = rules(kafka, {"mqtt": "p/#", "topic": f"{tenant}.{{user_property.where}}", "create": True},
                   {"mqtt": "#", "topic": f"{tenant}-{{topic}}", "create": True})
    c = clients(server)
    for packet_id, topic in enumerate(["a/b c", "a_2fb", "a/b", "a.b", "a_b", "a__b", "/"], 1):
        assert c.publish_and_wait(topic, topic, packet_id) == 0
    assert c.publish_and_wait("p/1", "x", 20, properties=user_property("where", "a/b c/#é")) == 0
    made = {name: [r.value for r in kafka.records(name)] for name in kafka.topics() if name.startswith(tenant)}
    assert made == {f"{tenant}-a_2fb_20c": [b"a/b c"], f"{tenant}-a__2fb": [b"a_2fb"], f"{tenant}-a_2fb": [b"a/b"],
                    f"{tenant}-a.b": [b"a.b"], f"{tenant}-a__b": [b"a_b"], f"{tenant}-a____b": [b"a__b"],
                    f"{tenant}-_2f": [b"/"], f"{tenant}.a_2fb_20c_2f_23_c3_a9": [b"x"]}
    assert c.publish_and_wait("x" * 240, "x", 30) == 0x90, "no legal name is that long"
    assert server.metrics().sum("millrace_messages_rejected_total", reason="topic_too_long") == 1


@pytest.mark.parametrize("rule, problem", [
    ({"mqtt": "a/{x}", "topic": "t/{x}"}, "a topic's name has only"),
    ({"mqtt": "a/{x}", "topic": "{x}"}, "can be empty"),
    ({"mqtt": "a/{x}/{y}", "topic": "{x}{y}.t"}, "two variables need a text between them"),
    ({"mqtt": "a/{x}", "topic": "t.{z}"}, "{z} is no variable"),
    ({"mqtt": "a/{x}", "topic": "t", "ack": "spooled"}, "spooled is reserved"),
])
def test_what_could_not_be_written_is_refused_when_it_is_loaded(make_config, tmp_path, rule, problem):
    path = write_config(make_config("k:9092", to_kafka=[rule]), tmp_path / "bad.yaml")
    done = run_command("check", "-c", path)
    assert done.returncode == 1 and problem in done.stderr
    assert done.stderr.startswith(f"{path}:"), "with its line"


def test_topics_are_made_up_to_the_limit(rules, kafka, tenant, clients):
    server = rules(kafka, {"mqtt": "n/{x}", "topic": f"{tenant}.{{x}}", "create": True},
                   {"mqtt": "fixed", "topic": f"{tenant}-fixed", "create": True}, rules={"max_topics": 3})
    assert f"{tenant}-fixed" in kafka.topics(), "a topic without variables is there at the start"
    c = clients(server)
    for packet_id in (1, 2, 3):
        c.publish(f"n/{packet_id}", "x", 1, packet_id)
    assert [c.expect_ack(PUBACK, n) for n in (1, 2, 3)] == [0, 0, 0]
    assert c.publish_and_wait("n/4", "x", 4) == 0x97
    assert c.publish_and_wait("n/1", "x", 5) == 0
    assert c.publish_and_wait("fixed", "x", 6) == 0
    c.publish("n/5", "x", 0)
    c.ping()
    metrics = server.metrics()
    assert metrics.sum("millrace_messages_rejected_total", route="to_kafka[0]", reason="too_many_topics") == 1
    assert metrics.sum("millrace_messages_dropped_total", route="to_kafka[0]", reason="too_many_topics") == 1
    assert metrics.sum("millrace_rule_topics") == 3
    assert {t for t in kafka.topics() if t.startswith(f"{tenant}.")} == {f"{tenant}.{n}" for n in (1, 2, 3)}


def test_partition_and_payload_fields(rules, kafka, tenant, clients):
    kafka.create(tenant)
    server = rules(kafka, {"mqtt": "#", "topic": tenant, "key": "{payload./device/id}", "partition": "{payload./p}"})
    c = clients(server)
    assert c.publish_and_wait("x", json.dumps({"device": {"id": "dé\"1"}, "p": 3}), 1) == 0
    assert c.publish_and_wait("x", "no json", 2) == 0x83
    [record] = kafka.records(tenant)
    assert (record.partition, record.key) == (3, 'dé"1'.encode())


def test_local_says_whether_subscribers_get_it(rules, kafka, tenant, clients):
    kafka.create(tenant)
    server = rules(kafka, {"mqtt": "quiet/#", "topic": tenant, "local": False}, {"mqtt": "loud/#", "topic": tenant})
    s, c = clients(server, V311), clients(server)
    assert s.subscribe([("#", 1)]) == [1]
    for packet_id, topic in enumerate(["quiet/1", "loud/1", "other"], 1):
        assert c.publish_and_wait(topic, topic, packet_id) == 0
    assert [s.expect_publish().topic for _ in range(2)] == ["loud/1", "other"]
    assert {r.value for r in kafka.records(tenant)} == {b"quiet/1", b"loud/1"}


def test_events_of_clients(rules, kafka, tenant, clients):
    kafka.create(tenant)
    server = rules(kafka, *({"event": event, "topic": tenant, "key": "{client_id}"}
                            for event in ("connect", "disconnect", "subscribe", "session_end")))
    c = clients(server, client_id="c1", user=f"a1@{tenant}", password="pw", keep_alive=30)
    assert c.subscribe([("a/#", 1)]) == [1]
    c.send(packet(14, 0, b"\x00\x00"))
    c.expect_closed()
    lost = clients(server, V311, client_id="c2")
    lost.close()
    found = until(lambda: [r for r in [kafka.records(tenant)] if len(r) == 7], "the events")[0]
    events = {}
    for record in found:
        event = json.loads(record.value)
        assert event["client_id"] == record.key.decode() and event["tenant"] == tenant and event["time"] > 1.7e12
        assert ("mqtt.event", event["event"].encode()) in record.headers
        assert ("content-type", b"application/json") in record.headers
        events.setdefault(event["client_id"], []).append(event)
    connect, subscribe, disconnect, end = events["c1"]
    assert (connect["event"], connect["user"], connect["device_id"]) == ("connect", f"a1@{tenant}", "d1")
    assert (connect["protocol"], connect["keep_alive_s"], connect["session_present"]) == ("5.0", 30, False)
    assert (subscribe["event"], subscribe["filters"]) == ("subscribe", [{"filter": "a/#", "code": 1}])
    assert (disconnect["event"], disconnect["by"], disconnect["reason"]) == ("disconnect", "client", "normal_disconnection")
    assert (end["event"], end["reason"]) == ("session_end", "expired")
    connect, disconnect, end = events["c2"]
    assert (disconnect["by"], disconnect["reason"], "user" in disconnect) == ("network", "connection_lost", False)
    assert server.metrics().ledger("to_kafka[1]") == {"in": 2, "acknowledged": 2, "rejected": 0, "dropped": 0, "waiting": 0}


def test_a_will_goes_by_the_rules(rules, kafka, tenant, clients):
    server = rules(kafka, {"mqtt": "gone/{who}", "topic": f"{tenant}.gone", "key": "{who}", "create": True})
    c = clients(server, V311, client_id="c1", will=("gone/c1", "bye", 1, False))
    c.close()
    [record] = until(lambda: kafka.records(f"{tenant}.gone"), "the will")
    assert (record.key, record.value) == (b"c1", b"bye")
    assert ("mqtt.client_id", b"c1") in record.headers


def test_hop_limit(rules, kafka, tenant, clients):
    kafka.create(tenant)
    server = rules(kafka, {"mqtt": "#", "topic": tenant})
    c = clients(server)
    hops = lambda n: user_property("mqtt.hops", str(n)) + user_property("mqtt.origin", "far/away")
    assert c.publish_and_wait("x", "1", 1, properties=hops(7)) == 0
    assert c.publish_and_wait("x", "2", 2, properties=hops(8)) == 0x83
    [record] = kafka.records(tenant)
    assert ("mqtt.hops", b"8") in record.headers and ("mqtt.origin", b"far/away") in record.headers
    assert server.metrics().sum("millrace_messages_rejected_total", reason="hop_limit") == 1


def test_explain_says_what_happens(rules, make_config, kafka, tenant, clients, tmp_path):
    """The record is what was foretold."""
    rule = {"mqtt": "plant/{site}", "topic": f"{tenant}.{{site}}", "key": "{user}", "headers": {"s": "{site}"}, "create": True}
    path = write_config(make_config(kafka.bootstrap, to_kafka=[rule]), tmp_path / "explain.yaml")
    done = run_command("explain", "publish", "-c", path, "--client", "c1", "--user", f"a1@{tenant}", "--topic", "plant/b 1",
                       "--payload", "21", "--property", "k=v", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    [foretold] = told["records"]
    server = rules(kafka, rule)
    c = clients(server, client_id="c1", user=f"a1@{tenant}", password="pw")
    assert c.publish_and_wait("plant/b 1", "21", 1, properties=user_property("k", "v")) == 0
    [record] = kafka.records(foretold["topic"])
    assert record.key.decode() == foretold["key"]
    assert [(name, value.decode()) for name, value in record.headers] == [(h["name"], h["value"]) for h in foretold["headers"]]
    assert told["ack"] == "quorum" and told["local"] is True
    done = run_command("explain", "publish", "-c", path, "--client", "c1", "--topic", "telemetry")
    assert done.returncode == 1 and "refused    forbidden" in done.stdout and "0x87" in done.stdout
