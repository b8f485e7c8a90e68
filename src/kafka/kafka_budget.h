/* kafka_budget: the room for records on their way to Kafka, in bytes, and the threads that wait for it. Any thread; no locks.
 *
 * A record is let in while the bytes held are below the limit, so the last one may pass it by its own size: a record larger
 * than the whole limit still gets through, and a waiter that was told there is room never finds too little. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mail.h"
#include "core/sink.h"

struct kafka_budget {
    _Alignas(64) atomic_uint_fast64_t bytes;
    atomic_uint_fast64_t records;
    _Atomic(struct mail *) waiting; /* sink_waiter.mail, chained by `next` */
    uint64_t limit_bytes;
    uint64_t resume_bytes; /* below this there is room again */
};

void kafka_budget_init(struct kafka_budget *b, uint64_t limit_bytes);

/* Takes room for one record of `n` bytes. False, and nothing taken, when the limit is reached. */
MUST_USE bool kafka_budget_take(struct kafka_budget *b, uint64_t n);

/* The same for several records of `n_bytes` together: room for all or for none. */
MUST_USE bool kafka_budget_take_several(struct kafka_budget *b, uint64_t n_bytes, uint64_t n_records);

/* Gives room back and posts the waiters' mails if there is room again. */
void kafka_budget_give(struct kafka_budget *b, uint64_t n_bytes, uint64_t n_records);

/* Arms a waiter (core/sink.h): its mail is posted when there is room, perhaps at once. */
void kafka_budget_wait(struct kafka_budget *b, struct sink_waiter *waiter);

/* Posts all waiters, room or not: what they retry will tell them why. */
void kafka_budget_wake_all(struct kafka_budget *b);
