/* The source's promises on the embedded Kafka: what is handed out, what is committed, and what comes again after a restart. */
#include "kafka/kafka_consumer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "integration/kafka_rig.h"
#include "kafka/kafka_consumer_metrics.h"

enum { N = 40, MAX_RECORDS = 4000, FIND_MS = 50 };

static const struct kafka_settings plain;

/* A reader on the test's own loop, which keeps what it gets. */
struct bench {
    struct rig rig;
    struct source_reader reader;
    struct kafka_consumer *consumer;
    const char *topic; /* the wants: a name, or with `*` at its end the beginning of one */
    bool is_changed;   /* to other wants */
    bool begins_at_end;
    struct source_record *records[MAX_RECORDS];
    size_t n_records;
    size_t n_full;
    uint32_t max_unsettled;
    struct mail *started; /* no positions are kept */
};

static struct bench b;

static atomic_int n_refs;

static void *ref(void *wants)
{
    atomic_fetch_add(&n_refs, 1);
    return wants;
}

static void unref(void *wants)
{
    if (wants)
        atomic_fetch_sub(&n_refs, 1);
}

static int interest(void *wants, struct str topic)
{
    const char *wanted = wants;
    size_t n = strlen(wanted);

    if (wanted[n - 1] == '*')
        return str_starts_with(topic, (struct str){wanted, n - 1}) ? 0 : -1;
    return str_equal(topic, str_from(wanted)) ? 0 : -1;
}

static struct str name(void *wants, int which)
{
    return which == 0 ? str_from(wants) : (struct str){0};
}

static bool begins_at_end(void *wants, int which)
{
    (void)wants;
    assert_int_equal(which, 0);
    return b.begins_at_end;
}

/* The reader knows more than the group, and of one topic too much. */
static int64_t begins_at(void *context, struct str topic, int32_t partition)
{
    (void)context;
    (void)partition;
    return str_equal(topic, STR("t1")) ? 7 : 1000;
}

static struct mailbox *home(void *context, struct str topic, int32_t partition)
{
    (void)context;
    (void)topic;
    (void)partition;
    return &b.rig.loop.mailbox;
}

static void on_record(struct mail *m)
{
    assert_true(b.n_records < MAX_RECORDS);
    b.records[b.n_records++] = CONTAINER_OF(m, struct source_record, mail);
}

static void on_full(void *context, struct source_partition *partition)
{
    (void)context;
    (void)partition;
    b.n_full++;
}

static void turn(uint64_t since_ms, const char *what)
{
    if (loop_clock_ms() - since_ms > RIG_WAIT_MS)
        fail_msg("waited in vain for %s", what);
    loop_turn(&b.rig.loop, 20);
}

static void wait_records(size_t n)
{
    uint64_t since_ms = loop_clock_ms();

    while (b.n_records < n)
        turn(since_ms, "records");
}

static void wait_metric(enum kafka_consumer_metric which, int64_t value)
{
    uint64_t since_ms = loop_clock_ms();

    while (metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][which]) < value)
        turn(since_ms, kafka_consumer_metrics[KAFKA_CONSUMER_RULES][which].name);
}

static void start(void)
{
    struct kafka_settings settings = {.is_embedded = true};
    struct kafka_consumer_settings consumer = {.group = STR("millrace"),
                                               .instance = STR("test"),
                                               .max_unsettled = b.max_unsettled,
                                               .find_ms = FIND_MS,
                                               .is_transient = b.started != NULL,
                                               .started = b.started,
                                               .started_home = &b.rig.loop.mailbox,
                                               .reader = &b.reader,
                                               .wants = (char *)(uintptr_t)b.topic};
    struct errinfo ei = {0};

    if (kafka_consumer_open(b.rig.k, &settings, &consumer, &b.consumer, &ei) != E_OK)
        fail_msg("%s", ei.text);
    kafka_consumer_start(b.consumer);
}

static void open_bench(const char *topic, size_t n_items)
{
    b = (struct bench){.topic = topic};
    b.reader = (struct source_reader){.ref = ref,
                                      .unref = unref,
                                      .interest = interest,
                                      .name = name,
                                      .begins_at_end = begins_at_end,
                                      .home = home,
                                      .on_record = on_record,
                                      .on_full = on_full};
    rig_open(&b.rig, plain, n_items);
}

static void stop(void)
{
    kafka_consumer_stop(b.consumer);
    loop_turn(&b.rig.loop, 0);
    kafka_consumer_free(b.consumer);
    b.consumer = NULL;
    b.n_records = 0;
    assert_int_equal(atomic_load(&n_refs), 0);
}

static void on_changed(struct mail *m)
{
    (void)m;
    b.is_changed = true;
}

/* Both steps; between them stands what the reader does. */
static void want(const char *topic)
{
    static struct mail done = {.on_mail = on_changed};
    uint64_t since_ms = loop_clock_ms();

    b.is_changed = false;
    kafka_consumer_want(b.consumer, (char *)(uintptr_t)topic, &done, &b.rig.loop.mailbox);
    while (!b.is_changed)
        turn(since_ms, "the answer");
    kafka_consumer_read_wanted(b.consumer);
}

static void close_bench(void)
{
    if (b.consumer)
        stop();
    rig_close(&b.rig);
}

/* Records `from` to `from` + n - 1, all of one key and so of one partition; the value is the number. */
static void produce(struct sink_topic *topic, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        char value[16];

        snprintf(value, sizeof value, "%zu", i);
        rig_send(&b.rig, i, topic, "key", value);
    }
    rig_wait(&b.rig, &b.rig.counts[OUTCOME_STORED], from + n);
}

static size_t number_of(const struct source_record *r)
{
    char text[16];

    snprintf(text, sizeof text, "%.*s", STR_ARG(r->value));
    return (size_t)atoi(text);
}

static void settle(size_t i)
{
    source_settle(kafka_consumer_source(b.consumer), b.records[i]);
}

static void records_come_in_order_with_key_value_and_headers(void **state)
{
    const struct record_header headers[] = {{STR_INIT("a"), STR_INIT("1")}, {STR_INIT("b"), STR_INIT("")}};
    struct record record = {.key = STR("key"), .value = STR("0"), .headers = headers, .n_headers = 2};

    (void)state;
    open_bench("t", N);
    record.topic = rig_topic(&b.rig, "t");
    assert_int_equal(rig_submit(&b.rig, 0, &record), E_OK);
    produce(record.topic, 1, N - 1);
    start();
    wait_records(N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(number_of(b.records[i]), i);
        assert_true(str_equal(b.records[i]->key, STR("key")));
        assert_true(str_equal(b.records[i]->partition->topic, STR("t")));
        assert_int_equal(b.records[i]->offset, b.records[0]->offset + (int64_t)i);
        assert_true(b.records[i]->timestamp_ms > 0);
    }
    assert_int_equal(b.records[0]->n_headers, 2);
    assert_true(str_equal(b.records[0]->headers[0].name, STR("a")));
    assert_true(str_equal(b.records[0]->headers[0].value, STR("1")));
    assert_true(str_equal(b.records[0]->headers[1].name, STR("b")));
    source_forget(kafka_consumer_source(b.consumer), b.records[0]);
    for (size_t i = 0; i < N; i++)
        settle(i);
    close_bench();
}

static void a_restart_brings_only_what_was_not_settled(void **state)
{
    struct sink_topic *topic;

    (void)state;
    open_bench("t", N + 1);
    topic = rig_topic(&b.rig, "t");
    produce(topic, 0, N / 2);
    start();
    wait_records(N / 2);
    for (size_t i = N / 2; i-- > 0;)
        if (i % 3)
            settle(i);
    stop();
    produce(topic, N / 2, N / 2);
    start();
    wait_records((N / 2 + 2) / 3 + N / 2);
    for (size_t i = 0; i < b.n_records; i++) {
        size_t old = (N / 2 + 2) / 3;

        assert_int_equal(number_of(b.records[i]), i < old ? 3 * i : N / 2 + i - old);
        settle(i);
    }
    stop();
    start();
    wait_metric(KAFKA_CONSUMER_PARTITIONS, KAFKA_MOCK_PARTITIONS);
    produce(topic, N, 1);
    wait_records(1);
    assert_int_equal(number_of(b.records[0]), N);
    close_bench();
}

static void a_new_interest_may_begin_at_the_end_and_loses_nothing_from_then_on(void **state)
{
    struct sink_topic *topic;

    (void)state;
    open_bench("t*", N);
    topic = rig_topic(&b.rig, "t1");
    produce(topic, 0, 10);
    b.begins_at_end = true;
    start();
    wait_metric(KAFKA_CONSUMER_PARTITIONS, KAFKA_MOCK_PARTITIONS);
    stop(); /* nothing was read, yet where it stands is known */
    produce(topic, 10, 10);
    start();
    wait_records(10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(number_of(b.records[i]), 10 + i);
    topic = rig_topic(&b.rig, "t2"); /* newer than the interest: from its beginning */
    produce(topic, 20, 10);
    wait_records(20);
    for (size_t i = 10; i < 20; i++)
        assert_int_equal(number_of(b.records[i]), 10 + i);
    close_bench();
}

static void a_partition_without_a_position_begins_where_the_reader_knows_that_it_does(void **state)
{
    (void)state;
    open_bench("t*", 20);
    b.reader.begins_at = begins_at;
    b.begins_at_end = true;
    produce(rig_topic(&b.rig, "t1"), 0, 10);
    produce(rig_topic(&b.rig, "t2"), 10, 10);
    start();
    wait_records(3 + 10);
    for (size_t i = 0; i < b.n_records; i++) {
        size_t number = number_of(b.records[i]);

        assert_true(number >= 7); /* of t2 there are no 1000: all that there are */
        settle(i);
    }
    stop();
    b.reader.begins_at = NULL; /* it has a position now */
    start();
    wait_metric(KAFKA_CONSUMER_PARTITIONS, 2 * KAFKA_MOCK_PARTITIONS);
    assert_int_equal(b.n_records, 0);
    close_bench();
}

static void on_started(struct mail *m)
{
    (void)m;
    b.is_changed = true;
}

static void without_positions_everything_that_comes_later_is_read(void **state)
{
    static struct mail started = {.on_mail = on_started};
    struct sink_topic *topic;

    (void)state;
    open_bench("t", N);
    b.begins_at_end = true;
    b.started = &started;
    topic = rig_topic(&b.rig, "t");
    for (size_t round = 0; round < 2; round++) {
        uint64_t since_ms = loop_clock_ms();

        produce(topic, round * 20, 10);
        b.is_changed = false;
        start();
        while (!b.is_changed)
            turn(since_ms, "the beginning");
        produce(topic, round * 20 + 10, 10);
        wait_records(10);
        for (size_t i = 0; i < 10; i++) {
            assert_int_equal(number_of(b.records[i]), round * 20 + 10 + i);
            settle(i);
        }
        stop(); /* what it settled is not remembered */
    }
    close_bench();
}

static void a_topic_that_is_known_to_be_anew_is_read_from_its_beginning(void **state)
{
    (void)state;
    open_bench("t", N);
    produce(rig_topic(&b.rig, "t"), 0, N);
    start();
    wait_records(N);
    kafka_consumer_begin_anew(b.consumer);
    wait_records(2 * (size_t)N);
    for (size_t i = 0; i < 2 * (size_t)N; i++) {
        assert_int_equal(number_of(b.records[i]), i % N);
        settle(i);
    }
    close_bench();
}

static atomic_uint n_missing;

static void count_missing(enum log_level level, enum log_sub sub, struct log_site *site, const char *event,
                          const struct log_field *fields, size_t n_fields)
{
    (void)level;
    (void)sub;
    (void)site;
    (void)fields;
    (void)n_fields;
    if (strcmp(event, "consumer.no_topic") == 0)
        atomic_fetch_add(&n_missing, 1);
}

static void a_topic_that_is_not_there_is_told_and_found_when_it_is(void **state)
{
    uint64_t since_ms = loop_clock_ms();

    (void)state;
    log_set_sink(count_missing); /* before any thread runs, and for all tests that follow */
    open_bench("late", N);
    start();
    while (atomic_load(&n_missing) == 0)
        turn(since_ms, "a word about the topic");
    produce(rig_topic(&b.rig, "late"), 0, N);
    wait_records(N);
    close_bench();
}

static void check_and_settle(size_t i)
{
    assert_int_equal(number_of(b.records[i]), i);
    settle(i);
}

static void what_is_not_wanted_is_left_and_later_goes_on_where_it_stopped(void **state)
{
    struct sink_topic *one, *two;

    (void)state;
    open_bench("one", 200);
    one = rig_topic(&b.rig, "one");
    two = rig_topic(&b.rig, "two");
    produce(one, 0, 50);
    produce(two, 50, 50);
    start();
    wait_records(50);
    want("two");
    wait_records(100);
    produce(one, 100, 50); /* nobody wants them now */
    produce(two, 150, 1);
    wait_records(101);
    for (size_t i = 50; i < 100; i++)
        assert_int_equal(number_of(b.records[i]), i);
    assert_int_equal(number_of(b.records[100]), 150);
    for (size_t i = 0; i < 25; i++)
        settle(2 * i); /* of what was left; the rest is still out */
    want("one");
    wait_records(151);
    for (size_t i = 101; i < 151; i++)
        assert_int_equal(number_of(b.records[i]), i - 1);
    for (size_t i = 0; i < 25; i++)
        settle(2 * i + 1);
    for (size_t i = 50; i < 101; i++)
        settle(i);
    stop(); /* all of "two" was settled after it was left, and committed */
    b.topic = "two";
    start();
    wait_metric(KAFKA_CONSUMER_PARTITIONS, KAFKA_MOCK_PARTITIONS);
    assert_int_equal(b.n_records, 0);
    want("one"); /* 100 to 149 were never settled */
    wait_records(50);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(number_of(b.records[i]), 100 + i);
    close_bench();
}

static void wants_may_change_at_any_moment_and_nothing_comes_twice_or_out_of_order(void **state)
{
    enum { CHANGES = 40, STEP = 50 };
    struct sink_topic *topic;
    size_t next = 0;

    (void)state;
    open_bench("t", CHANGES * STEP);
    b.max_unsettled = 3 * STEP; /* it also pauses */
    topic = rig_topic(&b.rig, "t");
    (void)rig_topic(&b.rig, "u");
    start();
    for (size_t i = 0; i < CHANGES; i++) {
        produce(topic, i * STEP, STEP);
        want(i % 2 ? "t" : "u");
        while (next < b.n_records)
            check_and_settle(next++);
    }
    while (next < CHANGES * STEP) {
        wait_records(next + 1);
        check_and_settle(next++);
    }
    loop_turn(&b.rig.loop, 50);
    assert_int_equal(b.n_records, CHANGES * STEP);
    close_bench();
}

static void wants_that_come_later_begin_at_the_end_if_they_are_new(void **state)
{
    struct sink_topic *topic;

    (void)state;
    open_bench("absent", N);
    b.begins_at_end = true;
    topic = rig_topic(&b.rig, "t1");
    produce(topic, 0, 10);
    start();
    want("t*");
    wait_metric(KAFKA_CONSUMER_PARTITIONS, KAFKA_MOCK_PARTITIONS);
    produce(topic, 10, 10);
    wait_records(10);
    assert_int_equal(number_of(b.records[0]), 10);
    produce(rig_topic(&b.rig, "t2"), 20, 10); /* newer than the wants */
    wait_records(20);
    want("t1"); /* another name, but it is known */
    produce(topic, 30, 5);
    wait_records(25);
    want("t*");
    produce(rig_topic(&b.rig, "t3"), 35, 5); /* new, and of an interest that has partitions */
    wait_records(30);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(number_of(b.records[i]), 10 + i);
    close_bench();
}

static void wants_change_while_kafka_is_away(void **state)
{
    (void)state;
    open_bench("t", N);
    produce(rig_topic(&b.rig, "t"), 0, N / 2);
    produce(rig_topic(&b.rig, "u"), N / 2, N / 2);
    start();
    wait_records(N / 2);
    assert_int_equal(rd_kafka_mock_broker_set_down(rig_cluster(&b.rig), -1), 0);
    want("u");
    want("t");
    want("u");
    assert_int_equal(rd_kafka_mock_broker_set_up(rig_cluster(&b.rig), -1), 0);
    wait_records(N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(number_of(b.records[i]), i);
        settle(i);
    }
    close_bench();
}

static void a_partition_pauses_when_too_much_is_unsettled(void **state)
{
    int64_t pauses = metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][KAFKA_CONSUMER_PAUSES]);
    struct sink_topic *topic;

    (void)state;
    open_bench("t", MAX_RECORDS);
    b.max_unsettled = 100;
    topic = rig_topic(&b.rig, "t");
    produce(topic, 0, 3000);
    start();
    wait_metric(KAFKA_CONSUMER_PAUSES, pauses + 1);
    rig_wait(&b.rig, &b.n_full, 2); /* reminded */
    assert_true(b.n_records < 1000);
    for (size_t next = 0; next < 3000; next++) {
        wait_records(next + 1);
        assert_int_equal(number_of(b.records[next]), next);
        settle(next);
    }
    close_bench();
}

static void kafka_that_is_away_is_waited_for(void **state)
{
    struct sink_topic *topic;

    (void)state;
    open_bench("t", N);
    topic = rig_topic(&b.rig, "t");
    produce(topic, 0, N / 2);
    start();
    wait_records(N / 2);
    assert_int_equal(rd_kafka_mock_broker_set_down(rig_cluster(&b.rig), -1), 0);
    for (size_t i = 0; i < N / 2; i++)
        settle(i);
    loop_turn(&b.rig.loop, 300);
    assert_int_equal(rd_kafka_mock_broker_set_up(rig_cluster(&b.rig), -1), 0);
    produce(topic, N / 2, N / 2);
    wait_records(N);
    for (size_t i = N / 2; i < N; i++)
        settle(i);
    close_bench();
}

static void a_failed_commit_is_tried_again(void **state)
{
    int64_t errors = metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][KAFKA_CONSUMER_COMMIT_ERRORS]);
    struct sink_topic *topic;

    (void)state;
    open_bench("t", N);
    topic = rig_topic(&b.rig, "t");
    produce(topic, 0, N);
    start();
    wait_records(N);
    rd_kafka_mock_push_request_errors(rig_cluster(&b.rig), 8 /* OffsetCommit */, 2, RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    for (size_t i = 0; i < N; i++)
        settle(i);
    wait_metric(KAFKA_CONSUMER_COMMIT_ERRORS, errors + 1);
    stop();
    start();
    wait_metric(KAFKA_CONSUMER_PARTITIONS, KAFKA_MOCK_PARTITIONS);
    loop_turn(&b.rig.loop, 100);
    assert_int_equal(b.n_records, 0);
    close_bench();
}

static void records_out_when_it_ends_may_be_settled_too_late(void **state)
{
    int64_t unsettled = metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][KAFKA_CONSUMED_UNSETTLED]);
    struct sink_topic *topic;

    (void)state;
    open_bench("t", N);
    topic = rig_topic(&b.rig, "t");
    produce(topic, 0, N);
    start();
    wait_records(N);
    kafka_consumer_stop(b.consumer);
    kafka_consumer_stop(b.consumer);
    settle(0);
    kafka_consumer_free(b.consumer);
    assert_int_equal(metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][KAFKA_CONSUMED_UNSETTLED]), unsettled);
    b.consumer = NULL;
    b.n_records = 0;
    start();
    wait_records(N);
    close_bench();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order_with_key_value_and_headers),
        cmocka_unit_test(a_restart_brings_only_what_was_not_settled),
        cmocka_unit_test(a_new_interest_may_begin_at_the_end_and_loses_nothing_from_then_on),
        cmocka_unit_test(a_partition_without_a_position_begins_where_the_reader_knows_that_it_does),
        cmocka_unit_test(without_positions_everything_that_comes_later_is_read),
        cmocka_unit_test(a_topic_that_is_known_to_be_anew_is_read_from_its_beginning),
        cmocka_unit_test(a_topic_that_is_not_there_is_told_and_found_when_it_is),
        cmocka_unit_test(what_is_not_wanted_is_left_and_later_goes_on_where_it_stopped),
        cmocka_unit_test(wants_may_change_at_any_moment_and_nothing_comes_twice_or_out_of_order),
        cmocka_unit_test(wants_that_come_later_begin_at_the_end_if_they_are_new),
        cmocka_unit_test(wants_change_while_kafka_is_away),
        cmocka_unit_test(a_partition_pauses_when_too_much_is_unsettled),
        cmocka_unit_test(kafka_that_is_away_is_waited_for),
        cmocka_unit_test(a_failed_commit_is_tried_again),
        cmocka_unit_test(records_out_when_it_ends_may_be_settled_too_late),
    };

    return cmocka_run_group_tests_name("kafka_consumer", tests, NULL, NULL);
}
