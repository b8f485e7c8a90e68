/* Properties of the codec as a whole, over generated packets of every type and version: what was encoded is decoded to the same
 * values; a packet cut or split anywhere is never taken for a whole one; nothing reads past the bytes it was given. */
#include "proto/mqtt/mqtt_test.h"
#include "proto/mqtt/mqtt_wire.h"

enum { ROUNDS = 3000 };

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

/* Some text that is a topic name, a filter and a string alike. At least one byte. */
static struct str random_text(void)
{
    static const struct str texts[] = {
        STR_INIT("a"),
        STR_INIT("a/b"),
        STR_INIT("telemetry"),
        STR_INIT("/"),
        STR_INIT("\xc3\xa9t\xc3\xa9/\xf0\xaa\x9b\x94"),
        STR_INIT("$x"),
        STR_INIT("a longer text that takes more than one hundred and twenty-seven bytes, so that lengths of one "
                 "byte become lengths of two bytes in some places"),
    };
    return texts[random_below(ARRAY_LEN(texts))];
}

static struct str random_bytes(void)
{
    static const char bytes[300] = {0, (char)0xff, '\n'};

    return (struct str){bytes, random_below(4) ? random_below(20) : random_below(sizeof bytes)};
}

/* A packet under construction. */
struct out {
    struct buf buf;
    struct buf user; /* User Properties */
};

static struct mqtt_properties random_properties(unsigned type, struct out *o)
{
    struct mqtt_properties p = {0};

    buf_consume(&o->user, buf_size(&o->user));
    for (unsigned which = 0; which < MQTT_PROPERTIES; which++) {
        const struct mqtt_property_row *row = &mqtt_property_table[which];

        if (!(row->packets >> type & 1) || random_below(2))
            continue;
        if (row->type == MQTT_TYPE_UTF8_STRING_PAIR) {
            for (uint32_t n = random_below(3) + 1; n > 0; n--)
                assert_int_equal(mqtt_property_append_user(&o->user, MEM_TEST, random_text(), random_text()), E_OK);
            p.has |= 1u << which;
        } else if (row->type == MQTT_TYPE_UTF8_STRING) {
            mqtt_property_set_text(&p, which, random_text());
        } else if (row->type == MQTT_TYPE_BINARY_DATA) {
            mqtt_property_set_text(&p, which, random_bytes());
        } else {
            mqtt_property_set_number(&p, which, row->maximum == 1 ? random_below(2) : random_below(65535) + 1);
        }
    }
    if (mqtt_property_has(&p, MQTT_PROPERTY_AUTHENTICATION_DATA) || type == MQTT_AUTH)
        mqtt_property_set_text(&p, MQTT_PROPERTY_AUTHENTICATION_METHOD, random_text());
    p.raw = buf_str(&o->user);
    return p;
}

static void assert_same_text(struct str a, struct str b)
{
    assert_true(str_equal(a, b));
}

static void assert_same_properties(const struct mqtt_properties *want, const struct mqtt_properties *got)
{
    struct mqtt_user_property a, b;
    struct str rest_a = want->raw, rest_b = got->raw;

    assert_int_equal(want->has, got->has);
    for (unsigned which = 0; which < MQTT_PROPERTIES; which++) {
        const struct mqtt_property_row *row = &mqtt_property_table[which];
        const char *x = (const char *)want + row->offset, *y = (const char *)got + row->offset;

        if (!mqtt_property_has(want, which) || row->type == MQTT_TYPE_UTF8_STRING_PAIR)
            continue;
        if (row->type == MQTT_TYPE_BYTE)
            assert_memory_equal(x, y, 1);
        else if (row->type == MQTT_TYPE_TWO_BYTE_INTEGER)
            assert_memory_equal(x, y, 2);
        else if (row->type <= MQTT_TYPE_VARIABLE_BYTE_INTEGER)
            assert_memory_equal(x, y, 4);
        else
            assert_same_text(*(const struct str *)(const void *)x, *(const struct str *)(const void *)y);
    }
    while (mqtt_property_next_user(&rest_a, &a)) {
        assert_true(mqtt_property_next_user(&rest_b, &b));
        assert_same_text(a.name, b.name);
        assert_same_text(a.value, b.value);
    }
    assert_false(mqtt_property_next_user(&rest_b, &b));
}

/* Decodes a copy of exactly the bytes, so that a sanitizer sees every read outside of them. */
static enum decode decode_copy(struct str in, enum mqtt_version version, enum mqtt_reason *out_reason, size_t *out_size)
{
    char *copy = malloc(in.n ? in.n : 1);
    struct mqtt_test_packet p;

    if (!copy)
        abort();
    if (in.n)
        memcpy(copy, in.p, in.n);
    enum decode got = mqtt_frame_decode((struct str){copy, in.n}, version, MQTT_PACKET_SIZE_MAX, &p.frame);
    *out_size = got == DECODE_BAD ? 0 : p.frame.size;
    if (got == DECODE_DONE) {
        *out_reason = mqtt_test_decode_body(version, &p);
        if (*out_reason == 0 && (p.frame.type == MQTT_SUBSCRIBE || p.frame.type == MQTT_UNSUBSCRIBE)) {
            struct mqtt_subscription sub;

            for (struct str rest = p.subscribe.filters; mqtt_subscribe_next(&p.subscribe, &rest, &sub);)
                assert_true(sub.filter.levels > 0);
        }
    }
    free(copy);
    return got;
}

/* The packet in `b`, whole, cut at every byte, with its length shortened to the cut, and with bytes changed. */
static void torture(struct str packet, enum mqtt_version version)
{
    enum mqtt_reason reason;
    size_t size, header;

    assert_int_equal(decode_copy(packet, version, &reason, &size), DECODE_DONE);
    assert_int_equal(size, packet.n);
    for (size_t n = 0; n < packet.n; n++) {
        assert_int_equal(decode_copy((struct str){packet.p, n}, version, &reason, &size), DECODE_MORE);
        assert_true(size == 0 || size == packet.n);
    }

    char *changed = malloc(packet.n + 8);
    if (!changed)
        abort();
    for (header = 2; packet.p[header - 1] & 0x80; header++)
        ;
    for (size_t n = header; n < packet.n; n++) {
        changed[0] = packet.p[0];
        char *end = mqtt_wire_put_varint(changed + 1, n - header);
        memcpy(end, packet.p + header, n - header);
        end += n - header;
        assert_int_equal(decode_copy((struct str){changed, (size_t)(end - changed)}, version, &reason, &size), DECODE_DONE);
    }
    for (unsigned i = 0; i < 20; i++) {
        memcpy(changed, packet.p, packet.n);
        for (uint32_t n = random_below(3) + 1; n > 0; n--)
            changed[random_below((uint32_t)packet.n)] = (char)random_below(256);
        (void)decode_copy((struct str){changed, packet.n}, version, &reason, &size);
    }
    free(changed);
}

static void begin(struct out *o, enum mqtt_version version, uint64_t seed, struct mqtt_encoder *e)
{
    random_state = seed;
    *o = (struct out){0};
    *e = (struct mqtt_encoder){&o->buf, MEM_TEST, version, 0};
}

static void end(struct out *o)
{
    buf_free(&o->buf, MEM_TEST);
    buf_free(&o->user, MEM_TEST);
}

static void publish(enum mqtt_version version, uint64_t seed)
{
    static const uint32_t ids[] = {1, 128, 16384, 268435455};
    struct mqtt_publish_out m = {0};
    struct mqtt_test_packet p;
    struct mqtt_encoder e;
    struct out o;
    char forwarded[8192];

    begin(&o, version, seed, &e);
    struct mqtt_properties props = random_properties(MQTT_PUBLISH, &o);
    char *written = mqtt_property_write(forwarded, &props);
    struct mqtt_wire r = mqtt_wire_reader((struct str){forwarded, (size_t)(written - forwarded)});
    struct mqtt_properties decoded;

    assert_int_equal(mqtt_property_read(&r, MQTT_PUBLISH, &decoded), 0);
    char raw[8192];
    m.properties = (struct str){raw, mqtt_publish_forward_size(&decoded)};
    assert_ptr_equal(mqtt_publish_forward_write(raw, &decoded), raw + m.properties.n);
    m.topic = random_text();
    m.payload = random_bytes();
    m.qos = (uint8_t)random_below(3);
    m.packet_id = m.qos ? (uint16_t)(random_below(65535) + 1) : 0;
    m.retain = random_below(2);
    m.dup = m.qos && random_below(2);
    m.has_message_expiry = mqtt_property_has(&decoded, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL);
    m.message_expiry_interval = decoded.message_expiry_interval;
    m.topic_alias = mqtt_property_has(&decoded, MQTT_PROPERTY_TOPIC_ALIAS) ? decoded.topic_alias : 0;
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    assert_int_equal(buf_size(&o.buf), mqtt_publish_size(version, &m));
    assert_int_equal(mqtt_test_decode(buf_str(&o.buf), version, &p), 0);
    assert_same_text(m.topic, p.publish.topic);
    assert_same_text(m.payload, p.publish.payload);
    assert_true(m.qos == p.publish.qos && m.packet_id == p.publish.packet_id);
    assert_true(m.dup == p.publish.dup && m.retain == p.publish.retain);
    if (version == MQTT_VERSION_5) {
        props.has &= ~(1u << MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER);
        assert_same_properties(&props, &p.publish.properties);
    } else {
        assert_int_equal(p.publish.properties.has, 0);
    }
    torture(buf_str(&o.buf), version);

    buf_consume(&o.buf, buf_size(&o.buf));
    m.subscription_ids = ids;
    m.subscription_id_count = random_below(5);
    assert_int_equal(mqtt_publish_encode(&e, &m), E_OK);
    assert_int_equal(mqtt_frame_decode(buf_str(&o.buf), version, MQTT_PACKET_SIZE_MAX, &p.frame), DECODE_DONE);
    assert_int_equal(mqtt_publish_decode_from_server(&p.frame, version, &p.publish), 0);
    struct str rest = p.publish.properties.raw;
    for (size_t i = 0; version == MQTT_VERSION_5 && i < m.subscription_id_count; i++) {
        uint32_t id;

        assert_true(mqtt_property_next_subscription(&rest, &id) && id == ids[i]);
    }
    end(&o);
}

static void ack(enum mqtt_version version, uint64_t seed, enum mqtt_type type)
{
    struct mqtt_test_packet p;
    struct mqtt_encoder e;
    struct out o;
    uint32_t reason;

    begin(&o, version, seed, &e);
    struct mqtt_properties props = random_properties(type, &o);
    uint16_t id = (uint16_t)(random_below(65535) + 1);

    do
        reason = random_below(256);
    while (!mqtt_reason_is_allowed(type, (uint8_t)reason));
    if (version != MQTT_VERSION_5)
        reason = 0;
    if (type == MQTT_DISCONNECT)
        assert_int_equal(mqtt_ack_encode_disconnect(&e, reason, &props), E_OK);
    else if (type == MQTT_AUTH)
        assert_int_equal(mqtt_ack_encode_auth(&e, reason, &props), E_OK);
    else
        assert_int_equal(mqtt_ack_encode(&e, type, id, reason, &props), E_OK);
    assert_int_equal(mqtt_test_decode(buf_str(&o.buf), version, &p), 0);
    assert_int_equal(p.ack.reason, reason);
    assert_int_equal(p.ack.packet_id, type == MQTT_DISCONNECT || type == MQTT_AUTH ? 0 : id);
    if (version == MQTT_VERSION_5)
        assert_same_properties(&props, &p.ack.properties);
    torture(buf_str(&o.buf), version);
    end(&o);
}

/* The sender's side of CONNECT and SUBSCRIBE exists here only: what follows the fixed header is written to `p`. */
static void frame(struct out *o, unsigned first, const char *body, const char *body_end)
{
    size_t n = (size_t)(body_end - body);
    char *p = buf_reserve(&o->buf, MEM_TEST, n + 5);

    assert_non_null(p);
    char *start = p;
    p = mqtt_wire_put_bytes(mqtt_wire_put_varint(mqtt_wire_put_u8(p, first), n), (struct str){body, n});
    buf_commit(&o->buf, (size_t)(p - start));
}

static void connect(enum mqtt_version version, uint64_t seed)
{
    struct mqtt_test_packet p;
    struct mqtt_encoder e;
    struct out o, will_user = {0};
    char body[16384];

    begin(&o, version, seed, &e);
    struct mqtt_properties props = random_properties(MQTT_CONNECT, &o),
                           will = random_properties(MQTT_WILL_PROPERTIES, &will_user);
    struct str id = random_text(), topic = random_text(), payload = random_bytes(), user = random_text(),
               password = random_bytes();
    bool has_will = random_below(2), has_user = random_below(2), has_password = has_user && random_below(2);
    bool clean = random_below(2), retain = has_will && random_below(2);
    unsigned qos = has_will ? random_below(3) : 0, keep_alive = random_below(65536);
    char *end_of_body = mqtt_wire_put_binary(body, version == MQTT_VERSION_3_1 ? STR("MQIsdp") : STR("MQTT"));

    end_of_body = mqtt_wire_put_u8(end_of_body, version);
    end_of_body =
        mqtt_wire_put_u8(end_of_body, (unsigned)clean << 1 | (unsigned)has_will << 2 | qos << 3 | (unsigned)retain << 5 |
                                          (unsigned)has_password << 6 | (unsigned)has_user << 7);
    end_of_body = mqtt_wire_put_u16(end_of_body, keep_alive);
    if (version == MQTT_VERSION_5)
        end_of_body = mqtt_property_write(end_of_body, &props);
    end_of_body = mqtt_wire_put_binary(end_of_body, id);
    if (has_will && version == MQTT_VERSION_5)
        end_of_body = mqtt_property_write(end_of_body, &will);
    if (has_will)
        end_of_body = mqtt_wire_put_binary(mqtt_wire_put_binary(end_of_body, topic), payload);
    if (has_user)
        end_of_body = mqtt_wire_put_binary(end_of_body, user);
    if (has_password)
        end_of_body = mqtt_wire_put_binary(end_of_body, password);
    frame(&o, MQTT_CONNECT << 4, body, end_of_body);

    assert_int_equal(mqtt_test_decode(buf_str(&o.buf), MQTT_VERSION_NONE, &p), 0);
    const struct mqtt_connect *c = &p.connect;
    assert_true(c->version == version && c->clean_start == clean && c->keep_alive == keep_alive);
    assert_true(c->has_will == has_will && c->has_user_name == has_user && c->has_password == has_password);
    assert_same_text(id, c->client_id);
    assert_same_text(has_user ? user : (struct str){0}, c->user_name);
    assert_same_text(has_password ? password : (struct str){0}, c->password);
    if (has_will) {
        assert_same_text(topic, c->will.topic);
        assert_same_text(payload, c->will.payload);
        assert_true(c->will.qos == qos && c->will.is_retained == retain);
    }
    if (version == MQTT_VERSION_5) {
        assert_same_properties(&props, &c->properties);
        if (has_will)
            assert_same_properties(&will, &c->will.properties);
    }
    torture(buf_str(&o.buf), MQTT_VERSION_NONE);
    end(&o);
    end(&will_user);
}

static void subscribe(enum mqtt_version version, uint64_t seed, enum mqtt_type type)
{
    struct mqtt_test_packet p;
    struct mqtt_subscription sub;
    struct mqtt_encoder e;
    struct out o;
    struct str texts[5];
    uint8_t options[5];
    char body[16384];

    begin(&o, version, seed, &e);
    struct mqtt_properties props = random_properties(type, &o);
    size_t count = random_below(5) + 1;
    char *end_of_body = mqtt_wire_put_u16(body, 7);

    if (version == MQTT_VERSION_5)
        end_of_body = mqtt_property_write(end_of_body, &props);
    for (size_t i = 0; i < count; i++) {
        texts[i] = random_below(2) ? random_text() : random_below(2) ? STR("+/#") : STR("$share/g/+");
        options[i] = (uint8_t)random_below(3);
        if (version == MQTT_VERSION_5)
            options[i] |= (uint8_t)(random_below(2) << 3 | random_below(3) << 4);
        end_of_body = mqtt_wire_put_binary(end_of_body, texts[i]);
        if (type == MQTT_SUBSCRIBE)
            end_of_body = mqtt_wire_put_u8(end_of_body, options[i]);
    }
    frame(&o, (unsigned)type << 4 | 2, body, end_of_body);

    assert_int_equal(mqtt_test_decode(buf_str(&o.buf), version, &p), 0);
    assert_true(p.subscribe.packet_id == 7 && p.subscribe.filter_count == count);
    if (version == MQTT_VERSION_5)
        assert_same_properties(&props, &p.subscribe.properties);
    size_t i = 0;
    for (struct str rest = p.subscribe.filters; mqtt_subscribe_next(&p.subscribe, &rest, &sub); i++) {
        unsigned got =
            sub.qos | (unsigned)sub.no_local << 2 | (unsigned)sub.retain_as_published << 3 | (unsigned)sub.retain_handling << 4;

        assert_same_text(texts[i], sub.filter.text);
        assert_int_equal(got, type == MQTT_SUBSCRIBE ? options[i] : 0);
    }
    assert_int_equal(i, count);
    torture(buf_str(&o.buf), version);
    end(&o);
}

static void publishes_survive(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        publish(MQTT_VERSION_3_1 + (unsigned)(seed % 3), seed);
}

static void acknowledgements_disconnects_and_auths_survive(void **state)
{
    static const enum mqtt_type types[] = {MQTT_PUBACK, MQTT_PUBREC, MQTT_PUBREL, MQTT_PUBCOMP, MQTT_DISCONNECT, MQTT_AUTH};

    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        ack(MQTT_VERSION_5, seed, types[seed % 6]);
        ack(MQTT_VERSION_3_1_1, seed, types[seed % 4]);
    }
}

static void connects_survive(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        connect(MQTT_VERSION_3_1 + (unsigned)(seed % 3), seed);
}

static void subscriptions_survive(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        subscribe(MQTT_VERSION_3_1 + (unsigned)(seed % 3), seed, seed & 1 ? MQTT_SUBSCRIBE : MQTT_UNSUBSCRIBE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publishes_survive),
        cmocka_unit_test(acknowledgements_disconnects_and_auths_survive),
        cmocka_unit_test(connects_survive),
        cmocka_unit_test(subscriptions_survive),
    };

    return cmocka_run_group_tests_name("mqtt_roundtrip", tests, NULL, NULL);
}
