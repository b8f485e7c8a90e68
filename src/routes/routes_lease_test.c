/* Leases: who holds one, who loses it, and what becomes of the routes of those that are gone. */
#include "routes/routes_fixture_test.h"

static struct routes_replica *replica(struct fixture_node *node)
{
    return fixture_replica(node, "t");
}

static void instances_that_start_see_each_other(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    const struct routes_instance *self;

    (void)state;
    fixture_settle();
    assert_true(a->is_ready && b->is_ready);
    self = routes_self(replica(a));
    assert_non_null(self);
    assert_true(self->is_self);
    assert_non_null(routes_find_instance(replica(b), STR("a"), self->incarnation));
    assert_false(routes_find_instance(replica(b), STR("a"), self->incarnation)->is_self);
    assert_null(routes_find_instance(replica(b), STR("a"), self->incarnation + 1));
    assert_true(a->n_instances > 0);
    assert_int_equal(a->n_leased, 0); /* the first one is not told of */
}

static void a_lease_lasts_as_long_as_it_is_renewed(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);

    (void)state;
    fixture_settle();
    fixture_pass(10 * FIXTURE_LEASE_MS);
    assert_true(routes_is_leased(replica(a)) && routes_is_leased(replica(b)));
    assert_int_equal(a->n_leased + b->n_leased, 0);
}

static void one_that_says_nothing_is_fenced_after_a_lease_and_not_before(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    uint64_t incarnation;

    (void)state;
    fixture_settle();
    fixture_pass(500); /* b has seen a's last renewal by now */
    incarnation = routes_self(replica(a))->incarnation;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    fixture_kill(a);
    fixture_pass(FIXTURE_LEASE_MS - 700);
    assert_non_null(routes_find_instance(replica(b), STR("a"), incarnation));
    assert_string_equal(fixture_where(b, "t", "d"), "a");
    fixture_pass(1000);
    assert_null(routes_find_instance(replica(b), STR("a"), incarnation));
    assert_string_equal(fixture_where(b, "t", "d"), "");
    assert_int_equal(b->n_orphans, 1);
    assert_int_equal(b->n_orphans_with_events, 1);
    assert_int_equal(replica(b)->entries.n_entries, 0);
}

static void the_routes_of_a_dead_one_are_told_of_once_among_those_that_live(void **state)
{
    enum { DEVICES = 450 };
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false), *c = fixture_add("c", false);
    char device[16];

    (void)state;
    fixture_settle();
    for (unsigned i = 0; i < DEVICES; i++) {
        snprintf(device, sizeof device, "d%u", i);
        assert_int_not_equal(fixture_register(a, i % 3 ? "t" : "u", device, ""), 0);
    }
    assert_int_not_equal(fixture_register(b, "t", "d0", ""), 0); /* which takes none away: another tenant's */
    fixture_kill(a);
    fixture_pass(2 * FIXTURE_LEASE_MS);
    assert_int_equal(b->n_orphans + c->n_orphans, DEVICES);
    assert_string_equal(fixture_where(c, "t", "d0"), "b");
    assert_string_equal(fixture_where(c, "t", "d1"), "");
}

/* Until the sweep of the dead one's route is on its way, as the last request. */
static void wait_for_sweep(struct fixture_node *b)
{
    for (unsigned i = 0; i < 10000 && !replica(b)->orphans.is_out; i++) {
        fixture_now_ms += 100;
        routes_keeper_look(&b->routes->keeper);
        while (fixture.log.n_decided < fixture.log.n_requests)
            fixture_decide_one(&fixture.log);
        while (fixture_apply_one(&b->table))
            ;
        (void)fixture_answer_some(&b->table);
        fixture_turn_node(b);
    }
    assert_true(replica(b)->orphans.is_out);
}

static void orphans_are_told_of_though_their_finder_leaves(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_int_not_equal(fixture_register(b, "t", "e", ""), 0);
    fixture_kill(a);
    wait_for_sweep(b);
    routes_leave(b->routes, &b->left, &b->home.mailbox);
    fixture_settle();
    assert_true(b->has_left);
    assert_int_equal(b->n_orphans, 1);
    assert_int_equal(fixture.log.owner.n, 0);
}

static void orphans_are_told_of_though_the_answer_was_lost(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    struct fixture_request *sweep;

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    fixture_kill(a);
    wait_for_sweep(b);
    sweep = &fixture.log.requests[fixture.log.n_requests - 1];
    assert_ptr_equal(sweep->write, &replica(b)->orphans.write);
    fixture_decide_one(&fixture.log);
    assert_int_equal(sweep->result, E_OK);
    sweep->result = E_TIMEOUT; /* for the one who asked */
    fixture_settle();
    assert_int_equal(b->n_orphans, 0);
    replica(b)->orphans_timer.on_timer(&replica(b)->orphans_timer);
    fixture_settle();
    assert_int_equal(b->n_orphans, 1);
}

static void what_moved_before_its_instance_died_is_no_orphan(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_int_not_equal(fixture_register(b, "t", "d", ""), 0);
    fixture_kill(a);
    fixture_pass(2 * FIXTURE_LEASE_MS);
    assert_int_equal(b->n_orphans, 0);
    assert_string_equal(fixture_where(b, "t", "d"), "b");
}

static void a_process_that_starts_again_removes_what_the_one_before_has_left(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *again;

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    fixture_kill(a);
    again = fixture_add("a", false);
    fixture_settle();
    assert_true(again->is_ready);
    assert_int_equal(again->n_orphans, 1);
    assert_string_equal(fixture_where(again, "t", "d"), "");
    assert_true(routes_is_leased(replica(again)));
}

/* As one that was stopped for a while. */
static void a_holder_whose_time_is_up_does_nothing_until_it_has_a_new_lease(void **state)
{
    const struct routes_subscription s = {.tenant = STR("t"), .device = STR("e")};
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    struct fixture_ask ask = fixture_ask();
    uint64_t incarnation;

    (void)state;
    fixture_settle();
    fixture_pass(500);
    incarnation = routes_self(replica(a))->incarnation;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    a->is_stopped = true;
    fixture_pass(2 * FIXTURE_LEASE_MS);
    assert_int_equal(b->n_orphans, 1);
    assert_false(routes_is_leased(replica(a))); /* by its clock, before it has read anything */
    routes_register(replica(a), &ask.write, &s);
    a->is_stopped = false;
    assert_int_equal(fixture_wait(&ask), E_BUSY); /* it went out under the lease that is lost */
    fixture_pass(200);
    assert_true(routes_is_leased(replica(a)));
    assert_int_not_equal(routes_self(replica(a))->incarnation, incarnation);
    assert_int_equal(a->n_leased, FIXTURE_WORKERS);
    assert_string_equal(fixture_where(a, "t", "d"), "");
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_string_equal(fixture_where(b, "t", "d"), "a");
}

/* As when the owner of the table dies. */
static void who_gets_no_answers_waits_and_goes_on_under_the_lease_that_it_had(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    uint64_t incarnation;
    unsigned n_instances;

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    incarnation = routes_self(replica(a))->incarnation;
    n_instances = a->n_instances;
    for (unsigned ms = 0; ms < 3 * FIXTURE_LEASE_MS; ms += 100) {
        fixture_now_ms += 100;
        for (unsigned i = 0; i < fixture.n; i++) {
            routes_keeper_look(&fixture.nodes[i].routes->keeper);
            fixture_turn_node(&fixture.nodes[i]);
        }
    }
    assert_false(routes_is_leased(replica(a)) || routes_is_leased(replica(b)));
    assert_int_equal(a->n_instances, n_instances);
    fixture_settle();
    fixture_pass(FIXTURE_LEASE_MS);
    assert_true(routes_is_leased(replica(a)) && routes_is_leased(replica(b)));
    assert_int_equal(routes_self(replica(a))->incarnation, incarnation);
    assert_int_equal(a->n_leased + b->n_leased + a->n_orphans + b->n_orphans, 0);
    assert_true(a->n_instances > n_instances);
    assert_string_equal(fixture_where(b, "t", "d"), "a");
}

static void what_a_fenced_process_that_lives_registers_again_is_no_orphan(void **state)
{
    const struct routes_subscription s = {.tenant = STR("t"), .device = STR("d"), .has_events = true};
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    struct fixture_ask ask = fixture_ask();

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_int_not_equal(fixture_register(a, "t", "e", ""), 0);
    routes_keeper_forfeit(&a->routes->keeper); /* it takes a new one */
    fixture_settle();
    assert_int_equal(a->n_leased, FIXTURE_WORKERS);
    fixture_pass(FIXTURE_LEASE_MS / 2);
    assert_int_equal(a->n_orphans + b->n_orphans, 0);
    routes_register(replica(a), &ask.write, &s);
    assert_int_equal(fixture_wait(&ask), E_OK);
    fixture_pass(2 * FIXTURE_LEASE_MS);
    for (unsigned i = 0; i < 2; i++)
        replica(&fixture.nodes[i])->orphans_timer.on_timer(&replica(&fixture.nodes[i])->orphans_timer);
    fixture_settle();
    assert_int_equal(a->n_orphans + b->n_orphans, 1); /* the other one has not come back */
    assert_string_equal(fixture_where(b, "t", "d"), "a");
}

static void without_a_lease_registering_is_refused_at_once(void **state)
{
    const struct routes_subscription s = {.tenant = STR("t"), .device = STR("d")};
    struct fixture_node *a = fixture_add("a", false);
    struct fixture_ask ask = fixture_ask();
    size_t n_requests;

    (void)state;
    fixture_settle();
    routes_keeper_forfeit(&a->routes->keeper);
    n_requests = fixture.log.n_requests;
    routes_register(replica(a), &ask.write, &s);
    assert_int_equal(fixture.log.n_requests, n_requests);
    assert_false(ask.is_done);
    assert_int_equal(fixture_wait(&ask), E_BUSY);
}

static void a_renewal_that_came_in_between_saves_the_lease(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    uint64_t incarnation;

    (void)state;
    fixture_settle();
    incarnation = routes_self(replica(a))->incarnation;
    b->table.is_frozen = true; /* b sees no renewals, and asks for a fence; a has renewed */
    fixture_pass(2 * FIXTURE_LEASE_MS);
    b->table.is_frozen = false;
    fixture_settle();
    assert_int_equal(routes_self(replica(a))->incarnation, incarnation);
    assert_non_null(routes_find_instance(replica(b), STR("a"), incarnation));
    assert_int_equal(a->n_leased, 0);
}

static void a_renewal_that_is_lost_is_followed_by_others(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);

    (void)state;
    fixture_settle();
    for (unsigned i = 0; i < 6; i++) {
        size_t before = fixture.log.n_requests;

        fixture_now_ms += FIXTURE_LEASE_MS / 3 + 1;
        routes_keeper_look(&a->routes->keeper);
        routes_keeper_look(&b->routes->keeper);
        for (size_t k = before; k < fixture.log.n_requests; k++)
            fixture.log.requests[k].is_lost = i % 2 == 0;
        fixture_settle();
    }
    assert_int_equal(a->n_leased + b->n_leased, 0);
    assert_true(routes_is_leased(replica(a)) && routes_is_leased(replica(b)));
}

static void of_two_processes_with_one_name_the_later_one_has_it(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *twin;

    (void)state;
    fixture_settle();
    twin = fixture_add("a", false);
    fixture_pass(3 * FIXTURE_LEASE_MS);
    assert_true(routes_is_leased(replica(twin)));
    assert_false(routes_is_leased(replica(a)));
    assert_int_equal(a->routes->keeper.state, ROUTES_KEEPER_STANDING_BY);
    fixture_kill(twin);
    fixture_pass(3 * FIXTURE_LEASE_MS);
    assert_true(routes_is_leased(replica(a)));
    assert_int_equal(a->n_leased, FIXTURE_WORKERS);
}

static void one_that_leaves_takes_its_routes_and_its_lease_along(void **state)
{
    struct fixture_node *a = fixture_add("a", false), *b = fixture_add("b", false);
    uint64_t incarnation;

    (void)state;
    fixture_settle();
    incarnation = routes_self(replica(a))->incarnation;
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    assert_int_not_equal(fixture_register(a, "u", "d", ""), 0);
    routes_mark_done(replica(a), STR("topic"), 0, 0, 7);
    routes_leave(a->routes, &a->left, &a->home.mailbox);
    fixture_settle();
    assert_true(a->has_left);
    assert_null(routes_find_instance(replica(b), STR("a"), incarnation));
    assert_null(routes_find_living(replica(b), STR("a")));
    assert_int_equal(replica(b)->entries.n_entries, 0);
    assert_int_equal(b->n_orphans + a->n_orphans, 0);
    assert_true(routes_is_done(replica(b), STR("topic"), 0, 6));
}

static void one_without_a_lease_leaves_at_once(void **state)
{
    struct fixture_node *a = fixture_add("a", false);

    (void)state;
    routes_leave(a->routes, &a->left, &a->home.mailbox);
    for (unsigned i = 0; i < 3; i++)
        fixture_turn_node(a);
    assert_true(a->has_left);
}

static void one_that_is_alone_takes_all_others_for_dead(void **state)
{
    struct fixture_node *a = fixture_add("a", true), *b;

    (void)state;
    fixture_settle();
    assert_int_not_equal(fixture_register(a, "t", "d", ""), 0);
    fixture_kill(a);
    b = fixture_add("b", true); /* the same data directory under another name */
    fixture_settle();
    fixture_pass(500);
    assert_int_equal(b->n_orphans, 1);
    assert_int_equal(b->routes->keeper.state, ROUTES_KEEPER_HOLDING);
}

static void the_first_of_a_device_is_the_same_for_all_and_lives(void **state)
{
    struct fixture_node *nodes[] = {fixture_add("a", false), fixture_add("b", false), fixture_add("c", false)};
    unsigned n_of_c = 0;
    char device[16];

    (void)state;
    fixture_settle();
    for (unsigned i = 0; i < 100; i++) {
        const struct routes_instance *first;

        snprintf(device, sizeof device, "d%u", i);
        first = routes_first(replica(nodes[0]), STR("t"), str_from(device));
        assert_non_null(first);
        for (unsigned k = 1; k < 3; k++)
            assert_true(str_equal(routes_first(replica(nodes[k]), STR("t"), str_from(device))->name, first->name));
        n_of_c += str_equal(first->name, STR("c"));
    }
    assert_in_range(n_of_c, 10, 60);
    fixture_kill(nodes[2]);
    fixture_pass(2 * FIXTURE_LEASE_MS);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(device, sizeof device, "d%u", i);
        assert_false(str_equal(routes_first(replica(nodes[0]), STR("t"), str_from(device))->name, STR("c")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(instances_that_start_see_each_other, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_lease_lasts_as_long_as_it_is_renewed, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(one_that_says_nothing_is_fenced_after_a_lease_and_not_before, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(the_routes_of_a_dead_one_are_told_of_once_among_those_that_live, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(orphans_are_told_of_though_their_finder_leaves, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(orphans_are_told_of_though_the_answer_was_lost, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_moved_before_its_instance_died_is_no_orphan, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_starts_again_removes_what_the_one_before_has_left, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_holder_whose_time_is_up_does_nothing_until_it_has_a_new_lease, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(who_gets_no_answers_waits_and_goes_on_under_the_lease_that_it_had, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_a_fenced_process_that_lives_registers_again_is_no_orphan, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(without_a_lease_registering_is_refused_at_once, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_renewal_that_came_in_between_saves_the_lease, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_renewal_that_is_lost_is_followed_by_others, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(of_two_processes_with_one_name_the_later_one_has_it, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(one_that_leaves_takes_its_routes_and_its_lease_along, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(one_without_a_lease_leaves_at_once, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_alone_takes_all_others_for_dead, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(the_first_of_a_device_is_the_same_for_all_and_lives, fixture_set_up, fixture_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
