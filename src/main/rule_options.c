#include "main/rule_options.h"

#include <assert.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/check.h"
#include "config/nearest.h"
#include "config/report.h"
#include "main/authentication_options.h"
#include "main/mapper_options.h"
#include "main/to_mqtt_options.h"

enum { PATH_BYTES = 160 };

static const enum rule_source sources[] = {
    [CONFIG_EVENT_NONE] = RULE_SOURCE_PUBLISH,
    [CONFIG_EVENT_CONNECT] = RULE_SOURCE_CONNECT,
    [CONFIG_EVENT_DISCONNECT] = RULE_SOURCE_DISCONNECT,
    [CONFIG_EVENT_SUBSCRIBE] = RULE_SOURCE_SUBSCRIBE,
    [CONFIG_EVENT_SESSION_END] = RULE_SOURCE_SESSION_END,
};
static_assert(ARRAY_LEN(sources) == CONFIG_EVENTS, "every event is a source");

/* config's properties are pairs of views, as the headers of a record are. */
static_assert(sizeof(struct config_property) == sizeof(struct record_header), "a property is a name and a value");

struct maker {
    const struct config *config;
    const char *file;
    struct config_errors *errors;
    struct rule_table *table;
    size_t n_faults;
};

#define FAIL(m, line, ...) ((m)->n_faults++, report_error((m)->errors, (m)->file, (line), __VA_ARGS__))

static struct rule_action_spec action_spec(const struct config_rule_action *action)
{
    return (struct rule_action_spec){
        .topic = action->topic,
        .key = action->key,
        .partition = action->partition,
        .headers = (const struct record_header *)(const void *)action->headers.items,
        .n_headers = action->headers.count,
        .ack = action->ack == CONFIG_ACK_RECEIVED ? RULE_ACK_RECEIVED : RULE_ACK_QUORUM,
        .is_creating = action->is_creating,
        .limit_ms = (uint32_t)action->timeout_ms,
    };
}

static const struct config_rule_action *actions_of(const struct config_to_kafka *rule, size_t *out_count)
{
    *out_count = rule->action_count ? rule->action_count : 1;
    return rule->action_count ? rule->actions : &rule->single;
}

/* The path of a fault, as in "to_kafka[2].actions[0].key". */
static const char *path_of(const struct config_to_kafka *rule, const struct rule_fault *fault, char path[PATH_BYTES])
{
    struct str id = rule->action_count && fault->action < rule->action_count ? rule->actions[fault->action].id : rule->id;

    snprintf(path, PATH_BYTES, "%.*s.%s", STR_ARG(id), fault->field);
    return path;
}

static unsigned line_of(const struct config_to_kafka *rule, const struct rule_fault *fault)
{
    return rule->action_count && fault->action < rule->action_count ? rule->actions[fault->action].line : rule->line;
}

static void offer_segments(struct nearest *near, struct arena *scratch, const struct config_to_kafka *rule)
{
    struct rule_filter filter;
    struct errinfo ei;

    if (rule->mqtt.n == 0 || rule_filter_parse(scratch, MEM_CONFIG, rule->mqtt, &filter, &ei) != E_OK)
        return;
    for (size_t i = 0; i < filter.n_segments; i++)
        nearest_offer(near, filter.segments[i]);
}

static void report(struct maker *m, const struct config_to_kafka *rule, const struct rule_fault *fault)
{
    struct nearest near = {.word = fault->unknown};
    struct arena scratch = {0};
    char path[PATH_BYTES];
    struct str best;

    if (fault->unknown.n > 0) {
        offer_segments(&near, &scratch, rule);
        for (size_t i = 0; rule_template_variable_name(i).n > 0; i++)
            nearest_offer(&near, rule_template_variable_name(i));
    }
    best = nearest_result(&near);
    FAIL(m, line_of(rule, fault), "%s: %s%s%.*s%s", path_of(rule, fault, path), fault->ei.text,
         best.n ? " (did you mean {" : "", STR_ARG(best), best.n ? "}?)" : "");
    arena_free(&scratch, MEM_CONFIG);
}

static bool has_single(const struct config_to_kafka *rule)
{
    const struct config_rule_action *a = &rule->single;

    return a->topic.n || a->key.n || a->partition.n || a->headers.count;
}

static void check_tenant(struct maker *m, const struct config_to_kafka *rule)
{
    struct nearest near = {.word = rule->tenant};
    struct str best;

    if (rule->tenant.n == 0)
        return;
    for (size_t i = 0; i < m->config->tenant_count; i++) {
        if (str_equal(m->config->tenants[i].id, rule->tenant))
            return;
        nearest_offer(&near, m->config->tenants[i].id);
    }
    best = nearest_result(&near);
    FAIL(m, rule->line, "%.*s.tenant: %.*s is not configured%s%.*s%s", STR_ARG(rule->id), STR_ARG(rule->tenant),
         best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
}

/* Names are labels of metrics: two rules with one would be counted together. */
static void check_name(struct maker *m, size_t i)
{
    const struct config_to_kafka *rule = &m->config->to_kafka[i];
    static const char *const taken[] = {"telemetry", "event", "command", "mqtt", "rules_other"};

    if (rule->name.n == 0)
        return;
    for (size_t k = 0; k < ARRAY_LEN(taken); k++)
        if (str_equal(rule->name, str_from(taken[k])))
            FAIL(m, rule->line, "%.*s.name: %s is the name of a route of the program's own", STR_ARG(rule->id), taken[k]);
    for (size_t k = 0; k < i; k++)
        if (str_equal(m->config->to_kafka[k].name, rule->name))
            FAIL(m, rule->line, "%.*s.name: %.*s is the name of %.*s too", STR_ARG(rule->id), STR_ARG(rule->name),
                 STR_ARG(m->config->to_kafka[k].id));
}

static void check_shape(struct maker *m, const struct config_to_kafka *rule)
{
    size_t n;
    const struct config_rule_action *actions = actions_of(rule, &n);

    if (rule->mqtt.n > 0 && rule->event != CONFIG_EVENT_NONE)
        FAIL(m, rule->line, "%.*s: mqtt and event exclude each other", STR_ARG(rule->id));
    if (rule->mqtt.n == 0 && rule->event == CONFIG_EVENT_NONE)
        FAIL(m, rule->line, "%.*s: mqtt is missing (or event): what does the rule take?", STR_ARG(rule->id));
    if (rule->action_count && has_single(rule))
        FAIL(m, rule->line, "%.*s: topic and what goes with it stand either in the rule or in its actions", STR_ARG(rule->id));
    for (size_t i = 0; i < n; i++)
        if (actions[i].ack == CONFIG_ACK_SPOOLED)
            FAIL(m, rule->action_count ? actions[i].line : rule->line,
                 "%.*s.ack: spooled is reserved for the disk spool, which this version does not have; use quorum or received",
                 STR_ARG(rule->action_count ? actions[i].id : rule->id));
}

/* Hono's topics have a limit of their own. */
static void check_hono(struct maker *m, const struct config_to_kafka *rule)
{
    size_t n;
    const struct config_rule_action *actions = actions_of(rule, &n);

    for (size_t i = 0; i < n; i++)
        if (str_starts_with(actions[i].topic, STR("hono.")) && actions[i].timeout_ms != m->config->hono_delivery_timeout_ms)
            FAIL(m, rule->action_count ? actions[i].line : rule->line,
                 "%.*s.timeout: a topic has one time limit, and topics that begin with hono. have hono.delivery_timeout",
                 STR_ARG(rule->action_count ? actions[i].id : rule->id));
}

static void add(struct maker *m, const struct config_to_kafka *rule)
{
    struct rule_action_spec specs[RULE_MAX_ACTIONS];
    size_t n;
    const struct config_rule_action *actions = actions_of(rule, &n);
    struct rule_spec spec = {
        .name = rule->name.n ? rule->name : rule->id,
        .source = sources[rule->event],
        .filter = rule->mqtt,
        .tenant = rule->tenant,
        .mapper = rule->mapper,
        .is_local = rule->is_local,
        .actions = specs,
        .n_actions = n,
    };
    struct rule_fault fault;

    ASSERT(n <= RULE_MAX_ACTIONS); /* the option table's bound */
    for (size_t i = 0; i < n; i++)
        specs[i] = action_spec(&actions[i]);
    if (rule_table_add(m->table, &spec, &fault) != E_OK)
        report(m, rule, &fault);
}

static void check_together(struct maker *m)
{
    for (size_t i = 0; i < rule_table_count(m->table); i++) {
        struct rule_fault fault;

        if (rule_table_check(m->table, i, &fault) != E_OK)
            report(m, &m->config->to_kafka[i], &fault);
    }
}

/* The rules the other way are made elsewhere; here is where every error is found. */
static void check_way_back(struct maker *m)
{
    struct to_mqtt_rules *rules = NULL;

    if (to_mqtt_options_make(m->config, m->file, &rules, m->errors) != E_OK)
        m->n_faults++;
    to_mqtt_rules_unref(rules);
}

err rule_options_make(const struct config *config, const char *file, struct rule_table **out_table,
                      struct config_errors *errors)
{
    struct maker m = {.config = config, .file = file, .errors = errors};

    m.table = rule_table_new(config->kafka.topic_prefix.n);
    for (size_t i = 0; i < config->to_kafka_count; i++) {
        const struct config_to_kafka *rule = &config->to_kafka[i];
        size_t n_before = m.n_faults;

        check_name(&m, i);
        check_tenant(&m, rule);
        check_shape(&m, rule);
        check_hono(&m, rule);
        if (m.n_faults == n_before)
            add(&m, rule);
    }
    if (m.n_faults == 0) /* else the rules' numbers are not those of the file */
        check_together(&m);
    check_way_back(&m);
    if (mapper_options_check(config, file, errors) != E_OK)
        m.n_faults++;
    if (authentication_options_check(config, file, errors) != E_OK)
        m.n_faults++;
    if (m.n_faults > 0) {
        rule_table_unref(m.table);
        return E_INVAL;
    }
    rule_table_finish(m.table);
    *out_table = m.table;
    return E_OK;
}
