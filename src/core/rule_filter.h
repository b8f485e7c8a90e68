/* rule_filter: the MQTT filter of a rule, with named segments.
 *
 *   plant/{site}/+/{rest#}
 *
 * A level is a text that must be equal, `+` (any one level), `{name}` (the same, and remembered), or, as the last one, `#`
 * (all the rest, which may be nothing) or `{name#}` (the same, and remembered with its slashes). What MQTT 5.0 section 4.7 says
 * of `+` and `#` holds for both forms: `a/#` also matches `a`, and no wildcard at the beginning matches a name that begins
 * with `$`. A compiled filter is immutable, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    RULE_FILTER_MAX_LEVELS = 128,
    RULE_FILTER_MAX_SEGMENTS = 16,
    RULE_FILTER_NO_SEGMENT = 0xff,
};

enum rule_level_kind { RULE_LEVEL_TEXT, RULE_LEVEL_ONE, RULE_LEVEL_REST };

struct rule_level {
    struct str text; /* of RULE_LEVEL_TEXT */
    uint8_t kind;    /* enum rule_level_kind */
    uint8_t segment; /* which one it is, or RULE_FILTER_NO_SEGMENT */
};

/* All-zero matches nothing. */
struct rule_filter {
    struct str text; /* as written */
    struct rule_level *levels;
    size_t n_levels;
    struct str segments[RULE_FILTER_MAX_SEGMENTS]; /* their names */
    size_t n_segments;
};

/* Compiles `text` into memory of `a`, which copies what it needs. E_INVAL with the reason in `ei`: no valid filter, a segment
 * that does not fill its level or has no proper name, two of one name, a shared subscription; E_LIMIT: too many levels or
 * segments. */
MUST_USE err rule_filter_parse(struct arena *a, enum mem_sub sub, struct str text, struct rule_filter *out_filter,
                               struct errinfo *ei);

/* Whether a valid topic name matches. The segments' texts go to `out_segments`, which holds n_segments views into `name`; they
 * mean nothing when the result is false. */
bool rule_filter_matches(const struct rule_filter *filter, struct str name, struct str *out_segments);

/* Whether every name that `b` matches is one that `a` matches. */
bool rule_filter_covers(const struct rule_filter *a, const struct rule_filter *b);
