"""With a time limit for Kafka (`hono.delivery_timeout`, and `timeout` of a rule): devices are refused while Kafka is away, come
back and send again (docs/wire/device-data.md). Whatever was acknowledged is in Kafka; doubles come from sending again only
and are in the report, as properties of the test."""
import pytest

from lib.mqtt import V311, V5
from lib.resend import ResendLoad, check_resent
from lib.server import is_sanitized

MEMORY_BOUND = 48 << 20
TIMEOUT = "2500ms"
PARTLY_S = 3.2
PLANT = "plant/hall/a"
SHAPES = [(V311, "telemetry", 1), (V5, "event", 1), (V311, "telemetry", 50), (V5, "event", 50), (V311, PLANT, 1),
          (V5, PLANT, 50)]
ROUTES = ("telemetry", "event", "plant")
HANGS = [pytest.param(8, id="8s"), pytest.param(60, id="60s", marks=pytest.mark.long)]


@pytest.fixture
def config(make_config, tenant, fleet):
    def make(kafka, n):
        devices, users = fleet(n)
        rule = {"name": "plant", "mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", "key": "{client_id}", "create": True,
                "timeout": TIMEOUT}
        return make_config(kafka.bootstrap, devices=devices, to_kafka=[rule], hono={"delivery_timeout": TIMEOUT}), users
    return make


@pytest.fixture
def run_load():
    loads = []

    def start(*arguments, **options):
        loads.append(ResendLoad(*arguments, shapes=SHAPES, reconnects=True, **options))
        return loads[-1]

    yield start
    for load in loads:
        load.close()


@pytest.fixture
def check_kafka(tenant, record_property):
    def check(load, kafka):
        names = (f"hono.telemetry.{tenant}", f"hono.event.{tenant}", f"{tenant}.hall")
        counts = check_resent(load, [record for name in names for record in kafka.records(name)])
        resent = sum(sum(device.copies.values()) - device.next for device in load.devices)
        assert counts["duplicates"] <= resent
        for name, count in {"messages": load.sent, "sent again": resent, **counts}.items():
            record_property(name, count)
    return check


def check_end(server, load):
    """Each message was acknowledged in the end, and the server's ledger says what the clients saw."""
    assert load.acknowledged == load.sent == sum(len(device.done) for device in load.devices)
    metrics = server.metrics()
    metrics.check_ledger()
    for route in ROUTES:
        ledger = metrics.ledger(route)
        assert ledger["waiting"] == ledger["dropped"] == 0, f"{route}: {ledger}"
        unavailable = metrics.sum("millrace_messages_rejected_total", route=route, reason="unavailable")
        assert ledger["rejected"] == unavailable, f"{route}: {ledger}"
    assert metrics.sum("millrace_kafka_inflight_bytes") == 0
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND


def check_event(server, load):
    """Devices of MQTT 5 are told by a code and stay: to the last message what they saw is what the server counts."""
    sent, stored, refused = load.copies_of("event"), load.answers["event", 0], load.refused("event")
    assert sent == stored + refused
    assert server.metrics().ledger("event") == {"in": sent, "acknowledged": stored, "rejected": refused, "dropped": 0,
                                                "waiting": 0}


@pytest.mark.parametrize("seconds", HANGS)
def test_kafka_hangs_for_longer_than_the_limit(serve, config, own_kafka, run_load, check_kafka, seconds):
    settings, users = config(own_kafka, 36)
    server = serve(settings)
    # So slow that the messages of a window have different ages: at the end of the short hang some of them are over the limit.
    load = run_load(server.mqtt, users, per_device=None, rate=400)
    load.run(until=lambda: load.acknowledged >= 400)
    assert load.lost == 0 and not load.refused("event")
    for hang in (PARTLY_S, seconds):
        own_kafka.pause()
        load.run(seconds=hang)
        assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND
        own_kafka.resume()
        goal = load.acknowledged + 1000
        load.run(until=lambda: load.acknowledged >= goal)
    assert load.lost >= 18 and load.refused("event") and load.refused(PLANT)
    load.finish()
    load.run()
    check_kafka(load, own_kafka)
    check_end(server, load)
    check_event(server, load)


@pytest.mark.parametrize("restarts", [pytest.param([False], id="once"),
                                      pytest.param([False, True, False], id="three_times", marks=pytest.mark.long)])
def test_kafka_restarts(serve, config, own_kafka, run_load, check_kafka, restarts):
    settings, users = config(own_kafka, 18)
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
    check_kafka(load, own_kafka)
    check_end(server, load)
    check_event(server, load)


def test_kill_9_while_kafka_hangs(serve, config, own_kafka, run_load, check_kafka):
    """The worst of both: what was refused, what was on its way and what was never told."""
    settings, users = config(own_kafka, 18)
    server = serve(settings)
    settings["listeners"][0]["mqtt"] = "{}:{}".format(*server.mqtt)
    load = run_load(server.mqtt, users, per_device=None, rate=2000)
    for _ in range(3):
        goal = load.acknowledged + 1000
        load.run(until=lambda: load.acknowledged >= goal)
        own_kafka.pause()
        refused = load.refused("event")
        load.run(until=lambda: load.refused("event") > refused)
        server.kill()
        load.run(until=lambda: len(load.away) == len(load.devices))
        own_kafka.resume()
        server = serve(settings)
    goal = load.acknowledged + 1000
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()
    check_kafka(load, own_kafka)
    check_end(server, load)
