#include "kafka/kafka_removal.h"

#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_error.h"
#include "kafka/kafka_private.h"

enum {
    REMOVE_MS = 10000,
    SLICE_MS = 200, /* between looks at whether somebody wants to stop */
};

static err note_removed(const rd_kafka_topic_result_t *topic, struct errinfo *ei)
{
    const char *name = rd_kafka_topic_result_name(topic);
    rd_kafka_resp_err_t code = rd_kafka_topic_result_error(topic);
    err e = kafka_error_remove(code);

    if (e == E_OK)
        LOG_INFO(LOG_KAFKA, "kafka.topic_removed", F_TEXT("topic", name), F_INT("existed", code == RD_KAFKA_RESP_ERR_NO_ERROR));
    else if (e == E_AGAIN)
        LOG_WARN(LOG_KAFKA, "kafka.topic_stays", F_TEXT("topic", name), F_TEXT("error", rd_kafka_err2name(code)));
    else
        errinfo_set(ei, e, "topic %s cannot be removed: %s", name, rd_kafka_err2str(code));
    return e;
}

static err read_removed(rd_kafka_event_t *event, struct errinfo *ei)
{
    const rd_kafka_topic_result_t **topics;
    size_t n;
    err e = E_OK;

    if (rd_kafka_event_error(event)) {
        LOG_WARN(LOG_KAFKA, "kafka.delete_topics", F_TEXT("error", rd_kafka_event_error_string(event)));
        return E_AGAIN;
    }
    topics = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
    for (size_t i = 0; i < n; i++) {
        err one = note_removed(topics[i], ei);

        if (e == E_OK || (e == E_AGAIN && one != E_OK))
            e = one;
    }
    return e;
}

static err request_removal(struct kafka *k, rd_kafka_t *rk, rd_kafka_DeleteTopic_t **topics, size_t n, struct errinfo *ei)
{
    char text[200];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_DELETETOPICS);
    rd_kafka_event_t *event = NULL;
    err e = E_AGAIN;

    (void)rd_kafka_AdminOptions_set_request_timeout(options, REMOVE_MS, text, sizeof text);
    (void)rd_kafka_AdminOptions_set_operation_timeout(options, REMOVE_MS / 2, text, sizeof text);
    rd_kafka_DeleteTopics(rk, topics, n, options, queue);
    while (!event && !atomic_load(&k->admin.is_stopping))
        event = rd_kafka_queue_poll(queue, SLICE_MS);
    if (event) {
        e = read_removed(event, ei);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return e;
}

err kafka_removal_try(struct kafka *k, struct kafka_producer *p, struct kafka_topics *r)
{
    rd_kafka_DeleteTopic_t **topics;
    size_t n = 0;
    err e = E_OK;

    if (k->mock.cluster)
        return errinfo_set(&r->result, E_INVAL, "the embedded Kafka removes no topics");
    topics = mem_alloc(MEM_KAFKA, r->n_names * sizeof(rd_kafka_DeleteTopic_t *) + 1);
    for (size_t i = 0; i < r->n_names; i++) {
        struct str full = kafka_sink_full_name(&k->sink, r->names[i]);

        if (!full.n)
            e = errinfo_set(&r->result, E_INVAL, "a topic's name is not legal in Kafka: 1 to 249 of a-z A-Z 0-9 . _ -");
        else
            topics[n++] = rd_kafka_DeleteTopic_new(full.p);
        mem_free(MEM_KAFKA, (char *)(uintptr_t)full.p);
    }
    if (e == E_OK && n > 0)
        e = request_removal(k, p->rk, topics, n, &r->result);
    rd_kafka_DeleteTopic_destroy_array(topics, n);
    mem_free(MEM_KAFKA, topics);
    return e;
}
