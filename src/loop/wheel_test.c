#include "loop/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { TIMERS = 40 };
#define MAX_DELAY_MS (1ull << 30)

/* A timer and what the slow model knows of it. */
struct watched {
    struct timer t;
    uint64_t due_ms;
    bool is_set;
};

static struct {
    struct wheel wh;
    struct watched timers[TIMERS];
    uint64_t present_ms;  /* what the wheel was told last */
    uint64_t last_due_ms; /* of the timers that ran in this call */
    uint64_t seed;
    unsigned n_run;
    bool acts_in_callbacks;
} m;

/* Moments around which a digit of each level wraps, and some in between. */
static const uint64_t starts[] = {
    0,
    1,
    62,
    63,
    64,
    4095,
    4096,
    (1 << 18) - 1,
    (1 << 24) - 2,
    (1 << 24) - 1,
    (1ull << 30) - 1,
    (1ull << 30),
    (1ull << 36) - 3,
    123456789,
    (1ull << 40) + 987654321,
    63ull << 24,
};

static uint64_t random_number(void)
{
    m.seed ^= m.seed << 13;
    m.seed ^= m.seed >> 7;
    m.seed ^= m.seed << 17;
    return m.seed;
}

/* Small and large delays are equally likely; some are past the longest one. */
static uint64_t random_delay(unsigned max_bits)
{
    return random_number() >> (64 - random_number() % max_bits - 1);
}

static void start(struct watched *x, uint64_t delay_ms)
{
    wheel_start(&m.wh, &x->t, delay_ms);
    delay_ms = delay_ms < 1 ? 1 : delay_ms > MAX_DELAY_MS ? MAX_DELAY_MS : delay_ms;
    x->due_ms = m.present_ms + delay_ms;
    if (x->due_ms > m.wh.now_ms + MAX_DELAY_MS)
        x->due_ms = m.wh.now_ms + MAX_DELAY_MS;
    x->is_set = true;
}

static void stop(struct watched *x)
{
    wheel_stop(&x->t);
    x->is_set = false;
}

static void on_timer(struct timer *t)
{
    struct watched *x = CONTAINER_OF(t, struct watched, t);

    assert_true(x->is_set);
    assert_false(wheel_is_set(t));
    assert_true(x->due_ms <= m.present_ms);
    assert_true(x->due_ms >= m.last_due_ms);
    m.last_due_ms = x->due_ms;
    x->is_set = false;
    m.n_run++;
    if (!m.acts_in_callbacks)
        return;
    if (random_number() % 2)
        start(x, random_delay(32));
    if (random_number() % 4 == 0)
        start(&m.timers[random_number() % TIMERS], random_delay(32));
    if (random_number() % 4 == 0)
        stop(&m.timers[random_number() % TIMERS]);
}

static void begin(uint64_t now_ms)
{
    memset(&m, 0, sizeof m);
    m.seed = 88172645463325252u + now_ms;
    m.present_ms = now_ms;
    wheel_init(&m.wh, now_ms);
    for (size_t i = 0; i < TIMERS; i++)
        m.timers[i].t.on_timer = on_timer;
}

/* Moves on and compares with the model: what was due has run, what was not is still set. */
static void advance(uint64_t to_ms)
{
    m.present_ms = to_ms;
    m.last_due_ms = 0;
    wheel_advance(&m.wh, to_ms);
    assert_int_equal(m.wh.now_ms, to_ms);
    for (size_t i = 0; i < TIMERS; i++) {
        assert_int_equal(wheel_is_set(&m.timers[i].t), m.timers[i].is_set);
        assert_true(!m.timers[i].is_set || m.timers[i].due_ms > to_ms);
    }
}

static uint64_t earliest(void)
{
    uint64_t due_ms = UINT64_MAX;

    for (size_t i = 0; i < TIMERS; i++)
        if (m.timers[i].is_set && m.timers[i].due_ms < due_ms)
            due_ms = m.timers[i].due_ms;
    return due_ms;
}

static void an_empty_wheel_has_nothing_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        begin(starts[i]);
        assert_int_equal(wheel_next_ms(&m.wh), -1);
        stop(&m.timers[0]);
        advance(starts[i] + (1ull << 33));
        assert_int_equal(wheel_next_ms(&m.wh), -1);
    }
}

static void a_timer_runs_at_its_millisecond_and_once(void **state)
{
    static const uint64_t delays[] = {
        0, 1, 2, 63, 64, 65, 4095, 4096, 5000, 60000, 1 << 18, 1 << 24, 1 << 29, (1 << 30) - 1, 1 << 30, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        for (size_t k = 0; k < ARRAY_LEN(delays); k++) {
            begin(starts[i]);
            start(&m.timers[0], delays[k]);
            assert_true(wheel_is_set(&m.timers[0].t));
            advance(m.timers[0].due_ms - 1);
            assert_int_equal(m.n_run, 0);
            assert_int_equal(wheel_next_ms(&m.wh), 1);
            advance(m.timers[0].due_ms);
            assert_int_equal(m.n_run, 1);
            assert_int_equal(wheel_next_ms(&m.wh), -1);
            advance(m.timers[0].due_ms + (1ull << 31));
            assert_int_equal(m.n_run, 1);
        }
    }
}

static void starting_again_moves_a_timer(void **state)
{
    (void)state;
    begin(1000);
    start(&m.timers[0], 10);
    start(&m.timers[0], 5000);
    advance(5999);
    assert_int_equal(m.n_run, 0);
    start(&m.timers[0], 2);
    advance(6001);
    assert_int_equal(m.n_run, 1);
}

static void a_stopped_timer_never_runs_and_wakes_nobody(void **state)
{
    (void)state;
    for (uint64_t delay_ms = 1; delay_ms < 1 << 26; delay_ms = delay_ms * 3 + 1) {
        begin(4000);
        start(&m.timers[0], delay_ms);
        stop(&m.timers[0]);
        stop(&m.timers[0]);
        assert_int_equal(wheel_next_ms(&m.wh), -1);
        advance(4000 + (1ull << 27));
        assert_int_equal(m.n_run, 0);
    }
}

static void timers_of_one_call_run_in_order_of_due_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        begin(starts[i]);
        for (size_t k = 0; k < TIMERS; k++)
            start(&m.timers[k], random_delay(30));
        advance(starts[i] + MAX_DELAY_MS); /* on_timer() compares */
        assert_int_equal(m.n_run, TIMERS);
    }
}

static struct timer pair[2];
static unsigned n_pair_run;

static void stops_the_other(struct timer *t)
{
    n_pair_run++;
    wheel_stop(&pair[t == &pair[0]]);
}

static void a_callback_may_stop_a_timer_of_the_same_millisecond(void **state)
{
    struct wheel wh;

    (void)state;
    for (uint64_t delay_ms = 1; delay_ms < 1 << 20; delay_ms *= 5) {
        wheel_init(&wh, 77);
        for (size_t i = 0; i < 2; i++) {
            pair[i] = (struct timer){.on_timer = stops_the_other};
            wheel_start(&wh, &pair[i], delay_ms);
        }
        n_pair_run = 0;
        wheel_advance(&wh, 1 << 21);
        assert_int_equal(n_pair_run, 1);
    }
}

static struct wheel *again_in;

static void starts_again_at_once(struct timer *t)
{
    n_pair_run++;
    wheel_start(again_in, t, 0);
}

static void a_timer_set_in_a_callback_waits_for_a_later_call(void **state)
{
    struct wheel wh;

    (void)state;
    wheel_init(&wh, 5);
    again_in = &wh;
    pair[0] = (struct timer){.on_timer = starts_again_at_once};
    wheel_start(&wh, &pair[0], 10);
    n_pair_run = 0;
    wheel_advance(&wh, 100000); /* a late turn is no reason for a burst */
    assert_int_equal(n_pair_run, 1);
    wheel_advance(&wh, 100000);
    assert_int_equal(n_pair_run, 1);
    wheel_advance(&wh, 100001);
    assert_int_equal(n_pair_run, 2);
}

static void delays_count_from_the_clock_not_from_the_last_advance(void **state)
{
    (void)state;
    begin(0);
    start(&m.timers[1], 500);
    m.present_ms = 10000;
    wheel_set_clock(&m.wh, 10000);
    assert_int_equal(m.n_run, 0); /* tells the time, runs nothing */
    start(&m.timers[0], 100);
    advance(10000);
    assert_int_equal(m.n_run, 1);
    advance(10099);
    assert_int_equal(m.n_run, 1);
    advance(10100);
    assert_int_equal(m.n_run, 2);
}

static void a_wait_longer_than_the_longest_delay_shortens_none(void **state)
{
    (void)state;
    begin(0);
    m.present_ms = 1ull << 33;
    wheel_set_clock(&m.wh, m.present_ms);
    start(&m.timers[0], MAX_DELAY_MS);
    assert_int_equal(m.timers[0].due_ms, (1ull << 33) + MAX_DELAY_MS);
    advance(m.timers[0].due_ms - 1);
    assert_int_equal(m.n_run, 0);
    advance(m.timers[0].due_ms);
    assert_int_equal(m.n_run, 1);
}

static void time_does_not_go_back(void **state)
{
    (void)state;
    begin(1000);
    start(&m.timers[0], 10);
    wheel_advance(&m.wh, 900);
    wheel_set_clock(&m.wh, 900);
    assert_int_equal(m.wh.now_ms, 1000);
    assert_int_equal(m.wh.clock_ms, 1000);
    advance(1010);
    assert_int_equal(m.n_run, 1);
}

static void random_use(bool acts_in_callbacks)
{
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        begin(starts[i]);
        m.acts_in_callbacks = acts_in_callbacks;
        for (int step = 0; step < 3000; step++) {
            struct watched *x = &m.timers[random_number() % TIMERS];
            int next;

            if (random_number() % 2)
                start(x, random_delay(32));
            else if (random_number() % 4 == 0)
                stop(x);
            if (random_number() % 8 == 0) {
                m.present_ms += random_delay(random_number() % 16 ? 16 : 32);
                wheel_set_clock(&m.wh, m.present_ms);
            }
            next = wheel_next_ms(&m.wh);
            assert_int_equal(next == -1, earliest() == UINT64_MAX);
            assert_true(next == -1 || (next > 0 && m.wh.now_ms + (uint64_t)next <= earliest()));
            if (random_number() % 4 == 0) /* as a loop does that waits as long as it is told */
                advance(next > 0 && m.wh.now_ms + (uint64_t)next > m.present_ms ? m.wh.now_ms + (uint64_t)next : m.present_ms);
            else
                advance(m.present_ms + random_delay(random_number() % 16 ? 12 : 33));
        }
        assert_true(m.n_run > 100);
    }
}

static void random_use_matches_a_plain_list(void **state)
{
    (void)state;
    random_use(false);
}

static void random_starts_and_stops_inside_callbacks_match_a_plain_list(void **state)
{
    (void)state;
    random_use(true);
}

/* The number of advances it takes to reach a far timer, each as far as wheel_next_ms() allows. */
static void few_wakes_lead_to_a_far_timer(void **state)
{
    unsigned wakes = 0;

    (void)state;
    begin(12345);
    start(&m.timers[0], MAX_DELAY_MS - 12321);
    while (m.n_run == 0 && wakes++ < 10)
        advance(m.wh.now_ms + (uint64_t)wheel_next_ms(&m.wh));
    assert_true(wakes <= WHEEL_LEVELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_wheel_has_nothing_to_do),
        cmocka_unit_test(a_timer_runs_at_its_millisecond_and_once),
        cmocka_unit_test(starting_again_moves_a_timer),
        cmocka_unit_test(a_stopped_timer_never_runs_and_wakes_nobody),
        cmocka_unit_test(timers_of_one_call_run_in_order_of_due_time),
        cmocka_unit_test(a_callback_may_stop_a_timer_of_the_same_millisecond),
        cmocka_unit_test(a_timer_set_in_a_callback_waits_for_a_later_call),
        cmocka_unit_test(delays_count_from_the_clock_not_from_the_last_advance),
        cmocka_unit_test(a_wait_longer_than_the_longest_delay_shortens_none),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(random_use_matches_a_plain_list),
        cmocka_unit_test(random_starts_and_stops_inside_callbacks_match_a_plain_list),
        cmocka_unit_test(few_wakes_lead_to_a_far_timer),
    };

    return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
