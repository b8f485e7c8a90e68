#include "proto/mqtt/mqtt_reason.h"

#include <stddef.h>

#include "base/check.h"

#define IN(type) (1u << MQTT_##type)

/* Table 2-6, by code: its name and the packets that may carry it. */
static const struct row {
    const char *name;
    uint16_t packets;
    uint8_t reason;
} rows[] = {
    {"Success",
     IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(PUBREL) | IN(PUBCOMP) | IN(SUBACK) | IN(UNSUBACK) | IN(AUTH) | IN(DISCONNECT),
     0x00},
    {"Granted QoS 1", IN(SUBACK), 0x01},
    {"Granted QoS 2", IN(SUBACK), 0x02},
    {"Disconnect with Will Message", IN(DISCONNECT), 0x04},
    {"No matching subscribers", IN(PUBACK) | IN(PUBREC), 0x10},
    {"No subscription existed", IN(UNSUBACK), 0x11},
    {"Continue authentication", IN(AUTH), 0x18},
    {"Re-authenticate", IN(AUTH), 0x19},
    {"Unspecified error", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(SUBACK) | IN(UNSUBACK) | IN(DISCONNECT), 0x80},
    {"Malformed Packet", IN(CONNACK) | IN(DISCONNECT), 0x81},
    {"Protocol Error", IN(CONNACK) | IN(DISCONNECT), 0x82},
    {"Implementation specific error", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(SUBACK) | IN(UNSUBACK) | IN(DISCONNECT), 0x83},
    {"Unsupported Protocol Version", IN(CONNACK), 0x84},
    {"Client Identifier not valid", IN(CONNACK), 0x85},
    {"Bad User Name or Password", IN(CONNACK), 0x86},
    {"Not authorized", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(SUBACK) | IN(UNSUBACK) | IN(DISCONNECT), 0x87},
    {"Server unavailable", IN(CONNACK), 0x88},
    {"Server busy", IN(CONNACK) | IN(DISCONNECT), 0x89},
    {"Banned", IN(CONNACK), 0x8a},
    {"Server shutting down", IN(DISCONNECT), 0x8b},
    {"Bad authentication method", IN(CONNACK) | IN(DISCONNECT), 0x8c},
    {"Keep Alive timeout", IN(DISCONNECT), 0x8d},
    {"Session taken over", IN(DISCONNECT), 0x8e},
    {"Topic Filter invalid", IN(SUBACK) | IN(UNSUBACK) | IN(DISCONNECT), 0x8f},
    {"Topic Name invalid", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(DISCONNECT), 0x90},
    {"Packet Identifier in use", IN(PUBACK) | IN(PUBREC) | IN(SUBACK) | IN(UNSUBACK), 0x91},
    {"Packet Identifier not found", IN(PUBREL) | IN(PUBCOMP), 0x92},
    {"Receive Maximum exceeded", IN(DISCONNECT), 0x93},
    {"Topic Alias invalid", IN(DISCONNECT), 0x94},
    {"Packet too large", IN(CONNACK) | IN(DISCONNECT), 0x95},
    {"Message rate too high", IN(DISCONNECT), 0x96},
    {"Quota exceeded", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(SUBACK) | IN(DISCONNECT), 0x97},
    {"Administrative action", IN(DISCONNECT), 0x98},
    {"Payload format invalid", IN(CONNACK) | IN(PUBACK) | IN(PUBREC) | IN(DISCONNECT), 0x99},
    {"Retain not supported", IN(CONNACK) | IN(DISCONNECT), 0x9a},
    {"QoS not supported", IN(CONNACK) | IN(DISCONNECT), 0x9b},
    {"Use another server", IN(CONNACK) | IN(DISCONNECT), 0x9c},
    {"Server moved", IN(CONNACK) | IN(DISCONNECT), 0x9d},
    {"Shared Subscriptions not supported", IN(SUBACK) | IN(DISCONNECT), 0x9e},
    {"Connection rate exceeded", IN(CONNACK) | IN(DISCONNECT), 0x9f},
    {"Maximum connect time", IN(DISCONNECT), 0xa0},
    {"Subscription Identifiers not supported", IN(SUBACK) | IN(DISCONNECT), 0xa1},
    {"Wildcard Subscriptions not supported", IN(SUBACK) | IN(DISCONNECT), 0xa2},
};

/* What 3.1.1 can say of the refusals of 5.0. Malformed packets and protocol errors have no code: 3.1.1 closes. */
static const uint8_t return_codes[][2] = {
    {MQTT_REASON_SUCCESS, MQTT_RETURN_ACCEPTED},
    {MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION, MQTT_RETURN_UNACCEPTABLE_PROTOCOL_VERSION},
    {MQTT_REASON_CLIENT_IDENTIFIER_NOT_VALID, MQTT_RETURN_IDENTIFIER_REJECTED},
    {MQTT_REASON_UNSPECIFIED_ERROR, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_SERVER_UNAVAILABLE, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_SERVER_BUSY, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_QUOTA_EXCEEDED, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_USE_ANOTHER_SERVER, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_SERVER_MOVED, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_CONNECTION_RATE_EXCEEDED, MQTT_RETURN_SERVER_UNAVAILABLE},
    {MQTT_REASON_BAD_USER_NAME_OR_PASSWORD, MQTT_RETURN_BAD_USER_NAME_OR_PASSWORD},
    {MQTT_REASON_NOT_AUTHORIZED, MQTT_RETURN_NOT_AUTHORIZED},
    {MQTT_REASON_BANNED, MQTT_RETURN_NOT_AUTHORIZED},
    {MQTT_REASON_TOPIC_NAME_INVALID, MQTT_RETURN_NOT_AUTHORIZED}, /* a will that may not be published there */
    {MQTT_REASON_RETAIN_NOT_SUPPORTED, MQTT_RETURN_NOT_AUTHORIZED},
    {MQTT_REASON_QOS_NOT_SUPPORTED, MQTT_RETURN_NOT_AUTHORIZED},
};

static const char *const type_names[] = {
    "reserved",  "CONNECT", "CONNACK",     "PUBLISH",  "PUBACK",  "PUBREC",   "PUBREL",     "PUBCOMP",
    "SUBSCRIBE", "SUBACK",  "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
};

static const struct row *find(unsigned reason)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].reason == reason)
            return &rows[i];
    return NULL;
}

const char *mqtt_reason_name(enum mqtt_reason reason)
{
    const struct row *row = find(reason);

    return row ? row->name : "unknown reason";
}

const char *mqtt_reason_type_name(enum mqtt_type type)
{
    return type < ARRAY_LEN(type_names) ? type_names[type] : type_names[0];
}

bool mqtt_reason_is_allowed(enum mqtt_type type, uint8_t reason)
{
    const struct row *row = find(reason);

    return row && (row->packets >> type & 1u);
}

bool mqtt_reason_to_return_code(enum mqtt_reason reason, enum mqtt_return_code *out_code)
{
    for (size_t i = 0; i < ARRAY_LEN(return_codes); i++) {
        if (return_codes[i][0] == reason) {
            *out_code = return_codes[i][1];
            return true;
        }
    }
    return false;
}
