/* latency: a histogram of durations, and their percentiles. Buckets are one 64th of their value wide (1.6 %), so any number of
 * samples takes the same memory. One thread. */
#pragma once

#include <stdint.h>

enum { LATENCY_STEPS = 64, LATENCY_OCTAVES = 34, LATENCY_BUCKETS = LATENCY_STEPS * LATENCY_OCTAVES };

/* All-zero is empty. */
struct latency {
    uint64_t count;
    uint64_t buckets[LATENCY_BUCKETS];
};

/* Nanoseconds of the monotonic clock. */
uint64_t latency_clock_ns(void);

void latency_add(struct latency *l, uint64_t duration_ns);

/* The duration that `share` (0.99) of the samples do not exceed, in microseconds; 0 without samples. */
double latency_percentile_us(const struct latency *l, double share);

/* Prints `"p50_us": .., "p99_us": .., "p999_us": ..`, without braces. */
void latency_print(const struct latency *l);
