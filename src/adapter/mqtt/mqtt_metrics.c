#include "adapter/mqtt/mqtt_metrics.h"

#include <stdio.h>

#include "base/check.h"

enum { LABEL_BYTES = 64 };

static const char *const route_names[MQTT_ROUTES] = {
    [MQTT_ROUTE_TELEMETRY] = "telemetry",
    [MQTT_ROUTE_EVENT] = "event",
    [MQTT_ROUTE_COMMAND] = "command",
    [MQTT_ROUTE_MQTT] = "mqtt",
};

static const char *const refusal_names[MQTT_REFUSALS] = {
    [MQTT_REFUSED_TOO_LARGE] = "too_large",
    [MQTT_REFUSED_UNKNOWN_TOPIC] = "unknown_topic",
    [MQTT_REFUSED_DENIED] = "denied",
    [MQTT_REFUSED_INVALID] = "invalid",
    [MQTT_REFUSED_UNAVAILABLE] = "unavailable",
    [MQTT_REFUSED_OVERLOADED] = "overloaded",
    [MQTT_REFUSED_FAILED] = "failed",
    [MQTT_REFUSED_BAD_REQUEST] = "bad_request",
    [MQTT_REFUSED_FORBIDDEN] = "forbidden",
    [MQTT_REFUSED_NOT_FOUND] = "not_found",
    [MQTT_REFUSED_TOO_DEEP] = "too_many_levels",
    [MQTT_REFUSED_PAYLOAD_FORMAT] = "payload_format",
    [MQTT_REFUSED_NO_MEMORY] = "no_memory",
};

static char route_labels[MQTT_ROUTES][LABEL_BYTES];
static char refusal_labels[MQTT_ROUTES][MQTT_REFUSALS][LABEL_BYTES];

static struct metric in_metrics[MQTT_ROUTES];
static struct metric acknowledged_metrics[MQTT_ROUTES];
static struct metric waiting_metrics[MQTT_ROUTES];
static struct metric rejected_metrics[MQTT_ROUTES * MQTT_REFUSALS];
static struct metric dropped_metrics[MQTT_ROUTES * MQTT_REFUSALS];

static struct metric counters[MQTT_COUNTERS] = {
    [MQTT_COUNT_CONNECTIONS] = {.name = "millrace_mqtt_connections",
                                .help = "Open MQTT connections, handshakes included",
                                .kind = METRIC_GAUGE},
    [MQTT_COUNT_CONNECTED] = {.name = "millrace_mqtt_connects_total",
                              .help = "CONNECT packets accepted",
                              .kind = METRIC_COUNTER},
    [MQTT_COUNT_REFUSED] = {.name = "millrace_mqtt_connects_refused_total",
                            .help = "CONNECT packets refused",
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
    [MQTT_COUNT_WAITS] = {.name = "millrace_mqtt_waits_total",
                          .help = "Times a connection stopped being read because there was no room for its message",
                          .kind = METRIC_COUNTER},
    [MQTT_COUNT_WILLS] = {.name = "millrace_mqtt_wills_total", .help = "Will messages published", .kind = METRIC_COUNTER},
};

static void describe(struct metric *m, const char *name, const char *help, const char *labels, enum metric_kind kind)
{
    *m = (struct metric){.name = name, .labels = labels, .help = help, .kind = kind};
}

static void describe_route(unsigned route)
{
    char *label = route_labels[route];

    snprintf(label, LABEL_BYTES, "route=\"%s\"", route_names[route]);
    describe(&in_metrics[route], "millrace_messages_in_total",
             "Messages published to us: acknowledged + rejected + dropped + waiting", label, METRIC_COUNTER);
    describe(&acknowledged_metrics[route], "millrace_messages_acknowledged_total", "Messages that reached their destination",
             label, METRIC_COUNTER);
    describe(&waiting_metrics[route], "millrace_messages_waiting", "Messages whose outcome is not known yet", label,
             METRIC_GAUGE);
    for (unsigned why = 0; why < MQTT_REFUSALS; why++) {
        unsigned i = route * MQTT_REFUSALS + why;

        label = refusal_labels[route][why];
        snprintf(label, LABEL_BYTES, "route=\"%s\",reason=\"%s\"", route_names[route], refusal_names[why]);
        describe(&rejected_metrics[i], "millrace_messages_rejected_total", "Messages refused; the sender was told, or closed",
                 label, METRIC_COUNTER);
        describe(&dropped_metrics[i], "millrace_messages_dropped_total", "QoS 0 messages lost", label, METRIC_COUNTER);
    }
}

void mqtt_metrics_register(void)
{
    if (!in_metrics[0].name)
        for (unsigned route = 0; route < MQTT_ROUTES; route++)
            describe_route(route);
    metrics_register(in_metrics, ARRAY_LEN(in_metrics));
    metrics_register(acknowledged_metrics, ARRAY_LEN(acknowledged_metrics));
    metrics_register(waiting_metrics, ARRAY_LEN(waiting_metrics));
    metrics_register(rejected_metrics, ARRAY_LEN(rejected_metrics));
    metrics_register(dropped_metrics, ARRAY_LEN(dropped_metrics));
    metrics_register(counters, ARRAY_LEN(counters));
}

void mqtt_metrics_in(enum mqtt_route route)
{
    metric_add(&in_metrics[route], 1);
}

void mqtt_metrics_wait(enum mqtt_route route, int change)
{
    metric_add(&waiting_metrics[route], (uint64_t)(int64_t)change);
}

void mqtt_metrics_acknowledged(enum mqtt_route route)
{
    metric_add(&acknowledged_metrics[route], 1);
}

void mqtt_metrics_refused(enum mqtt_route route, enum mqtt_refusal why, unsigned qos)
{
    metric_add(&(qos ? rejected_metrics : dropped_metrics)[(unsigned)route * MQTT_REFUSALS + why], 1);
}

void mqtt_metrics_count(enum mqtt_counter which, int64_t n)
{
    metric_add(&counters[which], (uint64_t)n);
}

const char *mqtt_metrics_refusal_name(enum mqtt_refusal why)
{
    return (size_t)why < MQTT_REFUSALS ? refusal_names[why] : "?";
}
