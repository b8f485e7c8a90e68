#include "adapter/mqtt/mqtt_metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/rule_table.h"

enum { LABEL_BYTES = 128 };
#define ROUTE_LABEL "route=\"%.*s\""

static const char *const route_names[] = {
    [MQTT_ROUTE_TELEMETRY] = "telemetry",
    [MQTT_ROUTE_EVENT] = "event",
    [MQTT_ROUTE_COMMAND] = "command",
    [MQTT_ROUTE_MQTT] = "mqtt",
};
static_assert(ARRAY_LEN(route_names) == MQTT_ROUTE_RULES, "every fixed route has a name");

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
    [MQTT_REFUSED_TOPIC_TOO_LONG] = "topic_too_long",
    [MQTT_REFUSED_PARTITION] = "partition",
    [MQTT_REFUSED_HOP_LIMIT] = "hop_limit",
    [MQTT_REFUSED_TOO_MANY_TOPICS] = "too_many_topics",
};

/* What is counted of a route; then what was rejected and what was dropped, each by reason. */
enum route_metric {
    ROUTE_IN,
    ROUTE_ACKNOWLEDGED,
    ROUTE_WAITING,
    ROUTE_LOST,
    ROUTE_REJECTED,
    ROUTE_DROPPED = ROUTE_REJECTED + MQTT_REFUSALS,
    ROUTE_METRICS = ROUTE_DROPPED + MQTT_REFUSALS,
};

struct route {
    char label[LABEL_BYTES];
    char refusal_labels[MQTT_REFUSALS][LABEL_BYTES];
    struct metric metrics[ROUTE_METRICS];
};

static struct route routes[MQTT_ROUTES];

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
};

static void describe(struct metric *m, const char *name, const char *help, const char *labels, enum metric_kind kind)
{
    *m = (struct metric){.name = name, .labels = labels, .help = help, .kind = kind};
}

static void describe_route(struct route *r)
{
    describe(&r->metrics[ROUTE_IN], "millrace_messages_in_total",
             "Messages published to us: acknowledged + rejected + dropped + waiting", r->label, METRIC_COUNTER);
    describe(&r->metrics[ROUTE_ACKNOWLEDGED], "millrace_messages_acknowledged_total", "Messages that reached their destination",
             r->label, METRIC_COUNTER);
    describe(&r->metrics[ROUTE_WAITING], "millrace_messages_waiting", "Messages whose outcome is not known yet", r->label,
             METRIC_GAUGE);
    describe(&r->metrics[ROUTE_LOST], "millrace_messages_lost_total",
             "Records of class received that did not reach Kafka, their senders having been told otherwise", r->label,
             METRIC_COUNTER);
    for (unsigned why = 0; why < MQTT_REFUSALS; why++) {
        char *label = r->refusal_labels[why];

        describe(&r->metrics[ROUTE_REJECTED + why], "millrace_messages_rejected_total",
                 "Messages refused; the sender was told, or closed", label, METRIC_COUNTER);
        describe(&r->metrics[ROUTE_DROPPED + why], "millrace_messages_dropped_total", "QoS 0 messages lost", label,
                 METRIC_COUNTER);
    }
}

static void write_labels(struct route *r, struct str name)
{
    snprintf(r->label, LABEL_BYTES, ROUTE_LABEL, STR_ARG(name));
    for (unsigned why = 0; why < MQTT_REFUSALS; why++)
        snprintf(r->refusal_labels[why], LABEL_BYTES, "route=\"%.*s\",reason=\"%s\"", STR_ARG(name), refusal_names[why]);
}

static void register_route(enum mqtt_route route, struct str name)
{
    struct route *r = &routes[route];

    if (r->metrics[0].name)
        return;
    describe_route(r);
    write_labels(r, name);
    metrics_register(r->metrics, ROUTE_METRICS);
}

void mqtt_metrics_register(void)
{
    for (unsigned route = 0; route < MQTT_ROUTE_RULES; route++)
        register_route((enum mqtt_route)route, str_from(route_names[route]));
    metrics_register(counters, ARRAY_LEN(counters));
}

/* The route that has this name, or the first that has none. */
static enum mqtt_route route_named(struct str name)
{
    char label[LABEL_BYTES];
    unsigned route = MQTT_ROUTE_RULES;

    snprintf(label, sizeof label, ROUTE_LABEL, STR_ARG(name));
    while (route < MQTT_ROUTE_OTHER_RULES && routes[route].label[0] && strcmp(routes[route].label, label) != 0)
        route++;
    return (enum mqtt_route)route;
}

uint8_t *mqtt_metrics_make_rule_routes(const struct rule_table *rules)
{
    size_t n = rule_table_count(rules);
    uint8_t *made = mem_alloc(MEM_ADAPTER, n + 1);

    static_assert(MQTT_ROUTES <= UINT8_MAX, "a route fits");
    for (size_t i = 0; i < n; i++) {
        struct str name = rule_table_at(rules, i)->name;
        enum mqtt_route route = route_named(name);

        register_route(route, route == MQTT_ROUTE_OTHER_RULES ? STR("rules_other") : name);
        made[i] = (uint8_t)route;
    }
    return made;
}

static void add(enum mqtt_route route, unsigned which, int64_t n)
{
    metric_add(&routes[route].metrics[which], (uint64_t)n);
}

void mqtt_metrics_in(enum mqtt_route route)
{
    add(route, ROUTE_IN, 1);
}

void mqtt_metrics_wait(enum mqtt_route route, int change)
{
    add(route, ROUTE_WAITING, change);
}

void mqtt_metrics_acknowledged(enum mqtt_route route)
{
    add(route, ROUTE_ACKNOWLEDGED, 1);
}

void mqtt_metrics_refused(enum mqtt_route route, enum mqtt_refusal why, unsigned qos)
{
    add(route, (qos ? ROUTE_REJECTED : ROUTE_DROPPED) + (unsigned)why, 1);
}

void mqtt_metrics_lost(enum mqtt_route route)
{
    add(route, ROUTE_LOST, 1);
}

void mqtt_metrics_count(enum mqtt_counter which, int64_t n)
{
    metric_add(&counters[which], (uint64_t)n);
}

const char *mqtt_metrics_refusal_name(enum mqtt_refusal why)
{
    return (size_t)why < MQTT_REFUSALS ? refusal_names[why] : "?";
}
