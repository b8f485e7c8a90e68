"""Commands with several instances, by each of the four designs (docs/COMMANDS.md, docs/adr/0021): what one instance promises holds for
several, wherever a device is and whichever instance ends."""
import json
import threading

import pytest
import requests

from lib.application import FAILURE, Application, Stream
from lib.cluster import PASSWORD, ROUTINGS, Cluster
from lib.fleet import Fleet, again, check_order
from lib.mqtt import V311, Client
from lib.records import put
from lib.wait import HANG_S, until

INSTANCES = ("a", "b", "c")


@pytest.fixture(scope="module", params=ROUTINGS)
def shared(request, kafka, tmp_path_factory):
    """Three instances that the tests of a design share, each test with a tenant of its own."""
    cluster = Cluster(tmp_path_factory.mktemp(request.param), kafka, request.param, [f"t{i}" for i in range(32)])
    try:
        cluster.start(*INSTANCES)
        cluster.free_tenants = list(cluster.tenants)
        yield cluster
        cluster.end()
    finally:
        cluster.close()


@pytest.fixture
def tenant(shared):
    yield shared.free_tenants.pop()
    for server in shared.living():
        server.check_ledger()


@pytest.fixture
def app(shared, kafka, tenant):
    return Application(kafka, tenant, shared.prefix)


@pytest.fixture
def fleet(tenant):
    with Fleet(tenant) as devices:
        yield devices


@pytest.fixture
def at(shared):
    """The address of an instance for MQTT."""
    return lambda name: shared.servers[name].mqtt


# --- docs/wire/commands.md, by several instances ---

def test_a_subscription_is_told_of_once_wherever_it_is(fleet, app, at):
    told = []
    for name in (*INSTANCES, "a"):
        link = fleet.connect(at(name), "d1")
        told += [-1]
        assert app.ttds() == told
        link.leave() if name == "b" else link.drop()
        told += [0]
        until(lambda: len(app.ttds()) == len(told), "the event of the end")
        assert app.ttds() == told


@pytest.mark.parametrize("subscription, qos", [("command/+/+/req/#", 1), ("command///req", 1), ("command///req/#", 2)])
def test_other_forms_of_filters_are_refused(at, tenant, subscription, qos):
    with Client(at("b"), V311) as client:
        client.connect("c", user=f"d1@{tenant}", password=PASSWORD)
        assert client.subscribe([(subscription, qos)]) == [0x80]


def test_commands_reach_their_device_wherever_it_is(shared, fleet, app, at):
    for number, name in enumerate(INSTANCES):
        link = fleet.connect(at(name), "d1")
        app.send(subject="reboot", value=b"0")
        app.ask(f"r{number}", value=b"1")
        found = fleet.wait(2 * number + 2)[-2:]
        assert [(r.subject, r.value, r.link) for r in found] == [("reboot", "0", link.number), ("set", "1", link.number)]
        app.next_answers(number + 1)
        link.leave()
    shared.wait_done()
    answers = [(record.key, record.value, h["correlation-id"], h["status"], h["tenant_id"]) for record, h in app.answers()]
    assert sorted(answers) == [(b"d1", b"1", f"r{i}", "200", app.tenant) for i in range(3)]


@pytest.mark.parametrize("name", ["a", "c"])
@pytest.mark.parametrize("topic", ["command///res/203abc/302", "command///res/203abc/abc", "command///res/9zz/200"])
def test_a_response_that_is_none_is_an_error_of_the_device(at, app, tenant, name, topic):
    with Client(at(name), V311) as client:
        client.connect("c", user=f"d1@{tenant}", password=PASSWORD)
        client.subscribe([("error///#", 0)])
        client.publish(topic, "x", 1, 7)
        assert client.expect_publish().topic.startswith("error///command-response/7/400")
    assert app.answers() == []


def test_of_all_instances_one_tells_that_nobody_listens(shared, app):
    for number in range(20):
        app.ask(f"r{number}", device=f"d{number % 3 + 1}", **{"delivery-failure-notification-metadata-x": "1"})
        app.send(correlation_id=f"one-way-{number}")
    app.next_answers(20)
    shared.wait_done()
    answers = app.answers()
    assert sorted(h["correlation-id"] for _, h in answers) == sorted(f"r{i}" for i in range(20))
    for record, h in answers:
        assert (h["status"], h["content-type"], h["delivery-failure-notification-metadata-x"]) == ("503", FAILURE, "1")
        assert json.loads(record.value)["error"]


def test_of_all_instances_one_answers_a_command_that_is_none(shared, fleet, app, at):
    fleet.connect(at("b"), "d1")
    app.ask("1", device="nobody")
    app.ask("2", subject=None)
    app.ask("3", key="other")
    app.ask("4", subject="#")
    app.ask("5", subject=b"\xff\xfe")
    app.ask("6", subject="s" * 2000)
    app.ask("c" * 300)
    app.ask("8", ttl="1000", creation_time="1700000000000")
    app.ask("last", value=b"0")
    fleet.wait(1)
    shared.wait_done()
    app.next_answers(6)
    statuses = sorted((h["correlation-id"][:4], h["status"]) for _, h in app.answers())
    assert statuses == [("1", "404"), ("2", "400"), ("4", "400"), ("5", "400"), ("6", "400"), ("cccc", "400"), ("last", "200")]


def test_gateways_take_the_commands_of_their_devices(fleet, app, at):
    first = fleet.connect(at("c"), "g1", ["c//+/q/#"])
    app.ask(device="d2", value=b"0")
    assert fleet.wait(1)[0][:3] == ("d2", "set", "0")
    (record, headers), = app.next_answers(1)
    assert (record.key, headers["device_id"], headers["status"]) == (b"d2", "d2", "200")
    second = fleet.connect(at("a"), "g2", ["c//+/q/#"])
    for number, (gateway, link) in enumerate([("b", second), ("a", first), ("c", second)], 1):  # whichever instance hears it
        with Client(at(gateway), V311) as client:
            name = "g2" if link is second else "g1"
            client.connect("heard", user=f"{name}@{app.tenant}", password=PASSWORD)
            assert client.publish_and_wait("telemetry//d3", "here") == 0
        until(lambda: gateway_hears(fleet, app, link), "the gateway heard from last to be known")


def gateway_hears(fleet, app, link):
    """Sends d3 a command; whether it came by that gateway. What gateways were heard from is written with some delay."""
    n = len(fleet.received)
    app.send(device="d3", value=str(n))
    return fleet.wait(n + 1)[-1].link == link.number


def test_the_device_itself_goes_before_its_gateway(fleet, app, at):
    gateway = fleet.connect(at("a"), "g1", ["c//+/q/#"])
    own = fleet.connect(at("b"), "d2")
    app.send(device="d2", value=b"0")
    assert fleet.wait(1)[-1].link == own.number
    own.leave()
    until(lambda: app.ttds("d2") == [-1, 0], "the device to be gone")
    app.send(device="d2", value=b"1")
    assert fleet.wait(2)[-1].link == gateway.number


def test_a_gateway_for_itself_alone_takes_no_others(shared, fleet, app, at):
    fleet.connect(at("a"), "g1", ["c///q/#"])
    app.ask(device="d2")
    app.next_answers(1)
    shared.wait_done()
    assert [h["status"] for _, h in app.answers()] == ["503"]
    assert fleet.received == []


def http(server, method, path, user, **options):
    host, port = server.http
    return requests.request(method, f"http://{host}:{port}{path}", auth=(user, PASSWORD), timeout=HANG_S, **options)


def test_a_device_that_waits_over_http_gets_its_command_and_answers_anywhere(shared, app, tenant):
    found = []
    wait = threading.Thread(target=lambda: found.append(http(shared.servers["c"], "POST", "/event?hono-ttd=60", f"d1@{tenant}", data="x",
                                                             headers={"Content-Type": "text/plain"})))
    wait.start()
    record, = until(lambda: app.kafka.records(f"{shared.prefix}hono.event.{tenant}"), "the event")
    assert dict(record.headers)["ttd"] == b"60"
    app.ask("abc", subject="set", value=b"on")
    wait.join(HANG_S)
    assert (found[0].status_code, found[0].headers["hono-command"], found[0].content) == (200, "set", b"on")
    answer = http(shared.servers["a"], "POST", f"/command/res/{found[0].headers['hono-cmd-req-id']}?hono-cmd-status=200", f"d1@{tenant}",
                  data="ok", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 202
    (record, headers), = app.next_answers(1)
    assert (headers["status"], headers["correlation-id"], record.value) == ("200", "abc", b"ok")
    assert http(shared.servers["b"], "POST", "/event?hono-ttd=1", f"d1@{tenant}", data="x",
                headers={"Content-Type": "text/plain"}).status_code == 202
    app.ask("late")
    assert [h["status"] for _, h in app.next_answers(2)][1:] == ["503"]


def test_a_gateway_that_waits_over_http_gets_the_command_of_its_device(shared, app, tenant):
    found = []
    wait = threading.Thread(target=lambda: found.append(http(shared.servers["b"], "PUT", "/telemetry//d2?hono-ttd=60", f"g1@{tenant}",
                                                             data="x", headers={"Content-Type": "text/plain"})))
    wait.start()
    until(lambda: app.kafka.records(f"{shared.prefix}hono.telemetry.{tenant}"), "the message")
    app.ask(device="d2")
    wait.join(HANG_S)
    assert (found[0].status_code, found[0].headers["hono-cmd-target-device"]) == (200, "d2")


def test_a_thousand_commands_of_a_device_keep_their_order(shared, fleet, app, at, kafka, tenant):
    fleet.connect(at("b"), "d1")
    put(kafka.bootstrap, f"{shared.prefix}hono.command.{tenant}",
        *(("d1", str(i).encode(), [("device_id", b"d1"), ("subject", b"s")]) for i in range(1000)))
    fleet.wait(1000)
    shared.wait_done()
    assert [int(r.value) for r in fleet.received] == list(range(1000))


# --- devices move while commands come; nothing crashes ---

def test_a_device_that_moves_gets_each_command_once_and_in_order(shared, fleet, app, at, kafka, tenant):
    """It subscribes where it goes before it leaves where it was, so that there is always somebody to take its commands."""
    links = {}
    moves = iter(range(10 ** 9))

    def move():
        n = next(moves)
        device = ("d1", "d2", "d3", "g1")[n % 4]
        old = links.get(device)
        links[device] = fleet.connect(at(INSTANCES[n // 4 % 3]), device)
        if old:
            old.leave()

    for _ in range(4):
        move()
    with Stream(kafka, tenant, shared.prefix) as stream:
        n = stream.run(["d1", "d2", "d3", "g1"], 6, 100, lambda n: n % 3 > 0, on_turn=move)
        fleet.wait(n)
        stream.wait_answers()
        shared.wait_done()
        assert check_order(fleet.received) == 0, f"something came twice: {again(fleet.received)}"
        assert len(fleet.received) == n
        assert stream.notices() == {}
        assert all(len(found) == 1 for found in stream.answers.values())
    until(lambda: all(app.ttds(d) == [-1] * len(app.ttds(d)) for d in links), "no end of a subscription to be told")


def test_a_device_that_dies_and_comes_back_elsewhere_loses_no_command_without_notice(shared, fleet, at, kafka, tenant):
    """What was on its way when it died may come again, with the same message id."""
    link = fleet.connect(at("a"), "d1")
    names = iter(INSTANCES * 10 ** 6)

    def die():
        nonlocal link
        link.drop()
        link = fleet.connect(at(next(names)), "d1")

    with Stream(kafka, tenant, shared.prefix) as stream:
        stream.run(["d1"], 5, 60, on_turn=die)
        stream.wait_answers()
        shared.wait_done()
        check_order(fleet.received)
        notices = stream.notices()
        assert all(status == "503" for found in notices.values() for status, is_notice in found if is_notice)
        delivered = {f"d1-{r.value}" for r in fleet.received}
        assert stream.answers.keys() == delivered | notices.keys()


def test_the_late_end_of_an_older_connection_takes_nothing_from_a_newer_one(fleet, app, at):
    """A half-open connection that is noticed when its device is long back, elsewhere."""
    old = fleet.connect(at("a"), "d1")
    new = fleet.connect(at("b"), "d1")
    assert app.ttds() == [-1, -1]
    old.drop()
    third = fleet.connect(at("b"), "g1")  # whatever instance b does for the end of `old` is behind it
    app.send(value=b"0")
    assert fleet.wait(1)[0].link == new.number
    third.drop()
    until(lambda: app.ttds("g1") == [-1, 0], "the end of the other subscription")
    assert app.ttds() == [-1, -1]


# --- instances of their own, that come, go, hang and die ---

@pytest.fixture(params=ROUTINGS)
def routing(request):
    return request.param


@pytest.fixture
def make(routing, kafka, tmp_path):
    """make(names, **command): a cluster with the tenant `t`; started."""
    clusters = []

    def start(*names, devices=None, **command):
        cluster = Cluster(tmp_path, kafka, routing, ["t"], devices, **command)
        clusters.append(cluster)
        cluster.start(*names)
        return cluster

    yield start
    try:
        for cluster in clusters:
            cluster.end()
    finally:
        for cluster in clusters:
            cluster.close()


@pytest.fixture
def crew():
    with Fleet("t") as devices:
        yield devices


def names_of(n):
    return {f"dev-{i:03}": [] for i in range(n)}


def test_a_device_that_does_not_acknowledge_is_told_of_once(make, crew, kafka):
    cluster = make("a", "b", ack_timeout="1s")
    app = Application(kafka, "t", cluster.prefix)
    link = crew.connect(cluster.servers["b"].mqtt, "d1")
    link.acknowledges = False
    app.ask()
    crew.wait(1)
    (_, headers), = app.next_answers(1)
    assert (headers["status"], headers["content-type"]) == ("503", FAILURE)
    cluster.wait_done()
    assert len(app.answers()) == 1 and len(crew.received) == 1
    link.drop()
    crew.connect(cluster.servers["a"].mqtt, "d1", qos=0, answer=None)
    app.ask("second")
    crew.wait(2)
    cluster.wait_done()
    assert len(app.answers()) == 1


def test_instances_that_come_and_go_in_good_order_lose_and_double_nothing(make, crew, kafka):
    """Partitions change hands meanwhile; all devices are at the instance that stays."""
    cluster = make("a")
    for device in ("d1", "d2", "d3"):
        crew.connect(cluster.servers["a"].mqtt, device)
    with Stream(kafka, "t", cluster.prefix) as stream:
        for step in (lambda: cluster.start("b"), lambda: cluster.start("c"), lambda: cluster.stop("b"), lambda: cluster.stop("c")):
            worker = threading.Thread(target=step)
            worker.start()
            stream.run(["d1", "d2", "d3"], 3, 100, lambda n: n % 2 > 0)
            worker.join(HANG_S)
            assert not worker.is_alive()
        n = sum(stream.sent.values())
        crew.wait(n)
        stream.wait_answers()
        cluster.wait_done()
        assert check_order(crew.received) == 0 and len(crew.received) == n
        assert stream.notices() == {}


def test_an_instance_that_is_stopped_hands_its_devices_over(make, crew, kafka):
    """They are told to go, and come to another one; what they miss meanwhile is told of, and nothing else."""
    cluster = make("a", "b")
    app = Application(kafka, "t", cluster.prefix)
    crew.connect(cluster.servers["b"].mqtt, "d1")
    link = crew.connect(cluster.servers["a"].mqtt, "d2")
    with Stream(kafka, "t", cluster.prefix) as stream:
        stream.run(["d1", "d2"], 1, 100)
        worker = threading.Thread(target=cluster.stop, args=("a",))
        worker.start()
        stream.run(["d1", "d2"], 1, 100, on_turn=lambda: None)
        until(lambda: link.is_over, "the device to be told to go")
        crew.connect(cluster.servers["b"].mqtt, "d2")
        stream.run(["d1", "d2"], 1, 100)
        worker.join(HANG_S)
        stream.wait_answers()
        cluster.wait_done()
        check_order(crew.received)
        assert not [name for name in stream.notices() if name.startswith("d1")]
        assert {name for name, found in stream.answers.items()} == {f"{r.device}-{r.value}" for r in crew.received} | stream.notices().keys()
    assert app.ttds("d2") == [-1, 0, -1] and app.ttds("d1") == [-1]


def test_what_a_killed_instance_had_is_delivered_or_told_of(make, crew, kafka):
    cluster = make("a", "b", "c")
    app = Application(kafka, "t", cluster.prefix)
    crew.connect(cluster.servers["a"].mqtt, "d1")
    crew.connect(cluster.servers["b"].mqtt, "d2")
    crew.connect(cluster.servers["b"].mqtt, "d3")
    with Stream(kafka, "t", cluster.prefix) as stream:
        stream.run(["d1", "d2", "d3"], 2, 150)
        cluster.kill("b")
        crew.connect(cluster.servers["c"].mqtt, "d2")  # d3 does not come back
        stream.run(["d1", "d2", "d3"], 4, 150)
        stream.wait_answers()
        cluster.wait_done()
        check_order(crew.received)
        statuses = {status for found in stream.notices().values() for status, _ in found}
        assert statuses <= {"503", "200"}
        delivered = {f"{r.device}-{r.value}" for r in crew.received}
        assert not [n for n, found in stream.answers.items() if n not in delivered and not any(is_notice for _, is_notice in found)]
        assert not [n for n in stream.notices() if n.startswith("d1")], "nothing of another instance's devices is disturbed"
        last = stream.send("d3")
        until(lambda: last in stream.answers, "an answer for a device that is gone")
        assert stream.answers[last] == [("503", True)]
    until(lambda: app.ttds("d3") == [-1, 0], "the end of a dead instance's subscription to be told")
    assert app.ttds("d1") == [-1]
    assert [ttd for ttd in app.ttds("d2") if ttd == -1] == [-1, -1] and app.ttds("d2")[-1] == -1


def test_an_instance_that_hangs_longer_than_its_lease_does_no_harm_when_it_goes_on(make, crew, kafka):
    cluster = make("a", "b")
    app = Application(kafka, "t", cluster.prefix)
    crew.connect(cluster.servers["a"].mqtt, "d1")
    old = crew.connect(cluster.servers["b"].mqtt, "d2")
    other = crew.connect(cluster.servers["b"].mqtt, "d3")
    with Stream(kafka, "t", cluster.prefix) as stream:
        stream.run(["d1", "d2", "d3"], 1, 100)
        cluster.pause("b")
        crew.connect(cluster.servers["a"].mqtt, "d2")
        stream.run(["d1", "d2"], 8, 100)
        until(lambda: 0 in app.ttds("d3"), "the others to notice")
        cluster.resume("b")
        stream.run(["d1", "d2"], 2, 100)
        stream.wait_answers()
        cluster.wait_done()
        check_order(crew.received)
        until(lambda: app.ttds("d3")[-1] == -1, "the subscription that still lives to be registered anew")
        last = stream.send("d3")
        until(lambda: last in stream.answers, "its answer")
        assert stream.answers[last] == [("200", False)]
        assert crew.of("d3")[-1].link == other.number
        old.drop()
        newest = stream.send("d2")
        until(lambda: newest in stream.answers, "its answer")
        assert stream.answers[newest] == [("200", False)], "a late end takes nothing away"
        assert not [n for n in stream.notices() if n.startswith("d1")]
    assert app.ttds("d1") == [-1]


def test_an_instance_that_hangs_shorter_than_its_lease_is_waited_for(make, crew, kafka):
    cluster = make("a", "b", lease="1m")
    app = Application(kafka, "t", cluster.prefix)
    link = crew.connect(cluster.servers["b"].mqtt, "d1")
    topics = cluster.internal_topics()
    cluster.pause("b")
    with Stream(kafka, "t", cluster.prefix) as stream:
        stream.run(["d1"], 3, 20)
        cluster.resume("b")
        stream.wait_answers()
        cluster.wait_done()
        assert check_order(crew.received) == 0
        assert stream.notices() == {} and {r.link for r in crew.received} == {link.number}
    assert app.ttds() == [-1] and cluster.internal_topics() == topics


@pytest.mark.parametrize("routing", ["router", "shared"])
def test_the_topic_of_an_instance_is_there_while_it_lives_and_no_longer(make, crew, kafka):
    cluster = make("a", "b", "c")
    topic = f"{cluster.prefix}hono.command_internal."
    assert cluster.internal_topics() == [f"{topic}a", f"{topic}b", f"{topic}c"]
    cluster.stop("a")
    until(lambda: cluster.internal_topics() == [f"{topic}b", f"{topic}c"], "the topic of a stopped instance to go")
    cluster.kill("b")
    until(lambda: cluster.internal_topics() == [f"{topic}c"], "the topic of a dead instance to go")
    cluster.start("b")
    assert cluster.internal_topics() == [f"{topic}b", f"{topic}c"]
    crew.connect(cluster.servers["b"].mqtt, "d1")
    app = Application(kafka, "t", cluster.prefix)
    app.ask()
    assert [h["status"] for _, h in app.next_answers(1)] == ["200"]


@pytest.mark.parametrize("routing", ["router", "link"])
def test_routers_and_adapters_may_be_processes_of_their_own(make, crew, kafka):
    cluster = make()
    cluster.begin("r1", role="router")
    cluster.begin("r2", role="router")
    cluster.start("a", "b", role="adapter")
    for name in ("r1", "r2"):
        cluster.servers[name].ready()
    crew.connect(cluster.servers["a"].mqtt, "d1")
    crew.connect(cluster.servers["b"].mqtt, "d2")
    with Stream(kafka, "t", cluster.prefix) as stream:
        stream.run(["d1", "d2", "d3"], 1, 100)
        cluster.kill("r1")
        stream.run(["d1", "d2", "d3"], 1, 100)
        cluster.pause("r2")
        cluster.start("r1", role="router")
        stream.run(["d1", "d2", "d3"], 4, 100)
        cluster.resume("r2")
        stream.run(["d1", "d2", "d3"], 1, 100)
        stream.wait_answers()
        cluster.wait_done()
        check_order(crew.received)
        assert {n.split("-")[0] for n in stream.notices()} == {"d3"}
        assert {n for n in stream.answers if n.startswith("d3")} <= stream.notices().keys()
    for name in ("a", "b"):
        assert cluster.servers[name].metrics().sum("millrace_commands_received_total") == 0, "adapters read no commands"


def test_a_tenant_that_comes_while_running_loses_no_first_command(make, kafka):
    cluster = make("a", "b")
    cluster.reload(["new"])
    app = Application(kafka, "new", cluster.prefix)
    with Fleet("new") as devices:
        devices.connect(cluster.servers["b"].mqtt, "d1")
        app.ask(value=b"0")
        devices.wait(1)
        assert [h["status"] for _, h in app.next_answers(1)] == ["200"]
        app.ask("away", device="d2")
        assert {h["correlation-id"]: h["status"] for _, h in app.next_answers(2)} == {"abc": "200", "away": "503"}


def test_a_command_that_was_there_before_any_instance_is_delivered_or_told_of(make, kafka):
    cluster = make()
    kafka.create(f"{cluster.prefix}hono.command.t", f"{cluster.prefix}hono.command_response.t")
    app = Application(kafka, "t", cluster.prefix)
    app.ask()
    cluster.start("a", "b")
    assert [h["status"] for _, h in app.next_answers(1)] == ["503"]
    cluster.wait_done()
    assert len(app.answers()) == 1


def test_a_topic_that_is_made_anew_has_commands_like_any_other(make, crew, kafka):
    """Its offsets begin again; nothing that was remembered of the old ones counts."""
    cluster = make("a", "b")
    app = Application(kafka, "t", cluster.prefix)
    crew.connect(cluster.servers["a"].mqtt, "d1")
    for number in range(10):
        app.ask(str(number), value=str(number), message_id=f"m{number}")
    app.next_answers(10)
    cluster.wait_done()
    kafka.delete(f"{cluster.prefix}hono.command.t")
    kafka.create(f"{cluster.prefix}hono.command.t")
    for number in range(10, 15):
        app.ask(str(number), value=str(number), message_id=f"m{number}")
    app.next_answers(15)
    cluster.wait_done()
    assert check_order(crew.received) == 0 and len(crew.received) == 15
    assert sorted(h["status"] for _, h in app.answers()) == ["200"] * 15


def test_waiting_commands_outlive_instances_and_go_before_newer_ones(make, crew, kafka):
    """What the killed instance had kept and not committed is read again, and may come again, behind."""
    cluster = make("a", "b", policy="queue")
    app = Application(kafka, "t", cluster.prefix)
    for number in range(5):
        app.ask(str(number), value=str(number), ttl="600000")
    until(lambda: cluster.sum("millrace_commands_queued_total") == 5, "all to be kept")
    cluster.kill("a")
    crew.connect(cluster.servers["b"].mqtt, "d1")
    app.ask("5", value="5", ttl="600000")
    until(lambda: "5" in [r.value for r in crew.received], "the newer one")
    assert list(dict.fromkeys(r.value for r in crew.received)) == [str(number) for number in range(6)]
    app.next_answers(6)


def test_nothing_is_lost_or_doubled_over_an_orderly_restart_of_all(make, crew, kafka):
    cluster = make("a", "b")
    app = Application(kafka, "t", cluster.prefix)
    link = crew.connect(cluster.servers["a"].mqtt, "d1")
    for number in range(5):
        app.ask(str(number), value=str(number))
    app.next_answers(5)
    cluster.wait_done()
    for name in ("a", "b"):
        cluster.stop(name)
    assert link.is_over or until(lambda: link.is_over, "the connection to end")
    app.ask("5", value="5")
    app.send(device="d2", value="0")
    cluster.start("a", "b")
    app.next_answers(6)
    cluster.wait_done()
    assert [h["status"] for _, h in app.answers() if h["correlation-id"] == "5"] == ["503"]
    assert len(app.answers()) == 6 and len(crew.received) == 5
