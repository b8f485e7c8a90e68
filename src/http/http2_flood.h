/* http2_flood: what a peer may cost by HTTP/2 frames that ask for nothing: PING, SETTINGS, RST_STREAM, PRIORITY, WINDOW_UPDATE,
 * CONTINUATION, empty DATA, unknown ones, and streams that we have to reset (RFC 9113 section 10.5). Each takes a token. Tokens
 * come back with time, and with what we send, since an honest peer answers DATA with WINDOW_UPDATE. Pure; one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP2_FLOOD_BURST = 500, HTTP2_FLOOD_TOKENS_PER_S = 30, HTTP2_FLOOD_TOKENS_PER_FRAME_SENT = 3 };

struct http2_flood {
    uint64_t filled_ms;
    uint32_t tokens;
};

void http2_flood_init(struct http2_flood *f, uint64_t now_ms);

/* Takes what a frame costs. False: it is one too many. `type` and `flags` as on the wire; `length` of its payload. */
bool http2_flood_take(struct http2_flood *f, uint64_t now_ms, unsigned type, unsigned flags, size_t length);

/* Takes a token for something else. */
bool http2_flood_take_one(struct http2_flood *f, uint64_t now_ms);

/* We have sent a HEADERS or DATA frame. */
void http2_flood_give(struct http2_flood *f);
