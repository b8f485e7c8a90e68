#include "core/usage_period.h"

#include "base/check.h"

#define MS_PER_DAY (INT64_C(24) * 3600 * 1000)

struct month {
    int64_t first_day, next_day; /* since 1970: of the month, and of the one after */
};

/* Division that rounds towards the past, also before 1970. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The first of a month (0: March) of a year that begins in March, since 1970: leap days then come at the end of a year. Between the first of
 * March and that of a later month there are 30.6 days a month, rounded. */
static int64_t first_day(int64_t year, int64_t month)
{
    enum { DAYS_TO_1970 = 719468 }; /* from the first of March of the year 0 */

    return 365 * year + floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400) + (153 * month + 2) / 5 - DAYS_TO_1970;
}

static struct month month_of(int64_t day)
{
    int64_t year = floor_div(day, 366) + 1970, month = 11;

    while (first_day(year + 1, 0) <= day) /* a year is longer than it should be only in every fourth: few turns */
        year++;
    while (first_day(year, 0) > day)
        year--;
    while (first_day(year, month) > day)
        month--;
    return (struct month){first_day(year, month), month == 11 ? first_day(year + 1, 0) : first_day(year, month + 1)};
}

static void find_month(int64_t since_ms, int64_t now_ms, struct usage_window *out)
{
    struct month month = month_of(floor_div(now_ms, MS_PER_DAY));
    int64_t since_day = floor_div(since_ms, MS_PER_DAY);
    bool is_first = since_day > month.first_day;

    *out = (struct usage_window){
        .begin_ms = is_first || since_day == month.first_day ? since_ms : month.first_day * MS_PER_DAY,
        .end_ms = month.next_day * MS_PER_DAY,
        .days = month.next_day - (is_first ? since_day : month.first_day),
        .of_days = month.next_day - month.first_day,
    };
}

bool usage_period_at(const struct usage_period *period, int64_t now_ms, struct usage_window *out)
{
    int64_t length_ms = period->days * MS_PER_DAY;

    if (now_ms < period->since_ms)
        return false;
    if (period->days == 0) {
        find_month(period->since_ms, now_ms, out);
        return true;
    }
    out->begin_ms = now_ms - (now_ms - period->since_ms) % length_ms;
    out->end_ms = out->begin_ms + length_ms;
    out->days = out->of_days = period->days;
    return true;
}

int64_t usage_period_share(const struct usage_window *window, int64_t allowance)
{
    if (allowance < 0)
        return USAGE_UNLIMITED;
    /* In two parts, so that no product is too large. */
    return allowance / window->of_days * window->days + allowance % window->of_days * window->days / window->of_days;
}

int64_t usage_period_round(int64_t bytes, int64_t minimum)
{
    int64_t rest = minimum > 0 ? bytes % minimum : 0;

    return rest ? bytes - rest + minimum : bytes;
}
