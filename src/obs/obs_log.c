#include "obs/obs_log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/thread.h"
#include "obs/log_line.h"

/* POLL_MS: how often the thread that waits for a blocked reader looks whether it should stop. ABORT_MS: how long an aborting
 * process waits for the reader. ABORT_TRIES: of a lock that the aborting thread itself may hold. */
enum { POLL_MS = 50, ABORT_MS = 200, ABORT_TRIES = 1000, NS_PER_MS = 1000000 };

/* The one sink. A global, as base/log.h is: lines come from everywhere and belong to nobody. The lock is held for a copy of
 * one line at most, never while something is written. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t has_lines; /* for the thread */
    pthread_cond_t is_idle;   /* for obs_log_flush() */
    pthread_t thread;
    int fd;
    enum obs_log_format format;
    unsigned burst;
    char *ring;
    size_t size, head, used; /* whole lines: `used` bytes from `head` on, wrapping */
    size_t in_write;         /* bytes the thread has taken out and not yet written */
    uint64_t lost_told;
    bool is_running, is_stopping;
    struct sigaction old_abort;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_lines = PTHREAD_COND_INITIALIZER, .is_idle = PTHREAD_COND_INITIALIZER};

static atomic_uint_fast64_t lost, suppressed;

static uint64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / NS_PER_MS;
}

/* Locked. False when there is no room. */
static bool push(const char *line, size_t n)
{
    size_t at = (sink.head + sink.used) % sink.size;
    size_t first = sink.size - at < n ? sink.size - at : n;

    if (n > sink.size - sink.used)
        return false;
    memcpy(sink.ring + at, line, first);
    memcpy(sink.ring, line + first, n - first);
    sink.used += n;
    return true;
}

/* Locked. Takes as many whole lines as fit into `size`, which no line exceeds. */
static size_t pop(char *to, size_t size)
{
    size_t n = sink.used < size ? sink.used : size;
    size_t first = sink.size - sink.head < n ? sink.size - sink.head : n;

    memcpy(to, sink.ring + sink.head, first);
    memcpy(to + first, sink.ring, n - first);
    while (n > 0 && to[n - 1] != '\n')
        n--;
    sink.head = (sink.head + n) % sink.size;
    sink.used -= n;
    return n;
}

/* Counts the lines of a text that nobody will read. */
static void count_lost(const char *p, size_t n)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    atomic_fetch_add_explicit(&lost, lines, memory_order_relaxed);
}

/* Waits until a write of up to PIPE_BUF bytes will not block. */
static bool wait_writable(int timeout_ms)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};

    return poll(&p, 1, timeout_ms) > 0;
}

/* Without the lock. False: the reader has gone and the lines are lost. */
static bool write_all(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(sink.fd, p, n);

        if (done < 0 && errno != EINTR && errno != EAGAIN) {
            count_lost(p, n);
            return false;
        }
        if (done < 0 && errno == EAGAIN)
            (void)wait_writable(POLL_MS);
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* Locked. Says how many lines were lost since it was last said. */
static void tell_lost(void)
{
    uint64_t now = atomic_load_explicit(&lost, memory_order_relaxed);
    struct log_field field = F_INT("lines", now - sink.lost_told);
    struct log_event event = {
        .wall_ms = wall_ms(), .level = LOG_LEVEL_WARN, .sub = LOG_MAIN, .event = "log.lost", .fields = &field, .n_fields = 1};
    char line[OBS_LOG_LINE_BYTES];

    if (now != sink.lost_told && push(line, log_line_format(line, sink.format, &event)))
        sink.lost_told = now;
}

/* Locked. Waits for something to write. False: there is nothing, and the end was asked for. */
static bool wait_for_lines(void)
{
    while (sink.used == 0) {
        tell_lost();
        if (sink.used > 0)
            break;
        pthread_cond_broadcast(&sink.is_idle);
        if (sink.is_stopping)
            return false;
        pthread_cond_wait(&sink.has_lines, &sink.lock);
    }
    return true;
}

static void *run(void *context)
{
    char batch[OBS_LOG_LINE_BYTES];
    unsigned waited_ms = 0;

    (void)context;
    pthread_mutex_lock(&sink.lock);
    while (wait_for_lines()) {
        /* The lines stay in the ring while the reader is slow, so that an abort can still write them. */
        pthread_mutex_unlock(&sink.lock);
        bool is_writable = wait_writable(POLL_MS);
        pthread_mutex_lock(&sink.lock);
        if (!is_writable) {
            waited_ms += sink.is_stopping ? POLL_MS : 0;
            if (waited_ms >= OBS_LOG_STOP_MS)
                break;
            continue;
        }
        size_t n = sink.in_write = pop(batch, sizeof batch);
        pthread_mutex_unlock(&sink.lock);
        bool is_written = write_all(batch, n);
        pthread_mutex_lock(&sink.lock);
        sink.in_write = 0;
        if (!is_written) /* nobody is there to be told, and the line that tells would be lost too, for ever */
            sink.lost_told = atomic_load_explicit(&lost, memory_order_relaxed);
    }
    for (size_t n; (n = pop(batch, sizeof batch)) > 0;)
        count_lost(batch, n);
    pthread_cond_broadcast(&sink.is_idle);
    pthread_mutex_unlock(&sink.lock);
    return NULL;
}

/* Whether this call site may log now; what it held back before is in `*out_suppressed`. */
static bool is_allowed(struct log_site *site, uint64_t now_ms, unsigned burst, uint64_t *out_suppressed)
{
    uint_fast64_t window = now_ms / 1000 + 1; /* never the 0 of a new site */

    if (atomic_exchange_explicit(&site->window, window, memory_order_relaxed) != window)
        atomic_store_explicit(&site->count, 0, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&site->count, 1, memory_order_relaxed) >= burst) {
        atomic_fetch_add_explicit(&site->suppressed, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&suppressed, 1, memory_order_relaxed);
        return false;
    }
    *out_suppressed = atomic_load_explicit(&site->suppressed, memory_order_relaxed)
                          ? atomic_exchange_explicit(&site->suppressed, 0, memory_order_relaxed)
                          : 0;
    return true;
}

static void on_event(enum log_level level, enum log_sub sub, struct log_site *site, const char *name,
                     const struct log_field *fields, size_t n_fields)
{
    struct log_event event = {
        .wall_ms = wall_ms(), .level = level, .sub = sub, .event = name, .fields = fields, .n_fields = n_fields};
    char line[OBS_LOG_LINE_BYTES];
    size_t n;

    if (level != LOG_LEVEL_DEBUG && !is_allowed(site, event.wall_ms, sink.burst, &event.suppressed))
        return;
    n = log_line_format(line, sink.format, &event);
    pthread_mutex_lock(&sink.lock);
    if (!sink.is_running || !push(line, n))
        atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    else if (sink.used == n)
        pthread_cond_signal(&sink.has_lines);
    pthread_mutex_unlock(&sink.lock);
}

/* The process is about to die: writes what it can without waiting for anybody for long. */
static void on_abort(int signal_number)
{
    char batch[OBS_LOG_LINE_BYTES];
    bool is_locked = false;
    size_t n;

    for (int i = 0; i < ABORT_TRIES && !is_locked; i++)
        is_locked = pthread_mutex_trylock(&sink.lock) == 0;
    while (is_locked && sink.ring && wait_writable(ABORT_MS) && (n = pop(batch, sizeof batch)) > 0)
        (void)write_all(batch, n); /* there is nobody to tell */
    sigaction(SIGABRT, &sink.old_abort, NULL);
    raise(signal_number);
}

static void free_ring(void)
{
    mem_free(MEM_OBS, sink.ring);
    sink.ring = NULL;
    sink.used = sink.head = 0;
}

err obs_log_start(const struct obs_log_options *options, struct errinfo *ei)
{
    struct sigaction action = {.sa_handler = on_abort};
    err e;

    ASSERT(!sink.is_running);
    sink.fd = options->fd;
    sink.format = options->format;
    sink.burst = options->burst ? options->burst : OBS_LOG_BURST;
    sink.size = options->ring_bytes ? options->ring_bytes : OBS_LOG_RING_BYTES;
    sink.lost_told = atomic_load(&lost);
    sink.is_stopping = false;
    sink.ring = mem_alloc(MEM_OBS, sink.size);
    sink.is_running = true;
    e = thread_start(&sink.thread, "log", run, NULL, ei);
    if (e != E_OK) {
        sink.is_running = false;
        free_ring();
        return e;
    }
    sigaction(SIGABRT, &action, &sink.old_abort);
    log_set_sink(on_event);
    return E_OK;
}

void obs_log_stop(void)
{
    struct timespec limit;

    pthread_mutex_lock(&sink.lock);
    bool was_running = sink.is_running;
    sink.is_running = false;
    sink.is_stopping = true;
    pthread_cond_signal(&sink.has_lines);
    pthread_mutex_unlock(&sink.lock);
    if (!was_running)
        return;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 2 * OBS_LOG_STOP_MS / 1000;
    sigaction(SIGABRT, &sink.old_abort, NULL);
    /* A thread that hangs in write() is left alone with the ring: the process is about to end. */
    if (pthread_timedjoin_np(sink.thread, NULL, &limit) == 0)
        free_ring();
    else
        pthread_detach(sink.thread);
}

void obs_log_flush(void)
{
    pthread_mutex_lock(&sink.lock);
    while (sink.is_running && (sink.used > 0 || sink.in_write > 0))
        pthread_cond_wait(&sink.is_idle, &sink.lock);
    pthread_mutex_unlock(&sink.lock);
}

uint64_t obs_log_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

uint64_t obs_log_suppressed(void)
{
    return atomic_load_explicit(&suppressed, memory_order_relaxed);
}
