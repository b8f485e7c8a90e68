#include "adapter/mqtt/mqtt_metrics.h"

#include "base/check.h"
#include "obs/metrics.h"

static struct metric counters[MQTT_COUNTERS] = {
    [MQTT_COUNT_CONNECTIONS] = {.name = "millrace_mqtt_connections",
                                .help = "Open MQTT connections, handshakes included",
                                .kind = METRIC_GAUGE},
    [MQTT_COUNT_CONNECTED] = {.name = "millrace_mqtt_connects_total",
                              .help = "CONNECT packets accepted",
                              .kind = METRIC_COUNTER},
    [MQTT_COUNT_HANDED_OVER] = {.name = "millrace_mqtt_handovers_total",
                                .help = "Connections handed to their home worker",
                                .kind = METRIC_COUNTER},
    [MQTT_COUNT_PACKETS] = {.name = "millrace_mqtt_packets_received_total",
                            .help = "MQTT control packets received",
                            .kind = METRIC_COUNTER},
    [MQTT_COUNT_PROTOCOL_ERRORS] = {.name = "millrace_mqtt_protocol_errors_total",
                                    .help = "Connections closed because the client broke the protocol or a limit",
                                    .kind = METRIC_COUNTER},
    [MQTT_COUNT_KEEP_ALIVE_TIMEOUTS] = {.name = "millrace_mqtt_keep_alive_timeouts_total",
                                        .help = "Connections closed because the client was silent",
                                        .kind = METRIC_COUNTER},
    [MQTT_COUNT_CONNECT_TIMEOUTS] = {.name = "millrace_mqtt_connect_timeouts_total",
                                     .help = "Connections closed because no CONNECT came in time",
                                     .kind = METRIC_COUNTER},
    [MQTT_COUNT_SUBSCRIPTIONS_REFUSED] = {.name = "millrace_mqtt_subscriptions_refused_total",
                                          .help = "Filters of SUBSCRIBE packets that were refused",
                                          .kind = METRIC_COUNTER},
    [MQTT_COUNT_WAITS] = {.name = "millrace_mqtt_waits_total",
                          .help = "Times a connection stopped being read because there was no room for its message",
                          .kind = METRIC_COUNTER},
    [MQTT_COUNT_WILLS] = {.name = "millrace_mqtt_wills_total", .help = "Will messages published", .kind = METRIC_COUNTER},
    [MQTT_COUNT_RULE_TOPICS] = {.name = "millrace_rule_topics",
                                .help = "Different Kafka topics that values in messages have named (rules.max_topics)",
                                .kind = METRIC_GAUGE},
    [MQTT_COUNT_TOPICS_MADE] = {.name = "millrace_rule_topics_asked_for_total",
                                .help = "Times a rule asked Kafka to make a topic if it is missing",
                                .kind = METRIC_COUNTER},
    [MQTT_COUNT_ERRORS_TOLD] = {.name = "millrace_mqtt_device_errors_total",
                                .help = "Errors published to the devices that had subscribed to them",
                                .kind = METRIC_COUNTER},
    [MQTT_COUNT_ERRORS_UNTOLD] = {.name = "millrace_mqtt_device_errors_untold_total",
                                  .help = "Errors subscribed to that found no room in the connection's output or did not fit",
                                  .kind = METRIC_COUNTER},
    [MQTT_COUNT_COMMANDS_RESENT] = {.name = "millrace_mqtt_commands_resent_total",
                                    .help = "Times a command was sent again within a connection (command.resend_interval)",
                                    .kind = METRIC_COUNTER},
    [MQTT_COUNT_CONNECTION_EVENTS] = {.name = "millrace_mqtt_connection_events_total",
                                      .help = "Events of the beginning or end of a device's connection that Kafka has stored",
                                      .kind = METRIC_COUNTER},
    [MQTT_COUNT_CONNECTION_EVENTS_LOST] = {.name = "millrace_mqtt_connection_events_lost_total",
                                           .help = "Such events that Kafka did not store",
                                           .kind = METRIC_COUNTER},
};

#define REFUSED(word)                                                                                                          \
    {                                                                                                                          \
        .name = "millrace_mqtt_connects_refused_total", .labels = "reason=\"" word "\"", .help = "CONNECT packets refused",    \
        .kind = METRIC_COUNTER                                                                                                 \
    }

/* By reason code; what is not here counts as malformed, the last row. */
static const enum mqtt_reason refused_for[] = {
    MQTT_REASON_BAD_USER_NAME_OR_PASSWORD,
    MQTT_REASON_NOT_AUTHORIZED,
    MQTT_REASON_SERVER_UNAVAILABLE,
    MQTT_REASON_SERVER_BUSY,
    MQTT_REASON_QUOTA_EXCEEDED,
    MQTT_REASON_CLIENT_IDENTIFIER_NOT_VALID,
    MQTT_REASON_UNSUPPORTED_PROTOCOL_VERSION,
    MQTT_REASON_BAD_AUTHENTICATION_METHOD,
};

static struct metric refused[] = {
    REFUSED("bad_credentials"), REFUSED("not_authorized"), REFUSED("unavailable"),      REFUSED("max_connections"),
    REFUSED("quota"),           REFUSED("client_id"),      REFUSED("protocol_version"), REFUSED("authentication_method"),
    REFUSED("malformed"),
};

static_assert(ARRAY_LEN(refused) == ARRAY_LEN(refused_for) + 1, "a reason code for each row but the last");

/* By the bound of the tenant, from the first on. */
static struct metric limited[USAGE_VERDICTS - 1] = {
    [USAGE_TOO_MANY_CONNECTIONS - 1] = REFUSED("tenant_max_connections"),
    [USAGE_CONNECTED_TOO_LONG - 1] = REFUSED("tenant_connection_duration"),
    [USAGE_TOO_MUCH_DATA - 1] = REFUSED("tenant_data_volume"),
};

void mqtt_metrics_connect_limited(enum usage_verdict verdict)
{
    metric_add(&limited[verdict - 1], 1);
}

void mqtt_metrics_connect_refused(enum mqtt_reason reason)
{
    size_t row = 0;

    while (row < ARRAY_LEN(refused_for) && refused_for[row] != reason)
        row++;
    metric_add(&refused[row], 1);
}

void mqtt_metrics_register(void)
{
    metrics_register(refused, ARRAY_LEN(refused));
    metrics_register(limited, ARRAY_LEN(limited));
    metrics_register(counters, ARRAY_LEN(counters));
}

void mqtt_metrics_count(enum mqtt_counter which, int64_t n)
{
    metric_add(&counters[which], (uint64_t)n);
}
