/* kafka_metrics: what this folder counts (obs/metrics.h). */
#pragma once

#include <stdint.h>

#include "core/sink.h"
#include "obs/metrics.h"

struct kafka;

enum kafka_counter {
    KAFKA_COUNTER_NO_ROOM,
    KAFKA_COUNTER_REPLACEMENTS,
    KAFKA_COUNTER_CLIENT_ERRORS,
    KAFKA_COUNTERS,
};

extern struct metric kafka_metrics_records[OUTCOMES];
extern struct metric kafka_metrics_counters[KAFKA_COUNTERS];

/* Registers the tables and makes `k` the one whose gauges are shown. */
void kafka_metrics_open(const struct kafka *k);

/* The gauges of `k` read 0 from now on. */
void kafka_metrics_close(const struct kafka *k);

/* Counts records answered or refused with an outcome. */
static inline void kafka_metrics_add_records(enum outcome outcome, uint64_t n)
{
    metric_add(&kafka_metrics_records[outcome], n);
}

static inline void kafka_metrics_add(enum kafka_counter counter, uint64_t n)
{
    metric_add(&kafka_metrics_counters[counter], n);
}
