/* http2_client_fuzz: frames of a server on the connections of a client that speaks HTTP/2: responses, wrong and cut frames, GOAWAY and the
 * end, while calls begin and are cancelled and time passes. Every call is told once or was cancelled, and memory must balance.
 *
 * A client connects to an address, so the server listens on the loopback interface of this process. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "http/http_client.h"
#include "http2_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PASS_MS = 700, STEPS_MAX = 100, CALLS = 8, FAR_MS = 1000000000, BODY_BYTES = 70000 };

static const struct http1_limits limits = {
    .max_line_bytes = 128, .max_head_bytes = 512, .max_headers = 8, .max_body_bytes = 256};
static struct http_client_metrics metrics;

static struct {
    struct loop loop;
    struct http_client client;
    struct http_client_options options;
    struct http_call calls[CALLS];
    char url[64];
    int listener, server; /* -1: none */
    bool sends_again;     /* whoever is told */
} f;

static void begin_call(struct http_call *call, unsigned how);

static void on_done(struct http_call *call)
{
    ASSERT(!call->endpoint && !call->stream);
    ASSERT((call->result == E_OK) == (call->response != NULL));
    if (call->response) {
        ASSERT(call->response->status >= 200 && call->response->n_headers <= limits.max_headers);
        ASSERT(call->body.n <= limits.max_body_bytes);
    }
    if (f.sends_again) {
        f.sends_again = false;
        begin_call(call, 0);
    }
}

static void begin_call(struct http_call *call, unsigned how)
{
    static char body[BODY_BYTES];
    static const struct str lines[] = {STR_INIT("Ce-Id: 1\r\n")};
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = how & 1   ? HTTP_METHOD_POST
                  : how & 2 ? HTTP_METHOD_HEAD
                            : HTTP_METHOD_GET,
        .lines = lines,
        .n_lines = 1,
        .body = {body, how & 1 ? (how & 4 ? sizeof body : 10) : 0},
        .timeout_ms = (how & 24 ? 2 : 20) * PASS_MS,
        .is_http2 = true,
    };
    err e;

    if (call->endpoint)
        return;
    ASSERT(http_url_parse(str_from(f.url), &url, NULL) == E_OK);
    *call = (struct http_call){.on_done = on_done};
    e = http_client_send(&f.client, call, &request);
    ASSERT(e == E_OK || e == E_CLOSED || e == E_LIMIT);
}

static void turn(void)
{
    char bytes[4096];

    for (int i = 0; i < 3; i++)
        loop_turn(&f.loop, 0);
    while (f.server >= 0 && recv(f.server, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        loop_turn(&f.loop, 0);
}

static void put(const uint8_t *bytes, size_t n)
{
    ssize_t sent = f.server >= 0 ? send(f.server, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

    (void)sent; /* the client may have closed */
    turn();
}

static void put_frame(unsigned type, unsigned flags, uint32_t id, const uint8_t *payload, size_t n)
{
    uint8_t frame[FRAME_HEAD_BYTES + PAYLOAD_MAX];

    put(frame, write_frame(frame, type, flags, id, n, payload, n));
}

/* ---- steps ---- */

static void start_call(struct input *in)
{
    unsigned which = next(in), how = next(in);

    begin_call(&f.calls[which % CALLS], how);
    turn();
}

static void cancel_call(struct input *in)
{
    http_client_cancel(&f.calls[next(in) % CALLS]);
    turn();
}

/* The next connection; the one before ends. */
static void accept_next(struct input *in)
{
    int fd;

    (void)in;
    turn();
    fd = accept4(f.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (f.server >= 0)
        close(f.server);
    f.server = fd;
    ASSERT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    put_frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void close_server(struct input *in)
{
    (void)in;
    if (f.server >= 0)
        close(f.server);
    f.server = -1;
    turn();
}

static void put_any_frame(struct input *in)
{
    uint8_t frame[FRAME_HEAD_BYTES + PAYLOAD_MAX];

    put(frame, write_any_frame(frame, in));
}

static void put_response(struct input *in)
{
    static const struct str fields[] = {
        STR_INIT("\x88"), /* :status: 200 */
        STR_INIT("\x8d"), /* 404 */
        STR_INIT("\x08\x03"
                 "103"),
        STR_INIT("\x08\x03"
                 "2x0"),
        STR_INIT("\x0f\x0d\x01"
                 "3"), /* content-length */
        STR_INIT("\x0f\x0d\x04"
                 "3000"),
        STR_INIT("\x40\x01"
                 "a\x01"
                 "b"),    /* into the dynamic table */
        STR_INIT("\xbe"), /* and out of it */
        STR_INIT("\x00\x0a"
                 "connection\x05"
                 "close"),
        STR_INIT("\x00\x01"
                 "A\x01"
                 "b"),
    };
    unsigned id = next(in), flags = next(in), n_fields = next(in) % 16;
    uint8_t block[PAYLOAD_MAX];
    size_t n = 0;

    for (unsigned i = 0; i < n_fields; i++) {
        struct str field = fields[next(in) % ARRAY_LEN(fields)];

        memcpy(block + n, field.p, field.n);
        n += field.n;
    }
    put_frame(NGHTTP2_HEADERS, flags & (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS), id, block, n);
}

static void put_data(struct input *in)
{
    static const uint8_t body[PAYLOAD_MAX];
    unsigned id = next(in), flags = next(in), n = next(in);

    put_frame(NGHTTP2_DATA, flags & NGHTTP2_FLAG_END_STREAM, id, body, n);
}

/* A whole response that will do. */
static void put_good_response(struct input *in)
{
    static const uint8_t head[] = {0x88};
    unsigned id = next(in);

    put_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, head, sizeof head);
    put_frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, head, 1);
}

static void put_goaway(struct input *in)
{
    const uint8_t payload[8] = {0, 0, 0, (uint8_t)next(in)};

    put_frame(NGHTTP2_GOAWAY, 0, 0, payload, sizeof payload);
}

static void let_pass(struct input *in)
{
    wheel_advance(&f.loop.wheel, f.loop.wheel.clock_ms + PASS_MS * (next(in) % 8 + 1));
    turn();
}

static void send_again(struct input *in)
{
    f.sends_again = next(in) & 1;
}

static void close_client(struct input *in)
{
    if (next(in) % 16 == 0)
        http_client_close(&f.client);
    turn();
}

/* ---- a run ---- */

static void set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    http_client_metrics_register(&metrics, "fuzz");
    memset(&f, 0, sizeof f);
    ASSERT(loop_init(&f.loop, 1 << 16, NULL) == E_OK);
    wheel_advance(&f.loop.wheel, f.loop.wheel.clock_ms + FAR_MS); /* only let_pass() moves the time */
    f.options = (struct http_client_options){.max_connections = 2,
                                             .max_waiting = 4,
                                             .connect_timeout_ms = 3 * PASS_MS,
                                             .idle_timeout_ms = 5 * PASS_MS,
                                             .limits = &limits,
                                             .metrics = &metrics};
    http_client_init(&f.client, &f.loop, &f.options);
    f.server = -1;
    f.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT(bind(f.listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(f.listener, 16) == 0);
    ASSERT(getsockname(f.listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(f.url, sizeof f.url, "http://127.0.0.1:%u/a", ntohs(address.sin_port));
}

static void tear_down(int64_t memory)
{
    int64_t accounted = 0;

    f.sends_again = false;
    http_client_close(&f.client);
    turn();
    http_client_fini(&f.client);
    loop_fini(&f.loop);
    if (f.server >= 0)
        close(f.server);
    close(f.listener);
    for (int i = 0; i < HTTP_CLIENT_CLASSES; i++)
        accounted += metric_value(&metrics.responses[i]);
    for (int i = 0; i < HTTP_CLIENT_FAILURES; i++)
        accounted += metric_value(&metrics.failures[i]);
    ASSERT(metric_value(metrics.requests) == accounted);
    ASSERT(metric_value(metrics.in_flight) == 0 && metric_value(metrics.open) == 0);
    ASSERT(mem_used(MEM_HTTP) + mem_used(MEM_PROTO) + mem_used(MEM_LOOP) == memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const steps[])(struct input * in) = {
        start_call,        start_call, accept_next, put_any_frame, put_response, put_response, put_data,
        put_good_response, put_goaway, let_pass,    cancel_call,   close_server, send_again,   close_client,
    };
    int64_t memory = mem_used(MEM_HTTP) + mem_used(MEM_PROTO) + mem_used(MEM_LOOP);
    struct input in = {data, size};

    set_up();
    for (unsigned i = 0; i < STEPS_MAX && in.n > 0; i++)
        steps[next(&in) % ARRAY_LEN(steps)](&in);
    tear_down(memory);
    return 0;
}
