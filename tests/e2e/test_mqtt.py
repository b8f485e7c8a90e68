"""What MQTT promises to clients, with paho as the client and, where bytes or moments matter, one that is told every byte."""
import struct
import time

import pytest

from lib.mqtt import (DISCONNECT, PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V311, Client, connect_packet, number_property, packet,
                      publish_packet)
from lib.paho_client import Message, Paho
from lib.server import Server, is_sanitized
from lib.wait import until

BOTH = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])
TAKEN_OVER = 0x8E


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for all tests here: each uses names of its own."""
    folder = tmp_path_factory.mktemp("mqtt")
    server = Server(["--dev", "--mqtt", "127.0.0.1:0",
                     "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", folder / "data"], folder)
    yield server.ready()
    status = server.stop()
    server.close()
    assert status == 0, server.log()


@pytest.fixture
def server(shared):
    yield shared
    shared.metrics().check_ledger()


@pytest.fixture
def name(request):
    """A word that no other test uses."""
    return "".join(c for c in request.node.name if c.isalnum())


@BOTH
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_arrives_once_with_the_lower_qos(server, name, version, qos):
    with Paho(server.mqtt, version, f"{name}-s") as subscriber, Paho(server.mqtt, version, f"{name}-p") as publisher:
        assert subscriber.connect() == (0, False)
        assert publisher.connect() == (0, False)
        for granted in (0, 1, 2):
            assert subscriber.subscribe((f"{name}/{granted}", granted)) == [granted]
        for granted in (0, 1, 2):
            assert publisher.publish(f"{name}/{granted}", "x", qos) == 0
            assert subscriber.next_message() == Message(f"{name}/{granted}", b"x", min(qos, granted), False)
        assert publisher.publish(f"{name}/0", "end") == 0
        assert subscriber.next_message().payload == b"end", "nothing came twice"


@BOTH
def test_wildcards(server, name, version):
    with Paho(server.mqtt, version, name) as c:
        c.connect()
        matched = {f"{name}/+/c": {"a/c", "/c"}, f"{name}/a/#": {"a", "a/c", "a/b/d"}, f"{name}/+": {"a", ""}}
        for topic_filter, wanted in matched.items():
            c.subscribe((topic_filter, 1))
            for topic in ("a", "a/c", "/c", "a/b/d", "", "b/b/b"):
                assert c.publish(f"{name}/{topic}", topic, 1) == 0
            assert c.publish(f"{name}x", "", 1) == 0
            got = {c.next_message().payload.decode() for _ in wanted}
            assert got == wanted, topic_filter
            c.client.unsubscribe(topic_filter)
            c.wait("unsubscribe")
        assert c.events["message"].empty()


@BOTH
def test_an_unsubscribed_client_gets_nothing_more(server, name, version):
    with Paho(server.mqtt, version, name) as c:
        c.connect()
        c.subscribe((f"{name}/a", 1), (f"{name}/b", 1))
        c.client.unsubscribe(f"{name}/a")
        c.wait("unsubscribe")
        c.publish(f"{name}/a", "1", 1)
        c.publish(f"{name}/b", "2", 1)
        assert c.next_message().payload == b"2"


@pytest.mark.tsan
@BOTH
def test_messages_of_a_publisher_arrive_in_order_on_every_subscriber(server, name, version):
    """Subscribers on both workers, QoS 1, more than a window of messages."""
    subscribers = [Paho(server.mqtt, version, f"{name}-{i}") for i in range(6)]
    for each in subscribers:
        each.connect()
        each.subscribe((f"{name}/#", 1))
    with Paho(server.mqtt, version, name) as publisher:
        publisher.connect()
        for number in range(500):
            publisher.client.publish(f"{name}/{number % 3}", str(number), 1)
        for each in subscribers:
            assert [int(each.next_message().payload) for _ in range(500)] == list(range(500))
    for each in subscribers:
        each.disconnect()


@pytest.mark.tsan
@pytest.mark.parametrize("old", [V311, V5], ids=["older-v3.1.1", "older-v5"])
@pytest.mark.parametrize("new", [V311, V5], ids=["newer-v3.1.1", "newer-v5"])
def test_a_second_connection_takes_the_client_id_over(server, name, old, new):
    with Client(server.mqtt, old) as first, Client(server.mqtt, new) as second:
        first.connect(name)
        first.subscribe([(f"{name}/in", 1)])
        second.connect(name)
        if old == V5:
            assert first.expect_disconnect() == TAKEN_OVER
        else:
            first.expect_closed()
        second.subscribe([(f"{name}/in", 1)])
        second.publish(f"{name}/in", "mine", 1, 9)
        kinds = {second.read().type, second.read().type}
        assert kinds == {PUBACK, 3}


def test_a_client_id_of_another_identity_is_another_client(server, name):
    """An anonymous client cannot throw a device out by using its client id."""
    with Client(server.mqtt) as device, Client(server.mqtt) as stranger:
        device.connect(name, user="sensor-1@demo", password="demo-secret")
        stranger.connect(name)
        device.ping()
        stranger.ping()


def test_ten_takeovers_at_once_leave_one(server, name):
    clients = [Client(server.mqtt, V5) for _ in range(10)]
    for c in clients:
        c.send(connect_packet(V5, name))
    for c in clients:
        assert c.read().type == 2
    ended = []
    for c in clients:
        c.send(b"\xc0\0")
        answer = c.read()
        if answer.type == DISCONNECT:
            assert answer.body[0] == TAKEN_OVER
            ended.append(c)
        c.close()
    assert len(ended) == 9


@BOTH
def test_a_silent_client_is_closed_after_one_and_a_half_times_its_keep_alive(server, name, version):
    with Client(server.mqtt, version) as watcher, Client(server.mqtt, version) as c:
        watcher.connect(f"{name}-watcher")
        watcher.subscribe([(f"{name}/gone", 0)])
        began = time.monotonic()
        c.connect(name, keep_alive=1, will=(f"{name}/gone", b"silent", 0, False))
        if version == V5:
            assert c.expect_disconnect() == 0x8D
        else:
            c.expect_closed()
        assert time.monotonic() - began >= 1.499
        assert watcher.expect_publish().payload == b"silent"


@BOTH
def test_pings_keep_a_client_alive(server, name, version):
    with Client(server.mqtt, version) as c:
        c.connect(name, keep_alive=3)
        for _ in range(3):
            c.expect_silence(2)  # closed after 4.5 s without one: far from it, on a busy machine too
            c.ping()


@BOTH
def test_retained_messages(server, name, version):
    with Paho(server.mqtt, version, f"{name}-p") as publisher:
        publisher.connect()
        assert publisher.publish(f"{name}/a", "old", 1, retain=True) == 0
        assert publisher.publish(f"{name}/a", "new", 1, retain=True) == 0
        assert publisher.publish(f"{name}/b", "gone", 1, retain=True) == 0
        assert publisher.publish(f"{name}/b", "", 1, retain=True) == 0
        with Paho(server.mqtt, version, f"{name}-s") as subscriber:
            subscriber.connect()
            subscriber.subscribe((f"{name}/#", 1))
            assert subscriber.next_message() == Message(f"{name}/a", b"new", 1, True)
            assert publisher.publish(f"{name}/a", "live", 1, retain=True) == 0
            assert subscriber.next_message() == Message(f"{name}/a", b"live", 1, False)
        publisher.publish(f"{name}/a", "", 1, retain=True)


def test_a_thousand_retained_messages_all_arrive(server, name):
    with Client(server.mqtt) as c:
        c.connect(f"{name}-p")
        for number in range(1000):
            c.publish(f"{name}/{number}", str(number), 1, number + 1, retain=True)
        for number in range(1000):
            assert c.expect_ack(PUBACK, number + 1) == 0
        with Client(server.mqtt, V5) as reader:
            reader.connect(f"{name}-s", properties=number_property(33, 2, 20))  # Receive Maximum
            reader.subscribe([(f"{name}/+", 1)])
            got = set()
            for _ in range(1000):
                message = reader.expect_publish()
                assert message.retain
                got.add(message.payload)
                reader.send(packet(PUBACK, 0, struct.pack(">H", message.packet_id)))
            assert len(got) == 1000
        for number in range(1000):
            c.publish(f"{name}/{number}", "", 0, retain=True)
        c.ping()


@BOTH
def test_will_of_a_client_that_dies(server, name, version):
    with Paho(server.mqtt, version, f"{name}-s") as watcher:
        watcher.connect()
        watcher.subscribe((f"{name}/#", 1))
        with Client(server.mqtt, version) as c:
            c.connect(name, will=(f"{name}/will", b"dead", 1, True))
        assert watcher.next_message() == Message(f"{name}/will", b"dead", 1, False)
    with Paho(server.mqtt, version, f"{name}-late") as late:
        late.connect()
        late.subscribe((f"{name}/#", 1))
        assert late.next_message() == Message(f"{name}/will", b"dead", 1, True)
        late.publish(f"{name}/will", "", 1, retain=True)


@BOTH
def test_no_will_of_a_client_that_says_goodbye(server, name, version):
    with Paho(server.mqtt, version, f"{name}-s") as watcher:
        watcher.connect()
        watcher.subscribe((f"{name}/#", 1))
        with Paho(server.mqtt, version, name, will=(f"{name}/will", b"dead", 1, False)) as c:
            c.connect()
            c.disconnect()
        with Paho(server.mqtt, version, f"{name}-p") as publisher:
            publisher.connect()
            publisher.publish(f"{name}/end", "end", 1)
        assert watcher.next_message().payload == b"end"


def test_will_of_mqtt_5_on_a_disconnect_that_asks_for_it(server, name):
    with Client(server.mqtt, V5) as watcher, Client(server.mqtt, V5) as c:
        watcher.connect(f"{name}-s")
        watcher.subscribe([(f"{name}/#", 0)])
        c.connect(name, will=(f"{name}/will", b"asked", 0, False))
        c.send(packet(DISCONNECT, 0, b"\x04"))
        assert watcher.expect_publish().payload == b"asked"


def test_a_device_s_will_is_its_telemetry(serve, make_config, kafka, tenant):
    server = serve(make_config(kafka.bootstrap))
    with Client(server.mqtt) as c:
        c.connect("c", user=f"a1@{tenant}", password="pw", will=("event", b"lost contact", 1, False))
    until(lambda: server.metrics().ledger("event")["acknowledged"] == 1, "the will in Kafka")
    record, = kafka.records(f"hono.event.{tenant}")
    assert (record.key, record.value) == (b"d1", b"lost contact")


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_a_kept_session_gets_what_it_missed(server, name, version, qos):
    options = {"clean": False, "expiry_s": 3600}
    first = Paho(server.mqtt, version, name, **options)
    assert first.connect() == (0, False)
    assert first.subscribe((f"{name}/#", qos)) == [qos]
    first.disconnect()
    with Paho(server.mqtt, version, f"{name}-p") as publisher:
        publisher.connect()
        for number in range(50):
            publisher.publish(f"{name}/{number % 3}", str(number), qos)
        with Paho(server.mqtt, version, name, **options) as again:
            assert again.connect() == (0, True)
            got = [again.next_message() for _ in range(50)]
            assert [int(m.payload) for m in got] == list(range(50))
            assert {m.qos for m in got} == {qos}
            publisher.publish(f"{name}/live", "live", qos)
            assert again.next_message().payload == b"live"
    with Paho(server.mqtt, version, name) as clean:
        assert clean.connect() == (0, False), "a clean start ends it"


def test_a_session_of_mqtt_5_without_expiry_ends_with_its_connection(server, name):
    with Paho(server.mqtt, V5, name, clean=False) as c:
        assert c.connect() == (0, False)
        c.subscribe((f"{name}/#", 1))
    with Paho(server.mqtt, V5, name, clean=False) as c:
        assert c.connect() == (0, False)


@BOTH
def test_unacknowledged_messages_are_sent_again_after_a_reconnect(server, name, version):
    """QoS 1: PUBLISH with DUP; QoS 2 after PUBREC: PUBREL. With the same packet identifiers, in order."""
    options = {"clean": False, "properties": number_property(17, 4, 3600)}
    with Client(server.mqtt, version) as c, Client(server.mqtt, version) as publisher:
        c.connect(name, **options)
        c.subscribe([(f"{name}/#", 2)])
        publisher.connect(f"{name}-p")
        publisher.publish(f"{name}/two", "2", 2, 1)
        assert publisher.expect_ack(PUBREC, 1) == 0
        two = c.expect_publish()
        c.send(packet(PUBREC, 0, struct.pack(">H", two.packet_id)))
        assert c.expect_ack(PUBREL, two.packet_id) == 0
        assert publisher.publish_and_wait(f"{name}/one", "1", 2) == 0
        one = c.expect_publish()
        assert (one.qos, one.dup) == (1, False)
    with Client(server.mqtt, version) as c:
        assert c.connect(name, **options) is True
        again = [c.read(), c.read()]
        assert {p.type for p in again} == {PUBREL, 3}
        publish = next(p for p in again if p.type == 3)
        assert publish.flags & 8, "DUP"
        c.send(packet(PUBACK, 0, struct.pack(">H", one.packet_id)) + packet(PUBCOMP, 0, struct.pack(">H", two.packet_id)))
        c.ping()
    with Client(server.mqtt, version) as c:
        assert c.connect(name, **options) is True
        c.ping()
    with Client(server.mqtt, version) as c:
        c.connect(name)


@BOTH
def test_a_qos_2_message_sent_twice_is_published_once(server, name, version):
    with Client(server.mqtt, version) as c, Client(server.mqtt, version) as reader:
        reader.connect(f"{name}-s")
        reader.subscribe([(f"{name}/#", 0)])
        c.connect(name)
        for dup in (False, True, True):
            c.publish(f"{name}/a", "once", 2, 77, dup=dup)
            assert c.expect_ack(PUBREC, 77) == 0
        c.send(packet(PUBREL, 2, struct.pack(">H", 77)))
        assert c.expect_ack(PUBCOMP, 77) == 0
        c.publish(f"{name}/a", "again", 2, 77)
        assert c.expect_ack(PUBREC, 77) == 0
        c.send(packet(PUBREL, 2, struct.pack(">H", 77)))
        assert c.expect_ack(PUBCOMP, 77) == 0
        assert [reader.expect_publish().payload for _ in range(2)] == [b"once", b"again"]


def test_a_device_s_qos_2_message_is_in_kafka_once(serve, make_config, own_kafka, tenant):
    """Sent again on the same and on a new connection while Kafka hangs; PUBREC only when it is stored."""
    server = serve(make_config(own_kafka.bootstrap))
    login = {"user": f"a1@{tenant}", "password": "pw", "clean": False}
    own_kafka.pause()
    with Client(server.mqtt) as c:
        c.connect("c", **login)
        c.publish("telemetry", "once", 2, 5)
        c.publish("telemetry", "once", 2, 5, dup=True)
        c.ping()
        c.expect_silence(0.5)
    with Client(server.mqtt) as c:
        assert c.connect("c", **login) is True
        c.publish("telemetry", "once", 2, 5, dup=True)
        c.ping()
        own_kafka.resume()
        assert c.expect_ack(PUBREC, 5) == 0
        c.send(packet(PUBREL, 2, struct.pack(">H", 5)))
        assert c.expect_ack(PUBCOMP, 5) == 0
    assert [r.value for r in own_kafka.records(f"hono.telemetry.{tenant}")] == [b"once"]


def test_protocol_errors_end_only_their_connection(server, name):
    bad = {
        "no CONNECT first": b"\xc0\0",
        "reserved type": b"\x00\0",
        "a second CONNECT": connect_packet(V5, name) * 2,
        "QoS 3": connect_packet(V5, name) + b"\x36\x06\0\1a\0\1\0",
        "wildcard in a topic name": connect_packet(V5, name) + publish_packet(V5, f"{name}/#", "x"),
        "reserved flags": connect_packet(V5, name) + b"\xc1\0",
        "length of five bytes": connect_packet(V5, name) + b"\x30\xff\xff\xff\xff\x01",
        "text that is not UTF-8": connect_packet(V5, name) + publish_packet(V5, b"\xff", "x"),
    }
    with Client(server.mqtt) as witness:
        witness.connect(f"{name}-witness")
        for what, data in bad.items():
            with Client(server.mqtt, V5) as c:
                c.send(data)
                answers = []
                while (answer := c.read()) is not None:
                    answers.append(answer)
                assert all(a.type in (2, DISCONNECT) for a in answers), what
                if data.startswith(b"\x10"):
                    assert answers[-1].type == DISCONNECT and answers[-1].body[0] >= 0x80, what
            witness.ping()


def test_a_packet_may_come_byte_by_byte(server, name):
    with Client(server.mqtt, V5) as c:
        for byte in connect_packet(V5, name) + publish_packet(V5, f"{name}/a", "x" * 200, 1, 3):
            c.send(bytes([byte]))
        assert c.expect(2).body[1] == 0
        assert c.expect_ack(PUBACK, 3) == 0


def test_connect_is_awaited_for_a_limited_time(serve, tmp_path):
    server = serve(arguments=["--dev", "--mqtt", "127.0.0.1:0",
                              "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", tmp_path / "data",
                              "--set", "limits.connect_timeout=200ms"])
    with Client(server.mqtt) as silent, Client(server.mqtt) as partial, Client(server.mqtt) as good:
        good.connect("good")
        partial.send(connect_packet(V311, "partial")[:10])
        silent.expect_closed()
        partial.expect_closed()
        good.ping()
    assert server.metrics().sum("millrace_mqtt_connect_timeouts_total") == 2


def test_a_reader_that_stops_reading_does_not_stop_the_others(server, name):
    """QoS 0 beyond its buffers is dropped and counted; the publisher and another reader go on."""
    with Client(server.mqtt) as stuck, Client(server.mqtt) as reader, Client(server.mqtt) as writer:
        for role, c in (("stuck", stuck), ("reader", reader), ("writer", writer)):
            c.connect(f"{name}-{role}")
        stuck.subscribe([(f"{name}/#", 0)])
        reader.subscribe([(f"{name}/#", 0)])
        memory = server.anonymous_memory()
        for number in range(1000):
            assert writer.publish_and_wait(f"{name}/a", b"x" * 50_000, number + 1) == 0
            assert len(reader.expect_publish().payload) == 50_000
        assert server.metrics().sum("millrace_deliveries_dropped_total") > 0
        assert is_sanitized() or server.anonymous_memory() - memory < 32 << 20
