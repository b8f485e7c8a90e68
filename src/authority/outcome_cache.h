/* outcome_cache: what somebody outside has said, remembered for a while under a keyed digest of what he was asked; and who waits for what he has not said
 * yet, so that many who want to know the same ask once. One for the process: any thread, under a lock that is held for a look into a table. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "registry/authority.h"
#include "registry/keyed_digest.h"

struct outcome_entry;
struct registry_wait;

enum outcome_state {
    OUTCOME_KNOWN,
    OUTCOME_JOINED, /* somebody has asked the same: the mail of `wait` comes */
    OUTCOME_BEGUN,  /* the caller has to find out, and say it with outcome_cache_finish(); the mail of `wait` comes then */
    OUTCOME_FULL,   /* too much is unanswered, or there is no `wait` */
};

struct outcome_limits {
    size_t max_known;      /* answers that are remembered; the oldest go */
    size_t max_unanswered; /* different questions */
};

struct outcome_cache {
    pthread_mutex_t lock;
    struct keyed_digest digest;
    struct map outcomes;
    struct list known; /* the oldest first */
    size_t n_unanswered;
};

void outcome_cache_init(struct outcome_cache *c);

/* After everything was answered. All-zero is a no-op. */
void outcome_cache_fini(struct outcome_cache *c);

/* What is known about the question whose digest is `token`. KNOWN: the verdict and the answer are written, which is complete with
 * AUTHORITY_ALLOWED. BEGUN: `*out_outcome` is the caller's to finish. Whoever has waited for an answer gets it, however short it is remembered. */
enum outcome_state outcome_cache_ask(struct outcome_cache *c, const struct outcome_limits *limits,
                                     const unsigned char token[KEYED_DIGEST_BYTES], struct registry_wait *wait,
                                     enum authority_verdict *out_verdict, struct authority_answer *out_answer,
                                     struct outcome_entry **out_outcome);

/* The answer, which is copied, to be remembered that long; everybody who waits is told. `answer` may be NULL. Any thread, once. */
void outcome_cache_finish(struct outcome_cache *c, struct outcome_entry *o, enum authority_verdict verdict,
                          const struct authority_answer *answer, uint64_t remembered_ms);
