#include "fake/fake_routes.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/worker.h"

enum { ENTRIES_MAX = 64, TEXT_BYTES = 32 };

struct entry {
    char tenant[TEXT_BYTES], device[TEXT_BYTES], gateway[TEXT_BYTES]; /* empty: not in use */
    uint64_t epoch;
    bool is_for_all;
};

struct routes_replica {
    struct routes *routes;
    struct worker *worker;
    struct routes_events events;
};

struct routes {
    struct workers *workers;
    struct routes_replica *replicas;
    struct routes_instance self;
    struct entry entries[ENTRIES_MAX], heard[ENTRIES_MAX];
    uint64_t epoch, applied;
};

struct routes *fake_routes_new(struct workers *workers)
{
    struct routes *r = mem_alloc_zero(MEM_TEST, sizeof *r);

    r->workers = workers;
    r->self = (struct routes_instance){
        .name = STR("self"), .incarnation = 1, .roles = ROUTES_ADAPTER | ROUTES_ROUTER, .is_self = true};
    r->replicas = mem_alloc_zero(MEM_TEST, workers->n * sizeof *r->replicas);
    for (unsigned i = 0; i < workers->n; i++)
        r->replicas[i] = (struct routes_replica){.routes = r, .worker = &workers->list[i]};
    return r;
}

void fake_routes_free(struct routes *r)
{
    if (!r)
        return;
    mem_free(MEM_TEST, r->replicas);
    mem_free(MEM_TEST, r);
}

static void copy(char *out, struct str text)
{
    ASSERT(text.n < TEXT_BYTES);
    memcpy(out, text.n ? text.p : "", text.n);
    out[text.n] = '\0';
}

/* The entry of a device; an empty one if it has none and `is_to_be`. */
static struct entry *find(struct entry *entries, struct str tenant, struct str device, bool is_to_be)
{
    struct entry *empty = NULL;

    for (size_t i = 0; i < ENTRIES_MAX; i++) {
        struct entry *e = &entries[i];

        if (e->tenant[0] && str_equal(str_from(e->tenant), tenant) && str_equal(str_from(e->device), device))
            return e;
        if (!e->tenant[0] && !empty)
            empty = e;
    }
    if (!is_to_be)
        return NULL;
    ASSERT(empty);
    copy(empty->tenant, tenant);
    copy(empty->device, device);
    return empty;
}

static void answer(struct routes_replica *replica, struct routes_write *write, err result)
{
    write->result = result;
    mailbox_post(&replica->worker->loop.mailbox, &write->mail);
}

static void tell(struct routes_replica *replica, struct str tenant, struct str device)
{
    replica->routes->applied++;
    if (replica->events.on_route)
        replica->events.on_route(replica->events.context, tenant, device);
    if (replica->events.on_applied)
        replica->events.on_applied(replica->events.context);
}

/* --- who lives: this one --- */

void routes_listen(struct routes_replica *replica, const struct routes_events *events)
{
    replica->events = *events;
}

struct routes_replica *routes_replica_at(struct routes *routes, unsigned worker)
{
    return &routes->replicas[worker];
}

unsigned routes_worker_of(const struct routes *routes, struct str tenant)
{
    return (unsigned)(tenant.n ? (unsigned char)tenant.p[0] % routes->workers->n : 0);
}

bool routes_is_leased(const struct routes_replica *replica)
{
    (void)replica;
    return true;
}

const struct routes_instance *routes_self(const struct routes_replica *replica)
{
    return &replica->routes->self;
}

const struct routes_instance *routes_find_instance(const struct routes_replica *replica, struct str name, uint64_t incarnation)
{
    const struct routes_instance *self = &replica->routes->self;

    return str_equal(name, self->name) && incarnation == self->incarnation ? self : NULL;
}

const struct routes_instance *routes_first(const struct routes_replica *replica, struct str tenant, struct str device)
{
    (void)tenant;
    (void)device;
    return &replica->routes->self;
}

bool routes_is_recent(const struct routes_replica *replica, struct str tenant, struct str device)
{
    (void)replica;
    (void)tenant;
    (void)device;
    return false;
}

uint64_t routes_applied(const struct routes_replica *replica)
{
    return replica->routes->applied;
}

void routes_hold(struct routes_replica *replica, struct routes_hold *hold)
{
    (void)replica;
    (void)hold;
}

void routes_release(struct routes_replica *replica, struct routes_hold *hold)
{
    (void)replica;
    (void)hold;
}

/* --- routes and gateways --- */

bool routes_find(const struct routes_replica *replica, struct str tenant, struct str device, struct routes_route *out_route)
{
    const struct entry *e = find(replica->routes->entries, tenant, device, false);

    if (e)
        *out_route = (struct routes_route){&replica->routes->self, e->epoch, str_from(e->gateway), e->is_for_all};
    return e != NULL;
}

void routes_register(struct routes_replica *replica, struct routes_write *write, const struct routes_subscription *s)
{
    struct entry *e = find(replica->routes->entries, s->tenant, s->device, true);

    copy(e->gateway, s->gateway);
    e->epoch = write->epoch = ++replica->routes->epoch;
    e->is_for_all = s->is_for_all;
    tell(replica, s->tenant, s->device);
    answer(replica, write, E_OK);
}

void routes_unregister(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                       uint64_t epoch)
{
    struct entry *e = find(replica->routes->entries, tenant, device, false);
    bool is_ours = e && e->epoch == epoch;

    if (is_ours) {
        e->tenant[0] = '\0';
        tell(replica, tenant, device);
    }
    answer(replica, write, is_ours ? E_OK : E_DENIED);
}

struct str routes_last_gateway(const struct routes_replica *replica, struct str tenant, struct str device)
{
    const struct entry *e = find(replica->routes->heard, tenant, device, false);

    return e ? str_from(e->gateway) : (struct str){0};
}

void routes_note_gateway(struct routes_replica *replica, struct str tenant, struct str device, struct str gateway)
{
    copy(find(replica->routes->heard, tenant, device, true)->gateway, gateway);
    tell(replica, tenant, device);
}

/* --- what is done, and what waits: nothing --- */

bool routes_is_done(const struct routes_replica *replica, struct str topic, int32_t partition, int64_t offset)
{
    (void)replica;
    (void)topic;
    (void)partition;
    (void)offset;
    return false;
}

void routes_mark_done(struct routes_replica *replica, struct str topic, int32_t partition, int64_t from, int64_t to)
{
    (void)replica;
    (void)topic;
    (void)partition;
    (void)from;
    (void)to;
}

void routes_begin_done(struct routes_replica *replica, struct routes_write *write, struct str topic, int32_t partition,
                       int64_t offset)
{
    (void)topic;
    (void)partition;
    (void)offset;
    answer(replica, write, E_OK);
}

int64_t routes_first_undone(struct routes *routes, struct str topic, int32_t partition)
{
    (void)routes;
    (void)topic;
    (void)partition;
    return -1;
}

void routes_keep(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                 struct str id, struct str value, uint32_t max_of_device, uint32_t max_of_tenant)
{
    (void)tenant;
    (void)device;
    (void)id;
    (void)value;
    (void)max_of_device;
    (void)max_of_tenant;
    answer(replica, write, E_LIMIT);
}

bool routes_next_waiting(struct routes_replica *replica, struct str tenant, struct str device, uint64_t after,
                         struct arena *arena, struct routes_waiting *out_waiting)
{
    (void)replica;
    (void)tenant;
    (void)device;
    (void)after;
    (void)arena;
    (void)out_waiting;
    return false;
}

void routes_forget(struct routes_replica *replica, struct routes_write *write, struct str tenant, struct str device,
                   uint64_t number)
{
    (void)tenant;
    (void)device;
    (void)number;
    answer(replica, write, E_DENIED);
}
