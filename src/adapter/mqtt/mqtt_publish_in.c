#include "adapter/mqtt/mqtt_publish_in.h"
#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_aliases.h"
#include "adapter/mqtt/mqtt_device.h"
#include "adapter/mqtt/mqtt_extras.h"
#include "adapter/mqtt/mqtt_handlers.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_output.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_rules.h"
#include "base/utf8.h"
#include "core/message.h"

/* A mailbox that was full is tried again after this time: whoever drains it tells nobody. */
enum { MAILBOX_RETRY_MS = 2 };

/* Whether the client's window has room for one more (section 4.9). In 5.0 the client was told how large it is; before, we just
 * stop reading until an acknowledgement has left. */
static enum handle check_window(struct mqtt_conn *c)
{
    unsigned limit = c->receive_maximum;
    unsigned used = c->n_pending - c->n_pending_qos2 + c->ss->n_incoming - c->ss->n_inherited;

    if (c->version == MQTT_VERSION_5) {
        if (used >= limit || c->n_pending >= limit) /* the latter: a refused QoS 2 message has a place only */
            mqtt_conn_fail(c, MQTT_REASON_RECEIVE_MAXIMUM_EXCEEDED);
        return HANDLE_DONE;
    }
    if (c->n_pending < limit)
        return HANDLE_DONE;
    c->is_full = true;
    stream_pause(&c->stream);
    return HANDLE_WAIT;
}

/* The topic, by alias if need be (section 3.3.2.3.4). False: the connection has been closed. */
static bool resolve_alias(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str *topic)
{
    uint16_t maximum = c->topic_alias_maximum;
    uint16_t alias = publish->properties.topic_alias;

    *topic = publish->topic;
    if (!mqtt_property_has(&publish->properties, MQTT_PROPERTY_TOPIC_ALIAS))
        return true;
    if (alias > maximum) {
        mqtt_conn_fail(c, MQTT_REASON_TOPIC_ALIAS_INVALID); /* [MQTT-3.3.2-9] */
        return false;
    }
    if (topic->n == 0) {
        *topic = mqtt_aliases_find(c->extras ? c->extras->aliases : NULL, alias);
        if (topic->n == 0)
            mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR);
        return topic->n > 0;
    }
    if (mqtt_aliases_set(&mqtt_extras_make(c)->aliases, maximum, alias, *topic) != E_OK) {
        mqtt_conn_fail(c, MQTT_REASON_QUOTA_EXCEEDED);
        return false;
    }
    return true;
}

bool mqtt_publish_in_has_bad_format(const struct mqtt_publish *publish)
{
    return mqtt_property_has(&publish->properties, MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR) &&
           publish->properties.payload_format_indicator == 1 && !utf8_is_valid(publish->payload);
}

struct message *mqtt_publish_in_message(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic)
{
    const struct mqtt_properties *props = &publish->properties;
    size_t properties_bytes = props->has || props->raw.n ? mqtt_publish_forward_size(props) : 0;
    struct message *m = message_new(c->ss->principal.tenant->id, topic, publish->payload, properties_bytes);

    if (!m)
        return NULL;
    if (properties_bytes)
        mqtt_publish_forward_write(message_properties(m), props);
    m->qos = publish->qos;
    m->retain = publish->retain;
    m->has_expiry = mqtt_property_has(props, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL);
    m->expiry_s = m->has_expiry ? props->message_expiry_interval : 0;
    m->received_ms = c->mw->worker->loop.now_ms;
    m->publisher = c->ss->number;
    return m;
}

enum handle mqtt_publish_in_wait(struct mqtt_conn *c)
{
    struct mqtt_worker *mw = c->mw;

    if (!wheel_is_set(&mw->retry))
        wheel_start(&mw->worker->loop.wheel, &mw->retry, MAILBOX_RETRY_MS);
    mqtt_conn_wait(c);
    return HANDLE_WAIT;
}

/* With room for it nothing can fail any more. A client that gets its own message sees PUBREC before it, PUBACK behind it: what
 * it would see of a server that passes a message on when it is released (section 4.3.3), and what clients are used to. */
static void deliver(struct mqtt_conn *c, const struct mqtt_publish *publish, struct message *m, const struct broker_room *room)
{
    ledger_count_acknowledged(LEDGER_ROUTE_MQTT);
    if (publish->qos == 2) {
        session_find_incoming(c->ss, publish->packet_id)->is_stored = true;
        mqtt_pending_acknowledge(c, LEDGER_ROUTE_MQTT, publish->qos, publish->packet_id);
    }
    broker_deliver(c->mw->shard, m, room);
    if (publish->qos == 1)
        mqtt_pending_acknowledge(c, LEDGER_ROUTE_MQTT, publish->qos, publish->packet_id);
}

static enum handle refuse(struct mqtt_conn *c, const struct mqtt_publish *publish, enum ledger_refusal why)
{
    ledger_count_in(LEDGER_ROUTE_MQTT);
    mqtt_pending_refuse(c, LEDGER_ROUTE_MQTT, publish->qos, publish->packet_id, PROPERTY_BAG_ON_ERROR_DEFAULT, why);
    return HANDLE_DONE;
}

/* An ordinary topic: to the subscribers, and acknowledged. */
static enum handle publish_plain(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic)
{
    struct message *m = mqtt_publish_in_message(c, publish, topic);
    struct broker_room room;
    enum handle handled = HANDLE_DONE;
    err e = m ? E_OK : E_NOMEM;

    if (e == E_OK && publish->qos == 2)
        e = session_add_incoming(c->ss, publish->packet_id);
    if (e == E_OK)
        e = broker_reserve(c->mw->shard, m, &room);
    if ((e == E_AGAIN || e == E_LIMIT) && publish->qos == 2)
        (void)session_remove_incoming(c->ss, publish->packet_id);
    if (e == E_OK) {
        ledger_count_in(LEDGER_ROUTE_MQTT);
        deliver(c, publish, m, &room);
    } else if (e == E_AGAIN && publish->qos) {
        handled = mqtt_publish_in_wait(c);
    } else if (publish->qos == 0 && e != E_NOMEM) {
        ledger_count_in(LEDGER_ROUTE_MQTT);
        ledger_count_refused(LEDGER_ROUTE_MQTT, LEDGER_REFUSED_OVERLOADED, 0);
    } else {
        handled = refuse(c, publish, e == E_LIMIT ? LEDGER_REFUSED_OVERLOADED : LEDGER_REFUSED_NO_MEMORY);
    }
    message_unref(m);
    return handled;
}

/* Topics whose names mean something else: filters of shared subscriptions (section 4.8.2), and what a server says about itself
 * (section 4.7.2). Mosquitto's bridges announce themselves there, and are let do it. */
bool mqtt_publish_in_is_reserved(struct str topic)
{
    static const struct str bridge = STR_INIT("$SYS/broker/connection/"), state = STR_INIT("/state");

    if (topic.n > bridge.n + state.n && str_starts_with(topic, bridge) &&
        str_equal(str_from_offset(topic, topic.n - state.n), state))
        return false;
    return str_starts_with(topic, STR("$SYS/")) || str_starts_with(topic, STR("$share/"));
}

/* The decoder counts what it sees: nothing of a topic that comes by its alias. */
static size_t levels_of(const struct mqtt_publish *publish, struct str topic)
{
    size_t n = 1;

    if (publish->topic.n)
        return publish->topic_levels;
    for (size_t i = 0; i < topic.n; i++)
        n += topic.p[i] == '/';
    return n;
}

static enum handle route(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic)
{
    const struct rule_table *rules = mqtt_rule_table(c->mw);
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    const struct rule *rule;
    struct device_topic device;

    if (mqtt_conn_listener(c)->is_hono && device_topic_may_match(topic)) {
        enum device_fault fault = device_topic_parse(topic, 0, &device);

        if (device.endpoint != DEVICE_ENDPOINT_NONE)
            return mqtt_device_publish(c, publish, topic, &device, fault);
    }
    if (mqtt_publish_in_has_bad_format(publish))
        return refuse(c, publish, LEDGER_REFUSED_PAYLOAD_FORMAT);
    if (levels_of(publish, topic) > mqtt_limits(c->mw)->topic_levels)
        return refuse(c, publish, LEDGER_REFUSED_TOO_DEEP);
    if (mqtt_publish_in_is_reserved(topic))
        return refuse(c, publish, LEDGER_REFUSED_FORBIDDEN);
    rule = rule_table_find(rules, c->ss->principal.tenant->id, topic, segments);
    return rule ? mqtt_rules_publish(c, publish, topic, rule, segments) : publish_plain(c, publish, topic);
}

/* Sent again: it is delivered once only [MQTT-4.3.3-10]. */
static enum handle handle_repeated(struct mqtt_conn *c, const struct incoming *incoming)
{
    if (incoming->is_stored)
        mqtt_output_ack(c, MQTT_PUBREC, incoming->packet_id, MQTT_REASON_SUCCESS);
    return HANDLE_DONE;
}

/* The same for the first time on this connection, of a message of an earlier one: it is answered in its turn. */
static enum handle handle_inherited(struct mqtt_conn *c, const struct mqtt_publish *publish, struct incoming *incoming)
{
    session_claim_incoming(c->ss, incoming);
    if (!mqtt_pending_adopt(c, publish->packet_id))
        mqtt_pending_acknowledge(c, LEDGER_ROUTE_MQTT, 2, publish->packet_id);
    return HANDLE_DONE;
}

enum handle mqtt_handle_publish(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    struct mqtt_publish publish;
    struct incoming *incoming;
    struct str topic;
    enum handle handled;
    enum mqtt_reason reason = mqtt_publish_decode(frame, (enum mqtt_version)c->version, &publish);

    if (reason != MQTT_REASON_SUCCESS) {
        mqtt_conn_fail(c, reason);
        return HANDLE_DONE;
    }
    incoming = publish.qos == 2 ? session_find_incoming(c->ss, publish.packet_id) : NULL;
    if (incoming && !incoming->is_inherited)
        return handle_repeated(c, incoming);
    if (publish.qos && check_window(c) == HANDLE_WAIT)
        return HANDLE_WAIT;
    if (c->state != MQTT_OPEN || !resolve_alias(c, &publish, &topic))
        return HANDLE_DONE;
    if (incoming)
        return handle_inherited(c, &publish, incoming);
    handled = route(c, &publish, topic);
    if (handled == HANDLE_DONE)
        mqtt_mapper_forget(c);
    return handled;
}

void mqtt_publish_in_route_will(struct mqtt_worker *mw, const struct principal *principal, unsigned origin,
                                struct message *will)
{
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    const struct rule *rule;
    struct device_topic device;

    mw->will_origin = origin;
    if (mqtt_config(mw)->listeners[origin].is_hono && device_topic_may_match(will->topic)) {
        enum device_fault fault = device_topic_parse(will->topic, 0, &device);

        if (device.endpoint != DEVICE_ENDPOINT_NONE) {
            mqtt_device_publish_will(mw, principal, will, &device, fault);
            return;
        }
    }
    rule = rule_table_find(mqtt_rule_table(mw), principal->tenant->id, will->topic, segments);
    if (rule) {
        mqtt_rules_publish_will(mw, principal, will, rule, segments);
        return;
    }
    ledger_count_in(LEDGER_ROUTE_MQTT);
    if (broker_publish(mw->shard, will) == E_OK)
        ledger_count_acknowledged(LEDGER_ROUTE_MQTT);
    else
        ledger_count_refused(LEDGER_ROUTE_MQTT, LEDGER_REFUSED_OVERLOADED, 0);
}

void mqtt_publish_in_will(void *context, struct shard *shard, const struct principal *principal, unsigned origin,
                          struct message *will)
{
    mqtt_metrics_count(MQTT_COUNT_WILLS, 1);
    mqtt_publish_in_route_will(mqtt_worker_of(context, shard), principal, origin, will);
}
