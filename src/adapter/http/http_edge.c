#include "adapter/http/http_edge.h"

#include "adapter/http/http_command.h"
#include "adapter/http/http_upload.h"
#include "base/check.h"

enum {
    RESUMED_AT_ONCE = 32, /* uploads that wait: if the first find no room, the others need not try */
    DRAIN_GRACE_MS = 1000 /* after drain_timeout, for answers to leave */
};

static struct http_metrics server_metrics;

static struct metric counters[HTTP_EDGE_COUNTERS] = {
    [HTTP_EDGE_LOGINS_REFUSED] = {.name = "millrace_http_logins_refused_total",
                                  .help = "Requests of devices answered with 401, or 403 for their tenant's sake",
                                  .kind = METRIC_COUNTER},
    [HTTP_EDGE_WAITS] = {.name = "millrace_http_waits_total",
                         .help = "Times a request waited because there was no room for its message",
                         .kind = METRIC_COUNTER},
    [HTTP_EDGE_TIMEOUTS] = {.name = "millrace_http_timeouts_total",
                            .help = "Messages answered with 503 because Kafka had not answered in time",
                            .kind = METRIC_COUNTER},
    [HTTP_EDGE_LATE] = {.name = "millrace_http_stored_late_total",
                        .help = "Those of them that Kafka stored all the same",
                        .kind = METRIC_COUNTER},
};

void http_edge_register_metrics(void)
{
    http_metrics_register(&server_metrics, "devices");
    metrics_register(counters, ARRAY_LEN(counters));
}

void http_edge_count(enum http_edge_counter which, uint64_t n)
{
    metric_add(&counters[which], n);
}

static void on_start(struct mail *m)
{
    struct http_edge *edge = CONTAINER_OF(m, struct http_edge, start);
    struct http_adapter *a = edge->adapter;

    for (size_t i = 0; i < edge->n_listeners; i++)
        ASSERT(edge->is_draining || !edge->listeners[i].is_http || http_server_start(&edge->listeners[i].server, NULL) == E_OK);
    if (atomic_fetch_sub(&a->n_unstarted, 1) == 1)
        mailbox_post(a->started_home, a->started);
}

static void use_tls(struct http_edge *edge)
{
    for (size_t i = 0; i < edge->n_listeners; i++)
        if (edge->listeners[i].is_http)
            http_server_use_tls(&edge->listeners[i].server, generation_listener_tls(edge->generation, i));
}

static void on_reload(struct mail *m)
{
    struct http_edge *edge = CONTAINER_OF(m, struct http_edge, reload);
    struct http_adapter *a = edge->adapter;

    generation_unref(edge->generation); /* principals keep the registry that they need */
    edge->generation = edge->next_generation;
    edge->next_generation = NULL;
    use_tls(edge);
    if (atomic_fetch_sub(&a->n_unreloaded, 1) == 1)
        mailbox_post(a->reloaded_home, a->reloaded);
}

static void check_drained(struct http_edge *edge)
{
    struct http_adapter *a = edge->adapter;

    if (edge->n_open == 0 && a->drained && atomic_fetch_sub(&a->n_undrained, 1) == 1)
        mailbox_post(a->drained_home, a->drained);
}

static void on_closed(struct http_server *server)
{
    struct http_edge *edge = CONTAINER_OF(server, struct http_edge_listener, server)->edge;

    edge->n_open--;
    check_drained(edge);
}

static void drain_servers(struct http_edge *edge, uint64_t limit_ms)
{
    edge->is_draining = true;
    for (size_t i = 0; i < edge->n_listeners; i++)
        if (edge->listeners[i].is_http)
            http_server_drain(&edge->listeners[i].server, limit_ms, on_closed);
}

static void on_drain(struct mail *m)
{
    struct http_edge *edge = CONTAINER_OF(m, struct http_edge, drain);
    size_t n_open = edge->n_open;

    http_command_hurry(edge);
    drain_servers(edge, http_edge_config(edge)->drain_timeout_ms + DRAIN_GRACE_MS);
    if (n_open == 0)
        check_drained(edge);
}

static void on_room(struct mail *m)
{
    struct http_edge *edge = CONTAINER_OF(m, struct http_edge, room.mail);

    for (int i = 0; i < RESUMED_AT_ONCE && !list_is_empty(&edge->waiting); i++)
        if (!http_upload_resume(edge->waiting.next))
            break;
    if (!list_is_empty(&edge->waiting))
        sink_wait(edge->adapter->settings.sink, &edge->room);
}

static void init_listener(struct http_edge *edge, size_t index)
{
    struct http_edge_listener *listener = &edge->listeners[index];

    listener->edge = edge;
    listener->index = index;
    listener->is_http = config_listener_http(&http_edge_config(edge)->listeners[index]) != NULL;
    if (!listener->is_http)
        return;
    edge->n_open++;
    listener->options = (struct http_server_options){
        .routes = listener->routes,
        .n_routes = http_upload_write_routes(listener),
        .limits = &edge->adapter->limits,
        .metrics = &server_metrics,
    };
    http_server_init(&listener->server, &edge->worker->loop, &listener->options);
}

void http_edge_init(struct http_edge *edge, struct http_adapter *a, struct worker *w)
{
    edge->adapter = a;
    edge->worker = w;
    edge->generation = generation_ref(a->settings.generation);
    edge->tenant_topics.sink = a->settings.sink;
    list_init(&edge->waiting);
    list_init(&edge->listening);
    edge->room = (struct sink_waiter){.mail = {.on_mail = on_room}, .home = &w->loop.mailbox};
    edge->start = (struct mail){.on_mail = on_start};
    edge->reload = (struct mail){.on_mail = on_reload};
    edge->drain = (struct mail){.on_mail = on_drain};
    edge->n_listeners = http_edge_config(edge)->listener_count;
    edge->listeners = mem_alloc_zero(MEM_ADAPTER, (edge->n_listeners + 1) * sizeof *edge->listeners);
    for (size_t i = 0; i < edge->n_listeners; i++)
        init_listener(edge, i);
    use_tls(edge);
}

void http_edge_close(struct http_edge *edge)
{
    edge->adapter->drained = NULL; /* nobody waits for it any more */
    http_command_hurry(edge);
    drain_servers(edge, 0);
    while (!list_is_empty(&edge->waiting))
        http_upload_give_up(edge->waiting.next);
}

void http_edge_fini(struct http_edge *edge)
{
    for (size_t i = 0; i < edge->n_listeners; i++)
        if (edge->listeners[i].is_http)
            http_server_fini(&edge->listeners[i].server);
    tenant_topics_fini(&edge->tenant_topics);
    mem_free(MEM_ADAPTER, edge->listeners);
    generation_unref(edge->generation);
    generation_unref(edge->next_generation);
}
