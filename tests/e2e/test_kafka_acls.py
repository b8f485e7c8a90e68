"""What `millrace check --kafka-acls` prints is enough for Millrace and for a tenant's application, and lets it see nothing of another."""
import re
import subprocess

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from lib.mqtt import PUBACK, V311, Client
from lib.server import MILLRACE, run_command, write_config
from lib.wait import HANG_S, until

LINE = re.compile(r"--add --allow-principal (?P<user>\S+)(?P<operations>( --operation \w+)+) --(?P<type>topic|group|transactional-id) '(?P<name>[^']*)'"
                  r"(?P<prefixed> --resource-pattern-type prefixed)?")
APPLICATION = "limited"  # the other account of the cluster


def account(kafka, user):
    return {"bootstrap.servers": kafka.secure_bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": str(kafka.folder / "ca.pem"),
            "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": f"{user}-secret"}


def acls(path):
    done = subprocess.run([MILLRACE, "check", "-c", path, "--kafka-acls"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return [LINE.fullmatch(line) or pytest.fail(f"no arguments of kafka-acls.sh: {line}") for line in lines]


def constant(word):
    """As in DESCRIBE_CONFIGS, of DescribeConfigs."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).replace("-", "_").upper()


def grant(kafka, found, users):
    """Gives the accounts of `users` what was printed for their principals, and nothing else."""
    bindings = [AclBinding(ResourceType[constant(m["type"])], m["name"],
                           ResourcePatternType.PREFIXED if m["prefixed"] else ResourcePatternType.LITERAL,
                           f"User:{users[m['user']]}", "*", AclOperation[constant(operation)], AclPermissionType.ALLOW)
                for m in found if m["user"] in users for operation in m["operations"].split()[1::2]]
    assert bindings
    for future in kafka.admin.create_acls(bindings).values():
        future.result(HANG_S)


@pytest.fixture
def config(make_config, secure_kafka, tenant):
    """Two tenants, rules both ways, a registry in Kafka and commands by topics of instances; topics begin with a prefix of this test, so that it meets nothing of others."""
    properties = {name: value for name, value in account(secure_kafka, "millrace").items() if name != "bootstrap.servers"}
    config = make_config(secure_kafka.secure_bootstrap, instance=tenant, command={"ack_timeout": "1h", "ack_topic": "acks", "routing": "shared", "shared": True},
                         to_kafka=[{"mqtt": "plant/{site}", "topic": "plant.{site}", "create": True}, {"mqtt": "a", "topic": "a", "create": True}],
                         to_mqtt=[{"topic": "orders", "mqtt": "in", "tenant": tenant}, {"topic": "^ord.*", "mqtt": "in", "tenant": tenant}],
                         kafka={"properties": properties, "topic_prefix": f"{tenant}-", "group": f"{tenant}-millrace"})
    config["registry"] = {"shared": True}
    config["admin"] = {**config.get("admin", {}), "audit_topic": "audit"}
    config["tenants"][f"{tenant}b"] = {"devices": {"d1": {"auth_id": "a1", "password": "pw"}}}
    return config


def read(kafka, topic, group):
    """The first record, or why there is none for this account."""
    consumer = Consumer(account(kafka, APPLICATION) | {"group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(1), f"a record or an error of {topic}")
        return message.error().code() if message.error() else message.value()
    finally:
        consumer.close()


def write(kafka, topic, key, headers):
    outcome = []
    producer = Producer(account(kafka, APPLICATION))
    producer.produce(topic, b"v", key, headers=headers, on_delivery=lambda error, _: outcome.append(error.code() if error else None))
    assert producer.flush(HANG_S) == 0
    return outcome[0]


def test_the_least_permissions_are_enough_and_keep_tenants_apart(serve, config, secure_kafka, tenant, tmp_path):
    found = acls(write_config(config, tmp_path / "acls.yaml"))
    grant(secure_kafka, found, {"User:millrace": "millrace", f"User:{tenant}": APPLICATION})
    server = serve(config)
    until(lambda: "event=loaded" in server.log(), "what is configured to be loaded into the registry")
    assert "refused=0" in server.log()
    run_command("device", "create", tenant, "d9", "--api", f"http://{server.admin}")
    for topic in ("hono.notification.registry-device", "audit"):
        until(lambda name=f"{tenant}-{topic}": secure_kafka.records(name), f"what {topic} is told")
    with Client(server.mqtt, V311) as own, Client(server.mqtt, V311) as other:
        own.connect("own", user=f"a1@{tenant}", password="pw")
        other.connect("other", user=f"a1@{tenant}b", password="pw")
        for client in (own, other):
            assert client.subscribe([("c///q/#", 1)]) == [1]
            for topic in ("telemetry", "event", "a", "plant/hall"):
                assert client.publish_and_wait(topic, "x") == 0
        command = [("device_id", b"d1"), ("subject", b"set"), ("correlation-id", b"abc"), ("response-required", b"true"), ("ack-required", b"true")]
        assert write(secure_kafka, f"{tenant}-hono.command.{tenant}", "d1", command) is None
        got = own.expect_publish()
        own.send(bytes([PUBACK << 4, 2]) + got.packet_id.to_bytes(2, "big"))
        assert own.publish_and_wait("c///s/203abc/200", "ok") == 0

        for kind in ("telemetry", "event"):
            assert read(secure_kafka, f"{tenant}-hono.{kind}.{tenant}", f"{tenant}:app") in (b"x", None)
        assert read(secure_kafka, f"{tenant}-hono.command_response.{tenant}", f"{tenant}:app") == b"ok"
        assert b"received" in read(secure_kafka, f"{tenant}-acks.{tenant}", f"{tenant}:app")
        assert read(secure_kafka, f"{tenant}-acks.{tenant}b", f"{tenant}:app") == KafkaError.TOPIC_AUTHORIZATION_FAILED

        for kind in ("telemetry", "event", "command_response", "command"):
            assert read(secure_kafka, f"{tenant}-hono.{kind}.{tenant}b", f"{tenant}:app") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert read(secure_kafka, f"{tenant}-hono.event.{tenant}", f"{tenant}b:app") == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert write(secure_kafka, f"{tenant}-hono.command.{tenant}b", "d1", command) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert write(secure_kafka, f"{tenant}-hono.telemetry.{tenant}", "d1", []) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        other.ping()
    assert f"{tenant}-hono.command_internal.{tenant}" in secure_kafka.topics()
    assert server.stop() == 0
    assert f"{tenant}-hono.command_internal.{tenant}" not in secure_kafka.topics()


def test_what_rules_read_and_write_is_named_as_far_as_it_is_fixed(config, tenant, tmp_path):
    printed = {(m["type"], m["name"], bool(m["prefixed"])): m["operations"].split()[1::2]
               for m in acls(write_config(config, tmp_path / "acls.yaml")) if m["user"] == "User:millrace"}
    assert printed["topic", f"{tenant}-plant.", True] == ["Write", "Describe", "Create"]
    assert printed["topic", f"{tenant}-a", False] == ["Write", "Describe", "Create"]
    assert printed["topic", f"{tenant}-hono.notification.", True] == ["Write", "Describe", "Create"]
    assert printed["topic", f"{tenant}-audit", False] == ["Write", "Describe", "Create"]
    assert printed["topic", f"{tenant}-acks.", True] == ["Write", "Describe", "Create"]
    assert printed["topic", f"{tenant}-orders", False] == ["Read", "Describe"]
    assert printed["topic", f"{tenant}-ord", True] == ["Read", "Describe"]
    assert printed["topic", f"{tenant}-hono.command_internal.", True] == ["Read", "Write", "Describe", "Create", "Delete", "DescribeConfigs"]
    assert printed["group", f"{tenant}-millrace.", True] == ["Read"]
    assert printed["group", f"{tenant}-millrace.registry", False] == ["Read"]
    assert printed["transactional-id", f"{tenant}-millrace.registry.", True] == ["Write", "Describe"]
