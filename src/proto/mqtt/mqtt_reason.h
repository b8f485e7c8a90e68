/* mqtt_reason: the reason codes of MQTT 5.0 (section 2.4) and the CONNACK return codes of 3.1 and 3.1.1. The decoders use the
 * same codes to say what is wrong with a packet of any version. Constants and pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Packet types, the high half of the first byte. */
enum mqtt_type {
    MQTT_CONNECT = 1,
    MQTT_CONNACK,
    MQTT_PUBLISH,
    MQTT_PUBACK,
    MQTT_PUBREC,
    MQTT_PUBREL,
    MQTT_PUBCOMP,
    MQTT_SUBSCRIBE,
    MQTT_SUBACK,
    MQTT_UNSUBSCRIBE,
    MQTT_UNSUBACK,
    MQTT_PINGREQ,
    MQTT_PINGRESP,
    MQTT_DISCONNECT,
    MQTT_AUTH,
};

enum mqtt_reason {
    MQTT_REASON_SUCCESS = 0x00, /* also Normal disconnection and Granted QoS 0 */
    MQTT_REASON_GRANTED_QOS_1 = 0x01,
    MQTT_REASON_GRANTED_QOS_2 = 0x02,
    MQTT_REASON_DISCONNECT_WITH_WILL_MESSAGE = 0x04,
    MQTT_REASON_NO_MATCHING_SUBSCRIBERS = 0x10,
    MQTT_REASON_NO_SUBSCRIPTION_EXISTED = 0x11,
    MQTT_REASON_CONTINUE_AUTHENTICATION = 0x18,
    MQTT_REASON_RE_AUTHENTICATE = 0x19,
    MQTT_REASON_UNSPECIFIED_ERROR = 0x80,
    MQTT_REASON_MALFORMED_PACKET = 0x81,
    MQTT_REASON_PROTOCOL_ERROR = 0x82,
    MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR = 0x83,
    MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION = 0x84,
    MQTT_REASON_CLIENT_IDENTIFIER_NOT_VALID = 0x85,
    MQTT_REASON_BAD_USER_NAME_OR_PASSWORD = 0x86,
    MQTT_REASON_NOT_AUTHORIZED = 0x87,
    MQTT_REASON_SERVER_UNAVAILABLE = 0x88,
    MQTT_REASON_SERVER_BUSY = 0x89,
    MQTT_REASON_BANNED = 0x8a,
    MQTT_REASON_SERVER_SHUTTING_DOWN = 0x8b,
    MQTT_REASON_BAD_AUTHENTICATION_METHOD = 0x8c,
    MQTT_REASON_KEEP_ALIVE_TIMEOUT = 0x8d,
    MQTT_REASON_SESSION_TAKEN_OVER = 0x8e,
    MQTT_REASON_TOPIC_FILTER_INVALID = 0x8f,
    MQTT_REASON_TOPIC_NAME_INVALID = 0x90,
    MQTT_REASON_PACKET_IDENTIFIER_IN_USE = 0x91,
    MQTT_REASON_PACKET_IDENTIFIER_NOT_FOUND = 0x92,
    MQTT_REASON_RECEIVE_MAXIMUM_EXCEEDED = 0x93,
    MQTT_REASON_TOPIC_ALIAS_INVALID = 0x94,
    MQTT_REASON_PACKET_TOO_LARGE = 0x95,
    MQTT_REASON_MESSAGE_RATE_TOO_HIGH = 0x96,
    MQTT_REASON_QUOTA_EXCEEDED = 0x97,
    MQTT_REASON_ADMINISTRATIVE_ACTION = 0x98,
    MQTT_REASON_PAYLOAD_FORMAT_INVALID = 0x99,
    MQTT_REASON_RETAIN_NOT_SUPPORTED = 0x9a,
    MQTT_REASON_QOS_NOT_SUPPORTED = 0x9b,
    MQTT_REASON_USE_ANOTHER_SERVER = 0x9c,
    MQTT_REASON_SERVER_MOVED = 0x9d,
    MQTT_REASON_SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9e,
    MQTT_REASON_CONNECTION_RATE_EXCEEDED = 0x9f,
    MQTT_REASON_MAXIMUM_CONNECT_TIME = 0xa0,
    MQTT_REASON_SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xa1,
    MQTT_REASON_WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xa2,
};

/* CONNACK of 3.1.1, section 3.2.2.3 (3.1 has the same numbers). */
enum mqtt_return_code {
    MQTT_RETURN_ACCEPTED = 0,
    MQTT_RETURN_UNACCEPTABLE_PROTOCOL_VERSION = 1,
    MQTT_RETURN_IDENTIFIER_REJECTED = 2,
    MQTT_RETURN_SERVER_UNAVAILABLE = 3,
    MQTT_RETURN_BAD_USER_NAME_OR_PASSWORD = 4,
    MQTT_RETURN_NOT_AUTHORIZED = 5,
};

/* The specification's name of a reason code, for logs and metrics, as in "Malformed Packet". Never NULL. */
const char *mqtt_reason_name(enum mqtt_reason reason);

/* The specification's name of a packet type, as in "PUBLISH". Never NULL. */
const char *mqtt_reason_type_name(enum mqtt_type type);

/* Whether the reason code table of packet `type` has `reason`, in either direction (table 2-6). False for types that carry
 * no reason code. */
bool mqtt_reason_is_allowed(enum mqtt_type type, uint8_t reason);

/* The 3.1.1 CONNACK return code that says the same as `reason`. False, and nothing written, when 3.1.1 has none: the
 * connection is then closed without a CONNACK, as for every malformed packet [MQTT-3.1.4-1 of 3.1.1]. */
bool mqtt_reason_to_return_code(enum mqtt_reason reason, enum mqtt_return_code *out_code);
