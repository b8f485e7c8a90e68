#include "cesql/cesql_lexer.h"

#include "base/check.h"

static const struct {
    struct str text;
    enum cesql_token_kind kind;
} keywords[] = {
    {STR_INIT("and"), TOKEN_AND}, {STR_INIT("or"), TOKEN_OR},     {STR_INIT("xor"), TOKEN_XOR},
    {STR_INIT("not"), TOKEN_NOT}, {STR_INIT("like"), TOKEN_LIKE}, {STR_INIT("exists"), TOKEN_EXISTS},
    {STR_INIT("in"), TOKEN_IN},   {STR_INIT("true"), TOKEN_TRUE}, {STR_INIT("false"), TOKEN_FALSE},
};

/* The longer before its beginning. */
static const struct {
    struct str text;
    enum cesql_token_kind kind;
} symbols[] = {
    {STR_INIT("!="), TOKEN_NOT_EQUAL},     {STR_INIT("<>"), TOKEN_NOT_EQUAL}, {STR_INIT("<="), TOKEN_LESS_EQUAL},
    {STR_INIT(">="), TOKEN_GREATER_EQUAL}, {STR_INIT("<"), TOKEN_LESS},       {STR_INIT(">"), TOKEN_GREATER},
    {STR_INIT("="), TOKEN_EQUAL},          {STR_INIT("("), TOKEN_OPEN},       {STR_INIT(")"), TOKEN_CLOSE},
    {STR_INIT(","), TOKEN_COMMA},          {STR_INIT("*"), TOKEN_STAR},       {STR_INIT("/"), TOKEN_SLASH},
    {STR_INIT("%"), TOKEN_PERCENT},        {STR_INIT("+"), TOKEN_PLUS},       {STR_INIT("-"), TOKEN_MINUS},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

unsigned cesql_lexer_column(const struct cesql_lexer *l, size_t at)
{
    unsigned column = 1;

    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)l->text.p[i] & 0xc0) != 0x80; /* not the rest of a character */
    return column;
}

/* A `\` keeps the character behind it from ending the string. */
static err read_string(struct cesql_lexer *l, struct cesql_token *token, struct errinfo *ei)
{
    size_t at = token->at + 1;

    token->kind = TOKEN_STRING;
    token->quote = l->text.p[token->at];
    while (at < l->text.n && l->text.p[at] != token->quote)
        at += l->text.p[at] == '\\' ? 2 : 1;
    if (at >= l->text.n)
        return errinfo_set(ei, E_INVAL, "column %u: the string does not end", cesql_lexer_column(l, token->at));
    token->text = (struct str){l->text.p + token->at + 1, at - token->at - 1};
    l->at = at + 1;
    return E_OK;
}

static err read_word(struct cesql_lexer *l, struct cesql_token *token, struct errinfo *ei)
{
    bool has_digit = false, has_letter = false, has_underscore = false;
    size_t at = token->at;

    for (; at < l->text.n; at++) {
        char c = l->text.p[at];

        if (!is_digit(c) && !is_letter(c) && c != '_')
            break;
        has_digit = has_digit || is_digit(c);
        has_letter = has_letter || is_letter(c);
        has_underscore = has_underscore || c == '_';
    }
    token->text = (struct str){l->text.p + token->at, at - token->at};
    l->at = at;
    if (has_underscore && (has_digit || token->text.p[0] == '_'))
        return errinfo_set(ei, E_INVAL,
                           "column %u: %.*s is neither an attribute (letters and digits) nor a function (letters and _)",
                           cesql_lexer_column(l, token->at), STR_ARG(token->text));
    token->kind = has_underscore ? TOKEN_CALL : has_letter ? TOKEN_NAME : TOKEN_INTEGER;
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (str_equal_nocase(token->text, keywords[i].text))
            token->kind = keywords[i].kind;
    return E_OK;
}

err cesql_lexer_next(struct cesql_lexer *l, struct cesql_token *out_token, struct errinfo *ei)
{
    while (l->at < l->text.n && strchr(" \t\r\n", l->text.p[l->at]) && l->text.p[l->at] != '\0')
        l->at++;
    *out_token = (struct cesql_token){.kind = TOKEN_END, .at = l->at};
    if (l->at == l->text.n)
        return E_OK;
    char c = l->text.p[l->at];
    if (c == '\'' || c == '"')
        return read_string(l, out_token, ei);
    if (is_letter(c) || is_digit(c) || c == '_')
        return read_word(l, out_token, ei);
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        if (!str_starts_with(str_from_offset(l->text, l->at), symbols[i].text))
            continue;
        out_token->kind = symbols[i].kind;
        out_token->text = (struct str){l->text.p + l->at, symbols[i].text.n};
        l->at += symbols[i].text.n;
        return E_OK;
    }
    return errinfo_set(ei, E_INVAL, "column %u: unexpected character", cesql_lexer_column(l, l->at));
}
