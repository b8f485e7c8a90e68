"""Several instances with one registry, kept in Kafka (registry.shared)."""
import json
import subprocess

import pytest
import requests

from lib.server import MILLRACE, write_config
from lib.wait import HANG_S, until

PASSWORD = "geheim"


@pytest.fixture
def instance(serve, make_config, tmp_path, kafka, tenant):
    """instance(name): a server that shares its registry with the others."""
    def start(name, cluster=kafka, **options):
        config = make_config(cluster.bootstrap, kafka={"topic_prefix": f"{tenant}."})
        config |= {"instance": name, "data_dir": str(tmp_path / name), "registry": {"shared": True, "bcrypt_cost": 4},
                   "listeners": [{"mqtt": "127.0.0.1:0"}, {"http": "127.0.0.1:0"}]}
        return serve(config, **options)
    return start


def ask(server, method, path, body=None, **headers):
    return requests.request(method, f"http://{server.admin}/v1{path}", json=body, timeout=HANG_S, headers=headers)


def send(server, user, password=PASSWORD):
    host, port = server.http
    return requests.post(f"http://{host}:{port}/telemetry", auth=(user, password), data="x", timeout=HANG_S,
                         headers={"QoS-Level": "1", "Content-Type": "text/plain"}).status_code


def make_device(server, tenant, device):
    assert ask(server, "POST", f"/devices/{tenant}/{device}", {}).status_code == 201
    assert ask(server, "PUT", f"/credentials/{tenant}/{device}", [
        {"type": "hashed-password", "auth-id": device, "secrets": [{"pwd-plain": PASSWORD}]}]).status_code == 204


def test_a_device_made_at_one_is_known_to_the_other_when_the_call_returns(instance):
    first, second = instance("one"), instance("two")
    assert ask(first, "POST", "/tenants/t1").status_code == 201
    for number in range(10):
        there, elsewhere = (first, second) if number % 2 else (second, first)
        make_device(there, "t1", f"d{number}")
        assert send(elsewhere, f"d{number}@t1") == 202
        assert send(elsewhere, f"d{number}@t1", "wrong") == 401
    assert ask(second, "DELETE", "/devices/t1/d1").status_code == 204
    until(lambda: send(first, "d1@t1") == 401, "the device to be gone everywhere")


def test_of_changes_at_several_instances_to_one_version_exactly_one_is_done(instance):
    servers = [instance("one"), instance("two")]
    assert ask(servers[0], "POST", "/tenants/t1").status_code == 201
    version = ask(servers[0], "POST", "/devices/t1/d1", {}).headers["ETag"]
    for round_number in range(5):
        calls = []
        for number in range(6):
            address = f"http://{servers[number % 2].admin}/v1/devices/t1/d1"
            calls.append(subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %header{etag}", "-X", "PUT", address,
                                           "-H", f"If-Match: {version}", "-H", "Content-Type: application/json",
                                           "-d", json.dumps({"ext": {"winner": number}})], stdout=subprocess.PIPE, text=True))
        answers = [call.communicate()[0].split(" ", 1) for call in calls]
        assert sorted(status for status, _ in answers) == ["204"] + ["412"] * 5
        winner = [status for status, _ in answers].index("204")
        for server in servers:
            until(lambda server=server: ask(server, "GET", "/devices/t1/d1").json()["ext"] == {"winner": winner}, "the winner")
        version = ask(servers[0], "GET", "/devices/t1/d1").headers["ETag"]


def test_an_import_at_one_is_known_to_an_import_at_the_other(instance):
    first, second = instance("one"), instance("two")

    def bring(server, tenant, lines, **counts):
        answer = requests.post(f"http://{server.admin}/v1/import/{tenant}", data=lines, timeout=HANG_S)
        assert answer.status_code == 200 and {name: answer.json()[name] for name in counts} == counts, answer.text

    for number in range(5):
        tenant, lines = f"t{number}", "".join(json.dumps({"id": f"d{i}", "device": {"ext": {"n": number}}}) + "\n" for i in range(300))
        assert ask(first, "POST", f"/tenants/{tenant}").status_code == 201
        bring(second, tenant, lines, created=300, failed=0)
        bring(first, tenant, lines, unchanged=300, failed=0)


def test_what_is_managed_outlives_every_instance(instance):
    server = instance("one")
    assert ask(server, "POST", "/tenants/t1").status_code == 201
    make_device(server, "t1", "d1")
    server.stop()
    other = instance("two")
    assert send(other, "d1@t1") == 202


def test_topics_that_would_lose_something_are_refused_at_the_start(instance, kafka, tenant):
    kafka.create(f"{tenant}.millrace.registry.states", partitions=1, **{"cleanup.policy": "delete"})
    server = instance("one", wait=False)
    assert server.wait() == 1
    server.is_killed = True  # there is nothing to stop any more
    assert "has cleanup.policy=delete, but must have compact" in server.log()


def test_it_needs_a_real_kafka(tmp_path):
    path = write_config({"kafka": {"embedded": True}, "listeners": [{"mqtt": "127.0.0.1:0"}], "registry": {"shared": True},
                         "data_dir": str(tmp_path / "data")}, tmp_path / "config.yaml")
    done = subprocess.run([MILLRACE, "check", "-c", path], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode != 0 and "registry.shared: needs a real Kafka" in done.stdout + done.stderr
