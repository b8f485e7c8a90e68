/* What core/sink.h promises, on the embedded Kafka. */
#include "integration/kafka_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "kafka/kafka_metrics.h"

enum { MAX_RECORD = 2000 * 1000 };

static const struct kafka_settings plain;

struct seen {
    unsigned n;
    bool is_null[4];
    size_t sizes[4];
    bool has_key[4];
    char headers[200];
};

static void note(const rd_kafka_message_t *m, void *context)
{
    struct seen *s = context;
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size, at = 0;
    unsigned which;

    assert_int_equal(m->key_len > 0, m->key != NULL);
    which = m->key ? (unsigned)((const char *)m->key)[0] - '0' : 3;
    s->n++;
    s->is_null[which] = m->payload == NULL;
    s->sizes[which] = m->len;
    s->has_key[which] = m->key != NULL;
    if (which != 0 || rd_kafka_message_headers(m, &headers))
        return;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        at += (size_t)snprintf(s->headers + at, sizeof s->headers - at, "%s=%.*s;", name, (int)size, (const char *)value);
}

static void a_record_arrives_with_key_value_and_headers(void **state)
{
    static const struct record_header headers[] = {
        {STR_INIT("orig_adapter"), STR_INIT("hono-mqtt")},
        {STR_INIT("qos"), STR_INIT("1")},
        {STR_INIT("empty"), {NULL, 0}},
        {STR_INIT("qos"), STR_INIT("again")},
    };
    struct rig r;
    struct seen seen = {0};
    struct record records[] = {
        {.key = STR("0"), .value = STR("text"), .headers = headers, .n_headers = 4},
        {.key = STR("1"), .value = {NULL, 0}},
        {.key = STR("2"), .value = {"", 0}},
        {.key = {"", 0}, .value = STR("no key")},
    };

    (void)state;
    rig_open(&r, plain, 4);
    for (size_t i = 0; i < 4; i++) {
        records[i].topic = rig_topic(&r, "t");
        assert_int_equal(rig_submit(&r, i, &records[i]), E_OK);
    }
    rig_wait(&r, &r.counts[OUTCOME_STORED], 4);
    rig_consume(&r, "t", 4, note, &seen);
    assert_string_equal(seen.headers, "orig_adapter=hono-mqtt;qos=1;empty=;qos=again;");
    assert_int_equal(seen.sizes[0], 4);
    assert_true(seen.is_null[1]);
    assert_false(seen.is_null[2]);
    assert_int_equal(seen.sizes[2], 0);
    assert_false(seen.has_key[3]);
    rig_close(&r);
}

static void a_topic_has_one_handle_and_an_illegal_name_none(void **state)
{
    struct rig r;
    struct sink *sink;

    (void)state;
    rig_open(&r, plain, 0);
    sink = kafka_sink(r.k);
    assert_non_null(sink_find_topic(sink, STR("a")));
    assert_ptr_equal(sink_find_topic(sink, STR("a")), sink_find_topic(sink, STR("a")));
    assert_ptr_not_equal(sink_find_topic(sink, STR("a")), sink_find_topic(sink, STR("b")));
    assert_null(sink_find_topic(sink, STR("")));
    assert_null(sink_find_topic(sink, STR("a/b")));
    assert_null(sink_find_topic(sink, STR("..")));
    rig_close(&r);
}

static void the_prefix_stands_before_every_topic(void **state)
{
    struct kafka_settings settings = {.topic_prefix = STR("prod.")};
    struct rig r;

    (void)state;
    rig_open(&r, settings, 1);
    rig_send(&r, 0, rig_topic(&r, "hono.telemetry.demo"), "k", "v");
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_consume(&r, "prod.hono.telemetry.demo", 1, NULL, NULL);
    rig_close(&r);
}

static void a_record_too_large_is_refused_at_once(void **state)
{
    struct rig r;
    char *big = mem_alloc_zero(MEM_TEST, MAX_RECORD);
    struct record record = {.value = {big, MAX_RECORD}};
    int64_t before;

    (void)state;
    rig_open(&r, plain, 1);
    record.topic = rig_topic(&r, "t");
    before = metric_value(&kafka_metrics_records[OUTCOME_TOO_LARGE]);
    assert_int_equal(rig_submit(&r, 0, &record), E_INVAL);
    assert_int_equal(r.items[0].delivery.outcome, OUTCOME_TOO_LARGE);
    assert_int_equal(metric_value(&kafka_metrics_records[OUTCOME_TOO_LARGE]), before + 1);
    record.value.n = (size_t)2 << 30; /* not even looked at */
    assert_int_equal(rig_submit(&r, 0, &record), E_INVAL);
    assert_int_equal(r.items[0].delivery.outcome, OUTCOME_TOO_LARGE);
    mem_free(MEM_TEST, big);
    rig_close(&r);
}

/* Order and number: several threads, each with keys of its own. */
enum { SENDERS = 2, PER_SENDER = 5000, KEYS_PER_SENDER = 10 };

struct sender {
    struct rig *rig;
    struct sink_topic *topic;
    unsigned id;
};

static void *send_all(void *context)
{
    struct sender *s = context;

    for (unsigned i = 0; i < PER_SENDER; i++) {
        char key[32], value[32];
        struct record record = {.topic = s->topic, .key.p = key, .value.p = value};

        record.key.n = (size_t)snprintf(key, sizeof key, "%u-%u", s->id, i % KEYS_PER_SENDER);
        record.value.n = (size_t)snprintf(value, sizeof value, "%u", i);
        if (sink_submit(kafka_sink(s->rig->k), &record, &s->rig->items[s->id * PER_SENDER + i].delivery) != E_OK)
            abort();
    }
    return NULL;
}

struct order {
    int last[SENDERS][KEYS_PER_SENDER];
};

static void check_order(const rd_kafka_message_t *m, void *context)
{
    struct order *o = context;
    char key[32], value[32];
    unsigned sender, i;
    int n;

    snprintf(key, sizeof key, "%.*s", (int)m->key_len, (const char *)m->key);
    snprintf(value, sizeof value, "%.*s", (int)m->len, (const char *)m->payload);
    assert_int_equal(sscanf(key, "%u-%u", &sender, &i), 2);
    n = atoi(value);
    assert_int_equal(n, o->last[sender][i] < 0 ? (int)i : o->last[sender][i] + KEYS_PER_SENDER);
    o->last[sender][i] = n;
}

static void records_of_a_key_keep_their_order_and_each_is_answered_once(void **state)
{
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    struct order order;
    struct rig r;
    struct sink_topic *topic;

    (void)state;
    rig_open(&r, plain, SENDERS * PER_SENDER);
    topic = rig_topic(&r, "t");
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){&r, topic, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    for (unsigned i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    r.n_items = SENDERS * PER_SENDER;
    rig_wait(&r, &r.counts[OUTCOME_STORED], r.n_items);
    memset(&order, 0xff, sizeof order);
    rig_consume(&r, "t", r.n_items, check_order, &order);
    rig_close(&r);
}

static void without_room_nothing_happens_until_the_waiter_is_told(void **state)
{
    struct kafka_settings settings = {.max_inflight_bytes = 4096};
    struct rig r;
    struct record record = {.key = STR("k"), .value = STR("0123456789")};
    int64_t refused = metric_value(&kafka_metrics_counters[KAFKA_COUNTER_NO_ROOM]);
    size_t n = 0;

    (void)state;
    rig_open(&r, settings, 100);
    record.topic = rig_topic(&r, "t");
    assert_int_equal(rd_kafka_mock_broker_set_down(rig_cluster(&r), -1), 0);
    while (rig_submit(&r, n, &record) == E_OK)
        n++;
    assert_in_range(n, 10, 20);
    assert_int_equal(rig_submit(&r, n, &record), E_AGAIN);
    assert_int_equal(metric_value(&kafka_metrics_counters[KAFKA_COUNTER_NO_ROOM]), refused + 2);
    assert_int_equal(kafka_inflight_records(r.k), n);
    sink_wait(kafka_sink(r.k), &r.waiter);
    sink_wait(kafka_sink(r.k), &r.waiter);
    assert_int_equal(rd_kafka_mock_broker_set_up(rig_cluster(&r), -1), 0);
    rig_wait(&r, &r.n_woken, 1);
    assert_int_equal(rig_submit(&r, n, &record), E_OK);
    rig_wait(&r, &r.counts[OUTCOME_STORED], n + 1);
    assert_int_equal(r.n_woken, 1);
    sink_wait(kafka_sink(r.k), &r.waiter); /* there is room: told at once */
    rig_wait(&r, &r.n_woken, 2);
    rig_consume(&r, "t", n + 1, NULL, NULL);
    rig_close(&r);
}

static void a_record_larger_than_the_whole_room_still_passes(void **state)
{
    struct kafka_settings settings = {.max_inflight_bytes = 1};
    struct rig r;

    (void)state;
    rig_open(&r, settings, 1);
    rig_send(&r, 0, rig_topic(&r, "t"), "k", "larger than a byte");
    rig_wait(&r, &r.counts[OUTCOME_STORED], 1);
    rig_close(&r);
}

static void records_reserved_together_go_all_or_not_at_all(void **state)
{
    struct kafka_settings settings = {.max_inflight_bytes = 1000};
    struct rig r;
    struct sink *sink;
    struct record record = {.key = STR("k"), .value = STR("v")};
    uint64_t each;

    (void)state;
    rig_open(&r, settings, 3);
    sink = kafka_sink(r.k);
    record.topic = rig_topic(&r, "t");
    each = sink_charge(sink, &record);
    assert_in_range(each, 1, 999);
    assert_int_equal(sink_reserve(sink, 1000, 3), E_OK);
    assert_int_equal(kafka_inflight_records(r.k), 3);
    assert_int_equal(rig_submit(&r, 0, &record), E_AGAIN);
    assert_int_equal(sink_reserve(sink, each, 1), E_AGAIN);
    sink_unreserve(sink, 1000 - 2 * each, 1);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sink_submit_reserved(sink, &record, &r.items[i].delivery), E_OK);
    r.n_items = 2;
    rig_wait(&r, &r.counts[OUTCOME_STORED], 2);
    rig_close(&r);
}

static void check_partition(const rd_kafka_message_t *m, void *context)
{
    (void)context;
    assert_int_equal(m->partition, 2);
}

static void a_record_may_name_its_partition(void **state)
{
    struct rig r;
    struct record record = {.has_partition = true, .partition = 2, .value = STR("v")};
    struct record nowhere = {.has_partition = true, .partition = 99, .value = STR("v")};

    (void)state;
    rig_open(&r, plain, 6);
    nowhere.topic = record.topic = rig_topic(&r, "t");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(rig_submit(&r, i, &record), E_OK);
    rig_wait(&r, &r.counts[OUTCOME_STORED], 5);
    rig_consume(&r, "t", 5, check_partition, NULL);
    assert_int_equal(rig_submit(&r, 5, &nowhere), E_INVAL);
    assert_int_equal(r.items[5].delivery.outcome, OUTCOME_UNKNOWN_TOPIC);
    rig_close(&r);
}

struct creation {
    struct sink_creation wanted;
    size_t n_done;
};

static void on_created(struct mail *m)
{
    CONTAINER_OF(m, struct creation, wanted.mail)->n_done++;
}

static void a_topic_is_made_on_request(void **state)
{
    struct rig r;
    struct creation good = {.wanted = {.mail.on_mail = on_created, .name = STR_INIT("made")}};
    struct creation bad = {.wanted = {.mail.on_mail = on_created, .name = STR_INIT("not/legal")}};

    (void)state;
    rig_open(&r, plain, 0);
    good.wanted.home = bad.wanted.home = &r.loop.mailbox;
    sink_create_topic(kafka_sink(r.k), &good.wanted);
    sink_create_topic(kafka_sink(r.k), &bad.wanted);
    rig_wait(&r, &good.n_done, 1);
    rig_wait(&r, &bad.n_done, 1);
    assert_int_equal(good.wanted.result, E_OK);
    assert_int_equal(bad.wanted.result, E_INVAL);
    rig_consume(&r, "made", 0, NULL, NULL);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_arrives_with_key_value_and_headers),
        cmocka_unit_test(a_topic_has_one_handle_and_an_illegal_name_none),
        cmocka_unit_test(the_prefix_stands_before_every_topic),
        cmocka_unit_test(a_record_too_large_is_refused_at_once),
        cmocka_unit_test(records_of_a_key_keep_their_order_and_each_is_answered_once),
        cmocka_unit_test(without_room_nothing_happens_until_the_waiter_is_told),
        cmocka_unit_test(records_reserved_together_go_all_or_not_at_all),
        cmocka_unit_test(a_record_may_name_its_partition),
        cmocka_unit_test(a_topic_is_made_on_request),
        cmocka_unit_test(a_record_larger_than_the_whole_room_still_passes),
    };

    return cmocka_run_group_tests_name("kafka_sink", tests, NULL, NULL);
}
