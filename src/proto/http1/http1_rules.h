/* http1_rules: what a request must keep to beyond what llhttp checks (RFC 9112). Pure functions over a head that lies in one
 * piece; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "proto/http1/http1_refusal.h"
#include "proto/http1/http_message.h"

/* RFC 9110 section 5.6.2 */
bool http1_rules_is_token_char(unsigned char c);

/* Whether `s` is a token (RFC 9110 section 5.6.2): not empty, and such characters only. */
bool http1_rules_is_token(struct str s);

/* Whether it may stand in a Host header (RFC 3986 section 3.2.2 with a port): nothing that a URL parser would split at. */
bool http1_rules_is_authority(struct str s);

/* Splits the request line (without its end) into method name, target and version. */
enum http1_refusal http1_rules_split_line(struct str line, struct http_request *r);

/* Splits r->target into authority, path and query. False when it has none of the forms that r->method allows. */
bool http1_rules_split_target(struct http_request *r);

/* Checks the headers that decide how the message is read and fills in what they say. `content_length` is the value llhttp has
 * read, used when there is such a header. */
enum http1_refusal http1_rules_check_headers(struct http_request *r, uint64_t content_length);
