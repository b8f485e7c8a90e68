"""What a tenant may use, and what it is told when that is used up (docs/DEVICES.md; the end of acceptance item 30 of Hono's behaviour)."""
import json

import pytest
import requests

from lib.application import FAILURE, Application
from lib.mqtt import CONNACK, V311, V5, Client, connect_packet
from lib.wait import HANG_S, until

VERSIONS = pytest.mark.parametrize("version, code", [(V311, 5), (V5, 0x97)])
REFUSED = "millrace_mqtt_connects_refused_total"


@pytest.fixture
def start(serve, make_config, kafka, tenant):
    """start(limits): a server whose tenant has these limits, with MQTT and HTTP."""
    def begin(limits, **of_tenant):
        config = make_config(kafka.bootstrap, {"d1": {"auth_id": "a1", "password": "pw"}, "d2": {"auth_id": "a2", "password": "pw"}})
        config["listeners"] += [{"http": "127.0.0.1:0"}]
        config["tenants"][tenant] |= {"resource-limits": limits} | of_tenant
        return serve(config)
    return begin


@pytest.fixture
def login(tenant):
    clients = []

    def connect(server, auth_id="a1", version=V311, expect=0):
        client = Client(server.mqtt, version)
        clients.append(client)
        client.connect(f"client-{auth_id}", user=f"{auth_id}@{tenant}", password="pw", expect=expect)
        return client

    yield connect
    for client in clients:
        client.close()


def post(server, tenant, data, path="/telemetry", qos=1):
    host, port = server.http
    return requests.post(f"http://{host}:{port}{path}", auth=(f"a1@{tenant}", "pw"), data=data, timeout=HANG_S,
                         headers={"QoS-Level": str(qos), "Content-Type": "text/plain"})


@VERSIONS
def test_a_connection_more_than_allowed_is_refused(start, login, version, code):
    server = start({"max-connections": 1})
    first = login(server, "a1", version)
    login(server, "a2", version, expect=code).expect_closed()
    assert server.metrics().sum(REFUSED, reason="tenant_max_connections") == server.metrics().sum(REFUSED) == 1
    again = login(server, "a1", version)  # takes its own place
    again.ping()
    again.close()
    first.close()
    until(lambda: server.metrics().sum("millrace_mqtt_connections") == 0, "the end of both")
    login(server, "a2", version).ping()


@VERSIONS
def test_without_time_left_nobody_connects(start, login, version, code):
    server = start({"connection-duration": {"effective-since": "2026-01-01T00:00:00Z", "max-minutes": 0}})
    login(server, "a1", version, expect=code).expect_closed()
    assert server.metrics().sum(REFUSED, reason="tenant_connection_duration") == 1


@pytest.mark.tsan
def test_the_data_volume_is_that_of_all_protocols_together(start, login, kafka, tenant):
    volume = {"effective-since": "2026-01-01T00:00:00Z", "max-bytes": 10, "period": {"mode": "days", "no-of-days": 36500}}
    server = start({"data-volume": volume})
    c5, c3 = login(server, "a1", V5), login(server, "a2", V311)
    assert c5.publish_and_wait("telemetry", "1234") == 0
    assert post(server, tenant, "1234").status_code == 202
    answer = post(server, tenant, "123")
    assert answer.status_code == 429 and "data volume" in answer.json()["error"]
    assert post(server, tenant, "123", path="/event").status_code == 429
    assert c5.publish_and_wait("event", "123") == 0x97
    assert c5.publish_and_wait("telemetry/?on-error=skip-ack", "12") == 0  # fits
    c3.publish("telemetry/?on-error=ignore", "x", 0)
    c3.ping()
    c3.publish("telemetry", "x", 1, 7)
    c3.expect_closed()
    assert sorted(r.value for r in kafka.records(f"hono.telemetry.{tenant}")) == [b"12", b"1234", b"1234"]
    assert kafka.records(f"hono.event.{tenant}") == []
    metrics = server.metrics()
    assert metrics.sum("millrace_messages_rejected_total", reason="data_volume") == 4
    assert metrics.sum("millrace_messages_dropped_total", reason="data_volume") == 1
    login(server, "a2", V5, expect=0x97).expect_closed()
    assert server.metrics().sum(REFUSED, reason="tenant_data_volume") == 1
    server.metrics().check_ledger()


def test_payloads_count_as_multiples_of_the_minimum(start, tenant):
    server = start({"data-volume": {"max-bytes": 8192}}, **{"minimum-message-size": 4096})
    assert [post(server, tenant, "x").status_code for _ in range(3)] == [202, 202, 429]


def test_errors_tell_of_it(start, login, tenant):
    server = start({"data-volume": {"max-bytes": 1}})
    c = login(server)
    assert c.subscribe([("error///#", 0)]) == [0]
    c.publish("telemetry", "xy", 1, 9)
    error = c.expect_publish()
    assert error.topic == "error///telemetry/9/429"
    assert json.loads(error.payload)["code"] == 429


def test_a_command_beyond_the_data_volume_is_answered_429(start, login, kafka, tenant):
    server = start({"data-volume": {"max-bytes": 5}})
    app = Application(kafka, tenant)
    c = login(server)
    assert c.subscribe([("command///req/#", 0)]) == [0]
    app.ask(correlation_id="one", value=b"123")
    assert c.expect_publish().payload == b"123"
    app.ask(correlation_id="two", value=b"123")
    app.send(value=b"123")  # without response: nobody is told
    (_, headers), = app.next_answers(1)
    assert headers["content-type"] == FAILURE
    assert (headers["correlation-id"], headers["status"]) == ("two", "429")
    until(lambda: server.metrics().sum("millrace_commands_refused_total", reason="data_volume") == 2, "both to be refused")
    c.ping()
    server.metrics().check_ledger()


def test_limits_of_managed_tenants_hold_at_once_and_keep_what_was_used(serve, tmp_path):
    server = serve({"kafka": {"embedded": True}, "listeners": [{"mqtt": "127.0.0.1:0"}, {"http": "127.0.0.1:0"}],
                    "admin": {"listen": "127.0.0.1:0"}, "registry": {"bcrypt_cost": 6}, "data_dir": str(tmp_path / "data")})
    api = f"http://{server.admin}/v1"

    def limit(volume):
        volume = {"effective-since": "2026-01-01T00:00:00Z"} | volume
        assert requests.put(f"{api}/tenants/t1", json={"resource-limits": {"data-volume": volume}}, timeout=HANG_S).status_code == 204

    assert requests.post(f"{api}/tenants/t1", json={}, timeout=HANG_S).status_code == 201
    assert requests.post(f"{api}/devices/t1/d1", timeout=HANG_S).status_code == 201
    credentials = [{"type": "hashed-password", "auth-id": "a1", "secrets": [{"pwd-plain": "pw"}]}]
    assert requests.put(f"{api}/credentials/t1/d1", json=credentials, timeout=HANG_S).status_code == 204
    assert post(server, "t1", "1234567890").status_code == 202
    limit({"max-bytes": 4})
    assert [post(server, "t1", "123").status_code for _ in range(2)] == [202, 429]
    limit({"max-bytes": 6})
    assert [post(server, "t1", "123").status_code for _ in range(2)] == [202, 429]
    limit({"max-bytes": -1})
    assert post(server, "t1", "123").status_code == 202


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_what_was_used(serve, make_config, kafka, tenant, end):
    config = make_config(kafka.bootstrap)
    config["listeners"] += [{"http": "127.0.0.1:0"}]
    config["tenants"][tenant]["resource-limits"] = {"data-volume": {"max-bytes": 5}}
    server = serve(config)
    assert post(server, tenant, "123").status_code == 202
    if end == "kill":
        until(lambda: server.metrics().sum("millrace_usage_writes_total", outcome="stored") == 1, "the use on the disk")
        server.kill()
    else:
        server.stop()
    server = serve(config)
    assert [post(server, tenant, data).status_code for data in ("123", "12", "1")] == [429, 202, 429]


@pytest.fixture
def two(serve, make_config, kafka, tenant):
    """two(limits): two instances whose tenant has these limits, and a function that waits until the second has heard of the first."""
    def begin(limits):
        servers = []
        for name in "ab":
            config = make_config(kafka.bootstrap, {"d1": {"auth_id": "a1", "password": "pw"}, "d2": {"auth_id": "a2", "password": "pw"}},
                                 instance=f"{tenant}-{name}", command={"lease": "1s", "shared": True})
            config["listeners"] += [{"http": "127.0.0.1:0"}]
            config["tenants"][tenant]["resource-limits"] = limits
            servers.append(serve(config))
        before = servers[1].metrics().sum("millrace_usage_reports_total")

        def told():
            until(lambda: servers[1].metrics().sum("millrace_usage_reports_total") > before, "what the other instance tells")
        return *servers, told
    return begin


def test_connections_are_those_to_all_instances_that_live(two, login, tenant):
    a, b, told = two({"max-connections": 1})
    login(a, "a1").ping()
    told()
    login(b, "a2", expect=5).expect_closed()
    assert b.metrics().sum(REFUSED, reason="tenant_max_connections") == 1
    a.kill()  # what its connections counted ends with its lease

    def is_admitted():
        with Client(b.mqtt, V5) as client:
            client.send(connect_packet(V5, "client-a2", f"a2@{tenant}", "pw"))
            return client.expect(CONNACK).body[1] == 0
    until(is_admitted, "the end of the other's connection")


def test_the_data_volume_is_that_through_all_instances(two, tenant):
    a, b, told = two({"data-volume": {"max-bytes": 5}})
    assert post(a, tenant, "123").status_code == 202
    told()
    assert [post(b, tenant, data).status_code for data in ("123", "12", "1")] == [429, 202, 429]
