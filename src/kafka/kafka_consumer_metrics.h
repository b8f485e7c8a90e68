/* kafka_consumer_metrics: what reading from Kafka counts (obs/metrics.h). */
#pragma once

#include <stdint.h>

#include "kafka/kafka_consumer.h"
#include "obs/metrics.h"

enum kafka_consumer_metric {
    KAFKA_CONSUMED,
    KAFKA_CONSUMED_SETTLED,
    KAFKA_CONSUMED_UNSETTLED,
    KAFKA_CONSUMED_SKIPPED,
    KAFKA_CONSUMER_PARTITIONS,
    KAFKA_CONSUMER_PAUSED,
    KAFKA_CONSUMER_PAUSES,
    KAFKA_CONSUMER_COMMITS,
    KAFKA_CONSUMER_COMMIT_ERRORS,
    KAFKA_CONSUMER_RESETS,
    KAFKA_CONSUMER_LOST,
    KAFKA_CONSUMER_METRICS,
};

extern struct metric kafka_consumer_metrics[KAFKA_CONSUMER_READERS][KAFKA_CONSUMER_METRICS];

/* Of every handle that reads. */
extern struct metric kafka_consumer_errors[1];
