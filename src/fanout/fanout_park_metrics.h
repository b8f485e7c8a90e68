/* fanout_park_metrics: what the park counts. Any thread. */
#pragma once

#include <stdint.h>

enum fanout_park_counter {
    FANOUT_PARK_TAKEN,
    FANOUT_PARK_DELIVERED,
    FANOUT_PARK_DISCARDED,
    FANOUT_PARK_ATTEMPTS,
    FANOUT_PARK_REFUSED_FULL,
    FANOUT_PARK_REFUSED_DISK,
    FANOUT_PARK_EVENTS, /* gauge, as is the next */
    FANOUT_PARK_BYTES,
    FANOUT_PARK_COUNTERS,
};

/* Once, before threads start; a no-op when done. */
void fanout_park_metrics_register(void);

void fanout_park_metrics_add(enum fanout_park_counter which, uint64_t n);
