#include "fanout/fanout_park_metrics.h"

#include "obs/metrics.h"

static struct metric counters[FANOUT_PARK_COUNTERS] = {
    [FANOUT_PARK_TAKEN] = {.name = "millrace_fanout_park_taken_total",
                           .help = "Events that were parked.",
                           .kind = METRIC_COUNTER},
    [FANOUT_PARK_DELIVERED] = {.name = "millrace_fanout_park_delivered_total",
                               .help = "Parked events that a later attempt delivered.",
                               .kind = METRIC_COUNTER},
    [FANOUT_PARK_DISCARDED] = {.name = "millrace_fanout_park_discarded_total",
                               .help = "Parked events that somebody threw away.",
                               .kind = METRIC_COUNTER},
    [FANOUT_PARK_ATTEMPTS] = {.name = "millrace_fanout_park_attempts_total",
                              .help = "Attempts to deliver parked events.",
                              .kind = METRIC_COUNTER},
    [FANOUT_PARK_REFUSED_FULL] = {.name = "millrace_fanout_park_refused_total",
                                  .labels = "reason=\"full\"",
                                  .help = "Events that were not parked.",
                                  .kind = METRIC_COUNTER},
    [FANOUT_PARK_REFUSED_DISK] = {.name = "millrace_fanout_park_refused_total",
                                  .labels = "reason=\"disk\"",
                                  .kind = METRIC_COUNTER},
    [FANOUT_PARK_EVENTS] = {.name = "millrace_fanout_parked_events", .help = "Events that are parked.", .kind = METRIC_GAUGE},
    [FANOUT_PARK_BYTES] = {.name = "millrace_fanout_parked_bytes", .help = "Their size.", .kind = METRIC_GAUGE},
};

void fanout_park_metrics_register(void)
{
    metrics_register(counters, FANOUT_PARK_COUNTERS);
}

void fanout_park_metrics_add(enum fanout_park_counter which, uint64_t n)
{
    metric_add(&counters[which], n);
}
