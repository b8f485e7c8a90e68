#include "http/http_conn.h"

#include "base/check.h"
#include "base/log.h"
#include "http/http2_conn.h"
#include "http/http_pool.h"
#include "http/http_reply.h"
#include "loop/stream.h"

enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_HELD, PHASE_LINGER, PHASE_HTTP2 };

enum {
    LINGER_BYTES = 256 * 1024,
    PIPELINED_BYTES = 64 * 1024, /* kept while a handler has the request before */
};

struct http_conn {
    struct stream stream;
    struct timer timer;
    struct list link;
    struct http_server *srv;
    struct http_exchange *x; /* NULL when idle and in linger */
    struct http2_conn *h2;   /* NULL: HTTP/1 */
    uint64_t deadline_ms;
    struct http1_parser parser;
    uint32_t progress; /* body bytes since the deadline was set; bytes thrown away in linger */
    uint8_t phase;
    uint8_t close_reason; /* enum http_close_reason, once has_reason */
    bool has_reason;
    bool has_received; /* x is counted */
    bool must_close;   /* after the next response */
    bool is_in_data;   /* inside on_data, which goes on by itself */
    bool is_fresh;     /* no request has come yet */
    bool is_decided;   /* which version it speaks */
};

static struct http_conn *conn_of(struct stream *s)
{
    return CONTAINER_OF(s, struct http_conn, stream);
}

static const struct http_metrics *metrics_of(const struct http_conn *c)
{
    return c->srv->options->metrics;
}

void http_conn_end(struct http_conn *c, enum http_close_reason reason)
{
    if (!c->has_reason)
        c->close_reason = (uint8_t)reason;
    c->has_reason = true;
    stream_close(&c->stream, E_OK);
}

/* ---- time limits. The timer is lazy: it is set anew only to run earlier, else it looks at the deadline when it runs. ---- */

void http_conn_set_deadline(struct http_conn *c, uint32_t configured_ms, uint32_t default_ms)
{
    struct wheel *wh = &c->srv->loop->wheel;
    uint32_t delay_ms = configured_ms ? configured_ms : default_ms;

    c->deadline_ms = wh->clock_ms + delay_ms;
    if (!wheel_is_set(&c->timer) || c->timer.due_ms > c->deadline_ms)
        wheel_start(wh, &c->timer, delay_ms);
}

void http_conn_clear_deadline(struct http_conn *c)
{
    c->deadline_ms = UINT64_MAX;
}

static void wait_for_request(struct http_conn *c)
{
    const struct http_server_options *o = c->srv->options;

    if (stream_pending(&c->stream) > 0)
        http_conn_set_deadline(c, o->output_timeout_ms, HTTP_CONN_OUTPUT_TIMEOUT_MS);
    else if (c->is_fresh)
        http_conn_set_deadline(c, o->head_timeout_ms, HTTP_CONN_HEAD_TIMEOUT_MS);
    else
        http_conn_set_deadline(c, o->idle_timeout_ms, HTTP_CONN_IDLE_TIMEOUT_MS);
}

static void wait_for_head(struct http_conn *c)
{
    http_conn_set_deadline(c, c->srv->options->head_timeout_ms, HTTP_CONN_HEAD_TIMEOUT_MS);
}

static void wait_for_body(struct http_conn *c)
{
    c->progress = 0;
    http_conn_set_deadline(c, c->srv->options->body_timeout_ms, HTTP_CONN_BODY_TIMEOUT_MS);
}

/* ---- the end of a connection ---- */

static void shut(struct http_conn *c)
{
    c->progress = 0;
    http_conn_set_deadline(c, 0, HTTP_CONN_LINGER_TIMEOUT_MS);
    stream_shut_output(&c->stream);
}

void http_conn_linger(struct http_conn *c, enum http_close_reason reason)
{
    c->phase = PHASE_LINGER;
    c->close_reason = (uint8_t)reason;
    c->has_reason = true;
    if (c->stream.is_paused)
        stream_resume(&c->stream);
    if (stream_pending(&c->stream) == 0)
        shut(c);
    else
        http_conn_set_deadline(c, c->srv->options->output_timeout_ms, HTTP_CONN_OUTPUT_TIMEOUT_MS);
}

static size_t throw_away(struct http_conn *c, size_t n)
{
    c->progress += (uint32_t)n;
    if (c->progress > LINGER_BYTES)
        http_conn_end(c, HTTP_CLOSED_DONE);
    return n;
}

/* ---- responses ---- */

static void count_received(struct http_conn *c)
{
    http_metrics_count_received(metrics_of(c));
    c->has_received = true;
}

static void count_answered(struct http_conn *c, uint16_t status)
{
    http_metrics_count_answered(metrics_of(c), status);
    c->has_received = false;
}

static void respond(struct http_exchange *x, const struct http_response *r)
{
    struct http_conn *c = x->carrier;
    struct http_server *srv = c->srv;
    bool closes = c->must_close || srv->is_draining || !x->request.is_kept_alive, was_held = c->phase == PHASE_HELD;
    uint16_t status = http_reply_write(&c->stream, x, r, closes);

    count_answered(c, status);
    c->x = NULL;
    c->phase = PHASE_IDLE;
    list_remove(&x->link);
    http_pool_give(x);
    if (!status)
        http_conn_end(c, HTTP_CLOSED_ERROR);
    else if (closes)
        http_conn_linger(c, was_held ? HTTP_CLOSED_DONE : HTTP_CLOSED_REFUSED);
    else if (!c->is_in_data)
        wait_for_request(c);
    if (!c->is_in_data) /* what came in the meantime is read, or thrown away */
        stream_resume(&c->stream);
    if (was_held)
        http_server_finish_exchange(srv);
}

static const struct http_transport transport = {.respond = respond};

/* Answers what no handler will see, and ends the connection. */
static void refuse(struct http_conn *c, uint16_t status, const char *text, enum http1_refusal why)
{
    LOG_DEBUG(LOG_HTTP, "http.refused", F_INT("status", status), F_TEXT("reason", text));
    metric_add(&metrics_of(c)->refused[why], 1);
    if (!c->has_received)
        count_received(c);
    c->must_close = true;
    http_exchange_respond_error(c->x, status, str_from(text));
}

/* ---- requests ---- */

static void on_head(struct http_conn *c, size_t n_unread)
{
    struct http_server *srv = c->srv;
    struct http_exchange *x = c->x;
    bool has_body = x->request.is_chunked || x->request.content_length > 0;

    count_received(c);
    c->phase = PHASE_BODY;
    c->is_fresh = false;
    wait_for_body(c);
    x->route = http_route_find(srv->options->routes, srv->options->n_routes, x, &x->allowed);
    if (x->route && x->route->max_body_bytes)
        c->parser.max_body_bytes = x->route->max_body_bytes;
    if (!x->request.expects_continue || !has_body || n_unread > 0 || x->request.content_length > c->parser.max_body_bytes)
        return;
    if (x->route) {
        if (stream_write(&c->stream, STR("HTTP/1.1 100 Continue\r\n\r\n")) != E_OK)
            http_conn_end(c, HTTP_CLOSED_ERROR);
    } else { /* RFC 9110 section 10.1.1: the final answer at once; the peer may or may not send the body */
        c->must_close = true;
        http_reply_without_route(x);
    }
}

static void on_body(struct http_conn *c, struct str piece)
{
    struct http_exchange *x = c->x;
    uint64_t announced = x->request.content_length;
    size_t room = announced < HTTP_CONN_BODY_RESERVE_BYTES ? (size_t)announced : HTTP_CONN_BODY_RESERVE_BYTES;

    c->progress += (uint32_t)piece.n;
    if (c->progress >= HTTP_CONN_BODY_PROGRESS_BYTES)
        wait_for_body(c);
    if (!x->route) /* read over, so that the connection can stay */
        return;
    if ((buf_size(&x->body) == 0 && room > piece.n && !buf_reserve(&x->body, MEM_HTTP, room)) ||
        buf_append(&x->body, MEM_HTTP, piece) != E_OK)
        refuse(c, 503, "no memory for the body", HTTP1_REFUSED_MEMORY);
}

static void dispatch(struct http_conn *c)
{
    struct http_exchange *x = c->x;

    x->request.body = buf_str(&x->body);
    c->phase = PHASE_HELD;
    http_server_hold_exchange(c->srv, x);
    if (x->route)
        x->route->handler(x, x->route->context); /* may have answered: x may be gone */
    else
        http_reply_without_route(x);
}

static void begin_request(struct http_conn *c)
{
    c->x = http_pool_take(c->srv);
    c->x->transport = &transport;
    c->x->carrier = c;
    c->x->tls = c->stream.tls;
    c->x->fd = c->stream.io.fd;
    c->phase = PHASE_HEAD;
}

static void drop_request(struct http_conn *c)
{
    http_pool_give(c->x);
    c->x = NULL;
    c->phase = PHASE_IDLE;
}

static void read_step(struct http_conn *c, struct str *in)
{
    struct str body = {0};

    switch (http1_parser_next(&c->parser, &c->x->head, &c->x->request, in, &body)) {
    case HTTP1_MORE: /* an empty line before a request is not yet one */
        if (!http1_parser_is_inside(&c->parser))
            drop_request(c);
        break;
    case HTTP1_HEAD:
        on_head(c, in->n);
        break;
    case HTTP1_BODY:
        on_body(c, body);
        break;
    case HTTP1_END:
        dispatch(c);
        break;
    case HTTP1_BAD:
        refuse(c, http1_refusal_status(c->parser.refusal), http1_refusal_text(c->parser.refusal), c->parser.refusal);
        break;
    }
}

/* A peer that does not read its responses is not read either. */
static bool can_begin(const struct http_conn *c, size_t n_unread)
{
    return !c->has_reason && c->phase == PHASE_IDLE && n_unread > 0 && stream_pending(&c->stream) <= HTTP_CONN_OUTPUT_BYTES;
}

static bool is_reading(const struct http_conn *c)
{
    return !c->has_reason && (c->phase == PHASE_HEAD || c->phase == PHASE_BODY);
}

/* Where a connection stands when it has read what it could. */
static void settle(struct http_conn *c, bool has_begun, size_t n_unread)
{
    if (c->phase == PHASE_HEAD && has_begun)
        wait_for_head(c);
    else if (c->phase == PHASE_IDLE)
        wait_for_request(c);
    if ((c->phase == PHASE_IDLE && n_unread > 0) || (c->phase == PHASE_HELD && n_unread >= PIPELINED_BYTES))
        stream_pause(&c->stream);
}

/* ---- versions ---- */

/* With TLS its handshake has chosen (RFC 7301), without it the first bytes tell. */
static enum http2_preface find_preface(const struct http_conn *c, struct str bytes)
{
    if (!c->stream.tls)
        return http2_conn_detect(bytes);
    return str_equal(tls_conn_alpn(c->stream.tls), STR("h2")) ? HTTP2_PREFACE_WHOLE : HTTP2_PREFACE_NOT;
}

/* False: more must come to tell. */
static bool decide(struct http_conn *c, struct str bytes)
{
    enum http2_preface preface = find_preface(c, bytes);

    if (preface == HTTP2_PREFACE_PART)
        return false;
    c->is_decided = true;
    if (preface == HTTP2_PREFACE_NOT)
        return true;
    c->h2 = http2_conn_new(c, c->srv, &c->stream);
    if (c->h2)
        c->phase = PHASE_HTTP2;
    else
        http_conn_end(c, HTTP_CLOSED_ERROR);
    return true;
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct http_conn *c = conn_of(s);
    struct str in = bytes;
    bool has_begun = false;

    if (!c->is_decided && !decide(c, bytes))
        return 0;
    if (c->phase == PHASE_LINGER)
        return throw_away(c, bytes.n);
    if (c->phase == PHASE_HTTP2)
        return http2_conn_feed(c->h2, bytes);
    c->is_in_data = true;
    while (can_begin(c, in.n) || is_reading(c)) {
        size_t before = in.n;
        uint8_t phase;

        if (c->phase == PHASE_IDLE) {
            begin_request(c);
            has_begun = true;
        }
        phase = c->phase;
        read_step(c, &in);
        /* Without input the end of a request can still be found. */
        if (in.n == before && c->phase == phase)
            break;
    }
    c->is_in_data = false;
    settle(c, has_begun, in.n);
    return bytes.n - in.n;
}

/* ---- what the loop tells ---- */

static void on_drain(struct stream *s)
{
    struct http_conn *c = conn_of(s);

    if (c->phase == PHASE_LINGER) {
        shut(c);
    } else if (c->phase == PHASE_HTTP2) {
        http2_conn_on_drain(c->h2);
    } else if (c->phase == PHASE_IDLE) {
        wait_for_request(c);
        if (s->is_paused) /* requests waited until the peer took its responses */
            stream_resume(s);
    }
}

static void on_close(struct stream *s, err why)
{
    struct http_conn *c = conn_of(s);
    struct http_server *srv = c->srv;
    struct http_exchange *x = c->x;
    uint8_t reason = HTTP_CLOSED_ERROR;

    if (c->has_reason)
        reason = c->close_reason;
    else if (why == E_CLOSED)
        reason = HTTP_CLOSED_PEER;
    metric_add(&metrics_of(c)->closed[reason], 1);
    if (c->has_received)
        count_answered(c, 0);
    http2_conn_free(c->h2);
    wheel_stop(&c->timer);
    if (x && c->phase == PHASE_HELD) {
        x->carrier = NULL;
        x->tls = NULL;
        x->fd = 0;
        if (x->on_cancel)
            x->on_cancel(x);
    } else if (x) {
        http_pool_give(x);
    }
    http_server_remove_conn(srv, &c->link);
    mem_free(MEM_HTTP, c);
}

static void on_timer(struct timer *t)
{
    struct http_conn *c = CONTAINER_OF(t, struct http_conn, timer);
    struct wheel *wh = &c->srv->loop->wheel;

    if (c->deadline_ms == UINT64_MAX)
        return;
    if (c->deadline_ms > wh->clock_ms) {
        wheel_start(wh, t, c->deadline_ms - wh->clock_ms);
        return;
    }
    switch ((enum phase)c->phase) {
    case PHASE_IDLE:
        http_conn_end(c, stream_pending(&c->stream) ? HTTP_CLOSED_SLOW : HTTP_CLOSED_IDLE);
        break;
    case PHASE_HEAD:
    case PHASE_BODY:
        refuse(c, 408, "the request took too long", HTTP1_REFUSED_NOT);
        c->close_reason = HTTP_CLOSED_SLOW;
        break;
    case PHASE_HELD: /* the handler's time is the handler's matter */
        break;
    case PHASE_LINGER:
        http_conn_end(c, HTTP_CLOSED_DONE);
        break;
    case PHASE_HTTP2:
        http2_conn_on_deadline(c->h2);
        break;
    }
}

static const struct stream_ops ops = {
    .on_data = on_data, .on_drain = on_drain, .on_close = on_close, .is_edge_triggered = true};

/* ---- the server's side ---- */

err http_conn_open(struct http_server *srv, int fd)
{
    struct http_conn *c = mem_alloc_zero(MEM_HTTP, sizeof *c);
    err e =
        srv->tls ? stream_open_tls(&c->stream, srv->loop, fd, &ops, srv->tls) : stream_open(&c->stream, srv->loop, fd, &ops);

    if (e != E_OK) {
        mem_free(MEM_HTTP, c);
        return e;
    }
    c->srv = srv;
    c->timer.on_timer = on_timer;
    c->is_fresh = true;
    http1_parser_init(&c->parser, srv->options->limits ? srv->options->limits : &http1_limits_default);
    list_push(&srv->conns, &c->link);
    srv->n_conns++;
    wait_for_request(c);
    return E_OK;
}

void http_conn_drain(struct list *link)
{
    struct http_conn *c = CONTAINER_OF(link, struct http_conn, link);

    if (c->phase == PHASE_HTTP2)
        http2_conn_drain(c->h2);
    if (c->phase != PHASE_IDLE)
        return;
    if (stream_pending(&c->stream) > 0)
        http_conn_linger(c, HTTP_CLOSED_DONE);
    else
        http_conn_end(c, HTTP_CLOSED_DONE);
}

void http_conn_cut(struct list *link)
{
    http_conn_end(CONTAINER_OF(link, struct http_conn, link), HTTP_CLOSED_DRAIN);
}
