#include "base/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void times_of_rfc_3339_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: it is none */
        const char *written;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"},
        {"2026-01-01T00:00:00Z", 1767225600000, "2026-01-01T00:00:00Z"},
        {"2026-01-01t00:00:00z", 1767225600000, "2026-01-01T00:00:00Z"},
        {"2026-01-01T02:00:00.5+02:00", 1767225600500, "2026-01-01T00:00:00.500Z"},
        {"2025-12-31T19:00:00.0019999-05:00", 1767225600001, "2026-01-01T00:00:00.001Z"},
        {"2024-02-29T23:59:60Z", 1709251199000, "2024-02-29T23:59:59Z"},
        {"2025-02-29T00:00:00Z", -1, NULL},
        {"2026-04-31T00:00:00Z", -1, NULL},
        {"2026-13-01T00:00:00Z", -1, NULL},
        {"2026-01-01T24:00:00Z", -1, NULL},
        {"2026-01-01T00:60:00Z", -1, NULL},
        {"2026-01-01T00:00:00", -1, NULL},
        {"2026-01-01T00:00:00.Z", -1, NULL},
        {"2026-01-01T00:00:00+0200", -1, NULL},
        {"2026-01-01T00:00:00Z ", -1, NULL},
        {"2026-01-01", -1, NULL},
        {"+026-01-01T00:00:00Z", -1, NULL},
        {"", -1, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char written[MOMENT_BYTES];
        int64_t ms = -1;

        assert_int_equal(moment_parse(str_from(rows[i].text), &ms), rows[i].written ? E_OK : E_INVAL);
        assert_int_equal(ms, rows[i].ms);
        if (!rows[i].written)
            continue;
        assert_int_equal(moment_format(ms, written), strlen(rows[i].written));
        assert_string_equal(written, rows[i].written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(times_of_rfc_3339_are_read)};

    return cmocka_run_group_tests_name("moment", tests, NULL, NULL);
}
