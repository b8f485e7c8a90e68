#include "main/to_mqtt_options.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/bind.h"
#include "config/nearest.h"
#include "config/report.h"

enum { PATH_BYTES = 160, LOOP_BYTES = 400, SAMPLE_BYTES = 512 };

/* --- rules --- */

struct maker {
    const struct config *config;
    const char *file;
    struct config_errors *errors;
    struct to_mqtt_rules *rules;
    size_t n_faults;
};

static const char *place(const struct maker *m, unsigned line)
{
    return line ? m->file : BIND_COMMAND_LINE;
}

/* A tenant that is written out must be one of ours. */
static void check_tenant(struct maker *m, const struct config_to_mqtt *rule)
{
    struct nearest near = {.word = rule->tenant};
    struct str best;

    if (rule->tenant.n == 0 || memchr(rule->tenant.p, '{', rule->tenant.n))
        return;
    for (size_t i = 0; i < m->config->tenant_count; i++) {
        if (str_equal(m->config->tenants[i].id, rule->tenant))
            return;
        nearest_offer(&near, m->config->tenants[i].id);
    }
    best = nearest_result(&near);
    m->n_faults++;
    report_error(m->errors, place(m, rule->line), rule->line, "%.*s.tenant: %.*s is not configured%s%.*s%s", STR_ARG(rule->id),
                 STR_ARG(rule->tenant), best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
}

static err try_add(struct maker *m, const struct config_to_mqtt *rule, struct str tenant, struct to_mqtt_fault *fault)
{
    struct to_mqtt_spec spec = {
        .topic = rule->topic,
        .key = rule->key,
        .mqtt = rule->mqtt,
        .tenant = tenant,
        .qos = (uint8_t)rule->qos,
        .is_retained = rule->is_retained,
        .begins_at_end = rule->begin == CONFIG_BEGIN_LATEST,
        .hold_ms = rule->hold_ms,
        .start_hold_ms = rule->start_hold_ms,
        .ack_timeout_ms = (uint32_t)rule->ack_timeout_ms,
    };

    return to_mqtt_rules_add(m->rules, &spec, fault);
}

/* Where neither the rule nor its topic says which tenant, the only one is meant. */
static void add(struct maker *m, const struct config_to_mqtt *rule)
{
    struct to_mqtt_fault fault;
    err e = try_add(m, rule, rule->tenant, &fault);

    if (e != E_OK && rule->tenant.n == 0 && str_equal(str_from(fault.field), STR("tenant")) && m->config->tenant_count == 1)
        e = try_add(m, rule, m->config->tenants[0].id, &fault);
    if (e == E_OK)
        return;
    m->n_faults++;
    report_error(m->errors, place(m, rule->line), rule->line, "%.*s.%s: %s", STR_ARG(rule->id), fault.field, fault.ei.text);
}

err to_mqtt_options_make(const struct config *config, const char *file, struct to_mqtt_rules **out_rules,
                         struct config_errors *errors)
{
    struct maker m = {.config = config, .file = file, .errors = errors};

    m.rules = to_mqtt_rules_new((uint32_t)config->limits.topic_levels);
    for (size_t i = 0; i < config->to_mqtt_count; i++) {
        check_tenant(&m, &config->to_mqtt[i]);
        add(&m, &config->to_mqtt[i]);
    }
    if (m.n_faults > 0) {
        to_mqtt_rules_unref(m.rules);
        return E_INVAL;
    }
    *out_rules = m.rules;
    return E_OK;
}

/* --- loops --- */

enum { NO_RULE = UINT16_MAX };

/* The rules to MQTT as a graph: from i to j leads the rule to Kafka via[i * n + j], if it is one. */
struct graph {
    size_t n;
    uint16_t *via;
    uint16_t came_from[TO_MQTT_MAX_RULES]; /* of the search */
};

/* A text that the template can become. */
static struct str sample(const struct rule_template *t, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_pieces; i++) {
        struct str text = t->pieces[i].text;

        if (n + text.n + 1 > SAMPLE_BYTES)
            break;
        memcpy(out + n, text.p, text.n);
        n += text.n;
        if (t->pieces[i].variable != RULE_TEMPLATE_NO_VARIABLE)
            out[n++] = 'x';
    }
    return (struct str){out, n};
}

/* Whether what the action writes may be what the rule reads. Between a pattern and a template one sample decides. */
static bool writes_to(const struct rule_action *action, const struct to_mqtt_rule *rule)
{
    struct str groups[TO_MQTT_MAX_GROUPS];
    char text[SAMPLE_BYTES];

    if (!rule->topic_pattern)
        return rule_template_can_become(&action->topic, rule->spec.topic);
    return to_mqtt_rule_takes_topic(rule, sample(&action->topic, text), groups);
}

static bool feeds_kafka(const struct to_mqtt_rule *from, const struct rule *to)
{
    struct str tenant = from->tenant.n_pieces == 1 && from->tenant.pieces[0].variable == TO_MQTT_VARIABLE_NONE
                            ? from->tenant.pieces[0].text
                            : (struct str){0};

    if (to->source != RULE_SOURCE_PUBLISH || (tenant.n && to->tenant.n && !str_equal(tenant, to->tenant)))
        return false;
    return to_mqtt_template_can_meet(&from->topic, to->filter.text);
}

static bool feeds_mqtt(const struct rule *from, const struct to_mqtt_rule *to)
{
    for (size_t i = 0; i < from->n_actions; i++)
        if (writes_to(&from->actions[i], to))
            return true;
    return false;
}

static void make_graph(struct graph *g, const struct to_mqtt_rules *rules, const struct rule_table *table)
{
    bool before[TO_MQTT_MAX_RULES], behind[TO_MQTT_MAX_RULES];

    g->n = to_mqtt_rules_count(rules);
    g->via = mem_alloc(MEM_CONFIG, (g->n * g->n + 1) * sizeof *g->via);
    memset(g->via, 0xff, g->n * g->n * sizeof *g->via);
    for (size_t k = 0; k < rule_table_count(table); k++) {
        const struct rule *rule = rule_table_at(table, k);

        for (size_t i = 0; i < g->n; i++) {
            before[i] = feeds_kafka(to_mqtt_rules_at(rules, i), rule);
            behind[i] = feeds_mqtt(rule, to_mqtt_rules_at(rules, i));
        }
        for (size_t i = 0; i < g->n * g->n; i++)
            if (before[i / g->n] && behind[i % g->n] && g->via[i] == NO_RULE)
                g->via[i] = (uint16_t)k;
    }
}

/* The shortest way from `start` back to it over rules not before it, by breadth. False: there is none. */
static bool find_circle(struct graph *g, size_t start)
{
    uint16_t queue[TO_MQTT_MAX_RULES];
    size_t first = 0, last = 0;

    memset(g->came_from, 0xff, sizeof g->came_from);
    queue[last++] = (uint16_t)start;
    while (first < last) {
        size_t at = queue[first++];

        for (size_t to = start; to < g->n; to++) {
            if (g->via[at * g->n + to] == NO_RULE || g->came_from[to] != NO_RULE)
                continue;
            g->came_from[to] = (uint16_t)at;
            if (to == start)
                return true;
            queue[last++] = (uint16_t)to;
        }
    }
    return false;
}

/* The search left the way from its end to its beginning. */
static void write_circle(const struct config *config, const struct graph *g, size_t start, char *out)
{
    uint16_t way[TO_MQTT_MAX_RULES];
    size_t n_way = 0, n, at = start;

    do {
        at = g->came_from[at];
        way[n_way++] = (uint16_t)at;
    } while (at != start);
    n = (size_t)snprintf(out, LOOP_BYTES, "%.*s", STR_ARG(config->to_mqtt[start].id));
    while (n_way-- > 0 && n < LOOP_BYTES) {
        size_t to = n_way > 0 ? way[n_way - 1] : start;

        n += (size_t)snprintf(out + n, LOOP_BYTES - n, " -> %.*s -> %.*s",
                              STR_ARG(config->to_kafka[g->via[way[n_way] * g->n + to]].id), STR_ARG(config->to_mqtt[to].id));
    }
}

size_t to_mqtt_options_find_loops(const struct config *config, const struct to_mqtt_rules *rules,
                                  const struct rule_table *table, void (*on_loop)(void *context, const char *text),
                                  void *context)
{
    struct graph g;
    size_t n = 0;
    char text[LOOP_BYTES];

    make_graph(&g, rules, table);
    for (size_t start = 0; start < g.n; start++) {
        if (!find_circle(&g, start))
            continue;
        write_circle(config, &g, start, text);
        on_loop(context, text);
        n++;
    }
    mem_free(MEM_CONFIG, g.via);
    return n;
}
