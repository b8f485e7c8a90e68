#include "http/http2_flood.h"

#include <nghttp2/nghttp2.h>

enum { MS_PER_S = 1000 };

void http2_flood_init(struct http2_flood *f, uint64_t now_ms)
{
    *f = (struct http2_flood){.filled_ms = now_ms, .tokens = HTTP2_FLOOD_BURST};
}

static void give(struct http2_flood *f, uint64_t n)
{
    f->tokens = n < HTTP2_FLOOD_BURST - f->tokens ? f->tokens + (uint32_t)n : HTTP2_FLOOD_BURST;
}

static void fill(struct http2_flood *f, uint64_t now_ms)
{
    uint64_t n = (now_ms - f->filled_ms) * HTTP2_FLOOD_TOKENS_PER_S / MS_PER_S;

    if (n == 0)
        return;
    give(f, n);
    f->filled_ms = now_ms;
}

bool http2_flood_take_one(struct http2_flood *f, uint64_t now_ms)
{
    if (f->tokens == 0)
        fill(f, now_ms);
    if (f->tokens == 0)
        return false;
    f->tokens--;
    return true;
}

bool http2_flood_take(struct http2_flood *f, uint64_t now_ms, unsigned type, unsigned flags, size_t length)
{
    bool is_free;

    switch (type) {
    case NGHTTP2_DATA: /* empty ones only end something */
        is_free = length > 0 || (flags & NGHTTP2_FLAG_END_STREAM);
        break;
    case NGHTTP2_HEADERS: /* each is a request, whose cost has bounds of its own, or ends one */
        is_free = true;
        break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING: /* we have asked for the answer */
        is_free = flags & NGHTTP2_FLAG_ACK;
        break;
    default:
        is_free = false;
        break;
    }
    return is_free || http2_flood_take_one(f, now_ms);
}

void http2_flood_give(struct http2_flood *f)
{
    give(f, HTTP2_FLOOD_TOKENS_PER_FRAME_SENT);
}
