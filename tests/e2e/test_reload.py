"""The configuration changes while the server runs: what asks for it, what it does to clients, and what cannot change."""
import signal
import struct

import pytest
import yaml

from lib.load import Load, check_exactly_once
from lib.mqtt import DISCONNECT, V5, V311, Client, packet
from lib.records import put, wait_position
from lib.wait import until

PASSWORD = "pw"
BAD_CREDENTIALS = {V311: 4, V5: 0x86}
ADMINISTRATIVE_ACTION = 0x98
RELOADS = 100
WATCHED_S = 1.5  # how long something has to stay away


class Reloading:
    """A running server and its file, which the test changes."""

    def __init__(self, serve, path, config):
        self.path, self.config = path, config
        self.write_in_place()
        self.server = serve(arguments=["-c", path])

    def text(self):
        return yaml.safe_dump(self.config, sort_keys=False)

    def write_in_place(self):
        self.path.write_text(self.text())

    def replace(self):
        fresh = self.path.with_suffix(".new")
        fresh.write_text(self.text())
        fresh.rename(self.path)

    def count(self, result):
        return self.server.metrics().sum("millrace_config_reload_total", result=result)

    def generation(self):
        return self.server.metrics().sum("millrace_config_generation")

    def reload(self, result="applied", how="replace"):
        """Changes the file and waits for that to be found out."""
        before = self.count(result)
        getattr(self, how)()
        until(lambda: self.count(result) > before, f"a reload with the result {result}; the log:\n{self.server.log()}")

    def hang_up(self):
        self.server.signal(signal.SIGHUP)

    def log_in(self, user, password=PASSWORD, version=V5, expect=0):
        client = Client(self.server.mqtt, version)
        client.connect(f"{user}-{version}", user=user, password=password, expect=expect)
        return client


@pytest.fixture
def reloading(serve, make_config, kafka, tmp_path):
    def make(bootstrap=None, **options):
        folder = tmp_path / "etc"
        folder.mkdir()
        return Reloading(serve, folder / "millrace.yaml", make_config(bootstrap or kafka.bootstrap, **options))
    return make


def is_alive(client):
    client.ping()
    return True


@pytest.mark.parametrize("how", ["replace", "write_in_place"])
def test_a_changed_file_is_found_and_a_new_device_can_log_in(reloading, tenant, kafka, how):
    r = reloading()
    with r.log_in("new@" + tenant, expect=BAD_CREDENTIALS[V5]), r.log_in("a1@" + tenant) as stays:
        r.config["tenants"][tenant]["devices"]["new"] = {"password": PASSWORD}
        r.reload(how=how)
        assert r.generation() == 2
        with r.log_in("new@" + tenant) as new:
            assert new.publish_and_wait("event", "hello") == 0
        assert is_alive(stays)
    assert [record.key for record in kafka.records(f"hono.event.{tenant}")] == [b"new"]


def test_a_mounted_config_map_is_exchanged(serve, make_config, kafka, tenant, tmp_path):
    """As Kubernetes does it: a link to a link to a folder, and the link in the middle turns."""
    mount = tmp_path / "mount"
    mount.mkdir()
    config = make_config(kafka.bootstrap)

    def turn(name):
        (mount / name).mkdir()
        (mount / name / "millrace.yaml").write_text(yaml.safe_dump(config))
        (mount / "..data_tmp").symlink_to(name)
        (mount / "..data_tmp").rename(mount / "..data")

    turn("..2026_1")
    (mount / "millrace.yaml").symlink_to("..data/millrace.yaml")
    server = serve(arguments=["-c", mount / "millrace.yaml"])
    for number in (2, 3):
        config["tenants"][tenant]["devices"][f"new-{number}"] = {"password": PASSWORD}
        turn(f"..2026_{number}")
        until(lambda: server.metrics().sum("millrace_config_generation") == number, f"generation {number}:\n{server.log()}")
        with Client(server.mqtt) as client:
            client.connect("c", user=f"new-{number}@{tenant}", password=PASSWORD)


def test_sighup_reads_secrets_again(reloading, tenant, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    r = reloading(devices={"d1": {"password": f"file:{secret}"}})
    with r.log_in("d1@" + tenant, "first") as before:
        secret.write_text("second\n")
        r.reload(how="hang_up")
        assert is_alive(before), "a changed password is asked for at the next CONNECT"
        r.log_in("d1@" + tenant, "first", expect=BAD_CREDENTIALS[V5]).close()
        r.log_in("d1@" + tenant, "second").close()
        r.reload("unchanged", how="hang_up")
        assert r.generation() == 2


def test_an_invalid_file_changes_nothing(reloading, tenant):
    r = reloading()
    devices = r.config["tenants"][tenant]["devices"]
    good = r.text()
    with r.log_in("a1@" + tenant) as client:
        devices["new"] = {"password": PASSWORD}
        r.config["limits"] = {"receive_maximun": 5, "topic_levels": 1}
        r.reload("failed")
        log = r.server.log()
        lines = r.text().splitlines()
        for word, why in (("receive_maximun", "did you mean receive_maximum?"), ("topic_levels", "4 to 65535")):
            at = next(i for i, line in enumerate(lines, 1) if word in line)
            assert any(f"file={r.path} line={at} " in line and why in line for line in log.splitlines()), log
        metrics = r.server.metrics()
        assert metrics.sum("millrace_config_generation") == 1
        assert metrics.sum("millrace_config_last_reload_successful") == 0
        assert metrics.sum("millrace_config_age_seconds") > 0
        r.log_in("new@" + tenant, expect=BAD_CREDENTIALS[V5]).close()
        assert is_alive(client)
        r.path.unlink()
        until(lambda: r.count("failed") == 2, "the missing file to be noticed")
        r.config = yaml.safe_load(good)
        r.reload("unchanged")
        assert r.server.metrics().sum("millrace_config_last_reload_successful") == 1
        assert is_alive(client)


def test_what_needs_a_restart_is_named_and_nothing_is_applied(reloading, tenant):
    r = reloading()
    r.config["workers"] = 1
    r.config["data_dir"] += "-elsewhere"
    r.config["listeners"][0]["mqtt"] = "127.0.0.1:1"
    r.config["tenants"][tenant]["devices"]["new"] = {"password": PASSWORD}
    r.reload("refused")
    lines = r.text().splitlines()
    for option, word in (("workers", "workers:"), ("data_dir", "data_dir:"), ("listeners[0].mqtt", "mqtt: ")):
        at = next(i for i, line in enumerate(lines, 1) if word in line)
        assert f"event=reload.refused file={r.path} line={at} option={option} " in r.server.log()
    assert r.generation() == 1
    r.log_in("new@" + tenant, expect=BAD_CREDENTIALS[V5]).close()


def test_a_fan_out_comes_with_a_restart_only(reloading):
    r = reloading()
    r.config["fanout"] = {}
    r.reload("refused")
    assert 'option=fanout why="needs a restart"' in r.server.log()


def test_a_topic_keeps_its_time_limit_until_a_restart(reloading, tenant):
    r = reloading(to_kafka=[{"mqtt": "a/#", "topic": f"{tenant}.a", "create": True, "timeout": "5s"}])
    r.config["to_kafka"][0]["timeout"] = "6s"
    r.reload("refused")
    assert f'why="to_kafka[0].timeout: needs a restart: topic {tenant}.a has had 5000 ms, not 6000 ms"' in r.server.log()


def test_devices_and_tenants_that_have_gone_are_thrown_out(reloading, tenant):
    r = reloading()
    other = tenant + "-other"
    r.config["tenants"][other] = {"devices": {"d": {"password": PASSWORD}}}
    r.reload()
    with (r.log_in("a1@" + tenant) as gone, r.log_in("a1@" + tenant, version=V311) as old, r.log_in("d@" + other) as off,
          r.log_in("ga@" + tenant) as stays):
        del r.config["tenants"][tenant]["devices"]["d1"]
        r.config["tenants"][other]["enabled"] = False
        r.reload()
        for client in (gone, off):
            assert client.expect(DISCONNECT).body == bytes([ADMINISTRATIVE_ACTION])
            client.expect_closed()
        old.expect_closed()
        assert is_alive(stays)
        r.log_in("a1@" + tenant, expect=BAD_CREDENTIALS[V5]).close()


def test_a_new_tenants_topics_are_there_before_it_is(reloading, tenant, kafka):
    r = reloading()
    other = tenant + "-new"
    r.config["tenants"][other] = {"devices": {"d": {"password": PASSWORD}}}
    r.config["to_kafka"] = [{"mqtt": "plain/#", "topic": f"{tenant}.plain", "create": True}]
    r.reload()
    topics = kafka.topics()
    assert {f"hono.{kind}.{other}" for kind in ("telemetry", "event", "command", "command_response")} <= topics
    assert f"{tenant}.plain" in topics
    with r.log_in("d@" + other) as client:
        assert client.publish_and_wait("telemetry", "x") == 0
        assert client.publish_and_wait("plain/1", "y", packet_id=2) == 0
    assert len(kafka.records(f"{tenant}.plain")) == 1


def test_while_kafka_is_away_only_what_needs_new_topics_waits(reloading, tenant, own_kafka):
    r = reloading(own_kafka.bootstrap)
    other = tenant + "-new"
    with r.log_in("a1@" + tenant) as gone:
        own_kafka.pause()
        r.config["tenants"][other] = {"devices": {"d": {"password": PASSWORD}}}
        r.replace()
        until(lambda: "event=reload.topics " in r.server.log(), "the reload to wait")
        assert r.generation() == 1
        del r.config["tenants"][other]
        del r.config["tenants"][tenant]["devices"]["d1"]
        r.reload()
        assert gone.expect_disconnect() == ADMINISTRATIVE_ACTION
        assert "event=reload.superseded" in r.server.log()
        r.config["tenants"][other] = {"devices": {"d": {"password": PASSWORD}}}
        r.replace()
        until(lambda: r.server.log().count("event=reload.topics ") == 2, "the next one to wait")
        own_kafka.resume()
        until(lambda: r.generation() == 3, "the waiting reload to be applied")
        r.log_in("d@" + other).close()


def test_the_process_may_end_while_a_reload_waits(reloading, tenant, own_kafka):
    r = reloading(own_kafka.bootstrap)
    own_kafka.pause()
    r.config["tenants"][tenant + "-new"] = {}
    r.replace()
    until(lambda: "event=reload.topics " in r.server.log(), "the reload to wait")
    assert r.server.stop() == 0


def test_the_log_level_changes(reloading, tenant):
    r = reloading()
    r.log_in("a1@" + tenant).close()
    assert "level=debug" not in r.server.log()
    r.config["log"] = {"levels": {"mqtt": "debug"}}
    r.reload()
    r.log_in("a1@" + tenant).close()
    until(lambda: "level=debug sub=mqtt event=connect.accepted" in r.server.log(), "a line at the level debug")
    r.config["log"] = {"level": "error"}
    r.reload()
    r.config["limits"] = {"receive_maximum": 500}
    r.reload()
    assert r.server.log().count("event=reload.applied") == 2, "the last one is not told any more"


def test_100_reloads_under_load_lose_and_refuse_nothing(reloading, tenant, kafka, fleet):
    devices, users = fleet(20)
    r = reloading(devices=devices)
    load = Load(r.server.mqtt, users, per_device=None, window=20, rate=2000)
    try:
        for number in range(RELOADS):
            r.config["limits"] = {"receive_maximum": 500 + number}
            r.config["tenants"][tenant]["devices"]["extra"] = {"password": str(number)}
            r.write_in_place()
            r.hang_up()
            load.run(until=lambda: r.count("applied") > number)
        load.finish()
        load.run()
        assert load.lost == 0 and load.acknowledged == load.sent > 0
        check_exactly_once(load, kafka.records(f"hono.telemetry.{tenant}"))
        ledger = r.server.metrics().ledger("telemetry")
        assert ledger["rejected"] == ledger["dropped"] == 0 and ledger["acknowledged"] == load.sent
    finally:
        load.close()
    assert r.generation() == RELOADS + 1


# --- rules from Kafka to MQTT ---

class Subscriber:
    """A client without a name that acknowledges what it gets."""

    def __init__(self, r, *filters):
        self.client = Client(r.server.mqtt, V5)
        self.client.connect("subscriber")
        assert self.client.subscribe([(f, 1) for f in filters]) == [1] * len(filters)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def take(self, n):
        """[(topic, payload)] of the next n messages."""
        got = []
        for _ in range(n):
            publish = self.client.expect_publish()
            self.client.send(packet(4, 0, struct.pack(">H", publish.packet_id)))
            got.append((publish.topic, publish.payload.decode()))
        return got


@pytest.fixture
def from_kafka(reloading, tenant):
    """A server with a consumer group of its own."""
    def make(bootstrap=None, **options):
        return reloading(bootstrap, kafka={"group": f"g-{tenant}"}, instance="one", **options)
    return make


def rule(topic, mqtt, **options):
    return {"topic": topic, "mqtt": mqtt, "from": "earliest"} | options


def test_a_rule_from_kafka_is_added_changed_and_removed(from_kafka, tenant, kafka):
    one, two, group = f"one-{tenant}", f"two-{tenant}", f"g-{tenant}.one"
    kafka.create(one)
    kafka.create(two)
    put(kafka.bootstrap, one, ("k", "1"))
    r = from_kafka()
    with Subscriber(r, "#") as subscriber:
        r.config["to_mqtt"] = [rule(one, "in/{key}")]
        r.reload(how="replace")
        assert subscriber.take(1) == [("in/k", "1")]

        r.config["to_mqtt"] = [rule(one, "changed/{key}"), rule(two, "two/{key}")]
        r.write_in_place()
        r.reload(how="hang_up")
        put(kafka.bootstrap, one, ("k", "2"))
        assert subscriber.take(1) == [("changed/k", "2")]
        put(kafka.bootstrap, two, ("k", "3"))
        assert subscriber.take(1) == [("two/k", "3")]

        r.config["to_mqtt"] = [rule(two, "two/{key}")]
        r.reload()
        wait_position(kafka.bootstrap, group, one, 2)
        put(kafka.bootstrap, one, ("k", "4"))
        put(kafka.bootstrap, two, ("k", "5"))
        assert subscriber.take(1) == [("two/k", "5")]
        subscriber.client.expect_silence(WATCHED_S)

        r.config["to_mqtt"] = [rule(one, "back/{key}")]
        r.reload()
        assert subscriber.take(1) == [("back/k", "4")], "it goes on where it stopped"
        wait_position(kafka.bootstrap, group, one, 3)
        del r.config["to_mqtt"]
        r.reload()
        until(lambda: r.server.metrics().sum("millrace_kafka_consumer_partitions", reader="rules") == 0, "all partitions to be left")
        put(kafka.bootstrap, one, ("k", "6"))
        subscriber.client.expect_silence(WATCHED_S)


def test_what_waits_keeps_the_rule_it_came_under(from_kafka, tenant, kafka):
    topic, group = f"held-{tenant}", f"g-{tenant}.one"
    kafka.create(topic)
    r = from_kafka(to_mqtt=[rule(topic, "old/{key}", hold="1h")])
    put(kafka.bootstrap, topic, *[("k", str(i)) for i in range(10)])
    until(lambda: r.server.metrics().sum("millrace_to_mqtt_held") == 10, "the records to wait")
    r.config["to_mqtt"] = []
    r.reload()
    with Subscriber(r, "#") as subscriber:
        assert subscriber.take(10) == [("old/k", str(i)) for i in range(10)]
    wait_position(kafka.bootstrap, group, topic, 10)


def test_rules_change_while_kafka_is_away(from_kafka, tenant, own_kafka):
    topic = f"away-{tenant}"
    own_kafka.create(topic)
    r = from_kafka(own_kafka.bootstrap)
    own_kafka.pause()
    r.config["to_mqtt"] = [rule(topic, "in/{key}")]
    r.reload()
    own_kafka.resume()
    with Subscriber(r, "#") as subscriber:
        put(own_kafka.bootstrap, topic, ("k", "1"))
        assert subscriber.take(1) == [("in/k", "1")]


def test_20_reloads_of_rules_while_records_flow_deliver_each_once_in_order(from_kafka, tenant, kafka):
    reloads, step = 20, 100
    always, sometimes, got = f"always-{tenant}", f"sometimes-{tenant}", []
    kafka.create(always)
    kafka.create(sometimes)
    r = from_kafka(to_mqtt=[rule(always, "a/0/{key}"), rule(sometimes, "s/0/{key}")])
    with Subscriber(r, "#") as subscriber:
        for number in range(1, reloads + 1):
            for topic in (always, sometimes):
                put(kafka.bootstrap, topic, *[("k", str(i)) for i in range((number - 1) * step, number * step)])
            r.config["to_mqtt"] = [rule(always, f"a/{number}/{{key}}")]
            if number % 2 == 0:
                r.config["to_mqtt"].append(rule(sometimes, f"s/{number}/{{key}}"))
            r.reload()
            got += subscriber.take(step)
        got += subscriber.take(reloads * step)
        subscriber.client.expect_silence(WATCHED_S)
        until(lambda: r.server.metrics().sum("millrace_to_mqtt_delivered_total") == 2 * reloads * step, "all to be settled")
    for first in "as":
        mine = [(topic.split("/"), payload) for topic, payload in got if topic.startswith(first)]
        assert [payload for _, payload in mine] == [str(i) for i in range(reloads * step)]
        generations = [int(levels[1]) for levels, _ in mine]
        assert generations == sorted(generations)
    assert r.server.metrics().sum("millrace_to_mqtt_dropped_total") == 0
    for topic in (always, sometimes):
        wait_position(kafka.bootstrap, f"g-{tenant}.one", topic, reloads * step)
