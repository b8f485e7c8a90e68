#include "core/command_target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

/* Who is subscribed, one letter each, on an instance of the same name in capitals; and who was heard from last. */
struct world {
    const char *subscribed;
    const char *last;
    unsigned n_asked;
};

static bool find(void *context, struct str device, struct command_route *out_route)
{
    static const char instances[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct world *world = context;

    world->n_asked++;
    assert_int_equal(device.n, 1);
    if (!strchr(world->subscribed, device.p[0]))
        return false;
    out_route->instance = (struct str){instances + (device.p[0] - 'a'), 1};
    return true;
}

static struct str last_gateway(void *context, struct str device)
{
    (void)device;
    return str_from(((struct world *)context)->last);
}

static void targets_are_chosen_as_in_hono(void **state)
{
    static const struct {
        const char *gateways, *subscribed, *last, *instance, *gateway; /* of device d; instance NULL: nobody */
    } rows[] = {
        /* No gateways. */
        {"", "", "", NULL, ""},
        {"", "d", "", "D", ""},
        {"", "g", "g", NULL, ""},
        /* Up to three: the device's own wins, then the only one, then the last, then the first. */
        {"gh", "dg", "g", "D", ""},
        {"gh", "h", "", "H", "h"},
        {"gh", "h", "g", "H", "h"},
        {"gh", "gh", "h", "H", "h"},
        {"gh", "gh", "g", "G", "g"},
        {"ghi", "ghi", "i", "I", "i"},
        {"gh", "gh", "", "G", "g"},
        {"gh", "gh", "d", "G", "g"}, /* it spoke itself, but does not listen */
        {"gh", "gh", "x", "G", "g"},
        {"gh", "", "g", NULL, ""},
        /* More than three: the last first. */
        {"ghij", "dghij", "j", "D", ""},
        {"ghij", "ghij", "j", "J", "j"},
        {"ghij", "ghi", "j", "G", "g"},
        {"ghij", "ij", "i", "I", "i"},
        {"ghij", "j", "", "J", "j"},
        {"ghij", "ghij", "x", "G", "g"}, /* not one of them any more */
        {"ghij", "", "j", NULL, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world world = {rows[i].subscribed, rows[i].last, 0};
        struct command_routes routes = {&world, find, last_gateway};
        struct str gateways[8];
        struct command_target target = {0};
        size_t n = strlen(rows[i].gateways);

        for (size_t k = 0; k < n; k++)
            gateways[k] = (struct str){rows[i].gateways + k, 1};
        if (command_target_choose(&routes, STR("d"), gateways, n, &target) != (rows[i].instance != NULL))
            fail_msg("row %zu: chosen or not", i);
        if (rows[i].instance &&
            (!str_equal(target.instance, str_from(rows[i].instance)) || !str_equal(target.gateway, str_from(rows[i].gateway))))
            fail_msg("row %zu: %.*s through '%.*s'", i, STR_ARG(target.instance), STR_ARG(target.gateway));
    }
}

static void with_many_gateways_the_last_spares_asking_the_others(void **state)
{
    struct world world = {"ghijkl", "l", 0};
    struct command_routes routes = {&world, find, last_gateway};
    struct str gateways[] = {STR("g"), STR("h"), STR("i"), STR("j"), STR("k"), STR("l")};
    struct command_target target;

    (void)state;
    assert_true(command_target_choose(&routes, STR("d"), gateways, ARRAY_LEN(gateways), &target));
    assert_int_equal(world.n_asked, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_chosen_as_in_hono),
        cmocka_unit_test(with_many_gateways_the_last_spares_asking_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
