#include "loop/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "loop/thread.h"

static _Thread_local const struct worker *current;

bool worker_is_current(const struct worker *w)
{
    return current == w || !w->all || !atomic_load_explicit(&w->all->is_running, memory_order_relaxed);
}

static void *run(void *context)
{
    struct worker *w = context;

    current = w;
    if (w->all->on_thread)
        w->all->on_thread(w);
    loop_run(&w->loop);
    return NULL;
}

err workers_init(struct workers *ws, unsigned n, size_t mailbox_limit_bytes, void (*on_thread)(struct worker *w),
                 struct errinfo *ei)
{
    ASSERT(n >= 1 && n <= WORKERS_MAX);
    *ws = (struct workers){.n = n, .on_thread = on_thread};
    ws->list = aligned_alloc(64, n * sizeof *ws->list);
    if (!ws->list)
        return errinfo_set(ei, E_IO, "no memory for %u workers", n);
    memset(ws->list, 0, n * sizeof *ws->list);
    for (unsigned i = 0; i < n; i++) {
        struct worker *w = &ws->list[i];
        err e = loop_init(&w->loop, mailbox_limit_bytes, ei);

        if (e != E_OK) {
            ws->n = i;
            workers_fini(ws);
            return e;
        }
        w->id = i;
        w->all = ws;
    }
    return E_OK;
}

static err start_thread(struct worker *w, struct errinfo *ei)
{
    char name[16];

    snprintf(name, sizeof name, "worker-%u", w->id);
    return thread_start(&w->thread, name, run, w, ei);
}

static void stop_first(struct workers *ws, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        loop_stop(&ws->list[i].loop);
    for (unsigned i = 0; i < n; i++)
        pthread_join(ws->list[i].thread, NULL);
    atomic_store_explicit(&ws->is_running, false, memory_order_relaxed);
}

err workers_start(struct workers *ws, struct errinfo *ei)
{
    atomic_store_explicit(&ws->is_running, true, memory_order_relaxed);
    for (unsigned i = 0; i < ws->n; i++) {
        err e = start_thread(&ws->list[i], ei);

        if (e != E_OK) {
            stop_first(ws, i);
            return e;
        }
    }
    return E_OK;
}

void workers_stop(struct workers *ws)
{
    if (atomic_load_explicit(&ws->is_running, memory_order_relaxed))
        stop_first(ws, ws->n);
}

void workers_fini(struct workers *ws)
{
    for (unsigned i = 0; i < ws->n; i++)
        loop_fini(&ws->list[i].loop);
    free(ws->list);
    *ws = (struct workers){0};
}
