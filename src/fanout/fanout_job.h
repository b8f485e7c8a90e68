/* fanout_job: one event on its way to the subscriptions of its channel. It begins on the worker that took the event in (its origin), runs on
 * one worker (its home, which is the origin unless somebody sends it elsewhere first), and ends at its origin:
 *
 *     fanout_job_new()          origin: `event.ce`, times, channel, view and callbacks are set
 *     fanout_job_start()        from here on it is the engine's: of a channel with ack: async-memory it is settled first, then it goes to
 *                               its home (by mail), and waits there for its turn (fanout_queue.h)
 *     fanout_job_run()          home: its legs begin, one for each subscription whose filter lets the event pass
 *     on_settled()              origin, once: what the sender may be told is in `verdict`. `is_early`: legs go on, so the event's memory
 *                               must stay although the sender has its answer
 *     on_finished()             origin, once, after on_settled: nobody uses the event any more; fanout_job_free()
 *
 * Internal to fanout/; at every moment one thread. */
#pragma once

#include "base/mail.h"
#include "fanout/fanout_event.h"
#include "fanout/fanout_plane.h"

struct fanout_queue;

enum fanout_verdict {
    FANOUT_VERDICT_NONE,
    FANOUT_VERDICT_TAKEN,
    FANOUT_VERDICT_FAILED,   /* `problem` says at which subscriptions */
    FANOUT_VERDICT_ENDED,    /* the process ends before all is done */
    FANOUT_VERDICT_REPEATED, /* the same event is under way already (repeats: suppress): nothing was begun */
    FANOUT_VERDICT_FULL,     /* ack: async-memory, and there is no room: nothing was begun */
};

struct fanout_job {
    struct list link; /* in the home's jobs; before, in whatever it waits in */
    struct fanout_plane *origin, *home;
    struct fanout_view *view, *home_view; /* the origin's, and the home's of the same snapshot */
    const struct fanout_channel *channel;
    const struct fanout_subscription *only; /* NULL: all. Of a parked event: the one it is parked for */
    struct fanout_event event;
    uint64_t came_us, deadline_ms; /* of the loops' clocks, which are one */

    void (*on_settled)(struct fanout_job *job);
    void (*on_finished)(struct fanout_job *job);
    void *user;
    struct list sibling; /* the user's, as the next */
    uint32_t index;

    enum fanout_verdict verdict;
    struct buf problem; /* JSON: the failed subscriptions, with reasons; with FANOUT_VERDICT_FAILED */
    bool is_early;
    bool is_owned;            /* settled before it began (ack: async-memory); its bytes count at the origin until it is freed */
    bool is_ending;           /* it is being aborted */
    atomic_bool is_abandoned; /* nobody waits for the answer any more: nothing new is begun for it. Any thread */

    /* The engine's. */
    struct mail travel, settle, finish;
    struct fanout_queue *queue; /* it is one of a sequence; NULL: it is not */
    struct timer turn_timer;    /* while it waits there */
    struct list legs;
    uint32_t n_running; /* legs that have not ended, and the start while it goes on */
    uint32_t n_held;    /* legs that have ended and whose memory somebody still uses */
    uint32_t n_done, n_failed;
};

/* An empty job of this plane, from its pool. Never NULL. */
struct fanout_job *fanout_job_new(struct fanout_plane *origin);

/* Gives one back that is finished, or was never started. */
void fanout_job_free(struct fanout_job *job);

/* Sets it going. It may be settled and finished when this returns. */
void fanout_job_start(struct fanout_job *job);

/* Runs it here, on job->home's thread, whatever the channel says of order and acknowledgement. */
void fanout_job_run(struct fanout_job *job);

/* Ends all its legs now, for the end of the process. */
void fanout_job_abort(struct fanout_job *job);

/* For legs: one has ended, well or not; and one that had ended while its memory was in use can go. The job may be gone afterwards. */
void fanout_job_end_leg(struct fanout_job *job, bool is_well);
void fanout_job_drop_hold(struct fanout_job *job);

/* Frees a plane's pool. */
void fanout_job_free_pool(struct fanout_plane *plane);
