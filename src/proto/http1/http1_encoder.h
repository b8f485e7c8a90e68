/* http1_encoder: response heads as HTTP/1.1 text (RFC 9112 section 4). Pure functions, any thread. */
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

/* The date of RFC 9110 section 5.6.7 into `to`, HTTP1_DATE_BYTES long, without a NUL. */
void http1_encoder_date(char *to, uint64_t unix_seconds);
