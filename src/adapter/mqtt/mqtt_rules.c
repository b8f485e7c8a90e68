#include "adapter/mqtt/mqtt_rules.h"

#include <string.h>

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "adapter/mqtt/mqtt_topics.h"
#include "base/check.h"
#include "base/log.h"
#include "core/message.h"

/* One record on its way. */
struct mqtt_part {
    struct delivery delivery;
    struct mqtt_worker *mw;
    struct mqtt_topic *topic;
    struct mqtt_pending *pending; /* NULL: nobody waits for it */
    uint8_t route;
};

/* The records of one message, before they are submitted. */
struct batch {
    struct mqtt_worker *mw;
    const struct rule *rule;
    enum ledger_route route;
    uint64_t bytes; /* of room */
    struct mqtt_topic *topics[RULE_MAX_ACTIONS];
};

static const enum ledger_refusal refusals[] = {
    [RULE_REFUSED_TOPIC_TOO_LONG] = LEDGER_REFUSED_TOPIC_TOO_LONG,
    [RULE_REFUSED_PARTITION] = LEDGER_REFUSED_PARTITION,
    [RULE_REFUSED_HOPS] = LEDGER_REFUSED_HOP_LIMIT,
    [RULE_REFUSED_NO_MEMORY] = LEDGER_REFUSED_NO_MEMORY,
};

enum ledger_refusal mqtt_rules_refusal(enum rule_refusal refusal)
{
    return refusals[refusal];
}

struct slab mqtt_rules_slab(void)
{
    return (struct slab){.object_bytes = sizeof(struct mqtt_part), .sub = MEM_ADAPTER};
}

static struct sink *sink_of(const struct mqtt_worker *mw)
{
    return mw->adapter->settings.sink;
}

static enum ledger_route route_of(const struct mqtt_worker *mw, const struct rule *rule)
{
    return (enum ledger_route)mw->rule_routes[rule->index];
}

static bool next_property(struct str *rest, struct str *out_name, struct str *out_value)
{
    struct mqtt_user_property property;

    if (!mqtt_property_next_user(rest, &property))
        return false;
    *out_name = property.name;
    *out_value = property.value;
    return true;
}

void mqtt_rules_set_sender(struct rule_message *m, const struct principal *principal, struct str client_id, char *user)
{
    struct str auth_id;

    m->client_id = client_id;
    m->tenant = principal->tenant->id;
    if (!principal->device)
        return;
    auth_id = principal->device->auth_id;
    m->device_id = principal->device->id;
    ASSERT(auth_id.n + 1 + m->tenant.n <= MQTT_RULES_USER_BYTES); /* the configuration bounds both */
    memcpy(user, auth_id.p, auth_id.n);
    user[auth_id.n] = '@';
    memcpy(user + auth_id.n + 1, m->tenant.p, m->tenant.n);
    m->user = (struct str){user, auth_id.n + 1 + m->tenant.n};
}

static void set_properties(struct rule_message *m, const struct mqtt_properties *props)
{
    if (mqtt_property_has(props, MQTT_PROPERTY_CONTENT_TYPE))
        m->content_type = props->content_type;
    if (mqtt_property_has(props, MQTT_PROPERTY_RESPONSE_TOPIC))
        m->response_topic = props->response_topic;
    m->has_correlation_data = mqtt_property_has(props, MQTT_PROPERTY_CORRELATION_DATA);
    if (m->has_correlation_data)
        m->correlation_data = props->correlation_data;
    if (mqtt_property_has(props, MQTT_PROPERTY_USER_PROPERTY)) {
        m->next_property = next_property;
        m->properties = props->raw;
    }
}

/* --- the way to the sink --- */

static enum ledger_refusal refusal_of(err e)
{
    if (e == E_LIMIT)
        return LEDGER_REFUSED_TOO_MANY_TOPICS;
    if (e == E_DENIED)
        return LEDGER_REFUSED_DENIED;
    return e == E_CLOSED ? LEDGER_REFUSED_UNAVAILABLE : LEDGER_REFUSED_UNKNOWN_TOPIC;
}

/* Everything but room. E_OK; E_AGAIN: a topic is being made; E_INVAL: `*out_why`. */
static err prepare(struct batch *b, const struct rule_message *m, const struct str *segments, bool may_wait,
                   enum ledger_refusal *out_why)
{
    struct mqtt_worker *mw = b->mw;
    enum rule_refusal refusal = rule_record_build(b->rule, m, segments, mqtt_config(mw)->kafka.topic_prefix.n, &mw->scratch);

    if (refusal != RULE_REFUSED_NOTHING) {
        *out_why = refusals[refusal];
        return E_INVAL;
    }
    b->bytes = 0;
    for (size_t i = 0; i < b->rule->n_actions; i++) {
        struct rule_record *r = &mw->scratch.records[i];
        err e = mqtt_topics_find(mw, r->action, rule_name_str(&r->topic), may_wait, &b->topics[i]);

        if (e == E_AGAIN)
            return e;
        if (e != E_OK) {
            *out_why = refusal_of(e);
            return E_INVAL;
        }
        r->record.topic = b->topics[i]->sink_topic;
        b->bytes += sink_charge(sink_of(mw), &r->record);
    }
    return E_OK;
}

static err reserve(const struct batch *b)
{
    return sink_reserve(sink_of(b->mw), b->bytes, b->rule->n_actions);
}

static void unreserve(const struct batch *b)
{
    sink_unreserve(sink_of(b->mw), b->bytes, b->rule->n_actions);
}

static void note(struct mqtt_part *part, enum outcome outcome)
{
    struct mqtt_pending *pending = part->pending;

    if (outcome == OUTCOME_UNKNOWN_TOPIC)
        mqtt_topics_note_missing(part->topic);
    if (!pending && outcome != OUTCOME_STORED)
        ledger_count_lost((enum ledger_route)part->route);
    slab_free(&part->mw->part_slab, part);
    if (pending)
        mqtt_pending_note(pending, outcome);
}

static void on_delivery(struct mail *m)
{
    struct mqtt_part *part = CONTAINER_OF(m, struct mqtt_part, delivery.mail);

    note(part, part->delivery.outcome);
}

/* Submits all records; room has been reserved. With a pending publish its outcome may be known, and the connection closed, when
 * this returns. */
static void submit(const struct batch *b, struct mqtt_pending *pending)
{
    struct mqtt_worker *mw = b->mw;

    for (size_t i = 0; i < b->rule->n_actions; i++) {
        struct mqtt_part *part = slab_new(&mw->part_slab);

        *part = (struct mqtt_part){
            .delivery = {.mail = {.on_mail = on_delivery}, .home = &mw->worker->loop.mailbox},
            .mw = mw,
            .topic = b->topics[i],
            .pending = pending,
            .route = (uint8_t)b->route,
        };
        if (sink_submit_reserved(sink_of(mw), &mw->scratch.records[i].record, &part->delivery) != E_OK)
            note(part, part->delivery.outcome);
    }
}

/* --- mappers --- */

static struct mqtt_mapper_request request_of(const struct rule *rule, const struct rule_message *m)
{
    return (struct mqtt_mapper_request){
        .mapper = rule->mapper,
        .payload = m->payload,
        .content_type = m->content_type,
        .address = m->topic,
        .tenant = m->tenant,
        .device = m->device_id,
        .client_id = m->client_id,
        .qos = m->qos,
    };
}

/* The mapper's headers stand before the message's own user properties, in `properties`, which the caller frees. LEDGER_REFUSALS: it
 * goes on. */
static enum ledger_refusal use_mapped(struct rule_message *m, const struct mqtt_mapped *mapped, struct buf *properties)
{
    if (!mapped->is_good)
        return LEDGER_REFUSED_UNAVAILABLE;
    m->payload = mapped->payload;
    if (mapped->content_type.n)
        m->content_type = mapped->content_type;
    if (mapped->headers.n == 0)
        return LEDGER_REFUSALS;
    if (buf_append(properties, MEM_ADAPTER, mapped->headers) != E_OK ||
        buf_append(properties, MEM_ADAPTER, m->properties) != E_OK)
        return LEDGER_REFUSED_NO_MEMORY;
    m->properties = buf_str(properties);
    m->next_property = next_property;
    return LEDGER_REFUSALS;
}

/* --- a client's publish --- */

static enum handle drop(const struct batch *b, enum ledger_refusal why)
{
    ledger_count_in(b->route);
    ledger_count_refused(b->route, why, 0);
    return HANDLE_DONE;
}

static enum handle refuse(struct mqtt_conn *c, const struct batch *b, const struct mqtt_publish *publish,
                          enum ledger_refusal why)
{
    if (publish->qos == 0)
        return drop(b, why);
    ledger_count_in(b->route);
    mqtt_pending_refuse(c, b->route, publish->qos, publish->packet_id, PROPERTY_BAG_ON_ERROR_DEFAULT, why);
    return HANDLE_DONE;
}

/* Its outcome may be known, and the connection closed, when this returns. */
static void submit_publish(struct mqtt_conn *c, const struct batch *b, const struct mqtt_publish *publish)
{
    struct mqtt_pending *pending = NULL;

    ledger_count_in(b->route);
    if (b->rule->ack == RULE_ACK_QUORUM) {
        pending = mqtt_pending_new(c, b->route, publish->qos, publish->packet_id, PROPERTY_BAG_ON_ERROR_DEFAULT);
        mqtt_pending_expect(pending, (unsigned)b->rule->n_actions);
        mqtt_pending_enter(c, pending);
    } else {
        if (publish->qos == 2)
            session_find_incoming(c->ss, publish->packet_id)->is_stored = true;
        ledger_count_acknowledged(b->route);
        mqtt_pending_acknowledge(c, b->route, publish->qos, publish->packet_id);
    }
    submit(b, pending);
}

static enum handle wait_for_kafka(struct mqtt_conn *c)
{
    sink_wait(sink_of(c->mw), &c->mw->room);
    mqtt_conn_wait(c);
    return HANDLE_WAIT;
}

/* Everywhere there must be room before anything happens: at Kafka, in the session, with the subscribers. `m` is NULL when they
 * are not to have it. */
static enum handle reserve_and_send(struct mqtt_conn *c, const struct batch *b, const struct mqtt_publish *publish,
                                    struct message *m)
{
    struct broker_room room;
    err e = E_OK;

    if (reserve(b) != E_OK) {
        if (publish->qos)
            return wait_for_kafka(c);
        if (m)
            ERR_IGNORE(broker_publish(c->mw->shard, m)); /* at QoS 0 each gets what it can */
        return drop(b, LEDGER_REFUSED_OVERLOADED);
    }
    if (publish->qos == 2)
        e = session_add_incoming(c->ss, publish->packet_id);
    if (e == E_OK && m) {
        e = broker_reserve(c->mw->shard, m, &room);
        if (e != E_OK && publish->qos == 2)
            (void)session_remove_incoming(c->ss, publish->packet_id);
    }
    if (e != E_OK) {
        unreserve(b);
        if (e != E_AGAIN)
            return refuse(c, b, publish, LEDGER_REFUSED_NO_MEMORY);
        return publish->qos ? mqtt_publish_in_wait(c) : drop(b, LEDGER_REFUSED_OVERLOADED);
    }
    if (m)
        broker_deliver(c->mw->shard, m, &room);
    submit_publish(c, b, publish);
    return HANDLE_DONE;
}

static enum handle publish_message(struct mqtt_conn *c, struct batch *b, const struct rule_message *m,
                                   const struct mqtt_publish *publish, const struct str *segments)
{
    struct message *message;
    enum ledger_refusal why;
    enum handle handled;
    err e = prepare(b, m, segments, true, &why);

    if (e == E_AGAIN) {
        mqtt_conn_wait_for_topic(c);
        return HANDLE_WAIT;
    }
    if (e != E_OK)
        return refuse(c, b, publish, why);
    if (!b->rule->is_local)
        return reserve_and_send(c, b, publish, NULL);
    message = mqtt_publish_in_message(c, publish, m->topic);
    if (!message)
        return refuse(c, b, publish, LEDGER_REFUSED_NO_MEMORY);
    handled = reserve_and_send(c, b, publish, message);
    message_unref(message);
    return handled;
}

enum handle mqtt_rules_publish(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic,
                               const struct rule *rule, const struct str *segments)
{
    struct batch b = {.mw = c->mw, .rule = rule, .route = route_of(c->mw, rule)};
    char user[MQTT_RULES_USER_BYTES];
    struct rule_message m = {
        .topic = topic,
        .qos = publish->qos,
        .is_retained = publish->retain,
        .payload = publish->payload,
    };
    struct mqtt_mapper_request request;
    const struct mqtt_mapped *mapped;
    struct buf properties = {0};
    enum ledger_refusal why = LEDGER_REFUSALS;
    enum handle handled;

    mqtt_rules_set_sender(&m, &c->ss->principal, session_client_id(c->ss), user);
    if (publish->properties.has) {
        set_properties(&m, &publish->properties);
        m.has_expiry = mqtt_property_has(&publish->properties, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL);
        m.expiry_s = m.has_expiry ? publish->properties.message_expiry_interval : 0;
    }
    if (rule->mapper.n) {
        request = request_of(rule, &m);
        if (mqtt_mapper_ask(c, &request, &mapped) == HANDLE_WAIT)
            return HANDLE_WAIT;
        why = use_mapped(&m, mapped, &properties);
    }
    handled = why == LEDGER_REFUSALS ? publish_message(c, &b, &m, publish, segments) : refuse(c, &b, publish, why);
    buf_free(&properties, MEM_ADAPTER);
    return handled;
}

/* --- what nobody waits for --- */

/* The records of a will or an event. */
static void send_unasked(struct batch *b, const struct rule_message *m, const struct str *segments)
{
    struct mqtt_pending *pending;
    enum ledger_refusal why = LEDGER_REFUSED_OVERLOADED;

    if (prepare(b, m, segments, false, &why) != E_OK || reserve(b) != E_OK) {
        LOG_INFO(LOG_MQTT, "rule.dropped", F_STR("rule", b->rule->name), F_STR("client", m->client_id),
                 F_TEXT("reason", ledger_refusal_name(why)));
        (void)drop(b, why);
        return;
    }
    ledger_count_in(b->route);
    if (b->rule->ack == RULE_ACK_RECEIVED) {
        ledger_count_acknowledged(b->route);
        submit(b, NULL);
        return;
    }
    pending = mqtt_pending_new_will(b->mw, b->route);
    mqtt_pending_expect(pending, (unsigned)b->rule->n_actions);
    ledger_count_waiting(b->route, 1);
    submit(b, pending);
}

void mqtt_rules_publish_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                             const struct rule *rule, const struct str *segments)
{
    struct batch b = {.mw = mw, .rule = rule, .route = route_of(mw, rule)};
    char user[MQTT_RULES_USER_BYTES];
    struct rule_message m = {
        .topic = will->topic,
        .qos = will->qos,
        .is_retained = will->retain,
        .has_expiry = will->has_expiry,
        .expiry_s = will->expiry_s,
        .payload = will->payload,
    };
    struct mqtt_properties props;
    struct mqtt_mapper_request request;
    const struct mqtt_mapped *mapped;
    struct buf properties = {0};
    enum ledger_refusal why = LEDGER_REFUSALS;

    mqtt_rules_set_sender(&m, principal, will->client_id, user);
    if (will->properties.n && mqtt_property_decode(will->properties, MQTT_PUBLISH, &props) == MQTT_REASON_SUCCESS)
        set_properties(&m, &props);
    if (rule->mapper.n) {
        request = request_of(rule, &m);
        if (mqtt_mapper_ask_for_will(mw, principal, will, &request, &mapped) == HANDLE_WAIT)
            return; /* it comes again, with the answer */
        why = use_mapped(&m, mapped, &properties);
    }
    if (why == LEDGER_REFUSALS)
        send_unasked(&b, &m, segments);
    else
        (void)drop(&b, why);
    buf_free(&properties, MEM_ADAPTER);
    if (rule->is_local && broker_publish(mw->shard, will) != E_OK)
        LOG_INFO(LOG_MQTT, "will.not_delivered", F_STR("client", will->client_id));
}

void mqtt_rules_send_event(struct mqtt_worker *mw, const struct rule *rule, const struct rule_message *event)
{
    struct batch b = {.mw = mw, .rule = rule, .route = route_of(mw, rule)};

    send_unasked(&b, event, NULL);
}
