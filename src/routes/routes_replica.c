/* A worker's memory of the table: what it holds, how a state changes it, and what is told. */
#include "routes/routes_private.h"

/* CHANGES_MAX: that somebody may not have seen; past it all count as such. */
enum { CHANGES_MAX = 200 * 1000 };

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
    routes_holder_release(r, h);
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
        e->holder = routes_holder_make(r, value->instance, value->incarnation);
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
    if (is_more && r->events.on_waiting)
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

/* --- applying --- */

static const struct {
    enum routes_kind kind;
    bool is_of_tenant; /* and only for the worker that has it */
    void (*apply)(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                  uint64_t offset);
} kinds[] = {
    {ROUTES_INSTANCE, false, routes_holder_apply}, {ROUTES_ROUTE, true, apply_route},
    {ROUTES_GATEWAY, true, apply_gateway},         {ROUTES_DONE, false, apply_done},
    {ROUTES_DEVICE_COUNT, true, apply_queue},      {ROUTES_REPORT, false, routes_report_apply},
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
    routes_count(ROUTES_COUNT_ENTRIES, -(int64_t)r->entries.n_entries);
    routes_count(ROUTES_COUNT_GATEWAYS, -(int64_t)r->heard.n_entries);
    routes_count(ROUTES_COUNT_QUEUES, -(int64_t)r->queues.n_entries);
    routes_names_clear(&r->entries);
    routes_names_clear(&r->heard);
    routes_names_clear(&r->changes);
    routes_names_clear(&r->queues);
    routes_topic_clear(&r->topics);
    list_init(&r->changes_by_age);
    routes_holder_clear(r);
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
