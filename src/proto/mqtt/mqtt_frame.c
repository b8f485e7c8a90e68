#include "proto/mqtt/mqtt_frame.h"

#include "proto/mqtt/mqtt_wire.h"

/* The header flags of each type: the bits of the mask must equal the value. [MQTT-2.1.3-1]
 * PUBLISH has flags of its own; CONNECT's are looked at when its version is known. */
static const struct flags {
    uint8_t value;
    uint8_t mask;
    uint8_t mask_3_1; /* 3.1, section 2.1: DUP means something wherever an answer is awaited, unused bits mean nothing */
} flags_by_type[16] = {
    [MQTT_CONNACK] = {0x0, 0xf, 0x0}, [MQTT_PUBACK] = {0x0, 0xf, 0x0},      [MQTT_PUBREC] = {0x0, 0xf, 0x0},
    [MQTT_PUBREL] = {0x2, 0xf, 0x6},  [MQTT_PUBCOMP] = {0x0, 0xf, 0x0},     [MQTT_SUBSCRIBE] = {0x2, 0xf, 0x6},
    [MQTT_SUBACK] = {0x0, 0xf, 0x0},  [MQTT_UNSUBSCRIBE] = {0x2, 0xf, 0x6}, [MQTT_UNSUBACK] = {0x0, 0xf, 0x0},
    [MQTT_PINGREQ] = {0x0, 0xf, 0x0}, [MQTT_PINGRESP] = {0x0, 0xf, 0x0},    [MQTT_DISCONNECT] = {0x0, 0xf, 0x0},
    [MQTT_AUTH] = {0x0, 0xf, 0xf},
};

/* Whether the first byte of a packet may be so. */
static bool is_header_valid(uint8_t first, enum mqtt_version version)
{
    unsigned type = first >> 4, flags = first & 0xfu;

    if (type == MQTT_PUBLISH) {
        unsigned qos = flags >> 1 & 3u;

        /* [MQTT-3.3.1-4]: QoS 3. [MQTT-3.3.1-2]: DUP with QoS 0; 3.1 gave it no meaning and did not forbid it. */
        return qos != 3 && (qos != 0 || !(flags & 0x8) || version == MQTT_VERSION_3_1);
    }
    if (type == 0 || (type == MQTT_AUTH && version != MQTT_VERSION_5 && version != MQTT_VERSION_NONE))
        return false;
    const struct flags *allowed = &flags_by_type[type];
    unsigned mask = version == MQTT_VERSION_3_1 ? allowed->mask_3_1 : allowed->mask;
    return (flags & mask) == (allowed->value & mask);
}

static enum decode refuse(struct mqtt_frame *out, enum mqtt_reason reason)
{
    out->reason = reason;
    return DECODE_BAD;
}

static enum decode wait_for(struct mqtt_frame *out, size_t size)
{
    out->size = size;
    return DECODE_MORE;
}

enum decode mqtt_frame_decode(struct str in, enum mqtt_version version, uint32_t max_packet_size, struct mqtt_frame *out)
{
    uint32_t remaining = 0;
    size_t header = 1;
    uint8_t byte;

    if (in.n == 0)
        return wait_for(out, 0);
    uint8_t first = (uint8_t)in.p[0];
    if (!is_header_valid(first, version))
        return refuse(out, MQTT_REASON_MALFORMED_PACKET);
    do {
        if (header > 4)
            return refuse(out, MQTT_REASON_MALFORMED_PACKET);
        if (header == in.n)
            return wait_for(out, 0);
        byte = (uint8_t)in.p[header];
        remaining |= (uint32_t)(byte & 0x7f) << (7 * (header - 1));
        header++;
    } while (byte & 0x80);
    /* 3.1.1 does not ask for the fewest bytes, and padded lengths exist. Of a CONNECT the version is not known here. */
    if (version == MQTT_VERSION_5 && byte == 0 && header > 2) /* [MQTT-1.5.5-1] */
        return refuse(out, MQTT_REASON_MALFORMED_PACKET);
    if (header + remaining > max_packet_size)
        return refuse(out, MQTT_REASON_PACKET_TOO_LARGE);
    if (remaining > 0 && (first >> 4 == MQTT_PINGREQ || first >> 4 == MQTT_PINGRESP))
        return refuse(out, MQTT_REASON_MALFORMED_PACKET);
    if (in.n < header + remaining)
        return wait_for(out, header + remaining);
    out->type = first >> 4;
    out->flags = first & 0xf;
    out->body = (struct str){in.p + header, remaining};
    out->size = header + remaining;
    return DECODE_DONE;
}

size_t mqtt_frame_size(size_t remaining_length)
{
    return 1 + mqtt_wire_varint_size(remaining_length) + remaining_length;
}

err mqtt_frame_encode_empty(const struct mqtt_encoder *e, enum mqtt_type type)
{
    char *p;
    err failure = mqtt_wire_start(e, (unsigned)type << 4, 0, 0, &p);

    if (failure == E_OK)
        mqtt_wire_finish(e, p);
    return failure;
}
