#include "http/http_reply.h"

#include "base/log.h"
#include "http/http_route.h"
#include "http/http_server.h"

uint16_t http_reply_write(struct stream *s, const struct http_exchange *x, const struct http_response *r, bool closes)
{
    bool has_body = x->request.method != HTTP_METHOD_HEAD && r->status != 204 && r->status != 304;
    struct str body = has_body ? r->body : (struct str){0};
    enum http1_connection connection = HTTP1_CONNECTION_DEFAULT;
    char *to = stream_reserve(s, http1_encoder_bound(r) + body.n);
    size_t n;

    if (!to)
        return 0;
    if (closes)
        connection = HTTP1_CONNECTION_CLOSE;
    else if (x->request.minor_version == 0)
        connection = HTTP1_CONNECTION_KEEP_ALIVE;
    n = http1_encoder_write(to, r, http_server_date(x->server), connection);
    if (n == 0) { /* a handler put a peer's bytes into a header unchecked */
        LOG_ERROR(LOG_HTTP, "http.response.invalid", F_STR("path", x->request.path), F_INT("status", r->status));
        return r->n_headers || r->content_type.n ? http_reply_write(s, x, &(struct http_response){.status = 500}, closes) : 0;
    }
    if (body.n)
        memcpy(to + n, body.p, body.n);
    stream_commit(s, n + body.n);
    return r->status;
}

void http_reply_without_route(struct http_exchange *x)
{
    char allow[HTTP_ALLOW_BYTES], body[64];
    struct http_header header = {STR("Allow"), {allow, http_route_format_allow(x->allowed, allow)}};
    struct http_response r = {.status = 405, .content_type = STR("application/json"), .headers = &header, .n_headers = 1};

    if (x->allowed == 0) {
        http_exchange_respond_error(x, 404, STR("there is nothing at this path"));
        return;
    }
    r.body = (struct str){body, http_exchange_format_error(body, sizeof body, STR("the path does not take this method"))};
    http_exchange_respond(x, &r);
}
