/* http2_reader: hands the bytes of a connection to nghttp2 frame by frame, having looked at each frame's head first (RFC 9113 section
 * 4.1): nghttp2 counts none of them, and passes over some that a peer must not send. Internal to http/; one thread. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/str.h"
#include "http/http2_flood.h"

enum { HTTP2_CONTINUATIONS_MAX = 8 /* of one header block */ };

struct http2_reader {
    struct http2_flood flood;
    uint32_t frame_bytes; /* that are still to come of the frame being read */
    uint8_t n_continuations;
    /* Of the owner; may be NULL: the error code of the connection that this frame means, or NO_ERROR. */
    uint32_t (*judge)(struct http2_reader *r, const nghttp2_frame_hd *hd);
};

/* `preface_bytes` come before the first frame. */
void http2_reader_init(struct http2_reader *r, uint64_t now_ms, size_t preface_bytes);

/* Reads. Returns how many bytes were used: the head of a frame is wanted as a whole, so up to eight may be left. `*out_fault` is the
 * error code with which the connection must end, NO_ERROR while it need not; nothing more is read then. */
size_t http2_reader_feed(struct http2_reader *r, nghttp2_session *session, struct str in, uint64_t now_ms, uint32_t *out_fault);
