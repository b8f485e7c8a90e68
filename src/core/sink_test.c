#include "core/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_outcome_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < OUTCOMES; i++) {
        const char *name = sink_outcome_name((enum outcome)i);

        assert_non_null(name);
        for (const char *c = name; *c; c++)
            assert_non_null(strchr("abcdefghijklmnopqrstuvwxyz_", *c));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(name, sink_outcome_name((enum outcome)j));
    }
}

static void an_outcome_out_of_range_has_a_name_too(void **state)
{
    (void)state;
    assert_string_equal(sink_outcome_name(OUTCOMES), "failed");
    assert_string_equal(sink_outcome_name((enum outcome) - 1), "failed");
}

static struct sink_waiter waiter;
static int runs;

static void count(struct mail *m)
{
    assert_ptr_equal(m, &waiter.mail);
    runs++;
}

static void a_waiter_is_armed_until_its_mail_runs(void **state)
{
    (void)state;
    waiter = (struct sink_waiter){.mail.on_mail = count};
    assert_true(sink_arm_waiter(&waiter));
    assert_false(sink_arm_waiter(&waiter));
    waiter.mail.on_mail(&waiter.mail);
    assert_int_equal(runs, 1);
    assert_true(sink_arm_waiter(&waiter));
    waiter.mail.on_mail(&waiter.mail);
    assert_int_equal(runs, 2);
}

static void rearm(struct mail *m)
{
    (void)m;
    runs++;
    assert_true(sink_arm_waiter(&waiter));
}

static void on_mail_may_arm_the_waiter_again(void **state)
{
    (void)state;
    runs = 0;
    waiter = (struct sink_waiter){.mail.on_mail = rearm};
    assert_true(sink_arm_waiter(&waiter));
    waiter.mail.on_mail(&waiter.mail);
    waiter.mail.on_mail(&waiter.mail);
    assert_int_equal(runs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_a_name_of_its_own),
        cmocka_unit_test(an_outcome_out_of_range_has_a_name_too),
        cmocka_unit_test(a_waiter_is_armed_until_its_mail_runs),
        cmocka_unit_test(on_mail_may_arm_the_waiter_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
