/* mqtt_frame: cuts the byte stream of a connection into MQTT control packets, and says where encoded packets go.
 *
 * Decoding copies nothing: a frame borrows the bytes it was found in. Pure functions, any thread, no allocation but what
 * the output buffer needs. Sources: MQTT 3.1 (IBM, 2010), 3.1.1 and 5.0 (OASIS). */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/decode.h"
#include "proto/mqtt/mqtt_reason.h"

enum mqtt_version {
    MQTT_VERSION_NONE = 0, /* no CONNECT has been decoded yet */
    MQTT_VERSION_3_1 = 3,
    MQTT_VERSION_3_1_1 = 4,
    MQTT_VERSION_5 = 5,
};

enum {
    MQTT_REMAINING_LENGTH_MAX = 268435455, /* bytes, section 1.5.5 */
    MQTT_PACKET_SIZE_MAX = 268435460,      /* the same with its fixed header */
};

struct mqtt_frame {
    enum mqtt_type type;
    uint8_t flags;           /* the low half of the first byte, valid for the type */
    struct str body;         /* variable header and payload, borrowed from the input */
    size_t size;             /* bytes of the whole packet; the caller consumes as many */
    enum mqtt_reason reason; /* what is wrong, after DECODE_BAD */
};

/* Looks for one packet at the start of `in`.
 * DECODE_DONE: `out` is filled.
 * DECODE_MORE: only `out->size` is set: the size of the whole packet once its fixed header is there, else 0.
 * DECODE_BAD: only `out->reason` is set:
 *   0x81 a remaining length of more than four bytes, or in 5.0 not in the fewest bytes [MQTT-1.5.5-1]; packet type 0, or
 *        AUTH before 5.0; reserved header flags [MQTT-2.1.3-1], QoS 3 [MQTT-3.3.1-4], DUP with QoS 0 [MQTT-3.3.1-2];
 *   0x95 a packet of more than `max_packet_size` bytes, told as soon as its fixed header is there.
 * `version` is MQTT_VERSION_NONE until CONNECT has been decoded; CONNECT's flags are checked by mqtt_connect_decode(),
 * because 3.1 does not reserve them. In 3.1 the DUP flag is allowed wherever it had a meaning.
 * Whether the type may come from this peer now (CONNECT first and once, no CONNACK from a client) is the caller's rule. */
MUST_USE enum decode mqtt_frame_decode(struct str in, enum mqtt_version version, uint32_t max_packet_size,
                                       struct mqtt_frame *out);

/* Where the encoders write: packets are appended to `out`, whose memory is counted for `sub`. All encoders of
 * this folder answer
 *   E_OK     the packet was appended;
 *   E_LIMIT  it is larger than `max_packet_size` or than MQTT can express, even without the properties that may be left
 *            out; nothing was appended;
 *   E_NOMEM  the buffer could not grow; nothing was appended. */
struct mqtt_encoder {
    struct buf *out;
    enum mem_sub sub;
    enum mqtt_version version;
    uint32_t max_packet_size; /* bytes, the peer's Maximum Packet Size; 0 means it gave none */
};

/* Bytes of a packet whose variable header and payload take `remaining_length` bytes; at most MQTT_REMAINING_LENGTH_MAX. */
size_t mqtt_frame_size(size_t remaining_length);

/* Appends a PINGREQ or PINGRESP: a packet of two bytes, nothing but the header. */
MUST_USE err mqtt_frame_encode_empty(const struct mqtt_encoder *e, enum mqtt_type type);
