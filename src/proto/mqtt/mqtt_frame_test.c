#include "proto/mqtt/mqtt_frame.h"

#include "proto/mqtt/mqtt_test.h"

static void header_flags_are_those_of_table_2_2(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        const unsigned type = first >> 4, flags = first & 0xf, qos = flags >> 1 & 3;
        const char packet[] = {(char)first, 2, 0, 1};
        const struct str in = {packet, type == MQTT_PINGREQ || type == MQTT_PINGRESP ? 1 : sizeof packet};
        struct mqtt_frame f;

        for (unsigned v = MQTT_VERSION_3_1_1; v <= MQTT_VERSION_5; v++) {
            bool want = flags == (type == MQTT_PUBREL || type == MQTT_SUBSCRIBE || type == MQTT_UNSUBSCRIBE ? 2u : 0u);

            if (type == MQTT_PUBLISH) /* [MQTT-3.3.1-4, 3.3.1-2] */
                want = qos != 3 && !(flags & 8 && qos == 0);
            if (type == MQTT_CONNECT) /* checked with the version that it carries */
                want = true;
            if (type == 0 || (type == MQTT_AUTH && v != MQTT_VERSION_5))
                want = false;
            enum decode got = mqtt_frame_decode(in, v, 100, &f);

            if (want != (got != DECODE_BAD) || (!want && f.reason != MQTT_REASON_MALFORMED_PACKET)) /* [MQTT-2.1.3-1] */
                fail_msg("first byte 0x%02x in version %u", first, v);
            if (got == DECODE_DONE)
                assert_true(f.type == type && f.flags == flags && f.size == sizeof packet && f.body.p == packet + 2);
        }
    }
}

static void dup_is_allowed_in_3_1_where_an_answer_is_awaited(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"PUBREL sent again", MQTT_TEST_3_1, "6a 02 00 01", 0},
        {"SUBSCRIBE sent again", MQTT_TEST_3_1, "8a 06 00 01 00 01 'p' 00", 0},
        {"UNSUBSCRIBE sent again", MQTT_TEST_3_1, "aa 05 00 01 00 01 'p'", 0},
        {"PUBLISH with DUP and QoS 0", MQTT_TEST_3_1, "38 03 00 01 'p'", 0},
        {"PUBREL without QoS 1", MQTT_TEST_3_1, "60 02 00 01", MQTT_REASON_MALFORMED_PACKET},
        {"QoS 3", MQTT_TEST_3_1, "36 05 00 01 'p' 00 01", MQTT_REASON_MALFORMED_PACKET},
        {"type 15", MQTT_TEST_3_1, "f0 00", MQTT_REASON_MALFORMED_PACKET},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void remaining_lengths_are_those_of_table_2_4(void **state)
{
    static const struct {
        const char *header;
        size_t length; /* 0: refused */
    } rows[] = {
        {"30 7f", 127},           {"30 80 01", 128},           {"30 ff 7f", 16383},           {"30 80 80 01", 16384},
        {"30 ff ff 7f", 2097151}, {"30 80 80 80 01", 2097152}, {"30 ff ff ff 7f", 268435455}, {"30 ff ff ff ff 7f", 0},
        {"30 80 80 80 80 01", 0}, {"30 80 80 80 80", 0}, /* told before the fifth byte */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mqtt_test_bytes b = mqtt_test_parse(rows[i].header);
        struct mqtt_frame f = {0};

        for (size_t n = 0; n < b.n; n++) {
            enum decode got = mqtt_frame_decode((struct str){b.p, n}, MQTT_VERSION_5, MQTT_PACKET_SIZE_MAX, &f);

            assert_true(got == DECODE_MORE || (got == DECODE_BAD && rows[i].length == 0));
            assert_true(got == DECODE_BAD || f.size == 0);
        }
        enum decode got = mqtt_frame_decode(mqtt_test_view(&b), MQTT_VERSION_5, MQTT_PACKET_SIZE_MAX, &f);
        if (rows[i].length == 0) {
            assert_int_equal(got, DECODE_BAD);
            assert_int_equal(f.reason, MQTT_REASON_MALFORMED_PACKET);
        } else {
            assert_int_equal(got, DECODE_MORE);
            assert_int_equal(f.size, b.n + rows[i].length);
            assert_int_equal(mqtt_frame_size(rows[i].length), f.size);
        }
    }
}

static void a_padded_length_is_refused_in_5_and_accepted_before(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"[MQTT-1.5.5-1]", MQTT_TEST_5, "c0 80 00", MQTT_REASON_MALFORMED_PACKET},
        {"[MQTT-1.5.5-1]", MQTT_TEST_5, "40 82 80 00 00 01", MQTT_REASON_MALFORMED_PACKET},
        {"3.1.1 does not forbid it", MQTT_TEST_3, "40 82 80 00 00 01", 0},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void a_packet_over_the_limit_is_refused_with_its_fixed_header(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("30 7e");
    struct mqtt_frame f;

    (void)state;
    assert_int_equal(mqtt_frame_decode(mqtt_test_view(&b), MQTT_VERSION_5, 128, &f), DECODE_MORE);
    assert_int_equal(mqtt_frame_decode(mqtt_test_view(&b), MQTT_VERSION_5, 127, &f), DECODE_BAD); /* [MQTT-3.2.2-15] */
    assert_int_equal(f.reason, MQTT_REASON_PACKET_TOO_LARGE);
}

static void pings_have_no_body(void **state)
{
    static const struct mqtt_test_row rows[] = {
        {"PINGREQ", MQTT_TEST_ALL, "c0 00", 0},
        {"PINGRESP", MQTT_TEST_ALL, "d0 00", 0},
        {"section 3.12.1", MQTT_TEST_ALL, "c0 01 00", MQTT_REASON_MALFORMED_PACKET},
        {"section 3.13.1", MQTT_TEST_ALL, "d0 01 00", MQTT_REASON_MALFORMED_PACKET},
    };

    (void)state;
    mqtt_test_rows(rows, ARRAY_LEN(rows));
}

static void frames_follow_each_other(void **state)
{
    struct mqtt_test_bytes b = mqtt_test_parse("c0 00 40 02 00 07 e0");
    struct str rest = mqtt_test_view(&b);
    struct mqtt_frame f;

    (void)state;
    assert_int_equal(mqtt_frame_decode(rest, MQTT_VERSION_5, 100, &f), DECODE_DONE);
    assert_int_equal(f.type, MQTT_PINGREQ);
    rest = str_from_offset(rest, f.size);
    assert_int_equal(mqtt_frame_decode(rest, MQTT_VERSION_5, 100, &f), DECODE_DONE);
    assert_int_equal(f.type, MQTT_PUBACK);
    rest = str_from_offset(rest, f.size);
    assert_int_equal(mqtt_frame_decode(rest, MQTT_VERSION_5, 100, &f), DECODE_MORE);
    assert_int_equal(f.size, 0);
}

static void a_pingresp_is_two_bytes(void **state)
{
    struct buf out = {0};
    const struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 0};

    (void)state;
    assert_int_equal(mqtt_frame_encode_empty(&e, MQTT_PINGRESP), E_OK);
    assert_int_equal(mqtt_frame_encode_empty(&e, MQTT_PINGREQ), E_OK);
    mqtt_test_encoded(&out, "d0 00 c0 00");
}

static void an_encoder_without_memory_appends_nothing(void **state)
{
    struct buf out = {0};
    const struct mqtt_encoder e = {&out, MEM_TEST, MQTT_VERSION_5, 0};
    const struct mqtt_encoder tiny = {&out, MEM_TEST, MQTT_VERSION_5, 1};

    (void)state;
    mem_fail_after(1);
    assert_int_equal(mqtt_frame_encode_empty(&e, MQTT_PINGRESP), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(mqtt_frame_encode_empty(&tiny, MQTT_PINGRESP), E_LIMIT);
    assert_int_equal(buf_size(&out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_flags_are_those_of_table_2_2),
        cmocka_unit_test(dup_is_allowed_in_3_1_where_an_answer_is_awaited),
        cmocka_unit_test(remaining_lengths_are_those_of_table_2_4),
        cmocka_unit_test(a_padded_length_is_refused_in_5_and_accepted_before),
        cmocka_unit_test(a_packet_over_the_limit_is_refused_with_its_fixed_header),
        cmocka_unit_test(pings_have_no_body),
        cmocka_unit_test(frames_follow_each_other),
        cmocka_unit_test(a_pingresp_is_two_bytes),
        cmocka_unit_test(an_encoder_without_memory_appends_nothing),
    };

    return cmocka_run_group_tests_name("mqtt_frame", tests, NULL, NULL);
}
