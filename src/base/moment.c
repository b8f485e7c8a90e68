#include "base/moment.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

enum { MS_PER_S = 1000 };

/* Takes exactly `n` digits off the front of `s`. */
static bool take_number(struct str *s, size_t n, unsigned least, unsigned most, int *out)
{
    uint64_t value;

    if (s->n < n || !str_to_u64((struct str){s->p, n}, most, &value) || value < least)
        return false;
    *out = (int)value;
    *s = str_from_offset(*s, n);
    return true;
}

static bool take_one_of(struct str *s, const char *characters)
{
    if (s->n == 0 || !s->p[0] || !strchr(characters, s->p[0]))
        return false;
    *s = str_from_offset(*s, 1);
    return true;
}

/* The digits of a fraction: at least one. */
static bool take_fraction(struct str *s, int *out_ms)
{
    int ms = 0, scale = 100;

    if (s->n == 0 || s->p[0] < '0' || s->p[0] > '9')
        return false;
    for (; s->n && s->p[0] >= '0' && s->p[0] <= '9'; *s = str_from_offset(*s, 1)) {
        ms += (s->p[0] - '0') * scale;
        scale /= 10;
    }
    *out_ms = ms;
    return true;
}

static bool take_offset(struct str *s, int *out_minutes)
{
    int hours, minutes, sign;

    *out_minutes = 0;
    if (take_one_of(s, "Zz"))
        return true;
    sign = s->n && s->p[0] == '-' ? -1 : 1;
    if (!take_one_of(s, "+-") || !take_number(s, 2, 0, 23, &hours) || !take_one_of(s, ":") ||
        !take_number(s, 2, 0, 59, &minutes))
        return false;
    *out_minutes = sign * (60 * hours + minutes);
    return true;
}

err moment_parse(struct str text, int64_t *out_ms)
{
    struct tm tm = {0}, asked;
    int ms = 0, offset;
    time_t seconds;

    if (!take_number(&text, 4, 0, 9999, &tm.tm_year) || !take_one_of(&text, "-") || !take_number(&text, 2, 1, 12, &tm.tm_mon) ||
        !take_one_of(&text, "-") || !take_number(&text, 2, 1, 31, &tm.tm_mday) || !take_one_of(&text, "Tt ") ||
        !take_number(&text, 2, 0, 23, &tm.tm_hour) || !take_one_of(&text, ":") || !take_number(&text, 2, 0, 59, &tm.tm_min) ||
        !take_one_of(&text, ":") || !take_number(&text, 2, 0, 60, &tm.tm_sec))
        return E_INVAL;
    if (take_one_of(&text, ".") && !take_fraction(&text, &ms))
        return E_INVAL;
    if (!take_offset(&text, &offset) || text.n)
        return E_INVAL;
    if (tm.tm_sec == 60)
        tm.tm_sec = 59;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    asked = tm;
    seconds = timegm(&tm);
    if (tm.tm_mday != asked.tm_mday) /* as the 30th of February */
        return E_INVAL;
    *out_ms = ((int64_t)seconds - 60 * (int64_t)offset) * MS_PER_S + ms;
    return E_OK;
}

size_t moment_format(int64_t ms, char to[MOMENT_BYTES])
{
    time_t seconds = (time_t)(ms >= 0 ? ms / MS_PER_S : -((-ms + MS_PER_S - 1) / MS_PER_S));
    int rest = (int)(ms - (int64_t)seconds * MS_PER_S);
    struct tm tm;
    size_t n;

    ASSERT(gmtime_r(&seconds, &tm));
    n = strftime(to, MOMENT_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)(rest ? snprintf(to + n, MOMENT_BYTES - n, ".%03dZ", rest) : snprintf(to + n, MOMENT_BYTES - n, "Z"));
    return n;
}
