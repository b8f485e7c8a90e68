#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/http2_fixture.h"
#include "http/http2_flood.h"
#include "http/http_client.h"
#include "http/http_server.h"

enum { CALLS = 12, FAR_MS = 1000000000, BODY_BYTES = 100000, MANY = 500 };

struct asked {
    struct http_call call;
    unsigned n_done;
    err result;
    uint16_t status;
    char body[64], note[64];
};

static struct http_client_metrics metrics;
static struct http_metrics server_metrics;
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

static void copy(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_ARG(s));
}

static void on_done(struct http_call *call)
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

static err send_again(struct asked *a, enum http_method method, uint32_t timeout_ms)
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

static struct asked *ask_for(enum http_method method, uint32_t timeout_ms)
{
    struct asked *a = &t.asked[t.n_asked++];
    unsigned n_told = t.n_told;

    assert_true(t.n_asked <= CALLS);
    assert_int_equal(send_again(a, method, timeout_ms), E_OK);
    assert_int_equal(t.n_told, n_told); /* never inside */
    return a;
}

static struct asked *ask(void)
{
    return ask_for(HTTP_METHOD_GET, FAR_MS);
}

static void turn(void)
{
    for (int i = 0; i < 4; i++)
        loop_turn(&t.loop, 0);
}

static void pass_ms(uint64_t ms)
{
    wheel_advance(&t.loop.wheel, t.loop.wheel.clock_ms + ms);
    turn();
}

static void assert_told(const struct asked *a, err result)
{
    while (!a->n_done)
        turn();
    if (a->n_done != 1 || a->result != result)
        fail_msg("told %u times, %s", a->n_done, err_name(a->result));
}

/* ---- the scripted server ---- */

static void listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    t.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(t.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(t.listener, 16), 0);
    assert_int_equal(getsockname(t.listener, (struct sockaddr *)&address, &size), 0);
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%u/a?b=c", ntohs(address.sin_port));
}

static const char *hear(void)
{
    return fixture_hear(&t.server, turn);
}

/* Until all of it has come, and nothing else. */
static void expect(const char *text)
{
    hear();
    while (strlen(t.server.text) < strlen(text) && !t.server.is_eof)
        fixture_hear_more(&t.server, turn);
    assert_string_equal(t.server.text, text);
}

static void expect_part(const char *text)
{
    hear();
    while (!strstr(t.server.text, text) && !t.server.is_eof)
        fixture_hear_more(&t.server, turn);
    assert_non_null(strstr(t.server.text, text));
}

static void expect_end(void)
{
    while (!t.server.is_eof)
        hear();
}

/* The next connection, whose preface and settings are read. */
static void accept_one(void)
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

static void leave_server(void)
{
    fixture_close(&t.server);
    turn();
}

static void assert_nobody_connects(void)
{
    turn();
    assert_int_equal(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), -1);
}

static void answer(uint32_t id, const char *body)
{
    fixture_put_headers(&t.server, id, false, ":status: 200\nnote: n\n");
    fixture_put_data(&t.server, id, true, str_from(body));
}

static int64_t failures(enum http_client_failure why)
{
    return metric_value(&metrics.failures[why]);
}

static int set_up(void **state)
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

static int tear_down(void **state)
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

/* ---- calls ---- */

static void a_request_is_sent_and_its_response_told(void **state)
{
    struct asked *a;
    char want[256];

    (void)state;
    t.body = STR("hello");
    a = ask_for(HTTP_METHOD_POST, FAR_MS);
    accept_one();
    snprintf(want, sizeof want,
             "HEADERS 1 :method=POST :scheme=http :authority=%.*s :path=/a?b=c content-length=5 tenant=T ce-id=1 ce-type=a:b\n"
             "DATA 1 end hello\n",
             (int)(strchr(t.url + 7, '/') - t.url - 7), t.url + 7);
    expect(want);
    answer(1, "world");
    assert_told(a, E_OK);
    assert_int_equal(a->status, 200);
    assert_string_equal(a->body, "world");
    assert_string_equal(a->note, "n");
}

static void calls_share_a_connection_and_end_as_the_server_likes(void **state)
{
    struct asked *a = ask(), *b = ask(), *c;

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    c = ask();
    expect_part("HEADERS 5 end ");
    answer(3, "b");
    assert_told(b, E_OK);
    assert_string_equal(b->body, "b");
    answer(5, "c");
    answer(1, "a");
    assert_told(a, E_OK);
    assert_told(c, E_OK);
    assert_string_equal(a->body, "a");
    assert_string_equal(c->body, "c");
    assert_nobody_connects();
}

static void what_comes_byte_by_byte_is_read(void **state)
{
    struct asked *a = ask();
    char bytes[256];
    size_t n;

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    n = fixture_write_fields(bytes + 9, STR(":status: 202\nnote: m\n"));
    n = fixture_write_frame(bytes, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, (struct str){bytes + 9, n});
    n += fixture_write_frame(bytes + n, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, STR("x"));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a->n_done, 0);
        fixture_put(&t.server, &bytes[i], 1);
        turn();
    }
    assert_told(a, E_OK);
    assert_int_equal(a->status, 202);
    assert_string_equal(a->note, "m");
}

static void interim_responses_and_trailers_are_read_over(void **state)
{
    struct asked *a = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    fixture_put_headers(&t.server, 1, false, ":status: 103\nnote: early\n");
    fixture_put_headers(&t.server, 1, false, ":status: 200\nnote: n\n");
    fixture_put_headers(&t.server, 1, true, "note: trailer\n");
    assert_told(a, E_OK);
    assert_string_equal(a->note, "n");
}

static void calls_beyond_what_the_server_allows_get_another_connection_or_wait(void **state)
{
    struct asked *a = ask(), *b, *c;

    (void)state;
    accept_one();
    fixture_put_setting(&t.server, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    expect_part("HEADERS 1 ");
    struct http2_peer first = t.server;
    t.server = (struct http2_peer){.fd = -1, .text = first.text};
    b = ask();
    accept_one();
    fixture_put_setting(&t.server, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    expect_part("HEADERS 1 ");
    c = ask(); /* two connections are the limit */
    assert_nobody_connects();
    answer(1, "b");
    assert_told(b, E_OK);
    expect_part("HEADERS 3 end ");
    answer(3, "c");
    assert_told(c, E_OK);
    fixture_close(&t.server);
    t.server = first;
    answer(1, "a");
    assert_told(a, E_OK);
}

static void bodies_keep_to_the_windows(void **state)
{
    struct asked *a;

    (void)state;
    t.body = (struct str){big, sizeof big};
    a = ask_for(HTTP_METHOD_POST, FAR_MS);
    accept_one();
    expect_part("HEADERS 1 ");
    assert_non_null(strstr(t.server.text, "DATA 1 (16383)\n")); /* 65,535 in all */
    assert_null(strstr(t.server.text, " end "));
    fixture_put_word(&t.server, NGHTTP2_WINDOW_UPDATE, 1, BODY_BYTES);
    assert_string_equal(hear(), "");
    fixture_put_word(&t.server, NGHTTP2_WINDOW_UPDATE, 0, BODY_BYTES);
    expect("DATA 1 (16384)\nDATA 1 (16384)\nDATA 1 end (1697)\n");
    answer(1, "a");
    assert_told(a, E_OK);
}

static void an_answer_before_the_end_of_the_request_ends_that_too(void **state)
{
    struct asked *a, *b;

    (void)state;
    t.body = (struct str){big, sizeof big};
    a = ask_for(HTTP_METHOD_POST, FAR_MS);
    accept_one();
    expect_part("HEADERS 1 ");
    answer(1, "no");
    assert_told(a, E_OK);
    t.body = (struct str){0}; /* ours again */
    expect("RST_STREAM 1 CANCEL\n");
    b = ask();
    expect_part("HEADERS 3 end ");
    answer(3, "b");
    assert_told(b, E_OK);
}

static struct asked *second;

static void ask_again(struct asked *a)
{
    t.on_done = NULL;
    second = &t.asked[t.n_asked++];
    assert_int_equal(send_again(second, HTTP_METHOD_GET, FAR_MS), E_OK);
    assert_string_equal(a->body, "a");
    assert_true(str_equal(a->call.body, STR("a"))); /* still there */
}

static void whoever_is_told_may_ask_again(void **state)
{
    struct asked *a = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    t.on_done = ask_again;
    answer(1, "a");
    assert_told(a, E_OK);
    expect_part("HEADERS 3 end ");
    answer(3, "b");
    assert_told(second, E_OK);
}

static void cancel_others(struct asked *a)
{
    t.on_done = NULL;
    for (unsigned i = 0; i < t.n_asked; i++)
        if (&t.asked[i] != a)
            http_client_cancel(&t.asked[i].call);
}

static void whoever_is_told_may_cancel_the_others(void **state)
{
    struct asked *a = ask(), *b = ask(), *c = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    t.on_done = cancel_others;
    answer(3, "b"); /* both in one read */
    answer(1, "a");
    assert_told(b, E_OK);
    assert_int_equal(a->n_done + c->n_done, 0);
    expect("RST_STREAM 5 CANCEL\n"); /* the other one had its answer */
}

static void close_client(struct asked *a)
{
    (void)a;
    t.on_done = NULL;
    http_client_close(&t.client);
}

static void whoever_is_told_may_close_the_client(void **state)
{
    struct asked *a = ask(), *b = ask(), *c = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    t.on_done = close_client;
    answer(1, "a");
    answer(3, "b");
    assert_told(a, E_OK);
    assert_told(b, E_CLOSED);
    assert_told(c, E_CLOSED);
    expect_end();
    assert_int_equal(send_again(&t.asked[0], HTTP_METHOD_GET, FAR_MS), E_CLOSED);
}

/* ---- what goes wrong ---- */

static void responses_that_are_no_good_end_their_call_alone(void **state)
{
    static char long_head[1200];
    static const struct {
        const char *fields, *body;
        err result;
        const char *reset;
    } rows[] = {
        {"note: n\n", "", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 2000\n", "", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 200\nUpper: n\n", "", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 200\nconnection: close\n", "", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 200\ncontent-length: 2\n", "x", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 200\na: b\x01\n", "", E_PROTO, "RST_STREAM 3 PROTOCOL_ERROR\n"},
        {":status: 200\ncontent-length: 51\n", "", E_LIMIT, "RST_STREAM 3 CANCEL\n"},
        {":status: 200\n", "012345678901234567890123456789012345678901234567890", E_LIMIT, "RST_STREAM 3 CANCEL\n"},
        {long_head, "", E_LIMIT, "RST_STREAM 3 CANCEL\n"},
    };

    (void)state;
    snprintf(long_head, sizeof long_head, ":status: 200\nnote: %01000d\n", 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct asked *a, *b, *c;

        t.n_asked = 0;
        memset(t.asked, 0, sizeof t.asked);
        a = ask();
        b = ask();
        accept_one();
        expect_part("HEADERS 1 ");
        fixture_put_headers(&t.server, 3, false, rows[i].fields);
        fixture_put_data(&t.server, 3, true, str_from(rows[i].body));
        expect(rows[i].reset);
        assert_told(b, rows[i].result);
        c = ask(); /* the connection stays */
        expect_part("HEADERS 5 end ");
        answer(1, "a");
        answer(5, "c");
        assert_told(a, E_OK);
        assert_told(c, E_OK);
        leave_server();
    }
}

static void a_server_that_breaks_the_protocol_ends_all_calls(void **state)
{
    struct asked *a = ask(), *b = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    fixture_put_frame(&t.server, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, STR("\xff\xff\xff\xff"));
    expect("GOAWAY 0 COMPRESSION_ERROR\n");
    assert_told(a, E_PROTO);
    assert_told(b, E_PROTO);
    expect_end();
}

static void a_server_of_http1_is_none(void **state)
{
    struct asked *a = ask();

    (void)state;
    accept_one();
    fixture_put(&t.server, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    assert_told(a, E_PROTO);
}

static void a_server_that_floods_is_left(void **state)
{
    struct asked *a = ask();

    (void)state;
    accept_one();
    for (unsigned i = 0; i < 2 * HTTP2_FLOOD_BURST && !a->n_done; i++) {
        fixture_put_frame(&t.server, NGHTTP2_PING, 0, 0, STR("01234567"));
        hear();
    }
    assert_told(a, E_PROTO);
}

static void what_the_server_has_not_looked_at_is_sent_again_once(void **state)
{
    struct asked *a = ask();
    int64_t before = metric_value(metrics.retries);

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    fixture_put_word(&t.server, NGHTTP2_RST_STREAM, 1, NGHTTP2_REFUSED_STREAM);
    expect_part("HEADERS 3 end ");
    assert_int_equal(metric_value(metrics.retries), before + 1);
    fixture_put_word(&t.server, NGHTTP2_RST_STREAM, 3, NGHTTP2_REFUSED_STREAM);
    assert_told(a, E_CLOSED);
}

static void goaway_lets_calls_end_and_sends_the_rest_elsewhere(void **state)
{
    static const char payload[8] = {0, 0, 0, 1, 0, 0, 0, 0};
    struct asked *a = ask(), *b = ask(), *c;

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    fixture_put_frame(&t.server, NGHTTP2_GOAWAY, 0, 0, (struct str){payload, sizeof payload});
    struct http2_peer first = t.server;
    t.server = (struct http2_peer){.fd = -1, .text = first.text};
    accept_one();
    c = ask();
    expect_part("HEADERS 3 end ");
    assert_non_null(strstr(t.server.text, "HEADERS 1 end "));
    answer(1, "b");
    answer(3, "c");
    assert_told(b, E_OK);
    assert_told(c, E_OK);
    fixture_close(&t.server);
    t.server = first;
    answer(1, "a");
    assert_told(a, E_OK);
    expect_end(); /* nothing is left for it */
}

static void a_reset_ends_the_call(void **state)
{
    struct asked *a = ask(), *b = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    fixture_put_word(&t.server, NGHTTP2_RST_STREAM, 1, NGHTTP2_INTERNAL_ERROR);
    fixture_put_headers(&t.server, 3, false, ":status: 200\n");
    fixture_put_word(&t.server, NGHTTP2_RST_STREAM, 3, NGHTTP2_NO_ERROR);
    assert_told(a, E_CLOSED);
    assert_told(b, E_CLOSED);
}

static void a_server_that_leaves_ends_its_calls_unless_it_had_served(void **state)
{
    struct asked *a = ask(), *b, *c;

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    leave_server();
    assert_told(a, E_CLOSED);
    b = ask();
    accept_one();
    expect_part("HEADERS 1 ");
    answer(1, "b");
    assert_told(b, E_OK);
    c = ask();
    expect_part("HEADERS 3 end ");
    leave_server();
    accept_one(); /* once more */
    expect_part("HEADERS 1 end ");
    leave_server();
    assert_told(c, E_CLOSED);
}

static void nobody_at_the_address_is_told(void **state)
{
    struct asked *a;

    (void)state;
    close(t.listener);
    a = ask();
    while (!a->n_done)
        turn();
    assert_told(a, E_IO);
    assert_int_equal(failures(HTTP_CLIENT_FAILED_CONNECT) > 0, 1);
    t.listener = -1;
}

/* ---- time ---- */

static void a_late_call_is_reset_and_the_connection_stays(void **state)
{
    struct asked *a = ask_for(HTTP_METHOD_GET, 1000), *b = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    answer(3, "b");
    assert_told(b, E_OK);
    pass_ms(1000);
    assert_told(a, E_TIMEOUT);
    expect("RST_STREAM 1 CANCEL\n"); /* no PING: it is alive */
    answer(1, "late");
    assert_told(a, E_TIMEOUT);
    b = ask();
    expect_part("HEADERS 5 end ");
    answer(5, "b");
    assert_told(b, E_OK);
}

static void a_silent_server_is_asked_whether_it_lives(void **state)
{
    struct asked *a, *b;

    (void)state;
    a = ask();
    accept_one();
    expect_part("HEADERS 1 ");
    answer(1, "a");
    assert_told(a, E_OK);
    a = ask_for(HTTP_METHOD_GET, 1000);
    expect_part("HEADERS 3 end ");
    pass_ms(1000);
    assert_told(a, E_TIMEOUT);
    expect("PING\nRST_STREAM 3 CANCEL\n");
    b = ask(); /* not on this one */
    assert_string_equal(hear(), "");
    fixture_put_frame(&t.server, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, STR("\0\0\0\0\0\0\0\0"));
    turn();
    a = ask();
    expect_part("HEADERS 5 end "); /* it is good again */
    http_client_cancel(&a->call);
    http_client_cancel(&b->call);
}

static void a_server_that_is_dead_is_left(void **state)
{
    struct asked *a, *b;

    (void)state;
    a = ask();
    accept_one();
    expect_part("HEADERS 1 ");
    answer(1, "a");
    assert_told(a, E_OK);
    a = ask_for(HTTP_METHOD_GET, 1000);
    b = ask();
    expect_part("HEADERS 5 end ");
    pass_ms(1000);
    assert_told(a, E_TIMEOUT);
    pass_ms(1000);
    assert_told(b, E_CLOSED); /* whether it was done nobody knows */
    expect_end();
}

static void idle_connections_end_with_goaway(void **state)
{
    struct asked *a = ask();

    (void)state;
    accept_one();
    expect_part("HEADERS 1 ");
    pass_ms(60000);
    answer(1, "a");
    assert_told(a, E_OK);
    pass_ms(4999);
    a = ask();
    expect_part("HEADERS 3 end ");
    answer(3, "a");
    assert_told(a, E_OK);
    pass_ms(4999);
    assert_string_equal(hear(), "");
    pass_ms(1);
    expect("GOAWAY 0 NO_ERROR\n");
    expect_end();
}

/* ---- with our own server ---- */

static void on_echo(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = x->request.body});
}

static const struct http_route routes[] = {{.method = HTTP_METHOD_POST, .pattern = "/a", .handler = on_echo}};

static void check_many(struct asked *a)
{
    assert_int_equal(a->result, E_OK);
    assert_string_equal(a->body, "hello");
}

static void both_ends_understand_each_other(void **state)
{
    static const struct http_server_options options = {.routes = routes, .n_routes = 1, .metrics = &server_metrics};
    static struct asked many[MANY];
    struct http_server server;
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int64_t before = metric_value(server_metrics.accepted);

    (void)state;
    assert_int_equal(getsockname(t.listener, (struct sockaddr *)&address, &size), 0);
    close(t.listener);
    http_server_init(&server, &t.loop, &options);
    assert_int_equal(http_server_listen(&server, &address, size, false, NULL), E_OK);
    memset(many, 0, sizeof many);
    t.body = STR("hello");
    t.on_done = check_many;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(send_again(&many[i], HTTP_METHOD_POST, FAR_MS), E_OK);
    while (t.n_told < MANY)
        turn();
    assert_int_equal(metric_value(server_metrics.accepted), before + 2); /* the most that may be */
    t.on_done = NULL;
    http_client_close(&t.client);
    http_server_drain(&server, 0, NULL);
    turn();
    http_server_fini(&server);
    t.listener = -1;
}

/* A connection that may never have sent anything. */
static void serve_one(const struct asked *a, int fd)
{
    char preface[NGHTTP2_CLIENT_MAGIC_LEN];
    ssize_t n;

    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    fixture_close(&t.server);
    fixture_open(&t.server, fd);
    while ((n = recv(fd, preface, sizeof preface, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        turn();
    if (n != sizeof preface)
        return;
    fixture_put_frame(&t.server, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    while (!a->n_done && !t.server.is_eof && !strstr(hear(), "DATA 1 end "))
        ;
    answer(1, "hello");
}

static void every_allocation_may_fail(void **state)
{
    struct asked *a = &t.asked[0];

    (void)state;
    t.body = (struct str){big, 20000};
    for (unsigned n = 1; a->status != 200; n++) {
        assert_true(n < 300);
        memset(a, 0, sizeof *a);
        mem_fail_after(n);
        a->n_done = send_again(a, HTTP_METHOD_POST, FAR_MS) != E_OK;
        while (!a->n_done) {
            int fd = accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);

            turn();
            if (fd >= 0)
                serve_one(a, fd);
        }
        mem_fail_after(0);
        fixture_close(&t.server);
        turn();
        http_client_close(&t.client);
        turn();
        http_client_fini(&t.client);
        http_client_init(&t.client, &t.loop, &t.options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(a_request_is_sent_and_its_response_told),
        TEST(calls_share_a_connection_and_end_as_the_server_likes),
        TEST(what_comes_byte_by_byte_is_read),
        TEST(interim_responses_and_trailers_are_read_over),
        TEST(calls_beyond_what_the_server_allows_get_another_connection_or_wait),
        TEST(bodies_keep_to_the_windows),
        TEST(an_answer_before_the_end_of_the_request_ends_that_too),
        TEST(whoever_is_told_may_ask_again),
        TEST(whoever_is_told_may_cancel_the_others),
        TEST(whoever_is_told_may_close_the_client),
        TEST(responses_that_are_no_good_end_their_call_alone),
        TEST(a_server_that_breaks_the_protocol_ends_all_calls),
        TEST(a_server_of_http1_is_none),
        TEST(a_server_that_floods_is_left),
        TEST(what_the_server_has_not_looked_at_is_sent_again_once),
        TEST(goaway_lets_calls_end_and_sends_the_rest_elsewhere),
        TEST(a_reset_ends_the_call),
        TEST(a_server_that_leaves_ends_its_calls_unless_it_had_served),
        TEST(nobody_at_the_address_is_told),
        TEST(a_late_call_is_reset_and_the_connection_stays),
        TEST(a_silent_server_is_asked_whether_it_lives),
        TEST(a_server_that_is_dead_is_left),
        TEST(idle_connections_end_with_goaway),
        TEST(both_ends_understand_each_other),
        TEST(every_allocation_may_fail),
    };
    int failed;

    http_client_metrics_register(&metrics, "test");
    http_metrics_register(&server_metrics, "test");
    memset(big, 'b', sizeof big);
    failed = cmocka_run_group_tests_name("http2_client", tests, NULL, NULL);
    free(t.server.text);
    return failed;
}
