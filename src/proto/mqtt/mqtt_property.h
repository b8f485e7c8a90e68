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
    uint8_t type;        /* enum mqtt_property_type */
    uint8_t reason;      /* enum mqtt_reason for a number out of range */
    uint16_t offset;     /* of the field in struct mqtt_properties */
    uint32_t packets;    /* 1u << enum mqtt_type for each packet that may carry it; bit 0: the will properties */
    uint32_t repeatable; /* as packets: where it may occur more than once */
    uint32_t minimum;    /* numbers: the valid range */
    uint32_t maximum;
};

extern const struct mqtt_property_row mqtt_property_table[MQTT_PROPERTIES];

/* The row of a property identifier. False when the specification has none. */
bool mqtt_property_find(uint32_t id, enum mqtt_property *out_which);

/* Decoded properties, or properties to encode. A field means something only when its bit in `has` is set; all-zero is "no
 * properties". Clearing `has` and `raw` clears the whole. */
struct mqtt_properties {
    uint32_t has;                     /* 1u << enum mqtt_property */
    uint32_t subscription_identifier; /* of a PUBLISH from a server: the first one */
    struct str raw;                   /* decoded: all property bytes. To encode: bytes whose User Properties are copied,
                                         whatever else is in them, as if their bit in `has` were set */
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
 *   0x81 cut off, an identifier that is unknown or not valid for the packet (section 2.2.2.2), a bad variable byte integer,
 *        text that is not plain UTF-8 (utf8_is_plain());
 *   0x82 more than once where only one is allowed, out of range, Authentication Data without a method, a Response Topic
 *        that is no topic name [MQTT-3.3.2-14];
 *   0x94 Topic Alias 0 [MQTT-3.3.2-8].
 * The first fault counts. `out` is then not to be used. */
MUST_USE enum mqtt_reason mqtt_property_decode(struct str raw, unsigned type, struct mqtt_properties *out);

/* The same for properties with their length before them, at a reader (mqtt_wire.h) that is left behind them. */
struct mqtt_wire;
MUST_USE enum mqtt_reason mqtt_property_read(struct mqtt_wire *r, unsigned type, struct mqtt_properties *out);

struct mqtt_user_property {
    struct str name;
    struct str value;
};

/* Takes the next User Property from `*rest`, which starts as the `raw` of decoded properties and is borrowed. False at the
 * end. The same for Subscription Identifiers, and for every property with its encoded bytes, identifier included.
 *     for (struct str rest = props->raw; mqtt_property_next_user(&rest, &up);) ... */
bool mqtt_property_next_user(struct str *rest, struct mqtt_user_property *out);
bool mqtt_property_next_subscription(struct str *rest, uint32_t *out_identifier);
bool mqtt_property_next(struct str *rest, enum mqtt_property *out_which, struct str *out_encoded);

/* Appends one encoded User Property to `out`, to be used as `raw` of properties to encode. E_INVAL: a text is over 65,535
 * bytes. E_NOMEM: the buffer could not grow. */
MUST_USE err mqtt_property_append_user(struct buf *out, enum mem_sub sub, struct str name, struct str value);

/* Bytes that `props` takes when encoded, with the length before it. */
size_t mqtt_property_size(const struct mqtt_properties *props);

/* Writes `props` with its length to `p`, which has room for mqtt_property_size(), and returns the end. */
char *mqtt_property_write(char *p, const struct mqtt_properties *props);

/* Appends `props` as a message keeps them (core/message.h): without the length before them. E_NOMEM: nothing was appended. */
MUST_USE err mqtt_property_encode_bare(struct buf *out, enum mem_sub sub, const struct mqtt_properties *props);

/* What of `props` (NULL is none) may be sent in a packet whose other fields take `other` bytes after the fixed header: all of
 * it, or without User Properties, or without the Reason String as well, when the packet would else be larger than the
 * client's Maximum Packet Size. Returns a borrowing copy; nothing before 5.0. */
struct mqtt_properties mqtt_property_trim(const struct mqtt_encoder *e, size_t other, const struct mqtt_properties *props);
