#include "integration/kafka_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static void on_answer(struct mail *m)
{
    struct rig_item *item = CONTAINER_OF(m, struct rig_item, delivery.mail);

    item->n_answers++;
    item->rig->n_answered++;
    item->rig->counts[item->delivery.outcome]++;
}

static void on_room(struct mail *m)
{
    CONTAINER_OF(m, struct rig, waiter.mail)->n_woken++;
}

static void on_topics(struct mail *m)
{
    CONTAINER_OF(m, struct rig, topics.mail)->is_topics_done = true;
}

static void on_drained(struct mail *m)
{
    CONTAINER_OF(m, struct rig, drain.mail)->n_drained++;
}

void rig_open(struct rig *r, struct kafka_settings settings, size_t n_items)
{
    struct errinfo ei = {0};

    memset(r, 0, sizeof *r);
    settings.is_embedded = settings.bootstrap.n == 0;
    assert_int_equal(loop_init(&r->loop, 0, &ei), E_OK);
    if (kafka_open(&settings, &r->k, &ei) != E_OK)
        fail_msg("%s", ei.text);
    r->items = mem_alloc_zero(MEM_TEST, n_items * sizeof *r->items + 1);
    for (size_t i = 0; i < n_items; i++) {
        r->items[i].rig = r;
        r->items[i].delivery.mail.on_mail = on_answer;
        r->items[i].delivery.home = &r->loop.mailbox;
    }
    r->waiter.mail.on_mail = on_room;
    r->topics.mail.on_mail = on_topics;
    r->drain.mail.on_mail = on_drained;
    r->waiter.home = r->topics.home = r->drain.home = &r->loop.mailbox;
}

void rig_close(struct rig *r)
{
    kafka_stop(r->k);
    loop_turn(&r->loop, 0);
    assert_int_equal(r->n_answered, r->n_items);
    for (size_t i = 0; i < r->n_items; i++)
        assert_true(r->items[i].n_answers <= 1);
    assert_int_equal(kafka_inflight_records(r->k), 0);
    assert_int_equal(kafka_inflight_bytes(r->k), 0);
    kafka_free(r->k);
    mem_free(MEM_TEST, r->items);
    loop_fini(&r->loop);
}

/* The longest a test waits for anything. */
static void turn(struct rig *r, uint64_t since_ms, const char *what)
{
    if (loop_clock_ms() - since_ms > RIG_WAIT_MS)
        fail_msg("waited in vain for %s", what);
    loop_turn(&r->loop, 20);
}

void rig_wait(struct rig *r, const size_t *counter, size_t n)
{
    uint64_t since_ms = loop_clock_ms();

    while (*counter < n)
        turn(r, since_ms, "a count");
}

void rig_wait_state(struct rig *r, enum kafka_state state)
{
    uint64_t since_ms = loop_clock_ms();

    while (kafka_state(r->k) != state)
        turn(r, since_ms, kafka_state_name(state));
}

struct sink_topic *rig_topic(struct rig *r, const char *name)
{
    struct str names[] = {str_from(name)};
    uint64_t since_ms = loop_clock_ms();
    struct sink_topic *topic;

    r->topics.names = names;
    r->topics.n_names = 1;
    r->is_topics_done = false;
    kafka_ensure_topics(r->k, &r->topics);
    while (!r->is_topics_done)
        turn(r, since_ms, name);
    assert_int_equal(r->topics.result.code, E_OK);
    topic = sink_find_topic(kafka_sink(r->k), names[0]);
    assert_non_null(topic);
    return topic;
}

err rig_submit(struct rig *r, size_t i, const struct record *record)
{
    err e = sink_submit(kafka_sink(r->k), record, &r->items[i].delivery);

    if (e == E_OK)
        r->n_items++;
    return e;
}

void rig_send(struct rig *r, size_t i, struct sink_topic *topic, const char *key, const char *value)
{
    struct record record = {.topic = topic, .key = str_from(key), .value = str_from(value)};

    assert_int_equal(rig_submit(r, i, &record), E_OK);
}

rd_kafka_mock_cluster_t *rig_cluster(struct rig *r)
{
    return r->k->mock.cluster;
}

const void *rig_producer(struct rig *r)
{
    return atomic_load(&r->k->sink.producer);
}

void rig_fail_producer(struct rig *r, rd_kafka_resp_err_t code)
{
    struct kafka_producer *p = kafka_sink_hold(&r->k->sink);

    rd_kafka_test_fatal_error(p->rk, code, "the test says so");
    kafka_sink_release(p);
}

static rd_kafka_t *open_consumer(struct rig *r)
{
    char text[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *rk;

    rd_kafka_conf_set(conf, "bootstrap.servers", kafka_bootstrap(r->k).p, text, sizeof text);
    rd_kafka_conf_set(conf, "group.id", "rig", text, sizeof text);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", text, sizeof text);
    rd_kafka_conf_set(conf, "enable.partition.eof", "true", text, sizeof text);
    rd_kafka_conf_set(conf, "fetch.wait.max.ms", "10", text, sizeof text);
    rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    assert_non_null(rk);
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void assign(rd_kafka_t *rk, const char *topic)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(KAFKA_MOCK_PARTITIONS);

    for (int i = 0; i < KAFKA_MOCK_PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(rk, list), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
}

void rig_consume(struct rig *r, const char *topic, size_t n, void (*on_record)(const rd_kafka_message_t *m, void *context),
                 void *context)
{
    rd_kafka_t *rk = open_consumer(r);
    uint64_t since_ms = loop_clock_ms();
    size_t n_seen = 0, n_ends = 0;

    assign(rk, topic);
    while (n_ends < KAFKA_MOCK_PARTITIONS) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);

        if (loop_clock_ms() - since_ms > RIG_WAIT_MS)
            fail_msg("read %zu of %zu records", n_seen, n);
        if (!m)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            n_ends++;
        } else if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            n_seen++;
            if (on_record)
                on_record(m, context);
        }
        rd_kafka_message_destroy(m);
    }
    assert_int_equal(n_seen, n);
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}
