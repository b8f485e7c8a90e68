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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_a_name_of_its_own),
        cmocka_unit_test(an_outcome_out_of_range_has_a_name_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
