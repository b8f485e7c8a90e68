/* The table of statuses; the rest is shown over connections, in tests/integration/mqtt_errors_test.c. */
#include "adapter/mqtt/mqtt_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

/* docs/DEVICES.md names them. */
static void every_refusal_has_a_status_that_hono_uses_and_words(void **state)
{
    static const int statuses[] = {400, 401, 403, 404, 413, 429, 503};

    (void)state;
    for (unsigned why = 0; why < LEDGER_REFUSALS; why++) {
        bool is_known = false;

        for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
            is_known |= statuses[i] == mqtt_errors_status((enum ledger_refusal)why);
        if (!is_known || strlen(mqtt_errors_text((enum ledger_refusal)why)) == 0)
            fail_msg("%s", ledger_refusal_name((enum ledger_refusal)why));
    }
}

static void what_kafka_refuses_is_a_fault_of_the_service_unless_it_is_too_large(void **state)
{
    static const struct {
        enum ledger_refusal why;
        int status;
    } rows[] = {
        {LEDGER_REFUSED_TOO_LARGE, 413}, {LEDGER_REFUSED_UNKNOWN_TOPIC, 503},  {LEDGER_REFUSED_DENIED, 503},
        {LEDGER_REFUSED_INVALID, 503},   {LEDGER_REFUSED_UNAVAILABLE, 503},    {LEDGER_REFUSED_OVERLOADED, 503},
        {LEDGER_REFUSED_FAILED, 503},    {LEDGER_REFUSED_BAD_REQUEST, 400},    {LEDGER_REFUSED_FORBIDDEN, 403},
        {LEDGER_REFUSED_NOT_FOUND, 404}, {LEDGER_REFUSED_PAYLOAD_FORMAT, 400},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(mqtt_errors_status(rows[i].why), rows[i].status);
}

static void nothing_is_dropped_and_explained_as_well(void **state)
{
    (void)state;
    mqtt_errors_explain(NULL, "why");
    mqtt_errors_drop_note(NULL);
    mqtt_errors_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_refusal_has_a_status_that_hono_uses_and_words),
        cmocka_unit_test(what_kafka_refuses_is_a_fault_of_the_service_unless_it_is_too_large),
        cmocka_unit_test(nothing_is_dropped_and_explained_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
