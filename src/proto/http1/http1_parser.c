#include "proto/http1/http1_parser.h"

#include "base/check.h"
#include "proto/http1/http1_framing.h"
#include "proto/http1/http1_rules.h"

enum phase {
    PHASE_HEAD,
    PHASE_BODY_DUE, /* the head was handed out, the body was not begun */
    PHASE_LENGTH,
    PHASE_UNTIL_CLOSE,
    PHASE_CHUNKS,
    PHASE_TRAILERS,
    PHASE_END_DUE,
    PHASE_BAD,
};

enum trailer { TRAILER_START, TRAILER_NAME, TRAILER_VALUE, TRAILER_CR, TRAILER_LAST_CR };

/* How much of the input is copied before looking for the end of the head: most heads fit, and of what follows a short head
 * little is copied in vain. */
enum { COPY_BYTES = 1024 };

const struct http1_limits http1_limits_default = {
    .max_line_bytes = 8 << 10, .max_head_bytes = 16 << 10, .max_headers = 100, .max_body_bytes = 1 << 20};

/* What a callback of llhttp needs. */
struct pass {
    struct http1_parser *p;
    struct http1_head *head;
    size_t n_headers;
};

enum http1_step http1_framing_refuse(struct http1_parser *p, enum http1_refusal why)
{
    if (!p->refusal)
        p->refusal = (uint8_t)why;
    p->phase = PHASE_BAD;
    return HTTP1_BAD;
}

/* ---- llhttp's callbacks while it reads a head, which lies in one piece ---- */

static int on_header_name(llhttp_t *ll, const char *at, size_t n)
{
    struct pass *pass = ll->data;
    struct http_header *h = http1_head_reserve(pass->head, pass->n_headers);

    if (!h)
        pass->p->refusal = HTTP1_REFUSED_MEMORY;
    else if (n == 0) /* llhttp lets `: value` pass */
        pass->p->refusal = HTTP1_REFUSED_SYNTAX;
    if (pass->p->refusal)
        return -1;
    *h = (struct http_header){.name = {at, n}, .value = {at + n, 0}};
    pass->n_headers++;
    return 0;
}

static int on_header_value(llhttp_t *ll, const char *at, size_t n)
{
    struct pass *pass = ll->data;

    while (n && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    pass->head->headers[pass->n_headers - 1].value = (struct str){at, n};
    return 0;
}

static int on_headers_complete(llhttp_t *ll)
{
    (void)ll;
    return HPE_PAUSED;
}

/* ---- and while it reads chunks; it stops after each ---- */

static int on_chunk_header(llhttp_t *ll)
{
    struct http1_parser *p = ((struct pass *)ll->data)->p;

    if (ll->content_length == 0) { /* the trailers are ours */
        p->phase = PHASE_TRAILERS;
        return HPE_PAUSED;
    }
    if (ll->content_length > p->max_body_bytes - p->body_bytes) {
        p->refusal = HTTP1_REFUSED_BODY_TOO_LARGE;
        return -1;
    }
    p->body_bytes += ll->content_length;
    return 0;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
    ((struct pass *)ll->data)->p->piece = (struct str){at, n};
    return 0;
}

static int on_chunk_complete(llhttp_t *ll)
{
    (void)ll;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_header_name,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_chunk_complete = on_chunk_complete,
};

/* ---- the head ---- */

enum http1_refusal http1_framing_refusal(int llhttp_error)
{
    static const struct {
        int error;
        enum http1_refusal refusal;
    } rows[] = {
        {HPE_INVALID_METHOD, HTTP1_REFUSED_METHOD},
        {HPE_INVALID_VERSION, HTTP1_REFUSED_VERSION},
        {HPE_UNEXPECTED_CONTENT_LENGTH, HTTP1_REFUSED_LENGTH},
        {HPE_INVALID_CONTENT_LENGTH, HTTP1_REFUSED_LENGTH},
        {HPE_INVALID_TRANSFER_ENCODING, HTTP1_REFUSED_LENGTH},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].error == llhttp_error)
            return rows[i].refusal;
    return HTTP1_REFUSED_SYNTAX;
}

static enum http_method method_of(uint8_t llhttp_method)
{
    static const uint8_t methods[] = {
        [HTTP_GET] = HTTP_METHOD_GET,         [HTTP_HEAD] = HTTP_METHOD_HEAD,     [HTTP_POST] = HTTP_METHOD_POST,
        [HTTP_PUT] = HTTP_METHOD_PUT,         [HTTP_DELETE] = HTTP_METHOD_DELETE, [HTTP_PATCH] = HTTP_METHOD_PATCH,
        [HTTP_OPTIONS] = HTTP_METHOD_OPTIONS,
    };

    return llhttp_method < ARRAY_LEN(methods) ? methods[llhttp_method] : HTTP_METHOD_OTHER;
}

int http1_framing_execute(struct http1_parser *p, struct http1_head *head, llhttp_type_t type, size_t *out_n_headers)
{
    struct str text = buf_str(&head->text);
    struct pass pass = {.p = p, .head = head};
    int e;

    llhttp_init(&p->ll, type, &settings);
    p->ll.data = &pass;
    e = llhttp_execute(&p->ll, text.p, text.n);
    p->ll.data = NULL;
    *out_n_headers = pass.n_headers;
    return e;
}

void http1_framing_expect_body(struct http1_parser *p, bool is_chunked, bool is_until_close, uint64_t length)
{
    p->is_chunked = is_chunked;
    p->is_until_close = is_until_close;
    p->body_bytes = length;
    p->max_body_bytes = p->limits->max_body_bytes;
    p->phase = PHASE_BODY_DUE;
}

static enum http1_refusal parse_request(struct http1_parser *p, struct http1_head *head, void *message)
{
    struct http_request *r = message;
    enum http1_refusal refusal;
    int e;

    *r = (struct http_request){0};
    refusal = http1_rules_split_line((struct str){head->text.p + head->text.head, p->line_bytes - 2}, r);
    if (refusal)
        return refusal;
    e = http1_framing_execute(p, head, HTTP_REQUEST, &r->n_headers);
    if (e != HPE_PAUSED)
        return http1_framing_refusal(e);
    r->headers = head->headers;
    r->method = method_of(p->ll.method);
    r->is_kept_alive = llhttp_should_keep_alive(&p->ll);
    if (!http1_rules_split_target(r))
        return HTTP1_REFUSED_SYNTAX;
    refusal = http1_rules_check_headers(r, p->ll.content_length);
    if (!refusal && r->is_chunked && !(p->ll.flags & F_CHUNKED)) /* "chunked" with a tab behind: llhttp does not know it */
        refusal = HTTP1_REFUSED_LENGTH;
    if (!refusal)
        http1_framing_expect_body(p, r->is_chunked, false, r->content_length);
    return refusal;
}

/* The line rules, after the limits so that the result does not depend on how the input was split. `line` has its end. */
static enum http1_refusal check_line(struct http1_parser *p, struct str line)
{
    bool is_first = p->line_bytes == 0;

    if (is_first && line.n - 1 > p->limits->max_line_bytes + 1)
        return HTTP1_REFUSED_LINE_TOO_LONG;
    if (!is_first && p->scanned + line.n - p->line_bytes > p->limits->max_head_bytes)
        return HTTP1_REFUSED_HEAD_TOO_LARGE;
    if (line.n < 2 || memchr(line.p, '\r', line.n - 1) != line.p + line.n - 2)
        return HTTP1_REFUSED_LINE_ENDING;
    if (!is_first && (line.p[0] == ' ' || line.p[0] == '\t')) /* RFC 9112 section 5.2 */
        return HTTP1_REFUSED_LINE_ENDING;
    if (line.n > 2 && ++p->n_lines > p->limits->max_headers + 1)
        return HTTP1_REFUSED_HEAD_TOO_LARGE;
    return HTTP1_REFUSED_NOT;
}

/* As check_line(), of a line whose end has not come. */
static enum http1_refusal check_partial_line(const struct http1_parser *p, size_t n)
{
    if (p->line_bytes == 0)
        return n > p->limits->max_line_bytes + 1 ? HTTP1_REFUSED_LINE_TOO_LONG : HTTP1_REFUSED_NOT;
    return p->scanned + n - p->line_bytes >= p->limits->max_head_bytes ? HTTP1_REFUSED_HEAD_TOO_LARGE : HTTP1_REFUSED_NOT;
}

/* Goes on line by line. HTTP1_HEAD: the empty line was found, at p->scanned. */
static enum http1_step scan_lines(struct http1_parser *p, struct http1_head *head)
{
    for (;;) {
        struct str rest = str_from_offset(buf_str(&head->text), p->scanned);
        const char *end = rest.n ? memchr(rest.p, '\n', rest.n) : NULL;
        struct str line = {rest.p, end ? (size_t)(end - rest.p) + 1 : rest.n};
        enum http1_refusal refusal = end ? check_line(p, line) : check_partial_line(p, line.n);

        if (refusal)
            return http1_framing_refuse(p, refusal);
        if (!end)
            return HTTP1_MORE;
        if (p->line_bytes == 0 && line.n == 2) { /* RFC 9112 section 2.2: one empty line before the request is ignored */
            if (p->has_skipped_line)
                return http1_framing_refuse(p, HTTP1_REFUSED_SYNTAX);
            p->has_skipped_line = true;
            buf_consume(&head->text, line.n);
            continue;
        }
        p->scanned += (uint32_t)line.n;
        if (p->line_bytes == 0)
            p->line_bytes = (uint32_t)line.n;
        else if (line.n == 2)
            return HTTP1_HEAD;
    }
}

static enum http1_step parse_head(struct http1_parser *p, struct http1_head *head, void *message, http1_framing_parse parse)
{
    enum http1_refusal refusal = parse(p, head, message);

    return refusal ? http1_framing_refuse(p, refusal) : HTTP1_HEAD;
}

static enum http1_step read_head(struct http1_parser *p, struct http1_head *head, void *message, http1_framing_parse parse,
                                 struct str *in)
{
    while (in->n > 0) {
        struct str part = {in->p, in->n < COPY_BYTES ? in->n : COPY_BYTES};
        enum http1_step step;
        size_t extra;

        if (buf_append(&head->text, MEM_PROTO, part) != E_OK)
            return http1_framing_refuse(p, HTTP1_REFUSED_MEMORY);
        step = scan_lines(p, head);
        if (step == HTTP1_BAD)
            return step;
        p->is_inside = buf_size(&head->text) > 0;
        extra = step == HTTP1_HEAD ? buf_size(&head->text) - p->scanned : 0;
        head->text.tail -= (uint32_t)extra;
        *in = str_from_offset(*in, part.n - extra);
        if (step == HTTP1_HEAD)
            return parse_head(p, head, message, parse);
    }
    return HTTP1_MORE;
}

/* ---- the body ---- */

static enum http1_step begin_body(struct http1_parser *p)
{
    if (p->body_bytes > p->max_body_bytes)
        return http1_framing_refuse(p, HTTP1_REFUSED_BODY_TOO_LARGE);
    p->overhead = 0;
    if (p->is_chunked)
        p->phase = PHASE_CHUNKS;
    else if (p->is_until_close)
        p->phase = PHASE_UNTIL_CLOSE;
    else
        p->phase = p->body_bytes ? PHASE_LENGTH : PHASE_END_DUE;
    return HTTP1_MORE;
}

static enum http1_step read_until_close(struct http1_parser *p, struct str *in, struct str *out_body)
{
    if (in->n > p->max_body_bytes - p->body_bytes)
        return http1_framing_refuse(p, HTTP1_REFUSED_BODY_TOO_LARGE);
    p->body_bytes += in->n;
    *out_body = *in;
    *in = (struct str){0};
    return HTTP1_BODY;
}

static enum http1_step read_length(struct http1_parser *p, struct str *in, struct str *out_body)
{
    size_t n = in->n < p->body_bytes ? in->n : (size_t)p->body_bytes;

    *out_body = (struct str){in->p, n};
    *in = str_from_offset(*in, n);
    p->body_bytes -= n;
    if (p->body_bytes == 0)
        p->phase = PHASE_END_DUE;
    return HTTP1_BODY;
}

/* Up to the end of one chunk. HTTP1_MORE also when there was nothing but framing. */
static enum http1_step read_chunk(struct http1_parser *p, struct str *in, struct str *out_body)
{
    struct pass pass = {.p = p};
    size_t used = in->n;
    int e;

    p->piece = (struct str){0};
    p->ll.data = &pass;
    llhttp_resume(&p->ll);
    e = llhttp_execute(&p->ll, in->p, in->n);
    p->ll.data = NULL;
    if (e == HPE_PAUSED)
        used = (size_t)(llhttp_get_error_pos(&p->ll) - in->p);
    else if (e != HPE_OK)
        return http1_framing_refuse(p, HTTP1_REFUSED_CHUNK);
    *in = str_from_offset(*in, used);
    /* llhttp takes extensions of any length. */
    p->overhead += (uint32_t)(used - p->piece.n);
    if (p->overhead > p->limits->max_line_bytes)
        return http1_framing_refuse(p, HTTP1_REFUSED_CHUNK);
    if (e == HPE_PAUSED)
        p->overhead = 0;
    *out_body = p->piece;
    return p->piece.n ? HTTP1_BODY : HTTP1_MORE;
}

/* RFC 9112 section 7.1.2: fields that we read over; the rules for lines are those of the head. */
static bool step_trailer(struct http1_parser *p, unsigned char c)
{
    switch ((enum trailer)p->trailer) {
    case TRAILER_START:
        p->trailer = c == '\r' ? TRAILER_LAST_CR : TRAILER_NAME;
        return c == '\r' || http1_rules_is_token_char(c);
    case TRAILER_NAME:
        if (c == ':')
            p->trailer = TRAILER_VALUE;
        return c == ':' || http1_rules_is_token_char(c);
    case TRAILER_VALUE:
        if (c == '\r')
            p->trailer = TRAILER_CR;
        return c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f);
    case TRAILER_CR:
        p->trailer = TRAILER_START;
        return c == '\n';
    case TRAILER_LAST_CR:
        p->phase = PHASE_END_DUE;
        return c == '\n';
    }
    return false;
}

static enum http1_step read_trailers(struct http1_parser *p, struct str *in)
{
    size_t i = 0;

    while (i < in->n && p->phase == PHASE_TRAILERS) {
        if (!step_trailer(p, (unsigned char)in->p[i++]))
            return http1_framing_refuse(p, HTTP1_REFUSED_CHUNK);
        if (++p->overhead > p->limits->max_head_bytes)
            return http1_framing_refuse(p, HTTP1_REFUSED_HEAD_TOO_LARGE);
    }
    *in = str_from_offset(*in, i);
    return HTTP1_MORE;
}

/* ---- the parser ---- */

static enum http1_step end_request(struct http1_parser *p)
{
    const struct http1_limits *limits = p->limits;

    *p = (struct http1_parser){.limits = limits};
    return HTTP1_END;
}

void http1_parser_init(struct http1_parser *p, const struct http1_limits *limits)
{
    *p = (struct http1_parser){.limits = limits};
}

enum http1_step http1_framing_next(struct http1_parser *p, struct http1_head *head, void *message, http1_framing_parse parse,
                                   struct str *in, struct str *out_body)
{
    for (;;) {
        enum http1_step step = HTTP1_MORE;

        /* These two go on without input; all other phases wait for some. */
        if (p->phase == PHASE_END_DUE)
            return end_request(p);
        if (p->phase == PHASE_BODY_DUE) {
            if (begin_body(p) == HTTP1_BAD)
                return HTTP1_BAD;
            continue;
        }
        if (p->phase == PHASE_BAD)
            return HTTP1_BAD;
        if (in->n == 0)
            return HTTP1_MORE;
        switch ((enum phase)p->phase) {
        case PHASE_HEAD:
            step = read_head(p, head, message, parse, in);
            break;
        case PHASE_LENGTH:
            return read_length(p, in, out_body);
        case PHASE_UNTIL_CLOSE:
            return read_until_close(p, in, out_body);
        case PHASE_CHUNKS:
            step = read_chunk(p, in, out_body);
            break;
        default:
            step = read_trailers(p, in);
            break;
        }
        if (step != HTTP1_MORE)
            return step;
    }
}

bool http1_framing_is_until_close(const struct http1_parser *p)
{
    return p->phase == PHASE_UNTIL_CLOSE || (p->phase == PHASE_BODY_DUE && p->is_until_close);
}

enum http1_step http1_parser_next(struct http1_parser *p, struct http1_head *head, struct http_request *request, struct str *in,
                                  struct str *out_body)
{
    return http1_framing_next(p, head, request, parse_request, in, out_body);
}

bool http1_parser_is_inside(const struct http1_parser *p)
{
    return p->is_inside || p->phase != PHASE_HEAD;
}
