/* Commands for those who are subscribed here, on behalf of whoever has their records: other instances, or this one's lanes. Each is delivered
 * once however often it is asked for: by its place in the memory. */
#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"

/* What another instance has passed on. In one piece of memory with everything it points to. */
struct errand {
    struct command command;
    struct list link; /* while the replica is behind, or another subscription is served */
    struct command_ticket ticket;
    struct command_peer from; /* empty: nobody waits */
    int64_t timestamp_ms;
    uint64_t after, epoch;
    struct str gateway;
    char data[];
};

/* What is under way for one device, all by one subscription. What is asked of another one waits until that is back: nothing overtakes what may have
 * to go again. */
struct serving {
    struct list held; /* errands, in order */
    uint64_t epoch;
    unsigned n; /* under way */
    uint64_t hash;
    struct str tenant, device;
    char text[];
};

static struct errand *errand_of(struct command *c)
{
    return CONTAINER_OF(c, struct errand, command);
}

/* --- one subscription at a time --- */

static bool is_serving_of(const void *entry, const void *key)
{
    const struct serving *s = entry;

    return command_pair_is(key, s->tenant, s->device);
}

static struct serving *find_serving(const struct command *c)
{
    struct command_pair pair = {c->tenant, c->record.device_id};

    return map_find(&c->router->serving, siphash_pair(pair.tenant, pair.device), &pair, is_serving_of);
}

bool command_serve_is_busy(const struct command *c, uint64_t epoch)
{
    const struct serving *s = find_serving(c);

    return s && (s->epoch != epoch || !list_is_empty(&s->held));
}

static void begin_serving(struct command *c, uint64_t epoch)
{
    struct serving *s = find_serving(c);
    struct str tenant = c->tenant, device = c->record.device_id;

    if (!s) {
        s = mem_alloc(MEM_COMMAND, sizeof *s + tenant.n + device.n);
        *s = (struct serving){.hash = siphash_pair(tenant, device)};
        list_init(&s->held);
        memcpy(s->text, tenant.p, tenant.n);
        memcpy(s->text + tenant.n, device.n ? device.p : "", device.n);
        s->tenant = (struct str){s->text, tenant.n};
        s->device = (struct str){s->text + tenant.n, device.n};
        map_add(&c->router->serving, MEM_COMMAND, s->hash, s);
    }
    s->epoch = epoch;
    s->n++;
}

static void take(struct command_router *r, struct errand *errand);

/* What has waited for it goes on, in its order; so does the lane. */
static void end_serving(struct command *c)
{
    struct command_router *r = c->router;
    struct serving *s = find_serving(c);
    struct command_lane *lane = command_lane_find(r, c->tenant, c->record.device_id);
    struct list held, *link;

    if (--s->n)
        return;
    list_init(&held);
    list_move(&held, &s->held);
    ASSERT(map_remove(&r->serving, s->hash, s));
    mem_free(MEM_COMMAND, s);
    while ((link = list_pop(&held)))
        take(r, CONTAINER_OF(link, struct errand, link));
    if (lane)
        command_watch_lane(lane);
}

/* --- results --- */

/* False: not now. */
static bool send_result(struct command_router *r, struct command_item *item)
{
    struct command_transport *transport = r->plane->transport;
    const struct routes_instance *self = routes_self(r->replica);
    struct command_result_message message = {
        .ticket = item->ticket,
        .to = {str_from(item->asker), item->asker_incarnation},
        .result = item->result,
        .status = item->status,
        .text = str_from(item->text),
    };
    err e;

    if (!self)
        return false;
    if (!routes_find_instance(r->replica, message.to.instance, message.to.incarnation))
        return routes_applied(r->replica) >=
               item->after; /* it is gone: whoever has its partitions now asks again. Or not known yet */
    message.from = (struct command_peer){self->name, self->incarnation};
    e = transport->ops->send_result(transport, r->worker->id, &message);
    r->has_no_room |= e == E_AGAIN;
    return e == E_OK || e == E_LIMIT;
}

static void forget_asker(struct command_router *r, struct command_item *item)
{
    mem_free(MEM_COMMAND, item->asker);
    item->asker = NULL;
    if (item->result == COMMAND_RETURNED)
        command_memory_remove(&r->memory, item);
}

static void reply(struct command_router *r, struct command_item *item)
{
    if (list_is_linked(&item->reply))
        return;
    if (!r->has_no_room && send_result(r, item)) {
        forget_asker(r, item);
        return;
    }
    list_push(&r->replies, &item->reply);
    command_watch_tick(r);
}

void command_serve_retry(struct command_router *r)
{
    struct list again, *link;

    list_init(&again);
    list_move(&again, &r->replies);
    while ((link = list_pop(&again))) {
        struct command_item *item = CONTAINER_OF(link, struct command_item, reply);

        if (!r->has_no_room && send_result(r, item))
            forget_asker(r, item);
        else
            list_push(&r->replies, &item->reply); /* one that cannot be reached keeps nobody else waiting */
    }
}

/* A command of this instance's own lane has its result. By mail: whoever asks may be busy with the lane. */
static void on_own(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, mail);

    command_lane_take_back(c);
}

static void hand_over(struct command *c, enum command_result result, int status, const char *text)
{
    c->item = NULL;
    c->result = result;
    c->status = status;
    c->text = text;
    c->mail.on_mail = on_own;
    mailbox_post(&c->router->worker->loop.mailbox, &c->mail);
}

/* The outcome for all who wait for it. What came back undelivered is forgotten: it may be asked for again. */
static void conclude(struct command_router *r, struct command_item *item, enum command_result result, int status,
                     const char *text)
{
    struct command *waiting = item->waiting;

    item->result = result;
    item->status = status;
    item->text = text ? text : "";
    item->served = item->waiting = NULL;
    if (waiting)
        hand_over(waiting, result, status, item->text);
    if (result != COMMAND_RETURNED) {
        command_memory_keep(&r->memory, item, r->worker->loop.now_ms);
        command_count(COMMAND_COUNT_FORGOTTEN, (int64_t)(r->memory.n_forgotten - r->n_forgotten));
        r->n_forgotten = r->memory.n_forgotten;
    }
    if (item->asker)
        reply(r, item);
    else if (result == COMMAND_RETURNED)
        command_memory_remove(&r->memory, item);
}

/* --- for this instance's own lanes --- */

static void on_own_back(struct command *c)
{
    struct command_item *item = c->item;

    bool is_replaced = item->waiting != c; /* its partition was lost, and has come back */

    conclude(c->router, item, c->result, c->status, c->text);
    end_serving(c);
    if (is_replaced)
        hand_over(c, c->result, c->status, c->text);
}

void command_serve_own(struct command *c, struct command_entry *entry, bool is_through_gateway)
{
    struct command_router *r = c->router;
    struct command_ticket ticket = {c->tenant, c->partition->source->number, c->source->offset};
    struct command_item *item = command_memory_find(&r->memory, &ticket, c->source->timestamp_ms);

    if (!item || (!item->served && item->result == COMMAND_RETURNED)) {
        if (!item)
            item = command_memory_add(&r->memory, &ticket, c->source->timestamp_ms);
        list_remove(&item->reply); /* whoever asked in vain gets the result of this */
        c->item = item;
        item->served = item->waiting = c;
        begin_serving(c, entry->epoch);
        command_lane_deliver(c, entry, is_through_gateway, on_own_back);
        return;
    }
    command_count(COMMAND_COUNT_DUPLICATES, 1);
    if (!item->served) {
        hand_over(c, (enum command_result)item->result, item->status, item->text);
        return;
    }
    if (item->waiting && item->waiting != item->served)
        hand_over(item->waiting, COMMAND_RETURNED, 0, NULL); /* of a partition that was lost, and has come back */
    item->waiting = c;
}

/* --- for others --- */

/* A null value is not an empty one. */
static struct str put(char **at, struct str text)
{
    return text.p ? str_put(at, text) : (struct str){0};
}

/* NULL: no memory. */
static struct errand *copy_request(struct command_router *r, const struct command_request *q)
{
    static const struct str topic_prefix = STR_INIT("hono.command.");
    size_t n = q->ticket.tenant.n * 2 + topic_prefix.n + q->from.instance.n + q->gateway.n + q->key.n + q->value.n, table;
    struct command_place place = {
        .partition = q->ticket.partition, .offset = q->ticket.offset, .timestamp_ms = q->timestamp_ms};
    struct record_header *headers;
    struct errand *errand;
    struct str key, value;
    char *at;

    for (size_t i = 0; i < q->n_headers; i++)
        n += q->headers[i].name.n + q->headers[i].value.n;
    table = q->n_headers * sizeof *headers;
    errand = mem_try_alloc(MEM_COMMAND, sizeof *errand + table + n);
    if (!errand)
        return NULL;
    memset(errand, 0, sizeof *errand);
    headers = (struct record_header *)(void *)errand->data;
    at = errand->data + table;
    for (size_t i = 0; i < q->n_headers; i++) {
        headers[i].name = put(&at, q->headers[i].name);
        headers[i].value = put(&at, q->headers[i].value);
    }
    place.topic = (struct str){at, topic_prefix.n + q->ticket.tenant.n};
    (void)put(&at, topic_prefix);
    errand->command.tenant = put(&at, q->ticket.tenant);
    errand->ticket = (struct command_ticket){errand->command.tenant, q->ticket.partition, q->ticket.offset};
    errand->from = (struct command_peer){put(&at, q->from.instance), q->from.incarnation};
    errand->timestamp_ms = q->timestamp_ms;
    errand->gateway = put(&at, q->gateway);
    key = put(&at, q->key);
    value = put(&at, q->value);
    errand->after = q->after;
    errand->epoch = q->epoch;
    errand->command.router = r;
    list_push(&r->errands, &errand->command.of_partition);
    errand->command.fault =
        command_record_read(key, value, headers, q->n_headers, &place, (int64_t)loop_wall_ms(), &errand->command.record);
    return errand;
}

struct command *command_serve_copy(struct command_router *r, const struct command_request *request)
{
    struct errand *errand = copy_request(r, request);

    return errand ? &errand->command : NULL;
}

void command_serve_free(struct command *c)
{
    list_remove(&c->of_partition);
    mem_free(MEM_COMMAND, errand_of(c));
}

static void on_errand_back(struct command *c)
{
    conclude(c->router, c->item, c->result, c->status, c->text);
    end_serving(c);
    command_serve_free(c);
}

/* One that nobody waits for: applications are told of what comes of it by this instance. */
static void on_stray_back(struct command *c)
{
    bool is_acknowledged = c->result == COMMAND_RECEIVED;

    if (c->result == COMMAND_RETURNED)
        command_notice_conclude(c, COMMAND_COUNT_REFUSED_NO_CONSUMER, 503, "no consumer available");
    else if (c->result == COMMAND_FAILED)
        command_notice_conclude(c, COMMAND_COUNT_REFUSED_NOT_ACKNOWLEDGED, c->status, c->text);
    else
        command_notice_conclude(c, is_acknowledged ? COMMAND_COUNT_DELIVERED_RECEIVED : COMMAND_COUNT_DELIVERED_ATTEMPTED, 202,
                                is_acknowledged ? "received" : "attempted");
}

/* Whom it was sent to, if that is here and has the route still. */
static struct command_entry *find_entry(struct command_router *r, const struct errand *errand)
{
    struct str tenant = errand->command.tenant;
    struct str owner = errand->gateway.n ? errand->gateway : errand->command.record.device_id;
    struct routes_route route;

    if (!routes_find(r->replica, tenant, owner, &route) || !route.instance->is_self)
        return NULL;
    if (errand->from.instance.n && route.epoch != errand->epoch)
        return NULL;
    return command_entry_find(r, tenant, owner, route.epoch);
}

/* One that nobody waits for, and that has no place in the memory. */
static void take_stray(struct command_router *r, struct errand *errand)
{
    struct command *c = &errand->command;
    struct command_entry *entry = c->fault == COMMAND_FAULT_NONE ? find_entry(r, errand) : NULL;

    if (entry && routes_is_leased(r->replica)) {
        command_lane_deliver(c, entry, errand->gateway.n || entry->gateway.n, on_stray_back);
        return;
    }
    c->result = COMMAND_RETURNED;
    on_stray_back(c);
}

static void set_asker(struct command_item *item, const struct errand *errand)
{
    command_memory_set_asker(item, &errand->from);
    item->after = errand->after;
}

static void start(struct command_router *r, struct errand *errand, struct command_item *item)
{
    struct command *c = &errand->command;
    struct command_entry *entry = c->fault == COMMAND_FAULT_NONE ? find_entry(r, errand) : NULL;

    if (!item)
        item = command_memory_add(&r->memory, &errand->ticket, errand->timestamp_ms);
    list_remove(&item->reply); /* of an answer that came to nothing */
    set_asker(item, errand);
    c->item = item;
    item->served = c;
    if (entry && routes_is_leased(r->replica)) {
        begin_serving(c, errand->epoch);
        command_lane_deliver(c, entry, errand->gateway.n || entry->gateway.n, on_errand_back);
        return;
    }
    conclude(r, item, COMMAND_RETURNED, 0, NULL);
    command_serve_free(c);
}

/* The replica knows enough. It is under way or over, and the asker gets the result; or it has to wait; or it is delivered. */
static void take(struct command_router *r, struct errand *errand)
{
    struct command_item *item = command_memory_find(&r->memory, &errand->ticket, errand->timestamp_ms);
    struct serving *s = find_serving(&errand->command);
    bool is_known = item && (item->served || item->result != COMMAND_RETURNED);
    bool is_other = s && s->epoch != errand->epoch;

    if (!errand->from.instance.n) {
        take_stray(r, errand);
    } else if (is_known && !(item->served && is_other)) {
        command_count(COMMAND_COUNT_DUPLICATES, 1);
        set_asker(item, errand);
        if (!item->served)
            reply(r, item);
        command_serve_free(&errand->command);
    } else if (s && (is_other || !list_is_empty(&s->held))) {
        list_push(&s->held, &errand->link);
    } else {
        start(r, errand, item);
    }
}

void command_serve_on_applied(struct command_router *r)
{
    while (!list_is_empty(&r->pending)) {
        struct errand *errand = CONTAINER_OF(r->pending.next, struct errand, link);

        if (errand->after > routes_applied(r->replica))
            return;
        list_remove(&errand->link);
        take(r, errand);
    }
}

void command_serve_on_request(struct command_plane *plane, const struct command_request *request)
{
    const struct command_request *q = request;
    struct command_router *r = command_router_of(plane, q->ticket.tenant);
    const struct routes_instance *self = routes_self(r->replica);
    bool has_asker = q->from.instance.n > 0;
    struct errand *errand;

    ASSERT_ON(r->worker);
    command_count(COMMAND_COUNT_REQUESTS, 1);
    if (has_asker && (!self || self->incarnation != q->to.incarnation)) {
        command_count(COMMAND_COUNT_REQUESTS_FOREIGN, 1);
        return;
    }
    errand = copy_request(r, q);
    if (!errand)
        return; /* it is asked for again */
    if (!has_asker) {
        command_count(COMMAND_COUNT_RECEIVED, 1);
        command_count(COMMAND_COUNT_WAITING, 1);
    }
    if (list_is_empty(&r->pending) && errand->after <= routes_applied(r->replica))
        take(r, errand);
    else
        list_push(&r->pending, &errand->link);
}

void command_serve_fini(struct command_router *r)
{
    uint32_t cursor = 0;
    void *s;

    while ((s = map_next(&r->serving, &cursor)))
        mem_free(MEM_COMMAND, s);
    map_free(&r->serving, MEM_COMMAND);
    while (!list_is_empty(&r->errands)) {
        struct command *c = CONTAINER_OF(r->errands.next, struct command, of_partition);

        if (c->entry)
            command_entry_unref(c->entry);
        list_remove(&c->link);
        command_serve_free(c);
    }
    command_memory_fini(&r->memory);
    map_free(&r->out, MEM_COMMAND);
}
