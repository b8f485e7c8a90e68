/* http1_encoder: response heads as HTTP/1.1 text (RFC 9112 section 4). Pure functions, any thread. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "proto/http1/http_message.h"

enum { HTTP1_DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* How many bytes http1_encoder_write() may need at most for this response, without its body. */
size_t http1_encoder_bound(const struct http_response *r);

/* Writes status line and headers, with Date, Content-Length (not for 204 and 304) and, if `closes`, Connection: close, and the
 * empty line, to `to`. The body's length is taken from r->body; the body itself is not written. Returns the bytes written, or 0
 * when a header's name or value has a character that would let it break out of its line. */
size_t http1_encoder_write(char *to, const struct http_response *r, struct str date, bool closes);

/* The date of RFC 9110 section 5.6.7 into `to`, HTTP1_DATE_BYTES long, without a NUL. */
void http1_encoder_date(char *to, uint64_t unix_seconds);
