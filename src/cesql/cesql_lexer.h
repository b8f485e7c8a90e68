/* cesql_lexer: the words of a CESQL expression, one at a time (section 2). Views into the text. Pure functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum cesql_token_kind {
    TOKEN_END,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_PERCENT,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_EQUAL,
    TOKEN_NOT_EQUAL,
    TOKEN_LESS,
    TOKEN_LESS_EQUAL,
    TOKEN_GREATER,
    TOKEN_GREATER_EQUAL,
    TOKEN_AND,
    TOKEN_OR,
    TOKEN_XOR,
    TOKEN_NOT,
    TOKEN_LIKE,
    TOKEN_EXISTS,
    TOKEN_IN,
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NAME,    /* letters and digits: an attribute, or a function */
    TOKEN_CALL,    /* letters and `_`: only a function */
    TOKEN_INTEGER, /* digits, without a sign */
    TOKEN_STRING,  /* what stands between the quotes, escapes and all */
};

struct cesql_token {
    enum cesql_token_kind kind;
    size_t at;       /* offset in the text, of the quote for a string */
    struct str text; /* as it stands there */
    char quote;      /* of a string */
};

struct cesql_lexer {
    struct str text;
    size_t at; /* what comes next */
};

/* The next word; TOKEN_END again and again at the end. E_INVAL, with the column in `ei`, where no word begins or a string does not
 * end. */
MUST_USE err cesql_lexer_next(struct cesql_lexer *l, struct cesql_token *out_token, struct errinfo *ei);

/* The column of a byte, from 1, in characters. */
unsigned cesql_lexer_column(const struct cesql_lexer *l, size_t at);
