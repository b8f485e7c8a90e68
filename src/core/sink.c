#include "core/sink.h"

#include <assert.h>

#include "base/check.h"

static const char *const outcome_names[] = {
    [OUTCOME_STORED] = "stored",         [OUTCOME_TOO_LARGE] = "too_large", [OUTCOME_UNKNOWN_TOPIC] = "unknown_topic",
    [OUTCOME_DENIED] = "denied",         [OUTCOME_INVALID] = "invalid",     [OUTCOME_UNAVAILABLE] = "unavailable",
    [OUTCOME_OVERLOADED] = "overloaded", [OUTCOME_FAILED] = "failed",
};
static_assert(ARRAY_LEN(outcome_names) == OUTCOMES, "every outcome has a name");

const char *sink_outcome_name(enum outcome outcome)
{
    return (unsigned)outcome < OUTCOMES ? outcome_names[outcome] : "failed";
}
