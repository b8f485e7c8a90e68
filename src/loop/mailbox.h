/* mailbox: how any thread hands work to the thread that owns a loop. Many producers, one consumer. Posting is a
 * compare-and-swap; the consumer's eventfd is written only when the box was empty, so a busy receiver costs no system call.
 * Order: first in, first out for each sender; nothing is promised between senders.
 *
 * Answers and hand-overs are always accepted: their node lies in an object somebody already paid for. New work must first
 * reserve room, by bytes, and give it back when it is done. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mail.h"

struct mailbox {
    _Alignas(64) _Atomic(struct mail *) newest;
    atomic_size_t reserved_bytes;
    size_t limit_bytes;
    int wake_fd; /* eventfd; the loop waits on it */
};

/* Opens the eventfd. E_IO when the system refuses. `limit_bytes` bounds what mailbox_reserve() grants. */
MUST_USE err mailbox_init(struct mailbox *mb, size_t limit_bytes);
void mailbox_fini(struct mailbox *mb);

/* Posts one node. Any thread, never blocks, never fails. */
void mailbox_post(struct mailbox *mb, struct mail *m);

/* Posts a chain built by mailbox_chain(), all nodes at once, in the order in which they were chained. An empty chain is a
 * no-op; the chain is empty afterwards. */
struct mail_chain {
    struct mail *newest, *oldest;
};
void mailbox_post_chain(struct mailbox *mb, struct mail_chain *chain);

static inline void mailbox_chain(struct mail_chain *chain, struct mail *m)
{
    m->next = chain->newest;
    chain->newest = m;
    if (!chain->oldest)
        chain->oldest = m;
}

/* Asks for room for `n` bytes of new work; false when the box is full. Any thread. */
MUST_USE bool mailbox_reserve(struct mailbox *mb, size_t n);
void mailbox_release(struct mailbox *mb, size_t n);

/* Runs on_mail of everything posted so far. The owner's thread. Returns how many nodes were run. */
size_t mailbox_drain(struct mailbox *mb);
