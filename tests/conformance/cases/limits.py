"""The client's Maximum Packet Size. No packet of this server carries what could be left out of it (Reason String, User
Property), so what is to be shown is that each is in its shortest form and that no packet over the limit is ever sent."""
from case import MQTT_5, case
from peer import Failure

# Just enough for the CONNACK, and more than any answer needs.
SMALL = 64


@case("3.2.2-20", MQTT_5)
async def a_connack_is_not_larger_than_the_client_allows(t):
    client = await t.open("client")
    await client.send(t.connect_packet("client"))
    size = len(await client.must("a CONNACK"))
    await t.connect("client", properties=f"27 L{size}")
    client = await t.open("client")
    await client.send(t.connect_packet("client", properties=f"27 L{size - 1}"))
    await client.closed()


@case("3.4.2-3", MQTT_5)
@case("3.5.2-3", MQTT_5)
@case("3.6.2-3", MQTT_5)
@case("3.7.2-3", MQTT_5)
async def acknowledgements_are_in_their_shortest_form(t):
    client = await t.connect("client", properties=f"27 L{SMALL}")
    await t.subscribe(client, "a", 2)
    long = "x" * SMALL
    await client.send(f"32 ~ \"$SYS/{long}\" m1 {{}} ''", f"34 ~ \"$SYS/{long}\" m2 {{}} ''", "50 02 m3", "62 02 m4")
    await client.expect("40 03 m1 87", "50 03 m2 87", "62 02 m3", "70 02 m4")


@case("3.9.2-2", MQTT_5)
@case("3.11.2-2", MQTT_5)
async def answers_to_subscribe_and_unsubscribe_are_in_their_shortest_form(t):
    client = await t.connect("client", properties=f"27 L{SMALL}")
    await client.send(f'82 ~ m1 {{}} "{t.topic}/{"x/" * 129}" 00', f'A2 ~ m2 {{}} "{t.topic}"')
    await client.expect("90 ~ m1 {} 8F", "B0 ~ m2 {} 11")


@case("3.14.2-3", MQTT_5)
async def a_disconnect_of_the_server_is_in_its_shortest_form(t):
    client = await t.connect("client", properties=f"27 L{SMALL}")
    await client.send(t.connect_packet("client"))
    await client.expect("E0 01 82")
    await client.closed()


@case("3.1.2-25", MQTT_5)
async def a_message_over_the_limit_is_dropped_as_if_it_had_been_sent(t):
    subscriber = await t.connect("subscriber", clean=False, properties="27 L200 21 H1")
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, t.topic, 1)
    await t.publish(publisher, t.topic, "x" * 200, qos=1)
    await t.publish(publisher, t.topic, "fits", qos=1)
    got = await subscriber.must("the message that fits")
    if not got.endswith(b"fits"):
        raise Failure(f"wanted the message that fits, got {got!r}")
    await subscriber.ping()
