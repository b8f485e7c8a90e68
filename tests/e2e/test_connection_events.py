"""Applications are told when a device connects by MQTT and when its connection ends (hono.connection_events; docs/wire/device-data.md)."""
import json

import pytest

from lib.mqtt import V311, V5, Client
from lib.wait import until

DEVICES = {"d1": {"auth_id": "a1", "password": "pw"}}


@pytest.fixture
def is_on():
    return True


@pytest.fixture
def server(serve, make_config, kafka, tenant, is_on):
    config = make_config(kafka.bootstrap, DEVICES, hono={"connection_events": is_on})
    config["tenants"][tenant]["defaults"] = {"site": "x", "ttl": 60}
    return serve(config)


@pytest.fixture
def connect(server, tenant):
    clients = []

    def start(version=V311, client_id="c-1", **options):
        clients.append(Client(server.mqtt, version))
        clients[-1].connect(client_id, **({"user": f"a1@{tenant}", "password": "pw"} | options))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def events(kafka, tenant):
    return lambda: kafka.records(f"hono.event.{tenant}")


def causes(records):
    return [json.loads(record.value)["cause"] for record in records]


@pytest.mark.parametrize("version", [V311, V5])
def test_a_device_that_comes_and_goes_is_told_of(server, connect, events, version):
    client = connect(version, 'a "name"')
    client.send(b"\xe0\0")
    found = until(lambda: len(events()) == 2 and events(), "both events")
    assert [json.loads(record.value) for record in found] == [
        {"cause": cause, "remote-id": 'a "name"', "source": "hono-mqtt"} for cause in ("connected", "disconnected")]
    for record in found:
        headers = {name: value.decode() for name, value in record.headers}
        assert record.key == b"d1"
        assert headers.pop("creation-time").isdigit()
        assert headers == {"device_id": "d1", "content-type": "application/vnd.eclipse-hono-dc-notification+json", "qos": "1",
                           "site": "x", "ttl": "60000"}
    until(lambda: server.metrics().sum("millrace_mqtt_connection_events_total") == 2, "both to be counted")


def test_one_that_dies_is_told_of_and_one_that_is_taken_over_before_the_next(connect, events):
    connect()
    second = connect()
    until(lambda: causes(events()) == ["connected", "disconnected", "connected"], "the takeover")
    second.close()
    until(lambda: causes(events())[3:] == ["disconnected"], "the end")


def test_an_orderly_stop_tells_of_the_end(server, connect, events):
    connect()
    assert server.stop() == 0
    server.is_killed = True  # there is nothing to stop any more
    assert causes(events()) == ["connected", "disconnected"]


def test_clients_that_are_no_device_and_those_that_are_refused_are_not(connect, events):
    connect(client_id="anonymous", user=None, password=None).ping()
    connect(password="wrong", expect=4)
    connect().ping()
    assert causes(until(events, "an event")) == ["connected"]


@pytest.mark.parametrize("is_on", [False])
def test_nobody_is_told_unless_asked_for(connect, events):
    connect().ping()
    connect().ping()
    assert events() == []
