/* What the fan-out does when subscribers, senders or the process do not go on as they should (docs/FANOUT.md). */
#include "fanout_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "fanout/fanout_inspect.h"

#define QUICK "delivery: {retry: 3, backoff_delay: 1ms, backoff_max: 2ms}"
#define ONE(more)                                                                                                              \
    "channels:\n"                                                                                                              \
    "- {namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$1', " more "}]}\n"

static const char *sent(int sink, size_t i)
{
    assert_true(i < rig.sinks[sink - 1].n_requests);
    return rig.sinks[sink - 1].requests[i];
}

static size_t count(int sink)
{
    return rig.sinks[sink - 1].n_requests;
}

static void assert_header(int sink, size_t i, const char *name, const char *value)
{
    const char *found = rig_header(sent(sink, i), name);

    if (!value)
        assert_null(found);
    else if (!found)
        fail_msg("no header %s in %s", name, sent(sink, i));
    else
        assert_string_equal(found, value);
}

static void some_turns(void)
{
    for (int i = 0; i < 50; i++)
        rig_turn();
}

static void one_failure_fails_the_event_and_says_where(void **state)
{
    (void)state;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, subscriptions: [{uid: good, subscriber: '$1'}, {uid: bad, subscriber: '$2'}]}\n");
    rig_answer_with(2, RIG_FAIL(403));
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 500);
    assert_string_equal(rig_header(rig.text, "Content-Type"), "application/problem+json");
    assert_string_equal(rig_body(rig.text),
                        "{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,"
                        "\"detail\":\"1 of 2 subscriptions failed\",\"failed\":["
                        "{\"subscription\":\"bad\",\"reason\":\"status\",\"status\":403,\"attempts\":1}]}\n");
    assert_int_equal(count(1), 1);
    assert_int_equal(count(2), 1);
}

static void retriable_answers_are_tried_again_and_others_are_not(void **state)
{
    static const struct {
        const char *answer;
        bool is_retried;
    } rows[] = {
        {RIG_FAIL(404), true},
        {RIG_FAIL(408), true},
        {RIG_FAIL(409), true},
        {RIG_FAIL(429), true},
        {RIG_FAIL(500), true},
        {RIG_FAIL(501), true},
        {RIG_FAIL(599), true},
        {RIG_FAIL(400), false},
        {RIG_FAIL(401), false},
        {RIG_FAIL(403), false},
        {RIG_FAIL(410), false},
        {RIG_FAIL(413), false},
        {NULL, true},
        {"HTTP/1.1 303 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", false},
        {"HTTP/1.1 301 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", false},
    };

    (void)state;
    rig_use(ONE(QUICK));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t before = count(1);

        rig_answer_with(1, rows[i].answer, rows[i].answer, RIG_OK);
        rig_post(0, "", "x");
        if (rig_status(0) != (rows[i].is_retried ? 202 : 500) || count(1) - before != (rows[i].is_retried ? 3 : 1))
            fail_msg("row %zu: %zu attempts, %s", i, count(1) - before, rig.text);
    }
}

static void retries_end_with_the_dead_letter_target(void **state)
{
    static const char lines[] = "HTTP/1.1 503 X\r\nContent-Length: 11\r\n\r\ntwo\r\nlines\n";
    char decoded[64];
    size_t n;

    (void)state;
    rig_use(ONE("dead_letter: '$2/dead', " QUICK));
    rig_answer_with(1, RIG_FAIL(503), RIG_FAIL(503), RIG_FAIL(503), RIG_OK);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), 4);
    assert_int_equal(count(2), 0);
    rig_answer_with(1, RIG_FAIL(503), RIG_FAIL(503), RIG_FAIL(503), lines);
    rig_answer_with(2, RIG_FAIL(503), "HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\nContent-Length: 0\r\n\r\n");
    rig_post(0, "knative-x: y\r\nce-knativeerrordata: old\r\n", "data");
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), 8);
    assert_int_equal(count(2), 2);
    assert_string_equal(rig_body(sent(2, 1)), "data");
    assert_header(2, 1, "ce-id", "1");
    assert_header(2, 1, "ce-knativeerrorcode", "503");
    assert_header(2, 1, "ce-millraceattempts", "4");
    assert_header(2, 1, "ce-millracesubscription", "a");
    assert_header(2, 1, "ce-millracereason", "status");
    assert_header(2, 1, "knative-x", "y");
    assert_header(2, 1, "prefer", NULL);
    assert_non_null(rig_header(sent(2, 1), "ce-millracetime"));
    assert_non_null(strstr(rig_header(sent(2, 1), "ce-knativeerrordest"), "http://127.0.0.1:"));
    assert_true(base64_decode(str_from(rig_header(sent(2, 1), "ce-knativeerrordata")), decoded, &n));
    assert_memory_equal(decoded, "two\r\nlines\n", n);
}

static void a_long_answer_is_cut_before_it_is_encoded(void **state)
{
    enum { KEPT_CHARS = 1024 };
    static char answer[4096];
    const char *data;

    (void)state;
    snprintf(answer, sizeof answer, "HTTP/1.1 400 X\r\nContent-Length: 2000\r\n\r\n%02000d", 7);
    rig_use(ONE("dead_letter: '$2'"));
    rig_answer_with(1, answer);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    data = rig_header(sent(2, 0), "ce-knativeerrordata");
    assert_int_equal(strlen(data), KEPT_CHARS);
}

static void without_an_answer_the_code_is_0_and_the_reason_says_why(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$0/x', dead_letter: '$2', " QUICK
            "}]}]\n");
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_header(2, 0, "ce-knativeerrordest", "http://127.0.0.1:1/x");
    assert_header(2, 0, "ce-knativeerrorcode", "0");
    assert_header(2, 0, "ce-knativeerrordata", NULL);
    assert_header(2, 0, "ce-millracereason", "connect");
}

static void a_reply_that_fails_sends_the_original_to_the_dead_letter_target(void **state)
{
    char wanted[64];

    (void)state;
    rig_use(ONE("reply: '$2/re', dead_letter: '$3'"));
    rig_answer_with(1, "HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\nce-id: r\r\nce-source: /r\r\nce-type: r\r\n"
                       "Content-Length: 5\r\n\r\nreply");
    rig_answer_with(2, RIG_FAIL(400));
    rig_post(0, "", "original");
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), 1);
    assert_int_equal(count(2), 1);
    assert_string_equal(rig_body(sent(3, 0)), "original");
    assert_header(3, 0, "ce-id", "1");
    snprintf(wanted, sizeof wanted, "http://127.0.0.1:%u/re", rig.sinks[1].port);
    assert_header(3, 0, "ce-knativeerrordest", wanted);
    assert_header(3, 0, "ce-knativeerrorcode", "400");
}

static void what_becomes_of_an_exhausted_event_is_configured(void **state)
{
    static const struct {
        const char *config;
        int status;
    } rows[] = {
        {ONE("dead_letter: '$0', delivery: {retry: 0}"), 500},
        {ONE("delivery: {retry: 0, on_exhausted: nack}"), 500},
        {ONE("delivery: {retry: 0, on_exhausted: drop}"), 202},
        {ONE("dead_letter: '$2', delivery: {retry: 0, on_exhausted: drop}"), 202},
    };

    (void)state;
    rig_answer_with(1, RIG_FAIL(500));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig_use(rows[i].config);
        rig_post(0, "", "x");
        if (rig_status(0) != rows[i].status)
            fail_msg("row %zu: %s", i, rig.text);
    }
    assert_int_equal(count(2), 0);
}

static void retry_after_is_waited_for_within_its_limit(void **state)
{
    uint64_t began_ms;

    (void)state;
    rig_use(ONE("delivery: {retry: 1, backoff_delay: 1ms, retry_after_max: 300ms}"));
    rig_answer_with(1, "HTTP/1.1 429 X\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n", RIG_OK);
    began_ms = loop_clock_ms();
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_true(loop_clock_ms() - began_ms >= 300);
    rig_use(ONE("delivery: {retry: 1, backoff_delay: 1ms, retry_after_max: 0s}"));
    rig_answer_with(1, "HTTP/1.1 503 X\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n", RIG_OK);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
}

static void a_silent_subscriber_meets_the_deadline(void **state)
{
    (void)state;
    rig_use(
        "channels:\n"
        "- {namespace: ns, name: c, timeout: 60ms, subscriptions: [{uid: a, subscriber: '$1'}, {uid: b, subscriber: '$2'}]}\n");
    rig.sinks[0].is_silent = true;
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 500);
    assert_non_null(strstr(rig.text, "[{\"subscription\":\"a\",\"reason\":\"timeout\",\"attempts\":1}]"));
    assert_int_equal(count(1), 1);
}

static void an_attempt_that_takes_too_long_is_made_again(void **state)
{
    (void)state;
    rig_use(ONE("delivery: {retry: 1, backoff_delay: 1ms, timeout: 50ms}"));
    rig.sinks[0].is_silent = true;
    rig_post(0, "", "x");
    rig_turn_until(count(1) == 2);
    rig.sinks[0].is_silent = false;
    assert_int_equal(rig_status(0), 202);
}

static void the_sender_may_ask_for_less_time(void **state)
{
    uint64_t began_ms = loop_clock_ms();

    (void)state;
    rig_use(ONE(QUICK));
    rig.sinks[0].is_silent = true;
    rig_post(0, "Prefer: respond-async, Wait = 1\r\n", "x");
    assert_int_equal(rig_status(0), 500);
    assert_true(loop_clock_ms() - began_ms < 15000); /* not the channel's minute */
}

static void nack_first_answers_at_the_first_failure(void **state)
{
    (void)state;
    rig_use(
        "channels:\n"
        "- {namespace: ns, name: c, nack: first, subscriptions: [{uid: a, subscriber: '$1'}, {uid: b, subscriber: '$2'}]}\n");
    rig.sinks[0].is_silent = true;
    rig_answer_with(2, RIG_FAIL(400));
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 500);
    assert_non_null(strstr(rig.text, "\"subscription\":\"b\""));
    rig.sinks[0].is_silent = false;
    some_turns();
}

static void an_endpoint_that_fails_most_of_the_time_is_left_alone(void **state)
{
    enum { EVENTS = 30 };

    (void)state;
    rig_use(ONE("delivery: {retry: 0}"));
    rig_answer_with(1, RIG_FAIL(500));
    for (int i = 0; i < EVENTS; i++) { /* one connection: one worker, one breaker */
        rig_post(0, "", "x");
        assert_int_equal(rig_status(0), 500);
    }
    assert_int_equal(count(1), FANOUT_BREAKER_MIN_ATTEMPTS);
    assert_non_null(strstr(rig.text, "\"reason\":\"breaker\""));
}

static void a_sender_that_leaves_ends_what_had_not_begun(void **state)
{
    (void)state;
    rig_use(ONE("delivery: {retry: 1000, backoff_delay: 1ms, backoff_max: 1ms}, dead_letter: '$2'"));
    rig_answer_with(1, RIG_FAIL(503));
    rig_post(0, "", "x");
    rig_turn_until(count(1) >= 2);
    rig_hang_up(0);
    rig_turn_until(rig.fanout->planes[0].n_jobs + rig.fanout->planes[1].n_jobs == 0);
    assert_int_equal(count(2), 0);
    assert_true(count(1) < 100);
}

static void a_connection_that_the_subscriber_closed_meanwhile_costs_nothing(void **state)
{
    (void)state;
    rig_use(ONE("delivery: {retry: 0}"));
    rig_answer_with(1, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    for (int i = 0; i < 3; i++) {
        rig_post(0, "", "x");
        assert_int_equal(rig_status(0), 202);
    }
}

static void kafka_that_refuses_fails_the_event(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, subscriber: 'kafka:events', " QUICK "}]}]\n");
    fake_sink_add_step(&rig.kafka, OUTCOME_TOO_LARGE, false);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 500);
    assert_int_equal(rig.kafka.n_records, 1);
    fake_sink_add_step(&rig.kafka, OUTCOME_UNAVAILABLE, false);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(rig.kafka.n_records, 3);
}

static void a_record_that_kafka_has_past_the_deadline_is_waited_for(void **state)
{
    (void)state;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, timeout: 40ms, subscriptions: [{uid: a, subscriber: 'kafka:events', dead_letter: "
            "'$1'}]}\n");
    fake_sink_hold(&rig.kafka);
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 500);
    some_turns();
    assert_int_equal(rig.fanout->planes[0].n_jobs + rig.fanout->planes[1].n_jobs, 1);
    fake_sink_release(&rig.kafka, SIZE_MAX);
    some_turns();
    assert_int_equal(rig.fanout->planes[0].n_jobs + rig.fanout->planes[1].n_jobs, 0);
}

static void a_drain_ends_what_was_taken(void **state)
{
    (void)state;
    rig_use(
        "channels:\n"
        "- {namespace: ns, name: c, ack: first, subscriptions: [{uid: a, subscriber: '$1'}, {uid: b, subscriber: '$2'}]}\n");
    rig.sinks[0].is_silent = true;
    rig_post(0, "", "x");
    assert_int_equal(rig_status(0), 202);
    rig.sinks[1].is_silent = true;
    rig_post(0, "", "y");
    rig_turn_until(count(2) == 2);
    fanout_drain(rig.fanout, 0, 10000, &rig.drained, &rig.main.mailbox);
    some_turns();
    assert_false(rig.is_drained);
    rig.sinks[1].is_silent = false;
    assert_int_equal(rig_status(0), 202);
    assert_string_equal(rig_header(rig.text, "Connection"), "close");
    some_turns();
    assert_false(rig.is_drained); /* the first event is not at its last subscriber */
    rig.sinks[0].is_silent = false;
    rig_turn_until(rig.is_drained);
    assert_int_equal(count(1), 2);
}

static void a_drain_that_takes_too_long_refuses_what_is_left(void **state)
{
    (void)state;
    rig_use(ONE("delivery: {timeout: 30s}"));
    rig.sinks[0].is_silent = true;
    rig_post(0, "", "x");
    rig_turn_until(count(1) == 1);
    fanout_drain(rig.fanout, 10000, 10000, &rig.drained, &rig.main.mailbox);
    fanout_drain(rig.fanout, 5, 30, &rig.drained, &rig.main.mailbox);
    assert_int_equal(rig_status(0), 503);
    assert_non_null(rig_header(rig.text, "Retry-After"));
    rig_turn_until(rig.is_drained);
}

static bool is_inspected;

static void on_inspected(struct mail *m)
{
    (void)m;
    is_inspected = true;
}

static void how_subscriptions_fare_can_be_asked(void **state)
{
    struct fanout_inspection question = {.mail = {.on_mail = on_inspected}, .home = &rig.main.mailbox};
    struct buf text = {0};

    (void)state;
    is_inspected = false;
    rig_use("channels:\n"
            "- {namespace: ns, name: c, subscriptions: [{uid: good, subscriber: '$1'}, {uid: bad, subscriber: '$2'}]}\n"
            "- {namespace: ns, name: idle, subscriptions: [{uid: x, subscriber: '$1'}]}\n");
    rig_answer_with(2, RIG_FAIL(403));
    for (int i = 0; i < 3; i++) {
        rig_post(i, "", "x");
        assert_int_equal(rig_status(i), 500);
    }
    question.snapshot = fanout_snapshot_ref(rig.fanout->planes[0].view->snapshot);
    fanout_inspect(rig.fanout, &question);
    rig_turn_until(is_inspected);
    assert_int_equal(question.n_rows, 3);
    assert_int_equal(question.rows[0].ended[FANOUT_OUTCOME_DELIVERED], 3);
    assert_int_equal(question.rows[1].ended[FANOUT_OUTCOME_FAILED], 3);
    assert_int_equal(fanout_inspect_write(&text, MEM_TEST, &question), E_OK);
    assert_int_equal(buf_append(&text, MEM_TEST, (struct str){"", 1}), E_OK);
    assert_non_null(strstr(text.p, "{\"channel\":\"ns/c\",\"uid\":\"bad\",\"running\":0,\"in_flight\":0,"));
    assert_non_null(strstr(text.p, "\"breaker\":\"closed\",\"last_error\":{\"reason\":\"status\",\"status\":403,"));
    buf_free(&text, MEM_TEST);
    fanout_inspect_free(&question);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(one_failure_fails_the_event_and_says_where),
        RIG_TEST(retriable_answers_are_tried_again_and_others_are_not),
        RIG_TEST(retries_end_with_the_dead_letter_target),
        RIG_TEST(a_long_answer_is_cut_before_it_is_encoded),
        RIG_TEST(without_an_answer_the_code_is_0_and_the_reason_says_why),
        RIG_TEST(a_reply_that_fails_sends_the_original_to_the_dead_letter_target),
        RIG_TEST(what_becomes_of_an_exhausted_event_is_configured),
        RIG_TEST(retry_after_is_waited_for_within_its_limit),
        RIG_TEST(a_silent_subscriber_meets_the_deadline),
        RIG_TEST(an_attempt_that_takes_too_long_is_made_again),
        RIG_TEST(the_sender_may_ask_for_less_time),
        RIG_TEST(nack_first_answers_at_the_first_failure),
        RIG_TEST(an_endpoint_that_fails_most_of_the_time_is_left_alone),
        RIG_TEST(a_sender_that_leaves_ends_what_had_not_begun),
        RIG_TEST(a_connection_that_the_subscriber_closed_meanwhile_costs_nothing),
        RIG_TEST(kafka_that_refuses_fails_the_event),
        RIG_TEST(a_record_that_kafka_has_past_the_deadline_is_waited_for),
        RIG_TEST(how_subscriptions_fare_can_be_asked),
        RIG_TEST(a_drain_ends_what_was_taken),
        RIG_TEST(a_drain_that_takes_too_long_refuses_what_is_left),
    };

    return cmocka_run_group_tests_name("fanout_faults", tests, NULL, NULL);
}
