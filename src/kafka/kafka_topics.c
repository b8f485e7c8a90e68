#include "kafka/kafka_topics.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "kafka/kafka_error.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_topic_check.h"

enum {
    CREATE_MS = 10000,     /* one CreateTopics request, answered when the topics are there */
    CREATE_SLICE_MS = 200, /* between looks at whether somebody wants to stop */
    LEADER_MS = 500,       /* one question to the leader of a partition that was just made */
    LEADER_ATTEMPTS = 40,
    LEADER_PAUSE_MS = 20,
};

static const int cluster_default = -1; /* for partitions and replicas, from CreateTopics version 4 on (KIP-464) */

static bool has_name(const void *entry, const void *key)
{
    return str_equal(str_from(((const struct rd_kafka_metadata_topic *)entry)->topic), *(const struct str *)key);
}

static bool is_usable(const struct rd_kafka_metadata_topic *t)
{
    if (t->err || t->partition_cnt == 0)
        return false;
    for (int i = 0; i < t->partition_cnt; i++)
        if (t->partitions[i].leader < 0)
            return false;
    return true;
}

void kafka_topics_free(struct kafka_topic_list *list)
{
    map_free(&list->by_name, MEM_KAFKA);
    if (list->metadata)
        rd_kafka_metadata_destroy(list->metadata);
    *list = (struct kafka_topic_list){0};
}

rd_kafka_resp_err_t kafka_topics_list(struct kafka_producer *p, int timeout_ms, struct kafka_topic_list *out_list)
{
    struct kafka_topic_list list = {0};
    rd_kafka_resp_err_t code = rd_kafka_metadata(p->rk, 1, NULL, &list.metadata, timeout_ms);

    if (code)
        return code;
    for (int i = 0; i < list.metadata->topic_cnt; i++) {
        struct rd_kafka_metadata_topic *t = &list.metadata->topics[i];

        map_add(&list.by_name, MEM_KAFKA, siphash(str_from(t->topic)), t);
    }
    *out_list = list;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool has_topic(const struct kafka_topic_list *list, struct str full_name, bool needs_leaders)
{
    const struct rd_kafka_metadata_topic *t = map_find(&list->by_name, siphash(full_name), &full_name, has_name);

    return t && (!needs_leaders || is_usable(t));
}

/* The outcome for one topic, told to people once. */
static err note_created(const char *name, rd_kafka_resp_err_t code, const char *text, struct errinfo *ei)
{
    err e = kafka_error_create(code);

    if (e == E_OK)
        LOG_INFO(LOG_KAFKA, "kafka.topic_created", F_TEXT("topic", name),
                 F_INT("existed", code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS));
    else if (e == E_AGAIN)
        LOG_WARN(LOG_KAFKA, "kafka.topic_waits", F_TEXT("topic", name), F_TEXT("error", rd_kafka_err2name(code)));
    else
        errinfo_set(ei, e, "topic %s is not there and cannot be made: %s", name, text ? text : rd_kafka_err2str(code));
    return e;
}

/* The worst of two: E_OK, then worth another attempt, then for good. */
static err worse(err a, err b)
{
    if (a == E_OK || (a == E_AGAIN && b != E_OK))
        return b;
    return a;
}

static err read_created(rd_kafka_event_t *event, struct errinfo *ei)
{
    const rd_kafka_CreateTopics_result_t *result = rd_kafka_event_CreateTopics_result(event);
    const rd_kafka_topic_result_t **topics;
    size_t n;
    err e = E_OK;

    if (rd_kafka_event_error(event)) {
        LOG_WARN(LOG_KAFKA, "kafka.create_topics", F_TEXT("error", rd_kafka_event_error_string(event)));
        return E_AGAIN;
    }
    topics = rd_kafka_CreateTopics_result_topics(result, &n);
    for (size_t i = 0; i < n; i++)
        e = worse(e, note_created(rd_kafka_topic_result_name(topics[i]), rd_kafka_topic_result_error(topics[i]),
                                  rd_kafka_topic_result_error_string(topics[i]), ei));
    return e;
}

static err request_creation(struct kafka *k, rd_kafka_t *rk, rd_kafka_NewTopic_t **topics, size_t n, struct errinfo *ei)
{
    char text[200];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_event_t *event = NULL;
    err e = E_AGAIN;

    (void)rd_kafka_AdminOptions_set_request_timeout(options, CREATE_MS, text, sizeof text);
    (void)rd_kafka_AdminOptions_set_operation_timeout(options, CREATE_MS / 2, text, sizeof text);
    rd_kafka_CreateTopics(rk, topics, n, options, queue);
    while (!event && !atomic_load(&k->admin.is_stopping))
        event = rd_kafka_queue_poll(queue, CREATE_SLICE_MS);
    if (event) {
        e = read_created(event, ei);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return e;
}

/* A topic of the request that the cluster does not have. */
struct missing {
    struct str name; /* full; owned */
    const struct kafka_topic_spec *spec;
};

/* The embedded Kafka does not know CreateTopics. */
static err create_in_mock(const struct kafka_mock *mock, const struct missing *missing, size_t n, struct errinfo *ei)
{
    err e = E_OK;

    for (size_t i = 0; i < n; i++)
        e = worse(e, note_created(missing[i].name.p, kafka_mock_create_topic(mock, missing[i].name.p), NULL, ei));
    return e;
}

static rd_kafka_NewTopic_t *new_topic(const struct missing *m)
{
    static const struct kafka_topic_spec defaults;
    const struct kafka_topic_spec *spec = m->spec ? m->spec : &defaults;
    char text[200];
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(m->name.p, spec->n_partitions ? spec->n_partitions : cluster_default,
                              spec->n_replicas ? spec->n_replicas : cluster_default, text, sizeof text);

    ASSERT(topic); /* the name is legal */
    for (size_t i = 0; i < spec->n_config; i++) {
        char *name = mem_copy_text(MEM_KAFKA, spec->config[i].name.p, spec->config[i].name.n);
        char *value = mem_copy_text(MEM_KAFKA, spec->config[i].value.p, spec->config[i].value.n);

        (void)rd_kafka_NewTopic_set_config(topic, name, value); /* the cluster judges both */
        mem_free(MEM_KAFKA, value);
        mem_free(MEM_KAFKA, name);
    }
    return topic;
}

static err create(struct kafka *k, struct kafka_producer *p, const struct missing *missing, size_t n, struct errinfo *ei)
{
    rd_kafka_NewTopic_t **topics;
    err e;

    if (k->mock.cluster)
        return create_in_mock(&k->mock, missing, n, ei);
    topics = mem_alloc(MEM_KAFKA, n * sizeof(rd_kafka_NewTopic_t *));
    for (size_t i = 0; i < n; i++)
        topics[i] = new_topic(&missing[i]);
    e = request_creation(k, p->rk, topics, n, ei);
    rd_kafka_NewTopic_destroy_array(topics, n);
    mem_free(MEM_KAFKA, topics);
    return e;
}

static void free_missing(struct missing *missing, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mem_free(MEM_KAFKA, (char *)(uintptr_t)missing[i].name.p);
    mem_free(MEM_KAFKA, missing);
}

/* Full names of those that are missing in the list. E_INVAL for an illegal name. */
static err find_missing(struct kafka *k, const struct kafka_topics *r, const struct kafka_topic_list *list, bool needs_leaders,
                        struct missing *out_missing, size_t *out_n)
{
    *out_n = 0;
    for (size_t i = 0; i < r->n_names; i++) {
        struct str full = kafka_sink_full_name(&k->sink, r->names[i]);

        if (!full.n)
            return E_INVAL;
        if (has_topic(list, full, needs_leaders))
            mem_free(MEM_KAFKA, (char *)(uintptr_t)full.p);
        else
            out_missing[(*out_n)++] = (struct missing){full, r->specs ? &r->specs[i] : NULL};
    }
    return E_OK;
}

/* Whether the leader of a partition serves it. Metadata names the leader of a new partition a moment before that broker knows. */
static bool has_serving_leader(struct kafka *k, struct kafka_producer *p, const char *topic, int32_t partition)
{
    int64_t low, high;

    for (int i = 0; i < LEADER_ATTEMPTS && kafka_admin_pause(&k->admin, i ? LEADER_PAUSE_MS : 0); i++)
        if (rd_kafka_query_watermark_offsets(p->rk, topic, partition, &low, &high, LEADER_MS) == RD_KAFKA_RESP_ERR_NO_ERROR)
            return true;
    return false;
}

/* Waits for the leaders of the topics that were just made, so that no first record meets a broker that refuses it. */
static err await_leaders(struct kafka *k, struct kafka_producer *p, const struct kafka_topic_list *list,
                         const struct missing *made, size_t n_made)
{
    for (size_t i = 0; i < n_made && !k->mock.cluster; i++) {
        const struct rd_kafka_metadata_topic *t = map_find(&list->by_name, siphash(made[i].name), &made[i].name, has_name);

        for (int j = 0; t && j < t->partition_cnt; j++)
            if (!has_serving_leader(k, p, t->topic, t->partitions[j].id))
                return E_AGAIN;
    }
    return E_OK;
}

/* Opens the topics at the sink and asks once more, so that their metadata is here before the first record is. */
static err warm(struct kafka *k, struct kafka_producer *p, const struct kafka_topics *r, const struct missing *made,
                size_t n_made)
{
    struct kafka_topic_list list = {0};
    struct missing *missing = mem_alloc(MEM_KAFKA, r->n_names * sizeof *missing + 1);
    size_t n_missing = 0;
    err e = E_AGAIN;

    for (size_t i = 0; i < r->n_names; i++)
        (void)sink_find_topic(&k->sink.sink, r->names[i]);
    if (kafka_topics_list(p, k->admin.metadata_ms, &list) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        e = find_missing(k, r, &list, true, missing, &n_missing);
        if (e == E_OK && n_missing > 0)
            e = E_AGAIN;
    }
    if (e == E_OK)
        e = await_leaders(k, p, &list, made, n_made);
    free_missing(missing, n_missing);
    kafka_topics_free(&list);
    return e;
}

err kafka_topics_ensure(struct kafka *k, struct kafka_producer *p, struct kafka_topics *r, const struct kafka_topic_list *list)
{
    struct missing *missing = mem_alloc(MEM_KAFKA, r->n_names * sizeof *missing + 1);
    size_t n_missing;
    err e = find_missing(k, r, list, false, missing, &n_missing);

    if (e != E_OK)
        e = errinfo_set(&r->result, e, "a topic's name is not legal in Kafka: 1 to 249 of a-z A-Z 0-9 . _ -");
    else if (n_missing > 0)
        e = create(k, p, missing, n_missing, &r->result);
    if (e == E_OK)
        r->n_made += n_missing;
    if (e == E_OK && r->n_names > 0)
        e = warm(k, p, r, missing, n_missing);
    if (e == E_OK && r->specs && !k->mock.cluster)
        e = kafka_topic_check(k, p->rk, r);
    free_missing(missing, n_missing);
    return e;
}
