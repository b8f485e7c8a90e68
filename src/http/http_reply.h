/* http_reply: how a response becomes bytes of an HTTP/1 connection, and what is answered where there is no route. Internal to
 * http/; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "http/http_exchange.h"
#include "loop/stream.h"

/* Appends head and body to the stream's output; the body is left out where HTTP allows none. With a header that would break
 * out of its line a 500 is written instead. Returns the status that was written, 0 when there is no memory. */
uint16_t http_reply_write(struct stream *s, const struct http_exchange *x, const struct http_response *r, bool closes);

/* Answers 404, or 405 with Allow when x->allowed has methods. */
void http_reply_without_route(struct http_exchange *x);
