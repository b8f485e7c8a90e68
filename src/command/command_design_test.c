#include "command/command_cluster_fixture_test.h"

static const char *const designs[] = {"direct", "router", "shared", "link"};

enum { STEPS = 600 };

/* --- one thing after the other, for every design --- */

static void a_command_reaches_its_device_wherever_that_is(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (int node = 0; node < NODES; node++) {
            int number;

            open_cluster(designs[k], NODES);
            (void)subscribe((struct subscribing){.node = node, .device = "d0"});
            run();
            number = write_command("d0");
            run();
            assert_outcome(number, "202", 1);
            assert_all_settled();
            close_cluster();
        }
}

/* Each is told of once, whoever of the three it is that tells. */
static void what_cannot_be_delivered_is_told_of_once(void **state)
{
    static const struct {
        const char *device, *status;
    } cases[] = {{"d0", "503"}, {"d1", "503"}, {"b0", "503"}, {"nobody", "404"}, {"off", "404"}};

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        open_cluster(designs[k], NODES);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
            (void)write_command(cases[i].device);
        run();
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
            assert_outcome((int)i, cases[i].status, 0);
        assert_all_settled();
        close_cluster();
    }
}

static void commands_go_through_the_gateway_that_was_heard_last(void **state)
{
    static const struct {
        const char *heard;
        int node;
    } cases[] = {{"g0", 0}, {"g1", 1}};

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct client *gateways[2];
            int number;

            open_cluster(designs[k], NODES);
            for (int g = 0; g < 2; g++)
                gateways[g] =
                    subscribe((struct subscribing){.node = g, .device = g ? "g1" : "g0", .is_for_all = true, .holds = true});
            run();
            command_note_gateway(cl.nodes[2].plane, STR("t"), STR("b0"), str_from(cases[i].heard));
            run();
            number = write_command("b0");
            run();
            assert_int_equal(gateways[cases[i].node]->n_held, 1);
            assert_string_equal(gateways[cases[i].node]->held[0]->target.p ? "b0" : "", "b0");
            acknowledge(gateways[cases[i].node]);
            run();
            assert_outcome(number, "202", 1);
            close_cluster();
        }
}

/* What is out at the old place comes back before the new place gets anything. */
static void a_device_that_moves_gets_each_command_once_and_in_order(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        struct client *before, *after;

        open_cluster(designs[k], NODES);
        before = subscribe((struct subscribing){.node = 1, .device = "d0", .holds = true});
        run();
        for (int i = 0; i < 5; i++)
            (void)write_command("d0");
        run();
        assert_int_equal(before->n_held, 5);
        after = subscribe((struct subscribing){.node = 2, .device = "d0"});
        run();
        for (int i = 0; i < 5; i++)
            (void)write_command("d0");
        run();
        assert_int_equal(cl.n_order, 0);
        end_client(before);
        run();
        assert_true(after->is_there);
        assert_int_equal(cl.n_order, 10);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(cl.order[i], i);
            assert_outcome(i, "202", i < 5 ? 2 : 1); /* five were at a device that did not acknowledge them */
        }
        assert_all_settled();
        close_cluster();
    }
}

static void the_commands_of_an_instance_that_dies_go_elsewhere(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        open_cluster(designs[k], NODES);
        (void)subscribe((struct subscribing){.node = 1, .device = "d0", .holds = true});
        (void)subscribe((struct subscribing){.node = 2, .device = "d1"});
        run();
        for (int i = 0; i < 6; i++)
            (void)write_command(i % 2 ? "d0" : "d1");
        run();
        kill_node(1);
        run();
        fence(1, 0);
        run();
        for (int i = 0; i < 6; i++)
            assert_outcome(i, i % 2 ? "503" : "202", 1);
        assert_string_equal(events_of("d0"), "-1 0");
        assert_all_settled();
        close_cluster();
    }
}

static void an_instance_without_a_lease_does_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++) {
        int number;

        open_cluster(designs[k], NODES);
        (void)subscribe((struct subscribing){.node = 0, .device = "d0"});
        run();
        cl.nodes[0].routes.is_leased = false;
        number = write_command("d0");
        run();
        assert_int_equal(cl.delivered[number], 0);
        fence(0, 1);
        run();
        rise(0);
        run();
        if (k > 0)
            assert_outcome(number, "202", 1); /* it waited for whoever has the partition */
        else
            assert_outcome(number, "503", 0); /* the others answered while it was away */
        assert_all_settled();
        close_cluster();
    }
}

/* What the member before has out by the older subscription comes back before the newer one gets anything of the next member, or of its own. */
static void a_partition_changes_hands_while_a_device_subscribes_anew(void **state)
{
    (void)state;
    for (size_t k = 1; k < ARRAY_LEN(designs); k++)
        for (int heir = 1; heir < NODES; heir++) {
            struct client *before;

            open_cluster(designs[k], NODES);
            before = subscribe((struct subscribing){.node = 1, .device = "d0", .holds = true});
            run();
            (void)write_command("d0");
            run();
            assert_int_equal(before->n_held, 1);
            move_partition(0, heir);
            (void)subscribe((struct subscribing){.node = 1, .device = "d0"});
            run();
            for (int i = 1; i < 4; i++)
                (void)write_command("d0");
            run();
            assert_int_equal(cl.n_order, 0);
            end_client(before);
            run();
            assert_int_equal(cl.n_order, 4);
            for (int i = 0; i < 4; i++) {
                assert_int_equal(cl.order[i], i);
                assert_outcome(i, "202", i == 0 ? 2 : 1);
            }
            assert_all_settled();
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

static struct client *any_client(void)
{
    struct client *client = &cl.clients[draw(CLIENTS)];

    return client->is_there && !cl.nodes[client->node].is_dead ? client : NULL;
}

static void subscribe_any(void)
{
    static const struct subscribing who[] = {{.device = "d0"},
                                             {.device = "d1"},
                                             {.device = "d2"},
                                             {.device = "g0", .is_for_all = true},
                                             {.device = "g1", .is_for_all = true},
                                             {.device = "b0", .gateway = "g0"},
                                             {.device = "b0"}};
    struct subscribing s = who[draw(ARRAY_LEN(who))];
    int n = 0;

    for (int i = 0; i < CLIENTS; i++)
        n += cl.clients[i].is_there || cl.clients[i].n_held;
    s.node = (int)draw(NODES);
    s.holds = draw(2);
    s.has_no_events = draw(4) == 0;
    if (n < CLIENTS && !cl.nodes[s.node].is_dead)
        (void)subscribe(s);
}

static void mend_transport(int node)
{
    cl.nodes[node].send_result = E_OK;
    if (cl.nodes[node].is_dead)
        return;
    command_remote_on_room(cl.nodes[node].plane, 0);
    command_remote_retry(&cl.nodes[node].plane->routers[0]);
}

static void step(int n_commands)
{
    static const char *const devices[] = {"d0", "d1", "d2", "b0", "b1", "d3"};
    int node = (int)draw(NODES);
    struct client *client = any_client();

    switch (draw(17)) {
    case 0:
        if (draw(3) == 0)
            subscribe_any();
        break;
    case 1:
        if (client && client->subscriber.entry && draw(4) == 0)
            end_client(client);
        break;
    case 2:
    case 3:
        if (client)
            acknowledge(client);
        break;
    case 4:
    case 5:
        if (cl.n_records < n_commands)
            (void)write_command(devices[draw(ARRAY_LEN(devices))]);
        break;
    case 6:
        if (draw(8) == 0 && !cl.nodes[node].is_dead)
            command_note_gateway(cl.nodes[node].plane, STR("t"), STR("b0"), draw(2) ? STR("g0") : STR("g1"));
        break;
    case 7:
    case 8:
    case 9:
        (void)apply_next(node);
        break;
    case 10:
        (void)publish(node);
        break;
    case 11:
    case 12:
        (void)receive_next(node);
        break;
    case 13:
        (void)read_next(node);
        break;
    case 14: /* the transport has no room, or does not reach anybody, and then it is well again */
        if (draw(4) == 0)
            cl.nodes[node].send_result = draw(2) ? E_AGAIN : E_IO;
        else
            mend_transport(node);
        break;
    case 15:
        (void)store_next(node);
        break;
    default:
        turn_loop(node);
    }
}

/* All connections end, and with them what is still to be acknowledged. */
static void finish(void)
{
    for (int i = 0; i < NODES; i++)
        mend_transport(i);
    run();
    for (int i = 0; i < CLIENTS; i++)
        if (cl.clients[i].is_there && !cl.nodes[cl.clients[i].node].is_dead)
            end_client(&cl.clients[i]);
    run();
}

static void assert_order(void)
{
    for (int i = 0; i < cl.n_order; i++)
        for (int k = i + 1; k < cl.n_order; k++)
            if (cl.order[k] < cl.order[i] && !strcmp(cl.devices[cl.order[i]], cl.devices[cl.order[k]]))
                fail_msg("%d after %d", cl.order[k], cl.order[i]);
}

static void without_a_crash_each_command_has_one_outcome_and_its_place(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (unsigned seed = 1; seed <= cluster_seeds(); seed++) {
            random_state = seed;
            open_cluster(designs[k], NODES);
            for (int i = 0; i < STEPS; i++)
                step(40);
            finish();
            for (int i = 0; i < cl.n_records; i++) {
                const char *status = "none";
                int n = count_notices(i, &status);

                if (n != 1 || cl.acknowledged[i] != !strcmp(status, "202"))
                    fail_msg("%s, seed %u: command %d for %s: %d notices, status %s, acknowledged %d times", designs[k], seed,
                             i, cl.devices[i], n, status, cl.acknowledged[i]);
            }
            assert_order();
            assert_all_settled();
            close_cluster();
        }
}

/* One dies in the middle of it; another takes its partition, and fences it. */
static void whoever_dies_no_command_is_without_an_outcome(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(designs); k++)
        for (unsigned seed = 1; seed <= cluster_seeds(); seed++) {
            int victim, heir;

            random_state = seed * 77;
            open_cluster(designs[k], NODES);
            for (int i = 0; i < STEPS / 2; i++)
                step(40);
            victim = (int)draw(NODES);
            heir = (victim + 1) % NODES;
            kill_node(victim);
            for (int i = 0; i < 50; i++)
                step(40);
            if (cl.is_grouped && victim == 0)
                move_partition(victim, heir);
            fence(victim, heir);
            for (int i = 0; i < STEPS / 2; i++)
                step(40);
            finish();
            for (int i = 0; i < cl.n_records; i++) {
                const char *status = "none";

                if (count_notices(i, &status) < 1)
                    fail_msg("%s, seed %u: command %d for %s: nobody is told", designs[k], seed, i, cl.devices[i]);
            }
            assert_all_settled();
            close_cluster();
        }
}

/* What comes twice does so behind its first time; that is in order. Those of which two instances have told, one after the other, are in nobody's order. */
static void assert_first_order(const char *design, unsigned seed)
{
    bool has_come[RECORDS] = {false};

    for (int i = 0; i < cl.n_order; i++) {
        const char *status;
        bool is_doubtful = count_notices(cl.order[i], &status) > 1;

        for (int k = cl.order[i] + 1; k < cl.n_records && !is_doubtful && !has_come[cl.order[i]]; k++)
            if (has_come[k] && !strcmp(cl.devices[cl.order[i]], cl.devices[k]))
                fail_msg("%s, seed %u: %d after %d", design, seed, cl.order[i], k);
        has_come[cl.order[i]] = true;
    }
}

/* The partition goes from one to the next and back while commands are out. */
static void a_partition_that_changes_hands_loses_nothing(void **state)
{
    (void)state;
    for (size_t k = 1; k < ARRAY_LEN(designs); k++)
        for (unsigned seed = 1; seed <= cluster_seeds(); seed++) {
            int owner = 0;

            random_state = seed * 131;
            open_cluster(designs[k], NODES);
            for (int i = 0; i < STEPS; i++) {
                step(40);
                if (draw(60) == 0) {
                    move_partition(owner, (owner + 1) % NODES);
                    owner = (owner + 1) % NODES;
                }
            }
            finish();
            for (int i = 0; i < cl.n_records; i++) {
                const char *status = "none";

                if (count_notices(i, &status) < 1)
                    fail_msg("%s, seed %u: command %d for %s: nobody is told", designs[k], seed, i, cl.devices[i]);
            }
            assert_first_order(designs[k], seed);
            assert_all_settled();
            close_cluster();
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_reaches_its_device_wherever_that_is),
        cmocka_unit_test(what_cannot_be_delivered_is_told_of_once),
        cmocka_unit_test(commands_go_through_the_gateway_that_was_heard_last),
        cmocka_unit_test(a_device_that_moves_gets_each_command_once_and_in_order),
        cmocka_unit_test(the_commands_of_an_instance_that_dies_go_elsewhere),
        cmocka_unit_test(a_partition_changes_hands_while_a_device_subscribes_anew),
        cmocka_unit_test(an_instance_without_a_lease_does_nothing),
        cmocka_unit_test(without_a_crash_each_command_has_one_outcome_and_its_place),
        cmocka_unit_test(whoever_dies_no_command_is_without_an_outcome),
        cmocka_unit_test(a_partition_that_changes_hands_loses_nothing),
    };

    return cmocka_run_group_tests_name("command_design", tests, NULL, NULL);
}
