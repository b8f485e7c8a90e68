/* What instances have seen of the table and done: what others wait for before they act. */
#include "routes/routes_fixture_test.h"

static struct routes_replica *replica(struct fixture_node *node)
{
    return fixture_replica(node, "t");
}

static void publish(struct fixture_node *node)
{
    routes_keeper_publish(&node->routes->keeper);
    fixture_settle();
}

/* Two instances that have seen everything. */
static void begin(struct fixture_node **out_a, struct fixture_node **out_b)
{
    *out_a = fixture_add("a", false);
    *out_b = fixture_add("b", false);
    fixture_settle();
    fixture_pass(200);
    assert_false(fixture_is_recent(*out_a, "t", "d"));
    assert_false(fixture_is_recent(*out_b, "t", "d"));
}

static void a_change_is_recent_until_all_others_have_seen_it(void **state)
{
    struct fixture_node *a, *b;
    unsigned n_seen;

    (void)state;
    begin(&a, &b);
    b->table.is_frozen = true;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    publish(b);
    assert_true(fixture_is_recent(a, "t", "d"));
    assert_false(fixture_is_recent(a, "t", "e"));
    n_seen = a->n_seen;
    b->table.is_frozen = false;
    fixture_settle();
    publish(b);
    assert_false(fixture_is_recent(a, "t", "d"));
    assert_true(a->n_seen > n_seen);
    assert_int_equal(replica(a)->changes.n_entries, 0);
}

static void who_lives_is_recent_for_every_device(void **state)
{
    struct fixture_node *a, *b, *c;

    (void)state;
    begin(&a, &b);
    b->table.is_frozen = true;
    c = fixture_add("c", false);
    fixture_settle();
    publish(c);
    assert_true(fixture_is_recent(a, "t", "d"));
    b->table.is_frozen = false;
    fixture_settle();
    publish(b);
    assert_false(fixture_is_recent(a, "t", "d"));
}

static void a_dead_one_is_not_waited_for(void **state)
{
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    fixture_kill(b);
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    fixture_pass(FIXTURE_LEASE_MS / 2);
    assert_true(fixture_is_recent(a, "t", "d"));
    fixture_pass(FIXTURE_LEASE_MS);
    assert_false(fixture_is_recent(a, "t", "d"));
}

static void a_last_gateway_is_a_change_too(void **state)
{
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    b->table.is_frozen = true;
    routes_note_gateway(replica(a), STR("t"), STR("d"), STR("g"));
    replica(a)->notes_timer.on_timer(&replica(a)->notes_timer);
    fixture_settle();
    assert_true(str_equal(routes_last_gateway(replica(a), STR("t"), STR("d")), STR("g")));
    assert_true(fixture_is_recent(a, "t", "d"));
    b->table.is_frozen = false;
    fixture_settle();
    publish(b);
    assert_false(fixture_is_recent(a, "t", "d"));
    assert_true(str_equal(routes_last_gateway(replica(b), STR("t"), STR("d")), STR("g")));
}

static void what_is_held_has_not_been_seen(void **state)
{
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    b->hold_next = &b->hold;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_null(b->hold_next);
    publish(b);
    assert_true(fixture_is_recent(a, "t", "d"));
    assert_int_not_equal(fixture_register(a, "t", "e", ""), 0);
    publish(b);
    assert_true(fixture_is_recent(a, "t", "e")); /* behind it */
    routes_release(replica(b), &b->hold);
    routes_release(replica(b), &b->hold);
    fixture_settle();
    publish(b);
    assert_false(fixture_is_recent(a, "t", "d"));
    assert_false(fixture_is_recent(a, "t", "e"));
}

static void what_was_done_is_known_when_the_change_is_seen(void **state)
{
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    b->hold_next = &b->hold;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    routes_mark_done(replica(b), STR("topic"), 3, 5, 6);
    routes_release(replica(b), &b->hold);
    publish(b);
    assert_false(fixture_is_recent(a, "t", "d"));
    assert_true(routes_is_done(replica(a), STR("topic"), 3, 5));
    assert_false(routes_is_done(replica(a), STR("topic"), 3, 4));
    assert_false(routes_is_done(replica(a), STR("topic"), 2, 5));
    assert_true(a->n_done >= 1);
}

static void what_a_lost_publication_had_comes_with_the_next(void **state)
{
    struct fixture_node *a, *b;
    size_t before;

    (void)state;
    begin(&a, &b);
    routes_mark_done(replica(b), STR("topic"), 0, 5, 6);
    before = fixture.log.n_requests;
    routes_keeper_publish(&b->routes->keeper);
    assert_int_equal(fixture.log.n_requests, before + 1);
    fixture.log.requests[before].is_lost = true;
    routes_mark_done(replica(b), STR("topic"), 0, 9, 12);
    fixture_settle();
    publish(b);
    for (unsigned i = 0; i < 14; i++)
        assert_int_equal(routes_is_done(replica(a), STR("topic"), 0, i), i == 5 || (i >= 9 && i < 12));
    assert_int_equal(b->routes->keeper.marks.n_entries, 0);
}

/* A worker may look between any two states of one publication. */
static void what_was_done_is_known_before_that_the_change_was_seen(void **state)
{
    struct fixture_node *a, *b;
    unsigned n_states = 0;

    (void)state;
    begin(&a, &b);
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_true(fixture_is_recent(a, "t", "d"));
    a->table.is_frozen = true;
    routes_mark_done(replica(b), STR("topic"), 0, 0, 7);
    routes_mark_done(replica(b), STR("other"), 1, 0, 7);
    publish(b);
    while (fixture_apply_one(&a->table)) {
        fixture_turn_node(a);
        n_states++;
        if (!fixture_is_recent(a, "t", "d"))
            assert_true(routes_is_done(replica(a), STR("topic"), 0, 6) && routes_is_done(replica(a), STR("other"), 1, 6));
    }
    assert_true(n_states >= 3);
    assert_false(fixture_is_recent(a, "t", "d"));
}

static void more_than_fits_is_published_in_parts_and_seen_with_the_last(void **state)
{
    enum { RANGES = 12000 };
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    for (unsigned i = 0; i < RANGES; i++)
        routes_mark_done(replica(b), i % 2 ? STR("u") : STR("v"), (int32_t)(i % 2), 2 * i, 2 * i + 1);
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    for (unsigned i = 0; i < 8 && fixture_is_recent(a, "t", "d"); i++) {
        publish(b);
        if (!fixture_is_recent(a, "t", "d"))
            for (unsigned k = 0; k < RANGES; k++)
                assert_true(routes_is_done(replica(a), k % 2 ? STR("u") : STR("v"), (int32_t)(k % 2), 2 * k));
    }
    assert_false(fixture_is_recent(a, "t", "d"));
}

static void topics_with_long_names_fit_too(void **state)
{
    enum { RANGES = 3000 };
    static char topic[ROUTES_TEXT_MAX + 1];
    struct fixture_node *a, *b;
    const struct str name = {topic, ROUTES_TEXT_MAX};

    (void)state;
    memset(topic, 'x', sizeof topic - 1);
    begin(&a, &b);
    for (unsigned i = 0; i < RANGES; i++)
        routes_mark_done(replica(b), name, 0, 2 * i + 1, 2 * i + 2);
    for (unsigned i = 0; i < 20; i++)
        publish(b);
    for (unsigned i = 0; i < RANGES; i++)
        assert_true(routes_is_done(replica(a), name, 0, 2 * i + 1));
    for (size_t i = 0; i < fixture.log.n_requests; i++)
        assert_in_range(fixture.log.requests[i].bytes.n, 1, TABLE_REQUEST_MAX);
}

/* Of a later version, say. */
static void a_publication_that_is_refused_costs_no_lease(void **state)
{
    const struct routes_record fields = {.topic = STR("topic"), .partition = 0};
    struct fixture_node *a, *b;
    struct routes_key key;
    size_t before;

    (void)state;
    begin(&a, &b);
    assert_true(routes_record_write_key(&key, ROUTES_DONE, &fields));
    fixture_set_apply(&fixture.log.owner,
                      &(struct fixture_state){.key = routes_key_str(&key), .value = STR("\2dwhat"), .offset = 0});
    routes_mark_done(replica(b), STR("topic"), 0, 1, 2);
    before = fixture.log.n_requests;
    fixture_pass(5 * FIXTURE_LEASE_MS);
    assert_int_equal(b->n_leased, 0);
    assert_true(routes_is_leased(replica(b)));
    assert_true(b->routes->keeper.is_refused);
    assert_true(fixture.log.n_requests > before + 5);
}

static void instances_come_to_one_watermark(void **state)
{
    struct fixture_node *a, *b;

    (void)state;
    begin(&a, &b);
    assert_int_equal(routes_first_undone(a->routes, STR("topic"), 0), -1);
    routes_mark_done(replica(a), STR("topic"), 0, 0, 4);
    routes_mark_done(replica(b), STR("topic"), 0, 5, 9);
    publish(a);
    publish(b);
    assert_int_equal(routes_first_undone(b->routes, STR("topic"), 0), 4);
    routes_mark_done(replica(b), STR("topic"), 0, 4, 5);
    publish(b);
    assert_int_equal(routes_first_undone(a->routes, STR("topic"), 0), 9);
}

static void the_first_who_begins_a_partition_decides_where(void **state)
{
    struct fixture_node *a, *b;
    struct fixture_ask first = fixture_ask(), second = fixture_ask();

    (void)state;
    begin(&a, &b);
    routes_begin_done(replica(a), &first.write, STR("topic"), 0, 100);
    routes_begin_done(replica(b), &second.write, STR("topic"), 0, 200);
    assert_int_equal(fixture_wait(&first), E_OK);
    assert_int_equal(fixture_wait(&second), E_OK);
    assert_int_equal(routes_first_undone(b->routes, STR("topic"), 0), 100);
}

/* --- commands that wait --- */

static err keep(struct fixture_node *node, const char *device, const char *id, uint32_t max_of_device, uint32_t max_of_tenant)
{
    struct fixture_ask ask = fixture_ask();

    routes_keep(replica(node), &ask.write, STR("t"), str_from(device), str_from(id), str_from(id), max_of_device,
                max_of_tenant);
    return fixture_wait(&ask);
}

static err forget(struct fixture_node *node, const char *device, uint64_t number)
{
    struct fixture_ask ask = fixture_ask();

    routes_forget(replica(node), &ask.write, STR("t"), str_from(device), number);
    return fixture_wait(&ask);
}

static void expect_waiting(struct fixture_node *node, const char *device, const char *const *values, size_t n,
                           uint64_t *out_first)
{
    struct routes_waiting waiting = {.number = 0};
    struct arena arena = {0};

    for (size_t i = 0; i < n; i++) {
        uint64_t before = waiting.number;

        assert_true(routes_next_waiting(replica(node), STR("t"), str_from(device), before, &arena, &waiting));
        assert_true(waiting.number > before);
        assert_true(str_equal(waiting.value, str_from(values[i])));
        assert_true(str_equal(waiting.device, str_from(device)));
        if (i == 0 && out_first)
            *out_first = waiting.number;
    }
    assert_false(routes_next_waiting(replica(node), STR("t"), str_from(device), waiting.number, &arena, &waiting));
    arena_free(&arena, MEM_COMMAND);
}

static void commands_wait_in_their_order_for_whoever_has_the_device(void **state)
{
    struct fixture_node *a, *b;
    uint64_t first = 0;

    (void)state;
    begin(&a, &b);
    expect_waiting(b, "d", NULL, 0, NULL);
    assert_int_equal(keep(a, "d", "one", 3, 10), E_OK);
    assert_int_equal(keep(b, "d", "two", 3, 10), E_OK);
    assert_int_equal(keep(a, "dd", "other", 3, 10), E_OK);
    assert_int_equal(keep(a, "d", "three", 3, 10), E_OK);
    assert_int_equal(b->n_waiting, 4);
    expect_waiting(b, "d", (const char *const[]){"one", "two", "three"}, 3, &first);
    assert_int_equal(forget(b, "d", first), E_OK);
    assert_int_equal(forget(a, "d", first), E_DENIED);
    expect_waiting(a, "d", (const char *const[]){"two", "three"}, 2, NULL);
    assert_int_equal(keep(a, "d", "four", 3, 10), E_OK);
    expect_waiting(b, "d", (const char *const[]){"two", "three", "four"}, 3, NULL);
    expect_waiting(b, "dd", (const char *const[]){"other"}, 1, NULL);
}

static void a_command_that_is_kept_twice_waits_once(void **state)
{
    struct fixture_node *a, *b;
    uint64_t first = 0;

    (void)state;
    begin(&a, &b);
    assert_int_equal(keep(a, "d", "one", 1, 1), E_OK);
    assert_int_equal(keep(b, "d", "one", 1, 1), E_OK); /* however full it is */
    expect_waiting(a, "d", (const char *const[]){"one"}, 1, &first);
    assert_int_equal(forget(b, "d", first), E_OK);
    expect_waiting(a, "d", NULL, 0, NULL);
    assert_int_equal(replica(a)->queues.n_entries, 0);
}

static void device_and_tenant_have_their_bounds(void **state)
{
    struct fixture_node *a, *b;
    uint64_t first = 0;

    (void)state;
    begin(&a, &b);
    assert_int_equal(keep(a, "d", "1", 2, 3), E_OK);
    assert_int_equal(keep(a, "d", "2", 2, 3), E_OK);
    assert_int_equal(keep(a, "d", "3", 2, 3), E_LIMIT);
    assert_int_equal(keep(a, "e", "4", 2, 3), E_OK);
    assert_int_equal(keep(a, "f", "5", 2, 3), E_LIMIT);
    expect_waiting(a, "d", (const char *const[]){"1", "2"}, 2, &first);
    assert_int_equal(forget(a, "d", first), E_OK);
    assert_int_equal(keep(a, "f", "5", 2, 3), E_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_is_recent_until_all_others_have_seen_it, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(who_lives_is_recent_for_every_device, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_dead_one_is_not_waited_for, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_last_gateway_is_a_change_too, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_is_held_has_not_been_seen, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_was_done_is_known_when_the_change_is_seen, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_was_done_is_known_before_that_the_change_was_seen, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_a_lost_publication_had_comes_with_the_next, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(more_than_fits_is_published_in_parts_and_seen_with_the_last, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(topics_with_long_names_fit_too, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_publication_that_is_refused_costs_no_lease, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(instances_come_to_one_watermark, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(the_first_who_begins_a_partition_decides_where, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(commands_wait_in_their_order_for_whoever_has_the_device, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_command_that_is_kept_twice_waits_once, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(device_and_tenant_have_their_bounds, fixture_set_up, fixture_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
