"""`millrace command send` and `millrace events`: what people try commands and devices with."""
import json
import re
import subprocess

import pytest

from lib.mqtt import V311, Client
from lib.server import MILLRACE
from lib.wait import HANG_S


@pytest.fixture
def server(serve, make_config, kafka):
    return serve(make_config(kafka.bootstrap))


@pytest.fixture
def talk(kafka, tenant):
    """talk("command", "send", flag...): the process."""
    running = []

    def start(*words, bootstrap=kafka.bootstrap):
        process = subprocess.Popen([MILLRACE, *words, "--kafka", bootstrap, "--tenant", tenant], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def device(server, tenant):
    with Client(server.mqtt, V311) as c:
        c.connect("d", user=f"a1@{tenant}", password="pw")
        yield c


def answer(device, status, payload):
    """Takes a command and answers it; its topic and payload."""
    got = device.expect_publish()
    request_id = got.topic.split("/")[4]
    device.publish_and_wait(f"command///res/{request_id}/{status}", payload)
    return got


def end(process):
    out, err = process.communicate(timeout=HANG_S)
    return process.returncode, out, err


@pytest.mark.parametrize("status, code", [(200, 0), (500, 1)])
def test_a_command_and_its_answer(talk, device, status, code):
    device.subscribe([("command///req/#", 0)])
    asking = talk("command", "send", "--device", "d1", "--name", "light", "--payload", "on", "--response", "-o", "json")
    got = answer(device, status, "done")
    assert got.topic.endswith("/light") and got.payload == b"on"
    returned, out, err = end(asking)
    told = json.loads(out)
    assert (returned, told["outcome"], told["status"], told["payload"]) == (code, "answer", status, "done"), err


def test_a_delivery_is_told(talk, device):
    device.subscribe([("command///req/#", 0)])
    asking = talk("command", "send", "--device", "d1", "--name", "light", "--ack")
    device.expect_publish()
    returned, out, _ = end(asking)
    assert returned == 0
    assert re.fullmatch(r'sent: \S+, message id \w{32}\ndelivered: 202 after \d+ ms: {"acknowledgement":"attempted"}\n', out), out


def test_a_device_that_is_not_there_is_told(talk, server):
    returned, out, _ = end(talk("command", "send", "--device", "d1", "--name", "light", "--response"))
    assert returned == 1 and "not delivered: 503" in out


def test_without_waiting_it_is_enough_that_kafka_has_it(talk, server, kafka, tenant):
    returned, out, _ = end(talk("command", "send", "--device", "d1", "--name", "light", "--ttl", "30s", "--content-type", "text/plain"))
    assert returned == 0 and out.startswith("sent: ")
    record, = kafka.records(f"hono.command.{tenant}")
    headers = {name: value.decode() for name, value in record.headers}
    assert (record.key, record.value) == (b"d1", None)
    assert (headers["subject"], headers["ttl"], headers["content-type"]) == ("light", "30000", "text/plain")
    assert headers["message-id"] and "response-required" not in headers


def test_a_tenant_without_topics_is_told(talk):
    returned, out, err = end(talk("command", "send", "--device", "d1", "--name", "light", "--response", "--timeout", "5s"))
    assert returned == 2 and out == "" and "cannot read hono.command_response." in err


def test_what_devices_send_is_followed(talk, server, device, tenant):
    following = talk("events", "--count", "3", "-o", "json")
    assert following.stderr.readline() == f"following tenant {tenant}\n"
    device.publish_and_wait("telemetry", "21.5")
    device.publish_and_wait("event/?content-type=text%2Fplain", "door open")
    end(talk("command", "send", "--device", "d1", "--name", "light", "--response"))
    returned, out, _ = end(following)
    told = [json.loads(line) for line in out.splitlines()]
    assert returned == 0
    assert {(t["kind"], t["device"], t["payload"].split(":")[0]) for t in told} == {
        ("telemetry", "d1", "21.5"), ("event", "d1", "door open"), ("response", "d1", '{"error"')}
    assert next(t for t in told if t["kind"] == "event")["headers"]["content-type"] == "text/plain"


def test_one_device_can_be_followed_in_words(talk, server, device, tenant):
    following = talk("events", "--device", "d1", "--count", "1")
    following.stderr.readline()
    device.publish_and_wait("telemetry", "21.5")
    returned, out, _ = end(following)
    assert returned == 0
    assert re.fullmatch(r"\S+Z telemetry d1 .*content-type=application/octet-stream.* \| 21.5\n", out), out
