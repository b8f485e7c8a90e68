/* kafka_consumer_finder: which topics and partitions there are for the reader, and where each begins. A thread of its own,
 * because librdkafka offers these questions as blocking calls; it asks when it is started and then now and again.
 *
 * A partition begins where its group stands. Without a position it begins at its beginning, except that an interest none of
 * whose partitions has a position, in the first round with wants that have it, is a new one, and may begin at the end of what
 * is there. Where it begins is committed before anything is read, so that what arrives from then on is never taken for old.
 *
 * Of a shared group it finds the topics, which the member subscribes to; partitions that the group then gives to this instance it
 * is asked about. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/map.h"

struct kafka_consumer;

enum {
    KAFKA_FINDER_DEFAULT_MS = 5000,
    KAFKA_FINDER_SHARED_MS = 4000,   /* it takes another second until a new topic has been divided among the members */
    KAFKA_FINDER_PATIENCE_MS = 8000, /* with one question, at most: stopping may have to wait for it */
};

/* A partition that was found, and where it begins. */
struct kafka_found {
    struct kafka_found *next;
    char *full_topic; /* owned, with the prefix */
    char *metadata;   /* owned; of the commit, NULL: none */
    size_t metadata_n;
    int32_t number;
    int interest;
    int64_t offset;     /* negative: it has no position yet */
    bool begins_at_end; /* if it has none */
    bool is_new;        /* it had none */
    int64_t lost_at;    /* as in struct source_partition */
};

struct kafka_found *kafka_found_new(const char *full_topic, int32_t number);
void kafka_found_free(struct kafka_found *found);

struct kafka_finder {
    struct kafka_consumer *c;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, down to `wake` */
    bool is_started;
    void *next_wants;          /* to be looked for from the next round on; NULL: no others */
    struct kafka_found *asked; /* partitions of a shared group whose place is wanted */
    uint32_t asked_round;
    pthread_cond_t wake;
    bool is_running;
    atomic_bool is_stopping;

    /* The thread's own. */
    uint32_t find_ms;
    int patience_ms;  /* with one question */
    bool is_soon;     /* a partition that was just made will be there in a moment, and so its leader */
    struct map known; /* partitions handed to the consumer */
    void *wants;
    struct kafka_found *places; /* asked, and not found yet */
    uint32_t places_round;
    uint64_t signature; /* of the topics last subscribed to, and how many partitions they have */
    void *met; /* the wants of the last round that went well, NULL: none; what is found of their interests later is newer */
};

void kafka_finder_init(struct kafka_finder *f, struct kafka_consumer *c, uint32_t find_ms);
void kafka_finder_fini(struct kafka_finder *f);

/* Starts the thread, which waits for kafka_finder_begin(). E_IO. */
MUST_USE err kafka_finder_start(struct kafka_finder *f, struct errinfo *ei);
void kafka_finder_begin(struct kafka_finder *f);

/* Looks for these from now on, and at once. Takes a reference. Any thread. */
void kafka_finder_want(struct kafka_finder *f, void *wants);

/* Finds the places of these partitions of a shared group and hands them to the consumer, with `round`; an earlier question is
 * forgotten. Also looks for topics at once. Takes the list. Any thread. */
void kafka_finder_place(struct kafka_finder *f, struct kafka_found *list, uint32_t round);

/* Gives back the wants, when the thread has ended. Twice is a no-op. */
void kafka_finder_release(struct kafka_finder *f);

/* Ends the thread; waits for a question under way, normally a second at most. */
void kafka_finder_stop(struct kafka_finder *f);

/* --- kafka_consumer_begin.c; the finder's thread --- */

/* Where the group stands. */
rd_kafka_resp_err_t kafka_begin_read_positions(struct kafka_finder *f, struct kafka_found *list);

/* Gives every partition without a position one, and commits it, if that is for this thread to do. After an error those of a shared group
 * that have one may begin. */
rd_kafka_resp_err_t kafka_begin_choose(struct kafka_finder *f, struct kafka_found *list);
