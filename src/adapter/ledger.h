/* ledger: what came of every message that devices and clients have sent, whichever adapter took it. It balances at every moment
 * and for each route: in = acknowledged + rejected + dropped + waiting. `acknowledged` means that the message has arrived where
 * its route leads, `rejected` that its sender was told or thrown out, `dropped` that nobody could be told (QoS 0). Functions that
 * count are for any thread that is attached to the metrics. */
#pragma once

#include <stdint.h>

struct rule_table;

/* Where a message goes: to one of these, or by a rule (ledger_make_rule_routes()). */
enum ledger_route {
    LEDGER_ROUTE_TELEMETRY,
    LEDGER_ROUTE_EVENT,
    LEDGER_ROUTE_COMMAND,
    LEDGER_ROUTE_MQTT,
    LEDGER_ROUTE_RULES,                                 /* the first named rule's */
    LEDGER_ROUTE_OTHER_RULES = LEDGER_ROUTE_RULES + 64, /* those past so many are counted together */
    LEDGER_ROUTES,
};

/* Why a message was not taken. Beyond the outcomes of core/sink.h there is what the edge refuses by itself. */
enum ledger_refusal {
    LEDGER_REFUSED_TOO_LARGE,
    LEDGER_REFUSED_UNKNOWN_TOPIC,
    LEDGER_REFUSED_DENIED,
    LEDGER_REFUSED_INVALID,
    LEDGER_REFUSED_UNAVAILABLE,
    LEDGER_REFUSED_OVERLOADED,
    LEDGER_REFUSED_FAILED,
    LEDGER_REFUSED_BAD_REQUEST,
    LEDGER_REFUSED_FORBIDDEN,
    LEDGER_REFUSED_NOT_FOUND,
    LEDGER_REFUSED_TOO_DEEP,
    LEDGER_REFUSED_PAYLOAD_FORMAT,
    LEDGER_REFUSED_NO_MEMORY,
    LEDGER_REFUSED_TOPIC_TOO_LONG,
    LEDGER_REFUSED_PARTITION,
    LEDGER_REFUSED_HOP_LIMIT,
    LEDGER_REFUSED_TOO_MANY_TOPICS,
    LEDGER_REFUSED_DATA_VOLUME, /* the tenant has used up what it may send and get */
    LEDGER_REFUSALS,
};

/* Registers the metrics, but those of rules. Once, before threads start; a no-op when done. */
void ledger_register(void);

/* The route of each rule of a table, by its number, and registers those not seen before: a rule keeps its series as long as it
 * keeps its name, and no other rule ever gets them. The caller owns the array, of MEM_ADAPTER. The main thread. */
uint8_t *ledger_make_rule_routes(const struct rule_table *rules);

/* The sides of the ledger, which has to balance whenever a handler has returned: a message came in; it waits (1) or does no
 * longer (-1); it reached its destination. Any thread with metric cells, never blocks. */
void ledger_count_in(enum ledger_route route);
void ledger_count_waiting(enum ledger_route route, int change);
void ledger_count_acknowledged(enum ledger_route route);

/* At QoS 0 the message counts as dropped, else as rejected. */
void ledger_count_refused(enum ledger_route route, enum ledger_refusal why, unsigned qos);

/* A record of class `received` did not reach Kafka although its sender was told that all is well. */
void ledger_count_lost(enum ledger_route route);

/* As the `reason` label, "too_large". */
const char *ledger_refusal_name(enum ledger_refusal why);
