/* http1_head: the memory of one request's head. One owner, one thread. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "proto/http1/http_message.h"

/* A text block and a table, both reused. All-zero is valid and empty. It must not be cleared as long as the request's views
 * are used. */
struct http1_head {
    struct buf text;
    struct http_header *headers;
    uint32_t cap_headers;
};

/* Empties the block for the next request and gives back what an unusually large head took. */
void http1_head_clear(struct http1_head *head);
void http1_head_free(struct http1_head *head);

/* Room for one more header after `n` of them; NULL when there is no memory. The table may move. */
MUST_USE struct http_header *http1_head_reserve(struct http1_head *head, size_t n);
