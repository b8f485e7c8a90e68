/* command_choice: to whom a command goes, by the worker's replica of the routes; and why it may not. Pure look-ups, the router's thread. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "command/command_metrics.h"
#include "registry/registry.h"
#include "routes/routes.h"

struct command;
struct command_router;

struct command_choice {
    bool has_way;              /* somebody is subscribed */
    struct routes_route route; /* of has_way; a view of the replica */
    struct str
        owner; /* of has_way: the device or the gateway whose route it is; a view of the question, or of the router's scratch */
    bool is_through_gateway; /* the subscriber is not the device */
    bool has_gateways;       /* routes of others than the device count as well */
    bool is_coming;          /* nobody is, but a subscription of this process is being registered */
    bool is_recent;          /* some instance may choose otherwise, since it does not know yet what this one does */
    enum registry_assertion assertion;
};

/* Good until the next choice, and the next event of the routes. */
void command_choice_make(struct command_router *r, struct str tenant, struct str device, struct command_choice *out_choice);

/* Whether this instance acts for a device, where all know of all commands: it has the subscriber, or nobody has and it is the first of those that
 * live. */
bool command_choice_is_ours(struct command_router *r, struct str tenant, struct str device,
                            const struct command_choice *choice);

/* Why a command is not delivered. All-zero: it is. */
struct command_refusal {
    enum command_metric what; /* of `is_refused` */
    int status;
    const char *text;
    bool is_refused;
    bool is_absent; /* for no other reason than that nobody is subscribed */
};

struct command_refusal command_choice_judge(const struct command *c, const struct command_choice *choice);
