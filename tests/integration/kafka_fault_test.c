/* What happens when Kafka refuses, goes away, comes back or fails for good; and the ends of the life: start and stop. */
#include "integration/kafka_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "kafka/kafka_metrics.h"

enum { PRODUCE = 0, N = 20 };

static const struct kafka_settings plain;

static void send_n(struct rig *r, struct sink_topic *topic, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        char value[16];

        snprintf(value, sizeof value, "%zu", i);
        rig_send(r, i, topic, "key", value);
    }
}

static void set_down(struct rig *r)
{
    assert_int_equal(rd_kafka_mock_broker_set_down(rig_cluster(r), -1), RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void set_up(struct rig *r)
{
    assert_int_equal(rd_kafka_mock_broker_set_up(rig_cluster(r), -1), RD_KAFKA_RESP_ERR_NO_ERROR);
}

struct refusal {
    rd_kafka_resp_err_t code;
    enum outcome outcome;
};

static void an_error_of_the_broker_is_the_records_outcome(void **state)
{
    static const struct refusal refusals[] = {
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, OUTCOME_TOO_LARGE},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OUTCOME_DENIED},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, OUTCOME_INVALID},
        {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, OUTCOME_FAILED},
    };
    struct rig r;

    (void)state;
    rig_open(&r, plain, ARRAY_LEN(refusals) + 1);
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        int64_t before = metric_value(&kafka_metrics_records[refusals[i].outcome]);
        char name[] = {(char)('a' + i), '\0'}; /* librdkafka remembers that a topic was refused */
        struct sink_topic *topic = rig_topic(&r, name);

        rd_kafka_mock_push_request_errors(rig_cluster(&r), PRODUCE, 1, refusals[i].code);
        rig_send(&r, i, topic, "key", "value");
        rig_wait(&r, &r.n_answered, i + 1);
        assert_int_equal(r.items[i].delivery.outcome, refusals[i].outcome);
        assert_int_equal(metric_value(&kafka_metrics_records[refusals[i].outcome]), before + 1);
    }
    rig_send(&r, ARRAY_LEN(refusals), rig_topic(&r, "fine"), "key", "value");
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_close(&r);
}

static void a_passing_error_is_tried_again_until_stored(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, plain, N);
    rd_kafka_mock_push_request_errors(rig_cluster(&r), PRODUCE, 3, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                      RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR__TRANSPORT);
    send_n(&r, rig_topic(&r, "t"), 0, N);
    rig_wait(&r, &r.counts[OUTCOME_STORED], N);
    rig_consume(&r, "t", N, NULL, NULL);
    rig_close(&r);
}

/* Two batches of a partition are under way; the broker refuses the first and, not knowing the producer yet, stores the second.
 * librdkafka takes the first for stored as well ("implicitly acked"), which it is not. */
static void a_later_success_is_no_proof_for_an_earlier_record(void **state)
{
    static const struct kafka_property one_record_a_batch[] = {{STR_INIT("batch.num.messages"), STR_INIT("1")}};
    struct kafka_settings settings = plain;
    struct sink_topic *topic;
    struct rig r;

    (void)state;
    settings.properties = one_record_a_batch;
    settings.n_properties = ARRAY_LEN(one_record_a_batch);
    rig_open(&r, settings, 2);
    topic = rig_topic(&r, "t");
    rd_kafka_mock_broker_set_rtt(rig_cluster(&r), 1, 200); /* so that both are under way before the first is answered */
    rd_kafka_mock_push_request_errors(rig_cluster(&r), PRODUCE, 1, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
    rig_send(&r, 0, topic, "key", "refused");
    rig_send(&r, 1, topic, "key", "stored");
    rig_wait(&r, &r.n_answered, 2);
    assert_int_equal(r.items[1].delivery.outcome, OUTCOME_STORED);
    assert_int_equal(r.items[0].delivery.outcome, OUTCOME_UNAVAILABLE);
    rig_consume(&r, "t", 1, NULL, NULL);
    rig_close(&r);
}

static void a_topic_that_does_not_exist_is_told(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, plain, 1);
    rd_kafka_mock_topic_set_error(rig_cluster(&r), "nowhere", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    rig_send(&r, 0, sink_find_topic(kafka_sink(r.k), STR("nowhere")), "key", "value");
    rig_wait(&r, &r.counts[OUTCOME_UNKNOWN_TOPIC], 1);
    rig_close(&r);
}

static void count_up(const rd_kafka_message_t *m, void *context)
{
    int *next = context;
    char value[16];

    snprintf(value, sizeof value, "%.*s", (int)m->len, (const char *)m->payload);
    assert_int_equal(atoi(value), (*next)++);
}

static void records_wait_for_a_broker_that_is_away_and_keep_their_order(void **state)
{
    struct rig r;
    struct sink_topic *topic;
    int next = 0;

    (void)state;
    rig_open(&r, plain, 3 * N);
    topic = rig_topic(&r, "t");
    assert_int_equal(kafka_state(r.k), KAFKA_UP);
    send_n(&r, topic, 0, N);
    set_down(&r);
    send_n(&r, topic, N, N);
    rig_wait_state(&r, KAFKA_AWAY);
    assert_true(kafka_is_ready(r.k));
    assert_false(kafka_is_up(r.k));
    send_n(&r, topic, 2 * N, N);
    set_up(&r);
    rig_wait(&r, &r.counts[OUTCOME_STORED], 3 * N);
    rig_wait_state(&r, KAFKA_UP);
    rig_consume(&r, "t", 3 * N, count_up, &next);
    rig_close(&r);
}

static void an_idle_process_notices_that_the_broker_is_back(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, plain, 0);
    rig_topic(&r, "t");
    set_down(&r);
    rig_wait_state(&r, KAFKA_AWAY);
    set_up(&r);
    rig_wait_state(&r, KAFKA_UP);
    rig_close(&r);
}

static void a_time_limit_gives_up_only_the_topics_that_have_it(void **state)
{
    const struct kafka_time_limit limits[] = {{STR_INIT("hono.event."), 0}, {STR_INIT("hono."), 300}};
    struct kafka_settings settings = {.time_limits = limits, .n_time_limits = 2};
    struct rig r;
    struct sink_topic *limited, *patient;

    (void)state;
    rig_open(&r, settings, 2);
    limited = rig_topic(&r, "hono.telemetry.demo");
    patient = rig_topic(&r, "hono.event.demo");
    set_down(&r);
    rig_send(&r, 0, limited, "key", "value");
    rig_send(&r, 1, patient, "key", "value");
    rig_wait(&r, &r.counts[OUTCOME_UNAVAILABLE], 1);
    assert_int_equal(r.items[0].delivery.outcome, OUTCOME_UNAVAILABLE);
    assert_int_equal(r.items[1].n_answers, 0);
    set_up(&r);
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_close(&r);
}

static void a_producer_that_failed_for_good_is_replaced(void **state)
{
    struct rig r;
    struct sink_topic *topic;
    const void *failed;
    int64_t before = metric_value(&kafka_metrics_counters[KAFKA_COUNTER_REPLACEMENTS]);
    uint64_t since_ms;

    (void)state;
    rig_open(&r, plain, 2 * N);
    topic = rig_topic(&r, "t");
    set_down(&r);
    send_n(&r, topic, 0, N);
    failed = rig_producer(&r);
    rig_fail_producer(&r, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    rig_wait(&r, &r.counts[OUTCOME_UNAVAILABLE], N);
    assert_ptr_not_equal(rig_producer(&r), failed);
    assert_int_equal(metric_value(&kafka_metrics_counters[KAFKA_COUNTER_REPLACEMENTS]), before + 1);
    set_up(&r);
    assert_ptr_equal(sink_find_topic(kafka_sink(r.k), STR("t")), topic);
    send_n(&r, topic, N, N);
    rig_wait(&r, &r.counts[OUTCOME_STORED], N);
    rig_consume(&r, "t", N, NULL, NULL);
    since_ms = loop_clock_ms();
    while (kafka_inflight_records(r.k) > 0 && loop_clock_ms() - since_ms < RIG_WAIT_MS)
        loop_turn(&r.loop, 10);
    rig_close(&r);
}

static void replacements_in_a_row_wait_and_deny_meanwhile_when_access_is_denied(void **state)
{
    struct rig r;
    struct sink_topic *topic;
    const void *first, *second;
    uint64_t since_ms = loop_clock_ms();

    (void)state;
    rig_open(&r, plain, 2);
    topic = rig_topic(&r, "t");
    first = rig_producer(&r);
    rig_fail_producer(&r, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
    while ((second = rig_producer(&r)) == first && loop_clock_ms() - since_ms < RIG_WAIT_MS)
        loop_turn(&r.loop, 10);
    set_down(&r);
    rig_send(&r, 0, topic, "key", "value");
    rig_fail_producer(&r, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
    rig_wait(&r, &r.counts[OUTCOME_DENIED], 1);
    while (rig_producer(&r) == second && loop_clock_ms() - since_ms < RIG_WAIT_MS)
        loop_turn(&r.loop, 10);
    set_up(&r);
    rig_send(&r, 1, topic, "key", "value");
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_close(&r);
}

static void a_drain_waits_for_what_is_under_way_and_refuses_the_rest(void **state)
{
    struct rig r;
    struct sink_topic *topic;
    struct record record = {.value = STR("late")};

    (void)state;
    rig_open(&r, plain, N + 1);
    topic = rig_topic(&r, "t");
    send_n(&r, topic, 0, N);
    kafka_drain(r.k, &r.drain, RIG_WAIT_MS);
    record.topic = topic;
    assert_int_equal(rig_submit(&r, N, &record), E_INVAL);
    assert_int_equal(r.items[N].delivery.outcome, OUTCOME_UNAVAILABLE);
    assert_int_equal(kafka_state(r.k), KAFKA_DRAINING);
    assert_false(kafka_is_ready(r.k));
    rig_wait(&r, &r.n_drained, 1);
    assert_int_equal(r.counts[OUTCOME_STORED], N);
    assert_int_equal(r.drain.given_up, 0);
    record.topic = sink_find_topic(kafka_sink(r.k), STR("never-seen"));
    assert_int_equal(rig_submit(&r, N, &record), E_INVAL);
    rig_close(&r);
}

static void a_drain_past_its_limit_answers_what_is_left(void **state)
{
    struct rig r;
    struct sink_topic *topic;

    (void)state;
    rig_open(&r, plain, N);
    topic = rig_topic(&r, "t");
    set_down(&r);
    send_n(&r, topic, 0, N);
    kafka_drain(r.k, &r.drain, 50);
    rig_wait(&r, &r.n_drained, 1);
    assert_int_equal(r.counts[OUTCOME_UNAVAILABLE], N);
    assert_int_equal(r.drain.given_up, N);
    rig_close(&r);
}

static void stopping_answers_records_drains_waiters_and_requests(void **state)
{
    struct kafka_settings settings = {.max_inflight_bytes = 1024, .bootstrap = STR("127.0.0.1:1")};
    struct str names[] = {STR("t")};
    struct rig r;
    struct record record = {.value = STR("value")};
    size_t n = 0;

    (void)state;
    rig_open(&r, settings, N);
    record.topic = sink_find_topic(kafka_sink(r.k), STR("t"));
    while (n < N && rig_submit(&r, n, &record) == E_OK)
        n++;
    assert_in_range(n, 1, N - 1);
    sink_wait(kafka_sink(r.k), &r.waiter);
    r.topics.names = names;
    r.topics.n_names = 1;
    kafka_ensure_topics(r.k, &r.topics);
    kafka_drain(r.k, &r.drain, RIG_WAIT_MS);
    assert_int_equal(r.n_answered, 0);
    assert_int_equal(kafka_state(r.k), KAFKA_DRAINING);
    kafka_stop(r.k);
    loop_turn(&r.loop, 0);
    assert_int_equal(r.counts[OUTCOME_UNAVAILABLE], n);
    assert_int_equal(r.n_drained, 1);
    assert_int_equal(r.drain.given_up, n);
    assert_int_equal(r.n_woken, 1);
    assert_true(r.is_topics_done);
    assert_int_equal(r.topics.result.code, E_CLOSED);
    assert_int_equal(rig_submit(&r, n, &record), E_INVAL);
    kafka_ensure_topics(r.k, &r.topics);
    rig_close(&r);
}

static void without_a_cluster_it_stays_starting(void **state)
{
    struct kafka_settings settings = {.bootstrap = STR("127.0.0.1:1")};
    struct rig r;

    (void)state;
    rig_open(&r, settings, 0);
    assert_int_equal(kafka_state(r.k), KAFKA_STARTING);
    assert_false(kafka_is_ready(r.k));
    rig_close(&r);
}

static void topics_that_exist_already_are_fine(void **state)
{
    struct rig r;
    struct sink_topic *topic;

    (void)state;
    rig_open(&r, plain, 1);
    topic = rig_topic(&r, "t");
    assert_ptr_equal(rig_topic(&r, "t"), topic);
    rig_send(&r, 0, topic, "key", "value");
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_close(&r);
}

static void an_illegal_topic_is_refused_with_a_text(void **state)
{
    struct str names[] = {STR("good"), STR("not/good")};
    struct rig r;
    uint64_t since_ms = loop_clock_ms();

    (void)state;
    rig_open(&r, plain, 0);
    r.topics.names = names;
    r.topics.n_names = 2;
    kafka_ensure_topics(r.k, &r.topics);
    while (!r.is_topics_done && loop_clock_ms() - since_ms < RIG_WAIT_MS)
        loop_turn(&r.loop, 10);
    assert_int_equal(r.topics.result.code, E_INVAL);
    assert_true(strlen(r.topics.result.text) > 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_the_broker_is_the_records_outcome),
        cmocka_unit_test(a_passing_error_is_tried_again_until_stored),
        cmocka_unit_test(a_later_success_is_no_proof_for_an_earlier_record),
        cmocka_unit_test(a_topic_that_does_not_exist_is_told),
        cmocka_unit_test(records_wait_for_a_broker_that_is_away_and_keep_their_order),
        cmocka_unit_test(an_idle_process_notices_that_the_broker_is_back),
        cmocka_unit_test(a_time_limit_gives_up_only_the_topics_that_have_it),
        cmocka_unit_test(a_producer_that_failed_for_good_is_replaced),
        cmocka_unit_test(replacements_in_a_row_wait_and_deny_meanwhile_when_access_is_denied),
        cmocka_unit_test(a_drain_waits_for_what_is_under_way_and_refuses_the_rest),
        cmocka_unit_test(a_drain_past_its_limit_answers_what_is_left),
        cmocka_unit_test(stopping_answers_records_drains_waiters_and_requests),
        cmocka_unit_test(without_a_cluster_it_stays_starting),
        cmocka_unit_test(topics_that_exist_already_are_fine),
        cmocka_unit_test(an_illegal_topic_is_refused_with_a_text),
    };

    return cmocka_run_group_tests_name("kafka_fault", tests, NULL, NULL);
}
