#include "core/command_target.h"

static bool is_one_of(struct str name, const struct str *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal(name, names[i]))
            return true;
    return false;
}

static bool take(const struct command_routes *routes, struct str owner, struct str gateway, struct command_target *out_target)
{
    struct command_route route;

    if (!routes->find(routes->context, owner, &route))
        return false;
    *out_target = (struct command_target){.instance = route.instance, .gateway = gateway};
    return true;
}

/* Among several that are subscribed: the one heard from last, else the first. */
static bool take_gateway(const struct command_routes *routes, struct str device, const struct str *gateways, size_t n,
                         struct command_target *out_target)
{
    struct command_target found, first = {0};
    size_t n_found = 0;
    struct str last = {0};

    for (size_t i = 0; i < n; i++) {
        if (!take(routes, gateways[i], gateways[i], &found))
            continue;
        if (n_found++ == 0)
            first = found;
        else if (n_found == 2)
            last = routes->last_gateway(routes->context, device);
        if (n_found > 1 && str_equal(found.gateway, last)) {
            *out_target = found;
            return true;
        }
        if (n_found == 2 && str_equal(first.gateway, last))
            break;
    }
    *out_target = first;
    return n_found > 0;
}

bool command_target_choose(const struct command_routes *routes, struct str device, const struct str *gateways,
                           size_t n_gateways, struct command_target *out_target)
{
    if (take(routes, device, (struct str){0}, out_target))
        return true;
    if (n_gateways > COMMAND_TARGET_FEW_GATEWAYS) {
        struct str last = routes->last_gateway(routes->context, device);

        if (last.n > 0 && is_one_of(last, gateways, n_gateways) && take(routes, last, last, out_target))
            return true;
    }
    return take_gateway(routes, device, gateways, n_gateways, out_target);
}
