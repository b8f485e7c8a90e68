/* http2_stream: one request and its response on a server's HTTP/2 connection: the transport of its exchange. Internal to http/; one
 * thread, that of the server's loop.
 *
 *     HEAD --> BODY --> HELD --> SENDING        refused: from HEAD or BODY to SENDING
 *
 * nghttp2 says when a stream is closed. If a handler still has the exchange, the stream waits in http2_conn.gone, so that on_cancel
 * is never called from inside a handler's own answer to another request. */
#pragma once

#include "http/http2_conn.h"
#include "http/http2_fields.h"
#include "http/http_exchange.h"

enum http2_phase { HTTP2_PHASE_HEAD, HTTP2_PHASE_BODY, HTTP2_PHASE_HELD, HTTP2_PHASE_SENDING };

struct http2_stream {
    struct list link;    /* in streams or gone */
    struct list waiting; /* in waiting */
    struct http2_conn *h2;
    struct http_exchange *x; /* NULL when answered */
    struct http2_fields fields;
    struct timer timer;
    struct buf out; /* of the response's body, what has not left */
    uint64_t max_body_bytes;
    uint64_t body_bytes;  /* that have come */
    uint64_t room_bytes;  /* of h2->body_bytes */
    uint32_t window_used; /* bytes whose window was not given back, until the body has room */
    uint32_t progress;    /* body bytes since the timer was set */
    int32_t id;
    uint8_t phase;
    bool has_received; /* x is counted */
    bool has_room;     /* the body was let on */
    bool is_peer_done; /* END_STREAM has come */
    bool is_sent;      /* the response, as a whole */
    bool is_malformed; /* to be reset at the end of the header block */
    bool is_gone;      /* closed */
};

struct http2_stream *http2_stream_new(struct http2_conn *h2, int32_t id);

/* What nghttp2's callbacks tell. */
void http2_stream_on_field(struct http2_stream *st, struct str name, struct str value);
void http2_stream_on_head(struct http2_stream *st, bool is_end);
void http2_stream_on_body(struct http2_stream *st, struct str piece);
void http2_stream_on_end(struct http2_stream *st);
void http2_stream_on_sent(struct http2_stream *st, bool is_end);
void http2_stream_on_closed(struct http2_stream *st);

/* Its header block does not end in this piece of input: it has a time limit. */
void http2_stream_wait_for_head(struct http2_stream *st);

/* The body may be sent on, whatever its length. */
void http2_stream_let_on(struct http2_stream *st);

/* How much room the rest of its body wants. */
uint64_t http2_stream_wanted(const struct http2_stream *st);

/* Tells the handler of a stream that is gone and frees the stream. */
void http2_stream_cancel(struct http2_stream *st);
