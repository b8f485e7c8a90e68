/* fanout_budget: how many retries an endpoint is given, so that one in trouble is not buried under them: one for every ten first
 * attempts. An endpoint that hears little has 100 to begin with and gets ten a second back. All-zero but for fanout_budget_init() is
 * empty. Pure but for its own state; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    FANOUT_BUDGET_UNIT = 1000,                      /* one retry */
    FANOUT_BUDGET_MAX = 100 * FANOUT_BUDGET_UNIT,   /* saved up */
    FANOUT_BUDGET_SHARE = FANOUT_BUDGET_UNIT / 10,  /* for each first attempt */
    FANOUT_BUDGET_PER_MS = FANOUT_BUDGET_UNIT / 100 /* for each millisecond */
};

struct fanout_budget {
    uint32_t units;
    uint64_t at_ms;
};

/* Begins with all that can be saved. */
void fanout_budget_init(struct fanout_budget *b, uint64_t now_ms);

/* A first attempt was made. */
void fanout_budget_add(struct fanout_budget *b);

/* Takes one retry; false: there is none left. */
bool fanout_budget_take(struct fanout_budget *b, uint64_t now_ms);
