/* mqtt_ack: PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and AUTH: packets of a reason and properties. Both directions.
 * Decoded fields borrow the packet. Pure functions, any thread. */
#pragma once

#include "proto/mqtt/mqtt_property.h"

struct mqtt_ack {
    uint16_t packet_id;      /* not 0; 0 in DISCONNECT and AUTH */
    enum mqtt_reason reason; /* MQTT_REASON_SUCCESS when left out and before 5.0 */
    struct mqtt_properties properties;
};

/* Decodes a PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT or AUTH frame, as `frame->type` says. 0, or the reason:
 *   0x81 cut off or too long (before 5.0: anything but the packet identifier, and a DISCONNECT that is not empty);
 *   0x82 packet identifier 0; a reason code that the packet's table does not have [MQTT-3.4.2-1 and alike]; an AUTH without
 *        an Authentication Method (section 3.15.2.2.2);
 *   0x81, 0x82 from the properties, see mqtt_property_decode().
 * Left to the caller: whether the sender's side may use the reason (a client no "Session taken over"), and a Session Expiry
 * Interval in a DISCONNECT after one of 0 in CONNECT. */
MUST_USE enum mqtt_reason mqtt_ack_decode(const struct mqtt_frame *frame, enum mqtt_version version, struct mqtt_ack *out);

/* Appends a PUBACK, PUBREC, PUBREL or PUBCOMP: four bytes when the reason is success or the version is before 5.0 and there are
 * no properties. `props` may be NULL and is ignored before 5.0. User Properties, then the Reason String are left out when
 * the packet would be too large [MQTT-3.4.2-2, 3.4.2-3 and alike]. Errors: see struct mqtt_encoder.
 * Before 5.0 there is no way to refuse a message by its acknowledgement; the caller closes instead. */
MUST_USE err mqtt_ack_encode(const struct mqtt_encoder *e, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason,
                             const struct mqtt_properties *props);

/* Appends a DISCONNECT of a server. A server has none before 5.0: then nothing is appended and the answer is E_OK, the caller
 * closes either way. Properties as above [MQTT-3.14.2-3, 3.14.2-4]. */
MUST_USE err mqtt_ack_encode_disconnect(const struct mqtt_encoder *e, enum mqtt_reason reason,
                                        const struct mqtt_properties *props);

/* Appends an AUTH, which needs an Authentication Method among `props`. 5.0 only. Properties as above [MQTT-3.15.2-2,
 * 3.15.2-3]. */
MUST_USE err mqtt_ack_encode_auth(const struct mqtt_encoder *e, enum mqtt_reason reason, const struct mqtt_properties *props);
