/* Instances that share a table of routes, and one that is alone. */
#include "routes/routes_fixture_test.h"

static void one_that_is_alone_registers_finds_and_unregisters(void **state)
{
    struct fixture_node *a = fixture_add("a", true);
    struct routes_route route;
    uint64_t epoch;

    (void)state;
    assert_false(routes_is_leased(fixture_replica(a, "t")));
    fixture_settle();
    assert_true(a->is_ready);
    assert_true(routes_is_leased(fixture_replica(a, "t")));
    assert_non_null(routes_self(fixture_replica(a, "t")));
    epoch = fixture_register(a, "t", "d", "g");
    assert_int_not_equal(epoch, 0);
    assert_true(routes_find(fixture_replica(a, "t"), STR("t"), STR("d"), &route));
    assert_true(route.instance->is_self);
    assert_int_equal(route.epoch, epoch);
    assert_true(str_equal(route.gateway, STR("g")));
    assert_false(fixture_is_recent(a, "t", "d"));
    assert_int_equal(fixture_unregister(a, "t", "d", epoch + 1), E_DENIED);
    assert_int_equal(fixture_unregister(a, "t", "d", epoch), E_OK);
    assert_string_equal(fixture_where(a, "t", "d"), "");
    assert_int_equal(fixture_unregister(a, "t", "d", epoch), E_DENIED);
    fixture_pass(10 * FIXTURE_LEASE_MS);
    assert_true(routes_is_leased(fixture_replica(a, "t")));
    assert_int_equal(a->n_leased, 0);
}

static void what_is_registered_before_the_lease_waits_for_it(void **state)
{
    const struct routes_subscription s = {.tenant = STR("t"), .device = STR("d")};
    struct fixture_node *a = fixture_add("a", false);
    struct fixture_ask ask = fixture_ask();

    (void)state;
    routes_register(fixture_replica(a, "t"), &ask.write, &s);
    assert_int_equal(fixture_wait(&ask), E_OK);
    assert_string_equal(fixture_where(a, "t", "d"), "a");
}

static void names_that_are_too_long_are_refused(void **state)
{
    static char text[ROUTES_TEXT_MAX + 2];
    struct fixture_node *a = fixture_add("a", true);

    (void)state;
    memset(text, 'x', sizeof text - 1);
    fixture_settle();
    assert_int_equal(fixture_register(a, "t", text, ""), 0);
    text[ROUTES_TEXT_MAX] = '\0';
    assert_int_not_equal(fixture_register(a, "t", text, ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_is_alone_registers_finds_and_unregisters, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_is_registered_before_the_lease_waits_for_it, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_too_long_are_refused, fixture_set_up, fixture_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
