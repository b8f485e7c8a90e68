#include "main/to_mqtt_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/rule_options.h"

#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\ntenants: {demo: }\n"
#define TWO  "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\ntenants: {demo: , other: }\n"

static struct config_errors errors;
static char loops[2000];

static void on_loop(void *context, const char *text)
{
    size_t n = strlen(loops);

    (void)context;
    snprintf(loops + n, sizeof loops - n, "%s\n", text);
}

/* Loads a configuration, makes its rules, and notes its loops. */
static err make(const char *text, struct to_mqtt_rules **out_rules)
{
    struct config_source source = {.text = str_from(text), .name = "test.yaml"};
    struct rule_table *table;
    struct config *config;
    err e = config_load(&source, &config, &errors);

    if (e != E_OK)
        return e;
    loops[0] = '\0';
    e = rule_options_make(config, source.name, &table, &errors);
    if (e == E_OK) {
        e = to_mqtt_options_make(config, source.name, out_rules, &errors);
        if (e == E_OK)
            to_mqtt_options_find_loops(config, *out_rules, table, on_loop, NULL);
        rule_table_unref(table);
    }
    config_unref(config);
    return e;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_used(MEM_CONFIG) != 0 || mem_used(MEM_MESSAGE) != 0;
}

static void options_arrive_in_the_rules(void **state)
{
    static const char text[] = BASE
        "to_mqtt:\n"
        "  - {topic: orders, key: \"^(?<d>[^.]+)\\\\.\", mqtt: \"in/{d}\", qos: 2, retain: true, hold: 1h, start_hold: 5s,\n"
        "     ack_timeout: 10s, from: earliest, tenant: demo}\n"
        "  - {topic: \"x.{tenant}\", mqtt: \"x/{topic}\"}\n"
        "  - {topic: y, mqtt: y}\n";
    struct to_mqtt_rules *rules;
    const struct to_mqtt_rule *rule;

    (void)state;
    if (make(text, &rules) != E_OK)
        fail_msg("%u: %s", errors.items[0].line, errors.items[0].text);
    assert_int_equal(to_mqtt_rules_count(rules), 3);
    rule = to_mqtt_rules_at(rules, 0);
    assert_true(str_equal(rule->spec.topic, STR("orders")));
    assert_int_equal(rule->spec.qos, 2);
    assert_true(rule->spec.is_retained);
    assert_int_equal(rule->spec.hold_ms, 3600000);
    assert_int_equal(rule->spec.start_hold_ms, 5000);
    assert_int_equal(rule->spec.ack_timeout_ms, 10000);
    assert_false(rule->spec.begins_at_end);
    rule = to_mqtt_rules_at(rules, 2);
    assert_true(str_equal(rule->spec.tenant, STR("demo"))); /* the only one */
    assert_int_equal(rule->spec.qos, 1);
    assert_int_equal(rule->spec.hold_ms, 0);
    assert_int_equal(rule->spec.start_hold_ms, 60000);
    assert_int_equal(rule->spec.ack_timeout_ms, 30000);
    assert_true(rule->spec.begins_at_end);
    to_mqtt_rules_unref(rules);
}

struct fault_case {
    const char *text, *message;
    unsigned line;
};

static void faults_are_told_with_line_and_path(void **state)
{
    static const struct fault_case cases[] = {
        {BASE "to_mqtt: [{topic: a, key: \"(\", mqtt: b}]", "to_mqtt[0].key: is no regular expression", 4},
        {BASE "to_mqtt: [{topic: \"^(\", mqtt: b}]", "to_mqtt[0].topic: is no regular expression", 4},
        {BASE "to_mqtt:\n- {topic: a, mqtt: b}\n- {topic: a/b, mqtt: c}", "to_mqtt[1].topic: a Kafka topic has only", 6},
        {BASE "to_mqtt: [{topic: a, mqtt: \"b/{x}\"}]", "to_mqtt[0].mqtt: {x} is neither a named group", 4},
        {BASE "to_mqtt: [{topic: a, mqtt: \"b/+\"}]", "to_mqtt[0].mqtt: is the name of a topic", 4},
        {BASE "to_mqtt: [{topic: a, mqtt: b, tenant: demp}]", "to_mqtt[0].tenant: demp is not configured (did you mean demo?)",
         4},
        {TWO "to_mqtt: [{topic: a, mqtt: b}]", "to_mqtt[0].tenant: is missing", 4},
        {BASE "to_mqtt: [{topic: a}]", "to_mqtt[0]: mqtt is missing", 4},
        {BASE "to_mqtt: [{topic: a, mqtt: b, qos: 3}]", "to_mqtt[0].qos: \"3\": must be from 0 to 2", 4},
        {BASE "to_mqtt: [{topic: a, mqtt: b, from: now}]", "to_mqtt[0].from: \"now\": unknown value", 4},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct to_mqtt_rules *rules;

        assert_int_equal(make(cases[i].text, &rules), E_INVAL);
        if (!strstr(errors.items[0].text, cases[i].message))
            fail_msg("%s, not %s", errors.items[0].text, cases[i].message);
        assert_int_equal(errors.items[0].line, cases[i].line);
    }
}

struct loop_case {
    const char *text, *loops;
};

static void rules_that_feed_each_other_are_named(void **state)
{
    static const struct loop_case cases[] = {
        {BASE "to_kafka: [{mqtt: \"in/#\", topic: t}]\nto_mqtt: [{topic: t, mqtt: \"in/{key}\"}]",
         "to_mqtt[0] -> to_kafka[0] -> to_mqtt[0]\n"},
        {BASE "to_kafka: [{mqtt: \"in/#\", topic: t}]\nto_mqtt: [{topic: t, mqtt: \"out/{key}\"}]", ""},
        {BASE "to_kafka: [{mqtt: \"in/#\", topic: t}]\nto_mqtt: [{topic: u, mqtt: \"in/{key}\"}]", ""},
        {BASE "to_kafka: [{mqtt: \"{a}/x\", topic: \"p.{a}\"}]\nto_mqtt: [{topic: \"^p\\\\.\", mqtt: \"{key}/x\"}]",
         "to_mqtt[0] -> to_kafka[0] -> to_mqtt[0]\n"},
        {BASE "to_kafka: [{mqtt: a, topic: ka}, {mqtt: \"b/+\", topic: kb}]\n"
              "to_mqtt: [{topic: ka, mqtt: \"b/{key}\"}, {topic: kb, mqtt: a}, {topic: kc, mqtt: a}]",
         "to_mqtt[0] -> to_kafka[1] -> to_mqtt[1] -> to_kafka[0] -> to_mqtt[0]\n"},
        {TWO "to_kafka: [{mqtt: a, topic: t, tenant: demo}]\nto_mqtt: [{topic: t, mqtt: a, tenant: other}]", ""},
        {BASE "to_kafka: [{event: connect, topic: t}]\nto_mqtt: [{topic: t, mqtt: a}]", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct to_mqtt_rules *rules;

        if (make(cases[i].text, &rules) != E_OK)
            fail_msg("%zu: %s", i, errors.items[0].text);
        assert_string_equal(loops, cases[i].loops);
        to_mqtt_rules_unref(rules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(options_arrive_in_the_rules, nothing_is_left),
        cmocka_unit_test_teardown(faults_are_told_with_line_and_path, nothing_is_left),
        cmocka_unit_test_teardown(rules_that_feed_each_other_are_named, nothing_is_left),
    };

    return cmocka_run_group_tests_name("to_mqtt_options", tests, NULL, NULL);
}
