/* kafka_admin: what waits for the cluster's answer and must not hold up delivery reports: the first metadata, the topics that
 * must exist, looking whether Kafka is back, closing a replaced producer. A thread of its own, because librdkafka offers these
 * as blocking calls only; idle unless there is such work. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "kafka/kafka.h"
#include "kafka/kafka_producer.h"

struct kafka_admin {
    struct kafka *k;
    pthread_t thread;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t wake;
    bool is_running;
    bool wants_probe;
    struct kafka_topics *requests, **last_request;
    struct kafka_producer *dead;
    atomic_bool is_stopping;
    int metadata_ms; /* patience with one question; the admin thread's own */
};

/* Prepares; nothing runs yet. */
void kafka_admin_init(struct kafka_admin *a, struct kafka *k);

/* Starts the thread, which asks for the first metadata at once. E_IO. */
MUST_USE err kafka_admin_start(struct kafka_admin *a, struct errinfo *ei);

/* See kafka_ensure_topics() and kafka_remove_topics(). Any thread. */
void kafka_admin_ensure(struct kafka_admin *a, struct kafka_topics *topics);

/* Asks the cluster until it answers, then says so with kafka_note_up(). Any thread. */
void kafka_admin_probe(struct kafka_admin *a);

/* Closes a producer nobody counts on any more. Any thread. */
void kafka_admin_bury(struct kafka_admin *a, struct kafka_producer *p);

/* Waits `pause_ms`, or until it is time to stop; false then. The admin thread. */
bool kafka_admin_pause(struct kafka_admin *a, unsigned pause_ms);

/* Ends the thread, answers the requests it had not finished with E_CLOSED. Waits for a call under way: a
 * second when no broker is there, up to eight when one is but does not answer. */
void kafka_admin_stop(struct kafka_admin *a);
void kafka_admin_fini(struct kafka_admin *a);
