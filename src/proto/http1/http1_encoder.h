/* http1_encoder: heads of responses and requests as HTTP/1.1 text (RFC 9112 sections 3 and 4). Pure functions, any thread. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "proto/http1/http_message.h"

enum { HTTP1_DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* How many bytes http1_encoder_write() may need at most for this response, without its body. */
size_t http1_encoder_bound(const struct http_response *r);

/* What the Connection header says; by default nothing, as HTTP/1.1 keeps connections open. */
enum http1_connection { HTTP1_CONNECTION_DEFAULT, HTTP1_CONNECTION_CLOSE, HTTP1_CONNECTION_KEEP_ALIVE };

/* Writes status line, Date (HTTP1_DATE_BYTES long), Connection, Content-Type, Content-Length (not with 204 and 304), the other
 * headers and the empty line to `to`. The length is that of r->body, which is not written. Returns the bytes written, or 0
 * when a header has a character that would let it break out of its line. */
size_t http1_encoder_write(char *to, const struct http_response *r, struct str date, enum http1_connection connection);

/* One request of a client. The body is not written, only its length. All borrowed. */
struct http1_request_head {
    enum http_method method; /* not OTHER */
    struct str target;       /* path and query, beginning with '/' */
    struct str host;         /* of the Host header, with the port unless it is the scheme's own */
    struct str content_type; /* empty: none */
    const struct http_header *headers;
    size_t n_headers;
    const struct str *lines; /* blocks of header lines that are ready: each line with its CR LF; not looked into */
    size_t n_lines;
    uint64_t body_bytes; /* written with every method that may have a body */
};

/* As the two for responses: Host, Content-Type, Content-Length, then the other headers and
 * the lines. 0 also when target or host could break
 * out of the line. */
size_t http1_encoder_request_bound(const struct http1_request_head *r);
size_t http1_encoder_write_request(char *to, const struct http1_request_head *r);

/* The date of RFC 9110 section 5.6.7 into `to`, HTTP1_DATE_BYTES long, without a NUL. */
void http1_encoder_date(char *to, uint64_t unix_seconds);
