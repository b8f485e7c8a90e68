/* buf: owned growable bytes with a read position, for output queues, partial input and text under construction.
 * All-zero is valid and empty. One owner, one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct buf {
    char *p;
    uint32_t head; /* the first byte not yet consumed */
    uint32_t tail; /* one past the last byte */
    uint32_t cap;
};

static inline size_t buf_size(const struct buf *b)
{
    return b->tail - b->head;
}

/* The unconsumed bytes, borrowed until the next call that changes the buffer. */
static inline struct str buf_str(const struct buf *b)
{
    return b->p ? (struct str){b->p + b->head, b->tail - b->head} : (struct str){0};
}

/* Makes room for `n` more bytes and returns where they go, or NULL when memory is short or the buffer would pass 1 GiB.
 * The bytes count once buf_commit() says how many were written. */
char *buf_reserve(struct buf *b, enum mem_sub sub, size_t n) MUST_USE;

static inline void buf_commit(struct buf *b, size_t n)
{
    b->tail += (uint32_t)n;
}

/* Appends a copy of `s`. E_NOMEM when buf_reserve() gives no room; the buffer is then unchanged. */
MUST_USE err buf_append(struct buf *b, enum mem_sub sub, struct str s);

/* Appends formatted text. E_NOMEM as above. */
MUST_USE err buf_printf(struct buf *b, enum mem_sub sub, const char *format, ...) PRINTF_LIKE(3, 4);

/* Drops `n` bytes from the front; at most buf_size(). An emptied buffer starts again at its beginning. */
void buf_consume(struct buf *b, size_t n);

/* Gives the memory back and leaves an empty buffer. */
void buf_free(struct buf *b, enum mem_sub sub);
