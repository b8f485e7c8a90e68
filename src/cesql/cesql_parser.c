/* The compiler of cesql.h: one pass over the words, by precedence (section 3.6), straight to code (cesql_code.h). Recursion follows
 * parentheses, arguments and prefix operators only, so CESQL_DEPTH_MAX bounds it, while chains of operators are loops. */
#include "base/buf.h"
#include "base/check.h"
#include "base/utf8.h"
#include "cesql/cesql_code.h"
#include "cesql/cesql_lexer.h"

enum { NO_JUMP = -1, LOWEST = 1 };

struct binary {
    enum cesql_token_kind token;
    uint8_t precedence; /* the higher, the closer */
    uint16_t code, code_begin;
};

static const struct binary binaries[] = {
    {TOKEN_AND, 1, OP_AND, OP_AND_BEGIN},
    {TOKEN_OR, 1, OP_OR, OP_OR_BEGIN},
    {TOKEN_XOR, 1, OP_XOR, OPCODES},
    {TOKEN_EQUAL, 2, OP_EQUAL, OPCODES},
    {TOKEN_NOT_EQUAL, 2, OP_NOT_EQUAL, OPCODES},
    {TOKEN_LESS, 2, OP_LESS, OPCODES},
    {TOKEN_LESS_EQUAL, 2, OP_LESS_EQUAL, OPCODES},
    {TOKEN_GREATER, 2, OP_GREATER, OPCODES},
    {TOKEN_GREATER_EQUAL, 2, OP_GREATER_EQUAL, OPCODES},
    {TOKEN_PLUS, 3, OP_ADD, OPCODES},
    {TOKEN_MINUS, 3, OP_SUBTRACT, OPCODES},
    {TOKEN_STAR, 4, OP_MULTIPLY, OPCODES},
    {TOKEN_SLASH, 4, OP_DIVIDE, OPCODES},
    {TOKEN_PERCENT, 4, OP_REMAINDER, OPCODES},
};

struct parser {
    struct cesql_lexer lexer;
    struct cesql_token token; /* the next word */
    struct arena *arena;
    struct errinfo *ei;
    struct buf ops; /* struct cesql_op */
    size_t n_ops;
    uint32_t stack, max_stack; /* at this point of the code */
    unsigned depth;
    struct str missing_function;
};

static err parse_expression(struct parser *p, unsigned lowest);

static err fail(struct parser *p, const char *what)
{
    struct str text = p->token.text;

    if (p->token.kind == TOKEN_END)
        return errinfo_set(p->ei, E_INVAL, "column %u: %s, but the expression ends", cesql_lexer_column(&p->lexer, p->token.at),
                           what);
    text.n = text.n > 40 ? 40 : text.n;
    return errinfo_set(p->ei, E_INVAL, "column %u: %s, but found %.*s", cesql_lexer_column(&p->lexer, p->token.at), what,
                       STR_ARG(text));
}

static err next(struct parser *p)
{
    return cesql_lexer_next(&p->lexer, &p->token, p->ei);
}

static err expect(struct parser *p, enum cesql_token_kind kind, const char *what)
{
    return p->token.kind == kind ? next(p) : fail(p, what);
}

static struct cesql_op *op_at(struct parser *p, size_t at)
{
    return (struct cesql_op *)(void *)p->ops.p + at;
}

/* Adds an operation that takes `pops` values and gives one. */
static err emit(struct parser *p, struct cesql_op op, uint32_t pops)
{
    if (buf_append(&p->ops, MEM_CONFIG, (struct str){(const char *)&op, sizeof op}) != E_OK)
        return errinfo_set(p->ei, E_INVAL, "there is no memory for the expression");
    p->n_ops++;
    p->stack = p->stack - pops + 1;
    p->max_stack = p->stack > p->max_stack ? p->stack : p->max_stack;
    return E_OK;
}

/* Jumps to one place are a chain, each with the index of the one before, until the place is known. */
static err emit_jump(struct parser *p, enum cesql_opcode code, uint32_t pops, int32_t *chain)
{
    int32_t before = *chain;

    *chain = (int32_t)p->n_ops;
    return emit(p, (struct cesql_op){.code = (uint16_t)code, .integer = before}, pops);
}

static void land(struct parser *p, int32_t chain)
{
    while (chain != NO_JUMP) {
        struct cesql_op *op = op_at(p, (size_t)chain);

        chain = op->integer;
        op->integer = (int32_t)p->n_ops;
    }
}

/* --- words --- */

static err parse_integer(struct parser *p, bool is_negative)
{
    uint64_t magnitude;

    if (!str_to_u64(p->token.text, (uint64_t)INT32_MAX + is_negative, &magnitude))
        return fail(p, "an integer has 32 bits");
    int64_t value = is_negative ? -(int64_t)magnitude : (int64_t)magnitude;
    err e = emit(p, (struct cesql_op){.code = OP_INTEGER, .integer = (int32_t)value}, 0);
    return e == E_OK ? next(p) : e;
}

static err parse_plain(struct parser *p)
{
    return parse_integer(p, false);
}

static err parse_boolean(struct parser *p)
{
    err e = emit(p, (struct cesql_op){.code = OP_BOOLEAN, .integer = p->token.kind == TOKEN_TRUE}, 0);

    return e == E_OK ? next(p) : e;
}

/* Section 2.2: only the quote is escaped; any other `\` stands for itself. */
static struct str unescape(struct parser *p)
{
    struct str raw = p->token.text;
    char *to = arena_alloc(p->arena, MEM_CONFIG, raw.n);
    size_t n = 0;

    for (size_t i = 0; i < raw.n; i++) {
        if (raw.p[i] == '\\' && i + 1 < raw.n && raw.p[i + 1] == p->token.quote)
            i++;
        else if (raw.p[i] == '\\' && i + 1 < raw.n)
            to[n++] = raw.p[i++];
        to[n++] = raw.p[i];
    }
    return (struct str){to, n};
}

static err parse_string(struct parser *p)
{
    err e = emit(p, (struct cesql_op){.code = OP_STRING, .text = unescape(p)}, 0);

    return e == E_OK ? next(p) : e;
}

static err parse_attribute(struct parser *p, struct str name, enum cesql_opcode code)
{
    struct str copy = arena_copy(p->arena, MEM_CONFIG, name);
    char *to = arena_alloc(p->arena, MEM_CONFIG, copy.n + 1);

    for (size_t i = 0; i < copy.n; i++)
        to[i] = copy.p[i] >= 'A' && copy.p[i] <= 'Z' ? (char)(copy.p[i] + ('a' - 'A')) : copy.p[i];
    return emit(p, (struct cesql_op){.code = (uint16_t)code, .text = {to, copy.n}}, 0);
}

/* One or more expressions up to the `)`; the `(` has been read. */
static err parse_list(struct parser *p, err (*then)(struct parser *p, void *context), void *context)
{
    for (;;) {
        err e = parse_expression(p, LOWEST);

        if (e == E_OK)
            e = then(p, context);
        if (e != E_OK || p->token.kind != TOKEN_COMMA)
            return e == E_OK ? expect(p, TOKEN_CLOSE, "expected `,` or `)`") : e;
        e = next(p);
        if (e != E_OK)
            return e;
    }
}

static err count_argument(struct parser *p, void *context)
{
    (void)p;
    ++*(uint16_t *)context; /* a text has less than 65,536 words */
    return E_OK;
}

static err parse_call(struct parser *p, struct str name)
{
    const struct cesql_function *function;
    uint16_t n = 0;
    err e = next(p);

    if (e == E_OK)
        e = p->token.kind == TOKEN_CLOSE ? next(p) : parse_list(p, count_argument, &n);
    if (e != E_OK)
        return e;
    function = cesql_function_find(name, n);
    if (!function && p->missing_function.n == 0)
        p->missing_function = arena_copy(p->arena, MEM_CONFIG, name);
    return emit(p, (struct cesql_op){.code = OP_CALL, .n_arguments = n, .function = function}, n);
}

static bool has_digit(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] >= '0' && s.p[i] <= '9')
            return true;
    return false;
}

static err parse_name(struct parser *p)
{
    struct cesql_token name = p->token;
    err e = next(p);

    if (e != E_OK)
        return e;
    if (p->token.kind == TOKEN_OPEN && !has_digit(name.text))
        return parse_call(p, name.text);
    if (name.kind == TOKEN_CALL)
        return fail(p, "expected `(` behind the name of a function");
    return parse_attribute(p, name.text, OP_ATTRIBUTE);
}

static err parse_group(struct parser *p)
{
    err e = next(p);

    if (e == E_OK)
        e = parse_expression(p, LOWEST);
    return e == E_OK ? expect(p, TOKEN_CLOSE, "expected `)`") : e;
}

static err parse_exists(struct parser *p)
{
    err e = next(p);

    if (e != E_OK)
        return e;
    if (p->token.kind != TOKEN_NAME && p->token.kind != TOKEN_INTEGER)
        return fail(p, "expected the name of an attribute behind EXISTS");
    e = parse_attribute(p, p->token.text, OP_EXISTS);
    return e == E_OK ? next(p) : e;
}

/* --- operators --- */

static err parse_operand(struct parser *p);

/* NOT and the minus, and the sign of a number, which belongs to it when nothing stands between. */
static err parse_prefix(struct parser *p)
{
    enum cesql_token_kind kind = p->token.kind;
    size_t end = p->token.at + 1;
    err e = next(p);

    if (e != E_OK)
        return e;
    if (kind != TOKEN_NOT && p->token.kind == TOKEN_INTEGER && p->token.at == end)
        return parse_integer(p, kind == TOKEN_MINUS);
    if (kind == TOKEN_PLUS)
        return fail(p, "expected digits behind the sign");
    e = parse_operand(p);
    return e == E_OK ? emit(p, (struct cesql_op){.code = kind == TOKEN_NOT ? OP_NOT : OP_NEGATE}, 1) : e;
}

/* What an operand may begin with. */
static err (*const operands[])(struct parser *p) = {
    [TOKEN_OPEN] = parse_group,    [TOKEN_NOT] = parse_prefix,    [TOKEN_MINUS] = parse_prefix,  [TOKEN_PLUS] = parse_prefix,
    [TOKEN_EXISTS] = parse_exists, [TOKEN_TRUE] = parse_boolean,  [TOKEN_FALSE] = parse_boolean, [TOKEN_NAME] = parse_name,
    [TOKEN_CALL] = parse_name,     [TOKEN_INTEGER] = parse_plain, [TOKEN_STRING] = parse_string,
};

static err parse_operand(struct parser *p)
{
    err e;

    if (p->depth == CESQL_DEPTH_MAX)
        return errinfo_set(p->ei, E_INVAL, "column %u: more than %d levels", cesql_lexer_column(&p->lexer, p->token.at),
                           CESQL_DEPTH_MAX);
    if ((size_t)p->token.kind >= ARRAY_LEN(operands) || !operands[p->token.kind])
        return fail(p, "expected a value");
    p->depth++;
    e = operands[p->token.kind](p);
    p->depth--;
    return e;
}

static err parse_like(struct parser *p)
{
    const struct cesql_like *like;
    unsigned column;
    err e = next(p);

    if (e != E_OK)
        return e;
    if (p->token.kind != TOKEN_STRING)
        return fail(p, "expected a string as the pattern of LIKE");
    column = cesql_lexer_column(&p->lexer, p->token.at);
    if (cesql_like_compile(p->arena, unescape(p), &like) != E_OK)
        return errinfo_set(p->ei, E_INVAL, "column %u: more than %d bytes between two `%%` of a pattern with `_`", column,
                           CESQL_LIKE_PIECE_MAX);
    e = emit(p, (struct cesql_op){.code = OP_LIKE, .like = like}, 1);
    return e == E_OK ? next(p) : e;
}

static err test_element(struct parser *p, void *context)
{
    return emit_jump(p, OP_IN_TEST, 2, context);
}

static err parse_in(struct parser *p)
{
    int32_t jumps = NO_JUMP;
    err e = emit_jump(p, OP_IN_BEGIN, 1, &jumps);

    if (e == E_OK)
        e = next(p);
    if (e == E_OK)
        e = expect(p, TOKEN_OPEN, "expected `(` behind IN");
    if (e == E_OK)
        e = parse_list(p, test_element, &jumps);
    if (e == E_OK)
        e = emit(p, (struct cesql_op){.code = OP_IN_END}, 1);
    land(p, jumps);
    return e;
}

/* An operand and what may stand behind it: [NOT] LIKE, [NOT] IN. */
static err parse_postfix(struct parser *p)
{
    err e = parse_operand(p);

    while (e == E_OK) {
        bool is_not = p->token.kind == TOKEN_NOT;

        if (is_not)
            e = next(p);
        if (e != E_OK)
            break;
        if (p->token.kind == TOKEN_LIKE)
            e = parse_like(p);
        else if (p->token.kind == TOKEN_IN)
            e = parse_in(p);
        else
            return is_not ? fail(p, "expected LIKE or IN behind NOT") : E_OK;
        if (e == E_OK && is_not)
            e = emit(p, (struct cesql_op){.code = OP_NOT}, 1);
    }
    return e;
}

static const struct binary *find_binary(enum cesql_token_kind token, unsigned lowest)
{
    for (size_t i = 0; i < ARRAY_LEN(binaries); i++)
        if (binaries[i].token == token && binaries[i].precedence >= lowest)
            return &binaries[i];
    return NULL;
}

/* An expression whose operators have at least this precedence. The right operand of one has a higher, so equals group from the left. */
static err parse_expression(struct parser *p, unsigned lowest)
{
    const struct binary *found;
    err e = parse_postfix(p);

    while (e == E_OK && (found = find_binary(p->token.kind, lowest))) {
        int32_t jumps = NO_JUMP;

        e = next(p);
        if (e == E_OK && found->code_begin != OPCODES)
            e = emit_jump(p, found->code_begin, 1, &jumps);
        if (e == E_OK)
            e = parse_expression(p, found->precedence + 1u);
        if (e == E_OK)
            e = emit(p, (struct cesql_op){.code = found->code}, 2);
        land(p, jumps);
    }
    return e;
}

static err parse(struct parser *p)
{
    err e = next(p);

    if (e == E_OK)
        e = parse_expression(p, LOWEST);
    return e == E_OK ? expect(p, TOKEN_END, "expected an operator") : e;
}

err cesql_compile(struct arena *a, struct str text, const struct cesql **out_expression, struct errinfo *ei)
{
    struct parser p = {.lexer = {.text = text}, .arena = a, .ei = ei};
    struct cesql *expression;
    err e;

    if (text.n > CESQL_TEXT_MAX)
        return errinfo_set(ei, E_INVAL, "the expression has %zu bytes, more than %d", text.n, CESQL_TEXT_MAX);
    if (!utf8_is_valid(text))
        return errinfo_set(ei, E_INVAL, "the expression is not valid UTF-8");
    e = parse(&p);
    if (e == E_OK) {
        expression = arena_alloc(a, MEM_CONFIG, sizeof *expression + p.n_ops * sizeof *expression->ops);
        expression->n_ops = (uint32_t)p.n_ops;
        expression->max_stack = p.max_stack;
        expression->missing_function = p.missing_function;
        memcpy(expression->ops, p.ops.p, p.n_ops * sizeof *expression->ops);
        *out_expression = expression;
    }
    buf_free(&p.ops, MEM_CONFIG);
    return e;
}
