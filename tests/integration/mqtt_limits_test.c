/* What a tenant may use (resource-limits), at the MQTT adapter: connections, how long they last, and how much they send. */
#include "integration/mqtt_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "registry/usage.h"

#define CONNECTS_REFUSED "millrace_mqtt_connects_refused_total"

static struct mqtt_rig r;

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    usage_free_all(); /* as at the end of a process: the next one begins at nothing */
    return 0;
}

static void open_with(const char *setting, const char *other)
{
    mqtt_rig_open(&r, (const char *const[]){setting, other, NULL});
}

static struct mqtt_peer_connect login_as(uint8_t version, const char *user)
{
    return (struct mqtt_peer_connect){.version = version, .id = user, .user = user, .password = user ? "pw" : NULL};
}

static void connect_as(struct mqtt_peer *p, uint8_t version, const char *user)
{
    struct mqtt_peer_connect connect = login_as(version, user);

    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &connect, false);
}

static void expect_refused(uint8_t version, const char *user, const char *connack)
{
    struct mqtt_peer_connect connect = login_as(version, user);
    struct buf bytes = {0};
    struct mqtt_peer p;

    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_put_connect(&bytes, &connect);
    mqtt_peer_send_bytes(&p, buf_str(&bytes));
    buf_free(&bytes, MEM_TEST);
    mqtt_peer_expect(&p, connack);
    mqtt_peer_expect_end(&p);
    mqtt_peer_close(&p);
}

static void publish(struct mqtt_peer *p, const char *topic, const char *payload, uint8_t qos, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = payload, .qos = qos, .packet_id = id});
}

static void one_connection_more_is_refused_until_one_goes(void **state)
{
    int64_t refused = mqtt_rig_metric(CONNECTS_REFUSED, "tenant_max_connections");
    struct mqtt_peer d1, anonymous, g1, other;

    (void)state;
    open_with("tenants.t1.resource-limits.max-connections=2", NULL);
    connect_as(&d1, 4, "d1@t1");
    connect_as(&anonymous, 5, NULL);
    expect_refused(4, "g1@t1", "20 02 00 05");
    expect_refused(5, "g1@t1", "20 03 00 97 00");
    expect_refused(5, NULL, "20 03 00 97 00");
    assert_int_equal(mqtt_rig_metric(CONNECTS_REFUSED, "tenant_max_connections"), refused + 3);
    connect_as(&other, 4, "d1@t2"); /* not theirs */
    mqtt_peer_close(&d1);
    mqtt_rig_turn(&r);
    connect_as(&g1, 4, "g1@t1");
    expect_refused(4, "d1@t1", "20 02 00 05");
    mqtt_peer_close(&anonymous);
    mqtt_peer_close(&g1);
    mqtt_peer_close(&other);
}

/* A client that has lost its connection need not wait until that is noticed. */
static void a_client_that_comes_again_takes_its_own_place(void **state)
{
    struct mqtt_peer first, second;

    (void)state;
    open_with("tenants.t1.resource-limits.max-connections=1", NULL);
    for (uint8_t version = 4; version <= 5; version++) {
        connect_as(&first, version, "d1@t1");
        connect_as(&second, version, "d1@t1");
        if (version == 5)
            mqtt_peer_expect(&first, "e0 01 8e");
        mqtt_peer_expect_end(&first);
        expect_refused(5, "g1@t1", "20 03 00 97 00");
        mqtt_peer_close(&first);
        mqtt_peer_close(&second);
        mqtt_rig_turn(&r);
    }
}

/* Refused for another reason, it is no connection that counts. */
static void who_is_refused_does_not_count(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("tenants.t1.resource-limits.max-connections=1", "limits.sessions=2"); /* one session for each worker */
    for (int i = 0; i < 3; i++) {
        struct mqtt_peer_connect connect = login_as(5, "d1@t1");
        struct buf bytes = {0};

        connect.password = "no";
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_put_connect(&bytes, &connect);
        mqtt_peer_send_bytes(&p, buf_str(&bytes));
        buf_free(&bytes, MEM_TEST);
        mqtt_peer_expect(&p, "20 03 00 86 00");
        mqtt_peer_close(&p);
    }
    connect_as(&p, 5, "d1@t1");
    mqtt_peer_close(&p);
}

static void without_time_left_nobody_connects(void **state)
{
    int64_t refused = mqtt_rig_metric(CONNECTS_REFUSED, "tenant_connection_duration");
    struct mqtt_peer other;

    (void)state;
    open_with("tenants.t1.resource-limits.connection-duration.max-minutes=0", NULL);
    expect_refused(4, "d1@t1", "20 02 00 05");
    expect_refused(5, "d1@t1", "20 03 00 97 00");
    connect_as(&other, 5, "d1@t2");
    assert_int_equal(mqtt_rig_metric(CONNECTS_REFUSED, "tenant_connection_duration"), refused + 2);
    mqtt_peer_close(&other);
}

static void what_goes_beyond_the_data_volume_is_refused(void **state)
{
    int64_t rejected = mqtt_rig_metric("millrace_messages_rejected_total", "reason=\"data_volume\"");
    int64_t dropped = mqtt_rig_metric("millrace_messages_dropped_total", "reason=\"data_volume\"");
    struct mqtt_peer five, three;

    (void)state;
    open_with("tenants.t1.resource-limits.data-volume.max-bytes=6", NULL);
    connect_as(&five, 5, "d1@t1");
    connect_as(&three, 4, "g1@t1");
    publish(&five, "telemetry", "abcd", 1, 1);
    mqtt_peer_expect(&five, "40 02 00 01");
    publish(&five, "event", "abc", 1, 2); /* 7 */
    mqtt_peer_expect(&five, "40 03 00 02 97");
    publish(&five, "telemetry", "ab", 2, 3);
    mqtt_peer_expect(&five, "50 02 00 03");
    publish(&five, "event/?content-type=application%2Fvnd.eclipse-hono-empty-notification", "", 1,
            4); /* nothing is always within */
    mqtt_peer_expect(&five, "40 02 00 04");
    publish(&five, "c///s/203abc/200", "x", 1, 5);
    mqtt_peer_expect(&five, "40 03 00 05 97");
    publish(&five, "plain/topic", "not a device's", 1, 6);
    mqtt_peer_expect(&five, "40 02 00 06");
    publish(&three, "telemetry", "x", 1, 1);
    mqtt_peer_expect_end(&three);
    publish(&five, "telemetry", "x", 0, 0);
    mqtt_peer_expect(&five, "e0 01 97");
    mqtt_peer_expect_end(&five);
    assert_int_equal(mqtt_rig_metric("millrace_messages_rejected_total", "reason=\"data_volume\""), rejected + 3);
    assert_int_equal(mqtt_rig_metric("millrace_messages_dropped_total", "reason=\"data_volume\""), dropped + 1);
    mqtt_peer_close(&five);
    mqtt_peer_close(&three);
}

static void without_data_volume_nobody_connects(void **state)
{
    int64_t refused = mqtt_rig_metric(CONNECTS_REFUSED, "tenant_data_volume");
    struct mqtt_peer p;

    (void)state;
    open_with("tenants.t1.resource-limits.data-volume.max-bytes=8", "tenants.t1.minimum-message-size=8");
    connect_as(&p, 4, "d1@t1");
    publish(&p, "telemetry", "x", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_refused(4, "g1@t1", "20 02 00 05");
    expect_refused(5, "g1@t1", "20 03 00 97 00");
    assert_int_equal(mqtt_rig_metric(CONNECTS_REFUSED, "tenant_data_volume"), refused + 2);
    mqtt_peer_close(&p);
}

static void errors_tell_of_it_by_429(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("tenants.t1.resource-limits.data-volume.max-bytes=1", NULL);
    connect_as(&p, 4, "d1@t1");
    mqtt_peer_subscribe(&p, "error///#", 0);
    publish(&p, "telemetry", "ab", 1, 7);
    mqtt_peer_expect(&p, "30");
    mqtt_peer_close(&p);
}

/* A record that finds no room now is not counted twice. */
static void what_waits_for_room_counts_once(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("tenants.t1.resource-limits.data-volume.max-bytes=2", NULL);
    connect_as(&p, 5, "d1@t1");
    fake_sink_set_room(&r.sink, 0);
    publish(&p, "telemetry", "x", 1, 1);
    mqtt_peer_expect_nothing(&p);
    fake_sink_set_room(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "telemetry", "y", 1, 2);
    mqtt_peer_expect(&p, "40 02 00 02");
    publish(&p, "telemetry", "z", 1, 3);
    mqtt_peer_expect(&p, "40 03 00 03 97");
    mqtt_peer_close(&p);
}

/* A reload keeps what was used, and its limits hold at once. */
static void a_reload_changes_the_limits_and_not_the_use(void **state)
{
    struct mqtt_peer p;

    (void)state;
    open_with("tenants.t1.resource-limits.data-volume.max-bytes=2", NULL);
    connect_as(&p, 5, "d1@t1");
    publish(&p, "telemetry", "xy", 1, 1);
    mqtt_peer_expect(&p, "40 02 00 01");
    mqtt_rig_reload(&r, NULL, (const char *const[]){"tenants.t1.resource-limits.data-volume.max-bytes=3", NULL});
    publish(&p, "telemetry", "xy", 1, 2);
    mqtt_peer_expect(&p, "40 03 00 02 97");
    publish(&p, "telemetry", "z", 1, 3);
    mqtt_peer_expect(&p, "40 02 00 03");
    mqtt_peer_close(&p);
}

#define CASE(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(one_connection_more_is_refused_until_one_goes),
        CASE(a_client_that_comes_again_takes_its_own_place),
        CASE(who_is_refused_does_not_count),
        CASE(without_time_left_nobody_connects),
        CASE(what_goes_beyond_the_data_volume_is_refused),
        CASE(without_data_volume_nobody_connects),
        CASE(errors_tell_of_it_by_429),
        CASE(what_waits_for_room_counts_once),
        CASE(a_reload_changes_the_limits_and_not_the_use),
    };

    return cmocka_run_group_tests_name("mqtt_limits", tests, NULL, NULL);
}
