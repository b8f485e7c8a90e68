/* Subscriptions to commands: how they are made and ended between the subscriber's worker and the tenant's router, and how they get a route,
 * lose it and get it back.
 *
 * Those of this process for one device share a seat. The routes decide which of them has the commands; command_entry_check() does what is left to
 * do when a route has changed: the newest that is still subscribed is registered when nobody has the route. */
#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"

enum {
    UNSETTLED_MS = 1000, /* a subscriber waits so long for the other instances to know of it */
    AGAIN_MS = 1000,     /* until what nobody knows the outcome of is asked for again */
};

static bool is_seat_of(const void *entry, const void *key)
{
    const struct command_seat *seat = entry;

    return command_pair_is(key, seat->tenant, seat->device);
}

struct command_seat *command_entry_seat(struct command_router *r, struct str tenant, struct str device)
{
    struct command_pair pair = {tenant, device};

    return map_find(&r->seats, siphash_pair(tenant, device), &pair, is_seat_of);
}

static struct command_entry *entry_at(struct list *link)
{
    return CONTAINER_OF(link, struct command_entry, link);
}

struct command_entry *command_entry_find(struct command_router *r, struct str tenant, struct str device, uint64_t epoch)
{
    struct command_seat *seat = command_entry_seat(r, tenant, device);

    if (!seat)
        return NULL;
    for (struct list *link = seat->entries.prev; link != &seat->entries; link = link->prev)
        if (entry_at(link)->epoch == epoch && !entry_at(link)->is_ended)
            return entry_at(link);
    return NULL;
}

bool command_entry_is_coming(struct command_router *r, struct str tenant, struct str device)
{
    struct command_seat *seat = command_entry_seat(r, tenant, device);

    if (!seat)
        return false;
    for (struct list *link = seat->entries.prev; link != &seat->entries; link = link->prev)
        if (entry_at(link)->state == COMMAND_ENTRY_REGISTERING && !entry_at(link)->is_ended)
            return true;
    return false;
}

void command_entry_ref(struct command_entry *entry)
{
    atomic_fetch_add(&entry->refs, 1);
}

void command_entry_unref(struct command_entry *entry)
{
    if (atomic_fetch_sub(&entry->refs, 1) == 1)
        mem_free(MEM_COMMAND, entry);
}

/* --- seats --- */

static void take_seat(struct command_entry *entry)
{
    struct command_router *r = entry->router;
    struct command_seat *seat = command_entry_seat(r, entry->tenant, entry->device);

    if (seat) {
        command_count(COMMAND_COUNT_SUBSCRIPTIONS_REPLACED, 1);
    } else {
        seat = mem_alloc(MEM_COMMAND, sizeof *seat + entry->tenant.n + entry->device.n);
        *seat = (struct command_seat){.router = r, .hash = siphash_pair(entry->tenant, entry->device)};
        list_init(&seat->entries);
        memcpy(seat->text, entry->tenant.p, entry->tenant.n);
        memcpy(seat->text + entry->tenant.n, entry->device.p, entry->device.n);
        seat->tenant = (struct str){seat->text, entry->tenant.n};
        seat->device = (struct str){seat->text + entry->tenant.n, entry->device.n};
        map_add(&r->seats, MEM_COMMAND, seat->hash, seat);
        command_count(COMMAND_COUNT_SUBSCRIPTIONS, 1);
    }
    entry->seat = seat;
    list_push(&seat->entries, &entry->link);
}

static void leave_seat(struct command_entry *entry)
{
    struct command_seat *seat = entry->seat;

    if (!seat)
        return;
    entry->seat = NULL;
    list_remove(&entry->link);
    list_remove(&entry->unsettled);
    wheel_stop(&entry->timer);
    if (!list_is_empty(&seat->entries)) {
        command_watch_seat(seat);
        return;
    }
    list_remove(&seat->due);
    ASSERT(map_remove(&entry->router->seats, seat->hash, seat));
    mem_free(MEM_COMMAND, seat);
    command_count(COMMAND_COUNT_SUBSCRIPTIONS, -1);
}

/* --- on the subscriber's worker --- */

static void let_go(struct command_entry *entry)
{
    if (entry->subscriber)
        entry->subscriber->entry = NULL;
    entry->subscriber = NULL;
    mailbox_post(&entry->router->worker->loop.mailbox, &entry->end);
}

static void on_answer(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, ask);
    struct command_subscriber *subscriber = entry->subscriber;

    if (subscriber && entry->result != E_OK)
        let_go(entry);
    if (subscriber)
        subscriber->ops->on_subscribed(subscriber, entry->result);
    command_entry_unref(entry);
}

/* --- on the router's: the route --- */

static void answer(struct command_entry *entry, err result)
{
    entry->is_answered = true;
    entry->result = result;
    entry->ask.on_mail = on_answer;
    mailbox_post(entry->home, &entry->ask); /* its reference goes along */
}

/* The subscription is over: nothing of it is under way, and it has no route. */
static void end(struct command_entry *entry)
{
    leave_seat(entry);
    command_router_note_left(entry->router);
    if (!entry->is_answered && !entry->is_telling)
        answer(entry, E_CLOSED); /* nobody hears it */
    command_entry_unref(entry);
}

static bool has_route(const struct command_entry *entry)
{
    struct routes_route route;

    return routes_find(entry->router->replica, entry->tenant, entry->device, &route) && route.instance->is_self &&
           route.epoch == entry->epoch;
}

static void on_removed(struct mail *m);

static void remove_route(struct command_entry *entry)
{
    entry->state = COMMAND_ENTRY_REMOVING;
    entry->write = (struct routes_write){.mail = {.on_mail = on_removed}};
    routes_unregister(entry->router->replica, &entry->write, entry->tenant, entry->device, entry->epoch);
}

static void say_farewell(struct command_entry *entry)
{
    if (entry->is_told)
        command_event_tell(entry->router, entry->tenant, entry->device, entry->adapter, 0);
}

static void on_remove_again(struct timer *t)
{
    remove_route(CONTAINER_OF(t, struct command_entry, timer));
}

/* Applications are told by whoever took the route away: by this entry; not when a newer one has it, nor when the lease is gone (then whoever
 * removes the routes of this incarnation tells them). */
static void on_removed(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct command_entry, write);
    err result = entry->write.result;
    struct routes_route route;

    if (result == E_TIMEOUT || result == E_IO || result == E_LIMIT) {
        entry->is_uncertain = true;
        entry->timer.on_timer = on_remove_again;
        wheel_start(&entry->router->worker->loop.wheel, &entry->timer, AGAIN_MS);
        return;
    }
    if (result == E_OK || (result == E_DENIED && entry->is_uncertain &&
                           !routes_find(entry->router->replica, entry->tenant, entry->device, &route)))
        say_farewell(entry);
    end(entry);
}

static void settle(struct command_entry *entry);

/* A seat that was lost and got back in between is told of again. */
static void on_event(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, event.mail);
    bool is_stored = entry->event.outcome == OUTCOME_STORED;

    entry->is_telling = false;
    if (!is_stored) {
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
        entry->is_told = false;
    }
    answer(entry, is_stored ? E_OK : E_IO);
    if (is_stored && !entry->is_told && entry->state == COMMAND_ENTRY_REGISTERED)
        settle(entry);
}

/* The route stands and everybody knows: applications are told, then the subscriber. One whose seat was taken meanwhile tells nothing. */
static void settle(struct command_entry *entry)
{
    err e = E_OK;

    list_remove(&entry->unsettled);
    wheel_stop(&entry->timer);
    if (entry->is_ended || entry->is_telling)
        return;
    if (entry->has_events && !entry->is_told && has_route(entry)) {
        entry->is_told = true; /* one that ends before Kafka has the event is told of as well, behind it */
        if (entry->is_answered) {
            command_event_tell(entry->router, entry->tenant, entry->device, entry->adapter, -1);
            return;
        }
        entry->event = (struct delivery){.mail = {.on_mail = on_event}, .home = &entry->router->worker->loop.mailbox};
        e = command_event_submit(entry->router, entry->tenant, entry->device, entry->adapter, -1, &entry->event);
        entry->is_telling = e == E_OK;
        if (entry->is_telling)
            return;
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
        entry->is_told = false;
    }
    if (!entry->is_answered)
        answer(entry, e);
}

static void on_settle_late(struct timer *t)
{
    settle(CONTAINER_OF(t, struct command_entry, timer));
}

void command_entry_on_seen(struct command_router *r)
{
    struct list *next;

    for (struct list *link = r->unsettled.next; link != &r->unsettled; link = next) {
        struct command_entry *entry = CONTAINER_OF(link, struct command_entry, unsettled);

        next = link->next;
        if (!routes_is_recent(r->replica, entry->tenant, entry->device))
            settle(entry);
    }
}

static void on_registered(struct mail *m);

static void add_route(struct command_entry *entry)
{
    struct routes_subscription subscription = {
        .tenant = entry->tenant,
        .device = entry->device,
        .gateway = entry->gateway,
        .is_for_all = entry->is_for_all,
        .has_events = entry->has_events,
    };

    entry->state = COMMAND_ENTRY_REGISTERING;
    entry->write = (struct routes_write){.mail = {.on_mail = on_registered}};
    routes_register(entry->router->replica, &entry->write, &subscription);
    entry->epoch = entry->write.epoch;
}

static void on_add_again(struct timer *t)
{
    struct command_entry *entry = CONTAINER_OF(t, struct command_entry, timer);

    if (entry->state == COMMAND_ENTRY_IDLE)
        command_watch_seat(entry->seat);
}

/* It could not be registered: the subscriber is told, and ends it; or it is tried again, as it is without a lease. */
static void fail(struct command_entry *entry, err why)
{
    entry->state = COMMAND_ENTRY_IDLE;
    if (entry->is_ended) {
        end(entry);
    } else if (why != E_BUSY && !entry->is_answered) {
        answer(entry, why);
    } else {
        entry->timer.on_timer = on_add_again;
        wheel_start(&entry->router->worker->loop.wheel, &entry->timer, AGAIN_MS);
    }
}

static void on_registered(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct command_entry, write);
    struct command_router *r = entry->router;

    if (entry->write.result == E_TIMEOUT)
        entry->is_uncertain = true; /* its route may still come; at its end it is removed in any case */
    if (entry->is_ended && (entry->write.result == E_OK || entry->is_uncertain)) {
        remove_route(entry);
        return;
    }
    if (entry->write.result != E_OK) {
        fail(entry, entry->write.result);
        return;
    }
    entry->has_stood = true;
    entry->state = has_route(entry) ? COMMAND_ENTRY_REGISTERED : COMMAND_ENTRY_IDLE;
    if (entry->state == COMMAND_ENTRY_IDLE)
        command_watch_seat(entry->seat);
    if (!routes_is_recent(r->replica, entry->tenant, entry->device)) {
        settle(entry);
        return;
    }
    list_remove(&entry->unsettled);
    list_push(&r->unsettled, &entry->unsettled);
    entry->timer.on_timer = on_settle_late;
    wheel_start(&r->worker->loop.wheel, &entry->timer, UNSETTLED_MS);
}

/* --- a seat and its route --- */

/* Its seat was taken, or is void. When whoever has it tells applications of its end, this one's beginning is told anew. */
static void lose_route(struct command_entry *entry, const struct command_entry *newer)
{
    entry->state = COMMAND_ENTRY_IDLE;
    if (!newer || newer->has_events)
        entry->is_told = false;
}

void command_entry_check(struct command_seat *seat)
{
    struct command_entry *newest = NULL, *current = NULL;
    struct routes_route route;
    bool is_found = routes_find(seat->router->replica, seat->tenant, seat->device, &route);
    bool is_busy = false;

    if (is_found && route.instance->is_self)
        current = command_entry_find(seat->router, seat->tenant, seat->device, route.epoch);
    for (struct list *link = seat->entries.prev; link != &seat->entries; link = link->prev) {
        struct command_entry *entry = entry_at(link);

        if (entry->state == COMMAND_ENTRY_REGISTERED && !(is_found && route.instance->is_self && route.epoch == entry->epoch))
            lose_route(entry, current);
        is_busy |= entry->state == COMMAND_ENTRY_REGISTERING || entry->state == COMMAND_ENTRY_REMOVING;
        if (!newest && !entry->is_ended && !(entry->is_answered && entry->result != E_OK))
            newest = entry;
    }
    if (is_busy || !newest || newest->state != COMMAND_ENTRY_IDLE)
        return;
    if (!is_found || !newest->has_stood)
        add_route(newest);
}

void command_entry_void_all(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_seat *seat;

    while ((seat = map_next(&r->seats, &cursor))) {
        for (struct list *link = seat->entries.next; link != &seat->entries; link = link->next)
            if (entry_at(link)->state == COMMAND_ENTRY_REGISTERED)
                lose_route(entry_at(link), NULL);
        command_watch_seat(seat);
    }
}

/* --- how they begin and end --- */

/* Whether there is such a device, and the gateway may act for it. */
static bool is_allowed(const struct command_entry *entry)
{
    struct registration registration;

    return registry_assert(entry->router->generation->registry, entry->tenant, entry->device, entry->gateway, &registration) ==
           REGISTRY_ASSERTED;
}

static void on_ask(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, ask);

    if (!entry->plane->settings.takes_subscriptions || !is_allowed(entry)) {
        answer(entry, E_DENIED);
        return;
    }
    take_seat(entry);
    add_route(entry);
}

/* The client has gone. */
static void on_end(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, end);

    entry->is_ended = true;
    list_remove(&entry->unsettled);
    wheel_stop(&entry->timer);
    if (entry->state == COMMAND_ENTRY_REGISTERED || (entry->state == COMMAND_ENTRY_IDLE && entry->is_uncertain)) {
        remove_route(entry);
    } else if (entry->state == COMMAND_ENTRY_IDLE) {
        say_farewell(entry); /* one without events has had its seat: nobody else tells of it */
        end(entry);
    }
}

/* --- the port --- */

void command_subscribe(struct command_plane *plane, struct worker *w, struct command_subscriber *subscriber,
                       const struct command_subscription *subscription)
{
    const struct command_subscription *s = subscription;
    struct command_entry *entry = mem_alloc(MEM_COMMAND, sizeof *entry + s->tenant.n + s->device.n + s->gateway.n);
    char *at = entry->text;

    ASSERT(!subscriber->entry);
    *entry = (struct command_entry){
        .plane = plane,
        .router = command_router_of(plane, s->tenant),
        .home = &w->loop.mailbox,
        .subscriber = subscriber,
        .ask = {.on_mail = on_ask},
        .end = {.on_mail = on_end},
        .refs = 2, /* one until its end, one until the answer */
        .is_for_all = s->is_for_all,
        .has_events = s->has_events,
        .adapter = s->adapter,
    };
    entry->tenant = str_put(&at, s->tenant);
    entry->device = str_put(&at, s->device);
    entry->gateway = str_put(&at, s->gateway);
    subscriber->entry = entry;
    mailbox_post(&entry->router->worker->loop.mailbox, &entry->ask);
}

void command_unsubscribe(struct command_subscriber *subscriber)
{
    if (subscriber->entry)
        let_go(subscriber->entry);
}

void command_entry_fini_all(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_seat *seat;

    while ((seat = map_next(&r->seats, &cursor))) {
        struct list *link;

        while ((link = list_pop(&seat->entries))) {
            wheel_stop(&entry_at(link)->timer);
            command_entry_unref(entry_at(link));
        }
        mem_free(MEM_COMMAND, seat);
    }
    map_free(&r->seats, MEM_COMMAND);
}
