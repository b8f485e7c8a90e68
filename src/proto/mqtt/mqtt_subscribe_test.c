#include "proto/mqtt/mqtt_subscribe.h"

#include "proto/mqtt/mqtt_test.h"

#define BAD   MQTT_REASON_MALFORMED_PACKET
#define ERROR MQTT_REASON_PROTOCOL_ERROR

static void packets_before_5_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"one filter", MQTT_TEST_3, "82 06 04 d2 00 01 'p' 02", 0},
        {"two filters", MQTT_TEST_3, "82 0a 04 d2 00 01 'p' 00 00 01 'q' 01", 0},
        {"shared", MQTT_TEST_3, "82 ~~ 04 d2 00 0e '$share/share/#' 00", 0},
        {"unsubscribe", MQTT_TEST_3, "a2 08 04 d2 00 01 'p' 00 01 'q'", 0},
        {"no filter [MQTT-3.8.3-3]", MQTT_TEST_3, "82 02 04 d2", ERROR},
        {"no filter [MQTT-3.10.3-2]", MQTT_TEST_3, "a2 02 04 d2", ERROR},
        {"identifier 0 [MQTT-2.3.1-1]", MQTT_TEST_3, "82 06 00 00 00 01 'p' 00", ERROR},
        {"identifier 0 [MQTT-2.3.1-1]", MQTT_TEST_3, "a2 05 00 00 00 01 'p'", ERROR},
        {"QoS 3 [MQTT-3-8.3-4]", MQTT_TEST_3, "82 06 04 d2 00 01 'p' 03", ERROR},
        {"reserved bits [MQTT-3-8.3-4]", MQTT_TEST_3_1_1, "82 06 04 d2 00 01 'p' 04", BAD},
        {"reserved bits [MQTT-3-8.3-4]", MQTT_TEST_3_1_1, "82 06 04 d2 00 01 'p' 80", BAD},
        {"3.1 does not reserve them", MQTT_TEST_3_1, "82 06 04 d2 00 01 'p' fd", 0},
        {"no QoS", MQTT_TEST_3, "82 05 04 d2 00 01 'p'", BAD},
        {"half a length", MQTT_TEST_3, "82 03 04 d2 00", BAD},
        {"too long", MQTT_TEST_3, "82 07 04 d2 00 01 'p' 00 00", BAD},
        {"filter empty [MQTT-4.7.3-1]", MQTT_TEST_3, "82 0a 04 d2 00 02 'qq' 00 00 00 00", BAD},
        {"filter empty [MQTT-4.7.3-1]", MQTT_TEST_3, "a2 07 04 d2 00 01 'q' 00 00", BAD},
        {"wildcard inside [MQTT-4.7.1-3]", MQTT_TEST_3, "82 0a 04 d2 00 05 'ab/+e' 00", BAD},
        {"wildcard inside [MQTT-4.7.1-2]", MQTT_TEST_3, "a2 07 04 d2 00 03 '#/a'", BAD},
        {"U+0000 [MQTT-1.5.3-2]", MQTT_TEST_3, "82 06 04 d2 00 01 00 00", BAD},
        {"U+D800 [MQTT-3.8.3-1]", MQTT_TEST_3, "82 08 04 d2 00 03 ed a0 80 00", BAD},
        {"U+007F [MQTT-3.10.3-1]", MQTT_TEST_3, "a2 05 04 d2 00 01 7f", BAD},
        {"nothing", MQTT_TEST_ALL, "82 00", BAD},
        {"half an identifier", MQTT_TEST_ALL, "a2 01 12", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void packets_of_5_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"one filter", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 02", 0},
        {"all options", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 2e", 0},
        {"identifier", MQTT_TEST_5, "82 0c 04 d2 05 0b ff ff ff 7f 00 01 'p' 00", 0},
        {"shared", MQTT_TEST_5, "82 ~~ 04 d2 00 00 0a '$share/g/p' 02", 0},
        {"unsubscribe", MQTT_TEST_5, "a2 06 04 d2 00 00 01 'p'", 0},
        {"unsubscribe shared", MQTT_TEST_5, "a2 ~~ 04 d2 00 00 0a '$share/g/p'", 0},
        {"no filter [MQTT-3.8.3-2]", MQTT_TEST_5, "82 03 04 d2 00", ERROR},
        {"no filter [MQTT-3.10.3-2]", MQTT_TEST_5, "a2 03 04 d2 00", ERROR},
        {"no property length", MQTT_TEST_5, "82 02 04 d2", BAD},
        {"identifier 0 [MQTT-2.2.1-3]", MQTT_TEST_5, "82 07 00 00 00 00 01 'p' 00", ERROR},
        {"QoS 3 (section 3.8.3.1)", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 03", ERROR},
        {"Retain Handling 3 (section 3.8.3.1)", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 30", ERROR},
        {"reserved bit [MQTT-3.8.3-5]", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 40", BAD},
        {"reserved bit [MQTT-3.8.3-5]", MQTT_TEST_5, "82 07 04 d2 00 00 01 'p' 80", BAD},
        {"shared with No Local [MQTT-3.8.3-4]", MQTT_TEST_5, "82 ~~ 04 d2 00 00 0a '$share/g/p' 04", ERROR},
        {"no share name [MQTT-4.8.2-1]", MQTT_TEST_5, "82 ~~ 04 d2 00 00 09 '$share//p' 00", BAD},
        {"share name with + [MQTT-4.8.2-2]", MQTT_TEST_5, "82 ~~ 04 d2 00 00 0a '$share/+/p' 00", BAD},
        {"share without filter [MQTT-4.8.2-2]", MQTT_TEST_5, "82 ~~ 04 d2 00 00 08 '$share/g' 00", BAD},
        {"share without filter [MQTT-4.8.2-2]", MQTT_TEST_5, "a2 ~~ 04 d2 00 00 09 '$share/g/'", BAD},
        {"subscription identifier 0", MQTT_TEST_5, "82 09 04 d2 02 0b 00 00 01 'p' 00", ERROR},
        {"two subscription identifiers", MQTT_TEST_5, "82 0b 04 d2 04 0b 01 0b 01 00 01 'p' 00", ERROR},
        {"UNSUBSCRIBE with an identifier", MQTT_TEST_5, "a2 08 04 d2 02 0b 01 00 01 'p'", BAD},
        {"too long", MQTT_TEST_5, "82 08 04 d2 00 00 01 'p' 00 00", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void filters_are_walked_with_their_options(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("82 ~~ 00 09 02 0b 05 00 03 'a/+' 2d 00 0a '$share/g/p' 1a 00 01 '#' 00");
    struct mqtt_test_packet p;
    struct mqtt_subscription sub;
    struct str rest;

    (void)state;
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(p.subscribe.packet_id == 9 && p.subscribe.filter_count == 3);
    assert_int_equal(p.subscribe.properties.subscription_identifier, 5);
    rest = p.subscribe.filters;
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
    assert_true(str_equal(sub.filter.filter, STR("a/+")) && sub.filter.levels == 2 && sub.filter.share_name.n == 0);
    assert_true(sub.qos == 1 && sub.no_local && sub.retain_as_published && sub.retain_handling == 2);
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
    assert_true(str_equal(sub.filter.text, STR("$share/g/p")) && str_equal(sub.filter.filter, STR("p")) &&
                str_equal(sub.filter.share_name, STR("g")));
    assert_true(sub.qos == 2 && !sub.no_local && sub.retain_as_published && sub.retain_handling == 1);
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
    assert_true(sub.qos == 0 && !sub.no_local && !sub.retain_as_published && sub.retain_handling == 0);
    assert_false(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
    assert_false(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
}

static void before_5_there_is_only_the_qos(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("82 06 00 01 00 01 'p' fe");
    struct mqtt_test_packet p;
    struct mqtt_subscription sub;

    (void)state;
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_3_1, &p), 0);
    struct str rest = p.subscribe.filters;
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
    assert_true(sub.qos == 2 && !sub.no_local && !sub.retain_as_published && sub.retain_handling == 0);

    b = mqtt_test_parse("a2 08 00 01 00 01 'p' 00 01 'q'");
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_3_1_1, &p), 0);
    assert_int_equal(p.subscribe.filter_count, 2);
    rest = p.subscribe.filters;
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub) && str_equal(sub.filter.text, STR("p")));
    assert_true(mqtt_subscribe_next(&p.subscribe, &rest, &sub) && str_equal(sub.filter.text, STR("q")));
    assert_false(mqtt_subscribe_next(&p.subscribe, &rest, &sub));
}

static void answers_are_byte_exact_in_every_version(void **state)
{
    static const uint8_t granted[] = {0x00, 0x02, 0x8f}, ended[] = {0x00, 0x11};
    struct buf out = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1_1, 0};

    (void)state;
    assert_int_equal(mqtt_subscribe_encode_suback(&e, 0x102, granted, 3, NULL), E_OK);
    mqtt_test_encoded(&out, "90 05 01 02 00 02 80"); /* [MQTT-3.9.3-1, 3.9.3-2] of 3.1.1 */
    assert_int_equal(mqtt_subscribe_encode_unsuback(&e, 0x102, NULL, 2, NULL), E_OK);
    mqtt_test_encoded(&out, "b0 02 01 02");
    e.version = MQTT_VERSION_5;
    assert_int_equal(mqtt_subscribe_encode_suback(&e, 0x102, granted, 3, NULL), E_OK);
    mqtt_test_encoded(&out, "90 06 01 02 00 00 02 8f"); /* [MQTT-3.8.4-6] */
    assert_int_equal(mqtt_subscribe_encode_unsuback(&e, 0x102, ended, 2, NULL), E_OK);
    mqtt_test_encoded(&out, "b0 05 01 02 00 00 11"); /* [MQTT-3.11.3-1] */
}

static void properties_give_way_to_the_maximum_packet_size(void **state)
{
    static const uint8_t reasons[] = {0x87};
    struct buf out = {0}, user = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 16};
    struct mqtt_properties props = {0};

    (void)state;
    assert_int_equal(mqtt_property_append_user(&user, MEM_TEST, STR("n"), STR("v")), E_OK);
    props.raw = buf_str(&user);
    mqtt_property_set_text(&props, MQTT_PROPERTY_REASON_STRING, STR("r"));
    assert_int_equal(mqtt_subscribe_encode_suback(&e, 1, reasons, 1, &props), E_OK);
    mqtt_test_encoded(&out, "90 08 00 01 04 1f 00 01 'r' 87"); /* [MQTT-3.9.2-2] */
    e.max_packet_size = 9;
    assert_int_equal(mqtt_subscribe_encode_unsuback(&e, 1, reasons, 1, &props), E_OK);
    mqtt_test_encoded(&out, "b0 04 00 01 00 87"); /* [MQTT-3.11.2-1] */
    e.max_packet_size = 5;
    assert_int_equal(mqtt_subscribe_encode_suback(&e, 1, reasons, 1, &props), E_LIMIT);
    e.max_packet_size = 0;
    mem_fail_after(1);
    assert_int_equal(mqtt_subscribe_encode_suback(&e, 1, reasons, 1, &props), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(buf_size(&out), 0);
    buf_free(&user, MEM_TEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_before_5_are_judged_by_the_specification),
        cmocka_unit_test(packets_of_5_are_judged_by_the_specification),
        cmocka_unit_test(filters_are_walked_with_their_options),
        cmocka_unit_test(before_5_there_is_only_the_qos),
        cmocka_unit_test(answers_are_byte_exact_in_every_version),
        cmocka_unit_test(properties_give_way_to_the_maximum_packet_size),
    };

    return cmocka_run_group_tests_name("mqtt_subscribe", tests, NULL, NULL);
}
