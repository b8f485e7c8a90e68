#include "config/config_diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/option.h"

#define BASE                                                                                                                   \
    "kafka: {bootstrap: k1:9092, properties: {linger.ms: 5}}\n"                                                                \
    "listeners:\n"                                                                                                             \
    "  - {mqtt: 127.0.0.1:1883, tenant: t1}\n"
#define TENANTS                                                                                                                \
    "tenants:\n"                                                                                                               \
    "  t1:\n"                                                                                                                  \
    "    defaults: {a: b}\n"                                                                                                   \
    "    devices:\n"                                                                                                           \
    "      d1: {password: one}\n"                                                                                              \
    "      d2: {via: [d1]}\n"

static struct config *load(const char *text)
{
    struct config_source source = {.text = str_from(text), .name = "test.yaml"};
    static struct config_errors errors;
    struct config *config = NULL;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    return config;
}

static void compare(const char *before, const char *after, struct config_diff *out_diff)
{
    struct config *a = load(before), *b = load(after);

    config_diff_make(a, b, out_diff);
    config_unref(a);
    config_unref(b);
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_used(MEM_CONFIG) != 0;
}

/* `path` is what the first change is called, with its line. */
static const struct {
    const char *after, *path;
    unsigned line;
    size_t n, n_fixed;
} cases[] = {
    /* nothing */
    {BASE TENANTS, "", 0, 0, 0},
    {"# another text\n" BASE TENANTS "limits: {receive_maximum: 1000}\n", "", 0, 0, 0},
    {TENANTS BASE, "", 0, 0, 0},
    /* what can change */
    {BASE TENANTS "limits: {receive_maximum: 7}\n", "limits.receive_maximum", 10, 1, 0},
    {BASE TENANTS "log:\n  level: debug\n", "log.level", 11, 1, 0},
    {BASE TENANTS "log: {levels: {mqtt: debug}}\n", "log.levels", 10, 1, 0},
    {BASE TENANTS "      d3: {}\n", "tenants.t1.devices.d3", 10, 1, 0},
    {BASE TENANTS "  t2: {}\n", "tenants.t2", 10, 1, 0},
    {BASE "tenants: {t1: {defaults: {a: c}, devices: {d1: {password: one}, d2: {via: d1}}}}\n", "tenants.t1.defaults", 4, 1, 0},
    {BASE "tenants: {t1: {defaults: {a: b}, devices: {d2: {via: d1}, d1: {password: one}}}}\n", "", 0, 0, 0},
    {BASE "tenants: {t1: {defaults: {a: b}, devices: {d1: {password: two}, d2: {via: d1}}}}\n",
     "tenants.t1.devices.d1.password", 4, 1, 0},
    {BASE "tenants: {t1: {defaults: {a: b}, devices: {d1: {password: one}, d2: {}}}}\n", "tenants.t1.devices.d2.via", 4, 1, 0},
    {BASE "tenants: {t1: {enabled: false, defaults: {a: b}, devices: {d1: {password: one}}}}\n", "tenants.t1.enabled", 4, 2, 0},
    {BASE TENANTS "to_kafka: [{mqtt: 'a/#', topic: a}]\n", "to_kafka", 10, 1, 0},
    {"kafka: {bootstrap: k1:9092, properties: {linger.ms: 5}}\nlisteners: [{mqtt: 127.0.0.1:1883, tenant: t1, anonymous: "
     "true}]\n" TENANTS,
     "listeners[0].anonymous", 2, 1, 0},
    /* what cannot */
    {BASE TENANTS "workers: 3\n", "workers", 10, 1, 1},
    {BASE TENANTS "data_dir: /elsewhere\n", "data_dir", 10, 1, 1},
    {BASE TENANTS "admin: {listen: ''}\n", "admin.listen", 10, 1, 1},
    {BASE "  - {mqtt: 127.0.0.1:1884}\n" TENANTS, "listeners", 2, 1, 1},
    {"kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883, tenant: t1}]\n" TENANTS, "kafka.properties", 0, 1, 1},
    {"kafka: {bootstrap: k2:9092, properties: {linger.ms: 6}}\nlisteners: [{mqtt: 127.0.0.1:1884, tenant: t1}]\n" TENANTS
     "limits: {receive_maximum: 7}\n",
     "kafka.bootstrap", 1, 4, 3},
};

static void every_change_is_told_by_path_and_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config_diff diff;

        compare(BASE TENANTS, cases[i].after, &diff);
        if (diff.n_changes != cases[i].n || diff.n_fixed != cases[i].n_fixed || strcmp(diff.first.path, cases[i].path) != 0 ||
            diff.first.line != cases[i].line)
            fail_msg("case %zu: %zu changes, %zu fixed, %s in line %u", i, diff.n_changes, diff.n_fixed, diff.first.path,
                     diff.first.line);
    }
}

static void what_needs_a_restart_is_listed(void **state)
{
    struct config_diff diff;

    (void)state;
    compare(BASE TENANTS, cases[ARRAY_LEN(cases) - 1].after, &diff);
    assert_string_equal(diff.fixed[0].path, "kafka.bootstrap");
    assert_string_equal(diff.fixed[1].path, "kafka.properties");
    assert_string_equal(diff.fixed[2].path, "listeners[0].mqtt");
    assert_int_equal(diff.fixed[2].line, 2);
}

/* Every option that stands for itself: another value is one change of it, and the table's flag says what becomes of it. */
static void the_table_says_what_can_be_reloaded(void **state)
{
    static const char *const others[OPTION_TYPES] = {
        [OPTION_NUMBER] = "77", [OPTION_SIZE] = "1500KiB", [OPTION_DURATION] = "77s", [OPTION_TEXT] = "other"};

    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char setting[256];
        struct config_setting list[] = {{setting}};
        struct config_source source = {.text = STR(BASE TENANTS), .name = "test.yaml", .settings = list, .setting_count = 1};
        static struct config_errors errors;
        struct config *before = load(BASE TENANTS), *after = NULL;
        struct config_diff diff;

        if (others[o->type] && !strpbrk(o->path, "*[")) {
            snprintf(setting, sizeof setting, "%s=%s", o->path,
                     o->type == OPTION_NUMBER && o->max < 77 ? "5" : others[o->type]);
            if (config_load(&source, &after, &errors) != E_OK)
                fail_msg("%s: %s", setting, errors.items[0].text);
            config_diff_make(before, after, &diff);
            assert_int_equal(diff.n_changes, 1);
            assert_string_equal(diff.first.path, o->path);
            assert_int_equal(diff.first.line, 0);
            assert_int_equal(diff.n_fixed, (o->flags & OPTION_RELOADABLE) == 0);
        }
        config_unref(before);
        config_unref(after);
    }
}

static void many_changes_are_counted(void **state)
{
    static char text[64 * 1024];
    size_t n = (size_t)snprintf(text, sizeof text, "%s  t2:\n    devices:\n", BASE TENANTS);
    struct config_diff diff;

    (void)state;
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "      device-%d: {}\n", i);
    compare(BASE TENANTS "  t2: {}\n", text, &diff);
    assert_int_equal(diff.n_changes, 1000);
    assert_string_equal(diff.first.path, "tenants.t2.devices.device-0");
    compare(text, BASE TENANTS "  t2: {}\n", &diff);
    assert_int_equal(diff.n_changes, 1000);
    assert_int_equal(diff.n_fixed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_change_is_told_by_path_and_line, nothing_is_left),
        cmocka_unit_test_teardown(what_needs_a_restart_is_listed, nothing_is_left),
        cmocka_unit_test_teardown(the_table_says_what_can_be_reloaded, nothing_is_left),
        cmocka_unit_test_teardown(many_changes_are_counted, nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
