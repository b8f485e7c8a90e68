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

#include "base/buf.h"
#include "base/err.h"
#include "proto/http1/http_message.h"

/* Why a request is refused; the table in http1_parser.c gives each a status, a label for metrics and a text. */
enum http1_refusal {
    HTTP1_REFUSED_NOT,
    HTTP1_REFUSED_SYNTAX,            /* 400 anything llhttp or our line rules reject */
    HTTP1_REFUSED_LINE_ENDING,       /* 400 bare CR or LF, folded header */
    HTTP1_REFUSED_HOST,              /* 400 missing, repeated or not a host */
    HTTP1_REFUSED_LENGTH,            /* 400 ambiguous: repeated, with Transfer-Encoding, not a number */
    HTTP1_REFUSED_CHUNK,             /* 400 broken chunked framing */
    HTTP1_REFUSED_BODY_TOO_LARGE,    /* 413 */
    HTTP1_REFUSED_LINE_TOO_LONG,     /* 414 */
    HTTP1_REFUSED_EXPECTATION,       /* 417 */
    HTTP1_REFUSED_HEAD_TOO_LARGE,    /* 431 bytes or number of headers */
    HTTP1_REFUSED_MEMORY,            /* 500 */
    HTTP1_REFUSED_METHOD,            /* 501 */
    HTTP1_REFUSED_TRANSFER_ENCODING, /* 501 */
    HTTP1_REFUSED_VERSION,           /* 505 */
    HTTP1_REFUSALS,
};

struct http1_limits {
    uint32_t max_line_bytes; /* request line */
    uint32_t max_head_bytes; /* all header lines together; of trailers once more */
    uint32_t max_headers;
    uint64_t max_body_bytes;
};

/* For peers nobody knows: 8 KiB, 16 KiB, 100 headers, 1 MiB. */
extern const struct http1_limits http1_limits_default;

/* Memory of one request's head: a text block and a table, both reused. All-zero is valid and empty. It must stay where it
 * is, and not be cleared, as long as the request's views are used. */
struct http1_head {
    struct buf text;
    struct http_header *headers;
    uint32_t cap_headers;
};

/* Empties the block for the next request and gives back what an unusually large head took. */
void http1_head_clear(struct http1_head *head);
void http1_head_free(struct http1_head *head);

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
    uint64_t body_bytes;     /* of this request, handed out so far */
    uint32_t scanned;        /* bytes of the head that passed the line rules */
    uint32_t line_start;
    uint32_t lines;
    uint32_t overhead; /* bytes of chunk framing since the last body byte, or of trailers */
    uint8_t phase;     /* http1_parser.c */
    uint8_t trailer_state;
    uint8_t refusal; /* enum http1_refusal */
};

/* Begins; `limits` is borrowed as long as the parser is used. Nothing to free. */
void http1_parser_init(struct http1_parser *p, const struct http1_limits *limits);

/* Reads on from the front of `*in` and moves it past what was used. Until HTTP1_HEAD, `head` collects the text and `request`
 * is filled; both are the caller's and stay the same for one request. Call again until HTTP1_MORE (or HTTP1_BAD). */
enum http1_step http1_parser_next(struct http1_parser *p, struct http1_head *head, struct http_request *request, struct str *in,
                                  struct str *out_body);

/* Whether a request has begun and not ended; only an unfinished one is an error at the end of input. */
bool http1_parser_is_inside(const struct http1_parser *p);

/* What a refusal means. Never NULL. */
uint16_t http1_refusal_status(enum http1_refusal refusal);
const char *http1_refusal_label(enum http1_refusal refusal);
const char *http1_refusal_text(enum http1_refusal refusal);
