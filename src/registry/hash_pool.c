#include "registry/hash_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/mailbox.h"
#include "loop/thread.h"
#include "obs/metrics.h"

enum { MAX_THREADS = 8, NAME_BYTES = 16 };

struct hash_pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct list jobs;
    unsigned n_jobs; /* those being run as well */
    bool is_stopping;
    pthread_t threads[MAX_THREADS];
    unsigned n_threads;
};

static struct metric counts[] = {
    {.name = "millrace_registry_hashes_total", .help = "Passwords that were hashed by the pool", .kind = METRIC_COUNTER},
    {.name = "millrace_registry_hashes_refused_total",
     .help = "Passwords that were not, because too many waited",
     .kind = METRIC_COUNTER},
    {.name = "millrace_registry_hashes_waiting", .help = "Passwords that wait to be hashed, or are", .kind = METRIC_GAUGE},
};
enum { DONE, REFUSED, WAITING };

static struct hash_job *take(struct hash_pool *pool)
{
    struct list *link;

    pthread_mutex_lock(&pool->lock);
    while (list_is_empty(&pool->jobs) && !pool->is_stopping)
        pthread_cond_wait(&pool->has_work, &pool->lock);
    link = pool->is_stopping ? NULL : list_pop(&pool->jobs);
    pthread_mutex_unlock(&pool->lock);
    return link ? CONTAINER_OF(link, struct hash_job, link) : NULL;
}

static void finish(struct hash_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->n_jobs--;
    pthread_mutex_unlock(&pool->lock);
    metric_add(&counts[DONE], 1);
    metric_add(&counts[WAITING], (uint64_t)-1);
}

static void *run(void *context)
{
    const struct sched_param none = {0};
    struct hash_pool *pool = context;
    struct hash_job *job;

    metrics_attach_thread();
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* slower for others, not wrong, without it */
    while ((job = take(pool))) {
        job->run(job);
        finish(pool);
        mailbox_post(job->home, &job->mail);
    }
    return NULL;
}

err hash_pool_start(unsigned n_threads, struct hash_pool **out_pool, struct errinfo *ei)
{
    struct hash_pool *pool = mem_alloc_zero(MEM_REGISTRY, sizeof *pool);
    err e = E_OK;

    ASSERT(n_threads > 0 && n_threads <= MAX_THREADS);
    metrics_register(counts, ARRAY_LEN(counts));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    list_init(&pool->jobs);
    while (e == E_OK && pool->n_threads < n_threads) {
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof name, "hash-%u", pool->n_threads % MAX_THREADS);
        e = thread_start(&pool->threads[pool->n_threads], name, run, pool, ei);
        pool->n_threads += e == E_OK;
    }
    if (e != E_OK)
        hash_pool_stop(pool);
    else
        *out_pool = pool;
    return e;
}

err hash_pool_submit(struct hash_pool *pool, struct hash_job *job)
{
    err e = E_BUSY;

    job->is_dropped = false;
    pthread_mutex_lock(&pool->lock);
    if (pool->n_jobs < HASH_POOL_MAX_JOBS && !pool->is_stopping) {
        list_push(&pool->jobs, &job->link);
        pool->n_jobs++;
        pthread_cond_signal(&pool->has_work);
        e = E_OK;
    }
    pthread_mutex_unlock(&pool->lock);
    metric_add(&counts[e == E_OK ? WAITING : REFUSED], 1);
    return e;
}

unsigned hash_pool_count(struct hash_pool *pool)
{
    unsigned n;

    pthread_mutex_lock(&pool->lock);
    n = pool->n_jobs;
    pthread_mutex_unlock(&pool->lock);
    return n;
}

void hash_pool_stop(struct hash_pool *pool)
{
    struct list *link;

    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    while (pool->n_threads)
        pthread_join(pool->threads[--pool->n_threads], NULL);
    while ((link = list_pop(&pool->jobs))) {
        struct hash_job *job = CONTAINER_OF(link, struct hash_job, link);

        job->is_dropped = true;
        metric_add(&counts[WAITING], (uint64_t)-1);
        mailbox_post(job->home, &job->mail);
    }
    pthread_cond_destroy(&pool->has_work);
    pthread_mutex_destroy(&pool->lock);
    mem_free(MEM_REGISTRY, pool);
}
