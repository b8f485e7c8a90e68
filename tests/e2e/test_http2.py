"""HTTP/2 at every HTTP port, and to subscribers of the fan-out: nghttp2's clients, Python's h2 and httpx, curl, and h2spec where it is at
hand (docs/wire/http.md)."""
import os
import shutil
import signal
import socket
import subprocess
import xml.etree.ElementTree

import h2.config
import h2.connection
import h2.events
import hpack
import httpx
import hyperframe.frame
import pytest

from lib.h2_subscriber import H2Subscriber
from lib.sidecar import event
from lib.subscriber import Answer
from lib.wait import HANG_S

BOTH = {"HTTP/1.1": {"http1": True, "http2": False}, "HTTP/2": {"http1": False, "http2": True}}


@pytest.fixture
def server(serve, make_config, tenant):
    """With its own Kafka; HTTP listeners with credentials, and for everybody over TLS."""
    def start(*listeners, **top):
        config = make_config("", kafka={"embedded": True}, **top)
        config["kafka"].pop("bootstrap")
        config["listeners"] += [{"http": "127.0.0.1:0"}, *listeners]
        return serve(config)
    return start


@pytest.fixture
def certificate(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
                   cwd=tmp_path, check=True, capture_output=True)
    return {"cert": str(tmp_path / "cert.pem"), "key": str(tmp_path / "key.pem")}


@pytest.fixture
def h2_subscriber():
    running = []

    def start(*arguments, **options):
        running.append(H2Subscriber(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


def tool(name, *arguments):
    if not shutil.which(name):
        pytest.skip(f"not run: {name} is not installed")
    return subprocess.run([name, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S)


class Raw:
    """A connection of h2's, for what a client library hides."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=HANG_S)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.authority = "%s:%d" % address
        self.events = []
        self.is_closed = False
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def request(self, method, path, headers=(), body=None):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", method), (":scheme", "http"), (":authority", self.authority), (":path", path), *headers],
                             end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    def wait(self, kind, stream=None):
        """The next event of this kind; None when the connection ends before."""
        while True:
            for i, e in enumerate(self.events):
                if isinstance(e, kind) and stream in (None, getattr(e, "stream_id", None)):
                    return self.events.pop(i)
            data = b"" if self.is_closed else self.socket.recv(65536)
            if not data:
                self.is_closed = True
                return None
            self.events += self.h2.receive_data(data)
            self.flush()

    def frames(self):
        """What comes from here on, to the end of the connection; PING is answered."""
        data = b""
        while chunk := self.socket.recv(65536):
            data += chunk
            while len(data) >= 9:
                frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(data[:9]))
                if len(data) < 9 + length:
                    break
                frame.parse_body(memoryview(data[9:9 + length]))
                data = data[9 + length:]
                if isinstance(frame, hyperframe.frame.PingFrame) and "ACK" not in frame.flags:
                    self.socket.sendall(hyperframe.frame.PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
                yield frame

    def status(self, stream):
        return dict(self.wait(h2.events.ResponseReceived, stream).headers)[":status"]


# --- the same at both versions ---

def what_counts(answer):
    """All of an answer but what a version adds."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "connection", "transfer-encoding")}
    return answer.status_code, answer.text, headers


@pytest.mark.tsan
def test_devices_get_the_same_answers_over_both_versions(server, tenant):
    s = server({"http": "127.0.0.1:0", "tenant": tenant, "anonymous": True})
    cases = [
        ("POST", "/telemetry", {"QoS-Level": "1"}, b"x"), ("POST", "/event", {}, b"x"), ("POST", "/telemetry", {"QoS-Level": "2"}, b"x"),
        ("PUT", f"/telemetry/{tenant}/d1", {}, b"x"), ("PUT", "/telemetry/other/d1", {}, b"x"), ("GET", "/telemetry", {}, None),
        ("GET", "/nothing", {}, None), ("HEAD", "/telemetry", {}, None),
        ("OPTIONS", "/telemetry", {"Origin": "http://o", "Access-Control-Request-Method": "POST"}, None),
        ("POST", "/telemetry", {"Content-Type": "application/x-ndjson"}, b"1\n{\n"), ("POST", "/event", {}, b"x" * 1000000),
        ("POST", "/telemetry", {"Authorization": "Basic eA=="}, b"x"),
    ]
    answers = {}
    for version, options in BOTH.items():
        with httpx.Client(base_url="http://%s:%d" % s.http, timeout=HANG_S, **options) as client:
            client.headers["Content-Type"] = "text/plain"
            client.headers["Authorization"] = httpx.BasicAuth(f"a1@{tenant}", "pw")._auth_header
            answers[version] = []
            for method, path, headers, body in cases:
                answer = client.request(method, path, headers=headers, content=body)
                assert answer.http_version == version
                answers[version].append(what_counts(answer))
    for case, one, two in zip(cases, answers["HTTP/1.1"], answers["HTTP/2"]):
        assert one == two, case[:3]
    assert [status for status, _, _ in answers["HTTP/2"]][:3] == [202, 202, 400]


def test_large_bodies_come_whole_on_many_streams_at_once(server, tenant):
    s = server()
    raw = Raw(s.http)
    basic = httpx.BasicAuth(f"a1@{tenant}", "pw")._auth_header
    headers = [("authorization", basic), ("content-type", "text/plain"), ("qos-level", "1"), ("content-length", str(900_000))]
    left = {}
    for _ in range(20):
        stream = raw.h2.get_next_available_stream_id()
        raw.h2.send_headers(stream, [(":method", "POST"), (":scheme", "http"), (":authority", "h"), (":path", "/telemetry"), *headers])
        left[stream] = 900_000
    answered = {}
    while len(answered) < 20:
        for stream in list(left):
            while (n := min(left[stream], raw.h2.local_flow_control_window(stream), raw.h2.max_outbound_frame_size)) > 0:
                left[stream] -= n
                raw.h2.send_data(stream, b"x" * n, end_stream=left[stream] == 0)
            if not left[stream]:
                del left[stream]
        raw.flush()
        got = raw.h2.receive_data(raw.socket.recv(65536))
        answered |= {e.stream_id: dict(e.headers)[":status"] for e in got if isinstance(e, h2.events.ResponseReceived)}
    assert set(answered.values()) == {"202"}


def test_a_body_that_is_too_large_is_refused_before_it_has_come(server, tenant, tmp_path):
    """At once, with the stream reset behind the answer (httpx would wait for its window all the same)."""
    body = tmp_path / "body"
    body.write_bytes(b"x" * (2 << 20))
    s = server()
    url = "http://%s:%d/telemetry" % s.http
    for version in "--http1.1", "--http2-prior-knowledge":
        done = tool("curl", "-s", "-w", " %{http_code}", version, "-u", f"a1@{tenant}:pw", "-H", "Content-Type: text/plain", "-H", "Expect:",
                    "--data-binary", f"@{body}", url)
        assert done.stdout == '{"error":"the body is too large"}\n 413', version


# --- clients of nghttp2 ---

def test_h2load_gets_every_answer(dev):
    done = tool("h2load", "-n", 4000, "-c", 8, "-m", 60, f"http://{dev.admin}/livez")
    assert "4000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout
    assert dev.metrics().sum("millrace_http2_connections_total", server="admin") == 8


def test_nghttp_reads_what_is_larger_than_its_windows(dev):
    done = tool("nghttp", "-w", 10, "-W", 10, "--header=accept: */*", f"http://{dev.admin}/metrics")
    assert done.returncode == 0 and "millrace_http2_connections_total" in done.stdout


def test_curl_asks_with_prior_knowledge_and_upgrade_is_not_taken(dev):
    """An upgrade is what a proxy may pass on without seeing what follows: the request is answered in HTTP/1.1."""
    done = tool("curl", "-s", "-o", "/dev/null", "-w", "%{http_version}", "--http2-prior-knowledge", f"http://{dev.admin}/livez")
    assert done.stdout == "2"
    done = tool("curl", "-s", "-o", "/dev/null", "-w", "%{http_version}", "--http2", f"http://{dev.admin}/livez")
    assert done.stdout == "1.1"


# --- the end ---

def test_a_stop_says_goaway_and_answers_what_is_in_flight(fan, h2_subscriber):
    s = h2_subscriber(lambda request, number: None)
    sidecar = fan(s.url)
    raw = Raw(sidecar.fanout)
    stream = raw.request("POST", "/default/c1", [(n.lower(), v) for n, v in event().items()], b"{}")
    s.wait(1)
    sidecar.signal(signal.SIGTERM)
    frames = raw.frames()  # h2 itself knows no life behind GOAWAY
    goaways = [next(f for f in frames if isinstance(f, hyperframe.frame.GoAwayFrame)) for _ in range(2)]
    assert [(f.error_code, f.last_stream_id) for f in goaways] == [(0, 2 ** 31 - 1), (0, stream)]
    s.answer_all(Answer(200))
    headers = next(f for f in frames if isinstance(f, hyperframe.frame.HeadersFrame))
    assert headers.stream_id == stream and dict(hpack.Decoder().decode(headers.data))[":status"] == "202"
    assert [f for f in frames if not isinstance(f, hyperframe.frame.DataFrame)] == []  # the end
    assert sidecar.wait() == 0


# --- h2spec ---

def h2spec():
    found = os.environ.get("H2SPEC") or shutil.which("h2spec")
    if not found:
        pytest.skip("not run: h2spec is not installed (go install github.com/summerwind/h2spec/cmd/h2spec@v2.6.0, or H2SPEC=path)")
    return found


def run_h2spec(tmp_path, address, *arguments):
    """(names of failed cases, how many passed)"""
    report = tmp_path / "h2spec.xml"
    done = subprocess.run([h2spec(), "-h", address[0], "-p", str(address[1]), "-P", "/telemetry", "-S", "-j", report, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S)
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    failed, passed = [], 0
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.get("classname"))
        elif case.find("skipped") is None:
            passed += 1
    assert passed + len(failed) > 140, done.stdout
    return failed, passed


def test_h2spec_passes_but_for_what_the_port_reads_as_http1(server, tmp_path):
    failed, _ = run_h2spec(tmp_path, server().http)
    assert failed in ([], ["Sends invalid connection preface"])


def test_h2spec_passes_over_tls(server, tmp_path, certificate):
    s = server({"https": "127.0.0.1:0", "tls": certificate})
    failed, _ = run_h2spec(tmp_path, s.http_all[1], "-t", "-k")
    assert failed == []


# --- the fan-out ---

def test_a_subscriber_gets_its_events_over_a_connection_that_stays(fan, h2_subscriber):
    s = h2_subscriber()
    sidecar = fan(s.url)
    sent = [event() for _ in range(20)]
    for headers in sent:
        assert sidecar.send(headers, b'{"x":1}').status == 202
    got = s.wait(20)
    assert [r.header("ce-id") for r in got] == [headers["ce-id"] for headers in sent]
    assert {(r.method, r.path, r.body, r.header("host"), r.header("content-type")) for r in got} == {
        ("POST", "/", b'{"x":1}', s.host, "application/json")}
    assert s.connections <= 2  # of the workers


def test_many_events_are_on_their_way_at_once(fan, h2_subscriber):
    s = h2_subscriber(lambda request, number: None)
    sidecar = fan(s.url, timeout="60s")
    with httpx.Client(base_url="http://%s:%d" % sidecar.fanout, timeout=HANG_S, http1=False, http2=True) as client:
        raw = Raw(sidecar.fanout)
        streams = [raw.request("POST", "/default/c1", [(n.lower(), v) for n, v in event().items()], b"{}") for _ in range(10)]
        s.wait(10)
        assert s.connections <= 2  # of the workers
        s.answer_all(Answer(200))
        assert {raw.status(stream) for stream in streams} == {"202"}
        s.answer = lambda request, number: Answer(503)
        assert client.post("/default/c1", headers=event(), content=b"{}").status_code >= 500


def test_a_subscriber_that_allows_few_streams_gets_no_more(fan, h2_subscriber):
    s = h2_subscriber(max_streams=2)
    sidecar = fan(s.url)
    raw = Raw(sidecar.fanout)
    streams = [raw.request("POST", "/default/c1", [(n.lower(), v) for n, v in event().items()], b"{}") for _ in range(30)]
    assert {raw.status(stream) for stream in streams} == {"202"}
    assert len(s.wait(30)) == 30
