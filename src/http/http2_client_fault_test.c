/* What a server may do wrong, and time. */
#include "http/http2_client_fixture.h"
#include "http/http2_flood.h"

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
        TEST(every_allocation_may_fail),
    };
    int failed;

    http_client_metrics_register(&metrics, "test");
    memset(big, 'b', sizeof big);
    failed = cmocka_run_group_tests_name("http2_client_fault", tests, NULL, NULL);
    free(t.server.text);
    return failed;
}
