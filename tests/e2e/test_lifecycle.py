"""Start, signals and end."""
import resource
import signal
import socket

import pytest

from lib.load import Load, check_acknowledged
from lib.mqtt import PUBACK, V311, V5, Client
from lib.server import run_command
from lib.wait import until


def topics_of(tenant):
    return {f"hono.{kind}.{tenant}" for kind in ("telemetry", "event", "command", "command_response")}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_topics_of_all_tenants_exist_when_it_is_ready(serve, make_config, kafka, tenant):
    config = make_config(kafka.bootstrap)
    second, disabled = f"{tenant}-b", f"{tenant}-c"
    config["tenants"][second] = {"devices": {"d1": {"password": "pw"}}}
    config["tenants"][disabled] = {"enabled": False}
    assert not topics_of(tenant) & kafka.topics()
    server = serve(config)
    topics = kafka.topics()
    assert topics_of(tenant) | topics_of(second) <= topics
    assert not topics_of(disabled) & topics
    for name in (tenant, second):
        with Client(server.mqtt) as c:
            c.connect(name, user=f"{'a1' if name == tenant else 'd1'}@{name}", password="pw")
            assert c.publish_and_wait("t", name) == 0
        record, = kafka.records(f"hono.telemetry.{name}")
        assert (record.key, record.value) == (b"d1", name.encode()), "each tenant in its own topic"


def test_topics_have_the_cluster_s_default_partitions_and_stay_as_they_are(serve, make_config, kafka, tenant):
    kafka.create(f"hono.event.{tenant}", partitions=7)
    serve(make_config(kafka.bootstrap))
    found = kafka.admin.list_topics(timeout=60).topics
    assert len(found[f"hono.telemetry.{tenant}"].partitions) == 4
    assert len(found[f"hono.event.{tenant}"].partitions) == 7


def test_prefix_stands_before_every_topic(serve, make_config, kafka, tenant):
    server = serve(make_config(kafka.bootstrap, kafka={"topic_prefix": "plant1."}))
    with Client(server.mqtt) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        assert c.publish_and_wait("t", "x") == 0
    assert len(kafka.records(f"plant1.hono.telemetry.{tenant}")) == 1
    assert not topics_of(tenant) & kafka.topics()


def test_kafka_that_comes_later(serve, make_config, own_kafka, tenant):
    own_kafka.stop()
    admin = f"127.0.0.1:{free_port()}"
    config = make_config(own_kafka.bootstrap, admin={"listen": admin})
    server = serve(config, wait=False)
    assert until(lambda: server.get("/readyz", admin)[0] and server.get("/readyz", admin), "the port") == (503, "starting\n")
    assert server.get("/livez", admin)[0] == 200
    own_kafka.start()
    server.ready()
    assert server.get("/readyz") == (200, "ok\n")
    assert topics_of(tenant) <= own_kafka.topics()


def test_sigterm_before_it_is_ready_ends_it(serve, make_config, tmp_path):
    admin = f"127.0.0.1:{free_port()}"
    server = serve(make_config(f"127.0.0.1:{free_port()}", admin={"listen": admin}), wait=False)
    until(lambda: server.get("/readyz", admin)[0], "the port")
    assert server.stop() == 0


def test_sigterm_under_load_loses_nothing_that_was_acknowledged(serve, make_config, kafka, tenant, fleet):
    devices, users = fleet(20)
    server = serve(make_config(kafka.bootstrap, devices=devices))
    load = Load(server.mqtt, users, per_device=100_000, window=100)
    load.run(until=lambda: load.acknowledged >= 5000)
    server.signal(signal.SIGTERM)
    load.run(until=lambda: len(load.away) == len(load.devices))
    assert server.wait() == 0
    check_acknowledged(load, kafka.records(f"hono.telemetry.{tenant}"))
    load.close()


def test_sigterm_waits_for_what_is_on_its_way(serve, make_config, own_kafka, tenant):
    """With Kafka hanging: nothing is acknowledged before it is stored, new clients are refused, MQTT 5 is told why it ends."""
    server = serve(make_config(own_kafka.bootstrap, drain_timeout="1m"))
    with Client(server.mqtt, V5) as v5, Client(server.mqtt, V311) as v311, Client(server.mqtt, V5) as idle:
        for number, c in enumerate((v5, v311, idle)):
            c.connect(f"c{number}", user=f"a1@{tenant}", password="pw")
        own_kafka.pause()
        v5.publish("telemetry", "1", 1, 1)
        v311.publish("telemetry", "2", 1, 2)
        v5.ping()
        v311.ping()
        server.signal(signal.SIGTERM)
        assert idle.expect_disconnect() == 0x8B
        until(lambda: server.get("/readyz") == (503, "draining\n"), "draining")
        with pytest.raises(ConnectionRefusedError):
            until(lambda: Client(server.mqtt).close(), "the listeners to close")
        v5.expect_silence(1.5)
        own_kafka.resume()
        assert v5.expect_ack(PUBACK, 1) == 0
        assert v311.expect_ack(PUBACK, 2) == 0
        assert v5.expect_disconnect() == 0x8B
        v311.expect_closed()
    assert server.wait() == 0
    assert sorted(r.value for r in own_kafka.records(f"hono.telemetry.{tenant}")) == [b"1", b"2"]


def test_sigterm_gives_up_at_its_time_limit_without_a_false_acknowledgement(serve, make_config, own_kafka, tenant):
    server = serve(make_config(own_kafka.bootstrap, drain_timeout="1s"))
    with Client(server.mqtt, V311) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        own_kafka.pause()
        c.publish("telemetry", "x", 1, 1)
        c.ping()
        server.signal(signal.SIGTERM)
        c.expect_closed()
        assert server.wait() == 0
    own_kafka.resume()


def test_sighup_does_not_end_it(serve, make_config, kafka, tenant):
    server = serve(make_config(kafka.bootstrap))
    with Client(server.mqtt) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        server.signal(signal.SIGHUP)
        until(lambda: "event=reload." in server.log(), "its log line")
        assert c.publish_and_wait("telemetry", "still here") == 0


def test_sigint_ends_it_in_order(serve, make_config, kafka):
    server = serve(make_config(kafka.bootstrap))
    server.signal(signal.SIGINT)
    assert server.wait() == 0


def test_port_in_use_is_told(serve, make_config, kafka, tmp_path):
    config = make_config(kafka.bootstrap)
    server = serve(config)
    mqtt, admin = "{}:{}".format(*server.mqtt), server.admin
    for taken in ({"mqtt": mqtt}, {"http": mqtt}, {"admin": admin}):
        flags = {"mqtt": "127.0.0.1:0", "http": "127.0.0.1:0", "admin": "127.0.0.1:0"} | taken
        done = run_command("serve", "--dev", "--data", tmp_path / "other",
                           *(word for name, address in flags.items() for word in (f"--{name}", address)))
        assert done.returncode == 1 and "Address already in use" in done.stderr, f"{taken}: {done}"
        assert "ready" not in done.stdout
        assert next(iter(taken.values())) in done.stderr


def test_open_descriptors_are_raised_to_the_hard_limit(serve, make_config, kafka):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = serve(make_config(kafka.bootstrap))
    assert server.metrics().sum("process_max_fds") == hard >= soft
