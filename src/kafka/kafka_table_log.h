/* kafka_table_log: the log of a table (core/table_log.h) in Kafka. Three topics, with as many partitions as the table:
 *   millrace.TABLE.requests  what is asked for; the group millrace.TABLE gives each partition to one instance, its owner
 *   millrace.TABLE.states    compacted; written in transactions by the owner alone, whose transactional.id fences others
 *   millrace.TABLE.replies   what the owners say; every instance reads all
 * each with the prefix of all topics before it. docs/wire/tables.md has the details.
 *
 * Threads, for each table: one that takes what two consumers bring, one that asks the cluster and waits for its answers, and
 * one for each partition that this instance owns, whose transactions block. Kafka that is away is waited for.
 *
 * Life: kafka_table_log_topics() and kafka_ensure_topics(), kafka_table_log_open(), [table_open() ... table_close()],
 * kafka_table_log_close(), kafka_stop(). */
#pragma once

#include "core/table_log.h"
#include "kafka/kafka.h"

enum { KAFKA_TABLE_TOPICS = 3, KAFKA_TABLE_NAME_BYTES = 64 };

/* The topics of a table, as a request to kafka_ensure_topics(). */
struct kafka_table_topics {
    struct kafka_topics topics; /* mail and home are set by the requester */
    char texts[KAFKA_TABLE_TOPICS][KAFKA_TABLE_NAME_BYTES];
    struct str names[KAFKA_TABLE_TOPICS];
    struct kafka_topic_spec specs[KAFKA_TABLE_TOPICS];
};

/* Fills the request: the topics are made as a table needs them, or checked. `table`: at most 40 of [a-z_]. `n_replicas` 0:
 * the cluster's default. Any thread. */
void kafka_table_log_topics(struct kafka *k, const char *table, unsigned n_partitions, unsigned n_replicas,
                            struct kafka_table_topics *out_topics);

/* Opens the handles; nothing is read yet. For one table_open(). `settings` are those that `k` was opened with. The caller
 * owns `*out_log`. The main thread. E_INVAL, E_IO. */
MUST_USE err kafka_table_log_open(struct kafka *k, const struct kafka_settings *settings, const char *table,
                                  unsigned n_partitions, struct table_log **out_log, struct errinfo *ei);

/* After the table is closed, before kafka_free(). NULL is a no-op. */
void kafka_table_log_close(struct table_log *log);
