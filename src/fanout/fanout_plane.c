#include "fanout/fanout_plane.h"

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_intake.h"
#include "fanout/fanout_leg.h"
#include "fanout/fanout_queue.h"
#include "loop/tls.h"

enum {
    ANSWER_GRACE_MS = 1000,          /* after the limit of a drain, for answers to leave */
    FORGET_MS = 10 * 60 * 1000,      /* what no generation names is remembered so long */
    FORGET_STRANGERS_MS = 10 * 1000, /* or, when there are as many more as this, so long */
    MANY_STRANGERS = 4096,
    MIN_BODY_BYTES = 64 << 10, /* CloudEvents 1.0.2 section 5 */
};

static struct http_metrics server_metrics;

static uint64_t largest_body(const struct fanout_snapshot *snapshot)
{
    uint64_t bytes = MIN_BODY_BYTES;

    for (size_t i = 0; i < snapshot->n_channels; i++)
        if (snapshot->channels[i].max_body_bytes > bytes)
            bytes = snapshot->channels[i].max_body_bytes;
    return bytes;
}

static void sweep(struct fanout_plane *plane, uint64_t age_ms)
{
    uint64_t now_ms = plane->worker->loop.now_ms;

    if (now_ms <= age_ms)
        return;
    fanout_lane_sweep(&plane->lanes, now_ms - age_ms);
    fanout_endpoint_sweep(&plane->endpoints, now_ms - age_ms);
}

void fanout_plane_forget(struct fanout_plane *plane)
{
    uint32_t many = (uint32_t)plane->view->snapshot->n_subscriptions * FANOUT_ROLES + MANY_STRANGERS;

    if (plane->lanes.n_entries > many || plane->endpoints.n_entries > many)
        sweep(plane, FORGET_STRANGERS_MS);
}

/* From the next request on. */
static void use(struct fanout_plane *plane)
{
    struct fanout_view *last = plane->view;

    plane->view = fanout_view_take(plane, plane->next);
    plane->routes[0].max_body_bytes = largest_body(plane->next);
    fanout_snapshot_unref(plane->next);
    plane->next = NULL;
    fanout_view_unref(last);
    sweep(plane, FORGET_MS);
}

static void on_start(struct mail *m)
{
    struct fanout_plane *plane = CONTAINER_OF(m, struct fanout_plane, start);
    struct fanout *f = plane->fanout;

    use(plane);
    ASSERT(plane->is_draining || http_server_start(&plane->server, NULL) == E_OK);
    if (atomic_fetch_sub(&f->n_unstarted, 1) == 1)
        mailbox_post(f->started_home, f->started);
}

static void on_apply(struct mail *m)
{
    struct fanout_plane *plane = CONTAINER_OF(m, struct fanout_plane, apply);
    struct fanout *f = plane->fanout;

    use(plane);
    if (atomic_fetch_sub(&f->n_unapplied, 1) == 1)
        mailbox_post(f->applied_home, f->applied);
}

/* ---- the end ---- */

/* What began here is finished. What others began may still run here: so no plane closes anything before all are at rest. */
static bool is_at_rest(const struct fanout_plane *plane)
{
    return plane->server.is_closed && plane->n_jobs == 0;
}

static void check_done(struct fanout_plane *plane)
{
    if (is_at_rest(plane) && !plane->is_done)
        loop_defer(&plane->worker->loop, &plane->done_task);
}

static void run_done(struct task *t)
{
    struct fanout_plane *plane = CONTAINER_OF(t, struct fanout_plane, done_task);
    struct fanout *f = plane->fanout;

    if (plane->is_done || !is_at_rest(plane))
        return;
    plane->is_done = true;
    if (f->drained && atomic_fetch_sub(&f->n_undrained, 1) == 1)
        mailbox_post(f->drained_home, f->drained);
}

void fanout_plane_finish_job(struct fanout_plane *plane)
{
    plane->n_jobs--;
    if (plane->is_draining)
        check_done(plane);
}

static void on_server_closed(struct http_server *server)
{
    check_done(CONTAINER_OF(server, struct fanout_plane, server));
}

/* Jobs that only wait for Kafka's answer to something long given up stay until it comes. */
static void abort_jobs(struct fanout_plane *plane)
{
    size_t n = 0;

    plane->is_ending = true;
    for (struct list *link = plane->jobs.next, *next; link != &plane->jobs; link = next, n++) {
        next = link->next;
        fanout_job_abort(CONTAINER_OF(link, struct fanout_job, link));
    }
    fanout_queue_flush(plane);
    if (n)
        LOG_WARN(LOG_FANOUT, "fanout.drain.aborted", F_INT("worker", plane->worker->id), F_INT("events", n));
}

static void on_limit(struct timer *t)
{
    abort_jobs(CONTAINER_OF(t, struct fanout_plane, limit_timer));
}

static void start_sooner(struct fanout_plane *plane, struct timer *timer, uint64_t delay_ms)
{
    struct wheel *wh = &plane->worker->loop.wheel;

    if (!wheel_is_set(timer) || timer->due_ms > wh->clock_ms + delay_ms)
        wheel_start(wh, timer, delay_ms);
}

static void stop_accepting(struct fanout_plane *plane)
{
    uint32_t limit_ms = atomic_load(&plane->fanout->limit_ms);

    plane->is_draining = true;
    if (!plane->is_ending)
        start_sooner(plane, &plane->limit_timer, limit_ms);
    http_server_drain(&plane->server, (uint64_t)limit_ms + ANSWER_GRACE_MS, on_server_closed);
    check_done(plane);
}

static void on_grace(struct timer *t)
{
    stop_accepting(CONTAINER_OF(t, struct fanout_plane, grace_timer));
}

static void on_drain(struct mail *m)
{
    struct fanout_plane *plane = CONTAINER_OF(m, struct fanout_plane, drain);
    uint32_t grace_ms;

    atomic_store(&plane->is_drain_posted, false); /* first: a change after this is told anew */
    grace_ms = atomic_load(&plane->fanout->grace_ms);
    if (plane->is_draining || grace_ms == 0)
        stop_accepting(plane);
    else
        start_sooner(plane, &plane->grace_timer, grace_ms);
}

void fanout_plane_drain(struct fanout_plane *plane)
{
    if (!atomic_exchange(&plane->is_drain_posted, true))
        mailbox_post(&plane->worker->loop.mailbox, &plane->drain);
}

void fanout_plane_close(struct fanout_plane *plane)
{
    plane->is_draining = true;
    if (!plane->is_ending)
        abort_jobs(plane);
    http_client_close(&plane->client);
    http_server_drain(&plane->server, 0, NULL);
}

/* ---- TLS ---- */

static void on_other_tls(struct mail *m)
{
    struct fanout_plane *plane = CONTAINER_OF(m, struct fanout_plane, other_tls);
    struct tls *tls = atomic_exchange(&plane->next_tls, NULL);

    http_client_use_tls(&plane->client, tls);
    tls_unref(tls);
}

void fanout_plane_use_tls(struct fanout_plane *plane, struct tls *tls)
{
    struct tls *before = atomic_exchange(&plane->next_tls, tls_ref(tls));

    if (before)
        tls_unref(before); /* whose mail is on its way, and takes this one along */
    else
        mailbox_post(&plane->worker->loop.mailbox, &plane->other_tls);
}

/* ---- setting up ---- */

void fanout_plane_init(struct fanout_plane *plane, struct fanout *f, struct worker *w)
{
    http_metrics_register(&server_metrics, "fanout");
    plane->fanout = f;
    plane->worker = w;
    plane->legs = (struct slab){.object_bytes = sizeof(struct fanout_leg), .sub = MEM_FANOUT};
    plane->random = loop_wall_ms() << 8 ^ loop_clock_ms() ^ (uint64_t)(w->id + 1) << 56;
    plane->start = (struct mail){.on_mail = on_start};
    plane->apply = (struct mail){.on_mail = on_apply};
    plane->drain = (struct mail){.on_mail = on_drain};
    plane->other_tls = (struct mail){.on_mail = on_other_tls};
    atomic_init(&plane->next_tls, NULL);
    plane->grace_timer.on_timer = on_grace;
    plane->limit_timer.on_timer = on_limit;
    plane->done_task.run = run_done;
    list_init(&plane->views);
    list_init(&plane->jobs);
    list_init(&plane->queue_list);
    fanout_memory_init(&plane->memory);
    fanout_memory_init(&plane->seen);
    list_init(&plane->idle_jobs);
    list_init(&plane->idle_intakes);
    plane->routes[0] = (struct http_route){HTTP_METHOD_POST, "/*", fanout_intake_post, plane, MIN_BODY_BYTES};
    plane->routes[1] = (struct http_route){HTTP_METHOD_OPTIONS, "/*", fanout_intake_options, plane, 0};
    plane->server_options = (struct http_server_options){
        .routes = plane->routes,
        .n_routes = ARRAY_LEN(plane->routes),
        .limits = &f->limits,
        .metrics = &server_metrics,
    };
    http_server_init(&plane->server, &w->loop, &plane->server_options);
    http_client_init(&plane->client, &w->loop, &f->client_options);
    http_client_use_tls(&plane->client, f->settings.tls);
}

void fanout_plane_fini(struct fanout_plane *plane)
{
    uint64_t forever = UINT64_MAX;

    ASSERT(plane->n_jobs == 0 && list_is_empty(&plane->jobs) && list_is_empty(&plane->queue_list));
    wheel_stop(&plane->grace_timer);
    wheel_stop(&plane->limit_timer);
    http_server_fini(&plane->server);
    http_client_fini(&plane->client);
    tls_unref(atomic_load(&plane->next_tls));
    fanout_view_unref(plane->view);
    fanout_snapshot_unref(plane->next);
    fanout_job_free_pool(plane);
    fanout_intake_free_pool(plane);
    fanout_lane_sweep(&plane->lanes, forever);
    fanout_endpoint_sweep(&plane->endpoints, forever);
    map_free(&plane->queues, MEM_FANOUT);
    fanout_memory_fini(&plane->memory);
    fanout_memory_fini(&plane->seen);
    map_free(&plane->lanes, MEM_FANOUT);
    map_free(&plane->endpoints, MEM_FANOUT);
    arena_free(&plane->scratch, MEM_FANOUT);
    slab_fini(&plane->legs);
}
