/* http2_fields: the fields of one HTTP/2 message (RFC 9113 section 8): those that come in, one by one, kept in a head's memory and
 * made into the request or response that every version of HTTP means; those that go out, as nghttp2 wants them. Field names,
 * values and the rules of pseudo-header fields are nghttp2's matter; what may be read in two ways, and limits, are ours.
 * Internal to http/; pure, one thread. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/err.h"
#include "proto/http1/http1_parser.h"
#include "proto/http1/http1_response.h"

/* A message's fields as they come in. All-zero but for `head` is empty. */
struct http2_fields {
    struct http1_head *head; /* empty before the first field */
    uint32_t n;              /* in head->headers; their pointers are filled in at the end */
    uint32_t list_bytes;     /* RFC 9113 section 6.5.2: what the limit is told in */
    uint32_t n_cookies, cookie_bytes;
    uint8_t refusal; /* enum http1_refusal; the rest is read over then */
};

void http2_fields_add(struct http2_fields *f, const struct http1_limits *limits, struct str name, struct str value);

/* All have come: fills `request`, whose views lie in the head, and says why it cannot be served. `has_body`: the stream goes on. */
enum http1_refusal http2_fields_read_request(struct http2_fields *f, const struct http1_limits *limits, bool has_body,
                                             struct http_request *request);

/* The same for a response; false when its status is none. */
bool http2_fields_read_response(struct http2_fields *f, struct http1_response_head *response);

enum { HTTP2_FIELDS_OUT_MAX = 160 };

/* Fields going out: borrowed views, until they are submitted. All-zero but for `items` is empty. */
struct http2_fields_out {
    size_t n;
    bool is_bad; /* a field would break the rules, or they are too many */
    char length[20], status[3];
    nghttp2_nv items[HTTP2_FIELDS_OUT_MAX];
};

static inline void http2_fields_begin(struct http2_fields_out *out)
{
    out->n = 0;
    out->is_bad = false;
}

/* Nothing is added for an empty pseudo-header or content type: see the callers. White space around a value is left out. */
void http2_fields_put(struct http2_fields_out *out, struct str name, struct str value);

/* The same for numbers: once in each `out`. */
void http2_fields_put_status(struct http2_fields_out *out, uint16_t status);
void http2_fields_put_length(struct http2_fields_out *out, uint64_t length);
