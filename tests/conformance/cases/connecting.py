"""How a connection begins, is kept alive, and ends."""
import time

from case import MQTT_3_1_1, MQTT_5, case
from peer import Failure

# The server counts in whole milliseconds from the begin of the turn in which it reads a packet.
CLOCK_S = 0.1


async def see_nothing_retained(t):
    """The topic has no retained message: mail that other workers posted before a SUBSCRIBE is read before its SUBACK."""
    witness = await t.connect("witness")
    await t.subscribe(witness, t.topic, 0)
    await witness.ping()


@case("3.1.4-6", MQTT_5)
async def nothing_is_processed_that_stands_behind_a_refused_connect(t):
    client = await t.open("client")
    await client.send(f'10 ~ "MQTT" 05 02 k0 {{ 15 "no-such-method" }} "{t.id("client")}"',
                      f"31 ~ \"{t.topic}\" {{}} 'retained'", "C0 00")
    await client.expect("20 03 00 8C 00")
    await client.closed()
    await see_nothing_retained(t)


@case("3.1.4-5", MQTT_3_1_1)
async def nothing_is_processed_that_stands_behind_a_refused_connect_either(t):
    client = await t.open("client")
    await client.send('10 ~ "MQTT" 04 00 k0 ""', f"31 ~ \"{t.topic}\" 'retained'", "C0 00")
    await client.expect("20 02 00 02")
    await client.closed()
    await see_nothing_retained(t)


async def be_timed_out(t, client, least_s):
    """Says one more word and then is silent until it is closed, which must not be before `least_s`."""
    begin = time.monotonic()
    await client.ping()
    if t.version == MQTT_5:
        await client.expect("E0 01 8D")
    await client.closed()
    silent_s = time.monotonic() - begin
    if silent_s < least_s - CLOCK_S:
        raise Failure(f"closed after {silent_s:.3f} s, which is before {least_s} s")


@case("3.2.2-21", MQTT_5, server="keep-alive")
async def the_keep_alive_of_the_server_is_the_one_that_is_enforced(t):
    client = await t.open("client")
    await client.send(t.connect_packet("client", keep_alive=600))
    connack = await client.must("a CONNACK")
    if b"\x13\x00\x01" not in connack:  # Server Keep Alive 1
        raise Failure("the CONNACK carries no Server Keep Alive of 1 s")
    await be_timed_out(t, client, 1.5)


@case("3.2.2-22", MQTT_5)
async def without_one_of_the_server_the_keep_alive_of_the_client_is_enforced(t):
    client = await t.connect("client", keep_alive=1)
    await be_timed_out(t, client, 1.5)


@case("3.1.2-24", MQTT_3_1_1)
async def a_client_is_closed_after_one_and_a_half_times_its_keep_alive_and_not_before(t):
    client = await t.connect("client", keep_alive=1)
    await be_timed_out(t, client, 1.5)


@case("3.1.0-1", MQTT_3_1_1, MQTT_5)
async def whatever_comes_before_connect_closes(t):
    for first in ("20 02 00 00", f"30 ~ \"{t.topic}\" {t.none} 'x'", f"32 ~ \"{t.topic}\" m1 {t.none} 'x'", "40 02 m1",
                  "50 02 m1", "62 02 m1", "70 02 m1", f'82 ~ m1 {t.none} "{t.topic}" 00', f"90 ~ m1 {t.none} 00",
                  f'A2 ~ m1 {t.none} "{t.topic}"', "B0 02 m1", "C0 00", "D0 00", "E0 00", "F0 00"):
        client = await t.open("client")
        await client.send(first, t.connect_packet("client"))
        await client.closed()


@case("1.5.3-3", MQTT_3_1_1)
@case("1.5.4-3", MQTT_5)
async def a_byte_order_mark_is_a_part_of_the_client_identifier(t):
    plain = await t.connect("client")
    level = f'"MQTT" {t.version:02X} 02 k0 {t.none}'
    marked = await t.open("marked")
    await marked.send(f'10 ~ {level} "\uFEFF{t.id("client")}"')
    await marked.must("a CONNACK")
    await marked.ping()
    await plain.ping()  # it was not taken over


@case("3.14.4-3", MQTT_3_1_1, MQTT_5)
async def the_will_is_dropped_after_a_clean_disconnect(t):
    watcher = await t.connect("watcher")
    await t.subscribe(watcher, t.topic, 0)
    client = await t.open("client")
    head = f'"MQTT" {t.version:02X} 06 k0 {t.none} "{t.id("client")}"'
    await client.send(f'10 ~ {head} {t.none} "{t.topic}" "will"')
    await client.must("a CONNACK")
    await t.disconnect(client)
    # The same client identifier, hence the same worker, so what it publishes now cannot overtake its will.
    client = await t.connect("client")
    await t.publish(client, t.topic, "after")
    await watcher.expect(t.message(t.topic, "after"))


@case("3.1.2-8", MQTT_3_1_1, MQTT_5)
async def the_will_is_published_when_the_connection_just_ends(t):
    watcher = await t.connect("watcher")
    await t.subscribe(watcher, t.topic, 0)
    client = await t.open("client")
    head = f'"MQTT" {t.version:02X} 06 k0 {t.none} "{t.id("client")}"'
    await client.send(f'10 ~ {head} {t.none} "{t.topic}" "will"')
    await client.must("a CONNACK")
    client.close()
    await watcher.expect(t.message(t.topic, "will"))


@case("4.13.1-1", MQTT_5)
async def the_reason_of_the_end_reaches_a_client_that_goes_on_sending(t):
    client = await t.connect("client")
    window = 20  # limits.receive_maximum
    await client.send(*(f"34 ~ \"{t.topic}\" m{n} {{}} ''" for n in range(1, window + 2)))
    await client.send(*(f"30 ~ \"{t.topic}\" {{}} '{'x' * 1000}'" for n in range(200)))
    for n in range(1, window + 1):
        await client.expect(f"50 02 m{n}")
        await client.send(f"62 02 m{n}")
    await client.expect("E0 01 93")
    await client.closed()
