"""The fan-out sidecar between an HTTP client and subscribers of Python's own library: what senders are told and what subscribers see."""
import base64
import email.utils
import json
import socket
import time
from pathlib import Path

import pytest
import yaml

from lib.server import run_command
from lib.sidecar import channel, document, event, holds, write
from lib.subscriber import Answer, Gate
from lib.wait import until

MANIFEST = Path(__file__).parents[2] / "deploy" / "fanout-sidecar.yaml"
HOPS = "millracehops"
ONCE = {"retry": 0}
QUICK = {"backoff_delay": "1ms", "backoff_max": "1ms"}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=UTF-8"}


def sent(headers):
    """The attributes among the headers of event()."""
    return {name[3:]: value for name, value in headers.items() if name.startswith("ce-")}


def seen(request):
    """The attributes that a subscriber was sent, but for the counter of hops."""
    return {name: value for name, value in request.attributes().items() if name != HOPS}


def refused_port():
    """A port where nobody listens: bound, so that nobody else gets it, and never listening."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    return s, s.getsockname()[1]


# --- what comes in ---

@pytest.mark.tsan
@pytest.mark.parametrize("content_type, body", [
    ("application/vnd.apache.thrift.binary", b"\x80\x01\x00\x01\x00\xff"), ("application/xml", b"<much wow=\"xml\"/>"),
    ("application/json", b'{"much":  "wow"}'), ("text/plain; charset=utf-8", b""),
])
def test_an_event_in_binary_mode_is_taken_whatever_its_data_is(fan, subscriber, content_type, body):
    s = subscriber()
    headers = event() | {"Content-Type": content_type}
    assert fan(s.url).send(headers, body).status == 202
    request = s.only()
    assert (request.header("content-type"), request.body) == (content_type, body)
    assert seen(request) == sent(headers)


def test_an_event_in_structured_mode_is_taken(fan, subscriber):
    s = subscriber()
    fields = document(subject="s", comexample="x", number=7, flag=True, data={"a": [1, "\u20ac"]}, datacontenttype="application/json")
    assert fan(s.url).send(STRUCTURED, json.dumps(fields).encode()).status == 202
    request = s.only()
    assert json.loads(request.body) == fields.pop("data")
    assert request.header("content-type") == fields.pop("datacontenttype")
    assert seen(request) == {name: str(value).lower() if value is True else str(value) for name, value in fields.items()}


def test_an_event_of_version_0_3_stays_one(fan, subscriber):
    s = subscriber()
    headers = event(specversion="0.3")
    assert fan(s.url).send(headers).status == 202
    assert seen(s.only()) == sent(headers)


@pytest.mark.parametrize("version", ["10.0", "19.0", "1", ""])
def test_an_unknown_version_is_refused(fan, subscriber, version):
    s = subscriber()
    assert fan(s.url).send(event(specversion=version)).status == 400
    assert s.requests == []


@pytest.mark.parametrize("name", ["specversion", "type", "source", "id"])
def test_an_event_without_a_required_attribute_is_refused(fan, subscriber, name):
    s = subscriber()
    sidecar = fan(s.url)
    assert sidecar.send(event(but=[name])).status == 400
    fields = document()
    del fields[name]
    assert sidecar.send(STRUCTURED, json.dumps(fields).encode()).status == 400
    assert s.requests == []


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE", "PATCH"])
def test_other_methods_than_post_are_refused(fan, subscriber, method):
    s = subscriber()
    answer = fan(s.url).request(method, "/default/c1", event(), b"{}")
    assert answer.status == 405
    assert {"POST", "OPTIONS"} <= set(answer.headers["Allow"].replace(" ", "").split(","))
    assert s.requests == []


def test_the_webhook_handshake_is_answered(fan, subscriber):
    answer = fan(subscriber().url).request("OPTIONS", "/default/c1", {"WebHook-Request-Origin": "example.com"})
    assert answer.status == 200
    assert "POST" in answer.headers["Allow"]
    assert answer.headers["WebHook-Allowed-Origin"] in ("*", "example.com")
    assert answer.headers["WebHook-Allowed-Rate"]


@pytest.mark.parametrize("to, host", [
    ("/default/c2", None), ("/other/c1", None), (None, "c2.default"), (None, "c1.other.svc.cluster.local"),
])
def test_an_unknown_channel_is_not_found(fan, subscriber, to, host):
    s = subscriber()
    assert fan(s.url).send(to=to, host=host).status == 404
    assert s.requests == []


@pytest.mark.parametrize("to, host", [
    ("/default/c1", None), ("/default/c1/", None), (None, "c1.default"), (None, "C1.Default:8080"), (None, "c1.default.svc"),
    (None, "c1.default.svc.cluster.local."), (None, "c1-kn-channel.default.svc.cluster.local"), (None, "events.example"),
])
def test_a_channel_is_found_by_path_and_by_host(fan, subscriber, to, host):
    s = subscriber()
    assert fan(s.url, hosts=["events.example"]).send(to=to, host=host).status == 202
    assert len(s.requests) == 1


def test_a_host_without_a_dot_and_a_path_that_is_none_are_refused(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    assert sidecar.send(host="no-dot").status == 400
    assert sidecar.send(to="/default").status == 400
    assert sidecar.send(to="/a/b/c").status == 400
    assert s.requests == []
    assert sidecar.send().status == 202, "and it goes on"


def test_a_channel_without_subscriptions_takes_everything(fan):
    answer = fan().send()
    assert (answer.status, answer.body) == (202, b"")


def test_a_probe_is_known_by_its_port_and_not_by_its_agent(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    assert sidecar.send(event() | {"User-Agent": "kube-probe/1.29"}).status == 202
    assert len(s.requests) == 1
    assert sidecar.get("/readyz")[0] == sidecar.get("/livez")[0] == 200


@pytest.mark.parametrize("limit", [65536, 1048576])
def test_a_body_is_taken_up_to_the_channels_limit(fan, subscriber, limit):
    s = subscriber()
    sidecar = fan(s.url, max_body=f"{limit}B")
    body = bytes(range(256)) * (limit // 256)
    assert sidecar.send(event() | {"Content-Type": "application/octet-stream"}, body).status == 202
    assert s.only().body == body
    assert sidecar.send(event(), body + b"x").status == 413
    assert len(s.requests) == 1


# --- to all subscribers ---

@pytest.mark.tsan
def test_every_subscriber_gets_the_event_once_and_unchanged(fan, subscriber):
    three = [subscriber() for _ in range(3)]
    headers = event(subject="a/b", time="2018-04-26T14:48:09+02:00", dataschema="http://example.com/schema", comexample="1.50")
    body = b'{ "keep" :\t[1.50, "\\u20ac"] }\r\n'
    assert fan(*(s.url for s in three)).send(headers, body).status == 202
    for s in three:
        request = s.only()
        assert (request.method, request.path, request.body) == ("POST", "/", body)
        assert request.header("content-type") == "application/json"
        assert seen(request) == sent(headers)


def test_one_that_refuses_fails_the_event_and_the_others_got_it_once(fan, subscriber):
    good, bad = subscriber(), subscriber([Answer(403)])
    sidecar = fan(good.url, {"uid": "bad", "subscriber": bad.url})
    for n in (1, 2):
        answer = sidecar.send()
        assert answer.status == 500
        assert [failed["subscription"] for failed in json.loads(answer.body)["failed"]] == ["bad"]
        assert (len(good.requests), len(bad.requests)) == (n, n)


@pytest.mark.parametrize("ack, status", [("all", 500), ("async-memory", 202)])
def test_one_that_is_slower_than_the_channel_waits_fails_the_event_unless_nobody_waits(fan, subscriber, ack, status):
    gate = Gate()
    s = subscriber(gate.hold(Answer(200)))
    sidecar = fan(s.url, timeout="300ms", ack=ack, delivery=ONCE)
    assert sidecar.send().status == status
    s.wait(1)
    gate.open()


def test_a_quorum_answers_for_the_rest(fan, subscriber):
    gate = Gate()
    slow, quick = subscriber(gate.hold(Answer(200))), [subscriber(), subscriber()]
    sidecar = fan(slow.url, *(s.url for s in quick), ack="quorum(2)")
    assert sidecar.send().status == 202
    gate.open()
    slow.wait(1)


def test_a_failure_may_be_told_at_once(fan, subscriber):
    gate = Gate()
    slow, bad = subscriber(gate.hold(Answer(200))), subscriber([Answer(403)])
    assert fan(slow.url, {"uid": "bad", "subscriber": bad.url}, nack="first").send().status == 500
    gate.open()
    slow.wait(1)


def test_a_sender_may_have_less_time_than_the_channel(fan, subscriber):
    gate = Gate()
    s = subscriber(gate.hold(Answer(200)))
    assert fan(s.url, timeout="1h").send(event() | {"Prefer": "wait=1"}).status == 500
    gate.open()


def test_a_subscriber_that_hangs_delays_nobody_elses_channel(fanout, subscriber):
    gate = Gate()
    hanging, quick = subscriber(gate.hold(Answer(200))), subscriber()
    sidecar = fanout(channel(hanging.url, ack="async-memory"), channel(quick.url, name="c2"))
    for _ in range(50):
        assert sidecar.send().status == 202
    for _ in range(50):
        assert sidecar.send(to="/default/c2").status == 202
    assert len(quick.requests) == 50
    gate.open()
    hanging.wait(50)


def test_only_allowed_headers_go_on(fan, subscriber):
    s = subscriber()
    extra = {"knative-hello": "world", "X-Request-Id": "r1", "X-B3-TraceId": "t", "x-ot-span": "o", "do-not-forward": "x",
             "Authorization": "Bearer secret", "Cookie": "c=1", "X-Forwarded-For": "1.2.3.4", "Connection": "keep-alive"}
    assert fan(s.url).send(event() | extra).status == 202
    request = s.only()
    assert {name: request.header(name) for name in ("knative-hello", "x-request-id", "x-b3-traceid", "x-ot-span")} == {
        "knative-hello": "world", "x-request-id": "r1", "x-b3-traceid": "t", "x-ot-span": "o"}
    assert [name for name in ("do-not-forward", "Authorization", "Cookie", "X-Forwarded-For") if request.all(name)] == []


def test_a_trace_goes_on_with_a_parent_of_ours_and_the_events_own_trace_stays(fan, subscriber):
    three = [subscriber() for _ in range(3)]
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = event(traceparent=own) | {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "a=1", "baggage": "k=v"}
    assert fan(*(s.url for s in three)).send(headers).status == 202
    parents = set()
    for s in three:
        request = s.only()
        assert request.header("ce-traceparent") == own
        assert (request.header("tracestate"), request.header("baggage")) == ("a=1", "k=v")
        version, same, new, flags = request.header("traceparent").split("-")
        assert (version, same, flags) == ("00", trace, "01")
        parents.add(new)
    assert len(parents) == 3 and parent not in parents


def test_a_trace_that_is_none_is_not_passed_on(fan, subscriber):
    s = subscriber()
    assert fan(s.url).send(event() | {"traceparent": "00-xyz", "tracestate": "a=1"}).status == 202
    assert (s.only().header("traceparent"), s.only().header("tracestate")) == (None, None)


def test_a_channel_may_name_what_goes_on(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url, forward_headers=["X-Tenant"], forward_prefixes=["x-my-"])
    assert sidecar.send(event() | {"x-tenant": "t1", "X-My-Own": "1", "knative-hello": "world"}).status == 202
    request = s.only()
    assert (request.header("X-Tenant"), request.header("x-my-own"), request.header("knative-hello")) == ("t1", "1", None)


def test_every_delivery_prefers_a_reply_and_names_the_namespace(fan, subscriber):
    s = subscriber()
    assert fan(s.url).send().status == 202
    assert (s.only().header("Prefer"), s.only().header("Kn-Namespace")) == ("reply", "default")


def test_a_subscriber_may_want_json(fan, subscriber):
    s = subscriber()
    headers = event(comexample="x")
    assert fan({"subscriber": s.url, "delivery": {"format": "json"}}).send(headers, b'{"a": 1.0}').status == 202
    request = s.only()
    assert request.header("content-type").startswith("application/cloudevents+json")
    fields = json.loads(request.body)
    assert fields.pop("data") == {"a": 1.0} and b"1.0" in request.body
    fields.pop(HOPS, None)
    assert fields == sent(headers) | {"datacontenttype": "application/json"}


# --- escapes of attribute values ---

@pytest.mark.parametrize("value, text", [
    ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
    ("%e2%82%ac%41", "%E2%82%ACA"),
    ('"quoted \\"x\\""', "quoted%20%22x%22"),
    ("100%25", "100%25"),
])
def test_values_are_decoded_once_and_encoded_again(fan, subscriber, value, text):
    s = subscriber()
    assert fan(s.url).send(event(comexample=value)).status == 202
    assert s.only().header("ce-comexample") == text


@pytest.mark.parametrize("value", ["%C0%A0", "%FF", "%ED%A0%80"])
def test_a_value_that_is_no_utf_8_is_refused(fan, subscriber, value):
    s = subscriber()
    assert fan(s.url).send(event(comexample=value)).status == 400
    assert s.requests == []


def test_a_channel_may_leave_values_raw(fan, subscriber):
    s = subscriber()
    assert fan(s.url, ce_header_encoding="raw").send(event(comexample="a%20%E2%82%AC")).status == 202
    assert s.only().header("ce-comexample").encode("latin-1") == "a \u20ac".encode()


# --- replies ---

def replying(status=200, **more):
    headers = event(id="reply-1", type="com.example.reply") | {"Content-Type": "text/plain"} | more
    return Answer(status, headers, b"the reply")


@pytest.mark.tsan
def test_a_reply_goes_to_the_reply_target(fan, subscriber):
    s, target = subscriber([replying(**{"knative-from": "s", "x-request-id": "r2", "X-Secret": "no"})]), subscriber()
    assert fan({"subscriber": s.url, "reply": target.url}).send().status == 202
    request = target.only()
    assert (request.body, request.header("content-type")) == (b"the reply", "text/plain")
    assert seen(request) == {"specversion": "1.0", "type": "com.example.reply", "source": "/tests", "id": "reply-1"}
    assert (request.header("knative-from"), request.header("x-request-id")) == ("s", "r2")
    assert request.header("Kn-Namespace") == "default"
    assert request.header("X-Secret") is None


@pytest.mark.parametrize("reply_on, n", [("200", 0), ("any2xx", 1)])
def test_a_reply_in_a_202_is_none_unless_the_channel_says_so(fan, subscriber, reply_on, n):
    s, target = subscriber([replying(202)]), subscriber()
    assert fan({"subscriber": s.url, "reply": target.url}, reply_on=reply_on).send().status == 202
    assert (len(s.requests), len(target.requests)) == (1, n)


@pytest.mark.parametrize("answer", [
    Answer(200), Answer(204), Answer(200, {"Content-Type": "text/plain"}, b"thank you"),
    Answer(200, {"Content-Type": "application/json"}, b'{"specversion": "1.0"}'),
])
def test_an_answer_that_is_no_event_is_no_reply(fan, subscriber, answer):
    s, target = subscriber([answer]), subscriber()
    assert fan({"subscriber": s.url, "reply": target.url}).send().status == 202
    assert target.requests == []


def test_an_answer_that_claims_to_be_an_event_and_is_none_fails_the_delivery(fan, subscriber):
    s = subscriber([Answer(200, {"Content-Type": "application/cloudevents+json"}, b"{")])
    target = subscriber()
    assert fan({"subscriber": s.url, "reply": target.url}).send().status == 500
    assert (len(s.requests), target.requests) == (1, [])


def test_without_a_reply_target_a_reply_is_discarded(fan, subscriber):
    s = subscriber([replying()])
    assert fan(s.url).send().status == 202
    assert len(s.requests) == 1


def test_without_a_subscriber_the_event_itself_is_the_reply(fan, subscriber):
    target = subscriber()
    headers = event()
    assert fan({"reply": target.url}).send(headers).status == 202
    assert seen(target.only()) == sent(headers)


# --- dead letters ---

def test_what_a_subscriber_refuses_goes_to_the_dead_letter_target_at_once(fan, subscriber):
    s, dls = subscriber([Answer(400, {"Content-Type": "text/plain"}, b"no such order")]), subscriber()
    headers = event()
    assert fan({"uid": "u1", "subscriber": s.url, "dead_letter": dls.url}).send(headers, b'{"n":1}').status == 202
    assert len(s.requests) == 1, "a 400 is not tried again"
    letter = dls.only()
    assert letter.body == b'{"n":1}'
    attributes = letter.attributes()
    assert sent(headers).items() <= attributes.items()
    assert attributes["knativeerrordest"] == s.url
    assert attributes["knativeerrorcode"] == "400"
    assert base64.b64decode(attributes["knativeerrordata"], validate=True) == b"no such order"
    assert (attributes["millraceattempts"], attributes["millracesubscription"]) == ("1", "u1")


def test_an_unreachable_subscriber_is_named_to_the_dead_letter_target(fan, subscriber):
    dls = subscriber()
    bound, port = refused_port()
    with bound:
        url = f"http://127.0.0.1:{port}/"
        assert fan({"subscriber": url, "dead_letter": dls.url, "delivery": ONCE}).send().status == 202
    attributes = dls.only().attributes()
    assert (attributes["knativeerrordest"], attributes["knativeerrorcode"]) == (url, "0")


def test_when_the_reply_target_refuses_the_original_event_is_the_dead_letter(fan, subscriber):
    s, target, dls = subscriber([replying()]), subscriber([Answer(400, {}, b"bad reply")]), subscriber()
    headers = event()
    assert fan({"subscriber": s.url, "reply": target.url, "dead_letter": dls.url}).send(headers).status == 202
    attributes = dls.only().attributes()
    assert sent(headers).items() <= attributes.items()
    assert (attributes["knativeerrordest"], attributes["knativeerrorcode"]) == (target.url, "400")
    assert len(target.requests) == 1


@pytest.mark.parametrize("body", [b"line 1\r\nline 2\n\tat x", bytes(range(256)), b"x" * 5000])
def test_what_a_subscriber_says_of_an_error_fits_a_header(fan, subscriber, body):
    s, dls = subscriber([Answer(422, {}, body)]), subscriber()
    assert fan({"subscriber": s.url, "dead_letter": dls.url}).send().status == 202
    data = dls.only().header("ce-knativeerrordata")
    assert len(data) <= 1024
    assert base64.b64decode(data, validate=True) == body[:768]


def test_what_the_dead_letter_target_answers_is_no_reply(fan, subscriber):
    s, target, dls = subscriber([Answer(400)]), subscriber(), subscriber([replying()])
    assert fan({"subscriber": s.url, "reply": target.url, "dead_letter": dls.url}).send().status == 202
    assert (len(dls.requests), target.requests) == (1, [])


def test_when_the_dead_letter_target_fails_too_the_sender_is_told(fan, subscriber):
    s, dls = subscriber([Answer(400)]), subscriber([Answer(403)])
    assert fan({"subscriber": s.url, "dead_letter": dls.url}).send().status == 500


# --- retries ---

def test_a_subscriber_gets_as_many_attempts_as_it_was_promised(fan, subscriber):
    flaky, dead, dls = subscriber([Answer(503)] * 3 + [Answer(200)]), subscriber([Answer(503)]), subscriber()
    sidecar = fan({"subscriber": flaky.url}, {"subscriber": dead.url, "dead_letter": dls.url}, delivery={"retry": 3} | QUICK)
    headers = event()
    assert sidecar.send(headers).status == 202
    assert flaky.ids() == [headers["ce-id"]] * 4
    assert dead.ids() == [headers["ce-id"]] * 4
    assert (dls.only().header("ce-knativeerrorcode"), dls.only().header("ce-millraceattempts")) == ("503", "4")


@pytest.mark.parametrize("status, n", [
    *[(status, 3) for status in (404, 408, 409, 429, 500, 501, 503, 504)], *[(status, 1) for status in (301, 303, 307, 400, 401, 403, 410, 415)],
])
def test_only_what_may_pass_is_tried_again(fan, subscriber, status, n):
    elsewhere = subscriber()
    s = subscriber([Answer(status, {"Location": elsewhere.url} if status < 400 else {})])
    assert fan({"subscriber": s.url, "delivery": {"retry": 2} | QUICK}).send().status == 500
    assert len(s.requests) == n
    assert elsewhere.requests == [], "a redirection is a failure, and never followed"


@pytest.mark.parametrize("how", ["seconds", "date"])
@pytest.mark.parametrize("most, least_s, most_s", [("PT1S", 0.9, 1.9), ("PT10S", 1.0, None), ("PT0S", 0, 0.9)])
def test_a_subscriber_may_ask_for_time_up_to_a_bound(fan, subscriber, how, most, least_s, most_s):
    def busy(request, number):
        after = "2" if how == "seconds" else email.utils.formatdate(time.time() + 3, usegmt=True)
        return Answer(200) if number else Answer(429, {"Retry-After": after})

    s = subscriber(busy)
    assert fan({"subscriber": s.url, "delivery": {"retry": 1, "retry_after_max": most} | QUICK}).send().status == 202
    first, second = s.requests
    assert second.at - first.at >= least_s
    # How late it may be at most is what distinguishes the bounds: one second, and not two or three; at once, and not after one.
    assert most_s is None or second.at - first.at < most_s


def test_a_hop_too_many_is_refused(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url, max_hops=3)
    assert sidecar.send().status == 202
    assert s.only().header(f"ce-{HOPS}") == "1"
    assert sidecar.send(event(**{HOPS: "2"})).status == 202
    assert sidecar.send(event(**{HOPS: "3"})).status == 400
    assert len(s.requests) == 2


def test_a_channel_that_is_its_own_subscriber_ends_in_an_error(fan, subscriber, tmp_path):
    s = subscriber()
    sidecar = fan(s.url)
    write(sidecar.folder, {"channels": [channel("http://%s:%d/default/c1" % sidecar.fanout, max_hops=5, delivery=ONCE)]})
    holds(sidecar, lambda c: c["generation"] > 1)
    assert sidecar.send().status == 500
    assert sidecar.metrics().sum("millrace_fanout_events_received_total") == 6


# --- how long it takes ---

def test_histograms_have_how_long_events_deliveries_and_attempts_took(fan, subscriber):
    quick, slow = subscriber(), subscriber([Answer(503, {"Retry-After": "1"}), Answer(202)])
    sidecar = fan(quick.url, {"subscriber": slow.url, "delivery": QUICK})
    assert sidecar.send().status == 202
    metrics = sidecar.metrics()
    for name, n, slow_ones in (("dispatch", 1, 1), ("delivery", 2, 1), ("attempt", 3, 0)):
        metric = f"millrace_fanout_{name}_seconds"
        assert metrics.sum(f"{metric}_count") == metrics.sum(f"{metric}_bucket", le="+Inf") == n
        assert metrics.sum(f"{metric}_bucket", le="0.5") <= n - slow_ones
        assert metrics.sum(f"{metric}_sum") >= 0.9 * slow_ones


# --- filters ---

FILTERS = {
    "exact": {"exact": {"type": "com.example.opened"}},
    "exact-two": {"exact": {"type": "com.example.opened", "subject": "other"}},
    "prefix": {"prefix": {"type": "com.example."}},
    "suffix": {"suffix": {"type": ".opened"}},
    "all": {"all": [{"exact": {"subject": "s1"}}, {"suffix": {"type": ".opened"}}]},
    "any": {"any": [{"exact": {"subject": "s2"}}, {"prefix": {"type": "com."}}]},
    "not": {"not": {"exact": {"type": "com.example.closed"}}},
    "not-missing": {"not": {"exact": {"missing": "x"}}},
    "missing": {"exact": {"missing": "x"}},
    "prefix-missing": {"prefix": {"missing": "x"}},
    "suffix-missing": {"suffix": {"missing": "x"}},
    "sql": {"sql": "type LIKE '%.opened' AND subject = 's1'"},
    "cesql": {"cesql": "EXISTS subject AND NOT EXISTS missing"},
    "sql-missing": {"sql": "missing = 'x'"},
    "sql-number": {"sql": "1 + 1"},
    "not-sql-missing": {"not": {"sql": "missing = 'x'"}},
}


def test_filters_choose_who_gets_an_event(fan, subscriber):
    subscribers = {name: subscriber() for name in FILTERS}
    sidecar = fan(*({"uid": name, "subscriber": subscribers[name].url, "filters": [f]} for name, f in FILTERS.items()))
    assert sidecar.send(event(subject="s1")).status == 202
    assert sidecar.send(event(subject="s2", type="com.example.closed")).status == 202
    got = {name: "".join(r.header("ce-subject") for r in s.requests) for name, s in subscribers.items()}
    both = {"prefix", "any", "not-missing", "cesql"}
    first = {"exact", "suffix", "all", "not", "sql"}
    assert got == {name: "s1s2" if name in both else "s1" if name in first else "" for name in FILTERS}


def test_all_filters_of_a_list_have_to_match(fan, subscriber):
    s = subscriber()
    sidecar = fan({"subscriber": s.url, "filters": [FILTERS["exact"], FILTERS["sql"]]})
    for subject in ("s1", "s2"):
        assert sidecar.send(event(subject=subject)).status == 202
    assert s.only().header("ce-subject") == "s1"


@pytest.mark.parametrize("filters, got", [([{"exact": {"type": "new"}}], ["new"]), ([], ["old"]), (None, ["old"])])
def test_filters_win_over_the_older_filter_unless_they_are_empty(fan, subscriber, filters, got):
    s = subscriber()
    subscription = {"subscriber": s.url, "filter": {"attributes": {"type": "old"}}}
    if filters is not None:
        subscription["filters"] = filters
    sidecar = fan(subscription)
    for kind in ("old", "new", "other"):
        assert sidecar.send(event(type=kind)).status == 202
    assert [r.header("ce-type") for r in s.requests] == got


@pytest.mark.parametrize("name", ["Source", "s_pace", "123", "\U0001f600", "data", ""])
def test_a_filter_on_what_is_no_attribute_is_refused(fan, subscriber, name):
    s = subscriber()
    sidecar = fan(s.url)
    write(sidecar.folder, {"channels": [channel({"subscriber": s.url, "filters": [{"exact": {name: "x"}}]})]})
    config = holds(sidecar, lambda c: c["last_reload"]["status"] == "failed")
    assert config["last_reload"]["errors"][0]["line"] > 0
    assert sidecar.send().status == 202, "and what held before holds"


@pytest.mark.parametrize("wrong", [
    {"regex": {"type": "x"}}, {"exact": {"type": "x"}, "prefix": {"type": "y"}}, {"exact": {"type": ""}}, {"all": []}, {"sql": "type ="},
    {"sql": "REVERSE(type) = 'x'"},
])
def test_the_process_does_not_start_with_a_filter_that_it_does_not_understand(fanout, subscriber, wrong):
    sidecar = fanout(channel({"subscriber": subscriber().url, "filters": [wrong]}), wait=False)
    assert sidecar.wait() != 0
    sidecar.is_killed = True  # it has ended already
    assert "channels.yaml" in sidecar.log()


# --- batches ---

def test_each_event_of_a_batch_has_a_status_of_its_own(fan, subscriber):
    s = subscriber(lambda request, number: Answer(403 if request.header("ce-subject") == "bad" else 200))
    batch = [document(subject="good"), document(subject="bad"), {"specversion": "1.0", "id": "x"}, document(data="text")]
    answer = fan(s.url).send({"Content-Type": "application/cloudevents-batch+json"}, json.dumps(batch).encode())
    assert answer.status == 207
    assert [item["status"] for item in json.loads(answer.body)] == [202, 500, 400, 202]
    assert sorted(s.ids()) == sorted(one["id"] for one in (batch[0], batch[1], batch[3]))


def test_a_batch_that_goes_through_is_accepted_and_may_be_empty(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    for n in (0, 1, 100):
        answer = sidecar.send({"Content-Type": "application/cloudevents-batch+json"},
                              json.dumps([document() for _ in range(n)]).encode())
        assert (answer.status, [item["status"] for item in json.loads(answer.body)]) == (202, [202] * n)
    assert len(set(s.ids())) == len(s.requests) == 101


# --- channels that requests bring ---

TOKEN = "let-me-in"


def bring(subscription, token=TOKEN):
    headers = event() | {"Fanout-Channel": json.dumps({"subscriptions": [subscription]})}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def test_a_request_may_bring_its_own_subscriptions_where_that_is_allowed(fanout, subscriber):
    s, forbidden = subscriber(), subscriber()
    sidecar = fanout(arguments=["--set", f"fanout.stateless.token={TOKEN}", "--set", f"fanout.stateless.allow=[{s.host}]"])
    assert sidecar.send(bring({"subscriber": s.url}), to="/").status == 202
    assert seen(s.only())["type"] == "com.example.opened"
    assert sidecar.send(bring({"subscriber": forbidden.url}), to="/").status == 403
    assert sidecar.send(bring({"subscriber": s.url, "reply": forbidden.url}), to="/").status == 403
    assert sidecar.send(bring({"subscriber": s.url}, token="guess"), to="/").status == 401
    assert sidecar.send(bring({"subscriber": s.url}, token=None), to="/").status == 401
    assert sidecar.send(bring({"suscriber": s.url}), to="/").status == 400
    assert (len(s.requests), forbidden.requests) == (1, [])
    assert "authorization" not in {name.lower() for name, _ in s.only().headers}


def test_a_request_may_not_bring_its_own_subscriptions_by_default(fan, subscriber):
    s = subscriber()
    assert fan(s.url).send(bring({"subscriber": s.url})).status == 403
    assert s.requests == []


# --- configuration ---

KNATIVE = """\
channelConfigs:
- namespace: default
  name: c1
  fanoutConfig:
    subscriptions:
    - callableDomain: {subscriber}
      sinkableDomain: {reply}
"""


def test_the_first_sidecars_configuration_is_read(fanout, subscriber):
    s, target = subscriber([replying()]), subscriber()
    sidecar = fanout(config=KNATIVE.format(subscriber=s.host, reply=target.host), file="multiChannelFanoutConfig")
    assert sidecar.send(host="c1.default.svc.cluster.local").status == 202
    assert (len(s.requests), len(target.requests)) == (1, 1)


def test_the_written_configuration_is_checked_first(subscriber, tmp_path):
    folder = tmp_path / "config"
    write(folder, {"channels": []})
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(json.dumps({"channels": [channel(subscriber().url)]}))
    bad.write_text("channels:\n- {namespace: default, nume: c1}\n")
    done = run_command("fanout", "write-config", "--config-dir", folder, "--from", bad)
    assert done.returncode != 0 and "bad.yaml:2" in done.stdout + done.stderr
    assert (folder / "channels.yaml").read_text() == "channels: []\n"
    done = run_command("fanout", "write-config", "--config-dir", folder, "--from", good)
    assert done.returncode == 0, done.stderr
    assert (folder / "channels.yaml").read_text() == good.read_text()


def test_the_manifest_for_kubernetes_starts(fanout):
    config_map, deployment = yaml.safe_load_all(MANIFEST.read_text())
    container = next(c for c in deployment["spec"]["template"]["spec"]["containers"] if c["name"] == "fanout")
    options = dict(zip(container["args"][1::2], container["args"][2::2]))
    assert container["args"][0] == "fanout" and set(options) == {"--config-dir", "--listen", "--admin"}
    (file, text), = config_map["data"].items()
    sidecar = fanout(config=yaml.safe_load(text), file=file, admin=options["--admin"].rpartition(":")[0] + ":0")
    assert sidecar.get("/readyz") == (200, "ok\n") and sidecar.config()["channels"] == 1


DEFAULT_ADMIN_PORT = 8081


def test_the_default_admin_port_may_be_taken_and_one_that_was_asked_for_may_not(fanout, subscriber):
    s = subscriber()
    try:
        taken = socket.create_server(("127.0.0.1", DEFAULT_ADMIN_PORT))
    except OSError:
        taken = socket.socket()  # somebody has it already
    with taken:
        sidecar = fanout(channel(s.url), admin=None)
        assert sidecar.admin is None and "level=warn" in sidecar.log()
        assert sidecar.send().status == 202
        other = fanout(channel(s.url), admin=f"127.0.0.1:{DEFAULT_ADMIN_PORT}", wait=False)
        assert other.wait() != 0
        other.is_killed = True  # it has ended already
