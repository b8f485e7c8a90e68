#include "core/device_topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

#define T DEVICE_ENDPOINT_TELEMETRY
#define E DEVICE_ENDPOINT_EVENT
#define C DEVICE_ENDPOINT_COMMAND

static void check(struct str got, const char *want, const char *topic, const char *field)
{
    if (!str_equal(got, str_from(want)))
        fail_msg("%s: %s is '%.*s', not '%s'", topic, field, STR_ARG(got), want);
}

static void data_topics_name_endpoint_tenant_and_device(void **state)
{
    static const struct {
        const char *topic;
        enum device_endpoint endpoint;
        bool is_short;
        const char *tenant;
        const char *device;
    } rows[] = {
        {"telemetry", T, false, "", ""},
        {"t", T, true, "", ""},
        {"event", E, false, "", ""},
        {"e", E, true, "", ""},
        {"telemetry/T/D", T, false, "T", "D"},
        {"t/T/D", T, true, "T", "D"},
        {"event/T/D", E, false, "T", "D"},
        {"e/T/D", E, true, "T", "D"},
        {"telemetry//D", T, false, "", "D"},
        {"t//D", T, true, "", "D"},
        {"event//D", E, false, "", "D"},
        {"e//D", E, true, "", "D"},
        /* Surplus levels (docs/DEVICES.md). */
        {"t/T/D/more", T, true, "T", "D"},
        {"t/T/D/more/and//more/", T, true, "T", "D"},
        {"telemetry//D/x", T, false, "", "D"},
        /* Trailing empty levels. */
        {"telemetry/", T, false, "", ""},
        {"t//", T, true, "", ""},
        {"t/T/D/", T, true, "T", "D"},
        /* Names are compared exactly, and ids are not looked at. */
        {"event/DEFAULT_TENANT/4711", E, false, "DEFAULT_TENANT", "4711"},
        {"e/ten.ant-1/urn:dev=1", E, true, "ten.ant-1", "urn:dev=1"},
        {"t//d?x", T, true, "", "d?x"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_topic got;
        const char *topic = rows[i].topic;

        if (device_topic_parse(str_from(topic), 0, &got) != DEVICE_FAULT_NONE)
            fail_msg("%s: refused", topic);
        if (got.endpoint != rows[i].endpoint || got.is_short != rows[i].is_short)
            fail_msg("%s: endpoint %d, short %d", topic, got.endpoint, got.is_short);
        check(got.tenant, rows[i].tenant, topic, "tenant");
        check(got.device, rows[i].device, topic, "device");
        check(got.path, topic, topic, "path");
        check(got.bag, "", topic, "bag");
        check(got.request_id, "", topic, "request id");
        assert_int_equal(got.status, 0);
    }
}

static void other_topics_are_ordinary_and_leave_everything_empty(void **state)
{
    static const char *const rows[] = {
        "a/b",
        "",
        "/",
        "/telemetry",
        "/t",
        "tele",
        "telemetryx",
        "telemetry1/T/D",
        "Telemetry",
        "T",
        "te",
        "ev",
        "events",
        "E",
        "temp/room",
        "cmd",
        "commands/x",
        "errors",
        "errors/",
        "cars",
        "ce",
        "\xc3\xa9",
        "$SYS/t",
        " t",
        "tt/?hono-ttl=1",
        "t?content-type",
        "telemetry?a=b",
        "/?t",
        "event?x/?content-type=a",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_topic got;

        memset(&got, 0xff, sizeof(got));
        if (device_topic_parse(str_from(rows[i]), 0, &got) != DEVICE_FAULT_NONE || got.endpoint != DEVICE_ENDPOINT_NONE)
            fail_msg("'%s' is taken for an endpoint", rows[i]);
        assert_true(got.tenant.n == 0 && got.device.n == 0 && got.path.n == 0 && got.bag.n == 0);
    }
}

static void the_quick_test_never_denies_an_endpoint(void **state)
{
    static const char *const rows[] = {"telemetry", "t", "event", "e/x/y", "command", "c///s/1/200", "error", "t/?a=b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_true(device_topic_may_match(str_from(rows[i])));
    assert_false(device_topic_may_match(STR("sensors/1")));
    assert_false(device_topic_may_match(STR("/t")));
    assert_false(device_topic_may_match((struct str){0}));
}

static void the_property_bag_begins_at_the_last_slash_and_question_mark(void **state)
{
    static const struct {
        const char *topic;
        const char *path;
        const char *device;
        const char *bag;
    } rows[] = {
        {"t/?content-type=application%2Fjson", "t", "", "content-type=application%2Fjson"},
        {"telemetry//D/?a=b&c=d", "telemetry//D", "D", "a=b&c=d"},
        {"t/T/D/x/?a", "t/T/D/x", "D", "a"},
        {"event/?", "event", "", ""},
        {"t/T/D//?a=b", "t/T/D/", "D", "a=b"},
        {"t//D/?a=b/?c=d", "t//D/?a=b", "D", "c=d"},
        {"t//D/?a=b?c=d??", "t//D", "D", "a=b?c=d??"},
        {"t//D/?a=b/c", "t//D", "D", "a=b/c"},
        {"t//D?a=b", "t//D?a=b", "D?a=b", ""},
        {"t//D/x?a=b", "t//D/x?a=b", "D", ""},
        {"t//?a", "t/", "", "a"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_topic got;
        const char *topic = rows[i].topic;

        if (device_topic_parse(str_from(topic), 0, &got) != DEVICE_FAULT_NONE)
            fail_msg("%s: refused", topic);
        check(got.path, rows[i].path, topic, "path");
        check(got.device, rows[i].device, topic, "device");
        check(got.bag, rows[i].bag, topic, "bag");
    }
}

static void command_responses_name_request_and_status(void **state)
{
    static const struct {
        const char *topic;
        bool is_short;
        const char *tenant;
        const char *device;
        const char *request_id;
        unsigned status;
    } rows[] = {
        {"command///res/203abc/200", false, "", "", "203abc", 200},
        {"c///s/203abc/200", true, "", "", "203abc", 200},
        {"c///res/R/599", true, "", "", "R", 599}, /* names may be mixed */
        {"command///s/R/400", false, "", "", "R", 400},
        {"command//D/res/R/299", false, "", "D", "R", 299},
        {"command/T/D/res/R/404", false, "T", "D", "R", 404},
        {"c//D/s/R/503", true, "", "D", "R", 503},
        {"c///q/R/200", true, "", "", "R", 200}, /* the fourth level is not validated */
        {"c///s/R/200/more/levels", true, "", "", "R", 200},
        {"c///s/R/200/?on-error=ignore", true, "", "", "R", 200},
        {"c///s/R/0204", true, "", "", "R", 204},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_topic got;
        const char *topic = rows[i].topic;

        if (device_topic_parse(str_from(topic), 0, &got) != DEVICE_FAULT_NONE)
            fail_msg("%s: refused", topic);
        assert_int_equal(got.endpoint, C);
        assert_int_equal(got.is_short, rows[i].is_short);
        check(got.tenant, rows[i].tenant, topic, "tenant");
        check(got.device, rows[i].device, topic, "device");
        check(got.request_id, rows[i].request_id, topic, "request id");
        assert_int_equal(got.status, rows[i].status);
    }
}

static void faulty_topics_have_a_fault_and_keep_their_bag(void **state)
{
    static const struct {
        const char *topic;
        enum device_fault fault;
        int status;
        enum device_endpoint endpoint;
        const char *bag;
    } rows[] = {
        {"t/T", DEVICE_FAULT_NO_DEVICE, 400, T, ""},
        {"telemetry/T", DEVICE_FAULT_NO_DEVICE, 400, T, ""},
        {"event/T/", DEVICE_FAULT_NO_DEVICE, 400, E, ""},
        {"e/T//x", DEVICE_FAULT_NO_DEVICE, 400, E, ""},
        {"t/T/?on-error=ignore", DEVICE_FAULT_NO_DEVICE, 400, T, "on-error=ignore"},
        {"c/T//s/R/200", DEVICE_FAULT_NO_DEVICE, 400, C, ""},
        {"error", DEVICE_FAULT_ENDPOINT, 404, DEVICE_ENDPOINT_ERROR, ""},
        {"error///telemetry/1/503", DEVICE_FAULT_ENDPOINT, 404, DEVICE_ENDPOINT_ERROR, ""},
        {"error/?on-error=skip-ack", DEVICE_FAULT_ENDPOINT, 404, DEVICE_ENDPOINT_ERROR, "on-error=skip-ack"},
        {"command", DEVICE_FAULT_FEW_SEGMENTS, 400, C, ""},
        {"c///s", DEVICE_FAULT_FEW_SEGMENTS, 400, C, ""},
        {"c///s/R", DEVICE_FAULT_FEW_SEGMENTS, 400, C, ""},
        {"c///s/R/", DEVICE_FAULT_FEW_SEGMENTS, 400, C, ""},
        {"c///s/R/?a=b", DEVICE_FAULT_FEW_SEGMENTS, 400, C, "a=b"},
        {"c///s//200", DEVICE_FAULT_REQUEST_ID, 400, C, ""},
        {"c///s/R/abc", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/-200", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/199", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/300", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/302", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/399", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/600", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/200x", DEVICE_FAULT_STATUS, 400, C, ""},
        {"c///s/R/18446744073709551816", DEVICE_FAULT_STATUS, 400, C, ""}, /* 2^64 + 200 */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_topic got;
        enum device_fault fault = device_topic_parse(str_from(rows[i].topic), 0, &got);

        if (fault != rows[i].fault || got.endpoint != rows[i].endpoint)
            fail_msg("%s: fault %s, endpoint %d", rows[i].topic, device_fault_name(fault), got.endpoint);
        assert_int_equal(device_fault_status(fault), rows[i].status);
        check(got.bag, rows[i].bag, rows[i].topic, "bag");
    }
}

static void http_knows_long_names_only(void **state)
{
    struct device_topic got;

    (void)state;
    assert_int_equal(device_topic_parse(STR("telemetry/T/D"), DEVICE_TOPIC_LONG_NAMES, &got), DEVICE_FAULT_NONE);
    assert_int_equal(got.endpoint, T);
    check(got.device, "D", "telemetry/T/D", "device");
    assert_int_equal(device_topic_parse(STR("event"), DEVICE_TOPIC_LONG_NAMES, &got), DEVICE_FAULT_NONE);
    assert_int_equal(got.endpoint, E);
    assert_int_equal(device_topic_parse(STR("t/T/D"), DEVICE_TOPIC_LONG_NAMES, &got), DEVICE_FAULT_NONE);
    assert_int_equal(got.endpoint, DEVICE_ENDPOINT_NONE);
    assert_int_equal(device_topic_parse(STR("e"), DEVICE_TOPIC_LONG_NAMES, &got), DEVICE_FAULT_NONE);
    assert_int_equal(got.endpoint, DEVICE_ENDPOINT_NONE);
}

/* A block of exactly the topic's size, so that a sanitizer sees a read past its end. */
static void a_topic_cut_anywhere_is_read_to_its_end_only(void **state)
{
    static const char topic[] = "command/T/D/res/203abc/200/x/?on-error=ignore&content-type=a%2Fb";

    (void)state;
    for (size_t n = 0; n < sizeof(topic); n++) {
        char *copy = malloc(n ? n : 1);
        struct device_topic got;
        enum device_fault fault;

        assert_non_null(copy);
        memcpy(copy, topic, n);
        fault = device_topic_parse((struct str){copy, n}, 0, &got);
        assert_true(got.path.n + got.bag.n <= n);
        if (n >= sizeof("command/T/D/res/203abc/200") - 1 && n < sizeof(topic))
            assert_int_equal(fault, DEVICE_FAULT_NONE);
        free(copy);
    }
}

static void every_endpoint_has_its_long_name(void **state)
{
    (void)state;
    assert_string_equal(device_topic_endpoint_name(DEVICE_ENDPOINT_NONE), "none");
    assert_string_equal(device_topic_endpoint_name(T), "telemetry");
    assert_string_equal(device_topic_endpoint_name(E), "event");
    assert_string_equal(device_topic_endpoint_name(C), "command");
    assert_string_equal(device_topic_endpoint_name(DEVICE_ENDPOINT_ERROR), "error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_topics_name_endpoint_tenant_and_device),
        cmocka_unit_test(other_topics_are_ordinary_and_leave_everything_empty),
        cmocka_unit_test(the_quick_test_never_denies_an_endpoint),
        cmocka_unit_test(the_property_bag_begins_at_the_last_slash_and_question_mark),
        cmocka_unit_test(command_responses_name_request_and_status),
        cmocka_unit_test(faulty_topics_have_a_fault_and_keep_their_bag),
        cmocka_unit_test(http_knows_long_names_only),
        cmocka_unit_test(a_topic_cut_anywhere_is_read_to_its_end_only),
        cmocka_unit_test(every_endpoint_has_its_long_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
