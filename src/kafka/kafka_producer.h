/* kafka_producer: one generation of the process's producer. A fatal error ends a generation; the next one takes its place
 * while records of the old are still being answered. The structs stay until kafka_free(), because a thread may have read a
 * pointer just before the change; librdkafka's handle goes as soon as nobody counts on it any more. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct kafka_producer {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;          /* reports and errors */
    struct kafka_handle *handles;     /* of all topics; changed under the sink's lock */
    struct kafka_producer *next;      /* in the list of the kafka thread */
    struct kafka_producer *next_dead; /* in the list of those to be destroyed */
    rd_kafka_resp_err_t fatal_code;   /* why it failed for good; this and the next are the kafka thread's */
    bool is_purged, is_retired, has_stored;
    /* Who counts on `rk`: records not yet answered, threads inside a call. */
    _Alignas(64) atomic_uint_fast64_t records;
    atomic_uint_fast64_t holds;
};

/* A topic's handle in one generation. */
struct kafka_handle {
    rd_kafka_topic_t *rkt;
    struct kafka_producer *producer;
    struct kafka_handle *next;
};

/* Opens a producer whose events wake `wake_fd`, an eventfd. The caller owns `*out_producer`. E_INVAL: see kafka_conf_open(). */
MUST_USE err kafka_producer_new(const rd_kafka_conf_t *conf, int wake_fd, struct kafka_producer **out_producer,
                                struct errinfo *ei);

/* Opens a topic, which the producer owns. NULL when librdkafka refuses. */
struct kafka_handle *kafka_producer_add_topic(struct kafka_producer *p, const char *name, uint32_t limit_ms);

/* Makes everything that waits fail at once; its reports come by the queue. Does not block. */
void kafka_producer_purge(struct kafka_producer *p);

/* Whether anybody counts on the handle. Final once the sink uses another producer. */
bool kafka_producer_is_idle(const struct kafka_producer *p);

/* Closes the handle: blocks until librdkafka's threads have ended. Nobody counts on it. Once more is a no-op. */
void kafka_producer_close(struct kafka_producer *p);

/* Closes and releases. NULL is a no-op. */
void kafka_producer_free(struct kafka_producer *p);
