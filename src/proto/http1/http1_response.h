/* http1_response: HTTP/1.x responses out of bytes, for clients (RFC 9112), as strict as http1_parser.h: what the next hop might
 * read differently is refused. Interim responses (1xx) are read over, but 101, which nobody asked for. A response to HEAD and
 * one with 204 or 304 has no body, whatever its headers say. Owned by one connection, one thread. */
#pragma once

#include "proto/http1/http1_parser.h"

/* A final response's head. Views into the head's memory. */
struct http1_response_head {
    uint16_t status; /* 200 to 999 */
    const struct http_header *headers;
    size_t n_headers;
    uint64_t content_length; /* if has_content_length */
    uint8_t minor_version;
    bool has_content_length;
    bool is_chunked;
    bool is_until_close; /* the body ends with the connection */
    bool is_kept_alive;  /* another request may follow on this connection */
};

struct http1_response {
    struct http1_parser parser; /* its max_body_bytes may be changed as there */
    uint8_t n_interim;
    bool is_head;
};

/* Begins; `limits` is borrowed. max_line_bytes bounds the status line. */
void http1_response_init(struct http1_response *r, const struct http1_limits *limits);

/* Says what the next response answers: HEAD or something else. Before its first byte. */
void http1_response_expect(struct http1_response *r, enum http_method method);

/* As http1_parser_next(): HTTP1_HEAD is the final head; after HTTP1_END the next response may be expected. The refusal is in
 * r->parser.refusal. */
enum http1_step http1_response_next(struct http1_response *r, struct http1_head *head, struct http1_response_head *out_head,
                                    struct str *in, struct str *out_body);

/* The connection has ended. True: that was the end of the response. */
bool http1_response_ends_with_connection(const struct http1_response *r);

/* The value of the first header with this name; its `p` is NULL when there is none. */
struct str http1_response_header(const struct http1_response_head *head, struct str name);
