#include "kafka/kafka_admin.h"

#include <time.h>

#include "base/log.h"
#include "kafka/kafka_metrics.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_removal.h"
#include "kafka/kafka_topics.h"
#include "loop/mailbox.h"
#include "loop/thread.h"

enum {
    FIRST_PAUSE_MS = 20, /* a topic just made is known to all brokers a moment later */
    LAST_PAUSE_MS = 2000,
    FIRST_METADATA_MS = 1000, /* stopping may have to wait for it */
    LAST_METADATA_MS = 8000,  /* for a cluster so large, or so slow, that a second is not enough */
};

static bool is_stopping(const struct kafka_admin *a)
{
    return atomic_load(&a->is_stopping);
}

static void answer(struct kafka_topics *r, err e)
{
    if (e == E_CLOSED)
        errinfo_set(&r->result, e, "stopped before Kafka answered");
    r->result.code = e;
    mailbox_post(r->home, &r->mail);
}

static struct kafka_topics *take_requests(struct kafka_admin *a)
{
    struct kafka_topics *list;

    pthread_mutex_lock(&a->lock);
    list = a->requests;
    a->requests = NULL;
    a->last_request = &a->requests;
    pthread_mutex_unlock(&a->lock);
    return list;
}

/* Puts one back that needs another attempt. */
static void enqueue(struct kafka_admin *a, struct kafka_topics *r)
{
    r->next = NULL;
    *a->last_request = r;
    a->last_request = &r->next;
}

static void requeue(struct kafka_admin *a, struct kafka_topics *r)
{
    pthread_mutex_lock(&a->lock);
    enqueue(a, r);
    pthread_mutex_unlock(&a->lock);
}

/* One round with the cluster; true when nothing is left to try again. */
static bool attempt(struct kafka_admin *a)
{
    struct kafka_producer *p = kafka_sink_hold(&a->k->sink);
    struct kafka_topic_list list = {0};
    rd_kafka_resp_err_t code = kafka_topics_list(p, a->metadata_ms, &list);
    bool is_done = code == RD_KAFKA_RESP_ERR_NO_ERROR;
    struct kafka_topics *r, *next;

    if (code == RD_KAFKA_RESP_ERR__TIMED_OUT && a->metadata_ms < LAST_METADATA_MS)
        a->metadata_ms *= 2;
    if (!is_done) {
        LOG_WARN(LOG_KAFKA, "kafka.waiting", F_STR("bootstrap", a->k->bootstrap), F_TEXT("error", rd_kafka_err2str(code)));
    } else {
        kafka_note_up(a->k);
        for (r = take_requests(a); r; r = next) {
            err e = r->is_removal ? kafka_removal_try(a->k, p, r) : kafka_topics_ensure(a->k, p, r, &list);

            next = r->next;
            is_done = is_done && e != E_AGAIN;
            if (e == E_AGAIN)
                requeue(a, r);
            else
                answer(r, e);
        }
    }
    kafka_topics_free(&list);
    kafka_sink_release(p);
    return is_done;
}

static void close_dead(struct kafka_admin *a)
{
    struct kafka_producer *p;

    pthread_mutex_lock(&a->lock);
    p = a->dead;
    a->dead = NULL;
    pthread_mutex_unlock(&a->lock);
    while (p) {
        struct kafka_producer *next = p->next_dead;

        kafka_producer_close(p);
        p = next;
    }
}

bool kafka_admin_pause(struct kafka_admin *a, unsigned pause_ms)
{
    struct timespec until;
    bool is_over = false;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += (long)(pause_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&a->lock);
    while (!is_stopping(a) && pause_ms && !is_over)
        is_over = pthread_cond_timedwait(&a->wake, &a->lock, &until) != 0;
    pthread_mutex_unlock(&a->lock);
    return !is_stopping(a);
}

/* False when it is time to stop. */
static bool wait_for_work(struct kafka_admin *a)
{
    pthread_mutex_lock(&a->lock);
    while (!is_stopping(a) && !a->requests && !a->wants_probe && !a->dead)
        pthread_cond_wait(&a->wake, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return !is_stopping(a);
}

static bool takes_attempt(struct kafka_admin *a)
{
    bool takes;

    pthread_mutex_lock(&a->lock);
    takes = a->wants_probe || a->requests;
    a->wants_probe = false;
    pthread_mutex_unlock(&a->lock);
    return takes;
}

static void *run(void *context)
{
    struct kafka_admin *a = context;
    unsigned pause_ms = 0;

    metrics_attach_thread();
    while (kafka_admin_pause(a, pause_ms) && wait_for_work(a)) {
        close_dead(a);
        if (!takes_attempt(a) || attempt(a)) {
            pause_ms = 0;
            continue;
        }
        kafka_admin_probe(a);
        pause_ms = pause_ms ? pause_ms * 2 : FIRST_PAUSE_MS;
        if (pause_ms > LAST_PAUSE_MS)
            pause_ms = LAST_PAUSE_MS;
    }
    return NULL;
}

void kafka_admin_init(struct kafka_admin *a, struct kafka *k)
{
    pthread_condattr_t attr;

    *a = (struct kafka_admin){.k = k, .wants_probe = true, .metadata_ms = FIRST_METADATA_MS};
    a->last_request = &a->requests;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
}

err kafka_admin_start(struct kafka_admin *a, struct errinfo *ei)
{
    err e = thread_start(&a->thread, "kafka-admin", run, a, ei);

    a->is_running = e == E_OK;
    return e;
}

void kafka_admin_ensure(struct kafka_admin *a, struct kafka_topics *topics)
{
    bool is_late;

    topics->result = (struct errinfo){0};
    topics->n_made = 0;
    pthread_mutex_lock(&a->lock);
    is_late = is_stopping(a);
    if (!is_late)
        enqueue(a, topics);
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (is_late)
        answer(topics, E_CLOSED);
}

void kafka_admin_probe(struct kafka_admin *a)
{
    pthread_mutex_lock(&a->lock);
    a->wants_probe = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

void kafka_admin_bury(struct kafka_admin *a, struct kafka_producer *p)
{
    pthread_mutex_lock(&a->lock);
    p->next_dead = a->dead;
    a->dead = p;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
}

void kafka_admin_stop(struct kafka_admin *a)
{
    struct kafka_topics *r, *next;

    pthread_mutex_lock(&a->lock);
    atomic_store(&a->is_stopping, true);
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (a->is_running)
        pthread_join(a->thread, NULL);
    a->is_running = false;
    for (r = take_requests(a); r; r = next) {
        next = r->next;
        answer(r, E_CLOSED);
    }
}

void kafka_admin_fini(struct kafka_admin *a)
{
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
}
