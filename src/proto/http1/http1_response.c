#include "proto/http1/http1_response.h"

#include "base/check.h"
#include "proto/http1/http1_framing.h"

/* A server that sends interim responses without end is no server. */
enum { INTERIM_MAX = 8, SWITCHING_PROTOCOLS = 101, NO_CONTENT = 204, NOT_MODIFIED = 304, FINAL_MIN = 200 };

/* What every status line begins with, as far as it is the same for both versions (RFC 9112 section 2.3). */
static const struct str beginning = STR_INIT("HTTP/1.");
enum { VERSION_AT = 5 };

/* The first bytes of a head, as they come: who speaks something else may never end a line. Looked at before anything else, so that the
 * result does not depend on how the input was split. */
static enum http1_refusal check_beginning(const struct http1_response *r, const struct http1_head *head, struct str in)
{
    size_t at = buf_size(&head->text);

    if (r->parser.line_bytes) /* the first line was good */
        return HTTP1_REFUSED_NOT;
    for (size_t i = 0; i < in.n && at < beginning.n; i++, at++)
        if (in.p[i] != beginning.p[at])
            return at < VERSION_AT ? HTTP1_REFUSED_SYNTAX : HTTP1_REFUSED_VERSION;
    return HTTP1_REFUSED_NOT;
}

/* RFC 9112 section 4: version, three digits, and a reason, which may be empty; the space before it may then be missing. */
static enum http1_refusal split_status_line(struct str line, struct http1_response_head *out)
{
    struct str rest = str_from_offset(line, 8);
    uint64_t status;

    if (!str_starts_with(line, STR("HTTP/1.0 ")) && !str_starts_with(line, STR("HTTP/1.1 ")))
        return HTTP1_REFUSED_VERSION;
    out->minor_version = (uint8_t)(line.p[7] - '0');
    if (rest.n < 4 || !str_to_u64((struct str){rest.p + 1, 3}, 999, &status) || status < 100)
        return HTTP1_REFUSED_SYNTAX;
    if (rest.n > 4 && rest.p[4] != ' ')
        return HTTP1_REFUSED_SYNTAX;
    out->status = (uint16_t)status;
    return HTTP1_REFUSED_NOT;
}

/* The headers that say where the body ends (RFC 9112 section 6.3), each at most once and not together. llhttp must have read the
 * coding as we do: it does not know "chunked" with a tab behind, and would take the body for one that ends with the connection. */
static enum http1_refusal check_length(struct http1_response_head *out, const llhttp_t *ll)
{
    unsigned n_lengths = 0, n_codings = 0;
    struct str coding = {0};

    for (size_t i = 0; i < out->n_headers; i++) {
        if (str_equal_nocase(out->headers[i].name, STR("content-length"))) {
            n_lengths++;
        } else if (str_equal_nocase(out->headers[i].name, STR("transfer-encoding"))) {
            coding = out->headers[i].value;
            n_codings++;
        }
    }
    if (n_lengths > 1 || n_codings > 1 || (n_lengths && n_codings) || (n_codings && out->minor_version == 0))
        return HTTP1_REFUSED_LENGTH;
    if (n_codings && (!str_equal_nocase(coding, STR("chunked")) || !(ll->flags & F_CHUNKED)))
        return HTTP1_REFUSED_TRANSFER_ENCODING;
    out->is_chunked = n_codings > 0;
    out->has_content_length = n_lengths > 0;
    out->content_length = n_lengths ? ll->content_length : 0;
    return HTTP1_REFUSED_NOT;
}

static bool is_kept_alive(const struct http1_parser *p, const struct http1_response_head *out)
{
    if (out->is_until_close || (p->ll.flags & F_CONNECTION_CLOSE))
        return false;
    return out->minor_version > 0 || (p->ll.flags & F_CONNECTION_KEEP_ALIVE);
}

static enum http1_refusal parse(struct http1_parser *p, struct http1_head *head, void *message)
{
    struct http1_response *r = CONTAINER_OF(p, struct http1_response, parser);
    struct http1_response_head *out = message;
    struct str line = {buf_str(&head->text).p, p->line_bytes - 2};
    bool has_body;
    enum http1_refusal refusal;
    int e;

    *out = (struct http1_response_head){0};
    refusal = split_status_line(line, out);
    if (refusal)
        return refusal;
    e = http1_framing_execute(p, head, HTTP_RESPONSE, &out->n_headers);
    if (e != HPE_PAUSED)
        return http1_framing_refusal(e);
    out->headers = head->headers;
    refusal = check_length(out, &p->ll);
    if (refusal)
        return refusal;
    if (out->status < FINAL_MIN) {
        if (out->status == SWITCHING_PROTOCOLS || ++r->n_interim > INTERIM_MAX)
            return HTTP1_REFUSED_SYNTAX;
        http1_framing_expect_body(p, false, false, 0);
        return HTTP1_REFUSED_NOT;
    }
    has_body = !r->is_head && out->status != NO_CONTENT && out->status != NOT_MODIFIED;
    out->is_until_close = has_body && !out->is_chunked && !out->has_content_length;
    out->is_kept_alive = is_kept_alive(p, out);
    http1_framing_expect_body(p, has_body && out->is_chunked, out->is_until_close, has_body ? out->content_length : 0);
    return HTTP1_REFUSED_NOT;
}

void http1_response_init(struct http1_response *r, const struct http1_limits *limits)
{
    *r = (struct http1_response){0};
    http1_parser_init(&r->parser, limits);
}

void http1_response_expect(struct http1_response *r, enum http_method method)
{
    r->is_head = method == HTTP_METHOD_HEAD;
    r->n_interim = 0;
}

enum http1_step http1_response_next(struct http1_response *r, struct http1_head *head, struct http1_response_head *out_head,
                                    struct str *in, struct str *out_body)
{
    for (;;) {
        enum http1_refusal refusal = check_beginning(r, head, *in);
        enum http1_step step;

        if (refusal)
            return http1_framing_refuse(&r->parser, refusal);
        step = http1_framing_next(&r->parser, head, out_head, parse, in, out_body);
        if ((step != HTTP1_HEAD && step != HTTP1_END) || out_head->status >= FINAL_MIN)
            return step;
        if (step == HTTP1_END) /* of an interim response: the next head begins */
            http1_head_clear(head);
    }
}

bool http1_response_ends_with_connection(const struct http1_response *r)
{
    return http1_framing_is_until_close(&r->parser);
}

struct str http1_response_header(const struct http1_response_head *head, struct str name)
{
    for (size_t i = 0; i < head->n_headers; i++)
        if (str_equal_nocase(head->headers[i].name, name))
            return head->headers[i].value;
    return (struct str){0};
}
