/* mqtt_metrics: what the MQTT adapter counts. The ledger of published messages balances at every moment and for each route:
 * in = acknowledged + rejected + dropped + waiting. `acknowledged` means that the message has arrived where its route
 * leads, `rejected` that its sender was told or thrown out, `dropped` that nobody could be told (QoS 0). */
#pragma once

#include "obs/metrics.h"

/* Where a message goes: to one of these, or by a rule (mqtt_metrics_make_rule_routes()). */
enum mqtt_route {
    MQTT_ROUTE_TELEMETRY,
    MQTT_ROUTE_EVENT,
    MQTT_ROUTE_COMMAND,
    MQTT_ROUTE_MQTT,
    MQTT_ROUTE_RULES,                               /* the first named rule's */
    MQTT_ROUTE_OTHER_RULES = MQTT_ROUTE_RULES + 64, /* those past so many are counted together */
    MQTT_ROUTES,
};

/* Why a message was not taken. Beyond the outcomes of core/sink.h there is what the edge refuses by itself. */
enum mqtt_refusal {
    MQTT_REFUSED_TOO_LARGE,
    MQTT_REFUSED_UNKNOWN_TOPIC,
    MQTT_REFUSED_DENIED,
    MQTT_REFUSED_INVALID,
    MQTT_REFUSED_UNAVAILABLE,
    MQTT_REFUSED_OVERLOADED,
    MQTT_REFUSED_FAILED,
    MQTT_REFUSED_BAD_REQUEST,
    MQTT_REFUSED_FORBIDDEN,
    MQTT_REFUSED_NOT_FOUND,
    MQTT_REFUSED_TOO_DEEP,
    MQTT_REFUSED_PAYLOAD_FORMAT,
    MQTT_REFUSED_NO_MEMORY,
    MQTT_REFUSED_TOPIC_TOO_LONG,
    MQTT_REFUSED_PARTITION,
    MQTT_REFUSED_HOP_LIMIT,
    MQTT_REFUSED_TOO_MANY_TOPICS,
    MQTT_REFUSALS,
};

enum mqtt_counter {
    MQTT_COUNT_CONNECTED,
    MQTT_COUNT_CONNECTIONS,
    MQTT_COUNT_REFUSED,
    MQTT_COUNT_HANDED_OVER,
    MQTT_COUNT_PACKETS,
    MQTT_COUNT_PROTOCOL_ERRORS,
    MQTT_COUNT_KEEP_ALIVE_TIMEOUTS,
    MQTT_COUNT_CONNECT_TIMEOUTS,
    MQTT_COUNT_WAITS,
    MQTT_COUNT_WILLS,
    MQTT_COUNT_RULE_TOPICS,
    MQTT_COUNT_TOPICS_MADE,
    MQTT_COUNT_ERRORS_TOLD,
    MQTT_COUNT_ERRORS_UNTOLD,
    MQTT_COUNTERS,
};

/* Registers the metrics, but those of rules. */
void mqtt_metrics_register(void);

/* The route of each rule of a table, by its number, and registers those not seen before: a rule keeps its series as long as it
 * keeps its name, and no other rule ever gets them. The caller owns the array, of MEM_ADAPTER. The main thread. */
struct rule_table;
uint8_t *mqtt_metrics_make_rule_routes(const struct rule_table *rules);

void mqtt_metrics_in(enum mqtt_route route);
void mqtt_metrics_wait(enum mqtt_route route, int change);
void mqtt_metrics_acknowledged(enum mqtt_route route);
/* At QoS 0 the message counts as dropped, else as rejected. */
void mqtt_metrics_refused(enum mqtt_route route, enum mqtt_refusal why, unsigned qos);

/* A record of class `received` did not reach Kafka although its sender was told that all is well. */
void mqtt_metrics_lost(enum mqtt_route route);

void mqtt_metrics_count(enum mqtt_counter which, int64_t n);

/* As the `reason` label, "too_large". */
const char *mqtt_metrics_refusal_name(enum mqtt_refusal why);
