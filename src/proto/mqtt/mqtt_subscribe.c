#include "proto/mqtt/mqtt_subscribe.h"

#include "base/check.h"
#include "proto/mqtt/mqtt_wire.h"

/* Subscription options, section 3.8.3.1. Before 5.0 there is only the QoS. */
enum {
    QOS = 0x03,
    NO_LOCAL = 0x04,
    RETAIN_AS_PUBLISHED = 0x08,
    RETAIN_HANDLING_SHIFT = 4,
    RESERVED = 0xc0,
    RESERVED_BEFORE_5 = 0xfc,
};

static enum mqtt_reason check_options(uint8_t options, enum mqtt_version version, const struct topic_filter *filter)
{
    if (version == MQTT_VERSION_5 && options & RESERVED) /* [MQTT-3.8.3-5] */
        return MQTT_REASON_MALFORMED_PACKET;
    if (version == MQTT_VERSION_3_1_1 && options & RESERVED_BEFORE_5) /* [MQTT-3-8.3-4] of 3.1.1 */
        return MQTT_REASON_MALFORMED_PACKET;
    if ((options & QOS) == 3)
        return MQTT_REASON_PROTOCOL_ERROR;
    if (version != MQTT_VERSION_5)
        return MQTT_REASON_SUCCESS;
    if ((options >> RETAIN_HANDLING_SHIFT & 3) == 3)
        return MQTT_REASON_PROTOCOL_ERROR;
    if (options & NO_LOCAL && filter->share_name.n) /* [MQTT-3.8.3-4] */
        return MQTT_REASON_PROTOCOL_ERROR;
    return MQTT_REASON_SUCCESS;
}

enum mqtt_reason mqtt_subscribe_decode(const struct mqtt_frame *frame, enum mqtt_version version, struct mqtt_subscribe *out)
{
    struct mqtt_wire r = mqtt_wire_reader(frame->body);

    out->version = version;
    out->has_options = frame->type == MQTT_SUBSCRIBE;
    out->packet_id = mqtt_wire_u16(&r);
    out->properties.has = 0;
    out->properties.raw = (struct str){0};
    if (r.is_short)
        return MQTT_REASON_MALFORMED_PACKET;
    if (out->packet_id == 0)
        return MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-2.2.1-3] */
    if (version == MQTT_VERSION_5) {
        enum mqtt_reason reason = mqtt_property_read(&r, frame->type, &out->properties);

        if (reason)
            return reason;
    }
    out->filters = mqtt_wire_rest(&r);
    out->filter_count = 0;
    while (mqtt_wire_left(&r)) {
        struct topic_filter filter;
        struct str text = mqtt_wire_binary(&r);
        uint8_t options = out->has_options ? mqtt_wire_u8(&r) : 0;

        if (r.is_short || topic_parse_filter(text, &filter) != E_OK) /* [MQTT-3.8.3-1, 3.10.3-1] */
            return MQTT_REASON_MALFORMED_PACKET;
        enum mqtt_reason reason = check_options(options, version, &filter);

        if (reason)
            return reason;
        out->filter_count++;
    }
    return out->filter_count ? MQTT_REASON_SUCCESS : MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-3.8.3-2, 3.10.3-2] */
}

bool mqtt_subscribe_next(const struct mqtt_subscribe *s, struct str *rest, struct mqtt_subscription *out)
{
    struct mqtt_wire r = mqtt_wire_reader(*rest);

    if (rest->n == 0)
        return false;
    struct str text = mqtt_wire_binary(&r);
    uint8_t options = s->has_options ? mqtt_wire_u8(&r) : 0;

    if (s->version != MQTT_VERSION_5)
        options &= QOS; /* 3.1 may have set others */
    bool is_valid = topic_parse_filter(text, &out->filter) == E_OK;
    ASSERT(is_valid && !r.is_short); /* `rest` was not what mqtt_subscribe_decode() checked */
    out->qos = options & QOS;
    out->no_local = (options & NO_LOCAL) != 0;
    out->retain_as_published = (options & RETAIN_AS_PUBLISHED) != 0;
    out->retain_handling = options >> RETAIN_HANDLING_SHIFT & 3;
    *rest = mqtt_wire_rest(&r);
    return true;
}

/* Before 5.0 a SUBACK knows one failure, 0x80 [MQTT-3.9.3-2 of 3.1.1]. */
static uint8_t reason_for(enum mqtt_version version, uint8_t reason)
{
    return version != MQTT_VERSION_5 && reason >= MQTT_REASON_UNSPECIFIED_ERROR ? MQTT_REASON_UNSPECIFIED_ERROR : reason;
}

static err encode(const struct mqtt_encoder *e, enum mqtt_type type, uint16_t packet_id, const uint8_t *reasons, size_t count,
                  const struct mqtt_properties *props)
{
    const struct mqtt_properties kept = mqtt_property_trim(e, 2 + count, props);
    size_t size = 2 + count + (e->version == MQTT_VERSION_5 ? mqtt_property_size(&kept) : 0);
    char *p;

    ASSERT(packet_id != 0);
    err failure = mqtt_wire_start(e, (unsigned)type << 4, size, size, &p);
    if (failure)
        return failure;
    p = mqtt_wire_put_u16(p, packet_id);
    if (e->version == MQTT_VERSION_5)
        p = mqtt_property_write(p, &kept);
    for (size_t i = 0; i < count; i++)
        p = mqtt_wire_put_u8(p, reason_for(e->version, reasons[i]));
    mqtt_wire_finish(e, p);
    return E_OK;
}

err mqtt_subscribe_encode_suback(const struct mqtt_encoder *e, uint16_t packet_id, const uint8_t *reasons, size_t count,
                                 const struct mqtt_properties *props)
{
    ASSERT(count > 0); /* [MQTT-3.8.4-6] */
    return encode(e, MQTT_SUBACK, packet_id, reasons, count, props);
}

err mqtt_subscribe_encode_unsuback(const struct mqtt_encoder *e, uint16_t packet_id, const uint8_t *reasons, size_t count,
                                   const struct mqtt_properties *props)
{
    return encode(e, MQTT_UNSUBACK, packet_id, reasons, e->version == MQTT_VERSION_5 ? count : 0, props);
}
