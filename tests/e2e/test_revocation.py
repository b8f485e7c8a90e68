"""Certificates of devices that their CA has revoked (docs/DEVICES.md): by lists in a folder, or given with the CA; by what openssl's OCSP responder says."""
import base64
import subprocess

import pytest
import requests

from lib.certs import Authority, openssl
from lib.paho_client import V5, Paho
from lib.subscriber import Answer, Gate
from lib.wait import HANG_S, until
from test_device_auth import Party, named, trusted
from test_registry import Api

REFUSED, UNAVAILABLE = 0x86, 0x88
OCSP = "millrace_authority_ocsp_total"


@pytest.fixture(scope="module")
def party(tmp_path_factory):
    return Party(tmp_path_factory.mktemp("party"))


@pytest.fixture
def root(party, tmp_path):
    """A CA of the test's own, which has revoked nobody."""
    folder = tmp_path / "root"
    folder.mkdir()
    return Authority(folder, "root")


@pytest.fixture
def start(serve, party, tmp_path):
    """start(revocation): a server where tenant t1 trusts nobody yet, and the folder for lists."""
    def make(revocation=None, **more):
        lists = tmp_path / "lists"
        lists.mkdir()
        tls = {"cert": str(party.cert), "key": str(party.key), "client_auth": "optional"}
        return serve({
            "kafka": {"embedded": True},
            "listeners": [{"mqtts": "127.0.0.1:0", "tls": dict(tls)}, {"https": "127.0.0.1:0", "tls": dict(tls)}],
            "admin": {"listen": "127.0.0.1:0"},
            "authentication": {"revocation": {"crl_dir": str(lists)} | (revocation or {})},
            "workers": 2,
            "data_dir": str(tmp_path / "data"),
        } | more)
    return make


def register(server, root, *names, **ca):
    api = Api(server)
    api.must(201, "POST", "/tenants/t1", {"trusted-ca": [trusted(root, **ca)]})
    for name in names:
        api.must(201, "POST", f"/devices/t1/{name}")
        api.must(204, "PUT", f"/credentials/t1/{name}", named(name))
    return api


@pytest.fixture
def connect(party):
    clients = []

    def go(server, pair, version=V5, client_id="c1"):
        client = Paho(server.mqtt, version, client_id)
        client.client.tls_set_context(party.client(pair))
        clients.append(client)
        client.code = client.connect()[0]
        return client

    yield go
    for client in clients:
        client.__exit__()


@pytest.fixture
def session(party):
    """session(server, pair): a kept-alive connection; ask() is the status of telemetry over it."""
    def make(server, pair):
        host, port = server.http
        s = requests.Session()
        s.verify, s.cert, s.trust_env = str(party.ca.cert), tuple(map(str, pair)), False
        return lambda: s.post(f"https://{host}:{port}/telemetry", data="x", headers={"QoS-Level": "1"}, timeout=HANG_S).status_code
    return make


def certificates(server, outcome):
    return server.metrics().sum("millrace_registry_certificates_total", outcome=outcome)


def publish(client):
    client.client.publish("telemetry", b"{}", 1)
    client.wait("publish")


def test_a_list_in_the_folder_counts_without_a_connection_lost(start, connect, session, root, tmp_path):
    good, gone = root.issue("good"), root.issue("gone")
    server = start()
    register(server, root, "good", "gone")
    before, ask, ask_gone = connect(server, gone), session(server, good), session(server, gone)
    assert before.code == 0 and connect(server, good).code == 0
    assert (ask(), ask_gone()) == (202, 202)
    crl = root.revoke(gone[0])
    (tmp_path / "lists" / "root.crl").write_bytes(crl.read_bytes())
    until(lambda: connect(server, gone, client_id="c2").code == REFUSED, "the list")
    publish(before)  # who is in stays
    assert (ask(), ask_gone()) == (202, 401)
    assert connect(server, good, client_id="c3").code == 0
    assert certificates(server, "revoked") > 0
    (tmp_path / "lists" / "root.crl").unlink()
    until(lambda: connect(server, gone, client_id="c2").code == 0, "the end of the list")
    publish(before)


def test_over_http_a_certificate_is_not_verified_again_for_each_request(start, session, root):
    server = start()
    api = register(server, root, "good")
    ask = session(server, root.issue("good"))
    assert [ask() for _ in range(20)] == [202] * 20
    assert (certificates(server, "good"), certificates(server, "remembered")) == (1, 19)
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": []})
    assert ask() == 401


@pytest.mark.parametrize("old_crl, code", [("refuse", REFUSED), ("accept", 0)])
def test_a_list_that_is_over(start, connect, root, tmp_path, old_crl, code):
    good, gone = root.issue("good"), root.issue("gone")
    server = start({"old_crl": old_crl})
    register(server, root, "good", "gone")
    root.revoke(gone[0])
    crl = tmp_path / "lists" / "root.pem"
    openssl("ca", "-config", root.folder / "root.cnf", "-gencrl", "-crlsec", "1", "-out", crl, folder=root.folder)
    until(lambda: connect(server, gone).code == REFUSED, "the list")
    until(lambda: connect(server, good).code == code, "the end of the list")


def test_a_list_that_is_none_changes_nothing(start, connect, root, tmp_path):
    good, gone = root.issue("good"), root.issue("gone")
    server = start()
    register(server, root, "good", "gone")
    file = tmp_path / "lists" / "root.crl"
    file.write_bytes(root.revoke(gone[0]).read_bytes())
    until(lambda: connect(server, gone).code == REFUSED, "the list")
    failed = server.metrics().sum("millrace_config_reload_total", result="failed")
    file.write_text("nonsense")
    until(lambda: server.metrics().sum("millrace_config_reload_total", result="failed") > failed, "a reload that failed")
    assert "has no certificate revocation list" in server.log()
    assert (connect(server, gone).code, connect(server, good).code) == (REFUSED, 0)


def test_a_list_given_with_the_ca_counts_at_once(start, connect, session, root, party):
    good, gone = root.issue("good"), root.issue("gone")
    server = start()
    api = register(server, root, "good", "gone")
    ask = session(server, gone)
    assert ask() == 202
    der = subprocess.run(["openssl", "crl", "-in", root.revoke(gone[0]), "-outform", "DER"], capture_output=True, check=True).stdout
    text = base64.b64encode(der).decode()
    assert api.ask("PUT", "/tenants/t1", {"trusted-ca": [trusted(party.other, crl=text)]}).json()["field"] == "/trusted-ca/0/crl"
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [trusted(root, crl=text)]})
    assert (ask(), connect(server, gone).code, connect(server, good).code) == (401, REFUSED, 0)


class Responder:
    """A CA's responder: what it is asked, and how it answers."""

    def __init__(self, root):
        self.root, self.signer, self.options, self.status = root, None, ["-nmin", "5"], 200

    def answer(self, request, number):
        assert (request.method, request.header("Content-Type")) == ("POST", "application/ocsp-request")
        body = self.root.respond(request.body, *self.options, signer=self.signer) if self.status == 200 else b""
        return Answer(self.status, {"Content-Type": "application/ocsp-response"}, body)


@pytest.fixture
def responder(root):
    return Responder(root)


def ocsp(uri=None, **more):
    """What a trusted CA has for it."""
    return {"ocsp-revocation-enabled": True} | ({"ocsp-responder-uri": uri} if uri else {}) | more


@pytest.mark.parametrize("nonce", [False, True])
def test_a_responder_says_what_is_revoked(start, connect, session, root, responder, subscriber, nonce):
    http = subscriber(responder.answer)
    good, gone, unknown = (root.issue(name) for name in ("good", "gone", "unknown"))
    root.vouch(good[0])
    root.revoke(gone[0])
    server = start()
    register(server, root, "good", "gone", "unknown", **ocsp(http.url + "ocsp", **{"ocsp-nonce-enabled": nonce}))
    for _ in range(2):
        assert [connect(server, pair).code for pair in (good, gone, unknown)] == [0, REFUSED, REFUSED]
        assert [session(server, pair)() for pair in (good, gone, unknown)] == [202, 401, 401]
    assert len(http.requests) == 3 and http.requests[0].path == "/ocsp"
    assert [server.metrics().sum(OCSP, outcome=outcome) for outcome in ("good", "revoked", "unknown")] == [1, 1, 1]


def test_the_certificate_says_whom_to_ask_and_the_ca_has_named_who_answers(start, connect, root, responder, subscriber):
    http = subscriber(responder.answer)
    good = root.issue("good", extensions=f"authorityInfoAccess=OCSP;URI:{http.url}\n")
    nowhere = root.issue("nowhere")
    root.vouch(good[0], nowhere[0])
    responder.signer = root.issue("responder", extensions="extendedKeyUsage=OCSPSigning\n")
    server = start()
    api = register(server, root, "good", "nowhere", **ocsp())
    assert [connect(server, pair).code for pair in (good, nowhere)] == [0, UNAVAILABLE]
    assert server.metrics().sum(OCSP, outcome="nowhere") == 1
    responder.signer = root.issue("somebody")  # whom it has not named
    other = root.issue("other", extensions=f"authorityInfoAccess=OCSP;URI:{http.url}\n")
    root.vouch(other[0])
    api.must(201, "POST", "/devices/t1/other")
    api.must(204, "PUT", "/credentials/t1/other", named("other"))
    assert connect(server, other).code == UNAVAILABLE
    assert server.metrics().sum(OCSP, outcome="untrusted") == 1
    pem = responder.signer[0].read_text()
    cert = trusted(root)["cert"]
    text = "".join(pem.split("-----")[2].split())
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [{"cert": cert} | ocsp(http.url, **{"ocsp-responder-cert": text})]})
    assert connect(server, other).code == 0  # but the tenant has


@pytest.mark.parametrize("failure, code, status", [("refuse", UNAVAILABLE, 503), ("accept", 0, 202)])
def test_without_an_answer_it_is_as_configured(start, connect, session, root, responder, subscriber, failure, code, status):
    http = subscriber(responder.answer)
    responder.status = 500
    good, gone = root.issue("good"), root.issue("gone")
    root.vouch(good[0])
    root.revoke(gone[0])
    server = start({"ocsp_failure": failure})
    register(server, root, "good", "gone", **ocsp(http.url))
    assert (connect(server, good).code, session(server, good)()) == (code, status)
    responder.status = 200
    until(lambda: connect(server, gone).code == REFUSED, "the responder's answer")
    until(lambda: connect(server, good).code == 0, "the responder's answer")


def test_others_go_on_while_a_responder_is_asked(start, connect, session, root, responder, subscriber, party):
    gate = Gate()
    http = subscriber(lambda request, number: gate.hold(responder.answer(request, number))(request, number))
    good = root.issue("good")
    root.vouch(good[0])
    server = start({"ocsp_timeout": "60s"}, workers=1)
    api = register(server, root, "good", **ocsp(http.url))
    api.must(201, "POST", "/tenants/t2", {"trusted-ca": [trusted(party.other)]})
    api.must(201, "POST", "/devices/t2/sensor")
    api.must(204, "PUT", "/credentials/t2/sensor", named("sensor"))
    sensor = party.other.issue("sensor", file="sensor-of-t2")
    waiting = []
    for number in range(3):
        client = Paho(server.mqtt, V5, f"waits-{number}")
        client.client.tls_set_context(party.client(good))
        client.client.connect(*client.address)
        client.client.loop_start()
        waiting.append(client)
    http.wait(1)
    other, ask = connect(server, sensor, client_id="c2"), session(server, sensor)
    assert other.code == 0 and ask() == 202
    publish(other)
    assert all(client.events["connect"].empty() for client in waiting)
    gate.open()
    assert [client.wait("connect")[0] for client in waiting] == [0, 0, 0]
    assert len(http.requests) == 1  # one question for all
    for client in waiting:
        client.__exit__()
