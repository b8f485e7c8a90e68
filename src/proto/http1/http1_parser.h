/* http1_parser: HTTP/1.x requests out of bytes (RFC 9112), over llhttp in strict mode. No sockets, no clock.
 *
 * The head is collected until its empty line, then parsed in one piece, so every header is a view into one block and none is
 * copied by itself. Bodies are handed out as views into the input. What one of two parsers on a path might read differently
 * is refused, not repaired: bare CR or LF, folded headers, white space around names, Host missing or repeated,
 * Content-Length repeated or together with Transfer-Encoding, any transfer coding but chunked, HTTP/0.9 and HTTP/2 prefaces.
 * After a refusal nothing more of the connection can be trusted.
 *
 * Owned by one connection, one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp.h>

#include "base/err.h"
#include "proto/http1/http1_head.h"
#include "proto/http1/http1_refusal.h"
#include "proto/http1/http_message.h"

struct http1_limits {
    uint32_t max_line_bytes; /* request line */
    uint32_t max_head_bytes; /* all header lines together; of trailers once more */
    uint32_t max_headers;
    uint64_t max_body_bytes;
};

/* For peers nobody knows: 8 KiB, 16 KiB, 100 headers, 1 MiB. */
extern const struct http1_limits http1_limits_default;

enum http1_step {
    HTTP1_MORE, /* all input is used and the request goes on */
    HTTP1_HEAD, /* the head is complete: the request is filled in */
    HTTP1_BODY, /* a piece of the body, in `out_body` */
    HTTP1_END,  /* the request is complete; the next call begins another one */
    HTTP1_BAD,  /* refused; every later call says so again */
};

struct http1_parser {
    llhttp_t ll;
    const struct http1_limits *limits;
    uint64_t max_body_bytes; /* of limits; may be changed between HTTP1_HEAD and the next call, for one request */
    uint64_t body_bytes;     /* of this request: of what has begun so far, or what is still to come of a known length */
    struct str piece;        /* of the body, found by llhttp in this call */
    uint32_t scanned;        /* bytes of the head that passed the line rules */
    uint32_t line_bytes;     /* of the request line, once it is complete */
    uint32_t n_lines;
    uint32_t overhead; /* bytes of framing of this chunk, or of trailers */
    uint8_t phase;     /* http1_parser.c */
    uint8_t trailer;   /* state inside the trailers */
    uint8_t refusal;   /* enum http1_refusal */
    bool has_skipped_line;
    bool is_inside;                  /* bytes of a head have come */
    bool is_chunked, is_until_close; /* how the body ends */
};

/* Begins; `limits` is borrowed as long as the parser is used. Nothing to free. */
void http1_parser_init(struct http1_parser *p, const struct http1_limits *limits);

/* Reads on from the front of `*in` and moves it past what was used. Until HTTP1_HEAD, `head` collects the text and `request`
 * is filled; both are the caller's and stay the same for one request. Call again until HTTP1_MORE (or HTTP1_BAD). */
enum http1_step http1_parser_next(struct http1_parser *p, struct http1_head *head, struct http_request *request, struct str *in,
                                  struct str *out_body);

/* Whether a request has begun and not ended; only an unfinished one is an error at the end of input. */
bool http1_parser_is_inside(const struct http1_parser *p);
