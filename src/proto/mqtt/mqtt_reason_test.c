#include "proto/mqtt/mqtt_reason.h"

#include "proto/mqtt/mqtt_test.h"

static void every_reason_of_table_2_6_has_a_name_and_a_packet(void **state)
{
    unsigned known = 0;

    (void)state;
    for (unsigned reason = 0; reason < 256; reason++) {
        bool has_name = strcmp(mqtt_reason_name(reason), "unknown reason") != 0;
        bool is_used = false;

        for (unsigned type = MQTT_CONNECT; type <= MQTT_AUTH; type++)
            is_used |= mqtt_reason_is_allowed(type, (uint8_t)reason);
        assert_int_equal(has_name, is_used);
        known += has_name;
    }
    assert_int_equal(known, 43);
    assert_string_equal(mqtt_reason_name(MQTT_REASON_MALFORMED_PACKET), "Malformed Packet");
    assert_string_equal(mqtt_reason_name(MQTT_REASON_WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
                        "Wildcard Subscriptions not supported");
}

static void packets_take_the_reasons_of_their_own_tables(void **state)
{
    static const struct {
        const char *statement;
        enum mqtt_type type;
        uint8_t reasons[32];
        size_t count;
    } rows[] = {
        {"MQTT-3.2.2-8",
         MQTT_CONNACK,
         {0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
          0x8a, 0x8c, 0x90, 0x95, 0x97, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9f},
         22},
        {"MQTT-3.4.2-1", MQTT_PUBACK, {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}, 9},
        {"MQTT-3.5.2-1", MQTT_PUBREC, {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}, 9},
        {"MQTT-3.6.2-1", MQTT_PUBREL, {0x00, 0x92}, 2},
        {"MQTT-3.7.2-1", MQTT_PUBCOMP, {0x00, 0x92}, 2},
        {"MQTT-3.9.3-2", MQTT_SUBACK, {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e, 0xa1, 0xa2}, 12},
        {"MQTT-3.11.3-2", MQTT_UNSUBACK, {0x00, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91}, 7},
        {"MQTT-3.14.2-1",
         MQTT_DISCONNECT,
         {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90, 0x93,
          0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2},
         30},
        {"MQTT-3.15.2-1", MQTT_AUTH, {0x00, 0x18, 0x19}, 3},
        {"no reason", MQTT_CONNECT, {0}, 0},
        {"no reason", MQTT_PUBLISH, {0}, 0},
        {"no reason", MQTT_SUBSCRIBE, {0}, 0},
        {"no reason", MQTT_UNSUBSCRIBE, {0}, 0},
        {"no reason", MQTT_PINGREQ, {0}, 0},
        {"no reason", MQTT_PINGRESP, {0}, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (unsigned reason = 0; reason < 256; reason++) {
            bool want = memchr(rows[i].reasons, (int)reason, rows[i].count) != NULL;

            if (mqtt_reason_is_allowed(rows[i].type, (uint8_t)reason) != want)
                fail_msg("%s: %s with 0x%02x", rows[i].statement, mqtt_reason_type_name(rows[i].type), reason);
        }
    }
}

static void refusals_have_return_codes_and_malformed_packets_have_none(void **state)
{
    enum mqtt_return_code code;

    (void)state;
    for (unsigned reason = 0; reason < 256; reason++) {
        bool has_code = mqtt_reason_to_return_code(reason, &code);

        if (has_code) {
            assert_true(mqtt_reason_is_allowed(MQTT_CONNACK, (uint8_t)reason));
            assert_int_equal(code == MQTT_RETURN_ACCEPTED, reason == MQTT_REASON_SUCCESS);
            assert_true(code <= MQTT_RETURN_NOT_AUTHORIZED);
        }
    }
    assert_false(mqtt_reason_to_return_code(MQTT_REASON_MALFORMED_PACKET, &code));
    assert_false(mqtt_reason_to_return_code(MQTT_REASON_PROTOCOL_ERROR, &code));
    assert_true(mqtt_reason_to_return_code(MQTT_REASON_BAD_USER_NAME_OR_PASSWORD, &code) && code == 4);
    assert_true(mqtt_reason_to_return_code(MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION, &code) && code == 1);
}

static void every_type_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(mqtt_reason_type_name(MQTT_CONNECT), "CONNECT");
    assert_string_equal(mqtt_reason_type_name(MQTT_AUTH), "AUTH");
    assert_string_equal(mqtt_reason_type_name(0), "reserved");
    assert_string_equal(mqtt_reason_type_name(16), "reserved");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_of_table_2_6_has_a_name_and_a_packet),
        cmocka_unit_test(packets_take_the_reasons_of_their_own_tables),
        cmocka_unit_test(refusals_have_return_codes_and_malformed_packets_have_none),
        cmocka_unit_test(every_type_has_a_name),
    };

    return cmocka_run_group_tests_name("mqtt_reason", tests, NULL, NULL);
}
