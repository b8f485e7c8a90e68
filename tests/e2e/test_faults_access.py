"""A Kafka with TLS, passwords and access control: who may not write somewhere is told so, and nobody else notices
(SolaceProducts/pubsubplus-connector-kafka-source#75)."""
import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from lib.mqtt import PUBACK, PUBREC, V311, V5, Client
from lib.resend import ResendLoad, check_once
from lib.server import is_sanitized
from lib.wait import HANG_S, until

MEMORY_BOUND = 48 << 20
DENIED = 0x87
MANY = 500
PLANT = "plant/hall/a"
SHAPES = [(V311, "telemetry", 50), (V5, "telemetry", 50), (V311, PLANT, 50), (V5, PLANT, 50)]


def forbid(kafka, user, operation, topic):
    """Takes back what Kafka.allow() gave."""
    rule = AclBindingFilter(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
                            AclOperation[operation.upper()], AclPermissionType.ALLOW)
    for future in kafka.admin.delete_acls([rule]).values():
        assert future.result(HANG_S)


@pytest.fixture
def server(serve, make_config, secure_kafka, tenant, fleet):
    """The account may write telemetry and the topics `hall` and `both`, only see events and `shut`, and make no topics."""
    devices, users = fleet(22)
    hono = [f"hono.{kind}.{tenant}" for kind in ("telemetry", "event", "command", "command_response")]
    own = [f"{tenant}.{name}" for name in ("hall", "both", "shut")]
    secure_kafka.create(*hono, *own)
    for name in hono + own:
        secure_kafka.allow("millrace", "describe", name)
    for name in (hono[0], *own[:2]):
        secure_kafka.allow("millrace", "write", name)
    rules = [
        {"name": "plant", "mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", "key": "{client_id}"},
        {"name": "both", "mqtt": "both", "actions": [{"topic": f"{tenant}.both"}, {"topic": f"{tenant}.shut"}]},
        {"name": "made", "mqtt": "made/{x}", "topic": f"{tenant}-made.{{x}}", "create": True},
    ]
    properties = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(secure_kafka.folder / "ca.pem"),
                  "sasl.mechanism": "PLAIN", "sasl.username": "millrace", "sasl.password": "millrace-secret"}
    server = serve(make_config(secure_kafka.secure_bootstrap, devices=devices, to_kafka=rules,
                               kafka={"properties": properties}))
    server.users = users
    return server


def refuse(server, load, name, topic, qos):
    """While others publish: 5.0 gets the code, for that publish alone, and stays; 3.1.1 is closed."""
    user = server.users[name]
    with Client(server.mqtt, V5) as new, Client(server.mqtt, V311) as old:
        new.connect(f"{name}-5", user=user, password="pw")
        new.publish(topic, "x", qos, 1)
        new.publish("telemetry", f"{name} 0 0", 1, 2)
        load.run(until=lambda: new.fill(0))
        assert new.expect_ack(PUBREC if qos == 2 else PUBACK, 1) == DENIED
        assert new.expect_ack(PUBACK, 2) == 0
        new.ping()
        old.connect(f"{name}-4", user=user, password="pw")
        old.publish(topic, "x", qos, 1)
        load.run(until=lambda: old.fill(0) is False)
        old.expect_closed()


def test_one_without_permission_is_told_and_nobody_else(server, secure_kafka, tenant):
    spare = [name for name in server.users][20:]
    load = ResendLoad(server.mqtt, dict(list(server.users.items())[:20]), per_device=None, rate=1000, shapes=SHAPES)
    load.run(until=lambda: load.acknowledged >= 500)

    # Device data, a rule with two records of which one is refused, a topic that may not be made, one that may not be written.
    for topic in ("event", "both", "made/1", "plant/shut/a"):
        for qos in (1, 2):
            refuse(server, load, spare[0], topic, qos)
    with Client(server.mqtt, V5) as many:
        many.connect("many", user=server.users[spare[0]], password="pw")
        for number in range(1, MANY + 1):
            many.publish("event", "x", 1, number)
        load.run(until=lambda: many.fill(0))
        assert [many.expect_ack(PUBACK, number) for number in range(1, MANY + 1)] == [DENIED] * MANY
    with Client(server.mqtt, V5) as zero:
        zero.connect("zero", user=server.users[spare[0]], password="pw")
        zero.publish("plant/shut/a", "x", 0)
        zero.ping()

    # Permission is taken away in the middle, and given back.
    forbid(secure_kafka, "millrace", "write", f"{tenant}.both")
    secure_kafka.allow("millrace", "write", f"{tenant}.shut")
    until(lambda: server.metrics().sum("millrace_messages_dropped_total", route="plant") == 1, "the report of QoS 0")
    with Client(server.mqtt, V5) as c:
        c.connect("c", user=server.users[spare[1]], password="pw")
        until(lambda: c.publish_and_wait("plant/shut/a", "x") == 0, "the permission")
        until(lambda: c.publish_and_wait("plant/both/a", "x") == DENIED, "its end")
    goal = load.acknowledged + 500
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()

    assert load.lost == 0 and load.acknowledged == load.sent and not load.refused("telemetry") and not load.refused(PLANT)
    telemetry = secure_kafka.records(f"hono.telemetry.{tenant}")
    mine = {device.id for device in load.devices}
    check_once(load, [r for r in telemetry if r.key.decode() in mine] + secure_kafka.records(f"{tenant}.hall"))
    assert len([r for r in telemetry if r.key.decode() == spare[0]]) == 8, "what a refused client published besides"
    assert secure_kafka.records(f"hono.event.{tenant}") == []
    assert not [name for name in secure_kafka.topics() if name.startswith(f"{tenant}-made")]
    metrics = server.metrics()
    metrics.check_ledger()
    for route, n in (("event", 4 + MANY), ("both", 4), ("made", 4)):
        assert metrics.ledger(route) == {"in": n, "acknowledged": 0, "rejected": n, "dropped": 0, "waiting": 0}
        assert metrics.sum("millrace_messages_rejected_total", route=route, reason="denied") == n
    plant = metrics.ledger("plant")
    assert plant["rejected"] == metrics.sum("millrace_messages_rejected_total", route="plant", reason="denied") >= 5
    assert plant["dropped"] == metrics.sum("millrace_messages_dropped_total", route="plant", reason="denied") == 1
    assert plant["waiting"] == 0
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND
    load.close()
