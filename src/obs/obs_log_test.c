#include "obs/obs_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"

enum { THREADS = 4, LINES = 500, WIDE_BURST = 1000000 };

struct reader {
    int pipe[2];
    char *text;
    size_t n;
};

/* A pipe in which nobody reads yet. */
static void start(struct reader *r, struct obs_log_options options)
{
    *r = (struct reader){0};
    assert_int_equal(pipe2(r->pipe, O_CLOEXEC), 0);
    options.fd = r->pipe[1];
    options.burst = options.burst ? options.burst : WIDE_BURST;
    assert_int_equal(obs_log_start(&options, NULL), E_OK);
}

/* Reads to the end of the pipe, whose other side is closed. */
static void read_all(struct reader *r)
{
    ssize_t n;

    r->text = malloc(1);
    do {
        r->text = realloc(r->text, r->n + 65537);
        n = read(r->pipe[0], r->text + r->n, 65536);
        r->n += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    r->text[r->n] = '\0';
    close(r->pipe[0]);
}

static void stop(struct reader *r)
{
    obs_log_stop();
    close(r->pipe[1]);
    read_all(r);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void lines_below_the_level_are_not_written_and_levels_can_change(void **state)
{
    struct reader r;

    (void)state;
    start(&r, (struct obs_log_options){0});
    LOG_DEBUG(LOG_HTTP, "no.debug");
    LOG_INFO(LOG_HTTP, "an.info", F_INT("n", 1));
    log_set_level(LOG_HTTP, LOG_LEVEL_ERROR);
    LOG_WARN(LOG_HTTP, "no.warning");
    LOG_INFO(LOG_MQTT, "other.info");
    log_set_level(LOG_HTTP, LOG_LEVEL_DEBUG);
    LOG_DEBUG(LOG_HTTP, "a.debug");
    log_set_level(LOG_HTTP, LOG_LEVEL_INFO);
    stop(&r);
    assert_int_equal(count(r.text, "\n"), 3);
    assert_non_null(strstr(r.text, " level=info sub=http event=an.info n=1\n"));
    assert_non_null(strstr(r.text, " level=info sub=mqtt event=other.info\n"));
    assert_non_null(strstr(r.text, " level=debug sub=http event=a.debug\n"));
    free(r.text);
}

static void *log_many(void *context)
{
    for (int i = 0; i < LINES; i++)
        LOG_INFO(LOG_MAIN, "many", F_INT("thread", *(int *)context), F_INT("i", i));
    return NULL;
}

static void lines_of_many_threads_are_whole_and_in_order(void **state)
{
    struct reader r;
    pthread_t threads[THREADS];
    int numbers[THREADS], next[THREADS] = {0};
    uint64_t lost = obs_log_lost();

    (void)state;
    start(&r, (struct obs_log_options){.ring_bytes = 1 << 20});
    fcntl(r.pipe[1], F_SETPIPE_SZ, 1 << 20);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    obs_log_flush();
    stop(&r);
    assert_int_equal(obs_log_lost(), lost);
    for (char *line = strtok(r.text, "\n"); line; line = strtok(NULL, "\n")) {
        int thread = -1, i = -1;
        const char *at = strstr(line, "event=many thread=");

        assert_non_null(at);
        assert_int_equal(sscanf(at, "event=many thread=%d i=%d", &thread, &i), 2);
        assert_in_range(thread, 0, THREADS - 1);
        assert_int_equal(i, next[thread]++);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(next[i], LINES);
    free(r.text);
}

static void log_from_one_site(int times)
{
    for (int i = 0; i < times; i++)
        LOG_WARN(LOG_MAIN, "storm", F_INT("i", i));
}

static void call_site_is_limited_and_tells_what_it_held_back(void **state)
{
    struct reader r;
    uint64_t before = obs_log_suppressed();
    static struct log_site site;

    (void)state;
    start(&r, (struct obs_log_options){.burst = 5});
    log_from_one_site(100);
    uint64_t held = obs_log_suppressed() - before;
    /* The same site a second later, without waiting for it. */
    for (int i = 0; i < 12; i++) /* more than two bursts, should a second end in between */
        log_emit(LOG_LEVEL_INFO, LOG_MAIN, &site, "again", NULL, 0);
    atomic_store(&site.window, 1);
    log_emit(LOG_LEVEL_INFO, LOG_MAIN, &site, "again", NULL, 0);
    stop(&r);
    /* 5, or 10 when the clock's second changed in between */
    assert_int_equal(count(r.text, "event=storm") + held, 100);
    assert_true(count(r.text, "event=storm") <= 10);
    assert_non_null(strstr(r.text, "event=again suppressed="));
    free(r.text);
}

static void debug_lines_are_not_limited(void **state)
{
    struct reader r;

    (void)state;
    start(&r, (struct obs_log_options){.burst = 5});
    log_set_level(LOG_MAIN, LOG_LEVEL_DEBUG);
    for (int i = 0; i < 50; i++)
        LOG_DEBUG(LOG_MAIN, "each", F_INT("i", i));
    log_set_level(LOG_MAIN, LOG_LEVEL_INFO);
    stop(&r);
    assert_int_equal(count(r.text, "event=each"), 50);
    free(r.text);
}

/* Fills a pipe so that every further write would block, and tells how much it took. */
static size_t block(int fd)
{
    static const char page[4096];
    int flags = fcntl(fd, F_GETFL);
    size_t filler = 0;
    ssize_t n;

    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while ((n = write(fd, page, sizeof page)) > 0)
        filler += (size_t)n;
    fcntl(fd, F_SETFL, flags);
    return filler;
}

/* Reads the filler and nothing behind it: lines are written as soon as there is room. */
static void unblock(int fd, size_t filler)
{
    char page[4096];

    while (filler > 0) {
        ssize_t n = read(fd, page, filler < sizeof page ? filler : sizeof page);

        assert_true(n > 0);
        filler -= (size_t)n;
    }
}

static void blocked_reader_blocks_nobody_and_lost_lines_are_told(void **state)
{
    struct reader r;
    uint64_t before = obs_log_lost(), lost;
    size_t n;
    char want[64];

    (void)state;
    start(&r, (struct obs_log_options){.ring_bytes = 8192});
    n = block(r.pipe[1]);
    log_from_one_site(1000); /* returns */
    lost = obs_log_lost() - before;
    assert_in_range(lost, 800, 999);
    unblock(r.pipe[0], n);
    obs_log_flush();
    stop(&r);
    snprintf(want, sizeof want, "event=log.lost lines=%llu\n", (unsigned long long)lost);
    assert_int_equal(count(r.text, "event=storm") + lost, 1000);
    assert_non_null(strstr(r.text, want));
    free(r.text);
}

static void stop_does_not_wait_for_ever_for_a_reader(void **state)
{
    struct reader r;
    uint64_t before = obs_log_lost();

    (void)state;
    start(&r, (struct obs_log_options){0});
    assert_true(block(r.pipe[1]) > 0);
    log_from_one_site(3);
    obs_log_stop();
    assert_int_equal(obs_log_lost(), before + 3);
    close(r.pipe[0]);
    close(r.pipe[1]);
}

static void reader_that_goes_away_does_not_end_the_process(void **state)
{
    struct reader r;

    (void)state;
    start(&r, (struct obs_log_options){0});
    close(r.pipe[0]);
    log_from_one_site(3);
    obs_log_flush();
    log_from_one_site(3);
    obs_log_stop();
    close(r.pipe[1]);
}

static void after_stop_lines_go_nowhere_and_start_works_again(void **state)
{
    struct reader r;

    (void)state;
    LOG_INFO(LOG_MAIN, "nobody");
    obs_log_stop(); /* again: nothing happens */
    start(&r, (struct obs_log_options){.format = OBS_LOG_JSON});
    LOG_INFO(LOG_MAIN, "somebody");
    stop(&r);
    assert_int_equal(count(r.text, "\n"), 1);
    assert_non_null(strstr(r.text, "\"event\":\"somebody\"}\n"));
    free(r.text);
}

/* The child's log thread may or may not have written by then: the line must be there once either way. */
static void abort_writes_what_is_left(void **state)
{
    struct reader r = {0};
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(r.pipe), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct obs_log_options options = {.fd = r.pipe[1]};

        close(r.pipe[0]);
        if (obs_log_start(&options, NULL) != E_OK)
            _exit(1);
        for (int i = 0; i < 10; i++)
            LOG_ERROR(LOG_MAIN, "last.words", F_INT("i", i));
        abort();
    }
    close(r.pipe[1]);
    read_all(&r);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_int_equal(count(r.text, "event=last.words"), 10);
    free(r.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_below_the_level_are_not_written_and_levels_can_change),
        cmocka_unit_test(lines_of_many_threads_are_whole_and_in_order),
        cmocka_unit_test(call_site_is_limited_and_tells_what_it_held_back),
        cmocka_unit_test(debug_lines_are_not_limited),
        cmocka_unit_test(blocked_reader_blocks_nobody_and_lost_lines_are_told),
        cmocka_unit_test(stop_does_not_wait_for_ever_for_a_reader),
        cmocka_unit_test(reader_that_goes_away_does_not_end_the_process),
        cmocka_unit_test(after_stop_lines_go_nowhere_and_start_works_again),
        cmocka_unit_test(abort_writes_what_is_left),
    };

    return cmocka_run_group_tests_name("obs_log", tests, NULL, NULL);
}
