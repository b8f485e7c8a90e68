#include "core/device_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void filters_have_four_levels_and_end_with_hash(void **state)
{
    static const struct {
        const char *filter;
        err want;
        bool is_short;
        bool is_for_all;
        const char *tenant;
        const char *device;
    } rows[] = {
        {"error///#", E_OK, false, false, "", ""},
        {"e///#", E_OK, true, false, "", ""},
        {"error//+/#", E_OK, false, true, "", ""},
        {"e/T/+/#", E_OK, true, true, "T", ""},
        {"error//D/#", E_OK, false, false, "", "D"},
        {"e/T/D/#", E_OK, true, false, "T", "D"},
        {"error/T//#", E_OK, false, false, "T", ""},
        {"error", E_INVAL, false, false, "", ""},
        {"e", E_INVAL, false, false, "", ""},
        {"error/#", E_INVAL, false, false, "", ""},
        {"error//#", E_INVAL, false, false, "", ""},
        {"error////#", E_INVAL, false, false, "", ""},
        {"error/T/D/x/#", E_INVAL, false, false, "", ""},
        {"error/T/D/+", E_INVAL, false, false, "", ""},
        {"error/T/D/", E_INVAL, false, false, "", ""},
        {"error/T/D/telemetry", E_INVAL, false, false, "", ""},
        {"error/T/D", E_INVAL, false, false, "", ""},
        {"error/+/D/#", E_INVAL, false, false, "", ""}, /* as for commands (docs/DEVICES.md) */
        {"e/+/+/#", E_INVAL, false, false, "", ""},
        {"#", E_NOTFOUND, false, false, "", ""},
        {"", E_NOTFOUND, false, false, "", ""},
        {"+/T/D/#", E_NOTFOUND, false, false, "", ""},
        {"errors///#", E_NOTFOUND, false, false, "", ""},
        {"/error///#", E_NOTFOUND, false, false, "", ""},
        {"event///#", E_NOTFOUND, false, false, "", ""},
        {"command///req/#", E_NOTFOUND, false, false, "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_error_filter got = {0};

        if (device_error_parse_filter(str_from(rows[i].filter), &got) != rows[i].want || got.is_short != rows[i].is_short ||
            got.is_for_all != rows[i].is_for_all || !str_equal(got.tenant, str_from(rows[i].tenant)) ||
            !str_equal(got.device, str_from(rows[i].device)))
            fail_msg("%s", rows[i].filter);
    }
}

static struct device_error_filter filter(const char *text)
{
    struct device_error_filter f;

    assert_int_equal(device_error_parse_filter(str_from(text), &f), E_OK);
    return f;
}

static void errors_go_to_subscriptions_of_the_device_or_the_sender(void **state)
{
    static const struct {
        const char *filter;
        const char *sender;
        const char *device;
        bool want;
    } rows[] = {
        {"error///#", "d1", "", true},      {"error///#", "d1", "d1", true},    {"error//d1/#", "d1", "", true},
        {"error/t1/d1/#", "d1", "", true},  {"error/t2/d1/#", "d1", "", false}, {"error//+/#", "g1", "d1", true},
        {"error///#", "g1", "d1", true},    {"error//g1/#", "g1", "d1", true},  {"error//d1/#", "g1", "d1", true},
        {"error//d2/#", "g1", "d1", false}, {"error//d2/#", "g1", "", false},   {"error/t1/+/#", "g1", "d1", true},
        {"error/t1/d1/#", "", "d1", true},  {"error/t1/d2/#", "", "d1", false}, {"error///#", "", "d1", false},
        {"error//+/#", "", "d1", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_error_filter f = filter(rows[i].filter);
        struct device_error e = {.sender = str_from(rows[i].sender), .device = str_from(rows[i].device), .tenant = STR("t1")};

        if (device_error_matches(&f, &e) != rows[i].want)
            fail_msg("%s, sender '%s', device '%s'", rows[i].filter, rows[i].sender, rows[i].device);
    }
}

static void topics_repeat_what_the_filter_named(void **state)
{
    static const struct {
        const char *filter;
        enum device_endpoint endpoint;
        bool is_short;
        const char *sender;
        const char *device;
        const char *correlation_id;
        uint16_t packet_id;
        int status;
        const char *want;
    } rows[] = {
        /* Section 11, item 6. */
        {"error///#", DEVICE_ENDPOINT_TELEMETRY, false, "d1", "", "", 7, 503, "error///telemetry/7/503"},
        /* Kinds. */
        {"e///#", DEVICE_ENDPOINT_TELEMETRY, true, "d1", "", "", 7, 503, "e///t/7/503"},
        {"error///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "", 7, 400, "error///e/7/400"},
        {"e///#", DEVICE_ENDPOINT_EVENT, false, "d1", "", "", 7, 400, "e///event/7/400"},
        {"e///#", DEVICE_ENDPOINT_COMMAND, false, "d1", "", "", 7, 400, "e///command-response/7/400"},
        {"e///#", DEVICE_ENDPOINT_COMMAND, true, "d1", "", "", 7, 400, "e///c-s/7/400"},
        {"e///#", DEVICE_ENDPOINT_NONE, false, "d1", "", "", 7, 404, "e///unknown/7/404"},
        {"e///#", DEVICE_ENDPOINT_ERROR, false, "d1", "", "", 7, 404, "e///unknown/7/404"},
        /* Tenant and device. */
        {"e/T/D/#", DEVICE_ENDPOINT_TELEMETRY, true, "D", "", "", 7, 503, "e/T/D/t/7/503"},
        {"e/T//#", DEVICE_ENDPOINT_TELEMETRY, true, "D", "", "", 7, 503, "e/T//t/7/503"},
        {"e//D/#", DEVICE_ENDPOINT_TELEMETRY, true, "D", "D", "", 7, 503, "e//D/t/7/503"},
        {"e///#", DEVICE_ENDPOINT_TELEMETRY, true, "D", "D", "", 7, 503, "e///t/7/503"},
        {"e//+/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "D", "", 7, 403, "e//D/t/7/403"},
        {"e/T/+/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "D", "", 7, 403, "e/T/D/t/7/403"},
        {"e//+/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "", "", 7, 503, "e///t/7/503"},
        {"e///#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "D", "", 7, 403, "e//D/t/7/403"},
        {"e//G/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "D", "", 7, 403, "e//D/t/7/403"},
        {"e//G/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "", "", 7, 503, "e//G/t/7/503"},
        {"e//D/#", DEVICE_ENDPOINT_TELEMETRY, true, "G", "D", "", 7, 503, "e//D/t/7/503"},
        {"e/T/D/#", DEVICE_ENDPOINT_TELEMETRY, true, "", "D", "", 7, 503, "e/T/D/t/7/503"},
        /* The id. */
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "my id", 7, 400, "e///e/my id/400"},
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "", 65535, 400, "e///e/65535/400"},
        {"e///#", DEVICE_ENDPOINT_TELEMETRY, true, "d1", "", "", 0, 400, "e///t/-1/400"},
        {"e///#", DEVICE_ENDPOINT_TELEMETRY, true, "d1", "", "c", 0, 400, "e///t/c/400"},
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "a/b", 7, 400, "e///e/7/400"}, /* no topic level */
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "a+", 7, 400, "e///e/7/400"},
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "#", 7, 400, "e///e/7/400"},
        {"e///#", DEVICE_ENDPOINT_EVENT, true, "d1", "", "\xff", 0, 400, "e///e/-1/400"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_error_filter f = filter(rows[i].filter);
        struct device_error e = {.endpoint = rows[i].endpoint,
                                 .is_short = rows[i].is_short,
                                 .sender = str_from(rows[i].sender),
                                 .device = str_from(rows[i].device),
                                 .tenant = STR("T"),
                                 .correlation_id = str_from(rows[i].correlation_id),
                                 .packet_id = rows[i].packet_id,
                                 .status = rows[i].status};
        char out[128];
        size_t n = 0;

        assert_true(device_error_matches(&f, &e));
        assert_int_equal(device_error_format_topic(&f, &e, out, sizeof(out), &n), E_OK);
        assert_string_equal(out, rows[i].want);
        assert_int_equal(n, strlen(rows[i].want));
    }
}

static void the_body_is_json(void **state)
{
    static const struct {
        int status;
        const char *message;
        const char *correlation_id;
        uint16_t packet_id;
        uint64_t time_ms;
        const char *want;
    } rows[] = {
        {503, "away", "", 7, 1717000000123,
         "{\"code\":503,\"message\":\"away\",\"timestamp\":\"2024-05-29T16:26:40.123Z\",\"correlation-id\":\"7\"}"},
        {400, "", "abc", 7, 0,
         "{\"code\":400,\"message\":\"\",\"timestamp\":\"1970-01-01T00:00:00.000Z\",\"correlation-id\":\"abc\"}"},
        {404, "x", "", 0, 951782400007, /* a leap day */
         "{\"code\":404,\"message\":\"x\",\"timestamp\":\"2000-02-29T00:00:00.007Z\",\"correlation-id\":\"-1\"}"},
        {400, "say \"a\\b\"\n\x01", "/+#\"", 7, 1000,
         "{\"code\":400,\"message\":\"say \\\"a\\\\b\\\"\\u000a\\u0001\",\"timestamp\":\"1970-01-01T00:00:01.000Z\","
         "\"correlation-id\":\"/+#\\\"\"}"},
        {400, "\xc3\xa9", "a", 7, 1000,
         "{\"code\":400,\"message\":\"\xc3\xa9\",\"timestamp\":\"1970-01-01T00:00:01.000Z\",\"correlation-id\":\"a\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct device_error e = {.status = rows[i].status,
                                 .message = str_from(rows[i].message),
                                 .correlation_id = str_from(rows[i].correlation_id),
                                 .packet_id = rows[i].packet_id,
                                 .time_ms = rows[i].time_ms};
        char out[256];
        size_t n = 0;

        assert_int_equal(device_error_format_body(&e, out, sizeof(out), &n), E_OK);
        assert_string_equal(out, rows[i].want);
        assert_int_equal(n, strlen(rows[i].want));
    }
}

static void absurd_times_do_no_harm(void **state)
{
    struct device_error e = {.status = 400, .time_ms = UINT64_MAX};
    char out[256];
    size_t n;

    (void)state;
    assert_int_equal(device_error_format_body(&e, out, sizeof(out), &n), E_OK);
}

/* Every size that is too small, in a block of exactly that size, so that a sanitizer sees a write past its end. */
static void too_little_room_is_a_limit(void **state)
{
    struct device_error_filter f = filter("error/tenant/+/#");
    struct device_error e = {.endpoint = DEVICE_ENDPOINT_EVENT,
                             .sender = STR("g"),
                             .device = STR("d\"1"),
                             .status = 503,
                             .correlation_id = STR("some\"id"),
                             .message = STR("a \\ message")};
    char whole[2][256];
    size_t n[2];

    (void)state;
    assert_int_equal(device_error_format_topic(&f, &e, whole[0], sizeof(whole[0]), &n[0]), E_OK);
    assert_int_equal(device_error_format_body(&e, whole[1], sizeof(whole[1]), &n[1]), E_OK);
    for (size_t i = 0; i < 2; i++) {
        for (size_t size = 0; size <= n[i] + 1; size++) {
            char *out = malloc(size ? size : 1);
            size_t length = 12345;
            err got;

            assert_non_null(out);
            got = i == 0 ? device_error_format_topic(&f, &e, out, size, &length)
                         : device_error_format_body(&e, out, size, &length);
            assert_int_equal(got, size > n[i] ? E_OK : E_LIMIT);
            assert_int_equal(length, size > n[i] ? n[i] : 12345);
            free(out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_have_four_levels_and_end_with_hash),
        cmocka_unit_test(errors_go_to_subscriptions_of_the_device_or_the_sender),
        cmocka_unit_test(topics_repeat_what_the_filter_named),
        cmocka_unit_test(the_body_is_json),
        cmocka_unit_test(absurd_times_do_no_harm),
        cmocka_unit_test(too_little_room_is_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
