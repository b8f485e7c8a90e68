/* kafka_topics: what topics the cluster has, and making those that are missing. Blocks: the admin thread only. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "base/map.h"
#include "kafka/kafka.h"
#include "kafka/kafka_producer.h"

/* What the cluster has, by name. The map borrows from the metadata. All-zero is empty. */
struct kafka_topic_list {
    const struct rd_kafka_metadata *metadata;
    struct map by_name;
};

/* Asks for all topics at once: one question however many topics must exist, and the answer also fills the metadata of the
 * handles that are open. Written only when the result is RD_KAFKA_RESP_ERR_NO_ERROR. Blocks for at most
 * `timeout_ms`. */
rd_kafka_resp_err_t kafka_topics_list(struct kafka_producer *p, int timeout_ms, struct kafka_topic_list *out_list);
void kafka_topics_free(struct kafka_topic_list *list);

/* One attempt at kafka_ensure_topics(), by what `list` says. E_AGAIN: not yet, with the reason in the log. Else the code of
 * the mail, with the text in the request's result. */
MUST_USE err kafka_topics_ensure(struct kafka *k, struct kafka_producer *p, struct kafka_topics *r,
                                 const struct kafka_topic_list *list);
