#include "core/device_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

#define TELEMETRY DEVICE_ENDPOINT_TELEMETRY
#define EVENT     DEVICE_ENDPOINT_EVENT
#define NOTIFY    "application/vnd.eclipse-hono-empty-notification"

enum { NO_BOUND = -1, MAX_PAIRS = 2 * (DEVICE_RECORD_MAX_DEFAULTS + 1) };

/* Defaults as a test table writes them: name, value, name, value ..., up to a NULL. */
struct pairs {
    struct str strs[MAX_PAIRS];
    size_t count;
};

static struct device_defaults defaults(struct pairs *pairs, const char *const *texts)
{
    size_t n = 0;

    for (; texts[n]; n++)
        pairs->strs[n] = str_from(texts[n]);
    pairs->count = n / 2;
    return (struct device_defaults){pairs->strs, pairs->count};
}

static struct device_message plain_message(enum device_endpoint endpoint)
{
    return (struct device_message){
        .endpoint = endpoint,
        .qos = 1,
        .device_id = STR("d1"),
        .payload = STR("{\"x\":1}"),
        .address = endpoint == EVENT ? STR("event") : STR("telemetry"),
        .adapter = STR("hono-mqtt"),
        .creation_time_ms = 1717000000000,
    };
}

static void build(const struct device_message *m, struct device_record *r)
{
    enum device_fault fault;

    memset(r, 0xff, sizeof(*r)); /* need not be initialised */
    fault = device_record_build(m, r);
    if (fault)
        fail_msg("%s", device_fault_name(fault));
}

/* The header's value, or NULL; fails when there are two. */
static const struct str *header(const struct device_record *r, const char *name)
{
    const struct str *found = NULL;

    for (size_t i = 0; i < r->record.n_headers; i++) {
        if (!str_equal(r->record.headers[i].name, str_from(name)))
            continue;
        if (found)
            fail_msg("header %s is there twice", name);
        found = &r->record.headers[i].value;
    }
    return found;
}

/* `want` NULL: there is no such header. */
static void check_header(const struct device_record *r, const char *name, const char *want, size_t row)
{
    const struct str *got = header(r, name);

    if (!want && got)
        fail_msg("row %zu: header %s is '%.*s'", row, name, STR_ARG(*got));
    if (want && !got)
        fail_msg("row %zu: no header %s", row, name);
    if (want && !str_equal(*got, str_from(want)))
        fail_msg("row %zu: header %s is '%.*s', not '%s'", row, name, STR_ARG(*got), want);
}

/* docs/wire/device-data.md */
static void plain_telemetry_has_the_mandatory_headers_and_no_other(void **state)
{
    struct device_message m = plain_message(TELEMETRY);
    struct device_record r;

    (void)state;
    build(&m, &r);
    assert_null(r.record.topic);
    assert_true(str_equal(r.record.key, STR("d1")));
    assert_true(str_equal(r.record.value, STR("{\"x\":1}")));
    check_header(&r, "device_id", "d1", 0);
    check_header(&r, "qos", "1", 0);
    check_header(&r, "content-type", "application/octet-stream", 0);
    check_header(&r, "creation-time", "1717000000000", 0);
    check_header(&r, "orig_adapter", "hono-mqtt", 0);
    check_header(&r, "orig_address", "telemetry", 0);
    assert_int_equal(r.record.n_headers, 6);
}

static void qos_0_is_said_and_qos_2_counts_as_1(void **state)
{
    static const char *const want[] = {"0", "1", "1"};

    (void)state;
    for (uint8_t qos = 0; qos < ARRAY_LEN(want); qos++) {
        struct device_message m = plain_message(TELEMETRY);
        struct device_record r;

        m.qos = qos;
        build(&m, &r);
        check_header(&r, "qos", want[qos], qos);
    }
}

static void optional_headers_come_with_their_reason(void **state)
{
    struct device_message m = plain_message(EVENT);
    struct device_record r;

    (void)state;
    m.is_retained = true;
    m.has_ttd = true;
    m.ttd_s = -1;
    m.traceparent = STR("00-1-2-01");
    m.tracestate = STR("k=v");
    m.tenant_id = STR("t1");
    m.gateway_id = STR("g1");
    build(&m, &r);
    check_header(&r, "x-opt-retain", "true", 0);
    check_header(&r, "ttd", "-1", 0);
    check_header(&r, "traceparent", "00-1-2-01", 0);
    check_header(&r, "tracestate", "k=v", 0);
    check_header(&r, "tenant_id", "t1", 0);
    check_header(&r, "gateway_id", "g1", 0);
    check_header(&r, "qos", "1", 0);
    assert_int_equal(r.record.n_headers, 12);
    m.ttd_s = INT32_MIN;
    build(&m, &r);
    check_header(&r, "ttd", "-2147483648", 0);
    m.ttd_s = 0;
    build(&m, &r);
    check_header(&r, "ttd", "0", 0);
}

static void the_trace_context_of_the_protocol_outranks_the_bag(void **state)
{
    static const struct property_bag bag = {.traceparent = STR_INIT("bag"), .tracestate = STR_INIT("bag-state")};
    struct device_message m = plain_message(TELEMETRY);
    struct device_record r;

    (void)state;
    m.bag = &bag;
    build(&m, &r);
    check_header(&r, "traceparent", "bag", 0);
    check_header(&r, "tracestate", "bag-state", 0);
    m.traceparent = STR("protocol");
    build(&m, &r);
    check_header(&r, "traceparent", "protocol", 1);
    check_header(&r, "tracestate", NULL, 1); /* the state of another context would be wrong */
}

/* docs/wire/device-data.md */
static void payload_and_content_type_must_fit_each_other(void **state)
{
    static const struct {
        enum device_endpoint endpoint;
        uint8_t qos;
        const char *payload;
        const char *bag_type;      /* of the property bag */
        const char *protocol_type; /* of MQTT 5 */
        const char *default_type;
        enum device_fault fault;
        const char *want_type;
        bool is_null;
    } rows[] = {
        {TELEMETRY, 1, "x", "", "", NULL, DEVICE_FAULT_NONE, "application/octet-stream", false},
        {TELEMETRY, 1, "x", "a/b", "", NULL, DEVICE_FAULT_NONE, "a/b", false},
        {TELEMETRY, 0, "x", "", "c/d", NULL, DEVICE_FAULT_NONE, "c/d", false},
        {TELEMETRY, 1, "x", "a/b", "c/d", NULL, DEVICE_FAULT_NONE, "a/b", false},
        {TELEMETRY, 1, "x", "", "", "e/f", DEVICE_FAULT_NONE, "e/f", false},
        {TELEMETRY, 1, "x", "", "c/d", "e/f", DEVICE_FAULT_NONE, "c/d", false},
        {TELEMETRY, 1, "x", "a/b", "", "e/f", DEVICE_FAULT_NONE, "a/b", false},
        {TELEMETRY, 1, "x", "", "", "", DEVICE_FAULT_NONE, "application/octet-stream", false},
        {TELEMETRY, 1, "", "", "", NULL, DEVICE_FAULT_EMPTY_PAYLOAD, NULL, false},
        {TELEMETRY, 0, "", "", "", NULL, DEVICE_FAULT_EMPTY_PAYLOAD, NULL, false},
        {EVENT, 1, "", "", "", NULL, DEVICE_FAULT_EMPTY_PAYLOAD, NULL, false},
        {EVENT, 1, "", "", "", "e/f", DEVICE_FAULT_EMPTY_PAYLOAD, NULL, false}, /* a default does not count */
        {EVENT, 1, "", "a/b", "", NULL, DEVICE_FAULT_NONE, "a/b", false},       /* empty, but not null */
        {EVENT, 1, "", "", "c/d", NULL, DEVICE_FAULT_NONE, "c/d", false},
        {EVENT, 1, "", NOTIFY, "", NULL, DEVICE_FAULT_NONE, NOTIFY, true},
        {EVENT, 1, "", "", NOTIFY, NULL, DEVICE_FAULT_NONE, NOTIFY, true},
        {TELEMETRY, 1, "", NOTIFY, "", "e/f", DEVICE_FAULT_NONE, NOTIFY, true},
        {EVENT, 1, "x", NOTIFY, "", NULL, DEVICE_FAULT_NOTIFICATION_PAYLOAD, NULL, false},
        {TELEMETRY, 1, "x", "", NOTIFY, NULL, DEVICE_FAULT_NOTIFICATION_PAYLOAD, NULL, false},
        {EVENT, 1, "x", "a/b", NOTIFY, NULL, DEVICE_FAULT_NONE, "a/b", false},
        {EVENT, 1, "x", "", "", NOTIFY, DEVICE_FAULT_NONE, NOTIFY, false}, /* the operator's choice */
        {EVENT, 0, "x", "", "", NULL, DEVICE_FAULT_EVENT_QOS, NULL, false},
        {EVENT, 2, "x", "", "", NULL, DEVICE_FAULT_NONE, "application/octet-stream", false},
        {EVENT, 0, "", "", "", NULL, DEVICE_FAULT_EVENT_QOS, NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag = {.content_type = str_from(rows[i].bag_type)};
        struct device_message m = plain_message(rows[i].endpoint);
        struct str pair[] = {STR("content-type"), str_from(rows[i].default_type)};
        struct device_record r;
        enum device_fault fault;

        m.qos = rows[i].qos;
        m.payload = str_from(rows[i].payload);
        m.bag = &bag;
        m.content_type = str_from(rows[i].protocol_type);
        if (rows[i].default_type)
            m.device_defaults = (struct device_defaults){pair, 1};
        fault = device_record_build(&m, &r);
        if (fault != rows[i].fault)
            fail_msg("row %zu: %s", i, device_fault_name(fault));
        if (fault)
            continue;
        check_header(&r, "content-type", rows[i].want_type, i);
        if ((r.record.value.p == NULL) != rows[i].is_null || r.record.value.n != m.payload.n)
            fail_msg("row %zu: null or not", i);
    }
}

static void an_empty_payload_without_pointer_is_still_not_null(void **state)
{
    struct device_message m = plain_message(TELEMETRY);
    struct device_record r;

    (void)state;
    m.payload = (struct str){0};
    m.content_type = STR("a/b");
    build(&m, &r);
    assert_non_null(r.record.value.p);
    assert_int_equal(r.record.value.n, 0);
}

/* docs/wire/device-data.md */
static void device_defaults_outrank_those_of_the_tenant(void **state)
{
    static const char *const of_device[] = {"unit", "C", "content-type", "text/plain", NULL};
    static const char *const of_tenant[] = {"unit", "K", "site", "x", "content-type", "a/b", NULL};
    struct pairs device, tenant;
    struct device_message m = plain_message(TELEMETRY);
    struct device_record r;

    (void)state;
    m.device_defaults = defaults(&device, of_device);
    m.tenant_defaults = defaults(&tenant, of_tenant);
    build(&m, &r);
    check_header(&r, "unit", "C", 0);
    check_header(&r, "site", "x", 0);
    check_header(&r, "content-type", "text/plain", 0);
    assert_int_equal(r.record.n_headers, 8);
    m.device_defaults = (struct device_defaults){0};
    build(&m, &r);
    check_header(&r, "unit", "K", 1);
    check_header(&r, "content-type", "a/b", 1);
}

static void reserved_names_never_come_from_defaults(void **state)
{
    static const char *const rows[] = {
        "device_id",    "tenant_id",          "gateway_id",         "qos", "creation-time", "orig_adapter",
        "orig_address", "traceparent",        "tracestate",         "ttd", "x-opt-retain",  "ttl-command-response",
        "ttl",          "ttl-telemetry-qos0", "ttl-telemetry-qos1",
    };
    enum device_endpoint endpoints[] = {TELEMETRY, EVENT};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t j = 0; j < 4; j++) {
            struct device_message m = plain_message(endpoints[j % 2]);
            struct str pairs[] = {str_from(rows[i]), STR("not a number")};
            struct device_record r;

            *(j < 2 ? &m.device_defaults : &m.tenant_defaults) = (struct device_defaults){pairs, 1};
            build(&m, &r);
            if (r.record.n_headers != 6)
                fail_msg("%s is a header", rows[i]);
        }
    }
}

/* docs/wire/device-data.md; limits and defaults in seconds, the header in milliseconds */
static void ttl_follows_message_defaults_and_bounds(void **state)
{
    static const struct {
        enum device_endpoint endpoint;
        uint8_t qos;
        const char *bag; /* hono-ttl as a number; NULL: none */
        const char *tenant[7];
        const char *device[7];
        int64_t bounds[3]; /* events, telemetry with QoS 0, with QoS 1 */
        const char *want;
    } rows[] = {
        {EVENT, 1, NULL, {0}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {EVENT, 1, "30", {0}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, "30000"}, /* section 11, item 4 */
        {EVENT, 1, "30", {0}, {0}, {10, NO_BOUND, NO_BOUND}, "10000"},
        {EVENT, 1, "5", {0}, {0}, {10, NO_BOUND, NO_BOUND}, "5000"},
        {EVENT, 1, "0", {0}, {0}, {10, NO_BOUND, NO_BOUND}, "0"},
        {EVENT, 1, NULL, {0}, {0}, {10, NO_BOUND, NO_BOUND}, "10000"}, /* the bound stands in */
        {EVENT, 1, NULL, {0}, {0}, {0, NO_BOUND, NO_BOUND}, "0"},
        {EVENT, 1, NULL, {0}, {0}, {NO_BOUND, 7, 8}, NULL},
        {EVENT, 1, NULL, {"ttl", "60"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, "60000"},
        {EVENT, 1, NULL, {"ttl", "60"}, {"ttl", "50"}, {NO_BOUND, NO_BOUND, NO_BOUND}, "50000"},
        {EVENT, 1, "40", {"ttl", "60"}, {"ttl", "50"}, {NO_BOUND, NO_BOUND, NO_BOUND}, "40000"},
        {EVENT, 1, NULL, {"ttl", "60"}, {0}, {20, NO_BOUND, NO_BOUND}, "20000"},
        {EVENT, 1, NULL, {"ttl", "60"}, {"ttl", "soon"}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {EVENT, 1, NULL, {"ttl", "-1"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {EVENT, 1, NULL, {"ttl-telemetry-qos1", "60"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {EVENT, 1, NULL, {"ttl", "9223372036854775"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, "9223372036854775000"},
        {EVENT, 1, NULL, {"ttl", "9223372036854776"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {EVENT, 1, NULL, {0}, {0}, {INT64_MAX, NO_BOUND, NO_BOUND}, "9223372036854775000"},
        {TELEMETRY, 1, "30", {0}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL}, /* hono-ttl is for events only */
        {TELEMETRY, 1, "30", {0}, {0}, {10, NO_BOUND, NO_BOUND}, NULL},
        {TELEMETRY, 1, NULL, {"ttl", "60"}, {0}, {NO_BOUND, NO_BOUND, NO_BOUND}, NULL},
        {TELEMETRY,
         0,
         NULL,
         {"ttl-telemetry-qos0", "6", "ttl-telemetry-qos1", "7"},
         {0},
         {NO_BOUND, NO_BOUND, NO_BOUND},
         "6000"},
        {TELEMETRY,
         1,
         NULL,
         {"ttl-telemetry-qos0", "6", "ttl-telemetry-qos1", "7"},
         {0},
         {NO_BOUND, NO_BOUND, NO_BOUND},
         "7000"},
        {TELEMETRY,
         2,
         NULL,
         {"ttl-telemetry-qos0", "6", "ttl-telemetry-qos1", "7"},
         {0},
         {NO_BOUND, NO_BOUND, NO_BOUND},
         "7000"},
        {TELEMETRY, 0, NULL, {"ttl-telemetry-qos0", "6"}, {"ttl-telemetry-qos0", "5"}, {NO_BOUND, NO_BOUND, NO_BOUND}, "5000"},
        {TELEMETRY, 0, NULL, {"ttl-telemetry-qos0", "6"}, {0}, {1, 2, 3}, "2000"},
        {TELEMETRY, 1, NULL, {"ttl-telemetry-qos1", "6"}, {0}, {1, 2, 3}, "3000"},
        {TELEMETRY, 0, NULL, {0}, {0}, {1, 2, 3}, "2000"},
        {TELEMETRY, 1, NULL, {0}, {0}, {1, NO_BOUND, NO_BOUND}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag = {0};
        struct device_limits limits = {rows[i].bounds[0], rows[i].bounds[1], rows[i].bounds[2]};
        struct pairs tenant, device;
        struct device_message m = plain_message(rows[i].endpoint);
        struct device_record r;

        if (rows[i].bag)
            bag.has_ttl = str_to_u64(str_from(rows[i].bag), UINT64_MAX, &bag.ttl_s);
        m.qos = rows[i].qos;
        m.bag = &bag;
        m.limits = &limits;
        m.tenant_defaults = defaults(&tenant, rows[i].tenant);
        m.device_defaults = defaults(&device, rows[i].device);
        build(&m, &r);
        check_header(&r, "ttl", rows[i].want, i);
        assert_int_equal(r.record.n_headers, rows[i].want ? 7 : 6);
    }
}

/* Fills `strs` with `count` defaults of different names, beginning with number `first`. */
static struct device_defaults numbered_defaults(struct str *strs, char (*names)[8], size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "n%zu", first + i);
        strs[2 * i] = str_from(names[i]);
        strs[2 * i + 1] = STR("v");
    }
    return (struct device_defaults){strs, count};
}

static void more_defaults_than_a_record_takes_are_refused(void **state)
{
    struct str device[MAX_PAIRS], tenant[MAX_PAIRS];
    char device_names[DEVICE_RECORD_MAX_DEFAULTS + 1][8], tenant_names[DEVICE_RECORD_MAX_DEFAULTS + 1][8];
    struct device_message m = plain_message(EVENT);
    struct device_record r;

    (void)state;
    m.is_retained = true;
    m.has_ttd = true;
    m.traceparent = STR("a");
    m.tracestate = STR("b");
    m.tenant_id = STR("t");
    m.gateway_id = STR("g");
    m.limits = &(struct device_limits){1, 1, 1};
    m.creation_time_ms = UINT64_MAX;
    m.device_defaults = numbered_defaults(device, device_names, 0, DEVICE_RECORD_MAX_DEFAULTS);
    build(&m, &r);
    assert_int_equal(r.record.n_headers, DEVICE_RECORD_MAX_HEADERS);
    m.tenant_defaults = numbered_defaults(tenant, tenant_names, 0, DEVICE_RECORD_MAX_DEFAULTS); /* all overwritten */
    build(&m, &r);
    assert_int_equal(r.record.n_headers, DEVICE_RECORD_MAX_HEADERS);
    m.tenant_defaults = numbered_defaults(tenant, tenant_names, 1, DEVICE_RECORD_MAX_DEFAULTS);
    assert_int_equal(device_record_build(&m, &r), DEVICE_FAULT_DEFAULTS);
    m.tenant_defaults = (struct device_defaults){0};
    m.device_defaults = numbered_defaults(device, device_names, 0, DEVICE_RECORD_MAX_DEFAULTS + 1);
    assert_int_equal(device_record_build(&m, &r), DEVICE_FAULT_DEFAULTS);
}

/* docs/wire/device-data.md: the way the adapter goes */
static void headers_of_the_message_replace_defaults_and_nothing_else(void **state)
{
    struct pairs pairs;
    struct device_message m = plain_message(TELEMETRY);
    struct device_record r;

    (void)state;
    m.device_defaults = defaults(&pairs, (const char *const[]){"a", "default", NULL});
    build(&m, &r);
    assert_int_equal(device_record_add(&r, STR("a"), STR("1")), DEVICE_FAULT_NONE);
    assert_int_equal(device_record_add(&r, STR("b"), STR("2")), DEVICE_FAULT_NONE);
    assert_int_equal(device_record_add(&r, STR("Device_ID"), STR("x")), DEVICE_FAULT_NONE);
    assert_int_equal(device_record_add(&r, STR("ttl"), STR("1")), DEVICE_FAULT_NONE);
    check_header(&r, "a", "1", 0);
    check_header(&r, "b", "2", 0);
    assert_null(header(&r, "Device_ID"));
    assert_null(header(&r, "ttl"));
    while (r.record.n_headers < DEVICE_RECORD_MAX_HEADERS)
        r.headers[r.record.n_headers++] = (struct record_header){STR("c"), STR("")};
    assert_int_equal(device_record_add(&r, STR("d"), STR("")), DEVICE_FAULT_DEFAULTS);
    assert_int_equal(device_record_add(&r, STR("a"), STR("3")), DEVICE_FAULT_NONE);
}

static void a_topic_with_a_bag_becomes_a_record(void **state)
{
    struct str topic = STR("event//d2/?content-type=application%2Fjson&hono-ttl=30");
    char scratch[PROPERTY_BAG_SCRATCH_BYTES];
    struct device_topic parsed;
    struct property_bag bag;
    struct device_message m = plain_message(EVENT);
    struct device_record r;

    (void)state;
    assert_int_equal(device_topic_parse(topic, 0, &parsed), DEVICE_FAULT_NONE);
    assert_int_equal(property_bag_parse(parsed.bag, scratch, sizeof(scratch), &bag), DEVICE_FAULT_NONE);
    m.endpoint = parsed.endpoint;
    m.device_id = parsed.device;
    m.address = topic;
    m.bag = &bag;
    build(&m, &r);
    assert_true(str_equal(r.record.key, STR("d2")));
    check_header(&r, "device_id", "d2", 0);
    check_header(&r, "content-type", "application/json", 0);
    check_header(&r, "ttl", "30000", 0);
    check_header(&r, "orig_address", "event//d2/?content-type=application%2Fjson&hono-ttl=30", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_telemetry_has_the_mandatory_headers_and_no_other),
        cmocka_unit_test(qos_0_is_said_and_qos_2_counts_as_1),
        cmocka_unit_test(optional_headers_come_with_their_reason),
        cmocka_unit_test(the_trace_context_of_the_protocol_outranks_the_bag),
        cmocka_unit_test(payload_and_content_type_must_fit_each_other),
        cmocka_unit_test(an_empty_payload_without_pointer_is_still_not_null),
        cmocka_unit_test(device_defaults_outrank_those_of_the_tenant),
        cmocka_unit_test(reserved_names_never_come_from_defaults),
        cmocka_unit_test(ttl_follows_message_defaults_and_bounds),
        cmocka_unit_test(more_defaults_than_a_record_takes_are_refused),
        cmocka_unit_test(headers_of_the_message_replace_defaults_and_nothing_else),
        cmocka_unit_test(a_topic_with_a_bag_becomes_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
