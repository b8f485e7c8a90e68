#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

enum { PIPES = 3 };

static struct loop l;
static char trace[64]; /* what ran, a letter each */
static size_t n_trace;

struct pipe_end {
    struct io io;
    int write_fd;
    char letter;
    void (*then)(struct pipe_end *p);
};

static struct pipe_end pipes[PIPES];
static struct mail mail;
static struct timer timer;
static struct task task, other_task;

static void note(char letter)
{
    assert_true(n_trace + 1 < sizeof trace);
    trace[n_trace++] = letter;
}

/* What ran since this was last asked. */
static const char *traced(void)
{
    trace[n_trace] = '\0';
    n_trace = 0;
    return trace;
}

static void on_io(struct io *io, uint32_t events)
{
    struct pipe_end *p = CONTAINER_OF(io, struct pipe_end, io);

    assert_true(events & (EPOLLIN | EPOLLHUP));
    note(p->letter);
    if (p->then)
        p->then(p);
}

static void on_mail(struct mail *m)
{
    (void)m;
    note('m');
}

static void on_timer(struct timer *t)
{
    (void)t;
    note('t');
}

static void on_task(struct task *t)
{
    (void)t;
    note('k');
}

static int set_up(void **state)
{
    (void)state;
    n_trace = 0;
    mail = (struct mail){.on_mail = on_mail};
    timer = (struct timer){.on_timer = on_timer};
    task = other_task = (struct task){.run = on_task};
    if (loop_init(&l, 1000, NULL) != E_OK)
        return -1;
    for (int i = 0; i < PIPES; i++) {
        int fds[2];

        if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0)
            return -1;
        pipes[i] = (struct pipe_end){.io = {.fd = fds[0], .on_io = on_io}, .write_fd = fds[1], .letter = (char)('a' + i)};
        if (loop_watch(&l, &pipes[i].io, EPOLLIN) != E_OK)
            return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < PIPES; i++) {
        close(pipes[i].write_fd);
        if (pipes[i].io.fd >= 0)
            close(pipes[i].io.fd);
    }
    loop_fini(&l);
    loop_fini(&l); /* once more is a no-op */
    return mem_used(MEM_LOOP) == 0 ? 0 : -1;
}

static void feed(int i)
{
    assert_int_equal(write(pipes[i].write_fd, "x", 1), 1);
}

static void starts_all(struct pipe_end *p)
{
    (void)p;
    loop_defer(&l, &task);
    wheel_stop(&timer);
    mailbox_post(&l.mailbox, &mail);
    loop_unwatch(&l, &pipes[0].io);
}

static void a_turn_is_descriptors_mail_timers_tasks(void **state)
{
    (void)state;
    wheel_init(&l.wheel, loop_clock_ms() - 1000); /* as if the wait had been long */
    wheel_start(&l.wheel, &timer, 1);
    loop_defer(&l, &task);
    mailbox_post(&l.mailbox, &mail);
    feed(0);
    loop_turn(&l, -1);
    assert_string_equal(traced(), "amtk");
    pipes[0].then = starts_all;
    loop_turn(&l, -1); /* what a handler posts and defers runs in this turn */
    assert_string_equal(traced(), "amk");
    loop_turn(&l, 0);
    assert_string_equal(traced(), "");
}

static void a_timer_set_by_a_handler(struct pipe_end *p)
{
    (void)p;
    wheel_start(&l.wheel, &timer, 30000);
}

static void a_delay_counts_from_the_turn_however_long_the_wait_was(void **state)
{
    (void)state;
    wheel_init(&l.wheel, loop_clock_ms() - 60000);
    pipes[0].then = a_timer_set_by_a_handler;
    feed(0);
    loop_turn(&l, -1);
    assert_string_equal(traced(), "a");
    assert_true(wheel_is_set(&timer));
    assert_int_equal(timer.due_ms, l.now_ms + 30000);
}

static void the_wait_ends_when_a_timer_is_due(void **state)
{
    (void)state;
    wheel_start(&l.wheel, &timer, 3);
    while (wheel_is_set(&timer))
        loop_turn(&l, -1);
    assert_string_equal(traced(), "t");
    assert_true(l.now_ms >= timer.due_ms && l.now_ms <= loop_clock_ms());
}

static void a_handlers_time_is_part_of_the_wait_for_a_timer(void **state)
{
    (void)state;
    /* The wheel was last moved a minute ago, by a turn that took as long: the timer is due by now. */
    wheel_init(&l.wheel, loop_clock_ms() - 60000);
    wheel_start(&l.wheel, &timer, 60000);
    loop_turn(&l, -1);
    assert_string_equal(traced(), "t");
}

static void a_task_is_queued_once_and_can_be_queued_again(void **state)
{
    (void)state;
    assert_false(loop_is_deferred(&task));
    loop_defer(&l, &task);
    loop_defer(&l, &other_task);
    loop_defer(&l, &task);
    assert_true(loop_is_deferred(&task));
    loop_turn(&l, -1);
    assert_string_equal(traced(), "kk");
    assert_false(loop_is_deferred(&task));
    loop_defer(&l, &task);
    loop_turn(&l, -1);
    assert_string_equal(traced(), "k");
}

static void queue_all_again(struct task *t)
{
    note(t == &task ? 'k' : 'o');
    loop_defer(&l, &task);
    loop_defer(&l, &other_task);
}

static void tasks_queued_by_tasks_run_in_the_next_turn_which_does_not_wait(void **state)
{
    (void)state;
    task.run = queue_all_again;
    loop_defer(&l, &task);
    loop_turn(&l, -1);
    assert_string_equal(traced(), "k");
    other_task.run = queue_all_again; /* both are queued now, the first of them twice over */
    loop_turn(&l, -1);
    assert_string_equal(traced(), "ko");
    loop_turn(&l, -1);
    assert_string_equal(traced(), "ko");
}

static void frees_itself(struct task *t)
{
    note('f');
    mem_free(MEM_TEST, t);
}

static void a_task_may_free_itself(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct task *t = mem_alloc_zero(MEM_TEST, sizeof *t);

        t->run = frees_itself;
        loop_defer(&l, t);
    }
    loop_turn(&l, 0);
    assert_string_equal(traced(), "fff");
    loop_turn(&l, 0);
    assert_string_equal(traced(), "");
}

static void closes_all(struct pipe_end *p)
{
    (void)p;
    for (int i = 0; i < PIPES; i++) {
        loop_unwatch(&l, &pipes[i].io);
        close(pipes[i].io.fd);
        pipes[i].io.fd = -1;
    }
}

static void unwatches_all(struct pipe_end *p)
{
    (void)p;
    for (int i = 0; i < PIPES; i++)
        loop_unwatch(&l, &pipes[i].io);
}

static void an_event_already_fetched_is_dropped_when_its_descriptor_goes(void **state)
{
    static void (*const ways[])(struct pipe_end * p) = {closes_all, unwatches_all};

    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        for (int i = 0; i < PIPES; i++) {
            pipes[i].then = ways[w];
            feed(i);
        }
        loop_turn(&l, 0);
        assert_int_equal(strlen(traced()), 1); /* the first one ended the others */
        loop_turn(&l, 0);
        assert_string_equal(traced(), "");
        if (w == 0) {
            tear_down(state);
            assert_int_equal(set_up(state), 0);
        }
    }
}

static void what_is_watched_can_change(void **state)
{
    (void)state;
    feed(0);
    loop_rewatch(&l, &pipes[0].io, 0);
    loop_turn(&l, 0);
    assert_string_equal(traced(), "");
    loop_rewatch(&l, &pipes[0].io, EPOLLIN);
    loop_rewatch(&l, &pipes[0].io, EPOLLIN);
    loop_turn(&l, 0);
    assert_string_equal(traced(), "a");
    loop_unwatch(&l, &pipes[0].io);
    loop_turn(&l, 0);
    assert_string_equal(traced(), "");
    assert_int_equal(fcntl(pipes[0].io.fd, F_GETFD), FD_CLOEXEC); /* still open */
    assert_int_equal(loop_watch(&l, &pipes[0].io, EPOLLIN), E_OK);
    loop_turn(&l, 0);
    assert_string_equal(traced(), "a");
}

static void a_descriptor_that_epoll_refuses_is_not_watched(void **state)
{
    struct io io = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .on_io = on_io}; /* a file */

    (void)state;
    assert_true(io.fd >= 0);
    assert_int_equal(loop_watch(&l, &io, EPOLLIN), E_IO);
    assert_int_equal(io.events, 0);
    close(io.fd);
}

static void stops(struct pipe_end *p)
{
    (void)p;
    loop_stop(&l);
}

static void stopping_ends_the_run_with_its_turn(void **state)
{
    (void)state;
    pipes[0].then = stops;
    feed(0);
    mailbox_post(&l.mailbox, &mail);
    loop_defer(&l, &task);
    loop_run(&l);
    assert_string_equal(traced(), "amk");
    assert_int_equal(atomic_load(&l.turns), 1);
    loop_run(&l); /* stopped before it ran: no turn */
    assert_int_equal(atomic_load(&l.turns), 1);
}

static void *stop_from_outside(void *context)
{
    loop_stop(context);
    return NULL;
}

static void another_thread_can_stop_a_loop_that_waits(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, stop_from_outside, &l), 0);
    loop_run(&l); /* hangs if the stop does not wake it */
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *post_from_outside(void *context)
{
    mailbox_post(context, &mail);
    return NULL;
}

static void mail_from_another_thread_wakes_a_loop_that_waits(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, post_from_outside, &l.mailbox), 0);
    while (n_trace == 0)
        loop_turn(&l, -1);
    assert_string_equal(traced(), "m");
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void burns_processor_time(struct task *t)
{
    struct timespec begin, now;

    (void)t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 13000000);
}

static void turns_and_long_turns_are_counted(void **state)
{
    (void)state;
    task.run = burns_processor_time;
    loop_defer(&l, &task);
    loop_turn(&l, 0);
    assert_int_equal(atomic_load(&l.turns), 1);
    assert_int_equal(atomic_load(&l.long_turns), 1);
    loop_turn(&l, 0);
    assert_int_equal(atomic_load(&l.turns), 2);
}

static void the_clocks_are_the_systems(void **state)
{
    uint64_t clock_ms = loop_clock_ms(), wall_ms;
    struct timespec before, after;

    (void)state;
    clock_gettime(CLOCK_REALTIME, &before);
    wall_ms = loop_wall_ms();
    clock_gettime(CLOCK_REALTIME, &after);
    assert_true(wall_ms / 1000 >= (uint64_t)before.tv_sec && wall_ms / 1000 <= (uint64_t)after.tv_sec);
    assert_true(clock_ms <= loop_clock_ms());
}

/* The lowest free descriptor. */
static int next_fd(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return fd;
}

static void a_refusal_of_the_system_is_reported_and_leaves_nothing_open(void **state)
{
    struct rlimit before, limit;
    struct errinfo ei;
    struct loop second;
    int fd = next_fd(), failures = 0;
    err e;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    do {
        limit = (struct rlimit){(rlim_t)(fd + failures), before.rlim_max};
        ei = (struct errinfo){0};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        e = loop_init(&second, 1000, failures % 2 ? NULL : &ei);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (e == E_OK)
            break;
        assert_int_equal(e, E_IO);
        if (failures % 2 == 0)
            assert_non_null(strstr(ei.text, strerror(EMFILE)));
        assert_int_equal(next_fd(), fd);
        failures++;
    } while (failures < 10);
    assert_int_equal(failures, 2); /* epoll and eventfd */
    loop_fini(&second);
    assert_int_equal(next_fd(), fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_turn_is_descriptors_mail_timers_tasks),
        TEST(a_delay_counts_from_the_turn_however_long_the_wait_was),
        TEST(the_wait_ends_when_a_timer_is_due),
        TEST(a_handlers_time_is_part_of_the_wait_for_a_timer),
        TEST(a_task_is_queued_once_and_can_be_queued_again),
        TEST(tasks_queued_by_tasks_run_in_the_next_turn_which_does_not_wait),
        TEST(a_task_may_free_itself),
        TEST(an_event_already_fetched_is_dropped_when_its_descriptor_goes),
        TEST(what_is_watched_can_change),
        TEST(a_descriptor_that_epoll_refuses_is_not_watched),
        TEST(stopping_ends_the_run_with_its_turn),
        TEST(another_thread_can_stop_a_loop_that_waits),
        TEST(mail_from_another_thread_wakes_a_loop_that_waits),
        TEST(turns_and_long_turns_are_counted),
        TEST(the_clocks_are_the_systems),
        TEST(a_refusal_of_the_system_is_reported_and_leaves_nothing_open),
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
