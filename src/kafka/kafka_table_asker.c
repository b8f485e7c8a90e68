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

/* Until the cluster says it. */
static void find_place(struct kafka_table *l, struct kafka_table_partition *p, bool is_reply)
{
    rd_kafka_resp_err_t code;

    while (!is_stopping(l) && (code = place(l, p, is_reply))) {
        LOG_WARN(LOG_KAFKA, "table.waiting", F_TEXT("table", l->name), F_INT("partition", p->number),
                 F_TEXT("error", rd_kafka_err2name(code)));
        pause_for(l, PAUSE_MS);
    }
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

/* The next partition of which something is asked, NULL when there is none. Nobody has caught up who cannot write yet, so ends
 * come after the places. Under the lock. */
static struct kafka_table_partition *take_asked(struct kafka_table *l, bool *out_wants_place)
{
    for (unsigned i = 0; i < 2 * l->n_partitions; i++) {
        struct kafka_table_partition *p = &l->partitions[i % l->n_partitions];
        bool *asked = i < l->n_partitions ? &p->wants_place : &p->is_asked;

        if (!*asked || (i >= l->n_partitions && !atomic_load(&l->is_ready)))
            continue;
        *asked = false;
        *out_wants_place = i < l->n_partitions;
        return p;
    }
    return NULL;
}

static void *run(void *context)
{
    struct kafka_table *l = context;
    struct kafka_table_asker *a = &l->asker;

    a->retention_ms = ask_retention(l);
    /* Replies first: nothing may be asked for before they are listened to. */
    for (unsigned i = 0; i < l->n_partitions; i++)
        find_place(l, &l->partitions[i], true);
    pthread_mutex_lock(&a->lock);
    while (!is_stopping(l)) {
        bool wants_place = false;
        struct kafka_table_partition *p = take_asked(l, &wants_place);

        if (!p) {
            pthread_cond_wait(&a->wake, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        if (wants_place)
            find_place(l, p, false);
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

    for (unsigned i = 0; i < l->n_partitions; i++)
        l->partitions[i].wants_place = true;
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

void kafka_table_asker_place(struct kafka_table_partition *p)
{
    struct kafka_table_asker *a = &p->log->asker;

    pthread_mutex_lock(&a->lock);
    p->wants_place = true;
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
}
