#include "loop/mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

err mailbox_init(struct mailbox *mb, size_t limit_bytes)
{
    *mb = (struct mailbox){.limit_bytes = limit_bytes};
    mb->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mb->wake_fd < 0 ? E_IO : E_OK;
}

void mailbox_fini(struct mailbox *mb)
{
    if (mb->wake_fd >= 0)
        close(mb->wake_fd);
    mb->wake_fd = -1;
}

/* Only the post that finds the box empty pays for the system call: the consumer empties the box as a whole. */
static void wake(struct mailbox *mb)
{
    ssize_t n;

    do
        n = write(mb->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    while (n < 0 && errno == EINTR);
}

static void push(struct mailbox *mb, struct mail *newest, struct mail *oldest)
{
    struct mail *head = atomic_load_explicit(&mb->newest, memory_order_relaxed);

    do
        oldest->next = head;
    while (!atomic_compare_exchange_weak_explicit(&mb->newest, &head, newest, memory_order_release, memory_order_relaxed));
    if (!head)
        wake(mb);
}

void mailbox_post(struct mailbox *mb, struct mail *m)
{
    push(mb, m, m);
}

void mailbox_post_chain(struct mailbox *mb, struct mail_chain *chain)
{
    if (chain->newest)
        push(mb, chain->newest, chain->oldest);
    *chain = (struct mail_chain){0};
}

bool mailbox_reserve(struct mailbox *mb, size_t n)
{
    size_t reserved = atomic_load_explicit(&mb->reserved_bytes, memory_order_relaxed);

    /* Not added first and taken back when it was too much: in between others would find the box full that is not. */
    do
        if (n > mb->limit_bytes - reserved)
            return false;
    while (!atomic_compare_exchange_weak_explicit(&mb->reserved_bytes, &reserved, reserved + n, memory_order_relaxed,
                                                  memory_order_relaxed));
    return true;
}

void mailbox_release(struct mailbox *mb, size_t n)
{
    atomic_fetch_sub_explicit(&mb->reserved_bytes, n, memory_order_relaxed);
}

/* The stack holds the newest first; senders are promised their own order. */
static struct mail *reversed(struct mail *newest)
{
    struct mail *oldest = NULL;

    while (newest) {
        struct mail *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

size_t mailbox_drain(struct mailbox *mb)
{
    struct mail *m = reversed(atomic_exchange_explicit(&mb->newest, NULL, memory_order_acquire));
    size_t n = 0;

    while (m) {
        struct mail *next = m->next; /* on_mail may free or post the node */

        m->on_mail(m);
        m = next;
        n++;
    }
    return n;
}
