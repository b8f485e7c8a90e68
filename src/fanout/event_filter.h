/* event_filter: which events a subscription wants: the filter dialects of the CloudEvents Subscriptions API (exact, prefix, suffix,
 * all, any, not, sql). Compiled with the configuration, immutable, any thread. A filter that cannot be understood is an error when
 * it is compiled, and none that fails while it runs lets an event through. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "config/tree.h"
#include "proto/cloudevents/cloudevent.h"

struct event_filter;

/* Compiles the list `filters` of a subscription (all must match) into the arena, which is one of MEM_CONFIG. `*out_filter` is NULL for
 * an empty list, or none: everything matches. E_INVAL: see `ei`, which has the line. */
MUST_USE err event_filter_compile(struct arena *a, const struct tree_node *filters, const struct event_filter **out_filter,
                                  struct errinfo *ei);

/* The same from Knative's older form: a map of attribute names to values, all of which must be equal; an empty value asks only that
 * the attribute is there. */
MUST_USE err event_filter_compile_legacy(struct arena *a, const struct tree_node *attributes,
                                         const struct event_filter **out_filter, struct errinfo *ei);

/* Whether the event passes. NULL passes everything. An expression that ends in an error, or is not a boolean, lets nothing through, below
 * `not` neither. `scratch`, an arena of MEM_FANOUT, is for CESQL and may be emptied afterwards. */
bool event_filter_matches(const struct event_filter *filter, const struct cloudevent *event, struct arena *scratch);
