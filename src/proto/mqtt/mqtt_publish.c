#include "proto/mqtt/mqtt_publish.h"

#include "base/check.h"
#include "proto/mqtt/mqtt_wire.h"
#include "proto/mqtt/topic.h"

/* Flags of the fixed header, section 3.3.1. */
enum {
    RETAIN = 0x1,
    QOS_SHIFT = 1,
    DUP = 0x8,
};

/* Identifiers of the properties that are written for one hop. */
enum {
    ID_MESSAGE_EXPIRY_INTERVAL = 0x02,
    ID_SUBSCRIPTION_IDENTIFIER = 0x0b,
    ID_TOPIC_ALIAS = 0x23,
};

/* Properties of a PUBLISH or a will that belong to one hop. */
static const uint32_t of_one_hop = 1u << MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL | 1u << MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER |
                                   1u << MQTT_PROPERTY_WILL_DELAY_INTERVAL | 1u << MQTT_PROPERTY_TOPIC_ALIAS;

/* An empty topic is an alias, in 5.0 only. */
static enum mqtt_reason check_no_topic(enum mqtt_version version, const struct mqtt_properties *props)
{
    if (version != MQTT_VERSION_5)
        return MQTT_REASON_MALFORMED_PACKET; /* [MQTT-4.7.3-1] */
    if (!mqtt_property_has(props, MQTT_PROPERTY_TOPIC_ALIAS))
        return MQTT_REASON_PROTOCOL_ERROR; /* section 3.3.2.3.4 */
    return MQTT_REASON_SUCCESS;
}

enum mqtt_reason mqtt_publish_decode_from_server(const struct mqtt_frame *frame, enum mqtt_version version,
                                                 struct mqtt_publish *out)
{
    struct mqtt_wire r = mqtt_wire_reader(frame->body);

    out->qos = frame->flags >> QOS_SHIFT & 3u;
    out->dup = (frame->flags & DUP) != 0;
    out->retain = (frame->flags & RETAIN) != 0;
    out->topic = mqtt_wire_binary(&r);
    out->packet_id = out->qos ? mqtt_wire_u16(&r) : 0;
    if (r.is_short)
        return MQTT_REASON_MALFORMED_PACKET;
    out->topic_levels = 0;
    if (out->topic.n && topic_check_name(out->topic, &out->topic_levels) != E_OK) /* [MQTT-3.3.2-1, 3.3.2-2] */
        return MQTT_REASON_MALFORMED_PACKET;
    if (out->qos && out->packet_id == 0)
        return MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-2.2.1-3] */

    out->properties.has = 0;
    out->properties.raw = (struct str){0};
    if (version == MQTT_VERSION_5) {
        enum mqtt_reason reason = mqtt_property_read(&r, MQTT_PUBLISH, &out->properties);

        if (reason)
            return reason;
    }
    out->payload = mqtt_wire_rest(&r);
    return out->topic.n ? MQTT_REASON_SUCCESS : check_no_topic(version, &out->properties);
}

enum mqtt_reason mqtt_publish_decode(const struct mqtt_frame *frame, enum mqtt_version version, struct mqtt_publish *out)
{
    enum mqtt_reason reason = mqtt_publish_decode_from_server(frame, version, out);

    if (reason == MQTT_REASON_SUCCESS && mqtt_property_has(&out->properties, MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER))
        return MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-3.3.4-6] */
    return reason;
}

size_t mqtt_publish_forward_size(const struct mqtt_properties *props)
{
    enum mqtt_property which;
    struct str encoded;
    size_t size = 0;

    if ((props->has & of_one_hop) == 0)
        return props->raw.n;
    for (struct str rest = props->raw; mqtt_property_next(&rest, &which, &encoded);)
        size += of_one_hop >> which & 1u ? 0 : encoded.n;
    return size;
}

char *mqtt_publish_forward_write(char *p, const struct mqtt_properties *props)
{
    enum mqtt_property which;
    struct str encoded;

    if ((props->has & of_one_hop) == 0)
        return mqtt_wire_put_bytes(p, props->raw);
    for (struct str rest = props->raw; mqtt_property_next(&rest, &which, &encoded);)
        if (!(of_one_hop >> which & 1u))
            p = mqtt_wire_put_bytes(p, encoded);
    return p;
}

/* Bytes of the properties of `m`, without their length. */
static size_t properties_size(const struct mqtt_publish_out *m)
{
    size_t size = m->properties.n + (m->has_message_expiry ? 5 : 0) + (m->topic_alias ? 3 : 0);

    for (size_t i = 0; i < m->subscription_id_count; i++)
        size += 1 + mqtt_wire_varint_size(m->subscription_ids[i]);
    return size;
}

static char *write_properties(char *p, size_t size, const struct mqtt_publish_out *m)
{
    p = mqtt_wire_put_varint(p, size);
    p = mqtt_wire_put_bytes(p, m->properties);
    if (m->has_message_expiry)
        p = mqtt_wire_put_u32(mqtt_wire_put_u8(p, ID_MESSAGE_EXPIRY_INTERVAL), m->message_expiry_interval);
    if (m->topic_alias)
        p = mqtt_wire_put_u16(mqtt_wire_put_u8(p, ID_TOPIC_ALIAS), m->topic_alias);
    for (size_t i = 0; i < m->subscription_id_count; i++)
        p = mqtt_wire_put_varint(mqtt_wire_put_u8(p, ID_SUBSCRIPTION_IDENTIFIER), m->subscription_ids[i]);
    return p;
}

/* The remaining length of a PUBLISH whose properties take `props` bytes. */
static size_t remaining_length(enum mqtt_version version, const struct mqtt_publish_out *m, size_t props)
{
    size_t size = 2 + m->topic.n + (m->qos ? 2 : 0) + m->payload.n;

    return version == MQTT_VERSION_5 ? size + mqtt_wire_varint_size(props) + props : size;
}

size_t mqtt_publish_size(enum mqtt_version version, const struct mqtt_publish_out *m)
{
    return mqtt_frame_size(remaining_length(version, m, version == MQTT_VERSION_5 ? properties_size(m) : 0));
}

/* All of the packet but the payload, which takes `payload` bytes of the room behind it. */
static err encode_head(const struct mqtt_encoder *e, const struct mqtt_publish_out *m, size_t payload, char **out_end)
{
    const bool has_properties = e->version == MQTT_VERSION_5;
    const size_t props = has_properties ? properties_size(m) : 0;
    const size_t remaining = remaining_length(e->version, m, props);
    unsigned flags = (m->dup ? DUP : 0u) | (unsigned)m->qos << QOS_SHIFT | (m->retain ? RETAIN : 0u);
    char *p;

    ASSERT(m->topic.n <= TOPIC_MAX_BYTES && (m->qos == 0 || m->packet_id)); /* [MQTT-2.2.1-3] */
    err failure = mqtt_wire_start(e, MQTT_PUBLISH << 4 | flags, remaining, remaining - m->payload.n + payload, &p);
    if (failure)
        return failure;
    p = mqtt_wire_put_binary(p, m->topic);
    if (m->qos)
        p = mqtt_wire_put_u16(p, m->packet_id);
    if (has_properties)
        p = write_properties(p, props, m);
    *out_end = p;
    return E_OK;
}

err mqtt_publish_encode(const struct mqtt_encoder *e, const struct mqtt_publish_out *m)
{
    char *p;
    err failure = encode_head(e, m, m->payload.n, &p);

    if (failure == E_OK)
        mqtt_wire_finish(e, mqtt_wire_put_bytes(p, m->payload));
    return failure;
}

err mqtt_publish_encode_head(const struct mqtt_encoder *e, const struct mqtt_publish_out *m)
{
    char *p;
    err failure = encode_head(e, m, 0, &p);

    if (failure == E_OK)
        mqtt_wire_finish(e, p);
    return failure;
}
