#include "core/to_mqtt_rule.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "core/to_mqtt_pattern.h"

struct to_mqtt_rules {
    atomic_uint refs;
    uint32_t max_levels;
    struct arena arena;
    struct to_mqtt_rule *list[TO_MQTT_MAX_RULES];
    size_t n;
};

struct to_mqtt_rules *to_mqtt_rules_new(uint32_t max_levels)
{
    struct to_mqtt_rules *rules = mem_alloc_zero(MEM_MESSAGE, sizeof *rules);

    atomic_init(&rules->refs, 1);
    rules->max_levels = max_levels;
    return rules;
}

struct to_mqtt_rules *to_mqtt_rules_ref(struct to_mqtt_rules *rules)
{
    atomic_fetch_add_explicit(&rules->refs, 1, memory_order_relaxed);
    return rules;
}

void to_mqtt_rules_unref(struct to_mqtt_rules *rules)
{
    if (!rules || atomic_fetch_sub_explicit(&rules->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < rules->n; i++) {
        to_mqtt_pattern_free(rules->list[i]->topic_pattern);
        to_mqtt_pattern_free(rules->list[i]->key_pattern);
    }
    arena_free(&rules->arena, MEM_MESSAGE);
    mem_free(MEM_MESSAGE, rules);
}

/* --- compiling --- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

static bool is_group_char(char c)
{
    return is_name_char(c) && c != '.' && c != '-';
}

/* One variable of a topic's name, at its brace, as a group: any characters but none; the last one takes all that is left. */
static err take_variable(struct str text, size_t *at, struct buf *out, struct errinfo *ei)
{
    const char *end = memchr(text.p + *at, '}', text.n - *at);
    struct str name = {text.p + *at + 1, end ? (size_t)(end - text.p) - *at - 1 : 0};
    bool is_last = end && !memchr(end, '{', text.n - (size_t)(end - text.p));

    for (size_t i = 0; i < name.n; i++)
        if (!is_group_char(name.p[i]))
            name.n = 0;
    if (name.n == 0)
        return errinfo_set(ei, E_INVAL, "a variable is written {name}, with letters, digits and _");
    *at = (size_t)(end - text.p) + 1;
    return buf_printf(out, MEM_MESSAGE, "(?<%.*s>.+%s)", STR_ARG(name), is_last ? "" : "?");
}

/* A topic's name with variables, as a regular expression. */
static err translate(struct str text, struct buf *out, struct errinfo *ei)
{
    size_t at = 0;
    err e = buf_append(out, MEM_MESSAGE, STR("^"));

    while (e == E_OK && at < text.n) {
        char c = text.p[at];

        if (c == '{') {
            e = take_variable(text, &at, out, ei);
            continue;
        }
        if (!is_name_char(c))
            return errinfo_set(ei, E_INVAL,
                               "a Kafka topic has only letters, digits, '.', '_' and '-'; a regular expression begins with ^");
        e = buf_printf(out, MEM_MESSAGE, c == '.' ? "\\%c" : "%c", c);
        at++;
    }
    return e == E_OK ? buf_append(out, MEM_MESSAGE, STR("$")) : e;
}

static err compile_topic(struct to_mqtt_rule *rule, struct errinfo *ei)
{
    struct str text = rule->spec.topic;
    struct buf translated = {0};
    err e;

    if (text.n == 0)
        return errinfo_set(ei, E_INVAL, "is empty");
    if (text.p[0] == '^')
        return to_mqtt_pattern_new(text, &rule->topic_pattern, ei);
    e = translate(text, &translated, ei);
    if (e == E_OK && memchr(text.p, '{', text.n))
        e = to_mqtt_pattern_new(buf_str(&translated), &rule->topic_pattern, ei);
    buf_free(&translated, MEM_MESSAGE);
    return e;
}

static bool is_taken(const struct to_mqtt_rule *rule, struct str name)
{
    for (size_t i = 0; i < rule->n_groups; i++)
        if (str_equal(rule->groups[i], name))
            return true;
    return str_equal(name, STR("topic")) || str_equal(name, STR("key")) || str_equal(name, STR("partition"));
}

static err add_groups(struct to_mqtt_rule *rule, const struct to_mqtt_pattern *pattern, struct errinfo *ei)
{
    for (size_t i = 0; pattern && i < to_mqtt_pattern_count_groups(pattern); i++) {
        struct str name = to_mqtt_pattern_group(pattern, i);

        if (rule->n_groups == TO_MQTT_MAX_GROUPS)
            return errinfo_set(ei, E_LIMIT, "topic and key have more than %d named groups", TO_MQTT_MAX_GROUPS);
        if (is_taken(rule, name))
            return errinfo_set(ei, E_INVAL, "the group %.*s needs another name: this one is in use", STR_ARG(name));
        rule->groups[rule->n_groups++] = name;
    }
    return E_OK;
}

static err compile_patterns(struct to_mqtt_rule *rule, struct to_mqtt_fault *fault)
{
    err e;

    fault->field = "topic";
    e = compile_topic(rule, &fault->ei);
    if (e == E_OK)
        e = add_groups(rule, rule->topic_pattern, &fault->ei);
    if (e != E_OK)
        return e;
    rule->n_topic_groups = rule->n_groups;
    fault->field = "key";
    if (rule->spec.key.n)
        e = to_mqtt_pattern_new(rule->spec.key, &rule->key_pattern, &fault->ei);
    return e == E_OK ? add_groups(rule, rule->key_pattern, &fault->ei) : e;
}

static err compile_templates(struct arena *a, struct to_mqtt_rule *rule, struct to_mqtt_fault *fault)
{
    struct str tenant = rule->spec.tenant;
    struct str text = rule->spec.mqtt;
    err e;

    fault->field = "mqtt";
    if (text.n == 0)
        return errinfo_set(&fault->ei, E_INVAL, "is empty");
    if (str_starts_with(text, STR("$share/")) || str_starts_with(text, STR("$SYS/")))
        return errinfo_set(&fault->ei, E_INVAL, "topics that begin with $share/ and $SYS/ are not for messages");
    e = to_mqtt_template_parse(a, text, rule->groups, rule->n_groups, &rule->topic, &fault->ei);
    if (e != E_OK)
        return e;
    fault->field = "tenant";
    if (tenant.n == 0 && !is_taken(rule, STR("tenant")))
        return errinfo_set(&fault->ei, E_INVAL, "is missing: name one, or have a group called tenant in the topic");
    return to_mqtt_template_parse(a, tenant.n ? tenant : STR("{tenant}"), rule->groups, rule->n_groups, &rule->tenant,
                                  &fault->ei);
}

static struct str own(struct to_mqtt_rules *rules, struct str s)
{
    return arena_copy(&rules->arena, MEM_MESSAGE, s);
}

err to_mqtt_rules_add(struct to_mqtt_rules *rules, const struct to_mqtt_spec *spec, struct to_mqtt_fault *out_fault)
{
    struct to_mqtt_rule *rule = arena_alloc(&rules->arena, MEM_MESSAGE, sizeof *rule);
    err e;

    *out_fault = (struct to_mqtt_fault){.field = "topic"};
    if (rules->n == TO_MQTT_MAX_RULES)
        return errinfo_set(&out_fault->ei, E_LIMIT, "there are more than %d rules", TO_MQTT_MAX_RULES);
    *rule = (struct to_mqtt_rule){.index = rules->n, .spec = *spec};
    rule->spec.topic = own(rules, spec->topic);
    rule->spec.key = own(rules, spec->key);
    rule->spec.mqtt = own(rules, spec->mqtt);
    rule->spec.tenant = own(rules, spec->tenant);
    e = compile_patterns(rule, out_fault);
    if (e == E_OK)
        e = compile_templates(&rules->arena, rule, out_fault);
    if (e != E_OK) {
        to_mqtt_pattern_free(rule->topic_pattern);
        to_mqtt_pattern_free(rule->key_pattern);
        return e;
    }
    rules->list[rules->n++] = rule;
    return E_OK;
}

uint32_t to_mqtt_rules_max_levels(const struct to_mqtt_rules *rules)
{
    return rules->max_levels;
}

size_t to_mqtt_rules_count(const struct to_mqtt_rules *rules)
{
    return rules->n;
}

const struct to_mqtt_rule *to_mqtt_rules_at(const struct to_mqtt_rules *rules, size_t i)
{
    return rules->list[i];
}

/* --- topics --- */

bool to_mqtt_rule_takes_topic(const struct to_mqtt_rule *rule, struct str topic, struct str *out_groups)
{
    struct to_mqtt_match *match;
    bool takes;

    if (!rule->topic_pattern)
        return str_equal(rule->spec.topic, topic);
    match = to_mqtt_pattern_new_match(rule->topic_pattern);
    takes = to_mqtt_pattern_match(rule->topic_pattern, match, topic, out_groups) == E_OK;
    to_mqtt_pattern_free_match(match);
    return takes;
}

int to_mqtt_rules_find(const struct to_mqtt_rules *rules, struct str topic)
{
    struct str groups[TO_MQTT_MAX_GROUPS];

    for (size_t i = 0; i < rules->n; i++)
        if (to_mqtt_rule_takes_topic(rules->list[i], topic, groups))
            return (int)i;
    return -1;
}
