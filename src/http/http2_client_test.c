#include "http/http2_client_fixture.h"
#include "http/http_server.h"

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

/* ---- with our own server ---- */

enum { MANY = 500 };

static struct http_metrics server_metrics;

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
        TEST(both_ends_understand_each_other),
    };
    int failed;

    http_client_metrics_register(&metrics, "test");
    http_metrics_register(&server_metrics, "test");
    memset(big, 'b', sizeof big);
    failed = cmocka_run_group_tests_name("http2_client", tests, NULL, NULL);
    free(t.server.text);
    return failed;
}
