/* A worker's memory of the table: what it holds, how a state changes it, and what is told. */
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "routes/routes_private.h"

/* CHANGES_MAX: that somebody may not have seen; past it all count as such. */
enum { CHANGES_MAX = 200 * 1000, PARTITION_TEXT_BYTES = 12 };

/* --- instances --- */

static struct routes_holder *find_living(const struct routes_replica *r, struct str name)
{
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->is_living && str_equal(h->instance.name, name))
            return h;
    }
    return NULL;
}

static struct routes_holder *find_holder(const struct routes_replica *r, struct str name, uint64_t incarnation)
{
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->instance.incarnation == incarnation && str_equal(h->instance.name, name))
            return h;
    }
    return NULL;
}

static struct routes_holder *make_holder(struct routes_replica *r, struct str name, uint64_t incarnation)
{
    struct routes_holder *h = find_holder(r, name, incarnation);

    if (h)
        return h;
    h = mem_alloc_zero(MEM_ROUTES, sizeof *h + name.n);
    memcpy(h->name, name.n ? name.p : "", name.n);
    h->instance = (struct routes_instance){.name = {h->name, name.n}, .incarnation = incarnation};
    list_init(&h->routes);
    list_push(&r->holders, &h->link);
    return h;
}

static void free_holder(struct routes_holder *h)
{
    list_remove(&h->link);
    mem_free(MEM_ROUTES, h->address);
    mem_free(MEM_ROUTES, h);
}

static void release_holder(struct routes_replica *r, struct routes_holder *h)
{
    if (!h->is_living && list_is_empty(&h->routes) && r->self != h)
        free_holder(h);
}

static void count_instances(const struct routes_replica *r, int64_t n)
{
    if (r->worker->id == 0)
        routes_count(ROUTES_COUNT_INSTANCES, n);
}

static void bury(struct routes_replica *r, struct routes_holder *h)
{
    h->is_living = h->instance.is_self = false;
    if (r->self == h)
        r->self = NULL;
    count_instances(r, -1);
    release_holder(r, h);
}

static void note_instances(struct routes_replica *r, uint64_t offset)
{
    if (!r->has_instances_changed)
        r->instances_offset = offset;
    r->has_instances_changed = true;
    r->all_recent_to = offset + 1;
    if (r->worker->id == 0)
        routes_feed_note_matter(r->routes, offset + 1);
}

/* This process's own, under the lease that it has asked for. */
static void note_self(struct routes_replica *r, struct routes_holder *h)
{
    struct routes *routes = r->routes;

    if (r->self == h || !str_equal(h->instance.name, routes->settings.instance) ||
        h->instance.incarnation != atomic_load(&routes->incarnation))
        return;
    r->self = h;
    h->instance.is_self = true;
    if (++r->n_leases > 1) {
        if (r->events.on_leased)
            r->events.on_leased(r->events.context);
        return;
    }
    routes_write_release(r);
    if (atomic_fetch_sub(&routes->n_unready, 1) == 1)
        mailbox_post(routes->ready_home, routes->ready);
}

static void use_lease(struct routes_holder *h, const struct routes_record *value)
{
    if (!str_equal(h->instance.address, value->address)) {
        mem_free(MEM_ROUTES, h->address);
        h->address = mem_copy_text(MEM_ROUTES, value->address.p ? value->address.p : "", value->address.n);
        h->instance.address = (struct str){h->address, value->address.n};
    }
    h->instance.seen = value->seen;
    h->instance.roles = (unsigned)value->roles;
    h->number = value->number;
    h->lease_ms = value->lease_ms;
}

static uint64_t least_seen(const struct routes_replica *r)
{
    uint64_t least = UINT64_MAX;

    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        const struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->is_living && h != r->self && h->instance.seen < least)
            least = h->instance.seen;
    }
    return least;
}

static void exchange_lease(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                           uint64_t offset)
{
    struct routes_holder *old = find_living(r, key->instance), *h;

    if (old && (!value || old->instance.incarnation != value->incarnation)) {
        bury(r, old);
        note_instances(r, offset);
    }
    if (!value)
        return;
    h = make_holder(r, key->instance, value->incarnation);
    r->has_seen_changed |= h->instance.seen != value->seen;
    use_lease(h, value);
    if (!h->is_living) {
        h->is_living = true;
        count_instances(r, 1);
        note_instances(r, offset);
    }
    note_self(r, h);
}

static void apply_instance(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                           uint64_t offset)
{
    exchange_lease(r, key, value, offset);
    r->least_seen = least_seen(r);
}

/* --- what others may not have seen --- */

static void note_change(struct routes_replica *r, struct str tenant, struct str device, uint64_t offset)
{
    struct routes_change *c;

    if (r->routes->settings.is_alone || r->is_filling)
        return;
    c = routes_names_find(&r->changes, tenant, device);
    if (!c && r->changes.n_entries >= CHANGES_MAX) {
        routes_names_clear(&r->changes);
        list_init(&r->changes_by_age);
        r->all_recent_to = offset + 1;
        routes_count(ROUTES_COUNT_CHANGES_DROPPED, 1);
        return;
    }
    if (!c) {
        c = routes_names_new(sizeof *c, tenant, device, (struct str){0});
        routes_names_add(&r->changes, &c->names);
    }
    c->offset = offset;
    list_remove(&c->link);
    list_push(&r->changes_by_age, &c->link);
}

static void forget_seen(struct routes_replica *r)
{
    while (!list_is_empty(&r->changes_by_age)) {
        struct routes_change *c = CONTAINER_OF(r->changes_by_age.next, struct routes_change, link);

        if (c->offset >= r->least_seen)
            return;
        list_remove(&c->link);
        routes_names_remove(&r->changes, &c->names);
        mem_free(MEM_ROUTES, c);
    }
}

/* --- what belongs to devices --- */

static void tell_route(const struct routes_replica *r, const struct routes_record *key)
{
    if (!r->is_filling && r->events.on_route)
        r->events.on_route(r->events.context, key->tenant, key->device);
}

static void remove_entry(struct routes_replica *r, struct routes_entry *e)
{
    struct routes_holder *h = e->holder;

    routes_names_remove(&r->entries, &e->names);
    list_remove(&e->link);
    mem_free(MEM_ROUTES, e);
    release_holder(r, h);
    routes_count(ROUTES_COUNT_ENTRIES, -1);
}

static void apply_route(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                        uint64_t offset)
{
    struct routes_entry *e = routes_names_find(&r->entries, key->tenant, key->device);

    if (e)
        remove_entry(r, e);
    if (value) {
        e = routes_names_new(sizeof *e, key->tenant, key->device, value->gateway);
        e->names.flags = (uint8_t)value->flags;
        e->epoch = value->epoch;
        e->holder = make_holder(r, value->instance, value->incarnation);
        list_push(&e->holder->routes, &e->link);
        routes_names_add(&r->entries, &e->names);
        routes_count(ROUTES_COUNT_ENTRIES, 1);
        r->has_orphans |= !e->holder->is_living;
    }
    note_change(r, key->tenant, key->device, offset);
    tell_route(r, key);
}

static void apply_gateway(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                          uint64_t offset)
{
    struct routes_heard *old = routes_names_find(&r->heard, key->tenant, key->device), *heard;
    bool is_same = old && value && str_equal(routes_names_gateway(&old->names), value->gateway);

    if (is_same) {
        old->at_ms = value->at_ms;
        return;
    }
    if (old) {
        routes_names_remove(&r->heard, &old->names);
        mem_free(MEM_ROUTES, old);
        routes_count(ROUTES_COUNT_GATEWAYS, -1);
    }
    if (value) {
        heard = routes_names_new(sizeof *heard, key->tenant, key->device, value->gateway);
        heard->at_ms = value->at_ms;
        routes_names_add(&r->heard, &heard->names);
        routes_count(ROUTES_COUNT_GATEWAYS, 1);
    }
    note_change(r, key->tenant, key->device, offset);
    tell_route(r, key);
}

static void apply_queue(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                        uint64_t offset)
{
    struct routes_queue *queue = routes_names_find(&r->queues, key->tenant, key->device);
    bool is_more = value && (!queue || value->count > queue->count);

    (void)offset;
    if (value && !queue) {
        queue = routes_names_new(sizeof *queue, key->tenant, key->device, (struct str){0});
        routes_names_add(&r->queues, &queue->names);
        routes_count(ROUTES_COUNT_QUEUES, 1);
    }
    if (value) {
        queue->count = value->count;
    } else if (queue) {
        routes_names_remove(&r->queues, &queue->names);
        mem_free(MEM_ROUTES, queue);
        routes_count(ROUTES_COUNT_QUEUES, -1);
    }
    if (is_more && !r->is_filling && r->events.on_waiting)
        r->events.on_waiting(r->events.context, key->tenant, key->device);
}

/* --- done --- */

static void apply_done(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                       uint64_t offset)
{
    struct routes_topic *topic = routes_topic_find(&r->topics, key->topic, (int32_t)key->partition);
    struct routes_done done = {0};

    (void)offset;
    if (key->partition > INT32_MAX || (value && routes_done_read(value->rest, &done) != E_OK)) {
        routes_count(ROUTES_COUNT_SKIPPED, 1);
        return;
    }
    if (!topic)
        topic = routes_topic_add(&r->topics, key->topic, (int32_t)key->partition);
    routes_done_free(&topic->done);
    topic->done = done;
    if (!r->is_filling && r->events.on_done)
        r->events.on_done(r->events.context, key->topic, (int32_t)key->partition);
}

struct topic_key {
    char text[PARTITION_TEXT_BYTES];
    struct str partition;
};

static void make_topic_key(int32_t partition, struct topic_key *out)
{
    out->partition = (struct str){out->text, (size_t)snprintf(out->text, sizeof out->text, "%d", partition)};
}

struct routes_topic *routes_topic_find(const struct map *topics, struct str topic, int32_t partition)
{
    struct topic_key key;

    make_topic_key(partition, &key);
    return routes_names_find(topics, topic, key.partition);
}

struct routes_topic *routes_topic_add(struct map *topics, struct str topic, int32_t partition)
{
    struct routes_topic *t;
    struct topic_key key;

    make_topic_key(partition, &key);
    t = routes_names_new(sizeof *t, topic, key.partition, (struct str){0});
    t->partition = partition;
    routes_names_add(topics, &t->names);
    return t;
}

void routes_topic_clear(struct map *topics)
{
    uint32_t cursor = 0;
    struct routes_topic *t;

    while ((t = map_next(topics, &cursor)))
        routes_done_free(&t->done);
    routes_names_clear(topics);
}

/* --- applying --- */

static const struct {
    enum routes_kind kind;
    bool is_of_tenant; /* and only for the worker that has it */
    void (*apply)(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                  uint64_t offset);
} kinds[] = {
    {ROUTES_INSTANCE, false, apply_instance}, {ROUTES_ROUTE, true, apply_route},
    {ROUTES_GATEWAY, true, apply_gateway},    {ROUTES_DONE, false, apply_done},
    {ROUTES_DEVICE_COUNT, true, apply_queue}, {ROUTES_REPORT, false, routes_report_apply},
};

void routes_replica_apply(struct routes_replica *r, struct str key, struct str value, uint64_t offset)
{
    struct routes_record k, v;
    size_t i = 0;

    if (!routes_record_read_key(key, &k)) {
        routes_count(ROUTES_COUNT_SKIPPED, 1);
        return;
    }
    while (i < ARRAY_LEN(kinds) && kinds[i].kind != k.kind)
        i++;
    if (i == ARRAY_LEN(kinds) || (kinds[i].is_of_tenant && routes_worker_of(r->routes, k.tenant) != r->worker->id))
        return;
    if (value.p && (routes_record_read(value, &v) != E_OK || v.kind != k.kind)) {
        routes_count(ROUTES_COUNT_SKIPPED, 1);
        return;
    }
    r->at_offset = offset;
    kinds[i].apply(r, &k, value.p ? &v : NULL, offset);
}

void routes_replica_settle(struct routes_replica *r)
{
    bool has_instances_changed = r->has_instances_changed, has_seen_changed = r->has_seen_changed || has_instances_changed;
    bool has_orphans = r->has_orphans || has_instances_changed;

    r->has_instances_changed = r->has_seen_changed = r->has_orphans = false;
    r->at_offset = has_instances_changed ? r->instances_offset : r->at_offset;
    forget_seen(r);
    if (has_instances_changed && r->events.on_instances)
        r->events.on_instances(r->events.context);
    if (has_seen_changed && r->events.on_seen)
        r->events.on_seen(r->events.context);
    if (has_orphans)
        routes_orphans_look(r);
}

/* --- life --- */

void routes_replica_init(struct routes_replica *r, struct routes *routes, struct worker *w)
{
    *r = (struct routes_replica){.routes = routes, .worker = w, .least_seen = UINT64_MAX};
    list_init(&r->holders);
    list_init(&r->changes_by_age);
    list_init(&r->holds);
    list_init(&r->writes);
    list_init(&r->held);
    pthread_mutex_init(&r->lock, NULL);
    routes_feed_init(r);
    routes_orphans_init(r);
    routes_gateways_init(r);
}

void routes_replica_clear(struct routes_replica *r)
{
    struct list *l;

    routes_count(ROUTES_COUNT_ENTRIES, -(int64_t)r->entries.n_entries);
    routes_count(ROUTES_COUNT_GATEWAYS, -(int64_t)r->heard.n_entries);
    routes_count(ROUTES_COUNT_QUEUES, -(int64_t)r->queues.n_entries);
    routes_names_clear(&r->entries);
    routes_names_clear(&r->heard);
    routes_names_clear(&r->changes);
    routes_names_clear(&r->queues);
    routes_topic_clear(&r->topics);
    list_init(&r->changes_by_age);
    r->self = NULL;
    while ((l = r->holders.next) != &r->holders) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        count_instances(r, -(int64_t)h->is_living);
        free_holder(h);
    }
}

void routes_replica_fini(struct routes_replica *r)
{
    if (!r->worker)
        return;
    routes_write_fini(r);
    routes_orphans_fini(r);
    routes_gateways_fini(r);
    routes_replica_clear(r);
    routes_topic_clear(&r->marks);
    buf_free(&r->news, MEM_ROUTES);
    pthread_mutex_destroy(&r->lock);
}

/* --- questions --- */

bool routes_is_leased(const struct routes_replica *r)
{
    const struct routes *routes = r->routes;

    return r->self && r->self->instance.incarnation == atomic_load(&routes->incarnation) &&
           routes->clock_ms() < atomic_load(&routes->leased_to_ms);
}

const struct routes_instance *routes_self(const struct routes_replica *r)
{
    return r->self && r->self->instance.incarnation == atomic_load(&r->routes->incarnation) ? &r->self->instance : NULL;
}

const struct routes_instance *routes_find_living(const struct routes_replica *r, struct str name)
{
    const struct routes_holder *h = find_living(r, name);

    return h ? &h->instance : NULL;
}

const struct routes_instance *routes_find_instance(const struct routes_replica *r, struct str name, uint64_t incarnation)
{
    const struct routes_holder *h = find_holder(r, name, incarnation);

    return h && h->is_living ? &h->instance : NULL;
}

bool routes_find(const struct routes_replica *r, struct str tenant, struct str device, struct routes_route *out_route)
{
    const struct routes_entry *e = routes_names_find(&r->entries, tenant, device);

    if (!e || !e->holder->is_living)
        return false;
    *out_route = (struct routes_route){.instance = &e->holder->instance,
                                       .epoch = e->epoch,
                                       .gateway = routes_names_gateway(&e->names),
                                       .is_for_all = e->names.flags & ROUTES_IS_FOR_ALL};
    return true;
}

struct str routes_last_gateway(const struct routes_replica *r, struct str tenant, struct str device)
{
    const struct routes_heard *heard = routes_names_find(&r->heard, tenant, device);

    return heard ? routes_names_gateway(&heard->names) : (struct str){0};
}

/* The same on all instances: under a key that all know. */
static uint64_t weight(struct str a, struct str b, struct str name)
{
    uint64_t hash = siphash_with((struct siphash_key){0, 0}, a);

    hash = siphash_with((struct siphash_key){hash, 1}, b);
    return siphash_with((struct siphash_key){hash, 2}, name);
}

const struct routes_instance *routes_replica_first(const struct routes_replica *r, unsigned roles, struct str a, struct str b)
{
    const struct routes_instance *first = NULL;
    uint64_t most = 0;

    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        const struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);
        uint64_t w;

        if (!h->is_living || (roles && !(h->instance.roles & roles)))
            continue;
        w = weight(a, b, h->instance.name);
        if (!first || w > most) {
            first = &h->instance;
            most = w;
        }
    }
    return first;
}

const struct routes_instance *routes_first(const struct routes_replica *r, struct str tenant, struct str device)
{
    return routes_replica_first(r, ROUTES_ADAPTER, tenant, device);
}

bool routes_is_recent(const struct routes_replica *r, struct str tenant, struct str device)
{
    const struct routes_change *c;

    if (r->routes->settings.is_alone || r->least_seen == UINT64_MAX)
        return false;
    if (r->least_seen < r->all_recent_to)
        return true;
    c = routes_names_find(&r->changes, tenant, device);
    return c && c->offset >= r->least_seen;
}

uint64_t routes_applied(const struct routes_replica *r)
{
    return atomic_load(&r->applied);
}

bool routes_is_done(const struct routes_replica *r, struct str topic, int32_t partition, int64_t offset)
{
    const struct routes_topic *t = routes_topic_find(&r->topics, topic, partition);

    return t && offset >= 0 && routes_done_has(&t->done, (uint64_t)offset);
}
