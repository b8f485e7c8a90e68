#include "broker/broker_metrics.h"

#define DROPPED(reason_text)                                                                                                   \
    {                                                                                                                          \
        .name = "millrace_deliveries_dropped_total", .labels = "reason=\"" reason_text "\"",                                   \
        .help = "Deliveries to MQTT subscribers that did not happen", .kind = METRIC_COUNTER                                   \
    }

struct metric broker_metrics[BROKER_METRICS] = {
    [BROKER_MATCHED] = {.name = "millrace_deliveries_total",
                        .help = "Deliveries to MQTT subscribers that were due: completed + dropped + waiting",
                        .kind = METRIC_COUNTER},
    [BROKER_ACKNOWLEDGED] = {.name = "millrace_deliveries_completed_total",
                             .help = "Deliveries acknowledged by the client, at QoS 0 written to it",
                             .kind = METRIC_COUNTER},
    [BROKER_DELIVERED] = {.name = "millrace_deliveries_sent_total",
                          .help = "PUBLISH packets sent to clients, repeated ones included",
                          .kind = METRIC_COUNTER},
    [BROKER_QUEUED] = {.name = "millrace_deliveries_waiting", .help = "Deliveries queued or in flight", .kind = METRIC_GAUGE},
    [BROKER_DROPPED_OFFLINE] = DROPPED("offline"),
    [BROKER_DROPPED_OUTPUT_FULL] = DROPPED("output_full"),
    [BROKER_DROPPED_QUEUE_FULL] = DROPPED("queue_full"),
    [BROKER_DROPPED_TOO_LARGE] = DROPPED("too_large"),
    [BROKER_DROPPED_EXPIRED] = DROPPED("expired"),
    [BROKER_DROPPED_SESSION_END] = DROPPED("session_end"),
    [BROKER_DROPPED_NO_MEMORY] = DROPPED("no_memory"),
    [BROKER_SESSIONS] = {.name = "millrace_sessions", .help = "Sessions, connected or not", .kind = METRIC_GAUGE},
    [BROKER_SUBSCRIPTIONS] = {.name = "millrace_subscriptions", .help = "Subscriptions of all sessions", .kind = METRIC_GAUGE},
    [BROKER_OVERDUE] = {.name = "millrace_sessions_overdue_total",
                        .help = "Connections closed because their client did not acknowledge messages from Kafka in time",
                        .kind = METRIC_COUNTER},
    [BROKER_TAKEOVERS] = {.name = "millrace_session_takeovers_total",
                          .help = "Connections closed because their client connected again",
                          .kind = METRIC_COUNTER},
    [BROKER_RETAINED_LOST] = {.name = "millrace_retained_lost_total",
                              .help = "Retained messages that a worker had no memory to keep",
                              .kind = METRIC_COUNTER},
};
