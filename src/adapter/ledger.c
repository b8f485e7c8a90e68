#include "adapter/ledger.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/rule_table.h"
#include "obs/metrics.h"

enum { LABEL_BYTES = 128 };
#define ROUTE_LABEL "route=\"%.*s\""

static const char *const route_names[] = {
    [LEDGER_ROUTE_TELEMETRY] = "telemetry",
    [LEDGER_ROUTE_EVENT] = "event",
    [LEDGER_ROUTE_COMMAND] = "command",
    [LEDGER_ROUTE_MQTT] = "mqtt",
};
static_assert(ARRAY_LEN(route_names) == LEDGER_ROUTE_RULES, "every fixed route has a name");

static const char *const refusal_names[LEDGER_REFUSALS] = {
    [LEDGER_REFUSED_TOO_LARGE] = "too_large",
    [LEDGER_REFUSED_UNKNOWN_TOPIC] = "unknown_topic",
    [LEDGER_REFUSED_DENIED] = "denied",
    [LEDGER_REFUSED_INVALID] = "invalid",
    [LEDGER_REFUSED_UNAVAILABLE] = "unavailable",
    [LEDGER_REFUSED_OVERLOADED] = "overloaded",
    [LEDGER_REFUSED_FAILED] = "failed",
    [LEDGER_REFUSED_BAD_REQUEST] = "bad_request",
    [LEDGER_REFUSED_FORBIDDEN] = "forbidden",
    [LEDGER_REFUSED_NOT_FOUND] = "not_found",
    [LEDGER_REFUSED_TOO_DEEP] = "too_many_levels",
    [LEDGER_REFUSED_PAYLOAD_FORMAT] = "payload_format",
    [LEDGER_REFUSED_NO_MEMORY] = "no_memory",
    [LEDGER_REFUSED_TOPIC_TOO_LONG] = "topic_too_long",
    [LEDGER_REFUSED_PARTITION] = "partition",
    [LEDGER_REFUSED_HOP_LIMIT] = "hop_limit",
    [LEDGER_REFUSED_TOO_MANY_TOPICS] = "too_many_topics",
    [LEDGER_REFUSED_DATA_VOLUME] = "data_volume",
};

/* What is counted of a route; then what was rejected and what was dropped, each by reason. */
enum route_metric {
    ROUTE_IN,
    ROUTE_ACKNOWLEDGED,
    ROUTE_WAITING,
    ROUTE_LOST,
    ROUTE_REJECTED,
    ROUTE_DROPPED = ROUTE_REJECTED + LEDGER_REFUSALS,
    ROUTE_METRICS = ROUTE_DROPPED + LEDGER_REFUSALS,
};

struct route {
    char label[LABEL_BYTES];
    char refusal_labels[LEDGER_REFUSALS][LABEL_BYTES];
    struct metric metrics[ROUTE_METRICS];
};

static struct route routes[LEDGER_ROUTES];

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
    for (unsigned why = 0; why < LEDGER_REFUSALS; why++) {
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
    for (unsigned why = 0; why < LEDGER_REFUSALS; why++)
        snprintf(r->refusal_labels[why], LABEL_BYTES, "route=\"%.*s\",reason=\"%s\"", STR_ARG(name), refusal_names[why]);
}

static void register_route(enum ledger_route route, struct str name)
{
    struct route *r = &routes[route];

    if (r->metrics[0].name)
        return;
    describe_route(r);
    write_labels(r, name);
    metrics_register(r->metrics, ROUTE_METRICS);
}

void ledger_register(void)
{
    for (unsigned route = 0; route < LEDGER_ROUTE_RULES; route++)
        register_route((enum ledger_route)route, str_from(route_names[route]));
}

/* The route that has this name, or the first that has none. */
static enum ledger_route route_named(struct str name)
{
    char label[LABEL_BYTES];
    unsigned route = LEDGER_ROUTE_RULES;

    snprintf(label, sizeof label, ROUTE_LABEL, STR_ARG(name));
    while (route < LEDGER_ROUTE_OTHER_RULES && routes[route].label[0] && strcmp(routes[route].label, label) != 0)
        route++;
    return (enum ledger_route)route;
}

uint8_t *ledger_make_rule_routes(const struct rule_table *rules)
{
    size_t n = rule_table_count(rules);
    uint8_t *made = mem_alloc(MEM_ADAPTER, n + 1);

    static_assert(LEDGER_ROUTES <= UINT8_MAX, "a route fits");
    for (size_t i = 0; i < n; i++) {
        struct str name = rule_table_at(rules, i)->name;
        enum ledger_route route = route_named(name);

        register_route(route, route == LEDGER_ROUTE_OTHER_RULES ? STR("rules_other") : name);
        made[i] = (uint8_t)route;
    }
    return made;
}

static void add(enum ledger_route route, unsigned which, int64_t n)
{
    metric_add(&routes[route].metrics[which], (uint64_t)n);
}

void ledger_count_in(enum ledger_route route)
{
    add(route, ROUTE_IN, 1);
}

void ledger_count_waiting(enum ledger_route route, int change)
{
    add(route, ROUTE_WAITING, change);
}

void ledger_count_acknowledged(enum ledger_route route)
{
    add(route, ROUTE_ACKNOWLEDGED, 1);
}

void ledger_count_refused(enum ledger_route route, enum ledger_refusal why, unsigned qos)
{
    add(route, (qos ? ROUTE_REJECTED : ROUTE_DROPPED) + (unsigned)why, 1);
}

void ledger_count_lost(enum ledger_route route)
{
    add(route, ROUTE_LOST, 1);
}

const char *ledger_refusal_name(enum ledger_refusal why)
{
    return (size_t)why < LEDGER_REFUSALS ? refusal_names[why] : "?";
}
