/* Events through the fan-out as they should go: who gets what, and what senders are told (docs/FANOUT.md). */
#include "fanout_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define THREE                                                                                                                  \
    "channels:\n"                                                                                                              \
    "- {namespace: ns, name: c, hosts: [c.example], subscriptions: [{uid: a, subscriber: '$1/in?x=1'},\n"                      \
    "   {uid: b, subscriber: '$2'}, {uid: d, subscriber: '$3/'}]}\n"
#define ONE(more)                                                                                                              \
    "channels:\n"                                                                                                              \
    "- {namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$1', " more "}]}\n"
#define EVENT_REPLY(status)                                                                                                    \
    "HTTP/1.1 " status " X\r\nce-specversion: 1.0\r\nce-id: r1\r\nce-source: /r\r\nce-type: reply\r\nX-Request-Id: 77\r\n"     \
    "Set-Cookie: no\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nreply"

static const char *sent(int sink, size_t i)
{
    assert_true(i < rig.sinks[sink - 1].n_requests);
    return rig.sinks[sink - 1].requests[i];
}

static size_t count(int sink)
{
    return rig.sinks[sink - 1].n_requests;
}

static void assert_sent(int sink, const char *name, const char *value)
{
    const char *found = rig_header(sent(sink, count(sink) - 1), name);

    if (!value)
        assert_null(found);
    else if (!found)
        fail_msg("no header %s in %s", name, sent(sink, count(sink) - 1));
    else
        assert_string_equal(found, value);
}

static void an_event_reaches_every_subscriber_as_it_came(void **state)
{
    static const char body[] = "{\"a\": 1,\t\"b\":\"\\u00e9\"}";

    (void)state;
    rig_use(THREE);
    rig_post(0, "Content-Type: application/json\r\nce-Mine: Euro%20%E2%82%AC\r\nce-time: 2026-01-01T00:00:00Z\r\n", body);
    assert_int_equal(rig_status(0), 202);
    assert_string_equal(rig_body(rig.text), "");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(count(i), 1);
        assert_string_equal(rig_body(sent(i, 0)), body);
        assert_sent(i, "ce-id", "1");
        assert_sent(i, "ce-source", "/s");
        assert_sent(i, "ce-type", "t");
        assert_sent(i, "ce-specversion", "1.0");
        assert_sent(i, "ce-mine", "Euro%20%E2%82%AC");
        assert_sent(i, "ce-time", "2026-01-01T00:00:00Z");
        assert_sent(i, "Content-Type", "application/json");
        assert_sent(i, "Prefer", "reply");
        assert_sent(i, "Kn-Namespace", "ns");
        assert_sent(i, "ce-millracehops", "1");
        assert_sent(i, "traceparent", NULL);
    }
    assert_memory_equal(sent(1, 0), "POST /in?x=1 HTTP/1.1\r\n", 23);
    assert_memory_equal(sent(2, 0), "POST / HTTP/1.1\r\n", 17);
}

static void only_headers_of_the_lists_go_on(void **state)
{
    (void)state;
    rig_use(THREE);
    rig_post(0,
             "Knative-Hello: world\r\nX-Request-Id: 5\r\nX-B3-TraceId: 6\r\nDo-Not-Forward: x\r\nCookie: x\r\n"
             "Connection: keep-alive, x-b3-hop\r\nX-B3-Hop: x\r\n",
             "");
    assert_int_equal(rig_status(0), 202);
    assert_sent(1, "knative-hello", "world");
    assert_sent(1, "x-request-id", "5");
    assert_sent(1, "x-b3-traceid", "6");
    assert_sent(1, "do-not-forward", NULL);
    assert_sent(1, "cookie", NULL);
    assert_sent(1, "x-b3-hop", NULL);
    assert_sent(1, "connection", NULL);
    assert_sent(1, "content-type", NULL);
}

static void a_trace_goes_on_with_a_parent_of_its_own_for_each_attempt(void **state)
{
    static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const char *first, *second;

    (void)state;
    rig_use(THREE);
    rig_post(0,
             "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: v=1\r\n"
             "ce-traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01\r\n",
             "");
    assert_int_equal(rig_status(0), 202);
    first = rig_header(sent(1, 0), "traceparent");
    second = rig_header(sent(2, 0), "traceparent");
    assert_int_equal(strlen(first), strlen(parent));
    assert_memory_equal(first, parent, 36);
    assert_string_equal(first + 52, "-01");
    assert_string_not_equal(first, parent);
    assert_string_not_equal(first, second);
    assert_sent(1, "tracestate", "v=1");
    assert_sent(1, "ce-traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01");
}

static void a_structured_event_goes_on_in_the_format_of_the_subscription(void **state)
{
    static const char document[] = "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/s\",\"type\":\"t\",\"n\":5,"
                                   "\"datacontenttype\":\"application/json\",\"data\":{\"x\":[1, 2]}}";
    char request[512];

    (void)state;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$1'},\n"
            "   {uid: b, subscriber: '$2', delivery: {format: json}}]}\n");
    snprintf(request, sizeof request,
             "POST /ns/c/ HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents+json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(document), document);
    rig_send(0, request);
    assert_int_equal(rig_status(0), 202);
    assert_string_equal(rig_body(sent(1, 0)), "{\"x\":[1, 2]}");
    assert_sent(1, "ce-n", "5");
    assert_sent(1, "content-type", "application/json");
    assert_sent(2, "ce-id", NULL);
    assert_non_null(strstr(rig_header(sent(2, 0), "content-type"), "application/cloudevents+json"));
    assert_non_null(strstr(rig_body(sent(2, 0)), "\"data\":{\"x\":[1, 2]}"));
    assert_non_null(strstr(rig_body(sent(2, 0)), "\"n\":5"));
}

static void requests_that_are_not_for_a_channel_are_refused(void **state)
{
    static const struct {
        const char *line, *headers, *body;
        int status;
    } rows[] = {
        {"POST /ns/c", "Host: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "", 202},
        {"POST /", "Host: C.Example:80\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "", 202},
        {"POST /", "Host: c.ns.svc.cluster.local\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "",
         202},
        {"POST /", "Host: c-kn-channel.ns\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "", 202},
        {"POST /", "Host: nodot\r\n", "", 400},
        {"POST /", "Host: other.ns\r\n", "", 404},
        {"POST /ns", "Host: c.example\r\n", "", 400},
        {"POST /ns/c/x", "Host: c.example\r\n", "", 400},
        {"POST /ns/other", "Host: c.example\r\n", "", 404},
        {"POST /ns/c", "Host: h\r\n", "text", 400},
        {"POST /ns/c", "Host: h\r\nce-specversion: 10.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "", 400},
        {"POST /ns/c", "Host: h\r\nce-specversion: 1.0\r\nce-source: /s\r\nce-type: t\r\n", "", 400},
        {"POST /ns/c", "Host: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-type: t\r\n", "", 400},
        {"POST /ns/c", "Host: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\n", "", 400},
        {"POST /ns/c", "Host: h\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n", "", 400},
        {"POST /ns/c", "Host: h\r\nContent-Type: application/cloudevents+json\r\n", "{}", 400},
        {"POST /ns/c", "Host: h\r\nContent-Type: application/cloudevents+avro\r\n", "x", 400},
        {"PUT /ns/c", "Host: h\r\n", "", 405},
        {"GET /ns/c", "Host: h\r\n", "", 405},
        {"OPTIONS /ns/c", "Host: h\r\nWebHook-Request-Origin: e.example\r\n", "", 200},
    };
    char request[1024];

    (void)state;
    rig_use(THREE);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(request, sizeof request, "%s HTTP/1.1\r\n%sUser-Agent: kube-probe/1.30\r\nContent-Length: %zu\r\n\r\n%s",
                 rows[i].line, rows[i].headers, strlen(rows[i].body), rows[i].body);
        rig_send(0, request);
        if (rig_status(0) != rows[i].status)
            fail_msg("row %zu: %s", i, rig.text);
        if (rows[i].status == 405 || rows[i].status == 200)
            assert_string_equal(rig_header(rig.text, "Allow"), "POST, OPTIONS");
    }
    assert_string_equal(rig_header(rig.text, "WebHook-Allowed-Origin"), "*");
    assert_string_equal(rig_header(rig.text, "WebHook-Allowed-Rate"), "*");
    assert_int_equal(count(1), 4);
}

static void a_body_larger_than_the_channel_takes_is_refused(void **state)
{
    char *request;
    static const size_t sizes[] = {64 << 10, (64 << 10) + 1, 128 << 10};
    static const int statuses[] = {202, 413, 413};

    (void)state;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, max_body: 64KiB, subscriptions: []}\n"
            "- {namespace: ns, name: large, max_body: 100KiB, subscriptions: []}\n");
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char *body = calloc(1, sizes[i] + 1);

        memset(body, 'x', sizes[i]);
        rig_post((int)i, "", body);
        assert_int_equal(rig_status((int)i), statuses[i]);
        free(body);
    }
    (void)request;
}

static void a_channel_without_subscriptions_takes_everything(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: []}]\n");
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
}

static void filters_keep_events_back(void **state)
{
    (void)state;
    rig_use("channels:\n"
            "- namespace: ns\n"
            "  name: c\n"
            "  subscriptions:\n"
            "  - {uid: a, subscriber: '$1', filters: [{exact: {type: other}}]}\n"
            "  - {uid: b, subscriber: '$2', filters: [{prefix: {source: /}}]}\n");
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), 0);
    assert_int_equal(count(2), 1);
}

static void an_event_that_has_passed_too_many_channels_is_refused(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, max_hops: 3, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    rig_post(0, "ce-millracehops: 2\r\n", "x");
    assert_int_equal(rig_status(0), 202);
    assert_sent(1, "ce-millracehops", "3");
    rig_post(0, "ce-millracehops: 3\r\n", "x");
    assert_int_equal(rig_status(0), 400);
    assert_int_equal(count(1), 1);
}

static void replies_go_where_they_belong(void **state)
{
    static const struct {
        const char *answer;
        const char *config; /* further fields of the channel */
        size_t n_replies;
        int status;
    } rows[] = {
        {EVENT_REPLY("200"), "", 1, 202},
        {EVENT_REPLY("202"), "", 0, 202},
        {EVENT_REPLY("202"), "reply_on: any2xx, ", 1, 202},
        {RIG_OK, "", 0, 202},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "", 0, 202},
        {"HTTP/1.1 200 OK\r\nContent-Type: application/cloudevents+json\r\nContent-Length: 2\r\n\r\nhi", "", 0, 500},
        {"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\nContent-Length: 2\r\n\r\nhi", "", 0, 500},
    };
    char config[512];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t before = count(2), asked = count(1);

        snprintf(config, sizeof config,
                 "channels: [{namespace: ns, name: c, %ssubscriptions: [{uid: a, subscriber: '$1', reply: '$2'}]}]\n",
                 rows[i].config);
        rig_use(config);
        rig_answer_with(1, rows[i].answer);
        rig_post(0, "", "x");
        if (rig_status(0) != rows[i].status || count(2) - before != rows[i].n_replies)
            fail_msg("row %zu: %s", i, rig.text);
        assert_int_equal(count(1) - asked, 1); /* never tried again */
    }
    assert_string_equal(rig_body(sent(2, 0)), "reply");
    assert_sent(2, "ce-type", "reply");
    assert_sent(2, "ce-millracehops", "1");
    assert_sent(2, "x-request-id", "77");
    assert_sent(2, "set-cookie", NULL);
    assert_sent(2, "kn-namespace", "ns");
    assert_sent(2, "content-type", "text/plain");
}

static void without_a_subscriber_the_event_itself_is_the_reply(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, reply: '$2'}]}]\n");
    rig_answer_with(2, EVENT_REPLY("200")); /* whatever a reply target answers */
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_sent(2, "ce-id", "1");
    assert_sent(2, "prefer", NULL);
}

static void every_event_of_a_batch_has_its_own_status(void **state)
{
    static const char body[] = "[{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"good\",\"data\":\"x\"},"
                               "{\"specversion\":\"1.0\",\"id\":\"2\",\"source\":\"/s\"},"
                               "{\"specversion\":\"1.0\",\"id\":\"3\",\"source\":\"/s\",\"type\":\"bad\"}]";
    char request[1024];

    (void)state;
    rig_use("channels:\n"
            "- namespace: ns\n"
            "  name: c\n"
            "  subscriptions:\n"
            "  - {uid: a, subscriber: '$1'}\n"
            "  - {uid: b, subscriber: '$2', filters: [{exact: {type: bad}}]}\n");
    rig_answer_with(2, RIG_FAIL(403));
    snprintf(
        request, sizeof request,
        "POST /ns/c HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents-batch+json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    rig_send(0, request);
    assert_int_equal(rig_status(0), 207);
    assert_non_null(strstr(rig_body(rig.text), "[{\"status\":202},{\"status\":400,\"error\":\""));
    assert_non_null(strstr(rig_body(rig.text), "{\"status\":500,\"error\":\"a subscription failed\",\"problem\":{"));
    assert_non_null(strstr(rig_body(rig.text), "\"failed\":[{\"subscription\":\"b\",\"reason\":\"status\",\"status\":403"));
    assert_int_equal(count(1), 2);
}

static void a_large_batch_goes_all_the_way_and_an_empty_one_is_fine(void **state)
{
    enum { EVENTS = 200 };
    static char body[EVENTS * 80], request[EVENTS * 80 + 256];
    size_t n = 0;

    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    for (int i = 0; i < EVENTS; i++)
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "%c{\"specversion\":\"1.0\",\"id\":\"%d\",\"source\":\"/s\",\"type\":\"t\"}", i ? ',' : '[', i);
    snprintf(body + n, sizeof body - n, "]");
    snprintf(
        request, sizeof request,
        "POST /ns/c HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents-batch+json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    rig_send(0, request);
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), EVENTS);
    rig_send(
        0, "POST /ns/c HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents-batch+json\r\nContent-Length: 2\r\n\r\n[]");
    assert_int_equal(rig_status(0), 202);
    assert_string_equal(rig_body(rig.text), "[]\n");
    rig_send(
        0, "POST /ns/c HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents-batch+json\r\nContent-Length: 2\r\n\r\n[1");
    assert_int_equal(rig_status(0), 400);
}

static void a_quorum_answers_early_and_the_rest_goes_on(void **state)
{
    static char body[100 * 1024];

    (void)state;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, ack: quorum(2), subscriptions: [{uid: a, subscriber: '$1', delivery: {backoff_delay: "
            "1ms}},\n"
            "   {uid: b, subscriber: '$2'}, {uid: d, subscriber: '$3'}]}\n");
    memset(body, 'y', sizeof body - 1);
    rig.sinks[0].is_silent = true;
    rig_post(0, "", body);
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(2) + count(3), 2);
    rig_post(0, "", "next"); /* on the same connection, into memory that was the first one's */
    assert_int_equal(rig_status(0), 202);
    rig_answer_with(1, RIG_FAIL(503), RIG_FAIL(503), RIG_OK);
    rig.sinks[0].is_silent = false;
    rig_turn_until(count(1) == 4);
    assert_string_equal(rig_body(sent(1, count(1) - 1)), strlen(rig_body(sent(1, 3))) == 4 ? "next" : body);
}

static void the_first_success_is_enough_for_first(void **state)
{
    (void)state;
    rig_use(
        "channels:\n"
        "- {namespace: ns, name: c, ack: first, subscriptions: [{uid: a, subscriber: '$1'}, {uid: b, subscriber: '$2'}]}\n");
    rig_answer_with(1, RIG_FAIL(400));
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
}

static void a_request_sees_one_generation(void **state)
{
    (void)state;
    rig_use(THREE);
    rig.sinks[0].is_silent = true;
    rig_post(0, "", "old");
    rig_turn_until(count(1) == 1 && count(2) == 1 && count(3) == 1);
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: z, subscriber: '$4'}]}]\n");
    rig_post(1, "", "new");
    assert_int_equal(rig_status(1), 202);
    assert_false(rig_has_answer(0));
    rig.sinks[0].is_silent = false;
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(4), 1);
    assert_string_equal(rig_body(sent(4, 0)), "new");
}

static void no_more_attempts_at_once_than_max_inflight(void **state)
{
    (void)state;
    rig_use(ONE("delivery: {max_inflight: 1}"));
    rig.sinks[0].is_silent = true;
    for (int i = 0; i < 3; i++) { /* on connections of one worker or two: the bound is one worker's */
        rig_post(i, "", "x");
        for (int j = 0; j < 20; j++)
            rig_turn();
    }
    assert_true(count(1) <= RIG_WORKERS);
    rig.sinks[0].is_silent = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_status(i), 202);
    assert_int_equal(count(1), 3);
}

static void a_kafka_subscriber_gets_a_record(void **state)
{
    const struct fake_record *record;
    bool has_id = false;

    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, subscriber: 'kafka:events'}]}]\n");
    fake_sink_hold(&rig.kafka);
    rig_post(0, "ce-partitionkey: k1\r\nContent-Type: text/plain\r\n", "data");
    rig_turn_until(rig.kafka.n_records == 1);
    for (int i = 0; i < 10; i++)
        rig_turn();
    assert_false(rig_has_answer(0));
    fake_sink_release(&rig.kafka, 1);
    assert_int_equal(rig_status(0), 202);
    record = rig.kafka.records[0];
    assert_true(str_equal(record->topic, STR("events")));
    assert_true(str_equal(record->key, STR("k1")));
    assert_true(str_equal(record->value, STR("data")));
    for (size_t i = 0; i < record->n_headers; i++)
        has_id = has_id || (str_equal(record->headers[i].name, STR("ce_id")) && str_equal(record->headers[i].value, STR("1")));
    assert_true(has_id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(an_event_reaches_every_subscriber_as_it_came),
        RIG_TEST(only_headers_of_the_lists_go_on),
        RIG_TEST(a_trace_goes_on_with_a_parent_of_its_own_for_each_attempt),
        RIG_TEST(a_structured_event_goes_on_in_the_format_of_the_subscription),
        RIG_TEST(requests_that_are_not_for_a_channel_are_refused),
        RIG_TEST(a_body_larger_than_the_channel_takes_is_refused),
        RIG_TEST(a_channel_without_subscriptions_takes_everything),
        RIG_TEST(filters_keep_events_back),
        RIG_TEST(an_event_that_has_passed_too_many_channels_is_refused),
        RIG_TEST(replies_go_where_they_belong),
        RIG_TEST(without_a_subscriber_the_event_itself_is_the_reply),
        RIG_TEST(every_event_of_a_batch_has_its_own_status),
        RIG_TEST(a_large_batch_goes_all_the_way_and_an_empty_one_is_fine),
        RIG_TEST(a_quorum_answers_early_and_the_rest_goes_on),
        RIG_TEST(the_first_success_is_enough_for_first),
        RIG_TEST(a_request_sees_one_generation),
        RIG_TEST(no_more_attempts_at_once_than_max_inflight),
        RIG_TEST(a_kafka_subscriber_gets_a_record),
    };

    return cmocka_run_group_tests_name("fanout_events", tests, NULL, NULL);
}
