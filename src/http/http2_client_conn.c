#include "http/http2_client_conn.h"

#include "base/check.h"
#include "http/http2_client_stream.h"
#include "http/http2_session.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    IDLE_TIMEOUT_MS = 20000,
    OUTPUT_BYTES = 256 * 1024, /* in the stream's output; what does not fit waits where it is */
    STREAMS_MAX = 100,         /* whatever the server would allow, and before it has said so */
    CONN_WINDOW = 1 << 20,
};

static struct http2_client_conn *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct http2_client_conn, stream);
}

static struct http2_client_conn *from_link(struct list *link)
{
    return CONTAINER_OF(link, struct http2_client_conn, link);
}

static const struct http_client_options *options_of(const struct http2_client_conn *c)
{
    return c->endpoint->client->options;
}

/* ---- its place among the connections ---- */

/* Lazy, as that of HTTP/1. */
static void set_deadline(struct http2_client_conn *c, uint32_t configured_ms, uint32_t initial_ms)
{
    struct wheel *wh = &c->endpoint->client->loop->wheel;
    uint32_t delay_ms = configured_ms ? configured_ms : initial_ms;

    c->deadline_ms = wh->clock_ms + delay_ms;
    if (!wheel_is_set(&c->timer) || c->timer.due_ms > c->deadline_ms)
        wheel_start(wh, &c->timer, delay_ms);
}

static void leave(struct http2_client_conn *c, err why)
{
    c->is_leaving = true;
    list_remove(&c->link);
    stream_close(&c->stream, why);
}

static bool takes_calls(const struct http2_client_conn *c)
{
    uint32_t allowed = nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    return !c->is_doubted && c->n_streams < STREAMS_MAX && c->n_streams < allowed &&
           nghttp2_session_check_request_allowed(c->session);
}

static void place(struct http2_client_conn *c)
{
    struct http_client_endpoint *ep = c->endpoint;

    if (c->is_leaving)
        return;
    list_remove(&c->link);
    list_push(takes_calls(c) ? &ep->idle : &ep->busy, &c->link);
    if (c->n_streams == 0 && !c->was_idle && !c->is_doubted && !c->stream.is_connecting)
        set_deadline(c, options_of(c)->idle_timeout_ms, IDLE_TIMEOUT_MS);
    c->was_idle = c->n_streams == 0;
    if (!list_is_empty(&ep->waiting))
        http_client_wake(ep);
}

/* ---- output ---- */

/* Never calls on_done: what is over is told at the end of the turn. */
static void flush(struct http2_client_conn *c)
{
    if (c->is_inside || c->is_leaving)
        return;
    c->is_inside = true;
    err e = http2_session_send(c->session, &c->stream, OUTPUT_BYTES);
    c->is_inside = false;
    if (e != E_OK)
        leave(c, e);
    else if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
        leave(c, c->has_fault ? E_PROTO : E_OK);
    place(c);
    if (!list_is_empty(&c->done))
        http_client_wake(c->endpoint);
}

/* ---- input ---- */

/* Inside on_done anything may be asked of the client, even to close it; this connection is still there when that returns. */
static void settle(struct http2_client_conn *c)
{
    struct list *done;

    while ((done = list_pop(&c->done)))
        http2_client_stream_tell(CONTAINER_OF(done, struct http2_client_stream, done));
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct http2_client_conn *c = from_stream(s);
    uint32_t fault;
    size_t n;

    c->n_reads++;
    c->is_inside = true;
    n = http2_reader_feed(&c->reader, c->session, bytes, c->endpoint->client->loop->wheel.clock_ms, &fault);
    c->is_inside = false;
    settle(c);
    if (fault && !c->is_leaving)
        leave(c, fault == NGHTTP2_INTERNAL_ERROR ? E_NOMEM : E_PROTO);
    flush(c);
    return n;
}

static void on_drain(struct stream *s)
{
    flush(from_stream(s));
}

static void on_connect(struct stream *s)
{
    struct http2_client_conn *c = from_stream(s);

    if (s->tls && !str_equal(tls_conn_alpn(s->tls), STR("h2"))) { /* RFC 9113 section 3.2 */
        leave(c, E_PROTO);
        return;
    }
    c->deadline_ms = UINT64_MAX;
    c->was_idle = false;
    place(c);
}

/* ---- time limits ---- */

static void on_timer(struct timer *t)
{
    struct http2_client_conn *c = CONTAINER_OF(t, struct http2_client_conn, timer);
    struct wheel *wh = &c->endpoint->client->loop->wheel;

    if (c->deadline_ms == UINT64_MAX || c->is_leaving)
        return;
    if (c->deadline_ms > wh->clock_ms) {
        wheel_start(wh, t, c->deadline_ms - wh->clock_ms);
    } else if (c->stream.is_connecting || c->is_doubted) {
        leave(c, E_TIMEOUT);
    } else if (c->n_streams == 0) {
        (void)nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR); /* it closes in any case */
        flush(c);
    }
}

static void doubt(struct http2_client_conn *c)
{
    if (c->is_doubted || c->stream.is_connecting)
        return;
    c->is_doubted = true;
    (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL); /* no memory: no answer will come */
    set_deadline(c, options_of(c)->connect_timeout_ms, CONNECT_TIMEOUT_MS);
}

void http2_client_conn_trust(struct http2_client_conn *c)
{
    c->is_doubted = false;
    c->was_idle = false;
    c->deadline_ms = UINT64_MAX;
}

/* ---- the end ---- */

static void end_call(struct http2_client_conn *c, struct http2_client_stream *st, err why)
{
    struct http_call *call = st->call;

    if (c->stream.is_connecting)
        http_client_connect_elsewhere(c->endpoint, call);
    else if (why == E_NOMEM)
        http_client_finish(call, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY, NULL, (struct str){0});
    else if (why == E_PROTO)
        http_client_finish(call, E_PROTO, HTTP_CLIENT_FAILED_RESPONSE, NULL, (struct str){0});
    else if (why != E_TIMEOUT && c->has_served && !st->has_bytes && !call->is_retried)
        http2_client_stream_retry(call);
    else
        http_client_finish(call, E_CLOSED, HTTP_CLIENT_FAILED_CLOSED, NULL, (struct str){0});
}

static void on_close(struct stream *s, err why)
{
    struct http2_client_conn *c = from_stream(s);
    struct http_client_endpoint *ep = c->endpoint;
    struct list *link;

    c->is_leaving = true;
    wheel_stop(&c->timer);
    list_remove(&c->link);
    ep->n_conns--;
    metric_add(http_client_metrics_of(ep)->open, (uint64_t)-1);
    settle(c);
    while ((link = list_pop(&c->streams))) {
        struct http2_client_stream *st = CONTAINER_OF(link, struct http2_client_stream, link);

        if (st->call)
            end_call(c, st, why);
        http2_client_stream_free(st);
    }
    nghttp2_session_del(c->session);
    mem_free(MEM_HTTP, c);
    http_client_wake(ep);
}

static const struct stream_ops ops = {.on_data = on_data, .on_drain = on_drain, .on_connect = on_connect, .on_close = on_close};

/* ---- the client's side ---- */

static void assign(struct http2_client_conn *c, struct http_call *call)
{
    http2_client_stream_new(c, call);
    c->was_idle = false;
    flush(c);
}

static err begin(struct http2_client_conn *c)
{
    const struct http_client_options *o = options_of(c);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (o->limits ? o->limits : &http1_limits_default)->max_head_bytes},
    };

    c->session = http2_session_new(false, http2_client_stream_callbacks(), c);
    if (!c->session || nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
        nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW) != 0)
        return E_NOMEM;
    http2_reader_init(&c->reader, c->endpoint->client->loop->wheel.clock_ms, 0);
    return E_OK;
}

err http2_client_conn_open(struct http_client_endpoint *ep, struct http_call *call)
{
    const struct http_client_options *o = ep->client->options;
    struct http2_client_conn *c = mem_alloc_zero(MEM_HTTP, sizeof *c);
    err e;

    c->endpoint = ep;
    c->timer.on_timer = on_timer;
    list_init(&c->streams);
    list_init(&c->done);
    e = begin(c);
    metric_add(o->metrics->connects, 1);
    if (e == E_OK)
        e = http_client_connect(ep, call, &c->stream, &ops);
    if (e != E_OK) {
        nghttp2_session_del(c->session);
        mem_free(MEM_HTTP, c);
        return e;
    }
    ep->n_conns++;
    metric_add(o->metrics->open, 1);
    set_deadline(c, o->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    assign(c, call);
    return E_OK;
}

void http2_client_conn_use(struct list *link, struct http_call *call)
{
    struct http2_client_conn *c = from_link(link);

    if (stream_is_closing(&c->stream)) {
        list_remove(&c->link);
        http_client_wait_first(call);
        return;
    }
    assign(c, call);
}

void http2_client_conn_give_up(struct http2_client_stream *st, bool is_late)
{
    struct http2_client_conn *c = st->conn;
    bool is_silent = st->n_reads == c->n_reads;

    http2_client_stream_abandon(st);
    if (c->is_leaving)
        return;
    if (is_late && is_silent)
        doubt(c);
    flush(c);
}

static struct http2_client_conn *find_unsettled(struct list *conns)
{
    for (struct list *link = conns->next; link != conns; link = link->next)
        if (!list_is_empty(&from_link(link)->done))
            return from_link(link);
    return NULL;
}

/* Found anew each time: on_done may move or close any of them. */
void http2_client_conn_settle_all(struct http_client_endpoint *ep)
{
    struct http2_client_conn *c;

    while ((c = find_unsettled(&ep->idle)) || (c = find_unsettled(&ep->busy)))
        settle(c);
}

static void drop_list(struct list *conns)
{
    while (!list_is_empty(conns)) {
        struct http2_client_conn *c = from_link(conns->next);

        leave(c, E_OK);
        http2_client_stream_cancel_all(c);
    }
}

void http2_client_conn_drop_all(struct http_client_endpoint *ep)
{
    drop_list(&ep->idle);
    drop_list(&ep->busy);
}
