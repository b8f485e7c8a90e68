/* How connections begin, move, are bounded and end. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static struct mqtt_rig r;

static void open_with(const char *first, const char *second)
{
    const char *const settings[] = {first, second, NULL};

    mqtt_rig_open(&r, settings);
}

static int set_up(void **state)
{
    (void)state;
    open_with(NULL, NULL);
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

static void connect_as(struct mqtt_peer *p, unsigned worker, uint8_t version, const char *id)
{
    mqtt_rig_accept(&r, worker, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = id}, false);
}

static void turn(int n)
{
    while (n-- > 0)
        mqtt_rig_turn(&r);
}

/* --- the beginning --- */

static void a_client_is_served_over_loopback(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct mqtt_peer p;

        mqtt_rig_connect(&r, &p);
        mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = i % 2 ? 5 : 4, .id = (char[]){(char)('a' + i), '\0'}},
                          false);
        mqtt_peer_subscribe(&p, "a", 1);
        mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a", .payload = "x"});
        mqtt_peer_expect_publish(&p, &(struct mqtt_peer_publish){.topic = "a", .payload = "x"});
        mqtt_peer_send(&p, "e0 00");
        mqtt_peer_expect_end(&p);
    }
}

/* CONNECT, SUBSCRIBE, PUBLISH and PINGREQ in one write, and a byte at a time, to the home worker and to the other. */
static void what_is_sent_behind_the_connect_arrives_at_home(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        bool is_at_home = i & 1, is_slow = i & 2, is_halved = i & 8;
        uint8_t version = i & 4 ? 5 : 4;
        struct mqtt_peer_publish m = {.topic = "a", .payload = "x", .qos = 1, .packet_id = 1};
        struct buf all = {0};
        struct mqtt_peer p;
        char id[MQTT_RIG_ID];

        mqtt_rig_id(&r, 0, id);
        mqtt_rig_accept(&r, is_at_home ? 0 : 1, &p);
        p.version = version;
        mqtt_peer_put_connect(&all, &(struct mqtt_peer_connect){.version = version, .id = id});
        assert_int_equal(
            buf_append(&all, MEM_TEST,
                       version == 5 ? (struct str){"\x82\7\0\1\0\0\1a\1", 9} : (struct str){"\x82\6\0\1\0\1a\1", 8}),
            E_OK);
        mqtt_peer_put_publish(&all, version, &m);
        assert_int_equal(buf_append(&all, MEM_TEST, (struct str){"\xc0\0", 2}), E_OK);
        for (struct str rest = buf_str(&all); rest.n;) {
            struct str piece = {rest.p, is_slow ? 1 : is_halved ? (rest.n + 1) / 2 : rest.n};

            mqtt_peer_send_bytes(&p, piece);
            rest = str_from_offset(rest, piece.n);
        }
        buf_free(&all, MEM_TEST);
        assert_int_equal(mqtt_peer_skip(&p), 0x20);
        mqtt_peer_expect(&p, version == 5 ? "90 04 00 01 00 01" : "90 03 00 01 01");
        mqtt_peer_expect_publish(&p, &m);
        mqtt_peer_expect(&p, "40 02 00 01  d0 00");
        mqtt_peer_close(&p);
        turn(2);
    }
}

/* [MQTT-3.1.4-6] */
static void nothing_behind_a_refused_connect_is_processed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t version = i & 1 ? 5 : 4;
        struct buf all = {0};
        struct mqtt_peer p;

        mqtt_rig_accept(&r, i / 2, &p);
        mqtt_peer_put_connect(&all,
                              &(struct mqtt_peer_connect){.version = version, .user = "d1@t1", .password = "no", .id = "c"});
        mqtt_peer_put_publish(&all, version, &(struct mqtt_peer_publish){.topic = "telemetry", .payload = "x"});
        mqtt_peer_send_bytes(&p, buf_str(&all));
        buf_free(&all, MEM_TEST);
        mqtt_peer_expect(&p, version == 5 ? "20 03 00 86 00" : "20 02 00 04");
        mqtt_peer_expect_end(&p);
    }
    assert_int_equal(fake_sink_count(&r.sink), 0);
}

static void a_packet_before_connect_closes(void **state)
{
    static const char *const packets[] = {"c0 00", "30 03 00 01 61", "e0 00",         "00 00",
                                          "10 00", "20 02 00 00",    "ff ff ff ff ff"};
    int64_t errors = mqtt_rig_metric("millrace_mqtt_protocol_errors_total", NULL);
    int64_t refused = mqtt_rig_metric("millrace_mqtt_connects_refused_total", "malformed");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(packets); i++) {
        struct mqtt_peer p;

        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_send(&p, packets[i]);
        mqtt_peer_expect_end(&p);
    }
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_protocol_errors_total", NULL), errors + (int64_t)ARRAY_LEN(packets) - 1);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_connects_refused_total", "malformed"),
                     refused + 1); /* the CONNECT among them */
}

static void a_connect_that_does_not_come_in_time_closes(void **state)
{
    int64_t timeouts = mqtt_rig_metric("millrace_mqtt_connect_timeouts_total", NULL);
    struct mqtt_peer silent, half;

    (void)state;
    mqtt_rig_accept(&r, 0, &silent);
    mqtt_rig_accept(&r, 0, &half);
    mqtt_peer_send(&half, "10 20 00 04 'MQTT'");
    mqtt_peer_expect_nothing(&half);
    mqtt_rig_pass_ms(&r, 10001);
    mqtt_peer_expect_end(&silent);
    mqtt_peer_expect_end(&half);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_connect_timeouts_total", NULL), timeouts + 2);
}

static void a_client_without_an_id_is_given_one_at_home_here(void **state)
{
    struct mqtt_peer peers[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        connect_as(&peers[i], i % 2, i & 4 ? 5 : 4, NULL);
        mqtt_peer_subscribe(&peers[i], "a", 0);
    }
    mqtt_peer_publish(&peers[0], &(struct mqtt_peer_publish){.topic = "a", .payload = "x"});
    for (unsigned i = 0; i < 8; i++) {
        mqtt_peer_expect_publish(&peers[i], &(struct mqtt_peer_publish){.topic = "a", .payload = "x"});
        mqtt_peer_close(&peers[i]);
    }
}

static void over_the_limit_connections_are_refused_as_busy(void **state)
{
    struct mqtt_peer first, second;
    struct buf all = {0};

    (void)state;
    open_with("limits.max_connections=1", NULL);
    connect_as(&first, 0, 5, "a");
    mqtt_rig_accept(&r, 0, &second);
    mqtt_peer_put_connect(&all, &(struct mqtt_peer_connect){.version = 5, .id = "b"});
    mqtt_peer_send_bytes(&second, buf_str(&all));
    buf_free(&all, MEM_TEST);
    mqtt_peer_expect(&second, "20 03 00 89 00");
    mqtt_peer_expect_end(&second);
    mqtt_peer_close(&first);
}

/* --- takeover --- */

static void the_second_client_with_an_id_takes_over(void **state)
{
    int64_t takeovers = mqtt_rig_metric("millrace_session_takeovers_total", NULL);

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct mqtt_peer_connect connect = {.version = i & 1 ? 5 : 4, .is_persistent = i & 2};
        struct mqtt_peer first, second;
        char id[MQTT_RIG_ID];

        mqtt_rig_id(&r, i / 4, id);
        connect.id = id;
        mqtt_rig_accept(&r, 0, &first);
        mqtt_peer_connect(&first, &connect, false);
        mqtt_peer_subscribe(&first, "a", 1);
        mqtt_peer_publish(&first, &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 1, .packet_id = 1});
        mqtt_peer_expect_publish(&first, &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 1, .packet_id = 1});
        mqtt_peer_expect(&first, "40 02 00 01");
        mqtt_rig_accept(&r, 1, &second);
        mqtt_peer_connect(&second, &connect, connect.is_persistent);
        if (connect.version == 5)
            mqtt_peer_expect(&first, "e0 01 8e");
        mqtt_peer_expect_end(&first);
        if (connect.is_persistent)
            mqtt_peer_expect_publish(
                &second, &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 1, .packet_id = 1, .dup = true});
        mqtt_peer_expect_nothing(&second);
        mqtt_peer_close(&second);
        turn(2);
        connect.is_persistent = false; /* leave no session behind */
        mqtt_rig_accept(&r, 0, &first);
        mqtt_peer_connect(&first, &connect, false);
        mqtt_peer_close(&first);
        turn(2);
    }
    assert_int_equal(mqtt_rig_metric("millrace_session_takeovers_total", NULL), takeovers + 8);
}

/* The one that is taken over has outcomes outstanding, waits for room, or waits at the barrier of a SUBSCRIBE. */
static void a_takeover_finds_the_first_connection_in_any_state(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct mqtt_peer_connect connect = {
            .version = i & 1 ? 5 : 4, .id = "d1", .user = "d1@t1", .password = "pw", .is_persistent = true};
        struct mqtt_peer first, second;

        fake_sink_hold(&r.sink);
        fake_sink_set_room(&r.sink, i / 2 == 1 ? fake_sink_count(&r.sink) : SIZE_MAX);
        mqtt_rig_accept(&r, 0, &first);
        mqtt_peer_connect(&first, &connect, i > 0);
        for (uint16_t id = 1; id <= 4; id++)
            mqtt_peer_publish(
                &first, &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 1 + id % 2, .packet_id = id});
        if (i / 2 == 2)
            mqtt_peer_send(&first, "82 ~~ 00 09 00 01 'a' 00");
        mqtt_rig_accept(&r, 1, &second);
        mqtt_peer_connect(&second, &connect, true);
        if (connect.version == 5) {
            (void)mqtt_peer_drop(&first);
            first.is_eof = true;
        }
        mqtt_peer_close(&first);
        fake_sink_set_room(&r.sink, SIZE_MAX);
        fake_sink_release(&r.sink, SIZE_MAX);
        mqtt_peer_expect_nothing(&second);
        mqtt_peer_close(&second);
        turn(3);
        mqtt_rig_check_ledger();
    }
}

/* --- keep-alive --- */

static void a_silent_client_is_closed_after_one_and_a_half_times_its_keep_alive(void **state)
{
    (void)state;
    for (uint8_t version = 4; version <= 5; version++) {
        int64_t wills = mqtt_rig_metric("millrace_mqtt_wills_total", NULL);
        int64_t timeouts = mqtt_rig_metric("millrace_mqtt_keep_alive_timeouts_total", NULL);
        struct mqtt_peer p;

        open_with(NULL, NULL); /* whose time begins anew */
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = version, .id = "c", .keep_alive = 10, .will = "w"}, false);
        mqtt_rig_pass_ms(&r, 14000);
        mqtt_peer_expect_nothing(&p);
        mqtt_rig_pass_ms(&r, 16000);
        if (version == 5)
            mqtt_peer_expect(&p, "e0 01 8d");
        mqtt_peer_expect_end(&p);
        assert_int_equal(mqtt_rig_metric("millrace_mqtt_wills_total", NULL), wills + 1);
        assert_int_equal(mqtt_rig_metric("millrace_mqtt_keep_alive_timeouts_total", NULL), timeouts + 1);
        if (version == 4)
            mqtt_rig_close(&r);
    }
}

/* --- drain --- */

static void a_drain_waits_for_what_was_sent_to_kafka(void **state)
{
    int64_t wills = mqtt_rig_metric("millrace_mqtt_wills_total", NULL);
    struct mqtt_peer busy, idle, old, beginning;

    (void)state;
    fake_sink_hold(&r.sink);
    mqtt_rig_accept(&r, 0, &busy);
    mqtt_peer_connect(
        &busy, &(struct mqtt_peer_connect){.version = 5, .id = "d1", .user = "d1@t1", .password = "pw", .will = "w"}, false);
    connect_as(&idle, 0, 5, "idle");
    connect_as(&old, 1, 4, "old");
    mqtt_rig_accept(&r, 1, &beginning);
    mqtt_peer_publish(&busy, &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 1, .packet_id = 1});
    mqtt_peer_publish(&busy, &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 2, .packet_id = 2});
    turn(3);
    mqtt_adapter_drain(r.adapter, &r.drained, &r.main.mailbox);
    mqtt_peer_expect(&idle, "e0 01 8b");
    mqtt_peer_expect_end(&idle);
    mqtt_peer_expect_end(&old);
    mqtt_peer_expect_end(&beginning);
    mqtt_peer_publish(&busy,
                      &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 1, .packet_id = 3}); /* too late */
    mqtt_peer_expect_nothing(&busy);
    assert_false(r.is_drained);
    fake_sink_answer(&r.sink, 1, OUTCOME_STORED);
    mqtt_peer_expect_nothing(&busy);
    fake_sink_answer(&r.sink, 0, OUTCOME_UNAVAILABLE);
    mqtt_peer_expect(&busy, "40 03 00 01 83  50 02 00 02  e0 01 8b");
    mqtt_peer_expect_end(&busy);
    turn(5);
    assert_true(r.is_drained);
    assert_int_equal(fake_sink_count(&r.sink), 2);
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_wills_total", NULL), wills);
}

static void a_drain_without_connections_is_done_at_once(void **state)
{
    (void)state;
    mqtt_adapter_drain(r.adapter, &r.drained, &r.main.mailbox);
    turn(3);
    assert_true(r.is_drained);
}

/* --- bounds --- */

static void answers_to_a_client_that_does_not_read_are_bounded(void **state)
{
    static const char pings[] =
        "\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0\0\xc0";
    int64_t before = mem_used(MEM_LOOP), most = 0;
    size_t sent = 0, got = 0;
    struct mqtt_peer p;

    (void)state;
    open_with("limits.output_bytes=64KiB", "limits.max_packet_bytes=16KiB");
    before = mem_used(MEM_LOOP);
    connect_as(&p, 0, 4, "c");
    for (int stalled = 0; stalled < 20;) {
        size_t n = mqtt_peer_try_send(&p, (struct str){pings + sent % 2, 30});

        sent += n;
        stalled = n ? 0 : stalled + 1;
        mqtt_rig_turn(&r);
        most = mem_used(MEM_LOOP) - before > most ? mem_used(MEM_LOOP) - before : most;
        assert_true(most < 1 << 20);
    }
    assert_true(sent > 64 * 1024); /* far more than the output may hold */
    while (got < sent / 2 * 2) {
        size_t n = mqtt_peer_drop(&p);

        got += n;
        mqtt_rig_turn(&r);
    }
    mqtt_peer_expect_nothing(&p);
    mqtt_peer_close(&p);
}

static void a_subscriber_that_does_not_read_is_bounded(void **state)
{
    static char payload[4001];
    struct mqtt_peer slow, fast;
    size_t n = 0;

    (void)state;
    memset(payload, 'x', sizeof payload - 1);
    open_with("limits.output_bytes=1MiB", "limits.session_queued_bytes=1MiB");
    connect_as(&slow, 0, 4, "slow");
    connect_as(&fast, 0, 4, "fast");
    mqtt_peer_subscribe(&slow, "a/#", 1);
    for (uint16_t i = 1; i <= 2000; i++) {
        mqtt_peer_publish(&fast, &(struct mqtt_peer_publish){.topic = "a/0", .payload = payload});
        mqtt_peer_publish(&fast, &(struct mqtt_peer_publish){.topic = "a/1", .payload = payload, .qos = 1, .packet_id = i});
        assert_int_equal(mqtt_peer_skip(&fast), 0x40);
    }
    assert_true(mem_used(MEM_MESSAGE) < 2 << 20);
    assert_true(mqtt_rig_metric("millrace_deliveries_dropped_total", "output_full") > 0);
    assert_true(mqtt_rig_metric("millrace_deliveries_dropped_total", "queue_full") > 0);
    mqtt_rig_check_ledger();
    for (int quiet = 0; quiet < 10; quiet++) { /* what is left arrives whole: it is still a connection */
        size_t now = mqtt_peer_drop(&slow);

        n += now;
        quiet = now ? 0 : quiet;
        mqtt_rig_turn(&r);
    }
    assert_true(n > 1 << 20);
    mqtt_peer_close(&slow);
    mqtt_peer_close(&fast);
}

static void sessions_and_retained_messages_are_bounded(void **state)
{
    struct mqtt_peer_publish m = {.topic = "r/1", .payload = "x", .qos = 1, .packet_id = 1, .retain = true};
    struct mqtt_peer first, old, second;
    struct buf all = {0};
    char id[MQTT_RIG_ID];

    (void)state;
    open_with("limits.sessions=2", "limits.retained_messages=1"); /* one session for each worker */
    mqtt_rig_id(&r, 0, id);
    connect_as(&first, 0, 5, id);
    mqtt_rig_accept(&r, 0, &second);
    mqtt_peer_put_connect(&all, &(struct mqtt_peer_connect){.version = 5});
    mqtt_peer_send_bytes(&second, buf_str(&all));
    buf_free(&all, MEM_TEST);
    mqtt_peer_expect(&second, "20 03 00 97 00");
    mqtt_peer_expect_end(&second);
    mqtt_rig_id(&r, 1, id);
    connect_as(&old, 1, 4, id);
    mqtt_peer_publish(&first, &m);
    mqtt_peer_expect(&first, "40 02 00 01");
    turn(2);
    m.topic = "r/2";
    mqtt_peer_publish(&first, &m);
    mqtt_peer_expect(&first, "40 03 00 01 97");
    m.qos = 2;
    mqtt_peer_publish(&first, &m);
    mqtt_peer_expect(&first, "50 03 00 01 97");
    m.qos = 0;
    mqtt_peer_publish(&first, &m);
    mqtt_peer_expect_nothing(&first);
    m.qos = 1;
    mqtt_peer_publish(&old, &m);
    mqtt_peer_expect_end(&old);
    mqtt_peer_close(&first);
}

static void subscriptions_are_bounded_and_refused_ones_counted(void **state)
{
    int64_t refused = mqtt_rig_metric("millrace_mqtt_subscriptions_refused_total", NULL);
    struct mqtt_peer p;

    (void)state;
    open_with("limits.subscriptions_per_session=2", "limits.topic_levels=4");
    connect_as(&p, 0, 5, "c");
    mqtt_peer_send(&p, "82 ~~ 00 01 00  00 01 'a' 01  00 01 'b' 00  00 01 'x' 00  00 01 'a' 02");
    mqtt_peer_expect(&p, "90 07 00 01 00  01 00 97 02"); /* one that is there may be replaced */
    mqtt_peer_send(&p, "82 ~~ 00 02 00  00 09 'a/b/c/d/e' 01");
    mqtt_peer_expect(&p, "90 04 00 02 00 8f");
    assert_int_equal(mqtt_rig_metric("millrace_mqtt_subscriptions_refused_total", NULL), refused + 2);
    mqtt_peer_close(&p);
}

static void a_packet_over_the_limit_closes(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("limits.max_packet_bytes=1KiB", "limits.output_bytes=64KiB");
    connect_as(&p, 0, 5, "c");
    mqtt_peer_send(&p, "30 80 10");
    mqtt_peer_expect(&p, "e0 01 95");
    mqtt_peer_expect_end(&p);
}

/* --- subscriptions over workers --- */

/* The subscriber's worker stands still; its mailbox takes 64 KiB. */
static void a_publisher_waits_for_room_in_another_workers_mailbox(void **state)
{
    static char payload[4001];
    struct mqtt_peer publisher, subscriber;
    char here[MQTT_RIG_ID], there[MQTT_RIG_ID];
    int64_t waits = mqtt_rig_metric("millrace_mqtt_waits_total", NULL);
    struct buf all = {0};
    size_t sent = 0;

    (void)state;
    memset(payload, 'x', sizeof payload - 1);
    mqtt_rig_id(&r, 0, here);
    mqtt_rig_id(&r, 1, there);
    connect_as(&publisher, 0, 4, here);
    connect_as(&subscriber, 1, 4, there);
    mqtt_peer_subscribe(&subscriber, "a", 1);
    for (uint16_t id = 1; id <= 40; id++) {
        snprintf(payload, 8, "%06u", id);
        payload[6] = 'x';
        mqtt_peer_put_publish(&all, 4,
                              &(struct mqtt_peer_publish){.topic = "a", .payload = payload, .qos = 1, .packet_id = id});
    }
    for (int i = 0; i < 10; i++) {
        sent += mqtt_peer_try_send(&publisher, str_from_offset(buf_str(&all), sent));
        loop_turn(&r.workers.list[0].loop, 0);
    }
    assert_true(mqtt_rig_metric("millrace_mqtt_waits_total", NULL) > waits);
    mqtt_peer_send_bytes(&publisher, str_from_offset(buf_str(&all), sent));
    for (uint16_t id = 1; id <= 40; id++) {
        struct mqtt_peer_publish m = {.topic = "a", .payload = payload, .qos = 1, .packet_id = id};

        snprintf(payload, 8, "%06u", id);
        payload[6] = 'x';
        mqtt_peer_expect_publish(&subscriber, &m);
        assert_int_equal(mqtt_peer_skip(&publisher), 0x40);
    }
    buf_free(&all, MEM_TEST);
    mqtt_peer_close(&publisher);
    mqtt_peer_close(&subscriber);
}

/* Many publishers wait for a mailbox: they are tried again from time to time, not in every turn. */
static void waiting_for_a_mailbox_is_no_busy_loop(void **state)
{
    enum { N = 40 /* more than are tried at a time */, TRIES = 10, TRIED_AT_ONCE = 32, RETRY_MS = 2 };
    struct mqtt_peer publishers[N], subscriber;
    char id[MQTT_RIG_ID];
    struct mailbox *full = &r.workers.list[1].loop.mailbox;
    int64_t before, most;
    uint64_t since_ms;

    (void)state;
    mqtt_rig_id(&r, 1, id);
    connect_as(&subscriber, 1, 4, id);
    mqtt_peer_subscribe(&subscriber, "a", 0);
    for (int i = 0; i < N; i++)
        connect_as(&publishers[i], 0, 4, NULL);
    assert_true(mailbox_reserve(full, full->limit_bytes));
    for (uint16_t i = 0; i < N; i++)
        mqtt_peer_publish(&publishers[i],
                          &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 1, .packet_id = i + 1});
    before = mqtt_rig_metric("millrace_mqtt_waits_total", NULL);
    since_ms = loop_clock_ms();
    while (loop_clock_ms() - since_ms < TRIES * RETRY_MS)
        loop_turn(&r.workers.list[0].loop, 0);
    most = TRIED_AT_ONCE * ((int64_t)(loop_clock_ms() - since_ms) / RETRY_MS + 2);
    assert_true(mqtt_rig_metric("millrace_mqtt_waits_total", NULL) - before <= most);
    mailbox_release(full, full->limit_bytes);
    for (int i = 0; i < N; i++) {
        assert_int_equal(mqtt_peer_skip(&publishers[i]), 0x40);
        mqtt_peer_close(&publishers[i]);
    }
    mqtt_peer_close(&subscriber);
}

/* The retained message is acknowledged to its publisher before it has reached the other worker's index. */
static void a_subscription_finds_a_retained_message_acknowledged_before_it(void **state)
{
    struct mqtt_peer publisher, subscriber;
    char here[MQTT_RIG_ID], there[MQTT_RIG_ID];

    (void)state;
    mqtt_rig_id(&r, 0, here);
    mqtt_rig_id(&r, 1, there);
    connect_as(&publisher, 1, 4, there);
    connect_as(&subscriber, 0, 4, here);
    /* The SUBSCRIBE lies in the socket; descriptors come before mail in a turn. */
    assert_int_equal(mqtt_peer_try_send(&subscriber, (struct str){"\x82\6\0\1\0\1r\1", 8}), 8);
    assert_int_equal(mqtt_peer_try_send(&publisher, (struct str){"\x33\6\0\1r\0\1x", 8}), 8);
    loop_turn(&r.workers.list[1].loop, 0);
    mqtt_peer_expect(&publisher, "40 02 00 01");
    mqtt_peer_expect(&subscriber, "90 03 00 01 01  33 06 00 01 'r' 00 01 'x'");
    mqtt_peer_expect_nothing(&subscriber);
    mqtt_peer_close(&publisher);
    mqtt_peer_close(&subscriber);
}

static void a_client_that_goes_at_the_barrier_is_forgotten(void **state)
{
    struct mqtt_peer p;

    (void)state;
    connect_as(&p, 0, 5, NULL);
    assert_int_equal(mqtt_peer_try_send(&p, (struct str){"\x82\7\0\1\0\0\1r\1", 9}), 9);
    assert_int_equal(mqtt_peer_try_send(&p, (struct str){"\xe0\0", 2}), 2);
    mqtt_peer_close(&p);
    turn(4);
}

static void a_subscribe_with_a_user_property_alone_gives_no_identifier(void **state)
{
    struct mqtt_peer p;

    (void)state;
    connect_as(&p, 0, 5, "c");
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "r", .payload = "x", .retain = true});
    mqtt_peer_send(&p, "82 ~~ 00 01  07 26 00 01 'k' 00 01 'v'  00 01 'r' 00");
    mqtt_peer_expect(&p, "90 04 00 01 00 00  31 05 00 01 'r' 00 'x'");
    mqtt_peer_send(&p, "82 ~~ 00 02  02 0b 05  00 01 'r' 00");
    mqtt_peer_expect(&p, "90 04 00 02 00 00  31 07 00 01 'r' 02 0b 05 'x'");
    mqtt_peer_close(&p);
}

/* What a client may not publish it may not leave behind either. Bridges say there that they are gone. */
static void a_will_for_the_servers_own_topics_is_refused(void **state)
{
    static const struct {
        uint8_t version;
        const char *topic, *answer;
    } rows[] = {
        {4, "$SYS/broker/version", "20 02 00 05"},
        {5, "$SYS/broker/version", "20 03 00 87 00"},
        {5, "$share/g/a", "20 03 00 87 00"},
    };
    struct mqtt_peer p;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf all = {0};

        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_put_connect(&all, &(struct mqtt_peer_connect){.version = rows[i].version, .id = "c", .will = rows[i].topic});
        mqtt_peer_send_bytes(&p, buf_str(&all));
        buf_free(&all, MEM_TEST);
        mqtt_peer_expect(&p, rows[i].answer);
        mqtt_peer_expect_end(&p);
    }
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 4, .id = "c", .will = "$SYS/broker/connection/b/state"},
                      false);
    mqtt_peer_close(&p);
}

static void a_will_is_published_and_one_for_kafka_too(void **state)
{
    struct mqtt_peer watcher, dying, device;

    (void)state;
    connect_as(&watcher, 0, 4, "watcher");
    mqtt_peer_subscribe(&watcher, "w", 0);
    mqtt_rig_accept(&r, 1, &dying);
    mqtt_peer_connect(&dying, &(struct mqtt_peer_connect){.version = 5, .id = "dying", .will = "w"}, false);
    mqtt_rig_accept(&r, 1, &device);
    mqtt_peer_connect(&device,
                      &(struct mqtt_peer_connect){.version = 4, .id = "x", .user = "d1@t1", .password = "pw", .will = "event"},
                      false);
    mqtt_peer_close(&dying);
    mqtt_peer_close(&device);
    mqtt_peer_expect_publish(&watcher, &(struct mqtt_peer_publish){.topic = "w", .payload = "gone"});
    turn(3);
    assert_int_equal(fake_sink_count(&r.sink), 1);
    assert_true(str_equal(fake_sink_record(&r.sink, 0)->value, STR("gone")));
    mqtt_peer_close(&watcher);
}

/* --- faults --- */

/* One allocation fails while the server works, whichever; clients may be closed, nothing else may happen. */
static void any_one_allocation_may_fail(void **state)
{
    static const char *const scripts[] = {
        "82 ~~ 00 01 03 0b ff 01  00 01 'a' 02  00 01 'b' 01  00 01 '#' 01",
        "3d ~~ 00 01 'a' 00 02  03 23 00 01 'hello'",
        "35 ~~ 00 05 'event' 00 03  00 'hello'",
        "33 ~~ 00 05 'event' 00 04  00 'hello'",
        "62 02 00 02",
        "a2 ~~ 00 05 00 00 01 'a'",
        "c0 00",
    };

    (void)state;
    for (unsigned nth = 1; nth < 60; nth++) {
        for (unsigned step = 0; step < ARRAY_LEN(scripts); step++) {
            struct mqtt_peer p, other;

            mqtt_rig_accept(&r, nth % 2, &p);
            mqtt_peer_connect(&p, &(struct mqtt_peer_connect){.version = 5, .id = "x", .user = "d1@t1", .password = "pw"},
                              false);
            connect_as(&other, 0, 4, "other");
            mqtt_peer_subscribe(&other, "a", 1);
            for (unsigned i = 0; i < ARRAY_LEN(scripts); i++) {
                mem_fail_after(i == step ? nth : 0);
                mqtt_peer_send(&p, scripts[i]);
                mqtt_rig_turn(&r);
                mem_fail_after(0);
            }
            turn(2);
            mqtt_rig_check_ledger();
            mqtt_peer_close(&p);
            mqtt_peer_close(&other);
            turn(2);
        }
        if (nth == 12)
            nth = 49; /* what takes more than a dozen allocations fails like what takes fifty: not at all */
    }
}

static void any_one_allocation_of_a_connect_may_fail(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth < 20; nth++) {
        struct buf all = {0};
        struct mqtt_peer p;
        char id[MQTT_RIG_ID];

        mqtt_rig_id(&r, nth % 2, id);
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_put_connect(
            &all, &(struct mqtt_peer_connect){
                      .version = 5, .id = "a client identifier that is rather long", .will = "w", .is_persistent = true});
        mqtt_peer_put_connect(&all, &(struct mqtt_peer_connect){.version = 5, .id = id}); /* a protocol error behind it */
        mem_fail_after(nth);
        mqtt_peer_send_bytes(&p, buf_str(&all));
        turn(3);
        mem_fail_after(0);
        buf_free(&all, MEM_TEST);
        mqtt_peer_close(&p);
        turn(2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_is_served_over_loopback),
        TEST(what_is_sent_behind_the_connect_arrives_at_home),
        TEST(nothing_behind_a_refused_connect_is_processed),
        TEST(a_packet_before_connect_closes),
        TEST(a_connect_that_does_not_come_in_time_closes),
        TEST(a_client_without_an_id_is_given_one_at_home_here),
        TEST_AS_IT_IS(over_the_limit_connections_are_refused_as_busy),
        TEST(the_second_client_with_an_id_takes_over),
        TEST(a_takeover_finds_the_first_connection_in_any_state),
        TEST_AS_IT_IS(a_silent_client_is_closed_after_one_and_a_half_times_its_keep_alive),
        TEST(a_drain_waits_for_what_was_sent_to_kafka),
        TEST(a_drain_without_connections_is_done_at_once),
        TEST_AS_IT_IS(answers_to_a_client_that_does_not_read_are_bounded),
        TEST_AS_IT_IS(a_subscriber_that_does_not_read_is_bounded),
        TEST_AS_IT_IS(sessions_and_retained_messages_are_bounded),
        TEST_AS_IT_IS(subscriptions_are_bounded_and_refused_ones_counted),
        TEST_AS_IT_IS(a_packet_over_the_limit_closes),
        TEST(a_publisher_waits_for_room_in_another_workers_mailbox),
        TEST(waiting_for_a_mailbox_is_no_busy_loop),
        TEST(a_subscription_finds_a_retained_message_acknowledged_before_it),
        TEST(a_client_that_goes_at_the_barrier_is_forgotten),
        TEST(a_subscribe_with_a_user_property_alone_gives_no_identifier),
        TEST(a_will_for_the_servers_own_topics_is_refused),
        TEST(a_will_is_published_and_one_for_kafka_too),
        TEST(any_one_allocation_may_fail),
        TEST(any_one_allocation_of_a_connect_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
