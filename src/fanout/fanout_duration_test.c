#include "fanout/fanout_duration.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static const struct {
    const char *text;
    int64_t ms; /* -1: refused */
} cases[] = {
    {"30s", 30000},
    {"200ms", 200},
    {"0", 0},
    {"PT0S", 0},
    {"PT0.5S", 500},
    {"PT0,25S", 250},
    {"PT1.0019S", 1001},
    {"PT2M", 120000},
    {"PT1H30M", 5400000},
    {"P1D", 86400000},
    {"P1DT1S", 86401000},
    {"P2W", 14 * 86400000LL},
    {"PT0.1234567890S", -1}, /* ten digits */
    {"PT1234567890S", -1},
    {"P", -1},
    {"PT", -1},
    {"P1DT", -1},
    {"PT1", -1},
    {"PT1X", -1},
    {"P1M", -1}, /* a month has no length */
    {"P1Y", -1},
    {"P1S", -1},    /* seconds without T */
    {"PT1D", -1},   /* days behind T */
    {"PT1S1M", -1}, /* the wrong way round */
    {"PT1S1S", -1},
    {"PT0.5M", -1}, /* a fraction of anything but seconds */
    {"PT.5S", -1},
    {"PT1.S", -1},
    {"-PT1S", -1},
    {"PT-1S", -1},
    {"PTT1S", -1},
    {"pt1s", -1},
    {"1", -1},
    {"", -1},
};

static void durations_are_read_in_both_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = -1;
        bool is_ok = fanout_duration_parse(str_from(cases[i].text), &ms);

        if (is_ok != (cases[i].ms >= 0) || ms != cases[i].ms)
            fail_msg("%s: %d, %lld", cases[i].text, is_ok, (long long)ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations_are_read_in_both_forms)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
