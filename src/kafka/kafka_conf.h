/* kafka_conf: from our settings to a librdkafka configuration. Any thread. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "kafka/kafka.h"

/* The producer's configuration: our defaults, overridden by the properties in `settings`, except for those that the promises
 * of core/sink.h rest on. The caller owns `*out_conf`. E_INVAL with the property and the reason in `ei`. */
MUST_USE err kafka_conf_make(const struct kafka_settings *settings, struct str bootstrap, rd_kafka_conf_t **out_conf,
                             struct errinfo *ei);

/* A handle with a copy of `conf`. Starts librdkafka's threads, waits for nothing. E_INVAL when librdkafka finds fault with
 * the properties as a whole, for example a certificate that cannot be read. */
MUST_USE err kafka_conf_open(const rd_kafka_conf_t *conf, rd_kafka_t **out_rk, struct errinfo *ei);

/* A topic's handle; the caller owns it. `limit_ms` 0: records wait for Kafka for ever. NULL when librdkafka refuses. */
rd_kafka_topic_t *kafka_conf_open_topic(rd_kafka_t *rk, const char *name, uint32_t limit_ms);
