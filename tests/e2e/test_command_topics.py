"""The topics between instances (docs/wire/commands.md): there as long as their instance is, whatever befalls either, and gone with it."""
import signal

import pytest

from lib.records import put
from lib.wait import until

PREFIX = "hono.command_internal."


@pytest.fixture
def instances(kafka, tenant, serve, make_config):
    """instances(name): one that passes commands on by topics; all of them in a corner of their own."""
    def start(name, wait=True):
        config = make_config(kafka.bootstrap, instance=name, command={"routing": "router", "lease": "2s", "shared": True},
                             kafka={"topic_prefix": f"{tenant}.", "group": tenant})
        return serve(config, wait=wait)
    return start


@pytest.fixture
def topic_of(tenant):
    return lambda name: f"{tenant}.{PREFIX}{name}"


def read_by(server):
    return server.metrics().sum("millrace_command_topics_received_total")


def read_one(kafka, server, topic):
    """A record of nobody's: it is read, and that is all."""
    before = read_by(server)
    put(kafka.bootstrap, topic, b"of nobody")
    until(lambda: read_by(server) == before + 1, "the record to be read")


def test_a_topic_comes_and_goes_with_its_instance(kafka, instances, topic_of):
    first, second = instances("first"), instances("second")
    assert {topic_of("first"), topic_of("second")} <= kafka.topics()
    read_one(kafka, second, topic_of("second"))
    second.stop()
    assert topic_of("second") not in kafka.topics()
    second = instances("second")
    assert topic_of("second") in kafka.topics()
    read_one(kafka, second, topic_of("second"))
    read_one(kafka, first, topic_of("first"))


def test_the_topic_of_a_dead_instance_is_removed(kafka, instances, topic_of):
    first = instances("first")
    instances("second").kill()
    until(lambda: topic_of("second") not in kafka.topics(), "the topic of the dead to go")
    assert topic_of("first") in kafka.topics()
    read_one(kafka, first, topic_of("first"))


def test_one_that_slept_finds_its_topic_removed_and_has_it_again(kafka, instances, topic_of):
    instances("first")
    second = instances("second")
    read_one(kafka, second, topic_of("second"))
    second.signal(signal.SIGSTOP)
    until(lambda: topic_of("second") not in kafka.topics(), "the topic of the sleeper to go")
    second.signal(signal.SIGCONT)
    until(lambda: topic_of("second") in kafka.topics(), "the topic to be there again")
    read_one(kafka, second, topic_of("second"))


def test_a_topic_that_somebody_removes_is_made_again_and_read_from_its_beginning(kafka, instances, topic_of):
    first = instances("first")
    for _ in range(3):
        read_one(kafka, first, topic_of("first"))
    kafka.delete(topic_of("first"))
    until(lambda: topic_of("first") in kafka.topics(), "the topic to be there again")
    for _ in range(5):
        read_one(kafka, first, topic_of("first"))


def test_what_is_no_request_is_dropped_and_counted(kafka, instances, topic_of):
    first = instances("first")
    put(kafka.bootstrap, topic_of("first"), (b"d1", b"x", [("tenant_id", b"t"), ("orig-offset", b"-1")]))
    until(lambda: first.metrics().sum("millrace_command_topics_malformed_total") == 1, "the record to be dropped")
