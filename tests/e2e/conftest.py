"""Fixtures. See README.md here."""
import itertools
import os
import uuid

import pytest

from lib.kafka import Kafka
from lib.server import MILLRACE, Server, write_config
from lib.sidecar import Sidecar, channel, write
from lib.subscriber import Subscriber

PASSWORD = "pw"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A Kafka that nobody disturbs; topics are never made by it on its own account."""
    cluster = Kafka(tmp_path_factory.mktemp("kafka"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def kafka_to_disturb(tmp_path_factory):
    cluster = Kafka(tmp_path_factory.mktemp("own-kafka"))
    yield cluster
    cluster.stop()


@pytest.fixture
def own_kafka(kafka_to_disturb):
    """A Kafka that the test may pause, stop, kill: it finds it running."""
    kafka_to_disturb.heal()
    return kafka_to_disturb


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory):
    """A Kafka with TLS, passwords and access control."""
    cluster = Kafka(tmp_path_factory.mktemp("secure-kafka"), "--secure")
    yield cluster
    cluster.stop()


@pytest.fixture
def tenant():
    """A tenant, and so Kafka topics, that no other test has."""
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_config(tmp_path, tenant):
    """The configuration most tests start from, as a dictionary to change: acceptance list of docs/DEVICES.md (device d1 with login a1,
    gateway g1 with login ga, d2 behind it) and anonymous clients for plain topics."""
    numbers = itertools.count(1)

    def make(bootstrap, devices=None, **top):
        number = next(numbers)
        config = {
            "instance": f"{tenant}-{number}",  # of several at one Kafka each has its own
            "kafka": {"bootstrap": bootstrap},
            "listeners": [{"mqtt": "127.0.0.1:0", "tenant": tenant, "anonymous": True}],
            "admin": {"listen": "127.0.0.1:0"},
            "data_dir": str(tmp_path / f"data-{number}"),
            "command": {"shared": False},  # several instances are the matter of tests of their own
            "tenants": {tenant: {"devices": devices or {
                "d1": {"auth_id": "a1", "password": PASSWORD},
                "g1": {"auth_id": "ga", "password": PASSWORD},
                "d2": {"via": ["g1"]},
            }}},
        }
        config["kafka"] |= top.pop("kafka", {})
        config["command"] |= top.pop("command", {})
        return config | top
    return make


@pytest.fixture
def fleet(tenant):
    """n devices that may log in: (configuration, {device id: user name})."""
    def make(n):
        names = [f"dev-{i:03}" for i in range(n)]
        return {name: {"password": PASSWORD} for name in names}, {name: f"{name}@{tenant}" for name in names}
    return make


def end(server):
    """What has to hold of every server when its test is over."""
    if server.is_running() and server.admin:
        server.check_ledger()
    if not server.is_killed:
        assert server.stop() == 0, server.log()
    log = server.log()
    assert "Sanitizer" not in log and "runtime error" not in log, log


@pytest.fixture
def serve(tmp_path, request):
    """serve(configuration) or serve(arguments=[...]): a started server, by default waited for."""
    assert os.access(MILLRACE, os.X_OK), f"{MILLRACE} is not built"
    servers = []
    numbers = itertools.count(1)

    def start(config=None, arguments=(), wait=True):
        number = next(numbers)
        if config is not None:
            arguments = ["-c", write_config(config, tmp_path / f"millrace-{number}.yaml"), *arguments]
        server = Server(arguments, tmp_path, f"server-{number}")
        servers.append(server)
        return server.ready() if wait else server

    yield start
    try:
        for server in servers:
            end(server)
    finally:
        for server in servers:
            server.close()


@pytest.fixture
def dev(serve, tmp_path):
    """A server in development mode."""
    return serve(arguments=["--dev", "--mqtt", "127.0.0.1:0",
                            "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", tmp_path / "data"])


@pytest.fixture
def subscriber():
    """subscriber(answer): a running one, see lib/subscriber.py."""
    running = []

    def start(answer=None, **options):
        running.append(Subscriber(answer, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def fanout(tmp_path):
    """fanout(channel, ..): a started sidecar with these channels; or fanout(config=a whole configuration)."""
    assert os.access(MILLRACE, os.X_OK), f"{MILLRACE} is not built"
    sidecars = []

    def start(*channels, config=None, arguments=(), wait=True, file="channels.yaml", **options):
        folder = tmp_path / f"channels-{len(sidecars)}"
        write(folder, {"channels": list(channels)} if config is None else config, file)
        sidecars.append(Sidecar(folder, tmp_path, *arguments, name=f"sidecar-{len(sidecars)}", **options))
        return sidecars[-1].ready() if wait else sidecars[-1]

    yield start
    try:
        for sidecar in sidecars:
            end(sidecar)
    finally:
        for sidecar in sidecars:
            sidecar.close()


@pytest.fixture
def fan(fanout):
    """fan(subscription, ..): a started sidecar with the channel default/c1 and these subscriptions; fields of the channel by name."""
    def start(*subscriptions, **fields):
        return fanout(channel(*subscriptions, **fields))
    return start
