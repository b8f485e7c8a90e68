"""`millrace serve --dev`: no file, no Kafka, nothing to prepare."""
import subprocess

import pytest

from lib.mqtt import PUBACK, V311, V5, Client
from lib.wait import HANG_S

DEVICE = {"user": "sensor-1@demo", "password": "demo-secret"}
GATEWAY = {"user": "gateway-1@demo", "password": "demo-secret"}
ANONYMOUS_MUST_NOT = ["telemetry", "t", "event", "e", "t//sensor-1", "telemetry/demo/sensor-1"]


def kcat(bootstrap, topic):
    """(key, headers, value) of every record, by kcat."""
    done = subprocess.run(["kcat", "-C", "-b", bootstrap, "-t", topic, "-e", "-q", "-X", "fetch.wait.max.ms=10", "-f", r"%k|%h|%s\n"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S, check=True)
    return [tuple(line.split("|")) for line in done.stdout.splitlines()]


def test_embedded_kafka_is_announced(dev, tmp_path):
    assert dev.is_embedded
    assert (tmp_path / "data" / "kafka.bootstrap").read_text() == dev.kafka + "\n"
    assert dev.get("/readyz") == (200, "ok\n")
    assert dev.get("/livez")[0] == 200
    assert "5 MB" in dev.log() and "in memory" in dev.log(), "its limits are told at the start"


@pytest.mark.tsan
@pytest.mark.parametrize("version", [V311, V5])
def test_telemetry_and_event_reach_the_embedded_kafka(dev, version):
    with Client(dev.mqtt, version) as c:
        c.connect("c1", **DEVICE)
        assert c.publish_and_wait("telemetry", '{"temp": 21}', 1) == 0
        assert c.publish_and_wait("e/?content-type=text%2Fplain", "smoke", 2) == 0
    (key, headers, value), = kcat(dev.kafka, "hono.telemetry.demo")
    assert (key, value) == ("sensor-1", '{"temp": 21}')
    assert "device_id=sensor-1" in headers and "orig_address=telemetry" in headers
    (key, headers, value), = kcat(dev.kafka, "hono.event.demo")
    assert (key, value) == ("sensor-1", "smoke")
    assert "content-type=text/plain" in headers and "qos=1" in headers


@pytest.mark.parametrize("version", [V311, V5])
def test_anonymous_clients_exchange_plain_topics(dev, version):
    with Client(dev.mqtt, version) as subscriber, Client(dev.mqtt, version) as publisher:
        subscriber.connect("reader")
        assert subscriber.subscribe([("plant/+/temp", 1)]) == [1]
        publisher.connect("writer")
        assert publisher.publish_and_wait("plant/7/temp", "21.5") == 0
        message = subscriber.expect_publish()
        assert (message.topic, message.payload, message.qos, message.retain) == ("plant/7/temp", b"21.5", 1, False)
    assert dev.metrics().sum("millrace_kafka_records_total") == 0, "without a rule a plain topic is not Kafka's"


def test_device_topics_are_refused_to_anonymous_clients(dev):
    with Client(dev.mqtt, V5) as c:
        c.connect("nobody")
        for topic in ANONYMOUS_MUST_NOT:
            assert c.publish_and_wait(topic, "x") == 0x87, topic
    for topic in ANONYMOUS_MUST_NOT:
        with Client(dev.mqtt, V311) as c:
            c.connect("nobody")
            c.publish(topic, "x", 1)
            c.expect_closed()
    assert kcat(dev.kafka, "hono.telemetry.demo") == kcat(dev.kafka, "hono.event.demo") == []


def test_gateway_speaks_for_the_device_behind_it(dev):
    keys = {"t//sensor-2": "sensor-2", "telemetry/demo/sensor-2": "sensor-2", "t": "gateway-1", "t//gateway-1": "gateway-1"}
    with Client(dev.mqtt, V5) as c:
        c.connect("gw", **GATEWAY)
        for topic in keys:
            assert c.publish_and_wait(topic, topic) == 0
    assert {value: key for key, _, value in kcat(dev.kafka, "hono.telemetry.demo")} == keys


def test_gateway_does_not_speak_for_others(dev):
    codes = {"t//sensor-1": 0x87, "t/other/sensor-2": 0x87, "t//nobody": 0x90}
    with Client(dev.mqtt, V5) as c:
        c.connect("gw", **GATEWAY)
        assert {topic: c.publish_and_wait(topic, "x") for topic in codes} == codes
        assert c.publish_and_wait("t//sensor-2", "y", 2) == 0, "its connection stays"
    for topic in codes:
        with Client(dev.mqtt, V311) as c:
            c.connect("gw", **GATEWAY)
            c.publish(topic, "x", 1)
            c.expect_closed()
    assert [record[0] for record in kcat(dev.kafka, "hono.telemetry.demo")] == ["sensor-2"]


def test_nothing_of_this_is_lost_at_qos_0(dev):
    with Client(dev.mqtt, V311) as c:
        c.connect("c1", **DEVICE)
        for number in range(100):
            c.publish("t", str(number))
        assert c.publish_and_wait("t", "last") == 0
    values = [value for _, _, value in kcat(dev.kafka, "hono.telemetry.demo")]
    assert values == [str(number) for number in range(100)] + ["last"]


def test_mosquitto_clients_are_served(dev):
    host, port = dev.mqtt
    common = ["-h", host, "-p", str(port), "-q", "1"]
    run = lambda *command: subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S)
    for version in ("mqttv31", "mqttv311", "mqttv5"):
        login = ["-V", version, "-u", "sensor-1@demo", "-P", "demo-secret"]
        assert run("mosquitto_pub", *common, *login, "-t", "telemetry", "-m", version).returncode == 0
        assert run("mosquitto_pub", *common, "-V", version, "-t", f"last/{version}", "-m", "kept", "-r").returncode == 0
        heard = run("mosquitto_sub", *common, "-V", version, "-t", "last/#", "-C", "1", "-v", "--retained-only")
        assert heard.stdout.startswith("last/mqttv"), heard
        wrong = run("mosquitto_pub", *common, "-V", version, "-u", "sensor-1@demo", "-P", "no", "-t", "t", "-m", "x")
        assert wrong.returncode != 0
    assert [value for _, _, value in kcat(dev.kafka, "hono.telemetry.demo")] == ["mqttv31", "mqttv311", "mqttv5"]


def test_a_real_cluster_takes_the_place_of_the_embedded_one(serve, kafka, tmp_path):
    server = serve(arguments=["--dev", "--mqtt", "127.0.0.1:0",
                              "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", tmp_path / "data",
                              "--kafka", kafka.bootstrap])
    assert not server.is_embedded and server.kafka == kafka.bootstrap
    before = len(kafka.records("hono.telemetry.demo"))
    with Client(server.mqtt) as c:
        c.connect("c1", **DEVICE)
        c.publish("telemetry", "real", 1, 7)
        assert c.expect_ack(PUBACK, 7) == 0
    assert [r.value for r in kafka.records("hono.telemetry.demo")[before:]] == [b"real"]
