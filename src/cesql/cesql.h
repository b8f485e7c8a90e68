/* cesql: CloudEvents SQL expressions (CESQL 1.0), compiled once and evaluated often. Immutable once compiled, any thread; evaluation
 * takes no memory but that of its arena.
 *
 * Where the specification leaves a choice: AND, OR and XOR have one precedence and group from the left (section 3.6); attribute names
 * may be written in either case; an operator with an operand that is in error, or cannot be cast, gives the zero value of its type
 * with that error, but NOT and the unary minus go on with the zero value that the cast gave (so `NOT 10` is true, as the
 * conformance kit has it: NOT does not cast integers); arithmetic that leaves 32 bits gives 0 and a math error. Letters change
 * their case one by one, as Unicode's simple mappings say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum cesql_type { CESQL_STRING, CESQL_INTEGER, CESQL_BOOLEAN };

struct cesql_value {
    enum cesql_type type;
    bool boolean;
    int32_t integer;
    struct str string;
};

/* Section 3.1: an evaluation gives a value in any case, and perhaps an error; the first of them. */
enum cesql_error {
    CESQL_OK,
    CESQL_PARSE_ERROR,
    CESQL_MATH_ERROR,
    CESQL_CAST_ERROR,
    CESQL_MISSING_ATTRIBUTE_ERROR,
    CESQL_MISSING_FUNCTION_ERROR,
    CESQL_FUNCTION_EVALUATION_ERROR,
    CESQL_GENERIC_ERROR,
    CESQL_ERRORS,
};

/* A value from its canonical text, for who finds attributes; a string if the text is not one of this type. */
struct cesql_value cesql_value_from(enum cesql_type type, struct str text);

/* Where attributes come from. */
struct cesql_attributes {
    bool (*find)(const void *event, struct str name, struct cesql_value *out_value);
    const void *event;
};

enum {
    CESQL_TEXT_MAX = 16 << 10, /* bytes of an expression */
    CESQL_DEPTH_MAX = 128,     /* levels of nesting */
    CESQL_WORK_MAX = 64 << 10, /* bytes of strings that one evaluation may make */
};

struct cesql;

/* Compiles; the text is copied where needed and everything lies in the arena, which is one of MEM_CONFIG. E_INVAL: it is no expression,
 * or too long or too deep; the reason with the column (from 1, in characters) is in `ei`. */
MUST_USE err cesql_compile(struct arena *a, struct str text, const struct cesql **out_expression, struct errinfo *ei);

/* The first function that the expression calls and that does not exist with so many arguments: evaluation will end in an error where
 * it is called. Empty when there is none. */
struct str cesql_missing_function(const struct cesql *expression);

/* Evaluates. `*out_value` is always written, with the value that section 3.3 asks for beside an error. Views into the expression, the
 * event and the scratch arena, which is one of MEM_FANOUT. */
enum cesql_error cesql_evaluate(const struct cesql *expression, const struct cesql_attributes *attributes,
                                struct arena *scratch, struct cesql_value *out_value);

/* The name as the conformance kit spells it in lower case, for example "missingAttribute" as "missing_attribute". Never NULL. */
const char *cesql_error_name(enum cesql_error error);
