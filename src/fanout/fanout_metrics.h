/* fanout_metrics: what the fan-out counts. At every moment: events received = acknowledged + rejected (all reasons) + dropped (all
 * reasons) + waiting, and deliveries begun = those ended (all outcomes) + running. Any thread. */
#pragma once

#include "obs/metrics.h"

/* Why an event was not taken. */
enum fanout_rejection {
    FANOUT_REJECTED_FAILED, /* a subscription failed */
    FANOUT_REJECTED_INVALID,
    FANOUT_REJECTED_UNKNOWN_CHANNEL,
    FANOUT_REJECTED_BROKEN_CHANNEL, /* left out, since its configuration is wrong */
    FANOUT_REJECTED_DENIED,         /* a channel of its own (fanout_stateless.h) that may not be */
    FANOUT_REJECTED_HOPS,
    FANOUT_REJECTED_REPEATED, /* under way already (repeats: suppress) */
    FANOUT_REJECTED_TOO_LARGE,
    FANOUT_REJECTED_FULL, /* no memory left for what the channel may hold */
    FANOUT_REJECTED_DRAIN,
    FANOUT_REJECTIONS,
};

/* How a delivery ended. */
enum fanout_outcome {
    FANOUT_OUTCOME_DELIVERED,
    FANOUT_OUTCOME_DEAD_LETTERED,
    FANOUT_OUTCOME_PARKED,
    FANOUT_OUTCOME_DROPPED, /* as on_exhausted asks */
    FANOUT_OUTCOME_FAILED,
    FANOUT_OUTCOMES,
};

/* Why an attempt failed. */
enum fanout_fault {
    FANOUT_FAULT_NONE,
    FANOUT_FAULT_STATUS,    /* an answer that is no success */
    FANOUT_FAULT_REPLY,     /* a success with a reply that is none */
    FANOUT_FAULT_NAME,      /* no such host */
    FANOUT_FAULT_CONNECT,   /* nobody answers there */
    FANOUT_FAULT_CLOSED,    /* the connection ended before the answer */
    FANOUT_FAULT_TIMEOUT,   /* of the attempt */
    FANOUT_FAULT_DEADLINE,  /* of the event: there was no time for the attempt */
    FANOUT_FAULT_PROTOCOL,  /* the answer is no HTTP */
    FANOUT_FAULT_TOO_LARGE, /* the answer is larger than the channel takes */
    FANOUT_FAULT_BREAKER,   /* the endpoint is left alone for now */
    FANOUT_FAULT_OVERLOAD,  /* too many wait for the endpoint */
    FANOUT_FAULT_REQUEST,   /* the event cannot be written for this endpoint */
    FANOUT_FAULT_KAFKA,     /* Kafka did not take it */
    FANOUT_FAULT_ABANDONED, /* the sender has gone, or the process ends */
    FANOUT_FAULTS,
};

enum fanout_counter {
    FANOUT_EVENTS_RECEIVED,
    FANOUT_EVENTS_ACKNOWLEDGED,
    FANOUT_EVENTS_DROPPED,   /* the sender had gone before the answer */
    FANOUT_EVENTS_WAITING,   /* gauge */
    FANOUT_EVENTS_OWNED,     /* gauge: answered, and not at all subscriptions yet */
    FANOUT_EVENTS_LOST,      /* ack: async-memory: answered, and not at all subscriptions ever */
    FANOUT_EVENTS_QUEUED,    /* order: had to wait for the one before */
    FANOUT_EVENTS_FORGOTTEN, /* redeliver: failed-only, repeats: before their time, for want of room */
    FANOUT_REPEATS_DELIVERED,
    FANOUT_REPEATS_ACKNOWLEDGED, /* taken before, so not delivered again */
    FANOUT_REPEATS_REFUSED,      /* under way already */
    FANOUT_DELIVERIES_BEGUN,
    FANOUT_DELIVERIES_RUNNING, /* gauge */
    FANOUT_DELIVERIES_FILTERED,
    FANOUT_DELIVERIES_REMEMBERED, /* redeliver: failed-only: not made again */
    FANOUT_ATTEMPTS,
    FANOUT_RETRIES,
    FANOUT_RETRIES_REFUSED, /* no budget */
    FANOUT_BREAKERS_OPENED,
    FANOUT_REPLIES_SENT,
    FANOUT_REPLIES_IGNORED, /* no target, or not with this status */
    FANOUT_TURNS_WAITED,    /* deliveries that waited for max_inflight */
    FANOUT_COUNTERS,
};

/* How long it took. */
enum fanout_time {
    FANOUT_TIME_DISPATCH, /* from an event's coming to its answer */
    FANOUT_TIME_DELIVERY, /* from the beginning of a delivery to its end, retries, replies and dead letters included */
    FANOUT_TIME_ATTEMPT,  /* from the beginning of an attempt to its answer, or to the fault that ended it */
    FANOUT_TIMES,
};

/* Registers all. Once, before threads start; a no-op when done. */
void fanout_metrics_register(void);

void fanout_metrics_add(enum fanout_counter which, uint64_t n);
void fanout_metrics_reject(enum fanout_rejection reason);
void fanout_metrics_end(enum fanout_outcome outcome);
void fanout_metrics_fail(enum fanout_fault fault);
void fanout_metrics_took(enum fanout_time which, uint64_t us);

/* The label of a fault, for logs and answers too. Never NULL. */
const char *fanout_metrics_fault_name(enum fanout_fault fault);

/* The label of a rejection. Never NULL. */
const char *fanout_metrics_rejection_name(enum fanout_rejection reason);
