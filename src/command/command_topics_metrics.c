#include "command/command_topics_metrics.h"

struct metric command_topics_metrics[COMMAND_TOPICS_COUNTS] = {
    [COMMAND_TOPICS_COUNT_SENT] = {.name = "millrace_command_topics_sent_total",
                                   .help = "Requests and results to other instances: stored + lost + waiting",
                                   .kind = METRIC_COUNTER},
    [COMMAND_TOPICS_COUNT_STORED] = {.name = "millrace_command_topics_stored_total",
                                     .help = "Requests and results that Kafka has stored for another instance",
                                     .kind = METRIC_COUNTER},
    [COMMAND_TOPICS_COUNT_LOST] = {.name = "millrace_command_topics_lost_total",
                                   .help =
                                       "Requests and results to instances that are gone, or that Kafka does not take at all",
                                   .kind = METRIC_COUNTER},
    [COMMAND_TOPICS_COUNT_WAITING] = {.name = "millrace_command_topics_waiting",
                                      .help = "Requests and results that Kafka has not stored yet",
                                      .kind = METRIC_GAUGE},
    [COMMAND_TOPICS_COUNT_WAITING_BYTES] = {.name = "millrace_command_topics_waiting_bytes",
                                            .help = "The memory of those",
                                            .kind = METRIC_GAUGE},
    [COMMAND_TOPICS_COUNT_AGAIN] = {.name = "millrace_command_topics_again_total",
                                    .help = "Times that one was written again, because Kafka had refused it",
                                    .kind = METRIC_COUNTER},
    [COMMAND_TOPICS_COUNT_RECEIVED] = {.name = "millrace_command_topics_received_total",
                                       .help =
                                           "Records of other instances, or of Command Routers of Eclipse Hono, that were read",
                                       .kind = METRIC_COUNTER},
    [COMMAND_TOPICS_COUNT_MALFORMED] = {.name = "millrace_command_topics_malformed_total",
                                        .help = "Those among them that are neither a request nor a result: they were dropped",
                                        .kind = METRIC_COUNTER},
};
