#include "http/http2_conn_fixture.h"

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
    };
    int failed;

    http_metrics_register(&metrics, "test");
    memset(big, 'b', sizeof big);
    failed = cmocka_run_group_tests_name("http2_conn", tests, NULL, NULL);
    free(t.peer.text);
    return failed;
}
