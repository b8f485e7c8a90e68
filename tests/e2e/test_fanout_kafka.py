"""The fan-out beside Kafka: subscribers that are topics (docs/FANOUT.md)."""
import json

import pytest

from lib.sidecar import Beside, channel, document, event, write
from lib.subscriber import Answer

BINARY = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def beside(serve, kafka, tmp_path):
    """beside(channel, ..): the fan-out of a process that also has Kafka."""
    def start(*channels):
        write(tmp_path / "channels", {"channels": list(channels)})
        return Beside(serve({
            "kafka": {"bootstrap": kafka.bootstrap}, "admin": {"listen": "127.0.0.1:0"}, "data_dir": str(tmp_path / "data"),
            "fanout": {"listen": "127.0.0.1:0", "config_dir": str(tmp_path / "channels"), "grace": 0}}))
    return start


@pytest.fixture
def topic(kafka, tenant):
    kafka.create(f"{tenant}.events")
    return f"{tenant}.events"


def headers_of(record):
    found = dict(record.headers)
    assert len(found) == len(record.headers), f"a header is there twice: {record.headers}"
    return {name: value.decode() for name, value in found.items() if name != "ce_millracehops"}


def test_an_accepted_event_is_a_record_of_the_topic(beside, kafka, topic, subscriber):
    s = subscriber()
    fanout = beside(channel(f"kafka:{topic}", s.url))
    headers = event(comexample="Euro%20%E2%82%AC") | BINARY
    assert fanout.send(headers, b"\x00\xff").status == 202
    record, = kafka.records(topic)
    assert record.value == b"\x00\xff" == s.only().body
    wanted = {name.replace("ce-", "ce_"): value for name, value in headers.items() if name.startswith("ce-")}
    assert headers_of(record) == wanted | {"ce_comexample": "Euro \u20ac", "content-type": "application/octet-stream"}


def test_an_event_without_data_has_no_value(beside, kafka, topic):
    fanout = beside(channel(f"kafka:{topic}"))
    fields = document()
    assert fanout.send({"Content-Type": "application/cloudevents+json"}, json.dumps(fields).encode()).status == 202
    record, = kafka.records(topic)
    assert record.value is None and headers_of(record)["ce_id"] == fields["id"]


def test_replies_and_dead_letters_may_go_to_topics(beside, kafka, topic, subscriber, tenant):
    kafka.create(f"{tenant}.dead")
    good = subscriber([Answer(200, event(id="reply-1") | {"Content-Type": "text/plain"}, b"reply")])
    bad = subscriber([Answer(400, {}, b"why")])
    fanout = beside(channel({"subscriber": good.url, "reply": f"kafka:{topic}"},
                            {"subscriber": bad.url, "dead_letter": f"kafka:{tenant}.dead"}))
    headers = event()
    assert fanout.send(headers, b"{}").status == 202
    reply, = kafka.records(topic)
    assert (reply.value, headers_of(reply)["ce_id"]) == (b"reply", "reply-1")
    letter, = kafka.records(f"{tenant}.dead")
    assert letter.value == b"{}"
    have = headers_of(letter)
    assert (have["ce_id"], have["ce_knativeerrordest"], have["ce_knativeerrorcode"]) == (headers["ce-id"], bad.url, "400")


def test_what_kafka_does_not_take_fails_for_the_sender(beside, tenant, subscriber):
    s = subscriber()
    fanout = beside(channel({"uid": "topic", "subscriber": f"kafka:{tenant}.missing", "delivery": {"retry": 0}}, s.url, timeout="20s"))
    answer = fanout.send()
    assert answer.status == 500
    failed, = json.loads(answer.body)["failed"]
    assert (failed["subscription"], failed["reason"]) == ("topic", "kafka")
    assert len(s.requests) == 1
