/* http2_client_stream: one call on a client's HTTP/2 connection, from its request to the end of its response. Internal to http/; one
 * thread.
 *
 * It lives as long as nghttp2 knows the stream, and until its call has been told. Inside nghttp2's callbacks nobody is told: the stream
 * goes to conn.done, which the connection empties when nghttp2 has returned. */
#pragma once

#include "http/http2_fields.h"
#include "http/http2_reader.h"
#include "http/http2_session.h"
#include "http/http_client_private.h"

struct http2_client_conn {
    struct stream stream;
    struct timer timer; /* connecting, idle, or in doubt; lazy */
    uint64_t deadline_ms;
    struct list link;
    struct http_client_endpoint *endpoint;
    nghttp2_session *session;
    struct http2_reader reader;
    struct list streams, done; /* all; those whose calls are to be told */
    uint32_t n_streams;        /* that nghttp2 has */
    uint32_t n_reads;
    bool has_served; /* a call */
    bool is_inside;  /* nghttp2, which must not be asked to send */
    bool is_leaving; /* closing */
    bool is_doubted; /* a PING is to be answered */
    bool has_fault;  /* the server broke the protocol */
    bool was_idle;
};

struct http2_client_stream {
    struct list link, done;
    struct http2_client_conn *conn;
    struct http_call *call; /* NULL: nobody wants to know any more */
    struct str unsent;      /* of the request's body */
    struct http1_head head;
    struct http2_fields fields;
    struct http1_response_head response;
    struct buf body;
    uint64_t max_body_bytes;
    uint32_t n_reads; /* of the connection when the call was sent */
    int32_t id;
    uint8_t result;  /* err */
    uint8_t failure; /* enum http_client_failure */
    uint8_t n_interim;
    bool is_over;  /* result is known */
    bool is_reset; /* by the server */
    bool has_head;
    bool has_bytes;
    bool is_closed; /* nghttp2 has forgotten it */
    bool is_telling;
};

/* nghttp2's callbacks; the user pointer is a struct http2_client_conn. */
const struct http2_session_callbacks *http2_client_stream_callbacks(void);

/* Submits the call's request. What goes wrong is told later. */
void http2_client_stream_new(struct http2_client_conn *c, struct http_call *call);

/* The call has its result, or is sent again. */
void http2_client_stream_tell(struct http2_client_stream *st);
void http2_client_stream_retry(struct http_call *call);

/* The call is given up. */
void http2_client_stream_abandon(struct http2_client_stream *st);

/* Every call of the connection is told that the client was closed. */
void http2_client_stream_cancel_all(struct http2_client_conn *c);

void http2_client_stream_free(struct http2_client_stream *st);

/* The PING of doubt was answered. Implemented by http2_client_conn.c. */
void http2_client_conn_trust(struct http2_client_conn *c);
