#include "main/kafka_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static struct config *load(const char *text)
{
    static struct config_errors errors;
    struct config_source source = {.text = str_from(text), .name = "test.yaml"};
    struct config *config = NULL;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return config;
}

static void settings_are_those_of_the_file(void **state)
{
    struct config *config =
        load("kafka: {bootstrap: k:9092, topic_prefix: x., max_inflight_bytes: 5MiB, properties: {linger.ms: 5}}\n"
             "listeners: [{mqtt: \"a:1\"}]\nhono: {delivery_timeout: 3s}\n");
    struct kafka_settings settings;
    struct arena a = {0};

    (void)state;
    kafka_options_make(&a, config, &settings);
    assert_true(str_equal(settings.bootstrap, STR("k:9092")) && str_equal(settings.topic_prefix, STR("x.")));
    assert_false(settings.is_embedded);
    assert_int_equal(settings.max_inflight_bytes, 5 << 20);
    assert_int_equal(settings.n_properties, 1);
    assert_true(str_equal(settings.properties[0].name, STR("linger.ms")) && str_equal(settings.properties[0].value, STR("5")));
    assert_int_equal(settings.n_time_limits, 1);
    assert_int_equal(settings.time_limits[0].limit_ms, 3000);
    arena_free(&a, MEM_CONFIG);
    config_unref(config);
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

static void librdkafka_is_asked_about_every_property(void **state)
{
    struct config *good = load("kafka: {embedded: true, properties: {compression.type: lz4}}\nlisteners: [{mqtt: \"a:1\"}]\n");
    struct config *bad = load("kafka: {embedded: true, properties: {compresion.type: lz4}}\nlisteners: [{mqtt: \"a:1\"}]\n");
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(kafka_options_check(good, &ei), E_OK);
    assert_int_equal(kafka_options_check(bad, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "compresion.type"));
    config_unref(good);
    config_unref(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_those_of_the_file),
        cmocka_unit_test(librdkafka_is_asked_about_every_property),
    };

    return cmocka_run_group_tests_name("kafka_options", tests, NULL, NULL);
}
