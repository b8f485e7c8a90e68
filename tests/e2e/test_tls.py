"""TLS for devices (docs/OPERATIONS.md): what is agreed on, who is let in, what a reload does, and that nobody can hold up others.
Python's ssl, openssl, curl, mosquitto and paho at the other end; Kafka is the embedded one, which TLS does not matter to."""
import base64
import itertools
import shutil
import signal
import socket
import ssl
import struct
import subprocess

import pytest
import requests

from lib.certs import Authority
from lib.mqtt import V5
from lib.paho_client import Paho
from lib.server import run_command, write_config
from lib.wait import HANG_S, until
from test_mapper import Mapper

PASSWORD = "pw"
HERE = "DNS:localhost,IP:127.0.0.1"
WATCHED_S = 0.5  # how long something has to stay away


class Party:
    """What a test needs of certificates: a CA, one that nobody trusts, a server's pair."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = Authority(folder, "ca")
        self.stranger = Authority(folder, "stranger")
        self.cert, self.key = self.ca.issue("server", HERE)

    def tls(self, **more):
        return {"cert": str(self.cert), "key": str(self.key)} | more

    def client(self, *, ca=None, cert=None, version=None):
        context = ssl.create_default_context(cafile=str(ca or self.ca.cert))
        if cert:
            context.load_cert_chain(*map(str, cert))
        if version:
            context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def party(tmp_path_factory):
    return Party(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure(serve, make_config, party, tenant, tmp_path):
    """secure(tls, ...): a server with one mqtts listener, after the plain one."""
    numbers = itertools.count(1)

    def start(tls=None, listeners=(), **top):
        mqtts = {"mqtts": "127.0.0.1:0", "tenant": tenant, "anonymous": True, "tls": tls or party.tls()}
        config = make_config("", kafka={"embedded": True}, **top)
        config["kafka"].pop("bootstrap")
        config["data_dir"] = str(tmp_path / f"data-{next(numbers)}")
        config["listeners"] += [mqtts, *listeners]
        server = serve(config)
        server.mqtts = server.mqtt_all[1]
        server.config = config
        return server
    return start


def counted(server, reason):
    return server.metrics().sum("millrace_tls_failures_total", side="server", reason=reason)


def handshakes(server, result):
    return server.metrics().sum("millrace_tls_handshakes_total", side="server", result=result)


def connect_packet(client_id, user, password=PASSWORD):
    """MQTT 3.1.1, clean."""
    text = lambda s: struct.pack("!H", len(s)) + s.encode()
    body = text("MQTT") + b"\x04\xc2\x00\x3c" + text(client_id) + text(user) + text(password)
    return b"\x10" + bytes([len(body)]) + body


CONNACK = b"\x20\x02\x00\x00"


def talk(server, context, name="localhost", send=b"", expect=0, session=None):
    """Connects, says `send`, reads `expect` bytes; (the socket, what it read)."""
    raw = socket.create_connection(server.mqtts, HANG_S)
    try:
        secure = context.wrap_socket(raw, server_hostname=name, session=session)
        secure.sendall(send)
        got = b""
        while len(got) < expect:
            piece = secure.recv(expect - len(got))
            if not piece:
                break
            got += piece
        return secure, got
    except BaseException:
        raw.close()
        raise


def is_let_in(server, context, user):
    """Whether MQTT begins. In TLS 1.3 a client hears of a refusal with its first read only."""
    try:
        secure, got = talk(server, context, send=connect_packet("someone", user), expect=4)
    except (ssl.SSLError, ConnectionError):
        return False
    secure.close()
    return got == CONNACK


@pytest.mark.parametrize("version", ["tlsv1.2", "tlsv1.3"])
def test_mosquitto_publishes_and_subscribes_over_tls(secure, party, tenant, version):
    server = secure()
    host, port = "localhost", str(server.mqtts[1])
    common = ["-h", host, "-p", port, "--cafile", party.ca.cert, "--tls-version", version, "-t", "plain/topic"]
    listener = subprocess.Popen(["stdbuf", "-oL", "mosquitto_sub", *common, "-C", "1", "-q", "1", "-d"], stdout=subprocess.PIPE,
                                text=True)
    lines = iter(listener.stdout.readline, "")
    assert any("SUBACK" in line for line in lines)
    subprocess.run(["mosquitto_pub", *common, "-m", "over tls", "-q", "1"], check=True, timeout=HANG_S)
    assert any("over tls" in line for line in lines)
    assert listener.wait(HANG_S) == 0
    assert handshakes(server, "full") == 2


def test_paho_sends_device_data_over_tls(secure, party, tenant):
    server = secure()
    with Paho(("localhost", server.mqtts[1]), V5, "p1", user=f"a1@{tenant}", password=PASSWORD) as device:
        device.client.tls_set(str(party.ca.cert))
        assert device.connect() == (0, False)
        assert device.publish("telemetry", b"{}", 1) == 0


def test_what_a_client_does_not_wait_to_send_moves_to_its_home_with_it(secure, party, tenant):
    """The last flight of the handshake, CONNECT and more in one write; with several workers most clients then change theirs."""
    server = secure(workers=4)
    context = party.client(version=ssl.TLSVersion.TLSv1_3)
    for i in range(24):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(server.mqtts, HANG_S) as raw:
            is_done = False
            while not is_done:
                try:
                    tls.do_handshake()
                    is_done = True
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))
            topic = f"client/{i}".encode()
            publish = struct.pack("!H", len(topic)) + topic + b"\x00\x07x"
            tls.write(connect_packet(f"c{i}", f"a1@{tenant}") + b"\x32" + bytes([len(publish)]) + publish + b"\xc0\x00")
            raw.sendall(outgoing.read())  # with the client's Finished
            got = b""
            while len(got) < 4 + 4 + 2:
                try:
                    got += tls.read(100)
                except ssl.SSLWantReadError:
                    incoming.write(raw.recv(65536))
            assert got == CONNACK + b"\x40\x02\x00\x07" + b"\xd0\x00"
    moved = server.metrics().sum("millrace_mqtt_handovers_total")
    assert moved > 0


def test_large_messages_come_through_whole(secure, party, tenant):
    server = secure(limits={"max_packet_bytes": "4MiB", "output_bytes": "8MiB", "session_queued_bytes": "8MiB"})
    payload = bytes(i * 7 % 251 for i in range(3 << 20))
    with Paho(("localhost", server.mqtts[1]), V5, "big") as client:
        client.client.tls_set(str(party.ca.cert))
        assert client.connect()[0] == 0
        assert client.subscribe(("large", 1)) == [1]
        assert client.publish("large", payload, 1) == 0
        assert client.next_message().payload == payload


def test_the_certificate_follows_the_name_that_is_asked_for(secure, party):
    other = party.ca.issue("other", "DNS:other.example,DNS:*.sub.example", file="other")
    server = secure(party.tls(cert=[str(party.cert), str(other[0])], key=[str(party.key), str(other[1])]))
    for name, subject in {"localhost": "server", "other.example": "other", "a.sub.example": "other"}.items():
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            tls, _ = talk(server, party.client(version=version), name)
            assert dict(pair[0] for pair in tls.getpeercert()["subject"])["commonName"] == subject
            tls.close()


def test_old_versions_are_refused(secure, party):
    server = secure(party.tls(min_version="1.3"))
    with pytest.raises(ssl.SSLError):
        talk(server, party.client(version=ssl.TLSVersion.TLSv1_2))
    assert counted(server, "incompatible") == 1
    talk(server, party.client(version=ssl.TLSVersion.TLSv1_3))[0].close()


def test_client_certificates_are_checked(secure, party, tenant):
    good = party.ca.issue("device", file="device")
    expired = party.ca.issue("expired", days=-1, file="expired")
    revoked = party.ca.issue("revoked", file="revoked")
    foreign = party.stranger.issue("foreign", file="foreign")
    crl = party.ca.revoke(revoked[0])
    server = secure(party.tls(client_ca=str(party.ca.cert), crl=str(crl), client_auth="required"))
    user = f"a1@{tenant}"
    for reason, cert in {"no_certificate": None, "expired": expired, "revoked": revoked, "untrusted": foreign}.items():
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            before = counted(server, reason)
            assert not is_let_in(server, party.client(cert=cert, version=version), user)
            assert counted(server, reason) == before + 1
    assert is_let_in(server, party.client(cert=good), user)


def test_an_intermediate_that_the_client_sends_is_followed_to_the_ca(secure, party, tenant, tmp_path):
    middle = Authority(tmp_path, "middle", issuer=party.ca)
    cert, key = middle.issue("behind", file="behind")
    chain = tmp_path / "chain.pem"
    chain.write_text(cert.read_text() + middle.cert.read_text())
    server = secure(party.tls(client_ca=str(party.ca.cert), client_auth="required"))
    assert is_let_in(server, party.client(cert=(chain, key)), f"a1@{tenant}")
    assert not is_let_in(server, party.client(cert=(cert, key)), f"a1@{tenant}")


VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def keep_session(server, context, user):
    """A session that can be resumed: in TLS 1.3 its ticket comes behind the handshake, so before the CONNACK."""
    tls, got = talk(server, context, send=connect_packet("first", user), expect=4)
    assert got == CONNACK and not tls.session_reused
    session = tls.session
    tls.sendall(b"\xe0\x00")
    tls.unwrap().close()  # else OpenSSL takes the session for a bad one
    return session


def is_resumed(server, context, session):
    tls, _ = talk(server, context, session=session)
    with tls:
        return tls.session_reused


@pytest.mark.parametrize("version", VERSIONS)
def test_every_worker_resumes_a_session(secure, party, tenant, version):
    server = secure(workers=4)
    context = party.client(version=VERSIONS[version])
    session = keep_session(server, context, f"a1@{tenant}")
    assert all(is_resumed(server, context, session) for _ in range(12))
    assert handshakes(server, "resumed") == 12


@pytest.mark.parametrize("version", VERSIONS)
def test_instances_with_the_same_ticket_keys_resume_each_others_sessions(secure, party, tenant, tmp_path, version):
    keys = tmp_path / "tickets"
    keys.write_text("0123456789abcdef0123456789abcdef\n")
    one, two = (secure(party.tls(ticket_keys=str(keys))) for _ in range(2))
    alone = secure()
    context = party.client(version=VERSIONS[version])
    session = keep_session(one, context, f"a1@{tenant}")
    assert is_resumed(two, context, session)
    assert not is_resumed(alone, context, session)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_finds_nothing_to_complain_about(secure, party, version):
    server = secure()
    command = ["openssl", "s_client", "-connect", "%s:%d" % server.mqtts, "-CAfile", str(party.ca.cert), "-verify_return_error",
               "-servername", "localhost", "-verify_hostname", "localhost", "-alpn", "mqtt", version]
    said = subprocess.run(command, input="", capture_output=True, text=True, timeout=HANG_S).stdout
    assert "Verification: OK" in said and "ALPN protocol: mqtt" in said
    assert "Compression: NONE" in said


class Changing:
    """A server whose certificate's files are copies that the test exchanges."""

    def __init__(self, secure, party, folder, **more):
        self.cert, self.key = folder / "served.pem", folder / "served.key"
        self.use(party.cert, party.key)
        self.server = secure(party.tls(cert=str(self.cert), key=str(self.key), **more))

    def use(self, cert, key):
        shutil.copyfile(key, self.key)
        shutil.copyfile(cert, self.cert)

    def count(self, result):
        return self.server.metrics().sum("millrace_config_reload_total", result=result)

    def reload(self, result, ask=True):
        before = self.count(result)
        if ask:
            self.server.signal(signal.SIGHUP)
        until(lambda: self.count(result) > before, f"a reload that is {result}; the log:\n{self.server.log()}")

    def served(self, party):
        tls, _ = talk(self.server, party.client())
        subject = dict(pair[0] for pair in tls.getpeercert()["subject"])["commonName"]
        tls.close()
        return subject


def test_a_renewed_certificate_is_for_new_connections_and_drops_none(secure, party, tenant, tmp_path):
    changing = Changing(secure, party, tmp_path)
    renewed = party.ca.issue("renewed", HERE, file="renewed")
    with Paho(("localhost", changing.server.mqtts[1]), V5, "stays", user=f"a1@{tenant}", password=PASSWORD) as device:
        device.client.tls_set(str(party.ca.cert))
        assert device.connect()[0] == 0
        changing.use(*renewed)
        changing.reload("applied", ask=False)  # it is noticed
        assert changing.served(party) == "renewed"
        assert device.publish("telemetry", b"{}", 1) == 0


def test_a_broken_file_leaves_what_was_there_and_is_named(secure, party, tmp_path):
    changing = Changing(secure, party, tmp_path)
    broken = {
        "no certificate in it": lambda: changing.cert.write_text("nonsense"),
        "the key is not that of the certificate": lambda: shutil.copyfile(party.stranger.key, changing.key),
        "No such file": changing.cert.unlink,
    }
    for reason, damage in broken.items():
        changing.use(party.cert, party.key)
        damage()
        changing.reload("failed")
        line = next(line for line in reversed(changing.server.log().splitlines()) if "event=reload.invalid" in line)
        assert reason in line and ("served.pem" in line or "served.key" in line)
        assert changing.served(party) == "server"
    changing.use(*party.ca.issue("healed", HERE, file="healed"))
    changing.reload("applied")
    assert changing.served(party) == "healed"


def test_a_new_revocation_list_keeps_its_devices_from_coming_back(secure, party, tenant, tmp_path):
    one = Authority(tmp_path, "one")
    cert, key = one.issue("device", file="device")
    crl = one.revoke()
    changing = Changing(secure, party, tmp_path, client_ca=str(one.cert), crl=str(crl), client_auth="required")
    context = party.client(cert=(cert, key), version=ssl.TLSVersion.TLSv1_2)
    tls, got = talk(changing.server, context, send=connect_packet("first", f"a1@{tenant}"), expect=4)
    assert got == CONNACK
    session = tls.session
    one.revoke(cert)
    changing.reload("applied")
    assert not is_let_in(changing.server, context, f"a1@{tenant}")
    with pytest.raises((ssl.SSLError, ConnectionError)):  # the ticket is no way around it
        talk(changing.server, context, session=session)
    tls.sendall(b"\xc0\x00")
    assert tls.recv(2) == b"\xd0\x00"
    tls.close()


def test_ticket_keys_can_be_changed_while_connections_last(secure, party, tenant, tmp_path):
    keys = tmp_path / "tickets"
    keys.write_text("0123456789abcdef0123456789abcdef\n")
    changing = Changing(secure, party, tmp_path, ticket_keys=str(keys))
    context = party.client(version=ssl.TLSVersion.TLSv1_3)
    session = keep_session(changing.server, context, f"a1@{tenant}")
    keys.write_text("fedcba9876543210fedcba9876543210\n0123456789abcdef0123456789abcdef\n")
    changing.reload("applied")
    assert is_resumed(changing.server, context, session)
    keys.write_text("fedcba9876543210fedcba9876543210\n")
    changing.reload("applied")
    assert not is_resumed(changing.server, context, session)


def is_closed(raw):
    """Whether the other side has gone, within the time that it is watched."""
    raw.settimeout(WATCHED_S)
    try:
        return raw.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_handshakes_under_way_are_bounded(secure, party):
    server = secure(limits={"tls_handshakes": 5})
    silent = [socket.create_connection(server.mqtts, HANG_S) for _ in range(5)]
    until(lambda: server.metrics().sum("millrace_tls_handshakes_open", side="server") == 5, "five that do not speak")
    with socket.create_connection(server.mqtts, HANG_S) as more:
        assert is_closed(more)
    assert handshakes(server, "refused") == 1
    assert not is_closed(silent[0])
    silent.pop().close()
    until(lambda: counted(server, "closed") == 1, "one to be missed")
    talk(server, party.client())[0].close()
    for raw in silent:
        raw.close()


@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_handshake_that_is_dragged_out_ends(secure, beginning):
    server = secure(limits={"tls_handshake_timeout": "200ms"})
    with socket.create_connection(server.mqtts, HANG_S) as raw:
        raw.sendall(beginning)
        assert raw.recv(100) == b""
    assert counted(server, "timeout") == 1


def test_whoever_does_not_speak_tls_is_sent_away_at_once(secure, tenant):
    server = secure()
    with socket.create_connection(server.mqtts, HANG_S) as raw:
        raw.sendall(connect_packet("plain", f"a1@{tenant}"))
        while raw.recv(100):  # an alert, and the end
            pass
    assert counted(server, "not_tls") == 1


def test_a_client_of_another_protocol_is_refused(secure, party):
    server = secure()
    context = party.client()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with pytest.raises(ssl.SSLError):
        talk(server, context)
    assert counted(server, "protocol") == 1
    context.set_alpn_protocols(["mqtt"])
    tls, _ = talk(server, context)
    assert tls.selected_alpn_protocol() == "mqtt"
    tls.close()


def curl(party, url, *arguments):
    """(status, version of HTTP)"""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--cacert", party.ca.cert, *arguments, url]
    return tuple(subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=HANG_S, check=True).stdout.split())


def test_curl_posts_over_https(secure, party, tenant):
    server = secure(listeners=[{"https": "127.0.0.1:0", "tenant": tenant, "tls": party.tls()}])
    url = f"https://localhost:{server.http[1]}/telemetry"
    post = ["-u", f"a1@{tenant}:{PASSWORD}", "-H", "content-type: application/json", "-d", "{}"]
    assert curl(party, url, "--http1.1", *post) == ("202", "1.1")
    assert curl(party, url, "--http2", *post) == ("202", "2")
    assert curl(party, url, "--tls-max", "1.2", *post) == ("202", "2")
    assert curl(party, url, "--http1.1", "-u", f"a1@{tenant}:wrong", "-d", "{}") == ("401", "1.1")
    with pytest.raises(subprocess.CalledProcessError):
        curl(party, f"https://127.0.0.2:{server.http[1]}/telemetry", *post)


def test_a_session_of_requests_keeps_its_connection(secure, party, tenant):
    server = secure(listeners=[{"https": "127.0.0.1:0", "tenant": tenant, "tls": party.tls()}])
    with requests.Session() as session:
        session.trust_env = False  # which may name other CAs
        session.verify = str(party.ca.cert)
        session.auth = (f"a1@{tenant}", PASSWORD)
        for _ in range(10):
            answer = session.post(f"https://localhost:{server.http[1]}/event", data=b"x", timeout=HANG_S)
            assert answer.status_code == 202
    assert handshakes(server, "full") == 1


def test_the_administration_port_may_have_tls(serve, make_config, party):
    config = make_config("", kafka={"embedded": True}, admin={"listen": "127.0.0.1:0", "tls": party.tls()})
    config["kafka"].pop("bootstrap")
    server = serve(config)
    port, server.admin = server.admin.rpartition(":")[2], None  # the fixture speaks plain HTTP to it
    answer = requests.get(f"https://localhost:{port}/readyz", verify=str(party.ca.cert), timeout=HANG_S)
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert "millrace_tls_certificate_expiry_timestamp_seconds" in requests.get(
        f"https://localhost:{port}/metrics", verify=str(party.ca.cert), timeout=HANG_S).text
    ask = ["tenant", "list", "--api", f"https://localhost:{port}"]
    done = run_command(*ask, "--ca", party.ca.cert)
    assert (done.returncode, done.stderr) == (0, "") and "1 of 1" in done.stdout
    for trust in ([], ["--ca", party.stranger.cert]):
        done = run_command(*ask, *trust)
        assert done.returncode == 2 and "a CA that is trusted" in done.stderr


class SecureMapper(Mapper):
    """The mapper of test_mapper.py behind TLS."""

    def __init__(self, cert, key):
        super().__init__()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(cert), str(key))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://localhost:{self.server_address[1]}/map"


def test_a_mapper_is_asked_over_tls_if_it_can_be_trusted(secure, party, tenant):
    mapper = SecureMapper(party.cert, party.key)
    try:
        for ca, reason in ((party.ca, 0), (party.stranger, 0x80)):
            server = secure(mappers={"m": {"url": mapper.url}}, https_client={"ca": str(ca.cert)},
                            tenants={tenant: {"downstream-message-mapper": "m", "devices": {"d1": {"auth_id": "a1", "password": PASSWORD}}}})
            before = len(mapper.requests)
            with Paho(server.mqtt, V5, "maps", user=f"a1@{tenant}", password=PASSWORD) as device:
                assert device.connect()[0] == 0
                assert (device.publish("telemetry", b"{}", 1) == 0) == (reason == 0)
            assert (len(mapper.requests) > before) == (reason == 0)
            failed = server.metrics().sum("millrace_http_client_failures_total", reason="tls")
            assert (failed > 0) == (reason != 0)
    finally:
        mapper.close()


def test_a_subscriber_is_reached_over_tls_if_it_can_be_trusted(fanout, subscriber, party):
    at = subscriber()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(party.cert), str(party.key))
    at.server.socket = context.wrap_socket(at.server.socket, server_side=True)
    channel = {"namespace": "default", "name": "c1",
               "subscriptions": [{"subscriber": at.url.replace("http:", "https:"), "delivery": {"retry": 0}}]}
    trusting, wary = (fanout(channel, arguments=["--set", f"https_client.ca={ca.cert}"]) for ca in (party.ca, party.stranger))
    assert trusting.send().status == 202
    assert len(at.requests) == 1
    assert wary.send().status == 500
    assert len(at.requests) == 1


@pytest.mark.parametrize("version", ["tlsv1.2", "tlsv1.3"])
def test_a_device_logs_in_with_the_key_that_it_shares(secure, tenant, version):
    """The identity says which device it is; no user name, no certificate on either side."""
    server = secure({"psk": True})
    key, api = bytes(range(16)), f"http://{server.admin}/v1"
    credentials = [{"type": "psk", "auth-id": "s1", "secrets": [{"key": base64.b64encode(key).decode()}]}]
    assert requests.post(f"{api}/tenants/managed", timeout=HANG_S).status_code == 201
    assert requests.post(f"{api}/devices/managed/sensor", timeout=HANG_S).status_code == 201
    assert requests.put(f"{api}/credentials/managed/sensor", json=credentials, timeout=HANG_S).status_code == 204

    def publish(identity, secret):
        host, port = server.mqtts
        return subprocess.run(["mosquitto_pub", "-h", host, "-p", str(port), "--psk", secret.hex(), "--psk-identity", identity,
                               "--tls-version", version, "-t", "telemetry", "-m", "{}", "-q", "1"], timeout=HANG_S).returncode == 0

    assert publish("s1@managed", key)
    assert server.metrics().sum("millrace_messages_acknowledged_total", route="telemetry") == 1
    assert not publish("s1@managed", bytes(16))
    assert not publish("nobody@managed", key)
    assert not publish(f"a1@{tenant}", key)
    failed = server.metrics()
    assert failed.sum("millrace_tls_failures_total", side="server") == 3
    assert requests.put(f"{api}/devices/managed/sensor", json={"enabled": False}, timeout=HANG_S).status_code == 204
    assert not publish("s1@managed", key)


def test_check_reads_the_files_unless_they_are_elsewhere(party, tmp_path):
    config = {"kafka": {"embedded": True}, "listeners": [{"mqtts": "127.0.0.1:0", "tls": {"cert": str(party.ca.key)}}]}
    path = write_config(config, tmp_path / "millrace.yaml")
    said = run_command("check", "-c", path)
    assert said.returncode == 1 and f"{path}:4: listeners[0].tls: {party.ca.key}: no certificate in it" in said.stderr
    assert run_command("check", "-c", path, "--no-secrets").returncode == 0


def test_a_file_that_is_missing_at_the_start_is_named(serve, make_config, party):
    config = make_config("", kafka={"embedded": True})
    config["kafka"].pop("bootstrap")
    config["listeners"] += [{"mqtts": "127.0.0.1:0", "tls": {"cert": "nowhere.pem", "key": str(party.key)}}]
    server = serve(config, wait=False)
    assert server.wait() == 1
    assert "listeners[1].tls" in server.log() and "nowhere.pem: No such file or directory" in server.log()
    server.is_killed = True
