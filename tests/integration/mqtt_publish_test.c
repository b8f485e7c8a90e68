/* What becomes of a PUBLISH: to Kafka and to subscribers, and how the client is told. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static struct mqtt_rig r;

static void open_with(const char *setting)
{
    const char *const settings[] = {setting, NULL};

    mqtt_rig_open(&r, settings);
}

static int set_up(void **state)
{
    (void)state;
    open_with(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    return 0;
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_AS_IT_IS(name) cmocka_unit_test_teardown(name, tear_down)

static void login(struct mqtt_peer *p, uint8_t version, const char *user)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = user, .user = user, .password = "pw"}, false);
}

static void login_persistent(struct mqtt_peer *p, uint8_t version, bool is_present)
{
    struct mqtt_peer_connect connect = {
        .version = version, .id = "d1", .user = "d1@t1", .password = "pw", .is_persistent = true};

    mqtt_rig_accept(&r, 1, p);
    mqtt_peer_connect(p, &connect, is_present);
}

static void publish(struct mqtt_peer *p, const char *topic, uint8_t qos, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "x", .qos = qos, .packet_id = id});
}

static void publish_again(struct mqtt_peer *p, const char *topic, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "x", .qos = 2, .packet_id = id, .dup = true});
}

static void expect_alive(struct mqtt_peer *p)
{
    mqtt_peer_send(p, "c0 00");
    mqtt_peer_expect(p, "d0 00");
}

/* --- acknowledgements --- */

static void no_acknowledgement_leaves_before_the_outcome(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 4, "d1@t1");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "event", 2, 2);
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(fake_sink_count(&r.sink), 2);
    expect_alive(&p); /* it waits for nothing else */
    fake_sink_release(&r.sink, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    mqtt_peer_expect_nothing(&p);
    fake_sink_release(&r.sink, 1);
    mqtt_peer_expect(&p, "50 02 00 02");
    mqtt_peer_send(&p, "62 02 00 02");
    mqtt_peer_expect(&p, "70 02 00 02");
    mqtt_peer_close(&p);
}

/* [MQTT-4.6.0-2, 4.6.0-3] */
static void acknowledgements_leave_in_the_order_of_the_publishes(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 5, "d1@t1");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "event", 2, 2);
    publish(&p, "telemetry", 1, 3);
    publish(&p, "plain", 1, 4);
    publish(&p, "plain", 2, 5);
    publish(&p, "telemetry//d3", 1, 6); /* refused at once: not its gateway */
    fake_sink_answer(&r.sink, 2, OUTCOME_STORED);
    fake_sink_answer(&r.sink, 1, OUTCOME_TOO_LARGE);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    mqtt_peer_expect(&p, "40 02 00 01  50 03 00 02 97  40 02 00 03  40 02 00 04  50 02 00 05  40 03 00 06 87");
    mqtt_peer_close(&p);
}

static const struct {
    enum outcome outcome;
    uint8_t reason;
} outcomes[] = {
    {OUTCOME_TOO_LARGE, 0x97},   {OUTCOME_UNKNOWN_TOPIC, 0x90}, {OUTCOME_DENIED, 0x87}, {OUTCOME_INVALID, 0x80},
    {OUTCOME_UNAVAILABLE, 0x83}, {OUTCOME_OVERLOADED, 0x97},    {OUTCOME_FAILED, 0x80},
};

static void every_outcome_has_its_reason_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * ARRAY_LEN(outcomes); i++) {
        uint8_t qos = 1 + i % 2, reason = outcomes[i / 4].reason;
        bool is_at_once = i / 2 % 2;
        struct mqtt_peer p;
        char text[32];

        login(&p, 5, "d1@t1");
        fake_sink_add_step(&r.sink, outcomes[i / 4].outcome, is_at_once);
        publish(&p, "event", qos, 9);
        snprintf(text, sizeof text, "%d0 03 00 09 %02x", qos == 2 ? 5 : 4, reason);
        mqtt_peer_expect(&p, text);
        publish(&p, "event", qos, 9); /* the packet identifier is free again */
        mqtt_peer_expect(&p, qos == 2 ? "50 02 00 09" : "40 02 00 09");
        mqtt_peer_close(&p);
    }
}

static void before_5_0_a_refused_publish_closes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * ARRAY_LEN(outcomes); i++) {
        struct mqtt_peer p;

        login(&p, 4, "d1@t1");
        fake_sink_add_step(&r.sink, outcomes[i / 4].outcome, i / 2 % 2);
        publish(&p, "event", 1 + i % 2, 9);
        mqtt_peer_expect_end(&p);
    }
}

static void at_qos_0_a_lost_record_is_only_counted(void **state)
{
    int64_t before = mqtt_rig_metric("millrace_messages_dropped_total", "telemetry");
    struct mqtt_peer p;

    (void)state;
    login(&p, 4, "d1@t1");
    fake_sink_add_step(&r.sink, OUTCOME_FAILED, false);
    publish(&p, "telemetry", 0, 0);
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(mqtt_rig_metric("millrace_messages_dropped_total", "telemetry"), before + 1);
    mqtt_rig_check_ledger();
    mqtt_peer_close(&p);
}

/* --- back-pressure --- */

static void without_room_nothing_more_of_the_connection_is_processed(void **state)
{
    struct mqtt_peer p, other;

    (void)state;
    fake_sink_hold(&r.sink);
    fake_sink_set_room(&r.sink, 1);
    login(&p, 4, "d1@t1");
    login(&other, 4, "d1@t2");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "telemetry", 2, 2);
    publish(&p, "telemetry", 1, 3);
    mqtt_peer_send(&p, "c0 00");
    mqtt_peer_expect_nothing(&p); /* PINGREQ waits behind the PUBLISH */
    expect_alive(&other);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fake_sink_count(&r.sink), i + 1);
        fake_sink_release(&r.sink, 1);
        mqtt_peer_expect(&p, i == 0 ? "40 02 00 01" : i == 1 ? "50 02 00 02  d0 00" : "40 02 00 03");
        mqtt_peer_expect_nothing(&p);
    }
    mqtt_peer_close(&p);
    mqtt_peer_close(&other);
}

static void waiting_connections_go_on_as_they_came(void **state)
{
    enum { N = 40 }; /* more than are tried at a time */
    struct mqtt_peer peers[N];

    (void)state;
    fake_sink_hold(&r.sink);
    fake_sink_set_room(&r.sink, 1);
    for (int i = 0; i < N; i++) {
        mqtt_rig_accept(&r, 0, &peers[i]);
        mqtt_peer_connect(
            &peers[i],
            &(struct mqtt_peer_connect){
                .version = 4, .user = i % 2 ? "d1@t1" : "g1@t1", .password = "pw", .id = (char[]){(char)('A' + i), '\0'}},
            false);
        publish(&peers[i], "telemetry", 1, (uint16_t)(i + 1));
    }
    fake_sink_set_room(&r.sink, SIZE_MAX);
    fake_sink_release(&r.sink, SIZE_MAX);
    for (int i = 0; i < N; i++) {
        assert_int_equal(mqtt_peer_skip(&peers[i]), 0x40);
        mqtt_peer_close(&peers[i]);
    }
    assert_int_equal(fake_sink_count(&r.sink), N);
}

static void without_room_qos_0_is_dropped_and_the_connection_goes_on(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    fake_sink_set_room(&r.sink, 1);
    login(&p, 4, "d1@t1");
    publish(&p, "telemetry", 0, 0);
    publish(&p, "telemetry", 0, 0);
    expect_alive(&p);
    assert_int_equal(fake_sink_count(&r.sink), 1);
    mqtt_rig_check_ledger();
    mqtt_peer_close(&p);
}

static void a_waiting_connection_is_not_blamed_for_its_silence(void **state)
{
    struct mqtt_peer_connect connect = {.version = 5, .id = "d1", .user = "d1@t1", .password = "pw", .keep_alive = 10};
    struct mqtt_peer p;

    (void)state;
    fake_sink_set_room(&r.sink, 0);
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &connect, false);
    publish(&p, "telemetry", 1, 1);
    mqtt_peer_expect_nothing(&p);
    mqtt_rig_pass_ms(&r, 15001);
    mqtt_peer_expect_nothing(&p);
    fake_sink_set_room(&r.sink, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    mqtt_peer_close(&p);
}

static void the_receive_maximum_is_enforced_on_5_0_clients(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("limits.receive_maximum=2");
    fake_sink_hold(&r.sink);
    login(&p, 5, "d1@t1");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "telemetry", 2, 2);
    publish(&p, "telemetry", 0, 0); /* does not count */
    mqtt_peer_expect_nothing(&p);
    publish(&p, "telemetry", 1, 3);
    mqtt_peer_expect(&p, "e0 01 93");
    mqtt_peer_expect_end(&p);
}

/* A refused one has its place until it is told. */
static void refused_publishes_count_for_the_receive_maximum(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("limits.receive_maximum=3");
    fake_sink_hold(&r.sink);
    login(&p, 5, "d1@t1");
    publish(&p, "telemetry", 1, 1);
    publish(&p, "telemetry//d3", 2, 2);
    publish(&p, "telemetry//d3", 2, 3);
    mqtt_peer_expect_nothing(&p);
    publish(&p, "telemetry//d3", 2, 4);
    mqtt_peer_expect(&p, "e0 01 93");
    mqtt_peer_expect_end(&p);
}

static void older_clients_are_not_read_until_there_is_room_in_the_window(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("limits.receive_maximum=2");
    fake_sink_hold(&r.sink);
    login(&p, 4, "d1@t1");
    for (uint16_t id = 1; id <= 4; id++)
        publish(&p, "telemetry", 1, id);
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(fake_sink_count(&r.sink), 2);
    fake_sink_release(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "40 02 00 01  40 02 00 02  40 02 00 03  40 02 00 04");
    mqtt_peer_close(&p);
}

static void a_topic_with_too_many_levels_is_refused_by_alias_too(void **state)
{
    struct mqtt_peer_publish m = {.topic = "a/b/c/d/e", .payload = "x", .qos = 1, .packet_id = 1, .alias = 1};
    struct mqtt_peer p;

    (void)state;
    open_with("limits.topic_levels=4");
    login(&p, 5, "d1@t1");
    mqtt_peer_publish(&p, &m);
    mqtt_peer_expect(&p, "40 03 00 01 90");
    m.topic = NULL;
    mqtt_peer_publish(&p, &m);
    mqtt_peer_expect(&p, "40 03 00 01 90");
    mqtt_peer_close(&p);
}

/* --- what the device wants done, and who may speak for whom --- */

static void on_error_says_what_is_done_with_a_refused_publish(void **state)
{
    static const struct {
        const char *bag;
        uint8_t qos;
        const char *answer_4, *answer_5; /* "": nothing; NULL: closed; else a packet */
        bool closes_5;
    } rows[] = {
        {"", 1, NULL, "40 03 00 01 87", false},
        {"", 0, NULL, "e0 01 87", true},
        {"/?on-error=default", 1, NULL, "40 03 00 01 87", false},
        {"/?on-error=nonsense", 1, NULL, "40 03 00 01 87", false},
        {"/?on-error=disconnect", 1, NULL, "e0 01 87", true},
        {"/?on-error=disconnect", 0, NULL, "e0 01 87", true},
        {"/?on-error=ignore", 1, "40 02 00 01", "40 03 00 01 80", false},
        {"/?on-error=ignore", 2, "50 02 00 01", "50 03 00 01 80", false},
        {"/?on-error=ignore", 0, "", "", false},
        {"/?on-error=skip-ack", 1, "", "", false},
        {"/?on-error=skip-ack", 0, "", "", false},
    };

    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        uint8_t version = i % 2 ? 5 : 4;
        const char *answer = version == 5 ? rows[i / 2].answer_5 : rows[i / 2].answer_4;
        struct mqtt_peer p;
        char topic[64];

        login(&p, version, "d1@t1");
        snprintf(topic, sizeof topic, "telemetry//d3%s", rows[i / 2].bag);
        publish(&p, topic, rows[i / 2].qos, 1);
        if (answer && *answer)
            mqtt_peer_expect(&p, answer);
        if (!answer || (version == 5 && rows[i / 2].closes_5)) {
            mqtt_peer_expect_end(&p);
            continue;
        }
        expect_alive(&p);
        mqtt_peer_close(&p);
    }
    assert_int_equal(fake_sink_count(&r.sink), 0);
}

static void a_publish_is_for_whom_its_sender_may_speak(void **state)
{
    static const struct {
        const char *user, *topic, *device; /* NULL: refused */
        uint8_t reason;
        const char *kafka;
    } rows[] = {
        {"d1@t1", "telemetry", "d1", 0, "hono.telemetry.t1"},
        {"d1@t1", "t", "d1", 0, "hono.telemetry.t1"},
        {"d1@t1", "event", "d1", 0, "hono.event.t1"},
        {"d1@t1", "telemetry/t1/d1", "d1", 0, "hono.telemetry.t1"},
        {"d1@t1", "t//d1", "d1", 0, "hono.telemetry.t1"},
        {"d1@t2", "e", "d1", 0, "hono.event.t2"},
        {"g1@t1", "t//d2", "d2", 0, "hono.telemetry.t1"},
        {"g1@t1", "e/t1/d2", "d2", 0, "hono.event.t1"},
        {"g1@t1", "t", "g1", 0, "hono.telemetry.t1"},
        {"g1@t1", "t//d3", NULL, 0x87, NULL},
        {"g1@t1", "t//d1", NULL, 0x87, NULL},
        {"g1@t1", "t//nobody", NULL, 0x90, NULL},
        {"d1@t1", "t//d2", NULL, 0x87, NULL},
        {"d1@t1", "t/t2/d1", NULL, 0x87, NULL},
        {NULL, "telemetry", NULL, 0x87, NULL},
        {NULL, "t/t1/d1", NULL, 0x87, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_peer_connect connect = {
            .version = 5, .id = "c", .user = rows[i].user, .password = rows[i].user ? "pw" : NULL};
        size_t before = fake_sink_count(&r.sink);
        struct mqtt_peer p;
        char text[32];

        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(&p, &connect, false);
        publish(&p, rows[i].topic, 1, 1);
        snprintf(text, sizeof text, rows[i].device ? "40 02 00 01" : "40 03 00 01 %02x", rows[i].reason);
        mqtt_peer_expect(&p, text);
        assert_int_equal(fake_sink_count(&r.sink), before + (rows[i].device != NULL));
        if (rows[i].device) {
            const struct fake_record *record = fake_sink_record(&r.sink, before);

            assert_true(str_equal(record->key, str_from(rows[i].device)));
            assert_true(str_equal(record->topic, str_from(rows[i].kafka)));
            assert_true(str_equal(record->value, STR("x")));
        }
        mqtt_peer_close(&p);
    }
}

/* --- connections that go while something is outstanding --- */

static void a_connection_may_go_before_its_outcomes_come(void **state)
{
    (void)state;
    fake_sink_hold(&r.sink);
    for (int i = 0; i < 8; i++) {
        struct mqtt_peer p;

        login(&p, i % 2 ? 5 : 4, "d1@t1");
        for (uint16_t id = 1; id <= 6; id++)
            publish(&p, id % 2 ? "telemetry" : "event", (uint8_t)(id % 3), id % 3 ? id : 0);
        publish(&p, "plain", 1, 9);
        if (i % 4 == 3)
            fake_sink_answer(&r.sink, fake_sink_count(&r.sink) - 1, OUTCOME_FAILED);
        if (i % 4 == 2)
            mqtt_peer_send(&p, "e0 00");
        mqtt_peer_close(&p);
        mqtt_rig_turn(&r);
        mqtt_rig_check_ledger();
    }
    fake_sink_release(&r.sink, SIZE_MAX);
    for (int i = 0; i < 4; i++)
        mqtt_rig_turn(&r);
    mqtt_rig_check_ledger();
    assert_int_equal(mqtt_rig_metric("millrace_messages_waiting", NULL), 0);
}

/* --- QoS 2 (section 4.3.3) --- */

static void a_repeated_qos_2_publish_is_stored_once(void **state)
{
    struct mqtt_peer p;

    (void)state;
    login(&p, 4, "d1@t1");
    publish(&p, "event", 2, 1);
    mqtt_peer_expect(&p, "50 02 00 01");
    publish_again(&p, "event", 1);
    mqtt_peer_expect(&p, "50 02 00 01");
    assert_int_equal(fake_sink_count(&r.sink), 1);
    mqtt_peer_send(&p, "62 02 00 01");
    mqtt_peer_expect(&p, "70 02 00 01");
    mqtt_peer_send(&p, "62 02 00 01"); /* the PUBCOMP was lost */
    mqtt_peer_expect(&p, "70 02 00 01");
    publish(&p, "event", 2, 1);
    mqtt_peer_expect(&p, "50 02 00 01");
    assert_int_equal(fake_sink_count(&r.sink), 2);
    mqtt_peer_close(&p);
}

static void a_repeated_publish_waits_with_the_first_one(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 4, "d1@t1");
    publish(&p, "event", 2, 1);
    publish_again(&p, "event", 1);
    publish_again(&p, "event", 1);
    mqtt_peer_expect_nothing(&p);
    fake_sink_release(&r.sink, 1);
    mqtt_peer_expect(&p, "50 02 00 01");
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(fake_sink_count(&r.sink), 1);
    mqtt_peer_close(&p);
}

/* Whether the outcome comes before or after the client is back, the record is stored once and the client told once. */
static void an_outcome_finds_the_client_that_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        uint8_t version = i & 1 ? 5 : 4;
        bool is_early = i & 2, is_stored = i & 4;
        struct mqtt_peer p;
        size_t n;

        fake_sink_hold(&r.sink);
        login_persistent(&p, version, false);
        n = fake_sink_count(&r.sink);
        publish(&p, "event", 2, 7);
        mqtt_peer_expect_nothing(&p);
        mqtt_peer_close(&p);
        mqtt_rig_turn(&r);
        if (is_early)
            fake_sink_answer(&r.sink, n, is_stored ? OUTCOME_STORED : OUTCOME_FAILED);
        login_persistent(&p, version, true);
        mqtt_peer_expect_nothing(&p); /* what it did not ask for it is not told */
        publish_again(&p, "event", 7);
        if (!is_early) {
            mqtt_peer_expect_nothing(&p);
            fake_sink_answer(&r.sink, n, is_stored ? OUTCOME_STORED : OUTCOME_FAILED);
        }
        assert_int_equal(fake_sink_count(&r.sink), n + 1 + (is_early && !is_stored)); /* refused before: it is a new one */
        fake_sink_release(&r.sink, SIZE_MAX);
        if (is_stored || is_early)
            mqtt_peer_expect(&p, "50 02 00 07");
        else if (version == 5)
            mqtt_peer_expect(&p, "50 03 00 07 80");
        else
            mqtt_peer_expect_end(&p);
        mqtt_peer_close(&p);
        mqtt_rig_turn(&r);
        /* Leave no session behind. */
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = version, .id = "d1", .user = "d1@t1", .password = "pw"},
                          false);
        mqtt_peer_close(&p);
        mqtt_rig_turn(&r);
    }
}

static void publishes_sent_again_are_answered_in_their_order(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login_persistent(&p, 5, false);
    publish(&p, "event", 2, 1);
    publish(&p, "event", 2, 2);
    publish(&p, "event", 2, 3);
    mqtt_peer_close(&p);
    mqtt_rig_turn(&r);
    fake_sink_answer(&r.sink, 1, OUTCOME_STORED);
    mqtt_rig_turn(&r);
    login_persistent(&p, 5, true);
    for (uint16_t id = 1; id <= 3; id++)
        publish_again(&p, "event", id);
    fake_sink_answer(&r.sink, 2, OUTCOME_STORED);
    mqtt_peer_expect_nothing(&p);
    fake_sink_answer(&r.sink, 0, OUTCOME_STORED);
    mqtt_peer_expect(&p, "50 02 00 01  50 02 00 02  50 02 00 03");
    mqtt_peer_close(&p);
}

/* Section 4.9: a new connection has a whole window. */
static void what_an_earlier_connection_left_does_not_fill_the_window(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("limits.receive_maximum=2");
    login_persistent(&p, 5, false);
    publish(&p, "event", 2, 1);
    publish(&p, "event", 2, 2);
    mqtt_peer_expect(&p, "50 02 00 01  50 02 00 02");
    mqtt_peer_close(&p);
    mqtt_rig_turn(&r);
    login_persistent(&p, 5, true);
    publish(&p, "event", 2, 3);
    publish_again(&p, "event", 1);
    mqtt_peer_expect(&p, "50 02 00 03  50 02 00 01");
    publish(&p, "event", 2, 4);
    mqtt_peer_expect(&p, "e0 01 93");
    mqtt_peer_expect_end(&p);
}

static void a_pubrel_before_its_pubrec_is_a_protocol_error(void **state)
{
    struct mqtt_peer p;

    (void)state;
    fake_sink_hold(&r.sink);
    login(&p, 5, "d1@t1");
    publish(&p, "event", 2, 1);
    mqtt_peer_send(&p, "62 02 00 01");
    mqtt_peer_expect(&p, "e0 01 82");
    mqtt_peer_expect_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_acknowledgement_leaves_before_the_outcome),
        TEST(acknowledgements_leave_in_the_order_of_the_publishes),
        TEST(every_outcome_has_its_reason_code),
        TEST(before_5_0_a_refused_publish_closes),
        TEST(at_qos_0_a_lost_record_is_only_counted),
        TEST(without_room_nothing_more_of_the_connection_is_processed),
        TEST(waiting_connections_go_on_as_they_came),
        TEST(without_room_qos_0_is_dropped_and_the_connection_goes_on),
        TEST(a_waiting_connection_is_not_blamed_for_its_silence),
        TEST_AS_IT_IS(the_receive_maximum_is_enforced_on_5_0_clients),
        TEST_AS_IT_IS(refused_publishes_count_for_the_receive_maximum),
        TEST_AS_IT_IS(older_clients_are_not_read_until_there_is_room_in_the_window),
        TEST_AS_IT_IS(a_topic_with_too_many_levels_is_refused_by_alias_too),
        TEST(on_error_says_what_is_done_with_a_refused_publish),
        TEST(a_publish_is_for_whom_its_sender_may_speak),
        TEST(a_connection_may_go_before_its_outcomes_come),
        TEST(a_repeated_qos_2_publish_is_stored_once),
        TEST(a_repeated_publish_waits_with_the_first_one),
        TEST(an_outcome_finds_the_client_that_comes_back),
        TEST(publishes_sent_again_are_answered_in_their_order),
        TEST_AS_IT_IS(what_an_earlier_connection_left_does_not_fill_the_window),
        TEST(a_pubrel_before_its_pubrec_is_a_protocol_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
