/* fanout_inspect: how subscriptions fare: what is under way, how it went, whether their endpoints are well; summed over all workers. A
 * question goes from one worker to the next by mail and comes back to whoever asked; no worker waits and nothing is locked. */
#pragma once

#include "base/mail.h"
#include "fanout/fanout.h"
#include "fanout/fanout_breaker.h"
#include "fanout/fanout_metrics.h"

struct mailbox;

/* One subscription. */
struct fanout_inspect_row {
    const struct fanout_channel *channel;
    const struct fanout_subscription *subscription;
    uint64_t n_running, n_waiting,
        n_inflight; /* deliveries; of them those that wait for max_inflight; attempts at the subscriber */
    uint64_t attempts, retries, filtered;
    uint64_t ended[FANOUT_OUTCOMES];
    uint8_t breaker;       /* enum fanout_breaker_state: the worst of all workers */
    uint8_t fault;         /* enum fanout_fault of the last attempt that failed */
    uint16_t status;       /* of that one; 0: no answer */
    uint64_t failed_at_ms; /* wall clock; 0: never */
};

/* A question and its answer. Owned by whoever asks, zeroed but for its fields, and left alone until `mail` comes; then its `rows` are to be
 * freed by fanout_inspect_free(). */
struct fanout_inspection {
    struct mail mail;                  /* on_mail is set by the requester */
    struct mailbox *home;              /* set by the requester */
    struct fanout_snapshot *snapshot;  /* whose subscriptions: set by the requester, with a reference that the question keeps */
    const struct fanout_channel *only; /* one of its channels; NULL: all */
    struct fanout_inspect_row *rows;
    size_t n_rows;

    /* The fan-out's. */
    struct mail travel;
    struct fanout *fanout;
    unsigned at;
};

/* Asks. Any thread, after the start and before the workers stop. */
void fanout_inspect(struct fanout *f, struct fanout_inspection *inspection);

/* Gives back rows and snapshot. */
void fanout_inspect_free(struct fanout_inspection *inspection);

/* Appends the answer as JSON, a list with one object for each subscription. E_NOMEM: part of it may have been written. */
MUST_USE err fanout_inspect_write(struct buf *out, enum mem_sub sub, const struct fanout_inspection *inspection);

/* The same of one row, as an object. E_NOMEM. */
MUST_USE err fanout_inspect_write_one(struct buf *out, enum mem_sub sub, const struct fanout_inspect_row *row);
