#include "http/http2_reader.h"

enum { HEAD_BYTES = 9 };

void http2_reader_init(struct http2_reader *r, uint64_t now_ms, size_t preface_bytes)
{
    *r = (struct http2_reader){.frame_bytes = (uint32_t)preface_bytes};
    http2_flood_init(&r->flood, now_ms);
}

static nghttp2_frame_hd read_head(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;

    return (nghttp2_frame_hd){
        .length = (size_t)b[0] << 16 | (size_t)b[1] << 8 | b[2],
        .type = b[3],
        .flags = b[4],
        .stream_id = (int32_t)((uint32_t)(b[5] & 0x7f) << 24 | (uint32_t)b[6] << 16 | (uint32_t)b[7] << 8 | b[8]),
    };
}

static uint32_t begin_frame(struct http2_reader *r, const char *p, uint64_t now_ms)
{
    nghttp2_frame_hd hd = read_head(p);

    r->frame_bytes = HEAD_BYTES + (uint32_t)hd.length;
    r->n_continuations = hd.type == NGHTTP2_CONTINUATION ? r->n_continuations + 1 : 0;
    if (r->n_continuations > HTTP2_CONTINUATIONS_MAX || !http2_flood_take(&r->flood, now_ms, hd.type, hd.flags, hd.length))
        return NGHTTP2_ENHANCE_YOUR_CALM;
    return r->judge ? r->judge(r, &hd) : NGHTTP2_NO_ERROR;
}

static uint32_t fault_of(ssize_t nghttp2_error)
{
    switch (nghttp2_error) {
    case NGHTTP2_ERR_FLOODED:
        return NGHTTP2_ENHANCE_YOUR_CALM;
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        return NGHTTP2_PROTOCOL_ERROR;
    default: /* no memory */
        return NGHTTP2_INTERNAL_ERROR;
    }
}

size_t http2_reader_feed(struct http2_reader *r, nghttp2_session *session, struct str in, uint64_t now_ms, uint32_t *out_fault)
{
    size_t used = 0;

    *out_fault = NGHTTP2_NO_ERROR;
    while (used < in.n) {
        size_t n = in.n - used;
        ssize_t taken;

        if (r->frame_bytes == 0) {
            if (n < HEAD_BYTES)
                break;
            *out_fault = begin_frame(r, in.p + used, now_ms);
            if (*out_fault)
                return in.n;
        }
        n = n < r->frame_bytes ? n : r->frame_bytes;
        taken = nghttp2_session_mem_recv(session, (const uint8_t *)in.p + used, n);
        if (taken < 0) {
            *out_fault = fault_of(taken);
            return in.n;
        }
        used += n;
        r->frame_bytes -= (uint32_t)n;
    }
    return used;
}
