/* The tables; what the places do is shown over connections, in tests/integration/mqtt_publish_test.c. */
#include "adapter/mqtt/mqtt_pending.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/device_upload.h"
#include "base/check.h"

static void every_outcome_is_a_refusal_with_its_name_and_reason(void **state)
{
    static const struct {
        enum outcome outcome;
        enum mqtt_reason reason;
    } rows[] = {
        {OUTCOME_TOO_LARGE, MQTT_REASON_QUOTA_EXCEEDED},
        {OUTCOME_UNKNOWN_TOPIC, MQTT_REASON_TOPIC_NAME_INVALID},
        {OUTCOME_DENIED, MQTT_REASON_NOT_AUTHORIZED},
        {OUTCOME_INVALID, MQTT_REASON_UNSPECIFIED_ERROR},
        {OUTCOME_UNAVAILABLE, MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR},
        {OUTCOME_OVERLOADED, MQTT_REASON_QUOTA_EXCEEDED},
        {OUTCOME_FAILED, MQTT_REASON_UNSPECIFIED_ERROR},
    };

    (void)state;
    assert_int_equal(ARRAY_LEN(rows), OUTCOMES - 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum ledger_refusal why = device_upload_refusal(rows[i].outcome);

        assert_string_equal(ledger_refusal_name(why), sink_outcome_name(rows[i].outcome));
        assert_int_equal(mqtt_pending_reason(why), rows[i].reason);
    }
}

static void every_refusal_has_a_reason_that_puback_and_pubrec_may_carry(void **state)
{
    (void)state;
    for (unsigned why = 0; why < LEDGER_REFUSALS; why++) {
        enum mqtt_reason reason = mqtt_pending_reason((enum ledger_refusal)why);

        assert_true(reason >= MQTT_REASON_UNSPECIFIED_ERROR);
        if (!mqtt_reason_is_allowed(MQTT_PUBACK, (uint8_t)reason) || !mqtt_reason_is_allowed(MQTT_PUBREC, (uint8_t)reason))
            fail_msg("%s: 0x%02x", ledger_refusal_name((enum ledger_refusal)why), reason);
        assert_string_not_equal(ledger_refusal_name((enum ledger_refusal)why), "?");
    }
    assert_string_equal(ledger_refusal_name(LEDGER_REFUSALS), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_is_a_refusal_with_its_name_and_reason),
        cmocka_unit_test(every_refusal_has_a_reason_that_puback_and_pubrec_may_carry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
