#include "fanout/event_filter.h"

#include "base/check.h"
#include "cesql/cesql.h"
#include "config/nearest.h"
#include "config/report.h"

/* What an expression that fails leaves open stays open under `not`, so that it never lets an event through. */
enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_OPEN };

struct entry {
    struct str name, value;
};

struct event_filter {
    enum verdict (*judge)(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch);
    size_t n; /* of entries or children */
    union {
        struct entry *entries;         /* exact, prefix, suffix */
        struct event_filter *children; /* all, any; one of `not` */
        const struct cesql *expression;
    };
};

/* --- judging --- */

static bool begins(struct str s, struct str with)
{
    return str_starts_with(s, with);
}

static bool ends(struct str s, struct str with)
{
    return s.n >= with.n && str_equal(str_from_offset(s, s.n - with.n), with);
}

/* The value has to be there, whatever it is. */
static bool is_there(struct str s, struct str with)
{
    return with.n == 0 || str_equal(s, with);
}

static enum verdict judge_entries(const struct event_filter *f, const struct cloudevent *event,
                                  bool (*agrees)(struct str value, struct str with))
{
    for (size_t i = 0; i < f->n; i++) {
        struct str value;

        if (!cloudevent_find(event, f->entries[i].name, &value) || !agrees(value, f->entries[i].value))
            return VERDICT_NO;
    }
    return VERDICT_YES;
}

static enum verdict judge_exact(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    (void)scratch;
    return judge_entries(f, event, str_equal);
}

static enum verdict judge_prefix(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    (void)scratch;
    return judge_entries(f, event, begins);
}

static enum verdict judge_suffix(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    (void)scratch;
    return judge_entries(f, event, ends);
}

static enum verdict judge_legacy(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    (void)scratch;
    return judge_entries(f, event, is_there);
}

/* The first child that decides, else whether one was left open. */
static enum verdict judge_children(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch,
                                   enum verdict deciding, enum verdict otherwise)
{
    for (size_t i = 0; i < f->n; i++) {
        enum verdict verdict = f->children[i].judge(&f->children[i], event, scratch);

        if (verdict == deciding)
            return deciding;
        if (verdict == VERDICT_OPEN)
            otherwise = VERDICT_OPEN;
    }
    return otherwise;
}

static enum verdict judge_all(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    return judge_children(f, event, scratch, VERDICT_NO, VERDICT_YES);
}

static enum verdict judge_any(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    return judge_children(f, event, scratch, VERDICT_YES, VERDICT_NO);
}

static enum verdict judge_not(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    static const enum verdict inverse[] = {
        [VERDICT_NO] = VERDICT_YES, [VERDICT_YES] = VERDICT_NO, [VERDICT_OPEN] = VERDICT_OPEN};

    return inverse[f->children->judge(f->children, event, scratch)];
}

/* Attributes of a document keep the type they had in it; headers know only strings. */
static bool find_attribute(const void *context, struct str name, struct cesql_value *out_value)
{
    static const enum cesql_type types[] = {
        [CLOUDEVENT_STRING] = CESQL_STRING, [CLOUDEVENT_INTEGER] = CESQL_INTEGER, [CLOUDEVENT_BOOLEAN] = CESQL_BOOLEAN};
    const struct cloudevent *event = context;

    for (size_t i = 0; i < event->n_attributes; i++) {
        const struct cloudevent_attribute *attribute = &event->attributes[i];

        if (!str_equal(attribute->name, name))
            continue;
        *out_value = cesql_value_from(types[attribute->type], attribute->value);
        return true;
    }
    return false;
}

static enum verdict judge_sql(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch)
{
    struct cesql_attributes attributes = {find_attribute, event};
    struct cesql_value value;

    if (cesql_evaluate(f->expression, &attributes, scratch, &value) != CESQL_OK || value.type != CESQL_BOOLEAN)
        return VERDICT_OPEN;
    return value.boolean ? VERDICT_YES : VERDICT_NO;
}

bool event_filter_matches(const struct event_filter *filter, const struct cloudevent *event, struct arena *scratch)
{
    return !filter || filter->judge(filter, event, scratch) == VERDICT_YES;
}

/* --- compiling --- */

struct dialect {
    struct str name;
    err (*compile)(struct arena *a, const struct tree_node *node, const struct dialect *dialect, struct event_filter *f,
                   struct errinfo *ei);
    enum verdict (*judge)(const struct event_filter *f, const struct cloudevent *event, struct arena *scratch);
};

static err compile_one(struct arena *a, const struct tree_node *node, struct event_filter *f, struct errinfo *ei);

#define FAIL(ei, node, ...) (fail_at(ei, node), errinfo_set(ei, E_INVAL, __VA_ARGS__))

static void fail_at(struct errinfo *ei, const struct tree_node *node)
{
    if (ei)
        ei->line = node->line;
}

/* A letter, then letters and digits: names that consist of digits are legal in an event, but no sender means them. */
static bool is_name(struct str name)
{
    return cloudevent_is_name(name) && !(name.p[0] >= '0' && name.p[0] <= '9');
}

static err compile_map(struct arena *a, const struct tree_node *node, bool can_be_empty, struct event_filter *f,
                       struct errinfo *ei)
{
    struct entry *entry;

    if (node->kind != TREE_MAP || (node->count == 0 && !can_be_empty))
        return FAIL(ei, node, "expected a map from names of attributes to values");
    f->n = node->count;
    f->entries = entry = arena_alloc(a, MEM_CONFIG, f->n * sizeof *entry);
    for (const struct tree_node *child = node->first; child; child = child->next, entry++) {
        if (!is_name(child->key))
            return FAIL(ei, child, "%.*s is no name of an attribute: a letter a-z, then letters and digits, and not data",
                        STR_ARG(report_excerpt(child->key)));
        if (child->kind != TREE_SCALAR)
            return FAIL(ei, child, "the value of %.*s is a string", STR_ARG(child->key));
        if (!can_be_empty && (tree_is_null(child) || child->text.n == 0))
            return FAIL(ei, child, "the value of %.*s is empty", STR_ARG(child->key));
        entry->name = arena_copy(a, MEM_CONFIG, child->key);
        entry->value = arena_copy(a, MEM_CONFIG, tree_is_null(child) ? STR("") : child->text);
    }
    return E_OK;
}

static err compile_entries(struct arena *a, const struct tree_node *node, const struct dialect *dialect, struct event_filter *f,
                           struct errinfo *ei)
{
    (void)dialect;
    return compile_map(a, node, false, f, ei);
}

static err compile_children(struct arena *a, const struct tree_node *node, const struct dialect *dialect,
                            struct event_filter *f, struct errinfo *ei)
{
    struct event_filter *to;

    if (node->kind != TREE_LIST || node->count == 0)
        return FAIL(ei, node, "%.*s expects a list of at least one filter", STR_ARG(dialect->name));
    f->n = node->count;
    f->children = to = arena_alloc(a, MEM_CONFIG, f->n * sizeof *to);
    for (const struct tree_node *child = node->first; child; child = child->next) {
        err e = compile_one(a, child, to++, ei);

        if (e != E_OK)
            return e;
    }
    return E_OK;
}

static err compile_not(struct arena *a, const struct tree_node *node, const struct dialect *dialect, struct event_filter *f,
                       struct errinfo *ei)
{
    (void)dialect;
    f->n = 1;
    f->children = arena_alloc(a, MEM_CONFIG, sizeof *f->children);
    return compile_one(a, node, f->children, ei);
}

static err compile_sql(struct arena *a, const struct tree_node *node, const struct dialect *dialect, struct event_filter *f,
                       struct errinfo *ei)
{
    struct str missing;

    (void)dialect;
    if (node->kind != TREE_SCALAR || tree_is_null(node))
        return FAIL(ei, node, "expected a CloudEvents SQL expression");
    fail_at(ei, node);
    err e = cesql_compile(a, node->text, &f->expression, ei);
    if (e != E_OK)
        return e;
    missing = cesql_missing_function(f->expression);
    if (missing.n > 0)
        return FAIL(ei, node, "there is no function %.*s with so many arguments", STR_ARG(report_excerpt(missing)));
    return E_OK;
}

static const struct dialect dialects[] = {
    {STR_INIT("exact"), compile_entries, judge_exact},   {STR_INIT("prefix"), compile_entries, judge_prefix},
    {STR_INIT("suffix"), compile_entries, judge_suffix}, {STR_INIT("all"), compile_children, judge_all},
    {STR_INIT("any"), compile_children, judge_any},      {STR_INIT("not"), compile_not, judge_not},
    {STR_INIT("sql"), compile_sql, judge_sql},           {STR_INIT("cesql"), compile_sql, judge_sql},
};

static err fail_dialect(const struct tree_node *node, struct errinfo *ei)
{
    struct nearest nearest = {.word = node->key};
    struct str best;

    for (size_t i = 0; i < ARRAY_LEN(dialects); i++)
        nearest_offer(&nearest, dialects[i].name);
    best = nearest_result(&nearest);
    return FAIL(ei, node, "there is no filter dialect %.*s%s%.*s%s", STR_ARG(report_excerpt(node->key)),
                best.n ? "; did you mean " : "", STR_ARG(best), best.n ? "?" : "");
}

/* A map with the name of one dialect. */
static err compile_one(struct arena *a, const struct tree_node *node, struct event_filter *f, struct errinfo *ei)
{
    if (node->kind != TREE_MAP || node->count != 1)
        return FAIL(ei, node, "a filter is a map with exactly one dialect, as in {exact: {type: com.example.opened}}");
    for (size_t i = 0; i < ARRAY_LEN(dialects); i++) {
        if (!str_equal(dialects[i].name, node->first->key))
            continue;
        f->judge = dialects[i].judge;
        return dialects[i].compile(a, node->first, &dialects[i], f, ei);
    }
    return fail_dialect(node->first, ei);
}

err event_filter_compile(struct arena *a, const struct tree_node *filters, const struct event_filter **out_filter,
                         struct errinfo *ei)
{
    static const struct dialect whole = {STR_INIT("filters"), compile_children, judge_all};
    struct event_filter *f;
    err e;

    if (tree_is_null(filters) || (filters->kind == TREE_LIST && filters->count == 0)) {
        *out_filter = NULL;
        return E_OK;
    }
    f = arena_alloc(a, MEM_CONFIG, sizeof *f);
    f->judge = judge_all;
    e = compile_children(a, filters, &whole, f, ei);
    if (e == E_OK)
        *out_filter = f->n == 1 ? f->children : f;
    return e;
}

err event_filter_compile_legacy(struct arena *a, const struct tree_node *attributes, const struct event_filter **out_filter,
                                struct errinfo *ei)
{
    struct event_filter *f;
    err e;

    if (tree_is_null(attributes) || (attributes->kind == TREE_MAP && attributes->count == 0)) {
        *out_filter = NULL;
        return E_OK;
    }
    f = arena_alloc(a, MEM_CONFIG, sizeof *f);
    f->judge = judge_legacy;
    e = compile_map(a, attributes, true, f, ei);
    if (e == E_OK)
        *out_filter = f;
    return e;
}
