#include "broker/tracker.h"

#include "loop/mailbox.h"

void tracker_start(struct tracker *t, uint32_t ack_timeout_ms)
{
    t->ack_timeout_ms = ack_timeout_ms;
    t->is_decided = false;
    atomic_store(&t->deciding, 0);
    atomic_store(&t->refs, 1);
    atomic_store(&t->matched, 0);
    atomic_store(&t->acknowledged, 0);
    atomic_store(&t->losses, 0);
    atomic_store(&t->is_crowded, false);
}

void tracker_expect(struct tracker *t, unsigned workers)
{
    atomic_store(&t->deciding, workers);
}

bool tracker_decide(struct tracker *t)
{
    return atomic_fetch_sub(&t->deciding, 1) == 1;
}

void tracker_match(struct tracker *t)
{
    atomic_fetch_add(&t->matched, 1);
    atomic_fetch_add(&t->refs, 1);
}

static void release(struct tracker *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1)
        mailbox_post(t->home, &t->mail);
}

void tracker_acknowledge(struct tracker *t)
{
    atomic_fetch_add(&t->acknowledged, 1);
    release(t);
}

void tracker_lose(struct tracker *t, unsigned why)
{
    atomic_fetch_or(&t->losses, 1u << why);
    release(t);
}

bool tracker_note_decided(struct tracker *t)
{
    t->is_decided = true;
    return atomic_fetch_sub(&t->refs, 1) == 1;
}
