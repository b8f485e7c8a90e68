/* What an instance with a good certificate may say that is wrong: it ends its connection, and nothing else. */
#include "command/command_link.h"

#include "command/command_link_fixture.h"

/* Somebody with A's certificate who says whatever the test wants. */
static struct {
    struct stream stream;
    bool is_open;
    struct buf heard;
} speaker;

static size_t on_data(struct stream *s, struct str bytes)
{
    (void)s;
    assert_int_equal(buf_append(&speaker.heard, MEM_TEST, bytes), E_OK);
    return bytes.n;
}

static void on_close(struct stream *s, err why)
{
    (void)s;
    (void)why;
    speaker.is_open = false;
}

static const struct stream_ops speaker_ops = {.on_data = on_data, .on_close = on_close};

static void connect_as_a(void)
{
    struct tls *tls = make_tls("a", "root.pem", false);
    struct sockaddr_storage address;
    socklen_t size;

    assert_int_equal(listener_parse(a.address_of_other, &address, &size, NULL), E_OK);
    assert_int_equal(stream_connect_tls(&speaker.stream, &a.workers.list[0].loop, (struct sockaddr *)&address, size,
                                        &speaker_ops, tls, &(struct tls_server){.name = "b", .alpn = COMMAND_LINK_ALPN}),
                     E_OK);
    tls_unref(tls);
    speaker.is_open = true;
}

static void hang_up(void)
{
    stream_fini(&speaker.stream);
    speaker.is_open = false;
    buf_free(&speaker.heard, MEM_TEST);
}

static void add_hello(struct buf *to, uint64_t channel, uint64_t first, unsigned worker)
{
    const struct command_link_hello hello = {.version = COMMAND_LINK_VERSION,
                                             .channel = channel,
                                             .first = first,
                                             .incarnation = INCARNATION,
                                             .worker = worker,
                                             .from = STR("a"),
                                             .to = STR("b")};

    assert_int_equal(command_link_frame_write_hello(to, &hello), E_OK);
}

static void add_request(struct buf *to, uint64_t number, int64_t offset)
{
    const struct command_request request = request_of(0, offset, STR("on"));

    assert_int_equal(command_link_frame_write_request(to, number, &request), E_OK);
}

static void say(struct buf *bytes)
{
    assert_int_equal(stream_write(&speaker.stream, buf_str(bytes)), E_OK);
    buf_free(bytes, MEM_COMMAND);
}

static bool is_hung_up(void)
{
    return !speaker.is_open;
}

static void no_hello(struct buf *bytes)
{
    add_request(bytes, 1, 1);
}

static void no_frame(struct buf *bytes)
{
    assert_int_equal(buf_append(bytes, MEM_COMMAND, STR("\0\0\0\0")), E_OK);
}

static void no_link(struct buf *bytes)
{
    assert_int_equal(buf_append(bytes, MEM_COMMAND, STR("GET / HTTP/1.1\r\n\r\n")), E_OK);
}

static void too_long_for_a_hello(struct buf *bytes)
{
    assert_int_equal(buf_append(bytes, MEM_COMMAND, STR("\0\0\4\0\1")), E_OK);
}

static void two_hellos(struct buf *bytes)
{
    add_hello(bytes, 1, 1, 0);
    add_hello(bytes, 1, 1, 0);
}

static void two_hellos_elsewhere(struct buf *bytes)
{
    add_hello(bytes, 1, 1, 1);
    add_hello(bytes, 1, 1, 1);
}

static void a_gap(struct buf *bytes)
{
    add_hello(bytes, 2, 1, 0);
    add_request(bytes, 1, 1);
    add_request(bytes, 3, 3);
}

static void the_words_of_the_other_side(struct buf *bytes)
{
    add_hello(bytes, 3, 1, 0);
    assert_int_equal(command_link_frame_write_ack(bytes, 1), E_OK);
}

static void too_long_for_anything(struct buf *bytes)
{
    add_hello(bytes, 4, 1, 0);
    assert_int_equal(buf_append(bytes, MEM_COMMAND, STR("\xff\0\0\0\4")), E_OK);
}

static void a_frame_that_is_none(struct buf *bytes)
{
    add_hello(bytes, 5, 1, 2);
    assert_int_equal(buf_append(bytes, MEM_COMMAND, STR("\0\0\0\2\6\0")), E_OK);
}

static void whoever_breaks_the_rules_is_hung_up_on(void **state)
{
    static void (*const cases[])(struct buf * b) = {
        no_hello,
        no_frame,
        no_link,
        too_long_for_a_hello,
        two_hellos,
        two_hellos_elsewhere,
        a_gap,
        the_words_of_the_other_side,
        too_long_for_anything,
        a_frame_that_is_none,
    };

    (void)state;
    open_both(false);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf bytes = {0};

        connect_as_a();
        cases[i](&bytes);
        say(&bytes);
        TURN_UNTIL(is_hung_up);
        hang_up();
    }
    assert_int_equal(b.requests[0].last, 1); /* of the one before the gap */
    assert_int_equal(counts(COMMAND_LINK_COUNT_IN), 0);
}

static bool has_heard_something(void)
{
    return buf_size(&speaker.heard) > 0;
}

static struct command_link_frame heard_frame(void)
{
    static struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_link_frame f;
    size_t n;

    assert_int_equal(command_link_frame_read(buf_str(&speaker.heard), COMMAND_LINK_GREETING_BYTES, headers, &f, &n), E_OK);
    buf_consume(&speaker.heard, n);
    return f;
}

static void another_version_is_told_so(void **state)
{
    struct buf bytes = {0};
    struct command_link_frame f;

    (void)state;
    open_both(false);
    connect_as_a();
    assert_int_equal(buf_append(&bytes, MEM_COMMAND, STR("\0\0\0\x0b\1MRLK\2newer")), E_OK);
    say(&bytes);
    TURN_UNTIL(is_hung_up);
    f = heard_frame();
    assert_int_equal(f.kind, COMMAND_LINK_REFUSAL);
    assert_int_equal(f.refusal, COMMAND_LINK_REFUSED_VERSION);
    assert_int_equal(counts(COMMAND_LINK_COUNT_REFUSED_VERSION), 1);
    hang_up();
}

/* What had come before is told by number, and not told to the plane twice. */
static void a_channel_that_comes_again_goes_on_where_it_was(void **state)
{
    struct buf bytes = {0};
    struct command_link_frame f;

    (void)state;
    open_both(false);
    for (unsigned i = 0; i < 2; i++) {
        connect_as_a();
        add_hello(&bytes, 9, 1, 1);
        for (int64_t offset = 1; offset <= 2; offset++)
            add_request(&bytes, (uint64_t)offset, offset);
        say(&bytes);
        TURN_UNTIL(has_heard_something);
        f = heard_frame();
        assert_int_equal(f.kind, COMMAND_LINK_WELCOME);
        assert_int_equal(f.number, i ? 2 : 0);
        TURN_UNTIL(has_heard_something); /* the acknowledgement */
        assert_int_equal(heard_frame().number, 2);
        hang_up();
    }
    assert_int_equal(b.requests[0].last, 2);
    assert_int_equal(b.requests[0].n_again, 0);
    assert_int_equal(counts(COMMAND_LINK_COUNT_DUPLICATE), 2);
}

static void whoever_says_nothing_is_not_waited_for(void **state)
{
    (void)state;
    heartbeat_ms = 10;
    open_both(false);
    connect_as_a();
    TURN_UNTIL(is_hung_up);
    assert_int_equal(counts(COMMAND_LINK_COUNT_REFUSED_TLS), 1);
    hang_up();
}

static void whoever_falls_silent_is_not_waited_for(void **state)
{
    struct buf bytes = {0};

    (void)state;
    heartbeat_ms = 200;
    open_both(false);
    connect_as_a();
    add_hello(&bytes, 9, 1, 1);
    say(&bytes);
    TURN_UNTIL(has_heard_something);
    TURN_UNTIL(is_hung_up);
    assert_int_equal(counts(COMMAND_LINK_COUNT_IN), 0);
    hang_up();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whoever_breaks_the_rules_is_hung_up_on, tear_down),
        cmocka_unit_test_teardown(another_version_is_told_so, tear_down),
        cmocka_unit_test_teardown(a_channel_that_comes_again_goes_on_where_it_was, tear_down),
        cmocka_unit_test_teardown(whoever_says_nothing_is_not_waited_for, tear_down),
        cmocka_unit_test_teardown(whoever_falls_silent_is_not_waited_for, tear_down),
    };

    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
