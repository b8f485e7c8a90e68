/* mqtt_wire: the data types of MQTT, section 1.5, read from and written to bytes. For the codec's own sources. A reader
 * that runs out of bytes remembers it and reads zeros from then on, so that a decoder may check once at the end of a group
 * of fields. Pure functions, any thread. */
#pragma once

#include "base/utf8.h"
#include "proto/mqtt/mqtt_frame.h"

struct mqtt_wire {
    const char *p;
    const char *end;
    bool is_short; /* something did not fit */
};

static inline struct mqtt_wire mqtt_wire_reader(struct str s)
{
    const char *p = s.n ? s.p : ""; /* an empty view may have no address, to which not even 0 may be added */

    return (struct mqtt_wire){p, p + s.n, false};
}

static inline size_t mqtt_wire_left(const struct mqtt_wire *r)
{
    return (size_t)(r->end - r->p);
}

static inline struct str mqtt_wire_rest(const struct mqtt_wire *r)
{
    return (struct str){r->p, mqtt_wire_left(r)};
}

/* The next `n` bytes; empty, and the reader short, when there are fewer. */
static inline struct str mqtt_wire_bytes(struct mqtt_wire *r, size_t n)
{
    struct str s = {r->p, n};

    if (mqtt_wire_left(r) < n) {
        r->is_short = true;
        r->p = r->end;
        return (struct str){0};
    }
    r->p += n;
    return s;
}

static inline uint8_t mqtt_wire_u8(struct mqtt_wire *r)
{
    struct str s = mqtt_wire_bytes(r, 1);

    return s.n ? (uint8_t)s.p[0] : 0;
}

static inline uint16_t mqtt_wire_load_u16(const char *p)
{
    return (uint16_t)((uint8_t)p[0] << 8 | (uint8_t)p[1]);
}

static inline uint16_t mqtt_wire_u16(struct mqtt_wire *r)
{
    struct str s = mqtt_wire_bytes(r, 2);

    return s.n ? mqtt_wire_load_u16(s.p) : 0;
}

static inline uint32_t mqtt_wire_u32(struct mqtt_wire *r)
{
    struct str s = mqtt_wire_bytes(r, 4);

    return s.n ? (uint32_t)mqtt_wire_load_u16(s.p) << 16 | mqtt_wire_load_u16(s.p + 2) : 0;
}

/* Binary Data, or a string that the caller checks. Section 1.5.6. */
static inline struct str mqtt_wire_binary(struct mqtt_wire *r)
{
    return mqtt_wire_bytes(r, mqtt_wire_u16(r));
}

/* A Variable Byte Integer, section 1.5.5. One of more than four bytes, or not in the fewest bytes [MQTT-1.5.5-1], makes the
 * reader short, since nothing behind it can be understood. */
static inline uint32_t mqtt_wire_varint(struct mqtt_wire *r)
{
    uint32_t value = 0;

    for (unsigned shift = 0; shift < 28 && r->p < r->end; shift += 7) {
        uint8_t byte = (uint8_t)*r->p++;

        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            r->is_short |= byte == 0 && shift > 0;
            return value;
        }
    }
    r->is_short = true;
    r->p = r->end;
    return 0;
}

static inline size_t mqtt_wire_varint_size(size_t value)
{
    return value < 128 ? 1 : value < 16384 ? 2 : value < 2097152 ? 3 : 4;
}

static inline char *mqtt_wire_put_u8(char *p, unsigned value)
{
    *p = (char)value;
    return p + 1;
}

static inline char *mqtt_wire_put_u16(char *p, unsigned value)
{
    p[0] = (char)(value >> 8);
    p[1] = (char)value;
    return p + 2;
}

static inline char *mqtt_wire_put_u32(char *p, uint32_t value)
{
    return mqtt_wire_put_u16(mqtt_wire_put_u16(p, value >> 16), value & 0xffff);
}

static inline char *mqtt_wire_put_varint(char *p, size_t value)
{
    for (; value >= 128; value >>= 7)
        *p++ = (char)(value | 0x80);
    *p = (char)value;
    return p + 1;
}

static inline char *mqtt_wire_put_bytes(char *p, struct str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
    return p + s.n;
}

static inline char *mqtt_wire_put_binary(char *p, struct str s)
{
    return mqtt_wire_put_bytes(mqtt_wire_put_u16(p, (unsigned)s.n), s);
}

/* Makes room for a packet and writes its fixed header. On E_OK `*out_p` is where the variable header goes; `reserved` bytes of
 * the packet follow (all of it, or all but a payload sent by other means) and the caller ends with mqtt_wire_finish(). */
static inline err mqtt_wire_start(const struct mqtt_encoder *e, unsigned first_byte, size_t remaining, size_t reserved,
                                  char **out_p)
{
    size_t limit = e->max_packet_size ? e->max_packet_size : MQTT_PACKET_SIZE_MAX;

    if (remaining > MQTT_REMAINING_LENGTH_MAX || mqtt_frame_size(remaining) > limit)
        return E_LIMIT;
    char *p = buf_reserve(e->out, e->sub, mqtt_frame_size(reserved) + 3); /* the length may be longer than that of `reserved` */
    if (!p)
        return E_NOMEM;
    *out_p = mqtt_wire_put_varint(mqtt_wire_put_u8(p, first_byte), remaining);
    return E_OK;
}

static inline void mqtt_wire_finish(const struct mqtt_encoder *e, const char *end)
{
    buf_commit(e->out, (size_t)(end - (e->out->p + e->out->tail)));
}
