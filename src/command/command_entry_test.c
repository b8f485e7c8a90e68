#include "command/command_cluster_fixture_test.h"

static int close_it(void **state)
{
    (void)state;
    close_cluster();
    return 0;
}

static void a_subscription_is_told_before_its_subscriber_is_answered(void **state)
{
    struct client *client;

    (void)state;
    open_cluster("direct", 1);
    client = subscribe((struct subscribing){.device = "d0"});
    turn_loop(0);
    assert_string_equal(events_of("d0"), "");
    while (apply_next(0))
        ;
    turn_loop(0);
    assert_string_equal(events_of("d0"), "-1");
    turn_loop(0);
    assert_int_equal(client->n_answers, 0);
    run();
    assert_int_equal(client->n_answers, 1);
    assert_int_equal(client->result, E_OK);
    end_client(client);
    run();
    assert_string_equal(events_of("d0"), "-1 0");
}

static void a_subscriber_is_answered_once_all_instances_know_of_it(void **state)
{
    struct client *client;

    (void)state;
    open_cluster("direct", 3);
    client = subscribe((struct subscribing){.node = 1, .device = "d0"});
    turn_loop(1);
    while (apply_next(1))
        ;
    turn_loop(1);
    turn_loop(1);
    assert_string_equal(events_of("d0"), "");
    assert_int_equal(client->n_answers, 0);
    run();
    assert_string_equal(events_of("d0"), "-1");
    assert_int_equal(client->n_answers, 1);
}

static void nobody_subscribes_for_others(void **state)
{
    static const struct subscribing cases[] = {
        {.device = "nobody"}, {.device = "off"}, {.device = "d0", .gateway = "g0"}, {.device = "b1", .gateway = "g1"}};

    (void)state;
    open_cluster("direct", 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client *client = subscribe(cases[i]);

        run();
        assert_int_equal(client->n_answers, 1);
        assert_int_equal(client->result, E_DENIED);
        assert_string_equal(events_of(cases[i].device), "");
    }
}

/* What each of two subscriptions of a device, one after the other, makes applications hear, when they end in either order. */
static void a_late_end_takes_nothing_from_a_newer_subscription(void **state)
{
    static const struct {
        int first_node, second_node;
        bool is_second_silent, ends_first_first;
        const char *events;
    } cases[] = {
        {0, 0, false, true, "-1 -1 0"},       {0, 1, false, true, "-1 -1 0"}, {0, 0, false, false, "-1 -1 0 -1 0"},
        {0, 1, false, false, "-1 -1 0 -1 0"}, {0, 0, true, false, "-1 0"},    {0, 0, true, true, "-1 0"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client *first, *second;

        open_cluster("direct", 2);
        first = subscribe((struct subscribing){.node = cases[i].first_node, .device = "d0"});
        run();
        second = subscribe(
            (struct subscribing){.node = cases[i].second_node, .device = "d0", .has_no_events = cases[i].is_second_silent});
        run();
        end_client(cases[i].ends_first_first ? first : second);
        run();
        end_client(cases[i].ends_first_first ? second : first);
        run();
        if (strcmp(events_of("d0"), cases[i].events))
            fail_msg("case %zu: %s", i, events_of("d0"));
        close_cluster();
    }
    open_cluster("direct", 1);
}

static void a_request_gives_the_device_back_to_the_subscription_that_is_still_there(void **state)
{
    struct client *mqtt, *http;
    int first, second;

    (void)state;
    open_cluster("direct", 2);
    mqtt = subscribe((struct subscribing){.device = "d0", .holds = true});
    run();
    http = subscribe((struct subscribing){.node = 1, .device = "d0", .has_no_events = true, .holds = true});
    run();
    first = write_command("d0");
    run();
    assert_int_equal(http->n_held, 1);
    acknowledge(http);
    end_client(http);
    run();
    second = write_command("d0");
    run();
    assert_int_equal(mqtt->n_held, 1);
    acknowledge(mqtt);
    run();
    assert_outcome(first, "202", 1);
    assert_outcome(second, "202", 1);
}

static void what_ends_before_it_is_answered_leaves_nothing(void **state)
{
    (void)state;
    for (int turns = 0; turns < 6; turns++) {
        struct client *client;
        struct routes_route route;

        open_cluster("direct", 2);
        client = subscribe((struct subscribing){.device = "d0"});
        for (int i = 0; i < turns; i++) {
            turn_loop(0);
            apply_next(0);
            if (i > 2)
                store_next(0);
        }
        if (client->n_answers == 0)
            end_client(client);
        run();
        if (!client->is_there)
            assert_false(routes_find(&cl.owner, STR("t"), STR("d0"), &route));
        assert_true(!strcmp(events_of("d0"), "") || !strcmp(events_of("d0"), "-1 0") || client->is_there);
        assert_int_equal(cl.nodes[0].plane->routers[0].seats.n_entries, client->is_there);
        close_cluster();
    }
    open_cluster("direct", 1);
}

static void after_a_lost_lease_everything_is_registered_anew(void **state)
{
    struct client *client;
    int number;

    (void)state;
    open_cluster("direct", 2);
    client = subscribe((struct subscribing){.device = "d0"});
    run();
    cl.nodes[0].routes.is_leased = false;
    fence(0, 1);
    run();
    assert_string_equal(events_of("d0"), "-1 0");
    rise(0);
    run();
    assert_string_equal(events_of("d0"), "-1 0 -1");
    number = write_command("d0");
    run();
    assert_outcome(number, "202", 1);
    end_client(client);
    run();
    assert_string_equal(events_of("d0"), "-1 0 -1 0");
}

static void whoever_leaves_waits_for_the_last_subscription(void **state)
{
    static unsigned n_left;
    struct client *client;
    struct loop home;
    struct mail left = {.on_mail = NULL};

    (void)state;
    open_cluster("direct", 2);
    n_left = 0;
    assert_int_equal(loop_init(&home, 1000, NULL), E_OK);
    client = subscribe((struct subscribing){.device = "d0"});
    run();
    end_client(client);
    command_leave(cl.nodes[0].plane, &left, &home.mailbox);
    turn_loop(0);
    assert_null(atomic_load(&home.mailbox.newest));
    run();
    assert_ptr_equal(atomic_load(&home.mailbox.newest), &left);
    assert_int_equal(n_left, 0);
    atomic_store(&home.mailbox.newest, NULL);
    loop_fini(&home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_teardown(f, close_it)
        TEST(a_subscription_is_told_before_its_subscriber_is_answered),
        TEST(a_subscriber_is_answered_once_all_instances_know_of_it),
        TEST(nobody_subscribes_for_others),
        TEST(a_late_end_takes_nothing_from_a_newer_subscription),
        TEST(a_request_gives_the_device_back_to_the_subscription_that_is_still_there),
        TEST(what_ends_before_it_is_answered_leaves_nothing),
        TEST(after_a_lost_lease_everything_is_registered_anew),
        TEST(whoever_leaves_waits_for_the_last_subscription),
    };

    return cmocka_run_group_tests_name("command_entry", tests, NULL, NULL);
}
