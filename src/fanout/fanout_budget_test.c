#include "fanout/fanout_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SAVED = FANOUT_BUDGET_MAX / FANOUT_BUDGET_UNIT };

static unsigned take_all(struct fanout_budget *b, uint64_t now_ms)
{
    unsigned n = 0;

    while (fanout_budget_take(b, now_ms))
        n++;
    return n;
}

static void it_begins_with_all_that_can_be_saved(void **state)
{
    struct fanout_budget b;

    (void)state;
    fanout_budget_init(&b, 5);
    assert_int_equal(take_all(&b, 5), SAVED);
}

static void ten_first_attempts_give_one_retry(void **state)
{
    struct fanout_budget b;

    (void)state;
    fanout_budget_init(&b, 5);
    take_all(&b, 5);
    for (int i = 0; i < 9; i++)
        fanout_budget_add(&b);
    assert_false(fanout_budget_take(&b, 5));
    fanout_budget_add(&b);
    assert_true(fanout_budget_take(&b, 5));
    assert_false(fanout_budget_take(&b, 5));
}

static void a_second_gives_ten_and_nothing_is_saved_beyond_the_maximum(void **state)
{
    struct fanout_budget b;

    (void)state;
    fanout_budget_init(&b, 0);
    take_all(&b, 0);
    assert_int_equal(take_all(&b, 1000), 10);
    assert_int_equal(take_all(&b, UINT64_C(1) << 40), SAVED);
    for (int i = 0; i < 10 * SAVED + 50; i++)
        fanout_budget_add(&b);
    assert_int_equal(take_all(&b, UINT64_C(1) << 40), SAVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_with_all_that_can_be_saved),
        cmocka_unit_test(ten_first_attempts_give_one_retry),
        cmocka_unit_test(a_second_gives_ten_and_nothing_is_saved_beyond_the_maximum),
    };

    return cmocka_run_group_tests_name("fanout_budget", tests, NULL, NULL);
}
