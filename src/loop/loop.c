#include "loop/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

enum { EVENTS_MAX = 256, LONG_TURN_MS = 10 };

static uint64_t clock_ms(clockid_t which)
{
    struct timespec t;

    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t loop_clock_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

uint64_t loop_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

static void read_clock(struct loop *l)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    l->now_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    l->now_ms = l->now_us / 1000;
}

/* Only resets the eventfd; the mail itself is drained in every turn. */
static void on_wake(struct io *io, uint32_t events)
{
    uint64_t count;

    (void)events;
    while (read(io->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* What can fail. What is open when it does is in `l`, the rest -1. */
static bool open_descriptors(struct loop *l, size_t mailbox_limit_bytes)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0 || mailbox_init(&l->mailbox, mailbox_limit_bytes) != E_OK)
        return false;
    l->wake.fd = l->mailbox.wake_fd;
    return loop_watch(l, &l->wake, EPOLLIN) == E_OK;
}

err loop_init(struct loop *l, size_t mailbox_limit_bytes, struct errinfo *ei)
{
    memset(l, 0, sizeof *l);
    read_clock(l);
    l->first_task = &l->end_of_tasks;
    wheel_init(&l->wheel, l->now_ms);
    l->mailbox.wake_fd = -1;
    l->wake = (struct io){.fd = -1, .on_io = on_wake};
    if (!open_descriptors(l, mailbox_limit_bytes)) {
        err e = errinfo_set(ei, E_IO, "cannot create an event loop: %s", strerror(errno));

        loop_fini(l);
        return e;
    }
    l->scratch = mem_alloc(MEM_LOOP, LOOP_SCRATCH_BYTES + LOOP_PLAIN_BYTES);
    l->plain = l->scratch + LOOP_SCRATCH_BYTES;
    return E_OK;
}

void loop_fini(struct loop *l)
{
    mailbox_fini(&l->mailbox);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    l->epoll_fd = -1;
    mem_free(MEM_LOOP, l->scratch);
    l->scratch = l->plain = NULL;
}

err loop_watch(struct loop *l, struct io *io, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, io->fd, &ev) != 0)
        return E_IO;
    io->events = events;
    return E_OK;
}

void loop_rewatch(struct loop *l, struct io *io, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    if (io->events == events)
        return;
    io->events = events;
    ASSERT(epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) == 0);
}

void loop_unwatch(struct loop *l, struct io *io)
{
    ASSERT(epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL) == 0);
    io->events = 0;
    for (int i = 0; i < l->n_fetched; i++)
        if (l->fetched[i].data.ptr == io)
            l->fetched[i].data.ptr = NULL;
}

void loop_defer(struct loop *l, struct task *t)
{
    if (t->next)
        return;
    t->next = &l->end_of_tasks;
    if (l->first_task == &l->end_of_tasks)
        l->first_task = t;
    else
        l->last_task->next = t;
    l->last_task = t;
}

/* Only the tasks queued so far: one that queues itself again must not keep the turn from ending. */
static void run_tasks(struct loop *l)
{
    struct task *t = l->first_task;

    l->first_task = &l->end_of_tasks;
    while (t != &l->end_of_tasks) {
        struct task *next = t->next;

        t->next = NULL;
        t->run(t);
        t = next;
    }
}

static int wait_ms(struct loop *l, int max_wait_ms)
{
    int timer = wheel_next_ms(&l->wheel);

    if (l->first_task != &l->end_of_tasks)
        return 0;
    if (timer > 0) { /* the wheel stands where the last turn began, and that turn took its time */
        uint64_t clock = loop_clock_ms(), passed_ms = clock > l->wheel.now_ms ? clock - l->wheel.now_ms : 0;

        timer = passed_ms < (uint64_t)timer ? timer - (int)passed_ms : 0;
    }
    if (timer < 0 || (max_wait_ms >= 0 && max_wait_ms < timer))
        return max_wait_ms;
    return timer;
}

static uint64_t thread_cpu_ms(void)
{
    return clock_ms(CLOCK_THREAD_CPUTIME_ID);
}

/* Reading a thread's processor time is a system call, so it is read at most once a millisecond, by which a turn may then seem longer. */
static void note_processor_time(struct loop *l)
{
    if (l->now_ms == l->cpu_at_ms)
        return;
    l->cpu_at_ms = l->now_ms;
    l->cpu_ms = thread_cpu_ms();
}

/* Processor time, not the clock on the wall: a descheduled thread is no fault of a handler. */
static bool was_long(const struct loop *l)
{
    return loop_clock_ms() - l->now_ms > LONG_TURN_MS && thread_cpu_ms() - l->cpu_ms > LONG_TURN_MS;
}

static void run_handlers(struct loop *l, struct epoll_event *events, int n)
{
    l->fetched = events;
    l->n_fetched = n > 0 ? n : 0;
    while (l->n_fetched > 0) {
        struct epoll_event ev = *l->fetched++;
        struct io *io = ev.data.ptr;

        l->n_fetched--;
        if (io && io->fd >= 0)
            io->on_io(io, ev.events);
    }
}

void loop_turn(struct loop *l, int max_wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(l->epoll_fd, events, EVENTS_MAX, wait_ms(l, max_wait_ms));

    read_clock(l);
    note_processor_time(l);
    l->n_handshakes = 0;
    wheel_set_clock(&l->wheel, l->now_ms); /* a timer that a handler sets counts from here, not from before the wait */
    run_handlers(l, events, n);
    mailbox_drain(&l->mailbox);
    wheel_advance(&l->wheel, l->now_ms);
    run_tasks(l);
    atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed);
    if (was_long(l))
        atomic_fetch_add_explicit(&l->long_turns, 1, memory_order_relaxed);
}

void loop_run(struct loop *l)
{
    while (!atomic_load_explicit(&l->is_stopping, memory_order_acquire))
        loop_turn(l, -1);
}

void loop_stop(struct loop *l)
{
    atomic_store_explicit(&l->is_stopping, true, memory_order_release);
    while (write(l->mailbox.wake_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR)
        ;
}
