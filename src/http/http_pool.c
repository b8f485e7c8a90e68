#include "http/http_pool.h"

#include "base/check.h"

/* POOL_MAX idle exchanges hold at most about 10 KB each; a body larger than KEPT_BYTES is not kept. */
enum { POOL_MAX = 64, KEPT_BYTES = 4096 };

static void free_exchange(struct http_exchange *x)
{
    http1_head_free(&x->head);
    buf_free(&x->body, MEM_HTTP);
    mem_free(MEM_HTTP, x);
}

struct http_exchange *http_pool_take(struct http_server *srv)
{
    struct list *link = list_pop(&srv->pool);
    struct http_exchange *x;

    if (link) {
        srv->n_pooled--;
        return CONTAINER_OF(link, struct http_exchange, link);
    }
    x = mem_alloc_zero(MEM_HTTP, sizeof *x);
    x->server = srv;
    return x;
}

void http_pool_give(struct http_exchange *x)
{
    struct http_server *srv = x->server;
    struct http_exchange clean = {.server = srv, .head = x->head, .body = x->body};

    ASSERT(!list_is_linked(&x->link));
    if (srv->n_pooled == POOL_MAX) {
        free_exchange(x);
        return;
    }
    http1_head_clear(&clean.head);
    if (clean.body.cap > KEPT_BYTES)
        buf_free(&clean.body, MEM_HTTP);
    clean.body.head = clean.body.tail = 0;
    *x = clean;
    list_push(&srv->pool, &x->link);
    srv->n_pooled++;
}

void http_pool_free(struct http_server *srv)
{
    struct list *link;

    while ((link = list_pop(&srv->pool)))
        free_exchange(CONTAINER_OF(link, struct http_exchange, link));
    srv->n_pooled = 0;
}
