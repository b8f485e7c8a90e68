#include "loop/worker.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

enum { N = 3, MAILBOX_BYTES = 1000 };

static struct workers ws;
static atomic_int began[N], ran[N];
static atomic_int refused_signals, wrong_threads;

static void on_thread(struct worker *w)
{
    sigset_t blocked;

    atomic_fetch_add(&began[w->id], 1);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT))
        atomic_fetch_add(&refused_signals, 1);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        atomic_store(&began[i], 0);
        atomic_store(&ran[i], 0);
    }
    atomic_store(&refused_signals, 0);
    atomic_store(&wrong_threads, 0);
    return 0;
}

static int none_left(void **state)
{
    (void)state;
    return mem_used(MEM_LOOP) == 0 && !ws.list ? 0 : -1;
}

static void workers_are_numbered_and_do_not_run_before_the_start(void **state)
{
    (void)state;
    assert_int_equal(workers_init(&ws, N, MAILBOX_BYTES, on_thread, NULL), E_OK);
    assert_int_equal(ws.n, N);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(ws.list[i].id, i);
        assert_ptr_equal(ws.list[i].all, &ws);
        assert_int_equal((uintptr_t)&ws.list[i] % 64, 0);
        assert_true(mailbox_reserve(&ws.list[i].loop.mailbox, MAILBOX_BYTES));
        assert_true(worker_is_current(&ws.list[i]));
        assert_int_equal(atomic_load(&began[i]), 0);
    }
    workers_stop(&ws); /* nothing runs: a no-op */
    workers_fini(&ws);
}

static void threads_start_and_stop_however_often_without_any_work(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= N; n++) {
        assert_int_equal(workers_init(&ws, n, MAILBOX_BYTES, on_thread, NULL), E_OK);
        assert_int_equal(workers_start(&ws, NULL), E_OK);
        workers_stop(&ws);
        workers_stop(&ws);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(atomic_load(&began[i]), n - i);
        workers_fini(&ws);
    }
    assert_int_equal(atomic_load(&refused_signals), 1 + 2 + 3);
    assert_int_equal(workers_init(&ws, 1, MAILBOX_BYTES, NULL, NULL), E_OK);
    assert_int_equal(workers_start(&ws, NULL), E_OK);
    workers_stop(&ws);
    workers_fini(&ws);
}

/* Goes round all workers once, each time from the one before. */
struct tour {
    struct mail m;
    unsigned at;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
};

static void on_tour(struct mail *m)
{
    struct tour *tour = CONTAINER_OF(m, struct tour, m);

    ASSERT_ON(&ws.list[tour->at]);
    for (unsigned i = 0; i < N; i++)
        if (worker_is_current(&ws.list[i]) != (i == tour->at) ||
            !pthread_equal(pthread_self(), ws.list[i].thread) != (i != tour->at))
            atomic_fetch_add(&wrong_threads, 1);
    atomic_fetch_add(&ran[tour->at], 1);
    if (++tour->at < N) {
        mailbox_post(&ws.list[tour->at].loop.mailbox, m);
        return;
    }
    pthread_mutex_lock(&tour->lock);
    tour->is_over = true;
    pthread_cond_signal(&tour->changed);
    pthread_mutex_unlock(&tour->lock);
}

static void mail_runs_on_the_worker_it_was_posted_to(void **state)
{
    struct tour tour = {.m = {.on_mail = on_tour}, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

    (void)state;
    assert_int_equal(workers_init(&ws, N, MAILBOX_BYTES, on_thread, NULL), E_OK);
    assert_int_equal(workers_start(&ws, NULL), E_OK);
    for (unsigned i = 0; i < N; i++) {
        char name[16], wanted[16];

        assert_false(worker_is_current(&ws.list[i])); /* this thread is nobody's */
        snprintf(wanted, sizeof wanted, "worker-%u", i);
        assert_int_equal(pthread_getname_np(ws.list[i].thread, name, sizeof name), 0);
        assert_string_equal(name, wanted);
    }
    mailbox_post(&ws.list[0].loop.mailbox, &tour.m);
    pthread_mutex_lock(&tour.lock);
    while (!tour.is_over)
        pthread_cond_wait(&tour.changed, &tour.lock);
    pthread_mutex_unlock(&tour.lock);
    workers_stop(&ws);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(atomic_load(&ran[i]), 1);
        assert_true(worker_is_current(&ws.list[i])); /* clearing away is anybody's */
    }
    assert_int_equal(atomic_load(&wrong_threads), 0);
    workers_fini(&ws);
}

static int next_fd(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return fd;
}

static void a_refusal_of_the_system_is_reported_and_leaves_nothing_open(void **state)
{
    struct rlimit before, limit;
    int fd = next_fd(), failures = 0;
    err e = E_IO;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    while (e != E_OK) {
        struct errinfo ei = {0};

        limit = (struct rlimit){(rlim_t)(fd + failures), before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        e = workers_init(&ws, N, MAILBOX_BYTES, NULL, &ei);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (e == E_OK)
            break;
        assert_int_equal(e, E_IO);
        assert_int_not_equal(strlen(ei.text), 0);
        assert_int_equal(next_fd(), fd);
        assert_int_equal(mem_used(MEM_LOOP), 0);
        failures++;
    }
    assert_int_equal(failures, 2 * N); /* epoll and eventfd of each */
    workers_fini(&ws);
    assert_int_equal(next_fd(), fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(workers_are_numbered_and_do_not_run_before_the_start, set_up, none_left),
        cmocka_unit_test_setup_teardown(threads_start_and_stop_however_often_without_any_work, set_up, none_left),
        cmocka_unit_test_setup_teardown(mail_runs_on_the_worker_it_was_posted_to, set_up, none_left),
        cmocka_unit_test_setup_teardown(a_refusal_of_the_system_is_reported_and_leaves_nothing_open, set_up, none_left),
    };

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
