"""The management interface and what it changes for devices (docs/REGISTRY.md; acceptance items 1, 7, 8, 28 and 29 of Hono's behaviour)."""
import base64
import concurrent.futures
import hashlib
import json
import os

import pytest
import requests

from lib.kafka import read_all
from lib.mqtt import CONNACK, V5, V311, Client, connect_packet
from lib.server import run_command, write_config
from lib.wait import HANG_S, until

PASSWORD = "geheim"


class Api:
    def __init__(self, server):
        self.base = f"http://{server.admin}/v1"
        self.session = requests.Session()

    def ask(self, method, path, body=None, if_match=None, **rest):
        headers = {"If-Match": if_match} if if_match else {}
        return self.session.request(method, self.base + path, json=body, headers=headers, timeout=HANG_S, **rest)

    def must(self, status, method, path, body=None, **rest):
        answer = self.ask(method, path, body, **rest)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def account(self, tenant, device, auth_id=None, password=PASSWORD, **device_members):
        self.must(201, "POST", f"/devices/{tenant}/{device}", device_members)
        self.must(204, "PUT", f"/credentials/{tenant}/{device}", [password_of(auth_id or device, password)])


def password_of(auth_id, password=PASSWORD, **secret):
    return {"type": "hashed-password", "auth-id": auth_id, "secrets": [{"pwd-plain": password} | secret]}


@pytest.fixture
def config(tmp_path):
    return {
        "kafka": {"embedded": True},
        "listeners": [{"mqtt": "127.0.0.1:0"}, {"http": "127.0.0.1:0"}],
        "admin": {"listen": "127.0.0.1:0", "audit_topic": "audit"},
        "registry": {"bcrypt_cost": 6},
        "data_dir": str(tmp_path / "data"),
        "tenants": {"fixed": {"devices": {"d1": {"auth_id": "a1", "password": "pw"}, "d2": {"via": ["d1"]}}}},
    }


@pytest.fixture
def server(serve, config):
    return serve(config)


@pytest.fixture
def api(server):
    return Api(server)


@pytest.fixture
def telemetry(server):
    """telemetry(user): the status of a record over HTTP."""
    def send(user, password=PASSWORD, path="/telemetry", method="POST"):
        host, port = server.http
        return requests.request(method, f"http://{host}:{port}{path}", auth=(user, password), data="x", timeout=HANG_S,
                                headers={"QoS-Level": "1", "Content-Type": "text/plain"}).status_code
    return send


def test_acceptance_28(api):
    api.must(201, "POST", "/tenants/t1", {"registration-limits": {"max-devices": 2}})
    created = api.must(201, "POST", "/devices/t1/x")
    assert created.headers["Location"] == "/v1/devices/t1/x" and created.headers["ETag"]
    assert created.json() == {"id": "x"}
    api.must(409, "POST", "/devices/t1/x")
    api.must(204, "PUT", "/devices/t1/x", {"ext": {"a": 1}}, if_match=created.headers["ETag"])
    api.must(412, "PUT", "/devices/t1/x", {}, if_match=created.headers["ETag"])
    assert "error" in api.must(404, "GET", "/devices/t1/nope").json()
    api.must(204, "PUT", "/credentials/t1/x", [password_of("ax")])
    shown, = api.must(200, "GET", "/credentials/t1/x").json()
    secret, = shown["secrets"]
    assert secret["id"] and not {"pwd-plain", "pwd-hash", "salt", "hash-function"} & set(secret)
    assert api.must(201, "POST", "/devices/t1").json()["id"]
    answer = api.must(403, "POST", "/devices/t1/third")
    assert "2 devices" in answer.json()["error"]


def test_an_auth_id_belongs_to_one_device(api):
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    api.must(201, "POST", "/devices/t1/d2")
    answer = api.must(409, "PUT", "/credentials/t1/d2", [password_of("a1")])
    assert answer.json()["field"] == "/0/auth-id"


@pytest.mark.parametrize("version, code", [(V311, 4), (V5, 0x86)])
def test_acceptance_1(server, api, version, code):
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    with Client(server.mqtt, version) as c:
        assert c.connect("c1", user="a1@t1", password=PASSWORD) is False
    for user, password in (("a1@t1", "wrong"), ("nobody@t1", PASSWORD), ("a1@unknown", PASSWORD)):
        with Client(server.mqtt, version) as c:
            c.connect("c1", user=user, password=password, expect=code)
    api.must(204, "PUT", "/tenants/t1", {"adapters": [{"type": "hono-http", "enabled": True}]})
    with Client(server.mqtt, version) as c:
        c.connect("c1", user="a1@t1", password=PASSWORD, expect=0x87 if version == V5 else 5)


@pytest.mark.parametrize("function, digest", [("sha-256", hashlib.sha256), ("sha-512", hashlib.sha512)])
def test_hashes_of_clients_open(api, telemetry, function, digest):
    salt = os.urandom(8)
    secret = {"hash-function": function, "salt": base64.b64encode(salt).decode(),
              "pwd-hash": base64.b64encode(digest(salt + PASSWORD.encode()).digest()).decode()}
    api.must(201, "POST", "/tenants/t1")
    api.must(201, "POST", "/devices/t1/d1")
    api.must(204, "PUT", "/credentials/t1/d1", [{"type": "hashed-password", "auth-id": "a1", "secrets": [secret]}])
    assert until(lambda: telemetry("a1@t1") == 202, "the tenant's topics")
    assert telemetry("a1@t1", "wrong") == 401


def test_a_secret_that_is_named_keeps_what_is_stored(api, telemetry):
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    before, = api.must(200, "GET", "/credentials/t1/d1").json()
    before["secrets"][0]["comment"] = "still the same"
    api.must(204, "PUT", "/credentials/t1/d1", [before])
    assert until(lambda: telemetry("a1@t1") == 202, "the tenant's topics")
    before["secrets"][0]["not-after"] = "2020-01-01T00:00:00Z"
    api.must(204, "PUT", "/credentials/t1/d1", [before])
    assert telemetry("a1@t1") == 401
    before["secrets"][0]["id"] = "unknown"
    assert api.must(400, "PUT", "/credentials/t1/d1", [before]).json()["field"] == "/0/secrets/0/id"


def test_gateways_speak_for_their_devices(server, api):
    api.must(201, "POST", "/tenants/t1", {"defaults": {"unit": "K", "site": "x"}})
    api.account("t1", "g1", memberOf="hall")
    api.must(201, "POST", "/devices/t1/d2", {"via": ["g1"], "defaults": {"unit": "C"}})
    api.must(201, "POST", "/devices/t1/d3", {"viaGroups": ["hall"]})
    api.must(201, "POST", "/devices/t1/d4")
    with Client(server.mqtt, V5) as c:
        c.connect("g", user="g1@t1", password=PASSWORD)
        assert until(lambda: c.publish_and_wait("t//d2", "x") == 0, "the tenant's topics")
        assert c.publish_and_wait("t//d3", "x") == 0
        assert c.publish_and_wait("t//d4", "x") == 0x87
    records = {record.key: dict(record.headers) for record in read_all(server.kafka, "hono.telemetry.t1")}
    assert set(records) == {b"d2", b"d3"}
    assert records[b"d2"]["unit"] == b"C" and records[b"d2"]["site"] == b"x" and records[b"d3"]["unit"] == b"K"


CHANGES = {
    "device disabled": ("PUT", "/devices/t1/d1", {"enabled": False}),
    "device deleted": ("DELETE", "/devices/t1/d1", None),
    "devices deleted": ("DELETE", "/devices/t1", None),
    "tenant disabled": ("PUT", "/tenants/t1", {"enabled": False}),
    "tenant deleted": ("DELETE", "/tenants/t1", None),
    "adapter disabled": ("PUT", "/tenants/t1", {"adapters": [{"type": "hono-coap", "enabled": True}]}),
    "credentials deleted": ("PUT", "/credentials/t1/d1", []),
    "credentials disabled": ("PUT", "/credentials/t1/d1", [password_of("a1") | {"enabled": False}]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_acceptance_29_who_may_not_stay_leaves(server, api, telemetry, change):
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    assert until(lambda: telemetry("a1@t1") == 202, "the tenant's topics")
    with Client(server.mqtt, V5) as c:
        c.connect("c1", user="a1@t1", password=PASSWORD)
        method, path, body = CHANGES[change]
        api.must(204, method, path, body)
        assert telemetry("a1@t1") in (401, 403, 404)
        assert c.expect_disconnect() == 0x98


def test_a_change_is_told_in_kafka(server, api):
    api.must(201, "POST", "/tenants/t1", {"ext": {"invalidate-cache-on-update": True}})
    api.account("t1", "d1", "a1")
    api.must(204, "PUT", "/devices/t1/d1", {"enabled": False})
    api.must(204, "DELETE", "/devices/t1")
    api.must(204, "DELETE", "/tenants/t1")

    def read(topic, n):
        def records():
            found = [(r.key, json.loads(r.value)) for r in sorted(read_all(server.kafka, topic), key=lambda r: r.offset)]
            return found if len(found) >= n else None
        return until(records, topic)

    tenants = read("hono.notification.registry-tenant", 2)
    assert [(key, value["change"], value["enabled"]) for key, value in tenants] == [(b"t1", "CREATE", True), (b"t1", "DELETE", False)]
    assert tenants[0][1]["invalidate-cache-on-update"] is True and tenants[0][1]["type"] == "tenant-change-v1"
    assert tenants[0][1]["source"] == "device-registry" and tenants[0][1]["creation-time"].endswith("Z")
    devices = read("hono.notification.registry-device", 4)
    by_type = [(key, value["type"], value.get("change"), value.get("enabled")) for key, value in devices]
    assert sorted(by_type, key=str) == sorted([
        (b"d1", "device-change-v1", "CREATE", True), (b"d1", "credentials-change-v1", None, None),
        (b"d1", "device-change-v1", "UPDATE", False), (b"t1", "all-devices-of-tenant-deleted-v1", None, None)], key=str)
    audit = read("audit", 6)
    assert [value["operation"] for _, value in audit] == ["tenant-create", "device-create", "credentials-update", "device-update",
                                                          "devices-delete", "tenant-delete"]
    assert {value["user"] for _, value in audit} == {"anonymous"}
    assert PASSWORD not in str(audit)


def test_what_is_registered_survives_the_process(serve, config):
    first = serve(config)
    api = Api(first)
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    tag = api.must(200, "GET", "/devices/t1/d1").headers["ETag"]
    first.kill()
    second = serve(config)
    assert Api(second).must(200, "GET", "/devices/t1/d1").headers["ETag"] == tag
    with Client(second.mqtt, V5) as c:
        c.connect("c1", user="a1@t1", password=PASSWORD)


def test_configured_devices_are_shown_and_can_be_taken_over(server, api, telemetry):
    assert api.must(200, "GET", "/devices/fixed/d2").json()["via"] == ["d1"]
    shown, = api.must(200, "GET", "/credentials/fixed/d1").json()
    assert shown["auth-id"] == "a1"
    assert telemetry("a1@fixed", "pw") == 202
    api.account("fixed", "new")
    assert telemetry("new@fixed") == 202
    with Client(server.mqtt, V5) as c:
        c.connect("c1", user="a1@fixed", password="pw")
        api.must(204, "PUT", "/devices/fixed/d1", {"enabled": False})
        assert c.expect_disconnect() == 0x98
    assert telemetry("a1@fixed", "pw") == 404
    api.must(204, "PUT", "/devices/fixed/d1", {})
    api.must(204, "PUT", "/credentials/fixed/d1", [password_of("a1", "another")])
    assert telemetry("a1@fixed", "another") == 202
    assert telemetry("a1@fixed", "pw") == 401


def test_concurrent_conditional_updates_one_wins(api, server):
    api.must(201, "POST", "/tenants/t1")
    tag = api.must(201, "POST", "/devices/t1/d1").headers["ETag"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda i: Api(server).ask("PUT", "/devices/t1/d1", {"ext": {"i": i}}, if_match=tag).status_code, range(8)))
    assert sorted(done) == [204] + [412] * 7


def test_many_devices_are_searched_and_deleted(api):
    api.must(201, "POST", "/tenants/t1")
    for i in range(450):
        api.must(201, "POST", f"/devices/t1/d{i:03}", {"ext": {"n": i, "even": i % 2 == 0}})
    def search(**parameters):
        return api.must(200, "GET", "/devices/t1", params=parameters).json()
    assert search()["total"] == 450 and len(search()["result"]) == 30
    found = search(filterJson=[json.dumps({"field": "/ext/even", "value": True}), json.dumps({"field": "/id", "value": "d1*"})],
                   sortJson=json.dumps({"field": "/ext/n", "direction": "desc"}), pageSize=5, pageOffset=1)
    assert found["total"] == 50 and [d["id"] for d in found["result"]] == ["d188", "d186", "d184", "d182", "d180"]
    assert search(pageSize=200, pageOffset=2)["result"][-1]["id"] == "d449"
    api.must(404, "GET", "/devices/t1", params={"pageOffset": 100})
    api.must(204, "DELETE", "/devices/t1")
    api.must(404, "GET", "/devices/t1")


def test_only_users_may_and_only_what_their_role_says(serve, config):
    config["admin"]["users"] = {
        "ops": {"password": "a-long-password", "role": "write"},
        "eye": {"token": "0123456789abcdef0123"},
        "own": {"password": "another-password", "role": "write", "tenants": ["t1"]},
    }
    api = Api(serve(config))
    ops, own, eye = ("ops", "a-long-password"), ("own", "another-password"), {"Authorization": "Bearer 0123456789abcdef0123"}

    def status(method, path, auth=None, headers=None):
        return requests.request(method, api.base + path, auth=auth, headers=headers, timeout=HANG_S).status_code
    assert status("POST", "/tenants/t1") == 401
    assert status("POST", "/tenants/t1", ("ops", "wrong-password")) == 401
    assert status("POST", "/tenants/t1", headers=eye) == 403
    assert status("POST", "/tenants/t1", own) == 201
    assert status("POST", "/tenants/t2", own) == 403
    assert status("POST", "/tenants/t2", ops) == 201
    assert status("GET", "/tenants", own) == 403
    assert status("GET", "/tenants", headers=eye) == 200
    assert status("GET", "/openapi.json") == 200


def test_off_loopback_users_are_needed(config, tmp_path):
    config["admin"] = {"listen": "0.0.0.0:0"}
    done = run_command("serve", "-c", write_config(config, tmp_path / "millrace.yaml"))
    assert done.returncode == 1 and "admin.users is missing" in done.stderr


BAD = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}{}", b'{"enabled":"yes"}', b'{"enabled":null}', b'{"a":1}', b'{"enabled":true,"enabled":true}',
    b"[" * 5000, b'{"ext":' * 100 + b"{}" + b"}" * 100, b'{"ext":{"a":"\\u0000"}}', b"\xff\xfe", b'{"ext":{"a":1e999}}',
    b'{"defaults":{"a":[]}}', b'{"via":[1]}', b'{"via":["g"],"memberOf":["h"]}',
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_bad_bodies_are_refused_and_nothing_is_stored(api, body):
    api.must(201, "POST", "/tenants/t1")
    answer = api.session.put(api.base + "/devices/fixed/d2", data=body, headers={"Content-Type": "application/json"}, timeout=HANG_S)
    assert answer.status_code == 400 and answer.json()["error"], answer.text
    assert api.must(200, "GET", "/devices/fixed/d2").json()["via"] == ["d1"]


def test_a_body_over_16000_bytes_is_413(api):
    body = b'{"ext":{"a":"' + b"x" * 16000 + b'"}}'
    answer = api.session.post(api.base + "/tenants/t1", data=body, headers={"Content-Type": "application/json"}, timeout=HANG_S)
    assert answer.status_code == 413
    api.must(404, "GET", "/tenants/t1")


def test_the_command_line_asks_the_same_interface(server, tmp_path):
    environment = os.environ | {"MILLRACE_API": f"http://{server.admin}"}

    def run(*arguments, status=0):
        done = run_command(*arguments, env=environment)
        assert done.returncode == status, done.stderr
        return done
    assert run("tenant", "create", "t1").stdout == "t1\n"
    run("device", "create", "t1", "d1", "--body", '{"via": "g1"}')
    secret = tmp_path / "credentials.json"
    secret.write_text(json.dumps([password_of("a1")]))
    run("credentials", "update", "t1", "d1", "--from", secret)
    assert "hashed-password" in run("credentials", "get", "t1", "d1").stdout
    table = run("device", "list", "t1").stdout.splitlines()
    assert table[1].split() == ["d1", "yes", "g1"] and table[2] == "1 of 1"
    assert json.loads(run("device", "list", "t1", "-o", "json").stdout)["total"] == 1
    exported = run("device", "export", "t1", "--secrets").stdout
    lines = tmp_path / "lines"
    lines.write_text(exported + "".join(json.dumps({"id": f"n{i}"}) + "\n" for i in range(2500)) + '{"id":"a b"}\n')
    run("device", "delete", "t1", "d1")
    done = run("device", "import", "t1", "--from", lines, status=1)
    assert "2502 lines: 2501 created, 0 there before, 1 failed" in done.stderr and "line 2502: " in done.stderr
    assert "0 created, 2501 there before" in run("device", "import", "t1", "--from", lines, status=1).stderr
    assert run("device", "export", "t1", "--secrets").stdout.splitlines()[0] == exported.strip(), "secrets survive the way"
    assert "404" in run("device", "get", "t1", "nobody", status=1).stderr
    assert "what?" in run("device", status=2).stderr
    environment["MILLRACE_API"] = "http://127.0.0.1:1"
    assert "nobody listens" in run("tenant", "list", status=2).stderr


def test_clients_that_leave_while_their_password_is_hashed_are_forgotten(serve, config):
    config["registry"]["bcrypt_cost"] = 10
    server = serve(config)
    api = Api(server)
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    for i in range(20):
        with Client(server.mqtt, V5) as c:
            c.send(connect_packet(V5, f"c{i}", user="a1@t1", password=f"wrong {i}"))
    host, port = server.http
    for i in range(5):
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(f"http://{host}:{port}/telemetry", auth=("a1@t1", f"bad {i}"), data="x", timeout=0.01)
    with Client(server.mqtt, V5) as c:
        c.connect("last", user="a1@t1", password=PASSWORD)
    until(lambda: server.metrics().sum("millrace_registry_hashes_waiting") == 0, "the pool to have nothing to do")


def test_a_device_that_is_there_is_answered_while_others_are_hashed(serve, config):
    config["registry"]["bcrypt_cost"] = 10
    config["limits"] = {"connect_timeout": "1s"}
    server = serve(config)
    api = Api(server)
    api.must(201, "POST", "/tenants/t1")
    api.account("t1", "d1", "a1")
    with Client(server.mqtt, V5) as there:
        there.connect("there", user="a1@t1", password=PASSWORD)
        crowd = [Client(server.mqtt, V5) for _ in range(20)]
        for i, c in enumerate(crowd):
            c.send(connect_packet(V5, f"c{i}", user="a1@t1", password=f"wrong {i}"))
        answered = 0
        while server.metrics().sum("millrace_registry_hashes_waiting") > 0:
            there.ping()
            answered += 1
        assert answered > 0
        for c in crowd:
            assert c.expect(CONNACK).body[1] == 0x86
            c.close()
