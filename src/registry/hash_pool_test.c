#include "registry/hash_pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/loop.h"

enum { JOBS = 100 };

struct counted {
    struct hash_job job;
    int value;
};

static struct {
    struct loop loop;
    int n_back, n_dropped;
} t;

static void compute(struct hash_job *job)
{
    CONTAINER_OF(job, struct counted, job)->value++;
}

static void on_back(struct mail *m)
{
    struct counted *c = CONTAINER_OF(m, struct counted, job.mail);

    assert_int_equal(c->value, c->job.is_dropped ? 0 : 1);
    t.n_back++;
    t.n_dropped += c->job.is_dropped;
}

static void every_job_comes_back_once(void **state)
{
    static struct counted jobs[JOBS];
    struct hash_pool *pool;

    (void)state;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(hash_pool_start(2, &pool, NULL), E_OK);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].job = (struct hash_job){.mail = {.on_mail = on_back}, .home = &t.loop.mailbox, .run = compute};
        assert_int_equal(hash_pool_submit(pool, &jobs[i].job), E_OK);
    }
    while (t.n_back < JOBS / 2)
        loop_turn(&t.loop, 10);
    hash_pool_stop(pool);
    while (t.n_back < JOBS)
        loop_turn(&t.loop, 0);
    assert_int_equal(t.n_back, JOBS);
    hash_pool_stop(NULL);
    loop_fini(&t.loop);
}

/* One thread is held up while the queue fills. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct hash_job *job)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    compute(job);
}

static void more_than_the_bound_are_refused(void **state)
{
    struct counted *jobs = calloc(HASH_POOL_MAX_JOBS + 1, sizeof *jobs);
    struct hash_pool *pool;

    (void)state;
    t.n_back = t.n_dropped = 0;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(hash_pool_start(1, &pool, NULL), E_OK);
    pthread_mutex_lock(&gate);
    for (int i = 0; i <= HASH_POOL_MAX_JOBS; i++) {
        jobs[i].job = (struct hash_job){.mail = {.on_mail = on_back}, .home = &t.loop.mailbox, .run = wait_at_gate};
        assert_int_equal(hash_pool_submit(pool, &jobs[i].job), i < HASH_POOL_MAX_JOBS ? E_OK : E_BUSY);
    }
    assert_int_equal(hash_pool_count(pool), HASH_POOL_MAX_JOBS);
    pthread_mutex_unlock(&gate);
    hash_pool_stop(pool);
    while (t.n_back < HASH_POOL_MAX_JOBS)
        loop_turn(&t.loop, 0);
    loop_fini(&t.loop);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_job_comes_back_once),
                                       cmocka_unit_test(more_than_the_bound_are_refused)};

    return cmocka_run_group_tests_name("hash_pool", tests, NULL, NULL);
}
