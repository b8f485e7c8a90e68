/* Workers change to another generation of configuration, registry and rules while clients are connected. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { CLIENTS = 4, ROUNDS = 40, RELOADS = 40, PER_PUBLISH = 2, TEXT_BYTES = 64 };
enum {
    SLACK_BYTES = 256 /* blocks that the allocator uses again may be larger than asked for; a generation is larger than this */
};

#define HEAD "kafka: {bootstrap: 'nowhere:9092'}\nlisteners: [{mqtt: '127.0.0.1:0', tenant: t1, anonymous: true}]\ntenants:\n"

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void login(struct mqtt_peer *p, uint8_t version, const char *id, const char *user, const char *password)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = id, .user = user, .password = password}, false);
}

/* The CONNACK, as sent, must be this. */
static void expect_refusal(const char *user, const char *password, const char *connack)
{
    struct buf connect = {0};
    struct mqtt_peer p;

    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_put_connect(&connect,
                          &(struct mqtt_peer_connect){.version = 5, .id = "refused", .user = user, .password = password});
    mqtt_peer_send_bytes(&p, buf_str(&connect));
    buf_free(&connect, MEM_TEST);
    mqtt_peer_expect(&p, connack);
    mqtt_peer_expect_end(&p);
    mqtt_peer_close(&p);
}

static void expect_alive(struct mqtt_peer *p)
{
    mqtt_peer_send(p, "c0 00");
    mqtt_peer_expect(p, "d0 00");
}

static void a_new_device_may_enter_and_a_new_password_is_asked_for(void **state)
{
    struct mqtt_peer before, fresh;

    (void)state;
    login(&before, 5, "before", "d1@t1", "pw");
    expect_refusal("new@t1", "pw", "20 03 00 86 00");
    mqtt_rig_reload(&r, HEAD "  t1: {devices: {d1: {password: other}, new: {password: pw}}}\n", NULL);
    expect_alive(&before);
    expect_refusal("d1@t1", "pw", "20 03 00 86 00");
    login(&fresh, 5, "fresh", "new@t1", "pw");
    mqtt_peer_close(&fresh);
    mqtt_peer_close(&before);
}

static void who_has_gone_is_told_and_closed_and_others_stay(void **state)
{
    struct mqtt_peer gone, old, off, stays;

    (void)state;
    login(&gone, 5, "gone", "d1@t1", "pw");
    login(&old, 4, "old", "d1@t1", "pw");
    login(&off, 5, "off", "d1@t2", "pw");
    login(&stays, 5, "stays", "g1@t1", "pw");
    mqtt_rig_reload(&r, HEAD "  t1: {devices: {g1: {password: pw}}}\n  t2: {enabled: false, devices: {d1: {password: pw}}}\n",
                    NULL);
    mqtt_peer_expect(&gone, "e0 01 98");
    mqtt_peer_expect_end(&gone);
    mqtt_peer_expect_end(&old); /* before 5.0 there is no word for it */
    mqtt_peer_expect(&off, "e0 01 98");
    mqtt_peer_expect_end(&off);
    expect_alive(&stays);
    mqtt_peer_close(&gone);
    mqtt_peer_close(&old);
    mqtt_peer_close(&off);
    mqtt_peer_close(&stays);
}

static void a_session_ends_with_its_device_but_waits_for_a_disabled_one(void **state)
{
    static const struct mqtt_peer_connect connect = {
        .version = 5, .id = "c", .user = "d1@t1", .password = "pw", .is_persistent = true};
    static const struct {
        const char *text;
        bool is_kept;
    } rows[] = {
        {HEAD "  t1: {devices: {d1: {password: pw, enabled: false}}}\n", true},
        {HEAD "  t1: {}\n", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_peer p;

        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(&p, &connect, i > 0);
        mqtt_rig_reload(&r, rows[i].text, NULL);
        mqtt_peer_expect(&p, "e0 01 98");
        mqtt_peer_close(&p);
        mqtt_rig_reload(&r, NULL, NULL);
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(&p, &connect, rows[i].is_kept);
        mqtt_peer_close(&p);
        mqtt_rig_turn(&r);
    }
}

static void will_of(struct mqtt_peer *p, const char *user)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(
        p, &(struct mqtt_peer_connect){.version = 5, .id = "dies", .user = user, .password = "pw", .will = "wills"}, false);
}

static void the_will_of_who_is_thrown_out_is_published(void **state)
{
    struct mqtt_peer dies, hears;

    (void)state;
    login(&hears, 5, "hears", "g1@t1", "pw");
    mqtt_peer_subscribe(&hears, "wills", 0);
    will_of(&dies, "d1@t1");
    mqtt_rig_reload(&r, HEAD "  t1: {devices: {g1: {password: pw}}}\n", NULL);
    mqtt_peer_expect_publish(&hears, &(struct mqtt_peer_publish){.topic = "wills", .payload = "gone"});
    mqtt_peer_close(&dies);
    mqtt_peer_close(&hears);
}

/* A client was told a Receive Maximum of 1000: it is not wrong to use it. */
static void what_a_connack_promised_holds(void **state)
{
    static const char *const tighter[] = {"limits.receive_maximum=2", "limits.topic_alias_maximum=0",
                                          "limits.max_packet_bytes=1KiB", NULL};
    struct mqtt_peer before, after;
    static char payload[2048];

    (void)state;
    memset(payload, 'x', sizeof payload - 1);
    fake_sink_hold(&r.sink);
    login(&before, 5, "before", "d1@t1", "pw");
    mqtt_rig_reload(&r, NULL, tighter);
    login(&after, 5, "after", "d1@t1", "pw");
    for (uint16_t id = 1; id <= 3; id++)
        mqtt_peer_publish(
            &before, &(struct mqtt_peer_publish){.topic = "event", .payload = payload, .qos = 1, .packet_id = id, .alias = 32});
    expect_alive(&before);
    for (uint16_t id = 1; id <= 3; id++)
        mqtt_peer_publish(&after, &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 1, .packet_id = id});
    mqtt_peer_expect(&after, "e0 01 93");
    mqtt_peer_close(&after);
    fake_sink_release(&r.sink, SIZE_MAX);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mqtt_peer_skip(&before), 0x40);
    mqtt_peer_close(&before);
}

static void new_limits_hold_for_who_is_connected(void **state)
{
    static const char *const tighter[] = {"limits.topic_levels=4", "limits.subscriptions_per_session=1", NULL};
    struct mqtt_peer p;

    (void)state;
    login(&p, 5, "p", NULL, NULL);
    mqtt_peer_subscribe(&p, "one", 0);
    mqtt_rig_reload(&r, NULL, tighter);
    mqtt_peer_send(&p, "82 ~~ 00 02 00 00 03 'two' 00");
    mqtt_peer_expect(&p, "90 ~~ 00 02 00 97");
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a/b/c/d/e", .payload = "x", .qos = 1, .packet_id = 1});
    assert_int_equal(mqtt_peer_skip(&p), 0x40);
    mqtt_peer_close(&p);
}

/* Who it is was settled on the first worker; the second one has heard of the reload by then. */
static void a_device_that_goes_while_it_is_handed_over_is_refused(void **state)
{
    struct buf connect = {0};
    struct mqtt_peer p;

    (void)state;
    mqtt_rig_accept(&r, mqtt_rig_home(&r, "t1", "d1") ? 0 : 1, &p);
    mqtt_peer_put_connect(&connect, &(struct mqtt_peer_connect){.version = 5, .id = "x", .user = "d1@t1", .password = "pw"});
    mqtt_rig_begin_reload(&r, HEAD "  t1: {}\n", NULL);
    mqtt_peer_send_bytes(&p, buf_str(&connect)); /* descriptors come before mail in a turn */
    buf_free(&connect, MEM_TEST);
    mqtt_peer_expect(&p, "20 03 00 87 00");
    mqtt_peer_expect_end(&p);
    mqtt_peer_close(&p);
}

static void an_old_generation_dies_although_clients_stay(void **state)
{
    int64_t registry_bytes, config_bytes;
    struct mqtt_peer p;

    (void)state;
    login(&p, 5, "p", "d1@t1", "pw");
    registry_bytes = mem_used(MEM_REGISTRY);
    config_bytes = mem_used(MEM_CONFIG);
    for (int i = 0; i < RELOADS; i++)
        mqtt_rig_reload(&r, NULL, NULL);
    assert_true(mem_used(MEM_REGISTRY) < registry_bytes + SLACK_BYTES);
    assert_true(mem_used(MEM_CONFIG) < config_bytes + SLACK_BYTES);
    expect_alive(&p);
    mqtt_peer_close(&p);
}

static int64_t came_in(const char *rule)
{
    char label[TEXT_BYTES];

    snprintf(label, sizeof label, "route=\"%s\"", rule);
    return mqtt_rig_metric("millrace_messages_in_total", label);
}

static void the_series_of_a_rule_follow_its_name(void **state)
{
    static const char *const one[] = {"to_kafka=[{name: first, mqtt: 'a/#', topic: a}]", NULL};
    static const char *const two[] = {"to_kafka=[{name: second, mqtt: 'b/#', topic: b}, {name: first, mqtt: 'a/#', topic: a}]",
                                      NULL};
    int64_t first = came_in("first"), second = came_in("second");
    struct mqtt_peer p;

    (void)state;
    login(&p, 5, "p", NULL, NULL);
    mqtt_rig_reload(&r, NULL, one);
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a/1", .payload = "x"});
    mqtt_rig_reload(&r, NULL, two);
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "a/1", .payload = "x"});
    mqtt_peer_publish(&p, &(struct mqtt_peer_publish){.topic = "b/1", .payload = "x"});
    expect_alive(&p);
    assert_int_equal(came_in("first"), first + 2);
    assert_int_equal(came_in("second"), second + 1);
    mqtt_peer_close(&p);
}

/* --- under load, with threads --- */

static const char *const odd[] = {"to_kafka=[{mqtt: 'x/#', actions: [{topic: odd-1}, {topic: odd-2}]}]", NULL};
static const char *const even[] = {"to_kafka=[{mqtt: 'x/#', actions: [{topic: even-1}, {topic: even-2}]}]", NULL};

static int set_up_threads(void **state)
{
    (void)state;
    mqtt_rig_open_threaded(&r, even);
    return 0;
}

static void open_clients(struct mqtt_peer *peers)
{
    for (int i = 0; i < CLIENTS; i++) {
        char id[MQTT_RIG_ID];

        snprintf(id, sizeof id, "client%d", i);
        mqtt_rig_connect(&r, &peers[i]);
        mqtt_peer_connect(&peers[i], &(struct mqtt_peer_connect){.version = i % 2 ? 5 : 4, .id = id}, false);
    }
}

/* Records of both topics of one generation for each message, and of no other; `seen` is by client and round. */
static void check_records(void)
{
    static int seen[CLIENTS][ROUNDS][4];
    static const char *const topics[] = {"even-1", "even-2", "odd-1", "odd-2"};
    int n_odd = 0;

    memset(seen, 0, sizeof seen);
    assert_int_equal(fake_sink_count(&r.sink), CLIENTS * ROUNDS * PER_PUBLISH);
    for (size_t i = 0; i < fake_sink_count(&r.sink); i++) {
        const struct fake_record *record = fake_sink_record(&r.sink, i);
        int number = atoi(record->value.p);
        size_t which = 0;

        while (!str_equal(record->topic, str_from(topics[which])))
            assert_true(++which < ARRAY_LEN(topics));
        seen[number / ROUNDS][number % ROUNDS][which]++;
    }
    for (int c = 0; c < CLIENTS; c++)
        for (int round = 0; round < ROUNDS; round++) {
            const int *n = seen[c][round];

            assert_int_equal(n[0], n[1]);
            assert_int_equal(n[2], n[3]);
            assert_int_equal(n[0] + n[2], 1);
            n_odd += n[2];
        }
    print_message("%d of %d by the odd generations\n", n_odd, CLIENTS * ROUNDS);
}

static void every_publish_sees_exactly_one_generation(void **state)
{
    struct mqtt_peer peers[CLIENTS];
    unsigned n_begun = 0;

    (void)state;
    open_clients(peers);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            char payload[TEXT_BYTES];

            snprintf(payload, sizeof payload, "%d;", i * ROUNDS + round);
            mqtt_peer_publish(&peers[i], &(struct mqtt_peer_publish){
                                             .topic = "x/y", .payload = payload, .qos = 1, .packet_id = (uint16_t)(round + 1)});
        }
        if (r.n_reloads == n_begun)
            mqtt_rig_begin_reload(&r, NULL, n_begun++ % 2 ? even : odd);
        mqtt_rig_turn(&r);
    }
    for (int i = 0; i < CLIENTS; i++) {
        for (int n = 0; n < ROUNDS; n++)
            assert_int_equal(mqtt_peer_skip(&peers[i]), 0x40);
        mqtt_peer_close(&peers[i]);
    }
    while (r.n_reloads < n_begun)
        mqtt_rig_turn(&r);
    check_records();
}

static void a_reload_on_its_way_may_end_with_the_process(void **state)
{
    struct mqtt_peer peers[CLIENTS];

    (void)state;
    open_clients(peers);
    mqtt_rig_begin_reload(&r, HEAD "  t1: {}\n", NULL);
    workers_stop(&r.workers);
    for (int i = 0; i < CLIENTS; i++)
        mqtt_peer_close(&peers[i]);
}

#define TEST_THREADS(name) cmocka_unit_test_setup_teardown(name, set_up_threads, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_device_may_enter_and_a_new_password_is_asked_for),
        TEST(who_has_gone_is_told_and_closed_and_others_stay),
        TEST(a_session_ends_with_its_device_but_waits_for_a_disabled_one),
        TEST(the_will_of_who_is_thrown_out_is_published),
        TEST(what_a_connack_promised_holds),
        TEST(new_limits_hold_for_who_is_connected),
        TEST(a_device_that_goes_while_it_is_handed_over_is_refused),
        TEST(an_old_generation_dies_although_clients_stay),
        TEST(the_series_of_a_rule_follow_its_name),
        TEST_THREADS(every_publish_sees_exactly_one_generation),
        TEST_THREADS(a_reload_on_its_way_may_end_with_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
