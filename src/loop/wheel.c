#include "loop/wheel.h"

#include <limits.h>
#include <stddef.h>

#include "base/check.h"

enum { SLOT_BITS = 6, SLOT_MASK = WHEEL_SLOTS - 1 };
static const uint64_t max_delay_ms = 1ull << (SLOT_BITS * WHEEL_LEVELS);

void wheel_init(struct wheel *wh, uint64_t now_ms)
{
    *wh = (struct wheel){.now_ms = now_ms, .clock_ms = now_ms};
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&wh->slots[level][slot]);
}

/* The coarsest wheel on which `due` and now differ decides; there the slot is the due time's digit. The top wheel goes round
 * in max_delay_ms: its slot of this moment, like those before it, belongs to the next lap. */
static void place(struct wheel *wh, struct timer *t)
{
    uint64_t differs = t->due_ms ^ wh->now_ms;
    unsigned level = 0, slot;

    while (level < WHEEL_LEVELS - 1 && differs >> (SLOT_BITS * (level + 1)))
        level++;
    slot = (unsigned)(t->due_ms >> (SLOT_BITS * level)) & SLOT_MASK;
    list_push(&wh->slots[level][slot], &t->link);
    wh->occupied[level] |= 1ull << slot;
}

void wheel_start(struct wheel *wh, struct timer *t, uint64_t delay_ms)
{
    wheel_stop(t);
    if (delay_ms == 0)
        delay_ms = 1;
    if (delay_ms > max_delay_ms)
        delay_ms = max_delay_ms;
    t->due_ms = wh->clock_ms + delay_ms;
    /* The top wheel must not be lapped. */
    if (t->due_ms > wh->now_ms + max_delay_ms)
        t->due_ms = wh->now_ms + max_delay_ms;
    place(wh, t);
}

void wheel_stop(struct timer *t)
{
    list_remove(&t->link);
}

/* Timers of a coarse slot whose time has begun fall to finer wheels. */
static void cascade(struct wheel *wh, unsigned level)
{
    unsigned slot = (unsigned)(wh->now_ms >> (SLOT_BITS * level)) & SLOT_MASK;
    struct list fallen, *link;

    list_init(&fallen);
    list_move(&fallen, &wh->slots[level][slot]);
    wh->occupied[level] &= ~(1ull << slot);
    while ((link = list_pop(&fallen)))
        place(wh, CONTAINER_OF(link, struct timer, link));
}

static void run_slot(struct wheel *wh)
{
    unsigned slot = (unsigned)wh->now_ms & SLOT_MASK;
    struct list due, *link;

    list_init(&due);
    list_move(&due, &wh->slots[0][slot]);
    wh->occupied[0] &= ~(1ull << slot);
    while ((link = list_pop(&due))) {
        struct timer *t = CONTAINER_OF(link, struct timer, link);

        t->on_timer(t);
    }
}

/* The first slot in use among those of `mask`, or -1. Stopped timers leave their slot marked as occupied, as wheel_stop()
 * does not know the wheel: the mark of an empty slot goes here. */
static int first_in_use(struct wheel *wh, unsigned level, uint64_t mask)
{
    uint64_t left;

    while ((left = wh->occupied[level] & mask)) {
        int slot = __builtin_ctzll(left);

        if (!list_is_empty(&wh->slots[level][slot]))
            return slot;
        wh->occupied[level] &= ~(1ull << slot);
    }
    return -1;
}

/* The next moment at which a slot runs or a coarser slot begins. */
static uint64_t next_event(struct wheel *wh)
{
    uint64_t best = UINT64_MAX;

    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        unsigned shift = SLOT_BITS * level;
        uint64_t lap = wh->now_ms >> shift & ~(uint64_t)SLOT_MASK, when;
        uint64_t behind = UINT64_MAX >> (SLOT_MASK - (wh->now_ms >> shift & SLOT_MASK)); /* this digit and those below it */
        int slot = first_in_use(wh, level, ~behind);

        if (slot < 0) {
            lap += WHEEL_SLOTS;
            slot = first_in_use(wh, level, behind);
        }
        when = slot < 0 ? UINT64_MAX : (lap + (uint64_t)slot) << shift;
        if (when < best)
            best = when;
    }
    return best;
}

void wheel_set_clock(struct wheel *wh, uint64_t now_ms)
{
    uint64_t next = next_event(wh);

    if (now_ms <= wh->clock_ms)
        return;
    wh->clock_ms = now_ms;
    /* Up to the next event nothing happens, so a long wait without timers takes nothing from the longest delay. */
    wh->now_ms = next > now_ms ? now_ms : next - 1;
}

void wheel_advance(struct wheel *wh, uint64_t now_ms)
{
    wheel_set_clock(wh, now_ms);
    while (wh->now_ms < now_ms) {
        uint64_t next = next_event(wh);

        if (next > now_ms) {
            wh->now_ms = now_ms;
            return;
        }
        wh->now_ms = next;
        for (unsigned level = WHEEL_LEVELS - 1; level > 0; level--)
            if ((wh->now_ms & ((1ull << (SLOT_BITS * level)) - 1)) == 0)
                cascade(wh, level);
        run_slot(wh);
    }
}

int wheel_next_ms(struct wheel *wh)
{
    uint64_t next = next_event(wh);

    if (next == UINT64_MAX)
        return -1;
    return next - wh->now_ms > INT_MAX ? INT_MAX : (int)(next - wh->now_ms);
}
