"""What a channel says of order, of events that are sent again, and of acknowledgement before delivery."""
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib.sidecar import document, event
from lib.subscriber import Answer, Gate, Subscriber
from lib.wait import until

ONCE = {"retry": 0}


class Recorder(Subscriber):
    """Notes when it is at work, in one list with others: ("begin" or "end", its name, the event's id)."""

    def __init__(self, name, story, delay_s=0.0):
        self.lock = threading.Lock()

        def answer(request, number):
            with self.lock:
                story.append(("begin", name, request.header("ce-id")))
            if delay_s:
                threading.Event().wait(delay_s)  # slow, as subscribers may be
            with self.lock:
                story.append(("end", name, request.header("ce-id")))
            return Answer(200)

        super().__init__(answer)


@pytest.fixture
def recorder():
    """recorder(name, story): a running one."""
    running = []

    def start(*arguments, **options):
        running.append(Recorder(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


def send_all(sidecar, events):
    """All at once, from a connection each. The statuses."""
    with ThreadPoolExecutor(len(events)) as pool:
        return [answer.status for answer in pool.map(sidecar.send, events)]


# --- order ---

@pytest.mark.tsan
def test_strict_order_is_the_same_for_all_and_no_event_overtakes_another(fan, recorder):
    story = []
    subscribers = [recorder("quick", story), recorder("slow", story, delay_s=0.01)]
    sidecar = fan(*(s.url for s in subscribers), order="strict")
    assert set(send_all(sidecar, [event(id=str(n)) for n in range(40)])) == {202}
    assert subscribers[0].ids() == subscribers[1].ids()
    assert sorted(subscribers[0].ids(), key=int) == [str(n) for n in range(40)]
    times = {}
    for at, (_, _, number) in enumerate(story):
        times.setdefault(number, []).append(at)
    spans = sorted((min(at), max(at)) for at in times.values())
    assert all(end < begin for (_, end), (begin, _) in zip(spans, spans[1:])), "one began before the one before was done everywhere"


def test_strict_order_waits_for_the_retries_of_the_event_before(fan, subscriber):
    s = subscriber([Answer(503), Answer(503), Answer(200)])
    gate = Gate()
    other = subscriber(gate.hold(Answer(200)))
    sidecar = fan({"subscriber": s.url, "delivery": {"retry": 3, "backoff_delay": "50ms"}}, other.url, order="strict")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sidecar.send, event(id="first"))
        other.wait(1)
        second = pool.submit(sidecar.send, event(id="second"))
        s.wait(3)
        assert s.ids() == ["first"] * 3
        gate.open()
        assert (first.result().status, second.result().status) == (202, 202)
    assert s.ids() == ["first"] * 3 + ["second"]


@pytest.mark.tsan
def test_order_by_key_keeps_each_key_in_order_and_lets_keys_pass_each_other(fan, recorder):
    """The senders are told before anybody has the events, so many of a key wait at the same time."""
    story = []
    s = recorder("slow", story, delay_s=0.005)
    sidecar = fan(s.url, order="key", order_key="customer", ack="async-memory")
    keys, each = "abcd", 20

    def send(key):
        return {sidecar.send(event(id=f"{key}{n}", customer=key)).status for n in range(each)}

    with ThreadPoolExecutor(len(keys)) as pool:
        assert set.union(*pool.map(send, keys)) == {202}
    s.wait(len(keys) * each)
    for key in keys:
        assert [i for i in s.ids() if i[0] == key] == [f"{key}{n}" for n in range(each)]
    until(lambda: len(story) == 2 * len(keys) * each, "the end of the last")
    for key in keys:
        of_key = [what for what, _, number in story if number[0] == key]
        assert of_key == ["begin", "end"] * each, "one of a key at a time"
    depth, deepest = 0, 0
    for what, _, _ in story:
        depth += 1 if what == "begin" else -1
        deepest = max(deepest, depth)
    assert deepest > 1, "several keys at a time"


def test_a_key_that_hangs_does_not_hold_up_another(fan, subscriber):
    gate = Gate()
    s = subscriber(lambda request, n: gate.hold(Answer(200))(request, n) if request.header("ce-partitionkey") == "a" else Answer(200))
    sidecar = fan(s.url, order="key")
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(sidecar.send, event(partitionkey="a")) for _ in range(2)]
        s.wait(1)
        assert sidecar.send(event(partitionkey="b")).status == 202
        assert sidecar.send().status == 202, "an event without the key is in no order"
        gate.open()
        assert {answer.result().status for answer in held} == {202}


# --- events that are sent again ---

@pytest.mark.tsan
def test_an_event_sent_again_goes_to_those_that_have_not_had_it(fan, subscriber):
    good, bad = subscriber(), subscriber([Answer(503), Answer(503), Answer(200)])
    sidecar = fan(good.url, {"subscriber": bad.url, "delivery": ONCE}, redeliver="failed-only")
    headers = event(id="again")
    assert [sidecar.send(headers).status for _ in range(4)] == [500, 500, 202, 202]
    assert (len(good.requests), len(bad.requests)) == (1, 3)
    assert sidecar.send(event(id="again", source="/elsewhere")).status == 202, "another event"
    assert len(good.requests) == 2
    assert sidecar.metrics().sum("millrace_fanout_deliveries_remembered_total") == 4


def test_what_was_had_is_forgotten_after_its_time(fan, subscriber):
    good = subscriber()
    sidecar = fan(good.url, redeliver="failed-only", remember="1s")
    headers = event()
    assert sidecar.send(headers).status == 202
    until(lambda: sidecar.send(headers).status == 202 and len(good.requests) == 2, "the event to be forgotten")


# --- repeats ---

SUPPRESS = {"repeats": "suppress"}


def repeats(sidecar):
    metrics = sidecar.metrics()
    return {fate: metrics.sum("millrace_fanout_events_repeated_total", fate=fate) for fate in ("delivered", "acknowledged", "refused")}


def test_a_repeat_of_what_was_taken_is_acknowledged_and_not_delivered(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url, **SUPPRESS)
    same = event()
    assert [sidecar.send(headers).status for headers in (same, same, event(), same, same | {"ce-source": "/other"})] == [202] * 5
    assert s.ids() == [same["ce-id"], s.ids()[1], same["ce-id"]]
    assert [request.header("ce-source") for request in s.requests] == ["/tests", "/tests", "/other"]
    assert repeats(sidecar) == {"delivered": 0, "acknowledged": 2, "refused": 0}


@pytest.mark.tsan
def test_a_repeat_of_what_is_under_way_is_refused_until_that_is_known(fan, subscriber):
    gate = Gate()
    s = subscriber(gate.hold(Answer(200)))
    sidecar = fan(s.url, **SUPPRESS)
    same = event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sidecar.send, same)
        s.wait(1)
        second = sidecar.send(same)
        gate.open()
        assert first.result().status == 202
    assert (second.status, second.headers["Retry-After"]) == (409, "2")
    assert sidecar.send(same).status == 202
    assert len(s.requests) == 1
    assert repeats(sidecar) == {"delivered": 0, "acknowledged": 1, "refused": 1}
    assert sidecar.metrics().sum("millrace_fanout_events_rejected_total", reason="repeated") == 1


def test_what_failed_is_delivered_when_it_comes_again(fan, subscriber):
    s = subscriber([Answer(500), Answer(200)])
    sidecar = fan({"subscriber": s.url, "delivery": ONCE}, **SUPPRESS)
    same = event()
    assert [sidecar.send(same).status for _ in range(3)] == [500, 202, 202]
    assert len(s.requests) == 2


def test_repeats_can_be_counted_and_delivered(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url, repeats="count")
    same = event()
    assert [sidecar.send(same).status for _ in range(3)] == [202] * 3
    assert len(s.requests) == 3
    assert repeats(sidecar) == {"delivered": 2, "acknowledged": 0, "refused": 0}


@pytest.mark.parametrize("order", ["none", "strict"])
def test_a_circle_that_does_not_count_its_hops_ends_where_it_closes(fan, subscriber, order):
    inner = []

    def send_back(request, number):
        headers = {name: value for name, value in request.headers if name.lower().startswith("ce-") and "hops" not in name.lower()}
        inner.append(sidecar.send(headers | {"Content-Type": "application/json"}).status)
        return Answer(200)

    s = subscriber(send_back)
    sidecar = fan(s.url, order=order, **SUPPRESS)
    assert sidecar.send().status == 202
    assert (inner, len(s.requests)) == ([409], 1)


def test_a_repeat_that_was_answered_before_it_began_is_dropped(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url, ack="async-memory", **SUPPRESS)
    same = event()
    assert [sidecar.send(same).status for _ in range(2)] == [202, 202]
    until(lambda: repeats(sidecar)["acknowledged"] == 1, "the repeat")
    until(lambda: sidecar.metrics().sum("millrace_fanout_events_unfinished") == 0, "the end of both")
    assert len(s.requests) == 1


def test_twins_in_one_batch_are_one_event(fan, subscriber):
    gate = Gate()
    s = subscriber(gate.hold(Answer(200)))
    sidecar = fan(s.url, **SUPPRESS)
    same, other = document(), document()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sidecar.send, {"Content-Type": "application/cloudevents-batch+json"}, json.dumps([same, other, same]).encode())
        s.wait(2)
        gate.open()
        assert [item["status"] for item in json.loads(answer.result().body)] == [202, 202, 409]
    assert sorted(s.ids()) == sorted([same["id"], other["id"]])


# --- acknowledgement before delivery ---

def test_async_memory_refuses_what_it_has_no_room_for(fan, subscriber):
    gate = Gate()
    s = subscriber(gate.hold(Answer(200)))
    sidecar = fan(s.url, ack="async-memory", max_queued="64KiB")
    statuses = [sidecar.send(body=b"x" * 20_000).status for _ in range(40)]
    assert statuses[0] == 202 and 429 in statuses
    answer = sidecar.send(body=b"x" * 60_000)
    assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0
    gate.open()
    s.wait(statuses.count(202))
    until(lambda: sidecar.metrics().sum("millrace_fanout_events_unfinished") == 0, "all to be done")
    assert sidecar.send(body=b"x" * 20_000).status == 202
    assert len(s.wait(statuses.count(202) + 1)) == statuses.count(202) + 1


def test_async_memory_counts_what_it_loses(fan, subscriber):
    s = subscriber([Answer(503)])
    sidecar = fan({"subscriber": s.url, "delivery": ONCE}, ack="async-memory")
    assert sidecar.send().status == 202
    until(lambda: sidecar.metrics().sum("millrace_fanout_events_lost_total") == 1, "the loss to be counted")
    assert "fanout.event.lost" in sidecar.log()


def test_async_memory_is_drained_before_the_end(fan, recorder):
    story = []
    s = recorder("slow", story, delay_s=0.005)
    sidecar = fan(s.url, ack="async-memory", order="strict")
    assert {sidecar.send(event(id=str(n))).status for n in range(60)} == {202}
    sidecar.signal(signal.SIGTERM)
    assert sidecar.wait() == 0
    assert s.ids() == [str(n) for n in range(60)]
