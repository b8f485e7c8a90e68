/* The asker of a table: where its partitions begin and end, on a thread that may wait for the cluster. First where
 * everything is, for the reader to begin; then the ends that barriers ask for. */
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_table_private.h"
#include "kafka/kafka_topic_check.h"
#include "loop/thread.h"

enum { QUESTION_MS = 1000, PAUSE_MS = 200, DEFAULT_RETENTION_MS = 24 * 3600 * 1000 };

static bool is_stopping(const struct kafka_table *l)
{
    return atomic_load(&l->is_stopping);
}

static void pause_for(struct kafka_table *l, unsigned ms)
{
    struct kafka_table_asker *a = &l->asker;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&a->lock);
    if (!is_stopping(l))
        pthread_cond_timedwait(&a->wake, &a->lock, &until);
    pthread_mutex_unlock(&a->lock);
}

/* --- where everything is --- */

/* How long removals stay in the log. What cannot be known is Kafka's default. */
static uint64_t ask_retention(struct kafka_table *l)
{
    char value[KAFKA_TOPIC_CONFIG_BYTES] = "";
    rd_kafka_resp_err_t code = kafka_topic_check_read(l->rk, l->states_topic, "delete.retention.ms", value, &l->is_stopping);
    uint64_t ms;

    if (code || !str_to_u64(str_from(value), UINT64_MAX / 4, &ms)) {
        LOG_WARN(LOG_KAFKA, "table.retention_unknown", F_TEXT("topic", l->states_topic),
                 F_TEXT("error", rd_kafka_err2name(code)));
        return DEFAULT_RETENTION_MS;
    }
    return ms;
}

static rd_kafka_resp_err_t place(struct kafka_table *l, struct kafka_table_partition *p, bool is_reply)
{
    struct kafka_table_place *found;
    int64_t low, high;
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(l->rk, is_reply ? l->replies_topic : l->states_topic, p->number,
                                                                &low, &high, QUESTION_MS);

    if (code)
        return code;
    found = mem_alloc_zero(MEM_KAFKA, sizeof *found);
    *found = (struct kafka_table_place){.partition = p, .is_reply = is_reply, .low = low, .high = high};
    kafka_table_reader_place(found);
    return code;
}

/* Replies first: nothing may be asked for before they are listened to. */
static void find_places(struct kafka_table *l)
{
    for (unsigned i = 0; i < 2 * l->n_partitions && !is_stopping(l); i++) {
        bool is_reply = i < l->n_partitions;
        rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

        if (is_reply && l->asker.knows_replies)
            continue;
        while (!is_stopping(l) && (code = place(l, &l->partitions[i % l->n_partitions], is_reply))) {
            LOG_WARN(LOG_KAFKA, "table.waiting", F_TEXT("table", l->name), F_TEXT("error", rd_kafka_err2name(code)));
            pause_for(l, PAUSE_MS);
        }
    }
    l->asker.knows_replies = true;
}

/* --- ends --- */

struct answer {
    struct mail mail;
    struct kafka_table_partition *partition;
    err result;
    uint64_t end_offset;
};

static void on_answer(struct mail *m)
{
    struct answer *a = CONTAINER_OF(m, struct answer, mail);
    const struct table_log_user *user = a->partition->log->user;

    user->on_end(user->context, (unsigned)a->partition->number, a->result, a->end_offset);
    mem_free(MEM_KAFKA, a);
}

static void answer(struct kafka_table_partition *p)
{
    struct kafka_table *l = p->log;
    struct answer *a = mem_alloc_zero(MEM_KAFKA, sizeof *a);
    int64_t low, high = 0;
    rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(l->rk, l->states_topic, p->number, &low, &high, QUESTION_MS);

    if (code)
        pause_for(l, PAUSE_MS);
    *a = (struct answer){
        .mail = {.on_mail = on_answer}, .partition = p, .result = code ? E_TIMEOUT : E_OK, .end_offset = (uint64_t)high};
    mailbox_post(&l->user->loop->mailbox, &a->mail);
}

/* The next partition whose end is asked for, NULL when there is none. Under the lock. */
static struct kafka_table_partition *take_asked(struct kafka_table *l)
{
    for (unsigned i = 0; i < l->n_partitions; i++)
        if (l->partitions[i].is_asked) {
            l->partitions[i].is_asked = false;
            return &l->partitions[i];
        }
    return NULL;
}

static void *run(void *context)
{
    struct kafka_table *l = context;
    struct kafka_table_asker *a = &l->asker;

    a->retention_ms = ask_retention(l);
    pthread_mutex_lock(&a->lock);
    while (!is_stopping(l)) {
        /* Nobody has caught up who cannot write yet. */
        struct kafka_table_partition *p = a->wants_places || !atomic_load(&l->is_ready) ? NULL : take_asked(l);
        bool wants_places = a->wants_places;

        if (!p && !wants_places) {
            pthread_cond_wait(&a->wake, &a->lock);
            continue;
        }
        a->wants_places = false;
        pthread_mutex_unlock(&a->lock);
        if (wants_places)
            find_places(l);
        else
            answer(p);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void kafka_table_asker_init(struct kafka_table *l)
{
    struct kafka_table_asker *a = &l->asker;
    pthread_condattr_t attr;

    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
}

err kafka_table_asker_start(struct kafka_table *l, struct errinfo *ei)
{
    err e;

    l->asker.wants_places = true;
    l->asker.knows_replies = false;
    e = thread_start(&l->asker.thread, "table-ask", run, l, ei);
    l->asker.is_running = e == E_OK;
    return e;
}

void kafka_table_asker_stop(struct kafka_table *l)
{
    struct kafka_table_asker *a = &l->asker;

    if (!a->is_running)
        return;
    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    a->is_running = false;
}

void kafka_table_asker_ask(struct kafka_table_partition *p)
{
    struct kafka_table_asker *a = &p->log->asker;

    pthread_mutex_lock(&a->lock);
    p->is_asked = true;
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

void kafka_table_asker_begin(struct kafka_table *l)
{
    pthread_mutex_lock(&l->asker.lock);
    atomic_store(&l->is_ready, true);
    pthread_cond_broadcast(&l->asker.wake);
    pthread_mutex_unlock(&l->asker.lock);
}

void kafka_table_asker_look_again(struct kafka_table *l)
{
    pthread_mutex_lock(&l->asker.lock);
    l->asker.wants_places = true;
    pthread_cond_broadcast(&l->asker.wake);
    pthread_mutex_unlock(&l->asker.lock);
}
