/* mqtt_subscribe: SUBSCRIBE and UNSUBSCRIBE decoded, SUBACK and UNSUBACK encoded. The list of filters is checked as a whole
 * when the packet is decoded, so that walking it cannot fail. Decoded fields borrow the packet. Pure functions, any thread. */
#pragma once

#include "proto/mqtt/mqtt_property.h"
#include "proto/mqtt/topic.h"

struct mqtt_subscribe {
    enum mqtt_version version;
    bool has_options;                  /* SUBSCRIBE, not UNSUBSCRIBE */
    uint16_t packet_id;                /* not 0 */
    uint32_t filter_count;             /* at least 1 */
    struct str filters;                /* the payload, for mqtt_subscribe_next() */
    struct mqtt_properties properties; /* of SUBSCRIBE: perhaps one subscription_identifier */
};

/* One topic filter of the list, with its options (all zero in UNSUBSCRIBE). */
struct mqtt_subscription {
    struct topic_filter filter; /* text as sent, share name, levels */
    uint8_t qos;                /* Maximum QoS */
    bool no_local;              /* the options of 5.0 are zero before it */
    bool retain_as_published;
    uint8_t retain_handling; /* 0 to 2 */
};

/* Decodes a SUBSCRIBE or UNSUBSCRIBE frame, as `frame->type` says. 0, or the reason:
 *   0x81 cut off; a filter that is empty, not UTF-8, has misplaced wildcards [MQTT-4.7.1-1, 4.7.1-2] or is `$share/` without a
 *        valid share name and filter [MQTT-4.8.2-1, 4.8.2-2]; reserved option bits [MQTT-3.8.3-5];
 *   0x82 packet identifier 0; no filter at all [MQTT-3.8.3-2, 3.10.3-2]; Maximum QoS 3, Retain Handling 3 (section 3.8.3.1);
 *        No Local on a shared subscription [MQTT-3.8.3-4];
 *   0x81, 0x82 from the properties, see mqtt_property_decode().
 * `$share/` means a shared subscription in every version. */
MUST_USE enum mqtt_reason mqtt_subscribe_decode(const struct mqtt_frame *frame, enum mqtt_version version,
                                                struct mqtt_subscribe *out);

/* Takes the next filter of a decoded packet; `*rest` starts as s->filters. False at the end.
 *     for (struct str rest = s.filters; mqtt_subscribe_next(&s, &rest, &sub);) ... */
bool mqtt_subscribe_next(const struct mqtt_subscribe *s, struct str *rest, struct mqtt_subscription *out);

/* Appends the SUBACK for a SUBSCRIBE, with one reason a filter in the order of the filters [MQTT-3.8.4-6]: before 5.0 every
 * failure becomes 0x80. `props` may be NULL; User Properties, then the Reason String are left out when the packet would
 * be too large [MQTT-3.9.2-1, 3.9.2-2]. Errors: see struct mqtt_encoder. */
MUST_USE err mqtt_subscribe_encode_suback(const struct mqtt_encoder *e, uint16_t packet_id, const uint8_t *reasons,
                                          size_t count, const struct mqtt_properties *props);

/* Appends the UNSUBACK for an UNSUBSCRIBE. As above; before 5.0 it has no reasons and `reasons` may be NULL. */
MUST_USE err mqtt_subscribe_encode_unsuback(const struct mqtt_encoder *e, uint16_t packet_id, const uint8_t *reasons,
                                            size_t count, const struct mqtt_properties *props);
