"""Devices that speak HTTP, with a real Kafka (docs/wire/http.md)."""
import json
import socket
import threading
import time

import pytest
import requests

from lib.mqtt import Client
from lib.wait import HANG_S, until

NOTIFICATION = "application/vnd.eclipse-hono-empty-notification"


def with_http(config, tenant, **top):
    """Its listeners: MQTT, HTTP with credentials only, HTTP for everybody."""
    config["listeners"] += [{"http": "127.0.0.1:0"}, {"http": "127.0.0.1:0", "tenant": tenant, "anonymous": True}]
    return config | top


@pytest.fixture
def server(serve, make_config, kafka, tenant):
    return serve(with_http(make_config(kafka.bootstrap), tenant))


@pytest.fixture
def ask(server, tenant):
    """ask(method, path): a response. Device d1 sends unless somebody else, or nobody (None), is named."""
    with requests.Session() as session:
        def request(method, path, who="a1", password="pw", to=None, data="x", **rest):
            host, port = to or server.http
            auth = (f"{who}@{tenant}", password) if who else None
            return session.request(method, f"http://{host}:{port}{path}", auth=auth, data=data, timeout=HANG_S, **rest)
        yield request


def headers(record, but=("creation-time",)):
    names = [name for name, _ in record.headers]
    assert len(names) == len(set(names)), f"twice: {names}"
    return {name: value.decode() for name, value in record.headers if name not in but}


def raw(address, request):
    """What a server sends until it closes."""
    with socket.create_connection(address, timeout=HANG_S) as s:
        s.sendall(request)
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
        return answer


@pytest.mark.tsan
def test_telemetry_with_qos_1_is_in_kafka_when_it_is_accepted(ask, kafka, tenant):
    before = time.time_ns() // 1_000_000
    answer = ask("POST", "/telemetry?a=b", data='{"x":1}', headers={"QoS-Level": "1", "Content-Type": "application/json"})
    assert (answer.status_code, answer.content) == (202, b"")
    record, = kafka.records(f"hono.telemetry.{tenant}")
    after = time.time_ns() // 1_000_000
    assert (record.key, record.value) == (b"d1", b'{"x":1}')
    assert headers(record) == {"device_id": "d1", "content-type": "application/json", "orig_adapter": "hono-http",
                               "orig_address": "/telemetry?a=b", "qos": "1"}
    assert before <= int(dict(record.headers)["creation-time"].decode("ascii")) <= after


def test_telemetry_without_qos_is_accepted_at_once(ask, kafka, tenant):
    assert ask("POST", "/telemetry").status_code == 202
    record, = until(lambda: kafka.records(f"hono.telemetry.{tenant}"), "the record")
    assert headers(record) == {"device_id": "d1", "content-type": "application/octet-stream", "orig_adapter": "hono-http",
                               "orig_address": "/telemetry", "qos": "0"}


@pytest.mark.parametrize("place", ["header", "query"])
def test_event_with_time_to_live(ask, kafka, tenant, place):
    path, extra = ("/event?hono-ttl=30", {}) if place == "query" else ("/event", {"HONO-TTL": "30"})
    assert ask("POST", path, headers=extra).status_code == 202
    record, = kafka.records(f"hono.event.{tenant}")
    assert headers(record) == {"device_id": "d1", "content-type": "application/octet-stream", "orig_adapter": "hono-http",
                               "orig_address": path, "qos": "1", "ttl": "30000"}


def test_empty_notification(ask, kafka, tenant):
    assert ask("POST", "/event", data=b"").status_code == 400
    assert ask("POST", "/event", data=b"", headers={"Content-Type": NOTIFICATION}).status_code == 202
    assert ask("POST", "/event", data=b"x", headers={"Content-Type": NOTIFICATION}).status_code == 400
    record, = kafka.records(f"hono.event.{tenant}")
    assert record.value is None and headers(record)["content-type"] == NOTIFICATION


def test_gateway_and_unauthenticated_devices_name_the_device(ask, server, kafka, tenant):
    assert ask("PUT", "/event//d2", "ga").status_code == 202
    assert ask("PUT", f"/event/{tenant}/d2", "ga").status_code == 202
    assert ask("PUT", f"/event/{tenant}/d1", None, to=server.http_all[1]).status_code == 202
    assert [(r.key, headers(r)["orig_address"]) for r in kafka.records(f"hono.event.{tenant}") if r.key == b"d2"] == [
        (b"d2", "/event//d2"), (b"d2", f"/event/{tenant}/d2")]
    assert sum(r.key == b"d1" for r in kafka.records(f"hono.event.{tenant}")) == 1


@pytest.mark.parametrize("method, path, who, extra, status", [
    ("POST", "/telemetry", "a1", {"QoS-Level": "2"}, 400),
    ("POST", "/telemetry", "a1", {"QoS-Level": "one"}, 400),
    ("POST", "/event", "a1", {"QoS-Level": "0"}, 400),
    ("POST", "/telemetry", None, {}, 401),
    ("POST", "/telemetry", "nobody", {}, 401),
    ("POST", "/telemetry", None, {"Authorization": "Bearer abc"}, 401),
    ("PUT", "/telemetry//d1", "ga", {}, 403),
    ("PUT", "/telemetry/other/d2", "ga", {}, 403),
    ("PUT", "/telemetry//nobody", "ga", {}, 404),
    ("PUT", "/telemetry/x", "ga", {}, 404),
    ("POST", "/t", "a1", {}, 404),
    ("GET", "/telemetry", "a1", {}, 405),
    ("DELETE", "/event", "a1", {}, 405),
])
def test_refusals(ask, kafka, tenant, method, path, who, extra, status):
    answer = ask(method, path, who, headers=extra)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert answer.headers.get("WWW-Authenticate") == ('Basic realm="Hono"' if status == 401 else None)
    assert ("Allow" in answer.headers) == (status == 405)
    assert kafka.records(f"hono.telemetry.{tenant}") == kafka.records(f"hono.event.{tenant}") == []


def test_wrong_password_is_refused(ask):
    answer = ask("POST", "/telemetry", password="wrong")
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="Hono"')


def test_disabled_adapter_and_device(serve, make_config, kafka, tenant, ask):
    config = with_http(make_config(kafka.bootstrap), tenant)
    config["tenants"][tenant]["devices"]["d1"]["enabled"] = False
    off = f"{tenant}-off"
    config["tenants"][off] = {"adapters": [{"type": "hono-http", "enabled": False}], "devices": {"d1": {"password": "pw"}}}
    server = serve(config)
    assert ask("POST", "/telemetry", to=server.http).status_code == 404
    host, port = server.http
    assert requests.post(f"http://{host}:{port}/telemetry", auth=(f"d1@{off}", "pw"), data="x", timeout=HANG_S).status_code == 403


def test_a_body_that_is_too_large(serve, make_config, kafka, tenant, ask):
    server = serve(with_http(make_config(kafka.bootstrap), tenant, http={"max_body_bytes": 4096}))
    assert ask("POST", "/telemetry", to=server.http, data=b"x" * 4096).status_code == 202
    assert ask("POST", "/telemetry", to=server.http, data=b"x" * 4097).status_code == 413


def test_a_message_that_is_too_large_for_kafka(ask, server):
    """The producer takes 1,000,000 bytes with headers and key, the listener a MiB."""
    answer = ask("POST", "/event", data=b"x" * ((1 << 20) - 100))
    assert answer.status_code == 413 and answer.json()["error"]


def test_kafka_away(serve, make_config, own_kafka, tenant, ask):
    """Item 23: 202 without QoS level, 503 and Retry-After with level 1."""
    server = serve(with_http(make_config(own_kafka.bootstrap), tenant, hono={"delivery_timeout": "2s"}))
    assert ask("POST", "/event", to=server.http).status_code == 202
    own_kafka.pause()
    assert ask("POST", "/telemetry", to=server.http, data="lost").status_code == 202
    for method, path, who in (("POST", "/telemetry", "a1"), ("POST", "/event", "a1"), ("PUT", "/event//d2", "ga")):
        answer = ask(method, path, who, to=server.http, headers={"QoS-Level": "1"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2"), path
        assert "unavailable" in answer.json()["error"]
    own_kafka.resume()
    assert until(lambda: ask("POST", "/event", to=server.http, data="again").status_code == 202, "Kafka to be back")
    until(lambda: server.metrics().sum("millrace_messages_waiting") == 0, "all to be settled")


def test_request_timeout_and_the_record_that_arrives_all_the_same(serve, make_config, own_kafka, tenant, ask):
    server = serve(with_http(make_config(own_kafka.bootstrap), tenant, http={"request_timeout": "300ms"}))
    own_kafka.pause()
    assert ask("POST", "/event", to=server.http, data="late").status_code == 503
    assert server.metrics().sum("millrace_http_timeouts_total") == 1
    own_kafka.resume()
    record, = until(lambda: own_kafka.records(f"hono.event.{tenant}"), "the record")
    assert record.value == b"late"
    until(lambda: server.metrics().sum("millrace_http_stored_late_total") == 1, "the delivery report")


def test_no_room_is_never_accepted(serve, make_config, own_kafka, tenant, ask):
    server = serve(with_http(make_config(own_kafka.bootstrap, kafka={"max_inflight_bytes": 1 << 20}), tenant,
                             http={"request_timeout": "500ms"}))
    own_kafka.pause()
    accepted = 0
    for number in range(30):
        answer = ask("POST", "/telemetry", to=server.http, data=f"{number} ".ljust(100_000, "."))
        accepted += answer.status_code == 202
        assert answer.status_code in (202, 503)
    assert 0 < accepted < 15
    answer = ask("POST", "/event", to=server.http, data="x" * 500_000)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    own_kafka.resume()
    until(lambda: server.metrics().sum("millrace_messages_waiting") == 0, "all to be stored")
    assert len(own_kafka.records(f"hono.telemetry.{tenant}")) == accepted


def test_batches(ask, kafka, tenant):
    lines = b'{"dev":"d2"}\n{"dev":"d1"}\nnonsense\n[7]\n'
    answer = ask("POST", "/event?device-pointer=/dev", "ga", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 207
    assert [item["status"] for item in answer.json()] == [202, 403, 400, 202]
    assert [set(item) for item in answer.json()] == [{"status"}, {"status", "error"}, {"status", "error"}, {"status"}]
    assert {(r.key, r.value) for r in kafka.records(f"hono.event.{tenant}")} == {(b"d2", b'{"dev":"d2"}'), (b"g1", b"[7]")}
    events = [{"specversion": "1.0", "id": str(i), "source": "/s", "type": "t", "deviceid": "d2", "data": i} for i in range(3)]
    answer = ask("POST", "/telemetry", "ga", data=json.dumps(events),
                 headers={"Content-Type": "application/cloudevents-batch+json", "QoS-Level": "1"})
    assert (answer.status_code, answer.json()) == (202, [{"status": 202}] * 3)
    records = kafka.records(f"hono.telemetry.{tenant}")
    assert [json.loads(r.value) for r in records] == events and {r.key for r in records} == {b"d2"}
    assert headers(records[0])["content-type"] == "application/cloudevents+json"
    assert ask("POST", "/event", data="{}", headers={"Content-Type": "application/cloudevents-batch+json"}).status_code == 400


def test_preflight(ask):
    answer = ask("OPTIONS", "/telemetry", None, headers={"Origin": "https://a", "Access-Control-Request-Method": "POST"})
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert {"qos-level", "hono-ttd", "authorization", "content-type"} <= set(
        answer.headers["Access-Control-Allow-Headers"].lower().split(", "))
    assert ask("POST", "/telemetry", headers={"Origin": "https://a"}).headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("lines, body", [
    (b"Content-Length: 1\r\nContent-Length: 2\r\n", b"xy"),
    (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    (b"Host: other\r\nContent-Length: 1\r\n", b"x"),
    (b"X-Folded: a\r\n b\r\nContent-Length: 1\r\n", b"x"),
    (b"X-Bare: a\nContent-Length: 1\r\n", b"x"),
    (b"QoS-Level : 1\r\nContent-Length: 1\r\n", b"x"),
])
def test_smuggling_is_refused(server, kafka, tenant, lines, body):
    basic = requests.auth._basic_auth_str(f"a1@{tenant}", "pw").encode()
    head = b"POST /telemetry HTTP/1.1\r\nHost: h\r\nAuthorization: " + basic + b"\r\n" + lines + b"\r\n"
    answer = raw(server.http, head + body + head + body)
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1, answer
    assert kafka.records(f"hono.telemetry.{tenant}") == []


def test_requests_in_flight_are_answered_before_the_end(serve, make_config, own_kafka, tenant, ask):
    server = serve(with_http(make_config(own_kafka.bootstrap), tenant))
    own_kafka.pause()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask("POST", "/event", to=server.http, data="last")))
    thread.start()
    until(lambda: server.metrics().sum("millrace_messages_waiting", route="event") == 1, "the request")
    server.process.terminate()
    until(lambda: "event=drain " in server.log(), "the drain")
    own_kafka.resume()
    thread.join(HANG_S)
    assert answers[0].status_code == 202 and answers[0].headers["Connection"] == "close"
    assert server.wait() == 0
    record, = own_kafka.records(f"hono.event.{tenant}")
    assert record.value == b"last"


def test_both_adapters_count_in_one_ledger(ask, server, tenant):
    with Client(server.mqtt) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        assert c.publish_and_wait("telemetry", "x") == 0
    assert ask("POST", "/telemetry", headers={"QoS-Level": "1"}).status_code == 202
    assert ask("POST", "/telemetry", headers={"QoS-Level": "3"}).status_code == 400
    assert server.metrics().ledger("telemetry") == {"in": 3, "acknowledged": 2, "rejected": 1, "dropped": 0, "waiting": 0}


def test_dev_serves_http(dev):
    host, port = dev.http
    answer = requests.post(f"http://{host}:{port}/telemetry", auth=("sensor-1@demo", "demo-secret"), data="21",
                           headers={"QoS-Level": "1"}, timeout=HANG_S)
    assert answer.status_code == 202
