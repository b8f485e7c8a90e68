#include "core/rule_table.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/map.h"
#include "base/siphash.h"

static const char *const source_names[] = {
    [RULE_SOURCE_PUBLISH] = "mqtt",        [RULE_SOURCE_CONNECT] = "connect",         [RULE_SOURCE_DISCONNECT] = "disconnect",
    [RULE_SOURCE_SUBSCRIBE] = "subscribe", [RULE_SOURCE_SESSION_END] = "session_end",
};
static_assert(ARRAY_LEN(source_names) == RULE_SOURCES, "every source has a name");

static const char *const ack_names[] = {[RULE_ACK_RECEIVED] = "received", [RULE_ACK_QUORUM] = "quorum"};
static_assert(ARRAY_LEN(ack_names) == RULE_ACKS, "every class has a name");

/* Names that a rule's own headers may not have: they say where a record comes from, and nobody may say otherwise. */
static const struct str reserved_headers = STR_INIT("mqtt.");

/* Rules in their order. */
struct rule_list {
    const struct rule **items;
    size_t n;
};

/* The rules that may match names whose first level is `text`. */
struct first_level {
    struct str text;
    struct rule_list rules;
};

struct rule_table {
    atomic_uint refs;
    struct arena arena;
    size_t prefix_bytes;
    struct rule **rules;
    size_t n_rules, capacity;
    struct map first_levels;
    struct rule_list wild;                 /* for every other first level */
    struct rule_list events[RULE_SOURCES]; /* but RULE_SOURCE_PUBLISH */
};

struct rule_table *rule_table_new(size_t prefix_bytes)
{
    struct rule_table *table = mem_alloc_zero(MEM_CONFIG, sizeof *table);

    atomic_init(&table->refs, 1);
    table->prefix_bytes = prefix_bytes;
    return table;
}

struct rule_table *rule_table_ref(struct rule_table *table)
{
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

void rule_table_unref(struct rule_table *table)
{
    if (!table || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) != 1)
        return;
    map_free(&table->first_levels, MEM_CONFIG);
    arena_free(&table->arena, MEM_CONFIG);
    mem_free(MEM_CONFIG, table->rules);
    mem_free(MEM_CONFIG, table);
}

/* --- compiling --- */

struct compiler {
    struct rule_table *table;
    struct rule_scope scope;
    struct rule_variables variables;
    struct rule_fault *fault;
};

#define FAIL(c, ...) errinfo_set(&(c)->fault->ei, E_INVAL, __VA_ARGS__)

static err compile(struct compiler *c, const char *field, struct str text, struct rule_template *out)
{
    struct rule_template_error error;
    err e = rule_template_parse(&c->table->arena, MEM_CONFIG, text, &c->scope, &c->variables, out, &error);

    if (e == E_OK)
        return E_OK;
    c->fault->field = field;
    c->fault->ei = error.ei;
    c->fault->unknown = error.unknown;
    return e;
}

static err compile_topic(struct compiler *c, struct str text, struct rule_template *out)
{
    err e = compile(c, "topic", text, out);

    if (e == E_OK)
        e = rule_template_check_topic(out, &c->variables, c->table->prefix_bytes, &c->fault->ei);
    if (e != E_OK)
        c->fault->field = "topic";
    return e;
}

static err compile_partition(struct compiler *c, struct str text, struct rule_template *out)
{
    uint64_t number;
    err e = compile(c, "partition", text, out);

    if (e != E_OK || text.n == 0 || !rule_template_is_fixed(out) || str_to_u64(rule_template_fixed(out), INT32_MAX, &number))
        return e;
    c->fault->field = "partition";
    return FAIL(c, "must be a number from 0 on, or a template that gives one");
}

static err compile_headers(struct compiler *c, const struct rule_action_spec *spec, struct rule_action *out)
{
    c->fault->field = "headers";
    if (spec->n_headers > RULE_MAX_HEADERS)
        return FAIL(c, "more than %d", RULE_MAX_HEADERS);
    out->headers = arena_alloc(&c->table->arena, MEM_CONFIG, spec->n_headers * sizeof *out->headers);
    for (size_t i = 0; i < spec->n_headers; i++) {
        err e;

        if (str_starts_with(spec->headers[i].name, reserved_headers))
            return FAIL(c, "%.*s: names that begin with 'mqtt.' are the program's own", STR_ARG(spec->headers[i].name));
        out->headers[i].name = arena_copy(&c->table->arena, MEM_CONFIG, spec->headers[i].name);
        e = compile(c, "headers", spec->headers[i].value, &out->headers[i].value);
        if (e != E_OK)
            return e;
    }
    out->n_headers = spec->n_headers;
    return E_OK;
}

static err compile_action(struct compiler *c, const struct rule_action_spec *spec, struct rule_action *out)
{
    err e = compile_topic(c, spec->topic, &out->topic);

    if (e == E_OK)
        e = compile(c, "key", spec->key, &out->key);
    if (e == E_OK)
        e = compile_partition(c, spec->partition, &out->partition);
    if (e == E_OK)
        e = compile_headers(c, spec, out);
    out->ack = spec->ack;
    out->is_creating = spec->is_creating;
    out->limit_ms = spec->limit_ms;
    return e;
}

static err compile_actions(struct compiler *c, const struct rule_spec *spec, struct rule *rule)
{
    if (spec->n_actions > RULE_MAX_ACTIONS)
        return FAIL(c, "more than %d actions", RULE_MAX_ACTIONS);
    rule->n_actions = spec->n_actions;
    rule->actions = arena_alloc(&c->table->arena, MEM_CONFIG, spec->n_actions * sizeof *rule->actions);
    for (size_t i = 0; i < spec->n_actions; i++) {
        err e;

        c->fault->action = i;
        e = compile_action(c, &spec->actions[i], &rule->actions[i]);
        if (e != E_OK)
            return e;
        if (spec->actions[i].ack > rule->ack)
            rule->ack = spec->actions[i].ack;
    }
    c->fault->action = RULE_MAX_ACTIONS;
    return E_OK;
}

static err compile_filter(struct compiler *c, const struct rule_spec *spec, struct rule *rule)
{
    err e;

    if (spec->source != RULE_SOURCE_PUBLISH)
        return E_OK;
    c->fault->field = "mqtt";
    e = rule_filter_parse(&c->table->arena, MEM_CONFIG, spec->filter, &rule->filter, &c->fault->ei);
    for (size_t i = 0; e == E_OK && i < rule->filter.n_segments; i++)
        if (rule_template_is_variable(rule->filter.segments[i]))
            e = FAIL(c, "the segment {%.*s} has the name of a variable", STR_ARG(rule->filter.segments[i]));
    c->scope.filter = &rule->filter;
    return e;
}

static void append(struct rule_table *table, struct rule *rule)
{
    if (table->n_rules == table->capacity) {
        struct rule **grown;

        table->capacity = table->capacity ? table->capacity * 2 : 16;
        grown = mem_alloc(MEM_CONFIG, table->capacity * sizeof(struct rule *));
        if (table->n_rules)
            memcpy(grown, table->rules, table->n_rules * sizeof(struct rule *));
        mem_free(MEM_CONFIG, table->rules);
        table->rules = grown;
    }
    table->rules[table->n_rules++] = rule;
}

err rule_table_add(struct rule_table *table, const struct rule_spec *spec, struct rule_fault *out_fault)
{
    struct compiler c = {.table = table, .fault = out_fault};
    struct rule *rule = arena_alloc(&table->arena, MEM_CONFIG, sizeof *rule);
    err e;

    *out_fault = (struct rule_fault){.action = RULE_MAX_ACTIONS, .field = "mqtt"};
    if (table->n_rules == RULE_TABLE_MAX_RULES)
        return errinfo_set(&out_fault->ei, E_LIMIT, "more than %d rules", RULE_TABLE_MAX_RULES);
    rule->index = table->n_rules;
    rule->source = spec->source;
    rule->name = arena_copy(&table->arena, MEM_CONFIG, spec->name);
    rule->tenant = arena_copy(&table->arena, MEM_CONFIG, spec->tenant);
    rule->mapper = arena_copy(&table->arena, MEM_CONFIG, spec->mapper);
    rule->is_local = spec->is_local;
    e = compile_filter(&c, spec, rule);
    if (e == E_OK)
        e = compile_actions(&c, spec, rule);
    if (e != E_OK)
        return e;
    rule->variables = c.variables;
    append(table, rule);
    return E_OK;
}

/* --- checking --- */

static bool takes_tenants_of(const struct rule *a, const struct rule *b)
{
    return a->tenant.n == 0 || str_equal(a->tenant, b->tenant);
}

static bool covers(const struct rule *a, const struct rule *b)
{
    if (a->source != b->source || !takes_tenants_of(a, b))
        return false;
    return a->source != RULE_SOURCE_PUBLISH || rule_filter_covers(&a->filter, &b->filter);
}

static err check_topics(const struct rule *a, const struct rule_action *x, const struct rule_action *y, struct rule_fault *out)
{
    if ((x->limit_ms == y->limit_ms && x->ack == y->ack) || !rule_template_can_meet(&x->topic, &y->topic))
        return E_OK;
    if (x->limit_ms != y->limit_ms) {
        out->field = "timeout";
        return errinfo_set(&out->ei, E_INVAL, "%u ms for a topic (%.*s) to which %.*s gives %u ms; a topic has one time limit",
                           (unsigned)y->limit_ms, STR_ARG(x->topic.text), STR_ARG(a->name), (unsigned)x->limit_ms);
    }
    out->field = "ack";
    return errinfo_set(&out->ei, E_INVAL, "%s for a topic (%.*s) to which %.*s gives %s; a topic has one class",
                       ack_names[y->ack], STR_ARG(x->topic.text), STR_ARG(a->name), ack_names[x->ack]);
}

/* All actions of `a` (those before number `n_same` when it is the same rule) with action number `k` of `b`. */
static err check_action(const struct rule *a, const struct rule *b, size_t k, struct rule_fault *out)
{
    size_t n = a == b ? k : a->n_actions;

    for (size_t i = 0; i < n; i++) {
        err e = check_topics(a, &a->actions[i], &b->actions[k], out);

        if (e != E_OK)
            return e;
    }
    return E_OK;
}

err rule_table_check(const struct rule_table *table, size_t i, struct rule_fault *out_fault)
{
    const struct rule *rule = table->rules[i];

    *out_fault = (struct rule_fault){.action = RULE_MAX_ACTIONS, .field = "mqtt"};
    for (size_t k = 0; k < i; k++) {
        if (!covers(table->rules[k], rule))
            continue;
        out_fault->field = rule->source == RULE_SOURCE_PUBLISH ? "mqtt" : "event";
        return errinfo_set(&out_fault->ei, E_INVAL, "never matches: %.*s before it takes all", STR_ARG(table->rules[k]->name));
    }
    for (size_t k = 0; k <= i; k++) {
        for (size_t action = 0; action < rule->n_actions; action++) {
            err e;

            out_fault->action = action;
            e = check_action(table->rules[k], rule, action, out_fault);
            if (e != E_OK)
                return e;
        }
    }
    return E_OK;
}

/* --- finding --- */

static bool is_wild(const struct rule *rule)
{
    return rule->filter.levels[0].kind != RULE_LEVEL_TEXT;
}

static bool has_text(const void *entry, const void *key)
{
    return str_equal(((const struct first_level *)entry)->text, *(const struct str *)key);
}

static struct first_level *find_first(const struct rule_table *table, struct str text)
{
    return map_find(&table->first_levels, siphash(text), &text, has_text);
}

/* Lists are built in two rounds: the first counts, the second fills them. */
static void push(struct rule_table *table, struct rule_list *list, const struct rule *rule, bool is_counting)
{
    if (!is_counting && !list->items) {
        list->items = arena_alloc(&table->arena, MEM_CONFIG, list->n * sizeof(const struct rule *));
        list->n = 0;
    }
    if (!is_counting)
        list->items[list->n] = rule;
    list->n++;
}

static void add_first_levels(struct rule_table *table)
{
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct rule *rule = table->rules[i];
        struct first_level *first;

        if (rule->source != RULE_SOURCE_PUBLISH || is_wild(rule) || find_first(table, rule->filter.levels[0].text))
            continue;
        first = arena_alloc(&table->arena, MEM_CONFIG, sizeof *first);
        first->text = rule->filter.levels[0].text;
        map_add(&table->first_levels, MEM_CONFIG, siphash(first->text), first);
    }
}

static void fill_lists(struct rule_table *table, bool is_counting)
{
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct rule *rule = table->rules[i];
        struct first_level *first;
        uint32_t cursor = 0;

        if (rule->source != RULE_SOURCE_PUBLISH) {
            push(table, &table->events[rule->source], rule, is_counting);
        } else if (!is_wild(rule)) {
            push(table, &find_first(table, rule->filter.levels[0].text)->rules, rule, is_counting);
        } else {
            push(table, &table->wild, rule, is_counting);
            while ((first = map_next(&table->first_levels, &cursor)))
                push(table, &first->rules, rule, is_counting);
        }
    }
}

void rule_table_finish(struct rule_table *table)
{
    add_first_levels(table);
    fill_lists(table, true);
    fill_lists(table, false);
}

size_t rule_table_count(const struct rule_table *table)
{
    return table->n_rules;
}

const struct rule *rule_table_at(const struct rule_table *table, size_t i)
{
    return table->rules[i];
}

static bool takes_tenant(const struct rule *rule, struct str tenant)
{
    return rule->tenant.n == 0 || str_equal(rule->tenant, tenant);
}

const struct rule *rule_table_find(const struct rule_table *table, struct str tenant, struct str topic,
                                   struct str *out_segments)
{
    const struct rule_list *list = &table->wild;
    struct str rest = topic;
    bool found;

    if (table->first_levels.n_entries > 0) {
        const struct first_level *first = find_first(table, str_take(&rest, '/', &found));

        if (first)
            list = &first->rules;
    }
    for (size_t i = 0; i < list->n; i++)
        if (takes_tenant(list->items[i], tenant) && rule_filter_matches(&list->items[i]->filter, topic, out_segments))
            return list->items[i];
    return NULL;
}

const struct rule *rule_table_find_event(const struct rule_table *table, enum rule_source event, struct str tenant)
{
    const struct rule_list *list = &table->events[event];

    for (size_t i = 0; i < list->n; i++)
        if (takes_tenant(list->items[i], tenant))
            return list->items[i];
    return NULL;
}

bool rule_table_has(const struct rule_table *table, enum rule_source source)
{
    if (source == RULE_SOURCE_PUBLISH)
        return table->wild.n > 0 || table->first_levels.n_entries > 0;
    return table->events[source].n > 0;
}

const struct rule *rule_table_find_writer(const struct rule_table *table, size_t from, struct str topic)
{
    for (size_t i = from; i < table->n_rules; i++)
        for (size_t k = 0; k < table->rules[i]->n_actions; k++)
            if (rule_template_can_become(&table->rules[i]->actions[k].topic, topic))
                return table->rules[i];
    return NULL;
}

const char *rule_table_source_name(enum rule_source source)
{
    return source_names[source];
}

const char *rule_table_ack_name(enum rule_ack ack)
{
    return ack_names[ack];
}
