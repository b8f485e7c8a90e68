/* usage_period: the periods that a tenant's allowances are for: calendar months in UTC, or a number of days at a time from the day that an
 * allowance begins (docs/REGISTRY.md). Arithmetic alone, no clock, no table of time zones; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { USAGE_UNLIMITED = -1 };

struct usage_period {
    int64_t since_ms; /* when the first one begins, in milliseconds since 1970 */
    int64_t days;     /* how long each is; 0: to the end of the calendar month */
};

/* One period: [begin, end). In the first month fewer days count than it has. */
struct usage_window {
    int64_t begin_ms, end_ms;
    int64_t days, of_days;
};

/* The period that a moment is in. False: the first has not begun. */
bool usage_period_at(const struct usage_period *period, int64_t now_ms, struct usage_window *out);

/* What of an allowance for a whole period is for this one: of a month that began late the part of its days that are left, the one it began
 * on included, rounded down. USAGE_UNLIMITED stays that. */
int64_t usage_period_share(const struct usage_window *window, int64_t allowance);

/* What a payload counts as: a multiple of `minimum`, if there is any. */
int64_t usage_period_round(int64_t bytes, int64_t minimum);
