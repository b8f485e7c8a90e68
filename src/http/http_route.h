/* http_route: which handler a method and a path belong to. A table of constants, tried in order. Pure functions. */
#pragma once

#include "http/http_exchange.h"

/* `pattern` is a path whose segments are texts or `{}`, which matches one whole segment that is not empty; a last segment
 * `*` matches the rest of the path, which may be empty. A route for GET serves HEAD as well. */
struct http_route {
    enum http_method method;
    const char *pattern;
    http_handler handler;
    void *context;
    uint64_t max_body_bytes; /* 0: the server's limit */
};

/* Finds the route and fills x->params. Returns NULL when there is none; `*out_allowed` is then the set of methods
 * (1u << enum http_method) the path would take, 0 when the path is unknown. */
const struct http_route *http_route_find(const struct http_route *routes, size_t n, struct http_exchange *x,
                                         unsigned *out_allowed);

enum { HTTP_ALLOW_BYTES = 64 };

/* Writes a set of methods as the value of an Allow header: "GET, HEAD, PUT". Returns its length. */
size_t http_route_format_allow(unsigned allowed, char to[HTTP_ALLOW_BYTES]);
