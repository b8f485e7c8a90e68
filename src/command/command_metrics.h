/* command_metrics: the ledger of commands. At every moment received = delivered (attempted, received) + refused (by reason) + dropped (by reason) + waiting. */
#pragma once

#include "obs/metrics.h"

enum command_metric {
    COMMAND_COUNT_RECEIVED,
    COMMAND_COUNT_WAITING,
    COMMAND_COUNT_DELIVERED_RECEIVED,
    COMMAND_COUNT_DELIVERED_ATTEMPTED,
    COMMAND_COUNT_REFUSED_SUBJECT,
    COMMAND_COUNT_REFUSED_CORRELATION_ID,
    COMMAND_COUNT_REFUSED_UNKNOWN_TENANT,
    COMMAND_COUNT_REFUSED_UNKNOWN_DEVICE,
    COMMAND_COUNT_REFUSED_NO_CONSUMER,
    COMMAND_COUNT_REFUSED_GATEWAY,
    COMMAND_COUNT_REFUSED_DATA_VOLUME,
    COMMAND_COUNT_REFUSED_NOT_ACKNOWLEDGED,
    COMMAND_COUNT_DROPPED_NO_DEVICE,
    COMMAND_COUNT_DROPPED_KEY,
    COMMAND_COUNT_DROPPED_EXPIRED,
    COMMAND_COUNT_NOTICES,
    COMMAND_COUNT_NOTICES_LOST,
    COMMAND_COUNT_RETURNED,
    COMMAND_COUNT_SUBSCRIPTIONS,
    COMMAND_COUNT_SUBSCRIPTIONS_REPLACED,
    COMMAND_COUNT_EVENTS_LOST,
    COMMAND_COUNTS,
};

extern struct metric command_metrics[COMMAND_COUNTS];

static inline void command_count(enum command_metric which, int64_t n)
{
    metric_add(&command_metrics[which], (uint64_t)n);
}
