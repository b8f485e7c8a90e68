/* http_client_private: what http_client.c and the connections of both versions, http_client_conn.c and http2_client_conn.c, share. Internal to http/; one thread. */
#pragma once

#include <netinet/in.h>

#include "http/http_client.h"
#include "loop/resolver.h"
#include "loop/stream.h"

/* A question under way. */
struct http_client_query {
    struct resolver_query query;
    struct http_client_endpoint *endpoint;
};

/* One server. Made with its first call, gone with its last connection. */
struct http_client_endpoint {
    struct http_client *client;
    struct task task; /* gives waiting calls connections */
    struct list waiting;
    struct list idle, busy; /* connections; HTTP/2: idle ones may have calls, and take more */
    unsigned n_waiting, n_conns;
    struct http_client_query *query;
    uint64_t resolved_ms;
    unsigned n_addresses;
    bool is_numeric, is_http2, is_https;
    struct sockaddr_storage addresses[RESOLVER_ADDRESSES];
    uint64_t pool;
    uint16_t port;
    size_t host_bytes;
    char host[]; /* ended by a NUL */
};

static inline const struct http_client_metrics *http_client_metrics_of(const struct http_client_endpoint *ep)
{
    return ep->client->options->metrics;
}

/* The call is over: it goes to whoever made it and may be gone when this returns. `response` and `body` with E_OK. */
void http_client_finish(struct http_call *call, err result, enum http_client_failure failure,
                        const struct http1_response_head *response, struct str body);

/* Puts a call to the front of those that wait. */
void http_client_wait_first(struct http_call *call);

/* Something has changed: waiting calls are looked at, at the end of the turn. */
void http_client_wake(struct http_client_endpoint *ep);

/* Connects a stream to the address that the call tries, with TLS if the server has it. */
MUST_USE err http_client_connect(struct http_client_endpoint *ep, const struct http_call *call, struct stream *s,
                                 const struct stream_ops *ops);

/* Nobody answers at the address that the call has tried: the next one, if there is one. */
void http_client_connect_elsewhere(struct http_client_endpoint *ep, struct http_call *call);

/* ---- HTTP/1 ---- */

/* Connects for this call. E_IO: the system refuses the address right away. */
MUST_USE err http_client_conn_open(struct http_client_endpoint *ep, struct http_call *call);

/* An idle connection takes the call; if it is closing, it leaves its list and the call waits on. */
void http_client_conn_use(struct list *link, struct http_call *call);

/* The connection leaves its list and closes. Returns the call it had, which has left it, or NULL. */
struct http_call *http_client_conn_drop(struct http_client_conn *c);
struct http_call *http_client_conn_drop_link(struct list *link);
