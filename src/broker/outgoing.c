#include "broker/outgoing.h"

#include "base/check.h"
#include "broker/broker_metrics.h"
#include "broker/link.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "broker/tracker.h"
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

static void tell(struct tracker *t, enum broker_metric what)
{
    if (what == BROKER_ACKNOWLEDGED)
        tracker_acknowledge(t);
    else
        tracker_lose(t, what);
}

/* Whoever follows the message is told what came of it, once. */
static void untrack(struct session *ss, struct outgoing *out, enum broker_metric what)
{
    if (!out->tracker)
        return;
    tell(out->tracker, what);
    out->tracker = NULL;
    ss->n_tracked--;
}

/* The end of a message that waited, before set_free(). */
static void conclude(struct session *ss, struct outgoing *out, enum broker_metric what)
{
    broker_count(what, 1);
    untrack(ss, out, what);
}

/* The end of one that did not. */
static void conclude_request(const struct outgoing_request *request, enum broker_metric what)
{
    broker_count(what, 1);
    if (request->tracker)
        tell(request->tracker, what);
}

/* The client has the message, and is alive. */
static void note_acknowledged(struct session *ss, struct outgoing *out)
{
    conclude(ss, out, BROKER_ACKNOWLEDGED);
    ss->answered_ms = (uint32_t)now_ms(ss);
}

static bool is_crowded(const struct session *ss)
{
    const struct broker_limits *limits = broker_limits(ss->shard);

    return ss->n_queued > limits->queued_messages / 2 || ss->queued_bytes > limits->queued_bytes / 2;
}

static void track(struct session *ss, struct outgoing *out, struct tracker *t)
{
    out->tracker = t;
    if (is_crowded(ss))
        atomic_store(&t->is_crowded, true);
    session_expect_answer(ss, t->ack_timeout_ms);
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
    bool is_kept = request->is_kept || (request->tracker && ss->link);
    struct outgoing *out;

    if (!is_kept && (ss->n_queued >= limits->queued_messages || ss->queued_bytes + bytes > limits->queued_bytes)) {
        conclude_request(request, BROKER_DROPPED_QUEUE_FULL);
        return;
    }
    out = outgoing_new(ss, request);
    if (!out) {
        conclude_request(request, BROKER_DROPPED_NO_MEMORY);
        return;
    }
    list_push(&ss->queued, &out->link);
    ss->n_queued++;
    ss->n_queued_qos0 += request->qos == 0;
    ss->queued_bytes += (uint32_t)bytes;
    if (request->tracker)
        track(ss, out, request->tracker);
}

static enum broker_metric reason_of(err e)
{
    return e == E_LIMIT ? BROKER_DROPPED_TOO_LARGE : BROKER_DROPPED_NO_MEMORY;
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
        conclude_request(request, BROKER_DROPPED_EXPIRED);
        return E_OK;
    }
    e = ss->link->ops->publish(ss->link, &p);
    if (e == E_OK) {
        broker_count(BROKER_DELIVERED, 1);
        conclude_request(request, BROKER_ACKNOWLEDGED);
    } else if (e != E_AGAIN) {
        conclude_request(request, reason_of(e));
        e = E_OK;
    }
    return e;
}

void outgoing_deliver(struct session *ss, const struct outgoing_request *request)
{
    bool is_first = list_is_empty(&ss->queued) && ss->n_resend == 0;

    broker_count(BROKER_MATCHED, 1);
    if (request->tracker)
        tracker_match(request->tracker);
    if (request->qos == 0) {
        bool is_kept = request->is_kept || request->tracker;

        if (!ss->link)
            conclude_request(request, BROKER_DROPPED_OFFLINE);
        else if (!is_first && (is_kept || ss->n_queued_qos0)) /* [MQTT-4.6.0-6] */
            enqueue(ss, request);
        else if (send_at_once(ss, request) == E_AGAIN) {
            if (is_kept)
                enqueue(ss, request);
            else
                conclude_request(request, BROKER_DROPPED_OUTPUT_FULL);
        }
        return;
    }
    enqueue(ss, request);
    if (is_first && ss->link)
        outgoing_pump(ss);
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
        conclude(ss, out, BROKER_DROPPED_EXPIRED);
    } else {
        if (out->qos > 0 && out->packet_id == 0)
            assign_packet_id(ss, out);
        e = publish(ss, out, left_s);
        if (e == E_AGAIN)
            return false;
        if (e != E_OK)
            conclude(ss, out, reason_of(e));
        else if (out->qos > 0)
            is_in_flight = true;
        else
            note_acknowledged(ss, out);
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
                conclude(ss, out, reason_of(e));
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
    note_acknowledged(ss, out);
    set_free(ss, out);
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
    /* From here on only the identifier matters [MQTT-4.3.3-6]: the client has the message. */
    untrack(ss, out, BROKER_ACKNOWLEDGED);
    ss->answered_ms = (uint32_t)now_ms(ss);
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

bool outgoing_repeat(struct session *ss, const struct tracker *tracker)
{
    bool is_found = false;

    for (struct list *link = ss->in_flight.next; ss->link && link != &ss->in_flight; link = link->next) {
        struct outgoing *out = from_link(link);

        if (out->tracker != tracker || out->must_resend)
            continue;
        out->must_resend = is_found = true;
        ss->n_resend++;
    }
    if (is_found)
        outgoing_pump(ss);
    return is_found;
}

static void clear(struct session *ss, struct list *list)
{
    while (!list_is_empty(list)) {
        conclude(ss, from_link(list->next), BROKER_DROPPED_SESSION_END);
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
