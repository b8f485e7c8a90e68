/* mqtt_test: what the codec's tests share: packets written as text, decoding by type, an encoder. For tests only. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "proto/mqtt/packet.h"

enum { MQTT_TEST_BYTES = 1024 };

struct mqtt_test_bytes {
    char p[MQTT_TEST_BYTES];
    size_t n;
};

/* Packets as the specification's figures show them: pairs of hexadecimal digits and 'text in quotes', spaces in between. `~~`
 * is the count of the bytes behind it, under 128. */
static inline struct mqtt_test_bytes mqtt_test_parse(const char *text)
{
    struct mqtt_test_bytes b = {.n = 0};
    char *length = NULL;

    while (*text) {
        if (*text == ' ') {
            text++;
        } else if (*text == '\'') {
            for (text++; *text != '\''; text++)
                b.p[b.n++] = *text;
            text++;
        } else if (*text == '~') {
            length = &b.p[b.n++];
            text += 2;
        } else {
            char digits[3] = {text[0], text[1], '\0'};

            b.p[b.n++] = (char)strtoul(digits, NULL, 16);
            text += 2;
        }
        ASSERT(b.n <= MQTT_TEST_BYTES);
    }
    if (length)
        *length = (char)(b.p + b.n - length - 1);
    return b;
}

static inline struct str mqtt_test_view(const struct mqtt_test_bytes *b)
{
    return (struct str){b->p, b->n};
}

/* Whatever a packet decodes to. */
struct mqtt_test_packet {
    struct mqtt_frame frame;
    union {
        struct mqtt_connect connect;
        struct mqtt_publish publish;
        struct mqtt_ack ack;
        struct mqtt_subscribe subscribe;
    };
};

/* Decodes the body of `out->frame` by its type. */
static inline enum mqtt_reason mqtt_test_decode_body(enum mqtt_version version, struct mqtt_test_packet *out)
{
    switch (out->frame.type) {
    case MQTT_CONNECT:
        return mqtt_connect_decode(&out->frame, &out->connect);
    case MQTT_PUBLISH:
        return mqtt_publish_decode(&out->frame, version, &out->publish);
    case MQTT_PUBACK:
    case MQTT_PUBREC:
    case MQTT_PUBREL:
    case MQTT_PUBCOMP:
    case MQTT_DISCONNECT:
    case MQTT_AUTH:
        return mqtt_ack_decode(&out->frame, version, &out->ack);
    case MQTT_SUBSCRIBE:
    case MQTT_UNSUBSCRIBE:
        return mqtt_subscribe_decode(&out->frame, version, &out->subscribe);
    default:
        return MQTT_REASON_SUCCESS;
    }
}

/* Decodes one whole packet: the reason of the frame or of the body. */
static inline enum mqtt_reason mqtt_test_decode(struct str in, enum mqtt_version version, struct mqtt_test_packet *out)
{
    enum decode decoded = mqtt_frame_decode(in, version, MQTT_PACKET_SIZE_MAX, &out->frame);

    if (decoded == DECODE_BAD)
        return out->frame.reason;
    assert_int_equal(decoded, DECODE_DONE);
    assert_int_equal(out->frame.size, in.n);
    return mqtt_test_decode_body(version, out);
}

/* A table of packets that are refused, or accepted when the reason is 0. */
struct mqtt_test_row {
    const char *statement; /* what is tested, and the specification's statement */
    unsigned versions;     /* 1u << enum mqtt_version for each that agrees */
    const char *packet;
    enum mqtt_reason want;
};

enum {
    MQTT_TEST_3_1 = 1u << MQTT_VERSION_3_1,
    MQTT_TEST_3_1_1 = 1u << MQTT_VERSION_3_1_1,
    MQTT_TEST_3 = MQTT_TEST_3_1 | MQTT_TEST_3_1_1,
    MQTT_TEST_5 = 1u << MQTT_VERSION_5,
    MQTT_TEST_FROM_3_1_1 = MQTT_TEST_3_1_1 | MQTT_TEST_5,
    MQTT_TEST_ALL = MQTT_TEST_3 | MQTT_TEST_5,
};

static inline void mqtt_test_rows(const struct mqtt_test_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mqtt_test_bytes b = mqtt_test_parse(rows[i].packet);

        for (unsigned v = MQTT_VERSION_3_1; v <= MQTT_VERSION_5; v++) {
            /* Of its own size, so that a sanitizer sees a read past the end. */
            char *copy = malloc(b.n + 1);
            struct mqtt_test_packet p;

            if (!copy)
                abort();
            memcpy(copy, b.p, b.n);
            if (rows[i].versions & 1u << v) {
                enum mqtt_reason got = mqtt_test_decode((struct str){copy, b.n}, v, &p);

                if (got != rows[i].want)
                    fail_msg("%s (version %u): %s: 0x%02x, not 0x%02x", rows[i].statement, v, rows[i].packet, got,
                             rows[i].want);
            }
            free(copy);
        }
    }
}

/* Compares what was encoded with a packet written as text, and empties the buffer. */
static inline void mqtt_test_encoded(struct buf *out, const char *want)
{
    struct mqtt_test_bytes b = mqtt_test_parse(want);
    struct str got = buf_str(out);

    if (!str_equal(got, mqtt_test_view(&b))) {
        for (size_t i = 0; i < got.n; i++)
            print_error("%02x ", (uint8_t)got.p[i]);
        fail_msg("is not %s", want);
    }
    buf_free(out, MEM_TEST);
}
