"""Tables on a real Kafka: several instances, one truth. What was accepted stays, what was refused has no effect, and every view,
also one built from nothing, ends the same."""
import itertools

import pytest

from lib.kafka import Kafka
from lib.table_peer import Peer, build
from lib.wait import until

KEYS = [f"{letter}/{number}" for letter in "abcdef" for number in range(5)]


@pytest.fixture(scope="session", autouse=True)
def program():
    build()


@pytest.fixture
def peers(tmp_path, tenant):
    """peers(cluster, name): an instance; the same name again is the same one, restarted with what it has on its disk."""
    started = []

    def start(cluster, name, wait=True, **options):
        peer = Peer(cluster.bootstrap, f"{tenant}.", str(tmp_path / name), **options)
        started.append(peer)
        return peer.opened() if wait else peer

    start.prefix = f"{tenant}."
    yield start
    try:
        for peer in started:
            peer.close()
    finally:
        for peer in started:
            peer.process.kill()


def owned_by(*peers):
    """Waits until every partition has its owner among these."""
    until(lambda: sorted(itertools.chain(*(peer.owns() for peer in peers))) == [0, 1, 2], "owners of all partitions")


def agree(*peers):
    """Waits until all have everything, and returns it."""
    for peer in peers:
        for letter in "abcdefn":
            assert peer.catch_up(f"{letter}/0") == "E_OK"
    dumps = [peer.dump() for peer in peers]
    assert all(dump == dumps[0] for dump in dumps[1:])
    return dumps[0]


def test_of_two_who_want_the_same_exactly_one_gets_it(kafka, peers):
    first, second = peers(kafka, "first"), peers(kafka, "second")
    owned_by(first, second)
    asked = [(key, peer, peer.ask(f"create {key} {name}"))
             for key in KEYS for name, peer in (("first", first), ("second", second))]
    winners = {}
    for key, peer, number in asked:
        result = peer.answer(number)[0]
        assert result in ("E_OK", "E_DENIED")
        if result == "E_OK":
            assert key not in winners, f"{key} was given twice"
            winners[key] = "first" if peer is first else "second"
    assert set(winners) == set(KEYS)
    assert agree(first, second, peers(kafka, "from-nothing")) == winners


def test_what_one_has_been_promised_the_other_has_when_it_has_caught_up(kafka, peers):
    first, second = peers(kafka, "first"), peers(kafka, "second")
    for number, key in enumerate(KEYS):
        assert first.do(f"put {key} {number}") == "E_OK"
        assert first.get(key) == str(number)
        assert second.catch_up(key) == "E_OK"
        assert second.get(key) == str(number)


def test_an_owner_that_slept_through_its_end_decides_nothing_any_more(kafka, peers):
    first = peers(kafka, "first")
    owned_by(first)
    for key in KEYS:
        assert first.do(f"put {key} before") == "E_OK"
    second = peers(kafka, "second")
    owned_by(first, second)
    # In the middle of deciding: some of these have been taken when it stops.
    asked = [first.ask("add n/n") for _ in range(300)]
    asked_of_second = [second.ask("add n/n") for _ in range(300)]
    first.answer(asked[0])
    first.pause()
    until(lambda: second.owns() == {0, 1, 2}, "the second to take over")
    for key in KEYS:
        assert second.do(f"put {key} meanwhile") == "E_OK"
    first.resume()
    results = [first.answer(number)[0] for number in asked] + [second.answer(number)[0] for number in asked_of_second]
    assert set(results) <= {"E_OK", "E_TIMEOUT"}
    owned_by(first, second)
    for key in KEYS:
        assert first.do(f"create {key} after") == "E_DENIED"
    state = agree(first, second, peers(kafka, "from-nothing"))
    assert results.count("E_OK") <= int(state["n/n"]) <= len(results)
    assert {key: state[key] for key in KEYS} == dict.fromkeys(KEYS, "meanwhile")


def test_nothing_promised_is_lost_when_instances_are_killed_at_any_point(kafka, peers):
    survivor = peers(kafka, "survivor")
    accepted, refused, created = [], [], itertools.count()
    for round_number in range(6):
        victim = peers(kafka, "victim")
        asked = {}
        for _ in range(200):
            key = f"{'abcdef'[next(created) % 6]}/{next(created)}"
            asked[victim.ask(f"create {key} {round_number}")] = key
        asked_twice = {survivor.ask(f"create {key} again"): key for key in list(asked.values())[::20]}
        numbers = list(asked)
        victim.answer(numbers[round_number * 30])
        victim.kill()
        for number, key in asked.items():
            if victim.answers.get(number, ("",))[0] == "E_OK":
                accepted.append((key, str(round_number)))
        for number, key in asked_twice.items():
            result = survivor.answer(number)[0]
            assert result in ("E_OK", "E_DENIED", "E_TIMEOUT")
            if result != "E_TIMEOUT":  # then nobody knows
                (accepted if result == "E_OK" else refused).append((key, "again"))
    assert len(accepted) > 100
    state = agree(survivor, peers(kafka, "victim"), peers(kafka, "from-nothing"))
    for key, value in accepted:
        assert state[key] == value
    for key, value in refused:
        assert state.get(key) != value


def test_nothing_promised_is_lost_when_kafka_is_killed(own_kafka, peers):
    peer = peers(own_kafka, "only")
    owned_by(peer)
    asked = [peer.ask("add n/n") for _ in range(2000)]
    peer.answer(asked[0])
    own_kafka.kill()
    own_kafka.heal()
    results = [peer.answer(number)[0] for number in asked]
    assert set(results) <= {"E_OK", "E_TIMEOUT", "E_BUSY"}
    until(lambda: peer.do("put a/1 x") == "E_OK", "a table that works again")
    state = agree(peer, peers(own_kafka, "from-nothing"))
    assert results.count("E_OK") <= int(state["n/n"]) <= len(results)


@pytest.fixture(scope="session")
def tidy_kafka(tmp_path_factory):
    """A Kafka that compacts whenever it can."""
    cluster = Kafka(tmp_path_factory.mktemp("tidy-kafka"), "--set", "log.cleaner.backoff.ms=100",
                    "--set", "log.retention.check.interval.ms=100")
    yield cluster
    cluster.stop()


def test_compaction_between_writes_changes_nothing(tidy_kafka, peers):
    peer = peers(tidy_kafka, "only")
    topic = f"{peers.prefix}millrace.things.states"
    tidy_kafka.set_config(topic, **{"min.cleanable.dirty.ratio": "0.001", "segment.ms": "100", "delete.retention.ms": "0"})
    owned_by(peer)
    written = 0
    for round_number in range(3):
        for key in KEYS:
            assert peer.do(f"put {key} {round_number}") == "E_OK"
            assert peer.do(f"create {key} refused") == "E_DENIED"
            written += 1
        assert peer.do(f"remove {KEYS[0]}") == "E_OK"
        assert peer.do(f"create {KEYS[0]} {round_number}") == "E_OK"
        written += 2
        until(lambda: peer.do("put n/fill x") == "E_OK" and len(tidy_kafka.records(topic)) < 2 * len(KEYS) + 20,
              "compaction")
    assert peer.do(f"remove {KEYS[1]}") == "E_OK"
    state = agree(peer, peers(tidy_kafka, "from-nothing"))
    assert state == {key: "2" for key in KEYS if key != KEYS[1]} | {"n/fill": "x"}


def remake(cluster, prefix):
    for suffix in ("requests", "states", "replies"):
        cluster.delete(f"{prefix}millrace.things.{suffix}")


def test_a_view_follows_topics_that_were_made_anew(kafka, peers):
    peer = peers(kafka, "first")
    for key in KEYS:
        assert peer.do(f"put {key} old") == "E_OK"
    peer.close()
    remake(kafka, peers.prefix)
    other = peers(kafka, "second")
    assert other.do(f"put {KEYS[0]} new") == "E_OK"
    peer = peers(kafka, "first")
    assert peer.rebuilt() > 0
    assert agree(peer, other) == {KEYS[0]: "new"}
    assert peer.do(f"create {KEYS[1]} new") == "E_OK"


def test_a_running_table_follows_topics_that_are_made_anew(kafka, peers):
    peer = peers(kafka, "first")
    owned_by(peer)
    for key in KEYS:
        assert peer.do(f"put {key} old") == "E_OK"
    remake(kafka, peers.prefix)
    # Whoever starts makes them.
    other = peers(kafka, "second")
    until(lambda: other.do(f"create {KEYS[0]} new") in ("E_OK", "E_DENIED"), "a decision")
    until(lambda: peer.dump() == {KEYS[0]: "new"}, "the running view to follow")
    assert agree(peer, other, peers(kafka, "from-nothing")) == {KEYS[0]: "new"}
    until(lambda: peer.do(f"put {KEYS[1]} new") == "E_OK", "changes to work again")
    assert agree(peer, other)[KEYS[1]] == "new"


def test_records_cut_off_the_log_are_cut_off_every_view(kafka, peers):
    peer = peers(kafka, "first")
    for key in KEYS:
        assert peer.do(f"put {key} old") == "E_OK"
    peer.close()
    topic = f"{peers.prefix}millrace.things.states"
    kafka.set_config(topic, **{"cleanup.policy": "compact,delete"})
    kafka.cut_off(topic)
    kafka.set_config(topic, **{"cleanup.policy": "compact"})
    peer = peers(kafka, "first")
    owned_by(peer)
    assert peer.do(f"create {KEYS[1]} new") == "E_OK"
    assert agree(peer, peers(kafka, "from-nothing")) == {KEYS[1]: "new"}


def test_a_view_that_was_away_for_too_long_is_built_again(kafka, peers):
    peer = peers(kafka, "first")
    for key in KEYS:
        assert peer.do(f"put {key} x") == "E_OK"
    peer.close()
    peer = peers(kafka, "first")
    assert peer.rebuilt() == 0
    peer.close()
    kafka.set_config(f"{peers.prefix}millrace.things.states", **{"delete.retention.ms": "1"})
    peer = peers(kafka, "first")
    assert peer.rebuilt() == 3
    assert agree(peer) == dict.fromkeys(KEYS, "x")


@pytest.mark.parametrize("suffix, partitions, config, reason", [
    ("states", 3, {"cleanup.policy": "delete"}, "has cleanup.policy=delete, but must have compact"),
    ("requests", 3, {"cleanup.policy": "compact"}, "has cleanup.policy=compact, but must have delete"),
    ("replies", 3, {"max.message.bytes": "1000"}, "has max.message.bytes=1000, but must have 1048576 or more"),
    ("states", 4, {"cleanup.policy": "compact"}, "has 4 partitions, not 3"),
])
def test_topics_that_would_lose_something_are_refused(kafka, peers, suffix, partitions, config, reason):
    topic = f"{peers.prefix}millrace.things.{suffix}"
    kafka.create(topic, partitions=partitions, **config)
    peer = peers(kafka, "refused", wait=False)
    said = peer.line("failed")
    assert said.startswith(f"E_INVAL topic {topic} {reason}")
    assert peer.process.wait() == 1
