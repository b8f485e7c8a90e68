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

/* --- last gateways --- */

static void write_notes(struct fixture_node *node)
{
    struct routes_replica *r = fixture_replica(node, "t");

    r->notes_timer.on_timer(&r->notes_timer);
    fixture_settle();
}

static struct str last_gateway(struct fixture_node *node, const char *device)
{
    return routes_last_gateway(fixture_replica(node, "t"), STR("t"), str_from(device));
}

static void note(struct fixture_node *node, const char *device, const char *gateway)
{
    routes_note_gateway(fixture_replica(node, "t"), STR("t"), str_from(device), str_from(gateway));
}

static void of_several_gateways_the_last_is_written_and_the_same_one_not_again(void **state)
{
    struct fixture_node *a = fixture_add("a", true);
    size_t n_requests;

    (void)state;
    fixture_settle();
    note(a, "d", "g");
    note(a, "d", "h");
    note(a, "e", "e");
    n_requests = fixture.log.n_requests;
    write_notes(a);
    assert_int_equal(fixture.log.n_requests, n_requests + 1);
    assert_true(str_equal(last_gateway(a, "d"), STR("h")));
    assert_true(str_equal(last_gateway(a, "e"), STR("e")));
    assert_true(str_equal(last_gateway(a, "f"), STR("")));
    note(a, "d", "h");
    write_notes(a);
    assert_int_equal(fixture.log.n_requests, n_requests + 1);
    note(a, "d", "g");
    note(a, "d", "h"); /* back before it was written */
    write_notes(a);
    assert_true(str_equal(last_gateway(a, "d"), STR("h")));
}

static void more_notes_than_a_request_takes_are_written_in_several(void **state)
{
    enum { DEVICES = 3 * ROUTES_ITEMS_MAX / 2 };
    struct fixture_node *a = fixture_add("a", true);
    char device[16];

    (void)state;
    fixture_settle();
    for (unsigned i = 0; i < DEVICES; i++) {
        snprintf(device, sizeof device, "d%u", i);
        note(a, device, "g");
    }
    write_notes(a);
    assert_int_equal(fixture_replica(a, "t")->heard.n_entries, DEVICES);
}

static void on_written(struct mail *m)
{
    (void)m;
}

/* As one that was written four weeks ago. */
static void what_is_old_is_removed_and_the_rest_stays(void **state)
{
    struct fixture_node *a = fixture_add("a", true);
    const struct routes_record item = {.tenant = STR("t"), .device = STR("old"), .gateway = STR("g")};
    struct table_write write = {.mail = {.on_mail = on_written}, .home = &a->home.mailbox};
    struct routes_record request = {.kind = ROUTES_NOTE, .at_ms = 1};
    struct routes_replica *r = fixture_replica(a, "t");
    struct buf items = {0}, bytes = {0};

    (void)state;
    fixture_settle();
    routes_record_add_item(&items, ROUTES_NOTE, &item);
    request.rest = buf_str(&items);
    routes_record_write(&bytes, &request);
    write.request = buf_str(&bytes);
    table_write(&a->table, &write);
    note(a, "new", "g");
    write_notes(a);
    assert_int_equal(r->heard.n_entries, 2);
    r->clean_timer.on_timer(&r->clean_timer);
    fixture_settle();
    assert_int_equal(r->heard.n_entries, 1);
    assert_true(str_equal(last_gateway(a, "new"), STR("g")));
    buf_free(&write.reply, MEM_TABLE);
    buf_free(&items, MEM_ROUTES);
    buf_free(&bytes, MEM_ROUTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_is_alone_registers_finds_and_unregisters, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_is_registered_before_the_lease_waits_for_it, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_too_long_are_refused, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(of_several_gateways_the_last_is_written_and_the_same_one_not_again, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(more_notes_than_a_request_takes_are_written_in_several, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_is_old_is_removed_and_the_rest_stays, fixture_set_up, fixture_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
