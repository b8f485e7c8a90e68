#include "config/overlay.h"

#include <stdio.h>

#include "config/bind.h"
#include "config/option.h"
#include "config/report.h"

struct walk {
    struct arena *arena;
    struct config_errors *errors;
    struct option_index index;
    struct str path;        /* all of it, for messages */
    struct str rest;        /* not yet walked */
    struct tree_node *node; /* where the walk stands */
    int row;                /* which option that is */
    bool is_property;       /* a single value of a map with free names */
};

static err refuse(struct walk *w, const char *why, struct str what)
{
    report_error(w->errors, BIND_COMMAND_LINE, 0, "%.*s: %s%.*s", STR_ARG(report_excerpt(w->path)), why,
                 STR_ARG(report_excerpt(what)));
    return E_INVAL;
}

/* What was left empty in the file becomes what the path needs; anything else stays and is refused when it is bound. */
static bool make(struct tree_node *node, enum tree_kind kind)
{
    if (tree_is_null(node))
        node->kind = (unsigned char)kind;
    return node->kind == kind;
}

/* Takes the next name off the path: up to a dot or bracket, or what is in quotes. */
static err next_name(struct walk *w, struct str *out_name)
{
    size_t n = 0;

    if (w->rest.n && w->rest.p[0] == '"') {
        const char *end = memchr(w->rest.p + 1, '"', w->rest.n - 1);

        if (!end)
            return refuse(w, "a quote is not closed", (struct str){0});
        *out_name = (struct str){w->rest.p + 1, (size_t)(end - w->rest.p) - 1};
        n = out_name->n + 2;
    } else {
        while (n < w->rest.n && w->rest.p[n] != '.' && w->rest.p[n] != '[')
            n++;
        *out_name = (struct str){w->rest.p, n};
    }
    w->rest = str_from_offset(w->rest, n);
    return out_name->n ? E_OK : refuse(w, "a name is missing", (struct str){0});
}

static err enter_key(struct walk *w, struct str name)
{
    struct tree_node *child;

    if (!make(w->node, TREE_MAP))
        return refuse(w, "the file has no map where this needs one, before ", name);
    child = tree_find(w->node, name);
    if (!child) {
        child = tree_add(w->arena, TREE_SCALAR, 0);
        child->key = arena_copy(w->arena, MEM_CONFIG, name);
        tree_append(w->node, child);
    }
    w->node = child;
    return E_OK;
}

/* The number of the first element that has this key; of the next one if none does. */
static uint64_t find_element(const struct walk *w, struct str key)
{
    uint64_t index = 0;

    for (const struct tree_node *child = w->node->first; child && w->node->kind == TREE_LIST; child = child->next, index++)
        if (child->kind == TREE_MAP && tree_find(child, key))
            break;
    return index;
}

/* `[n]` after the name of a list, or `[option]`: the first element that has it, else one more. */
static err enter_element(struct walk *w)
{
    const char *end = w->rest.n ? memchr(w->rest.p, ']', w->rest.n) : NULL;
    struct tree_node *child = w->node->first;
    struct str inner;
    uint64_t index;

    if (!end || w->rest.p[0] != '[' || end == w->rest.p + 1)
        return refuse(w, "a list needs the number of an element, as in [0]", (struct str){0});
    inner = (struct str){w->rest.p + 1, (size_t)(end - w->rest.p) - 1};
    if (!str_to_u64(inner, UINT32_MAX, &index)) {
        if (option_find(&w->index, w->row, inner) == OPTION_NONE)
            return refuse(w, "a list needs the number of an element, as in [0]", (struct str){0});
        index = find_element(w, inner);
    }
    w->rest = str_from_offset(w->rest, (size_t)(end - w->rest.p) + 1);
    if (!make(w->node, TREE_LIST))
        return refuse(w, "the file has no list where this needs one", (struct str){0});
    if (index > w->node->count)
        return refuse(w, "there is no such element, and it is not the next one", (struct str){0});
    if (index == w->node->count) {
        child = tree_add(w->arena, TREE_SCALAR, 0);
        tree_append(w->node, child);
    }
    while (index-- && child->next)
        child = child->next;
    w->node = child;
    return E_OK;
}

static err skip_dot(struct walk *w)
{
    if (w->rest.n == 0 || w->rest.p[0] != '.')
        return refuse(w, "expected a dot before ", w->rest);
    w->rest = str_from_offset(w->rest, 1);
    return E_OK;
}

static err unknown(struct walk *w, struct str name)
{
    int near = option_find_nearest(&w->index, w->row, name);
    struct str best = near == OPTION_NONE ? (struct str){0} : w->index.key[near];

    report_error(w->errors, BIND_COMMAND_LINE, 0, "%.*s: unknown option%s%.*s%s", STR_ARG(report_excerpt(w->path)),
                 best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
    return E_INVAL;
}

/* The name inside a list, map or properties. */
static err enter_inner(struct walk *w)
{
    struct str name;
    err e;

    if (option_table[w->row].type == OPTION_LIST)
        return enter_element(w);
    e = skip_dot(w);
    if (e == E_OK && option_table[w->row].type == OPTION_PROPERTIES) {
        name = w->rest; /* names of properties have dots: the rest of the path is the name */
        w->rest = (struct str){0};
        w->is_property = true;
    } else if (e == E_OK) {
        e = next_name(w, &name);
    }
    return e == E_OK ? enter_key(w, name) : e;
}

static bool has_inner(const struct option *o)
{
    return o->type == OPTION_LIST || o->type == OPTION_MAP || o->type == OPTION_PROPERTIES;
}

static err walk_path(struct walk *w)
{
    err e = E_OK;

    do {
        struct str name;

        if (w->row != option_root() && (e = skip_dot(w)) != E_OK)
            return e;
        e = next_name(w, &name);
        if (e != E_OK)
            return e;
        int row = option_find(&w->index, w->row, name);
        if (row == OPTION_NONE)
            return unknown(w, name);
        w->row = row;
        e = enter_key(w, name);
        if (e == E_OK && w->rest.n && has_inner(&option_table[row]))
            e = enter_inner(w);
    } while (e == E_OK && w->rest.n);
    return e;
}

/* Whether the option is made of several values; addresses may begin with a bracket too. */
static bool takes_yaml(const struct walk *w)
{
    enum option_type type = option_table[w->row].type;

    return !w->is_property && (type <= OPTION_STRINGS);
}

static void forget_lines(struct tree_node *node)
{
    node->line = 0;
    for (struct tree_node *child = node->first; child; child = child->next)
        forget_lines(child);
}

static void set_value(struct walk *w, struct str value)
{
    struct tree_node *node = w->node, *parsed;
    bool is_yaml = value.n && (value.p[0] == '[' || value.p[0] == '{') && takes_yaml(w);

    node->line = 0;
    node->first = node->last = NULL;
    node->count = 0;
    node->kind = TREE_SCALAR;
    if (!is_yaml) {
        node->text = arena_copy(w->arena, MEM_CONFIG, value);
        node->is_quoted = true; /* --set x= means the empty text */
    } else if (tree_parse(w->arena, value, BIND_COMMAND_LINE, &parsed, w->errors) == E_OK) {
        forget_lines(parsed);
        node->kind = parsed->kind;
        node->first = parsed->first;
        node->last = parsed->last;
        node->count = parsed->count;
    }
}

void overlay_apply(struct arena *a, struct tree_node *root, struct str setting, struct config_errors *errors)
{
    bool has_value;
    struct str value = setting, path = str_take(&value, '=', &has_value);
    struct walk w = {.arena = a, .errors = errors, .path = path, .rest = path, .node = root, .row = option_root()};

    option_index_init(&w.index);
    if (!has_value)
        (void)refuse(&w, "expected PATH=VALUE", (struct str){0}); /* told in `errors`, as all failures here */
    else if (walk_path(&w) == E_OK)
        set_value(&w, value);
}
