/* http2_past: the streams of an HTTP/2 connection that closed last, to tell a peer that goes on after its own end (RFC 9113 section
 * 5.1) from one that cannot know yet that we have reset the stream. Pure; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HTTP2_PAST_STREAMS = 32 };

/* All-zero is empty. */
struct http2_past {
    uint32_t streams[HTTP2_PAST_STREAMS]; /* id, above one bit: the peer knows */
    uint8_t next;
};

/* A stream is closed; `is_peer_done`: the peer has ended or reset it. */
void http2_past_add(struct http2_past *past, int32_t id, bool is_peer_done);

/* The error code of the connection that HEADERS or DATA on a stream mean which is not open, although one with this id or a higher one
 * has been; NO_ERROR when they can have been on their way, or nobody remembers. */
uint32_t http2_past_judge(const struct http2_past *past, int32_t id);
