/* wheel: timers of one thread, one millisecond fine, O(1) to set and stop, 32 bytes each inside the object that waits.
 * A hierarchy of five wheels with 64 slots each; a timer falls to a finer wheel as its time comes near. A delay of more
 * than 2^30 ms is kept as 2^30 ms. No thread but the owner's; no system calls. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum { WHEEL_LEVELS = 5, WHEEL_SLOTS = 64 };

/* All-zero but for `on_timer` is a stopped timer. */
struct timer {
    struct list link;
    uint64_t due_ms;
    void (*on_timer)(struct timer *t);
};

struct wheel {
    uint64_t now_ms;   /* all timers due at or before it have run */
    uint64_t clock_ms; /* the present, from which delays count; later than now_ms while timers that are due wait to run */
    uint64_t occupied[WHEEL_LEVELS];
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wh, uint64_t now_ms);

/* Tells the wheel what time it is without running anything, for the part of a turn that comes before its timers. */
void wheel_set_clock(struct wheel *wh, uint64_t now_ms);

/* Sets, or sets anew, a timer that runs once, `delay_ms` after wheel->clock_ms (at the earliest one millisecond later). */
void wheel_start(struct wheel *wh, struct timer *t, uint64_t delay_ms);

/* Stops a timer; a no-op when it is not set. It will not run. */
void wheel_stop(struct timer *t);

static inline bool wheel_is_set(const struct timer *t)
{
    return list_is_linked(&t->link);
}

/* Moves time on to `now_ms` and runs what has come due, in order of due time to the millisecond. A callback may set and
 * stop any timer; what it sets runs in a later call. */
void wheel_advance(struct wheel *wh, uint64_t now_ms);

/* How many milliseconds from now_ms until wheel_advance() may have something to do; -1 when no timer is set. */
int wheel_next_ms(struct wheel *wh);
