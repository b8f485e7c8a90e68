"""Three nodes, three replicas of which two have to have a record: the node that leads every partition is killed under load
(spec/mqtt-kafka section 4, case 3; mission, Ingest 8)."""
import pytest
from confluent_kafka.admin import NewTopic

from lib.kafka import Kafka, run
from lib.mqtt import V311, V5, Client
from lib.resend import ResendLoad, check_once
from lib.server import is_sanitized
from lib.wait import HANG_S, until

MEMORY_BOUND = 48 << 20
LEADER, OTHERS = 1, (2, 3)
PLANT = "plant/hall/a"
SHAPES = [(V311, "telemetry", 50), (V5, "event", 50), (V311, PLANT, 50), (V5, PLANT, 1)]


class Cluster(Kafka):
    def create_led(self, *names):
        """Topics of which the same node leads every partition."""
        replicas = [[LEADER, *OTHERS], [LEADER, *reversed(OTHERS)], [LEADER, *OTHERS]]
        topics = [NewTopic(name, len(replicas), replica_assignment=replicas) for name in names]
        for future in self.admin.create_topics(topics).values():
            future.result(HANG_S)
        until(lambda: all(self.leaders(name) == {LEADER} for name in names), "the leader to take office")

    def partitions(self, name):
        return self.admin.list_topics(name, timeout=HANG_S).topics[name].partitions.values()

    def leaders(self, name):
        return {partition.leader for partition in self.partitions(name)}

    def is_whole(self, name):
        """Every replica has all there is."""
        return all(len(partition.isrs) == 3 for partition in self.partitions(name))

    def kill_node(self, node):
        run("stop", self.folder, "--node", node, "--signal", "KILL")


@pytest.fixture
def cluster(tmp_path):
    nodes = Cluster(tmp_path / "three", "--nodes", "3", "--heap", "320m")
    yield nodes
    nodes.stop()


def test_the_leader_is_lost_under_load(serve, make_config, cluster, tenant, fleet):
    names = [f"hono.telemetry.{tenant}", f"hono.event.{tenant}", f"{tenant}.hall"]
    cluster.create_led(*names)
    devices, users = fleet(20)
    rule = {"name": "plant", "mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", "key": "{client_id}"}
    server = serve(make_config(cluster.bootstrap, devices=devices, to_kafka=[rule]))
    load = ResendLoad(server.mqtt, users, per_device=None, rate=1000, shapes=SHAPES)
    load.run(until=lambda: load.acknowledged >= 2000)

    cluster.kill_node(LEADER)
    goal = load.sent + 2000  # beyond what waits at this moment
    load.run(until=lambda: load.acknowledged >= goal)
    assert all(cluster.leaders(name) <= set(OTHERS) for name in names)
    with Client(server.mqtt, V5) as c:
        c.connect("new", user=next(iter(users.values())), password="pw")
        assert c.publish_and_wait("plant/other/a", "x") == 0x90, "what Kafka has not is told, also without the leader"

    # It comes back, and what was written without it is there when another one is lost.
    restart = cluster.begin("restart", "--node", str(LEADER))
    load.run(until=lambda: restart.poll() is not None)
    assert restart.returncode == 0
    until(lambda: all(cluster.is_whole(name) for name in names), "the replicas to catch up")
    cluster.kill_node(cluster.leaders(names[0]).pop())
    goal = load.sent + 2000
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()

    assert load.lost == 0 and load.acknowledged == load.sent
    check_once(load, [record for name in names for record in cluster.records(name)])
    metrics = server.metrics()
    metrics.check_ledger()
    for route, topic in (("telemetry", "telemetry"), ("event", "event"), ("plant", PLANT)):
        refused = int(route == "plant")
        sent = load.answers[topic, 0]
        assert metrics.ledger(route) == {"in": sent + refused, "acknowledged": sent, "rejected": refused, "dropped": 0, "waiting": 0}
    assert metrics.sum("millrace_messages_rejected_total", route="plant", reason="unknown_topic") == 1
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND
    load.close()
