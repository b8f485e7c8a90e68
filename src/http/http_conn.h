/* http_conn: one connection of a server, which speaks HTTP/1 (reads requests, hands them to their routes, writes responses in
 * order) unless it begins with the preface of HTTP/2: then http2_conn.h has the word, and what is here is the connection's stream,
 * time limit and end. Internal to http/; one thread, that of the server's loop.
 *
 *            first byte          head            body
 *     IDLE ------------> HEAD ----------> BODY ----------> HELD     (by a handler)
 *       ^                  |                |                |
 *       |                  +- refused, slow +                | response
 *       +--------------------------- | ----------------------+
 *                                    v                       | Connection: close
 *                                 LINGER <-------------------+
 *
 * LINGER: the last response is sent, our side is shut, and what still comes is thrown away until the peer closes or two
 * seconds pass. Closing at once would make the kernel reset the connection when input is unread, and the peer could lose the
 * response. */
#pragma once

#include "http/http_server.h"

struct http_conn;

/* Takes over a connected descriptor. E_IO: epoll refused; the descriptor is closed. */
MUST_USE err http_conn_open(struct http_server *srv, int fd);

/* The server begins to drain: an idle connection ends now, others after their response. */
void http_conn_drain(struct list *link);

/* Ends it now, whatever it does; its exchange is cancelled at the end of the turn. */
void http_conn_cut(struct list *link);

/* ---- for http2_conn ---- */

/* What stands for a time of 0 in the options. */
enum {
    HTTP_CONN_HEAD_TIMEOUT_MS = 10 * 1000,
    HTTP_CONN_BODY_TIMEOUT_MS = 30 * 1000,
    HTTP_CONN_IDLE_TIMEOUT_MS = 75 * 1000, /* longer than the minute in which monitoring asks again */
    HTTP_CONN_OUTPUT_TIMEOUT_MS = 30 * 1000,
    HTTP_CONN_LINGER_TIMEOUT_MS = 2 * 1000,    /* for a peer that has its response to stop sending */
    HTTP_CONN_BODY_PROGRESS_BYTES = 16 * 1024, /* what must come in each body timeout */
    HTTP_CONN_BODY_RESERVE_BYTES = 64 * 1024,  /* of an announced body, before any of it has come */
    HTTP_CONN_OUTPUT_BYTES = 64 * 1024,        /* of responses that wait for the peer, before no further request is read */
};

/* Closes; the first reason holds. */
void http_conn_end(struct http_conn *c, enum http_close_reason reason);

/* Goes over to LINGER; nothing that comes is handed to http2_conn any more. */
void http_conn_linger(struct http_conn *c, enum http_close_reason reason);

/* The time limit that http2_conn_on_deadline() tells of; instead of an earlier one. The second: there is none. */
void http_conn_set_deadline(struct http_conn *c, uint32_t configured_ms, uint32_t default_ms);
void http_conn_clear_deadline(struct http_conn *c);
