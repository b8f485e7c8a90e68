"""What a client may ask for in its CONNECT and the server then has to keep to."""
from case import MQTT_5, case
from packets import parse
from peer import Failure

ALIASES = 3


async def see_aliases(t, properties, most):
    """Messages of more topics than there are aliases, each topic three times: the client knows every topic, and no alias is past
    `most` [MQTT-3.3.2-8, 3.3.2-12]."""
    subscriber = await t.connect("subscriber", properties=properties)
    publisher = await t.connect("publisher")
    await t.subscribe(subscriber, f"{t.topic}/#", 0)
    known = {}
    for n in [*range(ALIASES + 2)] * 3:
        topic = f"{t.topic}/{n}".encode()
        await t.publish(publisher, topic.decode(), "x")
        got = await subscriber.must("a PUBLISH")
        if got == parse(f"30 ~ \"{topic.decode()}\" {{}} 'x'"):
            continue
        alias = next((a for a in range(1, most + 1)
                      if got in (parse(f"30 ~ \"{topic.decode()}\" {{ 23 H{a} }} 'x'"),
                                 parse(f"30 ~ \"\" {{ 23 H{a} }} 'x'") if known.get(a) == topic else None)), None)
        if alias is None:
            raise Failure(f"topic {topic}: {got.hex(' ')}")
        known[alias] = topic


@case("3.1.2-26", MQTT_5)
async def no_topic_alias_is_above_the_client_s_maximum(t):
    await see_aliases(t, f"22 H{ALIASES}", ALIASES)


@case("3.1.2-27", MQTT_5)
async def a_client_that_allows_no_topic_alias_gets_none(t):
    await see_aliases(t, "", 0)


@case("3.1.2-27", MQTT_5)
async def a_maximum_of_0_allows_none(t):
    await see_aliases(t, "22 H0", 0)


@case("3.1.2-28", MQTT_5)
async def response_information_is_not_told_to_who_did_not_ask(t):
    for name, properties in (("silent", ""), ("zero", "19 00")):
        client = await t.open(name)
        await client.send(t.connect_packet(name, properties=properties))
        connack = await client.must("a CONNACK")
        if b"\x1a" in connack[5:6]:  # the first property, in the order in which this server would put it
            raise Failure(f"{name}: Response Information in {connack.hex(' ')}")


@case("3.1.2-29", MQTT_5)
async def without_problem_information_refusals_are_codes_only(t):
    client = await t.connect("client", properties="17 00")
    await client.send("32 ~ \"$SYS/x\" m1 {} 'x'")
    await client.expect("40 03 m1 87")
    await client.send(f'82 ~ m2 {{}} "$share/s/{t.topic}" 00')
    await client.expect("90 04 m2 00 9E")
    await client.send(f'A2 ~ m3 {{}} "{t.topic}" ')
    await client.expect("B0 04 m3 00 11")
