#include "config/tree.h"

#include <assert.h>
#include <stdlib.h>

#include <yaml.h>

#include "config/report.h"

enum {
    FEW_KEYS = 8, /* up to here comparing each with each is cheaper than sorting */
};

static_assert(TREE_MAX_DEPTH == 16 && TREE_MAX_NODES == 2000000, "both numbers are told in messages below");

/* One collection that is still open. */
struct level {
    struct tree_node *node;
    struct str key; /* of a map: the key whose value comes next, if `has_key` */
    unsigned key_line;
    bool has_key;
};

struct reader {
    struct arena *arena;
    const char *file;
    struct config_errors *errors;
    struct tree_node *root;
    struct level levels[TREE_MAX_DEPTH];
    size_t depth;
    size_t n_nodes;
    unsigned n_documents;
};

struct tree_node *tree_add(struct arena *a, enum tree_kind kind, unsigned line)
{
    struct tree_node *node = arena_alloc(a, MEM_CONFIG, sizeof *node);

    node->kind = (unsigned char)kind;
    node->line = line;
    return node;
}

void tree_append(struct tree_node *parent, struct tree_node *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

struct tree_node *tree_find(const struct tree_node *map, struct str key)
{
    struct tree_node *child = map->first;

    while (child && !str_equal(child->key, key))
        child = child->next;
    return child;
}

bool tree_is_null(const struct tree_node *node)
{
    if (!node)
        return true;
    if (node->kind != TREE_SCALAR || node->is_quoted)
        return false;
    return node->text.n == 0 || str_equal(node->text, STR("~")) || str_equal(node->text, STR("null"));
}

static err refuse(struct reader *r, err code, unsigned line, const char *what)
{
    report_error(r->errors, r->file, line, "%s", what);
    return code;
}

static void report_duplicate(struct reader *r, const struct tree_node *earlier, const struct tree_node *later)
{
    report_error(r->errors, r->file, later->line, "%.*s: given twice, first in line %u", STR_ARG(report_excerpt(later->key)),
                 earlier->line);
}

/* By key, then by place, so that of equal keys the first of the file comes first. */
static int compare_keys(const void *a, const void *b)
{
    const struct tree_node *x = *(const struct tree_node *const *)a, *y = *(const struct tree_node *const *)b;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int order = n ? memcmp(x->key.p, y->key.p, n) : 0;

    if (order == 0)
        order = (x->key.n > y->key.n) - (x->key.n < y->key.n);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static void check_few(struct reader *r, const struct tree_node *map)
{
    for (const struct tree_node *later = map->first; later; later = later->next)
        for (const struct tree_node *earlier = map->first; earlier != later; earlier = earlier->next)
            if (str_equal(earlier->key, later->key)) {
                report_duplicate(r, earlier, later);
                break;
            }
}

/* Sorting keeps a map with a hundred thousand devices from costing the square of that. */
static void check_many(struct reader *r, const struct tree_node *map)
{
    const struct tree_node **sorted = mem_alloc(MEM_CONFIG, map->count * sizeof *sorted);
    size_t n = 0;

    for (const struct tree_node *child = map->first; child; child = child->next)
        sorted[n++] = child;
    qsort(sorted, n, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (str_equal(sorted[i - 1]->key, sorted[i]->key))
            report_duplicate(r, sorted[i - 1], sorted[i]);
    mem_free(MEM_CONFIG, sorted);
}

static err close_level(struct reader *r)
{
    const struct tree_node *node = r->levels[--r->depth].node;

    if (node->kind == TREE_MAP && node->count > FEW_KEYS)
        check_many(r, node);
    else if (node->kind == TREE_MAP)
        check_few(r, node);
    return E_OK;
}

/* Puts a new node where the reader stands: the root, the next of a list, or the value of the key just read. */
static err place(struct reader *r, struct tree_node *node)
{
    struct level *level = r->depth ? &r->levels[r->depth - 1] : NULL;

    if (!level) {
        r->root = node;
        return E_OK;
    }
    if (level->node->kind == TREE_MAP) {
        if (!level->has_key)
            return refuse(r, E_INVAL, node->line, "a key must be a single word, not a list or map");
        node->key = level->key;
        node->line = level->key_line;
        level->has_key = false;
    }
    tree_append(level->node, node);
    return E_OK;
}

static err open_level(struct reader *r, enum tree_kind kind, unsigned line)
{
    struct tree_node *node;
    err e;

    if (r->depth == TREE_MAX_DEPTH)
        return refuse(r, E_LIMIT, line, "nested too deeply (at most 16 levels)");
    node = tree_add(r->arena, kind, line);
    e = place(r, node);
    if (e == E_OK)
        r->levels[r->depth++] = (struct level){.node = node};
    return e;
}

static err scalar(struct reader *r, const yaml_event_t *event, unsigned line)
{
    struct str text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    struct level *level = r->depth ? &r->levels[r->depth - 1] : NULL;
    struct tree_node *node;

    if (text.n && memchr(text.p, '\0', text.n))
        return refuse(r, E_INVAL, line, "a text must not hold a NUL character");
    if (level && level->node->kind == TREE_MAP && !level->has_key) {
        level->key = arena_copy(r->arena, MEM_CONFIG, text);
        level->key_line = line;
        level->has_key = true;
        return E_OK;
    }
    node = tree_add(r->arena, TREE_SCALAR, line);
    node->text = arena_copy(r->arena, MEM_CONFIG, text);
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return place(r, node);
}

/* Anchors with aliases let a small file mean a huge one; tags change what a value is. Neither is needed here. */
static bool has_anchor_or_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

static err take_event(struct reader *r, const yaml_event_t *event)
{
    unsigned line = (unsigned)event->start_mark.line + 1;

    if (has_anchor_or_tag(event))
        return refuse(r, E_INVAL, line, "anchors, aliases and tags are not supported");
    if (++r->n_nodes > TREE_MAX_NODES)
        return refuse(r, E_LIMIT, line, "too many values in one file (at most 2,000,000)");
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++r->n_documents > 1 ? refuse(r, E_INVAL, line, "a second document: a configuration is one document") : E_OK;
    case YAML_SCALAR_EVENT:
        return scalar(r, event, line);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(r, TREE_LIST, line);
    case YAML_MAPPING_START_EVENT:
        return open_level(r, TREE_MAP, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_level(r);
    default:
        return E_OK;
    }
}

static err report_syntax(struct reader *r, const yaml_parser_t *parser)
{
    unsigned line = (unsigned)parser->problem_mark.line + 1;

    report_error(r->errors, r->file, line, "not YAML: %s%s%s", parser->problem ? parser->problem : "unknown problem",
                 parser->context ? ", " : "", parser->context ? parser->context : "");
    return E_INVAL;
}

static err read_events(struct reader *r, yaml_parser_t *parser)
{
    bool is_at_end = false;
    err e = E_OK;

    while (e == E_OK && !is_at_end) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event))
            return report_syntax(r, parser);
        is_at_end = event.type == YAML_STREAM_END_EVENT;
        e = take_event(r, &event);
        yaml_event_delete(&event);
    }
    return e;
}

err tree_parse(struct arena *a, struct str text, const char *file, struct tree_node **out_root, struct config_errors *errors)
{
    struct reader r = {.arena = a, .file = file, .errors = errors};
    yaml_parser_t parser;
    err e;

    if (text.n > CONFIG_MAX_TEXT_BYTES)
        return refuse(&r, E_LIMIT, 0, "the file is too large (at most 16 MiB)");
    if (!yaml_parser_initialize(&parser))
        return refuse(&r, E_NOMEM, 0, "no memory for the YAML parser");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
    e = read_events(&r, &parser);
    yaml_parser_delete(&parser);
    if (e == E_OK)
        *out_root = tree_is_null(r.root) ? tree_add(a, TREE_MAP, 1) : r.root;
    return e;
}
