#include "fanout/fanout_field.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "config/nearest.h"
#include "config/report.h"
#include "config/value.h"
#include "fanout/fanout_duration.h"

enum { FIELDS_MAX = 32 }; /* of one level */

void fanout_field_fail(struct fanout_reader *r, const struct tree_node *node, const char *format, ...)
{
    char text[sizeof((struct errinfo *)0)->text];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut at the end of the buffer */
    va_end(args);
    if (node->key.n)
        report_error(r->errors, r->file, node->line, "%.*s: %s", STR_ARG(report_excerpt(node->key)), text);
    else
        report_error(r->errors, r->file, node->line, "%s", text);
}

bool fanout_field_expect(struct fanout_reader *r, const struct tree_node *node, enum tree_kind kind)
{
    static const char *const names[] = {[TREE_SCALAR] = "a single value", [TREE_LIST] = "a list", [TREE_MAP] = "a map"};

    if (node->kind == kind)
        return true;
    fanout_field_fail(r, node, "expected %s, found %s", names[kind], names[node->kind]);
    return false;
}

/* Numbers lie in structures that others read as well, so each has its own width there. */
static void put_number(const struct fanout_field *f, int64_t value, void *to)
{
    uint32_t narrow = (uint32_t)value;
    uint64_t wide = (uint64_t)value;
    bool truth = value != 0;

    switch (f->type) {
    case FANOUT_FIELD_BOOL:
        memcpy(to, &truth, sizeof truth);
        break;
    case FANOUT_FIELD_SIZE:
        memcpy(to, &wide, sizeof wide);
        break;
    case FANOUT_FIELD_CHOICE: /* enums of ours are 32 bits wide with every compiler we use */
    case FANOUT_FIELD_NUMBER:
    case FANOUT_FIELD_DURATION:
        memcpy(to, &narrow, sizeof narrow);
        break;
    default:
        break;
    }
}

void fanout_field_init(const struct fanout_field *fields, size_t n, void *base)
{
    for (size_t i = 0; i < n; i++)
        put_number(&fields[i], fields[i].initial, (char *)base + fields[i].offset);
}

static bool find_choice(struct fanout_reader *r, const struct fanout_field *f, const struct tree_node *node, int64_t *out_value)
{
    char all[128];
    size_t used = 0;

    for (size_t i = 0; f->choices[i]; i++) {
        if (str_equal_nocase(node->text, str_from(f->choices[i]))) {
            *out_value = (int64_t)i;
            return true;
        }
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", f->choices[i]);
    }
    fanout_field_fail(r, node, "\"%.*s\" is none of %s", STR_ARG(report_excerpt(node->text)), all);
    return false;
}

static bool parse_number(const struct fanout_field *f, struct str text, int64_t *out_value)
{
    bool truth;

    switch (f->type) {
    case FANOUT_FIELD_BOOL:
        if (!value_to_bool(text, &truth))
            return false;
        *out_value = truth;
        return true;
    case FANOUT_FIELD_DURATION:
        return fanout_duration_parse(text, out_value);
    case FANOUT_FIELD_SIZE:
        return value_to_size(text, out_value);
    default:
        return value_to_number(text, out_value);
    }
}

static const char *number_text(const struct fanout_field *f, int64_t value, char *buffer)
{
    if (f->type == FANOUT_FIELD_DURATION)
        return value_duration_text(value, buffer);
    if (f->type == FANOUT_FIELD_SIZE)
        return value_size_text(value, buffer);
    (void)snprintf(buffer, VALUE_TEXT_BYTES, "%" PRId64, value);
    return buffer;
}

static bool take_number(struct fanout_reader *r, const struct fanout_field *f, const struct tree_node *node, int64_t *out_value)
{
    static const char *const forms[] = {
        [FANOUT_FIELD_BOOL] = "true or false",
        [FANOUT_FIELD_NUMBER] = "a whole number",
        [FANOUT_FIELD_DURATION] = "a time such as 30s or PT30S",
        [FANOUT_FIELD_SIZE] = "a size such as 64KiB",
    };
    char min[VALUE_TEXT_BYTES], max[VALUE_TEXT_BYTES];

    if (f->type == FANOUT_FIELD_CHOICE)
        return find_choice(r, f, node, out_value);
    if (!parse_number(f, node->text, out_value)) {
        fanout_field_fail(r, node, "\"%.*s\" is not %s", STR_ARG(report_excerpt(node->text)), forms[f->type]);
        return false;
    }
    if (f->type == FANOUT_FIELD_BOOL || (*out_value >= f->min && *out_value <= f->max))
        return true;
    fanout_field_fail(r, node, "%.*s is not from %s to %s", STR_ARG(report_excerpt(node->text)), number_text(f, f->min, min),
                      number_text(f, f->max, max));
    return false;
}

static void read_text(struct fanout_reader *r, const struct fanout_field *f, const struct tree_node *node, void *to)
{
    struct str text = {0};

    if (!tree_is_null(node)) {
        if (!fanout_field_expect(r, node, TREE_SCALAR))
            return;
        if ((int64_t)node->text.n < f->min || (int64_t)node->text.n > f->max) {
            fanout_field_fail(r, node, "must have %" PRId64 " to %" PRId64 " characters", f->min, f->max);
            return;
        }
        text = arena_copy(r->arena, MEM_CONFIG, node->text);
    }
    memcpy(to, &text, sizeof text);
}

static void read_field(struct fanout_reader *r, const struct fanout_field *f, const struct tree_node *node, void *base)
{
    void *to = (char *)base + f->offset;
    int64_t value;

    switch (f->type) {
    case FANOUT_FIELD_IGNORED:
        break;
    case FANOUT_FIELD_CUSTOM:
        f->read(r, node, to);
        break;
    case FANOUT_FIELD_NODE:
        if (tree_is_null(node))
            node = NULL;
        memcpy(to, &node, sizeof node);
        break;
    case FANOUT_FIELD_TEXT:
        read_text(r, f, node, to);
        break;
    default:
        if (tree_is_null(node))
            put_number(f, f->initial, to);
        else if (fanout_field_expect(r, node, TREE_SCALAR) && take_number(r, f, node, &value))
            put_number(f, value, to);
        break;
    }
}

static bool has_name(const struct fanout_field *f, struct str name)
{
    for (size_t i = 0; i < FANOUT_FIELD_NAMES && f->names[i].n; i++)
        if (str_equal(f->names[i], name))
            return true;
    return false;
}

static void refuse_unknown(struct fanout_reader *r, const struct fanout_field *fields, size_t n, const char *what,
                           const struct tree_node *node)
{
    struct nearest search = {.word = node->key};
    struct str best;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < FANOUT_FIELD_NAMES && fields[i].names[k].n; k++)
            nearest_offer(&search, fields[i].names[k]);
    best = nearest_result(&search);
    if (best.n)
        fanout_field_fail(r, node, "no such field of %s; did you mean %.*s?", what, STR_ARG(best));
    else
        fanout_field_fail(r, node, "no such field of %s", what);
}

void fanout_field_read(struct fanout_reader *r, const struct fanout_field *fields, size_t n, const char *what,
                       const struct tree_node *map, void *base)
{
    const struct tree_node *seen[FIELDS_MAX] = {0};

    ASSERT(n <= FIELDS_MAX);
    if (!fanout_field_expect(r, map, TREE_MAP))
        return;
    for (const struct tree_node *node = map->first; node; node = node->next) {
        size_t i = 0;

        while (i < n && !has_name(&fields[i], node->key))
            i++;
        if (i == n)
            refuse_unknown(r, fields, n, what, node);
        else if (seen[i] && !str_equal(seen[i]->key, node->key)) /* the same key twice was told by the tree */
            fanout_field_fail(r, node, "the same as %.*s, which line %u has already", STR_ARG(seen[i]->key), seen[i]->line);
        else
            read_field(r, &fields[i], node, base);
        if (i < n)
            seen[i] = node;
    }
}
