/* What a replica is asked. */
#include "base/siphash.h"
#include "routes/routes_private.h"

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
    const struct routes_holder *h = routes_holder_find_living(r, name);

    return h ? &h->instance : NULL;
}

const struct routes_instance *routes_find_instance(const struct routes_replica *r, struct str name, uint64_t incarnation)
{
    const struct routes_holder *h = routes_holder_find(r, name, incarnation);

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
