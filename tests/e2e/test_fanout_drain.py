"""The orderly end of the fan-out under load."""
import asyncio
import signal

import pytest

from lib.event_load import Load, Sink
from lib.sidecar import channel
from lib.wait import until

SUBSCRIBERS, CONNECTIONS = 3, 32


def drain(fanout, ack, delay_s, arguments=(), after=500):
    """SIGTERM once so many were answered. Returns the load and, for each event, the subscribers that got it."""
    seen = {}

    async def run():
        sink = await Sink.start(lambda path, headers: seen.setdefault(int(headers["ce-id"]), []).append(path), delay_s)
        sidecar = fanout(channel(*(f"{sink.url}/{n}" for n in range(SUBSCRIBERS)), ack=ack), arguments=arguments)
        load = Load(sidecar.fanout, "/default/c1", CONNECTIONS)
        has_ended = False
        running = asyncio.ensure_future(load.run(lambda: has_ended))
        while len(load.answers) < after or load.running < CONNECTIONS:
            await asyncio.sleep(0.01)
        sidecar.signal(signal.SIGTERM)
        status = await asyncio.to_thread(sidecar.wait)
        has_ended = True
        await running
        sink.close()
        assert status == 0, sidecar.log()
        return load

    return asyncio.run(run()), seen


@pytest.mark.parametrize("ack", ["all", "async-memory"])
def test_every_event_that_was_accepted_has_reached_every_subscriber(fanout, ack):
    load, seen = drain(fanout, ack, delay_s=0.02)
    accepted = [number for number, status in load.answers.items() if status == 202]
    assert len(accepted) >= 500
    for number in accepted:
        assert sorted(seen[number]) == [f"/{n}" for n in range(SUBSCRIBERS)], f"event {number}"
    assert set(load.answers.values()) <= {202, 503}
    for number, status in load.answers.items():
        assert status == 202 or int(load.headers[number]["retry-after"]) > 0, "what is refused may come again"


@pytest.mark.parametrize("limit, signals", [("500ms", 1), ("1h", 2)])
def test_what_cannot_be_finished_is_answered_with_503_at_the_limit_or_the_second_signal(fanout, limit, signals):
    """The subscribers never answer in time."""
    seen = {}

    async def run():
        sink = await Sink.start(lambda path, headers: seen.setdefault(int(headers["ce-id"]), []).append(path), delay_s=3600)
        sidecar = fanout(channel(f"{sink.url}/0"), arguments=["--set", f"drain_timeout={limit}"])
        load = Load(sidecar.fanout, "/default/c1", 4)
        has_ended = False
        running = asyncio.ensure_future(load.run(lambda: has_ended))
        await asyncio.to_thread(until, lambda: len(seen) == 4, "the events at the subscriber")
        for n in range(signals):
            await asyncio.to_thread(until, lambda: sidecar.log().count("event=drain") >= n, "the first signal to be taken")
            sidecar.signal(signal.SIGTERM)
        status = await asyncio.to_thread(sidecar.wait)
        has_ended = True
        await running
        sink.close()
        assert status == 0, sidecar.log()
        return load

    load = asyncio.run(run())
    assert load.statuses() == {503: 4} and not load.lost
    assert all(int(headers["retry-after"]) > 0 for headers in load.headers.values())


def test_readiness_ends_before_connections_do(fanout, subscriber):
    sidecar = fanout(channel(subscriber().url), arguments=["--set", "fanout.grace=2s"])
    assert sidecar.get("/readyz")[0] == 200
    sidecar.signal(signal.SIGTERM)
    until(lambda: sidecar.get("/readyz")[0] == 503, "readiness to end")
    assert sidecar.send().status == 202, "within the grace new events are taken"
    assert sidecar.wait() == 0
