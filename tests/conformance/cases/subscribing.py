"""Filters, retained messages, and what happens to a subscription that is replaced or taken back."""
from case import MQTT_3_1_1, MQTT_5, case
from peer import Failure

# More levels than limits.topic_levels allows.
TOO_DEEP = "/".join("x" * 129)
LOAD = 300


@case("3.8.4-3", MQTT_5)
async def replacing_the_options_of_a_subscription_loses_no_message(t):
    subscriber = await t.connect("subscriber")
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 2, properties="{ 0B 01 }")
    received = replaced = 0
    options = (1, 2)
    for begin in range(0, LOAD, 10):
        await publisher.send(*(f"30 ~ \"{t.topic}\" {{}} '{n}'" for n in range(begin, begin + 10)))
        await subscriber.send(f'82 ~ m{begin + 1} {{ 0B v{begin + 1} }} "{t.topic}" {options[begin // 10 % 2]:02X}')
    await publisher.ping()
    while received < LOAD or replaced < LOAD // 10:
        packet = await subscriber.must("a message")
        if packet[0] == 0x90:
            replaced += 1
        else:
            text = str(received).encode()
            if packet[0] != 0x30 or not packet.endswith(text):
                raise Failure(f"wanted message {received}, got {packet!r}")
            received += 1
    await subscriber.ping()


@case("3.8.4-3", MQTT_3_1_1, MQTT_5)
async def subscribing_again_sends_the_retained_messages_again(t):
    publisher = await t.connect("publisher")
    await t.publish(publisher, t.topic, "kept", qos=1, retain=True)
    subscriber = await t.connect("subscriber")
    for packet_id in (1, 2, 3):
        await t.subscribe(subscriber, t.topic, 0, packet_id)
        await subscriber.expect(t.message(t.topic, "kept", flags=1))
    await subscriber.ping()


@case("3.1.2-7", MQTT_3_1_1)
@case("3.3.1-5", MQTT_5)
async def a_retained_message_outlives_the_session_that_made_it(t):
    publisher = await t.connect("publisher")
    await t.publish(publisher, t.topic, "kept", qos=1, retain=True)
    await t.disconnect(publisher)
    subscriber = await t.connect("subscriber")
    await t.subscribe(subscriber, t.topic, 0)
    await subscriber.expect(t.message(t.topic, "kept", flags=1))


@case("3.10.4-3", MQTT_3_1_1, MQTT_5)
async def a_delivery_that_has_begun_is_finished_after_unsubscribe(t):
    subscriber = await t.connect("subscriber", clean=False)
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 2)
    await t.publish(publisher, t.topic, "one", qos=1)
    await t.publish(publisher, t.topic, "two", qos=2)
    await subscriber.expect(t.message(t.topic, "one", 1, 1), t.message(t.topic, "two", 2, 2))
    await subscriber.send(f'A2 ~ m9 {t.none} "{t.topic}"')
    await subscriber.expect("B0 ~ m9 {} 00" if t.version == MQTT_5 else "B0 02 m9")
    # Even on another connection.
    subscriber.close()
    subscriber = await t.connect("subscriber", clean=False, present=True)
    await subscriber.expect(t.message(t.topic, "one", 1, 1, flags=8), t.message(t.topic, "two", 2, 2, flags=8))
    await subscriber.send("40 02 m1", "50 02 m2")
    await subscriber.expect("62 02 m2")
    await subscriber.send("70 02 m2")
    await t.publish(publisher, t.topic, "three", qos=1)
    await subscriber.ping()


@case("3.9.3-1", MQTT_3_1_1)
async def the_return_codes_stand_in_the_order_of_the_filters_also_when_one_is_refused(t):
    client = await t.connect("client")
    await client.send(f'82 ~ m1 "{t.topic}/a" 02 "{TOO_DEEP}" 01 "{t.topic}/b" 00 "{t.topic}/c" 01')
    await client.expect("90 ~ m1 02 80 00 01")


@case("3.9.3-1", MQTT_5)
async def the_reason_codes_stand_in_the_order_of_the_filters_also_when_one_is_refused(t):
    client = await t.connect("client")
    await client.send(f'82 ~ m1 {{}} "{t.topic}/a" 02 "{TOO_DEEP}" 01 "{t.topic}/b" 00 "{t.topic}/c" 01')
    await client.expect("90 ~ m1 {} 02 8F 00 01")


@case("1.5.3-3", MQTT_3_1_1)
@case("1.5.4-3", MQTT_5)
async def a_byte_order_mark_is_a_part_of_a_topic(t):
    client = await t.connect("client")
    marked = f"\uFEFF{t.topic}"
    await t.subscribe(client, t.topic, 0)
    await t.publish(client, marked, "for nobody")
    await client.ping()
    await t.subscribe(client, marked, 0)
    await t.publish(client, marked, "marked")
    await client.expect(t.message(marked, "marked"))


@case("4.7.3-4", MQTT_3_1_1, MQTT_5)
async def topics_are_not_normalised(t):
    client = await t.connect("client")
    composed, decomposed = f"{t.topic}/\u00C5", f"{t.topic}/A\u030A"  # both show an A with a ring
    await t.subscribe(client, composed, 0)
    await t.publish(client, decomposed, "for nobody")
    await client.ping()
    await t.publish(client, composed, "composed")
    await client.expect(t.message(composed, "composed"))
