#include "http/http2_client_stream.h"

#include "base/check.h"

enum { INTERIM_MAX = 10 };

static const struct http1_limits *limits_of(const struct http2_client_conn *c)
{
    const struct http1_limits *limits = c->endpoint->client->options->limits;

    return limits ? limits : &http1_limits_default;
}

/* ---- results ---- */

static void end(struct http2_client_stream *st, err result, enum http_client_failure failure)
{
    if (st->is_over || !st->call)
        return;
    st->is_over = true;
    st->result = (uint8_t)result;
    st->failure = (uint8_t)failure;
    st->unsent = (struct str){0};
    list_push(&st->conn->done, &st->done);
}

static void reset(struct http2_client_stream *st, uint32_t error_code)
{
    /* It fails without memory only; the next output then fails as well and ends the connection. */
    (void)nghttp2_submit_rst_stream(st->conn->session, NGHTTP2_FLAG_NONE, st->id, error_code);
}

static void give_up(struct http2_client_stream *st, err result, enum http_client_failure failure, uint32_t error_code)
{
    end(st, result, failure);
    reset(st, error_code);
}

void http2_client_stream_free(struct http2_client_stream *st)
{
    list_remove(&st->link);
    list_remove(&st->done);
    http1_head_free(&st->head);
    buf_free(&st->body, MEM_HTTP);
    mem_free(MEM_HTTP, st);
}

void http2_client_stream_retry(struct http_call *call)
{
    call->is_retried = true;
    metric_add(http_client_metrics_of(call->endpoint)->retries, 1);
    http_client_wait_first(call);
}

void http2_client_stream_tell(struct http2_client_stream *st)
{
    struct http_call *call = st->call;
    bool is_good = st->result == E_OK;

    st->call = NULL;
    st->is_telling = true; /* what on_done asks for may close the stream */
    if (st->result == E_AGAIN)
        http2_client_stream_retry(call);
    else
        http_client_finish(call, (err)st->result, (enum http_client_failure)st->failure, is_good ? &st->response : NULL,
                           is_good ? buf_str(&st->body) : (struct str){0});
    st->is_telling = false;
    buf_free(&st->body, MEM_HTTP);
    if (st->is_closed)
        http2_client_stream_free(st);
}

void http2_client_stream_abandon(struct http2_client_stream *st)
{
    st->call->stream = NULL;
    st->call = NULL;
    st->unsent = (struct str){0};
    list_remove(&st->done);
    if (st->is_closed)
        http2_client_stream_free(st);
    else if (!st->conn->is_leaving)
        reset(st, NGHTTP2_CANCEL);
}

void http2_client_stream_cancel_all(struct http2_client_conn *c)
{
    struct list all, *link;

    list_init(&all);
    list_move(&all, &c->streams);
    while ((link = list_pop(&all))) { /* on_done may give up any other call */
        struct http2_client_stream *st = CONTAINER_OF(link, struct http2_client_stream, link);
        struct http_call *call = st->call;

        list_push(&c->streams, link);
        list_remove(&st->done);
        st->call = NULL;
        if (call)
            http_client_finish(call, E_CLOSED, HTTP_CLIENT_FAILED_CANCELLED, NULL, (struct str){0});
    }
}

/* ---- the request ---- */

static ssize_t read_unsent(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                           nghttp2_data_source *source, void *user)
{
    struct http2_client_stream *st = source->ptr;
    size_t n = st->unsent.n < size ? st->unsent.n : size;

    (void)session;
    (void)id;
    (void)user;
    if (st->is_over || !st->call) /* the body is not ours any more, and the stream's reset is on its way */
        return NGHTTP2_ERR_DEFERRED;
    memcpy(to, st->unsent.p, n);
    st->unsent = str_from_offset(st->unsent, n);
    if (st->unsent.n == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* The line without its end, and the rest behind it. */
static struct str take_line(struct str *rest)
{
    bool found;
    struct str line = str_take(rest, '\n', &found);

    line.n -= line.n > 0; /* CR */
    return line;
}

/* The head as http1_encoder.h has written it, whose checks it has passed: request line, Host, then the other fields. */
static void put_head(struct http2_fields_out *out, struct str head, bool is_https)
{
    bool found;
    struct str line = take_line(&head), host = take_line(&head), method = str_take(&line, ' ', &found);

    http2_fields_begin(out);
    http2_fields_put(out, STR(":method"), method);
    http2_fields_put(out, STR(":scheme"), is_https ? STR("https") : STR("http"));
    http2_fields_put(out, STR(":authority"), str_from_offset(host, STR("Host: ").n));
    http2_fields_put(out, STR(":path"), str_take(&line, ' ', &found));
    while ((line = take_line(&head)).n) {
        struct str name = str_take(&line, ':', &found);

        http2_fields_put(out, name, line);
    }
}

static int32_t submit(struct http2_client_stream *st)
{
    nghttp2_data_provider provider = {.source.ptr = st, .read_callback = read_unsent};
    struct http2_fields_out out;

    put_head(&out, buf_str(&st->call->head), st->conn->endpoint->is_https);
    if (out.is_bad) {
        end(st, E_LIMIT, HTTP_CLIENT_FAILED_SIZE);
        return -1;
    }
    return nghttp2_submit_request(st->conn->session, NULL, out.items, out.n, st->unsent.n ? &provider : NULL, st);
}

void http2_client_stream_new(struct http2_client_conn *c, struct http_call *call)
{
    struct http2_client_stream *st = mem_alloc_zero(MEM_HTTP, sizeof *st);

    st->conn = c;
    st->call = call;
    st->unsent = call->payload;
    st->fields.head = &st->head;
    st->n_reads = c->n_reads;
    st->max_body_bytes = call->max_response_bytes ? call->max_response_bytes : limits_of(c)->max_body_bytes;
    call->stream = st;
    list_push(&c->streams, &st->link);
    st->id = submit(st);
    if (st->id > 0) {
        c->n_streams++;
        return;
    }
    st->is_closed = true; /* nghttp2 has never known it */
    end(st, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY);
}

/* ---- the response ---- */

static struct http2_client_stream *find(nghttp2_session *session, int32_t id)
{
    return id ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    struct http2_client_stream *st = find(session, frame->hd.stream_id);

    (void)flags;
    if (st && !st->has_head) /* trailers are read over */
        http2_fields_add(&st->fields, limits_of(user), (struct str){(const char *)name, name_bytes},
                         (struct str){(const char *)value, value_bytes});
    return 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                             const uint8_t *value, size_t value_bytes, uint8_t flags, void *user)
{
    struct http2_client_stream *st = find(session, frame->hd.stream_id);

    (void)name;
    (void)name_bytes;
    (void)value;
    (void)value_bytes;
    (void)flags;
    (void)user;
    if (st && !st->is_over)
        give_up(st, E_PROTO, HTTP_CLIENT_FAILED_RESPONSE, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

static void on_interim(struct http2_client_stream *st)
{
    http1_head_clear(&st->head);
    st->fields = (struct http2_fields){.head = &st->head};
    if (++st->n_interim > INTERIM_MAX)
        give_up(st, E_PROTO, HTTP_CLIENT_FAILED_RESPONSE, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void on_head(struct http2_client_stream *st)
{
    st->has_bytes = true;
    if (st->fields.refusal == HTTP1_REFUSED_MEMORY)
        give_up(st, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY, NGHTTP2_CANCEL);
    else if (st->fields.refusal)
        give_up(st, E_LIMIT, HTTP_CLIENT_FAILED_SIZE, NGHTTP2_CANCEL);
    else if (!http2_fields_read_response(&st->fields, &st->response))
        on_interim(st);
    else
        st->has_head = true;
    if (st->has_head && st->call && st->call->method != HTTP_METHOD_HEAD && st->response.content_length > st->max_body_bytes)
        give_up(st, E_LIMIT, HTTP_CLIENT_FAILED_SIZE, NGHTTP2_CANCEL);
}

/* A server may answer before it has read the whole request: the rest is of no use. */
static void on_end(struct http2_client_stream *st)
{
    bool is_sent = st->unsent.n == 0;

    st->conn->has_served = true;
    end(st, E_OK, 0);
    if (!is_sent)
        reset(st, NGHTTP2_CANCEL);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_client_stream *st = find(session, frame->hd.stream_id);
    bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;

    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        http2_client_conn_trust(user);
    if (!st)
        return 0;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        st->is_reset = true;
    if (st->is_over)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !st->has_head)
        on_head(st);
    if (is_message && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && st->has_head)
        on_end(st);
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *user)
{
    struct http2_client_stream *st = find(session, id);

    (void)flags;
    (void)user;
    if (st && st->call && !st->is_over) {
        if (n > st->max_body_bytes - buf_size(&st->body))
            give_up(st, E_LIMIT, HTTP_CLIENT_FAILED_SIZE, NGHTTP2_CANCEL);
        else if (buf_append(&st->body, MEM_HTTP, (struct str){(const char *)data, n}) != E_OK)
            give_up(st, E_NOMEM, HTTP_CLIENT_FAILED_MEMORY, NGHTTP2_CANCEL);
    }
    return nghttp2_session_consume(session, id, n);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_client_conn *c = user;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        c->has_fault = true;
    if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
        http2_flood_give(&c->reader.flood);
    return 0;
}

/* Without a response: REFUSED_STREAM is also what nghttp2 says of streams that a GOAWAY leaves out. */
static void end_closed(struct http2_client_stream *st, uint32_t error_code)
{
    if (st->is_over || !st->call)
        return;
    if (error_code == NGHTTP2_REFUSED_STREAM && !st->call->is_retried)
        end(st, E_AGAIN, 0);
    else if (st->is_reset || error_code == NGHTTP2_NO_ERROR || error_code == NGHTTP2_REFUSED_STREAM)
        end(st, E_CLOSED, HTTP_CLIENT_FAILED_CLOSED);
    else
        end(st, E_PROTO, HTTP_CLIENT_FAILED_RESPONSE);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
    struct http2_client_stream *st = find(session, id);
    struct http2_client_conn *c = user;

    if (!st)
        return 0;
    c->n_streams--;
    st->is_closed = true;
    end_closed(st, error_code);
    if (!st->call && !st->is_telling)
        http2_client_stream_free(st);
    return 0;
}

const struct http2_session_callbacks *http2_client_stream_callbacks(void)
{
    static const struct http2_session_callbacks callbacks = {
        .on_header = on_header,
        .on_invalid_header = on_invalid_header,
        .on_frame_recv = on_frame_recv,
        .on_data_chunk = on_data_chunk,
        .on_frame_send = on_frame_send,
        .on_stream_close = on_stream_close,
    };

    return &callbacks;
}
