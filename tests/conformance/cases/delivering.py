"""What a message becomes on its way from one client to others."""
from case import MQTT_3_1_1, MQTT_5, case
from packets import parse
from peer import Failure

PACKET_IDS = 65535
BATCH = 15  # below limits.receive_maximum, which bounds what is in flight to one client


@case("3.3.1-3", MQTT_3_1_1, MQTT_5)
async def dup_of_an_incoming_publish_is_not_passed_on(t):
    subscriber = await t.connect("subscriber")
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 2)
    await publisher.send(f"3A ~ \"{t.topic}\" m1 {t.none} 'one'")
    await publisher.expect("40 02 m1")
    await subscriber.expect(t.message(t.topic, "one", 1, 1))
    await publisher.send(f"3C ~ \"{t.topic}\" m2 {t.none} 'two'")
    await publisher.expect("50 02 m2")
    await subscriber.expect(t.message(t.topic, "two", 2, 2))


@case("4.3.3-10", MQTT_5)
@case("4.3.3-2", MQTT_3_1_1)
async def a_qos_2_message_that_is_sent_again_is_acknowledged_again_and_delivered_once(t):
    subscriber = await t.connect("subscriber")
    publisher = await t.connect("publisher", clean=False)
    await t.subscribe(subscriber, t.topic, 0)
    await publisher.send(f"34 ~ \"{t.topic}\" m1 {t.none} 'once'")
    await publisher.expect("50 02 m1")
    publisher.close()
    publisher = await t.connect("publisher", clean=False, present=True)
    for _ in range(5):
        await publisher.send(f"3C ~ \"{t.topic}\" m1 {t.none} 'once'")
        await publisher.expect("50 02 m1")
    await publisher.send("62 02 m1")
    await publisher.expect("70 02 m1")
    # Released, the identifier is free for another message.
    await t.publish(publisher, t.topic, "again", qos=2)
    await subscriber.expect(t.message(t.topic, "once"), t.message(t.topic, "again"))


@case("4.6.0-6", MQTT_3_1_1, MQTT_5)
async def a_topic_is_ordered_also_where_qos_1_and_2_are_mixed(t):
    subscriber = await t.connect("subscriber")
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 2)
    for n in range(1, 11):
        await publisher.send(f"{0x34 if n % 2 else 0x32:02X} ~ \"{t.topic}\" m{n} {t.none} '{n}'")
    for n in range(1, 11):
        await publisher.expect(f"{0x50 if n % 2 else 0x40:02X} 02 m{n}")
        await subscriber.expect(t.message(t.topic, str(n), 2 if n % 2 else 1, n))


@case("2.3.1-4", MQTT_3_1_1)
@case("2.2.1-4", MQTT_5)
async def packet_identifiers_in_flight_are_unique_also_past_65535(t):
    subscriber = await t.connect("subscriber")
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 1)
    await t.publish(publisher, t.topic, "held", qos=1)
    held = await subscriber.must("the message that is never acknowledged")
    message = parse(t.message(t.topic, "next", 1, 1))
    at = message.index(t.topic.encode()) + len(t.topic)
    held_id = held[at:at + 2]
    publishes = [message[:at] + n.to_bytes(2, "big") + message[at + 2:] for n in range(1, BATCH + 1)]
    acknowledgements = b"".join(b"\x40\x02" + n.to_bytes(2, "big") for n in range(1, BATCH + 1))
    for _ in range(PACKET_IDS // BATCH + 3):
        await publisher.send(*publishes)
        received = await subscriber.reader.readexactly(len(message) * BATCH)
        ids = {received[n + at:n + at + 2] for n in range(0, len(received), len(message))}
        if len(ids) != BATCH or held_id in ids or b"\0\0" in ids:
            raise Failure(f"identifiers in flight: {held_id.hex()} and {sorted(i.hex() for i in ids)}")
        await subscriber.send(*(b"\x40\x02" + i for i in ids))
        if await publisher.reader.readexactly(len(acknowledgements)) != acknowledgements:
            raise Failure("the publishes were not acknowledged in their order")


@case("3.3.5-2", MQTT_3_1_1)
async def a_publish_that_is_refused_is_not_acknowledged_but_closes(t):
    client = await t.connect("client")
    await client.send("32 ~ \"$SYS/broker/uptime\" m1 'x'", "C0 00")
    await client.closed()


@case("3.4.2-1", MQTT_5)
async def a_publish_that_is_refused_is_told_so_by_its_reason_code(t):
    client = await t.connect("client")
    await client.send("32 ~ \"$SYS/broker/uptime\" m1 {} 'x'", "34 ~ \"$share/a/b\" m2 {} 'x'")
    await client.expect("40 03 m1 87", "50 03 m2 87")
    await client.ping()


@case("4.13.1-1", MQTT_5)
@case("4.8.0-1", MQTT_3_1_1)
async def an_answer_that_does_not_fit_is_a_protocol_error(t):
    publisher = await t.connect("publisher")
    for qos, wrong in ((1, "50 02 m1"), (1, "70 02 m1"), (2, "40 02 m1"), (2, "70 02 m1")):
        subscriber = await t.connect("subscriber")
        await t.subscribe(subscriber, t.topic, qos)
        await t.publish(publisher, t.topic, "x", qos=qos)
        await subscriber.expect(t.message(t.topic, "x", qos, 1))
        await subscriber.send(wrong)
        if t.version == MQTT_5:
            await subscriber.expect("E0 01 82")
        await subscriber.closed()


@case("4.3.3-11", MQTT_5)
@case("4.3.3-2", MQTT_3_1_1)
async def answers_to_what_was_settled_before_are_harmless(t):
    client = await t.connect("client")
    await client.send("40 02 m7", "70 02 m7", "50 02 m7", "62 02 m7")
    await client.expect("62 02 m7", "70 02 m7")
    if t.version == MQTT_5:
        await client.send("50 03 m7 80")  # an error ends the exchange: nothing answers it
    await client.ping()
