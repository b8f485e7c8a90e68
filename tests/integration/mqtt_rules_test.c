/* What rules make of publishes, wills and events, and how clients are told. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static struct mqtt_rig r;

static void open_with(const char *rules, const char *more)
{
    char text[1500];
    const char *const settings[] = {text, more, NULL};

    snprintf(text, sizeof text, "to_kafka=[%s]", rules);
    mqtt_rig_open(&r, settings);
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

static void login(struct mqtt_peer *p, uint8_t version, const char *id)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = id}, false);
}

static void publish(struct mqtt_peer *p, const char *topic, uint8_t qos, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "x", .qos = qos, .packet_id = id});
}

static void expect_alive(struct mqtt_peer *p)
{
    mqtt_peer_send(p, "c0 00");
    mqtt_peer_expect(p, "d0 00");
}

static void expect_text(struct str got, const char *want)
{
    if (!str_equal(got, str_from(want)))
        fail_msg("'%.*s' instead of '%s'", STR_ARG(got), want);
}

static void expect_record(size_t i, const char *topic, const char *key, const char *value)
{
    const struct fake_record *record;

    assert_true(i < fake_sink_count(&r.sink));
    record = fake_sink_record(&r.sink, i);
    expect_text(record->topic, topic);
    expect_text(record->key, key);
    if (value)
        expect_text(record->value, value);
    else
        assert_null(record->value.p);
}

static void expect_header(size_t i, const char *name, const char *value)
{
    expect_text(fake_sink_header(fake_sink_record(&r.sink, i), str_from(name)), value);
}

static int64_t counted(const char *metric, const char *route)
{
    char name[64], label[64];

    snprintf(name, sizeof name, "millrace_messages_%s", metric);
    snprintf(label, sizeof label, "route=\"%s\"", route);
    return mqtt_rig_metric(name, label);
}

/* --- records --- */

static void a_publish_becomes_the_record_of_the_first_rule(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: 'plant/{site}/+/{rest#}', topic: 'plant.{site}', key: '{client_id}', headers: {rest: '{rest}'}},"
              "{mqtt: 'plant/#', topic: other}",
              NULL);
    login(&p, 5, "c1");
    /* Content Type, a user property, and one that would forge a header. */
    mqtt_peer_send(&p, "32 ~~ 00 0d 'plant/b_1/x/y' 00 01 29 03 00 0a 'text/plain' 26 00 01 'k' 00 01 'v'"
                       "26 00 0a 'mqtt.topic' 00 06 'forged' '42'");
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "plant", 1, 2);
    mqtt_peer_expect(&p, "40 02 00 02");
    publish(&p, "elsewhere", 1, 3);
    mqtt_peer_expect(&p, "40 02 00 03");
    assert_int_equal(fake_sink_count(&r.sink), 2);
    expect_record(0, "plant.b__1", "c1", "42");
    expect_header(0, "mqtt.topic", "plant/b_1/x/y");
    expect_header(0, "mqtt.qos", "1");
    expect_header(0, "content-type", "text/plain");
    expect_header(0, "rest", "y");
    expect_header(0, "k", "v");
    expect_record(1, "other", "", "x");
    mqtt_peer_close(&p);
}

/* aklivity/zilla#1164 */
static void only_an_empty_retained_publish_is_null(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: t}", NULL);
    login(&p, 4, "c1");
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a", .payload = "", .qos = 1, .packet_id = 1});
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a", .payload = "", .qos = 1, .packet_id = 2, .retain = true});
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 1, .packet_id = 3, .retain = true});
    mqtt_peer_expect(&p, "40 02 00 01  40 02 00 02  40 02 00 03");
    expect_record(0, "t", "", "");
    expect_record(1, "t", "", NULL);
    expect_record(2, "t", "", "x");
    mqtt_peer_close(&p);
}

static void who_sent_it_is_known(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: 't.{tenant}', key: '{user}/{device_id}/{client_id}', tenant: t1}", NULL);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 4, .id = "c1", .user = "d1", .password = "pw"}, false);
    publish(&p, "a", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_record(0, "t.t1", "d1@t1/d1/c1", "x");
    mqtt_peer_close(&p);
    login(&p, 4, "c2");
    publish(&p, "a", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_record(1, "t.t1", "//c2", "x");
    mqtt_peer_close(&p);
    /* Another tenant's client is no concern of the rule. */
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 4, .id = "c1", .user = "d1@t2", .password = "pw"}, false);
    publish(&p, "a", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    assert_int_equal(fake_sink_count(&r.sink), 2);
    mqtt_peer_close(&p);
}

static void device_endpoints_do_not_come_to_the_rules(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: t}", NULL);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 4, .id = "c1", .user = "d1", .password = "pw"}, false);
    publish(&p, "telemetry", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_record(0, "hono.telemetry.t1", "d1", "x");
    mqtt_peer_close(&p);
}

/* --- acknowledgements --- */

static void the_strictest_class_of_all_records_is_waited_for(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', actions: [{topic: a, ack: received}, {topic: b}, {topic: c}]}", NULL);
    fake_sink_hold(&r.sink);
    login(&p, 5, "c1");
    publish(&p, "x", 1, 1);
    publish(&p, "x", 2, 2);
    assert_int_equal(fake_sink_count(&r.sink), 6);
    fake_sink_answer(&r.sink, 2, OUTCOME_STORED);
    fake_sink_answer(&r.sink, 1, OUTCOME_STORED);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    mqtt_peer_expect(&p, "40 02 00 01");
    /* The first failure gives the code, and the rest is waited for. */
    fake_sink_answer(&r.sink, 5, OUTCOME_DENIED);
    fake_sink_answer(&r.sink, 3, OUTCOME_TOO_LARGE);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 4, OUTCOME_STORED);
    mqtt_peer_expect(&p, "50 03 00 02 87");
    expect_alive(&p);
    mqtt_peer_close(&p);
}

static void acknowledgements_keep_the_order_of_the_publishes(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: 'q/#', topic: a}, {mqtt: 'r/#', topic: b, ack: received}", NULL);
    fake_sink_hold(&r.sink);
    login(&p, 4, "c1");
    publish(&p, "q/1", 1, 1);
    publish(&p, "r/1", 1, 2);
    publish(&p, "plain", 1, 3);
    publish(&p, "q/2", 1, 4);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 2, OUTCOME_STORED);
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    mqtt_peer_expect(&p, "40 02 00 01  40 02 00 02  40 02 00 03  40 02 00 04");
    mqtt_peer_close(&p);
}

static void what_is_received_is_acknowledged_at_once(void **state)
{
    int64_t lost;
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: a, ack: received}", NULL);
    lost = counted("lost_total", "to_kafka[0]");
    fake_sink_hold(&r.sink);
    login(&p, 5, "c1");
    publish(&p, "x", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "x", 2, 2);
    mqtt_peer_expect(&p, "50 02 00 02");
    mqtt_peer_send(&p, "62 02 00 02");
    mqtt_peer_expect(&p, "70 02 00 02");
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    fake_sink_answer(&r.sink, 1, OUTCOME_UNAVAILABLE);
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(counted("lost_total", "to_kafka[0]"), lost + 1); /* counted, since nobody can be told any more */
    mqtt_peer_close(&p);
}

static void a_failure_closes_a_client_that_has_no_codes(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: a}", NULL);
    fake_sink_add_step(&r.sink, OUTCOME_DENIED, false);
    login(&p, 4, "c1");
    publish(&p, "x", 1, 1);
    mqtt_peer_expect_end(&p);
}

static void a_refusal_at_qos_0_is_counted_and_disturbs_nobody(void **state)
{
    char topic[300];
    int64_t dropped;
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: 'a.{topic}'}", NULL);
    dropped = counted("dropped_total", "to_kafka[0]");
    memset(topic, 'a', sizeof topic);
    topic[sizeof topic - 1] = '\0';
    login(&p, 4, "c1");
    publish(&p, topic, 0, 0);
    expect_alive(&p);
    assert_int_equal(counted("dropped_total", "to_kafka[0]"), dropped + 1);
    publish(&p, topic, 1, 1); /* at QoS 1 it is told, as far as 3.1.1 can */
    mqtt_peer_expect_end(&p);
    login(&p, 5, "c1");
    publish(&p, topic, 1, 1);
    mqtt_peer_expect(&p, "40 03 00 01 90");
    mqtt_peer_close(&p);
}

/* A loop through other systems: the count comes back as a user property. */
static void a_message_over_the_hop_limit_is_refused(void **state)
{
    int64_t rejected;
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: a}", NULL);
    rejected = mqtt_rig_metric("millrace_messages_rejected_total", "route=\"to_kafka[0]\",reason=\"hop_limit\"");
    login(&p, 5, "c1");
    mqtt_peer_send(&p, "32 ~~ 00 01 'x' 00 01 0f 26 00 09 'mqtt.hops' 00 01 '7' '1'");
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_header(0, "mqtt.hops", "8");
    mqtt_peer_send(&p, "32 ~~ 00 01 'x' 00 02 0f 26 00 09 'mqtt.hops' 00 01 '8' '1'");
    mqtt_peer_expect(&p, "40 03 00 02 83");
    assert_int_equal(mqtt_rig_metric("millrace_messages_rejected_total", "route=\"to_kafka[0]\",reason=\"hop_limit\""),
                     rejected + 1);
    mqtt_peer_close(&p);
}

/* --- subscribers --- */

static void subscribers_get_it_at_once_unless_the_rule_says_no(void **state)
{
    struct mqtt_peer p, s;

    (void)state;
    open_with("{mqtt: 'a/#', topic: a}, {mqtt: 'b/#', topic: b, local: false}", NULL);
    fake_sink_hold(&r.sink);
    login(&s, 4, "s1");
    mqtt_peer_subscribe(&s, "#", 0);
    login(&p, 4, "c1");
    publish(&p, "b/1", 1, 1);
    publish(&p, "a/1", 1, 2);
    mqtt_peer_expect_publish(&s, &(struct mqtt_peer_publish){.topic = "a/1", .payload = "x"});
    mqtt_peer_expect_nothing(&s);
    mqtt_peer_expect_nothing(&p);
    fake_sink_release(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "40 02 00 01  40 02 00 02");
    mqtt_peer_close(&p);
    mqtt_peer_close(&s);
}

static void without_room_nothing_happens_until_there_is_some(void **state)
{
    struct mqtt_peer p, s;

    (void)state;
    open_with("{mqtt: '#', actions: [{topic: a}, {topic: b}]}", NULL);
    login(&s, 4, "s1");
    mqtt_peer_subscribe(&s, "#", 0);
    login(&p, 4, "c1");
    fake_sink_set_room(&r.sink, 0);
    publish(&p, "x", 2, 1);
    publish(&p, "y", 1, 2);
    mqtt_peer_expect_nothing(&p);
    mqtt_peer_expect_nothing(&s);
    assert_int_equal(fake_sink_count(&r.sink), 0);
    fake_sink_set_room(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "50 02 00 01  40 02 00 02");
    mqtt_peer_expect_publish(&s, &(struct mqtt_peer_publish){.topic = "x", .payload = "x"});
    mqtt_peer_expect_publish(&s, &(struct mqtt_peer_publish){.topic = "y", .payload = "x"});
    assert_int_equal(fake_sink_count(&r.sink), 4);
    mqtt_peer_close(&p);
    mqtt_peer_close(&s);
}

static void without_room_qos_0_goes_to_subscribers_only(void **state)
{
    int64_t dropped;
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: '#', topic: a}", NULL);
    dropped = counted("dropped_total", "to_kafka[0]");
    login(&p, 4, "c1");
    mqtt_peer_subscribe(&p, "#", 0);
    fake_sink_set_room(&r.sink, 0);
    publish(&p, "x", 0, 0);
    mqtt_peer_expect_publish(&p, &(struct mqtt_peer_publish){.topic = "x", .payload = "x"});
    assert_int_equal(fake_sink_count(&r.sink), 0);
    assert_int_equal(counted("dropped_total", "to_kafka[0]"), dropped + 1);
    mqtt_peer_close(&p);
}

/* --- topics --- */

static void a_publish_waits_until_its_topic_is_made(void **state)
{
    struct mqtt_peer p, q;

    (void)state;
    open_with("{mqtt: 'n/{x}', topic: 'n.{x}', create: true}, {mqtt: '#', topic: a, create: true}", NULL);
    fake_sink_hold_creations(&r.sink);
    login(&p, 4, "c1");
    login(&q, 4, "c2");
    publish(&p, "n/1", 0, 0);
    publish(&p, "n/1", 1, 1);
    publish(&q, "n/1", 2, 1);
    publish(&q, "z", 1, 2);
    mqtt_peer_expect_nothing(&p);
    mqtt_peer_expect_nothing(&q);
    assert_int_equal(fake_sink_count(&r.sink), 0);
    fake_sink_release_creations(&r.sink, E_OK);
    mqtt_peer_expect(&p, "40 02 00 01");
    mqtt_peer_expect(&q, "50 02 00 01  40 02 00 02");
    assert_int_equal(fake_sink_count(&r.sink), 4);
    publish(&p, "n/1", 1, 2);
    mqtt_peer_expect(&p, "40 02 00 02");
    assert_true(r.sink.n_creations <= 2); /* one for each worker that met it; none for the topic without variables */
    mqtt_peer_close(&p);
    mqtt_peer_close(&q);
}

static void a_topic_that_may_not_be_made_is_refused(void **state)
{
    size_t n;
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: 'n/{x}', topic: 'n.{x}', create: true}", NULL);
    fake_sink_release_creations(&r.sink, E_DENIED);
    login(&p, 5, "c1");
    publish(&p, "n/1", 1, 1);
    mqtt_peer_expect(&p, "40 03 00 01 87");
    n = r.sink.n_creations;
    publish(&p, "n/1", 1, 2);
    mqtt_peer_expect(&p, "40 03 00 02 87");
    assert_int_equal(r.sink.n_creations, n); /* not asked again for every message, */
    fake_sink_release_creations(&r.sink, E_OK);
    mqtt_rig_pass_ms(&r, 6000);
    publish(&p, "n/1", 1, 3);
    mqtt_peer_expect(&p, "40 02 00 03"); /* but after a while */
    mqtt_peer_close(&p);
}

static void values_cannot_name_more_topics_than_allowed(void **state)
{
    struct mqtt_peer p, q;

    (void)state;
    open_with("{mqtt: 'n/{x}', topic: 'n.{x}'}, {mqtt: '#', topic: fixed}", "rules.max_topics=2");
    login(&p, 5, "c1");
    login(&q, 5, "c5");
    publish(&p, "n/1", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&q, "n/2", 1, 2);
    mqtt_peer_expect(&q, "40 02 00 02");
    publish(&p, "n/3", 1, 3);
    mqtt_peer_expect(&p, "40 03 00 03 97");
    publish(&q, "n/1", 1, 4);
    mqtt_peer_expect(&q, "40 02 00 04");
    publish(&p, "other", 1, 5);
    mqtt_peer_expect(&p, "40 02 00 05");
    assert_true(mqtt_rig_metric("millrace_messages_rejected_total", "reason=\"too_many_topics\"") > 0);
    assert_int_equal(mqtt_rig_metric("millrace_rule_topics", NULL), 2);
    mqtt_peer_close(&p);
    mqtt_peer_close(&q);
}

static void a_topic_that_vanished_is_made_again(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{mqtt: 'n/{x}', topic: 'n.{x}', create: true}", NULL);
    login(&p, 5, "c1");
    publish(&p, "n/1", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    fake_sink_add_step(&r.sink, OUTCOME_UNKNOWN_TOPIC, false);
    publish(&p, "n/1", 1, 2);
    mqtt_peer_expect(&p, "40 03 00 02 90");
    publish(&p, "n/1", 1, 3);
    mqtt_peer_expect(&p, "40 02 00 03");
    assert_int_equal(r.sink.n_creations, 2);
    mqtt_peer_close(&p);
}

/* --- wills and events --- */

static void a_will_goes_by_the_rules(void **state)
{
    struct mqtt_peer p, s;

    (void)state;
    open_with("{mqtt: 'will/{x}', topic: 'w.{x}', key: '{client_id}', create: true}", NULL);
    login(&s, 4, "s1");
    mqtt_peer_subscribe(&s, "#", 0);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 5, .id = "c1", .will = "will/a"}, false);
    mqtt_peer_close(&p);
    mqtt_peer_expect_publish(&s, &(struct mqtt_peer_publish){.topic = "will/a", .payload = "gone"});
    mqtt_peer_expect_nothing(&s);
    expect_record(0, "w.a", "c1", "gone");
    expect_header(0, "mqtt.client_id", "c1");
    mqtt_peer_close(&s);
}

/* The text of an event without its time, which changes. */
static void expect_event(size_t i, const char *event, const char *rest)
{
    static const char time[] = "\"time\":";
    char text[500];
    struct str value = fake_sink_record(&r.sink, i)->value;
    size_t n = 0;

    assert_true(value.n < sizeof text);
    for (size_t k = 0; k < value.n; k++) {
        if (value.n - k > sizeof time && memcmp(value.p + k, time, sizeof time - 1) == 0)
            while (value.p[k] != ',')
                k++;
        text[n++] = value.p[k];
    }
    text[n] = '\0';
    expect_header(i, "mqtt.event", event);
    expect_header(i, "content-type", "application/json");
    assert_string_equal(text, rest);
}

static void events_tell_what_happens_to_clients(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("{event: connect, topic: life, key: '{client_id}'}, {event: subscribe, topic: life},"
              "{event: disconnect, topic: 'life.{payload./by}'}, {event: session_end, topic: life}",
              NULL);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(
        &p, &(struct mqtt_peer_connect){.version = 5, .id = "a\"b", .user = "d1", .password = "pw", .keep_alive = 60}, false);
    mqtt_peer_send(&p, "82 ~~ 00 01 00 00 03 'a/#' 01 00 0a '$share/g/a' 00");
    mqtt_peer_expect(&p, "90 05 00 01 00 01 9e");
    mqtt_peer_send(&p, "e0 01 04");
    mqtt_peer_expect_end(&p);
    assert_int_equal(fake_sink_count(&r.sink), 4);
    expect_text(fake_sink_record(&r.sink, 0)->key, "a\"b");
    expect_event(0, "connect",
                 "{\"event\":\"connect\",,\"tenant\":\"t1\",\"client_id\":\"a\\\"b\",\"user\":\"d1@t1\",\"device_id\":\"d1\","
                 "\"protocol\":\"5.0\",\"listener\":\"listeners[0]\",\"keep_alive_s\":60,\"clean_start\":true,"
                 "\"session_present\":false}");
    expect_event(1, "subscribe",
                 "{\"event\":\"subscribe\",,\"tenant\":\"t1\",\"client_id\":\"a\\\"b\",\"user\":\"d1@t1\",\"device_id\":\"d1\","
                 "\"filters\":[{\"filter\":\"a/#\",\"code\":1},{\"filter\":\"$share/g/a\",\"code\":158}]}");
    expect_text(fake_sink_record(&r.sink, 2)->topic, "life.client");
    expect_event(
        2, "disconnect",
        "{\"event\":\"disconnect\",,\"tenant\":\"t1\",\"client_id\":\"a\\\"b\",\"user\":\"d1@t1\",\"device_id\":\"d1\","
        "\"by\":\"client\",\"reason\":\"disconnect_with_will_message\",\"code\":4}");
    expect_event(
        3, "session_end",
        "{\"event\":\"session_end\",,\"tenant\":\"t1\",\"client_id\":\"a\\\"b\",\"user\":\"d1@t1\",\"device_id\":\"d1\","
        "\"reason\":\"expired\"}");
}

static void a_disconnect_tells_who_and_why(void **state)
{
    struct mqtt_peer p, q;

    (void)state;
    open_with("{event: disconnect, topic: 'd.{payload./by}', key: '{payload./reason}'}, {event: session_end, topic: s,"
              " key: '{payload./reason}'}",
              NULL);
    login(&p, 4, "c1");
    mqtt_peer_close(&p);
    mqtt_rig_turn(&r);
    expect_text(fake_sink_record(&r.sink, 0)->topic, "d.network");
    expect_text(fake_sink_record(&r.sink, 0)->key, "connection_lost");
    expect_text(fake_sink_record(&r.sink, 1)->key, "expired");
    login(&p, 4, "c1");
    mqtt_peer_send(&p, "f0 00"); /* AUTH, which 3.1.1 does not have */
    mqtt_peer_expect_end(&p);
    expect_text(fake_sink_record(&r.sink, 2)->topic, "d.server");
    expect_text(fake_sink_record(&r.sink, 2)->key, "malformed_packet");
    login(&p, 5, "c1");
    login(&q, 5, "c1");
    mqtt_peer_expect(&p, "e0 01 8e");
    mqtt_peer_expect_end(&p);
    expect_text(fake_sink_record(&r.sink, 4)->key, "session_taken_over");
    expect_text(fake_sink_record(&r.sink, 5)->topic, "s");
    expect_text(fake_sink_record(&r.sink, 5)->key, "replaced");
    assert_int_equal(fake_sink_count(&r.sink), 6);
    mqtt_peer_close(&q);
}

static void an_event_without_room_is_dropped_and_counted(void **state)
{
    int64_t dropped;
    struct mqtt_peer p;

    (void)state;
    open_with("{event: connect, topic: c}", NULL);
    dropped = counted("dropped_total", "to_kafka[0]");
    fake_sink_set_room(&r.sink, 0);
    login(&p, 4, "c1");
    expect_alive(&p);
    assert_int_equal(counted("dropped_total", "to_kafka[0]"), dropped + 1);
    assert_int_equal(fake_sink_count(&r.sink), 0);
    mqtt_peer_close(&p);
}

static void connections_may_go_while_records_are_on_their_way(void **state)
{
    struct mqtt_peer p, q;

    (void)state;
    open_with("{mqtt: 'n/{x}', topic: 'n.{x}', create: true}, {mqtt: '#', actions: [{topic: a}, {topic: b}]}", NULL);
    fake_sink_hold(&r.sink);
    fake_sink_hold_creations(&r.sink);
    login(&p, 4, "c1");
    publish(&p, "x", 1, 1);
    publish(&p, "x", 2, 2);
    login(&q, 4, "c2");
    publish(&q, "n/1", 1, 1); /* waits for its topic */
    mqtt_peer_close(&p);
    mqtt_peer_close(&q);
    mqtt_rig_turn(&r);
    fake_sink_release_creations(&r.sink, E_OK);
    fake_sink_release(&r.sink, SIZE_MAX);
    mqtt_rig_turn(&r);
    assert_int_equal(counted("waiting", "to_kafka[1]"), 0);
}

/* For ThreadSanitizer above all: workers that meet the same new names at the same time, and the count they share. */
static void workers_share_the_count_of_topics(void **state)
{
    enum { CLIENTS = 8, TOPICS = 40 };
    static const char *const settings[] = {
        "to_kafka=[{mqtt: 'n/{x}', topic: 'n.{x}', create: true}, {event: connect, topic: c}]", "rules.max_topics=30", NULL};
    struct mqtt_peer peers[CLIENTS];

    (void)state;
    mqtt_rig_open_threaded(&r, settings);
    for (int i = 0; i < CLIENTS; i++) {
        char id[MQTT_RIG_ID];

        snprintf(id, sizeof id, "client%d", i);
        mqtt_rig_connect(&r, &peers[i]);
        mqtt_peer_connect(&peers[i], &(struct mqtt_peer_connect){.version = 5, .id = id}, false);
    }
    for (int k = 1; k <= TOPICS; k++) {
        for (int i = 0; i < CLIENTS; i++) {
            char topic[16];

            snprintf(topic, sizeof topic, "n/%d", k);
            publish(&peers[i], topic, 1, (uint16_t)k);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 1; k <= TOPICS; k++)
            assert_int_equal(mqtt_peer_skip(&peers[i]), 0x40);
        mqtt_peer_close(&peers[i]);
    }
    assert_int_equal(mqtt_rig_metric("millrace_rule_topics", NULL), 30);
    assert_int_equal(fake_sink_count(&r.sink), CLIENTS * 30 + CLIENTS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_publish_becomes_the_record_of_the_first_rule),
        TEST(only_an_empty_retained_publish_is_null),
        TEST(who_sent_it_is_known),
        TEST(device_endpoints_do_not_come_to_the_rules),
        TEST(the_strictest_class_of_all_records_is_waited_for),
        TEST(acknowledgements_keep_the_order_of_the_publishes),
        TEST(what_is_received_is_acknowledged_at_once),
        TEST(a_failure_closes_a_client_that_has_no_codes),
        TEST(a_refusal_at_qos_0_is_counted_and_disturbs_nobody),
        TEST(a_message_over_the_hop_limit_is_refused),
        TEST(subscribers_get_it_at_once_unless_the_rule_says_no),
        TEST(without_room_nothing_happens_until_there_is_some),
        TEST(without_room_qos_0_goes_to_subscribers_only),
        TEST(a_publish_waits_until_its_topic_is_made),
        TEST(a_topic_that_may_not_be_made_is_refused),
        TEST(values_cannot_name_more_topics_than_allowed),
        TEST(a_topic_that_vanished_is_made_again),
        TEST(a_will_goes_by_the_rules),
        TEST(events_tell_what_happens_to_clients),
        TEST(a_disconnect_tells_who_and_why),
        TEST(an_event_without_room_is_dropped_and_counted),
        TEST(connections_may_go_while_records_are_on_their_way),
        TEST(workers_share_the_count_of_topics),
    };

    return cmocka_run_group_tests_name("mqtt_rules", tests, NULL, NULL);
}
