/* CloudEvents SQL and filters: a line with an expression, lines `name=value` with attributes of an event; what follows an empty line is
 * the YAML of a list of filters. What compiles must evaluate, twice to the same, within its memory; and a filter of an expression
 * lets an event through only when the expression is true without an error, while its inverse never does on an error. */
#include <stdint.h>

#include "base/check.h"
#include "cesql/cesql.h"
#include "config/tree.h"
#include "fanout/event_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLACK_BYTES = 4096 }; /* of the stack, and of rounding */

struct source {
    struct cloudevent_attribute attributes[CLOUDEVENT_ATTRIBUTES_MAX];
    struct cloudevent event;
};

static bool find(const void *context, struct str name, struct cesql_value *out_value)
{
    *out_value = (struct cesql_value){.type = CESQL_STRING};
    return cloudevent_find(context, name, &out_value->string);
}

static void read_attributes(struct str *rest, struct source *source)
{
    bool found = true;

    source->event.attributes = source->attributes;
    while (found && source->event.n_attributes < CLOUDEVENT_ATTRIBUTES_MAX) {
        struct str value = str_take(rest, '\n', &found);
        struct cloudevent_attribute *attribute = &source->attributes[source->event.n_attributes];
        bool has_value;

        if (value.n == 0)
            return;
        attribute->name = str_take(&value, '=', &has_value);
        attribute->value = value;
        source->event.n_attributes++;
    }
}

static bool is_same(const struct cesql_value *a, const struct cesql_value *b)
{
    return a->type == b->type && a->boolean == b->boolean && a->integer == b->integer && str_equal(a->string, b->string);
}

static enum cesql_error evaluate(const struct cesql *expression, const struct cloudevent *event, struct cesql_value *value)
{
    const struct cesql_attributes attributes = {find, event};
    enum cesql_error errors[2];
    struct cesql_value values[2];
    struct arena scratch[2] = {0};

    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        errors[i] = cesql_evaluate(expression, &attributes, &scratch[i], &values[i]);
    ASSERT(errors[0] == errors[1] && is_same(&values[0], &values[1]));
    ASSERT(values[0].type == CESQL_STRING || values[0].string.n == 0);
    ASSERT(errors[0] != CESQL_PARSE_ERROR);
    /* A text of this length pushes a value for each of its words at most, and makes strings of at least a byte. */
    ASSERT(scratch[0].used_bytes <= 17 * CESQL_WORK_MAX + CESQL_TEXT_MAX * 128 + SLACK_BYTES);
    *value = values[0];
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        arena_free(&scratch[i], MEM_FANOUT);
    return errors[0];
}

/* `sql: text` and `not: {sql: text}` as the reader of a file makes them. */
static bool passes(struct arena *a, struct str text, bool is_inverse, const struct cloudevent *event, bool *out_passes)
{
    struct tree_node *list = tree_add(a, TREE_LIST, 1), *outer = tree_add(a, TREE_MAP, 1), *at = outer;
    struct tree_node *expression = tree_add(a, TREE_SCALAR, 1);
    const struct event_filter *filter;
    struct arena scratch = {0};

    tree_append(list, outer);
    if (is_inverse) {
        at = tree_add(a, TREE_MAP, 1);
        at->key = STR("not");
        tree_append(outer, at);
    }
    expression->key = STR("sql");
    expression->text = text;
    expression->is_quoted = true;
    tree_append(at, expression);
    if (event_filter_compile(a, list, &filter, NULL) != E_OK)
        return false;
    *out_passes = event_filter_matches(filter, event, &scratch);
    arena_free(&scratch, MEM_FANOUT);
    return true;
}

static void try_expression(struct arena *a, struct str text, const struct cloudevent *event)
{
    struct errinfo ei = {0};
    const struct cesql *expression;
    struct cesql_value value;
    bool is_passing, is_inverse_passing;

    if (cesql_compile(a, text, &expression, &ei) != E_OK) {
        ASSERT(ei.text[0]);
        return;
    }
    enum cesql_error error = evaluate(expression, event, &value);
    if (!passes(a, text, false, event, &is_passing) || !passes(a, text, true, event, &is_inverse_passing)) {
        ASSERT(cesql_missing_function(expression).n > 0);
        return;
    }
    bool is_boolean = error == CESQL_OK && value.type == CESQL_BOOLEAN;
    ASSERT(is_passing == (is_boolean && value.boolean));
    ASSERT(is_inverse_passing == (is_boolean && !value.boolean));
}

static void try_filters(struct arena *a, struct str yaml, const struct cloudevent *event)
{
    struct config_errors errors = {0};
    const struct event_filter *filter;
    struct arena scratch = {0};
    struct tree_node *root;
    struct errinfo ei = {0};

    if (tree_parse(a, yaml, "fuzz", &root, &errors) != E_OK)
        return;
    if (event_filter_compile(a, root, &filter, &ei) == E_OK)
        event_filter_matches(filter, event, &scratch);
    else
        ASSERT(ei.text[0] && ei.line > 0);
    if (event_filter_compile_legacy(a, root, &filter, &ei) == E_OK)
        event_filter_matches(filter, event, &scratch);
    arena_free(&scratch, MEM_FANOUT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct source source = {0};
    struct arena arena = {0};
    bool found;

    struct str text = str_take(&rest, '\n', &found);
    read_attributes(&rest, &source);
    try_expression(&arena, text, &source.event);
    try_filters(&arena, rest, &source.event);
    arena_free(&arena, MEM_CONFIG);
    ASSERT(mem_used(MEM_CONFIG) == 0 && mem_used(MEM_FANOUT) == 0);
    return 0;
}
