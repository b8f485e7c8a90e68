/* Instances in a replica: the incarnations that live, and those of the dead that still have routes. */
#include <string.h>

#include "routes/routes_private.h"

struct routes_holder *routes_holder_find_living(const struct routes_replica *r, struct str name)
{
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->is_living && str_equal(h->instance.name, name))
            return h;
    }
    return NULL;
}

struct routes_holder *routes_holder_find(const struct routes_replica *r, struct str name, uint64_t incarnation)
{
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (h->instance.incarnation == incarnation && str_equal(h->instance.name, name))
            return h;
    }
    return NULL;
}

struct routes_holder *routes_holder_make(struct routes_replica *r, struct str name, uint64_t incarnation)
{
    struct routes_holder *h = routes_holder_find(r, name, incarnation);

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

void routes_holder_release(struct routes_replica *r, struct routes_holder *h)
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
    routes_holder_release(r, h);
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
    struct routes_holder *old = routes_holder_find_living(r, key->instance), *h;

    if (old && (!value || old->instance.incarnation != value->incarnation)) {
        bury(r, old);
        note_instances(r, offset);
    }
    if (!value)
        return;
    h = routes_holder_make(r, key->instance, value->incarnation);
    r->has_seen_changed |= h->instance.seen != value->seen;
    use_lease(h, value);
    if (!h->is_living) {
        h->is_living = true;
        h->since_ms = r->routes->clock_ms();
        count_instances(r, 1);
        note_instances(r, offset);
    }
    note_self(r, h);
}

void routes_holder_apply(struct routes_replica *r, const struct routes_record *key, const struct routes_record *value,
                         uint64_t offset)
{
    exchange_lease(r, key, value, offset);
    r->least_seen = least_seen(r);
}

void routes_holder_clear(struct routes_replica *r)
{
    struct list *l;

    r->self = NULL;
    while ((l = r->holders.next) != &r->holders) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        count_instances(r, -(int64_t)h->is_living);
        free_holder(h);
    }
}
