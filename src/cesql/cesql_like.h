/* cesql_like: patterns of the LIKE operator (section 3.4.3), compiled. Immutable, any thread.
 *
 * A pattern is its pieces between `%`: the first stands at the beginning, the last at the end, and each of those between is looked
 * for where the one before ended; the first place found is always right, so there is no way back. A piece without `_` is found
 * in linear time. One with `_` is compared place by place, so its length is bounded. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { CESQL_LIKE_PIECE_MAX = 256 }; /* bytes of a piece that has a `_` */

struct cesql_like;

/* Compiles a pattern: `%`, `_`, and `\` before either. E_LIMIT: a piece with `_` is too long. */
MUST_USE err cesql_like_compile(struct arena *a, struct str pattern, const struct cesql_like **out_like);

/* Whether the whole text matches. A byte that is not UTF-8 counts as a character of its own. */
bool cesql_like_matches(const struct cesql_like *like, struct str text);
