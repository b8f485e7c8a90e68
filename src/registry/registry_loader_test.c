#include "registry/registry_loader.h"

#include "registry/table_fixture_test.h"

#include "config/config.h"
#include "loop/loop.h"
#include "registry/registry_decide.h"
#include "registry/registry_key.h"

static const char config_text[] = "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n"
                                  "tenants:\n"
                                  "  t1: {devices: {d1: {password: pw}, d2: {via: d1}}}\n"
                                  "  t2: {enabled: false}\n";

static const struct table_ops ops = {.decide = registry_decide};

static struct {
    struct loop loop;
    struct table table;
    struct config *config;
    struct registry_loader loader;
    unsigned n_done;
} t;

static void on_done(struct registry_loader *loader)
{
    (void)loader;
    t.n_done++;
}

static int set_up(void **state)
{
    static struct config_errors errors;
    struct config_source source = {.text = str_from(config_text), .name = "test.yaml"};
    struct errinfo ei = {0};

    (void)state;
    memset(&t, 0, sizeof t);
    t.table.ops = &ops;
    t.loader = (struct registry_loader){.table = &t.table, .home = &t.loop.mailbox, .on_done = on_done};
    if (config_load(&source, &t.config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    return loop_init(&t.loop, 0, &ei) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    config_unref(t.config);
    table_fixture_free(&t.table);
    loop_fini(&t.loop);
    return 0;
}

static void load(void)
{
    registry_loader_start(&t.loader, t.config);
    while (t.loader.config)
        loop_turn(&t.loop, 0);
}

static bool is_there(struct registry_key key)
{
    struct table_item item;

    return table_fixture_get(&t.table, registry_key_str(&key), &item);
}

static void tenants_and_devices_of_the_configuration_are_created(void **state)
{
    (void)state;
    load();
    assert_int_equal(t.n_done, 1);
    assert_int_equal(t.loader.n_created, 4);
    assert_int_equal(t.loader.n_refused, 0);
    assert_true(is_there(registry_key_tenant(STR("t1"))));
    assert_true(is_there(registry_key_tenant(STR("t2"))));
    assert_true(is_there(registry_key_device(STR("t1"), STR("d1"))));
    assert_true(is_there(registry_key_device(STR("t1"), STR("d2"))));
}

static void what_is_there_is_not_asked_for_again(void **state)
{
    (void)state;
    load();
    load();
    assert_int_equal(t.n_done, 2);
    assert_int_equal(t.loader.n_created, 0);
    assert_int_equal(t.loader.n_refused, 0);
}

static void refused_ones_are_counted_and_the_others_created(void **state)
{
    (void)state;
    t.table.next_result = E_DENIED;
    load();
    assert_int_equal(t.n_done, 1);
    assert_int_equal(t.loader.n_created, 0);
    assert_int_equal(t.loader.n_refused, 4);
}

static void one_that_was_stopped_leaves_a_closed_table_alone_when_answers_come(void **state)
{
    (void)state;
    registry_loader_start(&t.loader, t.config);
    assert_true(t.loader.n_asked > 0);
    registry_loader_stop(&t.loader);
    t.table.is_closed = true;
    while (t.loader.config)
        loop_turn(&t.loop, 0);
    assert_int_equal(t.loader.n_asked, 0);
    assert_int_equal(t.n_done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tenants_and_devices_of_the_configuration_are_created, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_there_is_not_asked_for_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_ones_are_counted_and_the_others_created, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_was_stopped_leaves_a_closed_table_alone_when_answers_come, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
