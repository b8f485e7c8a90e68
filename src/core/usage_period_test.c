#include "core/usage_period.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/moment.h"

enum { GIB = 1 << 30 };

static int64_t at(const char *text)
{
    int64_t ms;

    assert_int_equal(moment_parse(str_from(text), &ms), E_OK);
    return ms;
}

static const struct {
    const char *name, *since;
    int64_t days;
    const char *now, *begin, *end; /* begin NULL: not begun */
    int64_t counting, of;
} windows[] = {
    {"a month from its first moment is whole", "2026-01-01T00:00:00Z", 0, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z",
     "2026-02-01T00:00:00Z", 31, 31},
    {"its last moment is in it", "2026-01-01T00:00:00Z", 0, "2026-01-31T23:59:59.999Z", "2026-01-01T00:00:00Z",
     "2026-02-01T00:00:00Z", 31, 31},
    {"the next moment is in the next", "2026-01-01T00:00:00Z", 0, "2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z",
     "2026-03-01T00:00:00Z", 28, 28},
    {"the first month counts the day it begins on", "2026-01-11T18:00:00Z", 0, "2026-01-20T00:00:00Z", "2026-01-11T18:00:00Z",
     "2026-02-01T00:00:00Z", 21, 31},
    {"one that begins on the last day counts that", "2026-01-31T23:59:59Z", 0, "2026-01-31T23:59:59.500Z",
     "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z", 1, 31},
    {"one that begins late on the first day is whole", "2026-04-01T12:00:00Z", 0, "2026-04-02T00:00:00Z",
     "2026-04-01T12:00:00Z", "2026-05-01T00:00:00Z", 30, 30},
    {"the second month is whole", "2026-01-11T18:00:00Z", 0, "2026-02-11T00:00:00Z", "2026-02-01T00:00:00Z",
     "2026-03-01T00:00:00Z", 28, 28},
    {"the same month of the next year is whole", "2026-01-11T18:00:00Z", 0, "2027-01-02T00:00:00Z", "2027-01-01T00:00:00Z",
     "2027-02-01T00:00:00Z", 31, 31},
    {"February has 29 days in a leap year", "2024-02-10T00:00:00Z", 0, "2024-02-29T12:00:00Z", "2024-02-10T00:00:00Z",
     "2024-03-01T00:00:00Z", 20, 29},
    {"the year 2000 is a leap year", "1999-01-01T00:00:00Z", 0, "2000-02-29T00:00:00Z", "2000-02-01T00:00:00Z",
     "2000-03-01T00:00:00Z", 29, 29},
    {"the year 2100 is none", "1999-01-01T00:00:00Z", 0, "2100-02-28T00:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z",
     28, 28},
    {"December ends with the year", "2026-01-01T00:00:00Z", 0, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z",
     "2027-01-01T00:00:00Z", 31, 31},
    {"months are those of UTC", "2026-01-31T23:00:00-02:00", 0, "2026-02-01T02:00:00Z", "2026-02-01T01:00:00Z",
     "2026-03-01T00:00:00Z", 28, 28},
    {"before 1970 there were months, too", "1968-01-01T00:00:00Z", 0, "1968-02-29T00:00:00Z", "1968-02-01T00:00:00Z",
     "1968-03-01T00:00:00Z", 29, 29},
    {"a month has not begun", "2026-01-11T18:00:00Z", 0, "2026-01-11T17:59:59.999Z", NULL, NULL, 0, 0},
    {"days begin at the moment given", "2026-01-01T06:30:00Z", 30, "2026-01-01T06:30:00Z", "2026-01-01T06:30:00Z",
     "2026-01-31T06:30:00Z", 30, 30},
    {"days last to their last moment", "2026-01-01T06:30:00Z", 30, "2026-01-31T06:29:59.999Z", "2026-01-01T06:30:00Z",
     "2026-01-31T06:30:00Z", 30, 30},
    {"days follow each other", "2026-01-01T06:30:00Z", 30, "2026-01-31T06:30:00Z", "2026-01-31T06:30:00Z",
     "2026-03-02T06:30:00Z", 30, 30},
    {"also after years", "2020-01-01T00:00:00Z", 1, "2026-05-05T05:05:05Z", "2026-05-05T00:00:00Z", "2026-05-06T00:00:00Z", 1,
     1},
    {"days have not begun", "2026-01-01T06:30:00Z", 30, "2025-12-31T00:00:00Z", NULL, NULL, 0, 0},
};

static void finds_the_period_of_a_moment(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(windows); i++) {
        struct usage_period period = {at(windows[i].since), windows[i].days};
        struct usage_window window;
        bool has_begun = usage_period_at(&period, at(windows[i].now), &window);

        if (has_begun != (windows[i].begin != NULL))
            fail_msg("%s", windows[i].name);
        if (has_begun && (window.begin_ms != at(windows[i].begin) || window.end_ms != at(windows[i].end) ||
                          window.days != windows[i].counting || window.of_days != windows[i].of))
            fail_msg("%s: [%lld, %lld), %lld of %lld days", windows[i].name, (long long)window.begin_ms,
                     (long long)window.end_ms, (long long)window.days, (long long)window.of_days);
    }
}

/* Four hundred years have every kind of month; each begins where the one before ends. */
static void months_follow_each_other_without_gaps(void **state)
{
    int64_t end = at("1900-01-01T00:00:00Z"), last = at("2300-01-01T00:00:00Z");
    struct usage_period period = {end, 0};
    unsigned n = 0;

    (void)state;
    while (end < last) {
        struct usage_window window, also;

        assert_true(usage_period_at(&period, end, &window));
        assert_int_equal(window.begin_ms, end);
        assert_in_range((uintmax_t)window.days, 28, 31);
        assert_true(usage_period_at(&period, window.end_ms - 1, &also));
        assert_int_equal(also.begin_ms, end);
        end = window.end_ms;
        n++;
    }
    assert_int_equal(end, last);
    assert_int_equal(n, 400 * 12);
}

static const struct {
    int64_t days, of_days, allowance, share;
} shares[] = {
    {31, 31, 1000, 1000},
    {1, 31, 1000, 32},
    {21, 31, 31, 21},
    {15, 30, 1, 0},
    {20, 29, 0, 0},
    {1, 30, USAGE_UNLIMITED, USAGE_UNLIMITED},
    {30, 30, INT64_MAX, INT64_MAX},
    {15, 30, INT64_MAX, INT64_MAX / 2},
    {1, 28, INT64_C(28) * GIB, GIB},
};

static void shares_an_allowance_among_days(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        struct usage_window window = {.days = shares[i].days, .of_days = shares[i].of_days};

        assert_int_equal(usage_period_share(&window, shares[i].allowance), shares[i].share);
    }
}

static const struct {
    int64_t bytes, minimum, rounded;
} sizes[] = {
    {0, 0, 0},          {1, 0, 1},          {0, 4096, 0},         {1, 4096, 4096}, {4095, 4096, 4096},
    {4096, 4096, 4096}, {4097, 4096, 8192}, {10000, 4096, 12288}, {7, 1, 7},       {7, -1, 7},
};

static void rounds_payloads_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(usage_period_round(sizes[i].bytes, sizes[i].minimum), sizes[i].rounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_period_of_a_moment),
        cmocka_unit_test(months_follow_each_other_without_gaps),
        cmocka_unit_test(shares_an_allowance_among_days),
        cmocka_unit_test(rounds_payloads_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
