#include "http/http2_session.h"

#include "base/mem.h"

static void *allocate(size_t n, void *user)
{
    (void)user;
    return mem_try_alloc(MEM_HTTP, n);
}

static void *allocate_zeroed(size_t n, size_t size, void *user)
{
    size_t bytes;
    void *p;

    (void)user;
    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    p = mem_try_alloc(MEM_HTTP, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

static void *reallocate(void *p, size_t n, void *user)
{
    (void)user;
    return mem_try_realloc(MEM_HTTP, p, n);
}

static void release(void *p, void *user)
{
    (void)user;
    mem_free(MEM_HTTP, p);
}

static nghttp2_session *create(bool is_server, const nghttp2_session_callbacks *callbacks, const nghttp2_option *option,
                               void *user)
{
    nghttp2_mem mem = {.malloc = allocate, .free = release, .calloc = allocate_zeroed, .realloc = reallocate};
    nghttp2_session *session;
    int e = is_server ? nghttp2_session_server_new3(&session, callbacks, user, option, &mem)
                      : nghttp2_session_client_new3(&session, callbacks, user, option, &mem);

    return e == 0 ? session : NULL;
}

nghttp2_session *http2_session_new(bool is_server, const struct http2_session_callbacks *callbacks, void *user)
{
    const struct http2_session_callbacks *c = callbacks;
    nghttp2_session_callbacks *list = NULL;
    nghttp2_session *session = NULL;
    nghttp2_option *option = NULL;

    if (nghttp2_session_callbacks_new(&list) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(list, c->on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(list, c->on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(list, c->on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(list, c->on_frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(list, c->on_data_chunk);
        nghttp2_session_callbacks_set_on_frame_send_callback(list, c->on_frame_send);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(list, c->on_frame_not_send);
        nghttp2_session_callbacks_set_on_stream_close_callback(list, c->on_stream_close);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_server_fallback_rfc7540_priorities(option, 1); /* reads their frames at all */
        session = create(is_server, list, option, user);
    }
    nghttp2_session_callbacks_del(list);
    nghttp2_option_del(option);
    return session;
}

err http2_session_send(nghttp2_session *session, struct stream *s, size_t limit_bytes)
{
    while (stream_pending(s) < limit_bytes) {
        const uint8_t *frame;
        ssize_t n = nghttp2_session_mem_send(session, &frame);
        err e;

        if (n == 0)
            return E_OK;
        if (n < 0)
            return n == NGHTTP2_ERR_NOMEM ? E_NOMEM : E_IO;
        e = stream_write(s, (struct str){(const char *)frame, (size_t)n});
        if (e != E_OK)
            return e;
    }
    return E_OK;
}
