/* mqtt_property: the properties of MQTT 5.0, section 2.2.2, for decoding and for encoding.
 *
 * One table (mqtt_property_table) says for each property its identifier, type, range and the packets that may carry it; both
 * directions walk it. Decoded text borrows the packet. Properties that may occur more than once (User Property, in a
 * PUBLISH from a server Subscription Identifier) stay in `raw`, which has been checked and is read by an iterator.
 * Pure functions, any thread, no allocation. */
#pragma once

#include "base/str.h"
#include "proto/mqtt/mqtt_frame.h"

/* One for each row of the table, in the order in which we encode them. */
enum mqtt_property {
    MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR,
    MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL,
    MQTT_PROPERTY_CONTENT_TYPE,
    MQTT_PROPERTY_RESPONSE_TOPIC,
    MQTT_PROPERTY_CORRELATION_DATA,
    MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER,
    MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL,
    MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER,
    MQTT_PROPERTY_SERVER_KEEP_ALIVE,
    MQTT_PROPERTY_AUTHENTICATION_METHOD,
    MQTT_PROPERTY_AUTHENTICATION_DATA,
    MQTT_PROPERTY_REQUEST_PROBLEM_INFORMATION,
    MQTT_PROPERTY_WILL_DELAY_INTERVAL,
    MQTT_PROPERTY_REQUEST_RESPONSE_INFORMATION,
    MQTT_PROPERTY_RESPONSE_INFORMATION,
    MQTT_PROPERTY_SERVER_REFERENCE,
    MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM,
    MQTT_PROPERTY_MAXIMUM_PACKET_SIZE,
    MQTT_PROPERTY_RECEIVE_MAXIMUM,
    MQTT_PROPERTY_TOPIC_ALIAS,
    MQTT_PROPERTY_MAXIMUM_QOS,
    MQTT_PROPERTY_RETAIN_AVAILABLE,
    MQTT_PROPERTY_WILDCARD_SUBSCRIPTION_AVAILABLE,
    MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER_AVAILABLE,
    MQTT_PROPERTY_SHARED_SUBSCRIPTION_AVAILABLE,
    MQTT_PROPERTY_REASON_STRING,
    MQTT_PROPERTY_USER_PROPERTY,
    MQTT_PROPERTIES,
};

enum mqtt_property_type {
    MQTT_TYPE_BYTE,
    MQTT_TYPE_TWO_BYTE_INTEGER,
    MQTT_TYPE_FOUR_BYTE_INTEGER,
    MQTT_TYPE_VARIABLE_BYTE_INTEGER,
    MQTT_TYPE_BINARY_DATA,
    MQTT_TYPE_UTF8_STRING,
    MQTT_TYPE_UTF8_STRING_PAIR,
};

/* The will properties are no packet of their own; they use the type number that MQTT reserves. */
enum { MQTT_WILL_PROPERTIES = 0 };

struct mqtt_property_row {
    const char *name; /* as the specification spells it */
    uint8_t id;
    uint8_t type;          /* enum mqtt_property_type */
    uint16_t packets;      /* 1u << enum mqtt_type for each packet that may carry it; bit 0: the will properties */
    uint16_t repeatable;   /* as packets: where it may occur more than once */
    uint16_t offset;       /* of the field in struct mqtt_properties */
    uint32_t minimum;      /* numbers: the valid range */
    uint32_t maximum;
    uint8_t reason;        /* enum mqtt_reason for a number out of range */
};

extern const struct mqtt_property_row mqtt_property_table[MQTT_PROPERTIES];

/* Decoded properties, or properties to encode. A field means something only when its bit in `has` is set; all-zero is "no
 * properties". Clearing `has` and `raw` clears the whole. */
struct mqtt_properties {
    uint32_t has;   /* 1u << enum mqtt_property */
    uint32_t subscription_identifier; /* decoding a PUBLISH from a server: the first one */
    struct str raw; /* decoded: all property bytes. To encode: bytes whose User Properties are copied, others are ignored */

    uint32_t message_expiry_interval; /* s */
    uint32_t session_expiry_interval; /* s, 0xffffffff is never */
    uint32_t will_delay_interval;     /* s */
    uint32_t maximum_packet_size;     /* bytes */
    uint16_t server_keep_alive;       /* s */
    uint16_t receive_maximum;
    uint16_t topic_alias_maximum;
    uint16_t topic_alias;
    uint8_t payload_format_indicator;
    uint8_t request_problem_information;
    uint8_t request_response_information;
    uint8_t maximum_qos;
    uint8_t retain_available;
    uint8_t wildcard_subscription_available;
    uint8_t subscription_identifier_available;
    uint8_t shared_subscription_available;
    struct str content_type;
    struct str response_topic;
    struct str correlation_data;
    struct str assigned_client_identifier;
    struct str authentication_method;
    struct str authentication_data;
    struct str response_information;
    struct str server_reference;
    struct str reason_string;
};

static inline bool mqtt_property_has(const struct mqtt_properties *props, enum mqtt_property which)
{
    return (props->has >> which & 1u) != 0;
}

/* Sets one property to encode. `which` must be of a number type, or of the string and binary types, respectively; the text is
 * borrowed. User Properties are put in `raw` by the caller (mqtt_property_append_user()). */
void mqtt_property_set_number(struct mqtt_properties *props, enum mqtt_property which, uint32_t value);
void mqtt_property_set_text(struct mqtt_properties *props, enum mqtt_property which, struct str value);

/* Decodes `raw`, the property bytes of packet `type` (or MQTT_WILL_PROPERTIES) without their length. 0, or
 *   0x81 cut off, an unknown identifier, a bad variable byte integer, text that is not UTF-8 (section 2.2.2.2);
 *   0x82 not allowed in this packet, more than once where only one is allowed, out of range, Authentication Data without
 *        a method, a Response Topic that is no topic name [MQTT-3.3.2-14];
 *   0x94 Topic Alias 0 [MQTT-3.3.2-8].
 * What is cut off is 0x81 before anything else is looked at. `out` is then not to be used. */
MUST_USE enum mqtt_reason mqtt_property_decode(struct str raw, unsigned type, struct mqtt_properties *out);

struct mqtt_user_property {
    struct str name;
    struct str value;
};

/* Takes the next User Property from `*rest`, which starts as the `raw` of decoded properties. False at the end.
 *     for (struct str rest = props->raw; mqtt_property_next_user(&rest, &up);) ... */
bool mqtt_property_next_user(struct str *rest, struct mqtt_user_property *out);

/* The same for Subscription Identifiers. */
bool mqtt_property_next_subscription(struct str *rest, uint32_t *out_identifier);

/* Appends one encoded User Property to `out`, to be used as `raw` of properties to encode. E_INVAL: a text is over 65,535
 * bytes. E_NOMEM: the buffer could not grow. */
MUST_USE err mqtt_property_append_user(struct buf *out, enum mem_sub sub, struct str name, struct str value);

/* Bytes that the fields of `props` take when encoded, without the length before them. User Properties count too. */
size_t mqtt_property_size(const struct mqtt_properties *props);

/* Writes them to `p`, which has room for mqtt_property_size(), and returns the end. */
char *mqtt_property_write(char *p, const struct mqtt_properties *props);
