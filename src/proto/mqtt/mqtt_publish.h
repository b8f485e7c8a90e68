/* mqtt_publish: PUBLISH decoded, forwarded and encoded. This is the hot path: decoding reads the topic once and touches
 * neither the payload nor, without properties, most of struct mqtt_publish. Decoded fields borrow the packet. Any thread. */
#pragma once

#include "proto/mqtt/mqtt_property.h"

struct mqtt_publish {
    struct str topic; /* a valid topic name; empty only in 5.0 with a Topic Alias, which the caller resolves */
    struct str payload;
    uint32_t topic_levels; /* of `topic`; 0 when it is empty */
    uint16_t packet_id;    /* not 0 when qos is 1 or 2, else 0 */
    uint8_t qos;
    bool dup;
    bool retain;
    struct mqtt_properties properties; /* `has` is 0 and `raw` empty before 5.0; other fields are then not even set */
};

/* Decodes a PUBLISH frame of a client. 0, or the reason:
 *   0x81 cut off; topic not plain UTF-8 [MQTT-3.3.2-1], with a wildcard [MQTT-3.3.2-2], or empty before 5.0;
 *   0x82 packet identifier 0 [MQTT-2.2.1-3]; empty topic without a Topic Alias (section 3.3.2.3.4); a Subscription Identifier
 *        [MQTT-3.3.4-6];
 *   0x81, 0x82, 0x94 from the properties, see mqtt_property_decode().
 * A Topic Alias over the maximum that was announced, and one that is not known yet, are the caller's to refuse. */
MUST_USE enum mqtt_reason mqtt_publish_decode(const struct mqtt_frame *frame, enum mqtt_version version,
                                              struct mqtt_publish *out);

/* The same for a PUBLISH that a server sent, which may have Subscription Identifiers. */
MUST_USE enum mqtt_reason mqtt_publish_decode_from_server(const struct mqtt_frame *frame, enum mqtt_version version,
                                                          struct mqtt_publish *out);

/* The properties that travel with the message to every subscriber unchanged [MQTT-3.3.2-4, 3.3.2-15 to 3.3.2-18, 3.3.2-20]:
 * Payload Format Indicator, Content Type, Response Topic, Correlation Data and User Properties in their order, of a PUBLISH
 * or a will, without a length before them.
 * Not Message Expiry Interval, which shrinks while the message waits, and what belongs to one connection.
 * _size() tells how many bytes they take encoded, at most props->raw.n; _write() writes them to `p` and returns the end. */
size_t mqtt_publish_forward_size(const struct mqtt_properties *props);
char *mqtt_publish_forward_write(char *p, const struct mqtt_properties *props);

/* A PUBLISH to send. All-zero members mean "not there". Everything is borrowed for the call only. */
struct mqtt_publish_out {
    struct str topic; /* may be empty when topic_alias is set */
    struct str payload;
    struct str properties;            /* encoded, from mqtt_publish_forward_write(); ignored before 5.0, as all below */
    const uint32_t *subscription_ids; /* each 1 to 268,435,455 */
    size_t subscription_id_count;
    uint32_t message_expiry_interval; /* s, sent when has_message_expiry */
    bool has_message_expiry;
    uint16_t topic_alias; /* 0 is none */
    uint16_t packet_id;   /* for qos 1 and 2 */
    uint8_t qos;
    bool dup;
    bool retain;
};

/* Exact bytes of the packet, for the check against the client's Maximum Packet Size [MQTT-3.1.2-24] before anything is
 * queued. Over MQTT_PACKET_SIZE_MAX when MQTT cannot express it. */
size_t mqtt_publish_size(enum mqtt_version version, const struct mqtt_publish_out *m);

/* Appends the packet. Errors: see struct mqtt_encoder; the client never learns of a message that is too large for it
 * [MQTT-3.1.2-25]. */
MUST_USE err mqtt_publish_encode(const struct mqtt_encoder *e, const struct mqtt_publish_out *m);

/* Appends all of the packet but the payload, whose m->payload.n bytes the caller sends right behind it, from wherever they
 * are. The limit is checked for the whole packet. */
MUST_USE err mqtt_publish_encode_head(const struct mqtt_encoder *e, const struct mqtt_publish_out *m);
