"""Commands that wait for devices that are away (command.policy: queue, docs/wire/commands.md)."""
import pytest

from lib.application import Application
from lib.mqtt import V311, Client, packet, text
from lib.wait import until

PUBLISH, PUBACK, SUBSCRIBE = 3, 4, 8


@pytest.fixture
def server(serve, make_config, kafka):
    devices = {"d1": {"auth_id": "a1", "password": "pw"}}
    return serve(make_config(kafka.bootstrap, devices, command={"policy": "queue", "queue_per_device": 5, "notices": "all"}))


@pytest.fixture
def app(server, kafka, tenant):
    return Application(kafka, tenant)


@pytest.fixture
def device(server, tenant):
    with Client(server.mqtt, V311) as client:
        client.connect("c", user=f"a1@{tenant}", password="pw")
        yield client


def subscribe(client):
    """What waits may come in front of the SUBACK [MQTT-3.8.4]."""
    client.send(packet(SUBSCRIBE, 2, b"\0\1" + text("c///q/#") + b"\1"))


def take(client):
    """The payload of the next command."""
    found = client.read()
    while found.type != PUBLISH:
        found = client.read()
    at = 2 + int.from_bytes(found.body[:2], "big")
    client.send(bytes([PUBACK << 4, 2]) + found.body[at:at + 2])
    return found.body[at + 2:]


def wait_queued(server, n):
    until(lambda: server.metrics().sum("millrace_commands_queued_total") == n, "the commands to wait")


def test_what_has_a_ttl_waits_for_the_device_in_order_with_what_follows(server, app, device):
    for i in range(3):
        app.send(value=str(i).encode(), ttl="3600000", ack_required="true", correlation_id=f"c{i}")
    wait_queued(server, 3)
    assert app.answers() == []
    subscribe(device)
    until(lambda: app.ttds() == [-1], "the subscription to be told")
    app.send(value=b"3")
    assert [take(device) for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    assert sorted(headers["correlation-id"] for _, headers in app.next_answers(3)) == ["c0", "c1", "c2"]


def test_what_has_none_is_refused(app):
    app.ask()
    (_, headers), = app.next_answers(1)
    assert headers["status"] == "503"


def test_more_than_may_wait_are_refused(server, app):
    for i in range(6):
        app.ask(ttl="3600000", correlation_id=f"c{i}")
    (_, headers), = app.next_answers(1)
    assert (headers["status"], headers["correlation-id"]) == ("429", "c5")
    wait_queued(server, 5)


def test_who_waits_in_vain_is_told_of(server, app):
    app.ask(ttl="1500")
    wait_queued(server, 1)
    (_, headers), = app.next_answers(1)
    assert headers["status"] == "504"
