/* http2_session: what both ends of HTTP/2 want of nghttp2: its memory counted as ours, its frames in a stream's output. Internal to
 * http/; one thread. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/err.h"
#include "loop/stream.h"

/* nghttp2's callbacks; NULL where there is none. */
struct http2_session_callbacks {
    nghttp2_on_begin_headers_callback on_begin_headers;
    nghttp2_on_header_callback on_header;
    nghttp2_on_invalid_header_callback on_invalid_header;
    nghttp2_on_frame_recv_callback on_frame_recv;
    nghttp2_on_data_chunk_recv_callback on_data_chunk;
    nghttp2_on_frame_send_callback on_frame_send;
    nghttp2_on_frame_not_send_callback on_frame_not_send;
    nghttp2_on_stream_close_callback on_stream_close;
};

/* A session without automatic window updates, that forgets closed streams. nghttp2_session_del() frees it. NULL: no memory. */
nghttp2_session *http2_session_new(bool is_server, const struct http2_session_callbacks *callbacks, void *user);

/* Puts what is to be sent into the output, while fewer than `limit_bytes` wait there. E_NOMEM; E_CLOSED: the stream is closing; E_IO:
 * a callback has failed. */
MUST_USE err http2_session_send(nghttp2_session *session, struct stream *s, size_t limit_bytes);
