/* routes: which instance has whose subscription to commands, who lives, what is done (docs/adr/0021; docs/wire/routes.md). One
 * table for all instances, or a local one for an instance that is alone; a replica of it on every worker, for the tenants that
 * belong to that worker (routes_worker_of()), moved on by the table's changes in their order.
 *
 * Threads: a replica and everything that takes a `struct routes_replica *` belong to its worker's thread. The keeper, which holds
 * the lease and publishes, lives on worker 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"

struct routes;
struct routes_replica;
struct table;
struct worker;
struct workers;

enum routes_role { ROUTES_ADAPTER = 1, ROUTES_ROUTER = 2 }; /* bits */

/* An instance that holds a lease. Borrowed from the replica until its next event. */
struct routes_instance {
    struct str name;
    uint64_t incarnation;
    uint64_t seen;      /* it has applied the table up to, but not including, this offset */
    unsigned roles;     /* of enum routes_role */
    struct str address; /* HOST:PORT of its link; empty: none */
    bool is_self;       /* this process, under its present lease */
};

/* A subscription somewhere. Borrowed from the replica until its next event. */
struct routes_route {
    const struct routes_instance *instance;
    uint64_t epoch;     /* of the instance: grows with its registrations */
    struct str gateway; /* who subscribes, when it is not the device itself */
    bool is_for_all;    /* a gateway, for the devices it may act for as well */
};

/* A command that waits for a device (`command.policy: queue`). */
struct routes_waiting {
    struct str tenant, device;
    uint64_t number;  /* their order */
    struct str value; /* as it was given to routes_keep() */
};

/* What a worker is told; each may be NULL. On the worker's thread, in the table's order; the replica shows the state behind the
 * change. */
struct routes_events {
    void *context;
    /* The route of this device or gateway, or the gateway it was last heard through, is another now. */
    void (*on_route)(void *context, struct str tenant, struct str device);
    /* Instances have come or gone, or one has a new incarnation; or this process may act again, whose lease was renewed too late. */
    void (*on_instances)(void *context);
    /* Others have seen more: what waited for routes_is_recent() may go on. */
    void (*on_seen)(void *context);
    /* Offsets of a topic have become done. */
    void (*on_done)(void *context, struct str topic, int32_t partition);
    /* This process has a lease again (a new incarnation): everything that it registered is void and has to be registered anew. */
    void (*on_leased)(void *context);
    /* This route of an instance that is gone was removed by this one: applications are to be told. */
    void (*on_orphan)(void *context, struct str tenant, struct str device, bool has_events);
    /* A command has begun to wait for this device. */
    void (*on_waiting)(void *context, struct str tenant, struct str device);
    /* routes_applied() has grown; after whatever else is told of the same changes. */
    void (*on_applied)(void *context);
};

struct routes_settings {
    struct workers *workers; /* prepared, not started; borrowed */
    struct str instance;     /* this process's name, the same after a restart */
    struct str address;      /* of its link, for others; may be empty */
    unsigned roles;
    uint32_t lease_ms;
    bool is_alone; /* the table is local: there is no lease, this instance always lives */
    /* This instance has declared another one dead: what belongs to that name may be removed, unless it lives again
     * (routes_find_living()). On worker 0's thread; NULL: nobody cares. */
    void (*on_fenced)(void *context, struct str instance);
    void *context; /* of on_fenced */
};

/* The ops of the table `routes` (table/table.h); their context is the struct routes. */
extern const struct table_ops routes_table_ops;

/* Before the threads start; registers metrics. The caller owns it. */
struct routes *routes_new(const struct routes_settings *settings);

/* `table` was opened with routes_table_ops and this context; its `opened` mail has come. Fills the replicas, takes the lease and
 * begins to tell events; `ready` is posted to `home` when the lease is there and every replica is filled. Main thread. */
void routes_start(struct routes *routes, struct table *table, struct mail *ready, struct mailbox *home);

/* Orderly end: publishes what was done, removes what is registered and the lease. `done` is posted to `home`, within two seconds
 * whatever happens. Main thread. */
void routes_leave(struct routes *routes, struct mail *done, struct mailbox *home);

/* After the workers have stopped, before the table is closed: lets go of its view. NULL is a no-op. */
void routes_stop(struct routes *routes);

/* After routes_stop() and table_close(), which may still call its ops. NULL is a no-op. */
void routes_free(struct routes *routes);

/* This process's name, as in the settings. Any thread. */
struct str routes_name(const struct routes *routes);

/* The replica that has a tenant, and a worker's. Any thread; they live as long as the routes. */
struct routes_replica *routes_replica_of(struct routes *routes, struct str tenant);
struct routes_replica *routes_replica_at(struct routes *routes, unsigned worker);
unsigned routes_worker_of(const struct routes *routes, struct str tenant);

/* --- on the replica's worker --- */

/* Before routes_start(). */
void routes_listen(struct routes_replica *replica, const struct routes_events *events);

/* This process may act: it holds a lease that has not run out. Asks the clock of the loop; always true when alone. */
bool routes_is_leased(const struct routes_replica *replica);

/* This instance under its present lease; NULL: it has none. */
const struct routes_instance *routes_self(const struct routes_replica *replica);

/* The living instance of that name and incarnation, or NULL. */
const struct routes_instance *routes_find_instance(const struct routes_replica *replica, struct str name, uint64_t incarnation);

/* The living instance of that name, whatever its incarnation, or NULL. */
const struct routes_instance *routes_find_living(const struct routes_replica *replica, struct str name);

/* The route of a device's or gateway's own commands, of an instance that lives. False: there is none. */
bool routes_find(const struct routes_replica *replica, struct str tenant, struct str device, struct routes_route *out_route);

/* The gateway the device was last heard through, or the device itself; empty: not known. */
struct str routes_last_gateway(const struct routes_replica *replica, struct str tenant, struct str device);

/* Who acts for a device without a route: the first living instance of role ROUTES_ADAPTER by rendezvous hash. NULL: nobody lives. */
const struct routes_instance *routes_first(const struct routes_replica *replica, struct str tenant, struct str device);

/* Whether some other living instance may not have seen the last change of this device's (or gateway's) route, or of who lives. */
bool routes_is_recent(const struct routes_replica *replica, struct str tenant, struct str device);

/* The offset up to which (not including) the replica has applied the table. */
uint64_t routes_applied(const struct routes_replica *replica);

/* Keeps this process from saying that it has seen the change that is being told, or any later one: what it still does for a device
 * that has moved is not done yet. Within on_route() or on_instances(); until routes_release(), to be called as soon as the
 * outcome is marked as done. All devices that move wait meanwhile. Owned by the caller. */
struct routes_hold {
    struct list link;
    uint64_t offset;
};
void routes_hold(struct routes_replica *replica, struct routes_hold *hold);
void routes_release(struct routes_replica *replica, struct routes_hold *hold); /* a no-op when it is not held */

/* A change asked for. Owned by the requester and left alone until its mail comes; to the replica's worker. */
struct routes_write {
    struct mail mail; /* on_mail is set by the requester */
    err result; /* E_OK; E_DENIED: another one's (routes_unregister); E_BUSY: this process has no lease; else as of a table */
    struct routes_replica *replica;
    struct routes_private_write *private_write;
    uint64_t epoch; /* of routes_register(): set at once */
};

struct routes_subscription {
    struct str tenant, device, gateway; /* borrowed for the call */
    bool is_for_all;
    bool has_events;
};

/* Registers a subscription of this process in place of whatever is there; E_OK comes when this replica has it. Requests of one
 * device are decided in the order of their calls. */
void routes_register(struct routes_replica *replica, struct routes_write *write,
                     const struct routes_subscription *subscription);

/* Removes a route if it is still the one of that epoch of this process. E_DENIED: a newer one has its place. */
void routes_unregister(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                       uint64_t epoch);

/* A device was heard through a gateway (or itself). Written within 400 ms, the last of several; a loss is tolerated. */
void routes_note_gateway(struct routes_replica *replica, struct str tenant, struct str device, struct str gateway);

/* --- done (design direct) --- */

/* Nothing is known of this partition: all records before `offset` are none of ours. The first instance that says so decides; E_OK
 * when it is known, by this or another one, and routes_first_undone() says where to begin. */
void routes_begin_done(struct routes_replica *replica, struct routes_write *write, struct str topic, int32_t partition,
                       int64_t offset);

/* Whether a record of a topic is done. */
bool routes_is_done(const struct routes_replica *replica, struct str topic, int32_t partition, int64_t offset);

/* The records [from, to) of a topic are done by this instance; published soon, and before any later *seen*. Offsets between two
 * records that no record has must be in it as well: what is not marked is never passed. */
void routes_mark_done(struct routes_replica *replica, struct str topic, int32_t partition, int64_t from, int64_t to);

/* Where a reader that has no position of its own begins: behind what is done without a gap. Negative: nothing is known of the
 * partition. Any thread. */
int64_t routes_first_undone(struct routes *routes, struct str topic, int32_t partition);

/* --- waiting commands --- */

/* Keeps a command for a device that is away, in the order of the calls. E_LIMIT: the device or the tenant has `max` already, or it is
 * too large. `id` names it: keeping it twice is keeping it once. */
void routes_keep(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                 struct str id, struct str value, uint32_t max_of_device, uint32_t max_of_tenant);

/* The first waiting command of a device behind a number. False: there is none. All is copied into `arena` (of MEM_COMMAND). */
struct arena;
bool routes_next_waiting(struct routes_replica *replica, struct str tenant, struct str device, uint64_t after,
                         struct arena *arena, struct routes_waiting *out_waiting);

/* It was delivered, or has expired. E_DENIED: it is not there any more. */
void routes_forget(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                   uint64_t number);

/* --- reports: what an instance tells all others --- */

enum { ROUTES_REPORT_MAX = 1000 /* bytes */ };

/* Tells all instances, in place of what this one has told under the key before; written within a second, again and again until it
 * is, and kept when this instance is gone. Any thread. What is too long, or too much, is dropped and counted. */
void routes_tell(struct routes *routes, struct str key, struct str value);

/* What an instance has told, also this one, and when the table is read at the start; by which incarnation. On worker 0. */
typedef void routes_on_report(void *context, struct str instance, uint64_t incarnation, struct str key, struct str value);

/* Before routes_start(). */
void routes_listen_reports(struct routes *routes, routes_on_report *on_report, void *context);
