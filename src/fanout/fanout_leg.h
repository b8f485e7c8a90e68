/* fanout_leg: one subscription's part of a job: the event to the subscriber, its reply to the reply target, and the event to the dead-letter
 * target when one of the two failed for good; each with attempts, waits and retries.
 *
 *              success                                success
 *   SUBSCRIBER --------> (a reply and a target?) REPLY --------> delivered
 *       |  no more retries                         |
 *       +--------------------+---------------------+
 *                            v
 *                      on_exhausted: DEAD_LETTER --------> dead-lettered
 *                            |           | no more retries
 *              failed, parked or dropped |
 *                                        v
 *                                      failed
 *
 * Internal to fanout/; one thread, that of the job's home. */
#pragma once

#include "core/sink.h"
#include "fanout/fanout_job.h"
#include "fanout/fanout_park.h"

enum fanout_leg_state {
    FANOUT_LEG_RESTING,
    FANOUT_LEG_CALLING,   /* an HTTP request is under way */
    FANOUT_LEG_PRODUCING, /* a record is on its way to Kafka */
    FANOUT_LEG_PARKING,   /* on its way to the disk */
    FANOUT_LEG_WAITING,   /* for its next attempt */
    FANOUT_LEG_QUEUED,    /* for its turn (max_inflight) */
    FANOUT_LEG_ENDED,
};

struct fanout_message;

struct fanout_leg {
    struct http_call call;
    struct list link, turn;
    struct timer timer;
    struct delivery delivery;
    struct fanout_job *job;
    struct fanout_slot *slot;
    const struct fanout_subscription *subscription;
    struct fanout_endpoint *endpoint; /* of the attempt that is under way */
    struct fanout_message *message;   /* what is sent instead of the event: a reply, a dead letter; NULL: the event */
    uint8_t role, state;
    uint8_t fault;   /* enum fanout_fault: why the last attempt failed */
    uint8_t outcome; /* enum fanout_outcome, once ended */
    bool is_probe, has_turn;
    bool is_record_held, is_parcel_held; /* somebody still uses that part of it */
    uint16_t status;                     /* of the last attempt; 0: no answer */
    uint32_t attempts;                   /* in this role */
    uint64_t began_us, attempted_us;     /* when it began, and its last attempt, by the loop's clock */
    uint64_t failed_at_ms;               /* wall clock of the first failure; 0: none */
};

/* Begins; it may have ended when this returns, and the job with it but for the hold of whoever starts it. */
void fanout_leg_begin(struct fanout_job *job, const struct fanout_subscription *subscription);

/* Gives up what is under way: it ends as failed. A no-op on one that has ended. */
void fanout_leg_abort(struct fanout_leg *leg);

/* Frees one that has ended. */
void fanout_leg_free(struct fanout_leg *leg);
