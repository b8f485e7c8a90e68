/* kafka_private: the whole that kafka.h hides. Only for this folder and its tests. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kafka/kafka.h"
#include "kafka/kafka_admin.h"
#include "kafka/kafka_mock.h"
#include "kafka/kafka_sink.h"
#include "loop/loop.h"

struct kafka {
    struct kafka_sink sink;
    struct kafka_admin admin;
    struct kafka_mock mock; /* all-zero unless embedded */
    rd_kafka_conf_t *conf;  /* what every generation of the producer is made from */
    struct str bootstrap;   /* owned */
    atomic_bool has_metadata;
    atomic_bool is_away;   /* no broker is connected */
    atomic_bool is_silent; /* records wait and for a while none was stored */

    pthread_t thread;
    bool is_running, is_stopped;
    struct mail drain_mail, stop_mail; /* from whoever calls to the kafka thread */
    struct kafka_drain *asked_drain;   /* read once drain_mail has come, as is the next */
    uint32_t drain_limit_ms;

    /* The kafka thread's own. */
    struct loop loop;
    struct io reports; /* eventfd that librdkafka writes to */
    struct task serve_task;
    struct timer watch_timer, tidy_timer, drain_timer, replace_timer;
    unsigned replace_pause_ms;        /* before the next replacement of a producer that stored nothing */
    struct kafka_producer *producers; /* the current one first */
    struct kafka_producer *buried;    /* closed or to be closed; kept until kafka_free() */
    uint64_t stored, stored_before;   /* records, as the watch timer counts them */
    unsigned silent_seconds;
    struct kafka_drain *drain;
    bool is_stop_asked;
};

/* The kafka thread's side (kafka_thread.c). Starts and ends; kafka_thread_stop() answers everything that waits. */
MUST_USE err kafka_thread_start(struct kafka *k, struct errinfo *ei);
void kafka_thread_stop(struct kafka *k);

/* A broker answered. Any thread. */
void kafka_note_up(struct kafka *k);

/* Whether a broker answers, as far as is known. Any thread. */
bool kafka_is_up(const struct kafka *k);
