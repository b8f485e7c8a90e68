/* document: JSON that a person or a program sent to the registry, read strictly: one object or list, bounded in bytes and depth, no
 * member twice, no NUL in a text; and what is told when it, or what it says, is not good. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

enum {
    DOCUMENT_MAX_BYTES = 16000, /* of a request's body, as in Hono */
    DOCUMENT_MAX_DEPTH = 16,    /* of objects and lists within each other */
    DOCUMENT_FIELD_BYTES = 160,
};

/* What is wrong, for an answer over HTTP. All-zero: nothing. */
struct document_fault {
    uint16_t status; /* 400, 403, 404, 409, 412 ... */
    char
        field[DOCUMENT_FIELD_BYTES]; /* a JSON pointer (RFC 6901) to the place; empty: the whole. One that is too long is cut */
    char text[200];
};

/* Where in a document something is: members and indices from the outside in, on the stack of whoever walks it. */
struct document_place {
    const struct document_place *outer; /* NULL: the document itself */
    struct str name;                    /* of the member; `p` NULL: an element */
    size_t index;
};

static inline struct document_place document_member(const struct document_place *outer, const char *name)
{
    return (struct document_place){outer, str_from(name), 0};
}

static inline struct document_place document_element(const struct document_place *outer, size_t index)
{
    return (struct document_place){outer, {0}, index};
}

/* Says that something is wrong at `place` (may be NULL: the whole). The first fault stays. Returns E_INVAL for the caller to return. */
err document_refuse(struct document_fault *fault, uint16_t status, const struct document_place *place, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Reads a text. The caller owns `*out_value` (json_decref()). E_INVAL: 400 in `fault`. An empty text is an empty object if
 * `is_empty_allowed`. */
MUST_USE err document_parse(struct str text, bool is_empty_allowed, json_t **out_value, struct document_fault *fault);

/* The text of a JSON string; `p` NULL when it is none (or NULL). */
static inline struct str document_text(const json_t *value)
{
    return json_is_string(value) ? (struct str){json_string_value(value), json_string_length(value)} : (struct str){0};
}

/* A member that is a text, a number, a truth; what to take when it is absent. */
static inline struct str document_get_text(const json_t *object, const char *name)
{
    return document_text(json_object_get(object, name));
}

static inline int64_t document_get_integer(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static inline bool document_get_bool(const json_t *object, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(object, name);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* Sets a member to a text, which must be UTF-8. Memory for a document that was read is not spared: it aborts without. */
void document_set_text(json_t *object, const char *name, struct str text);
void document_set(json_t *object, const char *name, json_t *value); /* takes `value`, never NULL */
