/* Subscriptions to errors, and what a device is told of its publishes that fail (docs/DEVICES.md). */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/mqtt/mqtt_worker.h"
#include "base/check.h"
#include "proto/mqtt/packet.h"

enum { PACKET_BYTES = 4096 };

static struct mqtt_rig r;

static int set_up(void **state)
{
    (void)state;
    mqtt_rig_open(&r, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    return 0;
}

static void login_as(struct mqtt_peer *p, uint8_t version, const char *user, const char *id)
{
    struct mqtt_peer_connect connect = {.version = version, .id = id, .user = user, .password = user ? "pw" : NULL};

    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &connect, false);
}

static void login(struct mqtt_peer *p, uint8_t version, const char *user)
{
    login_as(p, version, user, "c");
}

static void publish(struct mqtt_peer *p, const char *topic, uint8_t qos, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "x", .qos = qos, .packet_id = qos ? id : 0});
}

static void expect_alive(struct mqtt_peer *p)
{
    mqtt_peer_send(p, "c0 00");
    mqtt_peer_expect(p, "d0 00");
}

/* The next packet must be an error on this topic, with this beginning of its text. */
static void expect_error(struct mqtt_peer *p, const char *topic, const char *body)
{
    char bytes[PACKET_BYTES];
    struct str packet = {bytes, mqtt_peer_take(p, bytes, sizeof bytes)};
    struct mqtt_publish got;
    struct mqtt_frame frame;

    assert_int_equal(mqtt_frame_decode(packet, (enum mqtt_version)p->version, MQTT_PACKET_SIZE_MAX, &frame), DECODE_DONE);
    if (frame.type != MQTT_PUBLISH)
        fail_msg("packet type %d instead of an error on %s", frame.type, topic);
    assert_int_equal(mqtt_publish_decode_from_server(&frame, (enum mqtt_version)p->version, &got), MQTT_REASON_SUCCESS);
    if (!str_equal(got.topic, str_from(topic)))
        fail_msg("%.*s instead of %s", STR_ARG(got.topic), topic);
    if (!str_starts_with(got.payload, str_from(body)))
        fail_msg("%.*s instead of %s", STR_ARG(got.payload), body);
    assert_true(got.qos == 0 && !got.retain && !got.dup);
    if (p->version == 5)
        assert_true(str_equal(got.properties.content_type, STR("application/json")));
}

/* --- subscriptions --- */

static void subscribe(struct mqtt_peer *p, const char *filter, uint8_t qos, const char *answer)
{
    char text[160];

    if (p->version == 5)
        snprintf(text, sizeof text, "82 ~~ 00 07 00 00 %02zx '%s' %02x", strlen(filter), filter, qos);
    else
        snprintf(text, sizeof text, "82 ~~ 00 07 00 %02zx '%s' %02x", strlen(filter), filter, qos);
    mqtt_peer_send(p, text);
    snprintf(text, sizeof text, p->version == 5 ? "90 04 00 07 00 %s" : "90 03 00 07 %s", answer);
    mqtt_peer_expect(p, text);
}

static void unsubscribe(struct mqtt_peer *p, const char *filter, const char *answer)
{
    char text[160];

    snprintf(text, sizeof text, "a2 ~~ 00 08 00 00 %02zx '%s'", strlen(filter), filter);
    mqtt_peer_send(p, text);
    snprintf(text, sizeof text, "b0 04 00 08 00 %s", answer);
    mqtt_peer_expect(p, text);
}

static void only_hono_s_filters_are_granted(void **state)
{
    static const struct {
        const char *user, *filter;
        uint8_t qos;
        const char *answer;
    } rows[] = {
        {"d1@t1", "error///#", 0, "00"},   {"d1@t1", "e///#", 0, "00"},         {"d1@t1", "error/t1/d1/#", 0, "00"},
        {"d1@t1", "error//d1/#", 0, "00"}, {"d1@t1", "error//+/#", 0, "00"},    {"d1@t1", "error/t1//#", 0, "00"},
        {"g1@t1", "e//d2/#", 0, "00"},     {"g1@t1", "e/t1/+/#", 0, "00"},      {NULL, "error/t1/d1/#", 0, "00"},
        {"d1@t1", "error///#", 1, "80"},   {"d1@t1", "error///#", 2, "80"},     {"d1@t1", "error", 0, "80"},
        {"d1@t1", "e/#", 0, "80"},         {"d1@t1", "error/+/d1/#", 0, "80"},  {"d1@t1", "error//d1", 0, "80"},
        {"d1@t1", "error//d1/+", 0, "80"}, {"d1@t1", "error//d1/t/#", 0, "80"}, {"d1@t1", "error/t2/d1/#", 0, "87"},
        {"d1@t1", "error//d2/#", 0, "87"}, {"g1@t1", "error//d3/#", 0, "87"},   {"g1@t1", "error//nobody/#", 0, "87"},
        {NULL, "error///#", 0, "87"},      {NULL, "error/t1//#", 0, "87"},      {NULL, "error/t2/d1/#", 0, "87"},
        {"d1@t1", "errors/#", 1, "01"},    {"d1@t1", "+/#", 1, "01"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (uint8_t version = 4; version <= 5; version++) {
            struct mqtt_peer p;

            login(&p, version, rows[i].user);
            subscribe(&p, rows[i].filter, rows[i].qos, version == 4 && rows[i].answer[0] == '8' ? "80" : rows[i].answer);
            expect_alive(&p);
            mqtt_peer_close(&p);
        }
    }
}

static void they_are_no_ordinary_subscriptions_and_can_be_given_up(void **state)
{
    struct mqtt_peer p;

    (void)state;
    login(&p, 5, "d1@t1");
    subscribe(&p, "error///#", 0, "00");
    subscribe(&p, "error//+/#", 0, "00");
    subscribe(&p, "error///#", 0, "00"); /* again */
    assert_int_equal(mqtt_rig_metric("millrace_subscriptions", NULL), 0);
    unsubscribe(&p, "error///#", "00");
    unsubscribe(&p, "error///#", "11");
    publish(&p, "t//d3", 1, 1);
    expect_error(&p, "error//d3/t/1/403", "{\"code\":403,");
    mqtt_peer_expect(&p, "40 03 00 01 87");
    unsubscribe(&p, "error//+/#", "00");
    publish(&p, "t//d3", 1, 1);
    mqtt_peer_expect(&p, "40 03 00 01 87");
    mqtt_peer_close(&p);
}

static void there_are_at_most_as_many_as_subscriptions(void **state)
{
    const char *const settings[] = {"limits.subscriptions_per_session=2", NULL};
    struct mqtt_peer p;

    (void)state;
    mqtt_rig_open(&r, settings);
    login(&p, 5, "d1@t1");
    subscribe(&p, "error///#", 0, "00");
    subscribe(&p, "error//d1/#", 0, "00");
    subscribe(&p, "error//+/#", 0, "97");
    mqtt_peer_close(&p);
}

/* --- the table of on-error --- */

enum effect { CLOSED, ACKNOWLEDGED, SILENT };

static const struct {
    const char *bag;
    bool is_subscribed;
    enum effect effect; /* of 3.1.1 */
    const char *reason; /* of the PUBACK in 5.0 at QoS 1 and 2; NULL: as in 3.1.1 */
} table[] = {
    {"", false, CLOSED, ""},
    {"/?on-error=default", false, CLOSED, ""},
    {"/?on-error=disconnect", false, CLOSED, NULL},
    {"/?on-error=ignore", false, ACKNOWLEDGED, "80"},
    {"/?on-error=skip-ack", false, SILENT, NULL},
    {"", true, ACKNOWLEDGED, ""},
    {"/?on-error=default", true, ACKNOWLEDGED, ""},
    {"/?on-error=disconnect", true, CLOSED, NULL},
    {"/?on-error=ignore", true, ACKNOWLEDGED, "80"},
    {"/?on-error=skip-ack", true, SILENT, NULL},
};

/* One publish that fails: at once, because d1 may not speak for d3, or later, when Kafka has had its time. */
static void check_row(size_t i, uint8_t version, uint8_t qos, bool is_late)
{
    const char *reason = is_late ? "83" : "87";
    enum effect effect = table[i].effect;
    char topic[64], text[64];
    struct mqtt_peer p;

    login(&p, version, "d1@t1");
    if (table[i].is_subscribed)
        subscribe(&p, "error///#", 0, "00");
    if (is_late)
        fake_sink_add_step(&r.sink, OUTCOME_UNAVAILABLE, false);
    snprintf(topic, sizeof topic, "telemetry%s%s", is_late ? "" : "//d3", table[i].bag);
    publish(&p, topic, qos, 9);
    if (is_late && qos == 0) { /* nobody waits for it */
        expect_alive(&p);
        mqtt_peer_close(&p);
        return;
    }
    if (table[i].is_subscribed) {
        snprintf(text, sizeof text, "error/%s/telemetry/%d/%d", is_late ? "/" : "/d3", qos ? 9 : -1, is_late ? 503 : 403);
        expect_error(&p, text, is_late ? "{\"code\":503,\"message\":\"temporarily" : "{\"code\":403,\"message\":\"not auth");
    }
    if (version == 5 && qos && table[i].reason) {
        effect = ACKNOWLEDGED;
        reason = *table[i].reason ? table[i].reason : reason;
    }
    if (effect == CLOSED) {
        snprintf(text, sizeof text, "e0 01 %s", reason);
        if (version == 5)
            mqtt_peer_expect(&p, text);
        mqtt_peer_expect_end(&p);
        return;
    }
    if (effect == ACKNOWLEDGED && qos) {
        snprintf(text, sizeof text, version == 5 ? "%d0 03 00 09 %s" : "%d0 02 00 09", qos == 2 ? 5 : 4, reason);
        mqtt_peer_expect(&p, text);
    }
    expect_alive(&p);
    mqtt_peer_close(&p);
}

static void on_error_and_a_subscription_say_what_is_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        for (uint8_t version = 4; version <= 5; version++)
            for (uint8_t qos = 0; qos <= 2; qos++)
                for (int is_late = 0; is_late <= 1; is_late++) {
                    check_row(i, version, qos, is_late);
                    mqtt_rig_check_ledger();
                }
}

static void what_was_lost_counts_as_rejected_though_it_was_acknowledged(void **state)
{
    int64_t rejected = mqtt_rig_metric("millrace_messages_rejected_total", "route=\"telemetry\",reason=\"unavailable\"");
    int64_t acknowledged = mqtt_rig_metric("millrace_messages_acknowledged_total", "route=\"telemetry\"");
    int64_t told = mqtt_rig_metric("millrace_mqtt_device_errors_total", NULL);
    struct mqtt_peer p;

    (void)state;
    login(&p, 4, "d1@t1");
    subscribe(&p, "error///#", 0, "00");
    fake_sink_add_step(&r.sink, OUTCOME_UNAVAILABLE, false);
    publish(&p, "telemetry", 1, 1);
    expect_error(&p, "error///telemetry/1/503", "{\"code\":503,");
    mqtt_peer_expect(&p, "40 02 00 01");
    assert_int_equal(mqtt_rig_metric("millrace_messages_rejected_total", "route=\"telemetry\",reason=\"unavailable\""),
                     rejected + 1);
    assert_int_equal(mqtt_rig_metric("millrace_messages_acknowledged_total", "route=\"telemetry\""), acknowledged);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_device_errors_total", NULL), told + 1);
    mqtt_peer_close(&p);
}

static void errors_leave_in_the_order_of_the_publishes(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 4, "d1@t1");
    subscribe(&p, "e///#", 0, "00");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "e//d3/?correlation-id=abc", 1, 2);
    publish(&p, "event", 2, 3);
    publish(&p, "t", 1, 4);
    fake_sink_answer(&r.sink, 2, OUTCOME_STORED);
    fake_sink_answer(&r.sink, 1, OUTCOME_TOO_LARGE);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_error(&p, "e//d3/e/abc/403", "{\"code\":403,");
    mqtt_peer_expect(&p, "40 02 00 02");
    expect_error(&p, "e///event/3/413", "{\"code\":413,\"message\":\"message is too large\"");
    mqtt_peer_expect(&p, "50 02 00 03  40 02 00 04");
    mqtt_peer_send(&p, "62 02 00 03"); /* an exchange as any other, to the client */
    mqtt_peer_expect(&p, "70 02 00 03");
    mqtt_peer_close(&p);
}

/* --- what is told, and to whom --- */

static void the_topic_names_what_failed_and_the_text_says_why(void **state)
{
    static const struct {
        const char *user, *filter, *topic;
        uint8_t qos;
        const char *error, *body;
    } rows[] = {
        {"d1@t1", "error///#", "event", 0, "error///event/-1/400", "{\"code\":400,\"message\":\"event with QoS 0\","},
        {"d1@t1", "e///#", "e", 0, "e///e/-1/400", "{\"code\":400,\"message\":\"event with QoS 0\","},
        {"d1@t1", "error/t1/d1/#", "t/t1", 1, "error/t1/d1/t/5/400", "{\"code\":400,\"message\":\"topic names a tenant"},
        {"d1@t1", "error//+/#", "t/?on-error=%zz", 1, "error///t/5/400", "{\"code\":400,\"message\":\"malformed property bag"},
        {"d1@t1", "error///#", "error/x", 1, "error///unknown/5/404", "{\"code\":404,\"message\":\"no such endpoint"},
        {"d1@t1", "error///#", "t/t2/d1", 1, "error///t/5/403", "{\"code\":403,"},
        {"g1@t1", "error//+/#", "telemetry//d3", 1, "error//d3/telemetry/5/403", "{\"code\":403,"},
        {"g1@t1", "error//+/#", "t//nobody", 1, "error//nobody/t/5/404", "{\"code\":404,\"message\":\"device is unknown"},
        {"g1@t1", "error//d2/#", "t//d2/?correlation-id=a%2Fb", 0, NULL, NULL},
        {"g1@t1", "error//d2/#", "e//d2/?correlation-id=a%2Fb", 0, "error//d2/e/-1/400", "{\"code\":400,"},
        {NULL, "error/t1/d1/#", "t/t1/d1", 1, "error/t1/d1/t/5/403", "{\"code\":403,"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_peer p;

        login(&p, 4, rows[i].user);
        subscribe(&p, rows[i].filter, 0, "00");
        publish(&p, rows[i].topic, rows[i].qos, 5);
        if (rows[i].error)
            expect_error(&p, rows[i].error, rows[i].body);
        if (rows[i].qos)
            mqtt_peer_expect(&p, "40 02 00 05");
        expect_alive(&p);
        mqtt_peer_close(&p);
    }
}

static void the_subscription_that_names_the_device_goes_first(void **state)
{
    struct mqtt_peer p;

    (void)state;
    login(&p, 4, "g1@t1");
    subscribe(&p, "e//+/#", 0, "00");
    subscribe(&p, "error//d2/#", 0, "00");
    publish(&p, "e//d2", 0, 0);
    expect_error(&p, "error//d2/e/-1/400", "{");
    publish(&p, "e//d3", 0, 0);
    expect_error(&p, "e//d3/e/-1/403", "{");
    publish(&p, "e", 0, 0);
    expect_error(&p, "e///e/-1/400", "{");
    mqtt_peer_expect_nothing(&p);
    mqtt_peer_close(&p);
}

static void without_a_subscription_for_it_an_error_is_none_that_was_told(void **state)
{
    struct mqtt_peer p;

    (void)state;
    login(&p, 4, "g1@t1");
    subscribe(&p, "error//d2/#", 0, "00");
    publish(&p, "e", 0, 0); /* the gateway's own */
    mqtt_peer_expect_end(&p);
}

static void one_that_ends_before_the_outcome_is_none(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 5, "d1@t1");
    subscribe(&p, "error///#", 0, "00");
    publish(&p, "telemetry", 1, 1);
    unsubscribe(&p, "error///#", "00");
    fake_sink_answer(&r.sink, 0, OUTCOME_FAILED);
    mqtt_peer_expect(&p, "40 03 00 01 80");
    mqtt_peer_close(&p);
}

static void errors_go_to_the_connection_that_published_and_end_with_it(void **state)
{
    struct mqtt_peer_connect connect = {.version = 4, .id = "one", .user = "d1@t1", .password = "pw", .is_persistent = true};
    struct mqtt_peer p, other;

    (void)state;
    fake_sink_hold(&r.sink);
    login_as(&other, 4, "d1@t1", "two");
    subscribe(&other, "error///#", 0, "00");
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &connect, false);
    subscribe(&p, "error///#", 0, "00");
    publish(&p, "telemetry", 1, 1);
    mqtt_peer_close(&p);
    mqtt_rig_turn(&r);
    fake_sink_answer(&r.sink, 0, OUTCOME_UNAVAILABLE);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &connect, true);
    publish(&p, "event", 0, 0);
    mqtt_peer_expect_end(&p);
    mqtt_peer_expect_nothing(&other);
    mqtt_peer_close(&other);
}

static void the_subscription_identifier_is_told(void **state)
{
    char bytes[PACKET_BYTES];
    struct mqtt_peer p;
    size_t n;

    (void)state;
    login(&p, 5, "d1@t1");
    mqtt_peer_send(&p, "82 ~~ 00 07 02 0b 4d 00 09 'error///#' 00");
    mqtt_peer_expect(&p, "90 04 00 07 00 00");
    publish(&p, "event", 0, 0);
    n = mqtt_peer_take(&p, bytes, sizeof bytes);
    assert_true(n > 0 && memmem(bytes, n, "\x0b\x4d{\"code\"", 9) != NULL);
    mqtt_peer_close(&p);
}

/* Told neither by a packet too large for it nor by silence. */
static void an_error_the_client_cannot_take_is_none_that_was_told(void **state)
{
    int64_t untold = mqtt_rig_metric("millrace_mqtt_device_errors_untold_total", NULL);
    struct mqtt_peer p;

    (void)state;
    mqtt_rig_accept(&r, 0, &p);
    p.version = 5;
    mqtt_peer_send(&p, "10 ~~ 00 04 'MQTT' 05 c2 00 00 05 27 00 00 00 32 00 01 'c' 00 05 'd1@t1' 00 02 'pw'");
    assert_int_equal(mqtt_peer_skip(&p), 0x20);
    subscribe(&p, "error///#", 0, "00");
    publish(&p, "event", 0, 0);
    mqtt_peer_expect(&p, "e0 01 83");
    mqtt_peer_expect_end(&p);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_device_errors_untold_total", NULL), untold + 1);
}

/* --- terminal errors --- */

#define TENANTS(d1, g1, t1)                                                                                                    \
    "kafka: {bootstrap: 'nowhere:9092'}\n"                                                                                     \
    "listeners: [{mqtt: '127.0.0.1:0', tenant: t1, anonymous: true}]\n"                                                        \
    "tenants: {t1: {" t1 "devices: {d1: {password: pw" d1 "}, g1: {password: pw" g1 "}, d2: {via: g1}}}}\n"

/* A worker may find a device gone before its connection is told to close: here only the registry changes. */
static void what_concerns_the_sender_itself_closes_whatever_it_asked_for(void **state)
{
    static const struct {
        const char *config, *user, *topic, *error;
    } rows[] = {
        {TENANTS(", enabled: false", "", ""), "d1@t1", "t/?on-error=ignore", "error///t/1/404"},
        {TENANTS(", enabled: false", "", ""), "d1@t1", "t/?on-error=skip-ack", "error///t/1/404"},
        {TENANTS("", ", enabled: false", ""), "g1@t1", "t//d2/?on-error=ignore", "error//d2/t/1/403"},
        {TENANTS("", "", "enabled: false, "), "d1@t1", "t/?on-error=ignore", "error///t/1/404"},
        {TENANTS("", "", "adapters: [{type: hono-mqtt, enabled: false}], "), "d1@t1", "t/?on-error=ignore", "error///t/1/403"},
        {TENANTS("", "", ""), "g1@t1", "t//d3/?on-error=ignore", NULL}, /* another's: not terminal */
    };

    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        struct generation *before, *changed = mqtt_rig_load(rows[i / 2].config);
        uint8_t version = i % 2 ? 5 : 4;
        struct mqtt_worker *mw;
        struct mqtt_peer p;

        login_as(&p, version, rows[i / 2].user, "c");
        subscribe(&p, "error///#", 0, "00");
        mw = &r.adapter->workers[mqtt_rig_home(&r, "t1", rows[i / 2].user[0] == 'd' ? "d1" : "g1")];
        before = mw->generation;
        mw->generation = changed;
        publish(&p, rows[i / 2].topic, 1, 1);
        if (rows[i / 2].error) {
            expect_error(&p, rows[i / 2].error, "{");
            if (version == 5)
                assert_int_equal(mqtt_peer_skip(&p), 0xe0);
            mqtt_peer_expect_end(&p);
        } else {
            expect_error(&p, "error//d3/t/1/404", "{");
            mqtt_peer_expect(&p, version == 5 ? "40 03 00 01 80" : "40 02 00 01");
            mqtt_peer_close(&p);
            mqtt_rig_turn(&r);
        }
        mw->generation = before;
        generation_unref(changed);
    }
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_AS_IT_IS(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_hono_s_filters_are_granted),
        TEST(they_are_no_ordinary_subscriptions_and_can_be_given_up),
        TEST_AS_IT_IS(there_are_at_most_as_many_as_subscriptions),
        TEST(on_error_and_a_subscription_say_what_is_done),
        TEST(what_was_lost_counts_as_rejected_though_it_was_acknowledged),
        TEST(errors_leave_in_the_order_of_the_publishes),
        TEST(the_topic_names_what_failed_and_the_text_says_why),
        TEST(the_subscription_that_names_the_device_goes_first),
        TEST(without_a_subscription_for_it_an_error_is_none_that_was_told),
        TEST(one_that_ends_before_the_outcome_is_none),
        TEST(errors_go_to_the_connection_that_published_and_end_with_it),
        TEST(the_subscription_identifier_is_told),
        TEST(an_error_the_client_cannot_take_is_none_that_was_told),
        TEST(what_concerns_the_sender_itself_closes_whatever_it_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
