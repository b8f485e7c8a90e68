"""Configurations of the fan-out that are exchanged under load."""
import asyncio
import http.client
import json

import pytest

from lib.event_load import Load, Sink
from lib.sidecar import channel, event, holds, write
from lib.wait import HANG_S, Deadline

SWAPS, REQUESTS, CONNECTIONS, SUBSCRIBERS = 100, 10_000, 16, 3
PUT = ["--set", "fanout.sources=[put]"]
BROKEN = ["channels: [}", "channels:\n- {namespace: default, nume: c1}\n", "[]", "channels:\n- {namespace: default, name: c1}\n" * 2,
          "generation: x\n"]


def configuration(generation, url):
    """Every generation has paths of its own at the subscriber."""
    return {"generation": generation,
            "channels": [channel(*(f"{url}/{generation}/{n}" for n in range(SUBSCRIBERS)), delivery={"retry": 0})]}


def put(sidecar, body):
    host, _, port = sidecar.admin.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HANG_S)
    try:
        connection.request("PUT", "/config", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def swap_by_file(sidecar, generation, url):
    write(sidecar.folder, configuration(generation, url))
    holds(sidecar, lambda c: c["generation"] == generation)


def swap_by_put(sidecar, generation, url):
    status, text = put(sidecar, json.dumps(configuration(generation, url)))
    assert status in (200, 201, 204), text


@pytest.mark.parametrize("how", ["file", "put"])
def test_swaps_under_load_fail_no_request_and_no_event_sees_two_configurations(fanout, tmp_path, how):
    seen = {}

    async def run():
        sink = await Sink.start(lambda path, headers: seen.setdefault(headers["ce-id"], []).append(path))
        if how == "file":
            sidecar = fanout(config=configuration(1, sink.url))
        else:
            sidecar = fanout(config={"channels": []}, arguments=[*PUT, "--data", tmp_path / "data"])
            swap_by_put(sidecar, 1, sink.url)
        swap = swap_by_file if how == "file" else swap_by_put
        swapped = 0
        load = Load(sidecar.fanout, "/default/c1", CONNECTIONS)
        running = asyncio.ensure_future(load.run(lambda: swapped == SWAPS and load.sent >= REQUESTS))
        while swapped < SWAPS:
            await asyncio.to_thread(swap, sidecar, swapped + 2, sink.url)
            swapped += 1
        await running
        sink.close()
        return load

    load = asyncio.run(run())
    assert load.statuses() == {202: load.sent} and not load.lost
    assert len(seen) == load.sent >= REQUESTS
    generations = set()
    for number, paths in seen.items():
        assert len(paths) == len(set(paths)) == SUBSCRIBERS, f"event {number}: {paths}"
        assert len({path.split("/")[1] for path in paths}) == 1, f"event {number} saw two configurations: {paths}"
        generations.add(paths[0].split("/")[1])
    assert len(generations) > SWAPS / 4, "there was load all the time"


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_changes_nothing_and_is_told(fan, subscriber, text):
    s = subscriber()
    sidecar = fan(s.url)
    before = sidecar.config()["generation"]
    write(sidecar.folder, text)
    config = holds(sidecar, lambda c: c["last_reload"]["status"] == "failed")
    assert config["generation"] == before and config["subscriptions"] == 1
    assert config["last_reload"]["errors"][0]["file"].endswith("channels.yaml")
    assert sidecar.metrics().sum("millrace_fanout_config_reload_total", result="failed") >= 1
    assert "channels.yaml" in sidecar.log()
    assert sidecar.send().status == 202
    write(sidecar.folder, {"channels": [channel(s.url, s.url, name="c2")]})
    holds(sidecar, lambda c: c["subscriptions"] == 2)
    assert sidecar.send().status == 404
    assert sidecar.send(to="/default/c2").status == 202


def test_a_folder_mounted_from_a_config_map_is_followed(fanout, subscriber, tmp_path):
    """Kubernetes exchanges the symbolic link `..data`, through which the files are seen."""
    old, new = subscriber(), subscriber()
    folder = tmp_path / "mounted"
    for name, s in (("..first", old), ("..second", new)):
        (folder / name).mkdir(parents=True)
        (folder / name / "multiChannelFanoutConfig").write_text(json.dumps(
            {"channelConfigs": [{"namespace": "default", "name": "c1", "fanoutConfig": {"subscriptions": [{"callableDomain": s.host}]}}]}))
    (folder / "..data").symlink_to("..first")
    (folder / "multiChannelFanoutConfig").symlink_to("..data/multiChannelFanoutConfig")
    sidecar = fanout(config={"channels": []}, arguments=["--config-dir", folder])
    generation = sidecar.config()["generation"]
    assert sidecar.send().status == 202
    (folder / "..new").symlink_to("..second")
    (folder / "..new").rename(folder / "..data")
    holds(sidecar, lambda c: c["generation"] > generation)
    assert sidecar.send().status == 202
    assert (len(old.requests), len(new.requests)) == (1, 1)


def test_a_missing_file_changes_nothing(fan, subscriber):
    s = subscriber()
    sidecar = fan(s.url)
    (sidecar.folder / "channels.yaml").unlink()
    holds(sidecar, lambda c: c["last_reload"]["status"] == "failed")
    assert sidecar.send().status == 202


def test_what_was_put_is_kept_over_a_restart(fanout, subscriber, tmp_path):
    s = subscriber()
    arguments = [*PUT, "--data", tmp_path / "data"]
    sidecar = fanout(config={"channels": []}, arguments=arguments)
    status, text = put(sidecar, json.dumps({"generation": 7, "channels": [channel(s.url)]}))
    assert status == 200, text
    assert sidecar.send().status == 202
    status, text = put(sidecar, json.dumps({"generation": 7, "channels": []}))
    assert status == 409, text
    sidecar.kill()
    again = fanout(config={"channels": []}, arguments=arguments)
    assert again.config()["generation"] == 7
    assert again.send().status == 202
    assert len(s.requests) == 2


def test_while_there_is_a_file_nothing_can_be_put(fanout, subscriber, tmp_path):
    both = ["--set", "fanout.sources=[file, put]", "--data", tmp_path / "data"]
    sidecar = fanout(channel(subscriber().url), arguments=both)
    status, text = put(sidecar, json.dumps({"generation": 7, "channels": []}))
    assert status == 409, text
    assert sidecar.send().status == 202


def test_a_request_under_way_keeps_its_configuration(fan, subscriber):
    import threading

    from lib.subscriber import Answer, Gate
    gate = Gate()
    old, new = subscriber(gate.hold(Answer(503))), subscriber()
    sidecar = fan({"subscriber": old.url, "dead_letter": old.url + "dls", "delivery": {"retry": 1, "backoff_delay": "1ms"}})
    statuses = []
    sender = threading.Thread(target=lambda: statuses.append(sidecar.send(event()).status))
    sender.start()
    old.wait(1)
    write(sidecar.folder, {"channels": [channel(new.url)]})
    holds(sidecar, lambda c: c["generation"] > 1)
    old.answer = lambda request, number: Answer(200 if request.path == "/dls" else 503)
    gate.open()
    sender.join(Deadline("the sender").left())
    assert statuses == [202]
    assert [request.path for request in old.requests] == ["/", "/", "/dls"], "with the retries and the target that it began with"
    assert new.requests == []
