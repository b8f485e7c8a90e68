#include "main/rule_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "main/rule_options.h"

enum { TEXT_BYTES = 1000 };

static struct config_errors errors;

static struct config *load(const char *rules, struct rule_table **out_table)
{
    char text[TEXT_BYTES];
    struct config_source source = {.name = "test.yaml"};
    struct config *config = NULL;

    snprintf(text, sizeof text, "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\nto_kafka:\n%s", rules);
    source.text = str_from(text);
    if (config_load(&source, &config, &errors) != E_OK || rule_options_make(config, "test.yaml", out_table, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return config;
}

static void a_topic_keeps_its_limit(void **state)
{
    static const struct {
        const char *before, *after, *path; /* NULL: it may change so */
        unsigned line;
    } rows[] = {
        {"  - {mqtt: a, topic: t, timeout: 1s}\n", "  - {mqtt: b, topic: t, timeout: 1s}\n", NULL, 0},
        {"  - {mqtt: a, topic: t, timeout: 1s}\n", "  - {mqtt: a, topic: other}\n", NULL, 0},
        {"  - {mqtt: a, topic: t}\n", "  - {mqtt: x, topic: u, timeout: 2s}\n  - {mqtt: a, topic: t}\n", NULL, 0},
        {"  - {mqtt: a, topic: t, timeout: 1s}\n", "  - {mqtt: a, topic: t}\n", "to_kafka[0].timeout", 4},
        {"  - {mqtt: a, topic: t}\n", "  - {mqtt: x, topic: u}\n  - {mqtt: a, topic: t, timeout: 2s}\n", "to_kafka[1].timeout",
         5},
        {"  - {mqtt: '{x}', topic: 't-{x}'}\n",
         "  - mqtt: a\n    actions:\n    - {topic: u}\n    - {topic: t-1, timeout: 2s}\n", "to_kafka[0].actions[1].timeout", 7},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rule_table *before = NULL, *after = NULL;
        struct config *a = load(rows[i].before, &before), *b = load(rows[i].after, &after);
        err e;

        errors = (struct config_errors){0};
        e = rule_limits_check(before, after, b, "test.yaml", &errors);
        assert_int_equal(e, rows[i].path ? E_INVAL : E_OK);
        assert_int_equal(errors.count, rows[i].path ? 1 : 0);
        if (rows[i].path &&
            (strncmp(errors.items[0].text, rows[i].path, strlen(rows[i].path)) != 0 || errors.items[0].line != rows[i].line))
            fail_msg("row %zu: line %u: %s", i, errors.items[0].line, errors.items[0].text);
        rule_table_unref(before);
        rule_table_unref(after);
        config_unref(a);
        config_unref(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_topic_keeps_its_limit)};

    return cmocka_run_group_tests_name("rule_limits", tests, NULL, NULL);
}
