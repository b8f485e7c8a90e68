"""Devices that speak HTTP take commands in the answers to their messages (docs/wire/http.md)."""
import base64
import socket
import threading

import pytest
import requests

from lib.application import FAILURE, Application
from lib.mqtt import V311, Client
from lib.wait import HANG_S, until

TTD = 60  # of requests that a command ends


@pytest.fixture
def server(serve, make_config, kafka, tenant):
    config = make_config(kafka.bootstrap)
    config["listeners"] += [{"http": "127.0.0.1:0"}, {"http": "127.0.0.1:0", "tenant": tenant, "anonymous": True}]
    return serve(config)


@pytest.fixture
def app(server, kafka, tenant):
    return Application(kafka, tenant)


class Asking(threading.Thread):
    """A request that is answered when it is."""

    def __init__(self, server, tenant, method, path, who="a1", to=None, **more):
        super().__init__(daemon=True)
        host, port = to or server.http
        auth = (f"{who}@{tenant}", "pw") if who else None
        self.arguments = (method, f"http://{host}:{port}{path}"), {"auth": auth, "data": "x", "timeout": HANG_S} | more
        self.start()

    def run(self):
        self.response = requests.request(*self.arguments[0], **self.arguments[1])

    def answer(self):
        self.join(HANG_S)
        return self.response


@pytest.fixture
def ask(server, tenant):
    return lambda method, path, **more: Asking(server, tenant, method, path, **more)


def ttds(app, kind, device="d1"):
    records = [dict(r.headers) for r in app.kafka.records(f"hono.{kind}.{app.tenant}") if r.key == device.encode()]
    return [headers.get("ttd", b"").decode() for headers in records]


def wait_for_message(app, kind="event", device="d1", n=1):
    """The device's message is there, and so is whoever waits for commands."""
    return until(lambda: len(ttds(app, kind, device)) == n and ttds(app, kind, device), "the device's message")


@pytest.mark.parametrize("kind, how", [("event", "query"), ("event", "header"), ("telemetry", "query")])
def test_a_command_is_the_answer_and_is_answered(ask, app, tenant, kind, how):
    asking = ask("POST", f"/{kind}?hono-ttd={TTD}") if how == "query" else ask("POST", f"/{kind}", headers={"Hono-TTD": str(TTD)})
    assert wait_for_message(app, kind) == [str(TTD)]
    app.ask("abc", subject="brightness", value=b"7", content_type="text/plain", message_id="m-1")
    answer = asking.answer()
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, b"7", "text/plain")
    assert (answer.headers["hono-command"], answer.headers["hono-cmd-req-id"]) == ("brightness", "203abc")
    assert answer.headers["hono-cmd-id"] == "m-1" and "hono-cmd-target-device" not in answer.headers
    assert ask("POST", "/command/res/203abc?hono-cmd-status=200", data="ok").answer().status_code == 202
    (record, headers), = app.next_answers(1)
    headers.pop("creation-time")
    assert (record.key, record.value) == (b"d1", b"ok")
    assert headers == {"correlation-id": "abc", "status": "200", "device_id": "d1", "tenant_id": tenant,
                       "content-type": "application/octet-stream"}


def test_a_one_way_command_asks_for_no_answer(ask, app):
    asking = ask("POST", f"/event?hono-ttd={TTD}")
    wait_for_message(app)
    app.send(subject="reboot", value=None)
    answer = asking.answer()
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["hono-command"] == "reboot" and "hono-cmd-req-id" not in answer.headers
    assert app.answers() == []


def test_without_a_command_the_answer_comes_when_the_time_is_up(ask, app):
    assert ask("POST", "/event?hono-ttd=1").answer().status_code == 202
    assert ttds(app, "event") == ["1"]
    app.ask()
    (_, headers), = app.next_answers(1)
    assert (headers["status"], headers["content-type"]) == ("503", FAILURE)


@pytest.mark.parametrize("ttd", ["0", "-1", "soon", ""])
def test_a_device_that_does_not_wait_is_answered_at_once(ask, app, ttd):
    assert ask("POST", f"/event?hono-ttd={ttd}").answer().status_code == 202
    assert ttds(app, "event") == [""]


def test_a_gateway_waits_for_a_device(ask, app):
    asking = ask("PUT", f"/telemetry//d2?hono-ttd={TTD}", who="ga")
    wait_for_message(app, "telemetry", "d2")
    app.ask("abc", device="d2")
    answer = asking.answer()
    assert (answer.status_code, answer.headers["hono-cmd-target-device"]) == (200, "d2")
    assert ask("PUT", "/command/res//d2/203abc", who="ga", headers={"hono-cmd-status": "404"}, data="").answer().status_code == 202
    (record, headers), = app.next_answers(1)
    assert (record.key, record.value, headers["status"]) == (b"d2", None, "404")


def test_a_stranger_names_tenant_and_device(server, ask, app, tenant):
    answer = ask("PUT", f"/command/res/{tenant}/d1/203abc?hono-cmd-status=200", who=None, to=server.http_all[1]).answer()
    assert answer.status_code == 202
    (_, headers), = app.next_answers(1)
    assert headers["device_id"] == "d1"


@pytest.mark.parametrize("method, path, who, status", [
    ("POST", "/command/res/203abc", "a1", 400),
    ("POST", "/command/res/203abc?hono-cmd-status=302", "a1", 400),
    ("POST", "/command/res/203abc?hono-cmd-status=abc", "a1", 400),
    ("POST", "/command/res/9zz?hono-cmd-status=200", "a1", 400),
    ("POST", "/command/res/003abc?hono-cmd-status=200", "a1", 400),
    ("POST", "/command/res/203abc?hono-cmd-status=200", "nobody", 401),
    ("PUT", "/command/res//d1/203abc?hono-cmd-status=200", "ga", 403),
    ("PUT", "/command/res/other/d2/203abc?hono-cmd-status=200", "ga", 403),
    ("PUT", "/command/res//nobody/203abc?hono-cmd-status=200", "ga", 404),
    ("PUT", "/command/res/d2/203abc?hono-cmd-status=200", "ga", 404),
    ("GET", "/command/res/203abc?hono-cmd-status=200", "a1", 405),
])
def test_a_response_that_is_none_is_refused(ask, app, method, path, who, status):
    assert ask(method, path, who=who).answer().status_code == status
    assert app.answers() == []


def test_the_last_request_of_a_device_gets_the_command(ask, app):
    first = ask("POST", "/event?hono-ttd=2")
    wait_for_message(app)
    second = ask("POST", f"/event?hono-ttd={TTD}")
    wait_for_message(app, n=2)
    app.send()
    assert second.answer().status_code == 200
    assert first.answer().status_code == 202


def test_a_client_that_has_gone_gets_no_command(server, app, tenant):
    """It ends before its time; what comes then finds nobody."""
    with socket.create_connection(server.http) as s:
        login = base64.b64encode(f"a1@{tenant}:pw".encode()).decode()
        s.sendall(f"POST /event?hono-ttd={TTD} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {login}\r\nContent-Length: 1\r\n\r\nx"
                  .encode())
        wait_for_message(app)
    until(lambda: server.metrics().sum("millrace_command_subscriptions") == 0, "the end of the request")
    app.ask()
    (_, headers), = app.next_answers(1)
    assert headers["status"] == "503"


def test_an_mqtt_connection_and_a_request_take_turns(server, ask, app, tenant):
    with Client(server.mqtt, V311) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        c.subscribe([("c///q/#", 0)])
        app.send(subject="one")
        assert c.expect_publish().topic == "c///q//one"
        n = len(ttds(app, "event"))
        asking = ask("POST", f"/event?hono-ttd={TTD}")
        wait_for_message(app, n=n + 1)
        app.send(subject="two")
        assert asking.answer().headers["hono-command"] == "two"


def test_a_server_that_ends_answers_those_who_wait(server, ask, app):
    asking = ask("POST", f"/event?hono-ttd={TTD}")
    wait_for_message(app)
    assert server.stop() == 0
    assert asking.answer().status_code == 202
