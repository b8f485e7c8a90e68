/* The records of devices, beyond what core/device_record_test.c shows: options, and what MQTT 5.0's properties become. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" /* 55 bytes */

static struct mqtt_rig r;

static void open_with(const char *const *settings)
{
    mqtt_rig_open(&r, settings);
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    return 0;
}

static void login(struct mqtt_peer *p, uint8_t version, const char *user)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = user, .user = user, .password = "pw"}, false);
}

static void expect_header(size_t i, const char *name, const char *value)
{
    struct str got = fake_sink_header(fake_sink_record(&r.sink, i), str_from(name));

    if (!value && got.p)
        fail_msg("record %zu has a %s", i, name);
    if (value && !str_equal(got, str_from(value)))
        fail_msg("record %zu: %s is '%.*s', not '%s'", i, name, STR_ARG(got), value);
}

static void publish(struct mqtt_peer *p, const char *topic, uint16_t id)
{
    char text[16];

    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "x", .qos = 1, .packet_id = id});
    snprintf(text, sizeof text, "40 02 00 %02x", id);
    mqtt_peer_expect(p, text);
}

static void publish_three(void)
{
    struct mqtt_peer p;

    login(&p, 4, "g1@t1");
    publish(&p, "t//d2", 1);
    publish(&p, "t", 2);
    publish(&p, "e/t1/g1", 3);
    mqtt_peer_close(&p);
}

static void gateway_and_tenant_are_headers_only_by_option(void **state)
{
    static const struct {
        const char *settings[3];
        const char *gateway, *tenant;
    } rows[] = {
        {{NULL}, NULL, NULL},
        {{"hono.gateway_id=true", NULL}, "g1", NULL},
        {{"hono.tenant_id=true", NULL}, NULL, "t1"},
        {{"hono.gateway_id=true", "hono.tenant_id=true", NULL}, "g1", "t1"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_with(rows[i].settings);
        publish_three();
        expect_header(0, "device_id", "d2");
        expect_header(0, "gateway_id", rows[i].gateway);
        expect_header(1, "gateway_id", NULL); /* it speaks for itself */
        expect_header(2, "gateway_id", NULL);
        for (size_t k = 0; k < 3; k++)
            expect_header(k, "tenant_id", rows[i].tenant);
        if (i + 1 < ARRAY_LEN(rows))
            mqtt_rig_close(&r);
    }
}

static void a_trace_context_comes_from_user_properties(void **state)
{
    static const struct {
        const char *topic, *properties; /* with their length */
        const char *parent, *trace_state;
    } rows[] = {
        {"t", "00", NULL, NULL},
        {"t", "47 26 00 0b 'traceparent' 00 37 '" TRACE "'", TRACE, NULL},
        {"t", "5a 26 00 0b 'traceparent' 00 37 '" TRACE "' 26 00 0a 'tracestate' 00 04 'a=1b'", TRACE, "a=1b"},
        {"t", "13 26 00 0a 'tracestate' 00 04 'a=1b'", NULL, NULL}, /* not without the other */
        {"t", "11 26 00 0b 'traceparent' 00 01 'x'", NULL, NULL},
        {"t", "47 26 00 0b 'TraceParent' 00 37 '" TRACE "'", TRACE, NULL},
        {"t", "4f 26 00 01 'a' 00 02 'bc' 26 00 0b 'traceparent' 00 37 '" TRACE "'", TRACE, NULL},
        {"t/?traceparent=bag", "47 26 00 0b 'traceparent' 00 37 '" TRACE "'", TRACE, NULL},
        {"t/?traceparent=bag&tracestate=b", "00", "bag", "b"},
    };
    struct mqtt_peer p;

    (void)state;
    open_with(NULL);
    login(&p, 5, "d1@t1");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[512];

        snprintf(text, sizeof text, "32 ~~ 00 %02zx '%s' 00 01 %s 'x'", strlen(rows[i].topic), rows[i].topic,
                 rows[i].properties);
        mqtt_peer_send(&p, text);
        mqtt_peer_expect(&p, "40 02 00 01");
        expect_header(i, "traceparent", rows[i].parent);
        expect_header(i, "tracestate", rows[i].trace_state);
        expect_header(i, "a", NULL); /* other user properties stay behind */
    }
    mqtt_peer_close(&p);
}

static void a_payload_that_is_not_its_text_is_handled_as_the_device_asks(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with(NULL);
    login(&p, 5, "d1@t1");
    mqtt_peer_send(&p, "32 ~~ 00 01 't' 00 01 02 01 01 ff");
    mqtt_peer_expect(&p, "40 03 00 01 99");
    mqtt_peer_send(&p, "32 ~~ 00 12 't/?on-error=ignore' 00 01 02 01 01 ff");
    mqtt_peer_expect(&p, "40 03 00 01 80");
    mqtt_peer_send(&p, "32 ~~ 00 05 'plain' 00 01 02 01 01 ff");
    mqtt_peer_expect(&p, "40 03 00 01 99");
    assert_int_equal(fake_sink_count(&r.sink), 0);
    mqtt_peer_close(&p);
}

static void a_will_is_device_data_with_its_properties(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with(NULL);
    mqtt_rig_accept(&r, 0, &p);
    p.version = 5;
    mqtt_peer_send(&p, "10 ~~ 00 04 'MQTT' 05 ce 00 00 00 00 01 'c' "
                       "54 03 00 0a 'text/plain' 26 00 0b 'traceparent' 00 37 '" TRACE "' 00 05 'event' 00 04 'gone' "
                       "00 05 'd1@t1' 00 02 'pw'");
    assert_int_equal(mqtt_peer_skip(&p), 0x20);
    mqtt_peer_close(&p);
    for (int i = 0; i < 100 && fake_sink_count(&r.sink) == 0; i++)
        mqtt_rig_turn(&r);
    assert_int_equal(fake_sink_count(&r.sink), 1);
    expect_header(0, "content-type", "text/plain");
    expect_header(0, "traceparent", TRACE);
    expect_header(0, "orig_address", "event");
    expect_header(0, "qos", "1");
}

/* --- what else a 5.0 client may ask for --- */

static void connect_with(struct mqtt_peer *p, const char *keep_alive, const char *properties, struct str *out_connack)
{
    static char bytes[256];
    char text[256];

    mqtt_rig_accept(&r, 0, p);
    p->version = 5;
    snprintf(text, sizeof text, "10 ~~ 00 04 'MQTT' 05 02 %s %s 00 01 'c'", keep_alive, properties);
    mqtt_peer_send(p, text);
    *out_connack = (struct str){bytes, mqtt_peer_take(p, bytes, sizeof bytes)};
    assert_true(out_connack->n > 4 && bytes[3] == 0);
}

static bool has(struct str packet, const char *bytes, size_t n)
{
    return memmem(packet.p, packet.n, bytes, n) != NULL;
}

static void response_information_is_told_to_those_who_ask(void **state)
{
    static const char told[] = "\x1a\0\x05r/t/#";
    const char *const settings[] = {"listeners[0].response_information=r/t/#", NULL};
    struct str connack;
    struct mqtt_peer p;

    (void)state;
    open_with(settings);
    connect_with(&p, "00 00", "02 19 01", &connack);
    assert_true(has(connack, told, sizeof told - 1));
    mqtt_peer_close(&p);
    connect_with(&p, "00 00", "02 19 00", &connack);
    assert_false(has(connack, told, 3));
    mqtt_peer_close(&p);
    connect_with(&p, "00 00", "00", &connack);
    assert_false(has(connack, told, 3));
    mqtt_peer_close(&p);
}

/* [MQTT-3.1.2-21], [MQTT-3.2.2-21] */
static void the_server_s_keep_alive_is_told_and_enforced(void **state)
{
    const char *const settings[] = {"limits.keep_alive_maximum=60s", NULL};
    struct str connack;
    struct mqtt_peer p;

    (void)state;
    open_with(settings);
    connect_with(&p, "00 3c", "00", &connack);
    assert_false(has(connack, "\x13\0\x3c", 3));
    mqtt_peer_close(&p);
    connect_with(&p, "00 00", "00", &connack);
    assert_true(has(connack, "\x13\0\x3c", 3));
    mqtt_peer_close(&p);
    connect_with(&p, "00 78", "00", &connack);
    assert_true(has(connack, "\x13\0\x3c", 3));
    mqtt_rig_pass_ms(&r, 90001);
    mqtt_peer_expect(&p, "e0 01 8d");
    mqtt_peer_expect_end(&p);
}

/* [MQTT-3.1.2-29]: nothing we send to it has a Reason String or User Properties but what publishers put into a PUBLISH. */
static void without_problem_information_reasons_are_codes_only(void **state)
{
    struct str connack;
    struct mqtt_peer p;

    (void)state;
    open_with(NULL);
    connect_with(&p, "00 00", "02 17 00", &connack);
    mqtt_peer_send(&p, "32 ~~ 00 01 't' 00 01 00 'x'");
    mqtt_peer_expect(&p, "40 03 00 01 87");
    mqtt_peer_send(&p, "82 ~~ 00 01 00 00 09 'error///#' 00");
    mqtt_peer_expect(&p, "90 04 00 01 00 87");
    mqtt_peer_send(&p, "a2 ~~ 00 01 00 00 01 'x'");
    mqtt_peer_expect(&p, "b0 04 00 01 00 11");
    mqtt_peer_close(&p);
}

/* --- topic aliases of our own --- */

static void deliver(struct mqtt_peer *publisher, const char *topic)
{
    mqtt_peer_publish(publisher, &(struct mqtt_peer_publish){.topic = topic, .payload = "x"});
}

static void subscribe_with_aliases(struct mqtt_peer *p, const char *properties)
{
    struct str connack;

    connect_with(p, "00 00", properties, &connack);
    mqtt_peer_subscribe(p, "#", 0);
}

static void the_first_topics_go_by_alias_when_the_client_allows_it(void **state)
{
    struct mqtt_peer p, publisher;

    (void)state;
    open_with(NULL);
    subscribe_with_aliases(&p, "03 22 00 02");
    login(&publisher, 4, "d1@t1");
    deliver(&publisher, "some/topic");
    mqtt_peer_expect(&p, "30 ~~ 00 0a 'some/topic' 03 23 00 01 'x'"); /* the first one sets it already */
    deliver(&publisher, "some/topic");
    mqtt_peer_expect(&p, "30 ~~ 00 00 03 23 00 01 'x'");
    deliver(&publisher, "abc"); /* an alias would be no shorter */
    mqtt_peer_expect(&p, "30 ~~ 00 03 'abc' 00 'x'");
    deliver(&publisher, "other");
    mqtt_peer_expect(&p, "30 ~~ 00 05 'other' 03 23 00 02 'x'");
    for (int i = 0; i < 2; i++) { /* no alias is left */
        deliver(&publisher, "third");
        mqtt_peer_expect(&p, "30 ~~ 00 05 'third' 00 'x'");
    }
    deliver(&publisher, "other");
    mqtt_peer_expect(&p, "30 ~~ 00 00 03 23 00 02 'x'");
    deliver(&publisher, "some/topic");
    mqtt_peer_expect(&p, "30 ~~ 00 00 03 23 00 01 'x'");
    mqtt_peer_close(&p);
    subscribe_with_aliases(&p, "03 22 00 02"); /* they end with the connection */
    deliver(&publisher, "other");
    mqtt_peer_expect(&p, "30 ~~ 00 05 'other' 03 23 00 01 'x'");
    mqtt_peer_close(&p);
    mqtt_peer_close(&publisher);
}

static void aliases_are_bounded_by_client_and_option(void **state)
{
    const char *const settings[] = {"limits.outgoing_topic_aliases=1", NULL};
    struct mqtt_peer few, none, publisher;

    (void)state;
    open_with(settings);
    login(&publisher, 4, "d1@t1");
    subscribe_with_aliases(&few, "03 22 ff ff");
    mqtt_rig_accept(&r, 0, &none);
    mqtt_peer_connect(&none, &(struct mqtt_peer_connect){.version = 5, .id = "none"}, false);
    mqtt_peer_subscribe(&none, "#", 0);
    deliver(&publisher, "topic/1");
    deliver(&publisher, "topic/2");
    deliver(&publisher, "topic/1");
    mqtt_peer_expect(&few, "30 0e 00 07 'topic/1' 03 23 00 01 'x'  30 0b 00 07 'topic/2' 00 'x'  30 07 00 00 03 23 00 01 'x'");
    mqtt_peer_expect(&none, "30 0b 00 07 'topic/1' 00 'x'  30 0b 00 07 'topic/2' 00 'x'  30 0b 00 07 'topic/1' 00 'x'");
    mqtt_peer_close(&few);
    mqtt_peer_close(&none);
    mqtt_peer_close(&publisher);
}

static void an_alias_never_makes_a_packet_too_large(void **state)
{
    struct mqtt_peer p, publisher;

    (void)state;
    open_with(NULL);
    login(&publisher, 4, "d1@t1");
    subscribe_with_aliases(&p, "08 22 00 02 27 00 00 00 12"); /* 18 bytes at most */
    deliver(&publisher, "exactly/18");
    deliver(&publisher, "exactly/18");
    deliver(&publisher, "seventeen");
    mqtt_peer_expect(&p, "30 0e 00 0a 'exactly/18' 00 'x'");
    mqtt_peer_expect(&p, "30 0e 00 0a 'exactly/18' 00 'x'");
    mqtt_peer_expect(&p, "30 10 00 09 'seventeen' 03 23 00 01 'x'");
    mqtt_peer_close(&p);
    mqtt_peer_close(&publisher);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gateway_and_tenant_are_headers_only_by_option),
        TEST(a_trace_context_comes_from_user_properties),
        TEST(a_payload_that_is_not_its_text_is_handled_as_the_device_asks),
        TEST(a_will_is_device_data_with_its_properties),
        TEST(response_information_is_told_to_those_who_ask),
        TEST(the_server_s_keep_alive_is_told_and_enforced),
        TEST(without_problem_information_reasons_are_codes_only),
        TEST(the_first_topics_go_by_alias_when_the_client_allows_it),
        TEST(aliases_are_bounded_by_client_and_option),
        TEST(an_alias_never_makes_a_packet_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
