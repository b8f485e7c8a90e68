#include "http/http2_stream.h"

#include "base/check.h"
#include "base/log.h"
#include "http/http_pool.h"
#include "http/http_reply.h"

static const struct http_metrics *metrics_of(const struct http2_stream *st)
{
    return st->h2->srv->options->metrics;
}

static const struct http1_limits *limits_of(const struct http2_stream *st)
{
    const struct http1_limits *limits = st->h2->srv->options->limits;

    return limits ? limits : &http1_limits_default;
}

static void reset(struct http2_stream *st, uint32_t error_code)
{
    /* It fails without memory only; the next output then fails as well and ends the connection. */
    (void)nghttp2_submit_rst_stream(st->h2->session, NGHTTP2_FLAG_NONE, st->id, error_code);
}

static void set_timer(struct http2_stream *st, uint32_t configured_ms, uint32_t default_ms)
{
    wheel_start(&st->h2->srv->loop->wheel, &st->timer, configured_ms ? configured_ms : default_ms);
}

/* ---- the exchange ---- */

static void count_received(struct http2_stream *st)
{
    http_metrics_count_received(metrics_of(st));
    st->has_received = true;
}

/* The exchange is over: answered with `status`, or without an answer, 0. */
static void give_back(struct http2_stream *st, uint16_t status)
{
    struct http_server *srv = st->h2->srv;
    bool was_held = st->phase == HTTP2_PHASE_HELD;
    struct http_exchange *x = st->x;

    if (st->has_received)
        http_metrics_count_answered(metrics_of(st), status);
    st->has_received = false;
    st->x = NULL;
    st->fields.head = NULL;
    list_remove(&x->link);
    http_pool_give(x);
    http2_conn_give_room(st->h2, st->room_bytes);
    st->room_bytes = 0;
    if (was_held)
        http_server_finish_exchange(srv);
}

static void free_stream(struct http2_stream *st)
{
    wheel_stop(&st->timer);
    list_remove(&st->link);
    list_remove(&st->waiting);
    buf_free(&st->out, MEM_HTTP);
    mem_free(MEM_HTTP, st);
}

/* ---- responses ---- */

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                        nghttp2_data_source *source, void *user)
{
    struct http2_stream *st = source->ptr;
    struct str rest = buf_str(&st->out);
    size_t n = rest.n < size ? rest.n : size;

    (void)session;
    (void)id;
    (void)user;
    if (n)
        memcpy(to, rest.p, n);
    buf_consume(&st->out, n);
    if (n == rest.n) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        buf_free(&st->out, MEM_HTTP);
    }
    return (ssize_t)n;
}

static void put_fields(struct http2_fields_out *out, struct http2_stream *st, const struct http_response *r)
{
    http2_fields_begin(out);
    http2_fields_put_status(out, r->status);
    http2_fields_put(out, STR("date"), http_server_date(st->h2->srv));
    if (r->content_type.n)
        http2_fields_put(out, STR("content-type"), r->content_type);
    /* RFC 9110 section 8.6, as for HTTP/1 */
    if (r->status != 204 && r->status != 304)
        http2_fields_put_length(out, r->body.n);
    for (size_t i = 0; i < r->n_headers; i++)
        http2_fields_put(out, r->headers[i].name, r->headers[i].value);
}

/* Returns the status, 0 when there is no memory. */
static uint16_t submit(struct http2_stream *st, const struct http_response *r)
{
    bool has_body = r->body.n && st->x->request.method != HTTP_METHOD_HEAD && r->status != 204 && r->status != 304;
    nghttp2_data_provider provider = {.source.ptr = st, .read_callback = read_out};
    struct http2_fields_out out;

    put_fields(&out, st, r);
    if (out.is_bad) { /* a handler put a peer's bytes into a header unchecked */
        LOG_ERROR(LOG_HTTP, "http.response.invalid", F_STR("path", st->x->request.path), F_INT("status", r->status));
        return r->n_headers || r->content_type.n ? submit(st, &(struct http_response){.status = 500}) : 0;
    }
    if (has_body && buf_append(&st->out, MEM_HTTP, r->body) != E_OK)
        return 0;
    if (nghttp2_submit_response(st->h2->session, st->id, out.items, out.n, has_body ? &provider : NULL) != 0)
        return 0;
    return r->status;
}

static void respond(struct http_exchange *x, const struct http_response *r)
{
    struct http2_stream *st = x->carrier;
    struct http2_conn *h2 = st->h2;
    uint16_t status = st->is_gone ? 0 : submit(st, r);

    if (!st->is_gone && status == 0)
        reset(st, NGHTTP2_INTERNAL_ERROR);
    wheel_stop(&st->timer);
    list_remove(&st->waiting);
    give_back(st, status);
    st->phase = HTTP2_PHASE_SENDING;
    if (st->is_gone)
        free_stream(st);
    http2_conn_flush(h2);
}

static const struct http_transport transport = {.respond = respond};

/* Answers what no handler will see. */
static void refuse(struct http2_stream *st, enum http1_refusal why, uint16_t status, const char *text)
{
    LOG_DEBUG(LOG_HTTP, "http.refused", F_INT("status", status), F_TEXT("reason", text));
    metric_add(&metrics_of(st)->refused[why], 1);
    if (!st->has_received)
        count_received(st);
    http_exchange_respond_error(st->x, status, str_from(text));
}

static void refuse_because(struct http2_stream *st, enum http1_refusal why)
{
    refuse(st, why, http1_refusal_status(why), http1_refusal_text(why));
}

/* The rest of a response that has begun waits for the peer: its window, or its reading. Behind its end the rest of the request is of no
 * use (RFC 9113 section 8.1), but clients that are told so at once lose the response, or wait for a window: for a while it is read
 * over. */
void http2_stream_on_sent(struct http2_stream *st, bool is_end)
{
    st->is_sent = is_end;
    if (!is_end)
        set_timer(st, st->h2->srv->options->output_timeout_ms, HTTP_CONN_OUTPUT_TIMEOUT_MS);
    else if (!st->is_peer_done)
        set_timer(st, 0, HTTP_CONN_LINGER_TIMEOUT_MS);
    else
        wheel_stop(&st->timer);
}

/* ---- requests ---- */

static void on_timer(struct timer *t)
{
    struct http2_stream *st = CONTAINER_OF(t, struct http2_stream, timer);

    switch ((enum http2_phase)st->phase) {
    case HTTP2_PHASE_HEAD: /* every frame of the connection waits for it */
        metric_add(&metrics_of(st)->refused[HTTP1_REFUSED_NOT], 1);
        http_conn_end(st->h2->conn, HTTP_CLOSED_SLOW);
        break;
    case HTTP2_PHASE_BODY:
        refuse(st, HTTP1_REFUSED_NOT, 408, "the request took too long");
        break;
    case HTTP2_PHASE_HELD: /* the handler's time is the handler's matter */
        break;
    case HTTP2_PHASE_SENDING:
        reset(st, st->is_sent ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
        http2_conn_flush(st->h2);
        break;
    }
}

struct http2_stream *http2_stream_new(struct http2_conn *h2, int32_t id)
{
    struct http2_stream *st = mem_alloc_zero(MEM_HTTP, sizeof *st);

    st->h2 = h2;
    st->id = id;
    st->timer.on_timer = on_timer;
    st->x = http_pool_take(h2->srv);
    st->x->transport = &transport;
    st->x->carrier = st;
    st->x->tls = h2->stream->tls;
    st->x->fd = h2->stream->io.fd;
    st->fields.head = &st->x->head;
    list_push(&h2->streams, &st->link);
    return st;
}

void http2_stream_wait_for_head(struct http2_stream *st)
{
    if (!wheel_is_set(&st->timer))
        set_timer(st, st->h2->srv->options->head_timeout_ms, HTTP_CONN_HEAD_TIMEOUT_MS);
}

static void wait_for_body(struct http2_stream *st)
{
    st->progress = 0;
    set_timer(st, st->h2->srv->options->body_timeout_ms, HTTP_CONN_BODY_TIMEOUT_MS);
}

uint64_t http2_stream_wanted(const struct http2_stream *st)
{
    uint64_t announced = st->x->request.content_length ? st->x->request.content_length : st->max_body_bytes;

    return announced > HTTP2_STREAM_WINDOW ? announced - HTTP2_STREAM_WINDOW : 0;
}

/* Bytes that were read, and those that were kept back. */
static void give_window(struct http2_stream *st, size_t n)
{
    (void)nghttp2_session_consume_stream(st->h2->session, st->id, st->window_used + n); /* no memory: the output will tell */
    st->window_used = 0;
}

void http2_stream_let_on(struct http2_stream *st)
{
    st->has_room = true;
    give_window(st, 0);
    wait_for_body(st);
}

/* A body that fits into its window, or may still do so, needs no more. */
static void ask_for_room(struct http2_stream *st)
{
    struct http2_conn *h2 = st->h2;
    uint64_t wanted = http2_stream_wanted(st);

    if (h2->body_bytes == 0 || (list_is_empty(&h2->waiting) && h2->body_bytes + wanted <= HTTP2_CONN_BODY_BYTES)) {
        h2->body_bytes += wanted;
        st->room_bytes = wanted;
        http2_stream_let_on(st);
    } else {
        wheel_stop(&st->timer); /* it is we who are slow */
        list_push(&h2->waiting, &st->waiting);
    }
}

static void dispatch(struct http2_stream *st)
{
    struct http_exchange *x = st->x;

    wheel_stop(&st->timer);
    list_remove(&st->waiting);
    x->request.body = buf_str(&x->body);
    st->phase = HTTP2_PHASE_HELD;
    http_server_hold_exchange(st->h2->srv, x);
    if (x->route)
        x->route->handler(x, x->route->context); /* may have answered: x may be gone */
    else
        http_reply_without_route(x);
}

static void send_continue(struct http2_stream *st)
{
    struct http2_fields_out out;

    http2_fields_begin(&out);
    http2_fields_put_status(&out, 100);
    /* Without memory the peer sends its body after a while, as RFC 9110 section 10.1.1 tells it to. */
    (void)nghttp2_submit_headers(st->h2->session, NGHTTP2_FLAG_NONE, st->id, NULL, out.items, out.n, NULL);
}

static void expect_body(struct http2_stream *st)
{
    const struct http_request *r = &st->x->request;

    st->max_body_bytes = limits_of(st)->max_body_bytes;
    if (st->x->route && st->x->route->max_body_bytes)
        st->max_body_bytes = st->x->route->max_body_bytes;
    if (r->content_length > st->max_body_bytes) {
        refuse_because(st, HTTP1_REFUSED_BODY_TOO_LARGE);
        return;
    }
    if (r->expects_continue)
        send_continue(st);
    if (r->content_length > HTTP2_STREAM_WINDOW)
        ask_for_room(st);
    else
        wait_for_body(st);
}

void http2_stream_on_field(struct http2_stream *st, struct str name, struct str value)
{
    http2_fields_add(&st->fields, limits_of(st), name, value);
}

void http2_stream_on_head(struct http2_stream *st, bool is_end)
{
    const struct http_server_options *o = st->h2->srv->options;
    struct http_exchange *x = st->x;
    enum http1_refusal refusal;

    st->is_peer_done = is_end;
    if (st->is_malformed) {
        reset(st, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    refusal = http2_fields_read_request(&st->fields, limits_of(st), !is_end, &x->request);
    st->phase = HTTP2_PHASE_BODY;
    if (refusal) {
        refuse_because(st, refusal);
        return;
    }
    count_received(st);
    x->route = http_route_find(o->routes, o->n_routes, x, &x->allowed);
    if (is_end)
        dispatch(st);
    else
        expect_body(st);
}

static err keep_body(struct http2_stream *st, struct str piece)
{
    uint64_t announced = st->x->request.content_length;
    size_t room = announced < HTTP_CONN_BODY_RESERVE_BYTES ? (size_t)announced : HTTP_CONN_BODY_RESERVE_BYTES;

    if (!st->x->route) /* read over */
        return E_OK;
    if (buf_size(&st->x->body) == 0 && room > piece.n && !buf_reserve(&st->x->body, MEM_HTTP, room))
        return E_NOMEM;
    return buf_append(&st->x->body, MEM_HTTP, piece);
}

void http2_stream_on_body(struct http2_stream *st, struct str piece)
{
    if (st->phase != HTTP2_PHASE_BODY) { /* answered already, or to be reset */
        give_window(st, piece.n);
        return;
    }
    st->body_bytes += piece.n;
    if (st->body_bytes > st->max_body_bytes) {
        refuse_because(st, HTTP1_REFUSED_BODY_TOO_LARGE);
        return;
    }
    if (keep_body(st, piece) != E_OK) {
        refuse(st, HTTP1_REFUSED_MEMORY, 503, "no memory for the body");
        return;
    }
    if (st->has_room)
        give_window(st, piece.n);
    else
        st->window_used += (uint32_t)piece.n;
    if (!st->has_room && !list_is_linked(&st->waiting) && st->window_used > HTTP2_STREAM_WINDOW / 2)
        ask_for_room(st);
    st->progress += (uint32_t)piece.n;
    if (st->progress >= HTTP_CONN_BODY_PROGRESS_BYTES && wheel_is_set(&st->timer))
        wait_for_body(st);
}

void http2_stream_on_end(struct http2_stream *st)
{
    st->is_peer_done = true;
    if (st->phase == HTTP2_PHASE_BODY)
        dispatch(st);
}

/* ---- the end ---- */

void http2_stream_on_closed(struct http2_stream *st)
{
    wheel_stop(&st->timer);
    list_remove(&st->link);
    list_remove(&st->waiting);
    st->is_gone = true;
    if (st->x && st->phase == HTTP2_PHASE_HELD) {
        list_push(&st->h2->gone, &st->link);
        return;
    }
    if (st->x)
        give_back(st, 0);
    free_stream(st);
}

void http2_stream_cancel(struct http2_stream *st)
{
    struct http_exchange *x = st->x;

    x->carrier = NULL;
    x->tls = NULL;
    x->fd = 0;
    http_metrics_count_answered(metrics_of(st), 0);
    http2_conn_give_room(st->h2, st->room_bytes);
    free_stream(st);
    if (x->on_cancel)
        x->on_cancel(x);
}
