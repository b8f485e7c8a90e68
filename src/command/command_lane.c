/* Commands of one device, in order: from their records to whoever takes them, and back. */
#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"
#include "registry/usage.h"

/* So many of a device's commands may be on their way to it; an application's order is kept in any case. */
enum { WINDOW = 64 };

static const struct str topic_prefix = STR_INIT("hono.command.");

/* How a record's fault is counted. */
static const enum command_metric faults[COMMAND_FAULTS] = {
    [COMMAND_FAULT_NO_DEVICE] = COMMAND_COUNT_DROPPED_NO_DEVICE,
    [COMMAND_FAULT_KEY] = COMMAND_COUNT_DROPPED_KEY,
    [COMMAND_FAULT_EXPIRED] = COMMAND_COUNT_DROPPED_EXPIRED,
    [COMMAND_FAULT_SUBJECT] = COMMAND_COUNT_REFUSED_SUBJECT,
    [COMMAND_FAULT_CORRELATION_ID] = COMMAND_COUNT_REFUSED_CORRELATION_ID,
};

struct pair {
    struct str tenant, device;
};

static bool is_lane_of(const void *entry, const void *key)
{
    const struct command_lane *lane = entry;
    const struct pair *pair = key;

    return str_equal(lane->device, pair->device) && str_equal(lane->tenant, pair->tenant);
}

static struct command_lane *make_lane(struct command_router *r, struct str tenant, struct str device)
{
    struct pair pair = {tenant, device};
    uint64_t hash = siphash_pair(tenant, device);
    struct command_lane *lane = map_find(&r->lanes, hash, &pair, is_lane_of);

    if (lane)
        return lane;
    lane = mem_alloc(MEM_COMMAND, sizeof *lane + tenant.n + device.n);
    *lane = (struct command_lane){.hash = hash};
    list_init(&lane->commands);
    memcpy(lane->text, tenant.p, tenant.n);
    memcpy(lane->text + tenant.n, device.p, device.n);
    lane->tenant = (struct str){lane->text, tenant.n};
    lane->device = (struct str){lane->text + tenant.n, device.n};
    map_add(&r->lanes, MEM_COMMAND, hash, lane);
    return lane;
}

static void drop_if_empty(struct command_router *r, struct command_lane *lane)
{
    if (!list_is_empty(&lane->commands) || lane->is_pumping)
        return;
    ASSERT(map_remove(&r->lanes, lane->hash, lane));
    mem_free(MEM_COMMAND, lane);
}

static void conclude(struct command *c, enum command_metric what, int status, const char *text)
{
    list_remove(&c->link);
    c->lane = NULL;
    command_notice_conclude(c, what, status, text);
}

/* Whether the tenant's data volume (registry/usage.h) has room for it; a tenant that is gone is refused elsewhere. */
static bool has_volume(const struct command *c)
{
    const struct registry_tenant *ten = registry_find_tenant(c->router->generation->registry, c->tenant);

    return !ten || usage_admits(ten, c->record.value.n, (int64_t)loop_wall_ms());
}

/* Counts it there: as sent, or as come back. */
static void count_volume(const struct command *c, bool is_sent)
{
    const struct registry_tenant *ten = registry_find_tenant(c->router->generation->registry, c->tenant);

    if (ten)
        (is_sent ? usage_count : usage_uncount)(ten, c->record.value.n, (int64_t)loop_wall_ms());
}

/* --- to the subscriber --- */

static void on_arrival(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, mail);
    struct command_subscriber *subscriber = c->entry->subscriber;

    if (subscriber)
        subscriber->ops->on_command(subscriber, c);
    else
        command_done(c, COMMAND_RETURNED, 0, NULL);
}

static void dispatch(struct command *c, struct command_entry *entry, bool is_through_gateway)
{
    struct command_lane *lane = c->lane;

    command_entry_ref(entry);
    c->entry = entry;
    c->target = is_through_gateway ? c->record.device_id : (struct str){0};
    c->is_sent = true;
    count_volume(c, true);
    lane->entry = entry;
    lane->n_sent++;
    c->mail.on_mail = on_arrival;
    mailbox_post(entry->home, &c->mail);
}

/* --- choosing --- */

struct question {
    struct command_router *router;
    struct str tenant;
};

static bool find_route(void *context, struct str device, struct command_route *out_route)
{
    struct question *q = context;

    *out_route = (struct command_route){0};
    return command_entry_find(q->router, q->tenant, device) != NULL;
}

static struct str find_heard(void *context, struct str device)
{
    struct question *q = context;

    return command_entry_heard(q->router, q->tenant, device);
}

static enum registry_assertion assert_device(const struct command *c, struct str gateway, struct registration *out)
{
    return registry_assert(c->router->generation->registry, c->tenant, c->record.device_id, gateway, out);
}

/* Whom a command goes to now. NULL: nobody; it has been concluded. */
static struct command_entry *choose(struct command *c, bool *out_is_through_gateway)
{
    struct question q = {c->router, c->tenant};
    struct command_routes routes = {.context = &q, .find = find_route, .last_gateway = find_heard};
    struct registration registration;
    struct command_target target;
    struct command_entry *entry;
    enum registry_assertion assertion = assert_device(c, (struct str){0}, &registration);

    if (c->record.has_ttl && c->record.expires_at_ms < (int64_t)loop_wall_ms()) {
        conclude(c, COMMAND_COUNT_DROPPED_EXPIRED, 0, NULL);
        return NULL;
    }
    if (assertion != REGISTRY_ASSERTED) {
        bool is_tenant = assertion == REGISTRY_NO_TENANT;

        conclude(c, is_tenant ? COMMAND_COUNT_REFUSED_UNKNOWN_TENANT : COMMAND_COUNT_REFUSED_UNKNOWN_DEVICE, 404,
                 is_tenant ? "tenant is unknown or disabled" : "device is unknown or disabled");
        return NULL;
    }
    if (!command_target_choose(&routes, c->record.device_id, registration.device->via->items, registration.device->via->count,
                               &target)) {
        conclude(c, COMMAND_COUNT_REFUSED_NO_CONSUMER, 503, "no consumer available");
        return NULL;
    }
    entry = command_entry_find(c->router, c->tenant, target.gateway.n ? target.gateway : c->record.device_id);
    *out_is_through_gateway = target.gateway.n || entry->gateway.n;
    if (target.gateway.n && !entry->is_for_all) {
        conclude(c, COMMAND_COUNT_REFUSED_NO_CONSUMER, 503, "gateway takes commands for itself only");
        return NULL;
    }
    if (entry->gateway.n && assert_device(c, entry->gateway, &registration) != REGISTRY_ASSERTED) {
        conclude(c, COMMAND_COUNT_REFUSED_GATEWAY, 403, "gateway may not act for the device any more");
        return NULL;
    }
    if (!has_volume(c)) {
        conclude(c, COMMAND_COUNT_REFUSED_DATA_VOLUME, 429, "data volume of the tenant is used up");
        return NULL;
    }
    return entry;
}

static struct command *first_unsent(const struct command_lane *lane)
{
    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next)
        if (!CONTAINER_OF(link, struct command, link)->is_sent)
            return CONTAINER_OF(link, struct command, link);
    return NULL;
}

/* Sends what may go. Nothing overtakes: a command for another subscriber than the one that has earlier ones waits for these. */
static void pump(struct command_router *r, struct command_lane *lane)
{
    struct command *c;

    lane->is_pumping = true;
    while (lane->n_sent < WINDOW && (c = first_unsent(lane))) {
        bool is_through_gateway = false;
        struct command_entry *entry = choose(c, &is_through_gateway);

        if (!entry)
            continue;
        if (lane->n_sent > 0 && lane->entry != entry)
            break;
        dispatch(c, entry, is_through_gateway);
    }
    lane->is_pumping = false;
    drop_if_empty(r, lane);
}

/* --- from the subscriber --- */

static void conclude_result(struct command *c)
{
    bool is_acknowledged = c->result == COMMAND_RECEIVED;

    if (c->result == COMMAND_FAILED)
        conclude(c, COMMAND_COUNT_REFUSED_NOT_ACKNOWLEDGED, c->status, c->text);
    else
        conclude(c, is_acknowledged ? COMMAND_COUNT_DELIVERED_RECEIVED : COMMAND_COUNT_DELIVERED_ATTEMPTED, 202,
                 is_acknowledged ? "received" : "attempted");
}

/* One that came back keeps its place; it and what is behind it go on when all that were sent have come back. */
static bool has_returned(const struct command_lane *lane)
{
    bool has_unsent = false;

    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next) {
        bool is_sent = CONTAINER_OF(link, struct command, link)->is_sent;

        if (is_sent && has_unsent)
            return true;
        has_unsent |= !is_sent;
    }
    return false;
}

static void on_result(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, mail);
    struct command_router *r = c->router;
    struct command_lane *lane = c->lane;

    command_entry_unref(c->entry);
    c->entry = NULL;
    c->is_sent = false;
    if (--lane->n_sent == 0)
        lane->entry = NULL;
    if (c->result == COMMAND_RETURNED || c->result == COMMAND_FAILED)
        count_volume(c, false);
    if (c->result == COMMAND_RETURNED)
        command_count(COMMAND_COUNT_RETURNED, 1);
    else
        conclude_result(c);
    if (c->result == COMMAND_RETURNED && command_router_is_draining(r))
        return;
    if (!has_returned(lane))
        pump(r, lane);
}

void command_done(struct command *command, enum command_result result, int status, const char *text)
{
    command->result = result;
    command->status = status;
    command->text = text;
    command->mail.on_mail = on_result;
    mailbox_post(&command->router->worker->loop.mailbox, &command->mail);
}

/* --- from Kafka --- */

void command_lane_on_record(struct mail *m)
{
    struct source_record *record = CONTAINER_OF(m, struct source_record, mail);
    struct command_plane *plane = record->partition->reader->context;
    struct str tenant = str_from_offset(record->partition->topic, topic_prefix.n);
    struct command_router *r = command_router_of(plane, tenant);
    struct command *c = slab_new_raw(&r->commands);
    struct command_place place = {
        .topic = record->partition->topic,
        .partition = record->partition->number,
        .offset = record->offset,
        .timestamp_ms = record->timestamp_ms,
    };
    enum command_fault fault = command_record_read(record->key, record->value, record->headers, record->n_headers, &place,
                                                   (int64_t)loop_wall_ms(), &c->record);

    c->tenant = tenant;
    c->target = (struct str){0};
    c->link = (struct list){0};
    c->router = r;
    c->lane = NULL;
    c->entry = NULL;
    c->source = record;
    c->is_sent = false;
    command_count(COMMAND_COUNT_RECEIVED, 1);
    command_count(COMMAND_COUNT_WAITING, 1);
    if (fault != COMMAND_FAULT_NONE) {
        LOG_INFO(LOG_COMMAND, "command.refused", F_STR("tenant", tenant), F_INT("partition", place.partition),
                 F_INT("offset", place.offset), F_TEXT("why", command_record_fault_name(fault)));
        command_notice_conclude(c, faults[fault], command_record_fault_status(fault), "malformed command message");
        return;
    }
    c->lane = make_lane(r, tenant, c->record.device_id);
    list_push(&c->lane->commands, &c->link);
    if (!has_returned(c->lane))
        pump(r, c->lane);
}

void command_lane_fini_all(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_lane *lane;

    while ((lane = map_next(&r->lanes, &cursor))) {
        while (!list_is_empty(&lane->commands)) {
            struct command *c = CONTAINER_OF(list_pop(&lane->commands), struct command, link);

            if (c->entry)
                command_entry_unref(c->entry);
            command_count(COMMAND_COUNT_WAITING, -1);
            slab_free(&r->commands, c);
        }
        mem_free(MEM_COMMAND, lane);
    }
    map_free(&r->lanes, MEM_COMMAND);
}
