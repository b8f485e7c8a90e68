"""Those outside who have a say in who may connect (docs/REGISTRY.md): a webhook, an identity provider. Python's own HTTP server is asked, over TLS with
a CA of the test's."""
import json
import ssl

import pytest
import requests

from lib.certs import Authority
from lib.paho_client import V311, V5, Paho
from lib.subscriber import Answer, Gate
from lib.tokens import Key
from lib.wait import HANG_S, until

REFUSED = {V311: 0x86, V5: 0x86}  # paho has one set of reasons
UNAVAILABLE = 0x88
WEBHOOK = "millrace_authority_webhook_total"


def allow(device, **more):
    return Answer(200, {}, json.dumps({"result": "allow", "device": device} | more).encode())


DENY = Answer(200, {}, b'{"result": "deny"}')
IGNORE = Answer(200, {}, b'{"result": "ignore"}')


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ca")
    return Authority(folder, "ca")


@pytest.fixture(scope="module")
def tls(ca):
    """Of an https server at localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ca.issue("idm", "DNS:localhost,IP:127.0.0.1"))
    return context


@pytest.fixture
def start(serve, tenant, ca, tmp_path):
    """start(authentication): a server with device d1 (login a1, password pw) and d2, which cannot log in."""
    def make(authentication, workers=2, **top):
        config = {
            "kafka": {"embedded": True},
            "listeners": [{"mqtt": "127.0.0.1:0"}, {"http": "127.0.0.1:0"}],
            "admin": {"listen": "127.0.0.1:0"},
            "https_client": {"ca": str(ca.cert)},
            "authentication": authentication,
            "tenants": {tenant: {"devices": {"d1": {"auth_id": "a1", "password": "pw"}, "d2": {}}}},
            "workers": workers,
            "data_dir": str(tmp_path / "data"),
        }
        return serve(config | top)
    return make


@pytest.fixture
def connect():
    clients = []

    def go(server, user, password, version=V5, client_id="c1"):
        client = Paho(server.mqtt, version, client_id, user, password)
        clients.append(client)
        client.code = client.connect()[0]
        return client

    yield go
    for client in clients:
        client.__exit__()


def post(server, user, password):
    host, port = server.http
    return requests.post(f"http://{host}:{port}/telemetry", data="x", auth=(user, password), timeout=HANG_S,
                         headers={"QoS-Level": "1", "Content-Type": "text/plain"})


@pytest.mark.parametrize("version", [V311, V5])
def test_the_webhook_lets_devices_in_over_mqtt(start, connect, subscriber, tls, tenant, version):
    hook = subscriber(lambda request, n: allow("d2") if json.loads(request.body)["password"] == "sesame" else DENY, tls=tls)
    server = start({"webhook": {"url": hook.url + "ask", "token": "s3cret"}})
    client = connect(server, f"somebody@{tenant}", "sesame", version, "client-7")
    assert client.code == 0
    client.client.publish("telemetry", b"{}", 1)
    client.wait("publish")
    request = hook.only()
    assert (request.path, request.header("Authorization"), request.header("Content-Type")) == ("/ask", "Bearer s3cret", "application/json")
    assert json.loads(request.body) == {
        "protocol": "mqtt", "listener": "listeners[0]", "address": "127.0.0.1", "client_id": "client-7", "tenant": tenant,
        "auth_id": "somebody", "user_name": f"somebody@{tenant}", "password": "sesame"}
    assert connect(server, f"somebody@{tenant}", "closed", version).code == REFUSED[version]
    assert "sesame" not in server.log() and "s3cret" not in server.log()
    metrics = server.metrics()
    assert (metrics.sum(WEBHOOK, outcome="allowed"), metrics.sum(WEBHOOK, outcome="denied")) == (1, 1)


def test_the_webhook_lets_devices_in_over_http_and_is_asked_once(start, subscriber, tls, tenant):
    hook = subscriber(lambda request, n: allow("d2") if json.loads(request.body)["password"] == "sesame" else DENY, tls=tls)
    server = start({"webhook": {"url": hook.url}})
    for _ in range(5):
        assert post(server, f"x@{tenant}", "sesame").status_code == 202
        assert post(server, f"x@{tenant}", "closed").status_code == 401
    hook.wait(2)
    assert len(hook.requests) == 2
    assert json.loads(hook.requests[0].body)["protocol"] == "http"
    assert server.metrics().sum("millrace_authority_webhook_remembered_total") == 8


@pytest.mark.parametrize("trouble", ["status", "malformed", "unreachable", "timeout"])
def test_what_it_cannot_tell_is_no_wrong_password(start, connect, subscriber, tls, tenant, trouble):
    gate = Gate()
    answers = {"status": Answer(500, {}, b'{"result": "allow", "device": "d1"}'), "malformed": Answer(200, {}, b"yes"), "unreachable": DENY}
    hook = subscriber(gate.hold(DENY) if trouble == "timeout" else [answers[trouble]], tls=None if trouble == "unreachable" else tls)
    url = hook.url.replace("http:", "https:")  # which no plain server speaks
    server = start({"webhook": {"url": url, "timeout": "300ms" if trouble == "timeout" else "30s"}})
    assert connect(server, f"a1@{tenant}", "pw", V5).code == UNAVAILABLE
    assert connect(server, f"a1@{tenant}", "pw", V311).code == UNAVAILABLE
    assert post(server, f"a1@{tenant}", "pw").status_code == 503
    assert server.metrics().sum(WEBHOOK, outcome=trouble) == 3
    gate.open()


def test_others_go_on_while_it_is_asked(start, connect, subscriber, tls, tenant):
    gate = Gate()
    hook = subscriber(gate.hold(allow("d1")), tls=tls)
    server = start({"webhook": {"url": hook.url, "timeout": "60s", "order": "last"}}, workers=1)
    first = Paho(server.mqtt, V5, "waits", f"x@{tenant}", "sesame")
    first.client.connect(*first.address)
    first.client.loop_start()
    hook.wait(1)
    other = connect(server, f"a1@{tenant}", "pw", client_id="c2")
    assert other.code == 0
    other.client.publish("telemetry", b"{}", 1)
    other.wait("publish")
    assert first.events["connect"].empty()
    gate.open()
    assert first.wait("connect")[0] == 0
    first.__exit__()


def test_the_order_can_be_changed_by_a_reload(start, connect, subscriber, tls, tenant, tmp_path):
    hook = subscriber([IGNORE], tls=tls)
    server = start({"webhook": {"url": hook.url, "cache_denied": 0}})
    assert connect(server, f"a1@{tenant}", "pw").code == 0
    assert len(hook.requests) == 1
    file = tmp_path / "millrace-1.yaml"
    for order, code in (("only", REFUSED[V5]), ("last", 0)):
        text = file.read_text()
        before = server.metrics().sum("millrace_config_generation")
        file.write_text(text.replace("cache_denied: 0", f"cache_denied: 0\n    order: {order}") if "order:" not in text
                        else text.replace("order: only", f"order: {order}"))
        until(lambda: server.metrics().sum("millrace_config_generation") > before, "the reload")
        assert connect(server, f"a1@{tenant}", "pw").code == code
    assert len(hook.requests) == 2


def test_a_log_in_ends_with_its_ttl(start, connect, subscriber, tls, tenant):
    hook = subscriber(lambda request, n: allow("d1", ttl=2), tls=tls)
    server = start({"webhook": {"url": hook.url}})
    client = connect(server, f"x@{tenant}", "pw")
    assert client.code == 0
    client.wait("disconnect")


class Provider:
    """An identity provider: its keys, and what it answers to who asks for them."""

    def __init__(self, folder):
        self.keys = {"k1": Key(folder, "idm-1"), "k2": Key(folder, "idm-2"), "r1": Key(folder, "idm-rsa", "RSA:2048")}
        self.shown = ["k1", "r1"]
        self.is_there = True

    def answer(self, request, number):
        assert request.method == "GET"
        return Answer(200 if self.is_there else 500, {}, json.dumps({"keys": [self.keys[kid].jwk(kid) for kid in self.shown]}).encode())

    def token(self, tenant, kid="k1", **more):
        algorithm = "RS256" if kid == "r1" else "ES256"
        return self.keys[kid].token(algorithm, kid=kid, **({"iss": "idm", "aud": "fleet", "tid": tenant, "sub": "d1"} | more))


@pytest.fixture
def provider(tmp_path):
    return Provider(tmp_path)


def bearer(server, token):
    host, port = server.http
    return requests.post(f"http://{host}:{port}/telemetry", data="x", timeout=HANG_S,
                         headers={"QoS-Level": "1", "Content-Type": "text/plain", "Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("version", [V311, V5])
def test_tokens_of_an_identity_provider_let_in(start, connect, subscriber, tls, tenant, provider, version):
    idm = subscriber(provider.answer, tls=tls)
    server = start({"jwks": {"url": idm.url + "keys", "issuer": "idm", "audience": ["fleet"]}})
    for kid in ("k1", "r1"):
        client = connect(server, "unused", provider.token(tenant, kid), version)
        assert client.code == 0
        client.client.publish("telemetry", b"{}", 1)
        client.wait("publish")
        assert bearer(server, provider.token(tenant, kid)).status_code == 202
    bad = {
        "for others": provider.token(tenant, aud="them"),
        "of nobody": provider.token(tenant, sub="d9"),
        "of a tenant that is not there": provider.token("nowhere"),
        "of another issuer": provider.token(tenant, iss="somebody"),
        "over": provider.token(tenant, exp=1000),
        "by a key that is not shown": provider.token(tenant, "k2"),
        "by another key than it says": provider.keys["k2"].token(kid="k1", iss="idm", aud="fleet", tid=tenant, sub="d1"),
    }
    codes = {name: (connect(server, "unused", token, version).code, bearer(server, token).status_code) for name, token in bad.items()}
    assert set(codes.values()) == {(REFUSED[version], 401)}, codes
    assert len(idm.requests) == 1
    assert server.metrics().sum("millrace_authority_tokens_total", outcome="allowed") == 8  # for all that is said of the device


def test_a_new_key_is_fetched_when_a_token_names_it(start, connect, subscriber, tls, tenant, provider):
    idm = subscriber(provider.answer, tls=tls)
    server = start({"jwks": {"url": idm.url, "issuer": "idm", "audience": "fleet", "retry": "100ms"}})
    assert connect(server, "unused", provider.token(tenant)).code == 0
    provider.shown = ["k2"]
    until(lambda: bearer(server, provider.token(tenant, "k2")).status_code == 202, "the new key")
    assert bearer(server, provider.token(tenant)).status_code == 401


def test_keys_are_kept_for_a_while_when_the_provider_is_away(start, connect, subscriber, tls, tenant, provider):
    idm = subscriber(provider.answer, tls=tls)
    server = start({"jwks": {"url": idm.url, "issuer": "idm", "audience": "fleet", "refresh": "200ms", "retry": "200ms", "max_age": "2s"}})
    assert connect(server, "unused", provider.token(tenant)).code == 0
    provider.is_there = False
    until(lambda: server.metrics().sum("millrace_authority_keys_fetched_total", result="failed") > 0, "a failed attempt")
    assert connect(server, "unused", provider.token(tenant)).code == 0
    until(lambda: connect(server, "unused", provider.token(tenant)).code == UNAVAILABLE, "the end of the keys")
    assert bearer(server, provider.token(tenant)).status_code == 503
    provider.is_there = True
    until(lambda: bearer(server, provider.token(tenant)).status_code == 202, "the keys again")


def test_a_connection_ends_with_the_token_of_the_provider(start, connect, subscriber, tls, tenant, provider):
    idm = subscriber(provider.answer, tls=tls)
    server = start({"jwks": {"url": idm.url, "issuer": "idm", "audience": "fleet"}})
    client = connect(server, "unused", provider.token(tenant, life_s=2))
    assert client.code == 0
    client.wait("disconnect")
