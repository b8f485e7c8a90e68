/* payload_field: one value out of a JSON text by a JSON Pointer (RFC 6901), for templates that name a field of the payload.
 * The text is read no further than the value: what stands behind it is not looked at. Of equal names the first counts. Pure
 * functions, any thread, no allocation; nesting is bounded (JSONR_MAX_DEPTH). */
#pragma once

#include <stdbool.h>

#include "base/jsonr.h"
#include "base/str.h"

/* Whether `pointer` is empty (the whole text) or a sequence of `/token` in which `~` is followed by 0 or 1. */
bool payload_field_is_pointer(struct str pointer);

/* The value at a valid pointer. False, and nothing written, when there is none, or when the text up to it is not JSON. `null`
 * counts as none. */
bool payload_field_find(struct str text, struct str pointer, struct jsonr_value *out_field);
