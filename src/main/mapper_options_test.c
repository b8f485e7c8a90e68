#include "main/mapper_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/rule_table.h"
#include "main/rule_options.h"

#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\n"

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

static void what_names_a_mapper_that_is_there_is_good(void **state)
{
    struct rule_table *table;

    (void)state;
    assert_int_equal(make(BASE "mappers: {m: {url: \"http://h/map\", timeout: 1s}}\n"
                               "tenants: {t: {downstream-message-mapper: m, devices: {d: {downstream-message-mapper: m}}}}\n"
                               "to_kafka: [{mqtt: a, topic: b, mapper: m}]\n",
                          &table),
                     E_OK);
    assert_true(str_equal(rule_table_at(table, 0)->mapper, STR("m")));
    rule_table_unref(table);
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

static void what_cannot_work_is_told_by_line(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *want;
    } rows[] = {
        {"mappers:\n  m: {url: \"ftp://h/\"}\n", 4, "mappers.m.url: does not begin with http://"},
        {"mappers: {m: {}}\n", 3, "mappers.m: url is missing"},
        {"mappers: {mine: {url: \"http://h\"}}\ntenants:\n  t: {downstream-message-mapper: mime}\n", 5,
         "tenant t: downstream-message-mapper names mime, which is none of the mappers (did you mean mine?)"},
        {"tenants:\n  t:\n    devices:\n      d: {downstream-message-mapper: x}\n", 6,
         "device d: downstream-message-mapper names x, which is none of the mappers"},
        {"tenants:\n  t: {upstream-message-mapper: x}\n", 4, "tenant t: upstream-message-mapper names x"},
        {"tenants:\n  t:\n    devices:\n      d: {upstream-message-mapper: x}\n", 6,
         "device d: upstream-message-mapper names x"},
        {"to_kafka:\n  - {mqtt: a, topic: b, mapper: x}\n", 4, "to_kafka[0]: mapper names x, which is none of the mappers"},
        {"mappers: {m: {url: \"http://h\"}}\nto_kafka:\n  - {event: connect, topic: b, mapper: m}\n", 5,
         "to_kafka[0]: an event has no use for a mapper"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[512];
        struct rule_table *table;

        snprintf(text, sizeof text, BASE "%s", rows[i].text);
        assert_int_equal(make(text, &table), E_INVAL);
        if (errors.count != 1 || errors.items[0].line != rows[i].line || !strstr(errors.items[0].text, rows[i].want))
            fail_msg("row %zu: %zu errors, line %u: %s", i, errors.count, errors.items[0].line, errors.items[0].text);
    }
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_names_a_mapper_that_is_there_is_good),
        cmocka_unit_test(what_cannot_work_is_told_by_line),
    };

    return cmocka_run_group_tests_name("mapper_options", tests, NULL, NULL);
}
