/* http2_conn_fixture: a server, what its handlers do, and a scripted peer with one connection, for the tests of HTTP/2 connections. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "http/http2_conn.h"
#include "http/http2_fixture.h"
#include "http/http_server.h"

enum { TURNS = 6, HELD_MAX = 16, STREAMS = 10, BIG_BYTES = 100000, FAR_MS = 1000000000, MIB = 1 << 20 };

static struct {
    struct loop loop;
    struct http_server server;
    struct http2_peer peer;
    struct http_exchange *held[HELD_MAX];
    unsigned n_held, n_cancelled, n_closed;
    bool is_answering; /* inside a handler's answer */
    int64_t memory;
} t;

static struct http_metrics metrics;
static char big[BIG_BYTES];

/* ---- handlers ---- */

static inline void on_echo(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = x->request.body});
}

/* The body's length alone. */
static inline void on_count(struct http_exchange *x, void *context)
{
    char text[24];

    (void)context;
    http_exchange_respond(x, &(struct http_response){
                                 .status = 200, .body = {text, (size_t)snprintf(text, sizeof text, "%zu", x->request.body.n)}});
}

/* What a handler sees, as text. */
static inline void on_tell(struct http_exchange *x, void *context)
{
    const struct http_request *r = &x->request;
    char text[256];
    int n = snprintf(text, sizeof text, "%.*s %.*s?%.*s@%.*s", STR_ARG(r->method_name), STR_ARG(r->path), STR_ARG(r->query),
                     STR_ARG(r->authority));

    (void)context;
    for (size_t i = 0; i < r->n_headers; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %.*s:%.*s", STR_ARG(r->headers[i].name),
                      STR_ARG(r->headers[i].value));
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = {text, (size_t)n}});
}

static inline void on_cancel(struct http_exchange *x)
{
    assert_true(http_exchange_is_cancelled(x));
    assert_false(t.is_answering);
    t.n_cancelled++;
}

static inline void on_hold(struct http_exchange *x, void *context)
{
    (void)context;
    assert_true(t.n_held < HELD_MAX);
    x->on_cancel = on_cancel;
    t.held[t.n_held++] = x;
}

static inline void on_big(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = {big, sizeof big}});
}

static inline void on_nothing(struct http_exchange *x, void *context)
{
    const struct http_header header = {STR("Retry-After"), STR(" 2 ")};

    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 204, .headers = &header, .n_headers = 1, .body = STR("x")});
}

static inline void on_injection(struct http_exchange *x, void *context)
{
    const struct http_header header = {STR("X"), STR("a\r\nb: c")};

    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .headers = &header, .n_headers = 1});
}

static const struct http_route routes[] = {
    {.method = HTTP_METHOD_POST, .pattern = "/echo", .handler = on_echo},
    {.method = HTTP_METHOD_POST, .pattern = "/count", .handler = on_count},
    {.method = HTTP_METHOD_POST, .pattern = "/small", .handler = on_echo, .max_body_bytes = 4},
    {.method = HTTP_METHOD_GET, .pattern = "/tell/{}", .handler = on_tell},
    {.method = HTTP_METHOD_GET, .pattern = "/hold", .handler = on_hold},
    {.method = HTTP_METHOD_GET, .pattern = "/big", .handler = on_big},
    {.method = HTTP_METHOD_GET, .pattern = "/nothing", .handler = on_nothing},
    {.method = HTTP_METHOD_GET, .pattern = "/injection", .handler = on_injection},
};

static const struct http1_limits limits = {
    .max_line_bytes = 256, .max_head_bytes = 1024, .max_headers = 10, .max_body_bytes = MIB};

static const struct http_server_options options = {
    .routes = routes,
    .n_routes = ARRAY_LEN(routes),
    .limits = &limits,
    .metrics = &metrics,
    .head_timeout_ms = 1000,
    .body_timeout_ms = 2000,
    .idle_timeout_ms = 5000,
    .output_timeout_ms = 3000,
    .max_streams = STREAMS,
};

/* ---- the test's side ---- */

static inline void turn(void)
{
    for (int i = 0; i < TURNS; i++)
        loop_turn(&t.loop, 0);
}

static inline void pass_ms(uint64_t ms)
{
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + ms);
    turn();
}

static inline const char *hear(void)
{
    return fixture_hear(&t.peer, turn);
}

static inline void connect_peer(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &(int){4 << 20}, sizeof(int)), 0);
    fixture_open(&t.peer, fds[0]);
    assert_int_equal(http_server_adopt(&t.server, fds[1]), E_OK);
}

/* A connection with its settings exchanged. */
static inline void open_peer(void)
{
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    hear();
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (struct str){0});
}

static inline void close_peer(void)
{
    fixture_close(&t.peer);
    turn();
}

#define FIELDS(method, path) ":method: " method "\n:scheme: http\n:authority: h\n:path: " path "\n"

static inline void get(uint32_t id, const char *path)
{
    char fields[128];

    snprintf(fields, sizeof fields, FIELDS("GET", "%s"), path);
    fixture_put_headers(&t.peer, id, true, fields);
}

static inline int64_t closed(enum http_close_reason why)
{
    return metric_value(&metrics.closed[why]);
}

static inline int64_t resets(enum http_reset_reason why)
{
    return metric_value(&metrics.reset[why]);
}

static inline int set_up(void **state)
{
    char *text = t.peer.text;

    (void)state;
    memset(&t, 0, sizeof t);
    t.peer.text = text;
    t.peer.fd = -1;
    t.memory = mem_used(MEM_HTTP) + mem_used(MEM_PROTO);
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    /* Far ahead of the real clock: from here on only pass_ms() moves the time. */
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + FAR_MS);
    http_server_init(&t.server, &t.loop, &options);
    return 0;
}

static inline void on_closed(struct http_server *srv)
{
    (void)srv;
    t.n_closed++;
}

/* In every test what came in went out, and nothing is left. */
static inline int tear_down(void **state)
{
    int64_t answered, all_closed = 0;

    (void)state;
    http_server_drain(&t.server, 0, on_closed);
    turn();
    assert_int_equal(t.n_closed, 1);
    answered = metric_value(metrics.cancelled);
    for (int i = 0; i < HTTP_STATUS_CLASSES; i++)
        answered += metric_value(&metrics.responses[i]);
    for (int i = 0; i < HTTP_CLOSE_REASONS; i++)
        all_closed += closed(i);
    assert_int_equal(metric_value(metrics.received), answered);
    assert_int_equal(metric_value(metrics.accepted), all_closed);
    assert_int_equal(metric_value(metrics.in_flight), 0);
    assert_int_equal(metric_value(metrics.open), 0);
    http_server_fini(&t.server);
    loop_fini(&t.loop);
    fixture_close(&t.peer);
    assert_int_equal(mem_used(MEM_HTTP) + mem_used(MEM_PROTO), t.memory);
    return 0;
}
