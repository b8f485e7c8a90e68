/* http2_client_fixture: a client, whoever asks it, and a scripted server, for the tests of HTTP/2 requests. */
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/http2_fixture.h"
#include "http/http_client.h"

enum { CALLS = 12, FAR_MS = 1000000000, BODY_BYTES = 100000 };

struct asked {
    struct http_call call;
    unsigned n_done;
    err result;
    uint16_t status;
    char body[64], note[64];
};

static struct http_client_metrics metrics;
static const struct http1_limits limits = {
    .max_line_bytes = 100, .max_head_bytes = 1000, .max_headers = 10, .max_body_bytes = 50};
static char big[BODY_BYTES];

static struct {
    struct loop loop;
    struct http_client client;
    struct http_client_options options;
    struct asked asked[CALLS];
    unsigned n_asked, n_told;
    int listener;
    struct http2_peer server; /* the scripted one */
    char url[64];
    struct str body;
    void (*on_done)(struct asked *a);
    int64_t memory;
} t;

/* ---- what the client's user does ---- */

static inline void copy(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_ARG(s));
}

static inline void on_done(struct http_call *call)
{
    struct asked *a = CONTAINER_OF(call, struct asked, call);

    a->n_done++;
    a->result = call->result;
    t.n_told++;
    if (call->result == E_OK) {
        a->status = call->response->status;
        copy(a->body, sizeof a->body, call->body);
        copy(a->note, sizeof a->note, http1_response_header(call->response, STR("note")));
    }
    if (t.on_done)
        t.on_done(a);
}

static inline err send_again(struct asked *a, enum http_method method, uint32_t timeout_ms)
{
    static const struct http_header headers[] = {{STR_INIT("Tenant"), STR_INIT("T")}};
    static const struct str lines[] = {STR_INIT("Ce-Id: 1\r\nCe-Type: a:b\r\n")};
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = method,
        .headers = headers,
        .n_headers = 1,
        .lines = lines,
        .n_lines = 1,
        .body = method == HTTP_METHOD_POST ? t.body : (struct str){0},
        .timeout_ms = timeout_ms,
        .is_http2 = true,
    };

    assert_int_equal(http_url_parse(str_from(t.url), &url, NULL), E_OK);
    a->call.on_done = on_done;
    return http_client_send(&t.client, &a->call, &request);
}

static inline struct asked *ask_for(enum http_method method, uint32_t timeout_ms)
{
    struct asked *a = &t.asked[t.n_asked++];
    unsigned n_told = t.n_told;

    assert_true(t.n_asked <= CALLS);
    assert_int_equal(send_again(a, method, timeout_ms), E_OK);
    assert_int_equal(t.n_told, n_told); /* never inside */
    return a;
}

static inline struct asked *ask(void)
{
    return ask_for(HTTP_METHOD_GET, FAR_MS);
}

static inline void turn(void)
{
    for (int i = 0; i < 4; i++)
        loop_turn(&t.loop, 0);
}

static inline void pass_ms(uint64_t ms)
{
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + ms);
    turn();
}

static inline void assert_told(const struct asked *a, err result)
{
    while (!a->n_done)
        turn();
    if (a->n_done != 1 || a->result != result)
        fail_msg("told %u times, %s", a->n_done, err_name(a->result));
}

/* ---- the scripted server ---- */

static inline void listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    t.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(t.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(t.listener, 16), 0);
    assert_int_equal(getsockname(t.listener, (struct sockaddr *)&address, &size), 0);
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%u/a?b=c", ntohs(address.sin_port));
}

static inline const char *hear(void)
{
    return fixture_hear(&t.server, turn);
}

/* Until all of it has come, and nothing else. */
static inline void expect(const char *text)
{
    hear();
    while (strlen(t.server.text) < strlen(text) && !t.server.is_eof)
        fixture_hear_more(&t.server, turn);
    assert_string_equal(t.server.text, text);
}

static inline void expect_part(const char *text)
{
    hear();
    while (!strstr(t.server.text, text) && !t.server.is_eof)
        fixture_hear_more(&t.server, turn);
    assert_non_null(strstr(t.server.text, text));
}

static inline void expect_end(void)
{
    while (!t.server.is_eof)
        hear();
}

/* The next connection, whose preface and settings are read. */
static inline void accept_one(void)
{
    char preface[NGHTTP2_CLIENT_MAGIC_LEN];
    int fd;

    while ((fd = accept4(t.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
        turn();
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    fixture_open(&t.server, fd);
    while (recv(fd, preface, sizeof preface, 0) < 0)
        turn();
    assert_memory_equal(preface, NGHTTP2_CLIENT_MAGIC, sizeof preface);
    fixture_put_frame(&t.server, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    fixture_put_frame(&t.server, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (struct str){0});
}

static inline void leave_server(void)
{
    fixture_close(&t.server);
    turn();
}

static inline void assert_nobody_connects(void)
{
    turn();
    assert_int_equal(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), -1);
}

static inline void answer(uint32_t id, const char *body)
{
    fixture_put_headers(&t.server, id, false, ":status: 200\nnote: n\n");
    fixture_put_data(&t.server, id, true, str_from(body));
}

static inline int64_t failures(enum http_client_failure why)
{
    return metric_value(&metrics.failures[why]);
}

static inline int set_up(void **state)
{
    char *text = t.server.text;

    (void)state;
    memset(&t, 0, sizeof t);
    t.server = (struct http2_peer){.fd = -1, .text = text};
    t.memory = mem_used(MEM_HTTP) + mem_used(MEM_LOOP) + mem_used(MEM_PROTO);
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + FAR_MS); /* from here on only pass_ms() moves the time */
    t.options = (struct http_client_options){
        .max_connections = 2, .connect_timeout_ms = 1000, .idle_timeout_ms = 5000, .limits = &limits, .metrics = &metrics};
    http_client_init(&t.client, &t.loop, &t.options);
    listen_on_loopback();
    return 0;
}

static inline int tear_down(void **state)
{
    int64_t accounted;

    (void)state;
    http_client_close(&t.client);
    turn();
    http_client_fini(&t.client);
    loop_fini(&t.loop);
    fixture_close(&t.server);
    close(t.listener);
    accounted = metric_value(metrics.in_flight);
    for (int i = 0; i < HTTP_CLIENT_CLASSES; i++)
        accounted += metric_value(&metrics.responses[i]);
    for (int i = 0; i < HTTP_CLIENT_FAILURES; i++)
        accounted += failures(i);
    assert_int_equal(metric_value(metrics.requests), accounted);
    assert_int_equal(metric_value(metrics.in_flight), 0);
    assert_int_equal(metric_value(metrics.open), 0);
    assert_int_equal(mem_used(MEM_HTTP) + mem_used(MEM_LOOP) + mem_used(MEM_PROTO), t.memory);
    return 0;
}
