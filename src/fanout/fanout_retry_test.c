#include "fanout/fanout_retry.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static void statuses_are_useful_to_try_again_or_not(void **state)
{
    static const uint16_t yes[] = {0, 404, 408, 409, 429, 500, 501, 502, 503, 504, 599},
                          no[] = {200, 202, 301, 302, 303, 307, 308, 400, 401, 403, 405, 410, 413, 415, 422};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        assert_true(fanout_retry_is_useful(yes[i]));
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_false(fanout_retry_is_useful(no[i]));
}

static void delays_grow_to_their_cap(void **state)
{
    static const struct {
        enum fanout_backoff backoff;
        uint32_t delay_ms, cap_ms;
        unsigned n;
        uint32_t most_ms;
    } rows[] = {
        {FANOUT_BACKOFF_LINEAR, 100, 10000, 1, 100},
        {FANOUT_BACKOFF_LINEAR, 100, 10000, 2, 200},
        {FANOUT_BACKOFF_LINEAR, 100, 10000, 3, 300},
        {FANOUT_BACKOFF_LINEAR, 100, 250, 3, 250},
        {FANOUT_BACKOFF_EXPONENTIAL, 100, 10000, 1, 100},
        {FANOUT_BACKOFF_EXPONENTIAL, 100, 10000, 2, 200},
        {FANOUT_BACKOFF_EXPONENTIAL, 100, 10000, 3, 400},
        {FANOUT_BACKOFF_EXPONENTIAL, 100, 10000, 8, 10000},
        {FANOUT_BACKOFF_EXPONENTIAL, 1000, 30000, 1000, 30000},
        {FANOUT_BACKOFF_EXPONENTIAL, UINT32_MAX, UINT32_MAX, 40, UINT32_MAX},
        {FANOUT_BACKOFF_EXPONENTIAL, 0, 30000, 5, 0},
        {FANOUT_BACKOFF_LINEAR, UINT32_MAX, UINT32_MAX, 1000, UINT32_MAX},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct fanout_retry policy = {
            .backoff = rows[i].backoff, .delay_ms = rows[i].delay_ms, .delay_max_ms = rows[i].cap_ms};

        assert_int_equal(fanout_retry_delay_ms(&policy, rows[i].n, rows[i].most_ms), rows[i].most_ms);
        assert_int_equal(fanout_retry_delay_ms(&policy, rows[i].n, 0), 0); /* any part of it */
        assert_int_equal(fanout_retry_delay_ms(&policy, rows[i].n, (uint64_t)rows[i].most_ms + 1), 0);
    }
}

static void retry_after_is_seconds_or_a_date(void **state)
{
    enum { NOW_S = 784111777 }; /* Sun, 06 Nov 1994 08:49:37 GMT */
    static const struct {
        const char *text;
        uint64_t ms;
        bool is_good;
    } rows[] = {
        {"0", 0, true},
        {"120", 120000, true},
        {"Sun, 06 Nov 1994 08:49:40 GMT", 3000, true},
        {"Sunday, 06-Nov-94 08:49:40 GMT", 3000, true},
        {"Sun Nov  6 08:49:40 1994", 3000, true},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0, true},
        {"Sat, 05 Nov 1994 08:49:37 GMT", 0, true},
        {"4294967295", 315360000000, true},
        {"", 0, false},
        {"-1", 0, false},
        {"soon", 0, false},
        {"1.5", 0, false},
        {"Sun, 06 Nov 1994 08:49:40 GMT, and more", 0, false},
        {"99999999999999999999999999999999999999999999999999999999999999999999999999", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t ms = 0;

        assert_int_equal(fanout_retry_after_ms(str_from(rows[i].text), NOW_S, &ms), rows[i].is_good);
        assert_int_equal(ms, rows[i].ms);
    }
}

static void the_wait_is_the_longer_of_delay_and_what_the_endpoint_asks(void **state)
{
    static const struct {
        uint32_t after_max_ms;
        const char *after;
        uint32_t wait_ms;
    } rows[] = {{1000, "2", 1000}, {10000, "2", 2000}, {0, "2", 500}, {10000, NULL, 500}, {10000, "0", 500}, {10000, "x", 500}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct fanout_retry policy = {.delay_ms = 500, .delay_max_ms = 30000, .retry_after_max_ms = rows[i].after_max_ms};

        assert_int_equal(fanout_retry_wait_ms(&policy, 1, str_from(rows[i].after), 0, 500), rows[i].wait_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_are_useful_to_try_again_or_not),
        cmocka_unit_test(delays_grow_to_their_cap),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
        cmocka_unit_test(the_wait_is_the_longer_of_delay_and_what_the_endpoint_asks),
    };

    return cmocka_run_group_tests_name("fanout_retry", tests, NULL, NULL);
}
