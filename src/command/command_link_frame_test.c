#include "command/command_link_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "command/command_port.h"

static struct record_header headers[COMMAND_LINK_HEADERS_MAX];

static const struct command_request full = {
    .ticket = {.tenant = STR_INIT("acme"), .partition = 7, .offset = INT64_C(1) << 40},
    .from = {.incarnation = 3},
    .to = {.incarnation = UINT64_MAX},
    .after = 99,
    .epoch = 5,
    .gateway = STR_INIT("gw"),
    .timestamp_ms = 1700000000000,
    .key = STR_INIT("4711"),
    .value = STR_INIT("on"),
    .headers = (const struct record_header[]){{STR_INIT("subject"), STR_INIT("light")},
                                              {STR_INIT("empty"), STR_INIT("")},
                                              {STR_INIT("null"), {NULL, 0}}},
    .n_headers = 3,
};

static void assert_str(struct str is, struct str should)
{
    assert_int_equal(is.n, should.n);
    assert_int_equal(is.p == NULL, should.p == NULL);
    if (is.n)
        assert_memory_equal(is.p, should.p, is.n);
}

static void assert_ticket(const struct command_ticket *is, const struct command_ticket *should)
{
    assert_str(is->tenant, should->tenant);
    assert_int_equal(is->partition, should->partition);
    assert_int_equal(is->offset, should->offset);
}

static struct command_link_frame read_whole(const struct buf *b)
{
    struct command_link_frame f;
    size_t n;

    assert_int_equal(command_link_frame_read(buf_str(b), COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n), E_OK);
    assert_int_equal(n, buf_size(b));
    assert_int_equal(command_link_frame_bytes(buf_str(b)), n);
    return f;
}

static void a_request_is_read_as_it_was_written(void **state)
{
    struct buf b = {0};
    struct command_link_frame f;

    (void)state;
    assert_int_equal(command_link_frame_write_request(&b, 12, &full), E_OK);
    f = read_whole(&b);
    assert_int_equal(f.kind, COMMAND_LINK_REQUEST);
    assert_int_equal(f.number, 12);
    assert_ticket(&f.request.ticket, &full.ticket);
    assert_int_equal(f.request.from.incarnation, full.from.incarnation);
    assert_true(f.request.to.incarnation == full.to.incarnation);
    assert_int_equal(f.request.after, full.after);
    assert_int_equal(f.request.epoch, full.epoch);
    assert_int_equal(f.request.timestamp_ms, full.timestamp_ms);
    assert_str(f.request.gateway, full.gateway);
    assert_str(f.request.key, full.key);
    assert_str(f.request.value, full.value);
    assert_int_equal(f.request.n_headers, full.n_headers);
    for (size_t i = 0; i < full.n_headers; i++) {
        assert_str(f.request.headers[i].name, full.headers[i].name);
        assert_str(f.request.headers[i].value, full.headers[i].value);
    }
    buf_free(&b, MEM_COMMAND);
}

static void a_null_value_is_no_empty_one_and_a_time_may_be_unknown(void **state)
{
    const struct command_request request = {
        .ticket = {.tenant = STR("t"), .partition = -1}, .key = STR(""), .timestamp_ms = -1};
    struct buf b = {0};
    struct command_link_frame f;

    (void)state;
    assert_int_equal(command_link_frame_write_request(&b, 1, &request), E_OK);
    f = read_whole(&b);
    assert_null(f.request.value.p);
    assert_non_null(f.request.key.p);
    assert_int_equal(f.request.key.n, 0);
    assert_int_equal(f.request.timestamp_ms, -1);
    assert_int_equal(f.request.ticket.partition, -1);
    buf_free(&b, MEM_COMMAND);
}

static void a_result_is_read_as_it_was_written(void **state)
{
    const struct command_result_message result = {.ticket = full.ticket,
                                                  .from = {.incarnation = 8},
                                                  .to = {.incarnation = 9},
                                                  .result = COMMAND_FAILED,
                                                  .status = 503,
                                                  .text = STR("gone")};
    struct buf b = {0};
    struct command_link_frame f;

    (void)state;
    assert_int_equal(command_link_frame_write_result(&b, 13, &result), E_OK);
    f = read_whole(&b);
    assert_int_equal(f.kind, COMMAND_LINK_RESULT);
    assert_int_equal(f.number, 13);
    assert_ticket(&f.result.ticket, &full.ticket);
    assert_int_equal(f.result.from.incarnation, 8);
    assert_int_equal(f.result.to.incarnation, 9);
    assert_int_equal(f.result.result, COMMAND_FAILED);
    assert_int_equal(f.result.status, 503);
    assert_str(f.result.text, result.text);
    buf_free(&b, MEM_COMMAND);
}

static void the_words_between_are_read_as_they_were_written(void **state)
{
    const struct command_link_hello hello = {.version = COMMAND_LINK_VERSION,
                                             .channel = 77,
                                             .first = 4,
                                             .incarnation = 6,
                                             .worker = 3,
                                             .from = STR("a"),
                                             .to = STR("b")};
    struct buf b = {0};
    struct command_link_frame f;

    (void)state;
    assert_int_equal(command_link_frame_write_hello(&b, &hello), E_OK);
    f = read_whole(&b);
    assert_int_equal(f.kind, COMMAND_LINK_HELLO);
    assert_int_equal(f.hello.channel, 77);
    assert_int_equal(f.hello.first, 4);
    assert_int_equal(f.hello.incarnation, 6);
    assert_int_equal(f.hello.worker, 3);
    assert_str(f.hello.from, hello.from);
    assert_str(f.hello.to, hello.to);
    buf_consume(&b, buf_size(&b));

    assert_int_equal(command_link_frame_write_welcome(&b, 41), E_OK);
    assert_int_equal(read_whole(&b).number, 41);
    assert_int_equal(read_whole(&b).kind, COMMAND_LINK_WELCOME);
    buf_consume(&b, buf_size(&b));

    assert_int_equal(command_link_frame_write_ack(&b, 42), E_OK);
    assert_int_equal(read_whole(&b).number, 42);
    assert_int_equal(read_whole(&b).kind, COMMAND_LINK_ACK);
    buf_consume(&b, buf_size(&b));

    assert_int_equal(command_link_frame_write_ping(&b), E_OK);
    assert_int_equal(read_whole(&b).kind, COMMAND_LINK_PING);
    buf_consume(&b, buf_size(&b));

    assert_int_equal(command_link_frame_write_refusal(&b, COMMAND_LINK_REFUSED_NAME), E_OK);
    assert_int_equal(read_whole(&b).refusal, COMMAND_LINK_REFUSED_NAME);
    buf_free(&b, MEM_COMMAND);
}

static void a_hello_of_another_version_can_be_told_from_nonsense(void **state)
{
    static const char later[] = "\0\0\0\x0b\1MRLK\2newer";
    static const char nonsense[] = "\0\0\0\x0b\1MRLX\2newer";
    struct command_link_frame f;
    size_t n;

    (void)state;
    assert_int_equal(command_link_frame_read((struct str){later, 15}, COMMAND_LINK_GREETING_BYTES, headers, &f, &n), E_OK);
    assert_int_equal(n, 15);
    assert_int_equal(f.hello.version, 2);
    assert_int_equal(command_link_frame_read((struct str){nonsense, 15}, COMMAND_LINK_GREETING_BYTES, headers, &f, &n),
                     E_PROTO);
}

/* Whatever is cut off: it is waited for, never taken for something else. */
static void a_frame_that_is_not_all_there_is_waited_for(void **state)
{
    struct buf b = {0};
    struct command_link_frame f;
    size_t n;

    (void)state;
    assert_int_equal(command_link_frame_write_request(&b, 1, &full), E_OK);
    for (size_t i = 0; i < buf_size(&b); i++) {
        char *copy = malloc(i + 1);
        struct str part = {copy, i};

        memcpy(copy, buf_str(&b).p, i);
        assert_int_equal(command_link_frame_read(part, COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n), E_AGAIN);
        free(copy);
    }
    buf_free(&b, MEM_COMMAND);
}

/* Of every frame: shortened by one byte, and made longer by one, with a length that says so. */
static void a_frame_with_too_few_or_too_many_fields_is_refused(void **state)
{
    struct buf frames[COMMAND_LINK_KINDS] = {0};
    const struct command_link_hello hello = {.version = COMMAND_LINK_VERSION, .first = 1, .from = STR("a"), .to = STR("b")};
    struct command_link_frame f;
    size_t n;

    (void)state;
    assert_int_equal(command_link_frame_write_hello(&frames[COMMAND_LINK_HELLO], &hello), E_OK);
    assert_int_equal(command_link_frame_write_welcome(&frames[COMMAND_LINK_WELCOME], 1), E_OK);
    assert_int_equal(command_link_frame_write_refusal(&frames[COMMAND_LINK_REFUSAL], COMMAND_LINK_REFUSED_BUSY), E_OK);
    assert_int_equal(command_link_frame_write_request(&frames[COMMAND_LINK_REQUEST], 1, &full), E_OK);
    assert_int_equal(command_link_frame_write_result(&frames[COMMAND_LINK_RESULT], 1, &(struct command_result_message){0}),
                     E_OK);
    assert_int_equal(command_link_frame_write_ping(&frames[COMMAND_LINK_PING]), E_OK);
    assert_int_equal(command_link_frame_write_ack(&frames[COMMAND_LINK_ACK], 1), E_OK);
    for (size_t kind = COMMAND_LINK_HELLO; kind < COMMAND_LINK_KINDS; kind++) {
        struct buf *b = &frames[kind];
        size_t whole = buf_size(b);

        assert_int_equal(read_whole(b).kind, kind);
        b->p[3]--;
        assert_int_equal(command_link_frame_read((struct str){b->p, whole - 1}, COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n),
                         E_PROTO);
        b->p[3] += 2;
        assert_int_equal(buf_append(b, MEM_COMMAND, STR("\0")), E_OK);
        assert_int_equal(command_link_frame_read(buf_str(b), COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n), E_PROTO);
        buf_free(b, MEM_COMMAND);
    }
}

static void what_no_frame_begins_with_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        err should;
    } cases[] = {
        {"", 0, E_AGAIN},
        {"\0\0\0", 3, E_AGAIN},
        {"\0\0\0\0", 4, E_PROTO},           /* no kind */
        {"\0\0\0\1\0", 5, E_PROTO},         /* no such kind */
        {"\0\0\0\1\x08", 5, E_PROTO},       /* nor this */
        {"\0\0\0\1\xff", 5, E_PROTO},       /* nor this */
        {"\0\x7f\xff\xfc", 4, E_AGAIN},     /* the longest one */
        {"\0\x7f\xff\xfd", 4, E_LIMIT},     /* and one byte more */
        {"\xff\xff\xff\xff\4", 5, E_LIMIT}, /* and the longest number */
        {"GET / HTTP/1.1\r\n\r\n", 18, E_LIMIT},
    };
    struct command_link_frame f;
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(
            command_link_frame_read((struct str){cases[i].bytes, cases[i].n}, COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n),
            cases[i].should);
}

static void what_is_too_large_is_not_written(void **state)
{
    static char big[COMMAND_LINK_FRAME_MAX_BYTES];
    static struct record_header many[COMMAND_LINK_HEADERS_MAX + 1];
    const struct command_request cases[] = {
        {.value = {big, sizeof big}},
        {.value = {big, sizeof big - 50}},
        {.gateway = {big, UINT16_MAX + 1}},
        {.ticket = {.tenant = {big, UINT16_MAX + 1}}},
        {.headers = many, .n_headers = COMMAND_LINK_HEADERS_MAX + 1},
    };
    struct buf b = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(command_link_frame_write_request(&b, 1, &cases[i]), E_LIMIT);
    assert_int_equal(buf_size(&b), 0);
}

static void the_largest_frame_is_written_and_read(void **state)
{
    static char big[COMMAND_LINK_FRAME_MAX_BYTES];
    struct command_request request = {.value = {big, 1}};
    struct buf b = {0};

    (void)state;
    assert_int_equal(command_link_frame_write_request(&b, 1, &request), E_OK);
    request.value.n = COMMAND_LINK_FRAME_MAX_BYTES - (buf_size(&b) - 1);
    buf_free(&b, MEM_COMMAND);
    assert_int_equal(command_link_frame_write_request(&b, 1, &request), E_OK);
    assert_int_equal(buf_size(&b), COMMAND_LINK_FRAME_MAX_BYTES);
    assert_int_equal(read_whole(&b).request.value.n, request.value.n);
    buf_free(&b, MEM_COMMAND);
}

static void every_refusal_has_a_name(void **state)
{
    (void)state;
    for (unsigned i = 1; i < COMMAND_LINK_REFUSALS; i++)
        assert_string_not_equal(command_link_frame_refusal_name(i), "unknown");
    assert_string_equal(command_link_frame_refusal_name(0), "unknown");
    assert_string_equal(command_link_frame_refusal_name(255), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_as_it_was_written),
        cmocka_unit_test(a_null_value_is_no_empty_one_and_a_time_may_be_unknown),
        cmocka_unit_test(a_result_is_read_as_it_was_written),
        cmocka_unit_test(the_words_between_are_read_as_they_were_written),
        cmocka_unit_test(a_hello_of_another_version_can_be_told_from_nonsense),
        cmocka_unit_test(a_frame_that_is_not_all_there_is_waited_for),
        cmocka_unit_test(a_frame_with_too_few_or_too_many_fields_is_refused),
        cmocka_unit_test(what_no_frame_begins_with_is_refused),
        cmocka_unit_test(what_is_too_large_is_not_written),
        cmocka_unit_test(the_largest_frame_is_written_and_read),
        cmocka_unit_test(every_refusal_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
