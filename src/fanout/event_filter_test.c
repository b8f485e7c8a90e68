#include "fanout/event_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "config/tree.h"

static struct arena arena, scratch;

static int drop_arenas(void **state)
{
    (void)state;
    arena_free(&arena, MEM_CONFIG);
    arena_free(&scratch, MEM_FANOUT);
    return mem_used(MEM_CONFIG) != 0 || mem_used(MEM_FANOUT) != 0;
}

static struct cloudevent_attribute attributes[] = {
    {STR_INIT("specversion"), STR_INIT("1.0"), CLOUDEVENT_STRING},
    {STR_INIT("id"), STR_INIT("id-1"), CLOUDEVENT_STRING},
    {STR_INIT("source"), STR_INIT("/plant/berlin"), CLOUDEVENT_STRING},
    {STR_INIT("type"), STR_INIT("com.example.opened"), CLOUDEVENT_STRING},
    {STR_INIT("empty"), STR_INIT(""), CLOUDEVENT_STRING},
    {STR_INIT("five"), STR_INIT("5"), CLOUDEVENT_STRING},
    {STR_INIT("number"), STR_INIT("7"), CLOUDEVENT_INTEGER},
    {STR_INIT("flag"), STR_INIT("true"), CLOUDEVENT_BOOLEAN},
};

static const struct cloudevent event = {.attributes = attributes, .n_attributes = ARRAY_LEN(attributes)};

static const struct tree_node *read_yaml(const char *text)
{
    static struct config_errors errors;
    struct tree_node *root;

    errors = (struct config_errors){0};
    if (tree_parse(&arena, str_from(text), "test", &root, &errors) != E_OK)
        fail_msg("%s", text);
    return root->first;
}

typedef err (*compiler)(struct arena *a, const struct tree_node *node, const struct event_filter **out_filter,
                        struct errinfo *ei);

static bool passes(compiler compile, const char *text)
{
    const struct event_filter *filter;
    struct errinfo ei = {0};

    if (compile(&arena, read_yaml(text), &filter, &ei) != E_OK)
        fail_msg("%s: %s", text, ei.text);
    return event_filter_matches(filter, &event, &scratch);
}

static void every_dialect_matches_as_the_subscriptions_api_says(void **state)
{
    static const struct {
        const char *filters;
        bool want;
    } rows[] = {
        {"filters: []", true},
        {"filters:", true},
        {"filters: [{exact: {type: com.example.opened}}]", true},
        {"filters: [{exact: {type: com.example.Opened}}]", false},
        {"filters: [{exact: {type: com.example.opened, id: id-1}}]", true},
        {"filters: [{exact: {type: com.example.opened, id: id-2}}]", false},
        {"filters: [{exact: {five: 5}}]", true},
        {"filters: [{exact: {number: 7, flag: true}}]", true},
        {"filters: [{exact: {missing: x}}]", false},
        {"filters: [{prefix: {type: com.example.}}]", true},
        {"filters: [{prefix: {type: example}}]", false},
        {"filters: [{prefix: {type: com.example., source: /berlin}}]", false},
        {"filters: [{prefix: {empty: x}}]", false},
        {"filters: [{prefix: {missing: x}}]", false},
        {"filters: [{suffix: {type: .opened, source: /berlin}}]", true},
        {"filters: [{suffix: {type: .open}}]", false},
        {"filters: [{suffix: {id: a-very-long-one-id-1}}]", false},
        {"filters: [{suffix: {missing: x}}]", false},
        {"filters: [{exact: {id: id-1}}, {prefix: {type: com}}]", true},
        {"filters: [{exact: {id: id-1}}, {prefix: {type: org}}]", false},
        {"filters: [{all: [{exact: {id: id-1}}, {prefix: {type: com}}]}]", true},
        {"filters: [{all: [{exact: {id: id-1}}, {prefix: {type: org}}]}]", false},
        {"filters: [{any: [{exact: {id: id-2}}, {prefix: {type: com}}]}]", true},
        {"filters: [{any: [{exact: {id: id-2}}, {prefix: {type: org}}]}]", false},
        {"filters: [{not: {exact: {id: id-2}}}]", true},
        {"filters: [{not: {exact: {id: id-1}}}]", false},
        {"filters: [{not: {exact: {missing: x}}}]", true},
        {"filters: [{not: {not: {any: [{all: [{suffix: {id: '1'}}]}]}}}]", true},
        {"filters: [{sql: \"type LIKE '%.opened' AND number = 7\"}]", true},
        {"filters: [{cesql: five > 4 AND flag}]", true},
        {"filters: [{sql: EXISTS missing}]", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (passes(event_filter_compile, rows[i].filters) != rows[i].want)
            fail_msg("%s", rows[i].filters);
}

/* An error, or a result that is no boolean. */
static void an_expression_that_fails_lets_nothing_through(void **state)
{
    static const struct {
        const char *filters;
        bool want;
    } rows[] = {
        {"filters: [{sql: missing = 1}]", false},
        {"filters: [{sql: id}]", false},
        {"filters: [{sql: 1 + 1}]", false},
        {"filters: [{sql: 1 / 0 = 0}]", false},
        {"filters: [{sql: \"NOT (missing = 1)\"}]", false},
        {"filters: [{not: {sql: missing = 1}}]", false},
        {"filters: [{not: {sql: id}}]", false},
        {"filters: [{not: {not: {sql: missing = 1}}}]", false},
        {"filters: [{not: {any: [{sql: missing = 1}, {exact: {id: id-2}}]}}]", false},
        {"filters: [{not: {all: [{exact: {id: id-1}}, {sql: missing = 1}]}}]", false},
        {"filters: [{not: {all: [{sql: missing = 1}, {exact: {id: id-2}}]}}]", true},
        {"filters: [{any: [{sql: missing = 1}, {exact: {id: id-1}}]}]", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (passes(event_filter_compile, rows[i].filters) != rows[i].want)
            fail_msg("%s", rows[i].filters);
}

static void the_older_form_wants_all_to_be_equal_or_there(void **state)
{
    static const struct {
        const char *attributes;
        bool want;
    } rows[] = {
        {"attributes: {}", true},
        {"attributes:", true},
        {"attributes: {type: com.example.opened, id: id-1}", true},
        {"attributes: {type: com.example.opened, id: id-2}", false},
        {"attributes: {type: ''}", true},
        {"attributes: {type: }", true},
        {"attributes: {type: null}", true},
        {"attributes: {empty: ''}", true},
        {"attributes: {missing: ''}", false},
        {"attributes: {missing: x}", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (passes(event_filter_compile_legacy, rows[i].attributes) != rows[i].want)
            fail_msg("%s", rows[i].attributes);
}

static void faulty_filters_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *filters;
        unsigned line;
        const char *want;
    } rows[] = {
        {"filters: {}", 1, "filters expects a list"},
        {"filters: [exact]", 1, "exactly one dialect"},
        {"filters: [{}]", 1, "exactly one dialect"},
        {"filters:\n- exact: {id: a}\n  prefix: {id: a}", 2, "exactly one dialect"},
        {"filters:\n- exact: {id: a}\n- exactt: {id: a}", 3, "no filter dialect exactt; did you mean exact?"},
        {"filters: [{regex: {id: a}}]", 1, "no filter dialect regex"},
        {"filters: [{exact: {}}]", 1, "expected a map"},
        {"filters: [{exact: id}]", 1, "expected a map"},
        {"filters: [{exact: [id]}]", 1, "expected a map"},
        {"filters:\n- exact:\n    id: a\n    Source: a", 4, "Source is no name"},
        {"filters: [{prefix: {s_pace: a}}]", 1, "s_pace is no name"},
        {"filters: [{suffix: {123: a}}]", 1, "123 is no name"},
        {"filters: [{exact: {\xf0\x9f\x98\x80: a}}]", 1, "is no name"},
        {"filters: [{exact: {'': a}}]", 1, "is no name"},
        {"filters: [{exact: {data: a}}]", 1, "data is no name"},
        {"filters: [{exact: {id: ''}}]", 1, "the value of id is empty"},
        {"filters: [{prefix: {id: }}]", 1, "the value of id is empty"},
        {"filters: [{exact: {id: [a]}}]", 1, "the value of id is a string"},
        {"filters: [{all: []}]", 1, "all expects a list of at least one filter"},
        {"filters: [{any: {exact: {id: a}}}]", 1, "any expects a list of at least one filter"},
        {"filters: [{all: [{exact: {id: a}}, {exact: {ID: a}}]}]", 1, "ID is no name"},
        {"filters: [{not: [{exact: {id: a}}]}]", 1, "exactly one dialect"},
        {"filters: [{not: {}}]", 1, "exactly one dialect"},
        {"filters:\n- sql: id = ", 2, "column 5: expected a value"},
        {"filters: [{sql: }]", 1, "expected a CloudEvents SQL expression"},
        {"filters: [{sql: ''}]", 1, "column 1: expected a value"},
        {"filters: [{sql: [a]}]", 1, "expected a CloudEvents SQL expression"},
        {"filters: [{sql: REVERSE(id) = 'a'}]", 1, "no function REVERSE"},
        {"filters: [{not: {cesql: ABS() = 1}}]", 1, "no function ABS"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct event_filter *filter;
        struct errinfo ei = {0};

        if (event_filter_compile(&arena, read_yaml(rows[i].filters), &filter, &ei) != E_INVAL)
            fail_msg("%s was taken", rows[i].filters);
        if (!strstr(ei.text, rows[i].want) || ei.line != rows[i].line)
            fail_msg("%s: wanted %s in line %u, got %s in line %u", rows[i].filters, rows[i].want, rows[i].line, ei.text,
                     ei.line);
    }
}

static void a_faulty_older_form_is_refused(void **state)
{
    static const char *const rows[] = {"a: [id]", "a: x", "a: {Source: x}", "a: {id: [x]}", "a: {data: x}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct event_filter *filter;
        struct errinfo ei = {0};

        if (event_filter_compile_legacy(&arena, read_yaml(rows[i]), &filter, &ei) != E_INVAL)
            fail_msg("%s was taken", rows[i]);
        assert_int_equal(ei.line, 1);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_dialect_matches_as_the_subscriptions_api_says, drop_arenas),
        cmocka_unit_test_teardown(an_expression_that_fails_lets_nothing_through, drop_arenas),
        cmocka_unit_test_teardown(the_older_form_wants_all_to_be_equal_or_there, drop_arenas),
        cmocka_unit_test_teardown(faulty_filters_are_refused_with_their_line, drop_arenas),
        cmocka_unit_test_teardown(a_faulty_older_form_is_refused, drop_arenas),
    };

    return cmocka_run_group_tests_name("event_filter", tests, NULL, NULL);
}
