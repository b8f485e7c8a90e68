/* fanout_duration: spans of time as fan-out configurations write them. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Milliseconds of `30s`, `1h` (config/value.h), or of an ISO-8601 duration as Knative's delivery has them: P[nW][nD][T[nH][nM][nS]],
 * in this order, the seconds with up to 9 digits behind a point or comma, of which those after the third do not count. Years and
 * months are of no fixed length and are refused, as is what is negative. False, and nothing written, when it is neither. */
bool fanout_duration_parse(struct str s, int64_t *out_ms);
