/* The HTTP adapter over loopback connections, with the fake sink in Kafka's place (docs/wire/http.md). */
#include "adapter/http/http_adapter.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "fake/fake_sink.h"
#include "obs/metrics.h"

enum { WORKERS = 2, CLIENTS = 4, TEXT_BYTES = 256 * 1024, HANG_MS = 20000, MAX_SETTINGS = 4 };

/* d1 of t1 has the password pw, as has the gateway g1 of d2; `d 3` is a stranger's. */
static const char config_text[] = "kafka: {bootstrap: 'nowhere:9092'}\n"
                                  "listeners:\n"
                                  "  - {mqtt: '127.0.0.1:0'}\n"
                                  "  - {http: '127.0.0.1:0'}\n"
                                  "  - {http: '127.0.0.1:0', tenant: t1, anonymous: true}\n"
                                  "http: {request_timeout: 8s, max_body_bytes: 64KiB}\n"
                                  "tenants:\n"
                                  "  t1:\n"
                                  "    devices:\n"
                                  "      d1: {password: pw}\n"
                                  "      g1: {password: pw}\n"
                                  "      d2: {via: g1}\n"
                                  "      'd:3': {via: g1}\n"
                                  "      off: {password: pw, enabled: false}\n"
                                  "  t2:\n"
                                  "    adapters: [{type: hono-mqtt, enabled: true}]\n"
                                  "    devices:\n"
                                  "      d1: {password: pw}\n"
                                  "  t4:\n"
                                  "    resource-limits: {data-volume: {max-bytes: 3}}\n"
                                  "    devices: {d1: {password: pw}}\n";

#define D1                        "Authorization: Basic ZDFAdDE6cHc=\r\n"
#define D1_OF_T4                  "Authorization: Basic ZDFAdDQ6cHc=\r\n"
#define G1                        "Authorization: Basic ZzFAdDE6cHc=\r\n"
#define POST(path, headers, body) "POST " path " HTTP/1.1\r\nHost: h\r\n" headers "\r\n" body
#define PUT(path, headers, body)  "PUT " path " HTTP/1.1\r\nHost: h\r\n" headers "\r\n" body
#define X                         "Content-Length: 1\r\n"
#define NDJSON                    "Content-Type: application/x-ndjson\r\n"
#define EVENTS                    "Content-Type: application/cloudevents-batch+json; charset=utf-8\r\n"

enum { GUARDED = 1, OPEN = 2 }; /* listeners */

static struct {
    struct workers workers;
    struct loop main;
    struct fake_sink sink;
    struct generation *generation;
    struct http_adapter *adapter;
    struct mail started, drained, reloaded;
    bool is_started, is_drained, is_reloaded;
    int fds[CLIENTS];
    char *text; /* what the last read brought */
    int64_t memory;
} t;

static struct config_errors errors;

static void on_started(struct mail *m)
{
    (void)m;
    t.is_started = true;
}

static void on_drained(struct mail *m)
{
    (void)m;
    t.is_drained = true;
}

static void on_reloaded(struct mail *m)
{
    (void)m;
    t.is_reloaded = true;
}

static void turn(void)
{
    for (unsigned i = 0; i < t.workers.n; i++)
        loop_turn(&t.workers.list[i].loop, 0);
    loop_turn(&t.main, 0);
}

static void turn_until(const bool *what)
{
    uint64_t since_ms = loop_clock_ms();

    while (!*what) {
        assert_true(loop_clock_ms() - since_ms < HANG_MS);
        turn();
    }
}

static struct generation *load(uint64_t number, const char *setting)
{
    struct config_setting list[] = {{setting}};
    struct config_source source = {
        .text = str_from(config_text), .name = "rig.yaml", .settings = list, .setting_count = setting != NULL};
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return generation_new(number, config, NULL);
}

static int set_up(void **state)
{
    struct http_adapter_settings all;
    struct errinfo ei = {0};

    (void)state;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < CLIENTS; i++)
        t.fds[i] = -1;
    metrics_attach_thread();
    t.memory = mem_used(MEM_ADAPTER);
    t.text = malloc(TEXT_BYTES);
    t.generation = load(1, NULL);
    fake_sink_init(&t.sink);
    assert_int_equal(loop_init(&t.main, 0, &ei), E_OK);
    assert_int_equal(workers_init(&t.workers, WORKERS, 1 << 20, NULL, &ei), E_OK);
    all = (struct http_adapter_settings){.workers = &t.workers, .sink = &t.sink.sink, .generation = t.generation};
    if (http_adapter_open(&all, &t.adapter, &ei) != E_OK)
        fail_msg("%s", ei.text);
    t.started.on_mail = on_started;
    t.drained.on_mail = on_drained;
    t.reloaded.on_mail = on_reloaded;
    http_adapter_start(t.adapter, &t.started, &t.main.mailbox);
    turn_until(&t.is_started);
    return 0;
}

/* The sum of a metric's series whose labels contain `label` (NULL: all). */
static int64_t metric(const char *name, const char *label)
{
    struct buf text = {0};
    int64_t sum = 0;
    char *rest, *line;

    assert_int_equal(metrics_write(&text), E_OK);
    assert_int_equal(buf_append(&text, MEM_OBS, (struct str){"", 1}), E_OK);
    for (line = strtok_r(text.p + text.head, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t n = strlen(name);

        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '{') && (!label || strstr(line, label)))
            sum += strtoll(strrchr(line, ' '), NULL, 10);
    }
    buf_free(&text, MEM_OBS);
    return sum;
}

static void check_ledger(void)
{
    static const char *const routes[] = {"route=\"telemetry\"", "route=\"event\""};

    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        assert_int_equal(
            metric("millrace_messages_in_total", routes[i]),
            metric("millrace_messages_acknowledged_total", routes[i]) + metric("millrace_messages_rejected_total", routes[i]) +
                metric("millrace_messages_dropped_total", routes[i]) + metric("millrace_messages_waiting", routes[i]));
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        if (t.fds[i] >= 0)
            close(t.fds[i]);
    fake_sink_release(&t.sink, SIZE_MAX);
    http_adapter_free(t.adapter);
    check_ledger();
    assert_int_equal(metric("millrace_messages_waiting", NULL), 0);
    workers_fini(&t.workers);
    loop_fini(&t.main);
    fake_sink_fini(&t.sink);
    generation_unref(t.generation);
    free(t.text);
    assert_int_equal(mem_used(MEM_ADAPTER), t.memory);
    return 0;
}

static void pass_ms(uint64_t ms)
{
    for (unsigned i = 0; i < t.workers.n; i++) {
        struct loop *l = &t.workers.list[i].loop;

        l->now_ms += ms;
        wheel_set_clock(&l->wheel, l->now_ms);
        wheel_advance(&l->wheel, l->now_ms);
    }
    turn();
}

static void dial(int client, size_t listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[64];

    http_adapter_name(t.adapter, listener, text, sizeof text);
    address.sin_port = htons((uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10));
    t.fds[client] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(t.fds[client], (struct sockaddr *)&address, sizeof address), 0);
}

static void hang_up(int client)
{
    close(t.fds[client]);
    t.fds[client] = -1;
    for (int i = 0; i < 4; i++)
        turn();
}

static void send_text(int client, struct str text)
{
    while (text.n) {
        ssize_t n = send(t.fds[client], text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
            text = str_from_offset(text, (size_t)n);
        turn();
    }
}

/* Reads what has come without waiting; -1 at the end of the connection. */
static ssize_t read_some(int client, size_t at)
{
    ssize_t n = recv(t.fds[client], t.text + at, TEXT_BYTES - 1 - at, MSG_DONTWAIT);

    t.text[at + (n > 0 ? (size_t)n : 0)] = '\0';
    return n == 0 ? -1 : n > 0 ? n : 0;
}

/* One response, with its body, in t.text. Returns its status; 0: the connection was closed instead. */
static int answer_if_any(int client)
{
    uint64_t since_ms = loop_clock_ms();
    size_t n = 0;

    for (;;) {
        char *end = n ? strstr(t.text, "\r\n\r\n") : NULL, *length = end ? strstr(t.text, "Content-Length: ") : NULL;
        ssize_t more;

        if (end && n >= (size_t)(end + 4 - t.text) + (length ? strtoul(length + 16, NULL, 10) : 0))
            return atoi(t.text + 9);
        assert_true(loop_clock_ms() - since_ms < HANG_MS);
        turn();
        more = read_some(client, n);
        if (more < 0)
            return 0;
        n += (size_t)more;
    }
}

static int answer(int client)
{
    int status = answer_if_any(client);

    assert_int_not_equal(status, 0);
    return status;
}

static void expect_silence(int client)
{
    for (int i = 0; i < 8; i++)
        turn();
    assert_int_equal(read_some(client, 0), 0);
}

/* On a connection of its own. */
static int ask(size_t listener, const char *request)
{
    int status;

    dial(CLIENTS - 1, listener);
    send_text(CLIENTS - 1, str_from(request));
    status = answer(CLIENTS - 1);
    hang_up(CLIENTS - 1);
    return status;
}

static void expect_header(size_t i, const char *name, const char *value)
{
    struct str got = fake_sink_header(fake_sink_record(&t.sink, i), str_from(name));

    if (!value && got.p)
        fail_msg("record %zu has a %s", i, name);
    if (value && !str_equal(got, str_from(value)))
        fail_msg("record %zu: %s is '%.*s', not '%s'", i, name, STR_ARG(got), value);
}

static void every_request_has_its_status(void **state)
{
    static const struct {
        size_t listener;
        const char *request;
        int status;
        const char *has; /* in the response */
    } rows[] = {
        {GUARDED, POST("/telemetry", D1 X, "x"), 202, "\r\nContent-Length: 0\r\n"},
        {GUARDED, POST("/telemetry", D1 "qos-level: 0\r\n" X, "x"), 202, NULL},
        {GUARDED, POST("/telemetry", D1 "QoS-Level: 1\r\n" X, "x"), 202, NULL},
        {GUARDED, POST("/event", D1 X, "x"), 202, NULL},
        {GUARDED, POST("/event", D1 "QoS-Level: 1\r\n" X, "x"), 202, NULL},
        {GUARDED, PUT("/telemetry/t1/d1", D1 X, "x"), 202, NULL},
        {GUARDED, PUT("/telemetry//d2", G1 X, "x"), 202, NULL},
        {GUARDED, PUT("/event/t1/d2", G1 X, "x"), 202, NULL},
        {OPEN, PUT("/telemetry/t1/d2", X, "x"), 202, NULL},
        {OPEN, PUT("/event/t1/d1", X, "x"), 202, NULL},
        {OPEN, POST("/telemetry", D1 X, "x"), 202, NULL},
        {GUARDED, POST("/telemetry", D1 "QoS-Level: 2\r\n" X, "x"), 400, "{\"error\":\"QoS-Level must be 0 or 1\"}"},
        {GUARDED, POST("/telemetry", D1 "QoS-Level: \r\n" X, "x"), 400, NULL},
        {GUARDED, POST("/telemetry", D1 "QoS-Level: 01\r\n" X, "x"), 400, NULL},
        {GUARDED, POST("/telemetry", D1 "QoS-Level: 1\r\nqos-level: 1\r\n" X, "x"), 400, "given twice"},
        {GUARDED, POST("/telemetry", D1 D1 X, "x"), 400, "given twice"},
        {GUARDED, POST("/event", D1 "QoS-Level: 0\r\n" X, "x"), 400, "events and responses have QoS 1"},
        {GUARDED, POST("/telemetry", D1, ""), 400, NULL},
        {GUARDED, POST("/event?hono-ttl=%zz", D1 X, "x"), 400, NULL},
        {GUARDED, PUT("/telemetry//d%2", G1 X, "x"), 400, NULL},
        {GUARDED, PUT("/telemetry//d%00", G1 X, "x"), 400, NULL},
        {GUARDED, POST("/telemetry", X, "x"), 401, "\r\nWWW-Authenticate: Basic realm=\"Hono\"\r\n"},
        {GUARDED, POST("/telemetry", "Authorization: Basic ZDFAdDE6bm8=\r\n" X, "x"), 401, "{\"error\":"},
        {GUARDED, POST("/telemetry", "Authorization: Basic ZDFAdDE=\r\n" X, "x"), 401, NULL},
        {GUARDED, POST("/telemetry", "Authorization: Basic ZDFAdDE6cHc\r\n" X, "x"), 401, NULL},
        {GUARDED, POST("/telemetry", "Authorization: Bearer ZDFAdDE6cHc=\r\n" X, "x"), 401, "Basic realm"},
        {GUARDED, POST("/telemetry", "Authorization: Basic\r\n" X, "x"), 401, NULL},
        {OPEN, POST("/telemetry", X, "x"), 401, NULL},
        {OPEN, PUT("/telemetry/t1/d1", "Authorization: Basic ZDFAdDE6bm8=\r\n" X, "x"), 401, NULL},
        {GUARDED, POST("/telemetry", "Authorization: Basic ZDFAdDI6cHc=\r\n" X, "x"), 403, "does not use this adapter"},
        {GUARDED, PUT("/telemetry//d1", G1 X, "x"), 403, NULL},
        {GUARDED, PUT("/telemetry/t2/d1", G1 X, "x"), 403, NULL},
        {OPEN, PUT("/telemetry/t2/d1", X, "x"), 403, NULL},
        {GUARDED, POST("/telemetry", "Authorization: Basic b2ZmQHQxOnB3\r\n" X, "x"), 404, "disabled"},
        {GUARDED, PUT("/telemetry//nobody", G1 X, "x"), 404, NULL},
        {OPEN, PUT("/telemetry//d1", X, "x"), 404, NULL},
        {OPEN, PUT("/telemetry/t1/off", X, "x"), 404, NULL},
        {GUARDED, PUT("/telemetry/t1", D1 X, "x"), 404, NULL},
        {GUARDED, PUT("/telemetry/t1/", D1 X, "x"), 404, NULL},
        {GUARDED, PUT("/telemetry/t1/d1/x", D1 X, "x"), 404, NULL},
        {GUARDED, POST("/t", D1 X, "x"), 404, NULL},
        {GUARDED, POST("/command/res/203abc", D1 X, "x"), 400, "hono-cmd-status"},
        {GUARDED, "GET /telemetry HTTP/1.1\r\nHost: h\r\n\r\n", 405, "\r\nAllow: POST, OPTIONS\r\n"},
        {GUARDED, PUT("/event", D1 X, "x"), 405, NULL},
        {GUARDED, POST("/event/t1/d1", D1 X, "x"), 405, "\r\nAllow: PUT, OPTIONS\r\n"},
        {GUARDED, POST("/telemetry", D1 "Content-Length: 65537\r\n", ""), 413, NULL},
    };
    size_t n_taken = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = ask(rows[i].listener, rows[i].request);

        n_taken += rows[i].status == 202;
        if (status != rows[i].status || (rows[i].has && !strstr(t.text, rows[i].has)))
            fail_msg("%s\nis answered with\n%s", rows[i].request, t.text);
        assert_int_equal(fake_sink_count(&t.sink), n_taken);
    }
}

/* What one of two parsers on a path might read differently. */
static void requests_with_two_readings_are_refused(void **state)
{
    static const char *const requests[] = {
        POST("/telemetry", D1 "Content-Length: 1\r\nContent-Length: 2\r\n", "xy"),
        POST("/telemetry", D1 "Content-Length: 1\r\nContent-Length: 1\r\n", "x"),
        POST("/telemetry", D1 "Content-Length: 1, 1\r\n", "x"),
        POST("/telemetry", D1 "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        POST("/telemetry", D1 "Content-Length: +1\r\n", "x"),
        POST("/telemetry", D1 "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        POST("/telemetry", D1 "Host: other\r\n" X, "x"),
        POST("/telemetry", D1 "QoS-Level:\r\n 1\r\n" X, "x"),
        POST("/telemetry", D1 "QoS-Level : 1\r\n" X, "x"),
        "POST /telemetry HTTP/1.1\nHost: h\n" D1 X "\nx",
        "POST /telemetry HTTP/1.1\r\nHost: h\nX: y\r\n" D1 X "\r\nx",
        "POST /telemetry HTTP/1.1\r\n" D1 X "\r\nx",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++)
        if (ask(GUARDED, requests[i]) / 100 < 4 || !strstr(t.text, "Connection: close"))
            fail_msg("%s\nis answered with\n%s", requests[i], t.text);
    assert_int_equal(fake_sink_count(&t.sink), 0);
}

static void a_record_tells_what_the_request_said(void **state)
{
    (void)state;
    assert_int_equal(ask(GUARDED, PUT("/event//d%3A3?hono-ttl=30&x=%20y",
                                      G1 "Content-Type: text/plain\r\nhono-ttd: 5\r\n" X
                                         "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
                                      "x")),
                     202);
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->topic, STR("hono.event.t1")));
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->key, STR("d:3")));
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->value, STR("x")));
    expect_header(0, "device_id", "d:3");
    expect_header(0, "content-type", "text/plain");
    expect_header(0, "orig_adapter", "hono-http");
    expect_header(0, "orig_address", "/event//d%3A3?hono-ttl=30&x=%20y");
    expect_header(0, "qos", "1");
    expect_header(0, "ttl", "30000");
    expect_header(0, "ttd", NULL);
    expect_header(0, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_int_equal(ask(GUARDED, POST("http://h:1/telemetry?a=b", D1 "hono-ttl: 9\r\n" X, "x")), 202);
    expect_header(1, "orig_address", "/telemetry?a=b");
    expect_header(1, "content-type", "application/octet-stream");
    expect_header(1, "qos", "0");
    expect_header(1, "ttl", NULL);
    assert_int_equal(ask(GUARDED, POST("/event",
                                       D1 "hono-ttl: 7\r\n"
                                          "Content-Type: application/vnd.eclipse-hono-empty-notification\r\n",
                                       "")),
                     202);
    assert_null(fake_sink_record(&t.sink, 2)->value.p);
    expect_header(2, "ttl", "7000");
}

static void qos_0_is_answered_at_once_and_counted_when_kafka_has_spoken(void **state)
{
    int64_t dropped = metric("millrace_messages_dropped_total", "reason=\"unavailable\"");

    (void)state;
    fake_sink_hold(&t.sink);
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 X, "x")), 202);
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 X, "y")), 202);
    assert_int_equal(metric("millrace_messages_waiting", "telemetry"), 2);
    check_ledger();
    fake_sink_answer(&t.sink, 0, OUTCOME_UNAVAILABLE);
    fake_sink_answer(&t.sink, 1, OUTCOME_STORED);
    turn();
    assert_int_equal(metric("millrace_messages_waiting", "telemetry"), 0);
    assert_int_equal(metric("millrace_messages_dropped_total", "reason=\"unavailable\""), dropped + 1);
    check_ledger();
}

static void qos_1_is_answered_with_what_kafka_said(void **state)
{
    static const struct {
        enum outcome outcome;
        bool is_at_once;
        int status;
    } rows[] = {
        {OUTCOME_STORED, false, 202},        {OUTCOME_TOO_LARGE, false, 413},  {OUTCOME_TOO_LARGE, true, 413},
        {OUTCOME_UNKNOWN_TOPIC, false, 503}, {OUTCOME_DENIED, false, 503},     {OUTCOME_INVALID, false, 400},
        {OUTCOME_UNAVAILABLE, false, 503},   {OUTCOME_UNAVAILABLE, true, 503}, {OUTCOME_FAILED, false, 503},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fake_sink_add_step(&t.sink, rows[i].outcome, rows[i].is_at_once);
        assert_int_equal(ask(GUARDED, POST("/event", D1 X, "x")), rows[i].status);
        assert_int_equal(strstr(t.text, "\r\nRetry-After: 2\r\n") != NULL, rows[i].status == 503);
        assert_int_equal(strstr(t.text, "{\"error\":\"") != NULL, rows[i].status != 202);
    }
}

static void requests_of_one_connection_are_answered_in_order(void **state)
{
    (void)state;
    fake_sink_hold(&t.sink);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "a") POST("/telemetry", D1 X, "b") "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    expect_silence(0);
    fake_sink_release(&t.sink, SIZE_MAX);
    assert_int_equal(answer(0), 202);
    assert_non_null(strstr(t.text, "HTTP/1.1 202 Accepted\r\n"));
}

static void a_request_that_waits_too_long_is_told_so_and_may_be_stored_all_the_same(void **state)
{
    int64_t late = metric("millrace_http_stored_late_total", NULL);

    (void)state;
    fake_sink_hold(&t.sink);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "x")));
    pass_ms(4000);
    expect_silence(0);
    pass_ms(4500);
    assert_int_equal(answer(0), 503);
    assert_non_null(strstr(t.text, "\r\nRetry-After: 2\r\n"));
    assert_int_equal(metric("millrace_messages_waiting", NULL), 0);
    fake_sink_release(&t.sink, SIZE_MAX);
    turn();
    assert_int_equal(metric("millrace_http_stored_late_total", NULL), late + 1);
    send_text(0, STR(POST("/event", D1 X, "y")));
    assert_int_equal(answer(0), 202);
}

static void without_room_qos_0_is_refused_and_qos_1_waits_for_it(void **state)
{
    (void)state;
    fake_sink_hold(&t.sink);
    fake_sink_set_room(&t.sink, 1);
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 X, "0")), 202);
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 X, "1")), 503);
    assert_non_null(strstr(t.text, "\r\nRetry-After: 2\r\n"));
    dial(0, GUARDED);
    dial(1, GUARDED);
    send_text(0, STR(POST("/telemetry", D1 "QoS-Level: 1\r\n" X, "2")));
    expect_silence(0);
    send_text(1, STR(POST("/event", D1 X, "3")));
    expect_silence(1);
    assert_int_equal(fake_sink_count(&t.sink), 1);
    assert_int_equal(metric("millrace_messages_waiting", NULL), 3);
    fake_sink_release(&t.sink, SIZE_MAX);
    assert_int_equal(answer(0), 202);
    assert_int_equal(answer(1), 202);
    assert_int_equal(fake_sink_count(&t.sink), 3);
}

static void what_waits_for_room_in_vain_never_reaches_kafka(void **state)
{
    (void)state;
    fake_sink_set_room(&t.sink, 0);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "x")));
    expect_silence(0);
    pass_ms(8500);
    assert_int_equal(answer(0), 503);
    fake_sink_set_room(&t.sink, 1);
    turn();
    assert_int_equal(fake_sink_count(&t.sink), 0);
}

static void a_batch_of_lines_has_a_status_for_each(void **state)
{
    (void)state;
    assert_int_equal(
        ask(GUARDED, POST("/telemetry?device-pointer=/meta/dev", G1 NDJSON "QoS-Level: 1\r\nContent-Length: 81\r\n",
                          "{\"meta\":{\"dev\":\"d2\"}}\r\n"
                          "\n"
                          "{\"meta\":{\"dev\":\"d1\"}}\n"
                          "  [1, 2]  \n"
                          "{\"a\":\n"
                          "{\"meta\":{\"dev\":7}}")),
        207);
    assert_non_null(strstr(t.text,
                           "[{\"status\":202},{\"status\":403,\"error\":\"not authorised for this device\"},{\"status\":202},"
                           "{\"status\":400,\"error\":\"the line is no JSON value\"},{\"status\":400,\"error\":"));
    assert_int_equal(fake_sink_count(&t.sink), 2);
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->key, STR("d2")));
    assert_true(str_equal(fake_sink_record(&t.sink, 1)->key, STR("g1")));
    assert_true(str_equal(fake_sink_record(&t.sink, 1)->value, STR("[1, 2]")));
    expect_header(0, "content-type", "application/json");
    assert_int_equal(ask(GUARDED, POST("/event", D1 NDJSON "Content-Length: 3\r\n", "1\n2")), 202);
    assert_non_null(strstr(t.text, "[{\"status\":202},{\"status\":202}]"));
}

#define EVENT(id, more) "{\"specversion\":\"1.0\",\"id\":\"" id "\",\"source\":\"/s\",\"type\":\"t\"" more "}"

static void a_batch_of_events_has_a_status_for_each(void **state)
{
    static const char body[] = "[" EVENT("1", "") ", " EVENT("2", ",\"deviceid\":\"d\\u0032\"") ",{\"id\":\"3\"}]";
    char request[1024];

    (void)state;
    snprintf(request, sizeof request, POST("/event", G1 EVENTS "Content-Length: %zu\r\n", "%s"), sizeof body - 1, body);
    assert_int_equal(ask(GUARDED, request), 207);
    assert_non_null(strstr(t.text, "[{\"status\":202},{\"status\":202},{\"status\":400,"
                                   "\"error\":\"attribute \\\"specversion\\\" is missing\"}]"));
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->value, STR(EVENT("1", ""))));
    assert_true(str_equal(fake_sink_record(&t.sink, 0)->key, STR("g1")));
    assert_true(str_equal(fake_sink_record(&t.sink, 1)->key, STR("d2")));
    expect_header(1, "content-type", "application/cloudevents+json");
}

static void a_body_that_is_no_batch_is_refused_as_a_whole(void **state)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {POST("/event", D1 EVENTS "Content-Length: 2\r\n", "[]"), 400},
        {POST("/event", D1 EVENTS "Content-Length: 2\r\n", "{}"), 400},
        {POST("/event", D1 EVENTS "Content-Length: 2\r\n", "[1"), 400},
        {POST("/event", D1 EVENTS, ""), 400},
        {POST("/event", D1 NDJSON "Content-Length: 2\r\n", "\n\n"), 400},
        {POST("/event?device-pointer=x", D1 NDJSON X, "1"), 400},
    };
    char lines[2 * 1001 + 1], request[4096];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(ask(GUARDED, rows[i].request), rows[i].status);
    for (size_t i = 0; i < 1001; i++)
        memcpy(lines + 2 * i, "1\n", 3);
    snprintf(request, sizeof request, POST("/event", D1 NDJSON "Content-Length: %zu\r\n", "%s"), strlen(lines), lines);
    assert_int_equal(ask(GUARDED, request), 413);
    assert_int_equal(fake_sink_count(&t.sink), 0);
    /* By PUT, whose path says whom it is about, the same is one message. */
    assert_int_equal(ask(GUARDED, PUT("/event//d1", D1 NDJSON "Content-Length: 3\r\n", "1\n2")), 202);
    assert_int_equal(fake_sink_count(&t.sink), 1);
}

static void a_batch_waits_for_room_where_it_stopped(void **state)
{
    (void)state;
    fake_sink_hold(&t.sink);
    fake_sink_set_room(&t.sink, 2);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 NDJSON "Content-Length: 5\r\n", "1\n2\n3")));
    expect_silence(0);
    assert_int_equal(fake_sink_count(&t.sink), 2);
    fake_sink_release(&t.sink, 1);
    expect_silence(0);
    assert_int_equal(fake_sink_count(&t.sink), 3);
    pass_ms(8500);
    assert_int_equal(answer(0), 207);
    assert_non_null(strstr(t.text, "[{\"status\":202},{\"status\":503,"));
    assert_non_null(strstr(t.text, "\r\nRetry-After: 2\r\n"));
}

static void scripts_of_the_allowed_origin_may_send(void **state)
{
    (void)state;
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 "Origin: https://a\r\n" X, "x")), 202);
    assert_non_null(strstr(t.text, "\r\nAccess-Control-Allow-Origin: *\r\n"));
    assert_int_equal(ask(GUARDED, POST("/telemetry", "Origin: https://a\r\n" X, "x")), 401);
    assert_non_null(strstr(t.text, "\r\nAccess-Control-Allow-Origin: *\r\n"));
    assert_int_equal(ask(GUARDED, "OPTIONS /telemetry HTTP/1.1\r\nHost: h\r\nOrigin: https://a\r\n"
                                  "Access-Control-Request-Method: POST\r\n\r\n"),
                     204);
    assert_non_null(strstr(t.text, "\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n"));
    assert_non_null(strstr(t.text, "\r\nAccess-Control-Allow-Headers: QoS-Level, hono-ttd, authorization, content-type"));
    assert_int_equal(ask(GUARDED, "OPTIONS /event/t1/d1 HTTP/1.1\r\nHost: h\r\n\r\n"), 204);
    assert_non_null(strstr(t.text, "\r\nAllow: PUT, OPTIONS\r\n"));
    assert_null(strstr(t.text, "Access-Control"));
}

static void reload(const char *setting)
{
    struct generation *next = load(t.generation->number + 1, setting);

    t.is_reloaded = false;
    http_adapter_use(t.adapter, next, &t.reloaded, &t.main.mailbox);
    turn_until(&t.is_reloaded);
    generation_unref(t.generation);
    t.generation = next;
}

static void a_reload_holds_for_the_next_request(void **state)
{
    (void)state;
    dial(0, OPEN);
    send_text(0, STR(PUT("/telemetry/t1/d1", X, "x")));
    assert_int_equal(answer(0), 202);
    reload("listeners[2].anonymous=false");
    send_text(0, STR(PUT("/telemetry/t1/d1", X, "x")));
    assert_int_equal(answer(0), 401);
    reload("http.cors_allowed_origin=https://a");
    assert_int_equal(ask(OPEN, POST("/telemetry", D1 "Origin: https://a\r\n" X, "x")), 202);
    assert_non_null(strstr(t.text, "\r\nAccess-Control-Allow-Origin: https://a\r\nVary: Origin\r\n"));
    assert_int_equal(ask(OPEN, POST("/telemetry", D1 "Origin: https://b\r\n" X, "x")), 202);
    assert_null(strstr(t.text, "Access-Control"));
    assert_int_equal(ask(OPEN, "OPTIONS /event HTTP/1.1\r\nHost: h\r\nOrigin: https://b\r\n\r\n"), 403);
    /* What waits for room is checked against what holds when there is some. */
    fake_sink_set_room(&t.sink, 0);
    send_text(0, STR(POST("/event", D1 X, "x")));
    expect_silence(0);
    reload("tenants.t1.devices.d1.enabled=false");
    fake_sink_set_room(&t.sink, SIZE_MAX);
    assert_int_equal(answer(0), 404);
}

static void the_shorter_limit_counts(void **state)
{
    (void)state;
    reload("hono.delivery_timeout=500ms");
    fake_sink_hold(&t.sink);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "x")));
    pass_ms(600);
    assert_int_equal(answer(0), 503);
}

static void a_drain_answers_what_is_in_flight(void **state)
{
    (void)state;
    fake_sink_hold(&t.sink);
    dial(0, GUARDED);
    dial(1, GUARDED);
    dial(2, OPEN);
    send_text(0, STR(POST("/event", D1 X, "x")));
    send_text(1, STR("POST /event HTTP/1.1\r\nHost: h\r\n" D1));
    expect_silence(0);
    http_adapter_drain(t.adapter, &t.drained, &t.main.mailbox);
    expect_silence(0);
    assert_int_equal(read_some(2, 0), -1);
    send_text(1, STR(X "\r\nx"));
    expect_silence(1);
    assert_false(t.is_drained);
    fake_sink_release(&t.sink, SIZE_MAX);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(answer(i), 202);
        assert_non_null(strstr(t.text, "\r\nConnection: close\r\n"));
        hang_up(i);
    }
    turn_until(&t.is_drained);
}

static void a_device_that_goes_leaves_nothing_behind(void **state)
{
    (void)state;
    fake_sink_hold(&t.sink);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "x")));
    expect_silence(0);
    hang_up(0);
    fake_sink_release(&t.sink, SIZE_MAX);
    turn();
    assert_int_equal(metric("millrace_messages_waiting", NULL), 0);
    fake_sink_set_room(&t.sink, 0);
    dial(0, GUARDED);
    send_text(0, STR(POST("/event", D1 X, "x")));
    expect_silence(0);
    hang_up(0);
    /* It waits on until the end, where tear_down() finds it. */
}

static void without_memory_a_request_is_refused_or_its_connection_closed(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth < 6; nth++) {
        int status;

        dial(0, GUARDED);
        turn();
        mem_fail_after(nth);
        send_text(0, STR(POST("/event", D1 NDJSON "Content-Length: 3\r\n", "1\n2")));
        turn();
        mem_fail_after(0);
        status = answer_if_any(0); /* there may be none left for an answer */
        if (status && status != 202 && status / 100 != 5)
            fail_msg("%s", t.text);
        hang_up(0);
    }
}

static void what_goes_beyond_the_data_volume_is_refused(void **state)
{
    int64_t rejected = metric("millrace_messages_rejected_total", "reason=\"data_volume\"");

    (void)state;
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1_OF_T4 "Content-Length: 2\r\n", "xy")), 202);
    assert_int_equal(ask(GUARDED, POST("/event", D1_OF_T4 "Content-Length: 2\r\n", "xy")), 429);
    assert_non_null(strstr(t.text, "{\"error\":\"the data volume of the tenant is used up\"}"));
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1_OF_T4 "QoS-Level: 0\r\nContent-Length: 2\r\n", "xy")), 429);
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1_OF_T4 NDJSON "Content-Length: 4\r\n", "1\n2\n")), 207);
    assert_non_null(strstr(t.text, "[{\"status\":202},{\"status\":429,"));
    assert_int_equal(ask(GUARDED, POST("/telemetry", D1 "Content-Length: 2\r\n", "xy")), 202); /* of another tenant */
    assert_int_equal(metric("millrace_messages_rejected_total", "reason=\"data_volume\""), rejected + 3);
    assert_int_equal(fake_sink_count(&t.sink), 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(every_request_has_its_status),
        CASE(requests_with_two_readings_are_refused),
        CASE(a_record_tells_what_the_request_said),
        CASE(qos_0_is_answered_at_once_and_counted_when_kafka_has_spoken),
        CASE(qos_1_is_answered_with_what_kafka_said),
        CASE(requests_of_one_connection_are_answered_in_order),
        CASE(a_request_that_waits_too_long_is_told_so_and_may_be_stored_all_the_same),
        CASE(without_room_qos_0_is_refused_and_qos_1_waits_for_it),
        CASE(what_waits_for_room_in_vain_never_reaches_kafka),
        CASE(what_goes_beyond_the_data_volume_is_refused),
        CASE(a_batch_of_lines_has_a_status_for_each),
        CASE(a_batch_of_events_has_a_status_for_each),
        CASE(a_body_that_is_no_batch_is_refused_as_a_whole),
        CASE(a_batch_waits_for_room_where_it_stopped),
        CASE(scripts_of_the_allowed_origin_may_send),
        CASE(a_reload_holds_for_the_next_request),
        CASE(the_shorter_limit_counts),
        CASE(a_drain_answers_what_is_in_flight),
        CASE(a_device_that_goes_leaves_nothing_behind),
        CASE(without_memory_a_request_is_refused_or_its_connection_closed),
    };

    return cmocka_run_group_tests_name("http_device", tests, NULL, NULL);
}
