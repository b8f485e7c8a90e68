/* The MQTT codec as a connection uses it: the first byte chooses a version, the rest is a stream of packets. Whatever decodes is
 * encoded again where we can, and must decode to the same. */
#include <stdint.h>

#include "base/check.h"
#include "proto/mqtt/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PACKET_SIZE = 1 << 20 };

static const enum mqtt_version versions[] = {MQTT_VERSION_NONE, MQTT_VERSION_3_1, MQTT_VERSION_3_1_1, MQTT_VERSION_5};

/* Whether `part` lies inside of `whole`, where every decoded view must point. */
static void check_inside(struct str part, struct str whole)
{
    ASSERT(part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n));
}

static void check_properties(const struct mqtt_properties *props, unsigned type, struct str packet)
{
    struct mqtt_user_property up;
    struct mqtt_properties again;
    size_t users = 0, users_again = 0;
    char *written;

    check_inside(props->raw, packet);
    for (struct str rest = props->raw; mqtt_property_next_user(&rest, &up); users++) {
        check_inside(up.name, packet);
        check_inside(up.value, packet);
    }
    size_t size = mqtt_property_size(props);
    written = mem_alloc(MEM_TEST, size);
    ASSERT(mqtt_property_write(written, props) == written + size);
    /* Behind the length, which says how many bytes are left. */
    size_t length = 1;
    while (written[length - 1] & 0x80)
        length++;
    struct str raw = {written + length, size - length};
    ASSERT(mqtt_property_decode(raw, type, &again) == MQTT_REASON_SUCCESS);
    ASSERT(again.has == props->has);
    for (struct str rest = again.raw; mqtt_property_next_user(&rest, &up);)
        users_again++;
    ASSERT(users == users_again);
    mem_free(MEM_TEST, written);
}

/* A PUBLISH is forwarded to a subscriber and decoded there. */
static void check_publish(const struct mqtt_publish *m, enum mqtt_version version)
{
    struct mqtt_publish_out out = {.topic = m->topic, .payload = m->payload, .packet_id = m->packet_id, .qos = m->qos};
    struct buf buf = {0};
    const struct mqtt_encoder e = {&buf, MEM_TEST, version, 0};
    struct mqtt_publish again;
    struct mqtt_frame frame;

    out.dup = m->dup;
    out.retain = m->retain;
    out.properties.n = mqtt_publish_forward_size(&m->properties);
    char *raw = mem_alloc(MEM_TEST, out.properties.n + 1);
    ASSERT(mqtt_publish_forward_write(raw, &m->properties) == raw + out.properties.n);
    out.properties.p = raw;
    out.has_message_expiry = mqtt_property_has(&m->properties, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL);
    out.message_expiry_interval = out.has_message_expiry ? m->properties.message_expiry_interval : 0;
    out.topic_alias = mqtt_property_has(&m->properties, MQTT_PROPERTY_TOPIC_ALIAS) ? m->properties.topic_alias : 0;
    ASSERT(mqtt_publish_encode(&e, &out) == E_OK);
    ASSERT(buf_size(&buf) == mqtt_publish_size(version, &out));
    ASSERT(mqtt_frame_decode(buf_str(&buf), version, MQTT_PACKET_SIZE_MAX, &frame) == DECODE_DONE);
    ASSERT(frame.size == buf_size(&buf));
    ASSERT(mqtt_publish_decode(&frame, version, &again) == MQTT_REASON_SUCCESS);
    ASSERT(str_equal(again.topic, m->topic) && str_equal(again.payload, m->payload));
    ASSERT(again.packet_id == m->packet_id && again.qos == m->qos && again.dup == m->dup && again.retain == m->retain);
    ASSERT(again.properties.has == m->properties.has && again.properties.raw.n == m->properties.raw.n);
    buf_free(&buf, MEM_TEST);
    mem_free(MEM_TEST, raw);
}

static void check_ack(const struct mqtt_ack *ack, enum mqtt_type type, enum mqtt_version version)
{
    struct buf buf = {0};
    const struct mqtt_encoder e = {&buf, MEM_TEST, version, 0};
    struct mqtt_frame frame;
    struct mqtt_ack again;
    err encoded = E_OK;

    if (type == MQTT_DISCONNECT)
        encoded = mqtt_ack_encode_disconnect(&e, ack->reason, &ack->properties);
    else if (type == MQTT_AUTH)
        encoded = mqtt_ack_encode_auth(&e, ack->reason, &ack->properties);
    else
        encoded = mqtt_ack_encode(&e, type, ack->packet_id, ack->reason, &ack->properties);
    ASSERT(encoded == E_OK);
    if (buf_size(&buf)) { /* no DISCONNECT of a server before 5.0 */
        ASSERT(mqtt_frame_decode(buf_str(&buf), version, MQTT_PACKET_SIZE_MAX, &frame) == DECODE_DONE);
        ASSERT(mqtt_ack_decode(&frame, version, &again) == MQTT_REASON_SUCCESS);
        ASSERT(again.packet_id == ack->packet_id && again.reason == ack->reason);
        ASSERT(again.properties.has == ack->properties.has);
    }
    buf_free(&buf, MEM_TEST);
}

static void check_subscribe(const struct mqtt_subscribe *s, struct str packet)
{
    struct mqtt_subscription sub;
    uint32_t count = 0;

    for (struct str rest = s->filters; mqtt_subscribe_next(s, &rest, &sub); count++) {
        check_inside(sub.filter.text, packet);
        ASSERT(sub.filter.levels > 0 && sub.qos <= 2 && sub.retain_handling <= 2);
    }
    ASSERT(count == s->filter_count && count > 0);
}

static void check_connect(const struct mqtt_connect *c, struct str packet)
{
    check_inside(c->client_id, packet);
    check_inside(c->user_name, packet);
    check_inside(c->password, packet);
    check_properties(&c->properties, MQTT_CONNECT, packet);
    if (c->has_will) {
        check_inside(c->will.topic, packet);
        check_inside(c->will.payload, packet);
        check_properties(&c->will.properties, MQTT_WILL_PROPERTIES, packet);
    }
}

/* One packet: false when the connection ends here. */
static bool run_packet(const struct mqtt_frame *f, enum mqtt_version *version)
{
    union {
        struct mqtt_connect connect;
        struct mqtt_publish publish;
        struct mqtt_ack ack;
        struct mqtt_subscribe subscribe;
    } u;

    switch (f->type) {
    case MQTT_CONNECT:
        if (mqtt_connect_decode(f, &u.connect))
            return false;
        check_connect(&u.connect, f->body);
        *version = u.connect.version;
        return true;
    case MQTT_PUBLISH:
        if (mqtt_publish_decode(f, *version, &u.publish))
            return false;
        check_inside(u.publish.topic, f->body);
        check_inside(u.publish.payload, f->body);
        check_properties(&u.publish.properties, MQTT_PUBLISH, f->body);
        check_publish(&u.publish, *version);
        return true;
    case MQTT_SUBSCRIBE:
    case MQTT_UNSUBSCRIBE:
        if (mqtt_subscribe_decode(f, *version, &u.subscribe))
            return false;
        check_properties(&u.subscribe.properties, f->type, f->body);
        check_subscribe(&u.subscribe, f->body);
        return true;
    case MQTT_PUBACK:
    case MQTT_PUBREC:
    case MQTT_PUBREL:
    case MQTT_PUBCOMP:
    case MQTT_DISCONNECT:
    case MQTT_AUTH:
        if (*version == MQTT_VERSION_NONE || mqtt_ack_decode(f, *version, &u.ack))
            return false;
        check_properties(&u.ack.properties, f->type, f->body);
        check_ack(&u.ack, f->type, *version);
        return true;
    default:
        return f->type == MQTT_PINGREQ;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mqtt_frame frame = {0};

    if (size == 0)
        return 0;
    enum mqtt_version version = versions[data[0] % ARRAY_LEN(versions)];
    struct str in = {(const char *)data + 1, size - 1};

    while (mqtt_frame_decode(in, version, MAX_PACKET_SIZE, &frame) == DECODE_DONE) {
        ASSERT(frame.size <= in.n && frame.size >= 2);
        check_inside(frame.body, in);
        if (!run_packet(&frame, &version))
            break;
        in = str_from_offset(in, frame.size);
    }
    return 0;
}
