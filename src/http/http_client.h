/* http_client: HTTP requests from a loop: connections kept for use again and bounded for each server, names resolved off the loop's
 * thread, time limits for everything. HTTP/1.1 has one request at a time on a connection, HTTP/2 as many as the server allows.
 *
 * A call is answered exactly once by on_done, never inside http_client_send(); unless it is cancelled. A request is sent a second
 * time only when a connection that had served others was closed before any byte of the response: the server had given it up
 * before it saw the request, or died with it, so whatever must not happen twice needs a key of its own. (HTTP/2: also when the server
 * says that it has not looked at the request.)
 *
 * One thread: that of the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "http/http_client_metrics.h"
#include "http/http_url.h"
#include "loop/loop.h"
#include "proto/http1/http1_response.h"

struct http2_client_stream;
struct http_client_conn;
struct http_client_endpoint;
struct resolver;

/* 0 of a number means its default. */
struct http_client_options {
    unsigned max_connections;          /* to one server; 16 */
    unsigned max_waiting;              /* calls to one server that have no connection yet; 1,000 */
    uint32_t connect_timeout_ms;       /* for one address; 5,000 */
    uint32_t idle_timeout_ms;          /* of a kept-alive connection; 20,000 */
    uint32_t addresses_ms;             /* how long the addresses of a name are believed; 30,000 */
    const struct http1_limits *limits; /* of responses; NULL: http1_limits_default */
    const struct http_client_metrics *metrics;
    struct resolver *resolver; /* NULL: numeric addresses only */
};

enum { HTTP_CLIENT_SPARES = 64 };

struct http_client {
    struct loop *loop;
    const struct http_client_options *options;
    struct tls *tls; /* NULL: no https */
    struct map endpoints;
    struct buf spares[HTTP_CLIENT_SPARES]; /* buffers of heads to use again */
    unsigned n_spares;
    bool is_closed;
};

/* Everything is borrowed: `body` until on_done or http_client_cancel(), the rest for the call. */
struct http_client_request {
    const struct http_url *url;
    enum http_method method;
    struct str content_type;
    const struct http_header *headers;
    size_t n_headers;
    const struct str *lines; /* header lines that are ready and safe: each a name, a colon, a space, a value, CR LF */
    size_t n_lines;          /* how many blocks of them */
    struct str body;
    uint32_t timeout_ms;         /* for all of it, waiting included; not 0 */
    uint64_t max_response_bytes; /* of the body; 0: that of the options' limits */
    bool is_http2;               /* HTTP/2 with prior knowledge, else HTTP/1.1 */
    uint64_t pool;               /* requests of different pools never share a connection, nor wait for one another */
};

/* Owned by the requester, zeroed but for on_done, and left alone until that runs; it may then be freed or used again. */
struct http_call {
    void (*on_done)(struct http_call *call);
    /* E_OK: there is a response, whatever its status. E_NOTFOUND: no such host; E_IO: no connection, or its TLS came to nothing; E_TIMEOUT; E_CLOSED: the
     * server closed, or the client was; E_PROTO, E_LIMIT: the response is no good, or too large; E_NOMEM. */
    err result;
    const struct http1_response_head *response; /* these two until on_done returns, with E_OK */
    struct str body;

    /* The client's. */
    struct list link;
    struct timer timer;
    struct http_client_endpoint *endpoint; /* NULL: at rest */
    struct http_client_conn *conn;         /* HTTP/1: that has it */
    struct http2_client_stream *stream;    /* HTTP/2 */
    struct buf head;
    struct str payload;
    uint64_t max_response_bytes;
    uint8_t method;
    uint8_t n_tried; /* addresses */
    bool is_retried;
};

/* Sets up; `options` is borrowed as long as the client is used. */
void http_client_init(struct http_client *cl, struct loop *l, const struct http_client_options *options);

/* New connections to https servers have this TLS from now on; NULL: none, which is how a client begins. A reference is taken. */
struct tls;
void http_client_use_tls(struct http_client *cl, struct tls *tls);

/* Takes a request. E_INVAL: a header would break out of its line, or https without TLS. E_LIMIT: too many wait for this server. E_CLOSED: the client is
 * closed. E_NOMEM. on_done is not called then. */
MUST_USE err http_client_send(struct http_client *cl, struct http_call *call, const struct http_client_request *request);

/* on_done will not be called any more. A no-op on a call at rest. */
void http_client_cancel(struct http_call *call);

/* Ends: calls are answered with E_CLOSED before this returns, connections close in the next two turns. More than once is harmless. */
void http_client_close(struct http_client *cl);

/* After http_client_close() and those turns, and after the resolver was taken down. All-zero is a no-op. */
void http_client_fini(struct http_client *cl);
