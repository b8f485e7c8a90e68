/* hash_pool: threads that hash passwords, at idle priority, so that nobody who is connected waits for who wants to be. Jobs are done in their
 * order, and come back by mail. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"

struct hash_pool;
struct mailbox;

enum { HASH_POOL_MAX_JOBS = 20000 };

/* Something to compute; owned by who asks and left alone until its mail comes. */
struct hash_job {
    struct mail mail; /* on_mail is set by the requester, as home and run */
    struct mailbox *home;
    void (*run)(struct hash_job *job); /* on a thread of the pool */
    bool is_dropped;                   /* it was not run: the pool has been stopped */
    struct list link;                  /* the pool's */
};

/* Starts `n_threads` (1 to 8), and registers metrics. E_IO: the reason is in `ei`. Main thread. */
MUST_USE err hash_pool_start(unsigned n_threads, struct hash_pool **out_pool, struct errinfo *ei);

/* Hands a job over. E_BUSY: too many wait, and no mail comes. Any thread. */
MUST_USE err hash_pool_submit(struct hash_pool *pool, struct hash_job *job);

/* How many wait or are computed. Any thread. */
unsigned hash_pool_count(struct hash_pool *pool);

/* Waits for what is being computed and sends the rest back. NULL is a no-op. Main thread. */
void hash_pool_stop(struct hash_pool *pool);
