/* exposition_test: reads the Prometheus text format 0.0.4 back, for tests, as strictly as promtool: HELP and TYPE once for each
 * family and before its series, families together, names and labels well formed, counters named _total, no series twice, the
 * buckets of a histogram rising up to its count. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { EXPOSITION_MAX = 2048 };

enum exposition_type { EXPOSITION_NONE, EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

struct exposition {
    enum exposition_type type; /* of the family that is being read */
    struct str families[EXPOSITION_MAX];
    struct str series[EXPOSITION_MAX];
    double values[EXPOSITION_MAX];
    size_t n_families, n_series;
    char problem[256]; /* empty: all is well */
};

static inline bool exposition_problem(struct exposition *x, struct str line, const char *what)
{
    snprintf(x->problem, sizeof x->problem, "%s: %.*s", what, STR_ARG(line));
    return false;
}

static inline bool exposition_has(const struct str *list, size_t n, struct str s)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal(list[i], s))
            return true;
    return false;
}

static inline bool exposition_is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] == '_' || s.p[i] == ':' || (s.p[i] >= '0' && s.p[i] <= '9' && i) ||
              ((s.p[i] | 32) >= 'a' && (s.p[i] | 32) <= 'z')))
            return false;
    return s.n > 0;
}

static inline bool exposition_is_labels(struct str s)
{
    while (s.n > 0) {
        bool found;
        struct str name = str_take(&s, '=', &found);
        size_t end = 1;

        if (!found || !exposition_is_name(name) || s.n < 2 || s.p[0] != '"')
            return false;
        while (end < s.n && s.p[end] != '"')
            end += s.p[end] == '\\' ? 2 : 1;
        if (end >= s.n)
            return false;
        s = str_from_offset(s, end + 1);
        if (s.n > 0 && (s.p[0] != ',' || s.n == 1))
            return false;
        s = str_from_offset(s, 1);
    }
    return true;
}

/* Which part of its histogram a series is: its name without that of the family. */
static inline struct str exposition_part(struct str name, struct str family)
{
    return str_starts_with(name, family) ? str_from_offset(name, family.n) : (struct str){0};
}

/* After each line of a histogram: buckets do not fall, and the count is that of the last one. */
static inline bool exposition_check_histogram(const struct exposition *x, struct str part)
{
    double value = x->values[x->n_series - 1], before = x->n_series > 1 ? x->values[x->n_series - 2] : 0;

    if (str_equal(part, STR("_bucket")))
        return memmem(x->series[x->n_series - 1].p, x->series[x->n_series - 1].n, "le=\"", 4) &&
               (x->n_series < 2 || !memmem(x->series[x->n_series - 2].p, x->series[x->n_series - 2].n, "_bucket{", 8) ||
                memmem(x->series[x->n_series - 2].p, x->series[x->n_series - 2].n, "+Inf", 4) || value >= before);
    if (str_equal(part, STR("_sum")))
        return x->n_series > 1 && memmem(x->series[x->n_series - 2].p, x->series[x->n_series - 2].n, "le=\"+Inf\"", 9);
    return x->n_series > 2 && value == x->values[x->n_series - 3];
}

static inline bool exposition_is_of(const struct exposition *x, struct str name, struct str family)
{
    struct str part = exposition_part(name, family);

    if (x->type != EXPOSITION_HISTOGRAM)
        return str_equal(name, family);
    return str_equal(part, STR("_bucket")) || str_equal(part, STR("_sum")) || str_equal(part, STR("_count"));
}

static inline bool exposition_add_series(struct exposition *x, struct str line, struct str family)
{
    const char *space = memrchr(line.p, ' ', line.n), *brace = memchr(line.p, '{', line.n);
    struct str series = {line.p, space ? (size_t)(space - line.p) : 0}, name = series;
    char number[64], *end;

    if (!space || line.n - series.n > sizeof number)
        return exposition_problem(x, line, "no value");
    if (brace && brace < space) {
        name.n = (size_t)(brace - line.p);
        if (series.p[series.n - 1] != '}' || !exposition_is_labels((struct str){brace + 1, series.n - name.n - 2}))
            return exposition_problem(x, line, "bad labels");
    }
    if (!exposition_is_of(x, name, family))
        return exposition_problem(x, line, "series outside its family");
    if (x->type == EXPOSITION_COUNTER && (name.n < 6 || memcmp(name.p + name.n - 6, "_total", 6) != 0))
        return exposition_problem(x, line, "counter not named _total");
    if (exposition_has(x->series, x->n_series, series) || x->n_series == EXPOSITION_MAX)
        return exposition_problem(x, line, "series twice");
    snprintf(number, sizeof number, "%.*s", (int)(line.n - series.n - 1), space + 1);
    x->series[x->n_series] = series;
    x->values[x->n_series++] = strtod(number, &end);
    if (!*number || *end != '\0')
        return exposition_problem(x, line, "bad value");
    return x->type != EXPOSITION_HISTOGRAM || exposition_check_histogram(x, exposition_part(name, family))
               ? true
               : exposition_problem(x, line, "bad histogram");
}

static inline enum exposition_type exposition_type_of(struct str name)
{
    if (str_equal(name, STR("counter")))
        return EXPOSITION_COUNTER;
    if (str_equal(name, STR("histogram")))
        return EXPOSITION_HISTOGRAM;
    return str_equal(name, STR("gauge")) ? EXPOSITION_GAUGE : EXPOSITION_NONE;
}

/* Reads all of `text`, of which `x` keeps views. False, with the reason in x->problem, at the first fault. */
static inline bool exposition_read(struct exposition *x, struct str text)
{
    struct str family = {0};
    bool found = true, has_type = false;

    memset(x, 0, sizeof *x);
    if (text.n == 0 || text.p[text.n - 1] != '\n')
        return exposition_problem(x, text, "no line feed at the end");
    while (text.n > 0) {
        struct str line = str_take(&text, '\n', &found), rest = line;

        if (str_starts_with(line, STR("# HELP "))) {
            rest = str_from_offset(line, 7);
            family = str_take(&rest, ' ', &found);
            if (!exposition_is_name(family) || rest.n == 0)
                return exposition_problem(x, line, "no name or help");
            if (exposition_has(x->families, x->n_families, family) || x->n_families == EXPOSITION_MAX)
                return exposition_problem(x, line, "family twice");
            x->families[x->n_families++] = family;
            has_type = false;
        } else if (str_starts_with(line, STR("# TYPE "))) {
            rest = str_from_offset(line, 7);
            if (!str_equal(str_take(&rest, ' ', &found), family) || has_type)
                return exposition_problem(x, line, "TYPE away from its HELP");
            x->type = exposition_type_of(rest);
            if (x->type == EXPOSITION_NONE)
                return exposition_problem(x, line, "unknown type");
            has_type = true;
        } else if (!has_type) {
            return exposition_problem(x, line, "series without TYPE");
        } else if (!exposition_add_series(x, line, family)) {
            return false;
        }
    }
    return true;
}

/* The value of a series, by name and labels as written; -1 when it is not there. */
static inline double exposition_value(const struct exposition *x, const char *series)
{
    for (size_t i = 0; i < x->n_series; i++)
        if (str_equal(x->series[i], str_from(series)))
            return x->values[i];
    return -1;
}
