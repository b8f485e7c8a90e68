#include "cesql/cesql.h"

#include "base/check.h"
#include "cesql/cesql_code.h"

enum { FEW_SLOTS = 16 }; /* a stack up to here lies on that of the thread */

/* A value and the first error on the way to it. */
struct slot {
    struct cesql_value value;
    enum cesql_error error;
};

struct machine {
    const struct cesql *expression;
    const struct cesql_attributes *attributes;
    struct cesql_memory memory;
    struct slot *top; /* the newest value */
    size_t at;        /* the next operation */
};

static const char *const error_names[] = {
    [CESQL_OK] = "none",
    [CESQL_PARSE_ERROR] = "parse",
    [CESQL_MATH_ERROR] = "math",
    [CESQL_CAST_ERROR] = "cast",
    [CESQL_MISSING_ATTRIBUTE_ERROR] = "missing_attribute",
    [CESQL_MISSING_FUNCTION_ERROR] = "missing_function",
    [CESQL_FUNCTION_EVALUATION_ERROR] = "function_evaluation",
    [CESQL_GENERIC_ERROR] = "generic",
};
static_assert(ARRAY_LEN(error_names) == CESQL_ERRORS, "every error has a name");

const char *cesql_error_name(enum cesql_error error)
{
    return (size_t)error < ARRAY_LEN(error_names) ? error_names[error] : "?";
}

struct str cesql_missing_function(const struct cesql *expression)
{
    return expression->missing_function;
}

/* --- slots --- */

static void push(struct machine *m, struct cesql_value value)
{
    *++m->top = (struct slot){value, CESQL_OK};
}

static void set_error(struct slot *slot, enum cesql_type type, enum cesql_error error)
{
    *slot = (struct slot){cesql_value_zero(type), error};
}

static enum cesql_error cast(struct machine *m, struct slot *slot, enum cesql_type type)
{
    return cesql_value_cast(&m->memory, type, &slot->value);
}

/* Takes the right operand away and makes both of one type. False: one is in error or cannot be cast, and the left one has become the
 * zero value of `result` with that error. */
static bool take_operands(struct machine *m, enum cesql_type type, enum cesql_type result, struct slot **out_left,
                          struct slot **out_right)
{
    struct slot *right = m->top--, *left = m->top;
    enum cesql_error error = left->error ? left->error : right->error;

    *out_left = left;
    *out_right = right;
    if (!error)
        error = cast(m, left, type);
    if (!error)
        error = cast(m, right, type);
    if (error)
        set_error(left, result, error);
    return !error;
}

/* --- operations --- */

static void run_string(struct machine *m, const struct cesql_op *op)
{
    push(m, cesql_value_string(op->text));
}

static void run_integer(struct machine *m, const struct cesql_op *op)
{
    push(m, cesql_value_integer(op->integer));
}

static void run_boolean(struct machine *m, const struct cesql_op *op)
{
    push(m, cesql_value_boolean(op->integer));
}

/* Section 3.2: without knowing what it is for, a missing attribute is false. */
static void run_attribute(struct machine *m, const struct cesql_op *op)
{
    struct cesql_value value;

    push(m, cesql_value_zero(CESQL_BOOLEAN));
    if (m->attributes->find(m->attributes->event, op->text, &value))
        m->top->value = value;
    else
        m->top->error = CESQL_MISSING_ATTRIBUTE_ERROR;
}

static void run_exists(struct machine *m, const struct cesql_op *op)
{
    struct cesql_value value;

    push(m, cesql_value_boolean(m->attributes->find(m->attributes->event, op->text, &value)));
}

static enum cesql_error cast_argument(struct machine *m, struct slot *slot, enum cesql_parameter parameter)
{
    static const enum cesql_type types[] = {[PARAMETER_STRING] = CESQL_STRING, [PARAMETER_INTEGER] = CESQL_INTEGER};

    if (slot->error || parameter == PARAMETER_ANY)
        return slot->error;
    return cast(m, slot, types[parameter]);
}

static void run_call(struct machine *m, const struct cesql_op *op)
{
    const struct cesql_function *f = op->function;
    size_t n = op->n_arguments;
    struct slot *first = m->top - n + 1;
    struct cesql_value few[3], *arguments = few;
    enum cesql_error error = CESQL_OK;

    m->top = first;
    if (!f) {
        set_error(first, CESQL_BOOLEAN, CESQL_MISSING_FUNCTION_ERROR);
        return;
    }
    if (n > ARRAY_LEN(few))
        arguments = arena_alloc(m->memory.arena, MEM_FANOUT, n * sizeof *arguments);
    for (size_t i = 0; i < n && !error; i++) {
        error = cast_argument(m, &first[i], i == 0 ? f->first : f->rest);
        arguments[i] = first[i].value;
    }
    struct cesql_call call = {&m->memory, arguments, n, cesql_value_zero(f->type)};
    if (!error)
        error = f->run(&call);
    *first = (struct slot){call.result, error};
}

/* The conformance kit refuses to negate an integer, although section 3.7 casts one to a boolean elsewhere. */
static void run_not(struct machine *m, const struct cesql_op *op)
{
    struct slot *x = m->top;

    (void)op;
    if (x->error) {
        set_error(x, CESQL_BOOLEAN, x->error);
        return;
    }
    if (x->value.type == CESQL_INTEGER)
        set_error(x, CESQL_BOOLEAN, CESQL_CAST_ERROR);
    else
        x->error = cast(m, x, CESQL_BOOLEAN);
    x->value.boolean = !x->value.boolean;
}

static void run_negate(struct machine *m, const struct cesql_op *op)
{
    struct slot *x = m->top;

    (void)op;
    if (x->error) {
        set_error(x, CESQL_INTEGER, x->error);
        return;
    }
    x->error = cast(m, x, CESQL_INTEGER);
    if (x->value.integer == INT32_MIN)
        set_error(x, CESQL_INTEGER, CESQL_MATH_ERROR);
    else
        x->value.integer = -x->value.integer;
}

static void run_like(struct machine *m, const struct cesql_op *op)
{
    struct slot *x = m->top;
    enum cesql_error error = x->error ? x->error : cast(m, x, CESQL_STRING);

    if (error)
        set_error(x, CESQL_BOOLEAN, error);
    else
        x->value = cesql_value_boolean(cesql_like_matches(op->like, x->value.string));
}

static void run_in_begin(struct machine *m, const struct cesql_op *op)
{
    if (!m->top->error)
        return;
    set_error(m->top, CESQL_BOOLEAN, m->top->error);
    m->at = (size_t)op->integer;
}

/* Section 3.7: the elements are cast to the type of what is looked for. */
static void run_in_test(struct machine *m, const struct cesql_op *op)
{
    struct slot *element = m->top--, *x = m->top;
    enum cesql_error error = element->error ? element->error : cast(m, element, x->value.type);

    if (!error && !cesql_value_equal(&x->value, &element->value))
        return;
    *x = (struct slot){cesql_value_boolean(!error), error};
    m->at = (size_t)op->integer;
}

static void run_in_end(struct machine *m, const struct cesql_op *op)
{
    (void)op;
    m->top->value = cesql_value_zero(CESQL_BOOLEAN);
}

/* Whether the left operand of AND or OR alone decides: it is in error, or has this value. */
static bool is_decided(struct machine *m, bool deciding)
{
    struct slot *x = m->top;

    if (!x->error)
        x->error = cast(m, x, CESQL_BOOLEAN);
    if (x->error)
        set_error(x, CESQL_BOOLEAN, x->error);
    return x->error || x->value.boolean == deciding;
}

static void run_and_begin(struct machine *m, const struct cesql_op *op)
{
    if (is_decided(m, false))
        m->at = (size_t)op->integer;
}

static void run_or_begin(struct machine *m, const struct cesql_op *op)
{
    if (is_decided(m, true))
        m->at = (size_t)op->integer;
}

static void run_logic(struct machine *m, const struct cesql_op *op)
{
    struct slot *x, *y;

    if (!take_operands(m, CESQL_BOOLEAN, CESQL_BOOLEAN, &x, &y))
        return;
    bool a = x->value.boolean, b = y->value.boolean;
    x->value.boolean = op->code == OP_AND ? a && b : op->code == OP_OR ? a || b : a != b;
}

static enum cesql_error calculate(enum cesql_opcode code, int64_t x, int64_t y, int32_t *out_result)
{
    int64_t result;

    if ((code == OP_DIVIDE || code == OP_REMAINDER) && y == 0)
        return CESQL_MATH_ERROR;
    if (code == OP_MULTIPLY)
        result = x * y;
    else if (code == OP_DIVIDE)
        result = x / y;
    else if (code == OP_REMAINDER)
        result = x % y;
    else
        result = code == OP_ADD ? x + y : x - y;
    if (result < INT32_MIN || result > INT32_MAX)
        return CESQL_MATH_ERROR;
    *out_result = (int32_t)result;
    return CESQL_OK;
}

static void run_arithmetic(struct machine *m, const struct cesql_op *op)
{
    struct slot *x, *y;

    if (!take_operands(m, CESQL_INTEGER, CESQL_INTEGER, &x, &y))
        return;
    enum cesql_error error = calculate(op->code, x->value.integer, y->value.integer, &x->value.integer);
    if (error)
        set_error(x, CESQL_INTEGER, error);
}

/* Section 3.7: the type of the right operand chooses among the definitions of `=`. */
static void run_equality(struct machine *m, const struct cesql_op *op)
{
    struct slot *x, *y;

    if (take_operands(m, m->top->value.type, CESQL_BOOLEAN, &x, &y))
        x->value = cesql_value_boolean(cesql_value_equal(&x->value, &y->value) == (op->code == OP_EQUAL));
}

static void run_order(struct machine *m, const struct cesql_op *op)
{
    struct slot *x, *y;

    if (!take_operands(m, CESQL_INTEGER, CESQL_BOOLEAN, &x, &y))
        return;
    int32_t a = x->value.integer, b = y->value.integer;
    bool is_less = op->code == OP_LESS || op->code == OP_LESS_EQUAL;
    bool is_or_equal = op->code == OP_LESS_EQUAL || op->code == OP_GREATER_EQUAL;
    x->value = cesql_value_boolean((is_less ? a < b : a > b) || (is_or_equal && a == b));
}

static void (*const operations[])(struct machine *m, const struct cesql_op *op) = {
    [OP_STRING] = run_string,
    [OP_INTEGER] = run_integer,
    [OP_BOOLEAN] = run_boolean,
    [OP_ATTRIBUTE] = run_attribute,
    [OP_EXISTS] = run_exists,
    [OP_CALL] = run_call,
    [OP_NOT] = run_not,
    [OP_NEGATE] = run_negate,
    [OP_LIKE] = run_like,
    [OP_IN_BEGIN] = run_in_begin,
    [OP_IN_TEST] = run_in_test,
    [OP_IN_END] = run_in_end,
    [OP_AND_BEGIN] = run_and_begin,
    [OP_OR_BEGIN] = run_or_begin,
    [OP_AND] = run_logic,
    [OP_OR] = run_logic,
    [OP_XOR] = run_logic,
    [OP_MULTIPLY] = run_arithmetic,
    [OP_DIVIDE] = run_arithmetic,
    [OP_REMAINDER] = run_arithmetic,
    [OP_ADD] = run_arithmetic,
    [OP_SUBTRACT] = run_arithmetic,
    [OP_EQUAL] = run_equality,
    [OP_NOT_EQUAL] = run_equality,
    [OP_LESS] = run_order,
    [OP_LESS_EQUAL] = run_order,
    [OP_GREATER] = run_order,
    [OP_GREATER_EQUAL] = run_order,
};
static_assert(ARRAY_LEN(operations) == OPCODES, "every operation is there");

enum cesql_error cesql_evaluate(const struct cesql *expression, const struct cesql_attributes *attributes,
                                struct arena *scratch, struct cesql_value *out_value)
{
    struct slot few[FEW_SLOTS + 1], *stack = few;
    struct machine m = {expression, attributes, {scratch, CESQL_WORK_MAX}, NULL, 0};

    if (expression->max_stack > FEW_SLOTS)
        stack = arena_alloc(scratch, MEM_FANOUT, (expression->max_stack + 1u) * sizeof *stack);
    m.top = stack; /* below the first */
    while (m.at < expression->n_ops) {
        const struct cesql_op *op = &expression->ops[m.at++];

        operations[op->code](&m, op);
    }
    ASSERT(m.top == stack + 1);
    *out_value = m.top->value;
    return m.top->error;
}
