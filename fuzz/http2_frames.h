/* http2_frames: a fuzz target's input, and HTTP/2 frames made of it. */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FRAME_HEAD_BYTES = 9, PAYLOAD_MAX = 512, TYPES = 12 };

struct input {
    const uint8_t *p;
    size_t n;
};

static inline unsigned next(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

static inline size_t write_frame(uint8_t *to, unsigned type, unsigned flags, uint32_t id, size_t length, const uint8_t *payload,
                                 size_t n)
{
    const uint8_t head[FRAME_HEAD_BYTES] = {(uint8_t)(length >> 16),
                                            (uint8_t)(length >> 8),
                                            (uint8_t)length,
                                            (uint8_t)type,
                                            (uint8_t)flags,
                                            0,
                                            0,
                                            (uint8_t)(id >> 8),
                                            (uint8_t)id};

    memcpy(to, head, sizeof head);
    if (n > 0)
        memcpy(to + sizeof head, payload, n);
    return sizeof head + n;
}

/* Any bytes as the payload of any frame; now and then its length is a lie. */
static inline size_t write_any_frame(uint8_t to[FRAME_HEAD_BYTES + PAYLOAD_MAX], struct input *in)
{
    unsigned type = next(in), flags = next(in), id = next(in), n = next(in), lie = next(in);
    const uint8_t *payload = in->p;

    n = n < in->n ? n : (unsigned)in->n;
    in->p += n;
    in->n -= n;
    return write_frame(to, type % TYPES, flags, id, lie % 16 == 0 ? lie * 8 : n, payload, n);
}
