/* http_exchange: one request and its response, whichever version of HTTP carries them. This is all that handlers see.
 *
 * A handler answers every exchange exactly once with one of the respond functions: inside the call, or later from the loop's
 * thread. After that the exchange must not be touched. Until then the request with all its views stays valid, even when
 * the peer goes away first (or shuts its sending side, which looks the same): on_cancel is called then (if set) and the answer
 * goes nowhere, but it must still be given. So a handler may keep its own state in an object that a delivery refers to, and
 * release both in one place.
 *
 * One thread: that of the server's loop. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "proto/http1/http1_head.h"
#include "proto/http1/http_message.h"

enum { HTTP_PARAMS_MAX = 8 };

struct http_exchange;
struct http_route;
struct http_server;
struct tls_conn;

/* How a version of the protocol sends a response. */
struct http_transport {
    void (*respond)(struct http_exchange *x, const struct http_response *r);
};

struct http_exchange {
    struct http_request request;
    struct str params[HTTP_PARAMS_MAX]; /* what the `{}` of the route's pattern matched, in order, not percent-decoded */
    size_t n_params;
    void *user;                                 /* the handler's */
    void (*on_cancel)(struct http_exchange *x); /* the handler's; may be NULL */

    /* Of the server. */
    struct list link; /* in the list of held ones, or in the pool */
    struct http_server *server;
    const struct http_route *route;
    unsigned allowed; /* methods of the path, when there is no route */
    const struct http_transport *transport;
    void *carrier;        /* the transport's connection, or stream; NULL once the peer has gone, */
    struct tls_conn *tls; /* and its TLS then, too; NULL from the beginning: it has none. Handlers may ask tls_peer_of() */
    int fd;               /* of its connection; 0 once the peer has gone. Handlers may ask who that is, and nothing else */
    struct http1_head head;
    struct buf body;
};

typedef void (*http_handler)(struct http_exchange *x, void *context);

/* Answers. All views of `r` are borrowed for the call. A HEAD request gets the head alone. */
void http_exchange_respond(struct http_exchange *x, const struct http_response *r);

/* Answers with text/plain. */
void http_exchange_respond_text(struct http_exchange *x, uint16_t status, struct str text);

/* Answers with the JSON object {"error":"<text>"}; the text is escaped. */
void http_exchange_respond_error(struct http_exchange *x, uint16_t status, struct str text);

/* Writes that JSON object and a line feed into at most `size` (at least 32) bytes; a longer text is cut. Returns the length. */
size_t http_exchange_format_error(char *to, size_t size, struct str text);

/* Takes the request's memory away from an exchange that is not answered yet, so that the views of the request are good as long as the
 * caller keeps it: http1_head_free() and buf_free(MEM_HTTP). */
void http_exchange_take_request(struct http_exchange *x, struct http1_head *out_head, struct buf *out_body);

/* Whether the peer has gone. */
static inline bool http_exchange_is_cancelled(const struct http_exchange *x)
{
    return !x->carrier;
}
