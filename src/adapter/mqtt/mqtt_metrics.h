/* mqtt_metrics: what the MQTT adapter counts beside the ledger of messages (adapter/ledger.h). */
#pragma once

#include <stdint.h>

#include "proto/mqtt/mqtt_reason.h"
#include "registry/usage.h"

enum mqtt_counter {
    MQTT_COUNT_CONNECTED,
    MQTT_COUNT_CONNECTIONS,
    MQTT_COUNT_HANDED_OVER,
    MQTT_COUNT_PACKETS,
    MQTT_COUNT_PROTOCOL_ERRORS,
    MQTT_COUNT_KEEP_ALIVE_TIMEOUTS,
    MQTT_COUNT_CONNECT_TIMEOUTS,
    MQTT_COUNT_SUBSCRIPTIONS_REFUSED,
    MQTT_COUNT_WAITS,
    MQTT_COUNT_WILLS,
    MQTT_COUNT_RULE_TOPICS,
    MQTT_COUNT_TOPICS_MADE,
    MQTT_COUNT_ERRORS_TOLD,
    MQTT_COUNT_ERRORS_UNTOLD,
    MQTT_COUNT_COMMANDS_RESENT,
    MQTT_COUNT_CONNECTION_EVENTS,
    MQTT_COUNT_CONNECTION_EVENTS_LOST,
    MQTT_COUNTERS,
};

/* Registers the metrics. */
void mqtt_metrics_register(void);

/* Adds to one of them, in the cells of the calling thread; a gauge may fall. */
void mqtt_metrics_count(enum mqtt_counter which, int64_t n);

/* Counts a refused CONNECT by what it was refused for, in a word of the `reason` label. */
void mqtt_metrics_connect_refused(enum mqtt_reason reason);

/* The same for one that was refused for what its tenant uses; not for USAGE_ADMITTED. */
void mqtt_metrics_connect_limited(enum usage_verdict verdict);
