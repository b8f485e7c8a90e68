/* command_routes_fixture_test: one fake table of routes for several instances of a process, each of which has applied it to some point, and the
 * instances' state, for command_cluster_fixture_test.h. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "command/command_router.h"
#include "registry/generation.h"

enum {
    NODES = 3,
    RECORDS = 256,
    CHANGES = 8192,
    SLOTS = 32,
    CLIENTS = 24,
    MESSAGES = 1024,
    READS = 2048,
    NAME = 24,
    TOLD = 2048
};

enum change_kind {
    CHANGE_ROUTE,
    CHANGE_REMOVED,
    CHANGE_UP,
    CHANGE_GONE,
    CHANGE_SEEN,
    CHANGE_GATEWAY,
    CHANGE_KEPT,
    CHANGE_FORGOTTEN
};

/* An entry of the table's log. */
struct change {
    enum change_kind kind;
    int node;
    uint64_t incarnation, epoch, seen;
    char device[NAME], gateway[NAME];
    bool is_for_all, has_events;
    int orphan_of; /* REMOVED: 1 + the node that fenced its owner; 0: its owner ended it */
    bool done[RECORDS];
    int kept; /* its number, from 0 */
};

struct slot {
    char device[NAME], gateway[NAME], last[NAME];
    int node;
    uint64_t incarnation, epoch, changed_at;
    bool is_there, is_for_all, has_events;
};

struct routes_replica {
    struct routes *routes;
    struct slot slots[SLOTS];
    struct routes_instance instances[NODES];
    bool lives[NODES];
    uint64_t applied, applying, instances_changed_at;
    bool done[RECORDS];
    bool is_kept[RECORDS];
    struct list holds;
    struct routes_events events;
};

struct pending_write {
    struct routes_write *write;
    uint64_t offset;
};

struct routes {
    struct routes_replica replica;
    int node;
    uint64_t incarnation, last_epoch;
    bool is_leased;
    bool marked[RECORDS];
    struct pending_write pending[64];
    size_t n_pending;
};

struct fixture_record {
    struct source_record record;
    char key[NAME], value[NAME];
    struct record_header headers[5];
    bool is_settled, is_stale;
};

struct message_in_flight {
    bool is_result;
    struct command_request request;
    struct command_result_message result;
    struct record_header headers[8];
    char text[1024];
};

struct node {
    struct workers workers;
    struct routes routes;
    struct command_plane *plane;
    struct sink sink;
    struct source source;
    struct source_partition partition;
    struct command_transport transport;
    struct fixture_record records[READS]; /* that it has read */
    int n_read;
    bool has[RECORDS];
    struct delivery *unstored[TOLD];
    size_t n_unstored;
    struct message_in_flight *inbox[MESSAGES];
    size_t n_inbox;
    bool is_dead, has_partition;
    err send_result; /* of the transport */
};

struct client {
    struct command_subscriber subscriber;
    int node;
    char device[NAME], gateway[NAME];
    err result;
    unsigned n_answers;
    struct command *held[RECORDS];
    size_t n_held;
    bool is_there, holds;
};

/* What applications are told. */
struct told {
    bool is_event;
    char device[NAME], status[8], id[NAME];
};

static struct {
    struct node nodes[NODES];
    struct change log[CHANGES];
    uint64_t n_log;
    struct routes_replica owner; /* the state that requests are decided against */
    struct client clients[CLIENTS];
    bool committed[RECORDS];
    char devices[RECORDS][NAME];
    int n_records;
    struct told told[TOLD];
    size_t n_told;
    int delivered[RECORDS];       /* how often devices got it */
    int acknowledged[RECORDS];    /* and how often they said so */
    int order[TOLD * 4], n_order; /* the numbers of the commands in the order in which they did */
    struct generation *generation;
    struct {
        char device[NAME], id[64];
        struct buf value;
    } kept[RECORDS]; /* commands that wait, by number */
    int n_kept;
    int64_t began_ms;
    const char *ttl[RECORDS]; /* of commands; NULL: none */
    bool is_grouped;
    bool begun;
} cl;

static inline struct node *node_of(struct routes *routes)
{
    return &cl.nodes[routes->node];
}

static inline void copy_name(char to[NAME], struct str from)
{
    assert_true(from.n < NAME);
    memcpy(to, from.n ? from.p : "", from.n);
    to[from.n] = '\0';
}

/* --- the table --- */

static inline struct slot *slot_of(struct routes_replica *r, const char *device)
{
    for (int i = 0; i < SLOTS; i++) {
        if (!r->slots[i].device[0])
            copy_name(r->slots[i].device, str_from(device));
        if (!strcmp(r->slots[i].device, device))
            return &r->slots[i];
    }
    fail_msg("no slot");
    return NULL;
}

static inline void apply(struct routes_replica *r, const struct change *c, uint64_t offset)
{
    struct slot *slot = c->device[0] ? slot_of(r, c->device) : NULL;

    r->applying = offset;
    r->applied = offset + 1;
    switch (c->kind) {
    case CHANGE_ROUTE:
        slot->node = c->node;
        slot->incarnation = c->incarnation;
        slot->epoch = c->epoch;
        slot->is_for_all = c->is_for_all;
        slot->has_events = c->has_events;
        slot->is_there = true;
        copy_name(slot->gateway, str_from(c->gateway));
        slot->changed_at = offset;
        break;
    case CHANGE_REMOVED:
        slot->is_there = false;
        slot->changed_at = offset;
        break;
    case CHANGE_GATEWAY:
        copy_name(slot->last, str_from(c->gateway));
        slot->changed_at = offset;
        break;
    case CHANGE_KEPT:
    case CHANGE_FORGOTTEN:
        r->is_kept[c->kept] = c->kind == CHANGE_KEPT;
        break;
    case CHANGE_UP:
        r->lives[c->node] = true;
        r->instances[c->node].incarnation = c->incarnation;
        r->instances[c->node].seen = 0;
        r->instances_changed_at = offset;
        break;
    case CHANGE_GONE:
        r->lives[c->node] = false;
        r->instances_changed_at = offset;
        break;
    case CHANGE_SEEN:
        r->instances[c->node].seen = c->seen;
        for (int i = 0; i < RECORDS; i++)
            r->done[i] |= c->done[i];
        break;
    }
}

static inline struct change *append(enum change_kind kind, int node, const char *device)
{
    struct change *c = &cl.log[cl.n_log];

    assert_true(cl.n_log < CHANGES);
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->node = node;
    c->incarnation = cl.nodes[node].routes.incarnation;
    copy_name(c->device, str_from(device));
    return c;
}

static inline uint64_t commit_change(void)
{
    uint64_t offset = cl.n_log++;

    apply(&cl.owner, &cl.log[offset], offset);
    return offset;
}

static inline void answer_writes(struct routes *routes)
{
    size_t n = 0;

    for (size_t i = 0; i < routes->n_pending; i++) {
        struct pending_write p = routes->pending[i];

        if (p.offset < routes->replica.applied)
            mailbox_post(&node_of(routes)->workers.list[0].loop.mailbox, &p.write->mail);
        else
            routes->pending[n++] = p;
    }
    routes->n_pending = n;
}

/* An instance applies the next change. False: it has all. */
static inline bool apply_next(int number)
{
    struct routes *routes = &cl.nodes[number].routes;
    struct routes_replica *r = &routes->replica;
    const struct change *c = &cl.log[r->applied];
    struct routes_events *e = &r->events;
    struct str device = str_from(c->device);

    if (r->applied == cl.n_log || cl.nodes[number].is_dead)
        return false;
    apply(r, c, r->applied);
    if (c->kind == CHANGE_ROUTE || c->kind == CHANGE_REMOVED || c->kind == CHANGE_GATEWAY)
        e->on_route(e->context, STR("t"), device);
    else if (c->kind == CHANGE_UP || c->kind == CHANGE_GONE)
        e->on_instances(e->context);
    if (c->kind == CHANGE_KEPT)
        e->on_waiting(e->context, STR("t"), device);
    if (c->kind == CHANGE_SEEN) {
        e->on_done(e->context, STR("hono.command.t"), 0);
        e->on_seen(e->context);
    }
    if (c->kind == CHANGE_UP && c->node == number && c->incarnation == routes->incarnation) {
        routes->is_leased = true;
        e->on_leased(e->context);
    }
    if (c->kind == CHANGE_REMOVED && c->orphan_of == number + 1)
        e->on_orphan(e->context, STR("t"), device, c->has_events);
    e->on_applied(e->context);
    answer_writes(routes);
    return true;
}

static inline bool has_unpublished(int number)
{
    const struct routes *routes = &cl.nodes[number].routes;
    const struct routes_replica *r = &routes->replica;
    uint64_t seen = r->applied;

    if (!list_is_empty(&r->holds))
        seen = CONTAINER_OF(r->holds.next, struct routes_hold, link)->offset;
    for (int i = 0; i < RECORDS; i++)
        if (routes->marked[i] && !cl.owner.done[i])
            return true;
    for (uint64_t i = cl.owner.instances[number].seen; i < seen; i++)
        if (cl.log[i].kind != CHANGE_SEEN)
            return true;
    return false;
}

/* It tells how far it is, and what it has done. */
static inline bool publish(int number)
{
    struct routes *routes = &cl.nodes[number].routes;
    struct change *c;

    if (!routes->is_leased || cl.nodes[number].is_dead || !has_unpublished(number))
        return false;
    c = append(CHANGE_SEEN, number, "");
    c->seen = routes->replica.applied;
    if (!list_is_empty(&routes->replica.holds))
        c->seen = CONTAINER_OF(routes->replica.holds.next, struct routes_hold, link)->offset;
    memcpy(c->done, routes->marked, sizeof c->done);
    commit_change();
    return true;
}

/* --- routes.h --- */

void routes_listen(struct routes_replica *replica, const struct routes_events *events)
{
    replica->events = *events;
}

struct routes_replica *routes_replica_at(struct routes *routes, unsigned worker)
{
    assert_int_equal(worker, 0);
    return &routes->replica;
}

unsigned routes_worker_of(const struct routes *routes, struct str tenant)
{
    (void)routes;
    (void)tenant;
    return 0;
}

bool routes_is_leased(const struct routes_replica *replica)
{
    return replica->routes->is_leased;
}

const struct routes_instance *routes_self(const struct routes_replica *replica)
{
    int node = replica->routes->node;

    return replica->routes->is_leased && replica->lives[node] ? &replica->instances[node] : NULL;
}

const struct routes_instance *routes_find_instance(const struct routes_replica *replica, struct str name, uint64_t incarnation)
{
    for (int i = 0; i < NODES; i++)
        if (replica->lives[i] && replica->instances[i].incarnation == incarnation &&
            str_equal(replica->instances[i].name, name))
            return &replica->instances[i];
    return NULL;
}

static inline const struct slot *find_slot(const struct routes_replica *r, struct str device)
{
    for (int i = 0; i < SLOTS; i++)
        if (r->slots[i].device[0] && str_equal(str_from(r->slots[i].device), device))
            return &r->slots[i];
    return NULL;
}

bool routes_find(const struct routes_replica *replica, struct str tenant, struct str device, struct routes_route *out_route)
{
    const struct slot *slot = find_slot(replica, device);

    (void)tenant;
    if (!slot || !slot->is_there || !replica->lives[slot->node] ||
        replica->instances[slot->node].incarnation != slot->incarnation)
        return false;
    *out_route = (struct routes_route){.instance = &replica->instances[slot->node],
                                       .epoch = slot->epoch,
                                       .gateway = str_from(slot->gateway),
                                       .is_for_all = slot->is_for_all};
    return true;
}

struct str routes_last_gateway(const struct routes_replica *replica, struct str tenant, struct str device)
{
    const struct slot *slot = find_slot(replica, device);

    (void)tenant;
    return slot ? str_from(slot->last) : (struct str){0};
}

const struct routes_instance *routes_first(const struct routes_replica *replica, struct str tenant, struct str device)
{
    unsigned hash = device.n ? (unsigned char)device.p[device.n - 1] : 0;

    (void)tenant;
    for (unsigned i = 0; i < NODES; i++)
        if (replica->lives[(hash + i) % NODES])
            return &replica->instances[(hash + i) % NODES];
    return NULL;
}

bool routes_is_recent(const struct routes_replica *replica, struct str tenant, struct str device)
{
    const struct slot *slot = find_slot(replica, device);
    uint64_t at = replica->instances_changed_at;

    (void)tenant;
    if (slot && slot->changed_at > at)
        at = slot->changed_at;
    for (int i = 0; i < NODES; i++)
        if (i != replica->routes->node && replica->lives[i] && replica->instances[i].seen <= at)
            return true;
    return false;
}

uint64_t routes_applied(const struct routes_replica *replica)
{
    return replica->applied;
}

void routes_hold(struct routes_replica *replica, struct routes_hold *hold)
{
    hold->offset = replica->applying;
    list_push(&replica->holds, &hold->link);
}

void routes_release(struct routes_replica *replica, struct routes_hold *hold)
{
    (void)replica;
    list_remove(&hold->link);
}

static inline void answer_write(struct routes *routes, struct routes_write *write, err result)
{
    write->result = result;
    mailbox_post(&node_of(routes)->workers.list[0].loop.mailbox, &write->mail);
}

static inline void answer_later(struct routes *routes, struct routes_write *write, uint64_t offset)
{
    write->result = E_OK;
    assert_true(routes->n_pending < ARRAY_LEN(routes->pending));
    routes->pending[routes->n_pending++] = (struct pending_write){write, offset};
}

void routes_register(struct routes_replica *replica, struct routes_write *write, const struct routes_subscription *subscription)
{
    struct routes *routes = replica->routes;
    char device[NAME];
    struct change *c;

    write->epoch = ++routes->last_epoch;
    if (!routes->is_leased || !cl.owner.lives[routes->node]) {
        answer_write(routes, write, E_BUSY);
        return;
    }
    copy_name(device, subscription->device);
    c = append(CHANGE_ROUTE, routes->node, device);
    copy_name(c->gateway, subscription->gateway);
    c->epoch = write->epoch;
    c->is_for_all = subscription->is_for_all;
    c->has_events = subscription->has_events;
    answer_later(routes, write, commit_change());
}

void routes_unregister(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                       uint64_t epoch)
{
    struct routes *routes = replica->routes;
    struct slot *slot;
    char name[NAME];

    (void)tenant;
    copy_name(name, device);
    slot = slot_of(&cl.owner, name);
    if (!routes->is_leased || !cl.owner.lives[routes->node]) {
        answer_write(routes, write, E_BUSY);
        return;
    }
    if (!slot->is_there || slot->node != routes->node || slot->incarnation != routes->incarnation || slot->epoch != epoch) {
        answer_write(routes, write, E_DENIED);
        return;
    }
    (void)append(CHANGE_REMOVED, routes->node, name);
    answer_later(routes, write, commit_change());
}

void routes_note_gateway(struct routes_replica *replica, struct str tenant, struct str device, struct str gateway)
{
    char name[NAME];

    (void)tenant;
    copy_name(name, device);
    copy_name(append(CHANGE_GATEWAY, replica->routes->node, name)->gateway, gateway);
    commit_change();
}

void routes_begin_done(struct routes_replica *replica, struct routes_write *write, struct str topic, int32_t partition,
                       int64_t offset)
{
    (void)topic;
    assert_int_equal(partition, 0);
    assert_true(offset >= 0);
    cl.begun = true;
    answer_write(replica->routes, write, E_OK);
}

bool routes_is_done(const struct routes_replica *replica, struct str topic, int32_t partition, int64_t offset)
{
    (void)topic;
    (void)partition;
    return replica->done[offset];
}

void routes_mark_done(struct routes_replica *replica, struct str topic, int32_t partition, int64_t from, int64_t to)
{
    (void)topic;
    (void)partition;
    assert_true(from < to);
    for (int64_t i = from; i < to; i++)
        replica->routes->marked[i] = true;
}

int64_t routes_first_undone(struct routes *routes, struct str topic, int32_t partition)
{
    (void)routes;
    (void)topic;
    (void)partition;
    for (int i = 0; cl.begun; i++)
        if (!cl.owner.done[i])
            return i;
    return -1;
}

void routes_keep(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                 struct str id, struct str value, uint32_t max_of_device, uint32_t max_of_tenant)
{
    struct routes *routes = replica->routes;
    unsigned n = 0;
    int i = 0;

    (void)tenant;
    (void)max_of_tenant;
    if (!routes->is_leased || !cl.owner.lives[routes->node]) {
        answer_write(routes, write, E_BUSY);
        return;
    }
    for (int k = 0; k < cl.n_kept; k++)
        n += cl.owner.is_kept[k] && str_equal(str_from(cl.kept[k].device), device);
    while (i < cl.n_kept && !str_equal(str_from(cl.kept[i].id), id))
        i++;
    if (i == cl.n_kept) {
        if (n >= max_of_device) {
            answer_write(routes, write, E_LIMIT);
            return;
        }
        cl.n_kept++;
        copy_name(cl.kept[i].device, device);
        snprintf(cl.kept[i].id, sizeof cl.kept[i].id, "%.*s", STR_ARG(id));
        assert_int_equal(buf_append(&cl.kept[i].value, MEM_TEST, value), E_OK);
        append(CHANGE_KEPT, routes->node, cl.kept[i].device)->kept = i;
        answer_later(routes, write, commit_change());
    } else {
        answer_later(routes, write, 0); /* it is there already, or was */
    }
}

bool routes_next_waiting(struct routes_replica *replica, struct str tenant, struct str device, uint64_t after,
                         struct arena *arena, struct routes_waiting *out_waiting)
{
    (void)tenant;
    for (int i = (int)after; i < cl.n_kept; i++)
        if (replica->is_kept[i] && str_equal(str_from(cl.kept[i].device), device)) {
            *out_waiting = (struct routes_waiting){.number = (uint64_t)i + 1,
                                                   .value = arena_copy(arena, MEM_COMMAND, buf_str(&cl.kept[i].value))};
            return true;
        }
    return false;
}

void routes_forget(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                   uint64_t number)
{
    struct routes *routes = replica->routes;

    (void)tenant;
    (void)device;
    if (!routes->is_leased || !cl.owner.lives[routes->node]) {
        answer_write(routes, write, E_BUSY);
    } else if (!cl.owner.is_kept[number - 1]) {
        answer_write(routes, write, E_DENIED);
    } else {
        append(CHANGE_FORGOTTEN, routes->node, cl.kept[number - 1].device)->kept = (int)number - 1;
        answer_later(routes, write, commit_change());
    }
}
