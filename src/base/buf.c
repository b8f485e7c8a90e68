#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

enum { FIRST_BYTES = 256, MAX_BYTES = 1 << 30 };

/* Moves the bytes to the front, when that alone makes the room or the front half is waste anyway. */
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
    char *p;

    if (b->tail + n <= b->cap)
        return b->p + b->tail;
    if (need <= b->cap && b->head >= b->cap / 2) {
        compact(b);
        return b->p + b->tail;
    }
    if (need > MAX_BYTES)
        return NULL;
    while (cap < need)
        cap *= 2;
    compact(b);
    if (cap > b->cap) {
        p = mem_try_realloc(sub, b->p, cap);
        if (!p)
            return NULL;
        b->p = p;
        b->cap = (uint32_t)cap;
    }
    return b->p + b->tail;
}

err buf_append(struct buf *b, enum mem_sub sub, struct str s)
{
    char *to = buf_reserve(b, sub, s.n);

    if (!to)
        return E_NOMEM;
    if (s.n)
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
    b->head += (uint32_t)n;
    if (b->head == b->tail)
        b->head = b->tail = 0;
}

void buf_free(struct buf *b, enum mem_sub sub)
{
    mem_free(sub, b->p);
    *b = (struct buf){0};
}
