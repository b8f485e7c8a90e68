/* http_target: a server with a few routes, one connection and a clock by hand, for fuzz targets that play the peer. In the end the ledger
 * of requests and the memory must balance, whatever has happened.
 *
 * The connection is a socket pair within the process, because the read path begins at a stream, which has a descriptor. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "http/http_server.h"

enum { HTTP_TARGET_HELD = 16, HTTP_TARGET_BIG_BYTES = 70000, HTTP_TARGET_FAR_MS = 1000000000 };

struct http_target {
    struct loop loop;
    struct http_server server;
    struct http_exchange *held[HTTP_TARGET_HELD];
    unsigned n_held, n_closed;
    int peer;
    int64_t memory;
    bool is_reading; /* the peer */
};

static struct http_target f;
static struct http_metrics http_target_metrics;

static void http_target_answer(void)
{
    struct http_response r = {.status = 200, .content_type = STR("text/plain"), .body = STR("late")};

    if (f.n_held > 0)
        http_exchange_respond(f.held[--f.n_held], &r);
}

static void on_echo(struct http_exchange *x, void *context)
{
    struct http_header header = {STR("X-Path"), x->request.path};

    (void)context;
    for (size_t i = 0; i < x->request.n_headers; i++) {
        ASSERT(x->request.headers[i].name.n > 0);
        ASSERT(!x->request.headers[i].value.n || !memchr(x->request.headers[i].value.p, '\n', x->request.headers[i].value.n));
    }
    ASSERT(x->request.path.n > 0 && x->request.body.n <= 256);
    http_exchange_respond(x,
                          &(struct http_response){.status = 200, .headers = &header, .n_headers = 1, .body = x->request.body});
}

static void on_cancel(struct http_exchange *x)
{
    ASSERT(http_exchange_is_cancelled(x));
}

static void on_hold(struct http_exchange *x, void *context)
{
    (void)context;
    if (f.n_held == HTTP_TARGET_HELD)
        http_target_answer();
    x->on_cancel = on_cancel;
    f.held[f.n_held++] = x;
}

static void on_big(struct http_exchange *x, void *context)
{
    static char big[HTTP_TARGET_BIG_BYTES];

    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = {big, sizeof big}});
}

static const struct http_route http_target_routes[] = {
    {.method = HTTP_METHOD_POST, .pattern = "/echo", .handler = on_echo},
    {.method = HTTP_METHOD_GET, .pattern = "/hold", .handler = on_hold},
    {.method = HTTP_METHOD_GET, .pattern = "/big", .handler = on_big},
};

static const struct http1_limits http_target_limits = {
    .max_line_bytes = 128, .max_head_bytes = 512, .max_headers = 8, .max_body_bytes = 256};

static const struct http_server_options http_target_options = {
    .routes = http_target_routes,
    .n_routes = ARRAY_LEN(http_target_routes),
    .limits = &http_target_limits,
    .metrics = &http_target_metrics,
    .head_timeout_ms = 1000,
    .body_timeout_ms = 2000,
    .idle_timeout_ms = 5000,
    .output_timeout_ms = 3000,
    .max_streams = 8,
};

static void http_target_turn(void)
{
    char bytes[4096];

    for (int i = 0; i < 2; i++)
        loop_turn(&f.loop, 0);
    while (f.is_reading && recv(f.peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        loop_turn(&f.loop, 0);
}

static void http_target_pass(uint64_t ms)
{
    wheel_advance(&f.loop.wheel, f.loop.wheel.clock_ms + ms);
    http_target_turn();
}

static void http_target_put(const void *bytes, size_t n)
{
    ssize_t sent = send(f.peer, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)sent; /* the server may have closed, or have enough */
    http_target_turn();
}

static void http_target_open(void)
{
    int fds[2];

    http_metrics_register(&http_target_metrics, "fuzz");
    f = (struct http_target){.is_reading = true, .memory = mem_used(MEM_HTTP) + mem_used(MEM_PROTO) + mem_used(MEM_LOOP)};
    ASSERT(loop_init(&f.loop, 1 << 16, NULL) == E_OK);
    wheel_advance(&f.loop.wheel, f.loop.wheel.clock_ms + HTTP_TARGET_FAR_MS); /* only http_target_pass() moves the time */
    http_server_init(&f.server, &f.loop, &http_target_options);
    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    f.peer = fds[1];
    ASSERT(http_server_adopt(&f.server, fds[0]) == E_OK);
}

static void http_target_on_closed(struct http_server *srv)
{
    (void)srv;
    f.n_closed++;
}

static int64_t http_target_sum(const struct metric *metrics, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += metric_value(&metrics[i]);
    return sum;
}

static void http_target_close(void)
{
    const struct http_metrics *m = &http_target_metrics;

    http_server_drain(&f.server, 0, http_target_on_closed);
    http_target_turn();
    http_target_turn();
    while (f.n_held > 0)
        http_target_answer();
    http_target_turn();
    ASSERT(f.n_closed == 1);
    ASSERT(metric_value(m->received) == metric_value(m->cancelled) + http_target_sum(m->responses, HTTP_STATUS_CLASSES));
    ASSERT(metric_value(m->accepted) == http_target_sum(m->closed, HTTP_CLOSE_REASONS));
    ASSERT(metric_value(m->in_flight) == 0 && metric_value(m->open) == 0);
    http_server_fini(&f.server);
    loop_fini(&f.loop);
    close(f.peer);
    ASSERT(mem_used(MEM_HTTP) + mem_used(MEM_PROTO) + mem_used(MEM_LOOP) == f.memory);
}
