/* kafka_sink: the sink of core/sink.h over librdkafka's producer: topics by name, room, and the way in. The way back is
 * kafka_report.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "core/sink.h"
#include "kafka/kafka.h"
#include "kafka/kafka_budget.h"
#include "kafka/kafka_producer.h"

/* Lives as long as the sink. The handle is the one of the current producer. */
struct sink_topic {
    _Atomic(struct kafka_handle *) handle;
    uint32_t limit_ms;
    struct str name; /* with the prefix, NUL-terminated; owned */
};

struct kafka_sink {
    struct sink sink;
    struct kafka_budget budget;
    atomic_bool is_closed;
    pthread_rwlock_t lock; /* topics, and which producer is the current one */
    struct map topics;
    _Atomic(struct kafka_producer *) producer;
    struct str prefix;                    /* owned */
    struct kafka_time_limit *time_limits; /* owned */
    size_t n_time_limits;
};

/* Copies what it needs of the settings. kafka_sink_use() must follow before anybody uses the sink. */
void kafka_sink_init(struct kafka_sink *ks, const struct kafka_settings *settings);
void kafka_sink_fini(struct kafka_sink *ks);

/* Makes `p` the producer of everything submitted from now on: every topic gets a handle of it. The kafka thread (or the one
 * that opens, before it runs). Calls already on their way still use the former one, which counts them. */
void kafka_sink_use(struct kafka_sink *ks, struct kafka_producer *p);

/* Refuses everything from now on, with OUTCOME_UNAVAILABLE, and wakes the waiters. Any thread. */
void kafka_sink_close(struct kafka_sink *ks);

/* The current producer, which stays open until kafka_sink_release(). Any thread. */
struct kafka_producer *kafka_sink_hold(struct kafka_sink *ks);
void kafka_sink_release(struct kafka_producer *p);

/* The full name of a topic, prefix included, as an owned NUL-terminated copy; empty when it is not legal. */
struct str kafka_sink_full_name(const struct kafka_sink *ks, struct str name);
