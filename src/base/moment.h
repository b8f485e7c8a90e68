/* moment: a point in time as texts of RFC 3339 have it, in milliseconds since 1970. Pure functions, any thread. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { MOMENT_BYTES = 25 }; /* 2026-01-01T00:00:00.000Z and a NUL */

/* Reads a date and time with an offset, as in 2026-01-01T00:00:00Z or 2026-01-01T02:00:00.5+02:00. E_INVAL: it is none, or there is
 * no such day. Digits behind the milliseconds are dropped; a leap second is the one before it. */
MUST_USE err moment_parse(struct str text, int64_t *out_ms);

/* Writes it in UTC, with milliseconds if there are any. Years 0 to 9999. Returns the length. */
size_t moment_format(int64_t ms, char to[MOMENT_BYTES]);
