#include "fanout/fanout_duration.h"

#include "base/check.h"
#include "config/value.h"

enum { MAX_DIGITS = 9 }; /* of one number: the sum stays far below 2^63 */

struct unit {
    char letter;
    bool is_time; /* behind the T */
    int64_t ms;
};

/* In the order in which they may follow each other. */
static const struct unit units[] = {
    {'W', false, 7LL * 24 * 3600 * 1000},
    {'D', false, 24LL * 3600 * 1000},
    {'H', true, 3600 * 1000},
    {'M', true, 60 * 1000},
    {'S', true, 1000},
};

static size_t digits(struct str s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return n;
}

/* The thousandths of "25", which stand behind a point: 250. */
static int64_t thousandths(struct str fraction)
{
    int64_t value = 0;

    for (size_t i = 0; i < 3; i++)
        value = value * 10 + (i < fraction.n ? fraction.p[i] - '0' : 0);
    return value;
}

/* One number with its letter. `*next` is the first unit that may still come. */
static bool take_part(struct str *rest, bool is_time, size_t *next, int64_t *sum)
{
    size_t n = digits(*rest), n_fraction = 0;
    struct str fraction = {0};
    uint64_t number;

    if (n == 0 || n > MAX_DIGITS || !str_to_u64((struct str){rest->p, n}, INT64_MAX, &number))
        return false;
    *rest = str_from_offset(*rest, n);
    if (rest->n && (rest->p[0] == '.' || rest->p[0] == ',')) {
        fraction = str_from_offset(*rest, 1);
        n_fraction = fraction.n = digits(fraction);
        if (n_fraction == 0 || n_fraction > MAX_DIGITS)
            return false;
        *rest = str_from_offset(*rest, 1 + n_fraction);
    }
    for (; *next < ARRAY_LEN(units); ++*next) {
        const struct unit *u = &units[*next];

        if (rest->n == 0 || u->letter != rest->p[0] || u->is_time != is_time)
            continue;
        if (n_fraction && u->letter != 'S')
            return false;
        *sum += (int64_t)number * u->ms + thousandths(fraction);
        *rest = str_from_offset(*rest, 1);
        ++*next;
        return true;
    }
    return false;
}

static bool parse_iso(struct str s, int64_t *out_ms)
{
    struct str rest = str_from_offset(s, 1);
    bool is_time = false, has_part = false;
    size_t next = 0;
    int64_t sum = 0;

    while (rest.n) {
        if (rest.p[0] == 'T' && !is_time) {
            is_time = true;
            has_part = false;
            rest = str_from_offset(rest, 1);
            continue;
        }
        if (!take_part(&rest, is_time, &next, &sum))
            return false;
        has_part = true;
    }
    if (!has_part)
        return false;
    *out_ms = sum;
    return true;
}

bool fanout_duration_parse(struct str s, int64_t *out_ms)
{
    return s.n && s.p[0] == 'P' ? parse_iso(s, out_ms) : value_to_duration(s, out_ms);
}
