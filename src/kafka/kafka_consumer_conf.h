/* kafka_consumer_conf: from our settings to the handle of a consumer. Any thread. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "kafka/kafka.h"

/* A consumer's handle with our settings and the user's. The caller owns it. E_INVAL. */
MUST_USE err kafka_consumer_conf_open(const struct kafka_settings *settings, struct str bootstrap, struct str group,
                                      void *opaque, rd_kafka_t **out_rk, struct errinfo *ei);

/* The same in two steps, for one that needs more set. The second takes the configuration. */
rd_kafka_conf_t *kafka_consumer_conf_make(const struct kafka_settings *settings, struct str bootstrap, struct str group,
                                          void *opaque);
MUST_USE err kafka_consumer_conf_open_made(rd_kafka_conf_t *conf, rd_kafka_t **out_rk, struct errinfo *ei);

/* Ends a handle, of which nothing is used any more. NULL is a no-op. One that librdkafka does not end within some seconds is left. */
void kafka_consumer_conf_close(rd_kafka_t *rk);

/* kafka_consumer.c: counts errors of the client itself. On the consumer's thread. */
void kafka_consumer_on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque);
