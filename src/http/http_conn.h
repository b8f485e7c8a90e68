/* http_conn: one HTTP/1 connection of a server: reads requests, hands them to their routes, writes responses in order.
 * Internal to http/; one thread, that of the server's loop.
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
