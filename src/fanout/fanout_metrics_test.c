#include "fanout/fanout_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void check_name(const char *const *names, size_t n, const char *name)
{
    assert_non_null(name);
    assert_true(name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
    for (size_t i = 0; i < n; i++)
        assert_string_not_equal(name, names[i]);
}

static void every_fault_has_a_name_of_its_own(void **state)
{
    const char *names[FANOUT_FAULTS];

    (void)state;
    for (size_t i = 0; i < FANOUT_FAULTS; i++) {
        names[i] = fanout_metrics_fault_name((enum fanout_fault)i);
        check_name(names, i, names[i]);
    }
}

static void every_rejection_has_a_name_of_its_own(void **state)
{
    const char *names[FANOUT_REJECTIONS];

    (void)state;
    for (size_t i = 0; i < FANOUT_REJECTIONS; i++) {
        names[i] = fanout_metrics_rejection_name((enum fanout_rejection)i);
        check_name(names, i, names[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_has_a_name_of_its_own),
        cmocka_unit_test(every_rejection_has_a_name_of_its_own),
    };

    return cmocka_run_group_tests_name("fanout_metrics", tests, NULL, NULL);
}
