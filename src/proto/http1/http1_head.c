#include "proto/http1/http1_head.h"

/* What an ordinary request needs is kept for the next one: browsers and proxies send about 1 KB in 20 headers. */
enum { FIRST_HEADERS = 32, KEPT_HEADERS = 64, KEPT_BYTES = 4096 };

void http1_head_clear(struct http1_head *head)
{
    if (head->text.cap > KEPT_BYTES)
        buf_free(&head->text, MEM_PROTO);
    head->text.head = head->text.tail = 0;
    if (head->cap_headers > KEPT_HEADERS) {
        mem_free(MEM_PROTO, head->headers);
        head->headers = NULL;
        head->cap_headers = 0;
    }
}

void http1_head_free(struct http1_head *head)
{
    buf_free(&head->text, MEM_PROTO);
    mem_free(MEM_PROTO, head->headers);
    *head = (struct http1_head){0};
}

struct http_header *http1_head_reserve(struct http1_head *head, size_t n)
{
    uint32_t cap = head->cap_headers ? head->cap_headers * 2 : FIRST_HEADERS;
    struct http_header *headers;

    if (n < head->cap_headers)
        return &head->headers[n];
    headers = mem_try_realloc(MEM_PROTO, head->headers, cap * sizeof *headers);
    if (!headers)
        return NULL;
    head->headers = headers;
    head->cap_headers = cap;
    return &headers[n];
}
