#include "main/rule_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\ntenants: {demo: }\nto_kafka:\n"

static struct config_errors errors;

static err make(const char *text, struct rule_table **out_table)
{
    struct config_source source = {.text = str_from(text), .name = "test.yaml"};
    struct config *config;
    err e = config_load(&source, &config, &errors);

    if (e != E_OK)
        return e;
    e = rule_options_make(config, source.name, out_table, &errors);
    config_unref(config);
    return e;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_used(MEM_CONFIG) != 0;
}

static void rules_arrive_in_the_table(void **state)
{
    static const char text[] = BASE
        "  - {mqtt: \"plant/{site}/+/{rest#}\", topic: \"plant.{site}\", key: \"{client_id}\", headers: {site: \"{site}\"},\n"
        "     ack: received, local: false, create: true, timeout: 5s, name: plants, partition: 3}\n"
        "  - {event: disconnect, topic: lifecycle, key: \"{client_id}\", tenant: demo}\n"
        "  - mqtt: \"#\"\n"
        "    actions:\n"
        "      - {topic: a, ack: received}\n"
        "      - {topic: \"b.{tenant}\"}\n";
    struct rule_table *table;
    const struct rule *rule;

    (void)state;
    if (make(text, &table) != E_OK)
        fail_msg("%u: %s", errors.items[0].line, errors.items[0].text);
    assert_int_equal(rule_table_count(table), 3);
    rule = rule_table_at(table, 0);
    assert_true(str_equal(rule->name, STR("plants")));
    assert_false(rule->is_local);
    assert_int_equal(rule->ack, RULE_ACK_RECEIVED);
    assert_true(rule->actions[0].is_creating);
    assert_int_equal(rule->actions[0].limit_ms, 5000);
    assert_int_equal(rule->actions[0].n_headers, 1);
    assert_true(str_equal(rule_template_fixed(&rule->actions[0].partition), STR("3")));
    rule = rule_table_at(table, 1);
    assert_int_equal(rule->source, RULE_SOURCE_DISCONNECT);
    assert_true(str_equal(rule->name, STR("to_kafka[1]")));
    assert_true(str_equal(rule->tenant, STR("demo")));
    rule = rule_table_at(table, 2);
    assert_int_equal(rule->n_actions, 2);
    assert_int_equal(rule->ack, RULE_ACK_QUORUM);
    assert_true(rule->is_local);
    rule_table_unref(table);
}

static void what_is_wrong_is_told_with_line_path_and_advice(void **state)
{
    static const struct {
        const char *rules;
        unsigned line;
        const char *text; /* the beginning */
    } rows[] = {
        {"  - {mqtt: \"a/{site}\", topic: \"x.{sitte}\"}\n", 5,
         "to_kafka[0].topic: {sitte} is no variable (did you mean {site}?)"},
        {"  - {mqtt: a, topic: x, key: \"{clientid}\"}\n", 5,
         "to_kafka[0].key: {clientid} is no variable (did you mean {client_id}?)"},
        {"  - {mqtt: \"a/{s}\", topic: \"{s}\"}\n", 5, "to_kafka[0].topic: can be empty"},
        {"  - {mqtt: a, topic: \"x/y\"}\n", 5, "to_kafka[0].topic: a topic's name has only"},
        {"  - {mqtt: a}\n", 5, "to_kafka[0].topic: a topic is missing"},
        {"  - {topic: a}\n", 5, "to_kafka[0]: mqtt is missing"},
        {"  - {mqtt: a, event: connect, topic: a}\n", 5, "to_kafka[0]: mqtt and event exclude"},
        {"  - {mqtt: a, topic: a, actions: [{topic: b}]}\n", 5, "to_kafka[0]: topic and what goes with it"},
        {"  - {mqtt: a, topic: a, ack: spooled}\n", 5, "to_kafka[0].ack: spooled is reserved"},
        {"  - {mqtt: a, topic: a, tenant: demmo}\n", 5, "to_kafka[0].tenant: demmo is not configured (did you mean demo?)"},
        {"  - {mqtt: a, topic: a, name: n}\n  - {mqtt: b, topic: a, name: n}\n", 6, "to_kafka[1].name: n is the name of"},
        {"  - {mqtt: a, topic: a, name: mqtt}\n", 5, "to_kafka[0].name: mqtt is the name of a route"},
        {"  - {mqtt: \"a/#\", topic: a}\n  - {mqtt: a/b, topic: b}\n", 6, "to_kafka[1].mqtt: never matches: to_kafka[0]"},
        {"  - {mqtt: a, topic: t, timeout: 1s}\n  - mqtt: b\n    actions:\n      - {topic: u}\n      - {topic: t}\n", 9,
         "to_kafka[1].actions[1].timeout: 0 ms for a topic (t) to which to_kafka[0] gives 1000 ms"},
        {"  - {mqtt: a, topic: t, ack: received}\n  - {mqtt: b, topic: t}\n", 6, "to_kafka[1].ack: quorum for a topic"},
        {"  - {mqtt: a, topic: hono.telemetry.demo, timeout: 1s}\n", 5, "to_kafka[0].timeout: a topic has one time limit"},
        {"  - {mqtt: \"a/#/b\", topic: t}\n", 5, "to_kafka[0].mqtt: # must be the last level"},
        {"  - {event: connect, topic: \"a.{topic}\"}\n", 5, "to_kafka[0].topic: {topic} has no meaning for an event"},
        {"  - {mqtt: a, topic: t, headers: {mqtt.topic: x}}\n", 5, "to_kafka[0].headers: mqtt.topic: names that"},
        {"  - {mqtt: a, topic: t, partition: x}\n", 5, "to_kafka[0].partition: must be a number"},
        {"  - {mqtt: a, topik: t}\n", 5, "to_kafka[0].topik: unknown option (did you mean topic?)"},
        {"  - {event: conect, topic: t}\n", 5, "to_kafka[0].event: \"conect\": unknown value (did you mean connect?)"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rule_table *table;
        char text[1000];

        snprintf(text, sizeof text, "%s%s", BASE, rows[i].rules);
        assert_int_equal(make(text, &table), E_INVAL);
        if (errors.items[0].line != rows[i].line || strncmp(errors.items[0].text, rows[i].text, strlen(rows[i].text)) != 0)
            fail_msg("%s: line %u: %s", rows[i].rules, errors.items[0].line, errors.items[0].text);
    }
}

static void every_fault_is_told(void **state)
{
    struct rule_table *table;

    (void)state;
    assert_int_equal(make(BASE "  - {mqtt: a, topic: \"{x}\"}\n  - {mqtt: b, topic: t, key: \"{y}\"}\n", &table), E_INVAL);
    assert_int_equal(errors.count, 2);
    assert_int_equal(errors.items[1].line, 6);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(rules_arrive_in_the_table, nothing_is_left),
        cmocka_unit_test_teardown(what_is_wrong_is_told_with_line_path_and_advice, nothing_is_left),
        cmocka_unit_test_teardown(every_fault_is_told, nothing_is_left),
    };

    return cmocka_run_group_tests_name("rule_options", tests, NULL, NULL);
}
