/* http_server: HTTP connections on one loop, HTTP/1.1 and HTTP/2 at the same port. With several workers each has a server of its own,
 * on the same address and with the same routes.
 *
 * An HTTP/1 connection reads one request after the other; while a handler keeps an exchange, later (pipelined) requests wait, so
 * responses leave in order by construction. On HTTP/2 they leave as they are given. Responses of one turn leave in one write. An idle connection owns no buffer;
 * exchanges with their buffers are pooled. One thread: that of the loop. */
#pragma once

#include <sys/socket.h>

#include "base/err.h"
#include "http/http_metrics.h"
#include "http/http_route.h"

#include "loop/listener.h"
#include "loop/loop.h"
#include "proto/http1/http1_encoder.h"
#include "proto/http1/http1_parser.h"

/* Constant for the server's life, borrowed. Times of 0 mean the default in brackets. */
struct http_server_options {
    const struct http_route *routes;
    size_t n_routes;
    const struct http1_limits *limits; /* NULL: http1_limits_default */
    struct http_metrics *metrics;      /* registered; not NULL */
    uint32_t max_connections;          /* 0: no bound */
    uint32_t head_timeout_ms;          /* first byte (or accept) to the end of the head (10 s) */
    uint32_t body_timeout_ms;          /* for each 16 KiB of a body (30 s) */
    uint32_t idle_timeout_ms;          /* between requests (75 s) */
    uint32_t output_timeout_ms;        /* for the peer to take a response (30 s) */
    uint32_t max_streams;              /* requests at once on one connection of HTTP/2 (100) */
};

struct http_server {
    struct loop *loop;
    const struct http_server_options *options;
    struct listener listener;
    struct tls *tls; /* of new connections; NULL: none */
    struct list conns;
    struct list exchanges; /* held by handlers, cancelled ones too */
    struct list pool;      /* exchanges to use again */
    uint32_t n_conns, n_exchanges, n_pooled;
    struct task closed_task;
    struct timer drain_timer;
    void (*on_closed)(struct http_server *srv);
    bool is_draining, is_closed;
    uint64_t date_at_ms;
    char date[HTTP1_DATE_BYTES];
};

void http_server_init(struct http_server *srv, struct loop *l, const struct http_server_options *options);

/* Binds and begins to accept. With `is_shared` the servers of other loops may bind the same address. E_BUSY: the address is
 * in use. E_IO: anything else; the reason is in `ei`. */
MUST_USE err http_server_listen(struct http_server *srv, const struct sockaddr_storage *address, socklen_t size, bool is_shared,
                                struct errinfo *ei);

/* The same in two steps: http_server_bind() takes the address, in use by nobody else from now on, and http_server_start() begins
 * to accept; nothing happens before. */
MUST_USE err http_server_bind(struct http_server *srv, const struct sockaddr_storage *address, socklen_t size, bool is_shared,
                              struct errinfo *ei);
MUST_USE err http_server_start(struct http_server *srv, struct errinfo *ei);

/* New connections have this TLS from now on; NULL: none, which is how a server begins. A reference is taken. */
struct tls;
void http_server_use_tls(struct http_server *srv, struct tls *tls);

/* Takes over a connected, non-blocking descriptor. E_LIMIT past max_connections or while draining, E_IO when epoll refuses;
 * the descriptor is closed then. */
MUST_USE err http_server_adopt(struct http_server *srv, int fd);

/* Ends in an orderly way: accepts nothing more, closes idle connections, answers what is in flight with Connection: close. After
 * `limit_ms` (0: at once) the remaining connections are closed, which cancels their exchanges. `on_closed` (may be NULL)
 * runs at the end of a turn, once, when there is neither a connection nor an unanswered exchange left; it may call
 * http_server_fini() and free the server. A second call can only shorten the limit. */
void http_server_drain(struct http_server *srv, uint64_t limit_ms, void (*on_closed)(struct http_server *srv));

/* The date for responses sent now. */
struct str http_server_date(struct http_server *srv);

/* Of the transports: a handler got an exchange, one was answered, a connection is gone. */
void http_server_hold_exchange(struct http_server *srv, struct http_exchange *x);
void http_server_finish_exchange(struct http_server *srv);
void http_server_remove_conn(struct http_server *srv, struct list *link);

/* Frees the pool. Only before the first connection or once on_closed was reached. */
void http_server_fini(struct http_server *srv);
