#include "adapter/mqtt/mqtt_subscribe_in.h"

#include "adapter/mqtt/mqtt_commands.h"
#include "adapter/mqtt/mqtt_errors.h"
#include "adapter/mqtt/mqtt_events.h"
#include "adapter/mqtt/mqtt_handlers.h"
#include "base/check.h"
#include "base/log.h"
#include "broker/subscriptions.h"

enum { REASONS_MAX = 64 /* filters of one packet answered without an allocation */ };

/* The Subscription Identifier of all filters of a packet; 0: none. */
static uint32_t id_of(const struct mqtt_subscribe *packet)
{
    return mqtt_property_has(&packet->properties, MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER)
               ? packet->properties.subscription_identifier
               : 0;
}

/* What a SUBSCRIBE waits for: the mail that was posted before it, and the answers to its filters for commands. */
struct mqtt_barrier {
    struct mail mail;
    struct mqtt_conn *conn; /* NULL: gone */
    unsigned n_awaited;
};

static void pass(struct mqtt_barrier *b)
{
    struct mqtt_conn *c = b->conn;

    if (--b->n_awaited > 0)
        return;
    mem_free(MEM_ADAPTER, b);
    c->barrier = NULL;
    c->has_passed_barrier = true;
    mqtt_conn_resume(c);
}

static void on_barrier(struct mail *m)
{
    struct mqtt_barrier *b = CONTAINER_OF(m, struct mqtt_barrier, mail);

    if (b->conn)
        pass(b);
    else
        mem_free(MEM_ADAPTER, b);
}

void mqtt_subscribe_answered(struct mqtt_conn *c)
{
    pass(c->barrier);
}

static enum handle wait_at_barrier(struct mqtt_conn *c, const struct mqtt_subscribe *packet)
{
    struct mqtt_barrier *b = mem_alloc(MEM_ADAPTER, sizeof *b);
    struct mqtt_subscription wanted;

    *b = (struct mqtt_barrier){.mail = {.on_mail = on_barrier}, .conn = c, .n_awaited = 1};
    for (struct str rest = packet->filters; mqtt_subscribe_next(packet, &rest, &wanted);)
        if (mqtt_commands_is_filter(c, wanted.filter.filter))
            b->n_awaited += mqtt_commands_ask(c, wanted.filter.filter, wanted.qos, id_of(packet));
    c->barrier = b;
    stream_pause(&c->stream);
    mailbox_post(&c->mw->worker->loop.mailbox, &b->mail);
    return HANDLE_WAIT;
}

void mqtt_subscribe_cancel(struct mqtt_conn *c)
{
    if (c->barrier)
        c->barrier->conn = NULL;
    c->barrier = NULL;
}

/* Whether this one filter is accepted: the granted QoS, or why not (section 3.9.3). */
static uint8_t subscribe(struct mqtt_conn *c, const struct mqtt_subscription *wanted, uint32_t id)
{
    struct subscription_options options = {
        .id = id,
        .qos = wanted->qos,
        .no_local = wanted->no_local,
        .retain_as_published = wanted->retain_as_published,
    };
    bool existed;
    err e;

    if (wanted->filter.share_name.n)
        return MQTT_REASON_SHARED_SUBSCRIPTIONS_NOT_SUPPORTED; /* as CONNACK has said */
    if (wanted->filter.levels > mqtt_limits(c->mw)->topic_levels)
        return MQTT_REASON_TOPIC_FILTER_INVALID;
    if (mqtt_errors_is_filter(c, wanted->filter.filter))
        return mqtt_errors_subscribe(c, wanted->filter.filter, wanted->qos, id);
    if (mqtt_commands_is_filter(c, wanted->filter.filter))
        return mqtt_commands_answer(c, wanted->filter.filter, wanted->qos);
    e = session_subscribe(c->ss, wanted->filter.filter, &options, &existed);
    if (e != E_OK)
        return MQTT_REASON_QUOTA_EXCEEDED;
    return wanted->qos;
}

/* Whether the retained messages go out too [MQTT-3.3.1-9 to 3.3.1-11]. 0: always, 1: only with a new subscription. */
static bool wants_retained(const struct mqtt_subscription *wanted, bool existed)
{
    return wanted->retain_handling == 0 || (wanted->retain_handling == 1 && !existed);
}

static bool exists(const struct mqtt_conn *c, const struct mqtt_subscription *wanted)
{
    return session_is_subscribed(c->ss, wanted->filter.filter);
}

static bool unsubscribe(struct mqtt_conn *c, const struct mqtt_subscription *wanted)
{
    if (wanted->filter.share_name.n)
        return false;
    if (mqtt_errors_is_filter(c, wanted->filter.filter))
        return mqtt_errors_unsubscribe(c, wanted->filter.filter);
    if (mqtt_commands_is_filter(c, wanted->filter.filter))
        return mqtt_commands_unsubscribe(c, wanted->filter.filter);
    return session_unsubscribe(c->ss, wanted->filter.filter);
}

/* All filters in order; the SUBACK before any retained message, which is allowed either way (section 3.8.4) and what
 * clients are used to. A bit for each filter whose retained messages are due. */
static void subscribe_all(struct mqtt_conn *c, const struct mqtt_subscribe *packet, uint8_t *reasons, uint8_t *is_due)
{
    uint32_t id = id_of(packet);
    struct mqtt_subscription wanted;
    size_t n = 0;

    for (struct str rest = packet->filters; mqtt_subscribe_next(packet, &rest, &wanted); n++) {
        is_due[n] = wants_retained(&wanted, exists(c, &wanted)) && !mqtt_errors_is_filter(c, wanted.filter.filter) &&
                    !mqtt_commands_is_filter(c, wanted.filter.filter);
        reasons[n] = subscribe(c, &wanted, id);
        if (reasons[n] > MQTT_REASON_GRANTED_QOS_2) {
            is_due[n] = false;
            mqtt_metrics_count(MQTT_COUNT_SUBSCRIPTIONS_REFUSED, 1);
        }
    }
}

static void send_retained(struct mqtt_conn *c, const struct mqtt_subscribe *packet, const uint8_t *is_due)
{
    struct mqtt_subscription wanted;
    size_t n = 0;

    for (struct str rest = packet->filters; mqtt_subscribe_next(packet, &rest, &wanted); n++) {
        struct subscription_options options = {
            .id = id_of(packet),
            .qos = wanted.qos,
            .no_local = wanted.no_local,
        };

        if (is_due[n] && c->state == MQTT_OPEN)
            session_send_retained(c->ss, wanted.filter.filter, &options);
    }
}

/* A client that asks for more than its own Maximum Packet Size lets us answer would wait for ever. */
static void answer(struct mqtt_conn *c, err e)
{
    if (e == E_LIMIT)
        mqtt_conn_fail(c, MQTT_REASON_PACKET_TOO_LARGE);
    else
        mqtt_conn_sent(c, e);
}

enum handle mqtt_handle_subscribe(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    uint8_t few[2 * REASONS_MAX], *reasons = few;
    struct mqtt_encoder e = mqtt_conn_encoder(c);
    struct mqtt_subscribe packet;
    enum mqtt_reason reason = mqtt_subscribe_decode(frame, (enum mqtt_version)c->version, &packet);

    if (reason != MQTT_REASON_SUCCESS) {
        mqtt_conn_fail(c, reason);
        return HANDLE_DONE;
    }
    if (!c->has_passed_barrier)
        return wait_at_barrier(c, &packet);
    c->has_passed_barrier = false;
    if (packet.filter_count > REASONS_MAX)
        reasons = mem_try_alloc(MEM_ADAPTER, 2 * (size_t)packet.filter_count);
    if (!reasons) {
        mqtt_conn_fail(c, MQTT_REASON_QUOTA_EXCEEDED);
        return HANDLE_DONE;
    }
    subscribe_all(c, &packet, reasons, reasons + packet.filter_count);
    answer(c, mqtt_subscribe_encode_suback(&e, packet.packet_id, reasons, packet.filter_count, NULL));
    if (c->state == MQTT_OPEN) {
        mqtt_events_tell_subscribe(c, &packet, reasons);
        send_retained(c, &packet, reasons + packet.filter_count);
    }
    if (reasons != few)
        mem_free(MEM_ADAPTER, reasons);
    return HANDLE_DONE;
}

enum handle mqtt_handle_unsubscribe(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    uint8_t few[REASONS_MAX], *reasons = few;
    struct mqtt_encoder e = mqtt_conn_encoder(c);
    struct mqtt_subscription wanted;
    struct mqtt_subscribe packet;
    enum mqtt_reason reason = mqtt_subscribe_decode(frame, (enum mqtt_version)c->version, &packet);
    size_t n = 0;

    if (reason == MQTT_REASON_SUCCESS && packet.filter_count > REASONS_MAX) {
        reasons = mem_try_alloc(MEM_ADAPTER, packet.filter_count);
        if (!reasons)
            reason = MQTT_REASON_QUOTA_EXCEEDED;
    }
    if (reason != MQTT_REASON_SUCCESS) {
        mqtt_conn_fail(c, reason);
        return HANDLE_DONE;
    }
    for (struct str rest = packet.filters; mqtt_subscribe_next(&packet, &rest, &wanted); n++)
        reasons[n] = unsubscribe(c, &wanted) ? MQTT_REASON_SUCCESS : MQTT_REASON_NO_SUBSCRIPTION_EXISTED;
    answer(c, mqtt_subscribe_encode_unsuback(&e, packet.packet_id, reasons, n, NULL));
    if (reasons != few)
        mem_free(MEM_ADAPTER, reasons);
    return HANDLE_DONE;
}
