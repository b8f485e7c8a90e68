/* loop: one thread's event loop over epoll. A turn is, in this order: descriptors, mail, timers, tasks. Handlers never free
 * the object they were called on; they queue a task, which runs at the end of the turn, when no event of this turn can
 * refer to the object any more. Linux only. Nothing here blocks but the wait itself. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/mailbox.h"
#include "loop/wheel.h"

struct epoll_event;

enum {
    LOOP_SCRATCH_BYTES = 64 * 1024,
    LOOP_PLAIN_BYTES = LOOP_SCRATCH_BYTES + 18 * 1024, /* what was in the scratch, and a TLS record that it completes */
    LOOP_HANDSHAKES_PER_TURN = 2,                      /* steps of TLS handshakes, half a millisecond to one each */
};

/* A descriptor in a loop. `fd` -1 is closed: an event that was already fetched for it is dropped. */
struct io {
    int fd;
    uint32_t events; /* what epoll watches now: EPOLLIN, EPOLLOUT */
    void (*on_io)(struct io *io, uint32_t events);
};

/* Something to do at the end of the turn. All-zero but for `run` is idle. */
struct task {
    struct task *next; /* NULL: idle */
    void (*run)(struct task *t);
};

struct loop {
    struct mailbox mailbox;
    struct wheel wheel;
    uint64_t now_ms, now_us;    /* monotonic, read once a turn */
    uint64_t cpu_ms, cpu_at_ms; /* this thread's processor time, and when it was read */
    int epoll_fd;
    struct io wake;
    struct task *first_task, *last_task; /* the list ends with `end_of_tasks` */
    struct task end_of_tasks;
    char *scratch;               /* LOOP_SCRATCH_BYTES for one read; its content is gone at the next handler */
    char *plain;                 /* LOOP_PLAIN_BYTES: the same, of TLS, opened */
    struct epoll_event *fetched; /* the events of this turn whose handlers have not run yet */
    int n_fetched;
    unsigned n_handshakes; /* steps of this turn */
    atomic_bool is_stopping;
    /* Read by any thread. Long: more than 10 ms of this thread's processor time. */
    atomic_uint_fast64_t turns, long_turns;
};

/* Creates epoll instance and mailbox. E_IO with errno's text in `ei` (which may be NULL) when the system refuses; nothing is
 * left open then. */
MUST_USE err loop_init(struct loop *l, size_t mailbox_limit_bytes, struct errinfo *ei);
void loop_fini(struct loop *l);

/* Runs turns until loop_stop(). The calling thread becomes the owner. */
void loop_run(struct loop *l);

/* One turn, waiting at most `max_wait_ms` (-1: as long as it takes). For tests and for loops driven by hand. */
void loop_turn(struct loop *l, int max_wait_ms);

/* Makes loop_run() return at the end of its turn. Any thread. */
void loop_stop(struct loop *l);

/* Starts to watch io->fd for `events`. E_IO when epoll refuses. Owner's thread, as everything below. */
MUST_USE err loop_watch(struct loop *l, struct io *io, uint32_t events);

/* Changes what is watched; nothing is done when it is the same. */
void loop_rewatch(struct loop *l, struct io *io, uint32_t events);

/* Stops watching and leaves the descriptor open (the caller closes it, or hands it to another thread). An event of this turn
 * that was already fetched for it is dropped. */
void loop_unwatch(struct loop *l, struct io *io);

/* Queues a task for the end of this turn; a no-op when it is queued already. Tasks may queue further ones, themselves
 * included: those run in the next turn, which then does not wait. */
void loop_defer(struct loop *l, struct task *t);

static inline bool loop_is_deferred(const struct task *t)
{
    return t->next != NULL;
}

/* Monotonic milliseconds and wall-clock milliseconds since 1970, read from the system now. Any thread. */
uint64_t loop_clock_ms(void);
uint64_t loop_wall_ms(void);
