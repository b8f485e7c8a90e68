#include "fanout/fanout_breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MIN = FANOUT_BREAKER_MIN_ATTEMPTS, OPEN_MS = FANOUT_BREAKER_OPEN_MS };

static struct fanout_breaker b;

static int set_up(void **state)
{
    (void)state;
    b = (struct fanout_breaker){0};
    return 0;
}

static void attempts(int n, bool has_failed, uint64_t now_ms)
{
    for (int i = 0; i < n; i++)
        (void)fanout_breaker_report(&b, false, has_failed, now_ms);
}

/* Opens it at this time. */
static void open_at(uint64_t now_ms)
{
    attempts(MIN, true, now_ms);
    assert_string_equal(fanout_breaker_name(&b), "open");
}

static void few_failures_do_not_open_it(void **state)
{
    (void)state;
    attempts(MIN - 1, true, 100);
    assert_int_equal(fanout_breaker_admit(&b, 100), FANOUT_BREAKER_ADMITTED);
    assert_string_equal(fanout_breaker_name(&b), "closed");
}

static void a_minority_of_failures_does_not_open_it(void **state)
{
    (void)state;
    attempts(MIN, false, 100);
    attempts(MIN - 1, true, 100);
    assert_int_equal(fanout_breaker_admit(&b, 100), FANOUT_BREAKER_ADMITTED);
}

static void failures_of_an_earlier_window_do_not_count(void **state)
{
    (void)state;
    attempts(MIN - 1, true, FANOUT_BREAKER_WINDOW_MS);
    attempts(1, true, 2 * FANOUT_BREAKER_WINDOW_MS);
    assert_int_equal(fanout_breaker_admit(&b, 2 * FANOUT_BREAKER_WINDOW_MS), FANOUT_BREAKER_ADMITTED);
}

static void it_opens_when_half_have_failed(void **state)
{
    (void)state;
    attempts(MIN / 2, false, 100);
    attempts(MIN / 2 - 1, true, 100);
    assert_true(fanout_breaker_report(&b, false, true, 100));
    assert_int_equal(fanout_breaker_admit(&b, 100), FANOUT_BREAKER_REFUSED);
    assert_int_equal(fanout_breaker_admit(&b, 100 + OPEN_MS - 1), FANOUT_BREAKER_REFUSED);
}

static void one_probe_closes_it(void **state)
{
    (void)state;
    open_at(100);
    assert_int_equal(fanout_breaker_admit(&b, 100 + OPEN_MS), FANOUT_BREAKER_PROBE);
    assert_string_equal(fanout_breaker_name(&b), "half-open");
    assert_int_equal(fanout_breaker_admit(&b, 100 + OPEN_MS), FANOUT_BREAKER_REFUSED);
    assert_false(fanout_breaker_report(&b, false, true, 100 + OPEN_MS)); /* begun before it opened */
    assert_false(fanout_breaker_report(&b, true, false, 101 + OPEN_MS));
    assert_int_equal(fanout_breaker_admit(&b, 101 + OPEN_MS), FANOUT_BREAKER_ADMITTED);
}

static void a_probe_that_fails_opens_it_for_twice_the_time_up_to_a_minute(void **state)
{
    uint64_t now_ms = 100;
    uint32_t open_ms = OPEN_MS;

    (void)state;
    open_at(now_ms);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(fanout_breaker_admit(&b, now_ms + open_ms - 1), FANOUT_BREAKER_REFUSED);
        now_ms += open_ms;
        assert_int_equal(fanout_breaker_admit(&b, now_ms), FANOUT_BREAKER_PROBE);
        assert_true(fanout_breaker_report(&b, true, true, now_ms));
        open_ms = open_ms * 2 < FANOUT_BREAKER_OPEN_MAX_MS ? open_ms * 2 : FANOUT_BREAKER_OPEN_MAX_MS;
    }
}

static void a_probe_that_was_given_up_makes_room_for_another(void **state)
{
    (void)state;
    open_at(100);
    assert_int_equal(fanout_breaker_admit(&b, 100 + OPEN_MS), FANOUT_BREAKER_PROBE);
    fanout_breaker_withdraw(&b, true);
    assert_int_equal(fanout_breaker_admit(&b, 100 + OPEN_MS), FANOUT_BREAKER_PROBE);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(few_failures_do_not_open_it),
        TEST(a_minority_of_failures_does_not_open_it),
        TEST(failures_of_an_earlier_window_do_not_count),
        TEST(it_opens_when_half_have_failed),
        TEST(one_probe_closes_it),
        TEST(a_probe_that_fails_opens_it_for_twice_the_time_up_to_a_minute),
        TEST(a_probe_that_was_given_up_makes_room_for_another),
    };

    return cmocka_run_group_tests_name("fanout_breaker", tests, NULL, NULL);
}
