#include "proto/mqtt/mqtt_ack.h"

#include "proto/mqtt/mqtt_test.h"

#define BAD   MQTT_REASON_MALFORMED_PACKET
#define ERROR MQTT_REASON_PROTOCOL_ERROR

static void acknowledgements_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"the identifier alone", MQTT_TEST_ALL, "40 02 00 01", 0},
        {"PUBREL", MQTT_TEST_ALL, "62 02 ff ff", 0},
        {"identifier 0 [MQTT-2.2.1-5]", MQTT_TEST_ALL, "40 02 00 00", ERROR},
        {"nothing", MQTT_TEST_ALL, "40 00", BAD},
        {"half an identifier", MQTT_TEST_ALL, "50 01 01", BAD},
        {"no reasons before 5", MQTT_TEST_3, "40 03 00 01 00", BAD},
        {"reason 0", MQTT_TEST_5, "40 03 00 01 00", 0},
        {"No matching subscribers", MQTT_TEST_5, "40 03 00 01 10", 0},
        {"PUBREC Quota exceeded", MQTT_TEST_5, "50 03 00 01 97", 0},
        {"PUBREL Packet Identifier not found", MQTT_TEST_5, "62 03 00 01 92", 0},
        {"PUBCOMP with properties", MQTT_TEST_5, "70 08 00 01 92 04 1f 00 01 'r'", 0},
        {"no properties", MQTT_TEST_5, "40 04 00 01 00 00", 0},
        {"[MQTT-3.4.2-1]", MQTT_TEST_5, "40 03 00 01 92", ERROR},
        {"[MQTT-3.5.2-1]", MQTT_TEST_5, "50 03 00 01 ff", ERROR},
        {"[MQTT-3.6.2-1]", MQTT_TEST_5, "62 03 00 01 80", ERROR},
        {"[MQTT-3.7.2-1]", MQTT_TEST_5, "70 03 00 01 10", ERROR},
        {"properties cut off", MQTT_TEST_5, "40 04 00 01 00 01", BAD},
        {"too long", MQTT_TEST_5, "40 05 00 01 00 00 00", BAD},
        {"two reason strings", MQTT_TEST_5, "40 0a 00 01 00 06 1f 00 00 1f 00 00", ERROR},
        {"a property of a PUBLISH", MQTT_TEST_5, "40 06 00 01 00 02 01 00", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void disconnect_and_auth_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"DISCONNECT", MQTT_TEST_ALL, "e0 00", 0},
        {"section 3.14.2 of 3.1.1", MQTT_TEST_3, "e0 01 00", BAD},
        {"reason", MQTT_TEST_5, "e0 01 04", 0},
        {"reason and no properties", MQTT_TEST_5, "e0 02 82 00", 0},
        {"session expiry", MQTT_TEST_5, "e0 07 00 05 11 00 00 00 01", 0},
        {"[MQTT-3.14.2-1]", MQTT_TEST_5, "e0 01 01", ERROR},
        {"properties cut off", MQTT_TEST_5, "e0 06 00 05 11 00 00 00", BAD},
        {"too long", MQTT_TEST_5, "e0 03 00 00 00", BAD},
        {"AUTH", MQTT_TEST_5, "f0 06 18 04 15 00 01 'm'", 0},
        {"re-authenticate with data", MQTT_TEST_5, "f0 0a 19 08 15 00 01 'm' 16 00 01 00", 0},
        {"AUTH without method (section 3.15.2.2.2)", MQTT_TEST_5, "f0 02 18 00", ERROR},
        {"AUTH of nothing", MQTT_TEST_5, "f0 00", ERROR},
        {"[MQTT-3.15.2-1]", MQTT_TEST_5, "f0 06 80 04 15 00 01 'm'", ERROR},
        {"AUTH before 5", MQTT_TEST_3, "f0 00", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void what_is_left_out_reads_as_success(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("40 02 01 02");
    struct mqtt_test_packet p;

    (void)state;
    memset(&p, 0xff, sizeof p);
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(p.ack.packet_id == 0x102 && p.ack.reason == 0 && p.ack.properties.has == 0);
    b = mqtt_test_parse("50 08 00 01 87 04 1f 00 01 'r'");
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(p.ack.reason == 0x87 && str_equal(p.ack.properties.reason_string, STR("r")));
    b = mqtt_test_parse("e0 00");
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(p.ack.packet_id == 0 && p.ack.reason == 0);
}

static void acknowledgements_take_their_shortest_form(void **state)
{
    struct buf out = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1_1, 0};
    struct mqtt_properties none = {0}, props = {0};

    (void)state;
    mqtt_property_set_text(&props, MQTT_PROPERTY_REASON_STRING, STR("r"));
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 0x102, MQTT_REASON_SUCCESS, &props), E_OK);
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBREC, 1, MQTT_REASON_QUOTA_EXCEEDED, NULL), E_OK);
    mqtt_test_encoded(&out, "40 02 01 02 50 02 00 01");
    e.version = MQTT_VERSION_5;
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBREL, 1, MQTT_REASON_SUCCESS, NULL), E_OK);
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBCOMP, 1, MQTT_REASON_SUCCESS, &none), E_OK);
    mqtt_test_encoded(&out, "62 02 00 01 70 02 00 01"); /* [MQTT-3.6.1-1], section 3.7.2.1 */
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 1, MQTT_REASON_NO_MATCHING_SUBSCRIBERS, NULL), E_OK);
    mqtt_test_encoded(&out, "40 03 00 01 10"); /* section 3.4.2.2.1 */
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 1, MQTT_REASON_SUCCESS, &props), E_OK);
    mqtt_test_encoded(&out, "40 08 00 01 00 04 1f 00 01 'r'");
}

static void properties_give_way_to_the_maximum_packet_size(void **state)
{
    struct buf out = {0}, user = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 16};
    struct mqtt_properties props = {0};

    (void)state;
    assert_int_equal(mqtt_property_append_user(&user, MEM_TEST, STR("n"), STR("v")), E_OK);
    props.raw = buf_str(&user);
    mqtt_property_set_text(&props, MQTT_PROPERTY_REASON_STRING, STR("r"));
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 1, MQTT_REASON_NOT_AUTHORIZED, &props), E_OK);
    mqtt_test_encoded(&out, "40 08 00 01 87 04 1f 00 01 'r'"); /* [MQTT-3.4.2-3] */
    e.max_packet_size = 9;
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBREC, 1, MQTT_REASON_NOT_AUTHORIZED, &props), E_OK);
    mqtt_test_encoded(&out, "50 03 00 01 87"); /* [MQTT-3.5.2-2] */
    e.max_packet_size = 4;
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBREL, 1, MQTT_REASON_SUCCESS, NULL), E_OK);
    mqtt_test_encoded(&out, "62 02 00 01");
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 1, MQTT_REASON_NOT_AUTHORIZED, NULL), E_LIMIT);
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_SERVER_BUSY, &props), E_OK);
    mqtt_test_encoded(&out, "e0 01 89"); /* [MQTT-3.14.2-3, 3.14.2-4] */
    buf_free(&user, MEM_TEST);
}

static void disconnect_and_auth_are_byte_exact(void **state)
{
    struct buf out = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1_1, 0};
    struct mqtt_properties props = {0};

    (void)state;
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_SERVER_SHUTTING_DOWN, NULL), E_OK);
    mqtt_test_encoded(&out, ""); /* a server of 3.1.1 has none */
    e.version = MQTT_VERSION_5;
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_SUCCESS, NULL), E_OK);
    mqtt_test_encoded(&out, "e0 00");
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_KEEP_ALIVE_TIMEOUT, NULL), E_OK);
    mqtt_test_encoded(&out, "e0 01 8d");
    mqtt_property_set_text(&props, MQTT_PROPERTY_SERVER_REFERENCE, STR("s"));
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_SERVER_MOVED, &props), E_OK);
    mqtt_test_encoded(&out, "e0 06 9d 04 1c 00 01 's'");
    props = (struct mqtt_properties){0};
    mqtt_property_set_text(&props, MQTT_PROPERTY_AUTHENTICATION_METHOD, STR("m"));
    assert_int_equal(mqtt_ack_encode_auth(&e, MQTT_REASON_CONTINUE_AUTHENTICATION, &props), E_OK);
    mqtt_test_encoded(&out, "f0 06 18 04 15 00 01 'm'"); /* [MQTT-4.12.0-2] */
}

static void an_encoder_without_memory_appends_nothing(void **state)
{
    struct buf out = {0};
    const struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 0};

    (void)state;
    mem_fail_after(1);
    assert_int_equal(mqtt_ack_encode(&e, MQTT_PUBACK, 1, MQTT_REASON_SUCCESS, NULL), E_NOMEM);
    mem_fail_after(1);
    assert_int_equal(mqtt_ack_encode_disconnect(&e, MQTT_REASON_SERVER_BUSY, NULL), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(buf_size(&out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledgements_are_judged_by_the_specification),
        cmocka_unit_test(disconnect_and_auth_are_judged_by_the_specification),
        cmocka_unit_test(what_is_left_out_reads_as_success),
        cmocka_unit_test(acknowledgements_take_their_shortest_form),
        cmocka_unit_test(properties_give_way_to_the_maximum_packet_size),
        cmocka_unit_test(disconnect_and_auth_are_byte_exact),
        cmocka_unit_test(an_encoder_without_memory_appends_nothing),
    };

    return cmocka_run_group_tests_name("mqtt_ack", tests, NULL, NULL);
}
