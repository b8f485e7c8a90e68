#include "main/server.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "main/process.h"
#include "main/server_kafka.h"
#include "obs/metrics.h"
#include "registry/usage.h"

enum {
    ADDRESS_BYTES = 80,
    MAIN_MAILBOX_BYTES = 1 << 20,
};

static enum admin_readiness readiness(void *context)
{
    const struct server *s = context;

    if (s->state == SERVER_STARTING)
        return ADMIN_STARTING;
    if (s->state == SERVER_DRAINING)
        return ADMIN_DRAINING;
    return kafka_state(s->kafka) == KAFKA_UP ? ADMIN_READY : ADMIN_DEGRADED_KAFKA;
}

static void stop(struct server *s)
{
    loop_stop(&s->loop);
}

/* One line, on stdout, for people and for scripts that wait for it. */
static void print_ready(struct server *s)
{
    const struct config *config = s->now->config;
    char address[ADDRESS_BYTES];

    printf("millrace ready");
    for (size_t i = 0; i < config->listener_count; i++)
        if (config_listener_mqtt(&config->listeners[i])) {
            mqtt_adapter_name(s->mqtt, i, address, sizeof address);
            printf(" %s=%s", config_listener_has_tls(&config->listeners[i]) ? "mqtts" : "mqtt", address);
        }
    for (size_t i = 0; i < config->listener_count; i++)
        if (config_listener_http(&config->listeners[i])) {
            http_adapter_name(s->http, i, address, sizeof address);
            printf(" %s=%s", config_listener_has_tls(&config->listeners[i]) ? "https" : "http", address);
        }
    if (s->fanout.plane) {
        server_fanout_name(&s->fanout, address, sizeof address);
        printf(" fanout=%s", address);
    }
    if (s->admin) {
        admin_name(s->admin, address, sizeof address);
        printf(" admin=%s", address);
    }
    printf(" kafka=%.*s%s\n", STR_ARG(kafka_bootstrap(s->kafka)), config->kafka.is_embedded ? " (embedded)" : "");
    fflush(stdout);
}

static void on_topics(struct mail *m)
{
    struct server_topics *topics = CONTAINER_OF(m, struct server_topics, request.mail);
    struct server *s = CONTAINER_OF(topics->owner, struct server, reload);

    if (s->state != SERVER_STARTING)
        return;
    if (topics->request.result.code != E_OK) {
        LOG_ERROR(LOG_KAFKA, "topics.failed", F_TEXT("why", topics->request.result.text));
        s->status = 1;
        stop(s);
        return;
    }
    mqtt_adapter_start(s->mqtt, &s->mqtt_started, &s->loop.mailbox);
}

static void on_mqtt_started(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, mqtt_started);

    if (s->state == SERVER_STARTING)
        http_adapter_start(s->http, &s->http_started, &s->loop.mailbox);
}

/* Only now: whoever has read the line may connect at once. */
static void become_ready(struct server *s)
{
    s->state = SERVER_READY;
    LOG_INFO(LOG_MAIN, "ready", F_INT("workers", s->workers.n), F_INT("tenants", registry_tenant_count(s->now->registry)));
    server_feed_start(&s->feed);
    server_command_start(&s->command);
    if (s->fanout.plane)
        server_fanout_follow(&s->fanout);
    print_ready(s);
    reload_begin(&s->reload);
}

static void on_fanout_started(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, fanout_started);

    if (s->state == SERVER_STARTING)
        become_ready(s);
}

static void on_http_started(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, http_started);

    if (s->state != SERVER_STARTING)
        return;
    if (s->fanout.plane)
        server_fanout_start(&s->fanout, &s->fanout_started);
    else
        become_ready(s);
}

/* Nobody is let in before it is known who may, and who is where. */
static void note_ready(struct server *s)
{
    if (--s->n_unready || s->state != SERVER_STARTING)
        return;
    s->topics = server_kafka_missing_topics(NULL, s->now);
    s->topics->owner = &s->reload;
    s->topics->request.mail.on_mail = on_topics;
    s->topics->request.home = &s->loop.mailbox;
    kafka_ensure_topics(s->kafka, &s->topics->request);
}

static void on_registry_ready(struct mail *m)
{
    note_ready(CONTAINER_OF(m, struct server, registry_ready));
}

static void on_routes_ready(struct mail *m)
{
    note_ready(CONTAINER_OF(m, struct server, routes_ready));
}

static void on_topics_ready(struct mail *m)
{
    note_ready(CONTAINER_OF(m, struct server, topics_ready));
}

static void drain_kafka(struct server *s, uint32_t limit_ms)
{
    if (s->is_kafka_draining)
        return;
    s->is_kafka_draining = true;
    kafka_drain(s->kafka, &s->kafka_drain, limit_ms);
}

static void note_drained(struct server *s)
{
    if (--s->n_undrained)
        return;
    if (!s->is_leaving) {
        s->is_leaving = true;
        s->n_undrained++;
        server_command_leave(s, &s->command_left);
    } else if (s->is_kafka_draining) {
        stop(s);
    } else {
        drain_kafka(s, (uint32_t)s->now->config->drain_timeout_ms); /* QoS 0 has nobody waiting, yet is in Kafka's hands */
    }
}

static void on_command_left(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, command_left);

    server_routes_leave(s, &s->routes_left);
}

/* From now on nobody sends anything. */
static void on_routes_left(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, routes_left);

    server_command_topics_leave(s, &s->topics_left);
}

static void on_topics_left(struct mail *m)
{
    note_drained(CONTAINER_OF(m, struct server, topics_left));
}

static void on_mqtt_drained(struct mail *m)
{
    note_drained(CONTAINER_OF(m, struct server, mqtt_drained));
}

static void on_http_drained(struct mail *m)
{
    note_drained(CONTAINER_OF(m, struct server, http_drained));
}

static void on_fanout_drained(struct mail *m)
{
    note_drained(CONTAINER_OF(m, struct server, fanout_drained));
}

/* With the time up, what still waits is answered as not stored; its connections close by that and the adapters are drained. */
static void on_drain_timeout(struct timer *t)
{
    struct server *s = CONTAINER_OF(t, struct server, drain_timer);

    LOG_WARN(LOG_MAIN, "drain.timeout", F_INT("waiting", kafka_inflight_records(s->kafka)));
    drain_kafka(s, 0);
}

static void on_kafka_drained(struct mail *m)
{
    struct server *s = CONTAINER_OF(m, struct server, kafka_drain.mail);

    if (s->kafka_drain.given_up)
        LOG_WARN(LOG_MAIN, "drain.given_up", F_INT("records", s->kafka_drain.given_up));
    if (s->n_undrained == 0)
        stop(s);
}

/* Its last events may have to go to Kafka, which therefore is given up only after its grace. */
static void drain_fanout(struct server *s)
{
    if (!s->fanout.plane)
        return;
    s->n_undrained++;
    wheel_start(&s->loop.wheel, &s->drain_timer, s->fanout.config->fanout.grace_ms + s->now->config->drain_timeout_ms);
    server_fanout_drain(&s->fanout, &s->fanout_drained);
}

void server_drain(struct server *s)
{
    if (s->state != SERVER_READY) {
        stop(s);
        return;
    }
    LOG_INFO(LOG_MAIN, "drain", F_INT("waiting", kafka_inflight_records(s->kafka)));
    s->state = SERVER_DRAINING;
    reload_end(&s->reload);
    server_feed_drain(&s->feed);
    server_command_drain(&s->command);
    wheel_start(&s->loop.wheel, &s->drain_timer, s->now->config->drain_timeout_ms);
    s->n_undrained = 2;
    mqtt_adapter_drain(s->mqtt, &s->mqtt_drained, &s->loop.mailbox);
    http_adapter_drain(s->http, &s->http_drained, &s->loop.mailbox);
    drain_fanout(s);
}

static void on_signal(struct io *io, uint32_t events)
{
    struct server *s = CONTAINER_OF(io, struct server, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(io->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGHUP) {
            server_drain(s);
            continue;
        }
        reload_ask(&s->reload);
        server_fanout_reload(&s->fanout);
    }
}

/* A record is made on a worker and released on Kafka's thread. With glibc's eight arenas a core each thread has one of its own,
 * which the records of the others pass through; with one a worker there is less of that: 12 to 20 % less processor time. */
static void bound_arenas(const struct config *config)
{
    (void)mallopt(M_ARENA_MAX, (int)process_worker_count(config)); /* slower, not wrong, without it */
}

static err open_fanout(struct server *s, struct errinfo *ei)
{
    struct server_fanout_settings settings = {
        .loop = &s->loop,
        .workers = &s->workers,
        .config = s->now->config,
        .sink = kafka_sink(s->kafka),
        .has_disk = true,
        .tls = s->now->tls.client,
    };

    return s->now->config->fanout.is_enabled ? server_fanout_open(&s->fanout, &settings, ei) : E_OK;
}

/* What the administration port serves besides its own; owned. */
static struct http_route *join_routes(struct server *s, size_t *out_n)
{
    size_t n_fanout, n_registry;
    const struct http_route *fanout = server_fanout_routes(&s->fanout, &n_fanout);
    const struct http_route *registry = server_registry_routes(&s->registry, &n_registry);
    struct http_route *routes = mem_alloc(MEM_HTTP, (n_fanout + n_registry + 1) * sizeof *routes);

    if (n_fanout)
        memcpy(routes, fanout, n_fanout * sizeof *routes);
    if (n_registry)
        memcpy(routes + n_fanout, registry, n_registry * sizeof *routes);
    *out_n = n_fanout + n_registry;
    return routes;
}

static err open_admin(struct server *s, struct errinfo *ei)
{
    struct admin_probes probes = {.readiness = readiness, .context = s, .workers = &s->workers};
    err e = E_OK;

    probes.routes = join_routes(s, &probes.n_routes);
    if (s->now->config->admin_listen.host.n)
        e = admin_open(&s->loop, s->now->config->admin_listen.text, &probes, &s->admin, ei);
    mem_free(MEM_HTTP, (void *)(uintptr_t)probes.routes);
    if (e == E_OK && s->admin)
        admin_use_tls(s->admin, s->now->tls.admin);
    return e;
}

/* Limits of tenants hold over all instances, if there are others. */
static void share_usage(struct server *s)
{
    if (!s->routes.is_shared)
        return;
    server_usage_share_open(&s->usage_share, s->routes.routes, &s->workers.list[0]);
    server_usage_use_share(&s->usage, &s->usage_share);
}

/* Whoever else has a say in who may connect. */
static void open_authority(struct server *s)
{
    authority_plane_init(&s->authority, &s->workers);
    authority_plane_use(&s->authority, s->now->config, s->now->tls.client);
    registry_use_authority(s->now->registry, &s->authority.port);
}

static err open_adapters(struct server *s, struct errinfo *ei)
{
    struct mqtt_adapter_settings settings = {
        .workers = &s->workers,
        .sink = kafka_sink(s->kafka),
        .commands = s->command.plane,
        .generation = s->now,
    };
    struct http_adapter_settings http_settings = {
        .workers = &s->workers,
        .sink = kafka_sink(s->kafka),
        .commands = s->command.plane,
        .generation = s->now,
    };
    err e = mqtt_adapter_open(&settings, &s->mqtt, ei);

    if (e == E_OK)
        e = http_adapter_open(&http_settings, &s->http, ei);
    if (e == E_OK)
        e = open_fanout(s, ei);
    return e == E_OK ? open_admin(s, ei) : e;
}

err server_init(struct server *s, const struct server_start *start, struct errinfo *ei)
{
    err e;

    *s = (struct server){
        .now = start->first,
        .signals = {.fd = -1},
        .drain_timer = {.on_timer = on_drain_timeout},
        .mqtt_started = {.on_mail = on_mqtt_started},
        .mqtt_drained = {.on_mail = on_mqtt_drained},
        .http_started = {.on_mail = on_http_started},
        .http_drained = {.on_mail = on_http_drained},
        .fanout_started = {.on_mail = on_fanout_started},
        .fanout_drained = {.on_mail = on_fanout_drained},
        .kafka_drain = {.mail = {.on_mail = on_kafka_drained}, .home = &s->loop.mailbox},
        .registry_ready = {.on_mail = on_registry_ready},
        .routes_ready = {.on_mail = on_routes_ready},
        .routes_left = {.on_mail = on_routes_left},
        .topics_ready = {.on_mail = on_topics_ready},
        .topics_left = {.on_mail = on_topics_left},
        .command_left = {.on_mail = on_command_left},
        .n_unready = 3,
    };
    process_raise_descriptors();
    bound_arenas(s->now->config);
    e = loop_init(&s->loop, MAIN_MAILBOX_BYTES, ei);
    if (e == E_OK)
        e = process_watch_signals(&s->loop, &s->signals, on_signal, ei);
    if (e != E_OK)
        return e;
    metrics_attach_thread();
    reload_init(&s->reload, s, start->cli, &start->stamp);
    e = server_kafka_open(s, ei);
    if (e == E_OK)
        e = process_init_workers(&s->workers, s->now->config, &s->loop, ei);
    if (e == E_OK)
        open_authority(s);
    if (e == E_OK)
        e = server_registry_open(s, &s->registry_ready, ei);
    if (e == E_OK)
        e = server_usage_open(&s->usage, s->now->config, ei);
    if (e == E_OK)
        e = server_command_link_open(s, ei);
    if (e == E_OK)
        e = server_command_topics_open(s, ei);
    if (e == E_OK)
        e = server_routes_open(s, &s->routes_ready, ei);
    if (e == E_OK)
        share_usage(s);
    if (e == E_OK)
        e = server_command_open(s, ei);
    if (e == E_OK)
        e = open_adapters(s, ei);
    if (e == E_OK)
        e = server_feed_open(s, ei);
    if (e == E_OK)
        e = workers_start(&s->workers, ei);
    s->workers_run = e == E_OK;
    if (e == E_OK)
        server_command_topics_begin(s, &s->topics_ready);
    return e;
}

void server_fini(struct server *s)
{
    admin_close(s->admin);
    if (s->loop.epoll_fd > 0)
        loop_turn(&s->loop, 0);
    server_feed_stop(&s->feed);
    server_command_stop(&s->command);
    server_command_topics_stop(&s->command_topics);
    server_registry_stop(&s->registry);
    if (s->kafka)
        kafka_stop(s->kafka); /* before the workers: its answers go to their mailboxes */
    if (s->workers_run)
        workers_stop(&s->workers);
    for (int i = 0; i < 2 && s->loop.epoll_fd > 0; i++)
        loop_turn(&s->loop, 0); /* what those have answered is for whom is freed next; and what comes of that */
    authority_plane_close(&s->authority);
    server_fanout_free(&s->fanout);
    http_adapter_free(s->http);
    mqtt_adapter_free(s->mqtt);
    server_feed_free(&s->feed);
    server_command_free(&s->command);
    server_command_link_free(&s->command_link);
    server_command_topics_free(&s->command_topics);
    server_usage_use_share(&s->usage, NULL);
    server_routes_free(&s->routes);
    server_usage_share_close(&s->usage_share);
    server_registry_free(&s->registry);
    kafka_free(s->kafka);
    server_kafka_free_topics(s->topics);
    reload_fini(&s->reload);
    authority_plane_fini(&s->authority);
    workers_fini(&s->workers);
    server_usage_close(&s->usage);
    generation_unref(s->now);
    usage_free_all();
    if (s->signals.fd >= 0)
        close(s->signals.fd);
    loop_fini(&s->loop);
}
