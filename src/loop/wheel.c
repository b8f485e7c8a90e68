#include "loop/wheel.h"

#include <limits.h>
#include <stddef.h>

#include "base/check.h"

enum { SLOT_BITS = 6, SLOT_MASK = WHEEL_SLOTS - 1 };
static const uint64_t max_delay_ms = 1ull << (SLOT_BITS * WHEEL_LEVELS);

void wheel_init(struct wheel *wh, uint64_t now_ms)
{
    *wh = (struct wheel){.now_ms = now_ms};
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&wh->slots[level][slot]);
}

/* The coarsest wheel on which `due` and now differ decides; there the slot is the due time's digit. */
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
    /* The top wheel must not be lapped. */
    if (delay_ms >= max_delay_ms - max_delay_ms / WHEEL_SLOTS)
        delay_ms = max_delay_ms - max_delay_ms / WHEEL_SLOTS - 1;
    t->due_ms = wh->now_ms + delay_ms;
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

/* The first bit at or after `from`, as a distance; -1 when there is none before the wheel comes round. */
static int distance(uint64_t occupied, unsigned from)
{
    uint64_t ahead = occupied >> from;

    return ahead ? __builtin_ctzll(ahead) : -1;
}

/* The next moment at which a slot runs or a coarser slot begins. */
static uint64_t next_event(const struct wheel *wh)
{
    uint64_t best = UINT64_MAX;

    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        unsigned shift = SLOT_BITS * level;
        uint64_t tick = wh->now_ms >> shift;
        unsigned at = (unsigned)(tick + 1) & SLOT_MASK;
        int ahead = at ? distance(wh->occupied[level], at) : -1;
        uint64_t when;

        /* A slot below the current digit belongs to the next lap, which begins when this digit wraps. */
        if (ahead >= 0)
            when = (tick + 1 + (uint64_t)ahead) << shift;
        else if (wh->occupied[level])
            when = ((tick | SLOT_MASK) + 1 + (uint64_t)__builtin_ctzll(wh->occupied[level])) << shift;
        else
            continue;
        if (when < best)
            best = when;
    }
    return best;
}

void wheel_advance(struct wheel *wh, uint64_t now_ms)
{
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

int wheel_next_ms(const struct wheel *wh)
{
    uint64_t next = next_event(wh);

    if (next == UINT64_MAX)
        return -1;
    return next - wh->now_ms > INT_MAX ? INT_MAX : (int)(next - wh->now_ms);
}
