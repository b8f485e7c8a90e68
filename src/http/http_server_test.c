#include "http/http_server.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

enum { TURNS = 6, CLIENTS = 4, BIG_BYTES = 40000, TEXT_BYTES = 4 << 20, FAR_MS = 1000000000 };

static struct {
    struct loop loop;
    struct http_server server;
    int clients[CLIENTS];
    struct http_exchange *held[CLIENTS];
    unsigned n_held, n_cancelled, n_closed;
    char *text; /* what pump() has read, without dates */
    size_t n_text;
    bool is_eof;
    int64_t memory;
} t;

static struct http_metrics metrics;
static char big[BIG_BYTES];

/* ---- handlers ---- */

static void on_echo(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = x->request.body});
}

static void on_path(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond_text(x, 200, x->params[0]);
}

static void on_cancel(struct http_exchange *x)
{
    assert_true(http_exchange_is_cancelled(x));
    t.n_cancelled++;
}

static void on_hold(struct http_exchange *x, void *context)
{
    (void)context;
    assert_true(t.n_held < CLIENTS);
    x->on_cancel = on_cancel;
    t.held[t.n_held++] = x;
}

static void on_big(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = {big, sizeof big}});
}

static void on_injection(struct http_exchange *x, void *context)
{
    struct http_header header = {STR("X"), STR("a\r\nSet-Cookie: b")};

    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .headers = &header, .n_headers = 1});
}

static void on_error(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond_error(x, 429, STR("a \"quoted\" \\ text\n"));
}

static void on_no_content(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 204, .body = STR("ignored")});
}

static const struct http_route routes[] = {
    {.method = HTTP_METHOD_POST, .pattern = "/echo", .handler = on_echo},
    {.method = HTTP_METHOD_POST, .pattern = "/small", .handler = on_echo, .max_body_bytes = 4},
    {.method = HTTP_METHOD_GET, .pattern = "/path/{}", .handler = on_path},
    {.method = HTTP_METHOD_GET, .pattern = "/hold", .handler = on_hold},
    {.method = HTTP_METHOD_GET, .pattern = "/big", .handler = on_big},
    {.method = HTTP_METHOD_GET, .pattern = "/injection", .handler = on_injection},
    {.method = HTTP_METHOD_GET, .pattern = "/error", .handler = on_error},
    {.method = HTTP_METHOD_GET, .pattern = "/nothing", .handler = on_no_content},
};

static const struct http1_limits limits = {
    .max_line_bytes = 256, .max_head_bytes = 1024, .max_headers = 10, .max_body_bytes = 1 << 20};

static const struct http_server_options options = {
    .routes = routes,
    .n_routes = ARRAY_LEN(routes),
    .limits = &limits,
    .metrics = &metrics,
    .max_connections = CLIENTS,
    .head_timeout_ms = 1000,
    .body_timeout_ms = 2000,
    .idle_timeout_ms = 5000,
    .output_timeout_ms = 3000,
};

/* ---- the test's side of the connections ---- */

static void turn(void)
{
    for (int i = 0; i < TURNS; i++)
        loop_turn(&t.loop, 0);
}

static void pass_ms(uint64_t ms)
{
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + ms);
    turn();
}

static void connect_client(unsigned i)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    t.clients[i] = fds[0];
    assert_int_equal(http_server_adopt(&t.server, fds[1]), E_OK);
}

static void disconnect(unsigned i)
{
    close(t.clients[i]);
    t.clients[i] = -1;
    turn();
}

/* Takes the Date headers out of t.text, so that responses can be compared. */
static void drop_dates(void)
{
    char *at;

    while ((at = strstr(t.text, "Date: "))) {
        size_t n = strlen("Date: \r\n") + HTTP1_DATE_BYTES;

        memmove(at, at + n, t.n_text - (size_t)(at - t.text) - n + 1);
        t.n_text -= n;
    }
}

/* Reads what has come for a client. */
static const char *receive(unsigned i)
{
    ssize_t n;

    t.n_text = 0;
    t.is_eof = false;
    do {
        turn();
        n = recv(t.clients[i], t.text + t.n_text, TEXT_BYTES - t.n_text - 1, MSG_DONTWAIT);
        t.n_text += n > 0 ? (size_t)n : 0;
        t.is_eof = n == 0;
    } while (n > 0);
    t.text[t.n_text] = '\0';
    drop_dates();
    return t.text;
}

static void put(unsigned i, const char *text)
{
    assert_int_equal(send(t.clients[i], text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static const char *ask(unsigned i, const char *text)
{
    put(i, text);
    return receive(i);
}

static int64_t refused(enum http1_refusal why)
{
    return metric_value(&metrics.refused[why]);
}

static int64_t closed(enum http_close_reason why)
{
    return metric_value(&metrics.closed[why]);
}

static int set_up(void **state)
{
    char *text = t.text;

    (void)state;
    memset(&t, 0, sizeof t);
    t.text = text;
    memset(t.clients, -1, sizeof t.clients);
    t.memory = mem_used(MEM_HTTP) + mem_used(MEM_PROTO);
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    /* Far ahead of the real clock: from here on only pass_ms() moves the time. */
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + FAR_MS);
    http_server_init(&t.server, &t.loop, &options);
    return 0;
}

static void on_closed(struct http_server *srv)
{
    assert_ptr_equal(srv, &t.server);
    t.n_closed++;
}

/* In every test what came in went out, and nothing is left. */
static int tear_down(void **state)
{
    int64_t answered = metric_value(metrics.cancelled), all_closed = 0;

    (void)state;
    http_server_drain(&t.server, 0, on_closed);
    turn();
    assert_int_equal(t.n_closed, 1);
    for (int i = 0; i < HTTP_STATUS_CLASSES; i++)
        answered += metric_value(&metrics.responses[i]);
    for (int i = 0; i < HTTP_CLOSE_REASONS; i++)
        all_closed += metric_value(&metrics.closed[i]);
    assert_int_equal(metric_value(metrics.received), answered);
    assert_int_equal(metric_value(metrics.accepted), all_closed);
    assert_int_equal(metric_value(metrics.in_flight), 0);
    assert_int_equal(metric_value(metrics.open), 0);
    http_server_fini(&t.server);
    loop_fini(&t.loop);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (t.clients[i] >= 0)
            close(t.clients[i]);
    assert_int_equal(mem_used(MEM_HTTP) + mem_used(MEM_PROTO), t.memory);
    return 0;
}

#define OK(length, body) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body
#define OK_TEXT(length, body)                                                                                                  \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " length "\r\n\r\n" body
#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

/* ---- tests ---- */

static void request_sent_byte_by_byte_gets_its_response(void **state)
{
    static const char text[] = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";

    (void)state;
    connect_client(0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i + 1 < sizeof text; i++) {
            put(0, (char[]){text[i], '\0'});
            turn();
        }
        assert_string_equal(receive(0), OK("5", "hello"));
    }
    assert_false(t.is_eof);
}

static void bodies_arrive_whole(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(
        ask(0, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        OK("5", "abcde"));
    assert_string_equal(ask(0, "POST /echo HTTP/1.1\r\nHost: h\r\n\r\n"), OK("0", ""));
    /* Larger than what is read at once. */
    char head[128], *body = malloc(300001);
    memset(body, 'x', 300000);
    body[300000] = '\0';
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 300000);
    put(0, head);
    for (size_t sent = 0; sent < 300000;) {
        ssize_t n = send(t.clients[0], body + sent, 300000 - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        turn();
    }
    receive(0);
    assert_int_equal(t.n_text, strlen(OK("300000", "")) + 300000);
    free(body);
}

static void pipelined_requests_are_answered_in_order_and_at_once(void **state)
{
    (void)state;
    connect_client(0);
    put(0, GET("/path/1") GET("/path/2") GET("/no") GET("/path/3"));
    loop_turn(&t.loop, 0);
    char first[64];
    assert_true(recv(t.clients[0], first, sizeof first, MSG_PEEK | MSG_DONTWAIT) > 0); /* one turn is enough */
    const char *text = receive(0), *one = strstr(text, "\r\n\r\n1HTTP"), *two = strstr(text, "\r\n\r\n2HTTP"),
               *none = strstr(text, "404 Not Found"), *three = strstr(text, "\r\n\r\n3");
    assert_true(one && two && none && three && one < two && two < none && none < three);
}

static void handler_may_answer_later_and_later_requests_wait(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, GET("/hold") GET("/path/2")), "");
    assert_int_equal(t.n_held, 1);
    assert_int_equal(metric_value(metrics.in_flight), 1);
    /* The request's views stay. */
    assert_true(str_equal(t.held[0]->request.path, STR("/hold")));
    assert_true(str_equal(http_message_header(&t.held[0]->request, STR("host")), STR("h")));
    http_exchange_respond_text(t.held[0], 200, STR("1"));
    assert_string_equal(receive(0), OK_TEXT("1", "1") OK_TEXT("1", "2"));
    assert_string_equal(ask(0, GET("/path/3")), OK_TEXT("1", "3"));
}

static void much_pipelined_input_waits_without_being_lost(void **state)
{
    static const char request[] = GET("/path/x");
    size_t n_requests = 6000, sent = 0, n = 0; /* about 200 KB */
    char *all = malloc(n_requests * (sizeof request - 1) + 1);

    (void)state;
    for (size_t i = 0; i < n_requests; i++)
        memcpy(all + i * (sizeof request - 1), request, sizeof request);
    connect_client(0);
    put(0, GET("/hold"));
    turn();
    size_t total = n_requests * (sizeof request - 1);
    for (int i = 0; i < 100; i++) {
        ssize_t k = send(t.clients[0], all + sent, total - sent, MSG_NOSIGNAL);

        sent += k > 0 ? (size_t)k : 0;
        turn();
    }
    assert_true(mem_used(MEM_LOOP) < 1 << 20);
    http_exchange_respond_text(t.held[0], 200, STR("x"));
    for (int i = 0; i < 1000 && n <= n_requests; i++) {
        ssize_t k = sent < total ? send(t.clients[0], all + sent, total - sent, MSG_NOSIGNAL) : 0;

        sent += k > 0 ? (size_t)k : 0;
        receive(0);
        for (const char *p = t.text; (p = strstr(p, "Content-Length: 1")); p++)
            n++;
    }
    assert_int_equal(n, n_requests + 1);
    free(all);
}

static void peer_that_does_not_read_is_not_read_either(void **state)
{
    size_t n = 0;

    (void)state;
    connect_client(0);
    for (int i = 0; i < 100; i++) {
        put(0, GET("/big"));
        turn();
    }
    assert_true(metric_value(metrics.received) > 0);
    assert_true(mem_used(MEM_LOOP) < (1 << 20)); /* 100 responses would be 4 MB */
    for (int i = 0; i < 200 && n < 100; i++) {
        receive(0);
        for (const char *p = t.text; (p = strstr(p, "HTTP/1.1 200 OK")); p++)
            n++;
    }
    assert_int_equal(n, 100);
}

static void peer_that_never_reads_its_response_is_closed(void **state)
{
    int64_t before = closed(HTTP_CLOSED_SLOW);

    (void)state;
    connect_client(0);
    for (int i = 0; i < 100; i++) {
        put(0, GET("/big"));
        turn();
    }
    pass_ms(2999);
    assert_int_equal(closed(HTTP_CLOSED_SLOW), before);
    pass_ms(1);
    assert_int_equal(closed(HTTP_CLOSED_SLOW), before + 1);
}

static void head_gets_the_head_alone(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, "HEAD /path/abc HTTP/1.1\r\nHost: h\r\n\r\n" GET("/path/d")),
                        OK_TEXT("3", "") OK_TEXT("1", "d"));
}

static void body_is_left_out_where_none_is_allowed(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, GET("/nothing")), "HTTP/1.1 204 No Content\r\n\r\n");
}

static void unknown_path_and_method_are_told_apart(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, GET("/no")),
                        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"
                        "{\"error\":\"there is nothing at this path\"}\n");
    assert_string_equal(ask(0, "PUT /path/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"),
                        "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\nContent-Length: 47\r\n"
                        "Allow: GET, HEAD\r\n\r\n{\"error\":\"the path does not take this method\"}\n");
    assert_string_equal(ask(0, GET("/path/a")), OK_TEXT("1", "a")); /* the connection stays */
}

static void errors_are_json(void **state)
{
    (void)state;
    connect_client(0);
    assert_non_null(strstr(ask(0, GET("/error")), "\r\n\r\n{\"error\":\"a \\\"quoted\\\" \\\\ text\\u000a\"}\n"));
}

static void header_with_a_line_end_becomes_500(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, GET("/injection")), "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
}

static void connection_closes_or_stays_as_the_peer_asks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        connect_client(i);
    assert_string_equal(
        ask(0, "GET /path/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" GET("/path/b")),
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n\r\na");
    assert_true(t.is_eof);
    receive(1);
    assert_string_equal(
        ask(1, "GET /path/a HTTP/1.0\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n\r\na");
    assert_true(t.is_eof);
    for (int round = 0; round < 2; round++)
        assert_string_equal(ask(2, "GET /path/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
                            "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Type: text/plain; "
                            "charset=utf-8\r\nContent-Length: 1\r\n\r\na");
    assert_false(t.is_eof);
}

static void expectation_is_answered_before_the_body(void **state)
{
    (void)state;
    connect_client(0);
    assert_string_equal(ask(0, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"),
                        "HTTP/1.1 100 Continue\r\n\r\n");
    assert_string_equal(ask(0, "ab"), OK("2", "ab"));
    /* Not when the body is here already. */
    assert_string_equal(ask(0, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\na"), "");
    assert_string_equal(ask(0, "b"), OK("2", "ab"));
    /* Nor when the final answer is known. */
    assert_non_null(
        strstr(ask(0, "POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"), " 413 "));
    assert_true(t.is_eof);
    connect_client(1);
    assert_non_null(
        strstr(ask(1, "POST /no HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"), " 404 "));
    assert_true(t.is_eof);
}

static void refusals_have_status_reason_and_end_the_connection(void **state)
{
    static const struct {
        const char *text;
        const char *status;
        enum http1_refusal why;
    } rows[] = {
        {"GET / HTTP/1.1\nHost: h\n\n", "400 Bad Request", HTTP1_REFUSED_LINE_ENDING},
        {"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", "400 Bad Request", HTTP1_REFUSED_LINE_ENDING},
        {"GET / HTTP/1.1\r\n\r\n", "400 Bad Request", HTTP1_REFUSED_HOST},
        {"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "400 Bad Request", HTTP1_REFUSED_HOST},
        {"\x16\x03\x01\x02\r\n\r\n", "400 Bad Request", HTTP1_REFUSED_SYNTAX},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", "400 Bad Request",
         HTTP1_REFUSED_LENGTH},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz", "400 Bad Request", HTTP1_REFUSED_CHUNK},
        {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n", "413 Content Too Large",
         HTTP1_REFUSED_BODY_TOO_LARGE},
        {"POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde", "413 Content Too Large",
         HTTP1_REFUSED_BODY_TOO_LARGE},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: x\r\n\r\n", "417 Expectation Failed",
         HTTP1_REFUSED_EXPECTATION},
        {"FOO / HTTP/1.1\r\nHost: h\r\n\r\n", "501 Not Implemented", HTTP1_REFUSED_METHOD},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501 Not Implemented",
         HTTP1_REFUSED_TRANSFER_ENCODING},
        {"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP Version Not Supported", HTTP1_REFUSED_VERSION},
        {"GET / HTTP/1.1\r\nHost: h\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\n\r\n",
         "431 Request Header Fields Too Large", HTTP1_REFUSED_HEAD_TOO_LARGE},
        {"GET /0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234"
         "567"
         "0123456789abcdef0123456789abcdef",
         "414 URI Too Long", HTTP1_REFUSED_LINE_TOO_LONG},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t before = refused(rows[i].why), closed_before = closed(HTTP_CLOSED_REFUSED);
        char want[128];

        connect_client(0);
        put(0, rows[i].text);
        put(0, GET("/path/never"));
        receive(0);
        snprintf(want, sizeof want, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\n", rows[i].status);
        if (strncmp(t.text, want, strlen(want)) != 0 || strstr(t.text, "never") || !t.is_eof)
            fail_msg("row %zu: %s", i, t.text);
        assert_non_null(strstr(t.text, "\r\n\r\n{\"error\":\""));
        assert_int_equal(refused(rows[i].why), before + 1);
        disconnect(0);
        assert_int_equal(closed(HTTP_CLOSED_REFUSED), closed_before + 1);
    }
}

static void refused_peer_may_go_on_sending_for_a_while(void **state)
{
    static char page[65536];

    (void)state;
    connect_client(0);
    assert_non_null(strstr(ask(0, "BAD\r\n\r\n"), " 400 "));
    for (int i = 0; i < 3; i++) {
        assert_true(send(t.clients[0], page, sizeof page, MSG_NOSIGNAL) > 0); /* thrown away */
        turn();
    }
    assert_int_equal(t.server.n_conns, 1);
    for (int i = 0; i < 3; i++) {
        (void)!send(t.clients[0], page, sizeof page, MSG_NOSIGNAL);
        turn();
    }
    assert_int_equal(t.server.n_conns, 0); /* but not without bound */
    connect_client(1);
    ask(1, "BAD\r\n\r\n");
    pass_ms(1999);
    assert_int_equal(t.server.n_conns, 1);
    pass_ms(1);
    assert_int_equal(t.server.n_conns, 0);
}

static void slow_requests_are_answered_with_408(void **state)
{
    int64_t slow = refused(HTTP1_REFUSED_NOT);

    (void)state;
    connect_client(0);
    for (int i = 0; i < 9; i++) { /* a byte now and then does not help */
        put(0, (char[]){"GET / HTT"[i], '\0'});
        turn();
        pass_ms(100);
    }
    assert_string_equal(receive(0), "");
    pass_ms(100);
    assert_non_null(strstr(receive(0), "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"));
    assert_true(t.is_eof);
    assert_int_equal(refused(HTTP1_REFUSED_NOT), slow + 1);
    disconnect(0);
    assert_int_equal(closed(HTTP_CLOSED_SLOW) > 0, 1);
}

static void slow_body_is_ended_and_steady_body_is_not(void **state)
{
    static char part[16 * 1024];

    (void)state;
    connect_client(0);
    connect_client(1);
    put(0, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    put(1, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 81920\r\n\r\n");
    turn();
    for (int i = 0; i < 5; i++) {
        (void)!send(t.clients[0], "x", 1, MSG_NOSIGNAL); /* fails once the server has closed */
        assert_int_equal(send(t.clients[1], part, sizeof part, MSG_NOSIGNAL), sizeof part);
        turn();
        pass_ms(1500);
    }
    assert_non_null(strstr(receive(0), " 408 "));
    assert_non_null(strstr(receive(1), " 200 OK"));
}

static void idle_connections_end_quietly(void **state)
{
    int64_t idle = closed(HTTP_CLOSED_IDLE);

    (void)state;
    connect_client(0);
    connect_client(1);
    assert_string_equal(ask(0, GET("/path/a")), OK_TEXT("1", "a"));
    pass_ms(1000); /* no request has come on the other one */
    assert_string_equal(receive(1), "");
    assert_true(t.is_eof);
    pass_ms(3999);
    assert_string_equal(ask(0, GET("/path/a")), OK_TEXT("1", "a")); /* starts the time anew */
    pass_ms(4999);
    assert_string_equal(receive(0), "");
    assert_false(t.is_eof);
    pass_ms(1);
    assert_string_equal(receive(0), "");
    assert_true(t.is_eof);
    assert_int_equal(closed(HTTP_CLOSED_IDLE), idle + 2);
}

static void idle_connection_holds_no_buffer(void **state)
{
    int64_t before = mem_used(MEM_HTTP), loop_before = mem_used(MEM_LOOP);

    (void)state;
    connect_client(0);
    ask(0, GET("/path/a")); /* fills the pool */
    int64_t one = mem_used(MEM_HTTP);
    connect_client(1);
    ask(1, GET("/path/a"));
    assert_true(mem_used(MEM_HTTP) - one <= 512);
    assert_true(one - before > 0);
    assert_int_equal(mem_used(MEM_LOOP), loop_before);
}

static void peer_that_leaves_cancels_its_exchange_which_must_still_be_answered(void **state)
{
    int64_t before = metric_value(metrics.cancelled);

    (void)state;
    connect_client(0);
    ask(0, GET("/hold"));
    disconnect(0);
    assert_int_equal(t.n_cancelled, 1);
    assert_int_equal(metric_value(metrics.cancelled), before + 1);
    assert_int_equal(metric_value(metrics.in_flight), 0);
    assert_int_equal(t.server.n_conns, 0);
    assert_true(str_equal(t.held[0]->request.path, STR("/hold"))); /* still there */
    http_exchange_respond_text(t.held[0], 200, STR("nobody hears"));
    assert_int_equal(t.server.n_exchanges, 0);
}

static void peer_that_leaves_inside_a_request_is_counted(void **state)
{
    int64_t cancelled = metric_value(metrics.cancelled), received = metric_value(metrics.received);

    (void)state;
    connect_client(0);
    connect_client(1);
    put(0, "GET /half");
    put(1, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    turn();
    disconnect(0);
    disconnect(1);
    assert_int_equal(metric_value(metrics.received), received + 1); /* the half head is no request */
    assert_int_equal(metric_value(metrics.cancelled), cancelled + 1);
}

static void connections_past_the_limit_are_closed_at_once(void **state)
{
    int fds[2];

    (void)state;
    for (unsigned i = 0; i < CLIENTS; i++)
        connect_client(i);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(http_server_adopt(&t.server, fds[1]), E_LIMIT);
    assert_int_equal(recv(fds[0], t.text, 1, 0), 0);
    close(fds[0]);
    disconnect(0);
    connect_client(0);
}

static void drain_finishes_what_is_in_flight(void **state)
{
    int fds[2];

    (void)state;
    connect_client(0);
    connect_client(1);
    connect_client(2);
    ask(0, GET("/path/a"));
    ask(1, GET("/hold"));
    put(2, "GET /path/b HTTP/1.1\r\nHo");
    turn();
    http_server_drain(&t.server, 10000, on_closed);
    assert_string_equal(receive(0), "");
    assert_true(t.is_eof);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(http_server_adopt(&t.server, fds[1]), E_LIMIT);
    close(fds[0]);
    assert_non_null(strstr(ask(2, "st: h\r\n\r\n"), "200 OK\r\nConnection: close\r\n"));
    http_exchange_respond_text(t.held[0], 200, STR("late"));
    assert_non_null(strstr(receive(1), "200 OK\r\nConnection: close\r\n"));
    assert_int_equal(t.n_closed, 0);
    disconnect(1);
    disconnect(2);
    assert_int_equal(t.n_closed, 1);
}

static void drain_ends_at_its_limit_and_waits_for_handlers(void **state)
{
    (void)state;
    connect_client(0);
    ask(0, GET("/hold"));
    http_server_drain(&t.server, 10000, on_closed);
    http_server_drain(&t.server, 1000, on_closed); /* shorter */
    http_server_drain(&t.server, 5000, on_closed); /* changes nothing */
    pass_ms(999);
    assert_int_equal(t.server.n_conns, 1);
    pass_ms(1);
    assert_int_equal(t.server.n_conns, 0);
    assert_int_equal(t.n_cancelled, 1);
    assert_int_equal(t.n_closed, 0);
    http_exchange_respond_text(t.held[0], 200, STR("late"));
    assert_int_equal(t.n_closed, 0); /* not inside the handler */
    turn();
    assert_int_equal(t.n_closed, 1);
}

static void drain_of_an_idle_server_takes_one_turn(void **state)
{
    (void)state;
    connect_client(0);
    ask(0, GET("/path/a"));
    http_server_drain(&t.server, 0, on_closed);
    assert_int_equal(t.n_closed, 0);
    loop_turn(&t.loop, 0);
    assert_int_equal(t.n_closed, 1);
}

static void every_allocation_may_fail(void **state)
{
    static const char request[] = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 600\r\n\r\n";
    char body[601];
    bool is_whole = false;

    (void)state;
    memset(body, 'b', 600);
    body[600] = '\0';
    for (unsigned n = 1; !is_whole; n++) {
        assert_true(n < 100);
        mem_fail_after(n);
        connect_client(0);
        put(0, request);
        turn();
        put(0, body);
        receive(0);
        mem_fail_after(0);
        is_whole = strstr(t.text, "200 OK") != NULL;
        assert_true(is_whole || t.is_eof || strstr(t.text, "HTTP/1.1 50"));
        disconnect(0);
        http_server_drain(&t.server, 0, NULL); /* a fresh server, so that the pool does not help */
        turn();
        http_server_fini(&t.server);
        http_server_init(&t.server, &t.loop, &options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(request_sent_byte_by_byte_gets_its_response),
        TEST(bodies_arrive_whole),
        TEST(pipelined_requests_are_answered_in_order_and_at_once),
        TEST(handler_may_answer_later_and_later_requests_wait),
        TEST(much_pipelined_input_waits_without_being_lost),
        TEST(peer_that_does_not_read_is_not_read_either),
        TEST(peer_that_never_reads_its_response_is_closed),
        TEST(head_gets_the_head_alone),
        TEST(body_is_left_out_where_none_is_allowed),
        TEST(unknown_path_and_method_are_told_apart),
        TEST(errors_are_json),
        TEST(header_with_a_line_end_becomes_500),
        TEST(connection_closes_or_stays_as_the_peer_asks),
        TEST(expectation_is_answered_before_the_body),
        TEST(refusals_have_status_reason_and_end_the_connection),
        TEST(refused_peer_may_go_on_sending_for_a_while),
        TEST(slow_requests_are_answered_with_408),
        TEST(slow_body_is_ended_and_steady_body_is_not),
        TEST(idle_connections_end_quietly),
        TEST(idle_connection_holds_no_buffer),
        TEST(peer_that_leaves_cancels_its_exchange_which_must_still_be_answered),
        TEST(peer_that_leaves_inside_a_request_is_counted),
        TEST(connections_past_the_limit_are_closed_at_once),
        TEST(drain_finishes_what_is_in_flight),
        TEST(drain_ends_at_its_limit_and_waits_for_handlers),
        TEST(drain_of_an_idle_server_takes_one_turn),
        TEST(every_allocation_may_fail),
    };
    int failed;

    http_metrics_register(&metrics, "test");
    memset(big, 'b', sizeof big);
    t.text = malloc(TEXT_BYTES);
    failed = cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
    free(t.text);
    return failed;
}
