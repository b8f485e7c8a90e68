/* What the routes tell, and what a router does about it: at the end of the turn, once for everything that was told in it. */
#include "base/check.h"
#include "base/log.h"
#include "command/command_making.h"
#include "command/command_router.h"
#include "loop/loop.h"

enum { TICK_MS = 1000 };

void command_watch_soon(struct command_router *r)
{
    loop_defer(&r->worker->loop, &r->task);
}

void command_watch_seat(struct command_seat *seat)
{
    if (!list_is_linked(&seat->due))
        list_push(&seat->router->due_seats, &seat->due);
    command_watch_soon(seat->router);
}

void command_watch_lane(struct command_lane *lane)
{
    if (!list_is_linked(&lane->due))
        list_push(&lane->router->due_lanes, &lane->due);
    command_watch_soon(lane->router);
}

void command_watch_tick(struct command_router *r)
{
    if (!wheel_is_set(&r->tick))
        wheel_start(&r->worker->loop.wheel, &r->tick, TICK_MS);
}

/* --- what is told --- */

/* What waits in the table is shared by all instances in every design. */
static void note_moved(struct command_lane *lane)
{
    struct command_router *r = lane->router;

    if (r->plane->design->note_moved)
        r->plane->design->note_moved(r, lane);
    else if (lane->has_kept)
        command_lane_note_moved(r, lane);
}

/* The device's own lane, and every other whose device may have been reached through this one. */
static void on_route(void *context, struct str tenant, struct str device)
{
    struct command_router *r = context;
    struct command_seat *seat = command_entry_seat(r, tenant, device);
    struct command_lane *lane = command_lane_find(r, tenant, device);

    if (seat)
        command_watch_seat(seat);
    if (lane)
        command_watch_lane(lane);
    command_gateway_on_route(r, tenant, device);
    for (struct list *link = r->acting.next; link != &r->acting; link = link->next) {
        struct command_lane *acting = CONTAINER_OF(link, struct command_lane, acting);

        if (acting == lane || (acting->has_gateways && str_equal(acting->tenant, tenant)))
            note_moved(acting);
    }
    r->has_changed = true;
    command_watch_soon(r);
}

static void on_instances(void *context)
{
    struct command_router *r = context;

    for (struct list *link = r->acting.next; link != &r->acting; link = link->next)
        note_moved(CONTAINER_OF(link, struct command_lane, acting));
    r->has_changed = r->has_seen = r->has_instances = true;
    command_watch_soon(r);
    if (r->worker->id == 0 && r->plane->transport && r->plane->transport->ops->on_instances)
        r->plane->transport->ops->on_instances(r->plane->transport);
}

static void on_seen(void *context)
{
    struct command_router *r = context;

    r->has_seen = true;
    command_watch_soon(r);
}

static void on_done(void *context, struct str name, int32_t partition)
{
    struct command_router *r = context;
    struct command_partition *p = command_partition_find(r, command_making_topic(name), partition);

    if (!p)
        return;
    if (!list_is_linked(&p->due))
        list_push(&r->due_partitions, &p->due);
    command_watch_soon(r);
}

static void on_leased(void *context)
{
    struct command_router *r = context;

    r->has_leased = r->has_changed = r->has_seen = true;
    command_watch_soon(r);
}

static void on_orphan(void *context, struct str tenant, struct str device, bool has_events)
{
    if (has_events)
        command_event_tell(context, tenant, device, CONFIG_ADAPTER_MQTT, 0); /* no other adapter has any */
}

static void on_waiting(void *context, struct str tenant, struct str device)
{
    command_queue_on_waiting(context, tenant, device);
}

/* Perhaps what has waited for a device has been delivered, by whatever instance, and what is newer may follow. */
static void on_applied(void *context)
{
    struct command_router *r = context;

    command_serve_on_applied(r);
    if (list_is_empty(&r->waiting))
        return;
    r->has_seen = true;
    command_watch_soon(r);
}

/* --- what is done about it --- */

/* All of a list at its present state: lanes that have to wait still join it again. */
static void pump_all(struct command_router *r, struct list *parked, bool all)
{
    struct list lanes, *link;

    (void)r;
    list_init(&lanes);
    list_move(&lanes, parked);
    while ((link = list_pop(&lanes))) {
        struct command_lane *lane = CONTAINER_OF(link, struct command_lane, parked);

        if (all || lane->has_gateways)
            command_lane_pump(lane);
        else
            list_push(parked, &lane->parked);
    }
}

static void look_at_seats(struct command_router *r)
{
    struct list *link;

    while ((link = list_pop(&r->due_seats)))
        command_entry_check(CONTAINER_OF(link, struct command_seat, due));
}

static void look_at_partitions(struct command_router *r)
{
    struct list *link;

    while ((link = list_pop(&r->due_partitions)))
        if (r->plane->design->note_done)
            r->plane->design->note_done(r, CONTAINER_OF(link, struct command_partition, due));
}

static void look_at_lanes(struct command_router *r)
{
    bool has_changed = r->has_changed, has_instances = r->has_instances, has_seen = r->has_seen;
    struct list *link;

    r->has_changed = r->has_instances = r->has_seen = false;
    while ((link = list_pop(&r->due_lanes)))
        command_lane_pump(CONTAINER_OF(link, struct command_lane, due));
    if (has_instances)
        command_remote_on_instances(r);
    if (has_changed)
        pump_all(r, &r->others, has_instances);
    if (has_changed || has_seen)
        pump_all(r, &r->waiting, has_instances || has_seen);
    if (has_seen)
        command_entry_on_seen(r);
}

static void on_task(struct task *t)
{
    struct command_router *r = CONTAINER_OF(t, struct command_router, task);

    if (r->has_leased) {
        r->has_leased = false;
        command_entry_void_all(r);
        command_remote_on_leased(r);
    }
    look_at_seats(r);
    look_at_partitions(r);
    look_at_lanes(r);
}

/* For what nobody tells of: a way that gave a command back and did not end, a peer that could not be reached. */
static void on_tick(struct timer *t)
{
    struct command_router *r = CONTAINER_OF(t, struct command_router, tick);

    for (struct list *link = r->waiting.next; link != &r->waiting; link = link->next)
        CONTAINER_OF(link, struct command_lane, parked)->way.is_shunned = false;
    for (struct list *link = r->others.next; link != &r->others; link = link->next)
        if (CONTAINER_OF(link, struct command_lane, parked)->has_waiting)
            command_watch_lane(CONTAINER_OF(link, struct command_lane, parked)); /* perhaps nothing waits any more */
    pump_all(r, &r->waiting, true);
    command_remote_retry(r);
    command_serve_retry(r);
    command_queue_retry(r);
    if (!list_is_empty(&r->waiting) || !list_is_empty(&r->unsent) || !list_is_empty(&r->replies) || r->out.n_entries)
        command_watch_tick(r);
}

void command_watch_listen(struct command_router *r)
{
    struct routes_events events = {
        .context = r,
        .on_route = on_route,
        .on_instances = on_instances,
        .on_seen = on_seen,
        .on_done = on_done,
        .on_leased = on_leased,
        .on_orphan = on_orphan,
        .on_waiting = on_waiting,
        .on_applied = on_applied,
    };

    r->task.run = on_task;
    r->tick.on_timer = on_tick;
    routes_listen(r->replica, &events);
}
