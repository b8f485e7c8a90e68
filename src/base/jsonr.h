/* jsonr: reads JSON texts in their place (RFC 8259): strict in its grammar, no further than asked, nothing decoded or copied
 * before somebody wants it, no allocation, nesting bounded. What stands in strings is not checked to be UTF-8: utf8_is_valid() of
 * the whole text says that. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { JSONR_MAX_DEPTH = 64 }; /* of arrays and objects in each other, inside one value */

enum jsonr_kind {
    JSONR_NULL, /* all-zero is a null */
    JSONR_FALSE,
    JSONR_TRUE,
    JSONR_NUMBER,
    JSONR_STRING,
    JSONR_ARRAY,
    JSONR_OBJECT,
};

/* A value as it stands in the text. */
struct jsonr_value {
    struct str raw; /* a string without its quotes, anything else from its first to its last byte */
    enum jsonr_kind kind;
    bool has_escapes;        /* a string that must be decoded: jsonr_decode() */
    bool has_lone_surrogate; /* an escape of half a pair, which no character stands for */
};

/* What is not read yet. A copy is a place to come back to. */
struct jsonr {
    const char *p, *end;
};

/* Begins at the first value of a text: white space in front of it is read over. */
struct jsonr jsonr_begin(struct str text);

/* What is not read yet, as text. */
static inline struct str jsonr_rest(const struct jsonr *r)
{
    return (struct str){r->p, (size_t)(r->end - r->p)};
}

/* Takes one whole value, and the white space behind it. False when there is none, or none that is JSON; `*r` is undefined then. */
bool jsonr_take_value(struct jsonr *r, struct jsonr_value *out_value);

/* The way into an array ('[') or an object ('{'). False when none begins here. */
bool jsonr_enter(struct jsonr *r, char opening);

/* Inside one, before each element or member: whether there is another one; the end is taken, and the white space behind it. `closing`
 * is ']' or '}', `*is_first` true before the first call and false then. `*out_ok` is false when neither the one nor the other stands
 * here. */
bool jsonr_has_next(struct jsonr *r, char closing, bool *is_first, bool *out_ok);

/* A member's name, up to its value. False when there is none. */
bool jsonr_take_name(struct jsonr *r, struct jsonr_value *out_name);

/* Writes the characters of a string that has escapes as UTF-8; at most raw.n bytes. Half a surrogate pair becomes U+FFFD.
 * Returns how many bytes were written. */
size_t jsonr_decode(struct str raw, char *out);

/* The next character of a string, decoded, for comparing without memory: at most 4 bytes to `out`; `*raw` moves on. Returns how many, 0
 * at the end. */
size_t jsonr_take_character(struct str *raw, char out[4]);
