#include "latency.h"

#include <stdio.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_US 1000.0

uint64_t latency_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Values below LATENCY_STEPS have a bucket each; above, each octave (values with the same highest bit) has LATENCY_STEPS. */
static unsigned bucket_of(uint64_t ns)
{
    unsigned octave, bucket;

    if (ns < LATENCY_STEPS)
        return (unsigned)ns;
    octave = 63 - (unsigned)__builtin_clzll(ns) - 6;
    bucket = (octave + 1) * LATENCY_STEPS + (unsigned)(ns >> octave) - LATENCY_STEPS;
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

/* The upper end of a bucket. */
static uint64_t value_of(unsigned bucket)
{
    unsigned octave = bucket / LATENCY_STEPS;

    if (octave == 0)
        return bucket;
    return ((uint64_t)(bucket % LATENCY_STEPS) + LATENCY_STEPS + 1) << (octave - 1);
}

void latency_add(struct latency *l, uint64_t duration_ns)
{
    l->buckets[bucket_of(duration_ns)]++;
    l->count++;
}

double latency_percentile_us(const struct latency *l, double share)
{
    uint64_t wanted = (uint64_t)((double)l->count * share), seen = 0;

    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->buckets[i];
        if (l->buckets[i] && seen >= wanted)
            return (double)value_of(i) / NS_PER_US;
    }
    return 0;
}

void latency_print(const struct latency *l)
{
    printf("\"p50_us\": %.0f, \"p99_us\": %.0f, \"p999_us\": %.0f", latency_percentile_us(l, 0.5),
           latency_percentile_us(l, 0.99), latency_percentile_us(l, 0.999));
}
