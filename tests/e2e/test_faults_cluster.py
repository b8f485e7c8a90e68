"""Three nodes, three replicas of which two have to have a record: the node that leads every partition is killed under load
(emqx/emqx#18951)."""
import pytest
from confluent_kafka.admin import NewTopic

from lib.kafka import Kafka, run
from lib.mqtt import V311, V5, Client
from lib.resend import ResendLoad, check_once
from lib.server import is_sanitized
from lib.wait import HANG_S, until

MEMORY_BOUND = 48 << 20
LEADER, OTHERS = 1, (2, 3)
HANG_OTHERS_S = 15  # longer than a request may take, and than a replica may fall behind
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

    def signal_node(self, node, name):
        run("stop", self.folder, "--node", node, "--signal", name)


@pytest.fixture
def cluster(tmp_path):
    nodes = Cluster(tmp_path / "three", "--nodes", "3", "--heap", "320m")
    yield nodes
    nodes.stop()


@pytest.fixture
def start(serve, make_config, cluster, tenant, fleet):
    """start(): a server that writes to topics led by one node, a load, and the names of the topics."""
    loads = []

    def begin():
        names = [f"hono.telemetry.{tenant}", f"hono.event.{tenant}", f"{tenant}.hall"]
        cluster.create_led(*names)
        devices, users = fleet(20)
        rule = {"name": "plant", "mqtt": "plant/{site}/#", "topic": f"{tenant}.{{site}}", "key": "{client_id}"}
        server = serve(make_config(cluster.bootstrap, devices=devices, to_kafka=[rule]))
        loads.append(ResendLoad(server.mqtt, users, per_device=None, rate=1000, shapes=SHAPES))
        return server, loads[-1], names

    yield begin
    for load in loads:
        load.close()


def check_end(server, load, cluster, names, refused=0):
    """Everything was acknowledged without anybody's sending it again, and is there once. Besides, the rule refused so many
    publishes of others."""
    assert load.lost == 0 and load.acknowledged == load.sent
    check_once(load, [record for name in names for record in cluster.records(name)])
    metrics = server.metrics()
    metrics.check_ledger()
    for route, topic in (("telemetry", "telemetry"), ("event", "event"), ("plant", PLANT)):
        sent, rejected = load.answers[topic, 0], refused if route == "plant" else 0
        assert metrics.ledger(route) == {"in": sent + rejected, "acknowledged": sent, "rejected": rejected, "dropped": 0,
                                         "waiting": 0}
    assert metrics.sum("millrace_kafka_inflight_bytes") == 0
    assert is_sanitized() or server.anonymous_memory() < MEMORY_BOUND


def test_the_leader_is_lost_under_load(start, cluster, tenant):
    server, load, names = start()
    load.run(until=lambda: load.acknowledged >= 2000)

    cluster.signal_node(LEADER, "KILL")
    goal = load.sent + 2000  # beyond what waits at this moment
    load.run(until=lambda: load.acknowledged >= goal)
    assert all(cluster.leaders(name) <= set(OTHERS) for name in names)
    with Client(server.mqtt, V5) as c:
        c.connect("new", user=f"{load.devices[0].id}@{tenant}", password="pw")
        assert c.publish_and_wait("plant/other/a", "x") == 0x90, "what Kafka has not is told, also without the leader"

    # It comes back, and what was written without it is there when another one is lost.
    restart = cluster.begin("restart", "--node", str(LEADER))
    load.run(until=lambda: restart.poll() is not None)
    assert restart.returncode == 0
    until(lambda: all(cluster.is_whole(name) for name in names), "the replicas to catch up")
    cluster.signal_node(cluster.leaders(names[0]).pop(), "KILL")
    goal = load.sent + 2000
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()
    assert server.metrics().sum("millrace_messages_rejected_total", route="plant", reason="unknown_topic") == 1
    check_end(server, load, cluster, names, refused=1)


@pytest.mark.long
def test_the_leader_alone_acknowledges_nothing(start, cluster):
    """Both others hang: the leader has the records, but a record that only one replica has may yet be lost."""
    server, load, names = start()
    load.run(until=lambda: load.acknowledged >= 1000)
    for node in OTHERS:
        cluster.signal_node(node, "STOP")
    load.run(seconds=2)  # what the others had taken before is still acknowledged
    before = load.acknowledged
    load.run(seconds=HANG_OTHERS_S)
    assert load.acknowledged == before
    for node in OTHERS:
        cluster.signal_node(node, "CONT")
    goal = load.sent + 1000
    load.run(until=lambda: load.acknowledged >= goal)
    load.finish()
    load.run()
    check_end(server, load, cluster, names)
