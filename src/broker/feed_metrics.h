/* feed_metrics: the ledger of records on their way to MQTT. At every moment records = delivered + dropped (by reason) + waiting,
 * and what waits for a subscriber is held. */
#pragma once

#include "obs/metrics.h"

enum feed_metric {
    FEED_RECORDS,
    FEED_DELIVERED,
    FEED_WAITING,
    FEED_HELD,
    FEED_MOVED,
    FEED_DROPPED_NO_RULE,
    FEED_DROPPED_TOPIC,
    FEED_DROPPED_MATCH_LIMIT,
    FEED_DROPPED_HOP_LIMIT,
    FEED_DROPPED_EXPIRED,
    FEED_DROPPED_NO_MEMORY,
    FEED_DROPPED_NO_SUBSCRIBER,
    FEED_DROPPED_SESSION_END,
    FEED_DROPPED_OFFLINE,
    FEED_DROPPED_QUEUE_FULL,
    FEED_DROPPED_OUTPUT_FULL,
    FEED_DROPPED_TOO_LARGE,
    FEED_DROPPED_RETAINED_FULL,
    FEED_METRICS,
};

extern struct metric feed_metrics[FEED_METRICS];

static inline void feed_count(enum feed_metric which, int64_t n)
{
    metric_add(&feed_metrics[which], (uint64_t)n);
}
