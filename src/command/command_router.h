/* command_router: one worker's part of the command plane, for the tenants that belong to it; see command.h. Only for the files of this
 * folder. One thread, but for the marked. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/slab.h"
#include "command/command.h"
#include "command/command_choice.h"
#include "command/command_design.h"
#include "command/command_memory.h"
#include "command/command_metrics.h"
#include "command/command_port.h"
#include "command/command_transport.h"
#include "core/command_target.h"
#include "registry/registry.h"
#include "routes/routes.h"

/* What becomes of a subscription. */
enum command_entry_state {
    COMMAND_ENTRY_IDLE,        /* the route is another's, or void */
    COMMAND_ENTRY_REGISTERING, /* the route is asked for */
    COMMAND_ENTRY_REGISTERED,  /* the route is this one's */
    COMMAND_ENTRY_REMOVING,    /* it has ended, its route is to go */
};

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
    bool is_for_all, has_events;
    enum config_adapter_type adapter;

    /* The router's. */
    struct command_seat *seat;
    struct list link;      /* of the seat */
    struct list unsettled; /* it waits for the others to see it */
    struct timer timer;    /* ends that wait; or a removal is asked for again */
    struct routes_write write;
    enum command_entry_state state;
    uint64_t epoch;   /* its route's, once it was asked for */
    bool has_stood;   /* it had the route once */
    bool is_told;     /* applications know of it, or will */
    bool is_telling;  /* and the subscriber waits for that */
    bool is_answered; /* the subscriber knows */
    bool is_ended;
    bool is_uncertain; /* a removal may have been done, nobody knows */
    struct str tenant, device, gateway;
    char text[];
};

/* Those of this process that are subscribed for one device or gateway: the newest has the route, unless another instance has it. */
struct command_seat {
    struct list entries; /* the newest last */
    struct list due;     /* the router is to look at it at the end of the turn */
    struct command_router *router;
    uint64_t hash;
    struct str tenant, device;
    char text[];
};

/* By which subscription the commands go that are out, of whichever instance. */
struct command_way {
    uint64_t incarnation, epoch; /* 0: none */
    bool is_self;
    bool is_shunned;              /* it gave a command back: it is about to end */
    struct str instance, gateway; /* owned by the lane */
    char *text;
};

/* The commands of one device that are not done, in order. */
struct command_lane {
    struct list commands;
    struct list parked; /* in one of the router's lists: the first that is not out has to wait */
    struct list due;    /* the router is to look at it at the end of the turn */
    struct list acting; /* this instance does something with its commands */
    struct command_router *router;
    struct command_way way;
    unsigned n_sent;         /* are out, by `way` */
    unsigned n_over;         /* are over and not settled yet */
    unsigned n_unsent;       /* of those that are out: could not be passed on yet */
    struct routes_hold hold; /* of note_moved */
    bool is_held;
    bool is_pumping;
    bool has_gateways; /* others' routes count */
    bool has_waiting;  /* the table has commands for the device that are not in the lane */
    bool has_kept;     /* commands of the table are, or were, in the lane */
    bool is_away;      /* nobody takes commands for the device, as far as is known to whoever looks at the lane */
    bool is_keeping;   /* one is on its way to the table */
    uint64_t loaded;   /* the number of the last one that was loaded */
    uint64_t hash;
    struct str tenant, device;
    char text[];
};

/* A partition whose records come to this router. */
struct command_partition {
    struct command_router *router;
    struct source_partition *source;
    struct list commands; /* that are not settled, in the order of their offsets */
    struct list due;      /* offsets of it have become done */
    int64_t next;         /* everything below is done, or a command */
    struct routes_write write;
    int64_t first;   /* offset that came */
    unsigned making; /* how many topics of its name there have been before this one, as far as the design cares */
    bool is_begun,
        is_beginning; /* of a design that wants to know of all offsets what is done: that can be said, or has been asked */
    uint64_t hash;
};

/* The key of what a router keeps for each device of its tenants, hashed by siphash_pair(); for map_find(). */
struct command_pair {
    struct str tenant, device;
};

static inline bool command_pair_is(const void *key, struct str tenant, struct str device)
{
    const struct command_pair *pair = key;

    return str_equal(device, pair->device) && str_equal(tenant, pair->tenant);
}

struct command_router {
    struct command_plane *plane;
    struct worker *worker;
    struct routes_replica *replica;
    struct generation *generation, *next_generation;
    struct mail use, leave;
    bool is_leaving;
    struct map seats, lanes, partitions, heard;
    struct list heard_by_age;
    struct slab commands;
    struct arena scratch; /* of one choice */
    struct list blocked;  /* commands whose notice found no room */
    struct sink_waiter room;
    struct list acting;               /* lanes */
    struct list waiting, others;      /* parked lanes: what may change soon; what another instance acts on */
    struct list due_lanes, due_seats; /* to look at at the end of the turn */
    struct list due_partitions;
    struct list unsettled; /* entries */
    struct task task;
    struct timer tick;          /* while something is in `waiting`, or could not be passed on */
    bool has_seen, has_changed; /* at the end of the turn: those that wait; all that are parked */
    bool has_instances, has_leased;

    struct map out;          /* commands that other instances have, by their tickets */
    struct list unsent;      /* commands that go to other instances, and cannot yet, in order */
    struct list errands;     /* commands that other instances have passed on */
    struct list pending;     /* those for which the replica is behind */
    struct list replies;     /* results that could not be sent */
    struct list unforgotten; /* commands that could not be taken out of the table */
    bool has_no_room;        /* of the transport, until on_room() */
    struct map serving;      /* what is under way for devices of this process, with several instances that share commands */
    struct command_memory memory;
    uint64_t n_forgotten; /* of it, that were counted */
};

struct command_plane {
    struct command_settings settings;
    const struct command_design *design;
    struct source_reader reader;
    struct source *source;
    struct command_transport *transport; /* NULL: nothing is passed on */
    struct command_router *routers;
    unsigned n_routers;
    atomic_uint n_unchanged;
    struct mail *changed;
    struct mailbox *changed_home;
    atomic_uint n_staying;
    struct mail *left;
    struct mailbox *left_home;
    struct command_transport_user user;
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

/* A seat is gone: perhaps it was the last that somebody waits for. */
void command_router_note_left(struct command_router *r);

/* --- command_watch.c: what the routes tell --- */

void command_watch_listen(struct command_router *r);

/* The seat, the lane is looked at at the end of the turn; the router's work is done soon. */
void command_watch_seat(struct command_seat *seat);
void command_watch_lane(struct command_lane *lane);
void command_watch_soon(struct command_router *r);

/* Something waits for what may never be told: within a second it is looked at again. */
void command_watch_tick(struct command_router *r);

/* --- command_entry.c --- */

/* The subscription that has this route of this process, and is still there; NULL: it has ended. */
struct command_entry *command_entry_find(struct command_router *r, struct str tenant, struct str device, uint64_t epoch);

/* A subscription for this device or gateway is being registered. */
bool command_entry_is_coming(struct command_router *r, struct str tenant, struct str device);

/* Any thread. */
void command_entry_ref(struct command_entry *entry);
void command_entry_unref(struct command_entry *entry);

/* Brings a seat's subscriptions and the routes together. */
void command_entry_check(struct command_seat *seat);

/* The seat of a device or gateway, or NULL. */
struct command_seat *command_entry_seat(struct command_router *r, struct str tenant, struct str device);

/* Everything registered is void. */
void command_entry_void_all(struct command_router *r);

/* Others have seen more. */
void command_entry_on_seen(struct command_router *r);

void command_entry_fini_all(struct command_router *r);

/* --- command_gateway.c --- */

/* The gateway, or the device itself, that was heard last here and is not in the routes yet; empty: there is none. */
struct str command_gateway_heard(struct command_router *r, struct str tenant, struct str device);

/* The routes have something new of a device. */
void command_gateway_on_route(struct command_router *r, struct str tenant, struct str device);

void command_gateway_fini(struct command_router *r);

/* --- command_event.c --- */

/* Tells applications that a device or gateway takes commands (-1), or does not any more (0). E_AGAIN: there is no room. */
MUST_USE err command_event_submit(struct command_router *r, struct str tenant, struct str device,
                                  enum config_adapter_type adapter, int32_t ttd_s, struct delivery *delivery);

/* The same without anybody who waits for it; a loss is counted. */
void command_event_tell(struct command_router *r, struct str tenant, struct str device, enum config_adapter_type adapter,
                        int32_t ttd_s);

/* --- command_lane.c --- */

/* A record of a command topic has arrived: CONTAINER_OF(m, struct source_record, mail). */
void command_lane_on_record(struct mail *m);

struct command_lane *command_lane_find(struct command_router *r, struct str tenant, struct str device);
struct command_lane *command_lane_make(struct command_router *r, struct str tenant, struct str device);

/* Does what may be done for the lane's commands now; the lane may be gone after it. */
void command_lane_pump(struct command_lane *lane);

/* A command that was out has come back, with result, status and text. */
void command_lane_take_back(struct command *c);

/* Hands a command to a subscriber of this process; `on_back` follows. */
void command_lane_deliver(struct command *c, struct command_entry *entry, bool is_through_gateway,
                          void (*on_back)(struct command *));

/* Nothing is to be done with a command here: another instance does it, or has. It is not out. The lane lives. */
void command_lane_leave(struct command *c);

/* One that was over is not: it is the next of its lane. */
void command_lane_take_on(struct command *c);

/* The lane keeps what is done here from being called seen, if another instance is to act for its device: commands that are out, and notices on their
 * way. Within the event of the routes. */
void command_lane_note_moved(struct command_router *r, struct command_lane *lane);

/* A command of the lane was settled. */
void command_lane_note_settled(struct command_lane *lane);

void command_lane_fini_all(struct command_router *r);

/* --- command_partition.c --- */

struct command_partition *command_partition_of(struct command_router *r, struct source_partition *source);
struct command_partition *command_partition_find(struct command_router *r, struct str topic, int32_t number);

/* The partition belongs to another instance now. Of source.h. */
void command_partition_on_lost(void *context, struct source_partition *source);

void command_partition_fini_all(struct command_router *r);

/* --- command_notice.c --- */

/* The end of a command: counted, told of if that is wanted, settled once Kafka has the notice, and gone. It is in no lane's order any more. `status` 0:
 * nobody is told. */
void command_notice_conclude(struct command *c, enum command_metric what, int status, const char *text);

/* The same for one that is another instance's: nobody is told by this one. */
void command_notice_leave(struct command *c);

/* The same for one that waits in the table now. */
void command_notice_put_away(struct command *c);

/* The sink has room again. */
void command_notice_on_room(struct mail *m);

/* --- command_queue.c: commands that wait for devices that are away --- */

/* Whether a command that nobody takes now is to wait. */
bool command_queue_takes(const struct command *c);

/* It waits from now on, in place of being told of; it is over, and its lane rests until that is decided. */
void command_queue_keep(struct command *c);

/* Who acts on what waits, in every design. */
enum command_turn command_queue_turn(struct command_router *r, const struct command_lane *lane,
                                     const struct command_choice *choice);

/* Puts some of what waits into the lane if this instance is to act on it, and finds out whether there is more. */
void command_queue_load(struct command_lane *lane);

/* Another instance is to act on what was loaded. */
void command_queue_unload(struct command_lane *lane);

/* True: another instance has taken what was loaded out of the table, and it is gone. */
bool command_queue_drop_if_gone(struct command *c);

/* One that was loaded is done, and told of. */
void command_queue_forget(struct command *c);

/* Asks again for what could not be taken out of the table. */
void command_queue_retry(struct command_router *r);

/* One has begun to wait for the device. */
void command_queue_on_waiting(struct command_router *r, struct str tenant, struct str device);

/* --- command_remote.c: commands that go to other instances, and their results --- */

/* Passes a command on by its lane's way; it counts as sent from now on. */
void command_remote_send(struct command *c);

/* Instances have come or gone: what those have that are gone comes back. */
void command_remote_on_instances(struct command_router *r);

/* This process is known by another incarnation: everything is asked for again under it. */
void command_remote_on_leased(struct command_router *r);

/* Sends what could not be sent. */
void command_remote_retry(struct command_router *r);

/* The command's partition is lost: what comes of it is ignored, and nothing more is to be done with it here. */
void command_remote_forget(struct command *c);

/* Of command_transport.h. */
void command_remote_on_result(struct command_plane *plane, const struct command_result_message *result);
void command_remote_on_room(struct command_plane *plane, unsigned worker);

/* --- command_serve.c: commands that other instances pass on to this one --- */

/* Of command_transport.h. */
void command_serve_on_request(struct command_plane *plane, const struct command_request *request);

/* Hands a command of the lane to a subscriber of this process, unless that was done before on behalf of another instance. */
void command_serve_own(struct command *c, struct command_entry *entry, bool is_through_gateway);

/* Something of the device is under way by another subscription than this one, on whoever's behalf. */
bool command_serve_is_busy(const struct command *c, uint64_t epoch);

/* The replica has applied more. */
void command_serve_on_applied(struct command_router *r);

/* Sends the results that could not be sent. */
void command_serve_retry(struct command_router *r);

/* A command of its own from what another instance, or the table, says of it; NULL: no memory. command_serve_free() frees it. */
struct command *command_serve_copy(struct command_router *r, const struct command_request *request);
void command_serve_free(struct command *c);

void command_serve_fini(struct command_router *r);
