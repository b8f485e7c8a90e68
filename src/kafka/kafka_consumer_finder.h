/* kafka_consumer_finder: which topics and partitions there are for the reader, and where each begins. A thread of its own,
 * because librdkafka offers these questions as blocking calls; it asks when it is started and then now and again.
 *
 * A partition begins where its group stands. Without a position it begins at its beginning, except that an interest none of
 * whose partitions has a position, in the first round with wants that have it, is a new one, and may begin at the end of what
 * is there. Where it begins is committed before anything is read, so that what arrives from then on is never taken for old. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/map.h"

struct kafka_consumer;

enum { KAFKA_FINDER_DEFAULT_MS = 5000 };

/* A partition that was found, and where it begins. */
struct kafka_found {
    struct kafka_found *next;
    char *full_topic; /* owned, with the prefix */
    char *metadata;   /* owned; of the commit, NULL: none */
    size_t metadata_n;
    int32_t number;
    int interest;
    int64_t offset; /* negative: it has no position yet */
};

void kafka_found_free(struct kafka_found *found);

struct kafka_finder {
    struct kafka_consumer *c;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, down to `wake` */
    bool is_started;
    void *next_wants; /* to be looked for from the next round on; NULL: no others */
    pthread_cond_t wake;
    bool is_running;
    atomic_bool is_stopping;

    /* The thread's own. */
    uint32_t find_ms;
    int patience_ms;  /* with one question */
    struct map known; /* partitions handed to the consumer */
    void *wants;
    void *met; /* the wants of the last round that went well, NULL: none; what is found of their interests later is newer */
};

void kafka_finder_init(struct kafka_finder *f, struct kafka_consumer *c, uint32_t find_ms);
void kafka_finder_fini(struct kafka_finder *f);

/* Starts the thread, which waits for kafka_finder_begin(). E_IO. */
MUST_USE err kafka_finder_start(struct kafka_finder *f, struct errinfo *ei);
void kafka_finder_begin(struct kafka_finder *f);

/* Looks for these from now on, and at once. Takes a reference. Any thread. */
void kafka_finder_want(struct kafka_finder *f, void *wants);

/* Gives back the wants, when the thread has ended. Twice is a no-op. */
void kafka_finder_release(struct kafka_finder *f);

/* Ends the thread; waits for a question under way, normally a second at most. */
void kafka_finder_stop(struct kafka_finder *f);
