#include "core/rule_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static struct rule_table *table;
static struct rule_scratch scratch;

/* User properties as `name=value;` after one another. */
static bool next_property(struct str *rest, struct str *out_name, struct str *out_value)
{
    bool found;

    if (rest->n == 0)
        return false;
    *out_value = str_take(rest, ';', &found);
    *out_name = str_take(out_value, '=', &found);
    return true;
}

static int close_table(void **state)
{
    (void)state;
    rule_table_unref(table);
    rule_record_free_scratch(&scratch);
    return mem_used(MEM_CONFIG) != 0 || mem_used(MEM_ADAPTER) != 0;
}

static void open_table(const char *filter, const struct rule_action_spec *actions, size_t n)
{
    struct rule_spec spec = {.name = STR("r"), .filter = str_from(filter), .actions = actions, .n_actions = n};
    struct rule_fault fault;

    spec.source = filter ? RULE_SOURCE_PUBLISH : RULE_SOURCE_DISCONNECT;
    table = rule_table_new(0);
    if (rule_table_add(table, &spec, &fault) != E_OK)
        fail_msg("%s: %s", fault.field, fault.ei.text);
    rule_table_finish(table);
}

static enum rule_refusal make(struct rule_message m)
{
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    const struct rule *rule = rule_table_at(table, 0);

    m.tenant = STR("demo");
    m.client_id = STR("c1");
    m.next_property = next_property;
    if (rule->source == RULE_SOURCE_PUBLISH)
        assert_non_null(rule_table_find(table, m.tenant, m.topic, segments));
    return rule_record_build(rule, &m, segments, 0, &scratch);
}

static const char *headers_of(size_t i)
{
    static char text[1000];
    size_t n = 0;

    text[0] = '\0';
    for (size_t k = 0; k < scratch.records[i].record.n_headers; k++) {
        struct record_header h = scratch.records[i].record.headers[k];

        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=%.*s", k ? ";" : "", STR_ARG(h.name), STR_ARG(h.value));
    }
    return text;
}

static void expect_text(struct str got, const char *want)
{
    if (!str_equal(got, str_from(want)))
        fail_msg("'%.*s' instead of '%s'", STR_ARG(got), want);
}

static void a_message_becomes_a_record_with_all_its_headers(void **state)
{
    static const struct record_header own[] = {{STR_INIT("site"), STR_INIT("{site}/{user_property.k}")}};
    static const struct rule_action_spec action = {
        .topic = STR_INIT("plant.{site}"), .key = STR_INIT("{client_id}/{site}"), .headers = own, .n_headers = 1};

    (void)state;
    open_table("plant/{site}/#", &action, 1);
    assert_int_equal(make((struct rule_message){
                         .topic = STR("plant/b_1/x"),
                         .qos = 1,
                         .payload = STR("21"),
                         .content_type = STR("text/plain"),
                         .response_topic = STR("re"),
                         .has_correlation_data = true,
                         .correlation_data = STR(""),
                         .has_expiry = true,
                         .expiry_s = 4000000000u,
                         .properties = STR("k=v;traceparent=00-a;k=w;mqtt.topic=forged;site=forged;content-type=forged"),
                     }),
                     RULE_REFUSED_NOTHING);
    expect_text(rule_name_str(&scratch.records[0].topic), "plant.b__1");
    expect_text(scratch.records[0].record.key, "c1/b_1"); /* raw */
    expect_text(scratch.records[0].record.value, "21");
    assert_string_equal(headers_of(0),
                        "mqtt.topic=plant/b_1/x;mqtt.qos=1;mqtt.retain=false;mqtt.client_id=c1;content-type=text/plain;"
                        "mqtt.response_topic=re;mqtt.correlation_data=;mqtt.expiry_s=4000000000;mqtt.hops=1;"
                        "mqtt.origin=demo/c1;site=b_1/v;k=v;traceparent=00-a;k=w");
}

static void what_is_not_given_has_no_header(void **state)
{
    static const struct record_header own[] = {{STR_INIT("content-type"), STR_INIT("application/json")}};
    static const struct rule_action_spec actions[] = {{.topic = STR_INIT("a")},
                                                      {.topic = STR_INIT("b"), .headers = own, .n_headers = 1}};

    (void)state;
    open_table("t", actions, 2);
    assert_int_equal(
        make((struct rule_message){
            .topic = STR("t"), .is_retained = true, .payload = STR("x"), .properties = STR("content-type=text/x")}),
        RULE_REFUSED_NOTHING);
    assert_string_equal(headers_of(0), "mqtt.topic=t;mqtt.qos=0;mqtt.retain=true;mqtt.client_id=c1;mqtt.hops=1;"
                                       "mqtt.origin=demo/c1;content-type=text/x");
    assert_string_equal(headers_of(1), "mqtt.topic=t;mqtt.qos=0;mqtt.retain=true;mqtt.client_id=c1;mqtt.hops=1;"
                                       "mqtt.origin=demo/c1;content-type=application/json");
    assert_int_equal(scratch.records[0].record.key.n, 0);
    assert_false(scratch.records[0].record.has_partition);
}

/* aklivity/zilla#1164 */
static void only_an_empty_retained_publish_is_null(void **state)
{
    static const struct rule_action_spec action = {.topic = STR_INIT("a")};

    (void)state;
    open_table("t", &action, 1);
    assert_int_equal(make((struct rule_message){.topic = STR("t"), .is_retained = true}), RULE_REFUSED_NOTHING);
    assert_null(scratch.records[0].record.value.p);
    assert_int_equal(make((struct rule_message){.topic = STR("t")}), RULE_REFUSED_NOTHING);
    assert_non_null(scratch.records[0].record.value.p);
    assert_int_equal(scratch.records[0].record.value.n, 0);
}

static void fields_of_the_payload_are_values(void **state)
{
    static const struct rule_action_spec action = {
        .topic = STR_INIT("m.{payload./type}"), .key = STR_INIT("{payload./id}"), .partition = STR_INIT("{payload./p}")};

    (void)state;
    open_table("t", &action, 1);
    assert_int_equal(
        make((struct rule_message){.topic = STR("t"), .payload = STR("{\"id\":\"a\\u002f\\\"b\",\"type\":\"x\\/y\",\"p\":3}")}),
        RULE_REFUSED_NOTHING);
    expect_text(rule_name_str(&scratch.records[0].topic), "m.x_2fy");
    expect_text(scratch.records[0].record.key, "a/\"b");
    assert_true(scratch.records[0].record.has_partition);
    assert_int_equal(scratch.records[0].record.partition, 3);
    assert_int_equal(make((struct rule_message){.topic = STR("t"), .payload = STR("{\"p\":\"x\"}")}), RULE_REFUSED_PARTITION);
    assert_int_equal(make((struct rule_message){.topic = STR("t"), .payload = STR("no json")}), RULE_REFUSED_PARTITION);
}

static void a_topic_that_is_too_long_is_refused(void **state)
{
    static const struct rule_action_spec action = {.topic = STR_INIT("m.{topic}")};
    char topic[RULE_NAME_MAX_BYTES + 1];

    (void)state;
    memset(topic, 'a', sizeof topic);
    open_table("#", &action, 1);
    assert_int_equal(make((struct rule_message){.topic = {topic, RULE_NAME_MAX_BYTES - 2}}), RULE_REFUSED_NOTHING);
    assert_int_equal(make((struct rule_message){.topic = {topic, RULE_NAME_MAX_BYTES - 1}}), RULE_REFUSED_TOPIC_TOO_LONG);
}

static void a_message_that_comes_round_again_is_stopped(void **state)
{
    static const struct rule_action_spec action = {.topic = STR_INIT("a")};
    static const struct {
        const char *properties;
        enum rule_refusal refusal;
        const char *hops, *origin;
    } rows[] = {
        {"", RULE_REFUSED_NOTHING, "1", "demo/c1"},
        {"mqtt.hops=1;mqtt.origin=x/y", RULE_REFUSED_NOTHING, "2", "x/y"},
        {"mqtt.hops=7", RULE_REFUSED_NOTHING, "8", "demo/c1"},
        {"mqtt.hops=8;mqtt.origin=x/y", RULE_REFUSED_HOPS, NULL, NULL},
        {"mqtt.hops=999999", RULE_REFUSED_HOPS, NULL, NULL},
        {"mqtt.hops=x;mqtt.origin=x/y", RULE_REFUSED_NOTHING, "1", "demo/c1"},
        {"mqtt.origin=x/y", RULE_REFUSED_NOTHING, "1", "demo/c1"},
    };

    (void)state;
    open_table("t", &action, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct record *r = &scratch.records[0].record;

        assert_int_equal(make((struct rule_message){.topic = STR("t"), .properties = str_from(rows[i].properties)}),
                         rows[i].refusal);
        if (rows[i].refusal != RULE_REFUSED_NOTHING)
            continue;
        expect_text(r->headers[r->n_headers - 2].value, rows[i].hops);
        expect_text(r->headers[r->n_headers - 1].value, rows[i].origin);
    }
}

static void an_event_has_headers_of_its_own(void **state)
{
    static const struct rule_action_spec action = {.topic = STR_INIT("life"), .key = STR_INIT("{client_id}{payload./reason}")};

    (void)state;
    open_table(NULL, &action, 1);
    assert_int_equal(make((struct rule_message){.event = STR("disconnect"),
                                                .content_type = STR("application/json"),
                                                .payload = STR("{\"reason\":\"x\"}")}),
                     RULE_REFUSED_NOTHING);
    assert_string_equal(headers_of(0), "mqtt.event=disconnect;mqtt.client_id=c1;content-type=application/json");
    expect_text(scratch.records[0].record.key, "c1x");
}

static void scratch_memory_grows_and_may_be_short(void **state)
{
    static const struct rule_action_spec action = {.topic = STR_INIT("a"), .key = STR_INIT("{payload./k}{topic}")};
    char payload[3000] = "{\"k\":\"\\n";

    (void)state;
    open_table("#", &action, 1);
    for (unsigned nth = 1; nth < 4; nth++) {
        mem_fail_after(nth);
        (void)make((struct rule_message){.topic = STR("t"), .payload = STR("{\"k\":\"\\n\"}")});
        mem_fail_after(0);
        rule_record_free_scratch(&scratch);
    }
    assert_int_equal(make((struct rule_message){.topic = STR("t"), .payload = STR("{\"k\":\"\\n\"}")}), RULE_REFUSED_NOTHING);
    memset(payload + 8, 'x', sizeof payload - 10);
    memcpy(payload + sizeof payload - 3, "\"}", 3);
    assert_int_equal(make((struct rule_message){.topic = STR("t"), .payload = str_from(payload)}), RULE_REFUSED_NOTHING);
    assert_int_equal(scratch.records[0].record.key.n, sizeof payload - 3 - 8 + 1 + 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_message_becomes_a_record_with_all_its_headers, close_table),
        cmocka_unit_test_teardown(what_is_not_given_has_no_header, close_table),
        cmocka_unit_test_teardown(only_an_empty_retained_publish_is_null, close_table),
        cmocka_unit_test_teardown(fields_of_the_payload_are_values, close_table),
        cmocka_unit_test_teardown(a_topic_that_is_too_long_is_refused, close_table),
        cmocka_unit_test_teardown(a_message_that_comes_round_again_is_stopped, close_table),
        cmocka_unit_test_teardown(an_event_has_headers_of_its_own, close_table),
        cmocka_unit_test_teardown(scratch_memory_grows_and_may_be_short, close_table),
    };

    return cmocka_run_group_tests_name("rule_record", tests, NULL, NULL);
}
