#include "kafka/kafka_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

struct example {
    rd_kafka_resp_err_t code;
    enum outcome outcome;
};

static void the_outcomes_named_by_the_reason_codes_are_told_apart(void **state)
{
    static const struct example examples[] = {
        {RD_KAFKA_RESP_ERR_NO_ERROR, OUTCOME_STORED},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, OUTCOME_TOO_LARGE},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, OUTCOME_TOO_LARGE},
        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, OUTCOME_UNKNOWN_TOPIC},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, OUTCOME_UNKNOWN_TOPIC},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, OUTCOME_UNKNOWN_TOPIC},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OUTCOME_DENIED},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, OUTCOME_DENIED},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, OUTCOME_INVALID},
        {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, OUTCOME_INVALID},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, OUTCOME_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, OUTCOME_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, OUTCOME_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR__FATAL, OUTCOME_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, OUTCOME_UNAVAILABLE},
        {RD_KAFKA_RESP_ERR__QUEUE_FULL, OUTCOME_OVERLOADED},
        {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, OUTCOME_FAILED},
        {RD_KAFKA_RESP_ERR__FAIL, OUTCOME_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        assert_int_equal(kafka_error_outcome(examples[i].code), examples[i].outcome);
}

static void a_fatal_error_is_worth_another_attempt_unless_access_is_denied(void **state)
{
    (void)state;
    assert_int_equal(kafka_error_fatal_outcome(RD_KAFKA_RESP_ERR_NO_ERROR), OUTCOME_UNAVAILABLE);
    assert_int_equal(kafka_error_fatal_outcome(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER), OUTCOME_UNAVAILABLE);
    assert_int_equal(kafka_error_fatal_outcome(RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION), OUTCOME_UNAVAILABLE);
    assert_int_equal(kafka_error_fatal_outcome(RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED), OUTCOME_DENIED);
}

/* Whatever a later broker or librdkafka may answer: never taken for stored. */
static void no_error_is_ever_taken_for_stored(void **state)
{
    (void)state;
    for (int code = -500; code < 1000; code++) {
        enum outcome outcome = kafka_error_outcome((rd_kafka_resp_err_t)code);

        assert_in_range(outcome, 0, OUTCOMES - 1);
        assert_int_equal(outcome == OUTCOME_STORED, code == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
}

/* RETRIABLE by Kafka's protocol guide: a sender that asks again may succeed. */
static void what_kafka_calls_retriable_is_not_for_good(void **state)
{
    static const rd_kafka_resp_err_t codes[] = {
        RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,    RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,  RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,  RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
        RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED,
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        assert_int_equal(kafka_error_outcome(codes[i]), OUTCOME_UNAVAILABLE);
        assert_int_equal(kafka_error_create(codes[i]), E_AGAIN);
    }
}

static void making_a_topic_that_exists_is_success(void **state)
{
    (void)state;
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_NO_ERROR), E_OK);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS), E_OK);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED), E_DENIED);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED), E_DENIED);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_POLICY_VIOLATION), E_INVAL);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_NOT_CONTROLLER), E_AGAIN);
    assert_int_equal(kafka_error_create(RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR), E_AGAIN);
    assert_int_equal(kafka_error_remove(RD_KAFKA_RESP_ERR_NO_ERROR), E_OK);
    assert_int_equal(kafka_error_remove(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART), E_OK);
    assert_int_equal(kafka_error_remove(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED), E_DENIED);
    assert_int_equal(kafka_error_remove(RD_KAFKA_RESP_ERR_TOPIC_DELETION_DISABLED), E_INVAL);
    assert_int_equal(kafka_error_remove(RD_KAFKA_RESP_ERR_NOT_CONTROLLER), E_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outcomes_named_by_the_reason_codes_are_told_apart),
        cmocka_unit_test(a_fatal_error_is_worth_another_attempt_unless_access_is_denied),
        cmocka_unit_test(no_error_is_ever_taken_for_stored),
        cmocka_unit_test(what_kafka_calls_retriable_is_not_for_good),
        cmocka_unit_test(making_a_topic_that_exists_is_success),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
