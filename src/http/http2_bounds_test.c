/* What a peer may have of an HTTP/2 connection: windows, room, frames, time; and its end. */
#include "http/http2_conn_fixture.h"

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
    failed = cmocka_run_group_tests_name("http2_bounds", tests, NULL, NULL);
    free(t.peer.text);
    return failed;
}
