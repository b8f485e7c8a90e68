"""Nothing is lost, doubled or out of order: load while Kafka hangs and restarts, and while millrace is killed.
(emqx/emqx#17916, emqx/emqx#18951, aklivity/zilla#1164.)"""
import pytest

from lib.load import Load, check_acknowledged, check_exactly_once, numbers_by_device
from lib.mqtt import PUBCOMP, PUBREC, PUBREL, Client, packet
from lib.wait import until

HANG_S = 60  # librdkafka's default limit of a request is as long: what is shorter would not try it


def topic_of(tenant):
    return f"hono.telemetry.{tenant}"


@pytest.fixture
def run_load():
    loads = []

    def start(*arguments, **options):
        loads.append(Load(*arguments, **options))
        return loads[-1]

    yield start
    for load in loads:
        load.close()


def test_50000_publishes_with_kafka_hanging_for_60_seconds(serve, make_config, own_kafka, tenant, fleet, run_load):
    devices, users = fleet(50)
    server = serve(make_config(own_kafka.bootstrap, devices=devices))
    load = run_load(server.mqtt, users, per_device=1000, window=100)
    load.run(until=lambda: load.acknowledged >= 20_000)
    own_kafka.pause()
    load.run(seconds=HANG_S)
    frozen = load.acknowledged
    assert frozen < 50_000 and load.sent == frozen + 50 * 100, "every window is full, and none was acknowledged out of nothing"
    assert load.pongs == load.pings > 0, "within their windows clients are still served"
    own_kafka.resume()
    load.run()
    assert load.acknowledged == 50_000 and load.lost == 0
    check_exactly_once(load, own_kafka.records(topic_of(tenant)))
    ledger = server.metrics().ledger("telemetry")
    assert ledger == {"in": 50_000, "acknowledged": 50_000, "rejected": 0, "dropped": 0, "waiting": 0}


def test_kafka_restarted_three_times_under_load(serve, make_config, own_kafka, tenant, fleet, run_load):
    devices, users = fleet(20)
    server = serve(make_config(own_kafka.bootstrap, devices=devices))
    load = run_load(server.mqtt, users, per_device=None, window=50, rate=1000)
    for is_orderly in (True, False, True):
        goal = load.acknowledged + 1000
        load.run(until=lambda: load.acknowledged >= goal)
        if not is_orderly:
            own_kafka.kill()
        restart = own_kafka.begin("restart")
        load.run(until=lambda: restart.poll() is not None)
        assert restart.returncode == 0
    goal = load.acknowledged + 1000
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()
    assert load.lost == 0 and load.acknowledged == load.sent
    check_exactly_once(load, own_kafka.records(topic_of(tenant)))


def test_every_acknowledged_message_survives_kill_9(serve, make_config, kafka, tenant, fleet, run_load):
    devices, users = fleet(20)
    config = make_config(kafka.bootstrap, devices=devices)
    server = serve(config)
    config["listeners"][0]["mqtt"] = "{}:{}".format(*server.mqtt)
    load = run_load(server.mqtt, users, per_device=1000, window=100, reconnects=True)
    for share in (1, 2, 3):
        goal = load.acknowledged + 3000
        load.run(until=lambda: load.acknowledged >= goal)
        server.kill()
        load.run(until=lambda: len(load.away) == len(load.devices))
        check_acknowledged(load, kafka.records(topic_of(tenant)))
        server = serve(config)
    load.run()
    assert load.acknowledged == 20_000 and load.lost == 3 * 20
    records = kafka.records(topic_of(tenant))
    check_acknowledged(load, records)
    numbers = numbers_by_device(records)
    assert all(set(numbers[device.id]) == set(range(1000)) for device in load.devices)


def test_one_device_with_a_wide_window_keeps_its_order(serve, make_config, kafka, tenant, fleet, run_load):
    devices, users = fleet(1)
    server = serve(make_config(kafka.bootstrap, devices=devices))
    load = run_load(server.mqtt, users, per_device=20_000, window=900)
    load.run()
    check_exactly_once(load, kafka.records(topic_of(tenant)))


@pytest.mark.tsan
@pytest.mark.parametrize("qos", [0, 2])
def test_count_in_is_count_out(serve, make_config, kafka, tenant, fleet, qos):
    """100 clients, 100 messages each, one connection for each: every record has its payload."""
    devices, users = fleet(100)
    server = serve(make_config(kafka.bootstrap, devices=devices))
    clients = [(name, Client(server.mqtt)) for name in users]
    for name, c in clients:
        c.connect(name, user=users[name], password="pw")
        for number in range(100):
            c.publish("telemetry", f"{name} {number}", qos, number + 1)
    for name, c in clients:
        if qos == 2:
            for number in range(100):
                assert c.expect_ack(PUBREC, number + 1) == 0
            for number in range(100):
                c.send(packet(PUBREL, 2, (number + 1).to_bytes(2, "big")))
            for number in range(100):
                assert c.expect_ack(PUBCOMP, number + 1) == 0
        c.ping()
        c.close()
    until(lambda: server.metrics().ledger("telemetry")["acknowledged"] == 10_000, "all records")
    numbers = numbers_by_device(kafka.records(topic_of(tenant)))
    assert numbers == {name: list(range(100)) for name in users}
