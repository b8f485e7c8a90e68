/* fanout_attempt: one attempt of a leg, by HTTP or into Kafka, if the endpoint's breaker lets it go. Ends by fanout_leg_succeed() or
 * fanout_leg_fail(), never inside fanout_attempt_begin(). Internal to fanout/; one thread. */
#pragma once

#include "fanout/fanout_leg.h"
#include "proto/http1/http1_response.h"

/* Begins; leg->state says what is under way. Anything but FANOUT_FAULT_NONE: it was not begun. */
enum fanout_fault fanout_attempt_begin(struct fanout_leg *leg, const struct fanout_target *target, uint32_t timeout_ms);

/* Gives up an attempt that is under way: no end is told. A record that Kafka has already been given stays on its way, and with it the leg's
 * memory (leg->is_record_held), until the answer comes. */
void fanout_attempt_cancel(struct fanout_leg *leg);

/* How an attempt ended, for the leg. `response` is NULL of Kafka; it and the body are borrowed for the call. */
void fanout_leg_succeed(struct fanout_leg *leg, const struct http1_response_head *response, struct str body);
void fanout_leg_fail(struct fanout_leg *leg, enum fanout_fault fault, bool is_retriable, struct str retry_after,
                     struct str body);
