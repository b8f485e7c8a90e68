#include "fanout/fanout_breaker.h"

enum fanout_breaker_admission fanout_breaker_admit(struct fanout_breaker *b, uint64_t now_ms)
{
    if (b->state == FANOUT_BREAKER_CLOSED)
        return FANOUT_BREAKER_ADMITTED;
    if (b->state == FANOUT_BREAKER_OPEN && now_ms - b->since_ms >= b->open_ms)
        b->state = FANOUT_BREAKER_HALF_OPEN;
    if (b->state == FANOUT_BREAKER_OPEN || b->has_probe)
        return FANOUT_BREAKER_REFUSED;
    b->has_probe = true;
    return FANOUT_BREAKER_PROBE;
}

static void open_for(struct fanout_breaker *b, uint32_t open_ms, uint64_t now_ms)
{
    *b = (struct fanout_breaker){
        .state = FANOUT_BREAKER_OPEN,
        .open_ms = open_ms < FANOUT_BREAKER_OPEN_MAX_MS ? open_ms : FANOUT_BREAKER_OPEN_MAX_MS,
        .since_ms = now_ms,
    };
}

bool fanout_breaker_report(struct fanout_breaker *b, bool is_probe, bool has_failed, uint64_t now_ms)
{
    if (is_probe) {
        if (has_failed)
            open_for(b, b->open_ms * 2, now_ms);
        else
            *b = (struct fanout_breaker){.since_ms = now_ms};
        return has_failed;
    }
    if (b->state != FANOUT_BREAKER_CLOSED) /* begun before it opened: nothing new */
        return false;
    if (now_ms - b->since_ms >= FANOUT_BREAKER_WINDOW_MS)
        *b = (struct fanout_breaker){.since_ms = now_ms};
    b->n_attempts++;
    b->n_failed += has_failed;
    if (!has_failed || b->n_attempts < FANOUT_BREAKER_MIN_ATTEMPTS || b->n_failed * 2 < b->n_attempts)
        return false;
    open_for(b, FANOUT_BREAKER_OPEN_MS, now_ms);
    return true;
}

void fanout_breaker_withdraw(struct fanout_breaker *b, bool is_probe)
{
    if (is_probe)
        b->has_probe = false;
}

const char *fanout_breaker_name(const struct fanout_breaker *b)
{
    static const char *const names[] = {
        [FANOUT_BREAKER_CLOSED] = "closed", [FANOUT_BREAKER_OPEN] = "open", [FANOUT_BREAKER_HALF_OPEN] = "half-open"};

    return names[b->state];
}
