"""CloudEvents SDKs before and behind the fan-out. Those of JavaScript and Go are made at their first use, where npm and Go are there."""
import json

import pytest

from lib.sdk import Missing, Sdk

SDKS = ("python", "js", "go")
HOPS = "millracehops"


def events(n=3):
    return [{"specversion": "1.0", "id": f"id-{i}", "source": "/sdk/tests", "type": "com.example.sdk", "subject": "a/b",
             "time": "2026-01-02T03:04:05Z", "comexample": "x-1", "datacontenttype": "application/json", "data": {"n": i, "text": "\u20ac"}}
            for i in range(n)]


@pytest.fixture(scope="module", params=SDKS)
def sdk(request):
    try:
        return Sdk(request.param)
    except Missing as why:
        pytest.skip(f"not run: {why}")


def same_time(value):
    """SDKs print times in forms of their own."""
    return value.replace("+00:00", "Z").replace(".000", "")


def check(got, want):
    got = dict(got)
    got.pop(HOPS, None)
    assert same_time(got.pop("time")) == want["time"]
    assert got == {name: value for name, value in want.items() if name != "time"}


def received(request):
    """What a subscriber got in binary mode, as the fields of a document."""
    return request.attributes() | {"datacontenttype": request.header("content-type"), "data": json.loads(request.body)}


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_what_an_sdk_sends_arrives(sdk, fan, subscriber, mode):
    s = subscriber()
    sidecar = fan(s.url)
    want = events(1)
    status, body = sdk.send("http://%s:%d/default/c1" % sidecar.fanout, mode, want)
    assert (status, body) == (202, "")
    check(received(s.only()), want[0])


def test_what_an_sdk_sends_as_a_batch_arrives(sdk, fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    want = events()
    status, body = sdk.send("http://%s:%d/default/c1" % sidecar.fanout, "batch", want)
    assert (status, [item["status"] for item in json.loads(body)]) == (202, [202] * 3)
    for request, one in zip(sorted(s.requests, key=lambda r: r.header("ce-id")), want, strict=True):
        check(received(request), one)


@pytest.mark.parametrize("format", ["binary", "json"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_an_sdk_understands_what_arrives(sdk, fan, format, mode):
    want = events(1)
    with sdk.receiver() as (url, next_event):
        sidecar = fan({"subscriber": url, "delivery": {"format": format}})
        assert Sdk("python").send("http://%s:%d/default/c1" % sidecar.fanout, mode, want)[0] == 202
        check(next_event(), want[0])
