#include "proto/mqtt/mqtt_property.h"

#include "proto/mqtt/mqtt_test.h"

/* Table 2-4 once more, as letters: c CONNECT, k CONNACK, p PUBLISH, w will, a PUBACK and its like, s SUBSCRIBE, S SUBACK,
 * u UNSUBSCRIBE, U UNSUBACK, d DISCONNECT, A AUTH. `value` is a valid one. */
static const struct {
    uint8_t id;
    const char *packets;
    const char *value;
    const char *out_of_range; /* NULL when every value is valid */
} specification[] = {
    {0x01, "pw", "01", "02"},
    {0x02, "pw", "00 00 00 00", NULL},
    {0x03, "pw", "00 04 'text'", NULL},
    {0x08, "pw", "00 03 'a/b'", "00 03 'a/#'"},
    {0x09, "pw", "00 02 00 ff", NULL},
    {0x0b, "ps", "ff ff ff 7f", "00"},
    {0x11, "ckd", "ff ff ff ff", NULL},
    {0x12, "k", "00 01 'c'", NULL},
    {0x13, "k", "00 00", NULL},
    {0x15, "ckA", "00 01 'm'", NULL},
    {0x16, "ckA", "00 01 00", NULL},
    {0x17, "c", "00", "02"},
    {0x18, "w", "00 00 00 01", NULL},
    {0x19, "c", "01", "02"},
    {0x1a, "k", "00 01 'i'", NULL},
    {0x1c, "kd", "00 01 's'", NULL},
    {0x1f, "kaSUdA", "00 01 'r'", NULL},
    {0x21, "ck", "00 01", "00 00"},
    {0x22, "ck", "00 00", NULL},
    {0x23, "p", "00 01", "00 00"},
    {0x24, "k", "01", "02"},
    {0x25, "k", "01", "02"},
    {0x26, "cpwksSuUadA", "00 01 'n' 00 01 'v'", NULL},
    {0x27, "ck", "00 00 00 01", "00 00 00 00"},
    {0x28, "k", "00", "02"},
    {0x29, "k", "00", "ff"},
    {0x2a, "k", "00", "80"},
};

static const char letter_by_type[] = {
    [MQTT_WILL_PROPERTIES] = 'w', [MQTT_CONNECT] = 'c',  [MQTT_CONNACK] = 'k',     [MQTT_PUBLISH] = 'p',
    [MQTT_PUBACK] = 'a',          [MQTT_PUBREC] = 'a',   [MQTT_PUBREL] = 'a',      [MQTT_PUBCOMP] = 'a',
    [MQTT_SUBSCRIBE] = 's',       [MQTT_SUBACK] = 'S',   [MQTT_UNSUBSCRIBE] = 'u', [MQTT_UNSUBACK] = 'U',
    [MQTT_PINGREQ] = '-',         [MQTT_PINGRESP] = '-', [MQTT_DISCONNECT] = 'd',  [MQTT_AUTH] = 'A',
};

static struct mqtt_test_bytes property(uint8_t id, const char *value)
{
    char text[128];

    snprintf(text, sizeof text, "%02x %s", id, value);
    return mqtt_test_parse(text);
}

static enum mqtt_reason decode(const char *text, unsigned type, struct mqtt_properties *out)
{
    static struct mqtt_test_bytes b;

    b = mqtt_test_parse(text);
    return mqtt_property_decode(mqtt_test_view(&b), type, out);
}

static void the_table_is_the_specifications(void **state)
{
    (void)state;
    assert_int_equal(ARRAY_LEN(specification), MQTT_PROPERTIES);
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        enum mqtt_property which;

        assert_true(mqtt_property_find(specification[i].id, &which));
        assert_int_equal(mqtt_property_table[which].id, specification[i].id);
        assert_non_null(mqtt_property_table[which].name);
        for (unsigned type = 0; type <= MQTT_AUTH; type++)
            assert_int_equal(mqtt_property_table[which].packets >> type & 1,
                             strchr(specification[i].packets, letter_by_type[type]) != NULL);
    }
    for (unsigned id = 0, known = 0; id < 1000; id++) {
        enum mqtt_property which;

        known += mqtt_property_find(id, &which);
        assert_true(id < 999 || known == MQTT_PROPERTIES);
    }
}

static void every_property_is_accepted_where_table_2_4_has_it_and_only_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        struct mqtt_test_bytes b = property(specification[i].id, specification[i].value);
        enum mqtt_property which;

        assert_true(mqtt_property_find(specification[i].id, &which));
        for (unsigned type = 0; type <= MQTT_AUTH; type++) {
            struct mqtt_properties props;
            bool is_allowed = strchr(specification[i].packets, letter_by_type[type]) != NULL;
            enum mqtt_reason got = mqtt_property_decode(mqtt_test_view(&b), type, &props);

            if (specification[i].id == 0x16 && is_allowed) /* needs a method, tested below */
                assert_int_equal(got, MQTT_REASON_PROTOCOL_ERROR);
            else if (got != (is_allowed ? MQTT_REASON_SUCCESS : MQTT_REASON_MALFORMED_PACKET)) /* section 2.2.2.2 */
                fail_msg("property 0x%02x in packet %u: 0x%02x", specification[i].id, type, got);
            if (is_allowed)
                assert_int_equal(props.has, 1u << which);
        }
    }
}

static void a_property_cut_anywhere_is_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        struct mqtt_test_bytes b = property(specification[i].id, specification[i].value);

        for (unsigned type = 0; type <= MQTT_AUTH; type++) {
            for (size_t n = 1; n < b.n; n++) {
                struct mqtt_properties props;

                assert_int_equal(mqtt_property_decode((struct str){b.p, n}, type, &props), MQTT_REASON_MALFORMED_PACKET);
            }
        }
    }
}

static void a_property_occurs_once_unless_it_is_repeatable(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        struct mqtt_test_bytes b = property(specification[i].id, specification[i].value);

        memcpy(b.p + b.n, b.p, b.n);
        b.n *= 2;
        for (unsigned type = 0; type <= MQTT_AUTH; type++) {
            struct mqtt_properties props;
            bool is_repeatable = specification[i].id == 0x26 || (specification[i].id == 0x0b && type == MQTT_PUBLISH);

            if (strchr(specification[i].packets, letter_by_type[type]))
                assert_int_equal(mqtt_property_decode(mqtt_test_view(&b), type, &props),
                                 is_repeatable ? MQTT_REASON_SUCCESS : MQTT_REASON_PROTOCOL_ERROR);
        }
    }
}

static void a_value_out_of_range_is_a_protocol_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        if (!specification[i].out_of_range)
            continue;
        struct mqtt_test_bytes b = property(specification[i].id, specification[i].out_of_range);

        for (unsigned type = 0; type <= MQTT_AUTH; type++) {
            struct mqtt_properties props;
            /* [MQTT-3.3.2-8] for the alias */
            enum mqtt_reason want = specification[i].id == 0x23 ? MQTT_REASON_TOPIC_ALIAS_INVALID : MQTT_REASON_PROTOCOL_ERROR;

            if (strchr(specification[i].packets, letter_by_type[type]))
                assert_int_equal(mqtt_property_decode(mqtt_test_view(&b), type, &props), want);
        }
    }
}

static void other_faults_have_the_specifications_reasons(void **state)
{
    static const struct {
        const char *statement, *properties;
        unsigned type;
        enum mqtt_reason want;
    } rows[] = {
        {"unknown identifier", "04 01", MQTT_CONNECT, MQTT_REASON_MALFORMED_PACKET},
        {"identifier 0", "00 01", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"identifier of two bytes", "a6 01 00 00 00 00", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"identifier padded [MQTT-1.5.5-1]", "a6 00 00 00 00 00", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"identifier of five bytes", "80 80 80 80 01 01", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"subscription identifier padded", "0b 80 00", MQTT_SUBSCRIBE, MQTT_REASON_MALFORMED_PACKET},
        {"subscription identifier of five bytes", "0b 80 80 80 80 01", MQTT_SUBSCRIBE, MQTT_REASON_MALFORMED_PACKET},
        {"content type with U+D800 [MQTT-1.5.4-1]", "03 00 03 ed a0 80", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"content type with U+0000 [MQTT-1.5.4-2]", "03 00 01 00", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"user property name [MQTT-1.5.7-1]", "26 00 01 ff 00 01 'v'", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"user property value [MQTT-1.5.7-1]", "26 00 01 'n' 00 01 c3", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"response topic empty [MQTT-4.7.3-1]", "08 00 00", MQTT_PUBLISH, MQTT_REASON_PROTOCOL_ERROR},
        {"response topic + [MQTT-3.3.2-14]", "08 00 01 '+'", MQTT_PUBLISH, MQTT_REASON_PROTOCOL_ERROR},
        {"response topic not UTF-8 [MQTT-3.3.2-13]", "08 00 01 80", MQTT_PUBLISH, MQTT_REASON_MALFORMED_PACKET},
        {"data without method", "16 00 01 00", MQTT_CONNECT, MQTT_REASON_PROTOCOL_ERROR},
        {"data before method", "16 00 01 00 15 00 01 'm'", MQTT_CONNECT, MQTT_REASON_SUCCESS},
        {"empty texts", "03 00 00 09 00 00 26 00 00 00 00", MQTT_PUBLISH, MQTT_REASON_SUCCESS},
        {"nothing", "", MQTT_PUBLISH, MQTT_REASON_SUCCESS},
    };
    struct mqtt_properties props;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (decode(rows[i].properties, rows[i].type, &props) != rows[i].want)
            fail_msg("%s", rows[i].statement);
}

static void values_arrive_in_their_fields(void **state)
{
    struct mqtt_properties p;

    (void)state;
    assert_int_equal(
        decode("11 01 02 03 04 21 01 02 27 00 00 00 05 22 00 06 19 01 17 00 15 00 01 'm' 16 00 02 00 01", MQTT_CONNECT, &p), 0);
    assert_int_equal(p.session_expiry_interval, 0x01020304);
    assert_int_equal(p.receive_maximum, 0x0102);
    assert_int_equal(p.maximum_packet_size, 5);
    assert_int_equal(p.topic_alias_maximum, 6);
    assert_true(p.request_response_information == 1 && p.request_problem_information == 0);
    assert_true(str_equal(p.authentication_method, STR("m")) && str_equal(p.authentication_data, STR("\0\1")));
    assert_true(mqtt_property_has(&p, MQTT_PROPERTY_REQUEST_PROBLEM_INFORMATION));
    assert_false(mqtt_property_has(&p, MQTT_PROPERTY_USER_PROPERTY));

    assert_int_equal(
        decode("01 01 02 00 00 00 07 03 00 01 't' 08 00 01 'r' 09 00 01 'd' 23 00 08 0b 81 01 0b 02", MQTT_PUBLISH, &p), 0);
    assert_true(p.payload_format_indicator == 1 && p.message_expiry_interval == 7 && p.topic_alias == 8);
    assert_int_equal(p.subscription_identifier, 129); /* the first one */
    assert_true(str_equal(p.content_type, STR("t")) && str_equal(p.response_topic, STR("r")) &&
                str_equal(p.correlation_data, STR("d")));

    assert_int_equal(decode("18 00 00 00 09", MQTT_WILL_PROPERTIES, &p), 0);
    assert_int_equal(p.will_delay_interval, 9);
}

static void iterators_find_the_repeatable_ones_in_order(void **state)
{
    struct mqtt_properties p;
    struct mqtt_user_property up;
    struct str rest;
    uint32_t id;

    (void)state;
    assert_int_equal(
        decode("26 00 01 'a' 00 01 '1' 0b 05 01 00 26 00 01 'b' 00 00 0b ff 7f 26 00 01 'a' 00 01 '2'", MQTT_PUBLISH, &p), 0);
    rest = p.raw;
    assert_true(mqtt_property_next_user(&rest, &up) && str_equal(up.name, STR("a")) && str_equal(up.value, STR("1")));
    assert_true(mqtt_property_next_user(&rest, &up) && str_equal(up.name, STR("b")) && str_equal(up.value, STR("")));
    assert_true(mqtt_property_next_user(&rest, &up) && str_equal(up.name, STR("a")) && str_equal(up.value, STR("2")));
    assert_false(mqtt_property_next_user(&rest, &up));
    assert_false(mqtt_property_next_user(&rest, &up));
    rest = p.raw;
    assert_true(mqtt_property_next_subscription(&rest, &id) && id == 5);
    assert_true(mqtt_property_next_subscription(&rest, &id) && id == 16383);
    assert_false(mqtt_property_next_subscription(&rest, &id));
    rest = (struct str){0};
    assert_false(mqtt_property_next_user(&rest, &up));
}

static void iterators_stop_at_bytes_that_were_not_checked(void **state)
{
    struct mqtt_user_property up;
    struct str unknown = STR("\x04\x01"), cut = STR("\x26\x00\x09n");

    (void)state;
    assert_false(mqtt_property_next_user(&unknown, &up));
    assert_false(mqtt_property_next_user(&cut, &up));
}

static void properties_are_written_in_the_order_of_the_table(void **state)
{
    struct mqtt_properties p = {0};
    struct buf user = {0};
    char out[128];
    struct mqtt_test_bytes want = mqtt_test_parse("1b 11 00 00 00 3c 22 00 0a 27 00 1e 84 80 21 00 14 26 00 01 'n' 00 02 'vv'");

    (void)state;
    want.p[0] = (char)(want.n - 1);
    mqtt_property_set_number(&p, MQTT_PROPERTY_RECEIVE_MAXIMUM, 20);
    mqtt_property_set_number(&p, MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM, 10);
    mqtt_property_set_number(&p, MQTT_PROPERTY_MAXIMUM_PACKET_SIZE, 2000000);
    mqtt_property_set_number(&p, MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL, 60);
    assert_int_equal(mqtt_property_append_user(&user, MEM_TEST, STR("n"), STR("vv")), E_OK);
    p.raw = buf_str(&user);
    assert_int_equal(mqtt_property_size(&p), want.n);
    assert_ptr_equal(mqtt_property_write(out, &p), out + want.n);
    assert_memory_equal(out, want.p, want.n);
    buf_free(&user, MEM_TEST);
}

static void no_properties_take_one_byte(void **state)
{
    struct mqtt_properties p = {0};
    char out[4];

    (void)state;
    assert_int_equal(mqtt_property_size(&p), 1);
    assert_ptr_equal(mqtt_property_write(out, &p), out + 1);
    assert_int_equal(out[0], 0);
}

static void every_property_survives_writing_and_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specification); i++) {
        struct mqtt_test_bytes b = property(specification[i].id, specification[i].value);

        for (unsigned type = 0; type <= MQTT_AUTH; type++) {
            struct mqtt_properties p;
            struct buf bare = {0};
            char out[128];

            if (mqtt_property_decode(mqtt_test_view(&b), type, &p) != MQTT_REASON_SUCCESS)
                continue;
            assert_int_equal(mqtt_property_size(&p), 1 + b.n);
            assert_ptr_equal(mqtt_property_write(out, &p), out + 1 + b.n);
            assert_memory_equal(out + 1, b.p, b.n);
            assert_int_equal(mqtt_property_encode_bare(&bare, MEM_TEST, &p), E_OK);
            assert_true(str_equal(buf_str(&bare), mqtt_test_view(&b)));
            buf_free(&bare, MEM_TEST);
        }
    }
}

static void a_user_property_of_too_long_text_is_refused(void **state)
{
    struct buf out = {0};
    char *text = calloc(1, 65536);

    (void)state;
    assert_int_equal(mqtt_property_append_user(&out, MEM_TEST, (struct str){text, 65536}, STR("v")), E_INVAL);
    assert_int_equal(mqtt_property_append_user(&out, MEM_TEST, STR("n"), (struct str){text, 65536}), E_INVAL);
    mem_fail_after(1);
    assert_int_equal(mqtt_property_append_user(&out, MEM_TEST, STR("n"), STR("v")), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(buf_size(&out), 0);
    free(text);
}

static void trimming_drops_user_properties_before_the_reason_string(void **state)
{
    struct mqtt_properties p, kept;
    struct mqtt_encoder e = {.version = MQTT_VERSION_5};
    size_t whole, without_user, without_both;

    (void)state;
    assert_int_equal(decode("1f 00 05 'cause' 26 00 01 'n' 00 01 'v'", MQTT_PUBACK, &p), 0);
    whole = mqtt_frame_size(3 + 1 + p.raw.n);
    without_user = whole - 7;
    without_both = without_user - 8;
    const struct {
        uint32_t limit;
        bool has_user, has_reason;
    } rows[] = {
        {0, true, true},
        {(uint32_t)whole, true, true},
        {(uint32_t)whole - 1, false, true},
        {(uint32_t)without_user, false, true},
        {(uint32_t)without_user - 1, false, false},
        {(uint32_t)without_both - 1, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        e.max_packet_size = rows[i].limit;
        kept = mqtt_property_trim(&e, 3, &p);
        assert_int_equal(kept.raw.n > 0, rows[i].has_user);
        assert_int_equal(mqtt_property_has(&kept, MQTT_PROPERTY_REASON_STRING), rows[i].has_reason);
    }
    e = (struct mqtt_encoder){.version = MQTT_VERSION_3_1_1};
    kept = mqtt_property_trim(&e, 3, &p);
    assert_true(kept.has == 0 && kept.raw.n == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_specifications),
        cmocka_unit_test(every_property_is_accepted_where_table_2_4_has_it_and_only_there),
        cmocka_unit_test(a_property_cut_anywhere_is_malformed),
        cmocka_unit_test(a_property_occurs_once_unless_it_is_repeatable),
        cmocka_unit_test(a_value_out_of_range_is_a_protocol_error),
        cmocka_unit_test(other_faults_have_the_specifications_reasons),
        cmocka_unit_test(values_arrive_in_their_fields),
        cmocka_unit_test(iterators_find_the_repeatable_ones_in_order),
        cmocka_unit_test(iterators_stop_at_bytes_that_were_not_checked),
        cmocka_unit_test(properties_are_written_in_the_order_of_the_table),
        cmocka_unit_test(no_properties_take_one_byte),
        cmocka_unit_test(every_property_survives_writing_and_reading),
        cmocka_unit_test(a_user_property_of_too_long_text_is_refused),
        cmocka_unit_test(trimming_drops_user_properties_before_the_reason_string),
    };

    return cmocka_run_group_tests_name("mqtt_property", tests, NULL, NULL);
}
