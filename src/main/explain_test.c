#include "main/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/rule_options.h"

static const char config_text[] = "kafka: {bootstrap: k1:9092, topic_prefix: 'p.'}\n"
                                  "hono: {delivery_timeout: 3s}\n"
                                  "listeners:\n"
                                  "  - {mqtt: '127.0.0.1:1883', tenant: demo, anonymous: true}\n"
                                  "  - {mqtt: '127.0.0.1:1884', tenant: demo, tenant_fixed: true, hono: false}\n"
                                  "  - {http: '127.0.0.1:8080'}\n"
                                  "tenants:\n"
                                  "  demo:\n"
                                  "    devices:\n"
                                  "      s1: {auth_id: a1, password: pw}\n"
                                  "      g1: {password: pw}\n"
                                  "      s2: {via: g1, downstream-message-mapper: m}\n"
                                  "      off: {password: pw, enabled: false}\n"
                                  "  other: {devices: {s1: {password: pw}}}\n"
                                  "mappers: {m: {url: 'http://h/'}}\n"
                                  "to_kafka:\n"
                                  "  - {mqtt: 'plant/{site}/#', topic: 'plant.{site}', key: '{user}', headers: {by: "
                                  "'{device_id}'}, create: true, timeout: 5s}\n"
                                  "  - {mqtt: 'two', name: pair, actions: [{topic: a, ack: received}, {topic: b, ack: "
                                  "received, partition: '3'}], local: false}\n"
                                  "  - {mqtt: 'telemetry', topic: plain, mapper: m}\n";

static struct config_errors errors;
static struct config *config;
static struct rule_table *rules;
static struct arena arena;
static struct explanation x;

static int load(void **state)
{
    struct config_source source = {.text = str_from(config_text), .name = "test.yaml"};

    (void)state;
    if (config_load(&source, &config, &errors) != E_OK || rule_options_make(config, source.name, &rules, &errors) != E_OK) {
        print_error("%u: %s\n", errors.items[0].line, errors.items[0].text);
        return -1;
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    arena_free(&arena, MEM_CONFIG);
    rule_table_unref(rules);
    config_unref(config);
    return mem_used(MEM_CONFIG) != 0 || mem_used(MEM_REGISTRY) != 0 || mem_used(MEM_ADAPTER) != 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

static void explain(struct explain_request request)
{
    struct errinfo ei = {0};

    if (!request.client_id.n)
        request.client_id = STR("c1");
    if (explain_publish(&arena, config, rules, &request, &x, &ei) != E_OK)
        fail_msg("%s", ei.text);
}

static void expect_text(struct str got, const char *want)
{
    if (!str_equal(got, str_from(want)))
        fail_msg("'%.*s' instead of '%s'", STR_ARG(got), want);
}

static struct str header(const struct explain_record *r, const char *name)
{
    for (size_t i = 0; i < r->n_headers; i++)
        if (str_equal(r->headers[i].name, str_from(name)))
            return r->headers[i].value;
    return (struct str){0};
}

static void a_rules_records_are_told(void **state)
{
    (void)state;
    explain((struct explain_request){.user = STR("a1@demo"),
                                     .topic = STR("plant/b_1/x"),
                                     .qos = 1,
                                     .payload = STR("42"),
                                     .properties = {{STR("k"), STR("v")}},
                                     .n_properties = 1});
    expect_text(x.refusal, "");
    expect_text(x.route, "to_kafka[0]");
    expect_text(x.filter, "plant/{site}/#");
    expect_text(x.tenant, "demo");
    expect_text(x.device, "s1");
    assert_int_equal(x.n_records, 1);
    expect_text(x.records[0].topic, "p.plant.b__1");
    expect_text(x.records[0].key, "a1@demo");
    expect_text(x.records[0].value, "42");
    expect_text(header(&x.records[0], "by"), "s1");
    expect_text(header(&x.records[0], "k"), "v");
    expect_text(header(&x.records[0], "mqtt.topic"), "plant/b_1/x");
    assert_true(x.records[0].is_creating && x.is_local);
    assert_int_equal(x.records[0].limit_ms, 5000);
    assert_int_equal(x.ack, RULE_ACK_QUORUM);
    explain((struct explain_request){.topic = STR("two"), .retain = true});
    expect_text(x.route, "pair");
    assert_int_equal(x.n_records, 2);
    assert_int_equal(x.ack, RULE_ACK_RECEIVED);
    assert_null(x.records[0].value.p);
    assert_true(x.records[1].has_partition && x.records[1].partition == 3 && !x.is_local);
}

static void a_devices_record_is_told(void **state)
{
    (void)state;
    explain((struct explain_request){.user = STR("a1"), .topic = STR("telemetry"), .qos = 1, .payload = STR("42")});
    expect_text(x.refusal, "");
    expect_text(x.route, "telemetry");
    expect_text(x.records[0].topic, "p.hono.telemetry.demo");
    expect_text(x.records[0].key, "s1");
    expect_text(header(&x.records[0], "orig_address"), "telemetry");
    assert_int_equal(x.records[0].limit_ms, 3000);
    assert_false(x.is_local);
    explain((struct explain_request){.user = STR("g1"), .topic = STR("e//s2"), .qos = 1, .payload = STR("42")});
    expect_text(x.records[0].topic, "p.hono.event.demo");
    expect_text(x.records[0].key, "s2");
    /* The listener that does not know Hono's endpoints. */
    explain((struct explain_request){.user = STR("a1"), .topic = STR("telemetry"), .listener = 1});
    expect_text(x.records[0].topic, "p.plain");
}

static void a_mapper_is_named(void **state)
{
    (void)state;
    explain((struct explain_request){.user = STR("g1"), .topic = STR("event//s2"), .payload = STR("x"), .qos = 1});
    expect_text(x.mapper, "m");
    explain((struct explain_request){.user = STR("g1"), .topic = STR("event"), .payload = STR("x"), .qos = 1});
    expect_text(x.mapper, "");
    explain((struct explain_request){.listener = 1, .user = STR("g1"), .topic = STR("telemetry"), .payload = STR("x")});
    expect_text(x.mapper, "m");
}

static void an_ordinary_topic_goes_to_subscribers(void **state)
{
    (void)state;
    explain((struct explain_request){.topic = STR("x/y")});
    expect_text(x.refusal, "");
    expect_text(x.route, "mqtt");
    assert_int_equal(x.n_records, 0);
    assert_true(x.is_local);
}

static void refusals_are_told_with_their_codes(void **state)
{
    char deep[300] = "plant/";
    const struct {
        const char *user, *topic, *payload, *refusal;
        size_t listener;
        uint8_t qos, code;
    } rows[] = {
        {"a1@demo", "event", "x", "bad_request", 0, 0, 0x83},
        {"a1@demo", "telemetry//s2", "x", "forbidden", 0, 1, 0x87},
        {"g1@demo", "telemetry//nope", "x", "not_found", 0, 1, 0x90},
        {"", "telemetry", "x", "forbidden", 0, 1, 0x87},
        {"a1@demo", "telemetry", "", "bad_request", 0, 1, 0x83},
        {"", deep, "x", "topic_too_long", 0, 1, 0x90},
        {"", "$SYS/x", "x", "forbidden", 0, 1, 0x87},
        {"nobody@demo", "x", "x", "the CONNECT is refused: no such user", 0, 1, 0},
        {"off@demo", "x", "x", "the CONNECT is refused: tenant or device is disabled", 0, 1, 0},
        {"s1@other", "x", "x", "the CONNECT is refused: the listener serves another tenant", 1, 1, 0},
        {"", "x", "x", "the CONNECT is refused: the listener does not let anonymous clients in", 1, 1, 0},
    };

    (void)state;
    memset(deep + 6, 'a', sizeof deep - 7);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        explain((struct explain_request){.user = str_from(rows[i].user),
                                         .topic = str_from(rows[i].topic),
                                         .payload = str_from(rows[i].payload),
                                         .qos = rows[i].qos,
                                         .listener = rows[i].listener});
        expect_text(x.refusal, rows[i].refusal);
        assert_int_equal(x.reason_code, rows[i].code);
    }
}

static void a_response_to_a_command_is_told(void **state)
{
    static const struct {
        const char *user, *topic, *device;
    } rows[] = {
        {"a1@demo", "command///res/203abc/200", "s1"},
        {"a1@demo", "c///res/203abc/404/?content-type=text%2Fplain", "s1"},
        {"g1@demo", "command//s2/res/203abc/200", "s2"},
        {"g1@demo", "command/demo/s2/res/203abc/200", "s2"}, /* whose mapper has no part in it */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        explain((struct explain_request){
            .user = str_from(rows[i].user), .topic = str_from(rows[i].topic), .payload = STR("done"), .qos = 1});
        expect_text(x.refusal, "");
        expect_text(x.route, "command");
        expect_text(x.mapper, "");
        assert_int_equal(x.n_records, 1);
        expect_text(x.records[0].topic, "p.hono.command_response.demo");
        expect_text(header(&x.records[0], "correlation-id"), "abc");
        expect_text(header(&x.records[0], "device_id"), rows[i].device);
        assert_false(x.is_local);
        assert_int_equal(x.ack, RULE_ACK_QUORUM);
    }
}

static void a_refusal_says_why(void **state)
{
    static const struct {
        const char *topic, *payload, *refusal, *part;
    } rows[] = {
        {"command///res/xyz/200", "x", "bad_request", "request id"},
        {"command///res/203abc/999", "x", "bad_request", "status"},
        {"command///res", "x", "bad_request", "segments"},
        {"error", "x", "not_found", ""},
        {"telemetry", "", "bad_request", "empty"},
        {"telemetry//s2", "x", "forbidden", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        explain((struct explain_request){
            .user = STR("a1@demo"), .topic = str_from(rows[i].topic), .payload = str_from(rows[i].payload), .qos = 1});
        if (!str_equal(x.refusal, str_from(rows[i].refusal)) || !memmem(x.why.p, x.why.n, rows[i].part, strlen(rows[i].part)))
            fail_msg("%s: %.*s, %.*s", rows[i].topic, STR_ARG(x.refusal), STR_ARG(x.why));
    }
}

static void a_faulty_request_is_an_error(void **state)
{
    const struct explain_request requests[] = {
        {.client_id = STR("c"), .topic = STR("a/#")},
        {.client_id = STR("c"), .topic = STR("")},
        {.client_id = STR("c"), .topic = STR("a"), .qos = 3},
        {.client_id = STR("c"), .topic = STR("a"), .listener = 2}, /* for HTTP */
        {.client_id = STR("c"), .topic = STR("a"), .listener = 3},
        {.topic = STR("a")},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct errinfo ei = {0};

        assert_int_equal(explain_publish(&arena, config, rules, &requests[i], &x, &ei), E_INVAL);
        assert_true(ei.text[0]);
    }
}

static const char *print(const struct explain_request *request, bool is_json)
{
    static char text[4000];
    FILE *to = fmemopen(text, sizeof text, "w");
    struct errinfo ei;

    assert_int_equal(explain_publish(&arena, config, rules, request, &x, &ei), E_OK);
    if (is_json)
        assert_int_equal(explain_print_json(to, request, &x), E_OK);
    else
        explain_print_text(to, request, &x);
    fclose(to);
    return text;
}

static void it_is_printed_for_people_and_for_programs(void **state)
{
    struct explain_request taken = {.client_id = STR("c\"1"), .topic = STR("plant/b/x"), .qos = 1, .payload = STR("42")};
    struct explain_request refused = {.client_id = STR("c1"), .topic = STR("telemetry"), .qos = 1};

    (void)state;
    assert_string_equal(print(&taken, false), "listener   listeners[0]\n"
                                              "client     c\"1\n"
                                              "tenant     demo\n"
                                              "route      to_kafka[0]\n"
                                              "filter     plant/{site}/#\n"
                                              "ack        quorum: PUBACK when Kafka has it all\n"
                                              "mqtt       to its subscribers\n"
                                              "\n"
                                              "topic      p.plant.b\n"
                                              "           made if it is missing\n"
                                              "key        (none)\n"
                                              "partition  any: there is no key\n"
                                              "headers    mqtt.topic: plant/b/x\n"
                                              "           mqtt.qos: 1\n"
                                              "           mqtt.retain: false\n"
                                              "           mqtt.client_id: c\"1\n"
                                              "           mqtt.hops: 1\n"
                                              "           mqtt.origin: demo/c\"1\n"
                                              "           by: \n"
                                              "value      2 bytes\n"
                                              "limit      given up after 5000 ms\n");
    assert_string_equal(print(&taken, true),
                        "{\"listener\":\"listeners[0]\",\"client_id\":\"c\\\"1\",\"tenant\":\"demo\",\"route\":\"to_kafka[0]\","
                        "\"filter\":\"plant/{site}/#\",\"ack\":\"quorum\",\"local\":true,\"records\":[{\"topic\":\"p.plant.b\","
                        "\"create\":true,\"headers\":[{\"name\":\"mqtt.topic\",\"value\":\"plant/b/x\"},"
                        "{\"name\":\"mqtt.qos\",\"value\":\"1\"},{\"name\":\"mqtt.retain\",\"value\":\"false\"},"
                        "{\"name\":\"mqtt.client_id\",\"value\":\"c\\\"1\"},{\"name\":\"mqtt.hops\",\"value\":\"1\"},"
                        "{\"name\":\"mqtt.origin\",\"value\":\"demo/c\\\"1\"},{\"name\":\"by\",\"value\":\"\"}],"
                        "\"value_bytes\":2,\"timeout_ms\":5000}]}\n");
    assert_string_equal(print(&refused, false), "listener   listeners[0]\n"
                                                "client     c1\n"
                                                "tenant     demo\n"
                                                "route      telemetry\n"
                                                "refused    forbidden\n"
                                                "told       MQTT 5: 0x87 Not authorized; 3.1.1: the connection is closed, "
                                                "unless on-error says otherwise\n");
    assert_string_equal(print(&refused, true), "{\"listener\":\"listeners[0]\",\"client_id\":\"c1\",\"tenant\":\"demo\","
                                               "\"route\":\"telemetry\",\"refused\":\"forbidden\",\"reason_code\":135}\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_rules_records_are_told),
        TEST(a_devices_record_is_told),
        TEST(a_mapper_is_named),
        TEST(an_ordinary_topic_goes_to_subscribers),
        TEST(refusals_are_told_with_their_codes),
        TEST(a_response_to_a_command_is_told),
        TEST(a_refusal_says_why),
        TEST(a_faulty_request_is_an_error),
        TEST(it_is_printed_for_people_and_for_programs),
    };

    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
