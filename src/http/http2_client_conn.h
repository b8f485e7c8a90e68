/* http2_client_conn: a client's HTTP/2 connection (RFC 9113): as many calls at once as the server allows. It is in ep->idle while it
 * takes further ones, else in ep->busy, closing in neither. Internal to http/; one thread.
 *
 * Whether a server that lets a call's time pass is alive nobody knows: when nothing at all has come from it since the call was sent,
 * the connection takes no further calls until a PING is answered, and closes if none is. */
#pragma once

#include "http/http_client_private.h"

/* Connects for this call. E_IO: the system refuses the address right away; E_NOMEM. */
MUST_USE err http2_client_conn_open(struct http_client_endpoint *ep, struct http_call *call);

/* A connection of ep->idle takes the call; if it is closing, it leaves its list and the call waits on. on_done is not called. */
void http2_client_conn_use(struct list *link, struct http_call *call);

/* The call is given up; it has left the connection. `is_late`: its time has passed. */
void http2_client_conn_give_up(struct http2_client_stream *st, bool is_late);

/* Tells the calls of all connections that are over. */
void http2_client_conn_settle_all(struct http_client_endpoint *ep);

/* The client was closed: all connections close, their calls are told so. */
void http2_client_conn_drop_all(struct http_client_endpoint *ep);
