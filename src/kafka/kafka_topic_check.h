/* kafka_topic_check: whether topics that exist are what they must be. Blocks: the admin thread, or another that may wait. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kafka/kafka.h"

enum { KAFKA_TOPIC_CONFIG_BYTES = 64 };

/* Compares the topics of a request with its specs: partitions, cleanup.policy. E_AGAIN: the cluster does not answer.
 * E_INVAL: one differs; E_DENIED: it may not be looked at; the text goes to the request's result. */
MUST_USE err kafka_topic_check(struct kafka *k, rd_kafka_t *rk, struct kafka_topics *r);

/* Reads one setting of a topic; a longer value is cut. Gives up when `is_stopping` becomes true, with __DESTROY. */
MUST_USE rd_kafka_resp_err_t kafka_topic_check_read(rd_kafka_t *rk, const char *topic, const char *name,
                                                    char out_value[KAFKA_TOPIC_CONFIG_BYTES], const atomic_bool *is_stopping);
