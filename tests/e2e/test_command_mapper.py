"""Commands that a mapper rewrites on their way to a device (`upstream-message-mapper`, docs/MAPPER.md)."""
import json

import pytest

from lib.application import Application
from lib.mapper import Mapper
from lib.mqtt import PUBACK, V5, Client, text_property
from lib.wait import until

DEVICES = {
    "d1": {"auth_id": "a1", "password": "pw"},
    "g1": {"auth_id": "ga", "password": "pw", "upstream-message-mapper": "m"},
    "d2": {"via": ["g1"]},
    "d3": {"via": ["g1"]},
}


@pytest.fixture
def mapper():
    server = Mapper()
    yield server
    server.close()


@pytest.fixture
def timeout():
    """How long a mapper has."""
    return "1m"


@pytest.fixture
def server(serve, make_config, kafka, tenant, mapper, timeout):
    return serve(make_config(kafka.bootstrap, {name: dict(device) for name, device in DEVICES.items()}, command={"ack_timeout": "1h"},
                             mappers={"m": {"url": mapper.url, "timeout": timeout}}))


@pytest.fixture
def login(server, tenant):
    opened = []

    def connect(auth_id, command_filter):
        client = Client(server.mqtt, V5)
        opened.append(client)
        client.connect(f"{auth_id}-{len(opened)}", user=f"{auth_id}@{tenant}", password="pw")
        assert client.subscribe([(command_filter, 1)]) == [1]
        return client

    yield connect
    for client in opened:
        client.close()


@pytest.fixture
def app(server, kafka, tenant):
    return Application(kafka, tenant)


def take(client):
    found = client.expect_publish()
    client.send(bytes([PUBACK << 4, 2]) + found.packet_id.to_bytes(2, "big"))
    return found


def was(publish):
    return json.loads(publish.payload)["was"]


def test_a_gateway_gets_what_its_mapper_makes_of_a_command(login, app, mapper, tenant):
    g = login("ga", "c//+/q/#")
    app.ask(device="d2", subject="set", value=b"on", content_type="text/plain", message_id="m-1")
    body = g.expect(3).body
    assert text_property(3, "application/json") in body and body.endswith(b'{"was": "on"}')
    (path, headers, payload), = mapper.requests
    assert (path, payload) == ("/map", "on")
    assert {"tenant_id": tenant, "device_id": "d2", "gateway_id": "g1", "subject": "set", "message-id": "m-1", "qos": "1",
            "Content-Type": "text/plain"}.items() <= headers.items()


def test_a_device_without_one_gets_commands_as_they_are(login, app, mapper):
    d = login("a1", "c///q/#")
    app.send(value=b"fail")
    assert take(d).payload == b"fail"
    assert mapper.requests == []


def test_commands_of_a_device_keep_their_order_and_hold_up_no_other(login, app, mapper):
    g = login("ga", "c//+/q/#")
    for value in ("hang", "2", "3"):
        app.send(device="d2", value=value)
    for value in ("a", "b", "c"):
        app.send(device="d3", value=value)
    assert [was(take(g)) for _ in range(3)] == ["a", "b", "c"]
    until(lambda: len(mapper.requests) == 6, "all to be asked for")
    mapper.release.set()
    assert [was(take(g)) for _ in range(3)] == ["hang", "2", "3"]


@pytest.mark.parametrize("timeout", ["1s"])
@pytest.mark.parametrize("value", ["fail", "hang"])
def test_an_application_is_told_when_it_fails(server, login, app, value):
    g = login("ga", "c//+/q/#")
    app.ask("1", device="d2", value="before")
    app.ask("2", device="d2", value=value)
    app.ask("3", device="d2", value="after")
    assert [was(take(g)) for _ in range(2)] == ["before", "after"]
    (record, headers), = app.next_answers(1)
    assert (headers["status"], headers["correlation-id"]) == ("503", "2")
    assert json.loads(record.value) == {"error": "command could not be mapped"}


def test_what_is_with_the_mapper_when_the_client_goes_is_given_to_the_next(login, app, mapper):
    first = login("ga", "c//+/q/#")
    app.send(device="d2", value="hang")
    until(lambda: mapper.requests, "the mapper to be asked")
    second = login("ga", "c//+/q/#")
    first.close()
    until(lambda: len(mapper.requests) == 2, "the mapper to be asked again")
    mapper.release.set()
    assert was(take(second)) == "hang"
