"""Commands of applications reach devices, and what came of them reaches applications (docs/wire/commands.md)."""
import json
import time

import pytest

from lib.application import FAILURE, SUCCESS, Application
from lib.mqtt import V311, V5, Client, text_property
from lib.records import groups, put, wait_position
from lib.wait import until

PUBACK = 4
VERSIONS = pytest.mark.parametrize("version", [V311, V5])


@pytest.fixture
def ack_timeout():
    """Longer than anything that keeps a test from acknowledging."""
    return "1h"


@pytest.fixture
def options():
    """More of the section `command`."""
    return {}


@pytest.fixture
def server(serve, make_config, kafka, devices, ack_timeout, options):
    return serve(make_config(kafka.bootstrap, devices, command={"ack_timeout": ack_timeout} | options))


@pytest.fixture
def devices():
    return {
        "d1": {"auth_id": "a1", "password": "pw"},
        "g1": {"auth_id": "ga", "password": "pw"},
        "g2": {"auth_id": "gb", "password": "pw"},
        "d2": {"auth_id": "a2", "password": "pw", "via": ["g1"]},
        "d3": {"via": ["g1", "g2"]},
    }


@pytest.fixture
def login(server, tenant):
    clients = []

    def connect(auth_id="a1", version=V311, client_id=None, to=server, **options):
        client = Client(to.mqtt, version)
        clients.append(client)
        client.connect(client_id or f"client-{len(clients)}", user=f"{auth_id}@{tenant}", password="pw", **options)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def app(server, kafka, tenant):
    return Application(kafka, tenant)


def take(client, acknowledges=True):
    found = client.expect_publish()
    if found.qos and acknowledges:
        client.send(bytes([PUBACK << 4, 2]) + found.packet_id.to_bytes(2, "big"))
    return found


@VERSIONS
def test_a_subscription_and_its_end_are_told_by_events(login, app, version):
    c = login(version=version)
    assert c.subscribe([("command///req/#", 1)]) == [1]
    assert app.ttds() == [-1]
    record, = [r for r in app.kafka.records(f"hono.event.{app.tenant}")]
    headers = {name: value.decode() for name, value in record.headers}
    assert (record.key, record.value, headers["device_id"], headers["qos"]) == (b"d1", None, "d1", "1")
    c.close()
    until(lambda: app.ttds() == [-1, 0], "the event of the end")


def test_an_unsubscribe_is_told_too(login, app):
    c = login()
    assert c.subscribe([("c///q/#", 0)]) == [0]
    c.send(b"\xa2\x0b\0\x02\0\x07c///q/#")
    c.expect(11)
    until(lambda: app.ttds() == [-1, 0], "the event of the end")
    app.ask()
    (_, headers), = app.next_answers(1)
    assert headers["status"] == "503"


@pytest.mark.parametrize("filter, qos", [("command/+/+/req/#", 1), ("command///req", 1), ("command///req/#", 2), ("c/#", 0),
                                         ("c///q/x/#", 0), ("command///res/#", 0)])
def test_other_forms_are_refused(login, filter, qos):
    assert login().subscribe([(filter, qos)]) == [0x80]


def test_nobody_may_take_the_commands_of_others(login, app, tenant):
    c = login(version=V5)
    assert c.subscribe([("c//d2/q/#", 1)])[0] >= 0x80
    assert c.subscribe([("c/other/d1/q/#", 1)])[0] >= 0x80
    assert c.subscribe([(f"c/{tenant}/d1/q/#", 1)]) == [1]
    assert app.ttds("d2") == []


@VERSIONS
@pytest.mark.parametrize("filter, topic", [("c///q/#", "c///q//reboot"), ("command///req/#", "command///req//reboot"),
                                           ("c//d1/q/#", "c//d1/q//reboot")])
def test_a_one_way_command_arrives_and_nothing_is_answered(server, login, app, version, filter, topic):
    c = login(version=version)
    assert c.subscribe([(filter, 1)]) == [1]
    app.send(subject="reboot", value=b"now")
    found = take(c)
    assert (found.topic, found.payload, found.qos) == (topic, b"now", 1)
    until(lambda: server.metrics().sum("millrace_commands_delivered_total") == 1, "the command to be done")
    assert app.answers() == []


@VERSIONS
def test_a_request_is_answered_by_the_device(login, app, tenant, version):
    c = login(version=version)
    c.subscribe([("command///req/#", 1)])
    app.ask("abc", subject="brightness")
    assert take(c).topic == "command///req/203abc/brightness"
    assert c.publish_and_wait("command///res/203abc/200", "ok") == 0
    (record, headers), = app.next_answers(1)
    now = time.time_ns() // 1_000_000
    assert (record.key, record.value) == (b"d1", b"ok")
    assert abs(now - int(headers.pop("creation-time"))) < 60_000
    assert headers == {"correlation-id": "abc", "status": "200", "device_id": "d1", "tenant_id": tenant,
                       "content-type": "application/octet-stream"}


@pytest.mark.parametrize("topic", ["command///res/203abc/302", "command///res/203abc/abc", "command///res/9zz/200",
                                   "command///res/203abc", "command///res/003abc/200"])
def test_a_response_that_is_none_is_an_error_of_the_device(login, app, topic):
    c = login()
    c.subscribe([("command///req/#", 0), ("error///#", 0)])
    c.publish(topic, "x", 1, 7)
    error = c.expect_publish()
    assert error.topic.startswith("error///command-response/7/400"), error
    assert json.loads(error.payload)["code"] == 400
    assert c.expect_ack(PUBACK, 7) == 0
    assert app.answers() == []


def test_an_application_is_told_that_nobody_listens(app):
    app.ask(**{"delivery-failure-notification-metadata-x": "1"})
    app.send(correlation_id="one-way")
    app.ask("second")
    (record, headers), (_, second) = app.next_answers(2)
    assert (headers["status"], headers["content-type"], headers["correlation-id"]) == ("503", FAILURE, "abc")
    assert headers["delivery-failure-notification-metadata-x"] == "1"
    assert json.loads(record.value)["error"]
    assert second["correlation-id"] == "second" and len(app.answers()) == 2


@pytest.mark.parametrize("command, status", [
    (dict(device="nobody"), "404"),
    (dict(subject=None), "400"),
    (dict(subject="a+b"), "400"),
    (dict(subject="#"), "400"),
    (dict(subject=b"\xff\xfe"), "400"),
    (dict(subject="s" * 2000), "400"),
    (dict(correlation_id="a/b"), "400"),
    (dict(correlation_id="c" * 300), "400"),
    (dict(key="other"), None),
    (dict(ttl="1000", creation_time="1700000000000"), None),
])
def test_a_command_that_is_none_is_answered_and_the_partition_moves_on(login, app, command, status):
    c = login()
    c.subscribe([("c///q/#", 1)])
    app.ask(**command)
    app.ask("last")
    assert take(c).topic.endswith("/204last/set")
    c.publish_and_wait("c///s/204last/200", "")
    answers = [headers for _, headers in app.next_answers(2 if status else 1)]
    assert answers[-1]["correlation-id"] == "last"
    assert [headers["status"] for headers in answers[:-1]] == ([status] if status else [])


@pytest.mark.parametrize("ack_timeout", ["1s"])
def test_a_device_that_does_not_acknowledge_is_told_of(login, app):
    c = login()
    c.subscribe([("c///q/#", 1)])
    app.ask()
    take(c, acknowledges=False)
    (_, headers), = app.next_answers(1)
    assert (headers["status"], headers["content-type"]) == ("503", FAILURE)
    c.publish_and_wait("c///s/203abc/200", "late")
    assert [h["status"] for _, h in app.next_answers(2)] == ["503", "200"]


@pytest.mark.parametrize("options", [{"resend_interval": "50ms"}])
def test_an_older_client_is_sent_a_command_again_if_that_is_asked_for(server, login, app):
    c = login()
    c.subscribe([("c///q/#", 1)])
    app.send(ack_required="true", message_id="m-1")
    first, again = c.expect_publish(), take(c)
    assert (first.dup, again) == (False, first._replace(dup=True))
    assert [h["status"] for _, h in app.next_answers(1)] == ["202"]
    assert server.metrics().sum("millrace_mqtt_commands_resent_total") >= 1
    newer = login(version=V5)
    newer.subscribe([("c///q/#", 1)])
    app.send()
    newer.expect_publish()
    newer.expect_silence(0.3)


def test_a_subscription_without_acknowledgements_fails_nothing(server, login, app):
    c = login()
    c.subscribe([("c///q/#", 0)])
    app.ask()
    assert take(c).qos == 0
    until(lambda: server.metrics().sum("millrace_commands_delivered_total", **{"as": "attempted"}) == 1, "the command to be done")
    assert app.answers() == []


def test_a_gateway_takes_the_commands_of_its_devices(login, app):
    g = login("ga")
    g.subscribe([("c//+/q/#", 1)])
    app.ask(device="d2")
    assert take(g).topic == "c//d2/q/203abc/set"
    g.publish_and_wait("c//d2/s/203abc/200", "ok")
    (record, headers), = app.next_answers(1)
    assert (record.key, headers["device_id"], headers["status"]) == (b"d2", "d2", "200")
    app.send(device="g1", subject="own")
    assert take(g).topic == "c///q//own"


def test_a_gateway_for_itself_alone_takes_no_others(login, app):
    g = login("ga")
    g.subscribe([("c///q/#", 1)])
    app.ask(device="d2")
    (_, headers), = app.next_answers(1)
    assert headers["status"] == "503"


def test_the_device_itself_goes_before_its_gateway(login, app):
    g, d = login("ga"), login("a2")
    g.subscribe([("c//+/q/#", 1)])
    d.subscribe([("c///q/#", 1)])
    app.send(device="d2")
    assert take(d).topic == "c///q//set"
    d.close()
    until(lambda: app.ttds("d2") == [-1, 0], "the device to be gone")
    app.send(device="d2")
    assert take(g).topic == "c//d2/q//set"


def test_of_several_gateways_the_last_heard_from_is_taken(login, app):
    gateways = {"ga": login("ga"), "gb": login("gb")}
    for g in gateways.values():
        g.subscribe([("c//+/q/#", 1)])
    for heard in ("gb", "ga", "gb"):
        gateways[heard].publish_and_wait("telemetry//d3", "here")
        app.send(device="d3", subject=heard)
        assert take(gateways[heard]).topic == f"c//d3/q//{heard}"


def test_a_gateway_may_subscribe_for_one_device(login, app):
    g = login("ga")
    assert g.subscribe([("c//d2/q/#", 1)]) == [1]
    assert app.ttds("d2") == [-1]
    app.send(device="d2")
    assert take(g).topic == "c//d2/q//set"


def test_commands_of_a_device_keep_their_order(login, app, kafka, tenant):
    c = login()
    c.subscribe([("c///q/#", 1)])
    n = 1000
    put(kafka.bootstrap, f"hono.command.{tenant}",
        *(("d1", str(i).encode(), [("device_id", b"d1"), ("subject", b"s")]) for i in range(n)))
    assert [int(take(c).payload) for _ in range(n)] == list(range(n))


def test_a_newer_connection_keeps_its_subscription_when_the_older_one_ends(login, app):
    old, new = login(), login()
    old.subscribe([("c///q/#", 1)])
    new.subscribe([("c///q/#", 1)])
    old.close()
    app.send()
    assert take(new).topic == "c///q//set"
    assert app.ttds() == [-1, -1]


def test_a_resumed_session_takes_commands_again_and_none_from_before(login, app):
    c = login(client_id="kept", clean=False)
    c.subscribe([("c///q/#", 1)])
    c.close()
    until(lambda: app.ttds() == [-1, 0], "the device to be gone")
    app.ask("away")
    (_, headers), = app.next_answers(1)
    assert (headers["correlation-id"], headers["status"]) == ("away", "503")
    c = login(client_id="kept", clean=False)
    until(lambda: app.ttds() == [-1, 0, -1], "the device to be back")
    app.send(subject="now")
    assert take(c).topic == "c///q//now"


def test_mqtt_5_clients_get_content_type_and_message_id(login, app):
    c = login(version=V5)
    c.subscribe([("c///q/#", 0)])
    app.send(content_type="text/plain", message_id="m-1")
    body = c.expect(3).body
    assert text_property(3, "text/plain") in body and b"message-id" in body and b"m-1" in body


@pytest.mark.parametrize("qos, how", [(0, "attempted"), (1, "received")])
def test_a_positive_notice_is_given_when_it_is_asked_for(login, app, qos, how):
    c = login()
    c.subscribe([("c///q/#", qos)])
    app.send(ack_required="true", message_id="m-1")
    take(c)
    (record, headers), = app.next_answers(1)
    assert (headers["status"], headers["content-type"], headers["message-id"]) == ("202", SUCCESS, "m-1")
    assert json.loads(record.value) == {"acknowledgement": how}


@pytest.mark.parametrize("options", [{"ack_topic": "delivered"}])
def test_notices_of_delivery_may_have_a_topic_of_their_own(login, app, kafka, tenant):
    assert f"delivered.{tenant}" in kafka.topics()
    app.ask("nobody", ack_required="true")
    assert [h["status"] for _, h in app.next_answers(1)] == ["503"]
    c = login()
    c.subscribe([("c///q/#", 1)])
    app.ask("abc", ack_required="true", message_id="m-1")
    take(c)
    record, = until(lambda: kafka.records(f"delivered.{tenant}"), "the notice of delivery")
    headers = {name: value.decode() for name, value in record.headers}
    assert (record.key, headers["status"], headers["correlation-id"], headers["message-id"]) == (b"d1", "202", "abc", "m-1")
    c.publish_and_wait("c///s/203abc/200", "ok")
    assert [h["status"] for _, h in app.next_answers(2)] == ["503", "200"]


@pytest.mark.parametrize("options", [{"message_id_in_topic": True}])
@pytest.mark.parametrize("version, bag", [(V311, "/?message-id=a%2Fb%20%2B%23"), (V5, "")])
def test_older_clients_can_have_the_message_id_in_the_topic(login, app, version, bag):
    c = login(version=version)
    c.subscribe([("c///q/#", 1)])
    app.ask(message_id="a/b +#")
    assert take(c).topic == f"c///q/203abc/set{bag}"
    assert c.publish_and_wait("c///s/203abc/200", "ok") == 0
    assert [h["status"] for _, h in app.next_answers(1)] == ["200"]


def test_all_notices_can_be_asked_for(serve, make_config, kafka, tenant, devices):
    serve(make_config(kafka.bootstrap, devices, command={"notices": "all"}))
    app = Application(kafka, tenant)
    app.send(correlation_id="one-way")
    app.ask("wrong-key", key="other")
    app.ask("expired", ttl="1000", creation_time="1700000000000")
    statuses = {headers["correlation-id"]: headers["status"] for _, headers in app.next_answers(3)}
    assert statuses == {"one-way": "503", "wrong-key": "400", "expired": "504"}


def test_commands_of_tenants_of_others_are_left_alone(login, app, kafka):
    """Another installation may use the same cluster."""
    other = Application(kafka, f"{app.tenant}-other")
    kafka.create(f"hono.command.{other.tenant}", f"hono.command_response.{other.tenant}")
    other.ask()
    app.ask()
    app.next_answers(1)
    assert other.answers() == []


def test_commands_that_are_done_are_committed(login, app, kafka, tenant):
    c = login()
    c.subscribe([("c///q/#", 1)])
    for _ in range(3):
        app.send()
        take(c)
    group, = groups(kafka, f"millrace.command.{tenant}-")
    wait_position(kafka.bootstrap, group, f"hono.command.{tenant}", 3)


def test_what_was_not_done_when_the_server_ended_comes_again(serve, make_config, kafka, tenant, devices):
    config = make_config(kafka.bootstrap, devices, instance=f"i-{tenant}", command={"shared": True})
    first = serve(config)
    app = Application(kafka, tenant)
    with Client(first.mqtt, V311) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw")
        c.subscribe([("c///q/#", 1)])
        app.send(subject="one")
        take(c)
        group = f"millrace.command.i-{tenant}"
        wait_position(kafka.bootstrap, group, f"hono.command.{tenant}", 1)
        app.ask("two")
        take(c, acknowledges=False)
        first.kill()
    serve(config)
    (_, headers), = app.next_answers(1)
    assert (headers["correlation-id"], headers["status"]) == ("two", "503")
