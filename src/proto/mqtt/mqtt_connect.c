#include "proto/mqtt/mqtt_connect.h"

#include "base/check.h"
#include "proto/mqtt/mqtt_wire.h"
#include "proto/mqtt/topic.h"

/* Connect flags, section 3.1.2.3. */
enum {
    RESERVED = 0x01,
    CLEAN_START = 0x02,
    WILL = 0x04,
    WILL_QOS_SHIFT = 3,
    WILL_RETAIN = 0x20,
    PASSWORD = 0x40,
    USER_NAME = 0x80,
};

static const struct {
    struct str name;
    enum mqtt_version version;
} protocols[] = {
    {STR_INIT("MQTT"), MQTT_VERSION_3_1_1},
    {STR_INIT("MQTT"), MQTT_VERSION_5},
    {STR_INIT("MQIsdp"), MQTT_VERSION_3_1},
};

/* Finds out which MQTT this is, and in which to answer. [MQTT-3.1.2-1, 3.1.2-2] */
static enum mqtt_reason find_version(struct str name, uint8_t level, enum mqtt_version *out)
{
    bool is_name_known = false;

    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        bool is_name = str_equal(name, protocols[i].name);

        if (is_name && level == protocols[i].version) {
            *out = protocols[i].version;
            return MQTT_REASON_SUCCESS;
        }
        is_name_known |= is_name;
    }
    if (!is_name_known)
        return MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION; /* *out stays MQTT_VERSION_NONE */
    /* Bridges set the highest bit and try again without it, when they are told so in words they know. */
    unsigned nearest = level & 0x7f;
    *out = nearest == MQTT_VERSION_3_1 || nearest == MQTT_VERSION_3_1_1 ? MQTT_VERSION_3_1_1 : MQTT_VERSION_5;
    return MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION;
}

/* Whether the flags agree with each other and the header. 3.1 has no such rules but those that keep the packet readable. */
static bool are_flags_valid(const struct mqtt_frame *frame, uint8_t flags, enum mqtt_version version)
{
    bool has_will_options = flags & (WILL_RETAIN | 3u << WILL_QOS_SHIFT);

    if ((flags >> WILL_QOS_SHIFT & 3u) == 3) /* [MQTT-3.1.2-12] */
        return false;
    if ((flags & (USER_NAME | PASSWORD)) == PASSWORD && version != MQTT_VERSION_5) /* [MQTT-3.1.2-22] of 3.1.1 */
        return false;
    if (version == MQTT_VERSION_3_1)
        return true;
    if (frame->flags != 0 || flags & RESERVED) /* [MQTT-2.1.3-1, 3.1.2-3] */
        return false;
    return flags & WILL || !has_will_options; /* [MQTT-3.1.2-11, 3.1.2-13] */
}

/* Whether the remaining length was written in the fewest bytes, as 5.0 demands; the frame did not know the version. */
static bool is_length_minimal(const struct mqtt_frame *frame)
{
    return frame->size == mqtt_frame_size(frame->body.n); /* [MQTT-1.5.5-1] */
}

static enum mqtt_reason read_will(struct mqtt_wire *r, uint8_t flags, enum mqtt_version version, struct mqtt_will *out)
{
    out->qos = flags >> WILL_QOS_SHIFT & 3u;
    out->is_retained = flags & WILL_RETAIN;
    out->properties.has = 0;
    out->properties.raw = (struct str){0};
    if (version == MQTT_VERSION_5) {
        enum mqtt_reason reason = mqtt_property_read(r, MQTT_WILL_PROPERTIES, &out->properties);

        if (reason)
            return reason;
    }
    out->topic = mqtt_wire_binary(r);
    out->payload = mqtt_wire_binary(r);
    if (r->is_short || topic_check_name(out->topic, &out->topic_levels) != E_OK) /* [MQTT-3.1.3-11, 3.1.3-12] */
        return MQTT_REASON_MALFORMED_PACKET;
    return MQTT_REASON_SUCCESS;
}

/* User name and password. In 3.1 the end of the packet takes precedence over the flags (its section 3.1). */
static bool read_optional(struct mqtt_wire *r, bool is_flagged, enum mqtt_version version, struct str *out)
{
    bool is_there = is_flagged && (version != MQTT_VERSION_3_1 || mqtt_wire_left(r) > 0);

    *out = is_there ? mqtt_wire_binary(r) : (struct str){0};
    return is_there;
}

static enum mqtt_reason read_payload(struct mqtt_wire *r, uint8_t flags, struct mqtt_connect *out)
{
    out->client_id = mqtt_wire_binary(r);              /* [MQTT-3.1.3-3] */
    if (r->is_short || !utf8_is_plain(out->client_id)) /* [MQTT-3.1.3-4] */
        return MQTT_REASON_MALFORMED_PACKET;
    out->has_will = flags & WILL;
    if (out->has_will) {
        enum mqtt_reason reason = read_will(r, flags, out->version, &out->will);

        if (reason)
            return reason;
    }
    out->has_user_name = read_optional(r, flags & USER_NAME, out->version, &out->user_name);
    out->has_password = read_optional(r, flags & PASSWORD, out->version, &out->password);
    if (r->is_short || mqtt_wire_left(r) > 0 || !utf8_is_plain(out->user_name)) /* [MQTT-3.1.3-12] of 3.1.1 */
        return MQTT_REASON_MALFORMED_PACKET;
    return MQTT_REASON_SUCCESS;
}

enum mqtt_reason mqtt_connect_decode(const struct mqtt_frame *frame, struct mqtt_connect *out)
{
    struct mqtt_wire r = mqtt_wire_reader(frame->body);

    out->version = MQTT_VERSION_NONE;
    struct str name = mqtt_wire_binary(&r);
    out->level = mqtt_wire_u8(&r);
    if (r.is_short)
        return MQTT_REASON_MALFORMED_PACKET;
    enum mqtt_reason reason = find_version(name, out->level, &out->version);
    if (reason)
        return reason;

    uint8_t flags = mqtt_wire_u8(&r);
    out->keep_alive = mqtt_wire_u16(&r);
    out->clean_start = flags & CLEAN_START;
    if (r.is_short || !are_flags_valid(frame, flags, out->version))
        return MQTT_REASON_MALFORMED_PACKET;
    out->properties.has = 0;
    out->properties.raw = (struct str){0};
    if (out->version == MQTT_VERSION_5) {
        if (!is_length_minimal(frame))
            return MQTT_REASON_MALFORMED_PACKET;
        reason = mqtt_property_read(&r, MQTT_CONNECT, &out->properties);
        if (reason)
            return reason;
    }
    return read_payload(&r, flags, out);
}

err mqtt_connect_encode_connack(const struct mqtt_encoder *e, bool session_present, enum mqtt_reason reason,
                                const struct mqtt_properties *props)
{
    const struct mqtt_properties kept = mqtt_property_trim(e, 2, props);
    enum mqtt_return_code code;
    size_t size = 2;
    char *p;

    ASSERT(!session_present || reason == MQTT_REASON_SUCCESS); /* [MQTT-3.2.2-6] */
    if (e->version == MQTT_VERSION_5)
        size += mqtt_property_size(&kept);
    else if (!mqtt_reason_to_return_code(reason, &code))
        return E_INVAL;
    err failure = mqtt_wire_start(e, MQTT_CONNACK << 4, size, size, &p);
    if (failure)
        return failure;
    p = mqtt_wire_put_u8(p, session_present && e->version != MQTT_VERSION_3_1); /* 3.1 has no such flag */
    p = mqtt_wire_put_u8(p, e->version == MQTT_VERSION_5 ? (unsigned)reason : (unsigned)code);
    if (e->version == MQTT_VERSION_5)
        p = mqtt_property_write(p, &kept);
    mqtt_wire_finish(e, p);
    return E_OK;
}
