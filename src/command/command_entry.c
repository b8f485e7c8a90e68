/* Subscriptions to commands: how they are made and ended between the subscriber's worker and the tenant's router, and the events that tell
 * applications of it; and the gateways that devices were last heard through. */
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "core/device_record.h"
#include "loop/loop.h"

/* How many devices with several gateways a router remembers; past it nothing new is learnt. */
enum { HEARD_MAX = 1000 * 1000, TOPIC_BYTES = 300 };

struct pair {
    struct str tenant, device;
};

static bool is_entry_of(const void *entry, const void *key)
{
    const struct command_entry *e = entry;
    const struct pair *pair = key;

    return str_equal(e->device, pair->device) && str_equal(e->tenant, pair->tenant);
}

struct command_entry *command_entry_find(struct command_router *r, struct str tenant, struct str device)
{
    struct pair pair = {tenant, device};

    return map_find(&r->entries, siphash_pair(tenant, device), &pair, is_entry_of);
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

/* --- events (docs/wire/commands.md) --- */

/* The end of a subscription, on its way to Kafka; nobody waits for it. */
struct farewell {
    struct delivery delivery;
};

static struct device_defaults defaults_of(const struct config_properties *properties)
{
    return (struct device_defaults){(const struct str *)(const void *)properties->items, properties->count};
}

static err submit_event(struct command_entry *entry, int32_t ttd_s, struct delivery *delivery)
{
    static const struct str adapters[CONFIG_ADAPTER_TYPES] = {
        [CONFIG_ADAPTER_MQTT] = STR_INIT("hono-mqtt"), [CONFIG_ADAPTER_HTTP] = STR_INIT("hono-http")};
    struct command_router *r = entry->router;
    struct sink *sink = r->plane->settings.sink;
    struct device_message message = {
        .endpoint = DEVICE_ENDPOINT_EVENT,
        .qos = 1,
        .has_ttd = true,
        .ttd_s = ttd_s,
        .device_id = entry->device,
        .address = STR("command"),
        .adapter = adapters[entry->adapter],
        .content_type = STR("application/vnd.eclipse-hono-empty-notification"),
        .creation_time_ms = loop_wall_ms(),
    };
    struct registration registration;
    struct device_limits limits;
    struct device_record record;
    char topic[TOPIC_BYTES];
    int n = snprintf(topic, sizeof topic, "hono.event.%.*s", STR_ARG(entry->tenant));

    if (registry_assert(r->generation->registry, entry->tenant, entry->device, (struct str){0}, &registration) ==
        REGISTRY_ASSERTED) {
        message.tenant_defaults = defaults_of(registration.tenant->defaults);
        message.device_defaults = defaults_of(registration.device->defaults);
        limits = (struct device_limits){.max_ttl_s = registration.tenant->limits->max_ttl_s};
        message.limits = &limits;
    }
    if (device_record_build(&message, &record) != DEVICE_FAULT_NONE)
        return E_INVAL;
    record.record.topic = sink_find_topic(sink, (struct str){topic, (size_t)n});
    return record.record.topic ? sink_submit(sink, &record.record, delivery) : E_INVAL;
}

static void on_farewell(struct mail *m)
{
    struct farewell *f = CONTAINER_OF(m, struct farewell, delivery.mail);

    if (f->delivery.outcome != OUTCOME_STORED)
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
    mem_free(MEM_COMMAND, f);
}

static void say_farewell(struct command_entry *entry)
{
    struct farewell *f = mem_alloc(MEM_COMMAND, sizeof *f);

    *f = (struct farewell){.delivery = {.mail = {.on_mail = on_farewell}, .home = &entry->router->worker->loop.mailbox}};
    if (submit_event(entry, 0, &f->delivery) == E_OK)
        return;
    command_count(COMMAND_COUNT_EVENTS_LOST, 1);
    mem_free(MEM_COMMAND, f);
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

/* --- on the router's --- */

static void answer(struct command_entry *entry, err result)
{
    entry->result = result;
    entry->ask.on_mail = on_answer;
    mailbox_post(entry->home, &entry->ask); /* its reference goes along */
}

static void put_in(struct command_entry *entry)
{
    struct command_router *r = entry->router;
    uint64_t hash = siphash_pair(entry->tenant, entry->device);
    struct command_entry *old = command_entry_find(r, entry->tenant, entry->device);

    if (old) {
        old->is_current = false;
        ASSERT(map_remove(&r->entries, hash, old));
        command_count(COMMAND_COUNT_SUBSCRIPTIONS, -1);
        command_count(COMMAND_COUNT_SUBSCRIPTIONS_REPLACED, 1);
    }
    map_add(&r->entries, MEM_COMMAND, hash, entry);
    entry->is_current = true;
    command_count(COMMAND_COUNT_SUBSCRIPTIONS, 1);
}

/* False: a newer one had taken its place. */
static bool take_out(struct command_entry *entry)
{
    if (!entry->is_current)
        return false;
    entry->is_current = false;
    ASSERT(map_remove(&entry->router->entries, siphash_pair(entry->tenant, entry->device), entry));
    command_count(COMMAND_COUNT_SUBSCRIPTIONS, -1);
    return true;
}

static void on_event(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, event.mail);
    bool is_stored = entry->event.outcome == OUTCOME_STORED;

    if (is_stored) {
        entry->is_told = true;
    } else {
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
        (void)take_out(entry);
    }
    answer(entry, is_stored ? E_OK : E_IO);
}

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
    err e = is_allowed(entry) ? E_OK : E_DENIED;

    if (e == E_OK) {
        put_in(entry);
        if (!entry->has_events) {
            answer(entry, E_OK);
            return;
        }
        entry->event = (struct delivery){.mail = {.on_mail = on_event}, .home = &entry->router->worker->loop.mailbox};
        e = submit_event(entry, -1, &entry->event);
        if (e == E_OK)
            return;
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
        (void)take_out(entry);
    }
    answer(entry, e);
}

/* The client has gone: its own end, unless it has come back before, here or elsewhere. One that ends before Kafka has the event of its beginning
 * is told of as well, behind it. */
static void on_end(struct mail *m)
{
    struct command_entry *entry = CONTAINER_OF(m, struct command_entry, end);

    if (take_out(entry) && entry->has_events)
        say_farewell(entry);
    command_entry_unref(entry);
}

/* --- the port --- */

static struct str put(char **at, struct str text)
{
    struct str copy = {*at, text.n};

    if (text.n)
        memcpy(*at, text.p, text.n);
    *at += text.n;
    return copy;
}

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
    entry->tenant = put(&at, s->tenant);
    entry->device = put(&at, s->device);
    entry->gateway = put(&at, s->gateway);
    subscriber->entry = entry;
    mailbox_post(&entry->router->worker->loop.mailbox, &entry->ask);
}

void command_unsubscribe(struct command_subscriber *subscriber)
{
    if (subscriber->entry)
        let_go(subscriber->entry);
}

/* --- gateways --- */

struct heard_mail {
    struct mail mail;
    struct command_router *router;
    struct command_heard *heard;
};

static bool is_heard_of(const void *entry, const void *key)
{
    const struct command_heard *h = entry;
    const struct pair *pair = key;

    return str_equal(h->device, pair->device) && str_equal(h->tenant, pair->tenant);
}

static struct command_heard *find_heard(struct command_router *r, struct str tenant, struct str device)
{
    struct pair pair = {tenant, device};

    return map_find(&r->heard, siphash_pair(tenant, device), &pair, is_heard_of);
}

struct str command_entry_heard(struct command_router *r, struct str tenant, struct str device)
{
    struct command_heard *heard = find_heard(r, tenant, device);

    return heard ? heard->gateway : (struct str){0};
}

static void on_heard(struct mail *m)
{
    struct heard_mail *hm = CONTAINER_OF(m, struct heard_mail, mail);
    struct command_router *r = hm->router;
    struct command_heard *heard = hm->heard, *old = find_heard(r, heard->tenant, heard->device);
    uint64_t hash = siphash_pair(heard->tenant, heard->device);

    mem_free(MEM_COMMAND, hm);
    if (!old && r->heard.n_entries >= HEARD_MAX) {
        mem_free(MEM_COMMAND, heard);
        return;
    }
    if (old)
        ASSERT(map_remove(&r->heard, hash, old));
    mem_free(MEM_COMMAND, old);
    map_add(&r->heard, MEM_COMMAND, hash, heard);
}

void command_note_gateway(struct command_plane *plane, struct str tenant, struct str device, struct str gateway)
{
    struct command_heard *heard = mem_alloc(MEM_COMMAND, sizeof *heard + tenant.n + device.n + gateway.n);
    struct heard_mail *hm = mem_alloc(MEM_COMMAND, sizeof *hm);
    char *at = heard->text;

    heard->tenant = put(&at, tenant);
    heard->device = put(&at, device);
    heard->gateway = put(&at, gateway);
    *hm = (struct heard_mail){.mail = {.on_mail = on_heard}, .router = command_router_of(plane, tenant), .heard = heard};
    mailbox_post(&hm->router->worker->loop.mailbox, &hm->mail);
}

void command_entry_fini_all(struct command_router *r)
{
    uint32_t cursor = 0;
    void *p;

    while ((p = map_next(&r->heard, &cursor)))
        mem_free(MEM_COMMAND, p);
    map_free(&r->heard, MEM_COMMAND);
    for (cursor = 0; (p = map_next(&r->entries, &cursor));)
        command_entry_unref(p);
    map_free(&r->entries, MEM_COMMAND);
}
