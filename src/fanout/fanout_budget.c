#include "fanout/fanout_budget.h"

static void add(struct fanout_budget *b, uint64_t units)
{
    uint64_t room = FANOUT_BUDGET_MAX - b->units;

    b->units += (uint32_t)(units < room ? units : room);
}

void fanout_budget_init(struct fanout_budget *b, uint64_t now_ms)
{
    *b = (struct fanout_budget){.units = FANOUT_BUDGET_MAX, .at_ms = now_ms};
}

void fanout_budget_add(struct fanout_budget *b)
{
    add(b, FANOUT_BUDGET_SHARE);
}

bool fanout_budget_take(struct fanout_budget *b, uint64_t now_ms)
{
    add(b, (now_ms - b->at_ms) * FANOUT_BUDGET_PER_MS);
    b->at_ms = now_ms;
    if (b->units < FANOUT_BUDGET_UNIT)
        return false;
    b->units -= FANOUT_BUDGET_UNIT;
    return true;
}
