/* fanout_retry: whether and when something is tried again. Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fanout/fanout_snapshot.h"

/* Whether another attempt may help after this status; 0: there was no response. Redirections are never followed and never tried again. */
bool fanout_retry_is_useful(unsigned status);

/* How long to wait before retry number `n` (from 1): linear is delay * n, exponential delay * 2^(n-1), both at most delay_max_ms; and of
 * that any part, as `random` decides (full jitter), so that senders that failed together do not come back together. */
uint32_t fanout_retry_delay_ms(const struct fanout_retry *retry, unsigned n, uint64_t random);

/* What a Retry-After asks for, from the wall clock's `now_s` on: seconds, or a date in any of the three forms of RFC 9110 section 5.6.7. 0
 * for a date that has passed. False: it says nothing that could be understood. */
bool fanout_retry_after_ms(struct str value, uint64_t now_s, uint64_t *out_ms);

/* The wait before retry number `n`: the delay, and not less than what the Retry-After (its `p` NULL: none) asks for, as far as the policy
 * listens to it. */
uint32_t fanout_retry_wait_ms(const struct fanout_retry *retry, unsigned n, struct str retry_after, uint64_t now_s,
                              uint64_t random);
