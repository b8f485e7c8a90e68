#include "proto/mqtt/mqtt_publish.h"

#include "proto/mqtt/mqtt_test.h"

#define BAD   MQTT_REASON_MALFORMED_PACKET
#define ERROR MQTT_REASON_PROTOCOL_ERROR

static void packets_before_5_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"QoS 0", MQTT_TEST_3, "30 0e 00 05 'topic' 'payload'", 0},
        {"no payload, retained", MQTT_TEST_3, "31 07 00 05 'topic'", 0},
        {"QoS 1", MQTT_TEST_3, "32 10 00 05 'topic' 04 d2 'payload'", 0},
        {"QoS 2 sent again", MQTT_TEST_3, "3c 10 00 05 'topic' 04 d2 'payload'", 0},
        {"topic A, U+2A6D4", MQTT_TEST_3, "30 07 00 05 'A' f0 aa 9b 94", 0},
        {"DUP with QoS 0 [MQTT-3.3.1-2]", MQTT_TEST_3_1_1, "38 0e 00 05 'topic' 'payload'", BAD},
        {"QoS 3 [MQTT-3.3.1-4]", MQTT_TEST_3, "36 10 00 05 'topic' 04 d2 'payload'", BAD},
        {"identifier 0 [MQTT-2.3.1-1]", MQTT_TEST_3, "32 10 00 05 'topic' 00 00 'payload'", ERROR},
        {"no identifier", MQTT_TEST_3, "32 07 00 05 'topic'", BAD},
        {"half an identifier", MQTT_TEST_3, "32 08 00 05 'topic' 01", BAD},
        {"topic empty [MQTT-4.7.3-1]", MQTT_TEST_3, "30 09 00 00 'payload'", BAD},
        {"topic + [MQTT-3.3.2-2]", MQTT_TEST_3, "30 07 00 05 '+opic'", BAD},
        {"topic # [MQTT-3.3.2-2]", MQTT_TEST_3, "30 07 00 05 'topi#'", BAD},
        {"topic U+0000 [MQTT-1.5.3-2]", MQTT_TEST_3, "30 07 00 05 'top' 00 00", BAD},
        {"topic U+D800 [MQTT-1.5.3-1]", MQTT_TEST_3, "30 07 00 05 'to' ed a0 80", BAD},
        {"topic U+0001", MQTT_TEST_3, "30 07 00 05 'to' 01 'ic'", BAD},
        {"topic U+009F", MQTT_TEST_3, "30 07 00 05 'to' c2 9f 'c'", BAD},
        {"topic over the end", MQTT_TEST_3, "30 07 00 06 'topic'", BAD},
        {"no topic", MQTT_TEST_ALL, "30 00", BAD},
        {"half a length", MQTT_TEST_ALL, "30 01 00", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void packets_of_5_are_judged_by_the_specification(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"QoS 0", MQTT_TEST_5, "30 0f 00 05 'topic' 00 'payload'", 0},
        {"QoS 1 with properties", MQTT_TEST_5, "32 12 00 05 'topic' 04 d2 02 01 01 'hello!'", 0},
        {"alias without topic", MQTT_TEST_5, "30 06 00 00 03 23 00 01", 0},
        {"no topic, no alias (section 3.3.2.3.4)", MQTT_TEST_5, "30 03 00 00 00", ERROR},
        {"no topic, other property", MQTT_TEST_5, "30 05 00 00 02 01 01", ERROR},
        {"alias 0 [MQTT-3.3.2-8]", MQTT_TEST_5, "30 07 00 01 't' 03 23 00 00", MQTT_REASON_TOPIC_ALIAS_INVALID},
        {"two aliases", MQTT_TEST_5, "30 0a 00 01 't' 06 23 00 01 23 00 01", ERROR},
        {"subscription identifier [MQTT-3.3.4-6]", MQTT_TEST_5, "30 06 00 01 't' 02 0b 01", ERROR},
        {"payload format 2", MQTT_TEST_5, "30 06 00 01 't' 02 01 02", ERROR},
        {"response topic # [MQTT-3.3.2-14]", MQTT_TEST_5, "30 08 00 01 't' 04 08 00 01 '#'", ERROR},
        {"identifier 0 [MQTT-2.2.1-3]", MQTT_TEST_5, "32 06 00 01 't' 00 00 00", ERROR},
        {"no property length", MQTT_TEST_5, "30 03 00 01 't'", BAD},
        {"properties over the end", MQTT_TEST_5, "30 04 00 01 't' 02", BAD},
        {"a property of a CONNECT", MQTT_TEST_5, "30 07 00 01 't' 03 21 00 01", BAD},
        {"topic + [MQTT-3.3.2-2]", MQTT_TEST_5, "30 08 00 05 '+opic' 00", BAD},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void fields_are_views_of_the_packet(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("3d 11 00 03 'a/b' 00 07 08 02 00 00 00 05 23 00 01 'x'");
    struct mqtt_test_packet p;
    struct mqtt_publish *m = &p.publish;

    (void)state;
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(m->qos == 2 && m->dup && m->retain && m->packet_id == 7 && m->topic_levels == 2);
    assert_true(str_equal(m->topic, STR("a/b")) && str_equal(m->payload, STR("x")) && m->payload.p == b.p + b.n - 1);
    assert_true(m->properties.message_expiry_interval == 5 && m->properties.topic_alias == 1);

    b = mqtt_test_parse("30 05 00 01 't' 'pp'");
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_3_1_1, &p), 0);
    assert_true(m->qos == 0 && !m->dup && !m->retain && m->packet_id == 0 && m->topic_levels == 1);
    assert_true(m->properties.has == 0 && m->properties.raw.n == 0 && str_equal(m->payload, STR("pp")));

    b = mqtt_test_parse("30 06 00 00 03 23 00 01");
    assert_int_equal(mqtt_test_decode(mqtt_test_view(&b), MQTT_VERSION_5, &p), 0);
    assert_true(m->topic.n == 0 && m->topic_levels == 0);
}

static void a_server_may_send_subscription_identifiers(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("30 08 00 01 't' 04 0b 01 0b 02");
    struct mqtt_publish m;
    struct mqtt_frame f;

    (void)state;
    assert_int_equal(mqtt_frame_decode(mqtt_test_view(&b), MQTT_VERSION_5, 100, &f), DECODE_DONE);
    assert_int_equal(mqtt_publish_decode_from_server(&f, MQTT_VERSION_5, &m), 0);
    assert_int_equal(m.properties.subscription_identifier, 1);
}

static void forwarding_keeps_the_bytes_of_what_travels_end_to_end(void **state)
{
    static const struct {
        const char *what, *from, *to;
        unsigned type;
    } rows[] = {
        {"nothing", "", "", MQTT_PUBLISH},
        {"all that travels", "01 01 03 00 01 't' 08 00 01 'r' 09 00 01 00 26 00 01 'a' 00 01 'b'",
         "01 01 03 00 01 't' 08 00 01 'r' 09 00 01 00 26 00 01 'a' 00 01 'b'", MQTT_PUBLISH},
        {"expiry, alias and identifiers stay",
         "26 00 01 'b' 00 00 02 00 00 00 05 01 00 0b 05 23 00 01 26 00 01 'a' 00 00 0b ff ff 7f",
         "26 00 01 'b' 00 00 01 00 26 00 01 'a' 00 00", MQTT_PUBLISH},
        {"the will's delay stays", "18 00 00 00 05 03 00 01 't' 02 00 00 00 01", "03 00 01 't'", MQTT_WILL_PROPERTIES},
        {"only what stays", "23 00 01", "", MQTT_PUBLISH},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_test_bytes from = mqtt_test_parse(rows[i].from), to = mqtt_test_parse(rows[i].to);
        struct mqtt_properties props;
        char out[MQTT_TEST_BYTES];

        assert_int_equal(mqtt_property_decode(mqtt_test_view(&from), rows[i].type, &props), 0);
        if (mqtt_publish_forward_size(&props) != to.n || mqtt_publish_forward_write(out, &props) != out + to.n ||
            memcmp(out, to.p, to.n) != 0)
            fail_msg("%s", rows[i].what);
    }
}

static void a_publish_is_byte_exact_in_every_version(void **state)
{
    static const uint32_t ids[] = {1, 268435455};
    struct buf out = {0};
    struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1_1, 0};
    struct mqtt_publish_out m = {.topic = STR("a/b"), .payload = STR("hi")};
    static const char forwarded[] = {0x01, 0x01};

    (void)state;
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    mqtt_test_encoded(&out, "30 07 00 03 'a/b' 'hi'");
    m = (struct mqtt_publish_out){.topic = STR("a/b"),
                                  .payload = STR("hi"),
                                  .qos = 1,
                                  .packet_id = 0x102,
                                  .dup = true,
                                  .retain = true,
                                  .properties = {forwarded, 2},
                                  .has_message_expiry = true,
                                  .message_expiry_interval = 9,
                                  .topic_alias = 3,
                                  .subscription_ids = ids,
                                  .subscription_id_count = 2};
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    mqtt_test_encoded(&out, "3b 09 00 03 'a/b' 01 02 'hi'");
    e.version = MQTT_VERSION_5;
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    mqtt_test_encoded(&out, "3b 1b 00 03 'a/b' 01 02 11 01 01 02 00 00 00 09 23 00 03 0b 01 0b ff ff ff 7f 'hi'");
    m = (struct mqtt_publish_out){.topic_alias = 3, .qos = 2, .packet_id = 1};
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    mqtt_test_encoded(&out, "34 08 00 00 00 01 03 23 00 03");
}

static void the_size_is_known_before_and_the_limit_holds(void **state)
{
    struct buf out = {0};
    char *payload = calloc(1, 20000);

    (void)state;
    for (unsigned v = MQTT_VERSION_3_1; v <= MQTT_VERSION_5; v++) {
        for (size_t n = 0; n < 20000; n += n < 200 ? 1 : 977) {
            struct mqtt_publish_out m = {.topic = STR("t"), .payload = {payload, n}, .qos = 1, .packet_id = 1};
            size_t size = mqtt_publish_size(v, &m);
            struct mqtt_encoder e = {&out, MEM_TEST, v, (uint32_t)size};

            assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
            assert_int_equal(buf_size(&out), size);
            buf_consume(&out, size);
            assert_int_equal(mqtt_publish_encode_head(&e, &m), E_OK);
            assert_int_equal(buf_size(&out), size - n);
            buf_consume(&out, size - n);
            e.max_packet_size = (uint32_t)size - 1;
            assert_int_equal(mqtt_publish_encode(&e, &m), E_LIMIT); /* [MQTT-3.1.2-24] */
            assert_int_equal(mqtt_publish_encode_head(&e, &m), E_LIMIT);
            assert_int_equal(buf_size(&out), 0);
        }
    }
    buf_free(&out, MEM_TEST);
    free(payload);
}

static void what_mqtt_cannot_express_is_over_its_limit(void **state)
{
    struct buf out = {0};
    const struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_3_1_1, 0};
    /* The payload is never read. */
    struct mqtt_publish_out m = {.topic = STR("t"), .payload = {"", MQTT_REMAINING_LENGTH_MAX}};

    (void)state;
    assert_true(mqtt_publish_size(MQTT_VERSION_3_1_1, &m) > MQTT_PACKET_SIZE_MAX);
    assert_int_equal(mqtt_publish_encode(&e, &m), E_LIMIT);
    m.payload.n -= 3;
    assert_int_equal(mqtt_publish_size(MQTT_VERSION_3_1_1, &m), MQTT_PACKET_SIZE_MAX);
    assert_int_equal(mqtt_publish_encode_head(&e, &m), E_OK);
    mqtt_test_encoded(&out, "30 ff ff ff 7f 00 01 't'");
}

static void an_encoder_without_memory_appends_nothing(void **state)
{
    struct buf out = {0};
    const struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 0};
    const struct mqtt_publish_out m = {.topic = STR("t")};

    (void)state;
    mem_fail_after(1);
    assert_int_equal(mqtt_publish_encode(&e, &m), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(buf_size(&out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_before_5_are_judged_by_the_specification),
        cmocka_unit_test(packets_of_5_are_judged_by_the_specification),
        cmocka_unit_test(fields_are_views_of_the_packet),
        cmocka_unit_test(a_server_may_send_subscription_identifiers),
        cmocka_unit_test(forwarding_keeps_the_bytes_of_what_travels_end_to_end),
        cmocka_unit_test(a_publish_is_byte_exact_in_every_version),
        cmocka_unit_test(the_size_is_known_before_and_the_limit_holds),
        cmocka_unit_test(what_mqtt_cannot_express_is_over_its_limit),
        cmocka_unit_test(an_encoder_without_memory_appends_nothing),
    };

    return cmocka_run_group_tests_name("mqtt_publish", tests, NULL, NULL);
}
