"""Sessions whose client goes away and comes back."""
from case import MQTT_3_1_1, MQTT_5, case

MANY = 200


@case("4.4.0-1", MQTT_3_1_1, MQTT_5)
async def unacknowledged_publish_and_pubrel_are_sent_again_with_their_identifiers_and_in_order(t):
    subscriber = await t.connect("subscriber", clean=False)
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 2)
    for n, qos in enumerate((2, 2, 2, 1, 2), 1):
        await t.publish(publisher, t.topic, str(n), qos=qos)
        await subscriber.expect(t.message(t.topic, str(n), qos, n))
    await subscriber.send("50 02 m1", "50 02 m3", "50 02 m5")
    await subscriber.expect("62 02 m1", "62 02 m3", "62 02 m5")
    await subscriber.send("70 02 m5")
    await subscriber.ping()
    for _ in range(2):
        subscriber.close()
        subscriber = await t.connect("subscriber", clean=False, present=True)
        await subscriber.expect("62 02 m1", t.message(t.topic, "2", 2, 2, flags=8), "62 02 m3",
                                t.message(t.topic, "4", 1, 4, flags=8))
    await subscriber.send("70 02 m1", "50 02 m2", "70 02 m3", "40 02 m4")
    await subscriber.expect("62 02 m2")
    await subscriber.send("70 02 m2")
    await subscriber.ping()


@case("4.5.0-1", MQTT_3_1_1, MQTT_5)
async def a_message_is_in_the_session_of_every_matching_client_that_is_away(t):
    names = [f"subscriber-{n}" for n in range(5)]
    for n, name in enumerate(names):
        subscriber = await t.connect(name, clean=False)
        await t.subscribe(subscriber, (f"{t.topic}/a", f"{t.topic}/+", f"{t.topic}/#")[n % 3], 1)
        await t.disconnect(subscriber)
    publisher = await t.connect("publisher")
    await t.publish(publisher, f"{t.topic}/a", "for all", qos=1)
    for name in names:
        subscriber = await t.connect(name, clean=False, present=True)
        await subscriber.expect(t.message(f"{t.topic}/a", "for all", 1, 1))
        await subscriber.send("40 02 m1")
        await subscriber.ping()


@case("4.6.0-5", MQTT_5)
async def messages_keep_their_order_through_the_queue_of_a_client_that_is_away_and_a_small_window(t):
    window = 3
    subscriber = await t.connect("subscriber", clean=False)
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 1)
    await t.disconnect(subscriber)
    for n in range(1, MANY + 1):
        await t.publish(publisher, t.topic, str(n), qos=1)
    subscriber = await t.connect("subscriber", clean=False, present=True, properties=f"21 H{window}")
    await subscriber.expect(*(t.message(t.topic, str(n), 1, n) for n in range(1, window + 1)))
    await subscriber.ping()  # and no more than the window
    for n in range(1, MANY + 1):
        await subscriber.send(f"40 02 m{n}")
        if n + window <= MANY:
            await subscriber.expect(t.message(t.topic, str(n + window), 1, n + window))
    await subscriber.ping()


@case("4.6.0-6", MQTT_3_1_1, MQTT_5)
async def messages_keep_their_order_through_a_connection_that_ends_in_the_middle(t):
    subscriber = await t.connect("subscriber", clean=False)
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 1)
    for n in range(1, 6):
        await t.publish(publisher, t.topic, str(n), qos=1)
    await subscriber.expect(*(t.message(t.topic, str(n), 1, n) for n in range(1, 6)))
    await subscriber.send("40 02 m1", "40 02 m2")
    await t.disconnect(subscriber)
    for n in range(6, 11):
        await t.publish(publisher, t.topic, str(n), qos=1)
    subscriber = await t.connect("subscriber", clean=False, present=True)
    await subscriber.expect(*(t.message(t.topic, str(n), 1, n, flags=8) for n in range(3, 6)),
                            *(t.message(t.topic, str(n), 1, n) for n in range(6, 11)))
    await subscriber.ping()


@case("3.1.4-3", MQTT_5)
@case("3.1.4-2", MQTT_3_1_1)
async def a_client_that_connects_twice_is_the_second_one(t):
    first = await t.connect("client")
    second = await t.connect("client")
    if t.version == MQTT_5:
        await first.expect("E0 01 8E")
    await first.closed()
    await second.ping()
