#include "proto/mqtt/mqtt_connect.h"

#include "proto/mqtt/mqtt_test.h"

#define BAD MQTT_REASON_MALFORMED_PACKET

/* A CONNECT decides its version itself, so the column of versions says nothing here. */
#define ANY MQTT_TEST_5

static void packets_of_3_1_and_3_1_1_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"minimal", ANY, "10 0d 00 04 'MQTT' 04 02 00 0a 00 01 'p'", 0},
        {"all fields", ANY, "10 1b 00 04 'MQTT' 04 f6 00 0a 00 01 'p' 00 01 't' 00 02 'mm' 00 01 'u' 00 02 'pw'", 0},
        {"empty client identifier is the caller's", ANY, "10 0c 00 04 'MQTT' 04 00 00 0a 00 00", 0},
        {"user name of no length", ANY, "10 0f 00 04 'MQTT' 04 82 00 0a 00 01 'p' 00 00", 0},
        {"password with 0x00 is binary", ANY, "10 14 00 04 'MQTT' 04 c2 00 0a 00 01 'p' 00 01 'u' 00 02 00 ff", 0},
        {"protocol name [MQTT-3.1.2-1]", ANY, "10 0d 00 04 'MQTU' 04 02 00 0a 00 01 'p'",
         MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION},
        {"short name", ANY, "10 0c 00 03 'MQT' 04 02 00 0a 00 01 'p'", MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION},
        {"level 6 [MQTT-3.1.2-2]", ANY, "10 0d 00 04 'MQTT' 06 02 00 0a 00 01 'p'", MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION},
        {"reserved flag [MQTT-3.1.2-3]", ANY, "10 0d 00 04 'MQTT' 04 03 00 0a 00 01 'p'", BAD},
        {"header flags [MQTT-2.2.2-1]", ANY, "11 0d 00 04 'MQTT' 04 02 00 0a 00 01 'p'", BAD},
        {"will QoS without will [MQTT-3.1.2-13]", ANY, "10 0d 00 04 'MQTT' 04 0a 00 0a 00 01 'p'", BAD},
        {"will retain without will [MQTT-3.1.2-15]", ANY, "10 0d 00 04 'MQTT' 04 22 00 0a 00 01 'p'", BAD},
        {"will QoS 3 [MQTT-3.1.2-14]", ANY, "10 13 00 04 'MQTT' 04 1e 00 0a 00 01 'p' 00 01 't' 00 01 'm'", BAD},
        {"no will fields [MQTT-3.1.2-9]", ANY, "10 0d 00 04 'MQTT' 04 06 00 0a 00 01 'p'", BAD},
        {"no will message [MQTT-3.1.2-9]", ANY, "10 10 00 04 'MQTT' 04 06 00 0a 00 01 'p' 00 01 't'", BAD},
        {"will topic empty [MQTT-4.7.3-1]", ANY, "10 11 00 04 'MQTT' 04 06 00 0a 00 01 'p' 00 00 00 00", BAD},
        {"will topic with wildcard", ANY, "10 12 00 04 'MQTT' 04 06 00 0a 00 01 'p' 00 01 '#' 00 00", BAD},
        {"will topic U+0000 [MQTT-3.1.3-10]", ANY, "10 13 00 04 'MQTT' 04 06 00 0a 00 01 'p' 00 01 00 00 01 'm'", BAD},
        {"unannounced user name [MQTT-3.1.2-18]", ANY, "10 10 00 04 'MQTT' 04 02 00 0a 00 01 'p' 00 01 'u'", BAD},
        {"missing user name [MQTT-3.1.2-19]", ANY, "10 0d 00 04 'MQTT' 04 82 00 0a 00 01 'p'", BAD},
        {"unannounced password [MQTT-3.1.2-20]", ANY, "10 13 00 04 'MQTT' 04 82 00 0a 00 01 'p' 00 01 'u' 00 01 'p'", BAD},
        {"missing password [MQTT-3.1.2-21]", ANY, "10 10 00 04 'MQTT' 04 c2 00 0a 00 01 'p' 00 01 'u'", BAD},
        {"password alone [MQTT-3.1.2-22]", ANY, "10 10 00 04 'MQTT' 04 42 00 0a 00 01 'p' 00 01 'p'", BAD},
        {"user name not UTF-8 [MQTT-3.1.3-11]", ANY, "10 10 00 04 'MQTT' 04 82 00 0a 00 01 'p' 00 01 ff", BAD},
        {"client identifier not UTF-8 [MQTT-3.1.3-4]", ANY, "10 0d 00 04 'MQTT' 04 02 00 0a 00 01 ff", BAD},
        {"client identifier with U+0001", ANY, "10 0d 00 04 'MQTT' 04 02 00 0a 00 01 01", BAD},
        {"a length over the end (CWE-119)", ANY, "10 07 00 04 'MQTT' 04", BAD},
        {"no bytes", ANY, "10 00", BAD},
        {"too long", ANY, "10 0e 00 04 'MQTT' 04 02 00 0a 00 01 'p' 00", BAD},

        {"3.1", ANY, "10 0f 00 06 'MQIsdp' 03 02 00 0a 00 01 'p'", 0},
        {"3.1 does not reserve header flags", ANY, "14 0f 00 06 'MQIsdp' 03 02 00 0a 00 01 'p'", 0},
        {"3.1 does not reserve the flag", ANY, "10 0f 00 06 'MQIsdp' 03 03 00 0a 00 01 'p'", 0},
        {"3.1 ignores will options without will", ANY, "10 0f 00 06 'MQIsdp' 03 2a 00 0a 00 01 'p'", 0},
        {"3.1 will QoS 3", ANY, "10 0f 00 06 'MQIsdp' 03 1a 00 0a 00 01 'p'", BAD},
        {"3.1 user name may be missing", ANY, "10 0f 00 06 'MQIsdp' 03 c2 00 0a 00 01 'p'", 0},
        {"3.1 password alone", ANY, "10 12 00 06 'MQIsdp' 03 42 00 0a 00 01 'p' 00 01 'p'", BAD},
        {"3.1 name with level 4", ANY, "10 0f 00 06 'MQIsdp' 04 02 00 0a 00 01 'p'", MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void packets_of_5_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"minimal", ANY, "10 0e 00 04 'MQTT' 05 02 00 0a 00 00 01 'p'", 0},
        {"password alone is allowed", ANY, "10 11 00 04 'MQTT' 05 42 00 0a 00 00 01 'p' 00 01 'p'", 0},
        {"properties", ANY, "10 13 00 04 'MQTT' 05 02 00 0a 05 11 00 00 00 01 00 01 'p'", 0},
        {"will properties", ANY, "10 ~~ 00 04 'MQTT' 05 06 00 0a 00 00 01 'p' 05 18 00 00 00 01 00 01 't' 00 00", 0},
        {"padded length [MQTT-1.5.5-1]", ANY, "10 8e 00 00 04 'MQTT' 05 02 00 0a 00 00 01 'p'", BAD},
        {"padded property length", ANY, "10 0f 00 04 'MQTT' 05 02 00 0a 80 00 00 01 'p'", BAD},
        {"properties over the end", ANY, "10 0e 00 04 'MQTT' 05 02 00 0a 09 00 01 'p'", BAD},
        {"no property length", ANY, "10 0a 00 04 'MQTT' 05 02 00 0a", BAD},
        {"reserved flag [MQTT-3.1.2-3]", ANY, "10 0e 00 04 'MQTT' 05 03 00 0a 00 00 01 'p'", BAD},
        {"header flags [MQTT-2.1.3-1]", ANY, "12 0e 00 04 'MQTT' 05 02 00 0a 00 00 01 'p'", BAD},
        {"will QoS without will [MQTT-3.1.2-11]", ANY, "10 0e 00 04 'MQTT' 05 12 00 0a 00 00 01 'p'", BAD},
        {"will QoS 3 [MQTT-3.1.2-12]", ANY, "10 ~~ 00 04 'MQTT' 05 1e 00 0a 00 00 01 'p' 00 00 01 't' 00 00", BAD},
        {"will retain without will [MQTT-3.1.2-13]", ANY, "10 0e 00 04 'MQTT' 05 22 00 0a 00 00 01 'p'", BAD},
        {"no will properties [MQTT-3.1.3-1]", ANY, "10 0e 00 04 'MQTT' 05 06 00 0a 00 00 01 'p'", BAD},
        {"a property of a PUBLISH", ANY, "10 10 00 04 'MQTT' 05 02 00 0a 02 01 01 00 01 'p'", BAD},
        {"a will property of a CONNECT", ANY, "10 ~~ 00 04 'MQTT' 05 06 00 0a 00 00 01 'p' 03 21 00 01 00 01 't' 00 00", BAD},
        {"Receive Maximum 0", ANY, "10 11 00 04 'MQTT' 05 02 00 0a 03 21 00 00 00 01 'p'", MQTT_REASON_PROTOCOL_ERROR},
        {"Maximum Packet Size 0", ANY, "10 13 00 04 'MQTT' 05 02 00 0a 05 27 00 00 00 00 00 01 'p'",
         MQTT_REASON_PROTOCOL_ERROR},
        {"level 5 with the old name", ANY, "10 10 00 06 'MQIsdp' 05 02 00 0a 00 00 01 'p'",
         MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void fields_are_views_of_the_packet(void **state)
{
    struct mqtt_test_bytes b =
        mqtt_test_parse("10 ~~ 00 04 'MQTT' 05 ee 01 02 03 21 00 07 00 02 'id' "
                        "0c 18 00 00 00 09 26 00 01 'n' 00 01 'v' 00 03 'a/b' 00 04 'gone' 00 04 'user' 00 04 'pass'");
    struct mqtt_test_packet p;
    struct mqtt_connect *c = &p.connect;

    (void)state;
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_NONE, &p), 0);
    assert_true(c->version == MQTT_VERSION_5 && c->level == 5 && c->clean_start && c->keep_alive == 0x102);
    assert_true(str_equal(c->client_id, STR("id")));
    assert_true(c->has_user_name && str_equal(c->user_name, STR("user")));
    assert_true(c->has_password && str_equal(c->password, STR("pass")));
    assert_true(mqtt_property_has(&c->properties, MQTT_PROPERTY_RECEIVE_MAXIMUM) && c->properties.receive_maximum == 7);
    assert_true(c->has_will && c->will.qos == 1 && c->will.is_retained && c->will.topic_levels == 2);
    assert_true(str_equal(c->will.topic, STR("a/b")) && str_equal(c->will.payload, STR("gone")));
    assert_int_equal(c->will.properties.will_delay_interval, 9);
    assert_true(c->client_id.p > b.p && c->client_id.p < b.p + b.n);
}

static void fields_that_are_not_there_are_empty(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("10 0f 00 06 'MQIsdp' 03 c0 00 00 00 01 'p'");
    struct mqtt_test_packet p;

    (void)state;
    memset(&p, 0xff, sizeof p);
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_NONE, &p), 0);
    assert_int_equal(p.connect.version, MQTT_VERSION_3_1);
    assert_false(p.connect.clean_start || p.connect.has_will);
    /* The flags say otherwise, but the packet ends first. 3.1, section 3.1 */
    assert_false(p.connect.has_user_name || p.connect.has_password);
    assert_true(p.connect.user_name.n == 0 && p.connect.password.n == 0);
    assert_true(p.connect.properties.has == 0 && p.connect.properties.raw.n == 0);
}

static void a_refusal_says_in_which_version_to_answer(void **state)
{
    static const struct {
        const char *packet;
        enum mqtt_version want;
    } rows[] = {
        {"10 0d 00 04 'MQTT' 04 03 00 0a 00 01 'p'", MQTT_VERSION_3_1_1}, /* malformed, but the version was read */
        {"10 0d 00 04 'MQTT' 05 03 00 0a 00 01 'p'", MQTT_VERSION_5},
        {"10 0d 00 04 'MQTT' 03 02 00 0a 00 01 'p'", MQTT_VERSION_3_1_1},
        {"10 0d 00 04 'MQTT' 84 02 00 0a 00 01 'p'", MQTT_VERSION_3_1_1}, /* a bridge */
        {"10 0d 00 04 'MQTT' 06 02 00 0a 00 01 'p'", MQTT_VERSION_5},
        {"10 0d 00 04 'MQTT' 02 02 00 0a 00 01 'p'", MQTT_VERSION_5},
        {"10 0f 00 06 'MQIsdp' 04 02 00 0a 00 01 'p'", MQTT_VERSION_3_1_1},
        {"10 0d 00 04 'HTTP' 04 02 00 0a 00 01 'p'", MQTT_VERSION_NONE},
        {"10 06 00 04 'MQTT'", MQTT_VERSION_NONE},
        {"10 00", MQTT_VERSION_NONE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_test_bytes b = mqtt_test_parse(rows[i].packet);
        struct mqtt_test_packet p;

        assert_int_not_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_NONE, &p), 0);
        assert_int_equal(p.connect.version, rows[i].want);
    }
}

static void a_connack_is_byte_exact_in_every_version(void **state)
{
    struct buf out = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1, 0};
    struct mqtt_properties props = {0};

    (void)state;
    mqtt_property_set_number(&props, MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM, 10);
    mqtt_property_set_text(&props, MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER, STR("c1"));

    assert_int_equal(mqtt_connect_encode_connack(&e, true, MQTT_REASON_SUCCESS, &props), E_OK);
    mqtt_test_encoded(&out, "20 02 00 00"); /* 3.1 knows no session present */
    e.version = MQTT_VERSION_3_1_1;
    assert_int_equal(mqtt_connect_encode_connack(&e, true, MQTT_REASON_SUCCESS, &props), E_OK);
    mqtt_test_encoded(&out, "20 02 01 00"); /* [MQTT-3.2.2-2] */
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_NOT_AUTHORIZED, NULL), E_OK);
    mqtt_test_encoded(&out, "20 02 00 05"); /* [MQTT-3.2.2-4] */
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_MALFORMED_PACKET, NULL), E_INVAL);
    assert_int_equal(buf_size(&out), 0); /* [MQTT-3.2.2-6] */
    e.version = MQTT_VERSION_5;
    assert_int_equal(mqtt_connect_encode_connack(&e, true, MQTT_REASON_SUCCESS, &props), E_OK);
    mqtt_test_encoded(&out, "20 0b 01 00 08 12 00 02 'c1' 22 00 0a");
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_MALFORMED_PACKET, NULL), E_OK);
    mqtt_test_encoded(&out, "20 03 00 81 00");
}

static void a_connack_fits_the_clients_maximum_packet_size(void **state)
{
    struct buf out = {0}, user = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 22};
    struct mqtt_properties props = {0};

    (void)state;
    assert_int_equal(mqtt_property_append_user(&user, MEM_TEST, STR("n"), STR("v")), E_OK);
    props.raw = buf_str(&user);
    mqtt_property_set_text(&props, MQTT_PROPERTY_REASON_STRING, STR("why"));
    mqtt_property_set_number(&props, MQTT_PROPERTY_SERVER_KEEP_ALIVE, 60);
    e.max_packet_size = 21;
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_BANNED, &props), E_OK);
    mqtt_test_encoded(&out, "20 13 00 8a 10 13 00 3c 1f 00 03 'why' 26 00 01 'n' 00 01 'v'");
    e.max_packet_size = 20;
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_BANNED, &props), E_OK);
    mqtt_test_encoded(&out, "20 0c 00 8a 09 13 00 3c 1f 00 03 'why'"); /* [MQTT-3.2.2-20] */
    e.max_packet_size = 13;
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_BANNED, &props), E_OK);
    mqtt_test_encoded(&out, "20 06 00 8a 03 13 00 3c"); /* [MQTT-3.2.2-19] */
    e.max_packet_size = 7;
    assert_int_equal(mqtt_connect_encode_connack(&e, false, MQTT_REASON_BANNED, &props), E_LIMIT);
    assert_int_equal(buf_size(&out), 0);
    buf_free(&user, MEM_TEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_3_1_and_3_1_1_are_judged_by_the_specification),
        cmocka_unit_test(packets_of_5_are_judged_by_the_specification),
        cmocka_unit_test(fields_are_views_of_the_packet),
        cmocka_unit_test(fields_that_are_not_there_are_empty),
        cmocka_unit_test(a_refusal_says_in_which_version_to_answer),
        cmocka_unit_test(a_connack_is_byte_exact_in_every_version),
        cmocka_unit_test(a_connack_fits_the_clients_maximum_packet_size),
    };

    return cmocka_run_group_tests_name("mqtt_connect", tests, NULL, NULL);
}
