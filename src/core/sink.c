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

static void on_room(struct mail *m)
{
    struct sink_waiter *waiter = CONTAINER_OF(m, struct sink_waiter, mail);

    waiter->mail.on_mail = waiter->on_room;
    waiter->is_armed = false;
    waiter->mail.on_mail(m);
}

bool sink_arm_waiter(struct sink_waiter *waiter)
{
    if (waiter->is_armed)
        return false;
    waiter->is_armed = true;
    waiter->on_room = waiter->mail.on_mail;
    waiter->mail.on_mail = on_room;
    return true;
}
