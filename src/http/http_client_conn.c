#include "http/http_client_private.h"

#include "base/check.h"

enum { CONNECT_TIMEOUT_MS = 5000, IDLE_TIMEOUT_MS = 20000, KEPT_BODY_BYTES = 4096 };

/* A connection of a client: connecting or with a call in ep->busy, idle in ep->idle, closing in neither. */
struct http_client_conn {
    struct stream stream;
    struct timer timer; /* connecting, or idle; lazy: when it runs it looks whether `deadline_ms` has come */
    uint64_t deadline_ms;
    struct list link;
    struct http_client_endpoint *endpoint;
    struct http_call *call; /* NULL: idle, or closing */
    struct http1_response parser;
    struct http1_head head;
    struct http1_response_head response;
    struct buf body;
    struct str unsent[2]; /* of the request: head, body */
    bool has_served;      /* a call before this one */
    bool has_bytes;       /* of this call's response */
};

static struct http_client_conn *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct http_client_conn, stream);
}

static void set_deadline(struct http_client_conn *c, uint32_t configured_ms, uint32_t initial_ms)
{
    struct wheel *wh = &c->endpoint->client->loop->wheel;
    uint32_t delay_ms = configured_ms ? configured_ms : initial_ms;

    c->deadline_ms = wh->clock_ms + delay_ms;
    if (!wheel_is_set(&c->timer) || c->timer.due_ms > c->deadline_ms)
        wheel_start(wh, &c->timer, delay_ms);
}

static struct http_call *drop(struct http_client_conn *c, err why)
{
    struct http_call *call = c->call;

    c->call = NULL;
    if (call)
        call->conn = NULL;
    list_remove(&c->link);
    wheel_stop(&c->timer);
    stream_close(&c->stream, why);
    return call;
}

struct http_call *http_client_conn_drop(struct http_client_conn *c)
{
    return drop(c, E_OK);
}

struct http_call *http_client_conn_drop_link(struct list *link)
{
    return drop(CONTAINER_OF(link, struct http_client_conn, link), E_OK);
}

/* ---- responses ---- */

/* Of the response before. It lies there until the next one comes, since whoever got it may ask for something on this very connection. */
static void forget_response(struct http_client_conn *c)
{
    http1_head_clear(&c->head);
    if (c->body.cap > KEPT_BODY_BYTES)
        buf_free(&c->body, MEM_HTTP);
    c->body.head = c->body.tail = 0;
}

static void become_idle(struct http_client_conn *c)
{
    c->has_served = true;
    list_remove(&c->link);
    list_push(&c->endpoint->idle, &c->link);
    set_deadline(c, c->endpoint->client->options->idle_timeout_ms, IDLE_TIMEOUT_MS);
}

/* A server may answer before it has read the whole request: what follows on this connection would then not be a request. */
static bool has_unsent(const struct http_client_conn *c)
{
    return c->unsent[0].n + c->unsent[1].n > 0;
}

static void complete(struct http_client_conn *c, size_t n_unread)
{
    bool is_kept = c->response.is_kept_alive && n_unread == 0 && !has_unsent(c);
    struct http_call *call = c->call;

    c->call = NULL;
    if (is_kept)
        become_idle(c);
    http_client_finish(call, E_OK, 0, &c->response, buf_str(&c->body));
    if (c->call || !list_is_linked(&c->link)) /* it has another one already, or the client was closed */
        return;
    if (is_kept)
        forget_response(c);
    else
        (void)drop(c, E_OK); /* it has no call any more */
    if (!list_is_empty(&c->endpoint->waiting))
        http_client_wake(c->endpoint);
}

static void fail(struct http_client_conn *c, err why, enum http_client_failure failure)
{
    struct http_call *call = drop(c, why);

    http_client_finish(call, why, failure, NULL, (struct str){0});
}

static void refuse(struct http_client_conn *c)
{
    switch ((enum http1_refusal)c->parser.parser.refusal) {
    case HTTP1_REFUSED_BODY_TOO_LARGE:
    case HTTP1_REFUSED_HEAD_TOO_LARGE:
    case HTTP1_REFUSED_LINE_TOO_LONG:
        fail(c, E_LIMIT, HTTP_CLIENT_FAILED_SIZE);
        break;
    case HTTP1_REFUSED_MEMORY:
        fail(c, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY);
        break;
    default:
        fail(c, E_PROTO, HTTP_CLIENT_FAILED_RESPONSE);
        break;
    }
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct http_client_conn *c = from_stream(s);
    struct str in = bytes;

    if (!c->call) { /* nobody has asked */
        (void)drop(c, E_PROTO);
        return bytes.n;
    }
    if (!c->has_bytes)
        forget_response(c);
    c->has_bytes = true;
    for (const struct http_call *call = c->call; c->call == call;) {
        struct str body = {0};

        switch (http1_response_next(&c->parser, &c->head, &c->response, &in, &body)) {
        case HTTP1_MORE:
            return bytes.n;
        case HTTP1_HEAD:
            if (c->call->max_response_bytes)
                c->parser.parser.max_body_bytes = c->call->max_response_bytes;
            break;
        case HTTP1_BODY:
            if (buf_append(&c->body, MEM_HTTP, body) != E_OK)
                fail(c, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY);
            break;
        case HTTP1_END:
            complete(c, in.n);
            break;
        case HTTP1_BAD:
            refuse(c);
            break;
        }
    }
    return bytes.n;
}

/* ---- what the loop tells ---- */

static void on_connect(struct stream *s)
{
    wheel_stop(&from_stream(s)->timer);
}

static void on_timer(struct timer *t)
{
    struct http_client_conn *c = CONTAINER_OF(t, struct http_client_conn, timer);
    struct wheel *wh = &c->endpoint->client->loop->wheel;

    if (c->deadline_ms > wh->clock_ms)
        wheel_start(wh, t, c->deadline_ms - wh->clock_ms);
    else if (c->stream.is_connecting) /* on_close tries the next address */
        stream_close(&c->stream, E_TIMEOUT);
    else if (!c->call)
        (void)drop(c, E_OK); /* it has no call */
}

/* Sends what it can of the request; on_drain goes on. */
static void send_request(struct stream *s)
{
    struct http_client_conn *c = from_stream(s);
    size_t sent = has_unsent(c) ? stream_send(s, c->unsent, ARRAY_LEN(c->unsent)) : 0;

    for (size_t i = 0; i < ARRAY_LEN(c->unsent); i++) {
        size_t n = sent < c->unsent[i].n ? sent : c->unsent[i].n;

        c->unsent[i] = str_from_offset(c->unsent[i], n);
        sent -= n;
    }
}

/* Other connections that had been idle are as old as this one: the second try is to have a new one. */
static void retry(struct http_client_endpoint *ep, struct http_call *call)
{
    call->is_retried = true;
    metric_add(http_client_metrics_of(ep)->retries, 1);
    while (!list_is_empty(&ep->idle))
        (void)http_client_conn_drop_link(ep->idle.next); /* it has no call */
    http_client_wait_first(call);
}

static void end_call(struct http_client_conn *c, struct http_call *call, err why)
{
    call->conn = NULL;
    if (c->stream.is_connecting)
        http_client_connect_elsewhere(c->endpoint, call);
    else if (why == E_CLOSED && !c->stream.is_reset && http1_response_ends_with_connection(&c->parser))
        http_client_finish(call, E_OK, 0, &c->response, buf_str(&c->body));
    else if (why != E_NOMEM && c->has_served && !c->has_bytes && !call->is_retried)
        retry(c->endpoint, call);
    else if (why == E_PROTO || why == E_TIMEOUT) /* the stream's own reasons: TLS */
        http_client_finish(call, E_IO, HTTP_CLIENT_FAILED_TLS, NULL, (struct str){0});
    else if (why == E_NOMEM)
        http_client_finish(call, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY, NULL, (struct str){0});
    else
        http_client_finish(call, E_CLOSED, HTTP_CLIENT_FAILED_CLOSED, NULL, (struct str){0});
}

static void on_close(struct stream *s, err why)
{
    struct http_client_conn *c = from_stream(s);
    struct http_client_endpoint *ep = c->endpoint;
    struct http_call *call = c->call;

    wheel_stop(&c->timer);
    list_remove(&c->link);
    ep->n_conns--;
    metric_add(http_client_metrics_of(ep)->open, (uint64_t)-1);
    c->call = NULL;
    if (call)
        end_call(c, call, why);
    http1_head_free(&c->head);
    buf_free(&c->body, MEM_HTTP);
    mem_free(MEM_HTTP, c);
    http_client_wake(ep);
}

static const struct stream_ops ops = {
    .on_data = on_data, .on_drain = send_request, .on_connect = on_connect, .on_close = on_close, .is_edge_triggered = true};

/* ---- the client's side ---- */

static void assign(struct http_client_conn *c, struct http_call *call)
{
    c->call = call;
    call->conn = c;
    c->has_bytes = false;
    c->unsent[0] = buf_str(&call->head);
    c->unsent[1] = call->payload;
    http1_response_expect(&c->parser, (enum http_method)call->method);
    send_request(&c->stream);
}

err http_client_conn_open(struct http_client_endpoint *ep, struct http_call *call)
{
    const struct http_client_options *o = ep->client->options;
    struct http_client_conn *c = mem_alloc_zero(MEM_HTTP, sizeof *c);
    err e = http_client_connect(ep, call, &c->stream, &ops);

    metric_add(o->metrics->connects, 1);
    if (e != E_OK) {
        mem_free(MEM_HTTP, c);
        return e;
    }
    c->endpoint = ep;
    c->timer.on_timer = on_timer;
    http1_response_init(&c->parser, o->limits ? o->limits : &http1_limits_default);
    list_push(&ep->busy, &c->link);
    ep->n_conns++;
    metric_add(o->metrics->open, 1);
    set_deadline(c, o->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    assign(c, call);
    return E_OK;
}

void http_client_conn_use(struct list *link, struct http_call *call)
{
    struct http_client_conn *c = CONTAINER_OF(link, struct http_client_conn, link);

    list_remove(&c->link);
    if (stream_is_closing(&c->stream)) {
        http_client_wait_first(call);
        return;
    }
    list_push(&c->endpoint->busy, &c->link);
    assign(c, call);
}
