#include "http/http_route.h"

#include <stdio.h>

#include "base/check.h"

/* Segment by segment; what `{}` matches goes into x->params. */
static bool matches(const char *pattern, struct http_exchange *x)
{
    struct str want = str_from(pattern), have = x->request.path;
    bool more_want = true, more_have = true;

    x->n_params = 0;
    while (more_want && more_have) {
        struct str w = str_take(&want, '/', &more_want), h;

        if (!more_want && str_equal(w, STR("*")))
            return true;
        h = str_take(&have, '/', &more_have);
        if (str_equal(w, STR("{}"))) {
            ASSERT(x->n_params < HTTP_PARAMS_MAX);
            if (h.n == 0)
                return false;
            x->params[x->n_params++] = h;
        } else if (!str_equal(w, h)) {
            return false;
        }
    }
    return more_want == more_have;
}

const struct http_route *http_route_find(const struct http_route *routes, size_t n, struct http_exchange *x,
                                         unsigned *out_allowed)
{
    enum http_method method = x->request.method;

    *out_allowed = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned methods = 1u << routes[i].method;

        if (!matches(routes[i].pattern, x))
            continue;
        if (methods == 1u << HTTP_METHOD_GET)
            methods |= 1u << HTTP_METHOD_HEAD;
        if (methods & 1u << method)
            return &routes[i];
        *out_allowed |= methods;
    }
    x->n_params = 0;
    return NULL;
}

size_t http_route_format_allow(unsigned allowed, char to[HTTP_ALLOW_BYTES])
{
    size_t n = 0;

    to[0] = '\0';
    for (int m = HTTP_METHOD_GET; m < HTTP_METHODS; m++)
        if (allowed & 1u << m)
            n += (size_t)snprintf(to + n, HTTP_ALLOW_BYTES - n, "%s%s", n ? ", " : "",
                                  http_message_method_name((enum http_method)m));
    return n;
}
