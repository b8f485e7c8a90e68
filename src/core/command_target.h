/* command_target: to whom a command for a device goes: to the device itself, or through which of the gateways that may act for it
 * (docs/wire/commands.md, as Eclipse Hono chooses). A pure function over what is known of subscriptions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* With more gateways than this the one heard from last is asked for first, and the others only if it is not there. */
enum { COMMAND_TARGET_FEW_GATEWAYS = 3 };

/* A subscription to commands, as the routes know it. */
struct command_route {
    struct str instance; /* which has it; empty: there is none that lives */
};

/* What is known. The functions are asked no more often than needed. */
struct command_routes {
    void *context;
    /* The subscription for this device's or gateway's own commands; false when no living instance has one. */
    bool (*find)(void *context, struct str device, struct command_route *out_route);
    /* The gateway the device was last heard through, or the device itself when it spoke directly; empty: not known. */
    struct str (*last_gateway)(void *context, struct str device);
};

struct command_target {
    struct str instance;
    struct str gateway; /* empty: the device's own subscription */
};

/* Chooses. `gateways` are those that may act for the device. False: nobody is subscribed. Views of the routes and of `gateways`. */
bool command_target_choose(const struct command_routes *routes, struct str device, const struct str *gateways,
                           size_t n_gateways, struct command_target *out_target);
