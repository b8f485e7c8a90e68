/* routes_fixture_test: several instances in one thread over one fake table. It stands in for table/ by the same functions: one log of states, an owner
 * that decides requests in their order, and for each instance a view that the test moves on as far as it likes. Time is what the test says. Include it in one
 * file of a test. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "routes/routes_decide.h"
#include "routes/routes_keeper.h"

enum { FIXTURE_NODES = 4, FIXTURE_WORKERS = 2, FIXTURE_LEASE_MS = 3000, FIXTURE_ROUNDS = 10000 };

/* --- a sorted set of states --- */

struct fixture_state {
    struct str key, value;
    uint64_t offset;
};

struct fixture_set {
    struct fixture_state *list;
    size_t n;
};

static inline int fixture_compare(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;

    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static inline struct str fixture_copy(struct str s)
{
    char *p = malloc(s.n + 1);

    assert_non_null(p);
    memcpy(p, s.n ? s.p : "", s.n);
    return (struct str){p, s.n};
}

static inline void fixture_drop(struct str s)
{
    free((void *)(uintptr_t)s.p);
}

static inline size_t fixture_place(const struct fixture_set *set, struct str key, bool *out_found)
{
    size_t low = 0, high = set->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fixture_compare(set->list[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *out_found = low < set->n && fixture_compare(set->list[low].key, key) == 0;
    return low;
}

static inline void fixture_set_apply(struct fixture_set *set, const struct fixture_state *state)
{
    bool found;
    size_t at = fixture_place(set, state->key, &found);

    if (found) {
        fixture_drop(set->list[at].key);
        fixture_drop(set->list[at].value);
        memmove(&set->list[at], &set->list[at + 1], (set->n - at - 1) * sizeof *set->list);
        set->n--;
    }
    if (!state->value.p)
        return;
    set->list = realloc(set->list, (set->n + 1) * sizeof *set->list);
    memmove(&set->list[at + 1], &set->list[at], (set->n - at) * sizeof *set->list);
    set->list[at] = (struct fixture_state){fixture_copy(state->key), fixture_copy(state->value), state->offset};
    set->n++;
}

static inline void fixture_set_clear(struct fixture_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        fixture_drop(set->list[i].key);
        fixture_drop(set->list[i].value);
    }
    free(set->list);
    *set = (struct fixture_set){0};
}

static inline bool fixture_set_get(const struct fixture_set *set, struct str key, struct table_item *out)
{
    bool found;
    size_t at = fixture_place(set, key, &found);

    if (found)
        *out = (struct table_item){set->list[at].key, set->list[at].value, set->list[at].offset};
    return found;
}

static inline bool fixture_set_next(const struct fixture_set *set, struct str prefix, struct str after, struct table_item *out)
{
    bool found;
    size_t at = fixture_place(set, after.n ? after : prefix, &found);

    for (at += after.n && found; at < set->n; at++) {
        if (str_starts_with(set->list[at].key, prefix)) {
            *out = (struct table_item){set->list[at].key, set->list[at].value, set->list[at].offset};
            return true;
        }
        if (fixture_compare(set->list[at].key, prefix) > 0)
            return false;
    }
    return false;
}

/* --- the log, its owner, and views --- */

struct fixture_request {
    struct table_write *write;
    struct table *table;
    struct str bytes, reply;
    bool is_decided, is_answered, is_lost;
    err result;
    uint64_t end_offset; /* of its states */
};

struct fixture_log {
    struct fixture_state *states;
    size_t n_states;
    struct fixture_set owner;
    struct fixture_request *requests;
    size_t n_requests, n_decided;
};

struct table {
    struct fixture_log *log;
    struct routes *routes;
    struct fixture_set view;
    size_t n_applied;
    unsigned n_readers;
    bool is_frozen; /* fixture_settle() leaves its view alone */
    bool is_closed; /* nothing is answered or told any more */
};

struct table_txn {
    const struct fixture_set *owner;
    struct fixture_state *changes;
    size_t n;
};

bool table_txn_get(struct table_txn *txn, struct str key, struct str *out_value)
{
    struct table_item item;

    for (size_t i = txn->n; i-- > 0;)
        if (str_equal(txn->changes[i].key, key)) {
            *out_value = txn->changes[i].value;
            return out_value->p != NULL;
        }
    if (!fixture_set_get(txn->owner, key, &item))
        return false;
    *out_value = item.value;
    return true;
}

static inline void fixture_change(struct table_txn *txn, struct str key, struct str value)
{
    txn->changes = realloc(txn->changes, (txn->n + 1) * sizeof *txn->changes);
    txn->changes[txn->n++] = (struct fixture_state){.key = fixture_copy(key), .value = value.p ? fixture_copy(value) : value};
}

err table_txn_put(struct table_txn *txn, struct str key, struct str value)
{
    assert_true(key.n > 0 && key.n <= TABLE_KEY_MAX && key.p[0]);
    if (value.n > TABLE_VALUE_MAX)
        return E_LIMIT;
    fixture_change(txn, key, value.p ? value : STR(""));
    return E_OK;
}

err table_txn_remove(struct table_txn *txn, struct str key)
{
    struct str value;

    if (table_txn_get(txn, key, &value))
        fixture_change(txn, key, (struct str){0});
    return E_OK;
}

/* Without the changes of the request: nobody asks for those. */
bool table_txn_next(struct table_txn *txn, struct str prefix, struct str after, struct table_item *out_item)
{
    return fixture_set_next(txn->owner, prefix, after, out_item);
}

err table_reader_open(struct table *t, struct table_reader *r)
{
    assert_false(t->is_closed);
    *r = (struct table_reader){.table = t, .txn = t};
    t->n_readers++;
    return E_OK;
}

void table_reader_renew(struct table_reader *r)
{
    (void)r;
}

void table_reader_rest(struct table_reader *r)
{
    (void)r;
}

void table_reader_close(struct table_reader *r)
{
    if (!r->txn)
        return;
    r->table->n_readers--;
    *r = (struct table_reader){0};
}

bool table_reader_get(struct table_reader *r, struct str partition_key, struct str key, struct table_item *out_item)
{
    assert_true(str_equal(partition_key, ROUTES_PARTITION_KEY));
    return fixture_set_get(&r->table->view, key, out_item);
}

bool table_reader_next_in(struct table_reader *r, unsigned partition, struct str prefix, struct str after,
                          struct table_item *out_item)
{
    assert_int_equal(partition, 0);
    return fixture_set_next(&r->table->view, prefix, after, out_item);
}

bool table_reader_next(struct table_reader *r, struct str partition_key, struct str prefix, struct str after,
                       struct table_item *out_item)
{
    assert_true(str_equal(partition_key, ROUTES_PARTITION_KEY));
    return table_reader_next_in(r, 0, prefix, after, out_item);
}

void table_catch_up(struct table *t, struct str partition_key, uint32_t limit_ms, struct table_barrier *barrier)
{
    (void)partition_key;
    (void)limit_ms;
    barrier->result = t->n_applied == t->log->n_states ? E_OK : E_TIMEOUT;
    mailbox_post(barrier->home, &barrier->mail);
}

void table_write(struct table *t, struct table_write *write)
{
    struct fixture_log *log = t->log;

    assert_false(t->is_closed);
    write->reply = (struct buf){0};
    log->requests = realloc(log->requests, (log->n_requests + 1) * sizeof *log->requests);
    log->requests[log->n_requests++] =
        (struct fixture_request){.write = write, .table = t, .bytes = fixture_copy(write->request)};
}

/* The owner decides one request. */
static inline void fixture_decide_one(struct fixture_log *log)
{
    struct fixture_request *request = &log->requests[log->n_decided++];
    struct table_txn txn = {.owner = &log->owner};
    struct buf reply = {0};
    bool is_accepted;

    request->is_decided = true;
    if (request->is_lost) {
        request->result = E_TIMEOUT;
        return;
    }
    is_accepted = routes_decide(NULL, &txn, request->bytes, &reply) == TABLE_ACCEPTED;
    request->result = is_accepted ? E_OK : E_DENIED;
    request->reply = fixture_copy(buf_str(&reply));
    buf_free(&reply, MEM_TABLE);
    for (size_t i = 0; i < txn.n; i++) {
        struct fixture_state *state = &txn.changes[i];

        if (!is_accepted) {
            fixture_drop(state->key);
            fixture_drop(state->value);
            continue;
        }
        state->offset = log->n_states;
        fixture_set_apply(&log->owner, state);
        log->states = realloc(log->states, (log->n_states + 1) * sizeof *log->states);
        log->states[log->n_states++] = *state;
    }
    request->end_offset = log->n_states;
    free(txn.changes);
}

static inline bool fixture_answer_some(struct table *t)
{
    struct fixture_log *log = t->log;
    bool has_answered = false;

    for (size_t i = 0; i < log->n_decided; i++) {
        struct fixture_request *r = &log->requests[i];

        if (r->table != t || r->is_answered || (r->result == E_OK && t->n_applied < r->end_offset))
            continue;
        r->is_answered = has_answered = true;
        r->write->result = r->result;
        assert_int_equal(buf_append(&r->write->reply, MEM_TABLE, r->reply), E_OK);
        mailbox_post(r->write->home, &r->write->mail);
    }
    return has_answered;
}

/* The view of one instance gets the next state. False: it has all. */
static inline bool fixture_apply_one(struct table *t)
{
    const struct fixture_state *state = &t->log->states[t->n_applied];
    struct table_change change;

    if (t->n_applied == t->log->n_states)
        return false;
    fixture_set_apply(&t->view, state);
    t->n_applied++;
    change = (struct table_change){.offset = state->offset, .key = state->key, .value = state->value};
    routes_table_ops.on_applied(t->routes, &change);
    return true;
}

static inline void fixture_log_free(struct fixture_log *log)
{
    for (size_t i = 0; i < log->n_states; i++) {
        fixture_drop(log->states[i].key);
        fixture_drop(log->states[i].value);
    }
    for (size_t i = 0; i < log->n_requests; i++) {
        fixture_drop(log->requests[i].bytes);
        fixture_drop(log->requests[i].reply);
    }
    free(log->states);
    free(log->requests);
    fixture_set_clear(&log->owner);
    *log = (struct fixture_log){0};
}

/* --- instances --- */

static uint64_t fixture_now_ms;

static inline uint64_t fixture_clock_ms(void)
{
    return fixture_now_ms;
}

struct fixture_node {
    char name[8];
    struct workers workers;
    struct table table;
    struct routes *routes;
    struct loop home; /* of the main thread */
    struct mail ready, left;
    bool is_ready, has_left, is_stopped;
    unsigned n_routes, n_instances, n_seen, n_done, n_leased, n_orphans, n_orphans_with_events, n_waiting, n_applied;
    struct routes_hold hold, *hold_next; /* the next change of a route is held */
};

static struct {
    struct fixture_log log;
    struct fixture_node nodes[FIXTURE_NODES];
    unsigned n;
} fixture;

static inline void fixture_on_route(void *context, struct str tenant, struct str device)
{
    struct fixture_node *node = context;

    node->n_routes++;
    if (node->hold_next)
        routes_hold(routes_replica_of(node->routes, tenant), node->hold_next);
    node->hold_next = NULL;
    (void)device;
}

static inline void fixture_on_instances(void *context)
{
    ((struct fixture_node *)context)->n_instances++;
}

static inline void fixture_on_seen(void *context)
{
    ((struct fixture_node *)context)->n_seen++;
}

static inline void fixture_on_done(void *context, struct str topic, int32_t partition)
{
    (void)topic;
    (void)partition;
    ((struct fixture_node *)context)->n_done++;
}

static inline void fixture_on_leased(void *context)
{
    ((struct fixture_node *)context)->n_leased++;
}

static inline void fixture_on_orphan(void *context, struct str tenant, struct str device, bool has_events)
{
    struct fixture_node *node = context;

    assert_true(tenant.n > 0 && device.n > 0);
    node->n_orphans++;
    node->n_orphans_with_events += has_events;
}

static inline void fixture_on_waiting(void *context, struct str tenant, struct str device)
{
    (void)tenant;
    (void)device;
    ((struct fixture_node *)context)->n_waiting++;
}

static inline void fixture_on_applied(void *context)
{
    ((struct fixture_node *)context)->n_applied++;
}

static inline void fixture_on_ready(struct mail *m)
{
    CONTAINER_OF(m, struct fixture_node, ready)->is_ready = true;
}

static inline void fixture_on_left(struct mail *m)
{
    CONTAINER_OF(m, struct fixture_node, left)->has_left = true;
}

/* An instance with a view of its own, which is empty; one that is `is_alone` shares the log with nobody. */
static inline struct fixture_node *fixture_add(const char *name, bool is_alone)
{
    struct fixture_node *node = &fixture.nodes[fixture.n++];
    struct routes_settings settings = {
        .workers = &node->workers, .roles = ROUTES_ADAPTER, .lease_ms = FIXTURE_LEASE_MS, .is_alone = is_alone};
    struct routes_events events = {
        .context = node,
        .on_route = fixture_on_route,
        .on_instances = fixture_on_instances,
        .on_seen = fixture_on_seen,
        .on_done = fixture_on_done,
        .on_leased = fixture_on_leased,
        .on_orphan = fixture_on_orphan,
        .on_waiting = fixture_on_waiting,
        .on_applied = fixture_on_applied,
    };
    struct errinfo ei = {0};

    *node = (struct fixture_node){.ready = {.on_mail = fixture_on_ready}, .left = {.on_mail = fixture_on_left}};
    snprintf(node->name, sizeof node->name, "%s", name);
    assert_int_equal(workers_init(&node->workers, FIXTURE_WORKERS, 1 << 20, NULL, &ei), E_OK);
    assert_int_equal(loop_init(&node->home, 1 << 20, &ei), E_OK);
    settings.instance = str_from(node->name);
    node->routes = routes_new(&settings);
    node->routes->clock_ms = fixture_clock_ms;
    node->table = (struct table){.log = &fixture.log, .routes = node->routes};
    for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
        routes_listen(routes_replica_at(node->routes, i), &events);
    while (fixture_apply_one(&node->table)) /* as a table that has been opened */
        ;
    routes_start(node->routes, &node->table, &node->ready, &node->home.mailbox);
    return node;
}

/* One turn of everything of an instance. True: something happened that can be told. */
static inline void fixture_turn_node(struct fixture_node *node)
{
    for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
        loop_turn(&node->workers.list[i].loop, 0);
    loop_turn(&node->home, 0);
}

/* Until nothing is under way: all requests decided, all views (but frozen ones) complete, all mail read. */
static inline void fixture_settle(void)
{
    unsigned n_quiet = 0;

    for (unsigned round = 0; n_quiet < 4; round++) {
        bool is_quiet = true;

        assert_true(round < FIXTURE_ROUNDS);
        while (fixture.log.n_decided < fixture.log.n_requests) {
            fixture_decide_one(&fixture.log);
            is_quiet = false;
        }
        for (unsigned i = 0; i < fixture.n; i++) {
            struct fixture_node *node = &fixture.nodes[i];

            if (node->is_stopped)
                continue;
            while (!node->table.is_frozen && fixture_apply_one(&node->table))
                is_quiet = false;
            is_quiet &= !fixture_answer_some(&node->table);
            fixture_turn_node(node);
        }
        n_quiet = is_quiet && fixture.log.n_decided == fixture.log.n_requests ? n_quiet + 1 : 0;
    }
}

/* Time goes on in steps, in which every keeper that is not stopped looks and publishes. */
static inline void fixture_pass(uint64_t ms)
{
    enum { STEP_MS = 100 };

    for (uint64_t passed = 0; passed < ms; passed += STEP_MS) {
        fixture_now_ms += STEP_MS;
        for (unsigned i = 0; i < fixture.n; i++)
            if (!fixture.nodes[i].is_stopped) {
                routes_keeper_look(&fixture.nodes[i].routes->keeper);
                routes_keeper_publish(&fixture.nodes[i].routes->keeper);
            }
        fixture_settle();
    }
}

static inline void fixture_kill(struct fixture_node *node)
{
    node->is_stopped = node->table.is_closed = true;
}

static inline void fixture_remove(struct fixture_node *node)
{
    routes_stop(node->routes);
    assert_int_equal(node->table.n_readers, 0);
    node->table.is_closed = true;
    routes_free(node->routes);
    workers_fini(&node->workers);
    loop_fini(&node->home);
    fixture_set_clear(&node->table.view);
}

static inline int fixture_set_up(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    fixture_now_ms = 1000 * 1000;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < fixture.n; i++)
        fixture_remove(&fixture.nodes[i]);
    fixture_log_free(&fixture.log);
    assert_int_equal(mem_used(MEM_ROUTES), 0);
    assert_int_equal(mem_used(MEM_TABLE), 0);
    return 0;
}

/* --- asking --- */

struct fixture_ask {
    struct routes_write write;
    bool is_done;
};

static inline void fixture_on_asked(struct mail *m)
{
    CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct fixture_ask, write)->is_done = true;
}

static inline struct fixture_ask fixture_ask(void)
{
    return (struct fixture_ask){.write = {.mail = {.on_mail = fixture_on_asked}}};
}

static inline err fixture_wait(struct fixture_ask *ask)
{
    fixture_settle();
    assert_true(ask->is_done);
    return ask->write.result;
}

static inline struct routes_replica *fixture_replica(struct fixture_node *node, const char *tenant)
{
    return routes_replica_of(node->routes, str_from(tenant));
}

/* Registers and waits; the epoch, or 0 when it was refused. */
static inline uint64_t fixture_register(struct fixture_node *node, const char *tenant, const char *device, const char *gateway)
{
    const struct routes_subscription s = {
        .tenant = str_from(tenant), .device = str_from(device), .gateway = str_from(gateway), .has_events = true};
    struct fixture_ask ask = fixture_ask();

    routes_register(fixture_replica(node, tenant), &ask.write, &s);
    return fixture_wait(&ask) == E_OK ? ask.write.epoch : 0;
}

static inline err fixture_unregister(struct fixture_node *node, const char *tenant, const char *device, uint64_t epoch)
{
    struct fixture_ask ask = fixture_ask();

    routes_unregister(fixture_replica(node, tenant), &ask.write, str_from(tenant), str_from(device), epoch);
    return fixture_wait(&ask);
}

/* Which instance has a device, as a node sees it; "" for none. */
static inline const char *fixture_where(struct fixture_node *node, const char *tenant, const char *device)
{
    struct routes_route route;

    if (!routes_find(fixture_replica(node, tenant), str_from(tenant), str_from(device), &route))
        return "";
    for (unsigned i = 0; i < fixture.n; i++)
        if (str_equal(route.instance->name, str_from(fixture.nodes[i].name)))
            return fixture.nodes[i].name;
    return "?";
}

static inline bool fixture_is_recent(struct fixture_node *node, const char *tenant, const char *device)
{
    return routes_is_recent(fixture_replica(node, tenant), str_from(tenant), str_from(device));
}
