#include "registry/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* Appends to a pointer under construction; what has no room is left out. */
static size_t put(char *to, size_t size, size_t n, struct str text)
{
    size_t fits = text.n < size - 1 - n ? text.n : size - 1 - n;

    if (fits)
        memcpy(to + n, text.p, fits);
    return n + fits;
}

/* One step of a JSON pointer; `~` and `/` of a name are written as RFC 6901 section 3 says. */
static size_t put_step(char *to, size_t size, size_t n, const struct document_place *place)
{
    char digits[24];

    n = put(to, size, n, STR("/"));
    if (!place->name.p) {
        (void)snprintf(digits, sizeof digits, "%zu", place->index); /* fits */
        return put(to, size, n, str_from(digits));
    }
    for (size_t i = 0; i < place->name.n; i++) {
        char c = place->name.p[i];

        if (c == '~' || c == '/')
            n = put(to, size, n, c == '~' ? STR("~0") : STR("~1"));
        else
            n = put(to, size, n, (struct str){&c, 1});
    }
    return n;
}

static size_t put_place(char *to, size_t size, const struct document_place *place)
{
    const struct document_place *steps[DOCUMENT_MAX_DEPTH + 2];
    size_t n_steps = 0, n = 0;

    for (; place && n_steps < ARRAY_LEN(steps); place = place->outer)
        steps[n_steps++] = place;
    while (n_steps)
        n = put_step(to, size, n, steps[--n_steps]);
    return n;
}

/* Not in the middle of a character: the last one goes if it has several bytes. */
static void cut_utf8(char *text, size_t n, size_t size)
{
    if (n == size - 1)
        while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
            n--;
    if (n == 0)
        return;
    if ((unsigned char)text[n - 1] >= 0xc0)
        n--;
    text[n] = '\0';
}

err document_refuse(struct document_fault *fault, uint16_t status, const struct document_place *place, const char *format, ...)
{
    va_list args;
    size_t n;
    int wrote;

    if (fault->status)
        return E_INVAL;
    fault->status = status;
    n = put_place(fault->field, sizeof fault->field, place);
    fault->field[n] = '\0';
    if (n == sizeof fault->field - 1)
        cut_utf8(fault->field, n, sizeof fault->field);
    va_start(args, format);
    wrote = vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    if (wrote >= (int)sizeof fault->text)
        cut_utf8(fault->text, sizeof fault->text - 1, sizeof fault->text);
    return E_INVAL;
}

/* Before jansson recurses. Quotes are followed as far as this needs; whether the text is JSON is found out later. */
static bool is_too_deep(struct str text)
{
    unsigned depth = 0;
    bool is_quoted = false;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (is_quoted) {
            i += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"') {
            is_quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DOCUMENT_MAX_DEPTH)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

err document_parse(struct str text, bool is_empty_allowed, json_t **out_value, struct document_fault *fault)
{
    json_error_t error;
    json_t *value;

    if (text.n == 0 && is_empty_allowed) {
        *out_value = json_object();
        ASSERT(*out_value);
        return E_OK;
    }
    if (text.n == 0)
        return document_refuse(fault, 400, NULL, "a body is missing");
    if (is_too_deep(text))
        return document_refuse(fault, 400, NULL, "more than %d objects and lists within each other", DOCUMENT_MAX_DEPTH);
    value = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &error);
    if (!value)
        return document_refuse(fault, 400, NULL, "not JSON: line %d, column %d: %s", error.line, error.column, error.text);
    *out_value = value;
    return E_OK;
}

void document_set(json_t *object, const char *name, json_t *value)
{
    ASSERT(value);
    ASSERT(json_object_set_new(object, name, value) == 0);
}

void document_set_text(json_t *object, const char *name, struct str text)
{
    document_set(object, name, json_stringn(text.p ? text.p : "", text.n));
}
