/* command_design: how instances share commands (docs/adr/0021). One for each word of `command.routing`, each in a file of its own; everything
 * else of the plane is the same for all. By the router's thread but for the marked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct command;
struct command_choice;
struct command_lane;
struct command_partition;
struct command_plane;
struct command_router;
struct routes;

/* By what requests and results go to other instances. */
enum command_carrier { COMMAND_CARRIER_NONE, COMMAND_CARRIER_TOPICS, COMMAND_CARRIER_LINK };

/* What is to be done with a command now. */
enum command_turn {
    COMMAND_TURN_ACT,    /* this instance delivers it, passes it on or tells of its failure */
    COMMAND_TURN_WAIT,   /* it may be this instance's, but others may still act */
    COMMAND_TURN_OTHERS, /* another instance acts */
    COMMAND_TURN_DONE,   /* another instance has acted */
};

struct command_design {
    const char *name;             /* as in `command.routing` */
    enum command_carrier carrier; /* NONE: nothing is passed on */
    bool is_grouped; /* the instances are members of one consumer group, each has its partitions; else each reads everything */
    bool has_roles;  /* an instance may be only a router, or only an adapter */
    enum command_turn (*turn)(struct command_router *r, const struct command *c, const struct command_choice *choice);
    /* A record is over: before it is settled. NULL: that is all. */
    void (*note_settled)(struct command_router *r, struct command *c);
    /* The first record of a partition has come, or one from before the last: the topic was made anew. Sets from where on there is nothing
     * to be done before it, or 0. NULL: the design does not care. */
    void (*begin)(struct command_router *r, struct command_partition *p, int64_t offset);
    /* Whoever is responsible for the lane's device may have changed; within the event of the routes. NULL: the design does not care. */
    void (*note_moved)(struct command_router *r, struct command_lane *lane);
    /* Offsets have become done. NULL: as before. */
    void (*note_done)(struct command_router *r, struct command_partition *p);
    /* Where a partition begins that this instance has no position for; negative: not known. Any thread; NULL: not known. */
    int64_t (*begins_at)(struct routes *routes, struct str topic, int32_t partition);
};

extern const struct command_design command_direct;
extern const struct command_design command_by_router;
extern const struct command_design command_shared;
extern const struct command_design command_by_link;

/* The design of an `enum config_routing`. */
const struct command_design *command_design_of(int routing);
