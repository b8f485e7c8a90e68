/* kafka_mock: Kafka's wire protocol inside the process, in memory, for trying the program out and for tests (librdkafka's mock
 * cluster: one broker on a loopback port of the system's choice). */
#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "base/err.h"
#include "base/str.h"

struct kafka_mock {
    rd_kafka_t *rk; /* the mock cluster needs a client to live in; it connects nowhere */
    rd_kafka_mock_cluster_t *cluster;
};

enum {
    KAFKA_MOCK_PARTITIONS = 4,
    KAFKA_MOCK_PARTITION_BYTES = 5 << 20, /* what the cluster keeps of a partition */
};

/* Starts it and tells its limits in the log. E_IO with the reason in `ei`; `mock` is then all-zero. */
MUST_USE err kafka_mock_start(struct kafka_mock *mock, struct errinfo *ei);

/* The address for clients, "127.0.0.1:PORT". */
struct str kafka_mock_bootstrap(const struct kafka_mock *mock);

/* Makes a topic (CreateTopics is not part of it). RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS when it is there. Any thread. */
rd_kafka_resp_err_t kafka_mock_create_topic(const struct kafka_mock *mock, const char *name);

/* Forgets all records. No-op on an all-zero mock. */
void kafka_mock_stop(struct kafka_mock *mock);
