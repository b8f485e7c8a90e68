#include "proto/mqtt/mqtt_ack.h"

#include "base/check.h"
#include "proto/mqtt/mqtt_wire.h"

static bool has_packet_id(enum mqtt_type type)
{
    return type != MQTT_DISCONNECT && type != MQTT_AUTH;
}

/* PUBREL asks for an answer and carries the flags of QoS 1. [MQTT-3.6.1-1] */
static unsigned first_byte(enum mqtt_type type)
{
    return (unsigned)type << 4 | (type == MQTT_PUBREL ? 2u : 0u);
}

/* Reason and properties, which 5.0 allows to be left out from the end: section 3.4.2.1, 3.14.2.1, 3.15.2.1. */
static enum mqtt_reason read_reason(struct mqtt_wire *r, enum mqtt_type type, struct mqtt_ack *out)
{
    if (mqtt_wire_left(r) == 0)
        return MQTT_REASON_SUCCESS;
    uint8_t code = mqtt_wire_u8(r);

    if (!mqtt_reason_is_allowed(type, code)) /* [MQTT-3.4.2-1, 3.5.2-1, 3.6.2-1, 3.7.2-1, 3.14.2-1, 3.15.2-1] */
        return MQTT_REASON_PROTOCOL_ERROR;
    out->reason = code;
    return mqtt_wire_left(r) ? mqtt_property_read(r, type, &out->properties) : MQTT_REASON_SUCCESS;
}

enum mqtt_reason mqtt_ack_decode(const struct mqtt_frame *frame, enum mqtt_version version, struct mqtt_ack *out)
{
    struct mqtt_wire r = mqtt_wire_reader(frame->body);
    enum mqtt_reason reason = MQTT_REASON_SUCCESS;

    out->packet_id = has_packet_id(frame->type) ? mqtt_wire_u16(&r) : 0;
    out->reason = MQTT_REASON_SUCCESS;
    out->properties.has = 0;
    out->properties.raw = (struct str){0};
    if (r.is_short)
        return MQTT_REASON_MALFORMED_PACKET;
    if (has_packet_id(frame->type) && out->packet_id == 0)
        return MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-2.2.1-5] */
    if (version == MQTT_VERSION_5)
        reason = read_reason(&r, frame->type, out);
    if (reason == MQTT_REASON_SUCCESS && mqtt_wire_left(&r) > 0)
        return MQTT_REASON_MALFORMED_PACKET;
    if (reason == MQTT_REASON_SUCCESS && frame->type == MQTT_AUTH &&
        !mqtt_property_has(&out->properties, MQTT_PROPERTY_AUTHENTICATION_METHOD))
        return MQTT_REASON_PROTOCOL_ERROR; /* section 3.15.2.2.2 */
    return reason;
}

/* All the packets of this file, in the shortest form. */
static err encode(const struct mqtt_encoder *e, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason,
                  const struct mqtt_properties *props)
{
    const size_t id_size = has_packet_id(type) ? 2 : 0;
    const struct mqtt_properties kept = mqtt_property_trim(e, id_size + 1, props);
    const bool has_properties = kept.has || kept.raw.n;
    const bool has_reason = e->version == MQTT_VERSION_5 && (reason || has_properties);
    const size_t size = id_size + has_reason + (has_properties ? mqtt_property_size(&kept) : 0);
    char *p;

    DASSERT(!has_reason || mqtt_reason_is_allowed(type, (uint8_t)reason));
    err failure = mqtt_wire_start(e, first_byte(type), size, size, &p);
    if (failure)
        return failure;
    if (id_size)
        p = mqtt_wire_put_u16(p, packet_id);
    if (has_reason)
        p = mqtt_wire_put_u8(p, reason);
    if (has_properties)
        p = mqtt_property_write(p, &kept);
    mqtt_wire_finish(e, p);
    return E_OK;
}

err mqtt_ack_encode(const struct mqtt_encoder *e, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason,
                    const struct mqtt_properties *props)
{
    char *p;

    ASSERT(packet_id != 0 && type >= MQTT_PUBACK && type <= MQTT_PUBCOMP);
    /* Nearly every acknowledgement there is. */
    if ((reason == MQTT_REASON_SUCCESS && !props) || e->version != MQTT_VERSION_5) {
        err failure = mqtt_wire_start(e, first_byte(type), 2, 2, &p);

        if (failure == E_OK)
            mqtt_wire_finish(e, mqtt_wire_put_u16(p, packet_id));
        return failure;
    }
    return encode(e, type, packet_id, reason, props);
}

err mqtt_ack_encode_disconnect(const struct mqtt_encoder *e, enum mqtt_reason reason, const struct mqtt_properties *props)
{
    if (e->version != MQTT_VERSION_5)
        return E_OK;
    return encode(e, MQTT_DISCONNECT, 0, reason, props);
}

err mqtt_ack_encode_auth(const struct mqtt_encoder *e, enum mqtt_reason reason, const struct mqtt_properties *props)
{
    ASSERT(e->version == MQTT_VERSION_5);
    return encode(e, MQTT_AUTH, 0, reason, props);
}
