/* http1_framing: what the parsers of requests and responses share: lines, heads in one piece, bodies by length, by chunks or
 * until the end of the connection. Internal to proto/http1; implemented in http1_parser.c. */
#pragma once

#include "proto/http1/http1_parser.h"

/* Reads a complete head, without its body, into `message`, and says by http1_framing_expect_body() how the body ends. */
typedef enum http1_refusal (*http1_framing_parse)(struct http1_parser *p, struct http1_head *head, void *message);

/* http1_parser_next() for any kind of message. */
enum http1_step http1_framing_next(struct http1_parser *p, struct http1_head *head, void *message, http1_framing_parse parse,
                                   struct str *in, struct str *out_body);

/* Runs llhttp over the head; HPE_PAUSED when all is well. Names and values are in head->headers. */
int http1_framing_execute(struct http1_parser *p, struct http1_head *head, llhttp_type_t type, size_t *out_n_headers);

/* Where llhttp stops on its own; everything else is a matter of syntax. */
enum http1_refusal http1_framing_refusal(int llhttp_error);

/* `length`: of a body that is neither chunked nor ends with the connection. */
void http1_framing_expect_body(struct http1_parser *p, bool is_chunked, bool is_until_close, uint64_t length);

/* Ends the parser with this reason. Returns HTTP1_BAD. */
enum http1_step http1_framing_refuse(struct http1_parser *p, enum http1_refusal why);

/* Whether the end of the connection is the end of the message. */
bool http1_framing_is_until_close(const struct http1_parser *p);
