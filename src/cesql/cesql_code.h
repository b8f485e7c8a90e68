/* cesql_code: what an expression is compiled to: code for a stack machine, so that evaluation needs no recursion and a long chain of
 * operators no depth. Shared by the compiler (cesql_parser) and the evaluator (cesql). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cesql/cesql.h"
#include "cesql/cesql_function.h"
#include "cesql/cesql_like.h"

enum cesql_opcode {
    OP_STRING,
    OP_INTEGER,
    OP_BOOLEAN,
    OP_ATTRIBUTE, /* `text` is its name */
    OP_EXISTS,
    OP_CALL,
    OP_NOT,
    OP_NEGATE,
    OP_LIKE,
    /* `x IN (a, b)`: x BEGIN a TEST b TEST END. BEGIN jumps behind END when x is in error, TEST when the answer is known; x stays on the
     * stack until then. */
    OP_IN_BEGIN,
    OP_IN_TEST,
    OP_IN_END,
    /* `x AND y`: x AND_BEGIN y AND. BEGIN jumps behind AND when x decides. */
    OP_AND_BEGIN,
    OP_OR_BEGIN,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_REMAINDER,
    OP_ADD,
    OP_SUBTRACT,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OPCODES,
};

struct cesql_op {
    uint16_t code;        /* enum cesql_opcode */
    uint16_t n_arguments; /* of OP_CALL */
    int32_t integer;      /* a literal, or the index to jump to */
    union {
        struct str text;                       /* a literal, a name */
        const struct cesql_like *like;         /* a pattern */
        const struct cesql_function *function; /* NULL: there is none */
    };
};

struct cesql {
    uint32_t n_ops;
    uint32_t max_stack;
    struct str missing_function;
    struct cesql_op ops[];
};
