/* The owner of a partition of a table: a thread with a transactional producer of its own, because all of librdkafka's calls for
 * transactions block. Its transactional.id is the fence: whoever initialises transactions under it last is the owner, and every
 * commit of another fails. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_table_private.h"
#include "loop/thread.h"

enum {
    CALL_MS = 10000,    /* of one call; transaction.timeout.ms */
    PAUSE_MS = 200,     /* before another attempt */
    LOOK_MS = 20,       /* while the reader has not yet read what this owner must know */
    QUESTION_MS = 2000, /* one question to the cluster */
    IDENTITY_VERSION = 1,
    IDENTITY_KIND = 'i',
};

bool kafka_table_identity_read(struct str record, uint8_t out_identity[TABLE_LOG_IDENTITY_BYTES])
{
    if (record.n < KAFKA_TABLE_IDENTITY_RECORD_BYTES || record.p[0] != IDENTITY_VERSION || record.p[1] != IDENTITY_KIND)
        return false;
    memcpy(out_identity, record.p + 2, TABLE_LOG_IDENTITY_BYTES);
    return true;
}

static bool is_stopping(struct kafka_table_owner *o)
{
    bool is;

    pthread_mutex_lock(&o->lock);
    is = o->is_stopping;
    pthread_mutex_unlock(&o->lock);
    return is;
}

/* False when it is time to stop. */
static bool pause_for(struct kafka_table_owner *o, unsigned ms)
{
    struct timespec until;
    bool goes_on;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&o->lock);
    while (!o->is_stopping && pthread_cond_timedwait(&o->wake, &o->lock, &until) == 0)
        ;
    goes_on = !o->is_stopping;
    pthread_mutex_unlock(&o->lock);
    return goes_on;
}

/* --- transactions --- */

/* How a step of a transaction ended. Takes the error. E_OK; E_AGAIN: to be done again as it is; E_BUSY: the transaction must be
 * aborted; E_DENIED: another is the owner now, or the handle is of no use any more. */
static err judge(const struct kafka_table_owner *o, const char *step, rd_kafka_error_t *error)
{
    err e;

    if (!error)
        return E_OK;
    if (rd_kafka_error_is_fatal(error))
        e = E_DENIED;
    else if (rd_kafka_error_txn_requires_abort(error))
        e = E_BUSY;
    else
        e = rd_kafka_error_is_retriable(error) ? E_AGAIN : E_DENIED;
    LOG_INFO(LOG_KAFKA, "table.transaction", F_TEXT("table", o->partition->log->name), F_INT("partition", o->partition->number),
             F_TEXT("step", step), F_TEXT("error", rd_kafka_error_name(error)), F_TEXT("text", rd_kafka_error_string(error)));
    rd_kafka_error_destroy(error);
    return e;
}

static err begin(struct kafka_table_owner *o)
{
    return judge(o, "begin", rd_kafka_begin_transaction(o->rk));
}

/* Until it is decided: giving up a commit that may have happened would let its requests be decided twice. */
static err commit(struct kafka_table_owner *o)
{
    err e;

    do
        e = judge(o, "commit", rd_kafka_commit_transaction(o->rk, CALL_MS));
    while (e == E_AGAIN && pause_for(o, PAUSE_MS));
    return e == E_AGAIN ? E_DENIED : e;
}

/* E_AGAIN: undone. */
static err abort_transaction(struct kafka_table_owner *o)
{
    err e;

    do
        e = judge(o, "abort", rd_kafka_abort_transaction(o->rk, CALL_MS));
    while (e == E_AGAIN && pause_for(o, PAUSE_MS));
    return e == E_OK ? E_AGAIN : E_DENIED;
}

static err produce(struct kafka_table_owner *o, const char *topic, struct str key, struct str value)
{
    rd_kafka_resp_err_t code = rd_kafka_producev(o->rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(o->partition->number),
                                                 RD_KAFKA_V_KEY((void *)(uintptr_t)key.p, key.n),
                                                 RD_KAFKA_V_VALUE((void *)(uintptr_t)value.p, value.n),
                                                 RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);

    if (!code)
        return E_OK;
    LOG_WARN(LOG_KAFKA, "table.produce", F_TEXT("topic", topic), F_TEXT("error", rd_kafka_err2name(code)));
    return E_BUSY;
}

/* The position of the requests, within the transaction and in the name of the group, whose generation is a second fence. */
static err send_position(struct kafka_table_owner *o, int64_t last_request)
{
    const struct kafka_table *l = o->partition->log;
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(l->group);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    err e = E_BUSY;

    rd_kafka_topic_partition_list_add(list, l->requests_topic, o->partition->number)->offset = last_request + 1;
    if (group) {
        do
            e = judge(o, "position", rd_kafka_send_offsets_to_transaction(o->rk, list, group, CALL_MS));
        while (e == E_AGAIN && pause_for(o, PAUSE_MS));
        rd_kafka_consumer_group_metadata_destroy(group);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return e == E_AGAIN ? E_BUSY : e;
}

static err fill(struct kafka_table_owner *o, const struct table_log_batch *batch)
{
    const struct kafka_table *l = o->partition->log;
    err e = E_OK;

    for (size_t i = 0; i < batch->n_states && e == E_OK; i++)
        e = produce(o, l->states_topic, batch->states[i].key, batch->states[i].value);
    for (size_t i = 0; i < batch->n_replies && e == E_OK; i++)
        e = produce(o, l->replies_topic, (struct str){0}, batch->replies[i]);
    return e;
}

/* E_OK; E_AGAIN: undone, to be decided anew; E_DENIED. */
static err do_job(struct kafka_table_owner *o, const struct table_log_batch *batch, int64_t last_request)
{
    err e = begin(o);

    if (e == E_OK)
        e = fill(o, batch);
    if (e == E_OK)
        e = send_position(o, last_request);
    if (e == E_OK)
        e = commit(o);
    if (e == E_BUSY)
        e = abort_transaction(o);
    if (e == E_AGAIN)
        (void)pause_for(o, PAUSE_MS);
    return e;
}

/* --- becoming the owner --- */

static bool open_handle(struct kafka_table_owner *o)
{
    const struct kafka_table *l = o->partition->log;
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(l->producer_conf);
    char text[200];

    if (rd_kafka_conf_set(conf, "transactional.id", o->transactional_id, text, sizeof text) == RD_KAFKA_CONF_OK)
        o->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (o->rk)
        return true;
    rd_kafka_conf_destroy(conf);
    LOG_ERROR(LOG_KAFKA, "table.no_owner", F_TEXT("table", l->name), F_TEXT("error", text));
    return false;
}

static bool fence(struct kafka_table_owner *o)
{
    err e;

    do
        e = judge(o, "init", rd_kafka_init_transactions(o->rk, CALL_MS));
    while (e == E_AGAIN && pause_for(o, PAUSE_MS));
    return e == E_OK;
}

static bool write_identity(struct kafka_table_owner *o)
{
    char record[KAFKA_TABLE_IDENTITY_RECORD_BYTES] = {IDENTITY_VERSION, IDENTITY_KIND};
    err e = begin(o);

    if (getrandom(record + 2, TABLE_LOG_IDENTITY_BYTES, 0) != TABLE_LOG_IDENTITY_BYTES)
        return false;
    if (e == E_OK)
        e = produce(o, o->partition->log->states_topic, STR(KAFKA_TABLE_IDENTITY_KEY), (struct str){record, sizeof record});
    return e == E_OK && commit(o) == E_OK;
}

/* Where the states end: nobody else can add any now. */
static bool ask_end(struct kafka_table_owner *o)
{
    struct kafka_table *l = o->partition->log;
    int64_t low, high;

    while (rd_kafka_query_watermark_offsets(l->rk, l->states_topic, o->partition->number, &low, &high, QUESTION_MS))
        if (!pause_for(o, PAUSE_MS))
            return false;
    o->end_offset = (uint64_t)high;
    return true;
}

/* The log must have a name before there is anything else in it. The reader knows whether it has, or up to where it has not. */
static bool name_log(struct kafka_table_owner *o)
{
    struct kafka_table_partition *p = o->partition;

    while (!atomic_load(&p->has_identity)) {
        if (!ask_end(o))
            return false;
        if (!atomic_load(&p->has_identity) && atomic_load(&p->is_looked) && atomic_load(&p->looked_before) >= o->end_offset)
            return write_identity(o) && ask_end(o);
        if (!pause_for(o, LOOK_MS))
            return false;
    }
    return ask_end(o);
}

/* After the fence, so that no commit of the owner before can come behind it. */
static bool find_position(struct kafka_table_owner *o)
{
    struct kafka_table *l = o->partition->log;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_resp_err_t code;

    rd_kafka_topic_partition_list_add(list, l->requests_topic, o->partition->number);
    do {
        code = rd_kafka_committed(l->group, list, QUESTION_MS);
        if (!code)
            code = list->elems[0].err;
    } while (code && pause_for(o, PAUSE_MS));
    o->first_request = list->elems[0].offset >= 0 ? list->elems[0].offset : RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_topic_partition_list_destroy(list);
    return !code;
}

/* --- the thread --- */

static void post_done(struct kafka_table_owner *o, err result)
{
    o->job_result = result;
    mailbox_post(&o->partition->log->user->loop->mailbox, &o->done_mail);
}

/* Serves until it is to stop, or another is the owner. */
static void serve(struct kafka_table_owner *o)
{
    err e = E_OK;

    pthread_mutex_lock(&o->lock);
    while (e != E_DENIED) {
        const struct table_log_batch *job = o->job;
        int64_t last = o->job_last_request;

        if (o->is_stopping)
            break;
        if (!job) {
            pthread_cond_wait(&o->wake, &o->lock);
            continue;
        }
        o->job = NULL;
        pthread_mutex_unlock(&o->lock);
        e = do_job(o, job, last);
        post_done(o, e);
        pthread_mutex_lock(&o->lock);
    }
    pthread_mutex_unlock(&o->lock);
}

static void *run(void *context)
{
    struct kafka_table_owner *o = context;
    const struct table_log_batch *left;

    if (open_handle(o) && fence(o) && name_log(o) && find_position(o) && !is_stopping(o)) {
        kafka_table_group_ready(o);
        serve(o);
    }
    pthread_mutex_lock(&o->lock);
    o->has_ended = true;
    left = o->job;
    o->job = NULL;
    pthread_mutex_unlock(&o->lock);
    if (left)
        post_done(o, E_DENIED);
    if (o->rk) {
        (void)rd_kafka_purge(o->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(o->rk);
    }
    kafka_table_group_gone(o);
    return NULL;
}

struct kafka_table_owner *kafka_table_owner_new(struct kafka_table_partition *p)
{
    struct kafka_table_owner *o = mem_alloc_zero(MEM_KAFKA, sizeof *o);
    size_t n = strlen(p->log->transactions) + 8;
    pthread_condattr_t attr;
    char name[16];

    o->partition = p;
    o->transactional_id = mem_alloc(MEM_KAFKA, n);
    snprintf(o->transactional_id, n, "%s.%d", p->log->transactions, (int)p->number);
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&o->wake, &attr);
    pthread_condattr_destroy(&attr);
    snprintf(name, sizeof name, "table-own-%d", (int)p->number);
    if (thread_start(&o->thread, name, run, o, NULL) == E_OK)
        return o;
    o->has_ended = true;
    mem_free(MEM_KAFKA, o->transactional_id);
    mem_free(MEM_KAFKA, o);
    return NULL;
}

void kafka_table_owner_stop(struct kafka_table_owner *o)
{
    pthread_mutex_lock(&o->lock);
    o->is_stopping = true;
    pthread_cond_broadcast(&o->wake);
    pthread_mutex_unlock(&o->lock);
}

bool kafka_table_owner_commit(struct kafka_table_owner *o, const struct table_log_batch *batch, int64_t last_request)
{
    bool takes;

    pthread_mutex_lock(&o->lock);
    takes = !o->has_ended;
    if (takes) {
        o->job = batch;
        o->job_last_request = last_request;
        pthread_cond_broadcast(&o->wake);
    }
    pthread_mutex_unlock(&o->lock);
    return takes;
}

void kafka_table_owner_free(struct kafka_table_owner *o)
{
    pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->lock);
    mem_free(MEM_KAFKA, o->transactional_id);
    mem_free(MEM_KAFKA, o);
}
