#include "http/http_exchange.h"

#include "base/check.h"
#include "http/http_pool.h"

enum { ERROR_BYTES = 512 };

/* The answer to a peer that has gone: the request was counted when it went. */
static void discard(struct http_exchange *x)
{
    struct http_server *srv = x->server;

    list_remove(&x->link);
    http_pool_give(x);
    http_server_finish_exchange(srv);
}

void http_exchange_respond(struct http_exchange *x, const struct http_response *r)
{
    if (http_exchange_is_cancelled(x))
        discard(x);
    else
        x->transport->respond(x, r);
}

void http_exchange_take_request(struct http_exchange *x, struct http1_head *out_head, struct buf *out_body)
{
    *out_head = x->head;
    *out_body = x->body;
    x->head = (struct http1_head){0};
    x->body = (struct buf){0};
}

void http_exchange_respond_text(struct http_exchange *x, uint16_t status, struct str text)
{
    http_exchange_respond(
        x, &(struct http_response){.status = status, .content_type = STR("text/plain; charset=utf-8"), .body = text});
}

size_t http_exchange_format_error(char *to, size_t size, struct str text)
{
    static const struct str open = STR_INIT("{\"error\":\""), close = STR_INIT("\"}\n");
    static const char digits[] = "0123456789abcdef";
    size_t n = open.n;

    memcpy(to, open.p, open.n);
    for (size_t i = 0; i < text.n && n + 6 + close.n <= size; i++) {
        unsigned char c = (unsigned char)text.p[i];

        if (c == '"' || c == '\\') {
            to[n++] = '\\';
            to[n++] = (char)c;
        } else if (c < 0x20 || c >= 0x7f) { /* the texts are ours and ASCII; what is not is made so */
            memcpy(to + n, "\\u00", 4);
            to[n + 4] = digits[c >> 4];
            to[n + 5] = digits[c & 15];
            n += 6;
        } else {
            to[n++] = (char)c;
        }
    }
    memcpy(to + n, close.p, close.n);
    return n + close.n;
}

void http_exchange_respond_error(struct http_exchange *x, uint16_t status, struct str text)
{
    char body[ERROR_BYTES];

    http_exchange_respond(x, &(struct http_response){
                                 .status = status,
                                 .content_type = STR("application/json"),
                                 .body = {body, http_exchange_format_error(body, sizeof body, text)},
                             });
}
