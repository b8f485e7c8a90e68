/* C11 threads over POSIX threads, for builds with ThreadSanitizer only. librdkafka uses <threads.h>, which gcc 12's
 * ThreadSanitizer does not intercept: it neither knows those threads (and crashes in them) nor sees their locks. Linked into a
 * program, these definitions take the place of the C library's. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t), "a mutex fits in place");
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t), "a condition fits in place");
static_assert(sizeof(thrd_t) == sizeof(pthread_t), "the thread is the same");

struct start {
    thrd_start_t run;
    void *context;
};

static int result(int code)
{
    switch (code) {
    case 0:
        return thrd_success;
    case EBUSY:
        return thrd_busy;
    case ETIMEDOUT:
        return thrd_timedout;
    default:
        return thrd_error;
    }
}

static void *run(void *context)
{
    struct start start = *(struct start *)context;

    free(context);
    return (void *)(intptr_t)start.run(start.context);
}

int thrd_create(thrd_t *thread, thrd_start_t start, void *context)
{
    struct start *s = malloc(sizeof *s);

    if (!s)
        return thrd_nomem;
    *s = (struct start){start, context};
    return result(pthread_create(thread, NULL, run, s));
}

int thrd_join(thrd_t thread, int *out_code)
{
    void *code = NULL;
    int failed = pthread_join(thread, &code);

    if (out_code)
        *out_code = (int)(intptr_t)code;
    return result(failed);
}

thrd_t thrd_current(void)
{
    return pthread_self();
}

int mtx_init(mtx_t *m, int type)
{
    pthread_mutexattr_t attr;
    int failed;

    pthread_mutexattr_init(&attr);
    if (type & mtx_recursive)
        pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    failed = pthread_mutex_init((pthread_mutex_t *)m, &attr);
    pthread_mutexattr_destroy(&attr);
    return result(failed);
}

int mtx_lock(mtx_t *m)
{
    return result(pthread_mutex_lock((pthread_mutex_t *)m));
}

int mtx_unlock(mtx_t *m)
{
    return result(pthread_mutex_unlock((pthread_mutex_t *)m));
}

void mtx_destroy(mtx_t *m)
{
    pthread_mutex_destroy((pthread_mutex_t *)m);
}

int cnd_init(cnd_t *c)
{
    return result(pthread_cond_init((pthread_cond_t *)c, NULL));
}

int cnd_signal(cnd_t *c)
{
    return result(pthread_cond_signal((pthread_cond_t *)c));
}

int cnd_broadcast(cnd_t *c)
{
    return result(pthread_cond_broadcast((pthread_cond_t *)c));
}

int cnd_wait(cnd_t *c, mtx_t *m)
{
    return result(pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m));
}

int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until)
{
    return result(pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, until));
}

void cnd_destroy(cnd_t *c)
{
    pthread_cond_destroy((pthread_cond_t *)c);
}

void call_once(once_flag *flag, void (*run_once)(void))
{
    pthread_once((pthread_once_t *)flag, run_once);
}

/* librdkafka counts references with atomic operations that are not instrumented, so that the last owner's release looks like
 * a race with the use by the owner before. Its locks are seen (above), and with them every hand-over between its threads and
 * ours; only accesses made inside the library itself are left out. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:librdkafka.so\n";
}
