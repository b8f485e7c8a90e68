#include "adapter/mqtt/mqtt_pending.h"

#include "adapter/device_upload.h"
#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_errors.h"
#include "adapter/mqtt/mqtt_output.h"
#include "base/check.h"
#include "base/log.h"
#include "broker/session.h"

static const enum mqtt_reason reasons[LEDGER_REFUSALS] = {
    [LEDGER_REFUSED_TOO_LARGE] = MQTT_REASON_QUOTA_EXCEEDED, /* 0x95 is not allowed in a PUBACK (table 2-6) */
    [LEDGER_REFUSED_UNKNOWN_TOPIC] = MQTT_REASON_TOPIC_NAME_INVALID,
    [LEDGER_REFUSED_DENIED] = MQTT_REASON_NOT_AUTHORIZED,
    [LEDGER_REFUSED_INVALID] = MQTT_REASON_UNSPECIFIED_ERROR,
    [LEDGER_REFUSED_UNAVAILABLE] = MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR,
    [LEDGER_REFUSED_OVERLOADED] = MQTT_REASON_QUOTA_EXCEEDED,
    [LEDGER_REFUSED_FAILED] = MQTT_REASON_UNSPECIFIED_ERROR,
    [LEDGER_REFUSED_BAD_REQUEST] = MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR,
    [LEDGER_REFUSED_FORBIDDEN] = MQTT_REASON_NOT_AUTHORIZED,
    [LEDGER_REFUSED_NOT_FOUND] = MQTT_REASON_TOPIC_NAME_INVALID,
    [LEDGER_REFUSED_TOO_DEEP] = MQTT_REASON_TOPIC_NAME_INVALID,
    [LEDGER_REFUSED_PAYLOAD_FORMAT] = MQTT_REASON_PAYLOAD_FORMAT_INVALID,
    [LEDGER_REFUSED_NO_MEMORY] = MQTT_REASON_QUOTA_EXCEEDED,
    [LEDGER_REFUSED_TOPIC_TOO_LONG] = MQTT_REASON_TOPIC_NAME_INVALID,
    [LEDGER_REFUSED_PARTITION] = MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR,
    [LEDGER_REFUSED_HOP_LIMIT] = MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR,
    [LEDGER_REFUSED_TOO_MANY_TOPICS] = MQTT_REASON_QUOTA_EXCEEDED,
    [LEDGER_REFUSED_DATA_VOLUME] = MQTT_REASON_QUOTA_EXCEEDED,
};

enum mqtt_reason mqtt_pending_reason(enum ledger_refusal why)
{
    return reasons[why];
}

enum answer { ANSWER_CLOSE, ANSWER_ACK, ANSWER_NOTHING };

/* docs/DEVICES.md: what is done by `on-error`, without and with an error that was published. In 5.0 an acknowledgement has a reason
 * code; where Hono acknowledges to 3.1.1 what was lost, the error that goes before tells it. */
static const enum answer answers[PROPERTY_BAG_ON_ERRORS][2] = {
    [PROPERTY_BAG_ON_ERROR_DEFAULT] = {ANSWER_CLOSE, ANSWER_ACK},
    [PROPERTY_BAG_ON_ERROR_DISCONNECT] = {ANSWER_CLOSE, ANSWER_CLOSE},
    [PROPERTY_BAG_ON_ERROR_IGNORE] = {ANSWER_ACK, ANSWER_ACK},
    [PROPERTY_BAG_ON_ERROR_SKIP_ACK] = {ANSWER_NOTHING, ANSWER_NOTHING},
};

static enum answer answer_for(const struct mqtt_pending *p, bool is_published, bool has_reasons)
{
    if (p->is_terminal)
        return ANSWER_CLOSE;
    if (p->on_error == PROPERTY_BAG_ON_ERROR_DEFAULT && p->qos && has_reasons)
        return ANSWER_ACK; /* with the reason the client is told all there is */
    return answers[p->on_error][is_published];
}

/* Tells the client what its publish came to. What it is not told by a packet, it learns by being closed. */
static void answer_refused(struct mqtt_conn *c, const struct mqtt_pending *p)
{
    bool has_reasons = c->version == MQTT_VERSION_5;
    bool is_published = mqtt_errors_publish(c, p->note, p->packet_id, (enum ledger_refusal)p->refusal);
    enum answer answer = answer_for(p, is_published, has_reasons);
    enum mqtt_reason reason = reasons[p->refusal];

    if (answer == ANSWER_CLOSE) {
        mqtt_conn_fail(c, reason);
        return;
    }
    if (answer == ANSWER_NOTHING || p->qos == 0)
        return;
    if (p->on_error == PROPERTY_BAG_ON_ERROR_IGNORE)
        reason = MQTT_REASON_UNSPECIFIED_ERROR;
    mqtt_output_ack(c, p->qos == 2 ? MQTT_PUBREC : MQTT_PUBACK, p->packet_id, has_reasons ? reason : MQTT_REASON_SUCCESS);
}

static void answer(struct mqtt_conn *c, const struct mqtt_pending *p)
{
    if (p->is_refused)
        answer_refused(c, p);
    else
        mqtt_output_ack(c, p->qos == 2 ? MQTT_PUBREC : MQTT_PUBACK, p->packet_id, MQTT_REASON_SUCCESS);
}

static void drop_note(struct mqtt_pending *p)
{
    mqtt_errors_drop_note(p->note);
    p->note = NULL;
}

static void release(struct mqtt_pending *p)
{
    drop_note(p);
    slab_free(&p->mw->pending_slab, p);
}

static void pop(struct mqtt_conn *c)
{
    struct mqtt_pending *p = c->first_pending;

    c->first_pending = p->next;
    if (!c->first_pending)
        c->last_pending = NULL;
    c->n_pending--;
    c->n_pending_qos2 -= p->qos == 2;
}

/* Room in the client's window again, or the last answer of a drain. */
static void after_answers(struct mqtt_conn *c)
{
    if (c->is_full && c->n_pending < c->receive_maximum) {
        c->is_full = false;
        if (!c->is_waiting)
            mqtt_conn_resume(c);
    }
    if (c->mw->is_draining)
        mqtt_conn_drain(c);
}

static void flush(struct mqtt_conn *c)
{
    while (c->first_pending && c->first_pending->is_settled) {
        struct mqtt_pending *p = c->first_pending;

        pop(c);
        p->conn = NULL;
        answer(c, p); /* may close, which orphans the rest */
        release(p);
    }
    if (c->state == MQTT_OPEN)
        after_answers(c);
}

static void count(const struct mqtt_pending *p)
{
    ledger_count_waiting((enum ledger_route)p->route, -1);
    if (p->is_refused)
        ledger_count_refused((enum ledger_route)p->route, (enum ledger_refusal)p->refusal, p->qos);
    else
        ledger_count_acknowledged((enum ledger_route)p->route);
}

static void settle(struct mqtt_pending *p, bool is_refused, enum ledger_refusal refusal)
{
    p->is_settled = true;
    p->is_refused = is_refused;
    p->refusal = (uint8_t)refusal;
    count(p);
    if (p->qos == 2)
        session_settle(&p->unsettled, !is_refused);
    if (!p->conn) {
        release(p); /* at QoS 2 the session knows what it came to, should the client send it again */
        return;
    }
    if (p->qos == 0) {
        struct mqtt_conn *c = p->conn;

        p->conn = NULL;
        if (is_refused)
            answer_refused(c, p);
        release(p);
        return;
    }
    flush(p->conn);
}

static void on_delivery(struct mail *m)
{
    struct mqtt_pending *p = CONTAINER_OF(m, struct mqtt_pending, delivery.mail);
    enum outcome outcome = p->delivery.outcome;

    settle(p, outcome != OUTCOME_STORED, device_upload_refusal(outcome));
}

static void append(struct mqtt_conn *c, struct mqtt_pending *p)
{
    if (c->last_pending)
        c->last_pending->next = p;
    else
        c->first_pending = p;
    c->last_pending = p;
    c->n_pending++;
    c->n_pending_qos2 += p->qos == 2;
}

static struct mqtt_pending *place(struct mqtt_worker *mw, enum ledger_route route)
{
    struct mqtt_pending *p = slab_new(&mw->pending_slab);

    p->delivery.mail.on_mail = on_delivery;
    p->delivery.home = &mw->worker->loop.mailbox;
    p->mw = mw;
    p->route = (uint8_t)route;
    return p;
}

struct mqtt_pending *mqtt_pending_new(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id,
                                      enum property_bag_on_error on_error)
{
    struct mqtt_pending *p = place(c->mw, route);

    p->packet_id = packet_id;
    p->qos = qos;
    p->on_error = (uint8_t)on_error;
    return p;
}

struct mqtt_pending *mqtt_pending_new_will(struct mqtt_worker *mw, enum ledger_route route)
{
    return place(mw, route);
}

static void enter(struct mqtt_conn *c, struct mqtt_pending *p)
{
    ledger_count_waiting((enum ledger_route)p->route, 1);
    if (p->qos == 0)
        return;
    p->conn = c;
    append(c, p);
    if (p->qos == 2)
        session_add_unsettled(c->ss, &p->unsettled, p->packet_id);
}

void mqtt_pending_enter(struct mqtt_conn *c, struct mqtt_pending *p)
{
    if (p->qos == 0)
        drop_note(p); /* whatever Kafka says, its sender has no interest in it */
    enter(c, p);
}

void mqtt_pending_expect(struct mqtt_pending *p, unsigned n)
{
    p->n_expected = (uint8_t)n;
}

void mqtt_pending_note(struct mqtt_pending *p, enum outcome outcome)
{
    if (outcome != OUTCOME_STORED && !p->is_refused) {
        p->is_refused = true;
        p->refusal = (uint8_t)device_upload_refusal(outcome);
    }
    if (--p->n_expected == 0)
        settle(p, p->is_refused, (enum ledger_refusal)p->refusal);
}

void mqtt_pending_drop(struct mqtt_pending *p)
{
    release(p);
}

bool mqtt_pending_adopt(struct mqtt_conn *c, uint16_t packet_id)
{
    struct unsettled *u = session_find_unsettled(c->ss, packet_id);
    struct mqtt_pending *p = u ? CONTAINER_OF(u, struct mqtt_pending, unsettled) : NULL;

    if (p && !p->conn) {
        p->conn = c;
        append(c, p);
    }
    return p != NULL;
}

void mqtt_pending_acknowledge(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id)
{
    struct mqtt_pending *p;

    if (qos == 0)
        return;
    if (!c->first_pending) {
        mqtt_output_ack(c, qos == 2 ? MQTT_PUBREC : MQTT_PUBACK, packet_id, MQTT_REASON_SUCCESS);
        return;
    }
    /* Others wait before it. */
    p = mqtt_pending_new(c, route, qos, packet_id, PROPERTY_BAG_ON_ERROR_DEFAULT);
    append(c, p);
    p->conn = c;
    p->is_settled = true;
}

void mqtt_pending_refuse(struct mqtt_conn *c, enum ledger_route route, uint8_t qos, uint16_t packet_id,
                         enum property_bag_on_error on_error, enum ledger_refusal why)
{
    mqtt_pending_refuse_place(c, mqtt_pending_new(c, route, qos, packet_id, on_error), why);
}

void mqtt_pending_refuse_place(struct mqtt_conn *c, struct mqtt_pending *p, enum ledger_refusal why)
{
    LOG_INFO(LOG_MQTT, "publish.refused", F_STR("client", session_client_id(c->ss)),
             F_TEXT("reason", ledger_refusal_name(why)));
    enter(c, p);
    p->conn = c; /* also at QoS 0, to close as the device asked */
    settle(p, true, why);
}

void mqtt_pending_orphan(struct mqtt_conn *c)
{
    struct mqtt_pending *p = c->first_pending;

    c->first_pending = c->last_pending = NULL;
    c->n_pending = c->n_pending_qos2 = 0;
    while (p) {
        struct mqtt_pending *next = p->next;

        p->conn = NULL;
        p->next = NULL;
        drop_note(p); /* nobody is there to be told */
        if (p->is_settled)
            release(p);
        p = next;
    }
}
