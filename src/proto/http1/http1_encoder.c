#include "proto/http1/http1_encoder.h"

#include <stdio.h>
#include <time.h>

#include "base/check.h"

/* "HTTP/1.1 " + status + longest reason + Date + Connection + the names and line ends of our own headers. */
enum { FIXED_BYTES = 256, STATUS_MIN = 200, STATUS_MAX = 599 };

static char *put(char *to, struct str s)
{
    if (s.n)
        memcpy(to, s.p, s.n);
    return to + s.n;
}

static char *put_number(char *to, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    return put(to, (struct str){digits + at, sizeof digits - at});
}

/* RFC 9110 section 5.5: no CR, LF or NUL in a value; a name must not have what would end it. */
static bool is_safe(struct str s, bool is_name)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '\r' || c == '\n' || c == '\0' || (is_name && (c <= ' ' || c == ':' || c >= 0x7f)))
            return false;
    }
    return s.n > 0 || !is_name;
}

size_t http1_encoder_bound(const struct http_response *r)
{
    size_t n = FIXED_BYTES + r->content_type.n;

    for (size_t i = 0; i < r->n_headers; i++)
        n += r->headers[i].name.n + r->headers[i].value.n + 4;
    return n;
}

static char *put_status(char *to, uint16_t status)
{
    if (status == 200)
        return put(to, STR("HTTP/1.1 200 OK\r\n"));
    to = put_number(put(to, STR("HTTP/1.1 ")), status);
    *to++ = ' ';
    return put(put(to, str_from(http_message_reason(status))), STR("\r\n"));
}

size_t http1_encoder_write(char *to, const struct http_response *r, struct str date, enum http1_connection connection)
{
    char *p = to;

    ASSERT(r->status >= STATUS_MIN && r->status <= STATUS_MAX);
    ASSERT(date.n == HTTP1_DATE_BYTES);
    if (!is_safe(r->content_type, false))
        return 0;
    p = put(put(put(put_status(p, r->status), STR("Date: ")), date), STR("\r\n"));
    if (connection == HTTP1_CONNECTION_CLOSE)
        p = put(p, STR("Connection: close\r\n"));
    else if (connection == HTTP1_CONNECTION_KEEP_ALIVE)
        p = put(p, STR("Connection: keep-alive\r\n"));
    if (r->content_type.n)
        p = put(put(put(p, STR("Content-Type: ")), r->content_type), STR("\r\n"));
    /* RFC 9110 section 8.6: none with 204; with 304 it would have to be that of the 200. */
    if (r->status != 204 && r->status != 304)
        p = put(put_number(put(p, STR("Content-Length: ")), r->body.n), STR("\r\n"));
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct http_header *h = &r->headers[i];

        if (!is_safe(h->name, true) || !is_safe(h->value, false))
            return 0;
        p = put(put(put(put(p, h->name), STR(": ")), h->value), STR("\r\n"));
    }
    return (size_t)(put(p, STR("\r\n")) - to);
}

size_t http1_encoder_request_bound(const struct http1_request_head *r)
{
    size_t n = FIXED_BYTES + r->target.n + r->host.n + r->content_type.n;

    for (size_t i = 0; i < r->n_headers; i++)
        n += r->headers[i].name.n + r->headers[i].value.n + 4;
    for (size_t i = 0; i < r->n_lines; i++)
        n += r->lines[i].n;
    return n;
}

/* RFC 9112 section 3.2: no space or control character in a target; the same serves for a host. */
static bool is_safe_word(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] >= 0x7f)
            return false;
    return s.n > 0;
}

size_t http1_encoder_write_request(char *to, const struct http1_request_head *r)
{
    bool has_body = r->body_bytes || r->method == HTTP_METHOD_POST || r->method == HTTP_METHOD_PUT ||
                    r->method == HTTP_METHOD_PATCH; /* RFC 9110 section 8.6 */
    char *p = to;

    ASSERT(r->method != HTTP_METHOD_OTHER);
    if (!is_safe_word(r->target) || !is_safe_word(r->host) || !is_safe(r->content_type, false))
        return 0;
    p = put(p, str_from(http_message_method_name(r->method)));
    *p++ = ' ';
    p = put(put(put(put(p, r->target), STR(" HTTP/1.1\r\nHost: ")), r->host), STR("\r\n"));
    if (r->content_type.n)
        p = put(put(put(p, STR("Content-Type: ")), r->content_type), STR("\r\n"));
    if (has_body)
        p = put(put_number(put(p, STR("Content-Length: ")), r->body_bytes), STR("\r\n"));
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct http_header *h = &r->headers[i];

        if (!is_safe(h->name, true) || !is_safe(h->value, false))
            return 0;
        p = put(put(put(put(p, h->name), STR(": ")), h->value), STR("\r\n"));
    }
    for (size_t i = 0; i < r->n_lines; i++)
        p = put(p, r->lines[i]);
    return (size_t)(put(p, STR("\r\n")) - to);
}

void http1_encoder_date(char *to, uint64_t unix_seconds)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char text[HTTP1_DATE_BYTES + 1 + 64]; /* more than any date, so that the compiler sees it fits */
    time_t seconds = (time_t)unix_seconds;
    struct tm tm;

    ASSERT(gmtime_r(&seconds, &tm));
    snprintf(text, sizeof text, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday, tm.tm_mday,
             months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    memcpy(to, text, HTTP1_DATE_BYTES);
}
