#include "proto/http1/http1_rules.h"

#include "base/check.h"

/* RFC 9110 section 5.6.2 */
bool http1_rules_is_token_char(unsigned char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr(others, c));
}

bool http1_rules_is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!http1_rules_is_token_char((unsigned char)s.p[i]))
            return false;
    return s.n > 0;
}

bool http1_rules_is_authority(struct str s)
{
    static const char others[] = "-._~%!$&'()*+;=:[]";

    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr(others, c))))
            return false;
    }
    return true;
}

/* RFC 9112 section 3: three parts with one space between. llhttp would also take HTTP/0.9, HTTP/2.0, RTSP and several spaces. */
enum http1_refusal http1_rules_split_line(struct str line, struct http_request *r)
{
    bool has_target, has_version;
    struct str version = line;

    r->method_name = str_take(&version, ' ', &has_target);
    r->target = str_take(&version, ' ', &has_version);
    if (!has_target || !has_version || !http1_rules_is_token(r->method_name) || r->target.n == 0)
        return HTTP1_REFUSED_SYNTAX;
    if (str_equal(version, STR("HTTP/1.1")) || str_equal(version, STR("HTTP/1.0")))
        r->minor_version = (uint8_t)(version.p[version.n - 1] - '0');
    else
        return str_starts_with(version, STR("HTTP/")) ? HTTP1_REFUSED_VERSION : HTTP1_REFUSED_SYNTAX;
    return str_equal(r->method_name, STR("CONNECT")) ? HTTP1_REFUSED_METHOD : HTTP1_REFUSED_NOT;
}

/* RFC 9112 section 3.2: origin form, absolute form (whose authority goes before the Host header's), and `*` for OPTIONS. */
bool http1_rules_split_target(struct http_request *r)
{
    static const struct str schemes[] = {STR_INIT("http://"), STR_INIT("https://")};
    struct str rest = r->target;
    bool has_query;

    if (memchr(rest.p, '#', rest.n))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        struct str scheme = schemes[i];
        size_t n = scheme.n;

        if (rest.n < n || !str_equal_nocase((struct str){rest.p, n}, scheme))
            continue;
        while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
            n++;
        r->authority = (struct str){rest.p + scheme.n, n - scheme.n};
        rest = str_from_offset(rest, n);
        if (r->authority.n == 0 || !http1_rules_is_authority(r->authority))
            return false;
        break;
    }
    r->path = str_take(&rest, '?', &has_query);
    r->query = rest;
    if (r->path.n == 0 && r->authority.n)
        r->path = STR("/");
    return r->path.n && (r->path.p[0] == '/' || (str_equal(r->path, STR("*")) && r->method == HTTP_METHOD_OPTIONS));
}

/* RFC 9112 section 6.1 and 6.3: chunked alone, once, in HTTP/1.1, without Content-Length; a coding we do not know cannot be read,
 * and one after chunked leaves no way to tell where the body ends. */
static enum http1_refusal check_transfer_encoding(struct str value, unsigned count, const struct http_request *r)
{
    const struct str chunked = STR("chunked");

    if (count == 0)
        return HTTP1_REFUSED_NOT;
    if (count > 1 || r->minor_version == 0)
        return HTTP1_REFUSED_LENGTH;
    if (str_equal_nocase(value, chunked))
        return HTTP1_REFUSED_NOT;
    if (value.n > chunked.n && memchr(value.p, ',', value.n) &&
        str_equal_nocase(str_from_offset(value, value.n - chunked.n), chunked))
        return HTTP1_REFUSED_TRANSFER_ENCODING;
    return HTTP1_REFUSED_LENGTH;
}

/* The headers that decide how the message is read. */
enum special { SPECIAL_HOST, SPECIAL_LENGTH, SPECIAL_CODING, SPECIAL_EXPECT, SPECIALS };

enum http1_refusal http1_rules_check_headers(struct http_request *r, uint64_t content_length)
{
    static const struct str names[SPECIALS] = {STR_INIT("host"), STR_INIT("content-length"), STR_INIT("transfer-encoding"),
                                               STR_INIT("expect")};
    struct str values[SPECIALS] = {0};
    unsigned counts[SPECIALS] = {0};
    enum http1_refusal refusal;

    for (size_t i = 0; i < r->n_headers; i++)
        for (size_t k = 0; k < SPECIALS; k++)
            if (r->headers[i].name.n == names[k].n && str_equal_nocase(r->headers[i].name, names[k])) {
                values[k] = r->headers[i].value;
                counts[k]++;
            }
    /* RFC 9112 section 3.2: exactly one Host in HTTP/1.1. */
    if (counts[SPECIAL_HOST] > 1 || (counts[SPECIAL_HOST] == 0 && r->minor_version > 0) ||
        !http1_rules_is_authority(values[SPECIAL_HOST]))
        return HTTP1_REFUSED_HOST;
    if (!r->authority.n)
        r->authority = values[SPECIAL_HOST];
    if (counts[SPECIAL_LENGTH] > 1 || (counts[SPECIAL_LENGTH] && counts[SPECIAL_CODING]))
        return HTTP1_REFUSED_LENGTH;
    refusal = check_transfer_encoding(values[SPECIAL_CODING], counts[SPECIAL_CODING], r);
    if (refusal)
        return refusal;
    r->is_chunked = counts[SPECIAL_CODING] > 0;
    r->content_length = counts[SPECIAL_LENGTH] ? content_length : 0;
    if (counts[SPECIAL_EXPECT] && !str_equal_nocase(values[SPECIAL_EXPECT], STR("100-continue")))
        return HTTP1_REFUSED_EXPECTATION;
    /* RFC 9110 section 10.1.1: ignored from HTTP/1.0 peers and without a body. */
    r->expects_continue = counts[SPECIAL_EXPECT] && r->minor_version > 0 && (r->is_chunked || r->content_length);
    return HTTP1_REFUSED_NOT;
}
