#include "proto/mqtt/mqtt_property.h"

#include <assert.h>
#include <stddef.h>

#define IN(type) (1u << MQTT_##type)
#define IN_WILL  (1u << MQTT_WILL_PROPERTIES)
#define IN_ACKS  (IN(PUBACK) | IN(PUBREC) | IN(PUBREL) | IN(PUBCOMP) | IN(SUBACK) | IN(UNSUBACK))
#define IN_SUBS  (IN(SUBSCRIBE) | IN(UNSUBSCRIBE))
#define IN_ANY   (IN(CONNECT) | IN(CONNACK) | IN(PUBLISH) | IN_ACKS | IN_SUBS | IN(DISCONNECT) | IN(AUTH) | IN_WILL)

#define AT(field) .offset = offsetof(struct mqtt_properties, field)
#define BOOLEAN   .type = MQTT_TYPE_BYTE, .maximum = 1, .reason = MQTT_REASON_PROTOCOL_ERROR
#define NUMBER(bytes, from)                                                                                                    \
    .type = MQTT_TYPE_##bytes##_BYTE_INTEGER, .minimum = (from), .maximum = UINT32_MAX, .reason = MQTT_REASON_PROTOCOL_ERROR
#define TEXT   .type = MQTT_TYPE_UTF8_STRING
#define BINARY .type = MQTT_TYPE_BINARY_DATA

/* Table 2-4. A new property: a row here, a name in the enum, a field in struct mqtt_properties. */
const struct mqtt_property_row mqtt_property_table[MQTT_PROPERTIES] = {
    [MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR] = {"Payload Format Indicator", 0x01, BOOLEAN, AT(payload_format_indicator),
                                                .packets = IN(PUBLISH) | IN_WILL},
    [MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL] = {"Message Expiry Interval", 0x02, NUMBER(FOUR, 0), AT(message_expiry_interval),
                                               .packets = IN(PUBLISH) | IN_WILL},
    [MQTT_PROPERTY_CONTENT_TYPE] = {"Content Type", 0x03, TEXT, AT(content_type), .packets = IN(PUBLISH) | IN_WILL},
    [MQTT_PROPERTY_RESPONSE_TOPIC] = {"Response Topic", 0x08, TEXT, AT(response_topic), .packets = IN(PUBLISH) | IN_WILL},
    [MQTT_PROPERTY_CORRELATION_DATA] = {"Correlation Data", 0x09, BINARY, AT(correlation_data),
                                        .packets = IN(PUBLISH) | IN_WILL},
    [MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER] = {"Subscription Identifier", 0x0b, NUMBER(VARIABLE, 1),
                                               AT(subscription_identifier), .packets = IN(PUBLISH) | IN(SUBSCRIBE),
                                               .repeatable = IN(PUBLISH)},
    [MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL] = {"Session Expiry Interval", 0x11, NUMBER(FOUR, 0), AT(session_expiry_interval),
                                               .packets = IN(CONNECT) | IN(CONNACK) | IN(DISCONNECT)},
    [MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER] = {"Assigned Client Identifier", 0x12, TEXT, AT(assigned_client_identifier),
                                                  .packets = IN(CONNACK)},
    [MQTT_PROPERTY_SERVER_KEEP_ALIVE] = {"Server Keep Alive", 0x13, NUMBER(TWO, 0), AT(server_keep_alive),
                                         .packets = IN(CONNACK)},
    [MQTT_PROPERTY_AUTHENTICATION_METHOD] = {"Authentication Method", 0x15, TEXT, AT(authentication_method),
                                             .packets = IN(CONNECT) | IN(CONNACK) | IN(AUTH)},
    [MQTT_PROPERTY_AUTHENTICATION_DATA] = {"Authentication Data", 0x16, BINARY, AT(authentication_data),
                                           .packets = IN(CONNECT) | IN(CONNACK) | IN(AUTH)},
    [MQTT_PROPERTY_REQUEST_PROBLEM_INFORMATION] = {"Request Problem Information", 0x17, BOOLEAN,
                                                   AT(request_problem_information), .packets = IN(CONNECT)},
    [MQTT_PROPERTY_WILL_DELAY_INTERVAL] = {"Will Delay Interval", 0x18, NUMBER(FOUR, 0), AT(will_delay_interval),
                                           .packets = IN_WILL},
    [MQTT_PROPERTY_REQUEST_RESPONSE_INFORMATION] = {"Request Response Information", 0x19, BOOLEAN,
                                                    AT(request_response_information), .packets = IN(CONNECT)},
    [MQTT_PROPERTY_RESPONSE_INFORMATION] = {"Response Information", 0x1a, TEXT, AT(response_information),
                                            .packets = IN(CONNACK)},
    [MQTT_PROPERTY_SERVER_REFERENCE] = {"Server Reference", 0x1c, TEXT, AT(server_reference),
                                        .packets = IN(CONNACK) | IN(DISCONNECT)},
    [MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM] = {"Topic Alias Maximum", 0x22, NUMBER(TWO, 0), AT(topic_alias_maximum),
                                           .packets = IN(CONNECT) | IN(CONNACK)},
    [MQTT_PROPERTY_MAXIMUM_PACKET_SIZE] = {"Maximum Packet Size", 0x27, NUMBER(FOUR, 1), AT(maximum_packet_size),
                                           .packets = IN(CONNECT) | IN(CONNACK)},
    [MQTT_PROPERTY_RECEIVE_MAXIMUM] = {"Receive Maximum", 0x21, NUMBER(TWO, 1), AT(receive_maximum),
                                       .packets = IN(CONNECT) | IN(CONNACK)},
    [MQTT_PROPERTY_TOPIC_ALIAS] = {"Topic Alias", 0x23, .type = MQTT_TYPE_TWO_BYTE_INTEGER, .minimum = 1, .maximum = UINT32_MAX,
                                   .reason = MQTT_REASON_TOPIC_ALIAS_INVALID, AT(topic_alias), .packets = IN(PUBLISH)},
    [MQTT_PROPERTY_MAXIMUM_QOS] = {"Maximum QoS", 0x24, BOOLEAN, AT(maximum_qos), .packets = IN(CONNACK)},
    [MQTT_PROPERTY_RETAIN_AVAILABLE] = {"Retain Available", 0x25, BOOLEAN, AT(retain_available), .packets = IN(CONNACK)},
    [MQTT_PROPERTY_WILDCARD_SUBSCRIPTION_AVAILABLE] = {"Wildcard Subscription Available", 0x28, BOOLEAN,
                                                       AT(wildcard_subscription_available), .packets = IN(CONNACK)},
    [MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER_AVAILABLE] = {"Subscription Identifier Available", 0x29, BOOLEAN,
                                                         AT(subscription_identifier_available), .packets = IN(CONNACK)},
    [MQTT_PROPERTY_SHARED_SUBSCRIPTION_AVAILABLE] = {"Shared Subscription Available", 0x2a, BOOLEAN,
                                                     AT(shared_subscription_available), .packets = IN(CONNACK)},
    [MQTT_PROPERTY_REASON_STRING] = {"Reason String", 0x1f, TEXT, AT(reason_string),
                                     .packets = IN(CONNACK) | IN_ACKS | IN(DISCONNECT) | IN(AUTH)},
    [MQTT_PROPERTY_USER_PROPERTY] = {"User Property", 0x26, .type = MQTT_TYPE_UTF8_STRING_PAIR, .packets = IN_ANY,
                                     .repeatable = IN_ANY},
};

static_assert(MQTT_PROPERTIES <= 32, "each property has a bit in mqtt_properties.has");

enum { MQTT_PROPERTY_ID_MAX = 0x2a };

/* Identifier to row, plus one; 0 is no property. */
static const uint8_t rows_by_id[MQTT_PROPERTY_ID_MAX + 1] = {
    [0x01] = 1 + MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR,
    [0x02] = 1 + MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL,
    [0x03] = 1 + MQTT_PROPERTY_CONTENT_TYPE,
    [0x08] = 1 + MQTT_PROPERTY_RESPONSE_TOPIC,
    [0x09] = 1 + MQTT_PROPERTY_CORRELATION_DATA,
    [0x0b] = 1 + MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER,
    [0x11] = 1 + MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL,
    [0x12] = 1 + MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER,
    [0x13] = 1 + MQTT_PROPERTY_SERVER_KEEP_ALIVE,
    [0x15] = 1 + MQTT_PROPERTY_AUTHENTICATION_METHOD,
    [0x16] = 1 + MQTT_PROPERTY_AUTHENTICATION_DATA,
    [0x17] = 1 + MQTT_PROPERTY_REQUEST_PROBLEM_INFORMATION,
    [0x18] = 1 + MQTT_PROPERTY_WILL_DELAY_INTERVAL,
    [0x19] = 1 + MQTT_PROPERTY_REQUEST_RESPONSE_INFORMATION,
    [0x1a] = 1 + MQTT_PROPERTY_RESPONSE_INFORMATION,
    [0x1c] = 1 + MQTT_PROPERTY_SERVER_REFERENCE,
    [0x1f] = 1 + MQTT_PROPERTY_REASON_STRING,
    [0x21] = 1 + MQTT_PROPERTY_RECEIVE_MAXIMUM,
    [0x22] = 1 + MQTT_PROPERTY_TOPIC_ALIAS_MAXIMUM,
    [0x23] = 1 + MQTT_PROPERTY_TOPIC_ALIAS,
    [0x24] = 1 + MQTT_PROPERTY_MAXIMUM_QOS,
    [0x25] = 1 + MQTT_PROPERTY_RETAIN_AVAILABLE,
    [0x26] = 1 + MQTT_PROPERTY_USER_PROPERTY,
    [0x27] = 1 + MQTT_PROPERTY_MAXIMUM_PACKET_SIZE,
    [0x28] = 1 + MQTT_PROPERTY_WILDCARD_SUBSCRIPTION_AVAILABLE,
    [0x29] = 1 + MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER_AVAILABLE,
    [0x2a] = 1 + MQTT_PROPERTY_SHARED_SUBSCRIPTION_AVAILABLE,
};

bool mqtt_property_find(uint32_t id, enum mqtt_property *out_which)
{
    if (id > MQTT_PROPERTY_ID_MAX || rows_by_id[id] == 0)
        return false;
    *out_which = rows_by_id[id] - 1u;
    return true;
}
