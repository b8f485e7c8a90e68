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

static void on_echo(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = x->request.body});
}

/* The body's length alone. */
static void on_count(struct http_exchange *x, void *context)
{
    char text[24];

    (void)context;
    http_exchange_respond(x, &(struct http_response){
                                 .status = 200, .body = {text, (size_t)snprintf(text, sizeof text, "%zu", x->request.body.n)}});
}

/* What a handler sees, as text. */
static void on_tell(struct http_exchange *x, void *context)
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

static void on_cancel(struct http_exchange *x)
{
    assert_true(http_exchange_is_cancelled(x));
    assert_false(t.is_answering);
    t.n_cancelled++;
}

static void on_hold(struct http_exchange *x, void *context)
{
    (void)context;
    assert_true(t.n_held < HELD_MAX);
    x->on_cancel = on_cancel;
    t.held[t.n_held++] = x;
}

static void on_big(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 200, .body = {big, sizeof big}});
}

static void on_nothing(struct http_exchange *x, void *context)
{
    const struct http_header header = {STR("Retry-After"), STR(" 2 ")};

    (void)context;
    http_exchange_respond(x, &(struct http_response){.status = 204, .headers = &header, .n_headers = 1, .body = STR("x")});
}

static void on_injection(struct http_exchange *x, void *context)
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

static const char *hear(void)
{
    return fixture_hear(&t.peer, turn);
}

static void connect_peer(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &(int){4 << 20}, sizeof(int)), 0);
    fixture_open(&t.peer, fds[0]);
    assert_int_equal(http_server_adopt(&t.server, fds[1]), E_OK);
}

/* A connection with its settings exchanged. */
static void open_peer(void)
{
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    hear();
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (struct str){0});
}

static void close_peer(void)
{
    fixture_close(&t.peer);
    turn();
}

#define FIELDS(method, path) ":method: " method "\n:scheme: http\n:authority: h\n:path: " path "\n"

static void get(uint32_t id, const char *path)
{
    char fields[128];

    snprintf(fields, sizeof fields, FIELDS("GET", "%s"), path);
    fixture_put_headers(&t.peer, id, true, fields);
}

static int64_t closed(enum http_close_reason why)
{
    return metric_value(&metrics.closed[why]);
}

static int64_t resets(enum http_reset_reason why)
{
    return metric_value(&metrics.reset[why]);
}

static int set_up(void **state)
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

static void on_closed(struct http_server *srv)
{
    (void)srv;
    t.n_closed++;
}

/* In every test what came in went out, and nothing is left. */
static int tear_down(void **state)
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

/* ---- requests ---- */

static void a_connection_begins_with_settings(void **state)
{
    (void)state;
    connect_peer();
    t.peer.is_talkative = true;
    for (size_t i = 0; i < NGHTTP2_CLIENT_MAGIC_LEN; i++) {
        assert_string_equal(hear(), "");
        fixture_put(&t.peer, &NGHTTP2_CLIENT_MAGIC[i], 1);
    }
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    /* Streams, header list, no priorities of RFC 7540; the window of the connection. */
    assert_string_equal(hear(), "SETTINGS 3=10 6=1024 9=1\nSETTINGS ack\nWINDOW_UPDATE 0 983041\n");
    assert_int_equal(metric_value(metrics.http2), 1);
}

static void a_request_is_what_it_would_be_over_http1(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, true, FIELDS("GET", "/tell/a?b=c") "one: 1\nhost: H\ntwo: \n");
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=35\n"
                                "DATA 1 end GET /tell/a?b=c@h one:1 host:H two:\n");
    /* Without :authority Host is it. */
    fixture_put_headers(&t.peer, 3, true, ":method: GET\n:scheme: https\n:path: /tell/a\nhost: i:80\n");
    assert_string_equal(hear(), "HEADERS 3 :status=200 content-length=27\nDATA 3 end GET /tell/a?@i:80 host:i:80\n");
    assert_false(t.peer.is_eof);
}

/* RFC 9113 section 8.2.3 */
static void a_cookie_in_pieces_is_one(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, true, FIELDS("GET", "/tell/x") "a: 1\ncookie: b=2\nc: 3\ncookie: d=4\ncookie: \n");
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=40\n"
                                "DATA 1 end GET /tell/x?@h a:1 cookie:b=2; d=4;  c:3\n");
}

static void requests_may_come_byte_by_byte(void **state)
{
    char bytes[512];
    size_t n;

    (void)state;
    open_peer();
    n = fixture_write_fields(bytes + 9, STR(FIELDS("POST", "/echo")));
    n = fixture_write_frame(bytes, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, (struct str){bytes + 9, n});
    n += fixture_write_frame(bytes + n, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, STR("hello"));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(hear(), "");
        fixture_put(&t.peer, &bytes[i], 1);
    }
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=5\nDATA 1 end hello\n");
}

static void requests_are_served_at_once_and_answered_as_handlers_like(void **state)
{
    (void)state;
    open_peer();
    get(1, "/hold");
    get(3, "/hold");
    get(5, "/tell/x");
    assert_string_equal(hear(), "HEADERS 5 :status=200 content-length=14\nDATA 5 end GET /tell/x?@h\n");
    assert_int_equal(t.n_held, 2);
    http_exchange_respond_error(t.held[1], 503, STR("no"));
    assert_string_equal(hear(), "HEADERS 3 :status=503 content-type=application/json content-length=15\n"
                                "DATA 3 end {\"error\":\"no\"}\n\n");
    http_exchange_respond(t.held[0], &(struct http_response){.status = 202});
    assert_string_equal(hear(), "HEADERS 1 end :status=202 content-length=0\n");
}

static void bodies_are_left_out_where_none_is_allowed(void **state)
{
    (void)state;
    open_peer();
    get(1, "/nothing");
    assert_string_equal(hear(), "HEADERS 1 end :status=204 retry-after=2\n");
    fixture_put_headers(&t.peer, 3, true, FIELDS("HEAD", "/tell/x"));
    assert_string_equal(hear(), "HEADERS 3 end :status=200 content-length=15\n");
    get(5, "/injection");
    assert_string_equal(hear(), "HEADERS 5 end :status=500 content-length=0\n");
    get(7, "/no");
    assert_non_null(strstr(hear(), "HEADERS 7 :status=404 "));
    get(9, "/echo");
    assert_non_null(strstr(hear(), "HEADERS 9 :status=405 content-type=application/json content-length=47 allow=POST\n"));
}

static void trailers_are_read_over(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/echo"));
    fixture_put_data(&t.peer, 1, false, STR("a"));
    fixture_put_headers(&t.peer, 1, true, "checksum: 1\n");
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=1\nDATA 1 end a\n");
}

static void expectation_is_answered_before_the_body(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/echo") "expect: 100-continue\ncontent-length: 2\n");
    assert_string_equal(hear(), "HEADERS 1 :status=100\n");
    fixture_put_data(&t.peer, 1, true, STR("ab"));
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=2\nDATA 1 end ab\n");
}

static void malformed_requests_are_reset(void **state)
{
    static const char *const rows[] = {
        ":method: GET\n:scheme: http\n:authority: h\n",           /* no path */
        ":method: GET\n:authority: h\n:path: /\n",                /* no scheme */
        ":scheme: http\n:authority: h\n:path: /\n",               /* no method */
        ":method: GET\n:scheme: http\n:authority: h\n:path: \n",  /* an empty path */
        ":method: GET\n:scheme: http\n:authority: h\n:path: a\n", /* one without its slash */
        ":method: GET\n:scheme: http\n:path: /\n",                /* no authority at all */
        ":method: G T\n:scheme: http\n:authority: h\n:path: /\n", /* no token */
        FIELDS("GET", "/tell/x") ":path: /tell/y\n",              /* twice */
        FIELDS("GET", "/tell/x") ":protocol: x\n",                /* unknown */
        "a: b\n" FIELDS("GET", "/tell/x"),                        /* behind others */
        FIELDS("GET", "/tell/x") "Upper: b\n",                    /* RFC 9113 section 8.2 */
        FIELDS("GET", "/tell/x") "a: b\x01\n",                    /* section 8.2.1 */
        FIELDS("GET", "/tell/x") "a:  b\n",                       /* white space around */
        FIELDS("GET", "/tell/x") "a b: c\n",                      /* a name that is no token */
        FIELDS("GET", "/tell/x") "connection: close\n",           /* section 8.2.2 */
        FIELDS("GET", "/tell/x") "keep-alive: 1\n",
        FIELDS("GET", "/tell/x") "proxy-connection: close\n",
        FIELDS("GET", "/tell/x") "transfer-encoding: chunked\n",
        FIELDS("GET", "/tell/x") "upgrade: h2c\n",
        FIELDS("GET", "/tell/x") "te: gzip\n",
        FIELDS("GET", "/tell/x") "content-length: 1\n", /* but no body */
        FIELDS("GET", "/tell/x") "content-length: -1\n",
        FIELDS("GET", "/tell/x") "content-length: 0\ncontent-length: 0\n",
    };
    int64_t before = resets(HTTP_RESET_MALFORMED);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_peer();
        fixture_put_headers(&t.peer, 1, true, rows[i]);
        if (strcmp(hear(), "RST_STREAM 1 PROTOCOL_ERROR\n") != 0)
            fail_msg("row %zu: %s", i, t.peer.text);
        get(3, "/tell/x"); /* the connection stays */
        assert_non_null(strstr(hear(), "HEADERS 3 :status=200 "));
        close_peer();
    }
    assert_int_equal(resets(HTTP_RESET_MALFORMED), before + (int64_t)ARRAY_LEN(rows));
}

/* A length that is not that of the body: RFC 9113 section 8.1.1. */
static void bodies_of_another_length_are_reset(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/echo") "content-length: 3\n");
    fixture_put_data(&t.peer, 1, true, STR("ab"));
    assert_string_equal(hear(), "RST_STREAM 1 PROTOCOL_ERROR\n");
    fixture_put_headers(&t.peer, 3, false, FIELDS("POST", "/echo") "content-length: 1\n");
    fixture_put_data(&t.peer, 3, true, STR("ab"));
    assert_string_equal(hear(), "RST_STREAM 3 PROTOCOL_ERROR\n");
}

static void refusals_have_status_and_reason(void **state)
{
    static const char a_path[] =
        "/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static char long_path[512], long_head[2048];
    static const struct {
        const char *fields;
        unsigned status;
        enum http1_refusal why;
    } rows[] = {
        {FIELDS("GET", "/tell/x") "host: i\n", 400, HTTP1_REFUSED_HOST},
        {":method: GET\n:scheme: http\n:authority: u@h\n:path: /\n", 400, HTTP1_REFUSED_HOST},
        {":method: GET\n:scheme: ftp\n:authority: h\n:path: /\n", 400, HTTP1_REFUSED_SYNTAX},
        {":method: GET\n:scheme: ftp\n:authority: h\n:path: http://i/\n", 400, HTTP1_REFUSED_SYNTAX},
        {FIELDS("GET", "/tell/x#y"), 400, HTTP1_REFUSED_SYNTAX},
        {FIELDS("POST", "/echo") "content-length: 1048577\n", 413, HTTP1_REFUSED_BODY_TOO_LARGE},
        {FIELDS("POST", "/small") "content-length: 5\n", 413, HTTP1_REFUSED_BODY_TOO_LARGE},
        {long_path, 414, HTTP1_REFUSED_LINE_TOO_LONG},
        {FIELDS("POST", "/echo") "expect: x\n", 417, HTTP1_REFUSED_EXPECTATION},
        {long_head, 431, HTTP1_REFUSED_HEAD_TOO_LARGE},
        {FIELDS("GET", "/tell/x") "a: \nb: \nc: \nd: \ne: \nf: \ng: \nh: \ni: \nj: \nk: \n", 431, HTTP1_REFUSED_HEAD_TOO_LARGE},
        {":method: CONNECT\n:authority: h:1\n", 501, HTTP1_REFUSED_METHOD},
    };

    (void)state;
    snprintf(long_path, sizeof long_path, FIELDS("GET", "%s"), a_path);
    snprintf(long_head, sizeof long_head, FIELDS("GET", "/tell/x") "a: %s\nb: %s\nc: %s\n", a_path, a_path, a_path);
    open_peer();
    for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t before = metric_value(&metrics.refused[rows[i].why]);
        char begin[64], end[64];

        snprintf(begin, sizeof begin, "HEADERS %u :status=%u content-type=application/json ", 2 * i + 1, rows[i].status);
        snprintf(end, sizeof end, "RST_STREAM %u NO_ERROR\n", 2 * i + 1);
        fixture_put_headers(&t.peer, 2 * i + 1, false, rows[i].fields);
        if (strncmp(hear(), begin, strlen(begin)) != 0 || strcmp(t.peer.text + t.peer.n_text - 4, "\"}\n\n") != 0)
            fail_msg("row %u: %s", i, t.peer.text);
        fixture_put_data(&t.peer, 2 * i + 1, false, STR("a")); /* is read over for a while */
        assert_string_equal(hear(), "");
        pass_ms(HTTP_CONN_LINGER_TIMEOUT_MS);
        assert_string_equal(hear(), end);
        assert_int_equal(metric_value(&metrics.refused[rows[i].why]), before + 1);
    }
    /* What had been on its way is read over. */
    fixture_put_data(&t.peer, 1, true, STR("a"));
    get(101, "/tell/x");
    assert_non_null(strstr(hear(), "HEADERS 101 :status=200 "));
}

static void a_body_without_a_length_is_bounded(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/small"));
    fixture_put_data(&t.peer, 1, false, STR("abcd"));
    assert_string_equal(hear(), "");
    fixture_put_data(&t.peer, 1, false, STR("e"));
    assert_non_null(strstr(hear(), "HEADERS 1 :status=413 "));
}

/* ---- streams ---- */

static void more_streams_than_told_are_refused(void **state)
{
    int64_t before = resets(HTTP_RESET_REFUSED);

    (void)state;
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
    for (uint32_t i = 0; i <= STREAMS; i++) /* it cannot know yet */
        get(2 * i + 1, "/hold");
    assert_string_equal(hear(), "RST_STREAM 21 REFUSED_STREAM\n");
    assert_int_equal(resets(HTTP_RESET_REFUSED), before + 1);
    assert_int_equal(t.n_held, STREAMS);
    http_exchange_respond_text(t.held[0], 200, STR("1"));
    hear();
    get(23, "/tell/x");
    assert_non_null(strstr(hear(), "HEADERS 23 :status=200 "));
    fixture_put_data(&t.peer, 21, true, STR("on its way")); /* of the one that was refused */
    assert_string_equal(hear(), "");
    assert_false(t.peer.is_eof);
    fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (struct str){0});
    get(25, "/hold");
    get(27, "/hold"); /* it does know */
    assert_string_equal(hear(), "GOAWAY 25 PROTOCOL_ERROR\n");
    assert_true(t.peer.is_eof);
    close_peer();
    assert_int_equal(t.n_cancelled, STREAMS);
    for (unsigned i = 1; i < t.n_held; i++)
        http_exchange_respond_text(t.held[i], 200, STR("nobody hears"));
}

static void frames_on_streams_that_are_closed_end_the_connection(void **state)
{
    static const struct {
        unsigned type;
        uint32_t id;
        const char *answer;
    } rows[] = {
        {NGHTTP2_DATA, 5, "GOAWAY 9 STREAM_CLOSED\n"},     /* it had ended it */
        {NGHTTP2_HEADERS, 5, "GOAWAY 9 STREAM_CLOSED\n"},  /* the same */
        {NGHTTP2_DATA, 7, "GOAWAY 9 STREAM_CLOSED\n"},     /* it had reset it */
        {NGHTTP2_HEADERS, 3, "GOAWAY 9 PROTOCOL_ERROR\n"}, /* never open */
        {NGHTTP2_DATA, 11, "GOAWAY 9 PROTOCOL_ERROR\n"},   /* not yet */
        {NGHTTP2_DATA, 9, ""},                             /* we had reset it: this may have been on its way */
        {NGHTTP2_HEADERS, 9, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        open_peer();
        get(5, "/tell/x");
        fixture_put_headers(&t.peer, 7, false, FIELDS("POST", "/echo"));
        fixture_put_word(&t.peer, NGHTTP2_RST_STREAM, 7, NGHTTP2_CANCEL);
        fixture_put_headers(&t.peer, 9, false, FIELDS("POST", "/small") "content-length: 9\n");
        turn();
        pass_ms(HTTP_CONN_LINGER_TIMEOUT_MS);
        assert_non_null(strstr(hear(), "RST_STREAM 9 NO_ERROR\n"));
        if (rows[i].type == NGHTTP2_DATA)
            fixture_put_data(&t.peer, rows[i].id, true, STR("x"));
        else
            fixture_put_headers(&t.peer, rows[i].id, true, FIELDS("GET", "/tell/x"));
        if (strcmp(hear(), rows[i].answer) != 0 || t.peer.is_eof != (rows[i].answer[0] != '\0'))
            fail_msg("row %zu: %s", i, t.peer.text);
        close_peer();
    }
}

static void a_reset_cancels_its_exchange_which_must_still_be_answered(void **state)
{
    int64_t cancelled = metric_value(metrics.cancelled), reset = resets(HTTP_RESET_PEER);

    (void)state;
    open_peer();
    get(1, "/hold");
    get(3, "/hold");
    fixture_put_headers(&t.peer, 5, false, FIELDS("POST", "/echo"));
    hear();
    fixture_put_word(&t.peer, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    fixture_put_word(&t.peer, NGHTTP2_RST_STREAM, 5, NGHTTP2_CANCEL);
    assert_string_equal(hear(), "");
    assert_int_equal(t.n_cancelled, 1);
    assert_int_equal(metric_value(metrics.cancelled), cancelled + 2);
    assert_int_equal(resets(HTTP_RESET_PEER), reset + 2);
    assert_true(str_equal(t.held[0]->request.path, STR("/hold"))); /* still there */
    t.is_answering = true;
    http_exchange_respond_text(t.held[0], 200, STR("nobody hears"));
    http_exchange_respond(t.held[1], &(struct http_response){.status = 200});
    t.is_answering = false;
    assert_string_equal(hear(), "HEADERS 3 end :status=200 content-length=0\n");
    assert_int_equal(t.server.n_exchanges, 0);
}

static void a_peer_that_leaves_cancels_everything(void **state)
{
    int64_t cancelled = metric_value(metrics.cancelled);

    (void)state;
    open_peer();
    get(1, "/hold");
    fixture_put_headers(&t.peer, 3, false, FIELDS("POST", "/echo"));
    get(5, "/big");
    turn();
    close_peer();
    assert_int_equal(t.server.n_conns, 0);
    assert_int_equal(t.n_cancelled, 1);
    assert_int_equal(metric_value(metrics.cancelled), cancelled + 2);
    http_exchange_respond_text(t.held[0], 200, STR("nobody hears"));
}

/* ---- windows ---- */

static void responses_keep_to_the_windows(void **state)
{
    (void)state;
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    fixture_put_setting(&t.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10);
    get(1, "/big");
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=100000\nDATA 1 bbbbbbbbbb\n");
    get(3, "/nothing"); /* others are not held up */
    assert_string_equal(hear(), "HEADERS 3 end :status=204 retry-after=2\n");
    fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 1, 5);
    assert_string_equal(hear(), "DATA 1 bbbbb\n");
    fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 1, BIG_BYTES);
    assert_string_equal(hear(), "DATA 1 (16384)\nDATA 1 (16384)\nDATA 1 (16384)\nDATA 1 (16368)\n"); /* the connection's */
    fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 0, BIG_BYTES);
    assert_string_equal(hear(), "DATA 1 (16384)\nDATA 1 (16384)\nDATA 1 end (1697)\n");
}

static void a_peer_that_gives_no_window_loses_its_stream(void **state)
{
    int64_t before = resets(HTTP_RESET_SLOW);

    (void)state;
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    fixture_put_setting(&t.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    get(1, "/big");
    assert_string_equal(hear(), "HEADERS 1 :status=200 content-length=100000\n");
    pass_ms(2999);
    fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 1, 1); /* a byte now and then gives time, as over HTTP/1 it would not */
    assert_string_equal(hear(), "DATA 1 b\n");
    pass_ms(2999);
    assert_string_equal(hear(), "");
    pass_ms(1);
    assert_string_equal(hear(), "RST_STREAM 1 CANCEL\n");
    assert_int_equal(resets(HTTP_RESET_SLOW), before + 1);
    get(3, "/nothing");
    assert_string_equal(hear(), "HEADERS 3 end :status=204 retry-after=2\n");
}

static void upload(uint32_t id, size_t n, bool is_end)
{
    static char part[16384];

    memset(part, 'u', sizeof part);
    while (n > 0) {
        size_t piece = n < sizeof part ? n : sizeof part;

        n -= piece;
        fixture_put_data(&t.peer, id, is_end && n == 0, (struct str){part, piece});
        turn();
    }
}

static void large_bodies_get_room_one_after_the_other(void **state)
{
    char fields[128];

    (void)state;
    snprintf(fields, sizeof fields, FIELDS("POST", "/count") "content-length: %d\n", MIB);
    open_peer();
    t.peer.is_talkative = true;
    for (uint32_t i = 0; i < STREAMS; i++) {
        fixture_put_headers(&t.peer, 2 * i + 1, false, fields);
        upload(2 * i + 1, 65535, false); /* what all may send */
    }
    hear();
    assert_non_null(strstr(t.peer.text, "WINDOW_UPDATE 15 "));
    assert_null(strstr(t.peer.text, "WINDOW_UPDATE 17 ")); /* 8 of 1 MiB have room */
    assert_null(strstr(t.peer.text, "WINDOW_UPDATE 19 "));
    fixture_put_word(&t.peer, NGHTTP2_RST_STREAM, 19, NGHTTP2_CANCEL);
    upload(3, MIB - 65535, true);
    hear();
    assert_non_null(strstr(t.peer.text, "DATA 3 end 1048576\n"));
    assert_non_null(strstr(t.peer.text, "WINDOW_UPDATE 17 "));
    upload(17, MIB - 65535, true);
    assert_non_null(strstr(hear(), "DATA 17 end 1048576\n"));
}

/* ---- floods ---- */

static void put_many(unsigned type, unsigned flags, uint32_t id, struct str payload, unsigned n)
{
    for (unsigned i = 0; i < n && !t.peer.is_eof; i++) {
        fixture_put_frame(&t.peer, type, flags, id, payload);
        if (i % 16 == 15 || i == n - 1)
            hear();
    }
}

static void frames_that_ask_for_nothing_are_counted(void **state)
{
    static const struct {
        unsigned type, id;
        struct str payload;
    } rows[] = {
        {NGHTTP2_PING, 0, STR_INIT("01234567")},
        {NGHTTP2_SETTINGS, 0, {NULL, 0}},
        {NGHTTP2_DATA, 1, {NULL, 0}},
        {NGHTTP2_PRIORITY, 1, STR_INIT("\0\0\0\0\1")},
        {NGHTTP2_WINDOW_UPDATE, 1, STR_INIT("\0\0\0\1")},
        {NGHTTP2_WINDOW_UPDATE, 0, STR_INIT("\0\0\0\1")},
        {200, 0, STR_INIT("unknown")},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t before = closed(HTTP_CLOSED_FLOOD);

        open_peer();
        fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/echo"));
        put_many(rows[i].type, 0, rows[i].id, rows[i].payload, HTTP2_FLOOD_BURST - 50);
        assert_false(t.peer.is_eof);
        pass_ms(1500); /* tokens come back */
        put_many(rows[i].type, 0, rows[i].id, rows[i].payload, HTTP2_FLOOD_TOKENS_PER_S);
        assert_false(t.peer.is_eof);
        put_many(rows[i].type, 0, rows[i].id, rows[i].payload, 200);
        if (!t.peer.is_eof || !strstr(t.peer.text, "GOAWAY 1 ENHANCE_YOUR_CALM\n"))
            fail_msg("row %zu: %s", i, t.peer.text);
        close_peer();
        assert_int_equal(closed(HTTP_CLOSED_FLOOD), before + 1);
    }
}

/* Rapid reset: requests that are taken back at once. */
static void resets_are_counted(void **state)
{
    uint32_t id = 1;

    (void)state;
    open_peer();
    for (unsigned i = 0; i < 2 * HTTP2_FLOOD_BURST && !t.peer.is_eof; i++, id += 2) {
        fixture_put_headers(&t.peer, id, false, FIELDS("POST", "/echo"));
        fixture_put_word(&t.peer, NGHTTP2_RST_STREAM, id, NGHTTP2_CANCEL);
        hear();
    }
    assert_true(t.peer.is_eof);
    assert_true(id / 2 <= HTTP2_FLOOD_BURST + 1);
}

/* The peer makes us reset its streams, which takes them out of the number that may be open. */
static void resets_that_the_peer_provokes_are_counted_too(void **state)
{
    uint32_t id = 1;

    (void)state;
    open_peer();
    for (unsigned i = 0; i < 2 * HTTP2_FLOOD_BURST && !t.peer.is_eof; i++, id += 2) {
        fixture_put_headers(&t.peer, id, true, FIELDS("GET", "/tell/x") "connection: close\n");
        hear();
    }
    assert_true(t.peer.is_eof);
    assert_non_null(strstr(t.peer.text, "ENHANCE_YOUR_CALM"));
}

static void a_header_block_is_not_continued_for_ever(void **state)
{
    char block[64];
    size_t n = fixture_write_fields(block, STR(FIELDS("GET", "/tell/x")));

    (void)state;
    open_peer();
    fixture_put_frame(&t.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, (struct str){block, n});
    for (int i = 0; i < HTTP2_CONTINUATIONS_MAX; i++)
        fixture_put_frame(&t.peer, NGHTTP2_CONTINUATION, i == HTTP2_CONTINUATIONS_MAX - 1 ? NGHTTP2_FLAG_END_HEADERS : 0, 1,
                          (struct str){0});
    assert_non_null(strstr(hear(), "HEADERS 1 :status=200 "));
    fixture_put_frame(&t.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 3, (struct str){block, n});
    for (int i = 0; i < HTTP2_CONTINUATIONS_MAX + 1; i++)
        fixture_put_frame(&t.peer, NGHTTP2_CONTINUATION, 0, 3, (struct str){0});
    assert_non_null(strstr(hear(), "ENHANCE_YOUR_CALM\n"));
    assert_true(t.peer.is_eof);
}

/* A busy, honest peer: every response is read in small windows. */
static void window_updates_of_a_reader_are_no_flood(void **state)
{
    (void)state;
    open_peer();
    for (uint32_t id = 1; id < 600; id += 2) {
        get(id, "/big");
        while (!strstr(hear(), " end ")) {
            fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 0, 32768);
            fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, id, 32768);
        }
        assert_false(t.peer.is_eof);
    }
}

static void a_peer_that_does_not_read_is_not_read_either(void **state)
{
    int64_t slow = closed(HTTP_CLOSED_SLOW), before = mem_used(MEM_LOOP);

    (void)state;
    open_peer();
    fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, 0, 100 * BIG_BYTES);
    for (uint32_t id = 1; id < 2 * STREAMS; id += 2) {
        get(id, "/big");
        fixture_put_word(&t.peer, NGHTTP2_WINDOW_UPDATE, id, BIG_BYTES);
    }
    for (int i = 0; i < 100; i++)
        fixture_put_frame(&t.peer, NGHTTP2_PING, 0, 0, STR("01234567"));
    turn();
    assert_true(mem_used(MEM_LOOP) - before < 4 * HTTP_CONN_OUTPUT_BYTES); /* input and output, as buffers grow */
    pass_ms(3000);
    assert_int_equal(t.server.n_conns, 0);
    assert_int_equal(closed(HTTP_CLOSED_SLOW), slow + 1);
}

/* ---- time ---- */

static void slow_bodies_are_answered_with_408_and_steady_ones_are_not(void **state)
{
    (void)state;
    open_peer();
    fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/count"));
    fixture_put_headers(&t.peer, 3, false, FIELDS("POST", "/count"));
    for (int i = 0; i < 3; i++) {
        upload(1, 1, false);
        upload(3, 16384, false);
        pass_ms(1500);
    }
    upload(3, 1, true);
    assert_non_null(strstr(hear(), "HEADERS 1 :status=408 "));
    assert_non_null(strstr(t.peer.text, "DATA 3 end 49153\n"));
}

static void a_slow_head_ends_the_connection(void **state)
{
    char block[64];
    size_t n = fixture_write_fields(block, STR(FIELDS("GET", "/tell/x")));
    int64_t slow = closed(HTTP_CLOSED_SLOW);

    (void)state;
    open_peer();
    fixture_put_frame(&t.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, (struct str){block, n});
    turn();
    pass_ms(900);
    fixture_put_frame(&t.peer, NGHTTP2_CONTINUATION, 0, 1, (struct str){0});
    assert_string_equal(hear(), "");
    pass_ms(100);
    hear();
    assert_true(t.peer.is_eof);
    assert_int_equal(closed(HTTP_CLOSED_SLOW), slow + 1);
}

static void idle_connections_end_with_goaway(void **state)
{
    int64_t idle = closed(HTTP_CLOSED_IDLE);

    (void)state;
    open_peer();
    turn();
    pass_ms(4999);
    get(1, "/tell/x"); /* starts the time anew */
    assert_non_null(strstr(hear(), "HEADERS 1 "));
    pass_ms(4999);
    get(3, "/hold"); /* and while there is a request it does not run */
    hear();
    pass_ms(60000);
    http_exchange_respond(t.held[0], &(struct http_response){.status = 200});
    assert_string_equal(hear(), "HEADERS 3 end :status=200 content-length=0\n");
    pass_ms(4999);
    assert_string_equal(hear(), "");
    pass_ms(1);
    assert_string_equal(hear(), "GOAWAY 3 NO_ERROR\n");
    assert_true(t.peer.is_eof);
    close_peer();
    assert_int_equal(closed(HTTP_CLOSED_IDLE), idle + 1);
}

static void silence_after_half_a_preface_ends_the_connection(void **state)
{
    (void)state;
    connect_peer();
    fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, 10);
    turn();
    pass_ms(1000);
    hear();
    assert_true(t.peer.is_eof);
}

/* ---- the end ---- */

static void drain_lets_requests_end_and_tells_which_were_seen(void **state)
{
    (void)state;
    open_peer();
    get(1, "/hold");
    hear();
    http_server_drain(&t.server, 10000, on_closed);
    assert_string_equal(hear(), "PING\nGOAWAY 2147483647 NO_ERROR\n");
    get(3, "/tell/x"); /* was on its way */
    assert_non_null(strstr(hear(), "HEADERS 3 :status=200 "));
    fixture_put_frame(&t.peer, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, STR("millrace"));
    assert_string_equal(hear(), "GOAWAY 3 NO_ERROR\n");
    get(5, "/tell/x"); /* will be sent elsewhere */
    assert_string_equal(hear(), "");
    http_exchange_respond(t.held[0], &(struct http_response){.status = 200});
    assert_string_equal(hear(), "HEADERS 1 end :status=200 content-length=0\n");
    assert_true(t.peer.is_eof);
    close_peer();
    assert_int_equal(t.n_closed, 1);
}

static void drain_does_not_wait_for_a_peer_that_answers_no_ping(void **state)
{
    (void)state;
    open_peer();
    turn();
    http_server_drain(&t.server, 10000, on_closed);
    assert_string_equal(hear(), "PING\nGOAWAY 2147483647 NO_ERROR\n");
    pass_ms(1000);
    assert_string_equal(hear(), "GOAWAY 0 NO_ERROR\n");
    assert_true(t.peer.is_eof);
    close_peer();
    assert_int_equal(t.n_closed, 1);
}

static void a_peer_that_breaks_frames_is_told_why(void **state)
{
    int64_t before = closed(HTTP_CLOSED_PROTOCOL);

    (void)state;
    open_peer();
    get(1, "/hold");
    fixture_put_frame(&t.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, STR("\xff\xff\xff\xff"));
    assert_string_equal(hear(), "GOAWAY 3 COMPRESSION_ERROR\n");
    assert_true(t.peer.is_eof);
    close_peer();
    assert_int_equal(closed(HTTP_CLOSED_PROTOCOL), before + 1);
    assert_int_equal(t.n_cancelled, 1);
    http_exchange_respond_text(t.held[0], 200, STR("nobody hears"));
}

static void an_idle_connection_is_small(void **state)
{
    (void)state;
    open_peer();
    get(1, "/tell/x"); /* fills the pool */
    hear();
    close_peer();
    int64_t before = mem_used(MEM_HTTP), loop_before = mem_used(MEM_LOOP);

    open_peer();
    for (uint32_t id = 1; id < 200; id += 2) {
        get(id, "/tell/x");
        hear();
    }
    print_message("an idle connection takes %lld bytes\n", (long long)(mem_used(MEM_HTTP) - before));
    assert_true(mem_used(MEM_HTTP) - before <= 32 * 1024);
    assert_int_equal(mem_used(MEM_LOOP), loop_before);
}

static void every_allocation_may_fail(void **state)
{
    bool is_whole = false;

    (void)state;
    for (unsigned n = 1; !is_whole; n++) {
        assert_true(n < 500);
        mem_fail_after(n);
        connect_peer();
        fixture_put(&t.peer, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        fixture_put_frame(&t.peer, NGHTTP2_SETTINGS, 0, 0, (struct str){0});
        fixture_put_headers(&t.peer, 1, false, FIELDS("POST", "/count"));
        for (int i = 0; i < 4; i++)
            fixture_put_data(&t.peer, 1, i == 3, (struct str){big, 12000});
        hear();
        mem_fail_after(0);
        is_whole = strstr(t.peer.text, "DATA 1 end 48000\n") != NULL;
        assert_true(is_whole || t.peer.is_eof || strstr(t.peer.text, ":status=50") || strstr(t.peer.text, "INTERNAL_ERROR"));
        close_peer();
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
        TEST(a_connection_begins_with_settings),
        TEST(a_request_is_what_it_would_be_over_http1),
        TEST(a_cookie_in_pieces_is_one),
        TEST(requests_may_come_byte_by_byte),
        TEST(requests_are_served_at_once_and_answered_as_handlers_like),
        TEST(bodies_are_left_out_where_none_is_allowed),
        TEST(trailers_are_read_over),
        TEST(expectation_is_answered_before_the_body),
        TEST(malformed_requests_are_reset),
        TEST(bodies_of_another_length_are_reset),
        TEST(refusals_have_status_and_reason),
        TEST(a_body_without_a_length_is_bounded),
        TEST(more_streams_than_told_are_refused),
        TEST(frames_on_streams_that_are_closed_end_the_connection),
        TEST(a_reset_cancels_its_exchange_which_must_still_be_answered),
        TEST(a_peer_that_leaves_cancels_everything),
        TEST(responses_keep_to_the_windows),
        TEST(a_peer_that_gives_no_window_loses_its_stream),
        TEST(large_bodies_get_room_one_after_the_other),
        TEST(frames_that_ask_for_nothing_are_counted),
        TEST(resets_are_counted),
        TEST(resets_that_the_peer_provokes_are_counted_too),
        TEST(a_header_block_is_not_continued_for_ever),
        TEST(window_updates_of_a_reader_are_no_flood),
        TEST(a_peer_that_does_not_read_is_not_read_either),
        TEST(slow_bodies_are_answered_with_408_and_steady_ones_are_not),
        TEST(a_slow_head_ends_the_connection),
        TEST(idle_connections_end_with_goaway),
        TEST(silence_after_half_a_preface_ends_the_connection),
        TEST(drain_lets_requests_end_and_tells_which_were_seen),
        TEST(drain_does_not_wait_for_a_peer_that_answers_no_ping),
        TEST(a_peer_that_breaks_frames_is_told_why),
        TEST(an_idle_connection_is_small),
        TEST(every_allocation_may_fail),
    };
    int failed;

    http_metrics_register(&metrics, "test");
    memset(big, 'b', sizeof big);
    failed = cmocka_run_group_tests_name("http2_conn", tests, NULL, NULL);
    free(t.peer.text);
    return failed;
}
