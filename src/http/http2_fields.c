#include "http/http2_fields.h"

#include "base/check.h"
#include "proto/http1/http1_rules.h"

/* RFC 9113 section 6.5.2: what a field counts besides its text. */
enum { FIELD_BYTES = 32, PSEUDO_FIELDS = 4, STATUS_MIN = 200, STATUS_MAX = 999 };

void http2_fields_add(struct http2_fields *f, const struct http1_limits *limits, struct str name, struct str value)
{
    struct http_header *header;

    if (f->refusal)
        return;
    f->list_bytes += (uint32_t)(name.n + value.n) + FIELD_BYTES;
    if (f->list_bytes > limits->max_head_bytes || f->n == limits->max_headers + PSEUDO_FIELDS) {
        f->refusal = HTTP1_REFUSED_HEAD_TOO_LARGE;
        return;
    }
    header = http1_head_reserve(f->head, f->n);
    if (!header || buf_append(&f->head->text, MEM_PROTO, name) != E_OK ||
        buf_append(&f->head->text, MEM_PROTO, value) != E_OK) {
        f->refusal = HTTP1_REFUSED_MEMORY;
        return;
    }
    *header = (struct http_header){{NULL, name.n}, {NULL, value.n}};
    f->n++;
    if (str_equal(name, STR("cookie"))) {
        f->n_cookies++;
        f->cookie_bytes += (uint32_t)value.n + 2;
    }
}

/* The text has stopped moving: names and values lie in it one behind the other. Returns how many pseudo-headers come first. */
static size_t settle(struct http2_fields *f)
{
    const char *at = buf_str(&f->head->text).p;
    size_t n_pseudo = 0;

    ASSERT(at || f->n == 0);
    for (size_t i = 0; i < f->n; i++) {
        struct http_header *h = &f->head->headers[i];

        h->name.p = at;
        h->value.p = at + h->name.n;
        at = h->value.p + h->value.n;
        if (h->name.p[0] == ':')
            n_pseudo = i + 1;
    }
    return n_pseudo;
}

static bool is_cookie(const struct http_header *h)
{
    return str_equal(h->name, STR("cookie"));
}

/* RFC 9113 section 8.2.3: a cookie may come in pieces, which handlers know as one field. Joins them where the first one was; the text
 * has room for it. Returns how many fields are left behind the pseudo-headers. */
static size_t join_cookie(struct http2_fields *f, size_t n_pseudo)
{
    struct http_header *headers = f->head->headers + n_pseudo, *cookie = NULL;
    struct buf *text = &f->head->text;
    char *joined = text->p + text->tail;
    size_t n = 0, bytes = 0;

    for (size_t i = 0; i < f->n - n_pseudo; i++) {
        struct str piece = headers[i].value;

        if (!is_cookie(&headers[i])) {
            headers[n++] = headers[i];
            continue;
        }
        if (cookie) {
            joined[bytes++] = ';';
            joined[bytes++] = ' ';
        } else {
            cookie = &headers[n];
            headers[n++] = headers[i];
        }
        if (piece.n)
            memcpy(joined + bytes, piece.p, piece.n);
        bytes += piece.n;
    }
    ASSERT(cookie);
    cookie->value = (struct str){joined, bytes};
    buf_commit(text, bytes);
    return n;
}

static struct str find_pseudo(const struct http2_fields *f, size_t n_pseudo, struct str name)
{
    for (size_t i = 0; i < n_pseudo; i++)
        if (str_equal(f->head->headers[i].name, name))
            return f->head->headers[i].value;
    return (struct str){0};
}

static enum http_method method_of(struct str name)
{
    for (int m = HTTP_METHOD_OTHER + 1; m < HTTP_METHODS; m++)
        if (str_equal(name, str_from(http_message_method_name((enum http_method)m))))
            return (enum http_method)m;
    return HTTP_METHOD_OTHER;
}

/* RFC 9113 section 8.3.1: Host and :authority mean the same, so they must say the same; user information has no place in either. */
static bool read_authority(struct http_request *r, struct str authority)
{
    struct str host = http_message_header(r, STR("host"));

    if (authority.n && host.p && !str_equal_nocase(authority, host))
        return false;
    r->authority = authority.n ? authority : host;
    return r->authority.n && http1_rules_is_authority(r->authority);
}

static enum http1_refusal read_expectation(struct http_request *r, bool has_body)
{
    struct str expect = http_message_header(r, STR("expect"));

    if (expect.p && !str_equal_nocase(expect, STR("100-continue")))
        return HTTP1_REFUSED_EXPECTATION;
    r->expects_continue = expect.p && has_body;
    return HTTP1_REFUSED_NOT;
}

enum http1_refusal http2_fields_read_request(struct http2_fields *f, const struct http1_limits *limits, bool has_body,
                                             struct http_request *request)
{
    struct http_request *r = request;
    struct str scheme, length;
    size_t n_pseudo;

    if (f->n_cookies > 1 && !buf_reserve(&f->head->text, MEM_PROTO, f->cookie_bytes))
        f->refusal = HTTP1_REFUSED_MEMORY;
    n_pseudo = settle(f);
    scheme = find_pseudo(f, n_pseudo, STR(":scheme"));
    *r = (struct http_request){.is_kept_alive = true};
    r->method_name = find_pseudo(f, n_pseudo, STR(":method"));
    r->method = method_of(r->method_name);
    r->target = find_pseudo(f, n_pseudo, STR(":path"));
    r->headers = f->head->headers + n_pseudo;
    r->n_headers = f->n - n_pseudo;
    if (f->refusal)
        return f->refusal;
    if (f->n_cookies > 1)
        r->n_headers = join_cookie(f, n_pseudo);
    if (str_equal(r->method_name, STR("CONNECT")))
        return HTTP1_REFUSED_METHOD;
    if (r->target.n > limits->max_line_bytes)
        return HTTP1_REFUSED_LINE_TOO_LONG;
    if (!str_equal(scheme, STR("http")) && !str_equal(scheme, STR("https")))
        return HTTP1_REFUSED_SYNTAX;
    /* The path alone: an absolute URL would name a second authority. */
    if (r->target.n == 0 || (r->target.p[0] != '/' && r->target.p[0] != '*') || !http1_rules_split_target(r))
        return HTTP1_REFUSED_SYNTAX;
    if (!read_authority(r, find_pseudo(f, n_pseudo, STR(":authority"))))
        return HTTP1_REFUSED_HOST;
    length = http_message_header(r, STR("content-length"));
    if (length.p && !str_to_u64(length, UINT64_MAX, &r->content_length))
        return HTTP1_REFUSED_LENGTH;
    return read_expectation(r, has_body);
}

bool http2_fields_read_response(struct http2_fields *f, struct http1_response_head *response)
{
    size_t n_pseudo = settle(f);
    struct http1_response_head r = {
        .headers = f->head->headers + n_pseudo, .n_headers = f->n - n_pseudo, .is_kept_alive = true};
    uint64_t status;
    struct str length;

    if (!str_to_u64(find_pseudo(f, n_pseudo, STR(":status")), STATUS_MAX, &status) || status < STATUS_MIN)
        return false;
    r.status = (uint16_t)status;
    length = http1_response_header(&r, STR("content-length"));
    r.has_content_length = length.p && str_to_u64(length, UINT64_MAX, &r.content_length);
    *response = r;
    return true;
}

/* ---- fields going out ---- */

void http2_fields_put(struct http2_fields_out *out, struct str name, struct str value)
{
    bool is_pseudo = name.n > 1 && name.p[0] == ':';
    nghttp2_nv nv;

    value = str_trim(value);
    if (out->n == HTTP2_FIELDS_OUT_MAX || !http1_rules_is_token(is_pseudo ? str_from_offset(name, 1) : name) ||
        !nghttp2_check_header_value((const uint8_t *)value.p, value.n)) {
        out->is_bad = true;
        return;
    }
    /* nghttp2 copies both, and makes the name's letters small (RFC 9113 section 8.2); it has no const. */
    memcpy(&nv.name, &name.p, sizeof nv.name);
    memcpy(&nv.value, &value.p, sizeof nv.value);
    nv.namelen = name.n;
    nv.valuelen = value.n;
    nv.flags = NGHTTP2_NV_FLAG_NONE;
    out->items[out->n++] = nv;
}

static struct str put_digits(char *to, size_t size, uint64_t number)
{
    size_t at = size;

    do
        to[--at] = (char)('0' + number % 10);
    while (number /= 10);
    return (struct str){to + at, size - at};
}

void http2_fields_put_status(struct http2_fields_out *out, uint16_t status)
{
    ASSERT(status >= 100 && status <= 599);
    http2_fields_put(out, STR(":status"), put_digits(out->status, sizeof out->status, status));
}

void http2_fields_put_length(struct http2_fields_out *out, uint64_t length)
{
    http2_fields_put(out, STR("content-length"), put_digits(out->length, sizeof out->length, length));
}
