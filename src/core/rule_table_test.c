#include "core/rule_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

/* A rule with one action, as most are. */
struct row {
    const char *filter; /* NULL: an event */
    const char *topic;
    const char *tenant;
    enum rule_source event;
    enum rule_ack ack;
    uint32_t limit_ms;
};

static struct rule_fault fault;

static err add(struct rule_table *table, const struct row *row)
{
    struct rule_action_spec action = {.topic = str_from(row->topic), .ack = row->ack, .limit_ms = row->limit_ms};
    char name[32];
    struct rule_spec spec = {
        .source = row->filter ? RULE_SOURCE_PUBLISH : row->event,
        .filter = str_from(row->filter),
        .tenant = str_from(row->tenant),
        .actions = &action,
        .n_actions = 1,
    };

    snprintf(name, sizeof name, "r%zu", rule_table_count(table));
    spec.name = str_from(name);
    return rule_table_add(table, &spec, &fault);
}

static struct rule_table *build(const struct row *rows, size_t n)
{
    struct rule_table *table = rule_table_new(0);

    for (size_t i = 0; i < n; i++)
        if (add(table, &rows[i]) != E_OK)
            fail_msg("rule %zu: %s: %s", i, fault.field, fault.ei.text);
    rule_table_finish(table);
    return table;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_used(MEM_CONFIG) != 0;
}

static int find(const struct rule_table *table, const char *tenant, const char *topic)
{
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    const struct rule *rule = rule_table_find(table, str_from(tenant), str_from(topic), segments);

    return rule ? (int)rule->index : -1;
}

static void the_first_rule_that_matches_wins(void **state)
{
    static const struct row rows[] = {
        {.filter = "a/b", .topic = "t0"},
        {.filter = "+/b/{x}", .topic = "t1"},
        {.filter = "a/#", .topic = "t2"},
        {.filter = "c/{x}", .topic = "t3", .tenant = "one"},
        {.filter = "{all#}", .topic = "t4", .tenant = "two"},
        {.filter = "a/b/c/d", .topic = "t5", .tenant = "one"},
        {.filter = "+/b/+", .topic = "t6", .tenant = "none"},
    };
    static const struct {
        const char *tenant, *topic;
        int want;
    } cases[] = {
        {"one", "a/b", 0},  {"one", "a/b/c", 1},   {"one", "x/b/c", 1},   {"one", "a/x", 2},
        {"one", "a", 2},    {"one", "c/x", 3},     {"two", "c/x", 4},     {"two", "zzz", 4},
        {"one", "zzz", -1}, {"one", "a/b/c/d", 2}, {"two", "$SYS/x", -1}, {"one", "", -1},
    };
    struct rule_table *table = build(rows, ARRAY_LEN(rows));

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (find(table, cases[i].tenant, cases[i].topic) != cases[i].want)
            fail_msg("%s of %s: %d", cases[i].topic, cases[i].tenant, find(table, cases[i].tenant, cases[i].topic));
    rule_table_unref(table);
}

/* With and without the index, on many small random tables. */
static void the_index_finds_what_a_walk_finds(void **state)
{
    static const char *const filters[] = {"a", "a/+", "+/a", "b/#", "{x}/b", "#", "a/b", "b/{x}/{y#}", "/a", "c"};
    static const char *const names[] = {"a", "a/b", "b", "b/a", "b/a/c", "c", "/a", "x/y", "$a", "a/"};
    unsigned seed = 3;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct row rows[6];
        struct rule_table *table;

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            rows[i] = (struct row){.filter = filters[(size_t)rand_r(&seed) % ARRAY_LEN(filters)], .topic = "t"};
        table = build(rows, ARRAY_LEN(rows));
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            int want = -1;

            for (size_t i = 0; i < ARRAY_LEN(rows) && want < 0; i++) {
                struct str segments[RULE_FILTER_MAX_SEGMENTS];

                if (rule_filter_matches(&rule_table_at(table, i)->filter, str_from(names[k]), segments))
                    want = (int)i;
            }
            assert_int_equal(find(table, "t", names[k]), want);
        }
        rule_table_unref(table);
    }
}

static void events_are_found_by_kind_and_tenant(void **state)
{
    static const struct row rows[] = {
        {.event = RULE_SOURCE_CONNECT, .topic = "a", .tenant = "one"},
        {.event = RULE_SOURCE_CONNECT, .topic = "b"},
        {.event = RULE_SOURCE_DISCONNECT, .topic = "c", .tenant = "two"},
    };
    struct rule_table *table = build(rows, ARRAY_LEN(rows));

    (void)state;
    assert_int_equal(rule_table_find_event(table, RULE_SOURCE_CONNECT, STR("one"))->index, 0);
    assert_int_equal(rule_table_find_event(table, RULE_SOURCE_CONNECT, STR("two"))->index, 1);
    assert_null(rule_table_find_event(table, RULE_SOURCE_DISCONNECT, STR("one")));
    assert_null(rule_table_find_event(table, RULE_SOURCE_SUBSCRIBE, STR("one")));
    assert_true(rule_table_has(table, RULE_SOURCE_DISCONNECT));
    assert_false(rule_table_has(table, RULE_SOURCE_SUBSCRIBE));
    assert_false(rule_table_has(table, RULE_SOURCE_PUBLISH));
    rule_table_unref(table);
}

/* Pairs of which the second is refused for the field, or with NULL is not. */
static void rules_are_checked_beside_those_before(void **state)
{
    static const struct {
        struct row a, b;
        const char *field;
    } cases[] = {
        {{.filter = "a/#", .topic = "t"}, {.filter = "a/{x}", .topic = "u"}, "mqtt"},
        {{.filter = "a/{x}", .topic = "t"}, {.filter = "a/#", .topic = "u"}, NULL},
        {{.filter = "a/#", .topic = "t", .tenant = "one"}, {.filter = "a/b", .topic = "u"}, NULL},
        {{.filter = "a/#", .topic = "t"}, {.filter = "a/b", .topic = "u", .tenant = "one"}, "mqtt"},
        {{.event = RULE_SOURCE_CONNECT, .topic = "t"}, {.event = RULE_SOURCE_CONNECT, .topic = "u"}, "event"},
        {{.event = RULE_SOURCE_CONNECT, .topic = "t"}, {.event = RULE_SOURCE_DISCONNECT, .topic = "u"}, NULL},
        {{.filter = "a", .topic = "t", .limit_ms = 5}, {.filter = "b", .topic = "t", .limit_ms = 6}, "timeout"},
        {{.filter = "a", .topic = "t.{tenant}", .limit_ms = 5}, {.filter = "b", .topic = "t.x"}, "timeout"},
        {{.filter = "a", .topic = "t", .limit_ms = 5}, {.filter = "b", .topic = "u", .limit_ms = 6}, NULL},
        {{.filter = "a", .topic = "t", .ack = RULE_ACK_QUORUM}, {.filter = "b", .topic = "t"}, "ack"},
        {{.filter = "a", .topic = "t", .ack = RULE_ACK_QUORUM}, {.filter = "b", .topic = "t.x"}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct row rows[] = {cases[i].a, cases[i].b};
        struct rule_table *table = build(rows, 2);
        err e = rule_table_check(table, 1, &fault);

        assert_int_equal(rule_table_check(table, 0, &fault), E_OK);
        e = rule_table_check(table, 1, &fault);
        if ((e != E_OK) != (cases[i].field != NULL) || (e != E_OK && strcmp(fault.field, cases[i].field) != 0))
            fail_msg("case %zu: %d %s", i, e, fault.ei.text);
        rule_table_unref(table);
    }
}

static void the_fault_names_field_and_action(void **state)
{
    struct rule_table *table = rule_table_new(0);
    struct record_header header = {STR("mqtt.topic"), STR("x")};
    struct rule_action_spec actions[] = {{.topic = STR("a")}, {.topic = STR("b"), .key = STR("{clent_id}")}};
    struct rule_spec spec = {.filter = STR("a/{s}"), .actions = actions, .n_actions = 2};

    (void)state;
    assert_int_equal(rule_table_add(table, &spec, &fault), E_INVAL);
    assert_int_equal(fault.action, 1);
    assert_string_equal(fault.field, "key");
    assert_true(str_equal(fault.unknown, STR("clent_id")));
    actions[1].key = STR("{s}");
    actions[1].headers = &header;
    actions[1].n_headers = 1;
    assert_int_equal(rule_table_add(table, &spec, &fault), E_INVAL);
    assert_string_equal(fault.field, "headers");
    header.name = STR("a");
    actions[0].partition = STR("-1");
    assert_int_equal(rule_table_add(table, &spec, &fault), E_INVAL);
    assert_string_equal(fault.field, "partition");
    actions[0].partition = STR("{qos}");
    spec.filter = STR("a/{qos}");
    assert_int_equal(rule_table_add(table, &spec, &fault), E_INVAL);
    assert_string_equal(fault.field, "mqtt");
    spec.filter = STR("a/{s}");
    actions[1].ack = RULE_ACK_QUORUM;
    assert_int_equal(rule_table_add(table, &spec, &fault), E_OK);
    assert_int_equal(rule_table_at(table, 0)->ack, RULE_ACK_QUORUM);
    rule_table_unref(table);
}

static void a_writer_of_a_topic_is_found(void **state)
{
    static const struct row rows[] = {{.filter = "a", .topic = "x.{tenant}"}, {.filter = "b", .topic = "x.y"}};
    struct rule_table *table = build(rows, 2);

    (void)state;
    assert_int_equal(rule_table_find_writer(table, 0, STR("x.y"))->index, 0);
    assert_int_equal(rule_table_find_writer(table, 1, STR("x.y"))->index, 1);
    assert_null(rule_table_find_writer(table, 0, STR("y")));
    rule_table_unref(table);
}

static void a_large_table_stays_small(void **state)
{
    enum { N = RULE_TABLE_MAX_RULES };
    struct rule_table *table = rule_table_new(0);
    char filter[32];

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(filter, sizeof filter, i % 64 ? "f%d/x" : "+/f%d", i);
        assert_int_equal(add(table, &(struct row){.filter = filter, .topic = "t"}), E_OK);
    }
    assert_int_equal(add(table, &(struct row){.filter = "more", .topic = "t"}), E_LIMIT);
    rule_table_finish(table);
    assert_int_equal(find(table, "t", "f4095/x"), 4095);
    assert_int_equal(find(table, "t", "f4095/f64"), 64);
    rule_table_unref(table);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_first_rule_that_matches_wins, nothing_is_left),
        cmocka_unit_test_teardown(the_index_finds_what_a_walk_finds, nothing_is_left),
        cmocka_unit_test_teardown(events_are_found_by_kind_and_tenant, nothing_is_left),
        cmocka_unit_test_teardown(rules_are_checked_beside_those_before, nothing_is_left),
        cmocka_unit_test_teardown(the_fault_names_field_and_action, nothing_is_left),
        cmocka_unit_test_teardown(a_writer_of_a_topic_is_found, nothing_is_left),
        cmocka_unit_test_teardown(a_large_table_stays_small, nothing_is_left),
    };

    return cmocka_run_group_tests_name("rule_table", tests, NULL, NULL);
}
