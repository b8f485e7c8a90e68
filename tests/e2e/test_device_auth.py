"""Devices that log in with tokens and certificates (docs/DEVICES.md), over TLS: paho, mosquitto and requests at the other end."""
import base64
import socket
import ssl
import subprocess

import pytest
import requests

from lib.certs import Authority
from lib.kafka import read_all
from lib.mqtt import Client, connect_packet
from lib.paho_client import V311, V5, Paho
from lib.tokens import Key, names
from lib.wait import HANG_S, until
from test_registry import Api

REFUSED = {V311: 0x86, V5: 0x86}  # paho has one set of reasons
PROVISIONED = "application/vnd.eclipse-hono-device-provisioning-notification"
MAXIMUM_CONNECT_TIME = 0xA0
HERE = "DNS:localhost,DNS:t1.localhost,IP:127.0.0.1"


class Party:
    """A CA that has signed the server's certificate, and keys of devices."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = Authority(folder, "server-ca")
        self.cert, self.key = self.ca.issue("server", HERE)
        self.root, self.other = Authority(folder, "root"), Authority(folder, "other")
        self.middle = Authority(folder, "middle", self.root)
        self.sensor = self.root.issue("sensor")
        self.deep = self.chain(self.middle.issue("deep"), self.middle)
        self.ec, self.rsa, self.stranger = Key(folder, "ec"), Key(folder, "rsa", "RSA:2048"), Key(folder, "stranger")

    def client(self, pair=None):
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        if pair:
            context.load_cert_chain(*map(str, pair))
        return context

    def chain(self, pair, *above):
        """The same with the certificates above it in its file."""
        cert, key = pair
        file = cert.with_suffix(".chain.pem")
        file.write_text("".join(c.read_text() for c in (cert, *(a.cert for a in above))))
        return file, key


def trusted(authority, **more):
    """A CA as a tenant trusts it."""
    return {"cert": base64.b64encode(ssl.PEM_cert_to_DER_cert(authority.cert.read_text())).decode()} | more


def named(name):
    """The credentials of whoever has a certificate with that name."""
    return [{"type": "x509-cert", "auth-id": f"CN={name}, O=Millrace", "secrets": [{}]}]


@pytest.fixture(scope="module")
def party(tmp_path_factory):
    return Party(tmp_path_factory.mktemp("party"))


@pytest.fixture
def server(serve, party, tmp_path):
    tls = {"cert": str(party.cert), "key": str(party.key), "client_auth": "optional"}
    return serve({
        "kafka": {"embedded": True},
        "listeners": [{"mqtts": "127.0.0.1:0", "tls": dict(tls)}, {"mqtt": "127.0.0.1:0"}, {"https": "127.0.0.1:0", "tls": dict(tls)}],
        "admin": {"listen": "127.0.0.1:0"},
        "registry": {"bcrypt_cost": 6},
        "workers": 2,
        "data_dir": str(tmp_path / "data"),
    })


@pytest.fixture
def api(server):
    api = Api(server)
    api.must(201, "POST", "/tenants/t1")
    return api


@pytest.fixture
def device(api, party):
    """Device `d1` with the auth id `a1` and both keys."""
    secrets = [{"algorithm": key.algorithm, "key": key.public} for key in (party.ec, party.rsa)]
    api.must(201, "POST", "/devices/t1/d1")
    api.must(204, "PUT", "/credentials/t1/d1", [{"type": "rpk", "auth-id": "a1", "secrets": secrets}])


@pytest.fixture
def connect(server, party):
    """connect(password, ...): a client that has connected, or tried to, with the reason as `code`."""
    clients = []

    def start(password=None, version=V311, client_id="c1", user=None, pair=None):
        host, port = server.mqtt
        client = Paho((host, port), version, client_id, user if password is None else user or "", password)
        client.client.tls_set_context(party.client(pair))
        clients.append(client)
        client.code = client.connect()[0]
        return client

    yield start
    for client in clients:
        client.__exit__()


@pytest.fixture
def send(server, party):
    """send(token, ...): the answer to telemetry over HTTPS."""
    def ask(token=None, path="/telemetry", method="POST", scheme="Bearer", pair=None):
        host, port = server.http
        headers = {"QoS-Level": "1", "Content-Type": "text/plain"} | ({"Authorization": f"{scheme} {token}"} if token is not None else {})
        return requests.request(method, f"https://{host}:{port}{path}", data="x", verify=str(party.ca.cert), timeout=HANG_S,
                                headers=headers, cert=pair and tuple(map(str, pair)))
    return ask


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "RS512", "PS384"])
def test_a_token_is_a_password(server, party, device, connect, algorithm):
    key = party.ec if algorithm.startswith("ES") else party.rsa
    client = connect(key.token(algorithm, **names("t1", "a1")))
    assert client.code == 0
    client.client.publish("telemetry", b"{}", 1)
    client.wait("publish")
    assert server.metrics().sum("millrace_messages_acknowledged_total", route="telemetry") == 1


def test_mosquitto_logs_in_with_a_token_and_its_client_id(server, party, device):
    host, port = server.mqtt
    token = party.ec.token()
    said = subprocess.run(["mosquitto_pub", "-h", "localhost", "-p", str(port), "--cafile", party.ca.cert, "-i", "fleet/t1/device/a1",
                           "-u", "unused", "-P", token, "-t", "telemetry", "-m", "{}", "-q", "1"], timeout=HANG_S)
    assert said.returncode == 0


@pytest.mark.parametrize("version", [V311, V5])
def test_tokens_that_are_no_good_are_bad_credentials(party, device, connect, version):
    good = names("t1", "a1")
    head, claims, signature = party.ec.token(**good).split(".")
    rows = {
        "another key": party.stranger.token(**good),
        "of a device that is not there": party.ec.token(**names("t1", "a2")),
        "of a tenant that is not there": party.ec.token(**names("t2", "a1")),
        "over": party.ec.token(**good, iat=1, exp=61),
        "for too long": party.ec.token(life_s=100_000, **good),
        "of nobody": party.ec.token(),
        "changed": ".".join([head, party.ec.token(**names("t1", "a2")).split(".")[1], signature]),
        "no signature": ".".join([head, claims, "AA"]),
    }
    codes = {name: connect(token, version).code for name, token in rows.items()}
    assert set(codes.values()) == {REFUSED[version]}, codes


def test_a_connection_ends_with_its_token(server, party, device, connect):
    client = connect(party.ec.token(life_s=2, **names("t1", "a1")))
    assert client.code == 0
    client.wait("disconnect")
    with Client(server.mqtt_all[1], version=5) as c:
        c.connect("c2", user="", password=party.ec.token(life_s=2, **names("t1", "a1")))
        assert c.expect_disconnect() == MAXIMUM_CONNECT_TIME
    assert server.metrics().sum("millrace_mqtt_protocol_errors_total") == 0


def test_a_changed_key_counts_from_the_next_log_in_on(api, party, device, connect):
    token = party.ec.token(**names("t1", "a1"))
    assert connect(token).code == 0
    api.must(204, "PUT", "/credentials/t1/d1",
             [{"type": "rpk", "auth-id": "a1", "secrets": [{"algorithm": "EC", "key": party.stranger.public}]}])
    assert connect(token).code == REFUSED[V311]


def test_an_adapter_that_is_off_and_a_disabled_device_are_told_apart(api, party, device, connect):
    token = party.ec.token(**names("t1", "a1"))
    api.must(204, "PUT", "/devices/t1/d1", {"enabled": False})
    assert connect(token, V5).code == 0x87
    api.must(204, "PUT", "/tenants/t1", {"adapters": [{"type": "hono-http", "enabled": True}]})
    assert connect(token, V5).code == 0x87


def test_bearer_tokens_over_http(api, party, device, send):
    named = party.ec.token(**names("t1", "a1"))
    assert send(named).status_code == 202
    assert send(named, scheme="bearer").status_code == 202
    assert send(party.ec.token(**names("t1", "a1")), "/event").status_code == 202
    for bad in (party.stranger.token(**names("t1", "a1")), party.ec.token(), "a.b.c", "nonsense", ""):
        answer = send(bad)
        assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == 'Basic realm="Hono"', bad
    api.must(204, "PUT", "/devices/t1/d1", {"enabled": False})
    assert send(named).status_code == 404


@pytest.fixture
def sensors(api, party):
    """`t1` trusts `root` and has two devices with certificates."""
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [trusted(party.root)]})
    for name in ("sensor", "deep"):
        api.must(201, "POST", f"/devices/t1/{name}")
        api.must(204, "PUT", f"/credentials/t1/{name}", named(name))


def test_a_certificate_is_a_log_in(server, party, sensors, connect, send):
    for pair in (party.sensor, party.deep):
        client = connect(pair=pair)
        assert client.code == 0
        client.client.publish("telemetry", b"{}", 1)
        client.wait("publish")
        assert send(pair=pair).status_code == 202
    assert server.metrics().sum("millrace_messages_acknowledged_total", route="telemetry") == 4


def test_mosquitto_logs_in_with_a_certificate(server, party, sensors):
    cert, key = party.sensor
    said = subprocess.run(["mosquitto_pub", "-h", "localhost", "-p", str(server.mqtt[1]), "--cafile", party.ca.cert, "--cert", cert,
                           "--key", key, "-t", "telemetry", "-m", "{}", "-q", "1"], timeout=HANG_S)
    assert said.returncode == 0


@pytest.mark.parametrize("version", [V311, V5])
def test_certificates_that_are_no_good_are_bad_credentials(api, party, sensors, connect, send, version):
    pairs = {
        "of a CA that nobody trusts": party.other.issue("sensor", file="other-sensor"),
        "over": party.root.issue("sensor", days=-1, file="old-sensor"),
        "of nobody": party.root.issue("nobody"),
        "without the intermediate": (party.deep[0].with_name("deep.pem"), party.deep[1]),
    }
    codes = {name: (connect(version=version, pair=pair).code, send(pair=pair).status_code) for name, pair in pairs.items()}
    assert set(codes.values()) == {(0x86, 401)}, codes
    api.must(204, "PUT", "/credentials/t1/sensor", named("somebody else"))
    assert connect(version=version, pair=party.sensor).code == 0x86


def test_a_certificate_goes_before_token_and_password(party, sensors, device, connect, send):
    token = party.ec.token(**names("t1", "a1"))
    bad = party.other.issue("sensor", file="other-sensor")
    assert connect(token).code == 0
    assert connect(token, pair=bad).code == 0x86
    assert send(token, pair=bad).status_code == 401
    assert connect("wrong", user="a1@t1", pair=party.sensor).code == 0
    assert send("eDp5", scheme="Basic", pair=party.sensor).status_code == 202


def test_the_server_name_tells_tenants_apart_that_share_a_ca(server, api, party):
    for tenant, more in (("t1", {}), ("t2", {"alias": "second"})):
        body = {"trust-anchor-group": "g", "trusted-ca": [trusted(party.root)]} | more
        api.must(204 if tenant == "t1" else 201, "PUT" if tenant == "t1" else "POST", f"/tenants/{tenant}", body)
    api.must(201, "POST", "/devices/t2/sensor")
    api.must(204, "PUT", "/credentials/t2/sensor", named("sensor"))

    def code(server_name):
        context = party.client(party.sensor)
        context.check_hostname = False
        with context.wrap_socket(socket.create_connection(server.mqtt, HANG_S), server_hostname=server_name) as s:
            s.sendall(connect_packet(5, "c1"))
            return s.recv(4)[-1]

    codes = {name: code(name) for name in ("t2.example.com", "second.example.com", "t1.example.com", "localhost")}
    assert codes == {"t2.example.com": 0, "second.example.com": 0, "t1.example.com": 0x86, "localhost": 0x86}


def test_a_template_makes_the_auth_id(api, party, connect):
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [trusted(party.root, **{"auth-id-template": "dev-{{subject-cn}}"})]})
    api.must(201, "POST", "/devices/t1/d1")
    api.must(204, "PUT", "/credentials/t1/d1", [{"type": "x509-cert", "auth-id": "dev-sensor", "secrets": [{}]}])
    assert connect(pair=party.sensor).code == 0
    api.must(204, "PUT", "/tenants/t1", {"adapters": [{"type": "hono-http", "enabled": True}], "trusted-ca": [trusted(party.root)]})
    assert connect(pair=party.sensor, version=V5).code == 0x87


def test_who_loses_the_last_credentials_is_disconnected(api, party, sensors, connect):
    client = connect(pair=party.sensor)
    assert client.code == 0
    api.must(204, "PUT", "/credentials/t1/sensor", [])
    client.wait("disconnect")


def provisioning(server, tenant):
    """The provisioning events of a tenant: (device, headers)."""
    records = [(r.key.decode(), {name: value.decode() for name, value in r.headers}, r.value)
               for r in read_all(server.kafka, f"hono.event.{tenant}")]
    assert all(value is None for _, headers, value in records if headers["content-type"] == PROVISIONED)
    return [(key, headers) for key, headers, _ in records if headers["content-type"] == PROVISIONED]


def test_acceptance_30_a_device_registers_itself(server, api, party, connect, send):
    ca = trusted(party.root, **{"auto-provisioning-enabled": True, "auto-provisioning-device-id-template": "dev-{{subject-cn}}"})
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [ca]})
    assert connect(pair=party.other.issue("sensor", file="other-sensor")).code == 0x86
    assert connect(pair=party.sensor).code == 0
    assert send(pair=party.deep).status_code == 202
    assert connect(pair=party.sensor, client_id="again").code == 0
    device = api.must(200, "GET", "/devices/t1/dev-sensor").json()
    assert device["status"]["auto-provisioned"] is True and not device.get("authorities")
    credentials, = api.must(200, "GET", "/credentials/t1/dev-sensor").json()
    assert (credentials["type"], credentials["auth-id"]) == ("x509-cert", "CN=sensor,O=Millrace")
    api.must(200, "GET", "/devices/t1/dev-deep")
    until(lambda: len(provisioning(server, "t1")) >= 2, "two provisioning events")
    events = dict(provisioning(server, "t1"))
    assert len(provisioning(server, "t1")) == 2 and set(events) == {"dev-sensor", "dev-deep"}
    headers = events["dev-sensor"]
    assert {name: headers[name] for name in ("hono_registration_status", "tenant_id", "device_id", "orig_adapter", "orig_address")} == {
        "hono_registration_status": "NEW", "tenant_id": "t1", "device_id": "dev-sensor", "orig_adapter": "hono-device-registry",
        "orig_address": "event"}
    assert "gateway_id" not in headers


def test_a_gateway_registers_itself_with_an_id_of_its_own(api, party, connect):
    ca = trusted(party.root, **{"auto-provisioning-enabled": True, "auto-provision-as-gateway": True})
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [ca], "registration-limits": {"max-devices": 1}})
    assert connect(pair=party.sensor).code == 0
    only, = api.must(200, "GET", "/devices/t1").json()["result"]
    assert only["authorities"] == ["auto-provisioning-enabled"] and len(only["id"]) == 36
    assert connect(pair=party.root.issue("one-too-many")).code == 0x86


def test_credentials_that_hold_no_more_are_not_made_anew(api, party, sensors, connect):
    api.must(204, "PUT", "/tenants/t1", {"trusted-ca": [trusted(party.root, **{"auto-provisioning-enabled": True})]})
    api.must(204, "PUT", "/credentials/t1/sensor", [named("sensor")[0] | {"enabled": False}])
    assert connect(pair=party.sensor).code == 0x86
    assert api.must(200, "GET", "/devices/t1").json()["total"] == 2


def test_acceptance_30_a_gateway_registers_devices(server, api, party, connect, send):
    credentials = [{"type": "rpk", "auth-id": "ga", "secrets": [{"algorithm": "EC", "key": party.ec.public}]}]
    api.must(201, "POST", "/devices/t1/g1", {"memberOf": ["hall"], "authorities": ["auto-provisioning-enabled"]})
    api.must(204, "PUT", "/credentials/t1/g1", credentials)
    api.must(201, "POST", "/devices/t1/off", {"enabled": False, "via": ["g1"]})
    gateway = connect(party.ec.token(**names("t1", "ga")))
    assert gateway.code == 0
    for topic in ("t//new1", "t//new1", "e//new2"):
        gateway.client.publish(topic, b"{}", 1)
        gateway.wait("publish")
    device = api.must(200, "GET", "/devices/t1/new1").json()
    assert (device["via"], device["viaGroups"], device["status"]["auto-provisioned"]) == (["g1"], ["hall"], True)
    assert [r.key for r in read_all(server.kafka, "hono.telemetry.t1")] == [b"new1", b"new1"]
    until(lambda: len(provisioning(server, "t1")) >= 2, "two provisioning events")
    events = provisioning(server, "t1")
    assert [(key, headers["gateway_id"]) for key, headers in sorted(events, key=str)] == [("new1", "g1"), ("new2", "g1")]
    assert send(party.ec.token(**names("t1", "ga")), "/telemetry//new3", "PUT").status_code == 202
    assert send(party.ec.token(**names("t1", "ga")), "/telemetry/t2/new4", "PUT").status_code == 403
    assert api.must(200, "GET", "/devices/t1/new3").json()["via"] == ["g1"]
    gateway.client.publish("t//off", b"{}", 1)
    gateway.wait("disconnect")
    assert api.must(200, "GET", "/devices/t1").json()["total"] == 5


def test_a_gateway_without_the_authority_registers_nobody(api, party, device, connect):
    gateway = connect(party.ec.token(**names("t1", "a1")))
    gateway.client.publish("t//new1", b"{}", 1)
    gateway.wait("disconnect")
    api.must(404, "GET", "/devices/t1/new1")
