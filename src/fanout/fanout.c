#include "fanout/fanout.h"

#include "base/check.h"
#include "fanout/fanout_carrier.h"
#include "fanout/fanout_metrics.h"
#include "fanout/fanout_plane.h"
#include "fanout/fanout_stateless.h"

/* To one endpoint, on one worker. Connections are made as they are needed and closed when they are idle. */
enum { ENDPOINT_CONNECTIONS = 256, ENDPOINT_WAITING = 10 * 1000, MAX_HEAD_BYTES = 64 << 10, MAX_HEADERS = 200 };

static struct http_client_metrics client_metrics;

/* The first worker's socket settles the port when the configuration leaves it open; the others join it there. */
static err bind_planes(struct fanout *f, struct errinfo *ei)
{
    struct str text = f->settings.config->fanout.listen.text;
    struct sockaddr_storage address;
    socklen_t size;
    struct errinfo why = {0};
    err e = listener_parse(text, &address, &size, &why);

    for (unsigned i = 0; i < f->n_planes && e == E_OK; i++) {
        struct http_server *server = &f->planes[i].server;

        e = http_server_bind(server, &address, size, true, &why);
        if (e == E_OK && i == 0)
            e = listener_address(&server->listener, &address, &size);
    }
    return e == E_OK ? E_OK : errinfo_set(ei, e, "cannot listen for events on %.*s: %s", STR_ARG(text), why.text);
}

static void set_up(struct fanout *f)
{
    const struct fanout_abilities abilities = {.has_kafka = f->settings.sink != NULL};

    f->stateless = fanout_stateless_new(&f->settings.config->fanout, &abilities);
    f->limits = (struct http1_limits){
        .max_line_bytes = http1_limits_default.max_line_bytes,
        .max_head_bytes = MAX_HEAD_BYTES,
        .max_headers = MAX_HEADERS,
        .max_body_bytes = http1_limits_default.max_body_bytes,
    };
    f->response_limits = f->limits;
    resolver_init(&f->resolver);
    f->client_options = (struct http_client_options){
        .max_connections = ENDPOINT_CONNECTIONS,
        .max_waiting = ENDPOINT_WAITING,
        .limits = &f->response_limits,
        .metrics = &client_metrics,
        .resolver = &f->resolver,
    };
    fanout_carrier_init(f);
    f->n_planes = f->settings.workers->n;
    f->planes = mem_alloc_zero(MEM_FANOUT, f->n_planes * sizeof *f->planes);
    for (unsigned i = 0; i < f->n_planes; i++)
        fanout_plane_init(&f->planes[i], f, &f->settings.workers->list[i]);
}

err fanout_open(const struct fanout_settings *settings, struct fanout **out_fanout, struct errinfo *ei)
{
    struct fanout *f = mem_alloc_zero(MEM_FANOUT, sizeof *f);
    err e;

    fanout_metrics_register();
    http_client_metrics_register(&client_metrics, "fanout");
    f->settings = *settings;
    f->settings.config = config_ref(settings->config);
    set_up(f);
    e = bind_planes(f, ei);
    if (e != E_OK) {
        fanout_free(f);
        return e;
    }
    *out_fanout = f;
    return E_OK;
}

static void give(struct fanout *f, struct fanout_snapshot *snapshot)
{
    for (unsigned i = 0; i < f->n_planes; i++)
        f->planes[i].next = fanout_snapshot_ref(snapshot);
}

void fanout_start(struct fanout *f, struct fanout_snapshot *first, struct mail *done, struct mailbox *home)
{
    f->started = done;
    f->started_home = home;
    atomic_store(&f->n_unstarted, f->n_planes);
    give(f, first);
    for (unsigned i = 0; i < f->n_planes; i++)
        mailbox_post(&f->planes[i].worker->loop.mailbox, &f->planes[i].start);
}

void fanout_apply(struct fanout *f, struct fanout_snapshot *next, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&f->n_unapplied) == 0);
    f->applied = done;
    f->applied_home = home;
    atomic_store(&f->n_unapplied, f->n_planes);
    give(f, next);
    for (unsigned i = 0; i < f->n_planes; i++)
        mailbox_post(&f->planes[i].worker->loop.mailbox, &f->planes[i].apply);
}

void fanout_use_tls(struct fanout *f, struct tls *tls)
{
    for (unsigned i = 0; i < f->n_planes; i++)
        fanout_plane_use_tls(&f->planes[i], tls);
}

static void shorten(atomic_uint *value, uint32_t to)
{
    if (to < atomic_load(value))
        atomic_store(value, to);
}

void fanout_drain(struct fanout *f, uint32_t grace_ms, uint32_t limit_ms, struct mail *done, struct mailbox *home)
{
    if (!f->drained) {
        f->drained_home = home;
        f->drained = done;
        atomic_store(&f->n_undrained, f->n_planes);
        atomic_store(&f->grace_ms, grace_ms);
        atomic_store(&f->limit_ms, limit_ms);
    }
    shorten(&f->grace_ms, grace_ms);
    shorten(&f->limit_ms, limit_ms);
    for (unsigned i = 0; i < f->n_planes; i++)
        fanout_plane_drain(&f->planes[i]);
}

void fanout_name(struct fanout *f, char *to, size_t size)
{
    listener_name(&f->planes[0].server.listener, to, size);
}

struct fanout_park_carrier *fanout_carrier(struct fanout *f)
{
    return &f->carrier;
}

/* Connections end in turns of their loops. */
static void close_planes(struct fanout *f)
{
    enum { ROUNDS = 6 };

    f->drained = NULL; /* nobody waits for it any more */
    for (unsigned i = 0; i < ROUNDS * f->n_planes; i++) {
        struct fanout_plane *plane = &f->planes[i % f->n_planes];

        fanout_plane_close(plane);
        loop_turn(&plane->worker->loop, 0);
    }
}

void fanout_free(struct fanout *f)
{
    if (!f)
        return;
    close_planes(f);
    resolver_fini(&f->resolver);
    for (unsigned i = 0; i < f->n_planes; i++)
        fanout_plane_fini(&f->planes[i]);
    mem_free(MEM_FANOUT, f->planes);
    fanout_stateless_free(f->stateless);
    config_unref(f->settings.config);
    mem_free(MEM_FANOUT, f);
}
