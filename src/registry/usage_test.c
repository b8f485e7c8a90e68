#include "registry/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/moment.h"
#include "registry/principal.h"

#define MINUTE (INT64_C(60) * 1000)

static int64_t at(const char *text)
{
    int64_t ms;

    assert_int_equal(moment_parse(str_from(text), &ms), E_OK);
    return ms;
}

static const struct config_tenant_limits unlimited = {
    .max_connections = -1, .data_volume = {.max = -1}, .connection_duration = {.max = -1}};

static struct registry_tenant tenant(const char *id, const struct config_tenant_limits *limits)
{
    return (struct registry_tenant){.id = str_from(id), .limits = limits, .usage = usage_ref(str_from(id))};
}

static void a_tenant_has_one_account(void **state)
{
    struct usage *a = usage_ref(STR("a")), *also_a = usage_ref(STR("a")), *b = usage_ref(STR("b"));

    (void)state;
    assert_ptr_equal(a, also_a);
    assert_ptr_not_equal(a, b);
    usage_unref(a);
    usage_unref(also_a);
    usage_unref(b);
    usage_unref(NULL);
    assert_int_equal(mem_used(MEM_REGISTRY), 0);
}

static void what_was_counted_outlives_its_references(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("kept", &limits);

    (void)state;
    limits.data_volume = (struct config_allowance){.max = 10};
    usage_count(&ten, 8, 0);
    usage_unref(ten.usage);
    ten = tenant("kept", &limits);
    assert_true(usage_admits(&ten, 2, 0));
    assert_false(usage_admits(&ten, 3, 0));
}

static void without_bounds_everything_is_admitted(void **state)
{
    struct registry_tenant ten = tenant("free", &unlimited);
    int64_t now = at("2026-01-01T00:00:00Z");

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
        assert_true(usage_admits(&ten, 1 << 30, now));
        usage_count(&ten, 1 << 30, now);
    }
    ten.usage = NULL;
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    usage_disconnect(&ten, now);
}

static void as_many_connections_as_allowed(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("connections", &limits);
    int64_t now = at("2026-01-01T00:00:00Z");

    (void)state;
    limits.max_connections = 2;
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_TOO_MANY_CONNECTIONS);
    assert_int_equal(usage_connect(&ten, 1, now), USAGE_ADMITTED); /* takes over */
    usage_disconnect(&ten, now);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_TOO_MANY_CONNECTIONS);
    usage_disconnect(&ten, now);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    limits.max_connections = 0;
    usage_disconnect(&ten, now);
    usage_disconnect(&ten, now);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_TOO_MANY_CONNECTIONS);
}

/* One step of a tenant's traffic after another, in one account. */
static const struct {
    const char *name, *now;
    size_t bytes;
    bool is_admitted;
} volume[] = {
    {"before it holds, anything", "2026-01-11T11:59:59Z", 1 << 20, true},
    {"20 of 31 days: 2000 of 3100", "2026-01-12T12:00:00Z", 2001, false},
    {"up to the bound", "2026-01-12T12:00:00Z", 1500, true},
    {"one more than is left", "2026-01-31T23:59:59Z", 501, false},
    {"what is left", "2026-01-31T23:59:59Z", 500, true},
    {"an empty one is always admitted", "2026-01-31T23:59:59Z", 0, true},
    {"a byte", "2026-01-31T23:59:59.999Z", 1, false},
    {"a whole month", "2026-02-01T00:00:00Z", 3100, true},
    {"is used up", "2026-02-28T00:00:00Z", 1, false},
    {"the next but one", "2026-04-01T00:00:00Z", 3100, true},
};

static void counts_bytes_a_month(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("monthly", &limits);

    (void)state;
    limits.data_volume = (struct config_allowance){.since_ms = at("2026-01-12T12:00:00Z"), .max = 3100};
    for (size_t i = 0; i < ARRAY_LEN(volume); i++) {
        int64_t now = at(volume[i].now);
        bool is_admitted = usage_admits(&ten, volume[i].bytes, now);

        if (is_admitted != volume[i].is_admitted)
            fail_msg("%s", volume[i].name);
        if (is_admitted)
            usage_count(&ten, volume[i].bytes, now);
    }
}

static void counts_at_least_the_minimum(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("minimum", &limits);
    int64_t now = at("2026-01-01T00:00:00Z");

    (void)state;
    limits.minimum_message_size = 100;
    limits.data_volume = (struct config_allowance){.max = 300, .period = CONFIG_PERIOD_DAYS, .days = 1};
    usage_count(&ten, 1, now);
    usage_count(&ten, 0, now);
    assert_true(usage_admits(&ten, 200, now));
    assert_false(usage_admits(&ten, 201, now));
    usage_count(&ten, 101, now);
    assert_false(usage_admits(&ten, 1, now));
    usage_uncount(&ten, 101, now);
    assert_true(usage_admits(&ten, 200, now));
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    usage_count(&ten, 200, now);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_TOO_MUCH_DATA);
    assert_int_equal(usage_connect(&ten, 0, now + 24 * 60 * MINUTE), USAGE_ADMITTED);
}

static void counts_the_time_of_all_connections(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("duration", &limits);
    int64_t now = at("2026-01-01T00:00:00Z");

    (void)state;
    limits.connection_duration = (struct config_allowance){.since_ms = now, .max = 10, .period = CONFIG_PERIOD_DAYS, .days = 1};
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, now + 4 * MINUTE), USAGE_ADMITTED); /* 4 */
    usage_disconnect(&ten, now + 6 * MINUTE);                                   /* 8 */
    assert_int_equal(usage_connect(&ten, 0, now + 8 * MINUTE - 1), USAGE_ADMITTED);
    usage_disconnect(&ten, now + 8 * MINUTE - 1);
    assert_int_equal(usage_connect(&ten, 0, now + 8 * MINUTE), USAGE_CONNECTED_TOO_LONG);
    usage_disconnect(&ten, now + 9 * MINUTE);
    assert_int_equal(usage_connect(&ten, 0, now + 500 * MINUTE), USAGE_CONNECTED_TOO_LONG);
    assert_int_equal(usage_connect(&ten, 0, now + 1440 * MINUTE), USAGE_ADMITTED);
}

static void time_before_a_period_is_not_of_it(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("night", &limits);
    int64_t midnight = at("2026-01-02T00:00:00Z");

    (void)state;
    limits.connection_duration = (struct config_allowance){.max = 10, .period = CONFIG_PERIOD_DAYS, .days = 1};
    assert_int_equal(usage_connect(&ten, 0, midnight - 600 * MINUTE), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, midnight + 9 * MINUTE), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, midnight + 10 * MINUTE), USAGE_CONNECTED_TOO_LONG);
}

static struct usage_state last;
static unsigned n_visits;

static void remember(void *context, struct str tenant_id, const struct usage_state *state)
{
    (void)context;
    if (str_equal(tenant_id, STR("state"))) {
        last = *state;
        n_visits++;
    }
}

static void changes_are_taken_once_and_can_be_restored(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("state", &limits);
    int64_t now = at("2026-01-01T00:00:00Z");

    (void)state;
    limits.data_volume = (struct config_allowance){.since_ms = now, .max = 10};
    limits.connection_duration = (struct config_allowance){.since_ms = now, .max = 10};
    usage_take_changes(remember, NULL, now);
    assert_int_equal(n_visits, 0);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    usage_count(&ten, 4, now);
    usage_take_changes(remember, NULL, now + 3 * MINUTE); /* it lasts */
    assert_int_equal(n_visits, 1);
    assert_int_equal(last.bytes, 4);
    assert_int_equal(last.connected_ms, 3 * MINUTE);
    usage_disconnect(&ten, now + 4 * MINUTE);
    usage_take_changes(remember, NULL, now + 5 * MINUTE);
    assert_int_equal(last.connected_ms, 4 * MINUTE);
    usage_take_changes(remember, NULL, now + 6 * MINUTE);
    assert_int_equal(n_visits, 2);
    usage_free_all();

    usage_restore(STR("state"), &last);
    usage_take_changes(remember, NULL, now + 6 * MINUTE);
    assert_int_equal(n_visits, 2); /* that is no change */
    ten = tenant("state", &limits);
    assert_true(usage_admits(&ten, 6, now));
    assert_false(usage_admits(&ten, 7, now));
    assert_int_equal(usage_connect(&ten, 0, now + 10 * MINUTE), USAGE_ADMITTED);
    usage_disconnect(&ten, now + 16 * MINUTE);
    assert_int_equal(usage_connect(&ten, 0, now + 20 * MINUTE), USAGE_CONNECTED_TOO_LONG);
    assert_true(usage_admits(&ten, 10, at("2026-02-01T00:00:00Z"))); /* another period */
}

static void what_others_have_counted_counts_here(void **state)
{
    struct config_tenant_limits limits = unlimited;
    struct registry_tenant ten = tenant("everywhere", &limits);
    int64_t now = at("2026-01-01T00:00:00Z"), next = at("2026-02-01T00:00:00Z");
    struct usage_state others = {.bytes_begin_ms = now, .bytes = 6, .connected_begin_ms = now, .n_connections = 2};

    (void)state;
    limits.max_connections = 3;
    limits.data_volume = (struct config_allowance){.since_ms = now, .max = 10};
    limits.connection_duration = (struct config_allowance){.since_ms = now, .max = 10};
    usage_use_others(STR("everywhere"), &others);
    usage_count(&ten, 2, now);
    assert_true(usage_admits(&ten, 2, now));
    assert_false(usage_admits(&ten, 3, now));
    assert_true(usage_admits(&ten, 10, next)); /* that was another period */
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_ADMITTED);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_TOO_MANY_CONNECTIONS);
    usage_disconnect(&ten, now);

    others = (struct usage_state){.connected_begin_ms = now, .connected_ms = 10 * MINUTE};
    usage_use_others(STR("everywhere"), &others);
    assert_int_equal(usage_connect(&ten, 0, now), USAGE_CONNECTED_TOO_LONG);
    assert_int_equal(usage_connect(&ten, 0, next), USAGE_ADMITTED);
}

static void the_sum_of_several_is_of_the_latest_period(void **state)
{
    static const struct usage_state states[] = {
        {.bytes_begin_ms = 5, .bytes = 1, .connected_begin_ms = 7, .connected_ms = 10, .n_connections = 1},
        {.bytes_begin_ms = 9, .bytes = 2, .connected_begin_ms = 7, .connected_ms = 20, .n_connections = 2},
        {.bytes_begin_ms = 5, .bytes = 4, .connected_begin_ms = 3, .connected_ms = 40, .n_connections = 4},
        {.bytes_begin_ms = 9, .bytes = 8, .connected_begin_ms = 7, .connected_ms = 80, .n_connections = 8},
    };
    struct usage_state sum = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        usage_add_state(&sum, &states[i]);
    assert_int_equal(sum.bytes_begin_ms, 9);
    assert_int_equal(sum.bytes, 10);
    assert_int_equal(sum.connected_begin_ms, 7);
    assert_int_equal(sum.connected_ms, 110);
    assert_int_equal(sum.n_connections, 15);
}

static void a_verdict_has_a_word(void **state)
{
    (void)state;
    for (int verdict = 0; verdict < USAGE_VERDICTS; verdict++)
        assert_non_null(usage_verdict_name((enum usage_verdict)verdict));
}

static int free_all(void **state)
{
    (void)state;
    usage_free_all();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_has_one_account),
        cmocka_unit_test(what_was_counted_outlives_its_references),
        cmocka_unit_test(without_bounds_everything_is_admitted),
        cmocka_unit_test(as_many_connections_as_allowed),
        cmocka_unit_test(counts_bytes_a_month),
        cmocka_unit_test(counts_at_least_the_minimum),
        cmocka_unit_test(counts_the_time_of_all_connections),
        cmocka_unit_test(time_before_a_period_is_not_of_it),
        cmocka_unit_test(changes_are_taken_once_and_can_be_restored),
        cmocka_unit_test(what_others_have_counted_counts_here),
        cmocka_unit_test(the_sum_of_several_is_of_the_latest_period),
        cmocka_unit_test(a_verdict_has_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, free_all);
}
