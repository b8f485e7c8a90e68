#include "http/http2_past.h"

#include <nghttp2/nghttp2.h>

void http2_past_add(struct http2_past *past, int32_t id, bool is_peer_done)
{
    past->streams[past->next] = (uint32_t)id << 1 | is_peer_done;
    past->next = (uint8_t)((past->next + 1) % HTTP2_PAST_STREAMS);
}

uint32_t http2_past_judge(const struct http2_past *past, int32_t id)
{
    for (unsigned i = 0; i < HTTP2_PAST_STREAMS; i++)
        if (past->streams[i] >> 1 == (uint32_t)id)
            return past->streams[i] & 1 ? NGHTTP2_STREAM_CLOSED : NGHTTP2_NO_ERROR;
    /* With room left everything is remembered: this one has never been open. */
    return past->streams[past->next] == 0 ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
}
