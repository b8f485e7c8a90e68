/* str: a borrowed view of bytes, not NUL-terminated. All-zero is the empty string. Valid as long as its owner says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
/* For tables of constants, where a compound literal is not allowed. */
#define STR_INIT(literal)                                                                                                      \
    {                                                                                                                          \
        (literal), sizeof(literal) - 1                                                                                         \
    }

/* For printf: `printf("%.*s", STR_ARG(s))`. */
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_from(const char *text)
{
    return (struct str){text, text ? strlen(text) : 0};
}

static inline bool str_equal(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_starts_with(struct str s, struct str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

/* Appends a copy to a buffer that has room for it, and moves `*at` behind it: how an object keeps the texts it was made of. Not NULL, as
 * `*at` is not. */
static inline struct str str_put(char **at, struct str text)
{
    struct str copy = {*at, text.n};

    if (text.n)
        memcpy(*at, text.p, text.n);
    *at += text.n;
    return copy;
}

/* The rest of `s` from byte `from` on; empty when `s` is shorter. */
static inline struct str str_from_offset(struct str s, size_t from)
{
    if (from >= s.n)
        return (struct str){0};
    return (struct str){s.p + from, s.n - from};
}

/* Splits at the first `separator`: returns what stands before it and leaves the rest in `*rest`.
 * `*found` tells whether there was one; without it the whole string is returned and the rest is empty. */
static inline struct str str_take(struct str *rest, char separator, bool *found)
{
    const char *at = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    struct str head = *rest;

    *found = at != NULL;
    if (at) {
        head.n = (size_t)(at - rest->p);
        *rest = (struct str){at + 1, rest->n - head.n - 1};
    } else {
        *rest = (struct str){0};
    }
    return head;
}

/* Without the spaces and tabs at both ends, the optional white space of HTTP (RFC 9110 section 5.6.3). */
struct str str_trim(struct str s);

/* The value of a hexadecimal digit, capital or not; -1 for anything else. */
int str_hex_digit(char c);

/* Equal without regard to the case of ASCII letters, as in HTTP header names. */
bool str_equal_nocase(struct str a, struct str b);

/* Parses the whole of `s` as an unsigned decimal number no larger than `max`. False, and nothing written, when `s` is
 * empty, has any other character or is larger. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *out_value);

/* Compares secrets in a time that depends on the lengths only. */
bool str_equal_secret(struct str a, struct str b);
