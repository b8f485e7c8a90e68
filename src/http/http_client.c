#include "http/http_client.h"

#include <arpa/inet.h>

#include "base/check.h"
#include "base/siphash.h"
#include "http/http2_client_conn.h"
#include "http/http_client_private.h"
#include "loop/tls.h"
#include "proto/http1/http1_encoder.h"

enum { MAX_CONNECTIONS = 16, MAX_WAITING = 1000, ADDRESSES_MS = 30000, SPARE_BYTES = 4096 };

static unsigned or_default(unsigned configured, unsigned initial)
{
    return configured ? configured : initial;
}

/* ---- endpoints ---- */

struct key {
    struct str host;
    uint64_t pool;
    uint16_t port;
    bool is_http2, is_https;
};

static uint64_t hash_of(const struct key *key)
{
    uint64_t number =
        key->pool << 16 ^ key->pool >> 48 ^ key->port ^ (key->is_http2 ? UINT64_MAX : 0) ^ (key->is_https ? UINT32_MAX : 0);

    return siphash_pair(key->host, (struct str){(const char *)&number, sizeof number});
}

static bool is_for(const void *entry, const void *key)
{
    const struct http_client_endpoint *ep = entry;
    const struct key *wanted = key;

    return ep->port == wanted->port && ep->pool == wanted->pool && ep->is_http2 == wanted->is_http2 &&
           ep->is_https == wanted->is_https && str_equal((struct str){ep->host, ep->host_bytes}, wanted->host);
}

static void set_numeric_address(struct http_client_endpoint *ep)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&ep->addresses[0];
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ep->addresses[0];

    if (inet_pton(AF_INET, ep->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(ep->port);
    } else if (inet_pton(AF_INET6, ep->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(ep->port);
    } else {
        return;
    }
    ep->is_numeric = true;
    ep->n_addresses = 1;
}

static void run(struct task *t);

static struct http_client_endpoint *endpoint_for(struct http_client *cl, const struct key *key)
{
    uint64_t hash = hash_of(key);
    struct http_client_endpoint *ep = map_find(&cl->endpoints, hash, key, is_for);

    if (ep)
        return ep;
    ep = mem_alloc_zero(MEM_HTTP, sizeof *ep + key->host.n + 1);
    ep->client = cl;
    ep->task.run = run;
    ep->pool = key->pool;
    ep->port = key->port;
    ep->is_http2 = key->is_http2;
    ep->is_https = key->is_https;
    ep->host_bytes = key->host.n;
    memcpy(ep->host, key->host.p, key->host.n);
    list_init(&ep->waiting);
    list_init(&ep->idle);
    list_init(&ep->busy);
    set_numeric_address(ep);
    map_add(&cl->endpoints, MEM_HTTP, hash, ep);
    return ep;
}

static void free_endpoint(struct http_client_endpoint *ep)
{
    mem_free(MEM_HTTP, ep->query);
    mem_free(MEM_HTTP, ep);
}

void http_client_wake(struct http_client_endpoint *ep)
{
    loop_defer(ep->client->loop, &ep->task);
}

/* ---- buffers of heads ---- */

static struct buf take_spare(struct http_client *cl)
{
    return cl->n_spares ? cl->spares[--cl->n_spares] : (struct buf){0};
}

static void give_spare(struct http_client *cl, struct buf *b)
{
    if (b->cap == 0 || b->cap > SPARE_BYTES || cl->n_spares == HTTP_CLIENT_SPARES) {
        buf_free(b, MEM_HTTP);
        return;
    }
    b->head = b->tail = 0;
    cl->spares[cl->n_spares++] = *b;
    *b = (struct buf){0};
}

/* ---- the end of a call ---- */

/* Leaves the list it waits in, if it does. */
static void leave_queue(struct http_call *call)
{
    if (!list_is_linked(&call->link))
        return;
    list_remove(&call->link);
    call->endpoint->n_waiting--;
}

static void rest(struct http_call *call)
{
    leave_queue(call);
    wheel_stop(&call->timer);
    give_spare(call->endpoint->client, &call->head);
    metric_add(http_client_metrics_of(call->endpoint)->in_flight, (uint64_t)-1);
    call->endpoint = NULL;
    call->conn = NULL;
    call->stream = NULL;
}

void http_client_finish(struct http_call *call, err result, enum http_client_failure failure,
                        const struct http1_response_head *response, struct str body)
{
    const struct http_client_metrics *m = http_client_metrics_of(call->endpoint);
    unsigned class = response ? response->status / 100u - 2 : 0;

    if (response)
        metric_add(&m->responses[class < HTTP_CLIENT_CLASSES ? class : HTTP_CLIENT_CLASSES - 1], 1);
    else
        metric_add(&m->failures[failure], 1);
    rest(call);
    call->result = result;
    call->response = response;
    call->body = body;
    call->on_done(call);
}

/* Its connection, if it has one, is to do without it. */
static void leave_conn(struct http_call *call, bool is_late)
{
    if (call->conn)
        (void)http_client_conn_drop(call->conn); /* it is this call */
    else if (call->stream)
        http2_client_conn_give_up(call->stream, is_late);
}

static void on_timeout(struct timer *t)
{
    struct http_call *call = CONTAINER_OF(t, struct http_call, timer);

    leave_conn(call, true);
    http_client_finish(call, E_TIMEOUT, HTTP_CLIENT_FAILED_TIMEOUT, NULL, (struct str){0});
}

static void fail_waiting(struct http_client_endpoint *ep, err why, enum http_client_failure failure)
{
    while (!list_is_empty(&ep->waiting))
        http_client_finish(CONTAINER_OF(ep->waiting.next, struct http_call, link), why, failure, NULL, (struct str){0});
}

/* ---- names ---- */

static void on_answer(struct mail *m)
{
    struct http_client_query *q = CONTAINER_OF(m, struct http_client_query, query.mail);
    struct http_client_endpoint *ep = q->endpoint;
    err result = q->query.result;

    if (result == E_OK) {
        ep->n_addresses = q->query.n_addresses;
        memcpy(ep->addresses, q->query.addresses, sizeof ep->addresses);
    }
    ep->resolved_ms = ep->client->loop->now_ms;
    ep->query = NULL;
    mem_free(MEM_HTTP, q);
    /* When it cannot be told now, what was known is better than nothing. */
    if (ep->n_addresses == 0 || result == E_NOTFOUND) {
        ep->n_addresses = 0;
        fail_waiting(ep, E_NOTFOUND, HTTP_CLIENT_FAILED_NAME);
    }
    http_client_wake(ep);
}

static bool has_addresses(const struct http_client_endpoint *ep)
{
    uint32_t believed_ms = or_default(ep->client->options->addresses_ms, ADDRESSES_MS);

    return ep->n_addresses && (ep->is_numeric || ep->client->loop->now_ms - ep->resolved_ms < believed_ms);
}

static void ask(struct http_client_endpoint *ep)
{
    struct http_client *cl = ep->client;
    struct http_client_query *q;

    if (ep->query)
        return;
    if (!cl->options->resolver || ep->host_bytes > RESOLVER_NAME_MAX) {
        fail_waiting(ep, E_NOTFOUND, HTTP_CLIENT_FAILED_NAME);
        return;
    }
    q = mem_alloc_zero(MEM_HTTP, sizeof *q);
    q->endpoint = ep;
    q->query.mail.on_mail = on_answer;
    q->query.home = &cl->loop->mailbox;
    q->query.port = ep->port;
    memcpy(q->query.name, ep->host, ep->host_bytes);
    ep->query = q;
    if (resolver_ask(cl->options->resolver, &q->query) == E_OK)
        return;
    ep->query = NULL;
    mem_free(MEM_HTTP, q);
    fail_waiting(ep, E_NOTFOUND, HTTP_CLIENT_FAILED_NAME);
}

/* ---- connections for calls ---- */

/* The newest: the oldest may be closed for idleness. */
static void use_idle(struct http_client_endpoint *ep, struct http_call *call)
{
    if (ep->is_http2)
        http2_client_conn_use(ep->idle.prev, call);
    else
        http_client_conn_use(ep->idle.prev, call);
}

static void open_for(struct http_client_endpoint *ep, struct http_call *call)
{
    for (; call->n_tried < ep->n_addresses; call->n_tried++)
        if ((ep->is_http2 ? http2_client_conn_open(ep, call) : http_client_conn_open(ep, call)) == E_OK)
            return;
    http_client_finish(call, E_IO, HTTP_CLIENT_FAILED_CONNECT, NULL, (struct str){0});
}

/* What has changed may make room for several calls. A server without calls and connections is forgotten. */
static void run(struct task *t)
{
    struct http_client_endpoint *ep = CONTAINER_OF(t, struct http_client_endpoint, task);
    struct http_client *cl = ep->client;

    if (ep->is_http2)
        http2_client_conn_settle_all(ep);
    while (!list_is_empty(&ep->waiting)) {
        struct http_call *call = CONTAINER_OF(ep->waiting.next, struct http_call, link);

        if (!list_is_empty(&ep->idle)) {
            leave_queue(call);
            use_idle(ep, call);
            continue;
        }
        if (ep->n_conns >= or_default(cl->options->max_connections, MAX_CONNECTIONS))
            return;
        if (!has_addresses(ep)) {
            ask(ep);
            return;
        }
        leave_queue(call);
        open_for(ep, call);
    }
    if (ep->n_conns || ep->query || loop_is_deferred(t))
        return;
    ASSERT(map_remove(&cl->endpoints,
                      hash_of(&(struct key){{ep->host, ep->host_bytes}, ep->pool, ep->port, ep->is_http2, ep->is_https}), ep));
    free_endpoint(ep);
}

err http_client_connect(struct http_client_endpoint *ep, const struct http_call *call, struct stream *s,
                        const struct stream_ops *ops)
{
    const struct sockaddr_storage *address = &ep->addresses[call->n_tried];
    const struct sockaddr *to = (const struct sockaddr *)address;
    unsigned bytes = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const struct tls_server server = {.name = ep->host, .alpn = ep->is_http2 ? "h2" : "http/1.1"};

    if (!ep->is_https)
        return stream_connect(s, ep->client->loop, to, bytes, ops);
    return stream_connect_tls(s, ep->client->loop, to, bytes, ops, ep->client->tls, &server);
}

void http_client_connect_elsewhere(struct http_client_endpoint *ep, struct http_call *call)
{
    if (++call->n_tried < ep->n_addresses) {
        http_client_wait_first(call);
        return;
    }
    if (!ep->is_numeric)
        ep->n_addresses = 0; /* perhaps it has moved */
    http_client_finish(call, E_IO, HTTP_CLIENT_FAILED_CONNECT, NULL, (struct str){0});
}

void http_client_wait_first(struct http_call *call)
{
    struct http_client_endpoint *ep = call->endpoint;

    call->conn = NULL;
    call->stream = NULL;
    list_push(ep->waiting.next, &call->link); /* before the first one */
    ep->n_waiting++;
    http_client_wake(ep);
}

/* ---- the client ---- */

void http_client_init(struct http_client *cl, struct loop *l, const struct http_client_options *options)
{
    *cl = (struct http_client){.loop = l, .options = options};
}

void http_client_use_tls(struct http_client *cl, struct tls *tls)
{
    struct tls *before = cl->tls;

    cl->tls = tls ? tls_ref(tls) : NULL;
    tls_unref(before);
}

static err write_head(struct http_client *cl, struct http_call *call, const struct http_client_request *request)
{
    const struct http1_request_head head = {
        .method = request->method,
        .target = request->url->target,
        .host = request->url->authority,
        .content_type = request->content_type,
        .headers = request->headers,
        .n_headers = request->n_headers,
        .lines = request->lines,
        .n_lines = request->n_lines,
        .body_bytes = request->body.n,
    };
    struct buf spare = take_spare(cl);
    char *to = buf_reserve(&spare, MEM_HTTP, http1_encoder_request_bound(&head));
    size_t n = to ? http1_encoder_write_request(to, &head) : 0;

    buf_commit(&spare, n);
    if (n) {
        call->head = spare;
        return E_OK;
    }
    give_spare(cl, &spare);
    return to ? E_INVAL : E_NOMEM;
}

/* An idle connection takes the call at once. */
static void start(struct http_client_endpoint *ep, struct http_call *call)
{
    if (list_is_empty(&ep->waiting) && !list_is_empty(&ep->idle)) {
        use_idle(ep, call);
        return;
    }
    list_push(&ep->waiting, &call->link);
    ep->n_waiting++;
    http_client_wake(ep);
}

err http_client_send(struct http_client *cl, struct http_call *call, const struct http_client_request *request)
{
    const struct key key = {request->url->host, request->pool, request->url->port, request->is_http2, request->url->is_https};
    struct http_client_endpoint *ep;
    err e = cl->is_closed ? E_CLOSED : key.is_https && !cl->tls ? E_INVAL : write_head(cl, call, request);

    ASSERT(!call->endpoint);
    if (e != E_OK)
        return e;
    ep = endpoint_for(cl, &key);
    if (ep->n_waiting >= or_default(cl->options->max_waiting, MAX_WAITING)) {
        metric_add(cl->options->metrics->refused, 1);
        give_spare(cl, &call->head);
        return E_LIMIT;
    }
    call->endpoint = ep;
    call->conn = NULL;
    call->stream = NULL;
    call->payload = request->body;
    call->max_response_bytes = request->max_response_bytes;
    call->method = (uint8_t)request->method;
    call->n_tried = 0;
    call->is_retried = false;
    call->timer.on_timer = on_timeout;
    wheel_start(&cl->loop->wheel, &call->timer, request->timeout_ms);
    metric_add(cl->options->metrics->requests, 1);
    metric_add(cl->options->metrics->in_flight, 1);
    start(ep, call);
    return E_OK;
}

void http_client_cancel(struct http_call *call)
{
    struct http_client_endpoint *ep = call->endpoint;

    if (!ep)
        return;
    leave_conn(call, false);
    metric_add(&http_client_metrics_of(ep)->failures[HTTP_CLIENT_FAILED_CANCELLED], 1);
    rest(call);
    http_client_wake(ep);
}

static void close_endpoint(struct http_client_endpoint *ep)
{
    if (ep->is_http2)
        http2_client_conn_drop_all(ep);
    while (!list_is_empty(&ep->idle))
        (void)http_client_conn_drop_link(ep->idle.next); /* it has no call */
    while (!list_is_empty(&ep->busy)) {
        struct http_call *call = http_client_conn_drop_link(ep->busy.next);

        if (call)
            http_client_finish(call, E_CLOSED, HTTP_CLIENT_FAILED_CANCELLED, NULL, (struct str){0});
    }
    fail_waiting(ep, E_CLOSED, HTTP_CLIENT_FAILED_CANCELLED);
    http_client_wake(ep);
}

void http_client_close(struct http_client *cl)
{
    uint32_t cursor = 0;
    struct http_client_endpoint *ep;

    cl->is_closed = true;
    while ((ep = map_next(&cl->endpoints, &cursor)))
        close_endpoint(ep);
}

void http_client_fini(struct http_client *cl)
{
    uint32_t cursor = 0;
    struct http_client_endpoint *ep;

    while ((ep = map_next(&cl->endpoints, &cursor))) {
        ASSERT(ep->n_conns == 0 && list_is_empty(&ep->waiting));
        free_endpoint(ep);
    }
    map_free(&cl->endpoints, MEM_HTTP);
    tls_unref(cl->tls);
    cl->tls = NULL;
    while (cl->n_spares > 0)
        buf_free(&cl->spares[--cl->n_spares], MEM_HTTP);
}
