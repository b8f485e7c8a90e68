#include "kafka/kafka_consumer_metrics.h"

#define ROW(which, metric_name, metric_kind, text, reader)                                                                     \
    [which] = {.name = (metric_name), .help = (text), .kind = (metric_kind), .labels = "reader=\"" reader "\""}

/* The same for each reader. */
#define METRICS(reader)                                                                                                        \
    {                                                                                                                          \
        ROW(KAFKA_CONSUMED, "millrace_kafka_consumed_total", METRIC_COUNTER,                                                   \
            "Records read from Kafka and handed out: settled + unsettled", reader),                                            \
            ROW(KAFKA_CONSUMED_SETTLED, "millrace_kafka_consumed_settled_total", METRIC_COUNTER,                               \
                "Records of which nothing more will come", reader),                                                            \
            ROW(KAFKA_CONSUMED_UNSETTLED, "millrace_kafka_consumed_unsettled", METRIC_GAUGE,                                   \
                "Records handed out and not settled: they come again after a restart", reader),                                \
            ROW(KAFKA_CONSUMED_SKIPPED, "millrace_kafka_consumed_skipped_total", METRIC_COUNTER,                               \
                "Records read again and left out, because an earlier run had settled them", reader),                           \
            ROW(KAFKA_CONSUMER_PARTITIONS, "millrace_kafka_consumer_partitions", METRIC_GAUGE, "Partitions being read",        \
                reader),                                                                                                       \
            ROW(KAFKA_CONSUMER_PAUSED, "millrace_kafka_consumer_paused", METRIC_GAUGE,                                         \
                "Partitions that pause because too much of them is unsettled", reader),                                        \
            ROW(KAFKA_CONSUMER_PAUSES, "millrace_kafka_consumer_pauses_total", METRIC_COUNTER,                                 \
                "Times a partition paused for that reason", reader),                                                           \
            ROW(KAFKA_CONSUMER_COMMITS, "millrace_kafka_consumer_commits_total", METRIC_COUNTER,                               \
                "Positions of partitions committed", reader),                                                                  \
            ROW(KAFKA_CONSUMER_COMMIT_ERRORS, "millrace_kafka_consumer_commit_errors_total", METRIC_COUNTER,                   \
                "Positions of partitions whose commit failed; it is tried again", reader),                                     \
            ROW(KAFKA_CONSUMER_RESETS, "millrace_kafka_consumer_resets_total", METRIC_COUNTER,                                 \
                "Partitions begun anew because the cluster did not have the position any more", reader),                       \
            ROW(KAFKA_CONSUMER_LOST, "millrace_kafka_consumer_lost_total", METRIC_COUNTER,                                     \
                "Partitions that went to another member of a shared group", reader),                                           \
    }

struct metric kafka_consumer_metrics[KAFKA_CONSUMER_READERS][KAFKA_CONSUMER_METRICS] = {
    [KAFKA_CONSUMER_RULES] = METRICS("rules"),
    [KAFKA_CONSUMER_COMMANDS] = METRICS("commands"),
    [KAFKA_CONSUMER_INSTANCES] = METRICS("instances"),
};

struct metric kafka_consumer_errors[1] = {
    {.name = "millrace_kafka_consumer_errors_total",
     .help = "Errors of connections, brokers and partitions while reading, of all readers and tables together",
     .kind = METRIC_COUNTER}};
