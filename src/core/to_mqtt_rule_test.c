#include "core/to_mqtt_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"

struct add_case {
    struct to_mqtt_spec spec;
    const char *field; /* NULL: it is sound */
};

static void faults_are_found_when_rules_are_put_together(void **state)
{
    static const struct add_case cases[] = {
        {{.topic = STR_INIT("orders"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, NULL},
        {{.topic = STR_INIT("orders"),
          .key = STR_INIT("^(?<d>[^.]+)\\.(.+)$"),
          .mqtt = STR_INIT("in/{d}"),
          .tenant = STR_INIT("t")},
         NULL},
        {{.topic = STR_INIT("o.{tenant}"), .mqtt = STR_INIT("in")}, NULL},
        {{.topic = STR_INIT("^o\\.(?<tenant>.+)$"), .mqtt = STR_INIT("in")}, NULL},
        {{.topic = STR_INIT("o.{a}.{b}"), .mqtt = STR_INIT("{b}/{a}"), .tenant = STR_INIT("x-{a}")}, NULL},
        {{.topic = STR_INIT(""), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("a/b"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("a.{b"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("a.{b-c}"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("^a("), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("a.{key}"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "topic"},
        {{.topic = STR_INIT("a"), .key = STR_INIT("(?<x>"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "key"},
        {{.topic = STR_INIT("a.{x}"), .key = STR_INIT("(?<x>.)"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("t")}, "key"},
        {{.topic = STR_INIT("a"), .mqtt = STR_INIT("in/{d}"), .tenant = STR_INIT("t")}, "mqtt"},
        {{.topic = STR_INIT("a"), .mqtt = STR_INIT(""), .tenant = STR_INIT("t")}, "mqtt"},
        {{.topic = STR_INIT("a"), .mqtt = STR_INIT("$share/g/a"), .tenant = STR_INIT("t")}, "mqtt"},
        {{.topic = STR_INIT("a"), .mqtt = STR_INIT("in")}, "tenant"},
        {{.topic = STR_INIT("a"), .mqtt = STR_INIT("in"), .tenant = STR_INIT("{nobody}")}, "tenant"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct to_mqtt_rules *rules = to_mqtt_rules_new(128);
        struct to_mqtt_fault fault;
        err e = to_mqtt_rules_add(rules, &cases[i].spec, &fault);

        assert_int_equal(e == E_OK, cases[i].field == NULL);
        assert_int_equal(to_mqtt_rules_count(rules), e == E_OK);
        if (cases[i].field) {
            assert_string_equal(fault.field, cases[i].field);
            assert_true(fault.ei.text[0] != '\0');
        }
        to_mqtt_rules_unref(rules);
    }
}

struct find_case {
    const char *topic;
    int rule;
};

static void the_first_rule_with_the_topic_is_found(void **state)
{
    static const struct to_mqtt_spec specs[] = {
        {.topic = STR_INIT("orders"), .mqtt = STR_INIT("a"), .tenant = STR_INIT("t")},
        {.topic = STR_INIT("o.{tenant}"), .mqtt = STR_INIT("b")},
        {.topic = STR_INIT("^or"), .mqtt = STR_INIT("c"), .tenant = STR_INIT("t")},
    };
    static const struct find_case cases[] = {
        {"orders", 0}, {"orders2", 2}, {"o.x", 1}, {"o.x.y", 1}, {"o.", -1}, {"oXx", -1}, {"xor", -1}, {"", -1},
    };
    struct to_mqtt_rules *rules = to_mqtt_rules_new(128);
    struct str groups[TO_MQTT_MAX_GROUPS];
    struct to_mqtt_fault fault;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        assert_int_equal(to_mqtt_rules_add(rules, &specs[i], &fault), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(to_mqtt_rules_find(rules, str_from(cases[i].topic)), cases[i].rule);
    assert_true(to_mqtt_rule_takes_topic(to_mqtt_rules_at(rules, 1), STR("o.x.y"), groups));
    assert_true(str_equal(groups[0], STR("x.y")));
    to_mqtt_rules_unref(to_mqtt_rules_ref(rules));
    to_mqtt_rules_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_found_when_rules_are_put_together),
        cmocka_unit_test(the_first_rule_with_the_topic_is_found),
    };

    return cmocka_run_group_tests_name("to_mqtt_rule", tests, NULL, NULL);
}
