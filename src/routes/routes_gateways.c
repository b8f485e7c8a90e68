/* The gateway that a device was last heard through: noted some at a time, and forgotten after four weeks without a word. */
#include "loop/loop.h"
#include "routes/routes_private.h"

enum {
    NOTES_MAX = 10 * 1000,   /* that wait to be written, of a worker */
    HEARD_MAX = 1000 * 1000, /* past it nothing new is learnt */
    NOTE_MS = 400,
    CLEAN_MS = 60 * 1000,
    CLEAN_STEPS = 20 * 1000, /* of a look */
    HOUR_MS = 60 * 60 * 1000,
};

static const uint64_t refresh_ms = 24ull * HOUR_MS, lifetime_ms = 28 * 24ull * HOUR_MS;

static void send(struct routes_replica *r, struct routes_sweep *sweep, enum routes_kind kind, uint64_t at_ms)
{
    struct routes_record request = {.kind = kind, .at_ms = at_ms};
    struct buf items = {0};

    for (size_t i = 0; i < sweep->n; i++) {
        const struct routes_record item = {.tenant = routes_names_tenant(sweep->items[i]),
                                           .device = routes_names_device(sweep->items[i]),
                                           .gateway = routes_names_gateway(sweep->items[i])};

        routes_record_add_item(&items, kind, &item);
    }
    request.rest = buf_str(&items);
    routes_record_write(&sweep->request, &request);
    buf_free(&items, MEM_ROUTES);
    sweep->is_out = true;
    sweep->write.request = buf_str(&sweep->request);
    table_write(r->routes->table, &sweep->write);
}

/* --- notes --- */

static void send_notes(struct routes_replica *r)
{
    struct routes_sweep *sweep = &r->noting;
    uint32_t cursor = 0;
    struct routes_names *note;

    if (sweep->is_out || r->notes.n_entries == 0 || r->n_leases == 0)
        return;
    while (sweep->n < ROUTES_ITEMS_MAX && (note = map_next(&r->notes, &cursor)))
        sweep->items[sweep->n++] = note;
    for (size_t i = 0; i < sweep->n; i++)
        routes_names_remove(&r->notes, sweep->items[i]);
    send(r, sweep, ROUTES_NOTE, loop_wall_ms());
}

static void on_noted(struct mail *m)
{
    struct table_write *write = CONTAINER_OF(m, struct table_write, mail);
    struct routes_sweep *sweep = CONTAINER_OF(write, struct routes_sweep, write);
    struct routes_replica *r = CONTAINER_OF(sweep, struct routes_replica, noting);

    sweep->is_out = false;
    if (write->result != E_OK)
        routes_count(ROUTES_COUNT_NOTES_DROPPED, (int64_t)sweep->n);
    routes_sweep_clear(sweep);
    send_notes(r);
}

static void on_notes_timer(struct timer *timer)
{
    send_notes(CONTAINER_OF(timer, struct routes_replica, notes_timer));
}

void routes_note_gateway(struct routes_replica *r, struct str tenant, struct str device, struct str gateway)
{
    const struct routes_heard *heard = routes_names_find(&r->heard, tenant, device);
    struct routes_names *note = routes_names_find(&r->notes, tenant, device);

    ASSERT_ON(r->worker);
    if (!note && heard && str_equal(routes_names_gateway(&heard->names), gateway) && loop_wall_ms() < heard->at_ms + refresh_ms)
        return;
    if (tenant.n > ROUTES_TEXT_MAX || device.n > ROUTES_TEXT_MAX || gateway.n > ROUTES_TEXT_MAX ||
        (!note && r->notes.n_entries >= NOTES_MAX) || (!heard && r->heard.n_entries >= HEARD_MAX)) {
        routes_count(ROUTES_COUNT_NOTES_DROPPED, 1);
        return;
    }
    if (note) {
        routes_names_remove(&r->notes, note);
        mem_free(MEM_ROUTES, note);
    }
    routes_names_add(&r->notes, routes_names_new(sizeof *note, tenant, device, gateway));
    if (!wheel_is_set(&r->notes_timer) && !r->noting.is_out)
        wheel_start(&r->worker->loop.wheel, &r->notes_timer, NOTE_MS);
}

/* --- those that are too old --- */

static void collect(struct routes_replica *r, struct routes_sweep *sweep, uint64_t before_ms)
{
    for (unsigned i = 0; i < CLEAN_STEPS && sweep->n < ROUTES_ITEMS_MAX; i++) {
        const struct routes_heard *heard = map_next(&r->heard, &r->clean_cursor);

        if (!heard) {
            r->clean_cursor = 0;
            return;
        }
        if (heard->at_ms <= before_ms)
            sweep->items[sweep->n++] = routes_names_new(sizeof(struct routes_names), routes_names_tenant(&heard->names),
                                                        routes_names_device(&heard->names), (struct str){0});
    }
}

/* One instance is enough for that. */
static void on_clean_timer(struct timer *timer)
{
    struct routes_replica *r = CONTAINER_OF(timer, struct routes_replica, clean_timer);
    struct routes_sweep *sweep = &r->cleaning;
    uint64_t now_ms = loop_wall_ms(), before_ms = now_ms > lifetime_ms ? now_ms - lifetime_ms : 0;

    wheel_start(&r->worker->loop.wheel, timer, CLEAN_MS);
    if (sweep->is_out || !routes_is_leased(r) || routes_replica_first(r, 0, STR("gateways"), (struct str){0}) != routes_self(r))
        return;
    collect(r, sweep, before_ms);
    if (sweep->n == 0) {
        routes_sweep_clear(sweep);
        return;
    }
    routes_count(ROUTES_COUNT_GATEWAYS_CLEANED, (int64_t)sweep->n);
    send(r, sweep, ROUTES_CLEAN, before_ms);
}

static void on_cleaned(struct mail *m)
{
    struct table_write *write = CONTAINER_OF(m, struct table_write, mail);
    struct routes_sweep *sweep = CONTAINER_OF(write, struct routes_sweep, write);

    sweep->is_out = false;
    routes_sweep_clear(sweep);
}

/* --- life --- */

void routes_gateways_init(struct routes_replica *r)
{
    r->noting.write = (struct table_write){
        .mail = {.on_mail = on_noted}, .home = &r->worker->loop.mailbox, .partition_key = ROUTES_PARTITION_KEY};
    r->cleaning.write = (struct table_write){
        .mail = {.on_mail = on_cleaned}, .home = &r->worker->loop.mailbox, .partition_key = ROUTES_PARTITION_KEY};
    r->notes_timer.on_timer = on_notes_timer;
    r->clean_timer.on_timer = on_clean_timer;
}

void routes_gateways_start(struct routes_replica *r)
{
    wheel_start(&r->worker->loop.wheel, &r->clean_timer, CLEAN_MS);
}

void routes_gateways_fini(struct routes_replica *r)
{
    wheel_stop(&r->notes_timer);
    wheel_stop(&r->clean_timer);
    routes_names_clear(&r->notes);
    routes_sweep_clear(&r->noting);
    routes_sweep_clear(&r->cleaning);
}
