#include "core/to_mqtt_route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"

enum { NOW_MS = 1000000 };

static const struct to_mqtt_spec specs[] = {
    {.topic = STR_INIT("o.{tenant}"),
     .key = STR_INIT("^(?<d>[^.]+)\\.(?<kind>.+)$"),
     .mqtt = STR_INIT("in/{d}/{kind}"),
     .qos = 1},
    {.topic = STR_INIT("^o\\."), .key = STR_INIT("^bad:(?<x>.*)$"), .mqtt = STR_INIT("bad/{x#}"), .tenant = STR_INIT("t")},
    {.topic = STR_INIT("^o\\."), .key = STR_INIT("^(a+)+$"), .mqtt = STR_INIT("never"), .tenant = STR_INIT("t")},
};

struct map_case {
    const char *key, *header, *value;
    enum to_mqtt_refusal refusal;
    const char *tenant, *topic; /* when it is not refused */
};

static struct to_mqtt_rules *make_rules(void)
{
    struct to_mqtt_rules *rules = to_mqtt_rules_new(4);
    struct to_mqtt_fault fault;

    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        assert_int_equal(to_mqtt_rules_add(rules, &specs[i], &fault), E_OK);
    return rules;
}

static void a_record_is_mapped_by_the_first_rule_that_takes_its_key(void **state)
{
    static const struct map_case cases[] = {
        {"dev-1.status", NULL, NULL, TO_MQTT_REFUSED_NOTHING, "acme", "in/dev-1/status"},
        {"dev-1.a.b", NULL, NULL, TO_MQTT_REFUSED_NOTHING, "acme", "in/dev-1/a.b"},
        {"nothing here", NULL, NULL, TO_MQTT_REFUSED_NO_RULE, NULL, NULL},
        {NULL, NULL, NULL, TO_MQTT_REFUSED_NO_RULE, NULL, NULL},
        {"a/b.c", NULL, NULL, TO_MQTT_REFUSED_TOPIC, NULL, NULL},
        {"+.c", NULL, NULL, TO_MQTT_REFUSED_TOPIC, NULL, NULL},
        {"bad:x/y", NULL, NULL, TO_MQTT_REFUSED_NOTHING, "t", "bad/x/y"},
        {"bad:1/2/3", NULL, NULL, TO_MQTT_REFUSED_NOTHING, "t", "bad/1/2/3"},
        {"bad:1/2/3/4", NULL, NULL, TO_MQTT_REFUSED_TOPIC, NULL, NULL},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", NULL, NULL, TO_MQTT_REFUSED_MATCH, NULL, NULL},
        {"d.k", "mqtt.hops", "8", TO_MQTT_REFUSED_NOTHING, "acme", "in/d/k"},
        {"d.k", "mqtt.hops", "9", TO_MQTT_REFUSED_HOPS, NULL, NULL},
        {"d.k", "mqtt.hops", "x", TO_MQTT_REFUSED_NOTHING, "acme", "in/d/k"},
        {"d.k", "mqtt.expiry_s", "11", TO_MQTT_REFUSED_NOTHING, "acme", "in/d/k"},
        {"d.k", "mqtt.expiry_s", "10", TO_MQTT_REFUSED_EXPIRED, NULL, NULL},
    };
    struct to_mqtt_rules *rules = make_rules();
    struct to_mqtt_route *route = to_mqtt_route_new(rules, STR("o.acme"));
    struct source_partition partition = {.topic = STR("o.acme"), .number = 3};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct record_header header = {str_from(cases[i].header), str_from(cases[i].value)};
        struct source_record r = {.partition = &partition,
                                  .key = str_from(cases[i].key),
                                  .headers = &header,
                                  .n_headers = cases[i].header != NULL,
                                  .timestamp_ms = NOW_MS - 10000};
        struct to_mqtt_message m = {0};

        assert_int_equal(to_mqtt_route_map(route, &r, NOW_MS, &m), cases[i].refusal);
        if (cases[i].refusal != TO_MQTT_REFUSED_NOTHING)
            continue;
        assert_true(str_equal(m.tenant, str_from(cases[i].tenant)));
        assert_true(str_equal(m.topic, str_from(cases[i].topic)));
    }
    to_mqtt_route_free(route);
    to_mqtt_route_free(NULL);
    to_mqtt_rules_unref(rules);
}

static void a_time_to_live_counts_from_when_the_record_was_made(void **state)
{
    static const struct record_header headers[] = {{STR_INIT("mqtt.expiry_s"), STR_INIT("60")}};
    struct to_mqtt_rules *rules = make_rules();
    struct to_mqtt_route *route = to_mqtt_route_new(rules, STR("o.acme"));
    struct source_partition partition = {.topic = STR("o.acme")};
    struct source_record r = {
        .partition = &partition, .key = STR("d.k"), .headers = headers, .n_headers = 1, .timestamp_ms = NOW_MS - 20000};
    struct to_mqtt_message m = {0};

    (void)state;
    assert_int_equal(to_mqtt_route_map(route, &r, NOW_MS, &m), TO_MQTT_REFUSED_NOTHING);
    assert_true(m.has_expiry);
    assert_int_equal(m.expiry_s, 40);
    r.timestamp_ms = -1;
    assert_int_equal(to_mqtt_route_map(route, &r, NOW_MS, &m), TO_MQTT_REFUSED_NOTHING);
    assert_int_equal(m.expiry_s, 60);
    to_mqtt_route_free(route);
    to_mqtt_rules_unref(rules);
}

static void headers_become_properties(void **state)
{
    static const struct record_header headers[] = {
        {STR_INIT("content-type"), STR_INIT("application/json")},
        {STR_INIT("traceparent"), STR_INIT("00-1-2-01")},
        {STR_INIT("mqtt.response_topic"), STR_INIT("answer/here")},
        {STR_INIT("mqtt.correlation_data"), STR_INIT("\x01\x02")},
        {STR_INIT("mqtt.client_id"), STR_INIT("somebody")},
        {STR_INIT("mqtt.hops"), STR_INIT("2")},
        {STR_INIT("mqtt.origin"), STR_INIT("acme/c1")},
        {STR_INIT("binary"), STR_INIT("\xff")},
        {STR_INIT("site"), STR_INIT("north")},
    };
    static const char *const names[] = {"traceparent", "mqtt.hops", "mqtt.origin", "site"};
    struct to_mqtt_rules *rules = make_rules();
    struct to_mqtt_route *route = to_mqtt_route_new(rules, STR("o.acme"));
    struct source_partition partition = {.topic = STR("o.acme")};
    struct source_record r = {.partition = &partition, .key = STR("d.k"), .headers = headers, .n_headers = ARRAY_LEN(headers)};
    struct to_mqtt_message m = {0};
    struct record_header property;
    size_t at = 0, n = 0;

    (void)state;
    assert_int_equal(to_mqtt_route_map(route, &r, NOW_MS, &m), TO_MQTT_REFUSED_NOTHING);
    assert_true(str_equal(m.content_type, STR("application/json")));
    assert_true(str_equal(m.response_topic, STR("answer/here")));
    assert_true(str_equal(m.correlation_data, STR("\x01\x02")));
    while (to_mqtt_route_next_property(&r, &at, &property)) {
        assert_true(n < ARRAY_LEN(names));
        assert_true(str_equal(property.name, str_from(names[n++])));
    }
    assert_int_equal(n, ARRAY_LEN(names));
    to_mqtt_route_free(route);
    to_mqtt_rules_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_mapped_by_the_first_rule_that_takes_its_key),
        cmocka_unit_test(a_time_to_live_counts_from_when_the_record_was_made),
        cmocka_unit_test(headers_become_properties),
    };

    return cmocka_run_group_tests_name("to_mqtt_route", tests, NULL, NULL);
}
