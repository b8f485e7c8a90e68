/* http_edge: what one worker holds of the HTTP adapter: a server for each listener, the uploads that wait for room, and the Kafka
 * topics of the tenants it has met. Only for the files of this folder; one thread. */
#pragma once

#include <stdatomic.h>

#include "adapter/http/http_adapter.h"
#include "adapter/tenant_topics.h"
#include "http/http_server.h"

enum { HTTP_EDGE_ROUTES = 12 };

struct http_edge;

struct http_edge_listener {
    struct http_server server;
    struct http_server_options options;
    struct http_route routes[HTTP_EDGE_ROUTES];
    struct http_edge *edge;
    size_t index; /* in the configuration */
    bool is_http; /* else another adapter's, and nothing here is used */
};

struct http_edge {
    struct http_adapter *adapter;
    struct worker *worker;
    struct generation *generation; /* what holds now; changes between two requests only */
    struct generation *next_generation;
    struct http_edge_listener *listeners;
    size_t n_listeners, n_open; /* open: not drained yet */
    struct list waiting;        /* uploads without room, first come first served */
    struct list listening;      /* requests that wait for a command */
    struct sink_waiter room;
    struct tenant_topics tenant_topics;
    struct mail start, reload, drain;
    bool is_draining;
};

struct http_adapter {
    struct http_adapter_settings settings;
    struct http1_limits limits;
    struct http_edge *edges;
    unsigned n_edges;
    atomic_uint n_unstarted, n_unreloaded, n_undrained;
    struct mail *started, *reloaded, *drained;
    struct mailbox *started_home, *reloaded_home, *drained_home;
};

enum http_edge_counter {
    HTTP_EDGE_LOGINS_REFUSED,
    HTTP_EDGE_WAITS,
    HTTP_EDGE_TIMEOUTS,
    HTTP_EDGE_LATE,
    HTTP_EDGE_COUNTERS,
};

void http_edge_count(enum http_edge_counter which, uint64_t n);

static inline const struct config *http_edge_config(const struct http_edge *edge)
{
    return edge->generation->config;
}

static inline const struct config_listener *http_edge_listener_config(const struct http_edge_listener *listener)
{
    return &http_edge_config(listener->edge)->listeners[listener->index];
}

/* Registers the metrics. Once; a no-op when done. */
void http_edge_register_metrics(void);

/* Sets up the worker's part with its servers, which are not bound; and takes it down when all of them are closed. */
void http_edge_init(struct http_edge *edge, struct http_adapter *a, struct worker *w);
void http_edge_fini(struct http_edge *edge);

/* After the threads have stopped: cuts all connections and answers what waits; the rest happens in turns of the loop. */
void http_edge_close(struct http_edge *edge);
