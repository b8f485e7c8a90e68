/* to_mqtt_route: the rules for one Kafka topic, with the groups of its name looked up once, and what its records become. One
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/source.h"
#include "core/to_mqtt_rule.h"

enum { TO_MQTT_MAX_HOPS = 8 /* how often a message may have passed between MQTT and Kafka */ };

struct to_mqtt_route;

/* Holds a reference to the rules; copies the topic. Never NULL. */
struct to_mqtt_route *to_mqtt_route_new(struct to_mqtt_rules *rules, struct str topic);

/* NULL is a no-op. */
void to_mqtt_route_free(struct to_mqtt_route *route);

/* Why a record becomes no message. */
enum to_mqtt_refusal {
    TO_MQTT_REFUSED_NOTHING,
    TO_MQTT_REFUSED_NO_RULE,   /* no rule's key matches */
    TO_MQTT_REFUSED_TOPIC,     /* a value cannot stand in the topic or tenant */
    TO_MQTT_REFUSED_MATCH,     /* a key costs more to match than the bounds allow */
    TO_MQTT_REFUSED_HOPS,      /* a loop */
    TO_MQTT_REFUSED_EXPIRED,   /* its time to live is over */
    TO_MQTT_REFUSED_TOO_LARGE, /* for whoever takes the message */
    TO_MQTT_REFUSED_NO_MEMORY,
    TO_MQTT_REFUSALS,
};

/* A record as an MQTT message. Views into the record and the route, valid until the next record. */
struct to_mqtt_message {
    const struct to_mqtt_rule *rule;
    struct str tenant, topic;
    struct str content_type, response_topic, correlation_data; /* `p` NULL: none */
    bool has_expiry;
    uint32_t expiry_s; /* what is left of it */
};

/* Makes a message of a record of the route's topic. `now_ms` is the time since 1970. TO_MQTT_REFUSED_NOTHING: it is there. */
MUST_USE enum to_mqtt_refusal to_mqtt_route_map(struct to_mqtt_route *route, const struct source_record *record,
                                                uint64_t now_ms, struct to_mqtt_message *out_message);

/* The headers that become user properties, in order: start with `*at` 0; false at the end. Left out are those with a place of
 * their own in a message (content-type and `mqtt.*`, but for mqtt.hops and mqtt.origin, by which a loop is found) and those that
 * MQTT cannot carry. */
bool to_mqtt_route_next_property(const struct source_record *record, size_t *at, struct record_header *out_property);

/* The word for metrics and logs, as in "no_rule". Never NULL. */
const char *to_mqtt_route_refusal_name(enum to_mqtt_refusal refusal);
