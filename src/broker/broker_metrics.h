/* broker_metrics: what the broker counts. The ledger of deliveries balances at every moment: matched = acknowledged + dropped (by
 * reason) + queued. */
#pragma once

#include "obs/metrics.h"

enum broker_metric {
    BROKER_DELIVERED,
    BROKER_DROPPED_OFFLINE,     /* QoS 0 for a client that is away */
    BROKER_DROPPED_OUTPUT_FULL, /* QoS 0 for a client that reads too slowly */
    BROKER_DROPPED_QUEUE_FULL,
    BROKER_DROPPED_TOO_LARGE, /* over the client's Maximum Packet Size */
    BROKER_DROPPED_EXPIRED,
    BROKER_DROPPED_SESSION_END, /* was queued or in flight when its session ended */
    BROKER_DROPPED_NO_MEMORY,
    BROKER_ACKNOWLEDGED,
    BROKER_QUEUED,
    BROKER_MATCHED,
    BROKER_SESSIONS,
    BROKER_SUBSCRIPTIONS,
    BROKER_TAKEOVERS,
    BROKER_OVERDUE,       /* closed because they acknowledged nothing for too long */
    BROKER_RETAINED_LOST, /* a worker had no memory for it */
    BROKER_METRICS,
};

extern struct metric broker_metrics[BROKER_METRICS];

static inline void broker_count(enum broker_metric which, int64_t n)
{
    metric_add(&broker_metrics[which], (uint64_t)n);
}
