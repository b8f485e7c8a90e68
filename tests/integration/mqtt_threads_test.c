/* The same adapter with running workers, for what only happens between threads (ThreadSanitizer looks on). */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

enum { CLIENTS = 8, ROUNDS = 20 };

static struct mqtt_rig r;

static int set_up(void **state)
{
    (void)state;
    mqtt_rig_open_threaded(&r, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void open_client(struct mqtt_peer *p, int i)
{
    char id[MQTT_RIG_ID];

    snprintf(id, sizeof id, "client%d", i);
    mqtt_rig_connect(&r, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = i % 2 ? 5 : 4, .id = id}, false);
}

static void everybody_hears_everybody(void **state)
{
    struct mqtt_peer peers[CLIENTS];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        open_client(&peers[i], i);
        mqtt_peer_subscribe(&peers[i], i % 3 ? "a/b" : "#", 1);
    }
    for (uint16_t round = 1; round <= ROUNDS; round++)
        for (int i = 0; i < CLIENTS; i++)
            mqtt_peer_publish(&peers[i],
                              &(struct mqtt_peer_publish){.topic = "a/b", .payload = "x", .qos = 1, .packet_id = round});
    for (int i = 0; i < CLIENTS; i++) {
        int n_acks = 0, n_messages = 0;

        while (n_acks < ROUNDS || n_messages < ROUNDS * CLIENTS) {
            uint8_t first = mqtt_peer_skip(&peers[i]);

            n_acks += first == 0x40;
            n_messages += first == 0x32;
        }
        mqtt_peer_close(&peers[i]);
    }
}

static void clients_take_over_from_each_other(void **state)
{
    struct mqtt_peer peers[ROUNDS];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        mqtt_rig_connect(&r, &peers[i]);
        mqtt_peer_connect(&peers[i], &(struct mqtt_peer_connect){.version = 4, .id = "the same", .is_persistent = true}, i > 0);
        mqtt_peer_subscribe(&peers[i], "a", 1);
        mqtt_peer_publish(&peers[i], &(struct mqtt_peer_publish){.topic = "a", .payload = "x", .qos = 0});
        if (i > 0)
            mqtt_peer_close(&peers[i - 1]);
    }
    mqtt_peer_close(&peers[ROUNDS - 1]);
}

static void devices_publish_and_the_process_drains(void **state)
{
    struct mqtt_peer peers[CLIENTS];
    int n_acks[CLIENTS] = {0};

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        char id[MQTT_RIG_ID];

        snprintf(id, sizeof id, "c%d", i);
        mqtt_rig_connect(&r, &peers[i]);
        mqtt_peer_connect(
            &peers[i], &(struct mqtt_peer_connect){.version = 4, .id = id, .user = i % 2 ? "d1@t1" : "d1@t2", .password = "pw"},
            false);
    }
    fake_sink_set_room(&r.sink, 3);
    fake_sink_hold(&r.sink);
    for (uint16_t round = 1; round <= ROUNDS; round++)
        for (int i = 0; i < CLIENTS; i++)
            mqtt_peer_publish(&peers[i],
                              &(struct mqtt_peer_publish){.topic = "event", .payload = "x", .qos = 1, .packet_id = round});
    fake_sink_release(&r.sink, SIZE_MAX);
    for (int i = 0; i < CLIENTS; i++)
        for (; n_acks[i] < ROUNDS; n_acks[i]++)
            assert_int_equal(mqtt_peer_skip(&peers[i]), 0x40);
    assert_int_equal(fake_sink_count(&r.sink), CLIENTS * ROUNDS);
    mqtt_adapter_drain(r.adapter, &r.drained, &r.main.mailbox);
    for (int i = 0; i < CLIENTS; i++)
        mqtt_peer_expect_end(&peers[i]);
    while (!r.is_drained)
        loop_turn(&r.main, -1);
}

/* Workers stop with everything still open. */
static void the_process_may_end_at_any_time(void **state)
{
    static struct mqtt_peer peers[CLIENTS];

    (void)state;
    fake_sink_hold(&r.sink);
    for (int i = 0; i < CLIENTS; i++) {
        struct mqtt_peer_connect connect = {
            .version = 5, .id = (char[]){(char)('a' + i), '\0'}, .user = "g1@t1", .password = "pw"};
        struct buf all = {0};

        mqtt_rig_connect(&r, &peers[i]);
        mqtt_peer_put_connect(&all, &connect);
        mqtt_peer_put_publish(&all, 5, &(struct mqtt_peer_publish){.topic = "t//d2", .payload = "x", .qos = 2, .packet_id = 1});
        mqtt_peer_send_bytes(&peers[i], buf_str(&all));
        buf_free(&all, MEM_TEST);
    }
    workers_stop(&r.workers);
    for (int i = 0; i < CLIENTS; i++)
        mqtt_peer_close(&peers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everybody_hears_everybody),
        TEST(clients_take_over_from_each_other),
        TEST(devices_publish_and_the_process_drains),
        TEST(the_process_may_end_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
