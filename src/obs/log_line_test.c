#include "obs/log_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

enum { BASE_MS_PART = 123 };

static const uint64_t when = 1795980720000 + BASE_MS_PART; /* 2026-11-29T19:32:00.123Z */

#define PREFIX      "ts=2026-11-29T19:32:00.123Z level=warn sub=broker event=session.takeover"
#define JSON_PREFIX "{\"ts\":\"2026-11-29T19:32:00.123Z\",\"level\":\"warn\",\"sub\":\"broker\",\"event\":\"session.takeover\""

/* The line is written into a block of exactly the size it may have. */
static char *format(enum obs_log_format how, const struct log_field *fields, size_t n, uint64_t suppressed)
{
    struct log_event event = {when, LOG_LEVEL_WARN, LOG_BROKER, "session.takeover", fields, n, suppressed};
    char *line = malloc(OBS_LOG_LINE_BYTES), *text;
    size_t length = log_line_format(line, how, &event);

    assert_true(length <= OBS_LOG_LINE_BYTES);
    assert_int_equal(line[length - 1], '\n');
    assert_null(memchr(line, '\n', length - 1));
    text = strndup(line, length);
    free(line);
    return text;
}

static void line_has_time_level_subsystem_event_and_fields(void **state)
{
    const struct log_field fields[] = {F_STR("client", STR("a b")), F_INT("inflight", 3), F_INT("min", INT64_MIN)};
    char *text = format(OBS_LOG_LOGFMT, fields, 3, 0);

    (void)state;
    assert_string_equal(text, PREFIX " client=\"a b\" inflight=3 min=-9223372036854775808\n");
    free(text);
    text = format(OBS_LOG_JSON, fields, 2, 7);
    assert_string_equal(text, JSON_PREFIX ",\"client\":\"a b\",\"inflight\":3,\"suppressed\":7}\n");
    free(text);
    text = format(OBS_LOG_LOGFMT, NULL, 0, 1);
    assert_string_equal(text, PREFIX " suppressed=1\n");
    free(text);
}

static void text_from_peers_cannot_leave_its_field(void **state)
{
    static const struct {
        struct str text;
        const char *logfmt, *json;
    } rows[] = {
        {STR_INIT("plain-1.2/x"), "plain-1.2/x", "\"plain-1.2/x\""},
        {STR_INIT(""), "\"\"", "\"\""},
        {STR_INIT("a=b"), "\"a=b\"", "\"a=b\""},
        {STR_INIT("a\"b\\"), "\"a\\\"b\\\\\"", "\"a\\\"b\\\\\""},
        {STR_INIT("a\nlevel=error\r\t"), "\"a\\nlevel=error\\r\\t\"", "\"a\\nlevel=error\\r\\t\""},
        {STR_INIT("a\0b"), "\"a\\u0000b\"", "\"a\\u0000b\""},
        {STR_INIT("\x1b[31m\x7f"), "\"\\u001b[31m\\u007f\"", "\"\\u001b[31m\\u007f\""},
        {STR_INIT("\xc2\x9b"), "\"\\u009b\"", "\"\\u009b\""},     /* C1: a terminal's CSI */
        {STR_INIT("\xe2\x80\xae"), "\"\\u202e\"", "\"\\u202e\""}, /* right-to-left override */
        {STR_INIT("\xe2\x80\xa8"), "\"\\u2028\"", "\"\\u2028\""}, /* line separator */
        {STR_INIT("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {STR_INIT("\xff"
                  "a\xc3"),
         "\"\\xffa\\xc3\"", "\"\\ufffda\\ufffd\""},                                     /* invalid */
        {STR_INIT("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"", "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct log_field field = F_STR("x", rows[i].text);
        char *text = format(OBS_LOG_LOGFMT, &field, 1, 0), want[256];

        snprintf(want, sizeof want, PREFIX " x=%s\n", rows[i].logfmt);
        assert_string_equal(text, want);
        free(text);
        text = format(OBS_LOG_JSON, &field, 1, 0);
        snprintf(want, sizeof want, JSON_PREFIX ",\"x\":%s}\n", rows[i].json);
        assert_string_equal(text, want);
        free(text);
    }
}

static void long_text_is_cut_between_characters(void **state)
{
    char long_text[OBS_LOG_FIELD_BYTES + 10];

    (void)state;
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + OBS_LOG_FIELD_BYTES - 1, "\xc3\xa9", 2); /* would be cut in two */
    for (int how = 0; how < 2; how++) {
        const struct log_field field = F_STR("x", ((struct str){long_text, sizeof long_text}));
        char *text = format((enum obs_log_format)how, &field, 1, 0);
        char *end = strstr(text, "...\"");

        assert_non_null(end);
        assert_int_equal(end[-1], 'a');
        assert_null(strchr(text, '\xc3'));
        free(text);
    }
    /* A text of exactly the size is whole. */
    memset(long_text, 'a', sizeof long_text);
    const struct log_field field = F_STR("x", ((struct str){long_text, OBS_LOG_FIELD_BYTES}));
    char *text = format(OBS_LOG_LOGFMT, &field, 1, 0);
    assert_null(strstr(text, "..."));
    free(text);
}

static void line_without_room_tells_that_it_is_truncated(void **state)
{
    char control[OBS_LOG_FIELD_BYTES];
    struct log_field fields[10];

    (void)state;
    memset(control, 1, sizeof control); /* six bytes each in the line */
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        fields[i] = F_STR("x", ((struct str){control, sizeof control}));
    for (int how = 0; how < 2; how++) {
        char *text = format((enum obs_log_format)how, fields, ARRAY_LEN(fields), 99);

        assert_non_null(
            strstr(text, how == OBS_LOG_JSON ? ",\"truncated\":true,\"suppressed\":99}\n" : " truncated=true suppressed=99\n"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_has_time_level_subsystem_event_and_fields),
        cmocka_unit_test(text_from_peers_cannot_leave_its_field),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(line_without_room_tells_that_it_is_truncated),
    };

    return cmocka_run_group_tests_name("log_line", tests, NULL, NULL);
}
