"""Where the fan-out's configuration comes from: a folder, PUT /config, both, the request itself; and how it is written."""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess

import pytest

from lib.certs import Authority
from lib.server import MILLRACE, Server, run_command, write_config
from lib.sidecar import READY, channel, document, event, holds, write
from lib.subscriber import Answer
from lib.wait import HANG_S, until

PUT = ["--set", "fanout.sources=[put]"]
KNATIVE = "multiChannelFanoutConfig"


def ask(sidecar, method, path, body=None, headers=()):
    """Of the administration port: (status, JSON)."""
    host, _, port = sidecar.admin.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HANG_S)
    try:
        connection.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), dict(headers))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def write_channels(folder, text, *arguments):
    """Runs `millrace fanout write-config` with the text as its input."""
    return subprocess.run([MILLRACE, "fanout", "write-config", "--config-dir", folder, *arguments], input=text, text=True,
                          capture_output=True, timeout=HANG_S)


def ended(server):
    """The exit status of a process that ends by itself."""
    status = server.process.wait(HANG_S)
    server.is_killed = True  # there is nothing to stop
    return status


# --- the folder ---


def test_the_form_of_knatives_first_sidecar_is_served_by_host_and_path(fanout, subscriber):
    a, b = subscriber(), subscriber()
    sidecar = fanout(file=KNATIVE, config={"channelConfigs": [
        {"namespace": "default", "name": "c1", "hostname": "events.example",
         "fanoutConfig": {"subscriptions": [{"callableDomain": a.host}, {"subscriberURI": b.url + "p"}]}}]})
    for host in ("c1.default", "c1.default.channels.cluster.local", "C1.default.svc.cluster.local:80", "events.example"):
        assert sidecar.send(host=host).status == 202
    assert sidecar.send(to="/default/c1").status == 202
    assert (len(a.requests), len(b.requests)) == (5, 5)
    assert {request.path for request in b.requests} == {"/p"}


def test_a_file_that_is_renamed_into_its_place_holds(fanout, subscriber):
    s = subscriber()
    sidecar = fanout(config={"channels": []})
    assert sidecar.send().status == 404
    write(sidecar.folder, {"channels": [channel(s.url)]})
    assert holds(sidecar, lambda c: c["channels"] == 1)["generation"] == 2
    assert sidecar.send().status == 202


def test_our_file_comes_before_knatives(fanout):
    sidecar = fanout(file=KNATIVE, config={"channelConfigs": [{"namespace": "default", "name": "c1"}]})
    assert sidecar.config()["channels"] == 1
    write(sidecar.folder, {"channels": []})
    holds(sidecar, lambda c: c["channels"] == 0)
    (sidecar.folder / "channels.yaml").unlink()
    holds(sidecar, lambda c: c["channels"] == 1)


def test_the_same_text_makes_no_new_generation(fanout):
    sidecar = fanout(config={"channels": []})
    write(sidecar.folder, {"channels": []})
    config = holds(sidecar, lambda c: c["last_reload"]["status"] == "unchanged")
    assert config["generation"] == 1
    os.kill(sidecar.pid, signal.SIGHUP)
    until(lambda: sidecar.metrics().sum("millrace_fanout_config_reload_total", result="unchanged") >= 2, "the second look")
    assert sidecar.config()["generation"] == 1


@pytest.mark.parametrize("text, line, why", [
    ("channels:\n- namespace: default\n  name: c1\n  subscript: []\n", 4, "did you mean subscriptions?"),
    ("channels: [{namespace: a, name: b},\n {namespace: a, name: b}]\n", 2, "is in line 1 already"),
    ("channels:\n- namespace: a\n  name: b\n  subscriptions: [{subscriber: 'kafka:t'}]\n", 4, "needs Kafka"),
    ("channels:\n- namespace: a\n  name: b\n  delivery: {on_exhausted: park}\n", 4, "park needs"),
])
def test_a_broken_file_ends_the_start(fanout, text, line, why):
    sidecar = fanout(config=text, wait=False)
    assert ended(sidecar) == 1
    assert f"channels.yaml line={line}" in sidecar.log() and why in sidecar.log()


def test_a_missing_folder_ends_the_start(fanout, tmp_path):
    sidecar = fanout(config={"channels": []}, arguments=["--config-dir", tmp_path / "nowhere"], wait=False)
    assert ended(sidecar) == 1
    assert str(tmp_path / "nowhere") in sidecar.log()


# --- channels that are wrong, kept apart ---

ISOLATE = ["--set", "fanout.isolate_channels=true"]


def test_a_channel_that_is_wrong_stays_as_it_was_and_the_others_go_live(fanout, subscriber):
    old, new, other = subscriber(), subscriber(), subscriber()
    sidecar = fanout(channel(old.url, name="c1"), channel(old.url, name="c2"), arguments=ISOLATE)
    write(sidecar.folder, {"channels": [channel(new.url, name="c1"), channel(other.url, name="c2", nack="never"),
                                        channel(other.url, name="c3", max_hops=0), channel(other.url, name="c4")]})
    config = holds(sidecar, lambda c: c["generation"] == 2)
    assert config["last_reload"]["status"] == "partial"
    assert [(one["channel"], one["fate"], one.get("generation")) for one in config["isolated"]] == [
        ("default/c2", "kept", 1), ("default/c3", "left_out", None)]
    lines = {error["line"]: error["text"] for error in config["last_reload"]["errors"]}
    assert {one["line"]: one["error"] for one in config["isolated"]} == lines
    assert all(error["file"].endswith("/channels.yaml") for error in config["last_reload"]["errors"])
    assert [sidecar.send(to=f"/default/c{n}").status for n in (1, 2, 3, 4, 5)] == [202, 202, 503, 202, 404]
    assert sidecar.send(host="c3.default").status == 503
    assert (len(old.requests), len(new.requests), len(other.requests)) == (1, 1, 1)
    metrics = sidecar.metrics()
    assert metrics.sum("millrace_fanout_channels_isolated", fate="kept") == 1
    assert metrics.sum("millrace_fanout_channels_isolated", fate="left_out") == 1
    assert metrics.sum("millrace_fanout_config_last_reload_status") == 0
    assert metrics.sum("millrace_fanout_events_rejected_total", reason="broken_channel") == 2
    log = sidecar.log()
    assert "event=fanout.channel.kept channel=default/c2" in log and "event=fanout.channel.left_out channel=default/c3" in log
    for line in lines:
        assert f"line={line} why=" in log
    assert {c["name"]: c.get("kept_from_generation") for c in ask(sidecar, "GET", "/channels")[1]["channels"]} == {
        "c1": None, "c2": 1, "c4": None}
    write(sidecar.folder, {"channels": [channel(new.url, name="c2"), channel(other.url, name="c3")]})
    assert holds(sidecar, lambda c: c["generation"] == 3)["isolated"] == []
    assert sidecar.metrics().sum("millrace_fanout_config_last_reload_status") == 1
    assert sidecar.send(to="/default/c2").status == sidecar.send(to="/default/c3").status == 202


def test_a_start_leaves_out_the_channel_that_is_wrong(fanout, subscriber):
    s = subscriber()
    sidecar = fanout(channel(s.url), channel(s.url, name="c2", nack="never"), arguments=ISOLATE)
    assert sidecar.config()["last_reload"]["status"] == "partial"
    assert (sidecar.send().status, sidecar.send(to="/default/c2").status) == (202, 503)


# --- PUT ---


def test_a_put_must_bring_a_generation_above_the_last(fanout, subscriber, tmp_path):
    s = subscriber()
    sidecar = fanout(config={"channels": []}, arguments=[*PUT, "--data", tmp_path / "data"])
    channels = {"channels": [channel(s.url)]}
    assert ask(sidecar, "PUT", "/config", channels)[0] == 428
    assert ask(sidecar, "PUT", "/config?generation=x", channels)[0] == 400
    status, answer = ask(sidecar, "PUT", "/config?generation=5", channels)
    assert (status, answer["generation"], answer["subscriptions"]) == (200, 5, 1)
    assert sidecar.send().status == 202
    for generation in (5, 4):
        status, answer = ask(sidecar, "PUT", f"/config?generation={generation}", {"channels": []})
        assert status == 409 and answer["put_generation"] == 5
    assert ask(sidecar, "PUT", "/config?generation=7", {"generation": 6})[0] == 400
    assert sidecar.send().status == 202
    assert ask(sidecar, "PUT", "/config", {"generation": 6})[0] == 200
    assert sidecar.send().status == 404


def test_a_broken_put_is_refused_with_its_lines_and_changes_nothing(fanout, subscriber, tmp_path):
    s = subscriber()
    sidecar = fanout(config={"channels": []}, arguments=[*PUT, "--data", tmp_path / "data"])
    assert ask(sidecar, "PUT", "/config?generation=1", {"channels": [channel(s.url)]})[0] == 200
    status, answer = ask(sidecar, "PUT", "/config?generation=2", "channels:\n- namespace: default\n  name: c1\n  akc: all\n")
    assert status == 400
    assert answer["errors"][0] == {"file": "PUT /config", "line": 4, "text": "akc: no such field of a channel; did you mean ack?"}
    assert sidecar.send().status == 202
    config = sidecar.config()
    assert (config["generation"], config["last_reload"]["status"]) == (1, "failed")
    assert sidecar.metrics().sum("millrace_fanout_config_last_reload_status") == 0
    assert ask(sidecar, "PUT", "/config?generation=2", {"channels": []})[0] == 200
    assert sidecar.metrics().sum("millrace_fanout_config_last_reload_status") == 1


def test_where_the_file_decides_nothing_can_be_put(fanout):
    sidecar = fanout(config={"channels": []})
    status, answer = ask(sidecar, "PUT", "/config?generation=1", {"channels": []})
    assert status == 409 and "fanout.sources" in answer["error"]
    assert ask(sidecar, "DELETE", "/config")[0] == 409


def test_of_put_and_file_the_first_counts_and_what_was_put_can_be_deleted(fanout, tmp_path):
    arguments = ["--set", "fanout.sources=[put, file]", "--data", tmp_path / "data"]
    sidecar = fanout(channel(name="from-file"), arguments=arguments)
    assert sidecar.config()["source"] == "file"
    status, answer = ask(sidecar, "PUT", "/config?generation=3", {"channels": [channel(name="a"), channel(name="b")]})
    assert status == 200 and answer["source"] == "put"
    write(sidecar.folder, {"channels": []})
    os.kill(sidecar.pid, signal.SIGHUP)
    until(lambda: sidecar.config()["last_reload"]["status"] == "unchanged", "a look at the sources")
    assert sidecar.config()["channels"] == 2
    sidecar.kill()
    again = fanout(channel(name="from-file"), arguments=arguments)
    assert (again.config()["source"], again.config()["generation"]) == ("put", 3)
    status, answer = ask(again, "DELETE", "/config")
    assert status == 200 and answer["source"] == "file"
    assert ask(again, "PUT", "/config?generation=3", {"channels": []})[0] == 409, "its number is not forgotten"
    assert ask(again, "PUT", "/config?generation=4", {"channels": []})[0] == 200


def test_a_put_shows_its_token(fanout, tmp_path):
    (tmp_path / "token").write_text("let-me\n")
    sidecar = fanout(config={"channels": []}, arguments=[*PUT, "--data", tmp_path / "data", "--set",
                                                         f"fanout.put_token=file:{tmp_path}/token"])
    for headers in ({}, {"Authorization": "Bearer let-m"}, {"Authorization": "Basic bGV0LW1l"}):
        assert ask(sidecar, "PUT", "/config?generation=1", {"channels": []}, headers)[0] == 401
        assert ask(sidecar, "DELETE", "/config", headers=headers)[0] == 401
    assert ask(sidecar, "PUT", "/config?generation=1", {"channels": []}, {"Authorization": "Bearer let-me"})[0] == 200
    assert "let-me" not in sidecar.log()


def test_channels_are_told(fanout):
    sidecar = fanout(channel({"uid": "u1", "subscriber": "http://127.0.0.1:9/", "dead_letter": "127.0.0.1:10"},
                             hosts=["events.example"], ack="async-memory"))
    status, answer = ask(sidecar, "GET", "/channels")
    assert status == 200
    only, = answer["channels"]
    assert (only["namespace"], only["name"], only["hosts"], only["is_lossy"]) == ("default", "c1", ["events.example"], True)
    assert only["subscriptions"][0]["dead_letter"] == "http://127.0.0.1:10"


def test_how_a_subscription_fares_is_told(fan, subscriber):
    good, bad = subscriber(), subscriber(lambda request, number: Answer(403))
    sidecar = fan({"uid": "good", "subscriber": good.url}, {"uid": "bad", "subscriber": bad.url})
    assert sidecar.send().status == 500
    status, one = ask(sidecar, "GET", "/subscriptions/default/c1/bad")
    assert (status, one["uid"], one["failed"], one["breaker"]) == (200, "bad", 1, "closed")
    assert (one["last_error"]["reason"], one["last_error"]["status"]) == ("status", 403)
    status, one = ask(sidecar, "GET", "/subscriptions/default/c1/good")
    assert (one["delivered"], "last_error" in one) == (1, False)
    assert [row["uid"] for row in ask(sidecar, "GET", "/subscriptions/default/c1")[1]] == ["good", "bad"]
    for unknown in ("/subscriptions/default/c1/none", "/subscriptions/default/c2/good", "/subscriptions/default/c2"):
        assert ask(sidecar, "GET", unknown)[0] == 404


# --- what a request brings ---


@pytest.fixture
def stateless(fanout, subscriber):
    s = subscriber()
    sidecar = fanout(config={"channels": []}, arguments=["--set", "fanout.stateless.token=t0ken", "--set",
                                                         f"fanout.stateless.allow=[{s.host}]"])
    return sidecar, s


def test_a_request_may_bring_its_subscriptions_in_a_header(stateless):
    sidecar, s = stateless
    brought = {"Fanout-Channel": json.dumps({"subscriptions": [{"subscriber": s.url + "x"}]})}
    token = {"Authorization": "Bearer t0ken"}
    assert sidecar.send(event() | brought, to="/").status == 401
    assert sidecar.send(event() | brought | {"Authorization": "Bearer t0k"}, to="/").status == 401
    elsewhere = {"Fanout-Channel": json.dumps({"subscriptions": [{"subscriber": "http://127.0.0.1:1/"}]})}
    assert sidecar.send(event() | elsewhere | token, to="/").status == 403
    assert s.requests == []
    assert sidecar.send(event() | brought | token, to="/").status == 202
    request = s.only()
    assert request.path == "/x" and request.body == b'{"x":1}'
    assert request.all("Authorization") == [] and request.all("Fanout-Channel") == []


def test_a_request_may_bring_its_subscriptions_with_the_event(stateless):
    sidecar, s = stateless
    body = json.dumps({"channel": {"subscriptions": [{"subscriber": s.url}]}, "event": document(data={"a": 1})}).encode()
    headers = {"Content-Type": "application/vnd.millrace.fanout+json"}
    assert sidecar.send(headers, body, to="/").status == 401
    assert sidecar.send(headers | {"Authorization": "Bearer t0ken"}, body, to="/").status == 202
    request = s.only()
    assert json.loads(request.body) == {"a": 1} and request.attributes()["type"] == "com.example.opened"
    assert sidecar.send(headers | {"Authorization": "Bearer t0ken"}, b"{}", to="/").status == 400


def test_by_default_no_request_brings_subscriptions(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    brought = {"Fanout-Channel": json.dumps({"subscriptions": []}), "Authorization": "Bearer "}
    assert sidecar.send(event() | brought).status == 403
    assert s.requests == []


# --- write-config ---


def test_what_is_written_holds_and_what_is_broken_is_not_written(fanout, subscriber, tmp_path):
    s = subscriber()
    sidecar = fanout(config={"channels": []})
    good = json.dumps({"channels": [channel(s.url)]})
    done = write_channels(sidecar.folder, good)
    assert (done.returncode, done.stdout.strip()) == (0, str(sidecar.folder / "channels.yaml")), done.stderr
    holds(sidecar, lambda c: c["channels"] == 1)
    assert sidecar.send().status == 202
    (tmp_path / "broken.yaml").write_text("channels:\n- namespace: default\n  nme: c1\n")
    done = write_channels(sidecar.folder, "", "--from", str(tmp_path / "broken.yaml"))
    assert done.returncode == 1
    assert f"{tmp_path}/broken.yaml:3: nme: no such field of a channel; did you mean name?" in done.stderr
    assert (sidecar.folder / "channels.yaml").read_text() == good
    assert [path.name for path in sidecar.folder.iterdir()] == ["channels.yaml"], "nothing is left lying about"


def test_knatives_form_is_written_under_its_name(tmp_path):
    text = json.dumps({"channelConfigs": [{"namespace": "a", "name": "b", "fanoutConfig": {"subscriptions": []}}]})
    done = write_channels(tmp_path, text, "--from", "-")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / KNATIVE).read_text() == text
    (tmp_path / "channels.yaml").write_text("channels: []")
    done = write_channels(tmp_path, text)
    assert done.returncode == 1 and "comes before" in done.stderr
    done = write_channels(tmp_path / "nowhere", text)
    assert done.returncode == 1 and "nowhere" in done.stderr


def test_check_reads_the_channels_as_well(tmp_path):
    config = write_config({"fanout": {"config_dir": str(tmp_path / "channels")}}, tmp_path / "millrace.yaml")
    done = run_command("check", "-c", config)
    assert done.returncode == 1 and f"{tmp_path}/channels: neither channels.yaml nor" in done.stderr
    write(tmp_path / "channels", "channels:\n- {namespace: a, nme: b}\n")
    done = run_command("check", "-c", config)
    assert done.returncode == 1 and f"{tmp_path}/channels/channels.yaml:2: nme: no such field" in done.stderr
    assert run_command("check", "-c", config, "--no-secrets").returncode == 0, "on another machine they need not be there"
    write(tmp_path / "channels", "channels:\n- {namespace: a, name: b}\n")
    done = run_command("check", "-c", config)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr


# --- the process ---


def test_the_systems_authorities_are_read_when_a_subscriber_has_to_show_a_certificate(fanout, subscriber, tmp_path, monkeypatch):
    ca = Authority(tmp_path, "ca")
    s = subscriber()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ca.issue("subscriber", "IP:127.0.0.1"))
    s.server.socket = context.wrap_socket(s.server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca.cert))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    secure = channel({"subscriber": s.url.replace("http:", "https:"), "delivery": {"retry": 0}})
    sidecar = fanout(config={"channels": []})
    write(sidecar.folder, {"channels": [secure]})
    holds(sidecar, lambda c: c["channels"] == 1)
    assert sidecar.send().status == 202
    os.kill(sidecar.pid, signal.SIGHUP)
    until(lambda: sidecar.config()["last_reload"]["status"] == "unchanged", "a look at the sources")
    assert sidecar.send().status == 202
    assert fanout(secure).send().status == 202, "from the start on"


def test_serve_with_a_fan_out_and_nothing_else_is_the_sidecar(tmp_path, subscriber):
    s = subscriber()
    write(tmp_path / "channels", {"channels": [channel(s.url)]})
    config = write_config({"fanout": {"config_dir": str(tmp_path / "channels"), "listen": "127.0.0.1:0", "grace": "0"},
                           "admin": {"listen": "127.0.0.1:0"}}, tmp_path / "millrace.yaml")
    server = Server(["-c", config], tmp_path)
    try:
        match = READY.match(server.ready_line())
        assert match and match["admin"], server.log()
        server.admin = match["admin"]
        assert server.get("/readyz") == (200, "ok\n")
        assert server.stop() == 0, server.log()
    finally:
        server.close()


def test_a_default_port_for_operators_that_is_taken_is_a_warning_one_that_was_asked_for_is_not(tmp_path):
    write(tmp_path / "channels", {"channels": []})
    arguments = ["--config-dir", tmp_path / "channels", "--listen", "127.0.0.1:0", "--set", "fanout.grace=0"]
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 8081))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        server = Sidecarless(arguments, tmp_path, "default")
        try:
            match = READY.match(server.ready_line())
            assert match and not match["admin"], server.log()
            assert "level=warn sub=admin event=listen" in server.log()
            assert server.stop() == 0, server.log()
        finally:
            server.close()
        server = Sidecarless([*arguments, "--admin", "127.0.0.1:8081"], tmp_path, "asked")
        try:
            assert ended(server) == 1
            assert "start.failed" in server.log()
        finally:
            server.close()


class Sidecarless(Server):
    """`millrace fanout` with all its arguments given."""

    command = "fanout"
