/* cesql_function: the built-in functions (section 3.5) as a table. Immutable, any thread. */
#pragma once

#include <stddef.h>

#include "cesql/cesql_value.h"

/* One call; the arguments have been cast. */
struct cesql_call {
    struct cesql_memory *memory;
    const struct cesql_value *arguments;
    size_t n_arguments;
    struct cesql_value result; /* the zero value of the function's type at first */
};

/* What a parameter is cast to. */
enum cesql_parameter { PARAMETER_ANY, PARAMETER_STRING, PARAMETER_INTEGER };

struct cesql_function {
    struct str name; /* lower-case */
    size_t n_least, n_most;
    enum cesql_parameter first, rest;
    enum cesql_type type;
    enum cesql_error (*run)(struct cesql_call *call);
};

/* The function with this name, in either case, that takes so many arguments; NULL: there is none. */
const struct cesql_function *cesql_function_find(struct str name, size_t n_arguments);
