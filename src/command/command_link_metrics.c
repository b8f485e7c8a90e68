#include "command/command_link_metrics.h"

#define CONNECTIONS(way)                                                                                                       \
    {                                                                                                                          \
        .name = "millrace_command_link_connections", .help = "Connections with other instances now", .kind = METRIC_GAUGE,     \
        .labels = "direction=\"" way "\""                                                                                      \
    }
#define REFUSED(why)                                                                                                           \
    {                                                                                                                          \
        .name = "millrace_command_link_refused_total", .help = "Connections of others that were refused",                      \
        .kind = METRIC_COUNTER, .labels = "reason=\"" why "\""                                                                 \
    }
#define BROKEN(why)                                                                                                            \
    {                                                                                                                          \
        .name = "millrace_command_link_broken_total",                                                                          \
        .help = "Connections that stood and ended, but for those to instances that are gone", .kind = METRIC_COUNTER,          \
        .labels = "reason=\"" why "\""                                                                                         \
    }

struct metric command_link_metrics[COMMAND_LINK_COUNTS] = {
    [COMMAND_LINK_COUNT_OUT] = CONNECTIONS("out"),
    [COMMAND_LINK_COUNT_IN] = CONNECTIONS("in"),
    [COMMAND_LINK_COUNT_CONNECTED] = {.name = "millrace_command_link_connects_total",
                                      .help = "Connections to other instances that came to stand",
                                      .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_FAILED] = {.name = "millrace_command_link_connect_failures_total",
                                   .help = "Attempts to connect to another instance that failed",
                                   .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_ACCEPTED] = {.name = "millrace_command_link_accepted_total",
                                     .help = "Connections of other instances that came to stand",
                                     .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_REFUSED_TLS] = REFUSED("tls"),
    [COMMAND_LINK_COUNT_REFUSED_VERSION] = REFUSED("version"),
    [COMMAND_LINK_COUNT_REFUSED_NAME] = REFUSED("name"),
    [COMMAND_LINK_COUNT_REFUSED_STRANGER] = REFUSED("stranger"),
    [COMMAND_LINK_COUNT_REFUSED_BUSY] = REFUSED("busy"),
    [COMMAND_LINK_COUNT_BROKEN] = BROKEN("closed"),
    [COMMAND_LINK_COUNT_DEAD] = BROKEN("dead"),
    [COMMAND_LINK_COUNT_PROTOCOL] = BROKEN("protocol"),
    [COMMAND_LINK_COUNT_SENT] = {.name = "millrace_command_link_frames_sent_total",
                                 .help = "Commands and results for other instances; each once, however often it was sent",
                                 .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_REPEATED] = {.name = "millrace_command_link_frames_repeated_total",
                                     .help = "Times that one was sent again, over a new connection",
                                     .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_RECEIVED] = {.name = "millrace_command_link_frames_received_total",
                                     .help = "Commands and results of other instances",
                                     .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_DUPLICATE] = {.name = "millrace_command_link_frames_duplicate_total",
                                      .help = "Commands and results that had come before and were left out",
                                      .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_DROPPED] =
        {.name = "millrace_command_link_frames_dropped_total",
         .help = "Commands and results, perhaps sent, whose receiver was gone before it told that it had them",
         .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_NO_ROOM] = {.name = "millrace_command_link_no_room_total",
                                    .help = "Times that something had to wait because too much was kept for its receiver",
                                    .kind = METRIC_COUNTER},
    [COMMAND_LINK_COUNT_KEPT_BYTES] = {.name = "millrace_command_link_kept_bytes",
                                       .help = "What other instances have not acknowledged",
                                       .kind = METRIC_GAUGE},
    [COMMAND_LINK_COUNT_HANDED_BYTES] = {.name = "millrace_command_link_handed_bytes",
                                         .help = "What was received and is on its way between workers",
                                         .kind = METRIC_GAUGE},
};
