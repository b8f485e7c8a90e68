#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

/* Capacities are powers of two. WORTH_MOVING: the part of the capacity that must be waste before the rest is moved to the
 * front, so that a queue which stays nearly full grows once instead of moving all its bytes for each one that joins. */
enum { FIRST_BYTES = 256, MAX_BYTES = 1 << 30, WORTH_MOVING = 4 };

static void compact(struct buf *b)
{
    size_t n = buf_size(b);

    if (b->head == 0)
        return;
    memmove(b->p, b->p + b->head, n);
    b->head = 0;
    b->tail = (uint32_t)n;
}

char *buf_reserve(struct buf *b, enum mem_sub sub, size_t n)
{
    size_t need = buf_size(b) + n, cap = b->cap ? b->cap : FIRST_BYTES;
    uint32_t waste = b->head;
    char *p;

    if (n > MAX_BYTES || need > MAX_BYTES) /* the first, because the sum may have wrapped */
        return NULL;
    if (b->p && n <= b->cap - b->tail)
        return b->p + b->tail;
    compact(b);
    if (b->p && need <= b->cap && (waste >= b->cap / WORTH_MOVING || b->cap == MAX_BYTES))
        return b->p + b->tail;
    while (cap < need || cap == b->cap)
        cap *= 2;
    p = mem_try_realloc(sub, b->p, cap);
    if (!p)
        return NULL;
    b->p = p;
    b->cap = (uint32_t)cap;
    return p + b->tail;
}

err buf_append(struct buf *b, enum mem_sub sub, struct str s)
{
    char *to;

    if (s.n == 0)
        return E_OK;
    to = buf_reserve(b, sub, s.n);
    if (!to)
        return E_NOMEM;
    memcpy(to, s.p, s.n);
    buf_commit(b, s.n);
    return E_OK;
}

err buf_printf(struct buf *b, enum mem_sub sub, const char *format, ...)
{
    va_list args;
    int n;
    char *to;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    to = n < 0 ? NULL : buf_reserve(b, sub, (size_t)n + 1);
    if (!to)
        return E_NOMEM;
    va_start(args, format);
    vsnprintf(to, (size_t)n + 1, format, args);
    va_end(args);
    buf_commit(b, (size_t)n);
    return E_OK;
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= buf_size(b));
    b->head += (uint32_t)n;
    if (b->head == b->tail)
        b->head = b->tail = 0;
}

void buf_free(struct buf *b, enum mem_sub sub)
{
    mem_free(sub, b->p);
    *b = (struct buf){0};
}
