#include "core/device_fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_fault_has_a_status_of_hono_and_a_name_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(device_fault_status(DEVICE_FAULT_NONE), 200);
    for (int i = DEVICE_FAULT_NONE + 1; i < DEVICE_FAULTS; i++) {
        enum device_fault fault = (enum device_fault)i;
        int status = device_fault_status(fault);

        assert_true(status == 400 || status == 404 || status == 503);
        assert_true(strlen(device_fault_text(fault)) > 0);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(device_fault_name(fault), device_fault_name((enum device_fault)j));
            assert_string_not_equal(device_fault_text(fault), device_fault_text((enum device_fault)j));
        }
    }
}

static void names_are_fit_for_a_metric_label(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICE_FAULTS; i++)
        for (const char *c = device_fault_name((enum device_fault)i); *c; c++)
            assert_non_null(strchr("abcdefghijklmnopqrstuvwxyz_", *c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_has_a_status_of_hono_and_a_name_of_its_own),
        cmocka_unit_test(names_are_fit_for_a_metric_label),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
