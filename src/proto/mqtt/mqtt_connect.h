/* mqtt_connect: CONNECT decoded, CONNACK encoded. Decoded fields borrow the packet. Pure functions, any thread. */
#pragma once

#include "proto/mqtt/mqtt_property.h"

struct mqtt_will {
    struct str topic; /* a valid topic name */
    struct str payload;
    uint8_t qos;
    bool is_retained;
    uint32_t topic_levels;
    struct mqtt_properties properties;
};

struct mqtt_connect {
    enum mqtt_version version; /* set even when decoding fails, see below */
    uint8_t level;             /* the protocol level as sent */
    bool clean_start;          /* Clean Session before 5.0 */
    bool has_will;
    bool has_user_name;
    bool has_password;
    uint16_t keep_alive; /* s, 0 is none */
    struct str client_id;
    struct str user_name;
    struct str password;
    struct mqtt_properties properties;
    struct mqtt_will will; /* only when has_will */
};

/* Decodes a CONNECT frame. 0, or the reason:
 *   0x84 a protocol level that is not supported for this protocol name [MQTT-3.1.2-2];
 *   0x81 malformed: cut off or too long, reserved flags [MQTT-3.1.2-3], will flags that contradict each other
 *        [MQTT-3.1.2-11, 3.1.2-12, 3.1.2-13], bad UTF-8, a will topic that is no topic name, before 5.0 a password without
 *        a user name [MQTT-3.1.2-22 of 3.1.1];
 *   0x82, 0x81 from the properties, see mqtt_property_decode().
 * `out->version` is set in every case to the version in which to answer: the client's own, for an unsupported level the one
 * nearest to it, MQTT_VERSION_NONE when the protocol name is wrong or was not reached: then close without CONNACK.
 * Left to the caller: an empty or (3.1) over 23 bytes long client identifier, and everything about rights.
 * 3.1 only: header flags and the reserved connect flag are ignored, and a user name or password announced by its flag may be
 * missing at the end of the packet (3.1, section 3.1): has_user_name and has_password then are false. */
MUST_USE enum mqtt_reason mqtt_connect_decode(const struct mqtt_frame *frame, struct mqtt_connect *out);

/* Appends a CONNACK. Before 5.0 `reason` becomes the return code that means the same and `props` is not looked at; a reason
 * that has none there gives E_INVAL with nothing appended: close without a CONNACK. `props` may be NULL. User Properties,
 * then the Reason String are left out when the packet would be too large for the client [MQTT-3.2.2-19, 3.2.2-20].
 * `session_present` must be false with a refusal [MQTT-3.2.2-6]. Errors: see struct mqtt_encoder. */
MUST_USE err mqtt_connect_encode_connack(const struct mqtt_encoder *e, bool session_present, enum mqtt_reason reason,
                                         const struct mqtt_properties *props);
