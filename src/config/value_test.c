#include "config/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { UNTOUCHED = 4711 };

struct row {
    const char *text;
    int64_t want; /* UNTOUCHED: refused */
};

static void check_rows(const struct row *rows, size_t count, bool (*parse)(struct str, int64_t *))
{
    for (size_t i = 0; i < count; i++) {
        int64_t got = UNTOUCHED;

        if (parse(str_from(rows[i].text), &got) != (rows[i].want != UNTOUCHED) || got != rows[i].want)
            fail_msg("\"%s\" gave %lld", rows[i].text, (long long)got);
    }
}

static void numbers_are_whole(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"-1", -1},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", UNTOUCHED},
        {"", UNTOUCHED},
        {"-", UNTOUCHED},
        {"+1", UNTOUCHED},
        {"1.0", UNTOUCHED},
        {"0x1", UNTOUCHED},
        {" 1", UNTOUCHED},
        {"--1", UNTOUCHED},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows), value_to_number);
}

static void sizes_have_binary_units(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"17", 17},
        {"17B", 17},
        {"64KiB", 65536},
        {"1MiB", 1 << 20},
        {"2GiB", INT64_C(2) << 30},
        {"8589934591GiB", INT64_C(8589934591) << 30},
        {"8589934592GiB", UNTOUCHED},
        {"1MB", UNTOUCHED},
        {"1 MiB", UNTOUCHED},
        {"1mib", UNTOUCHED},
        {"-1", UNTOUCHED},
        {"KiB", UNTOUCHED},
        {"", UNTOUCHED},
        {"1.5KiB", UNTOUCHED},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows), value_to_size);
}

static void durations_are_milliseconds_with_a_unit(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"0s", 0},
        {"250ms", 250},
        {"30s", 30000},
        {"5m", 300000},
        {"1h", 3600000},
        {"2d", 172800000},
        {"30", UNTOUCHED},
        {"1.5s", UNTOUCHED},
        {"1h30m", UNTOUCHED},
        {"-1s", UNTOUCHED},
        {"s", UNTOUCHED},
        {"", UNTOUCHED},
        {"999999999999999999d", UNTOUCHED},
    };

    (void)state;
    check_rows(rows, ARRAY_LEN(rows), value_to_duration);
}

static void addresses_are_host_and_port(void **state)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        uint16_t port;
    } rows[] = {
        {"127.0.0.1:1883", "127.0.0.1", 1883},
        {"[::1]:1883", "::1", 1883},
        {"[::]:0", "::", 0},
        {"broker.example:65535", "broker.example", 65535},
        {"localhost", NULL, 0},
        {":1883", NULL, 0},
        {"::1:1883", NULL, 0},
        {"[::1]", NULL, 0},
        {"[]:1", NULL, 0},
        {"[x]:1", NULL, 0},
        {"[1.2.3.4]:1", NULL, 0},
        {"a:65536", NULL, 0},
        {"a:", NULL, 0},
        {"a:-1", NULL, 0},
        {"a b:1", NULL, 0},
        {"", NULL, 0},
        {"a/b:1", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str host = {0};
        uint16_t port = 0;
        bool ok = value_to_address(str_from(rows[i].text), &host, &port);

        if (ok != (rows[i].host != NULL) || !str_equal(host, str_from(rows[i].host)) || port != rows[i].port)
            fail_msg("\"%s\" gave %d %.*s %u", rows[i].text, ok, STR_ARG(host), port);
    }
}

static void texts_of_values_are_the_shortest_that_read_back(void **state)
{
    static const struct {
        int64_t value;
        const char *size, *duration;
    } rows[] = {
        {0, "0", "0"},
        {1000, "1000B", "1s"},
        {1024, "1KiB", "1024ms"},
        {3 << 20, "3MiB", "3145728ms"},
        {3600000, "3600000B", "1h"},
        {86400000, "84375KiB", "1d"},
        {90000, "90000B", "90s"},
    };
    char text[VALUE_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t back = UNTOUCHED;

        assert_string_equal(value_size_text(rows[i].value, text), rows[i].size);
        assert_true(value_to_size(str_from(rows[i].size), &back) && back == rows[i].value);
        assert_string_equal(value_duration_text(rows[i].value, text), rows[i].duration);
        assert_true(value_to_duration(str_from(rows[i].duration), &back) && back == rows[i].value);
    }
}

static void only_two_words_are_booleans(void **state)
{
    static const char *const wrong[] = {"True", "yes", "no", "on", "1", "", "truely"};
    bool value = false;

    (void)state;
    assert_true(value_to_bool(STR("true"), &value) && value);
    assert_true(value_to_bool(STR("false"), &value) && !value);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(value_to_bool(str_from(wrong[i]), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_whole),
        cmocka_unit_test(sizes_have_binary_units),
        cmocka_unit_test(durations_are_milliseconds_with_a_unit),
        cmocka_unit_test(addresses_are_host_and_port),
        cmocka_unit_test(texts_of_values_are_the_shortest_that_read_back),
        cmocka_unit_test(only_two_words_are_booleans),
    };

    return cmocka_run_group_tests_name("value", tests, NULL, NULL);
}
