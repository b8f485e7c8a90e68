/* Routes of instances that are gone: the first of the living by rendezvous hash removes them, some at a time, and tells of each. And, in
 * an orderly end, this process's own. */
#include "routes/routes_private.h"

enum { AGAIN_MS = 250 };

void routes_sweep_clear(struct routes_sweep *sweep)
{
    while (sweep->n > 0)
        mem_free(MEM_ROUTES, sweep->items[--sweep->n]);
    buf_free(&sweep->request, MEM_ROUTES);
    buf_free(&sweep->write.reply, MEM_TABLE);
}

/* The process lives and has lost a lease: what it still has it registers again, which is no end. */
static bool may_come_back(const struct routes_replica *r, const struct routes_holder *dead)
{
    const struct routes_holder *h = routes_holder_find_living(r, dead->instance.name);

    return h && routes_process_of(h->instance.incarnation) == routes_process_of(dead->instance.incarnation) &&
           r->routes->clock_ms() - h->since_ms < r->routes->settings.lease_ms;
}

static bool is_ours_to_sweep(const struct routes_replica *r, const struct routes_holder *h)
{
    if (list_is_empty(&h->routes))
        return false;
    if (r->is_leaving)
        return h == r->self;
    return !h->is_living && routes_replica_first(r, 0, h->instance.name, (struct str){0}) == routes_self(r);
}

static struct routes_holder *next_dead(struct routes_replica *r)
{
    for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
        struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

        if (!is_ours_to_sweep(r, h))
            continue;
        if (r->is_leaving || !may_come_back(r, h))
            return h;
        wheel_start(&r->worker->loop.wheel, &r->orphans_timer, AGAIN_MS);
    }
    return NULL;
}

/* The routes may be others when the answer comes: what is told of then is what was asked for. */
static void take(struct routes_sweep *sweep, struct buf *items, const struct routes_holder *h)
{
    for (struct list *l = h->routes.next; l != &h->routes && sweep->n < ROUTES_ITEMS_MAX; l = l->next) {
        const struct routes_entry *e = CONTAINER_OF(l, struct routes_entry, link);
        struct routes_record item = {
            .tenant = routes_names_tenant(&e->names), .device = routes_names_device(&e->names), .epoch = e->epoch};
        struct routes_names *names = routes_names_new(sizeof *names, item.tenant, item.device, (struct str){0});

        names->flags = e->names.flags;
        sweep->items[sweep->n++] = names;
        routes_record_add_item(items, ROUTES_REMOVE, &item);
    }
}

static void send(struct routes_replica *r)
{
    struct routes_sweep *sweep = &r->orphans;

    buf_free(&sweep->write.reply, MEM_TABLE);
    sweep->is_out = true;
    sweep->write.request = buf_str(&sweep->request);
    table_write(r->routes->table, &sweep->write);
}

static void ask(struct routes_replica *r, const struct routes_holder *h)
{
    struct routes_sweep *sweep = &r->orphans;
    struct routes_record request = {.kind = ROUTES_REMOVE,
                                    .instance = h->instance.name,
                                    .incarnation = h->instance.incarnation,
                                    .flags = r->is_leaving ? ROUTES_IS_OWN : 0};
    struct buf items = {0};

    sweep->is_own = r->is_leaving;
    sweep->is_uncertain = false;
    take(sweep, &items, h);
    request.rest = buf_str(&items);
    routes_record_write(&sweep->request, &request);
    buf_free(&items, MEM_ROUTES);
    send(r);
}

static void end_leaving(struct routes_replica *r)
{
    if (!r->has_left && atomic_fetch_sub(&r->routes->n_leaving, 1) == 1)
        routes_keeper_poke(&r->routes->keeper);
    r->has_left = true;
}

void routes_orphans_look(struct routes_replica *r)
{
    const struct routes_holder *h;

    if (r->orphans.is_out || r->orphans.n > 0)
        return;
    h = r->is_filling || !routes_self(r) ? NULL : next_dead(r);
    if (h)
        ask(r, h);
    else if (r->is_leaving)
        end_leaving(r);
}

static void tell(struct routes_replica *r, const struct routes_names *names)
{
    routes_count(ROUTES_COUNT_ORPHANS, 1);
    if (r->events.on_orphan)
        r->events.on_orphan(r->events.context, routes_names_tenant(names), routes_names_device(names),
                            names->flags & ROUTES_HAS_EVENTS);
}

/* Which of them this request has removed; or one before it, of which that was not known: then nobody has the device now. */
static bool is_removed(const struct routes_replica *r, const struct routes_sweep *sweep, size_t i, struct str removed)
{
    if (i < removed.n && removed.p[i])
        return true;
    return sweep->is_uncertain &&
           !routes_names_find(&r->entries, routes_names_tenant(sweep->items[i]), routes_names_device(sweep->items[i]));
}

static void on_removed(struct mail *m)
{
    struct table_write *write = CONTAINER_OF(m, struct table_write, mail);
    struct routes_sweep *sweep = CONTAINER_OF(write, struct routes_sweep, write);
    struct routes_replica *r = CONTAINER_OF(sweep, struct routes_replica, orphans);
    bool is_accepted = write->result == E_OK;
    struct str removed = {0};

    sweep->is_out = false;
    if (!is_accepted && write->result != E_DENIED) {
        sweep->is_uncertain = true;
        wheel_start(&r->worker->loop.wheel, &r->orphans_timer, AGAIN_MS);
        return;
    }
    if (is_accepted)
        (void)routes_write_reason(write, &removed);
    for (size_t i = 0; i < sweep->n && !sweep->is_own; i++)
        if (is_removed(r, sweep, i, removed))
            tell(r, sweep->items[i]);
    routes_sweep_clear(sweep);
    if (is_accepted)
        routes_orphans_look(r);
    else
        wheel_start(&r->worker->loop.wheel, &r->orphans_timer, AGAIN_MS); /* others may have been faster, which is seen soon */
}

static void on_timer(struct timer *timer)
{
    struct routes_replica *r = CONTAINER_OF(timer, struct routes_replica, orphans_timer);

    if (r->orphans.n > 0 && !r->orphans.is_out)
        send(r); /* again */
    else
        routes_orphans_look(r);
}

static void on_leave(struct mail *m)
{
    struct routes_replica *r = CONTAINER_OF(m, struct routes_replica, leave_mail);

    r->is_leaving = true;
    routes_orphans_look(r);
}

void routes_orphans_init(struct routes_replica *r)
{
    r->orphans.write = (struct table_write){
        .mail = {.on_mail = on_removed}, .home = &r->worker->loop.mailbox, .partition_key = ROUTES_PARTITION_KEY};
    r->orphans_timer.on_timer = on_timer;
    r->leave_mail.on_mail = on_leave;
}

void routes_orphans_fini(struct routes_replica *r)
{
    wheel_stop(&r->orphans_timer);
    routes_sweep_clear(&r->orphans);
}
