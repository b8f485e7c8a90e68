"""Events whose delivery failed, kept on disk and delivered later, whatever happens to the process in between."""
import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib.server import run_command
from lib.sidecar import channel, event, holds, write
from lib.subscriber import Answer
from lib.wait import HANG_S, until

PARK = {"retry": 0, "on_exhausted": "park"}
PARKED = "millrace_fanout_parked_events"


class Switch:
    """What a subscriber answers, until it is changed: `Subscriber(switch)`."""

    def __init__(self, status=503, body=b"down"):
        self.answer = Answer(status, {}, body)

    def __call__(self, request, number):
        return self.answer

    def well(self):
        self.answer = Answer(200)


@pytest.fixture
def park(fanout, tmp_path):
    """park(subscriber, ..): a sidecar that parks what it cannot deliver to them, and tries again soon; over the same data each time."""
    def start(*subscribers, settings=(), delay="40ms", delay_max="200ms", **fields):
        subscriptions = [{"uid": f"s{n}", "subscriber": s.url, "delivery": dict(PARK)} for n, s in enumerate(subscribers)]
        extra = [word for setting in settings for word in ("--set", setting)]
        return fanout(channel(*subscriptions, **fields), arguments=[
            "--data", tmp_path / "data", "--set", f"fanout.park_delay={delay}", "--set", f"fanout.park_delay_max={delay_max}", *extra])
    return start


def parked(sidecar):
    status, text = sidecar.get("/parked")
    assert status == 200, text
    return json.loads(text)


def none_left(sidecar):
    until(lambda: parked(sidecar)["events"] == 0, "nothing to be parked any more")


def test_what_cannot_be_delivered_is_kept_and_delivered_later(park, subscriber):
    switch = Switch()
    s, other = subscriber(switch), subscriber()
    sidecar = park(s, other)
    headers = event(comexample="Euro%20%E2%82%AC") | {"Content-Type": "text/plain", "Knative-Hello": "world"}
    assert sidecar.send(headers, b"the data").status == 202
    first = s.wait(1)[0]
    listed = parked(sidecar)
    assert listed["events"] == 1 == sidecar.metrics().sum(PARKED)
    entry, = listed["parked"]
    assert (entry["channel"], entry["subscription"], entry["id"]) == ("default/c1", "s0", headers["ce-id"])
    assert entry["why"]["knativeerrorcode"] == "503"
    s.wait(4)
    switch.well()
    none_left(sidecar)
    last = s.requests[-1]
    assert (last.body, last.header("content-type")) == (b"the data", "text/plain")
    assert last.attributes() == first.attributes(), "as it was the first time, without what became of it"
    assert last.header("knative-hello") == "world"
    assert len(other.requests) == 1, "the others are not asked again"
    metrics = sidecar.metrics()
    assert metrics.sum("millrace_fanout_park_taken_total") == 1 == metrics.sum("millrace_fanout_park_delivered_total")
    assert metrics.sum(PARKED) == 0


def ledger(sidecar):
    metrics = sidecar.metrics()
    return {name: metrics.sum(f"millrace_fanout_park_{name}_total") for name in ("taken", "delivered", "discarded")} | {
        "parked": metrics.sum(PARKED)}


def change(sidecar, method, path, headers=()):
    host, _, port = sidecar.admin.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HANG_S)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_parked_events_can_be_thrown_away(park, subscriber):
    down, also = subscriber(Switch()), subscriber(Switch())
    sidecar = park(down, also, delay="1h", delay_max="1h")
    for n in range(5):
        assert sidecar.send(event(id=f"e{n}")).status == 202
    rows = parked(sidecar)["parked"]
    assert len(rows) == 10
    gone = next(row["number"] for row in rows if row["subscription"] == "s1")
    assert change(sidecar, "DELETE", f"/parked/{gone}") == (200, {"discarded": 1, "under_way": 0})
    assert change(sidecar, "DELETE", f"/parked/{gone}")[0] == 404
    assert change(sidecar, "DELETE", "/parked/0")[0] == change(sidecar, "DELETE", "/parked/x")[0] == 400
    assert change(sidecar, "DELETE", "/parked/default/c1/nobody") == (200, {"discarded": 0, "under_way": 0})
    assert change(sidecar, "DELETE", "/parked/default/c1/s0") == (200, {"discarded": 5, "under_way": 0})
    assert {row["subscription"] for row in parked(sidecar)["parked"]} == {"s1"}
    assert ledger(sidecar) == {"taken": 10, "delivered": 0, "discarded": 6, "parked": 4}
    assert "event=fanout.park.discarded" in sidecar.log()


def test_parked_events_can_be_tried_now(park, subscriber):
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s, delay="1h", delay_max="1h")
    for _ in range(6):
        assert sidecar.send().status == 202
    number = parked(sidecar)["parked"][0]["number"]
    assert change(sidecar, "POST", f"/parked/{number}/retry") == (200, {"hastened": 1, "under_way": 0})
    s.wait(7)
    switch.well()
    until(lambda: change(sidecar, "POST", "/parked/default/c1/s0/retry")[1]["under_way"] == 0, "nothing to be under way")
    none_left(sidecar)
    assert ledger(sidecar) == {"taken": 6, "delivered": 6, "discarded": 0, "parked": 0}


def test_whoever_changes_what_is_parked_shows_the_token(park, subscriber):
    sidecar = park(subscriber(Switch()), delay="1h", delay_max="1h", settings=["fanout.put_token=secret"])
    assert sidecar.send().status == 202
    for method, path in (("DELETE", "/parked/1"), ("DELETE", "/parked/default/c1/s0"), ("POST", "/parked/1/retry")):
        assert change(sidecar, method, path)[0] == 401
        assert change(sidecar, method, path, {"Authorization": "Bearer other"})[0] == 401
    assert parked(sidecar)["events"] == 1
    assert change(sidecar, "DELETE", "/parked/default/c1/s0", {"Authorization": "Bearer secret"})[1]["discarded"] == 1


def test_the_command_line_lists_discards_and_retries(park, subscriber):
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s, delay="1h", delay_max="1h", settings=["fanout.put_token=secret"])
    for n in range(3):
        assert sidecar.send(event(id=f"e{n}")).status == 202

    def run(*words, token="secret"):
        done = run_command("fanout", "parked", *words, "--api", f"http://{sidecar.admin}", "--token", token)
        return done.returncode, done.stdout, done.stderr

    status, text, _ = run()
    lines = text.splitlines()
    assert (status, len(lines), lines[-1]) == (0, 5, "3 of 3")
    assert lines[1].split()[1:3] + lines[1].split()[4:] == ["default/c1", "s0", "status", "/tests", "e0"]
    number = lines[1].split()[0]
    assert run("discard", number, token="other")[0] == 1
    assert run("discard", number)[:2] == (0, "1 discarded\n")
    assert run("discard", number)[0] == 1
    assert json.loads(run("list", "-o", "json")[1])["events"] == 2
    switch.well()
    assert run("retry", "default/c1", "s0")[:2] == (0, "2 hastened\n")
    none_left(sidecar)
    assert run("discard")[0] == run("sell", "1")[0] == 2


def test_a_dead_letter_that_fails_is_parked_and_tried_again(fanout, subscriber, tmp_path):
    dead_switch = Switch()
    s, dead = subscriber(Switch()), subscriber(dead_switch)
    delivery = {"retry": 0, "dead_letter": dead.url, "on_exhausted": ["dead-letter", "park"]}
    sidecar = fanout(channel({"uid": "s0", "subscriber": s.url, "delivery": delivery}), arguments=[
        "--data", tmp_path / "data", "--set", "fanout.park_delay=40ms", "--set", "fanout.park_delay_max=200ms"])
    headers = event()
    assert sidecar.send(headers).status == 202
    entry, = parked(sidecar)["parked"]
    assert (entry["id"], entry["why"]["knativeerrordest"]) == (headers["ce-id"], s.url), "the first failure says why"
    dead.wait(2)
    dead_switch.well()
    none_left(sidecar)
    assert dead.requests[-1].header("knativeerrordest") is None and dead.requests[-1].header("ce-knativeerrordest") == s.url
    assert len(s.requests) > 1, "it is tried from the beginning"
    metrics = sidecar.metrics()
    assert metrics.sum("millrace_fanout_deliveries_ended_total", outcome="parked") == 1
    assert ledger(sidecar) == {"taken": 1, "delivered": 1, "discarded": 0, "parked": 0}


def test_a_dead_letter_that_fails_fails_the_delivery_unless_something_follows(fanout, subscriber, tmp_path):
    s, dead = subscriber(Switch()), subscriber(Switch())
    sidecar = fanout(*(channel({"subscriber": s.url, "delivery": {"retry": 0, "dead_letter": dead.url, "on_exhausted": policy}}, name=name)
                       for name, policy in (("c1", "dead-letter"), ("c2", ["dead-letter", "drop"]), ("c3", ["dead-letter", "nack"]))))
    assert [sidecar.send(to=f"/default/c{n}").status for n in (1, 2, 3)] == [500, 202, 500]
    assert sidecar.metrics().sum("millrace_fanout_deliveries_ended_total", outcome="dropped") == 1


def test_parked_events_outlive_the_process(park, subscriber):
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s)
    ids = [f"kept-{n}" for n in range(20)]
    for number in ids:
        assert sidecar.send(event(id=number)).status == 202
    assert sidecar.stop() == 0
    switch.well()
    before = len(s.requests)
    sidecar = park(s)
    none_left(sidecar)
    assert set(ids) <= {request.header("ce-id") for request in s.requests[before:]}


@pytest.mark.tsan
@pytest.mark.parametrize("connections", [1, 16])
def test_every_event_that_was_accepted_outlives_a_kill(park, subscriber, connections):
    """Killed in the middle of parking: whatever was answered with 202 is there afterwards."""
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s, delay="1h", delay_max="1h")
    accepted = []

    def send(worker):
        try:
            for n in range(10_000):
                number = f"{worker}-{n}"
                if sidecar.send(event(id=number)).status == 202:
                    accepted.append(number)
        except OSError:
            pass  # it was killed

    with ThreadPoolExecutor(connections) as pool:
        running = [pool.submit(send, worker) for worker in range(connections)]
        until(lambda: len(accepted) >= 100, "some events to be accepted")
        sidecar.kill()
        for one in running:
            one.result()
    before = len(s.requests)
    sidecar = park(s, delay="1h", delay_max="1h")
    assert parked(sidecar)["events"] >= len(accepted)
    assert sidecar.stop() == 0
    switch.well()
    sidecar = park(s)  # an hour from now is further away than any delay of this one: it is due
    until(lambda: set(accepted) <= {request.header("ce-id") for request in s.requests[before:]}, "all that was accepted")
    none_left(sidecar)


def test_a_full_park_is_a_failure_that_the_sender_is_told(park, subscriber):
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s, settings=["fanout.park_max_bytes=1MiB"], delay="1h", delay_max="1h")
    statuses = [sidecar.send(body=b"x" * 200_000).status for _ in range(8)]
    assert statuses == [202] * 5 + [500] * 3
    assert sidecar.metrics().sum("millrace_fanout_park_refused_total", reason="full") == 3
    assert parked(sidecar)["events"] == 5


def test_a_subscription_that_is_gone_finds_its_events_when_it_comes_back(park, subscriber):
    switch = Switch()
    s = subscriber(switch)
    sidecar = park(s)
    assert sidecar.send(event(id="patient")).status == 202
    write(sidecar.folder, {"channels": [channel()]})
    holds(sidecar, lambda config: config["generation"] == 2)
    switch.well()
    attempts = sidecar.metrics().sum("millrace_fanout_park_attempts_total")
    until(lambda: sidecar.metrics().sum("millrace_fanout_park_attempts_total") > attempts + 2, "attempts without a subscription")
    assert parked(sidecar)["events"] == 1
    write(sidecar.folder, {"channels": [channel({"uid": "s0", "subscriber": s.url, "delivery": dict(PARK)})]})
    none_left(sidecar)
    assert s.requests[-1].header("ce-id") == "patient"


def test_without_a_folder_there_is_no_park(tmp_path, subscriber):
    folder = tmp_path / "channels"
    write(folder, {"channels": [channel({"subscriber": subscriber().url, "delivery": dict(PARK)})]})
    done = run_command("fanout", "--config-dir", folder, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert done.returncode != 0
    assert "park" in done.stderr and "--data" in done.stderr
