#include "command/command_metrics.h"

#define DELIVERED(how)                                                                                                         \
    {                                                                                                                          \
        .name = "millrace_commands_delivered_total",                                                                           \
        .help = "Commands that a device acknowledged, or that were written to one that acknowledges nothing",                  \
        .kind = METRIC_COUNTER, .labels = "as=\"" how "\""                                                                     \
    }
#define REFUSED(why)                                                                                                           \
    {                                                                                                                          \
        .name = "millrace_commands_refused_total", .help = "Commands that could not be delivered", .kind = METRIC_COUNTER,     \
        .labels = "reason=\"" why "\""                                                                                         \
    }
#define DROPPED(why)                                                                                                           \
    {                                                                                                                          \
        .name = "millrace_commands_dropped_total", .help = "Commands that nobody could be told of, or whose time was over",    \
        .kind = METRIC_COUNTER, .labels = "reason=\"" why "\""                                                                 \
    }

struct metric command_metrics[COMMAND_COUNTS] = {
    [COMMAND_COUNT_RECEIVED] =
        {.name = "millrace_commands_received_total",
         .help = "Commands read from Kafka; with those resumed: delivered + refused + dropped + elsewhere + queued + waiting",
         .kind = METRIC_COUNTER},
    [COMMAND_COUNT_WAITING] = {.name = "millrace_commands_waiting",
                               .help = "Commands on their way, or whose notice is",
                               .kind = METRIC_GAUGE},
    [COMMAND_COUNT_DELIVERED_RECEIVED] = DELIVERED("received"),
    [COMMAND_COUNT_DELIVERED_ATTEMPTED] = DELIVERED("attempted"),
    [COMMAND_COUNT_REFUSED_SUBJECT] = REFUSED("subject"),
    [COMMAND_COUNT_REFUSED_CORRELATION_ID] = REFUSED("correlation_id"),
    [COMMAND_COUNT_REFUSED_UNKNOWN_TENANT] = REFUSED("unknown_tenant"),
    [COMMAND_COUNT_REFUSED_UNKNOWN_DEVICE] = REFUSED("unknown_device"),
    [COMMAND_COUNT_REFUSED_NO_CONSUMER] = REFUSED("no_consumer"),
    [COMMAND_COUNT_REFUSED_GATEWAY] = REFUSED("gateway"),
    [COMMAND_COUNT_REFUSED_DATA_VOLUME] = REFUSED("data_volume"),
    [COMMAND_COUNT_REFUSED_NOT_ACKNOWLEDGED] = REFUSED("not_acknowledged"),
    [COMMAND_COUNT_REFUSED_QUEUE_FULL] = REFUSED("queue_full"),
    [COMMAND_COUNT_DROPPED_NO_DEVICE] = DROPPED("no_device"),
    [COMMAND_COUNT_DROPPED_KEY] = DROPPED("key"),
    [COMMAND_COUNT_DROPPED_EXPIRED] = DROPPED("expired"),
    [COMMAND_COUNT_ELSEWHERE] =
        {.name = "millrace_commands_elsewhere_total",
         .help = "Commands read here that another instance has done, or is to do since it has their partition now",
         .kind = METRIC_COUNTER},
    [COMMAND_COUNT_QUEUED] = {.name = "millrace_commands_queued_total",
                              .help = "Commands put into the table, to wait for a device that is away",
                              .kind = METRIC_COUNTER},
    [COMMAND_COUNT_RESUMED] = {.name = "millrace_commands_resumed_total",
                               .help = "Those taken up from there, for the device or since their time is over",
                               .kind = METRIC_COUNTER},
    [COMMAND_COUNT_ANSWERED] = {.name = "millrace_command_answers_total",
                                .help = "Answers of devices to commands that were taken for Kafka",
                                .kind = METRIC_COUNTER},
    [COMMAND_COUNT_NOTICES] = {.name = "millrace_command_notices_total",
                               .help = "Notices to applications that Kafka has stored",
                               .kind = METRIC_COUNTER},
    [COMMAND_COUNT_NOTICES_LOST] = {.name = "millrace_command_notices_lost_total",
                                    .help = "Notices to applications that Kafka refused",
                                    .kind = METRIC_COUNTER},
    [COMMAND_COUNT_RETURNED] = {.name = "millrace_commands_returned_total",
                                .help = "Times that a command came back because its subscriber was gone, and was sent again",
                                .kind = METRIC_COUNTER},
    [COMMAND_COUNT_SUBSCRIPTIONS] = {.name = "millrace_command_subscriptions",
                                     .help = "Devices and gateways that take commands now",
                                     .kind = METRIC_GAUGE},
    [COMMAND_COUNT_SUBSCRIPTIONS_REPLACED] = {.name = "millrace_command_subscriptions_replaced_total",
                                              .help =
                                                  "Subscriptions to commands that a newer one for the same device took over",
                                              .kind = METRIC_COUNTER},
    [COMMAND_COUNT_EVENTS_LOST] = {.name = "millrace_command_events_lost_total",
                                   .help = "Events of the beginning or end of such a subscription that Kafka did not store",
                                   .kind = METRIC_COUNTER},
    [COMMAND_COUNT_ROUTED] = {.name = "millrace_commands_routed_total",
                              .help = "Times that a command was passed on to the instance that has the device",
                              .kind = METRIC_COUNTER},
    [COMMAND_COUNT_ROUTED_AGAIN] = {.name = "millrace_commands_routed_again_total",
                                    .help = "Times that this was repeated since no result came",
                                    .kind = METRIC_COUNTER},
    [COMMAND_COUNT_RESULTS] = {.name = "millrace_command_results_total",
                               .help = "Results of commands that were passed on",
                               .kind = METRIC_COUNTER},
    [COMMAND_COUNT_RESULTS_LATE] = {.name = "millrace_command_results_late_total",
                                    .help = "Results that nobody waits for any more",
                                    .kind = METRIC_COUNTER},
    [COMMAND_COUNT_REQUESTS] = {.name = "millrace_command_requests_total",
                                .help = "Commands that other instances passed on to this one",
                                .kind = METRIC_COUNTER},
    [COMMAND_COUNT_REQUESTS_FOREIGN] = {.name = "millrace_command_requests_foreign_total",
                                        .help = "Those that were meant for an earlier life of this instance, and were dropped",
                                        .kind = METRIC_COUNTER},
    [COMMAND_COUNT_DUPLICATES] = {.name = "millrace_command_duplicates_total",
                                  .help = "Commands that came again, under way or done, and were not delivered again",
                                  .kind = METRIC_COUNTER},
    [COMMAND_COUNT_FORGOTTEN] = {.name = "millrace_command_forgotten_total",
                                 .help = "Commands done within the last five minutes that there is no room to remember",
                                 .kind = METRIC_COUNTER},
};
