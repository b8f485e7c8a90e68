#include "http/http2_events.h"

#include "http/http2_conn.h"
#include "http/http2_stream.h"

static struct http2_stream *find(struct http2_conn *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2->session, id);
}

static bool is_end(const nghttp2_frame *frame)
{
    return frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_conn *h2 = user;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) /* trailers are read over */
        return 0;
    h2->last_id = frame->hd.stream_id;
    h2->heading = http2_stream_new(h2, frame->hd.stream_id);
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, h2->heading);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    struct http2_conn *h2 = user;

    (void)session;
    (void)flags;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST && h2->heading)
        http2_stream_on_field(h2->heading, (struct str){(const char *)name, name_bytes},
                              (struct str){(const char *)value, value_bytes});
    return 0;
}

/* nghttp2 would leave the field out and go on: RFC 9113 section 8.2.1 wants the request refused. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                             const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    struct http2_stream *st = find(user, frame->hd.stream_id);

    (void)session;
    (void)name;
    (void)name_bytes;
    (void)value;
    (void)value_bytes;
    (void)flags;
    if (st)
        st->is_malformed = true;
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_conn *h2 = user;
    struct http2_stream *st = frame->hd.stream_id ? find(h2, frame->hd.stream_id) : NULL;

    (void)session;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) &&
        memcmp(frame->ping.opaque_data, http2_conn_drain_mark, sizeof http2_conn_drain_mark) == 0)
        http2_conn_end_drain(h2);
    if (!st)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        h2->heading = NULL;
        http2_stream_on_head(st, is_end(frame));
    } else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && is_end(frame)) {
        http2_stream_on_end(st);
    } else if (frame->hd.type == NGHTTP2_RST_STREAM) {
        st->is_peer_done = true;
        metric_add(&h2->srv->options->metrics->reset[HTTP_RESET_PEER], 1);
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *user)
{
    struct http2_stream *st = find(user, id);

    (void)flags;
    if (st)
        http2_stream_on_body(st, (struct str){(const char *)data, n});
    /* The streams' windows are the bound, this one only follows. */
    return nghttp2_session_consume_connection(session, n);
}

static enum http_reset_reason reset_reason(uint32_t error_code)
{
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return HTTP_RESET_REFUSED;
    case NGHTTP2_CANCEL:
        return HTTP_RESET_SLOW;
    case NGHTTP2_INTERNAL_ERROR:
        return HTTP_RESET_ERROR;
    default:
        return HTTP_RESET_MALFORMED;
    }
}

/* A stream that the peer makes us reset costs as much as one that it resets. One that was refused has never been open: what follows
 * its head may be on its way. */
static void on_reset_sent(struct http2_conn *h2, int32_t id, uint32_t error_code)
{
    if (!nghttp2_session_find_stream(h2->session, id))
        http2_past_add(&h2->past, id, false);
    if (error_code == NGHTTP2_NO_ERROR)
        return;
    metric_add(&h2->srv->options->metrics->reset[reset_reason(error_code)], 1);
    if (!http2_flood_take_one(&h2->reader.flood, h2->srv->loop->wheel.clock_ms))
        h2->fault = NGHTTP2_ENHANCE_YOUR_CALM;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_conn *h2 = user;
    struct http2_stream *st = frame->hd.stream_id ? find(h2, frame->hd.stream_id) : NULL;

    (void)session;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        on_reset_sent(h2, frame->hd.stream_id, frame->rst_stream.error_code);
    else if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        h2->end_reason = frame->goaway.error_code == NGHTTP2_ENHANCE_YOUR_CALM ? HTTP_CLOSED_FLOOD : HTTP_CLOSED_PROTOCOL;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    http2_flood_give(&h2->reader.flood);
    if (st && st->phase == HTTP2_PHASE_SENDING)
        http2_stream_on_sent(st, is_end(frame));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
    struct http2_conn *h2 = user;
    struct http2_stream *st = find(h2, id);

    (void)session;
    (void)error_code;
    http2_past_add(&h2->past, id, st && st->is_peer_done);
    if (!st)
        return 0;
    if (h2->heading == st)
        h2->heading = NULL;
    http2_stream_on_closed(st);
    return 0;
}

const struct http2_session_callbacks *http2_events_callbacks(void)
{
    static const struct http2_session_callbacks callbacks = {
        .on_begin_headers = on_begin_headers,
        .on_header = on_header,
        .on_invalid_header = on_invalid_header,
        .on_frame_recv = on_frame_recv,
        .on_data_chunk = on_data_chunk,
        .on_frame_send = on_frame_send,
        .on_stream_close = on_stream_close,
    };

    return &callbacks;
}
