#include "broker/outgoing.h"

#include "base/check.h"
#include "broker/broker_metrics.h"
#include "broker/link.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "core/message.h"

enum { PACKET_IDS = UINT16_MAX + 1 /* 0, which is none, included */ };

static struct outgoing *from_link(struct list *link)
{
    return CONTAINER_OF(link, struct outgoing, link);
}

static uint64_t now_ms(const struct session *ss)
{
    return ss->shard->worker->loop.now_ms;
}

/* Queued and in flight are what still waits, whatever becomes of it. */
static void set_free(struct session *ss, struct outgoing *out)
{
    list_remove(&out->link);
    message_unref(out->message);
    mem_free(MEM_BROKER, out->more_ids);
    slab_free(&ss->shard->outgoing_slab, out);
    broker_count(BROKER_QUEUED, -1);
}

static struct outgoing *outgoing_new(struct session *ss, const struct outgoing_request *request)
{
    size_t ids_bytes = request->n_ids * sizeof *request->ids;
    uint32_t *more = request->n_ids > 1 ? mem_try_alloc(MEM_BROKER, ids_bytes) : NULL;
    struct outgoing *out;

    if (request->n_ids > 1 && !more)
        return NULL;
    if (more)
        memcpy(more, request->ids, ids_bytes);
    out = slab_new(&ss->shard->outgoing_slab);
    out->message = message_ref(request->message);
    out->more_ids = more;
    out->id = request->n_ids == 1 ? request->ids[0] : 0;
    out->n_ids = request->n_ids;
    out->qos = request->qos;
    out->retain = request->retain;
    broker_count(BROKER_QUEUED, 1);
    return out;
}

static struct outgoing *find_in_flight(struct session *ss, uint16_t packet_id)
{
    for (struct list *link = ss->in_flight.next; link != &ss->in_flight; link = link->next)
        if (from_link(link)->packet_id == packet_id)
            return from_link(link);
    return NULL;
}

/* An identifier that is not in flight [MQTT-2.2.1-4]. They are given out in a circle, which the counter's own end does not
 * disturb; only when the oldest in flight has been lapped can the next one be in use, and then the list is searched. */
static void assign_packet_id(struct session *ss, struct outgoing *out)
{
    /* The number that comes next may be the one of 0, which is passed over. */
    bool is_lapped = !list_is_empty(&ss->in_flight) && ss->n_assigned + 2 - from_link(ss->in_flight.next)->serial >= PACKET_IDS;

    do
        out->packet_id = (uint16_t)++ss->n_assigned;
    while (out->packet_id == 0 || (is_lapped && find_in_flight(ss, out->packet_id)));
    out->serial = ss->n_assigned;
}

static err publish(struct session *ss, const struct outgoing *out, uint32_t expiry_left_s)
{
    struct link_publish p = {
        .message = out->message,
        .expiry_left_s = expiry_left_s,
        .subscription_ids = out->n_ids > 1 ? out->more_ids : &out->id,
        .n_subscription_ids = out->n_ids,
        .packet_id = out->packet_id,
        .qos = out->qos,
        .dup = out->must_resend,
        .retain = out->retain,
    };
    err e = ss->link->ops->publish(ss->link, &p);

    if (e == E_OK)
        broker_count(BROKER_DELIVERED, 1);
    return e;
}

static void enqueue(struct session *ss, const struct outgoing_request *request)
{
    const struct broker_limits *limits = broker_limits(ss->shard);
    size_t bytes = message_size(request->message);
    struct outgoing *out;

    if (!request->is_kept && (ss->n_queued >= limits->queued_messages || ss->queued_bytes + bytes > limits->queued_bytes)) {
        broker_count(BROKER_DROPPED_QUEUE_FULL, 1);
        return;
    }
    out = outgoing_new(ss, request);
    if (!out) {
        broker_count(BROKER_DROPPED_NO_MEMORY, 1);
        return;
    }
    list_push(&ss->queued, &out->link);
    ss->n_queued++;
    ss->n_queued_qos0 += request->qos == 0;
    ss->queued_bytes += (uint32_t)bytes;
}

/* QoS 0 without a queue before it: written or dropped, nothing is kept. */
static err send_at_once(struct session *ss, const struct outgoing_request *request)
{
    struct link_publish p = {
        .message = request->message,
        .subscription_ids = request->ids,
        .n_subscription_ids = request->n_ids,
        .retain = request->retain,
    };
    err e;

    if (!message_is_alive(request->message, now_ms(ss), &p.expiry_left_s)) {
        broker_count(BROKER_DROPPED_EXPIRED, 1);
        return E_OK;
    }
    e = ss->link->ops->publish(ss->link, &p);
    if (e == E_OK) {
        broker_count(BROKER_DELIVERED, 1);
        broker_count(BROKER_ACKNOWLEDGED, 1);
    } else if (e != E_AGAIN) {
        broker_count(e == E_LIMIT ? BROKER_DROPPED_TOO_LARGE : BROKER_DROPPED_NO_MEMORY, 1);
        e = E_OK;
    }
    return e;
}

void outgoing_deliver(struct session *ss, const struct outgoing_request *request)
{
    bool is_first = list_is_empty(&ss->queued) && ss->n_resend == 0;

    broker_count(BROKER_MATCHED, 1);
    if (request->qos == 0) {
        if (!ss->link)
            broker_count(BROKER_DROPPED_OFFLINE, 1);
        else if (!is_first && (request->is_kept || ss->n_queued_qos0)) /* [MQTT-4.6.0-6] */
            enqueue(ss, request);
        else if (send_at_once(ss, request) == E_AGAIN) {
            if (request->is_kept)
                enqueue(ss, request);
            else
                broker_count(BROKER_DROPPED_OUTPUT_FULL, 1);
        }
        return;
    }
    enqueue(ss, request);
    if (is_first && ss->link)
        outgoing_pump(ss);
}

static void count_dropped(err e)
{
    broker_count(e == E_LIMIT ? BROKER_DROPPED_TOO_LARGE : BROKER_DROPPED_NO_MEMORY, 1);
}

static void to_in_flight(struct session *ss, struct outgoing *out)
{
    list_remove(&out->link);
    list_push(&ss->in_flight, &out->link);
    out->stage = OUTGOING_PUBLISHED;
    ss->n_in_flight++;
}

/* Sends the first of the queue. False: it must wait. */
static bool send_first(struct session *ss)
{
    struct outgoing *out = from_link(ss->queued.next);
    size_t bytes = message_size(out->message);
    bool is_in_flight = false;
    uint32_t left_s;
    err e;

    if (out->qos > 0 && ss->n_in_flight >= ss->window)
        return false;
    if (!message_is_alive(out->message, now_ms(ss), &left_s)) {
        broker_count(BROKER_DROPPED_EXPIRED, 1);
    } else {
        if (out->qos > 0 && out->packet_id == 0)
            assign_packet_id(ss, out);
        e = publish(ss, out, left_s);
        if (e == E_AGAIN)
            return false;
        if (e != E_OK)
            count_dropped(e);
        else if (out->qos == 0)
            broker_count(BROKER_ACKNOWLEDGED, 1);
        else
            is_in_flight = true;
    }
    ss->n_queued--;
    ss->n_queued_qos0 -= out->qos == 0;
    ss->queued_bytes -= (uint32_t)bytes;
    if (is_in_flight)
        to_in_flight(ss, out);
    else
        set_free(ss, out);
    return true;
}

/* Sends what an earlier connection left in flight. False: some of it must wait. */
static bool resend(struct session *ss)
{
    struct list *next;

    for (struct list *link = ss->in_flight.next; ss->n_resend && link != &ss->in_flight; link = next) {
        struct outgoing *out = from_link(link);
        uint32_t left_s = 0;
        err e;

        next = link->next;
        if (!out->must_resend)
            continue;
        if (out->stage == OUTGOING_RELEASED) {
            ss->link->ops->pubrel(ss->link, out->packet_id);
        } else {
            /* An expired one is sent all the same: its packet identifier must be settled. */
            (void)message_is_alive(out->message, now_ms(ss), &left_s);
            e = publish(ss, out, left_s);
            if (e == E_AGAIN)
                return false;
            if (e != E_OK) {
                count_dropped(e);
                ss->n_in_flight--;
                ss->n_resend--;
                set_free(ss, out);
                continue;
            }
        }
        out->must_resend = false;
        ss->n_resend--;
    }
    return true;
}

void outgoing_pump(struct session *ss)
{
    if (!ss->link || (ss->n_resend && !resend(ss)))
        return;
    while (!list_is_empty(&ss->queued) && send_first(ss))
        ;
}

static void settle(struct session *ss, struct outgoing *out)
{
    if (out->must_resend)
        ss->n_resend--;
    ss->n_in_flight--;
    set_free(ss, out);
    broker_count(BROKER_ACKNOWLEDGED, 1);
    outgoing_pump(ss);
}

enum outgoing_answer outgoing_on_puback(struct session *ss, uint16_t packet_id)
{
    struct outgoing *out = find_in_flight(ss, packet_id);

    if (!out || out->qos != 1)
        return out ? OUTGOING_MISMATCH : OUTGOING_UNKNOWN;
    settle(ss, out);
    return OUTGOING_ANSWERED;
}

enum outgoing_answer outgoing_on_pubrec(struct session *ss, uint16_t packet_id, bool is_error)
{
    struct outgoing *out = find_in_flight(ss, packet_id);

    if (!out || out->qos != 2)
        return out ? OUTGOING_MISMATCH : OUTGOING_UNKNOWN;
    if (is_error) {
        settle(ss, out);
        return OUTGOING_ANSWERED;
    }
    /* From here on only the identifier matters [MQTT-4.3.3-6]. */
    message_unref(out->message);
    out->message = NULL;
    out->stage = OUTGOING_RELEASED;
    return OUTGOING_ANSWERED;
}

enum outgoing_answer outgoing_on_pubcomp(struct session *ss, uint16_t packet_id)
{
    struct outgoing *out = find_in_flight(ss, packet_id);

    if (!out || out->stage != OUTGOING_RELEASED)
        return out ? OUTGOING_MISMATCH : OUTGOING_UNKNOWN;
    settle(ss, out);
    return OUTGOING_ANSWERED;
}

void outgoing_resume(struct session *ss)
{
    ss->n_resend = ss->n_in_flight;
    for (struct list *link = ss->in_flight.next; link != &ss->in_flight; link = link->next)
        from_link(link)->must_resend = true;
}

static void clear(struct session *ss, struct list *list)
{
    while (!list_is_empty(list)) {
        broker_count(BROKER_DROPPED_SESSION_END, 1);
        set_free(ss, from_link(list->next));
    }
}

void outgoing_clear(struct session *ss)
{
    clear(ss, &ss->in_flight);
    clear(ss, &ss->queued);
    ss->n_in_flight = ss->n_resend = 0;
    ss->n_queued = ss->n_queued_qos0 = ss->queued_bytes = 0;
}
