#include "broker/feed_metrics.h"

#define DROPPED(reason_text)                                                                                                   \
    {                                                                                                                          \
        .name = "millrace_to_mqtt_dropped_total", .labels = "reason=\"" reason_text "\"",                                      \
        .help = "Records from Kafka that no client got", .kind = METRIC_COUNTER                                                \
    }

struct metric feed_metrics[FEED_METRICS] = {
    [FEED_RECORDS] = {.name = "millrace_to_mqtt_records_total",
                      .help = "Records from Kafka for MQTT: delivered + dropped + waiting",
                      .kind = METRIC_COUNTER},
    [FEED_DELIVERED] = {.name = "millrace_to_mqtt_delivered_total",
                        .help =
                            "Records that every client which got them has acknowledged (at QoS 0: that were written to it), "
                            "at least one; or that are retained",
                        .kind = METRIC_COUNTER},
    [FEED_WAITING] = {.name = "millrace_to_mqtt_waiting",
                      .help = "Records held, queued for clients or not acknowledged by them",
                      .kind = METRIC_GAUGE},
    [FEED_HELD] = {.name = "millrace_to_mqtt_held",
                   .help = "Those of the waiting that wait for a subscriber",
                   .kind = METRIC_GAUGE},
    [FEED_MOVED] = {.name = "millrace_to_mqtt_moved_total",
                    .help = "Records left to a client's queue in memory, so that a partition could go on",
                    .kind = METRIC_COUNTER},
    [FEED_DROPPED_NO_RULE] = DROPPED("no_rule"),
    [FEED_DROPPED_TOPIC] = DROPPED("topic"),
    [FEED_DROPPED_MATCH_LIMIT] = DROPPED("match_limit"),
    [FEED_DROPPED_HOP_LIMIT] = DROPPED("hop_limit"),
    [FEED_DROPPED_EXPIRED] = DROPPED("expired"),
    [FEED_DROPPED_NO_MEMORY] = DROPPED("no_memory"),
    [FEED_DROPPED_NO_SUBSCRIBER] = DROPPED("no_subscriber"),
    [FEED_DROPPED_SESSION_END] = DROPPED("session_end"),
    [FEED_DROPPED_OFFLINE] = DROPPED("offline"),
    [FEED_DROPPED_QUEUE_FULL] = DROPPED("queue_full"),
    [FEED_DROPPED_OUTPUT_FULL] = DROPPED("output_full"),
    [FEED_DROPPED_TOO_LARGE] = DROPPED("too_large"),
    [FEED_DROPPED_RETAINED_FULL] = DROPPED("retained_full"),
};
