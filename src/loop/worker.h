/* worker: a thread with a loop, by number. All workers of a process start together and their number never changes. What a
 * layer keeps for each worker lives in that layer, in an array by worker id. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/err.h"
#include "loop/loop.h"

enum { WORKERS_MAX = 64 };

struct worker {
    _Alignas(64) struct loop loop;
    unsigned id;
    pthread_t thread;
    struct workers *all;
};

struct workers {
    struct worker *list;
    unsigned n;
    void (*on_thread)(struct worker *w); /* runs first on each new thread */
    atomic_bool is_running;              /* from before the first thread starts until all have ended */
};

/* Prepares `n` workers (1 to WORKERS_MAX); their threads do not run yet, so everybody can set up what belongs to them.
 * `on_thread` may be NULL. E_IO with the reason in `ei`. */
MUST_USE err workers_init(struct workers *ws, unsigned n, size_t mailbox_limit_bytes, void (*on_thread)(struct worker *w),
                          struct errinfo *ei);

/* Starts the threads, which take no signals. E_IO: the system gave no thread; those already started are stopped again. */
MUST_USE err workers_start(struct workers *ws, struct errinfo *ei);

/* Stops all loops and waits for the threads; a no-op when they do not run. They cannot be started again. */
void workers_stop(struct workers *ws);

/* Gives everything back, after workers_stop(). */
void workers_fini(struct workers *ws);

/* Whether the calling thread is this worker's, for assertions; true for any thread before the threads start and after they
 * have been stopped, when one thread sets up or clears away what belongs to all. */
bool worker_is_current(const struct worker *w);
#define ASSERT_ON(w) ASSERT(worker_is_current(w))
