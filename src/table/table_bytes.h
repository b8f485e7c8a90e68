/* table_bytes: numbers in keys and records, the most significant byte first, so that keys sort as their numbers do. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"

/* A short sequence under construction. */
struct table_bytes {
    size_t n;
    char p[512];
};

static inline void table_bytes_add(struct table_bytes *b, const void *p, size_t n)
{
    ASSERT(n <= sizeof b->p - b->n);
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void table_bytes_add_number(struct table_bytes *b, uint64_t value, unsigned n_bytes)
{
    ASSERT(n_bytes <= sizeof b->p - b->n);
    for (unsigned i = 0; i < n_bytes; i++)
        b->p[b->n++] = (char)(value >> 8 * (n_bytes - 1 - i));
}

static inline struct str table_bytes_str(const struct table_bytes *b)
{
    return (struct str){b->p, b->n};
}

/* Take from the front; the caller has made sure that so many are there. */
static inline void table_bytes_take(struct str *rest, void *out, size_t n)
{
    ASSERT(rest->n >= n);
    memcpy(out, rest->p, n);
    *rest = (struct str){rest->p + n, rest->n - n};
}

static inline uint64_t table_bytes_take_number(struct str *rest, unsigned n_bytes)
{
    uint64_t value = 0;

    ASSERT(rest->n >= n_bytes);
    for (unsigned i = 0; i < n_bytes; i++)
        value = value << 8 | (uint8_t)rest->p[i];
    *rest = (struct str){rest->p + n_bytes, rest->n - n_bytes};
    return value;
}
