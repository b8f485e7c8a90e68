/* payload_field: one value out of a JSON text by a JSON Pointer (RFC 6901), for templates that name a field of the payload.
 * The text is read no further than the value: what stands behind it is not looked at. Of equal names the first counts. Pure
 * functions, any thread, no allocation; nesting is bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { PAYLOAD_FIELD_MAX_DEPTH = 64 };

/* A value as it stands in the text. All-zero: there is none. */
struct payload_field {
    struct str raw; /* a string without its quotes, anything else from its first to its last byte */
    bool is_string;
    bool has_escapes; /* a string that must be decoded: payload_field_decode() */
};

/* Whether `pointer` is empty (the whole text) or a sequence of `/token` in which `~` is followed by 0 or 1. */
bool payload_field_is_pointer(struct str pointer);

/* The value at a valid pointer. False, and nothing written, when there is none, or when the text up to it is not JSON. `null`
 * counts as none. */
bool payload_field_find(struct str text, struct str pointer, struct payload_field *out_field);

/* Writes the characters of a string that has escapes as UTF-8; at most raw.n bytes. Half a surrogate pair becomes U+FFFD.
 * Returns how many bytes were written. */
size_t payload_field_decode(struct str raw, char *out);

/* Takes one whole value off the front of `*rest`, with white space on both sides of it; nothing of it is decoded. False, and nothing
 * written, when no JSON value stands there. */
bool payload_field_take(struct str *rest, struct payload_field *out_field);

/* The next element of an array, whose opening bracket the first call finds. E_OK: `*out_field` is one. E_CLOSED: the array has
 * ended, and nothing follows it. E_INVAL: this is no array. `*is_first` is true before the first call, false then. */
MUST_USE err payload_field_next_element(struct str *rest, bool *is_first, struct payload_field *out_field);
