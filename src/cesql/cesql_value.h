/* cesql_value: values of CESQL and their casts (section 3.7), and the memory one evaluation may take. Pure functions but for that. */
#pragma once

#include "cesql/cesql.h"

/* Bounded scratch memory of one evaluation. */
struct cesql_memory {
    struct arena *arena;
    size_t left; /* bytes */
};

/* `n` bytes, or NULL when that is more than is left. */
char *cesql_value_memory(struct cesql_memory *memory, size_t n);

struct cesql_value cesql_value_zero(enum cesql_type type);

static inline struct cesql_value cesql_value_boolean(bool value)
{
    return (struct cesql_value){.type = CESQL_BOOLEAN, .boolean = value};
}

static inline struct cesql_value cesql_value_integer(int32_t value)
{
    return (struct cesql_value){.type = CESQL_INTEGER, .integer = value};
}

static inline struct cesql_value cesql_value_string(struct str value)
{
    return (struct cesql_value){.type = CESQL_STRING, .string = value};
}

/* Casts. On an error, CESQL_CAST_ERROR or CESQL_GENERIC_ERROR for want of memory, `*value` becomes the zero value of the type. */
enum cesql_error cesql_value_cast(struct cesql_memory *memory, enum cesql_type type, struct cesql_value *value);

/* Whether two values of one type are equal. */
bool cesql_value_equal(const struct cesql_value *a, const struct cesql_value *b);
