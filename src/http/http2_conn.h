/* http2_conn: HTTP/2 on a connection of a server (RFC 9113) over nghttp2, which knows frames, HPACK, states of streams and flow
 * control. Here is what decides how much a peer may have: streams at once, bodies being read, frames that ask for nothing, time.
 *
 * The bound of bodies: each stream may send HTTP2_STREAM_WINDOW bytes. More it may once the rest of its body, as announced or as large
 * as allowed, has found room in HTTP2_CONN_BODY_BYTES of the connection; until then it waits, in order, and no time limit runs. So
 * whoever was let on can end, and uploads that wait for each other do not lock each other out.
 *
 * Lies behind http_conn.h, which has the stream of bytes, the time limit of the connection and its end. Internal to http/; one
 * thread, that of the server's loop. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "http/http2_past.h"
#include "http/http2_reader.h"
#include "http/http_conn.h"
#include "loop/stream.h"

enum {
    HTTP2_STREAMS_MAX = 100,
    HTTP2_STREAM_WINDOW = 65535, /* RFC 9113 section 6.9.2: what a peer may believe before it has read our settings */
    HTTP2_CONN_WINDOW = 1 << 20,
    HTTP2_CONN_BODY_BYTES = 8 << 20,
};

/* Visible to http2_stream.c. */
struct http2_conn {
    struct http_conn *conn;
    struct http_server *srv;
    struct stream *stream;
    nghttp2_session *session;
    struct list streams;          /* that nghttp2 has */
    struct list gone;             /* streams that are closed and whose exchange a handler has not given back */
    struct list waiting;          /* streams whose bodies want room */
    struct http2_stream *heading; /* its header block has begun and not ended */
    uint64_t body_bytes;          /* of bodies that have been let on */
    struct http2_reader reader;
    struct timer drain_timer;
    uint8_t wait;       /* enum wait: which time limit runs */
    uint8_t drain;      /* enum drain: how far GOAWAY is */
    uint8_t end_reason; /* enum http_close_reason, once nghttp2 has nothing more to do */
    bool is_in_data;    /* inside nghttp2, which must not be asked to send */
    bool is_over;
    uint32_t fault;  /* of the connection, found by us: an error code */
    int32_t last_id; /* of the peer's streams */
    struct http2_past past;
};

enum http2_preface { HTTP2_PREFACE_NOT, HTTP2_PREFACE_PART, HTTP2_PREFACE_WHOLE };

/* Whether a connection that begins with these bytes speaks HTTP/2 (RFC 9113 section 3.4). */
enum http2_preface http2_conn_detect(struct str bytes);

/* Begins; the preface is still to be fed. NULL: no memory. */
struct http2_conn *http2_conn_new(struct http_conn *c, struct http_server *srv, struct stream *stream);

/* Cancels what is in flight. The connection is closed. NULL is a no-op. */
void http2_conn_free(struct http2_conn *h2);

/* What struct stream_ops and the timer of the connection tell. */
size_t http2_conn_feed(struct http2_conn *h2, struct str bytes);
void http2_conn_on_drain(struct http2_conn *h2);
void http2_conn_on_deadline(struct http2_conn *h2);

/* No further streams: GOAWAY twice, with a round trip between (RFC 9113 section 6.8). Ends with the last stream. */
void http2_conn_drain(struct http2_conn *h2);

/* Of the PING that measures the round trip. */
enum { HTTP2_PING_BYTES = 8 };
extern const uint8_t http2_conn_drain_mark[HTTP2_PING_BYTES];

/* The second step, once the peer has seen the first. A no-op before that, and when done. */
void http2_conn_end_drain(struct http2_conn *h2);

/* ---- for http2_stream ---- */

/* Gives to the connection what nghttp2 has to send, as far as the peer takes it. Not inside nghttp2: then it follows by itself. */
void http2_conn_flush(struct http2_conn *h2);

/* The body of a stream ends, or is given up: others may have its room. */
void http2_conn_give_room(struct http2_conn *h2, uint64_t body_bytes);
