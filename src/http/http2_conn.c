#include "http/http2_conn.h"

#include <arpa/inet.h>

#include "base/check.h"
#include "base/log.h"
#include "http/http2_events.h"
#include "http/http2_session.h"
#include "http/http2_stream.h"

enum { DRAIN_ROUND_TRIP_MS = 1000, GOAWAY_BYTES = 17 };

enum wait { WAIT_NONE, WAIT_REQUEST, WAIT_OUTPUT };
enum drain { DRAIN_NOT, DRAIN_NOTICE, DRAIN_LAST };

const uint8_t http2_conn_drain_mark[HTTP2_PING_BYTES] = {'m', 'i', 'l', 'l', 'r', 'a', 'c', 'e'};

static const struct http_metrics *metrics_of(const struct http2_conn *h2)
{
    return h2->srv->options->metrics;
}

static uint64_t now_ms(const struct http2_conn *h2)
{
    return h2->srv->loop->wheel.clock_ms;
}

/* ---- the end ---- */

/* nghttp2 cannot go on: the peer is told by our own hand (RFC 9113 section 6.8). */
static void end_now(struct http2_conn *h2, uint32_t error_code, enum http_close_reason reason)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);
    const uint32_t words[2] = {htonl((uint32_t)last), htonl(error_code)};
    char frame[GOAWAY_BYTES] = {0, 0, sizeof words, NGHTTP2_GOAWAY};

    if (h2->is_over)
        return;
    h2->is_over = true;
    memcpy(frame + GOAWAY_BYTES - sizeof words, words, sizeof words);
    if (stream_write(h2->stream, (struct str){frame, sizeof frame}) == E_OK)
        http_conn_linger(h2->conn, reason);
    else
        http_conn_end(h2->conn, reason);
}

static void fail(struct http2_conn *h2)
{
    enum http_close_reason reason = HTTP_CLOSED_PROTOCOL;

    if (h2->fault == NGHTTP2_ENHANCE_YOUR_CALM)
        reason = HTTP_CLOSED_FLOOD;
    else if (h2->fault == NGHTTP2_INTERNAL_ERROR)
        reason = HTTP_CLOSED_ERROR;
    end_now(h2, h2->fault, reason);
}

/* ---- time limits of the connection: for the next request, and for the peer to take what we send; streams have their own ---- */

static void wait_for(struct http2_conn *h2, enum wait wait)
{
    const struct http_server_options *o = h2->srv->options;

    if (h2->wait == wait)
        return;
    h2->wait = wait;
    if (wait == WAIT_REQUEST)
        http_conn_set_deadline(h2->conn, o->idle_timeout_ms, HTTP_CONN_IDLE_TIMEOUT_MS);
    else if (wait == WAIT_OUTPUT)
        http_conn_set_deadline(h2->conn, o->output_timeout_ms, HTTP_CONN_OUTPUT_TIMEOUT_MS);
    else
        http_conn_clear_deadline(h2->conn);
}

/* Where the connection stands when something has been done. */
static void settle(struct http2_conn *h2)
{
    if (h2->is_over)
        return;
    if (!nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session)) {
        h2->is_over = true;
        http_conn_linger(h2->conn, h2->end_reason);
    } else if (stream_pending(h2->stream) > 0) {
        wait_for(h2, WAIT_OUTPUT);
    } else {
        wait_for(h2, list_is_empty(&h2->streams) ? WAIT_REQUEST : WAIT_NONE);
    }
}

void http2_conn_on_deadline(struct http2_conn *h2)
{
    if (h2->wait == WAIT_OUTPUT) {
        http_conn_end(h2->conn, HTTP_CLOSED_SLOW);
        return;
    }
    h2->end_reason = HTTP_CLOSED_IDLE;
    if (nghttp2_session_terminate_session(h2->session, NGHTTP2_NO_ERROR) != 0)
        http_conn_end(h2->conn, HTTP_CLOSED_IDLE);
    else
        http2_conn_flush(h2);
}

/* ---- output ---- */

void http2_conn_flush(struct http2_conn *h2)
{
    err e = E_OK;

    if (h2->is_in_data || h2->is_over)
        return;
    if (h2->fault) {
        fail(h2);
        return;
    }
    h2->is_in_data = true;
    e = http2_session_send(h2->session, h2->stream, HTTP_CONN_OUTPUT_BYTES);
    h2->is_in_data = false;
    if (h2->fault)
        fail(h2);
    else if (e != E_OK)
        http_conn_end(h2->conn, HTTP_CLOSED_ERROR);
    else
        settle(h2);
}

void http2_conn_give_room(struct http2_conn *h2, uint64_t body_bytes)
{
    h2->body_bytes -= body_bytes;
    while (!list_is_empty(&h2->waiting)) {
        struct http2_stream *st = CONTAINER_OF(h2->waiting.next, struct http2_stream, waiting);
        uint64_t wanted = http2_stream_wanted(st);

        if (h2->body_bytes > 0 && h2->body_bytes + wanted > HTTP2_CONN_BODY_BYTES)
            return;
        list_remove(&st->waiting);
        h2->body_bytes += wanted;
        st->room_bytes = wanted;
        http2_stream_let_on(st);
    }
}

/* Handlers hear of peers that have gone when none of them is at work. */
static void cancel_gone(struct http2_conn *h2)
{
    struct list *link;

    while ((link = list_pop(&h2->gone)))
        http2_stream_cancel(CONTAINER_OF(link, struct http2_stream, link));
}

/* ---- input ---- */

static const struct str preface = STR_INIT(NGHTTP2_CLIENT_MAGIC);

enum http2_preface http2_conn_detect(struct str bytes)
{
    size_t n = bytes.n < preface.n ? bytes.n : preface.n;

    if (n && memcmp(bytes.p, preface.p, n) != 0)
        return HTTP2_PREFACE_NOT;
    return n == preface.n ? HTTP2_PREFACE_WHOLE : HTTP2_PREFACE_PART;
}

/* nghttp2 remembers no closed streams (RFC 9113 sections 5.1 and 5.1.1). */
static uint32_t judge(struct http2_reader *r, const nghttp2_frame_hd *hd)
{
    struct http2_conn *h2 = CONTAINER_OF(r, struct http2_conn, reader);
    bool is_message = hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_DATA;

    if (!is_message || hd->stream_id > h2->last_id || nghttp2_session_find_stream(h2->session, hd->stream_id))
        return NGHTTP2_NO_ERROR;
    return http2_past_judge(&h2->past, hd->stream_id);
}

size_t http2_conn_feed(struct http2_conn *h2, struct str bytes)
{
    uint32_t fault;
    size_t n;

    if (stream_pending(h2->stream) > HTTP_CONN_OUTPUT_BYTES) { /* a peer that does not read is not read either */
        stream_pause(h2->stream);
        return 0;
    }
    h2->is_in_data = true;
    n = http2_reader_feed(&h2->reader, h2->session, bytes, now_ms(h2), &fault);
    h2->is_in_data = false;
    if (fault)
        h2->fault = fault;
    http2_conn_flush(h2);
    if (h2->heading && !h2->is_over)
        http2_stream_wait_for_head(h2->heading);
    cancel_gone(h2);
    return n;
}

void http2_conn_on_drain(struct http2_conn *h2)
{
    http2_conn_flush(h2);
    cancel_gone(h2);
    if (h2->stream->is_paused && !h2->is_over)
        stream_resume(h2->stream);
}

/* ---- the server's side ---- */

static err begin(struct http2_conn *h2)
{
    const struct http_server_options *o = h2->srv->options;
    const struct http1_limits *limits = o->limits ? o->limits : &http1_limits_default;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->max_streams ? o->max_streams : HTTP2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->max_head_bytes},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };

    h2->session = http2_session_new(true, http2_events_callbacks(), h2);
    if (!h2->session || nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, HTTP2_CONN_WINDOW) != 0)
        return E_NOMEM;
    return E_OK;
}

static void on_drain_timer(struct timer *t)
{
    http2_conn_end_drain(CONTAINER_OF(t, struct http2_conn, drain_timer));
}

struct http2_conn *http2_conn_new(struct http_conn *c, struct http_server *srv, struct stream *stream)
{
    struct http2_conn *h2 = mem_alloc_zero(MEM_HTTP, sizeof *h2);

    h2->conn = c;
    h2->srv = srv;
    h2->stream = stream;
    h2->drain_timer.on_timer = on_drain_timer;
    h2->end_reason = HTTP_CLOSED_DONE;
    list_init(&h2->streams);
    list_init(&h2->gone);
    list_init(&h2->waiting);
    http2_reader_init(&h2->reader, now_ms(h2), preface.n);
    h2->reader.judge = judge;
    if (begin(h2) != E_OK) {
        nghttp2_session_del(h2->session);
        mem_free(MEM_HTTP, h2);
        return NULL;
    }
    metric_add(metrics_of(h2)->http2, 1);
    if (srv->is_draining)
        http2_conn_drain(h2);
    return h2;
}

void http2_conn_free(struct http2_conn *h2)
{
    if (!h2)
        return;
    h2->is_over = true; /* nothing is sent any more */
    while (!list_is_empty(&h2->waiting))
        list_remove(h2->waiting.next);
    while (!list_is_empty(&h2->streams))
        http2_stream_on_closed(CONTAINER_OF(h2->streams.next, struct http2_stream, link));
    cancel_gone(h2);
    wheel_stop(&h2->drain_timer);
    nghttp2_session_del(h2->session);
    mem_free(MEM_HTTP, h2);
}

void http2_conn_drain(struct http2_conn *h2)
{
    if (h2->drain != DRAIN_NOT || h2->is_over)
        return;
    h2->drain = DRAIN_NOTICE;
    if (nghttp2_submit_shutdown_notice(h2->session) != 0 ||
        nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, http2_conn_drain_mark) != 0) {
        http_conn_end(h2->conn, HTTP_CLOSED_DONE);
        return;
    }
    wheel_start(&h2->srv->loop->wheel, &h2->drain_timer, DRAIN_ROUND_TRIP_MS);
    http2_conn_flush(h2);
}

void http2_conn_end_drain(struct http2_conn *h2)
{
    if (h2->drain != DRAIN_NOTICE)
        return;
    h2->drain = DRAIN_LAST;
    wheel_stop(&h2->drain_timer);
    if (nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2->session),
                              NGHTTP2_NO_ERROR, NULL, 0) != 0)
        http_conn_end(h2->conn, HTTP_CLOSED_DONE);
    else
        http2_conn_flush(h2);
}
