"""Kafka hangs and restarts, and millrace is killed, while devices publish through rules (emqx/emqx#17916, emqx/emqx#18951)."""
import pytest

from lib.mqtt import V311, V5
from lib.resend import ResendLoad, check_once, check_resent
from lib.server import is_sanitized

MEMORY_BOUND = 48 << 20
PLANT, ALARM = "plant/hall/a", "alarm/x"
SHAPES = [(V311, PLANT, 50), (V5, PLANT, 50), (V311, ALARM, 50), (V5, ALARM, 50)]
# The limit of a request is 10 s: a hang below it keeps the connection, one above it makes a new one.
HANGS = [pytest.param(12, id="12s"), pytest.param(60, id="60s", marks=pytest.mark.long)]


@pytest.fixture
def config(make_config, tenant, fleet):
    """config(kafka, n): two rules, one of them with two records for each message; the user names of n devices."""
    def make(kafka, n):
        devices, users = fleet(n)
        record = {"key": "{client_id}", "create": True}
        rules = [{"name": "plant", "mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", **record},
                 {"name": "alarm", "mqtt": "alarm/#", "actions": [{"topic": f"{tenant}-{name}", **record}
                                                                  for name in ("alarm", "audit")]}]
        return make_config(kafka.bootstrap, devices=devices, to_kafka=rules), users
    return make


@pytest.fixture
def run_load():
    loads = []

    def start(*arguments, **options):
        loads.append(ResendLoad(*arguments, shapes=SHAPES, **options))
        return loads[-1]

    yield start
    for load in loads:
        load.close()


def read(kafka, tenant):
    """What the load is to find, once with each of the two records of an alarm."""
    plant = kafka.records(f"{tenant}.hall")
    return [plant + kafka.records(f"{tenant}-{name}") for name in ("alarm", "audit")]


def check_end(server, load, kafka, tenant):
    """Nobody was refused: each message once, in order, and no connection lost."""
    assert load.lost == 0 and load.acknowledged == load.sent
    for records in read(kafka, tenant):
        check_once(load, records)
    metrics = server.metrics()
    metrics.check_ledger()
    for route, topic in (("plant", PLANT), ("alarm", ALARM)):
        sent = load.answers[topic, 0]
        assert metrics.ledger(route) == {"in": sent, "acknowledged": sent, "rejected": 0, "dropped": 0, "waiting": 0}
    assert metrics.sum("millrace_kafka_inflight_bytes") == 0
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND


@pytest.mark.parametrize("seconds", HANGS)
def test_rules_while_kafka_hangs(serve, config, own_kafka, tenant, run_load, seconds):
    settings, users = config(own_kafka, 40)
    server = serve(settings)
    load = run_load(server.mqtt, users, per_device=500)
    load.run(until=lambda: load.acknowledged >= 8000)
    own_kafka.pause()
    load.run(seconds=seconds)
    # A device that was quick may have nothing left to send.
    assert all(len(d.waiting) == min(d.window, load.per_device - len(d.done)) for d in load.devices), "every window is full"
    assert load.sent == load.acknowledged + sum(len(d.waiting) for d in load.devices), "none was acknowledged out of nothing"
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND
    own_kafka.resume()
    load.run()
    assert load.acknowledged == 20_000
    check_end(server, load, own_kafka, tenant)


@pytest.mark.parametrize("restarts", [pytest.param([False], id="once"),
                                      pytest.param([False, True, False], id="three_times", marks=pytest.mark.long)])
def test_rules_while_kafka_restarts(serve, config, own_kafka, tenant, run_load, restarts):
    settings, users = config(own_kafka, 20)
    server = serve(settings)
    load = run_load(server.mqtt, users, per_device=None, rate=1000)
    for is_orderly in restarts:
        goal = load.acknowledged + 500
        load.run(until=lambda: load.acknowledged >= goal)
        if not is_orderly:
            own_kafka.kill()
        restart = own_kafka.begin("restart")
        load.run(until=lambda: restart.poll() is not None)
        assert restart.returncode == 0
    goal = load.acknowledged + 500
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()
    check_end(server, load, own_kafka, tenant)


def test_rules_survive_kill_9(serve, config, kafka, tenant, run_load):
    """An acknowledged message is in the topic of each of its rule's actions, also in what was stored before the end."""
    settings, users = config(kafka, 20)
    server = serve(settings)
    settings["listeners"][0]["mqtt"] = "{}:{}".format(*server.mqtt)
    load = run_load(server.mqtt, users, per_device=500, reconnects=True)
    for _ in range(3):
        goal = load.acknowledged + 2000
        load.run(until=lambda: load.acknowledged >= goal)
        server.kill()
        load.run(until=lambda: len(load.away) == len(load.devices))
        for records in read(kafka, tenant):
            check_resent(load, records)
        server = serve(settings)
    load.run()
    assert load.acknowledged == 10_000 and load.lost == 3 * 20
    for records in read(kafka, tenant):
        counts = check_resent(load, records)
        assert len(records) == 10_000 + counts["duplicates"]
        assert counts["duplicates"] <= 3 * 20 * 50, "no more than was on its way"
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND
