"""The table of routes between instances (docs/adr/0021): who lives, who is dead, and how long that takes to be known."""
import signal

import pytest

from lib.wait import until

LEASE_S = 2


@pytest.fixture
def instance(serve, make_config, tmp_path, kafka, tenant):
    """instance(name): one of several that share their routes, apart from those of other tests."""
    def start(name):
        config = make_config(kafka.bootstrap, kafka={"topic_prefix": f"{tenant}."})
        config |= {"instance": name, "data_dir": str(tmp_path / name)}
        config["command"] = {"lease": f"{LEASE_S}s"}
        return serve(config)
    return start


def lives(server, n):
    until(lambda: server.metrics().sum("millrace_routes_instances") == n, f"{n} instances to live")


def test_instances_know_each_other_and_one_that_ends_is_gone_at_once(instance):
    first, second = instance("one"), instance("two")
    lives(first, 2)
    lives(second, 2)
    assert second.stop() == 0
    lives(first, 1)
    assert first.metrics().sum("millrace_routes_fenced_total") == 0
    again = instance("two")
    lives(first, 2)
    lives(again, 2)
    assert first.metrics().sum("millrace_routes_leases_total") == 1


def test_one_that_is_killed_is_fenced_whichever_of_them_owned_the_table(instance):
    servers = [instance("one"), instance("two")]
    for name in ("three", "four"):
        lives(servers[1], 2)
        servers.pop(0).kill()
        servers.append(instance(name))
        for living in servers:
            lives(living, 2)
            assert living.metrics().sum("millrace_routes_leases_lost_total") == 0
    assert sum(server.metrics().sum("millrace_routes_fenced_total") for server in servers) >= 1


def test_one_that_was_stopped_for_longer_than_its_lease_gets_a_new_one(instance):
    first, second = instance("one"), instance("two")
    lives(first, 2)
    second.process.send_signal(signal.SIGSTOP)
    lives(first, 1)
    second.process.send_signal(signal.SIGCONT)
    lives(first, 2)
    lives(second, 2)
    until(lambda: second.metrics().sum("millrace_routes_leases_total") == 2, "the second lease")
    assert second.metrics().sum("millrace_routes_leases_lost_total") == 1
