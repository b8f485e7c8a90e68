/* command_router: one worker's part of the command plane, for the tenants that belong to it; see command.h. Only for the files of this
 * folder. One thread, but for the marked. */
#pragma once

#include <stdatomic.h>

#include "base/map.h"
#include "base/slab.h"
#include "command/command.h"
#include "command/command_metrics.h"
#include "command/command_port.h"
#include "core/command_target.h"
#include "registry/registry.h"

/* A subscription as its router sees it. Freed when router and subscriber have both let go and no command is out. */
struct command_entry {
    struct command_plane *plane;
    struct command_router *router;
    struct mailbox *home;                  /* of the subscriber's worker */
    struct command_subscriber *subscriber; /* that worker's; NULL: it has gone */
    struct mail ask, end;                  /* to the router; `ask` comes back with the answer */
    struct delivery event;
    err result;
    atomic_uint refs;
    bool is_current; /* the router's: it is the one that takes commands */
    bool is_told;    /* the router's: applications know of it */
    bool is_for_all, has_events;
    enum config_adapter_type adapter;
    struct str tenant, device, gateway;
    char text[];
};

/* The commands of one device that are not done, in order. */
struct command_lane {
    struct list commands;
    struct command_entry *entry; /* who has those that were sent; NULL: none are out */
    unsigned n_sent;
    bool is_pumping;
    uint64_t hash;
    struct str tenant, device;
    char text[];
};

/* How a device was last heard from, if there are several ways. */
struct command_heard {
    struct str tenant, device, gateway;
    char text[];
};

struct command_router {
    struct command_plane *plane;
    struct worker *worker;
    struct generation *generation, *next_generation;
    struct mail use;
    struct map entries, lanes, heard;
    struct slab commands;
    struct list blocked; /* commands whose notice found no room */
    struct sink_waiter room;
};

struct command_plane {
    struct command_settings settings;
    struct source_reader reader;
    struct source *source;
    struct command_router *routers;
    unsigned n_routers;
    atomic_uint n_unchanged;
    struct mail *changed;
    struct mailbox *changed_home;
    atomic_bool is_draining;
};

static inline bool command_router_is_draining(const struct command_router *r)
{
    return atomic_load(&r->plane->is_draining);
}

/* The router of a tenant. Any thread. */
struct command_router *command_router_of(struct command_plane *plane, struct str tenant);

void command_router_init(struct command_router *r, struct command_plane *plane, struct worker *w);
void command_router_fini(struct command_router *r);

/* --- command_entry.c --- */

/* The subscription for a device's own commands, or NULL. */
struct command_entry *command_entry_find(struct command_router *r, struct str tenant, struct str device);

/* Any thread. */
void command_entry_ref(struct command_entry *entry);
void command_entry_unref(struct command_entry *entry);

void command_entry_fini_all(struct command_router *r);

/* The gateway, or the device itself, that was heard from last; empty: not known. */
struct str command_entry_heard(struct command_router *r, struct str tenant, struct str device);

/* --- command_lane.c --- */

/* A record of a command topic has arrived: CONTAINER_OF(m, struct source_record, mail). */
void command_lane_on_record(struct mail *m);

void command_lane_fini_all(struct command_router *r);

/* --- command_notice.c --- */

/* The end of a command: counted, told of if that is wanted, settled once Kafka has the notice, and gone. It is in no lane any more. `status` 0:
 * nobody is told. */
void command_notice_conclude(struct command *c, enum command_metric what, int status, const char *text);

/* The sink has room again. */
void command_notice_on_room(struct mail *m);
