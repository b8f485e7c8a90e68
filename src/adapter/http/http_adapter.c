#include "adapter/http/http_adapter.h"

#include "adapter/http/http_edge.h"
#include "adapter/ledger.h"
#include "base/check.h"

/* The first worker's socket settles the port when the configuration leaves it open; the others join it there. */
static err bind_listener(struct http_adapter *a, size_t index, struct errinfo *ei)
{
    const struct config_listener *config = &http_edge_config(&a->edges[0])->listeners[index];
    const struct config_address *where = config_listener_http(config);
    struct sockaddr_storage address;
    socklen_t size;
    struct errinfo why = {0};
    err e;

    if (!where)
        return E_OK; /* another adapter's */
    e = listener_parse(where->text, &address, &size, &why);
    for (unsigned i = 0; i < a->n_edges && e == E_OK; i++) {
        struct http_server *server = &a->edges[i].listeners[index].server;

        e = http_server_bind(server, &address, size, true, &why);
        if (e == E_OK && i == 0)
            e = listener_address(&server->listener, &address, &size);
    }
    if (e == E_OK)
        return E_OK;
    return errinfo_set(ei, e, "cannot listen for HTTP on %.*s (%.*s; --http HOST:PORT sets another address): %s",
                       STR_ARG(where->text), STR_ARG(config->id), why.text);
}

err http_adapter_open(const struct http_adapter_settings *settings, struct http_adapter **out_adapter, struct errinfo *ei)
{
    struct http_adapter *a = mem_alloc_zero(MEM_ADAPTER, sizeof *a);
    const struct config *config = settings->generation->config;
    err e = E_OK;

    ledger_register();
    http_edge_register_metrics();
    a->settings = *settings;
    a->limits = http1_limits_default;
    a->limits.max_body_bytes = config->http.max_body_bytes;
    a->n_edges = settings->workers->n;
    atomic_init(&a->n_unstarted, a->n_edges);
    atomic_init(&a->n_unreloaded, 0);
    atomic_init(&a->n_undrained, a->n_edges);
    a->edges = mem_alloc_zero(MEM_ADAPTER, a->n_edges * sizeof *a->edges);
    for (unsigned i = 0; i < a->n_edges; i++)
        http_edge_init(&a->edges[i], a, &settings->workers->list[i]);
    for (size_t i = 0; i < config->listener_count && e == E_OK; i++)
        e = bind_listener(a, i, ei);
    if (e != E_OK) {
        http_adapter_free(a);
        return e;
    }
    *out_adapter = a;
    return E_OK;
}

void http_adapter_start(struct http_adapter *a, struct mail *done, struct mailbox *home)
{
    a->started = done;
    a->started_home = home;
    for (unsigned i = 0; i < a->n_edges; i++)
        mailbox_post(&a->edges[i].worker->loop.mailbox, &a->edges[i].start);
}

void http_adapter_name(const struct http_adapter *a, size_t index, char *text, size_t size)
{
    listener_name(&a->edges[0].listeners[index].server.listener, text, size);
}

void http_adapter_use(struct http_adapter *a, struct generation *generation, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&a->n_unreloaded) == 0);
    a->reloaded = done;
    a->reloaded_home = home;
    atomic_store(&a->n_unreloaded, a->n_edges);
    for (unsigned i = 0; i < a->n_edges; i++) {
        a->edges[i].next_generation = generation_ref(generation);
        mailbox_post(&a->edges[i].worker->loop.mailbox, &a->edges[i].reload);
    }
}

void http_adapter_drain(struct http_adapter *a, struct mail *done, struct mailbox *home)
{
    a->drained = done;
    a->drained_home = home;
    for (unsigned i = 0; i < a->n_edges; i++)
        mailbox_post(&a->edges[i].worker->loop.mailbox, &a->edges[i].drain);
}

/* Connections end in turns of their loops; the sink's answers that are still on their way hold memory. */
static void close_edges(struct http_adapter *a)
{
    enum { ROUNDS = 4 };

    for (unsigned i = 0; i < ROUNDS * a->n_edges; i++) {
        struct http_edge *edge = &a->edges[i % a->n_edges];

        http_edge_close(edge);
        loop_turn(&edge->worker->loop, 0);
    }
}

void http_adapter_free(struct http_adapter *a)
{
    if (!a)
        return;
    close_edges(a);
    for (unsigned i = 0; i < a->n_edges; i++)
        http_edge_fini(&a->edges[i]);
    mem_free(MEM_ADAPTER, a->edges);
    mem_free(MEM_ADAPTER, a);
}
