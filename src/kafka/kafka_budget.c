#include "kafka/kafka_budget.h"

#include "base/check.h"
#include "loop/mailbox.h"

enum { RESUME_PERCENT = 80 };

void kafka_budget_init(struct kafka_budget *b, uint64_t limit_bytes)
{
    *b = (struct kafka_budget){.limit_bytes = limit_bytes};
    b->resume_bytes = limit_bytes / 100 * RESUME_PERCENT + limit_bytes % 100 * RESUME_PERCENT / 100;
    if (b->resume_bytes == 0)
        b->resume_bytes = 1; /* an empty budget always has room */
}

void kafka_budget_wake_all(struct kafka_budget *b)
{
    struct mail *m = atomic_exchange(&b->waiting, NULL);

    while (m) {
        struct sink_waiter *waiter = CONTAINER_OF(m, struct sink_waiter, mail);

        m = m->next;
        mailbox_post(waiter->home, &waiter->mail);
    }
}

/* Giver and waiter meet here: the giver lowers `bytes` and then looks at `waiting`, the waiter enters `waiting` and then looks
 * at `bytes`, all in sequentially consistent order, so at least one of them sees the other. */
static void wake_if_room(struct kafka_budget *b)
{
    if (atomic_load(&b->waiting) && atomic_load(&b->bytes) < b->resume_bytes)
        kafka_budget_wake_all(b);
}

bool kafka_budget_take_several(struct kafka_budget *b, uint64_t n_bytes, uint64_t n_records)
{
    if (atomic_load_explicit(&b->bytes, memory_order_relaxed) >= b->limit_bytes)
        return false;
    atomic_fetch_add(&b->bytes, n_bytes);
    atomic_fetch_add_explicit(&b->records, n_records, memory_order_relaxed);
    return true;
}

bool kafka_budget_take(struct kafka_budget *b, uint64_t n)
{
    return kafka_budget_take_several(b, n, 1);
}

void kafka_budget_give(struct kafka_budget *b, uint64_t n_bytes, uint64_t n_records)
{
    atomic_fetch_sub_explicit(&b->records, n_records, memory_order_relaxed);
    atomic_fetch_sub(&b->bytes, n_bytes);
    wake_if_room(b);
}

void kafka_budget_wait(struct kafka_budget *b, struct sink_waiter *waiter)
{
    if (!sink_arm_waiter(waiter))
        return;
    waiter->mail.next = atomic_load(&b->waiting);
    while (!atomic_compare_exchange_weak(&b->waiting, &waiter->mail.next, &waiter->mail))
        ;
    wake_if_room(b);
}
