#include "adapter/mqtt/mqtt_conn.h"

#include "adapter/mqtt/mqtt_events.h"
#include "adapter/mqtt/mqtt_extras.h"
#include "adapter/mqtt/mqtt_handlers.h"
#include "adapter/mqtt/mqtt_handshake.h"
#include "adapter/mqtt/mqtt_login.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_output.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_subscribe_in.h"
#include "base/check.h"
#include "base/log.h"
#include "loop/loop.h"
#include "registry/usage.h"

enum {
    MS_PER_S = 1000,
    LINGER_MS = 5000,   /* for a client to take its last packet */
    FAREWELL_MS = 1000, /* and then to close its side */
};

/* Together with the session (broker/session.c) the price of an idle client. */
static_assert(sizeof(struct mqtt_conn) <= 248, "a connection has outgrown its budget");

static struct mqtt_conn *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct mqtt_conn, stream);
}

static struct loop *loop_of(const struct mqtt_conn *c)
{
    return &c->mw->worker->loop;
}

static void start_timer(struct mqtt_conn *c, uint64_t delay_ms)
{
    wheel_start(&loop_of(c)->wheel, &c->timer, delay_ms);
}

static enum handle refuse_type(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    (void)frame;
    mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR);
    return HANDLE_DONE;
}

typedef enum handle (*handler)(struct mqtt_conn *c, const struct mqtt_frame *frame);

/* What an accepted client may send. A second CONNECT is a protocol error [MQTT-3.1.0-2]. */
static const handler handlers[] = {
    [MQTT_CONNECT] = refuse_type,         [MQTT_CONNACK] = refuse_type,
    [MQTT_PUBLISH] = mqtt_handle_publish, [MQTT_PUBACK] = mqtt_handle_ack,
    [MQTT_PUBREC] = mqtt_handle_ack,      [MQTT_PUBREL] = mqtt_handle_ack,
    [MQTT_PUBCOMP] = mqtt_handle_ack,     [MQTT_SUBSCRIBE] = mqtt_handle_subscribe,
    [MQTT_SUBACK] = refuse_type,          [MQTT_UNSUBSCRIBE] = mqtt_handle_unsubscribe,
    [MQTT_UNSUBACK] = refuse_type,        [MQTT_PINGREQ] = mqtt_handle_pingreq,
    [MQTT_PINGRESP] = refuse_type,        [MQTT_DISCONNECT] = mqtt_handle_disconnect,
    [MQTT_AUTH] = mqtt_handle_auth,
};

static enum handle dispatch(struct mqtt_conn *c, const struct mqtt_frame *frame, struct str bytes)
{
    if (c->state == MQTT_OPEN)
        return handlers[frame->type](c, frame);
    if (frame->type == MQTT_CONNECT)
        return mqtt_handle_connect(c, frame, bytes);
    mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR); /* [MQTT-3.1.0-1] */
    return HANDLE_DONE;
}

static uint32_t packet_limit(const struct mqtt_conn *c)
{
    return c->state == MQTT_OPEN ? c->max_packet_bytes : (uint32_t)mqtt_limits(c->mw)->max_packet_bytes;
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct mqtt_conn *c = from_stream(s);
    size_t used = 0;
    unsigned packets = 0;

    while (used < bytes.n && c->state != MQTT_CLOSING) {
        struct str rest = str_from_offset(bytes, used);
        struct mqtt_frame frame;
        enum decode d = mqtt_frame_decode(rest, (enum mqtt_version)c->version, packet_limit(c), &frame);

        if (d == DECODE_MORE)
            break;
        if (d == DECODE_BAD) {
            mqtt_conn_fail(c, frame.reason);
            break;
        }
        if (dispatch(c, &frame, rest) == HANDLE_WAIT)
            break;
        used += frame.size;
        packets++;
        if (stream_pending(&c->stream) > mqtt_limits(c->mw)->output_bytes) { /* answers to a client that does not read them */
            c->is_choked = true;
            stream_pause(s);
            break;
        }
    }
    if (packets) {
        c->last_packet_ms = (uint32_t)loop_of(c)->now_ms;
        mqtt_metrics_count(MQTT_COUNT_PACKETS, packets);
    }
    /* What a closing client still sent is nobody's any more [MQTT-3.1.4-6]. */
    return c->state == MQTT_CLOSING ? bytes.n : used;
}

static void on_drain(struct stream *s)
{
    struct mqtt_conn *c = from_stream(s);

    if (c->state == MQTT_OPEN) {
        if (c->is_choked) {
            c->is_choked = false;
            mqtt_conn_resume(c);
        }
        session_pump(c->ss);
    } else if (c->state == MQTT_CLOSING) { /* mqtt_conn_finish() */
        stream_shut_output(s);
        start_timer(c, FAREWELL_MS);
    }
}

void mqtt_conn_count_end(struct mqtt_conn *c)
{
    usage_disconnect(c->ss->principal.tenant, (int64_t)loop_wall_ms());
}

static void leave_session(struct mqtt_conn *c, bool publishes_will)
{
    struct session *ss = c->ss;

    if (ss)
        mqtt_conn_count_end(c);
    c->ss = NULL;
    if (ss)
        session_detach(ss, &c->link, publishes_will);
}

/* All that ties a connection to others, before it closes. */
static void let_go(struct mqtt_conn *c, bool publishes_will)
{
    bool was_open = c->state == MQTT_OPEN;

    /* Whoever knows better has told it before. */
    mqtt_events_tell_disconnect(c, MQTT_END_SERVER, MQTT_REASON_SERVER_SHUTTING_DOWN);
    c->state = MQTT_CLOSING;
    wheel_stop(&c->timer);
    mqtt_pending_orphan(c);
    if (was_open) {
        mqtt_subscribe_cancel(c);
        mqtt_extras_free(c);
        leave_session(c, publishes_will);
    } else {
        mqtt_login_cancel(c);
        mqtt_handshake_drop(c->handover);
        c->handover = NULL;
    }
}

static void on_close(struct stream *s, err why)
{
    struct mqtt_conn *c = from_stream(s);
    struct mqtt_worker *mw = c->mw;

    if (c->state != MQTT_CLOSING) {
        LOG_DEBUG(LOG_MQTT, "connection.lost", F_TEXT("why", err_name(why)));
        mqtt_events_tell_disconnect(c, MQTT_END_NETWORK, MQTT_REASON_SUCCESS);
        let_go(c, true);
    }
    wheel_stop(&c->timer);
    list_remove(&c->list);
    mqtt_metrics_count(MQTT_COUNT_CONNECTIONS, -1);
    slab_free(&mw->conn_slab, c);
    mqtt_worker_count_closed(mw);
}

static const struct stream_ops stream_ops = {.on_data = on_data, .on_drain = on_drain, .on_close = on_close};

/* The client was not heard of for one and a half times its keep-alive time [MQTT-3.1.2-22]. A connection that we do not read
 * cannot be blamed for silence, unless the client does not read either. */
static void check_keep_alive(struct mqtt_conn *c)
{
    uint32_t limit_ms = (uint32_t)c->keep_alive_s * MS_PER_S * 3 / 2;
    uint32_t silent_ms = (uint32_t)loop_of(c)->now_ms - c->last_packet_ms;

    if (c->stream.is_paused && !c->is_choked) {
        c->last_packet_ms = (uint32_t)loop_of(c)->now_ms;
        silent_ms = 0;
    }
    if (silent_ms < limit_ms) {
        start_timer(c, limit_ms - silent_ms);
        return;
    }
    mqtt_metrics_count(MQTT_COUNT_KEEP_ALIVE_TIMEOUTS, 1);
    LOG_INFO(LOG_MQTT, "connection.keep_alive_timeout", F_STR("client", session_client_id(c->ss)));
    mqtt_conn_fail(c, MQTT_REASON_KEEP_ALIVE_TIMEOUT);
}

static void on_timer(struct timer *t)
{
    struct mqtt_conn *c = CONTAINER_OF(t, struct mqtt_conn, timer);

    if (c->state == MQTT_OPEN) {
        check_keep_alive(c);
    } else if (c->state == MQTT_WAIT_CONNECT) {
        mqtt_metrics_count(MQTT_COUNT_CONNECT_TIMEOUTS, 1);
        mqtt_conn_close(c, false);
    } else {
        stream_close(&c->stream, E_TIMEOUT);
    }
}

static struct mqtt_conn *conn_new(struct mqtt_worker *mw, uint8_t listener)
{
    struct mqtt_conn *c = slab_new(&mw->conn_slab);

    c->mw = mw;
    c->listener = listener;
    c->link.ops = &mqtt_output_link_ops;
    c->timer.on_timer = on_timer;
    list_push(&mw->connections, &c->list);
    mw->n_connections++;
    atomic_fetch_add(&mw->adapter->n_connections, 1);
    mqtt_metrics_count(MQTT_COUNT_CONNECTIONS, 1);
    return c;
}

static void conn_failed(struct mqtt_conn *c)
{
    struct mqtt_worker *mw = c->mw;

    list_remove(&c->list);
    mqtt_metrics_count(MQTT_COUNT_CONNECTIONS, -1);
    slab_free(&mw->conn_slab, c);
    mqtt_worker_count_closed(mw);
}

void mqtt_conn_accept(struct mqtt_worker *mw, uint8_t listener, int fd)
{
    struct tls *tls = generation_listener_tls(mw->generation, listener);
    struct mqtt_conn *c = conn_new(mw, listener);
    struct loop *l = &mw->worker->loop;
    err e = tls ? stream_open_tls(&c->stream, l, fd, &stream_ops, tls) : stream_open(&c->stream, l, fd, &stream_ops);

    if (e != E_OK) {
        conn_failed(c);
        return;
    }
    start_timer(c, mqtt_limits(mw)->connect_timeout_ms);
}

void mqtt_conn_adopt(struct mqtt_worker *mw, struct mqtt_handover *handover)
{
    struct mqtt_conn *c = conn_new(mw, handover->listener);

    if (stream_adopt(&c->stream, &mw->worker->loop, &stream_ops, &handover->parts) != E_OK) {
        mqtt_handshake_drop(handover);
        conn_failed(c);
        return;
    }
    c->handover = handover;
    start_timer(c, mqtt_limits(mw)->connect_timeout_ms);
    if (mw->is_draining)
        mqtt_conn_drain(c);
}

static bool is_nobodys_fault(enum mqtt_reason reason)
{
    return reason == MQTT_REASON_KEEP_ALIVE_TIMEOUT || reason == MQTT_REASON_ADMINISTRATIVE_ACTION ||
           reason == MQTT_REASON_MAXIMUM_CONNECT_TIME;
}

void mqtt_conn_fail(struct mqtt_conn *c, enum mqtt_reason reason)
{
    if (c->state == MQTT_CLOSING)
        return;
    mqtt_metrics_count(MQTT_COUNT_PROTOCOL_ERRORS, !is_nobodys_fault(reason));
    LOG_INFO(LOG_MQTT, "connection.fail", F_STR("client", c->ss ? session_client_id(c->ss) : STR("")), F_INT("code", reason),
             F_TEXT("reason", mqtt_reason_name(reason)));
    mqtt_events_tell_disconnect(c, MQTT_END_SERVER, reason);
    if (c->state == MQTT_OPEN)
        mqtt_output_disconnect(c, reason);
    let_go(c, true);
    mqtt_conn_finish(c);
}

void mqtt_conn_close(struct mqtt_conn *c, bool publishes_will)
{
    if (c->state == MQTT_CLOSING)
        return;
    let_go(c, publishes_will);
    stream_close(&c->stream, E_OK);
}

void mqtt_conn_finish(struct mqtt_conn *c)
{
    if (c->state != MQTT_CLOSING)
        let_go(c, true);
    if (stream_pending(&c->stream) == 0) {
        stream_close(&c->stream, E_OK);
        return;
    }
    /* What it still sends is read and dropped: unread, it would make the kernel reset the connection, and the client would lose
     * the packet that tells it why. */
    stream_resume(&c->stream);
    start_timer(c, LINGER_MS);
}

static void wait_in(struct mqtt_conn *c, struct list *where)
{
    if (!c->is_waiting) {
        mqtt_metrics_count(MQTT_COUNT_WAITS, 1);
        list_remove(&c->list);
        list_push(where, &c->list);
        c->is_waiting = true;
    }
    stream_pause(&c->stream);
}

void mqtt_conn_wait(struct mqtt_conn *c)
{
    wait_in(c, &c->mw->waiting);
}

void mqtt_conn_wait_for_topic(struct mqtt_conn *c)
{
    wait_in(c, &c->mw->waiting_topics);
}

void mqtt_conn_resume(struct mqtt_conn *c)
{
    if (c->is_waiting) {
        list_remove(&c->list);
        list_push(&c->mw->connections, &c->list);
        c->is_waiting = false;
    }
    if (c->mw->is_draining || c->barrier || c->is_full || c->is_choked)
        return;
    stream_resume(&c->stream);
}

void mqtt_conn_start_keep_alive(struct mqtt_conn *c, uint16_t keep_alive_s)
{
    c->keep_alive_s = keep_alive_s;
    c->last_packet_ms = (uint32_t)loop_of(c)->now_ms;
    wheel_stop(&c->timer);
    if (keep_alive_s)
        start_timer(c, (uint64_t)keep_alive_s * MS_PER_S * 3 / 2);
}

void mqtt_conn_open(struct mqtt_conn *c, struct session *ss)
{
    const struct config_limits *limits = mqtt_limits(c->mw);

    mqtt_handshake_drop(c->handover);
    c->handover = NULL;
    c->ss = ss;
    c->max_packet_bytes = (uint32_t)limits->max_packet_bytes;
    c->receive_maximum = (uint16_t)limits->receive_maximum;
    c->topic_alias_maximum = (uint16_t)limits->topic_alias_maximum;
    c->state = MQTT_OPEN;
}

void mqtt_conn_drain(struct mqtt_conn *c)
{
    if (c->state == MQTT_CLOSING)
        return;
    stream_pause(&c->stream);
    if (c->first_pending)
        return;
    if (c->state == MQTT_OPEN)
        mqtt_output_disconnect(c, MQTT_REASON_SERVER_SHUTTING_DOWN);
    let_go(c, false);
    mqtt_conn_finish(c);
}

void mqtt_conn_sent(struct mqtt_conn *c, err e)
{
    if (e == E_OK)
        stream_flush(&c->stream);
    else if (e == E_NOMEM)
        stream_close(&c->stream, e); /* at the end of the turn: the session may be at work on this very call */
    /* E_LIMIT: the client takes only smaller packets; it must do without this one [MQTT-3.1.2-24]. */
}
