#include "config/overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static struct config_errors errors;

/* The tree as one line of YAML-like text, with `'` around quoted scalars. */
static size_t write_node(const struct tree_node *node, char *out, size_t size)
{
    size_t n = 0;

    if (node->kind == TREE_SCALAR)
        return (size_t)snprintf(out, size, node->is_quoted ? "'%.*s'" : "%.*s", STR_ARG(node->text));
    n += (size_t)snprintf(out, size, node->kind == TREE_MAP ? "{" : "[");
    for (const struct tree_node *child = node->first; child; child = child->next) {
        if (child != node->first)
            n += (size_t)snprintf(out + n, size - n, ", ");
        if (node->kind == TREE_MAP)
            n += (size_t)snprintf(out + n, size - n, "%.*s: ", STR_ARG(child->key));
        n += write_node(child, out + n, size - n);
    }
    return n + (size_t)snprintf(out + n, size - n, node->kind == TREE_MAP ? "}" : "]");
}

static void settings_change_the_tree_where_their_path_leads(void **state)
{
    static const struct {
        const char *text, *setting, *want;
    } rows[] = {
        {"", "workers=3", "{workers: '3'}"},
        {"workers: 2", "workers=3", "{workers: '3'}"},
        {"", "limits.receive_maximum=", "{limits: {receive_maximum: ''}}"},
        {"limits:", "limits.receive_maximum=1", "{limits: {receive_maximum: '1'}}"},
        {"", "kafka.properties.a.b.c=x=y", "{kafka: {properties: {a.b.c: 'x=y'}}}"},
        {"", "kafka.properties.a={b}", "{kafka: {properties: {a: '{b}'}}}"},
        {"", "kafka.properties={a: b}", "{kafka: {properties: {a: b}}}"},
        {"listeners: [{mqtt: a}]", "listeners[0].mqtt=[::1]:1", "{listeners: [{mqtt: '[::1]:1'}]}"},
        {"listeners: [{mqtt: a}]", "listeners[1].mqtt=b", "{listeners: [{mqtt: a}, {mqtt: 'b'}]}"},
        {"listeners: [{mqtt: a}, {http: b}, {http: c}]", "listeners[http].http=d",
         "{listeners: [{mqtt: a}, {http: 'd'}, {http: c}]}"},
        {"listeners: [{mqtt: a}]", "listeners[http].http=b", "{listeners: [{mqtt: a}, {http: 'b'}]}"},
        {"", "listeners[http].http=b", "{listeners: [{http: 'b'}]}"},
        {"listeners: [{mqtt: a}]", "listeners=[]", "{listeners: []}"},
        {"listeners: [{mqtt: a}]", "listeners[0]={mqtt: b}", "{listeners: [{mqtt: b}]}"},
        {"", "tenants.demo.enabled=false", "{tenants: {demo: {enabled: 'false'}}}"},
        {"", "tenants.\"a.b\".devices.\"c.d\".via=[x]", "{tenants: {a.b: {devices: {c.d: {via: [x]}}}}}"},
        {"", "tenants.demo.adapters[0].type=hono-mqtt", "{tenants: {demo: {adapters: [{type: 'hono-mqtt'}]}}}"},
        {"", "log.levels.mqtt=debug", "{log: {levels: {mqtt: 'debug'}}}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena a = {0};
        struct tree_node *root;
        char got[256];

        errors = (struct config_errors){0};
        assert_int_equal(tree_parse(&a, str_from(rows[i].text), "test.yaml", &root, &errors), E_OK);
        overlay_apply(&a, root, str_from(rows[i].setting), &errors);
        if (errors.count)
            fail_msg("%s: %s", rows[i].setting, errors.items[0].text);
        (void)write_node(root, got, sizeof got);
        assert_string_equal(got, rows[i].want);
        arena_free(&a, MEM_CONFIG);
    }
}

static void a_path_that_leads_nowhere_is_told(void **state)
{
    static const struct {
        const char *text, *setting, *says;
    } rows[] = {
        {"", "workers", "workers: expected PATH=VALUE"},
        {"", "=3", "a name is missing"},
        {"", "limits.=3", "a name is missing"},
        {"", "wokers=3", "wokers: unknown option (did you mean workers?)"},
        {"", "limits.recieve_maximum=3", "unknown option (did you mean receive_maximum?)"},
        {"", "limits.zzz=3", "limits.zzz: unknown option"},
        {"", "workers.x=3", "unknown option"},
        {"", "workers[0]=3", "expected a dot before [0]"},
        {"", "tenants[0]=3", "expected a dot before [0]"},
        {"", "listeners.mqtt=3", "a list needs the number of an element"},
        {"", "listeners[x].mqtt=3", "a list needs the number of an element"},
        {"", "listeners[1].mqtt=3", "there is no such element"},
        {"", "listeners[0=3", "a list needs the number of an element"},
        {"", "tenants.\"a=3", "a quote is not closed"},
        {"limits: 3", "limits.receive_maximum=3", "the file has no map where this needs one"},
        {"listeners: 3", "listeners[0].mqtt=3", "the file has no list where this needs one"},
        {"", "listeners=[", "not YAML"},
        {"", "listeners=[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]", "nested too deeply"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena a = {0};
        struct tree_node *root;

        errors = (struct config_errors){0};
        assert_int_equal(tree_parse(&a, str_from(rows[i].text), "test.yaml", &root, &errors), E_OK);
        overlay_apply(&a, root, str_from(rows[i].setting), &errors);
        if (errors.count != 1 || !strstr(errors.items[0].text, rows[i].says))
            fail_msg("%s: %zu errors, %s", rows[i].setting, errors.count, errors.items[0].text);
        assert_string_equal(errors.items[0].file, "command line");
        arena_free(&a, MEM_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_change_the_tree_where_their_path_leads),
        cmocka_unit_test(a_path_that_leads_nowhere_is_told),
    };

    return cmocka_run_group_tests_name("overlay", tests, NULL, NULL);
}
