#include "kafka/kafka_metrics.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/check.h"
#include "kafka/kafka_private.h"

#define RECORDS(text)                                                                                                          \
    {                                                                                                                          \
        .name = "millrace_kafka_records_total", .labels = "outcome=\"" text "\"",                                              \
        .help = "Records answered by Kafka or refused before, by outcome", .kind = METRIC_COUNTER                              \
    }

struct metric kafka_metrics_records[OUTCOMES] = {
    [OUTCOME_STORED] = RECORDS("stored"),
    [OUTCOME_TOO_LARGE] = RECORDS("too_large"),
    [OUTCOME_UNKNOWN_TOPIC] = RECORDS("unknown_topic"),
    [OUTCOME_DENIED] = RECORDS("denied"),
    [OUTCOME_INVALID] = RECORDS("invalid"),
    [OUTCOME_UNAVAILABLE] = RECORDS("unavailable"),
    [OUTCOME_OVERLOADED] = RECORDS("overloaded"),
    [OUTCOME_FAILED] = RECORDS("failed"),
};
static_assert(OUTCOMES == 8, "a new outcome needs a row");

struct metric kafka_metrics_counters[KAFKA_COUNTERS] = {
    [KAFKA_COUNTER_NO_ROOM] = {.name = "millrace_kafka_no_room_total",
                               .help = "Records that found kafka.max_inflight_bytes used up and waited",
                               .kind = METRIC_COUNTER},
    [KAFKA_COUNTER_REPLACEMENTS] = {.name = "millrace_kafka_producer_replacements_total",
                                    .help = "Producers replaced after a fatal error",
                                    .kind = METRIC_COUNTER},
    [KAFKA_COUNTER_CLIENT_ERRORS] = {.name = "millrace_kafka_client_errors_total",
                                     .help = "Errors of connections and brokers that the client reported",
                                     .kind = METRIC_COUNTER},
};

static _Atomic(const struct kafka *) shown;

static double read_up(void *context)
{
    const struct kafka *k = atomic_load(&shown);

    (void)context;
    return k && kafka_is_up(k);
}

static double read_records(void *context)
{
    const struct kafka *k = atomic_load(&shown);

    (void)context;
    return k ? (double)kafka_inflight_records(k) : 0;
}

static double read_bytes(void *context)
{
    const struct kafka *k = atomic_load(&shown);

    (void)context;
    return k ? (double)kafka_inflight_bytes(k) : 0;
}

static struct metric gauges[] = {
    {.name = "millrace_kafka_up", .help = "1 while a broker answers", .kind = METRIC_GAUGE, .read = read_up},
    {.name = "millrace_kafka_inflight_records",
     .help = "Records taken and not yet answered by Kafka",
     .kind = METRIC_GAUGE,
     .read = read_records},
    {.name = "millrace_kafka_inflight_bytes",
     .help = "What those records are charged against kafka.max_inflight_bytes",
     .kind = METRIC_GAUGE,
     .read = read_bytes},
};

void kafka_metrics_open(const struct kafka *k)
{
    metrics_register(kafka_metrics_records, ARRAY_LEN(kafka_metrics_records));
    metrics_register(kafka_metrics_counters, ARRAY_LEN(kafka_metrics_counters));
    metrics_register(gauges, ARRAY_LEN(gauges));
    atomic_store(&shown, k);
}

void kafka_metrics_close(const struct kafka *k)
{
    atomic_compare_exchange_strong(&shown, &k, NULL);
}
