#include "adapter/mqtt/mqtt_commands.h"

#include "adapter/mqtt/mqtt_command_map.h"
#include "adapter/mqtt/mqtt_command_out.h"
#include "adapter/mqtt/mqtt_subscribe_in.h"
#include "base/check.h"
#include "base/siphash.h"
#include "command/command_port.h"
#include "core/command_topic.h"

/* One subscription of a session. */
struct mqtt_command_sub {
    struct command_subscriber subscriber;
    struct mqtt_command_sub *next;
    struct mqtt_command_set *set;
    struct mqtt_command_queue queue;
    struct command_filter filter; /* views into `text` */
    uint32_t id;
    uint32_t text_bytes;
    uint8_t qos;
    bool is_awaited; /* a SUBSCRIBE waits for the answer */
    char text[];
};

/* All of one session. */
struct mqtt_command_set {
    uint64_t session;
    struct mqtt_conn *conn; /* NULL: the client is away */
    struct mqtt_command_sub *first;
    uint32_t n;
};

static uint64_t hash_of(uint64_t session)
{
    return siphash((struct str){(const char *)&session, sizeof session});
}

static bool is_set_of(const void *entry, const void *key)
{
    return ((const struct mqtt_command_set *)entry)->session == *(const uint64_t *)key;
}

static struct mqtt_command_set *find_set(const struct mqtt_worker *mw, uint64_t session)
{
    return map_find(&mw->command_sets, hash_of(session), &session, is_set_of);
}

static struct mqtt_command_set *make_set(struct mqtt_conn *c)
{
    struct mqtt_command_set *set = find_set(c->mw, c->ss->number);

    if (!set) {
        set = mem_alloc(MEM_ADAPTER, sizeof *set);
        *set = (struct mqtt_command_set){.session = c->ss->number, .conn = c};
        map_add(&c->mw->command_sets, MEM_ADAPTER, hash_of(set->session), set);
    }
    return set;
}

static struct str text_of(const struct mqtt_command_sub *sub)
{
    return (struct str){sub->text, sub->text_bytes};
}

/* Where the subscription with this filter hangs, or would. */
static struct mqtt_command_sub **find(struct mqtt_command_set *set, struct str filter)
{
    struct mqtt_command_sub **at = &set->first;

    while (*at && !str_equal(text_of(*at), filter))
        at = &(*at)->next;
    return at;
}

static void unsubscribe(struct mqtt_command_sub *sub)
{
    mqtt_command_map_clear(&sub->queue);
    command_unsubscribe(&sub->subscriber);
}

static void drop(struct mqtt_command_sub **at)
{
    struct mqtt_command_sub *sub = *at;

    *at = sub->next;
    sub->set->n--;
    unsubscribe(sub);
    mem_free(MEM_ADAPTER, sub);
}

/* Whose commands a filter asks for. A gateway's own, and those of all its devices, stand under its own id. */
static struct str device_of(const struct mqtt_conn *c, const struct command_filter *filter)
{
    const struct registry_device *device = c->ss->principal.device;

    return filter->device.n || !device ? filter->device : device->id;
}

/* --- subscribing --- */

static void on_subscribed(struct command_subscriber *subscriber, err result)
{
    struct mqtt_command_sub *sub = CONTAINER_OF(subscriber, struct mqtt_command_sub, subscriber);
    struct mqtt_conn *c = sub->set->conn;
    bool is_awaited = sub->is_awaited;

    sub->is_awaited = false;
    if (result != E_OK)
        drop(find(sub->set, text_of(sub)));
    if (is_awaited)
        mqtt_subscribe_answered(c);
}

static void on_command(struct command_subscriber *subscriber, struct command *command)
{
    struct mqtt_command_sub *sub = CONTAINER_OF(subscriber, struct mqtt_command_sub, subscriber);

    if (!mqtt_command_map_take(&sub->queue, sub->set->conn, sub->qos, command))
        mqtt_command_out_deliver(sub->set->conn, &sub->filter, sub->qos, sub->id, command, NULL);
}

static void deliver(struct mqtt_command_queue *queue, struct command *command, const struct mqtt_mapped *mapped)
{
    struct mqtt_command_sub *sub = CONTAINER_OF(queue, struct mqtt_command_sub, queue);

    mqtt_command_out_deliver(sub->set->conn, &sub->filter, sub->qos, sub->id, command, mapped);
}

static const struct command_subscriber_ops subscriber_ops = {.on_subscribed = on_subscribed, .on_command = on_command};

static void ask(struct mqtt_conn *c, struct mqtt_command_sub *sub)
{
    const struct principal *who = &c->ss->principal;
    struct command_subscription subscription = {
        .tenant = who->tenant->id,
        .device = device_of(c, &sub->filter),
        .is_for_all = sub->filter.is_for_all,
        .has_events = true,
        .adapter = CONFIG_ADAPTER_MQTT,
    };

    if (who->device && !str_equal(subscription.device, who->device->id))
        subscription.gateway = who->device->id;
    sub->subscriber = (struct command_subscriber){.ops = &subscriber_ops};
    command_subscribe(c->mw->adapter->settings.commands, c->mw->worker, &sub->subscriber, &subscription);
}

/* A device takes its own commands, a gateway those of its devices too, which the router checks. A client without a name must say for
 * whom. 0: allowed. */
static uint8_t refusal_of(const struct mqtt_conn *c, struct str filter, uint8_t qos, struct command_filter *out_filter)
{
    const struct principal *who = &c->ss->principal;

    if (!c->mw->adapter->settings.commands || command_topic_parse_filter(filter, out_filter) != E_OK || qos > 1)
        return MQTT_REASON_UNSPECIFIED_ERROR;
    if (out_filter->tenant.n && !str_equal(out_filter->tenant, who->tenant->id))
        return MQTT_REASON_NOT_AUTHORIZED;
    if (!who->device && (!out_filter->tenant.n || !out_filter->device.n))
        return MQTT_REASON_NOT_AUTHORIZED;
    return 0;
}

static struct mqtt_command_sub *sub_new(struct mqtt_command_set *set, struct str filter, uint8_t qos, uint32_t id)
{
    struct mqtt_command_sub *sub = mem_try_alloc(MEM_ADAPTER, sizeof *sub + filter.n);

    if (!sub)
        return NULL;
    *sub = (struct mqtt_command_sub){
        .set = set, .queue = {.deliver = deliver}, .id = id, .text_bytes = (uint32_t)filter.n, .qos = qos, .is_awaited = true};
    memcpy(sub->text, filter.p, filter.n);
    ERR_IGNORE(command_topic_parse_filter(text_of(sub), &sub->filter)); /* it was one before */
    return sub;
}

bool mqtt_commands_is_filter(const struct mqtt_conn *c, struct str filter)
{
    struct command_filter parsed;

    return mqtt_conn_listener(c)->is_hono && filter.p[0] == 'c' && command_topic_parse_filter(filter, &parsed) != E_NOTFOUND;
}

/* Those that had the same commands under another name, or the same, rest in favour of the new one; they end behind its beginning, so that
 * no application takes the device for gone. */
static void replace(struct mqtt_conn *c, const struct mqtt_command_sub *newer)
{
    struct mqtt_command_sub **at = &newer->set->first;

    while (*at) {
        if (*at != newer && str_equal(device_of(c, &(*at)->filter), device_of(c, &newer->filter)))
            drop(at);
        else
            at = &(*at)->next;
    }
}

bool mqtt_commands_ask(struct mqtt_conn *c, struct str filter, uint8_t qos, uint32_t id)
{
    struct command_filter parsed;
    struct mqtt_command_set *set;
    struct mqtt_command_sub *sub;

    if (refusal_of(c, filter, qos, &parsed))
        return false;
    set = make_set(c);
    if (set->n >= mqtt_limits(c->mw)->subscriptions_per_session)
        return false;
    sub = sub_new(set, filter, qos, id);
    if (!sub)
        return false;
    ask(c, sub);
    replace(c, sub);
    sub->next = set->first;
    set->first = sub;
    set->n++;
    return true;
}

uint8_t mqtt_commands_answer(const struct mqtt_conn *c, struct str filter, uint8_t qos)
{
    struct mqtt_command_set *set = find_set(c->mw, c->ss->number);
    struct command_filter parsed;
    uint8_t refusal = refusal_of(c, filter, qos, &parsed);

    if (refusal)
        return refusal;
    if (set && *find(set, filter))
        return (*find(set, filter))->qos;
    return set && set->n >= mqtt_limits(c->mw)->subscriptions_per_session ? MQTT_REASON_QUOTA_EXCEEDED
                                                                          : MQTT_REASON_UNSPECIFIED_ERROR;
}

bool mqtt_commands_unsubscribe(struct mqtt_conn *c, struct str filter)
{
    struct mqtt_command_set *set = find_set(c->mw, c->ss->number);
    struct mqtt_command_sub **at = set ? find(set, filter) : NULL;

    if (!at || !*at)
        return false;
    drop(at);
    return true;
}

/* --- the session's life --- */

void mqtt_commands_resume(struct mqtt_conn *c)
{
    struct mqtt_command_set *set = find_set(c->mw, c->ss->number);

    if (!set)
        return;
    set->conn = c;
    for (struct mqtt_command_sub *sub = set->first; sub; sub = sub->next) {
        unsubscribe(sub); /* of a connection that was taken over */
        sub->is_awaited = false;
        ask(c, sub);
    }
}

void mqtt_commands_leave(struct mqtt_conn *c)
{
    struct mqtt_command_set *set = c->ss ? find_set(c->mw, c->ss->number) : NULL;

    if (!set)
        return;
    set->conn = NULL;
    for (struct mqtt_command_sub *sub = set->first; sub; sub = sub->next) {
        unsubscribe(sub);
        sub->is_awaited = false;
    }
}

static void free_set(struct mqtt_command_set *set)
{
    while (set->first)
        drop(&set->first);
    mem_free(MEM_ADAPTER, set);
}

void mqtt_commands_forget(struct mqtt_worker *mw, const struct session *ss)
{
    struct mqtt_command_set *set = find_set(mw, ss->number);

    if (!set)
        return;
    ASSERT(map_remove(&mw->command_sets, hash_of(set->session), set));
    free_set(set);
}

void mqtt_commands_fini(struct mqtt_worker *mw)
{
    uint32_t cursor = 0;
    struct mqtt_command_set *set;

    while ((set = map_next(&mw->command_sets, &cursor)))
        free_set(set);
    map_free(&mw->command_sets, MEM_ADAPTER);
}
