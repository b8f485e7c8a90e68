#include "fanout/fanout_metrics.h"

#include "base/check.h"

#define EVENTS     "millrace_fanout_events_"
#define DELIVERIES "millrace_fanout_deliveries_"

static struct metric counters[FANOUT_COUNTERS] = {
    [FANOUT_EVENTS_RECEIVED] = {.name = EVENTS "received_total", .help = "Events that came.", .kind = METRIC_COUNTER},
    [FANOUT_EVENTS_ACKNOWLEDGED] = {.name = EVENTS "acknowledged_total",
                                    .help = "Events whose sender was told that they were taken.",
                                    .kind = METRIC_COUNTER},
    [FANOUT_EVENTS_DROPPED] = {.name = EVENTS "dropped_total",
                               .labels = "reason=\"sender_gone\"",
                               .help = "Events whose sender got no answer.",
                               .kind = METRIC_COUNTER},
    [FANOUT_EVENTS_WAITING] = {.name = EVENTS "waiting", .help = "Events without an answer yet.", .kind = METRIC_GAUGE},
    [FANOUT_EVENTS_OWNED] = {.name = EVENTS "unfinished",
                             .help = "Events that were answered and are not done with all subscriptions.",
                             .kind = METRIC_GAUGE},
    [FANOUT_EVENTS_LOST] = {.name = EVENTS "lost_total",
                            .help =
                                "Events of channels with ack: async-memory that were acknowledged and then not delivered to "
                                "all subscriptions.",
                            .kind = METRIC_COUNTER},
    [FANOUT_EVENTS_QUEUED] = {.name = EVENTS "queued_total",
                              .help = "Events of channels with an order that had to wait for the one before.",
                              .kind = METRIC_COUNTER},
    [FANOUT_EVENTS_FORGOTTEN] = {.name = EVENTS "forgotten_total",
                                 .help = "Events of channels with redeliver: failed-only, or with repeats, that were forgotten "
                                         "before their time, for want of room.",
                                 .kind = METRIC_COUNTER},
    [FANOUT_REPEATS_DELIVERED] = {.name = EVENTS "repeated_total",
                                  .labels = "fate=\"delivered\"",
                                  .help =
                                      "Events of channels with repeats: count or suppress that had come before and not failed: "
                                      "delivered again; acknowledged, since they were taken before; refused, since they were "
                                      "under way.",
                                  .kind = METRIC_COUNTER},
    [FANOUT_REPEATS_ACKNOWLEDGED] = {.name = EVENTS "repeated_total",
                                     .labels = "fate=\"acknowledged\"",
                                     .kind = METRIC_COUNTER},
    [FANOUT_REPEATS_REFUSED] = {.name = EVENTS "repeated_total", .labels = "fate=\"refused\"", .kind = METRIC_COUNTER},
    [FANOUT_DELIVERIES_BEGUN] = {.name = DELIVERIES "begun_total",
                                 .help = "Events begun to be delivered, by subscription.",
                                 .kind = METRIC_COUNTER},
    [FANOUT_DELIVERIES_RUNNING] = {.name = DELIVERIES "running", .help = "Deliveries under way.", .kind = METRIC_GAUGE},
    [FANOUT_DELIVERIES_FILTERED] = {.name = DELIVERIES "filtered_total",
                                    .help = "Events that a subscription's filter kept back.",
                                    .kind = METRIC_COUNTER},
    [FANOUT_DELIVERIES_REMEMBERED] = {.name = DELIVERIES "remembered_total",
                                      .help = "Events not delivered again to subscriptions that have had them.",
                                      .kind = METRIC_COUNTER},
    [FANOUT_ATTEMPTS] = {.name = "millrace_fanout_attempts_total",
                         .help = "Attempts to send something to a subscriber, reply or dead-letter target.",
                         .kind = METRIC_COUNTER},
    [FANOUT_RETRIES] = {.name = "millrace_fanout_retries_total", .help = "Those that were retries.", .kind = METRIC_COUNTER},
    [FANOUT_RETRIES_REFUSED] = {.name = "millrace_fanout_retries_refused_total",
                                .help = "Retries not made because the endpoint's budget was used up.",
                                .kind = METRIC_COUNTER},
    [FANOUT_BREAKERS_OPENED] = {.name = "millrace_fanout_breakers_opened_total",
                                .help = "Times an endpoint was left alone because most attempts failed.",
                                .kind = METRIC_COUNTER},
    [FANOUT_REPLIES_SENT] = {.name = "millrace_fanout_replies_total",
                             .labels = "fate=\"sent\"",
                             .help = "Replies of subscribers, by what became of them.",
                             .kind = METRIC_COUNTER},
    [FANOUT_REPLIES_IGNORED] = {.name = "millrace_fanout_replies_total", .labels = "fate=\"ignored\"", .kind = METRIC_COUNTER},
    [FANOUT_TURNS_WAITED] = {.name = DELIVERIES "held_back_total",
                             .help = "Deliveries that waited for their subscription's max_inflight.",
                             .kind = METRIC_COUNTER},
};

static const char *const rejection_names[FANOUT_REJECTIONS] = {
    [FANOUT_REJECTED_FAILED] = "failed",
    [FANOUT_REJECTED_INVALID] = "invalid",
    [FANOUT_REJECTED_UNKNOWN_CHANNEL] = "unknown_channel",
    [FANOUT_REJECTED_BROKEN_CHANNEL] = "broken_channel",
    [FANOUT_REJECTED_DENIED] = "denied",
    [FANOUT_REJECTED_HOPS] = "hops",
    [FANOUT_REJECTED_REPEATED] = "repeated",
    [FANOUT_REJECTED_TOO_LARGE] = "too_large",
    [FANOUT_REJECTED_FULL] = "full",
    [FANOUT_REJECTED_DRAIN] = "drain",
};

#define REJECTED(value, text)                                                                                                  \
    {                                                                                                                          \
        .name = EVENTS "rejected_total", .labels = "reason=\"" value "\"", .help = text, .kind = METRIC_COUNTER                \
    }

static struct metric rejections[FANOUT_REJECTIONS] = {
    [FANOUT_REJECTED_FAILED] = REJECTED("failed", "Events whose sender was told that they were not taken."),
    [FANOUT_REJECTED_INVALID] = REJECTED("invalid", NULL),
    [FANOUT_REJECTED_UNKNOWN_CHANNEL] = REJECTED("unknown_channel", NULL),
    [FANOUT_REJECTED_BROKEN_CHANNEL] = REJECTED("broken_channel", NULL),
    [FANOUT_REJECTED_DENIED] = REJECTED("denied", NULL),
    [FANOUT_REJECTED_HOPS] = REJECTED("hops", NULL),
    [FANOUT_REJECTED_REPEATED] = REJECTED("repeated", NULL),
    [FANOUT_REJECTED_TOO_LARGE] = REJECTED("too_large", NULL),
    [FANOUT_REJECTED_FULL] = REJECTED("full", NULL),
    [FANOUT_REJECTED_DRAIN] = REJECTED("drain", NULL),
};

#define ENDED(value, text)                                                                                                     \
    {                                                                                                                          \
        .name = DELIVERIES "ended_total", .labels = "outcome=\"" value "\"", .help = text, .kind = METRIC_COUNTER              \
    }

static struct metric outcomes[FANOUT_OUTCOMES] = {
    [FANOUT_OUTCOME_DELIVERED] = ENDED("delivered", "Deliveries by how they ended."),
    [FANOUT_OUTCOME_DEAD_LETTERED] = ENDED("dead_lettered", NULL),
    [FANOUT_OUTCOME_PARKED] = ENDED("parked", NULL),
    [FANOUT_OUTCOME_DROPPED] = ENDED("dropped", NULL),
    [FANOUT_OUTCOME_FAILED] = ENDED("failed", NULL),
};

#define FAULT(value, text)                                                                                                     \
    {                                                                                                                          \
        .name = "millrace_fanout_attempts_failed_total", .labels = "reason=\"" value "\"", .help = text,                       \
        .kind = METRIC_COUNTER                                                                                                 \
    }

static const char *const fault_names[FANOUT_FAULTS] = {
    [FANOUT_FAULT_NONE] = "none",           [FANOUT_FAULT_STATUS] = "status",     [FANOUT_FAULT_REPLY] = "reply",
    [FANOUT_FAULT_NAME] = "name",           [FANOUT_FAULT_CONNECT] = "connect",   [FANOUT_FAULT_CLOSED] = "closed",
    [FANOUT_FAULT_TIMEOUT] = "timeout",     [FANOUT_FAULT_DEADLINE] = "deadline", [FANOUT_FAULT_PROTOCOL] = "protocol",
    [FANOUT_FAULT_TOO_LARGE] = "too_large", [FANOUT_FAULT_BREAKER] = "breaker",   [FANOUT_FAULT_OVERLOAD] = "overloaded",
    [FANOUT_FAULT_REQUEST] = "request",     [FANOUT_FAULT_KAFKA] = "kafka",       [FANOUT_FAULT_ABANDONED] = "abandoned",
};

static struct metric faults[FANOUT_FAULTS] = {
    [FANOUT_FAULT_NONE] = FAULT("none", "Attempts that failed, by reason."),
    [FANOUT_FAULT_STATUS] = FAULT("status", NULL),
    [FANOUT_FAULT_REPLY] = FAULT("reply", NULL),
    [FANOUT_FAULT_NAME] = FAULT("name", NULL),
    [FANOUT_FAULT_CONNECT] = FAULT("connect", NULL),
    [FANOUT_FAULT_CLOSED] = FAULT("closed", NULL),
    [FANOUT_FAULT_TIMEOUT] = FAULT("timeout", NULL),
    [FANOUT_FAULT_DEADLINE] = FAULT("deadline", NULL),
    [FANOUT_FAULT_PROTOCOL] = FAULT("protocol", NULL),
    [FANOUT_FAULT_TOO_LARGE] = FAULT("too_large", NULL),
    [FANOUT_FAULT_BREAKER] = FAULT("breaker", NULL),
    [FANOUT_FAULT_OVERLOAD] = FAULT("overloaded", NULL),
    [FANOUT_FAULT_REQUEST] = FAULT("request", NULL),
    [FANOUT_FAULT_KAFKA] = FAULT("kafka", NULL),
    [FANOUT_FAULT_ABANDONED] = FAULT("abandoned", NULL),
};

#define TOOK(what, text)                                                                                                       \
    {                                                                                                                          \
        .name = "millrace_fanout_" what "_seconds", .help = text, .kind = METRIC_HISTOGRAM, .buckets = &metric_buckets_latency \
    }

static struct metric times[FANOUT_TIMES] = {
    [FANOUT_TIME_DISPATCH] = TOOK("dispatch", "Time from an event's coming to its answer."),
    [FANOUT_TIME_DELIVERY] = TOOK("delivery", "Time a delivery took, its retries, reply and dead letter included."),
    [FANOUT_TIME_ATTEMPT] = TOOK("attempt", "Time of an attempt at any target, until its answer or whatever ended it."),
};

void fanout_metrics_register(void)
{
    metrics_register(counters, ARRAY_LEN(counters));
    metrics_register(rejections, ARRAY_LEN(rejections));
    metrics_register(outcomes, ARRAY_LEN(outcomes));
    metrics_register(faults, ARRAY_LEN(faults));
    metrics_register(times, ARRAY_LEN(times));
}

void fanout_metrics_add(enum fanout_counter which, uint64_t n)
{
    metric_add(&counters[which], n);
}

void fanout_metrics_reject(enum fanout_rejection reason)
{
    metric_add(&rejections[reason], 1);
}

void fanout_metrics_end(enum fanout_outcome outcome)
{
    metric_add(&outcomes[outcome], 1);
}

void fanout_metrics_fail(enum fanout_fault fault)
{
    metric_add(&faults[fault], 1);
}

void fanout_metrics_took(enum fanout_time which, uint64_t us)
{
    metric_observe(&times[which], us);
}

const char *fanout_metrics_fault_name(enum fanout_fault fault)
{
    return fault_names[fault];
}

const char *fanout_metrics_rejection_name(enum fanout_rejection reason)
{
    return rejection_names[reason];
}
