#include "command/command_cluster_fixture_test.h"

static const char *const designs[] = {"direct", "router", "shared", "link"};

enum { STEPS = 500 };

static int set_up(void **state)
{
    (void)state;
    fixture_policy = CONFIG_COMMAND_QUEUE;
    return 0;
}

static int write_waiting(const char *device, const char *ttl)
{
    int number = write_command(device);

    cl.ttl[number] = ttl;
    return number;
}

static int n_waiting(void)
{
    int n = 0;

    for (int i = 0; i < cl.n_kept; i++)
        n += cl.owner.is_kept[i];
    return n;
}

static void a_command_with_a_ttl_waits_for_its_device(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (int node = 0; node < NODES; node++) {
            const char *status = "none";

            open_cluster(designs[k], NODES);
            for (int i = 0; i < 5; i++)
                (void)write_waiting("d0", "3600000");
            (void)write_waiting("d1", NULL);
            run();
            assert_int_equal(n_waiting(), 5);
            assert_int_equal(count_notices(0, &status), 0);
            assert_outcome(5, "503", 0);
            assert_all_settled();
            (void)subscribe((struct subscribing){.node = node, .device = "d0"});
            run();
            for (int i = 0; i < 5; i++) {
                assert_outcome(i, "202", 1);
                assert_int_equal(cl.order[i], i);
            }
            assert_int_equal(n_waiting(), 0);
            for (int i = 0; i < NODES; i++) {
                struct command_router *r = &cl.nodes[i].plane->routers[0];

                r->tick.on_timer(&r->tick);
                turn_loop(i);
                assert_int_equal(r->lanes.n_entries, 0);
            }
            close_cluster();
        }
}

static void what_is_newer_comes_behind_what_waits(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        struct client *client;

        open_cluster(designs[k], NODES);
        for (int i = 0; i < 40; i++) /* more than are loaded at a time */
            (void)write_waiting("d0", "3600000");
        run();
        client = subscribe((struct subscribing){.node = 1, .device = "d0", .holds = true});
        run();
        (void)write_waiting("d0", NULL);
        run();
        for (int i = 0; i < 10; i++) {
            acknowledge(client);
            run();
        }
        assert_int_equal(cl.n_order, 41);
        for (int i = 0; i < 41; i++)
            assert_int_equal(cl.order[i], i);
        assert_outcome(40, "202", 1);
        assert_all_settled();
        close_cluster();
    }
}

static void a_gateway_gets_what_waits_for_the_devices_behind_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        open_cluster(designs[k], NODES);
        (void)write_waiting("b1", "3600000");
        run();
        (void)subscribe((struct subscribing){.node = 2, .device = "g0", .is_for_all = true});
        run();
        assert_outcome(0, "202", 1);
        close_cluster();
    }
}

static void a_device_has_no_more_than_its_share(void **state)
{
    const char *status = "none";

    (void)state;
    open_cluster("direct", NODES);
    for (int i = 0; i < 101; i++)
        (void)write_waiting("d0", "3600000");
    run();
    assert_int_equal(n_waiting(), 100);
    assert_int_equal(count_notices(100, &status), 1);
    assert_string_equal(status, "429");
    assert_all_settled();
    close_cluster();
}

static void what_has_been_delivered_once_is_not_again_after_the_device_moves(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        struct client *before;

        open_cluster(designs[k], NODES);
        for (int i = 0; i < 3; i++)
            (void)write_waiting("d0", "3600000");
        run();
        before = subscribe((struct subscribing){.node = 1, .device = "d0", .holds = true});
        run();
        assert_int_equal(before->n_held, 3);
        (void)subscribe((struct subscribing){.node = 2, .device = "d0"});
        run();
        assert_int_equal(cl.n_order, 0);
        acknowledge(before);
        run();
        for (int i = 0; i < 3; i++)
            assert_outcome(i, "202", 1);
        close_cluster();
    }
}

/* --- anything, in any order --- */

static uint64_t random_state;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

static void step(void)
{
    static const char *const devices[] = {"d0", "d1", "b1"};
    static const char *const who[] = {"d0", "d1", "g0"};
    int node = (int)draw(NODES), which = (int)draw(3);
    struct client *client = &cl.clients[draw(CLIENTS)];
    int n = 0;

    for (int i = 0; i < CLIENTS; i++)
        n += cl.clients[i].is_there || cl.clients[i].n_held;
    switch (draw(10)) {
    case 0:
        if (draw(6) == 0 && n < 6)
            (void)subscribe(
                (struct subscribing){.node = node, .device = who[which], .is_for_all = which == 2, .holds = draw(2)});
        break;
    case 1:
        if (client->is_there && client->subscriber.entry && draw(2))
            end_client(client);
        break;
    case 2:
        acknowledge(client);
        break;
    case 3:
        if (cl.n_records < 40)
            (void)write_waiting(devices[which], draw(4) ? "3600000" : NULL);
        break;
    case 4:
    case 5:
        (void)apply_next(node);
        break;
    case 6:
        (void)publish(node);
        break;
    case 7:
        (void)(receive_next(node) || read_next(node));
        break;
    case 8:
        (void)store_next(node);
        break;
    default:
        turn_loop(node);
    }
}

static void everything_that_waits_is_delivered_once_and_in_order(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (unsigned seed = 1; seed <= cluster_seeds(); seed++) {
            random_state = seed * 977;
            open_cluster(designs[k], NODES);
            for (int i = 0; i < STEPS; i++)
                step();
            run();
            for (int i = 0; i < CLIENTS; i++)
                if (cl.clients[i].is_there)
                    end_client(&cl.clients[i]);
            run();
            for (int i = 0; i < 3; i++)
                (void)subscribe((struct subscribing){.node = i,
                                                     .device = i == 2 ? "g0"
                                                               : i    ? "d1"
                                                                      : "d0",
                                                     .is_for_all = i == 2});
            run();
            for (int i = 0; i < cl.n_records; i++) {
                const char *status = "none";
                int n = count_notices(i, &status);

                if (n != 1 || cl.acknowledged[i] != !strcmp(status, "202") || (cl.ttl[i] && strcmp(status, "202")))
                    fail_msg("%s, seed %u: command %d for %s: %d notices, status %s, acknowledged %d times", designs[k], seed,
                             i, cl.devices[i], n, status, cl.acknowledged[i]);
            }
            for (int i = 0; i < cl.n_order; i++)
                for (int j = i + 1; j < cl.n_order; j++)
                    if (cl.order[j] < cl.order[i] && !strcmp(cl.devices[cl.order[i]], cl.devices[cl.order[j]]))
                        fail_msg("%s, seed %u: %d after %d", designs[k], seed, cl.order[j], cl.order[i]);
            assert_int_equal(n_waiting(), 0);
            assert_all_settled();
            close_cluster();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_with_a_ttl_waits_for_its_device),
        cmocka_unit_test(what_is_newer_comes_behind_what_waits),
        cmocka_unit_test(a_gateway_gets_what_waits_for_the_devices_behind_it),
        cmocka_unit_test(a_device_has_no_more_than_its_share),
        cmocka_unit_test(what_has_been_delivered_once_is_not_again_after_the_device_moves),
        cmocka_unit_test(everything_that_waits_is_delivered_once_and_in_order),
    };

    return cmocka_run_group_tests_name("command_queue", tests, set_up, NULL);
}
