#include "fanout/fanout_stateless.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static struct str allow[] = {STR_INIT("a.example.com"), STR_INIT("b:8080"), STR_INIT("*.svc.local"), STR_INIT("*.x:90"),
                             STR_INIT("kafka:t1")};
static const struct fanout_abilities everything = {.has_kafka = true, .has_disk = true};
static struct fanout_stateless *stateless;

static int set_up(void **state)
{
    const struct config_fanout config = {.stateless_token = STR("secret"), .stateless_allow = {allow, ARRAY_LEN(allow)}};

    (void)state;
    stateless = fanout_stateless_new(&config, &everything);
    return stateless ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fanout_stateless_free(stateless);
    return 0;
}

static uint16_t take(const struct fanout_stateless *s, const char *token, struct str channel,
                     struct fanout_stateless_request *out, struct errinfo *ei)
{
    const struct http_header headers[] = {{STR("fanout-channel"), channel},
                                          {STR("Content-Type"), STR("application/json")},
                                          {STR("authorization"), str_from(token)}};
    const struct http_request request = {.headers = headers, .n_headers = token ? 3 : 2, .body = STR("{}")};

    assert_true(fanout_stateless_is_meant(&request));
    return fanout_stateless_take(s, &request, out, ei);
}

static uint16_t take_envelope(const char *body, struct fanout_stateless_request *out)
{
    const struct http_header headers[] = {{STR("Content-Type"), STR("Application/vnd.millrace.fanout+json ; charset=utf-8")},
                                          {STR("Authorization"), STR("bearer secret")}};
    const struct http_request request = {.headers = headers, .n_headers = 2, .body = str_from(body)};
    struct errinfo ei = {0};

    assert_true(fanout_stateless_is_meant(&request));
    return fanout_stateless_take(stateless, &request, out, &ei);
}

#define TO(target) "{\"subscriptions\":[{\"subscriber\":\"" target "\"}]}"

static const struct {
    const char *token, *channel;
    uint16_t status;
} cases[] = {
    {"Bearer secret", TO("http://a.example.com/"), 0},
    {"Bearer secret", TO("http://A.Example.com:81/x"), 0},
    {"Bearer secret", TO("h2c://a.example.com/x"), 0},
    {"Bearer secret", TO("a.example.com"), 0},
    {"Bearer secret", TO("http://b:8080"), 0},
    {"Bearer secret", TO("http://b:8081"), 403},
    {"Bearer secret", TO("http://b"), 403},
    {"Bearer secret", TO("http://c.svc.local"), 0},
    {"Bearer secret", TO("http://d.c.svc.local:7"), 0},
    {"Bearer secret", TO("http://svc.local"), 403},
    {"Bearer secret", TO("http://evilsvc.local"), 403},
    {"Bearer secret", TO("http://y.x:90"), 0},
    {"Bearer secret", TO("http://y.x"), 403},
    {"Bearer secret", TO("http://a.example.com.evil"), 403},
    {"Bearer secret", TO("http://169.254.169.254/"), 403},
    {"Bearer secret", TO("kafka:t1"), 0},
    {"Bearer secret", TO("kafka:t2"), 403},
    {"Bearer secret", "{\"subscriptions\":[{\"subscriber\":\"a.example.com\",\"reply\":\"evil\"}]}", 403},
    {"Bearer secret", "{\"subscriptions\":[{\"subscriber\":\"a.example.com\",\"dead_letter\":\"evil\"}]}", 403},
    {"Bearer secret", "{\"delivery\":{\"dead_letter\":\"evil\"},\"subscriptions\":[{\"subscriber\":\"a.example.com\"}]}", 403},
    {"Bearer secret", "{\"namespace\":\"n\",\"name\":\"c\",\"ack\":\"first\"}", 0},
    {"Bearer secret", "{\"forward_headers\":[\"authorization\"]}", 400},
    {"Bearer secret", "{\"forward_prefixes\":[\"auth\"]}", 400},
    {"Bearer secret", "{\"delivery\":{\"on_exhausted\":\"park\"}}", 400},
    {"Bearer secret", "[]", 400},
    {"Bearer secret", "{", 400},
    {"Bearer secret", "{\"subscription\":[]}", 400},
    {"bearer secret", "{}", 0},
    {"Bearer secre", "{}", 401},
    {"Bearer secrets", "{}", 401},
    {"Bearer ", "{}", 401},
    {"secret", "{}", 401},
    {NULL, "{}", 401},
};

static void a_channel_comes_in_a_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fanout_stateless_request out;
        struct errinfo ei = {0};
        uint16_t status = take(stateless, cases[i].token, str_from(cases[i].channel), &out, &ei);

        if (status != cases[i].status || !out.snapshot != !!status || !ei.text[0] != !status)
            fail_msg("%s %s: %u %s", cases[i].token, cases[i].channel, status, ei.text);
        assert_null(out.event.p);
        fanout_snapshot_unref(out.snapshot);
    }
}

static const struct {
    const char *body;
    uint16_t status;
} envelopes[] = {
    {"{\"channel\":" TO("a.example.com") ", \"event\": {\"id\" : \"1\"} }", 0},
    {"{\"event\": {\"id\" : \"1\"},\"channel\":" TO("a.example.com") "}", 0},
    {"{\"channel\":" TO("evil") ",\"event\":{}}", 403},
    {"{\"channel\":{},\"event\":{},\"event\":{}}", 400},
    {"{\"channel\":{},\"event\":{},\"more\":{}}", 400},
    {"{\"channel\":{},\"event\":[]}", 400},
    {"{\"channel\":{}}", 400},
    {"{\"event\":{}}", 400},
    {"{\"channel\":{},\"event\":{}} x", 400},
    {"{\"channel\":{},\"event\":{}", 400},
    {"{\"channel\":{},\"event\":{\"a\":\"\xff\"}}", 400},
    {"", 400},
};

static void a_channel_comes_with_its_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(envelopes); i++) {
        struct fanout_stateless_request out;
        uint16_t status = take_envelope(envelopes[i].body, &out);

        if (status != envelopes[i].status)
            fail_msg("%s: %u", envelopes[i].body, status);
        if (status == 0) {
            assert_true(str_equal(out.event, STR("{\"id\" : \"1\"}")));
            assert_int_equal(out.snapshot->channels[0].n_subscriptions, 1);
            assert_true(str_equal(out.snapshot->source, STR("request")));
        }
        fanout_snapshot_unref(out.snapshot);
    }
}

static void a_large_channel_is_refused(void **state)
{
    static char text[FANOUT_STATELESS_MAX_BYTES + 2];
    struct fanout_stateless_request out;
    struct errinfo ei = {0};

    (void)state;
    memset(text, ' ', sizeof text);
    text[0] = '{';
    text[sizeof text - 3] = '}';
    assert_int_equal(take(stateless, "Bearer secret", (struct str){text, sizeof text - 2}, &out, &ei), 0);
    fanout_snapshot_unref(out.snapshot);
    assert_int_equal(take(stateless, "Bearer secret", (struct str){text, sizeof text - 1}, &out, &ei), 413);
}

static void it_is_off_without_a_token(void **state)
{
    const struct config_fanout config = {.stateless_allow = {allow, ARRAY_LEN(allow)}};
    struct fanout_stateless_request out;
    struct errinfo ei = {0};

    (void)state;
    assert_null(fanout_stateless_new(&config, &everything));
    assert_int_equal(take(NULL, "Bearer ", STR("{}"), &out, &ei), 403);
    fanout_stateless_free(NULL);
}

static void an_ordinary_request_is_not_meant(void **state)
{
    const struct http_header headers[] = {{STR("Content-Type"), STR("application/json")}};
    const struct http_request request = {.headers = headers, .n_headers = 1};

    (void)state;
    assert_false(fanout_stateless_is_meant(&request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_comes_in_a_header),      cmocka_unit_test(a_channel_comes_with_its_event),
        cmocka_unit_test(a_large_channel_is_refused),       cmocka_unit_test(it_is_off_without_a_token),
        cmocka_unit_test(an_ordinary_request_is_not_meant),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
