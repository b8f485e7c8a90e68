#include "command/command_link_frame.h"

#include "base/check.h"
#include "command/command_port.h"

/* A text's length has two bytes, that of something from a record four; NOTHING stands for a null. */
enum { LENGTH_BYTES = 4, HEAD_BYTES = LENGTH_BYTES + 1, SHORT_MAX = UINT16_MAX, DATA_MAX = COMMAND_LINK_FRAME_MAX_BYTES };
static const uint32_t NOTHING = UINT32_MAX;
static const uint32_t MAGIC = 0x4d524c4b; /* MRLK */

/* --- reading --- */

/* The fields that are left; `is_bad` once there were too few bytes, or some that make no sense. */
struct reader {
    struct str rest;
    struct record_header *headers;
    bool is_bad;
};

static struct str take(struct reader *r, size_t n)
{
    struct str taken = {r->rest.p, n};

    if (r->is_bad || n > r->rest.n) {
        r->is_bad = true;
        return (struct str){0};
    }
    r->rest = (struct str){r->rest.p + n, r->rest.n - n};
    return taken;
}

static uint64_t take_number(struct reader *r, size_t n_bytes)
{
    struct str bytes = take(r, n_bytes);
    uint64_t number = 0;

    for (size_t i = 0; i < bytes.n; i++)
        number = number << 8 | (unsigned char)bytes.p[i];
    return number;
}

static struct str take_text(struct reader *r)
{
    return take(r, take_number(r, 2));
}

static struct str take_data(struct reader *r)
{
    uint64_t n = take_number(r, 4);

    return n == NOTHING ? (struct str){0} : take(r, n);
}

static void read_hello(struct reader *r, struct command_link_frame *f)
{
    struct command_link_hello *hello = &f->hello;

    if (take_number(r, 4) != MAGIC)
        r->is_bad = true;
    hello->version = (unsigned)take_number(r, 1);
    if (hello->version != COMMAND_LINK_VERSION) {
        r->rest.n = 0; /* what follows may be anything */
        return;
    }
    hello->channel = take_number(r, 8);
    hello->first = take_number(r, 8);
    hello->incarnation = take_number(r, 8);
    hello->worker = (unsigned)take_number(r, 2);
    hello->from = take_text(r);
    hello->to = take_text(r);
    if (hello->first == 0 || hello->from.n == 0 || hello->from.n > COMMAND_LINK_INSTANCE_BYTES)
        r->is_bad = true;
}

static void read_refusal(struct reader *r, struct command_link_frame *f)
{
    f->refusal = (unsigned)take_number(r, 1);
}

static void read_number(struct reader *r, struct command_link_frame *f)
{
    f->number = take_number(r, 8);
}

static void read_ticket(struct reader *r, struct command_ticket *ticket)
{
    ticket->tenant = take_text(r);
    ticket->partition = (int32_t)take_number(r, 4);
    ticket->offset = (int64_t)take_number(r, 8);
}

static void read_headers(struct reader *r, struct command_request *request)
{
    request->n_headers = take_number(r, 2);
    request->headers = r->headers;
    if (request->n_headers > COMMAND_LINK_HEADERS_MAX)
        r->is_bad = true;
    for (size_t i = 0; i < request->n_headers && !r->is_bad; i++) {
        r->headers[i].name = take_text(r);
        r->headers[i].value = take_data(r);
    }
}

static void read_request(struct reader *r, struct command_link_frame *f)
{
    struct command_request *request = &f->request;

    *request = (struct command_request){0};
    f->number = take_number(r, 8);
    read_ticket(r, &request->ticket);
    request->from.incarnation = take_number(r, 8);
    request->to.incarnation = take_number(r, 8);
    request->after = take_number(r, 8);
    request->epoch = take_number(r, 8);
    request->timestamp_ms = (int64_t)take_number(r, 8);
    request->gateway = take_text(r);
    request->key = take_data(r);
    request->value = take_data(r);
    read_headers(r, request);
}

static void read_result(struct reader *r, struct command_link_frame *f)
{
    struct command_result_message *result = &f->result;

    *result = (struct command_result_message){0};
    f->number = take_number(r, 8);
    read_ticket(r, &result->ticket);
    result->from.incarnation = take_number(r, 8);
    result->to.incarnation = take_number(r, 8);
    result->result = (int)take_number(r, 1);
    result->status = (int)take_number(r, 2);
    result->text = take_text(r);
    if (result->result > COMMAND_FAILED)
        r->is_bad = true;
}

static void read_nothing(struct reader *r, struct command_link_frame *f)
{
    (void)r;
    (void)f;
}

static void (*const readers[COMMAND_LINK_KINDS])(struct reader *r, struct command_link_frame *f) = {
    [COMMAND_LINK_HELLO] = read_hello,     [COMMAND_LINK_WELCOME] = read_number, [COMMAND_LINK_REFUSAL] = read_refusal,
    [COMMAND_LINK_REQUEST] = read_request, [COMMAND_LINK_RESULT] = read_result,  [COMMAND_LINK_PING] = read_nothing,
    [COMMAND_LINK_ACK] = read_number,
};

/* A length that cannot be is seen before the rest is waited for. */
err command_link_frame_read(struct str bytes, size_t max, struct record_header *headers, struct command_link_frame *out_frame,
                            size_t *out_n)
{
    struct reader r = {.rest = bytes, .headers = headers};
    uint64_t n, kind;

    if (bytes.n < LENGTH_BYTES)
        return E_AGAIN;
    n = take_number(&r, LENGTH_BYTES);
    if (n == 0)
        return E_PROTO;
    if (n > max - LENGTH_BYTES)
        return E_LIMIT;
    if (r.rest.n < n)
        return E_AGAIN;
    r.rest.n = n;
    kind = take_number(&r, 1);
    if (kind >= COMMAND_LINK_KINDS || !readers[kind])
        return E_PROTO;
    *out_frame = (struct command_link_frame){.kind = (enum command_link_kind)kind};
    readers[kind](&r, out_frame);
    if (r.is_bad || r.rest.n)
        return E_PROTO;
    *out_n = LENGTH_BYTES + n;
    return E_OK;
}

size_t command_link_frame_bytes(struct str frame)
{
    struct reader r = {.rest = frame};

    return LENGTH_BYTES + take_number(&r, LENGTH_BYTES);
}

/* --- writing --- */

/* Twice over the fields of a frame: without `p` only their bytes are counted. */
struct writer {
    char *p;
    size_t n;
    bool is_too_large;
};

static void put(struct writer *w, struct str bytes)
{
    if (w->p && bytes.n)
        memcpy(w->p + w->n, bytes.p, bytes.n);
    w->n += bytes.n;
}

static void put_number(struct writer *w, uint64_t number, size_t n_bytes)
{
    char bytes[8];

    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (char)(unsigned char)(number >> 8 * (n_bytes - 1 - i));
    put(w, (struct str){bytes, n_bytes});
}

static void put_text(struct writer *w, struct str text)
{
    if (text.n > SHORT_MAX)
        w->is_too_large = true;
    put_number(w, text.n, 2);
    put(w, text);
}

static void put_data(struct writer *w, struct str data)
{
    if (data.n > DATA_MAX)
        w->is_too_large = true;
    put_number(w, data.p ? data.n : NOTHING, 4);
    put(w, data);
}

static void put_hello(struct writer *w, uint64_t number, const void *what)
{
    const struct command_link_hello *hello = what;

    (void)number;
    put_number(w, MAGIC, 4);
    put_number(w, hello->version, 1);
    put_number(w, hello->channel, 8);
    put_number(w, hello->first, 8);
    put_number(w, hello->incarnation, 8);
    put_number(w, hello->worker, 2);
    put_text(w, hello->from);
    put_text(w, hello->to);
}

static void put_only_number(struct writer *w, uint64_t number, const void *what)
{
    (void)what;
    put_number(w, number, 8);
}

static void put_refusal(struct writer *w, uint64_t number, const void *what)
{
    (void)what;
    put_number(w, number, 1);
}

static void put_nothing(struct writer *w, uint64_t number, const void *what)
{
    (void)w;
    (void)number;
    (void)what;
}

static void put_ticket(struct writer *w, const struct command_ticket *ticket)
{
    put_text(w, ticket->tenant);
    put_number(w, (uint32_t)ticket->partition, 4);
    put_number(w, (uint64_t)ticket->offset, 8);
}

static void put_request(struct writer *w, uint64_t number, const void *what)
{
    const struct command_request *request = what;

    put_number(w, number, 8);
    put_ticket(w, &request->ticket);
    put_number(w, request->from.incarnation, 8);
    put_number(w, request->to.incarnation, 8);
    put_number(w, request->after, 8);
    put_number(w, request->epoch, 8);
    put_number(w, (uint64_t)request->timestamp_ms, 8);
    put_text(w, request->gateway);
    put_data(w, request->key);
    put_data(w, request->value);
    if (request->n_headers > COMMAND_LINK_HEADERS_MAX)
        w->is_too_large = true;
    put_number(w, request->n_headers, 2);
    for (size_t i = 0; i < request->n_headers && !w->is_too_large; i++) {
        put_text(w, request->headers[i].name);
        put_data(w, request->headers[i].value);
    }
}

static void put_result(struct writer *w, uint64_t number, const void *what)
{
    const struct command_result_message *result = what;

    put_number(w, number, 8);
    put_ticket(w, &result->ticket);
    put_number(w, result->from.incarnation, 8);
    put_number(w, result->to.incarnation, 8);
    put_number(w, (uint64_t)result->result, 1);
    put_number(w, (uint64_t)result->status, 2);
    put_text(w, result->text);
}

static err write_frame(struct buf *to, enum command_link_kind kind, uint64_t number, const void *what,
                       void (*fields)(struct writer *w, uint64_t number, const void *what))
{
    struct writer w = {.n = HEAD_BYTES};
    size_t n;

    fields(&w, number, what);
    n = w.n;
    if (w.is_too_large || n > COMMAND_LINK_FRAME_MAX_BYTES)
        return E_LIMIT;
    w = (struct writer){.p = buf_reserve(to, MEM_COMMAND, n)};
    if (!w.p)
        return E_NOMEM;
    put_number(&w, n - LENGTH_BYTES, LENGTH_BYTES);
    put_number(&w, kind, 1);
    fields(&w, number, what);
    ASSERT(w.n == n);
    buf_commit(to, n);
    return E_OK;
}

err command_link_frame_write_hello(struct buf *to, const struct command_link_hello *hello)
{
    return write_frame(to, COMMAND_LINK_HELLO, 0, hello, put_hello);
}

err command_link_frame_write_welcome(struct buf *to, uint64_t received)
{
    return write_frame(to, COMMAND_LINK_WELCOME, received, NULL, put_only_number);
}

err command_link_frame_write_refusal(struct buf *to, enum command_link_refusal why)
{
    return write_frame(to, COMMAND_LINK_REFUSAL, why, NULL, put_refusal);
}

err command_link_frame_write_request(struct buf *to, uint64_t number, const struct command_request *request)
{
    return write_frame(to, COMMAND_LINK_REQUEST, number, request, put_request);
}

err command_link_frame_write_result(struct buf *to, uint64_t number, const struct command_result_message *result)
{
    return write_frame(to, COMMAND_LINK_RESULT, number, result, put_result);
}

err command_link_frame_write_ping(struct buf *to)
{
    return write_frame(to, COMMAND_LINK_PING, 0, NULL, put_nothing);
}

err command_link_frame_write_ack(struct buf *to, uint64_t received)
{
    return write_frame(to, COMMAND_LINK_ACK, received, NULL, put_only_number);
}

const char *command_link_frame_refusal_name(unsigned refusal)
{
    static const char *const names[COMMAND_LINK_REFUSALS] = {
        [COMMAND_LINK_REFUSED_VERSION] = "version",
        [COMMAND_LINK_REFUSED_NAME] = "name",
        [COMMAND_LINK_REFUSED_STRANGER] = "stranger",
        [COMMAND_LINK_REFUSED_BUSY] = "busy",
    };

    return refusal < COMMAND_LINK_REFUSALS && names[refusal] ? names[refusal] : "unknown";
}
