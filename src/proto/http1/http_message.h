/* http_message: requests and responses as every version of HTTP means them (RFC 9110). The HTTP/1 parser fills them now;
 * HTTP/2 will. Views into memory of whoever filled them; no ownership here, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Methods a handler can be registered for; every other known method is HTTP_METHOD_OTHER. */
enum http_method {
    HTTP_METHOD_OTHER,
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_OPTIONS,
    HTTP_METHODS,
};

struct http_header {
    struct str name; /* as sent; compare with str_equal_nocase() */
    struct str value;
};

/* A request whose head is complete. `body` is complete as well when a handler sees it. */
struct http_request {
    enum http_method method;
    struct str method_name;
    struct str target;    /* as sent */
    struct str path;      /* starts with '/', or is "*"; not percent-decoded */
    struct str query;     /* after the '?', empty without one */
    struct str authority; /* of an absolute target, else the Host header; may be empty */
    const struct http_header *headers;
    size_t n_headers;
    struct str body;
    uint64_t content_length; /* 0 when there is none or the body is chunked */
    uint8_t minor_version;   /* of HTTP/1 */
    bool is_chunked;
    bool is_kept_alive;    /* the peer is ready to send another request on this connection */
    bool expects_continue; /* Expect: 100-continue */
};

/* One response, whole. All-zero but for the status is a response without body. Content-Length, Date and Connection are added
 * by whoever sends it and must not be among the headers. */
struct http_response {
    uint16_t status; /* 200 to 599 */
    struct str content_type;
    const struct http_header *headers;
    size_t n_headers;
    struct str body;
};

/* The value of the first header with this name; its `p` is NULL when there is none. */
struct str http_message_header(const struct http_request *r, struct str name);

/* "GET" and so on; "OTHER" for what has no name of its own. */
const char *http_message_method_name(enum http_method method);

/* The reason phrase of RFC 9110 section 15, "Unknown" where there is none. */
const char *http_message_reason(uint16_t status);
