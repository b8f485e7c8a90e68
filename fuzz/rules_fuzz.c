/* Rules: a line with a filter, a line with a template, a line with a topic name; what is left is the payload. Compiling may
 * refuse, but what it takes must match as a slow reference says, give legal names of topics whatever the values are, and come
 * back from the name: no other values have it. */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/payload_field.h"
#include "core/rule_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_VALUE_BYTES = 64 };

static bool is_segment(struct str level)
{
    return level.n > 2 && level.p[0] == '{';
}

static bool is_rest(struct str level)
{
    return str_equal(level, STR("#")) || (is_segment(level) && level.p[level.n - 2] == '#');
}

static bool is_one(struct str level)
{
    return str_equal(level, STR("+")) || (is_segment(level) && !is_rest(level));
}

/* Level by level, from the text of the filter. */
static bool reference_matches(struct str filter, struct str name)
{
    bool more_filter = true, more_name = true;

    if (name.n > 0 && name.p[0] == '$' && (filter.p[0] == '+' || filter.p[0] == '#' || filter.p[0] == '{'))
        return false;
    while (more_filter) {
        struct str want = str_take(&filter, '/', &more_filter);

        if (is_rest(want))
            return true;
        if (!more_name)
            return false;
        struct str have = str_take(&name, '/', &more_name);
        if (!is_one(want) && !str_equal(want, have))
            return false;
    }
    return !more_name;
}

/* Takes the values out of a name again, by the rules of rule_name.h; they must be those that went in. */
static void check_name(const struct rule_template *t, const struct str *values, struct str name)
{
    bool has_other = false;
    size_t at = 0;

    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct rule_piece *piece = &t->pieces[i];

        ASSERT(at + piece->text.n <= name.n && memcmp(name.p + at, piece->text.p, piece->text.n) == 0);
        for (size_t k = 0; k < piece->text.n; k++)
            has_other = has_other || piece->text.p[k] != '.';
        at += piece->text.n;
        if (piece->variable == RULE_TEMPLATE_NO_VARIABLE)
            continue;
        for (size_t k = 0; k < values[piece->variable].n; k++) {
            char c = values[piece->variable].p[k], got = name.p[at++];

            ASSERT(got != piece->stop || piece->stop == 0); /* here the value would seem to end */
            has_other = has_other || got != '.';
            if (got == '_' && name.p[at] == '_') {
                at++;
            } else if (got == '_') {
                char digits[3] = {name.p[at], name.p[at + 1], 0};
                static const char hex[] = "0123456789abcdef";

                got = (char)(((strchr(hex, digits[0]) - hex) << 4) + (strchr(hex, digits[1]) - hex));
                at += 2;
            }
            ASSERT(got == c);
        }
    }
    ASSERT(at == name.n);
}

static void try_template(struct arena *a, struct str text, const struct rule_filter *filter, struct str payload)
{
    struct rule_scope scope = {.filter = filter};
    struct rule_variables variables = {0};
    struct rule_template_error error;
    struct rule_template t;
    struct str values[RULE_TEMPLATE_MAX_VARIABLES];
    struct rule_name name = {.max_bytes = RULE_NAME_MAX_BYTES};
    struct errinfo ei;
    char *rendered;
    size_t n;

    if (rule_template_parse(a, MEM_TEST, text, &scope, &variables, &t, &error) != E_OK)
        return;
    /* Each variable has a stretch of the payload as its value; only some may be empty. */
    for (size_t i = 0; i < variables.n; i++) {
        values[i] = str_from_offset(payload, i * 3);
        values[i].n = values[i].n < MAX_VALUE_BYTES ? values[i].n : MAX_VALUE_BYTES;
        if (values[i].n == 0)
            values[i] = STR(".");
    }
    n = rule_template_size(&t, values);
    rendered = mem_alloc(MEM_TEST, n + 1);
    rule_template_write(&t, values, rendered);
    mem_free(MEM_TEST, rendered);
    ASSERT(rule_template_can_meet(&t, &t) || text.n > RULE_NAME_MAX_BYTES);
    if (rule_template_check_topic(&t, &variables, 0, &ei) != E_OK)
        return;
    rule_template_write_name(&t, values, &name);
    if (name.is_too_long)
        return;
    ASSERT(name.n > 0 && rule_name_is_legal(rule_name_str(&name)));
    ASSERT(!str_equal(rule_name_str(&name), STR(".")) && !str_equal(rule_name_str(&name), STR("..")));
    ASSERT(rule_template_can_become(&t, rule_name_str(&name)));
    check_name(&t, values, rule_name_str(&name));
}

static bool no_property(struct str *rest, struct str *out_name, struct str *out_value)
{
    bool found;

    if (rest->n == 0)
        return false;
    *out_value = str_take(rest, ';', &found);
    *out_name = str_take(out_value, '=', &found);
    return true;
}

/* The whole way: a table with one rule, and its record. */
static void try_rule(struct str filter, struct str template, struct str topic, struct str payload)
{
    struct rule_action_spec action = {.topic = STR("t.{tenant}"), .key = template, .partition = STR("{payload./p}")};
    struct rule_spec spec = {.name = STR("r"), .filter = filter, .actions = &action, .n_actions = 1};
    struct rule_table *table = rule_table_new(0);
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    struct rule_scratch scratch = {0};
    struct rule_fault fault;
    struct rule_message m = {.client_id = STR("c"),
                             .tenant = STR("demo"),
                             .topic = topic,
                             .payload = payload,
                             .next_property = no_property,
                             .properties = payload};

    if (rule_table_add(table, &spec, &fault) == E_OK) {
        ASSERT(rule_table_check(table, 0, &fault) == E_OK);
        rule_table_finish(table);
        if (rule_table_find(table, m.tenant, topic, segments) &&
            rule_record_build(rule_table_at(table, 0), &m, segments, 0, &scratch) == RULE_REFUSED_NOTHING)
            ASSERT(str_equal(rule_name_str(&scratch.records[0].topic), STR("t.demo")));
    }
    rule_record_free_scratch(&scratch);
    rule_table_unref(table);
}

static void try_field(struct str payload, struct str pointer)
{
    struct jsonr_value field;

    if (!payload_field_is_pointer(pointer) || !payload_field_find(payload, pointer, &field))
        return;
    ASSERT(field.raw.p >= payload.p && field.raw.p + field.raw.n <= payload.p + payload.n);
    if (field.has_escapes) {
        char *decoded = mem_alloc(MEM_TEST, field.raw.n);

        ASSERT(jsonr_decode(field.raw, decoded) <= field.raw.n);
        mem_free(MEM_TEST, decoded);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str payload = {(const char *)data, size};
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    struct rule_filter filter;
    struct arena arena = {0};
    struct errinfo ei;
    bool found;

    struct str filter_text = str_take(&payload, '\n', &found);
    struct str template = str_take(&payload, '\n', &found);
    struct str topic = str_take(&payload, '\n', &found);
    if (rule_filter_parse(&arena, MEM_TEST, filter_text, &filter, &ei) == E_OK) {
        ASSERT(rule_filter_covers(&filter, &filter));
        ASSERT(rule_filter_matches(&filter, topic, segments) == reference_matches(filter_text, topic));
        try_template(&arena, template, &filter, payload);
        try_rule(filter_text, template, topic, payload);
    }
    try_field(payload, template);
    arena_free(&arena, MEM_TEST);
    ASSERT(mem_used(MEM_TEST) == 0 && mem_used(MEM_CONFIG) == 0 && mem_used(MEM_ADAPTER) == 0);
    return 0;
}
