#include "registry/dn.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

enum { TYPE_BYTES = 64 };

/* One attribute as it is read. */
struct attribute {
    char type[TYPE_BYTES];
    size_t type_n;
    char value[DN_BYTES];
    size_t value_n;
    bool is_hex; /* the value is `#` and the DER in hexadecimal digits */
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_spaces(struct str *s)
{
    while (s->n && s->p[0] == ' ')
        *s = str_from_offset(*s, 1);
}

static bool is_special(char c)
{
    return c && strchr(",+\"\\<>;=#", c);
}

static err take_type(struct str *s, struct attribute *a)
{
    bool is_oid;

    skip_spaces(s);
    if (s->n > 4 && str_equal_nocase((struct str){s->p, 4}, STR("OID.")))
        *s = str_from_offset(*s, 4);
    if (s->n == 0 || (!is_letter(s->p[0]) && !is_digit(s->p[0])))
        return E_INVAL;
    is_oid = is_digit(s->p[0]);
    for (a->type_n = 0; s->n && a->type_n < TYPE_BYTES; *s = str_from_offset(*s, 1)) {
        char c = s->p[0];

        if (!is_digit(c) && (is_oid ? c != '.' : !is_letter(c) && c != '-'))
            break;
        a->type[a->type_n++] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    skip_spaces(s);
    if (s->n == 0 || s->p[0] != '=')
        return E_INVAL;
    *s = str_from_offset(*s, 1);
    skip_spaces(s);
    return E_OK;
}

/* What follows a backslash: a special character or two hexadecimal digits. */
static err take_escape(struct str *s, char *out)
{
    int high, low;

    if (s->n == 0)
        return E_INVAL;
    if (is_special(s->p[0]) || s->p[0] == ' ') {
        *out = s->p[0];
        *s = str_from_offset(*s, 1);
        return E_OK;
    }
    high = str_hex_digit(s->p[0]);
    low = s->n > 1 ? str_hex_digit(s->p[1]) : -1;
    if (high < 0 || low < 0)
        return E_INVAL;
    *out = (char)(high << 4 | low);
    *s = str_from_offset(*s, 2);
    return *out ? E_OK : E_INVAL;
}

static err take_hex_value(struct str *s, struct attribute *a)
{
    a->is_hex = true;
    a->value[a->value_n++] = '#';
    *s = str_from_offset(*s, 1);
    for (; s->n && str_hex_digit(s->p[0]) >= 0; *s = str_from_offset(*s, 1)) {
        if (a->value_n == DN_BYTES)
            return E_LIMIT;
        a->value[a->value_n++] = "0123456789abcdef"[str_hex_digit(s->p[0])];
    }
    return a->value_n > 1 && a->value_n % 2 == 1 ? E_OK : E_INVAL;
}

static err take_quoted_value(struct str *s, struct attribute *a)
{
    *s = str_from_offset(*s, 1);
    while (s->n && s->p[0] != '"') {
        char c = s->p[0];

        if (a->value_n == DN_BYTES)
            return E_LIMIT;
        *s = str_from_offset(*s, 1);
        if (c == '\\' && take_escape(s, &c) != E_OK)
            return E_INVAL;
        a->value[a->value_n++] = c;
    }
    if (s->n == 0)
        return E_INVAL;
    *s = str_from_offset(*s, 1);
    return E_OK;
}

static err take_plain_value(struct str *s, struct attribute *a)
{
    size_t kept = 0; /* up to the last character that is no space, or one that is escaped */

    while (s->n && !strchr(",;+", s->p[0])) {
        char c = s->p[0];

        if (a->value_n == DN_BYTES)
            return E_LIMIT;
        if (c == '"' || c == '<' || c == '>')
            return E_INVAL;
        *s = str_from_offset(*s, 1);
        if (c == '\\') {
            if (take_escape(s, &c) != E_OK)
                return E_INVAL;
            kept = a->value_n + 1;
        } else if (c != ' ') {
            kept = a->value_n + 1;
        }
        a->value[a->value_n++] = c;
    }
    a->value_n = kept;
    return E_OK;
}

/* Takes one attribute and the separator behind it (0 at the end). */
static err take_attribute(struct str *s, struct attribute *a, char *out_separator)
{
    err e = take_type(s, a);

    a->value_n = 0;
    a->is_hex = false;
    if (e == E_OK && s->n && s->p[0] == '#')
        e = take_hex_value(s, a);
    else if (e == E_OK && s->n && s->p[0] == '"')
        e = take_quoted_value(s, a);
    else if (e == E_OK)
        e = take_plain_value(s, a);
    if (e != E_OK)
        return e;
    skip_spaces(s);
    *out_separator = '\0';
    if (s->n == 0)
        return E_OK;
    if (!strchr(",;+", s->p[0]))
        return E_INVAL;
    *out_separator = s->p[0] == ';' ? ',' : s->p[0];
    *s = str_from_offset(*s, 1);
    return s->n ? E_OK : E_INVAL;
}

static bool put(char *to, size_t *n, struct str text)
{
    if (text.n > DN_BYTES - *n)
        return false;
    if (text.n)
        memcpy(to + *n, text.p, text.n);
    *n += text.n;
    return true;
}

static bool put_value(char *to, size_t *n, struct str value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        bool is_edge = (c == ' ' && (i == 0 || i == value.n - 1)) || (c == '#' && i == 0);

        if ((is_edge || (c && strchr(",+\"\\<>;", c))) && !put(to, n, STR("\\")))
            return false;
        if (!put(to, n, (struct str){&c, 1}))
            return false;
    }
    return true;
}

err dn_append(char to[DN_BYTES], size_t *n, char separator, struct str type, struct str value)
{
    if ((separator && !put(to, n, (struct str){&separator, 1})) || !put(to, n, type) || !put(to, n, STR("=")) ||
        !put_value(to, n, value))
        return E_LIMIT;
    return E_OK;
}

err dn_canonical(struct str text, char to[DN_BYTES], size_t *out_n)
{
    struct attribute a;
    char separator = '\0', next;
    size_t n = 0;

    if (text.n == 0 || memchr(text.p, 0, text.n))
        return E_INVAL;
    do {
        err e = take_attribute(&text, &a, &next);

        if (e != E_OK)
            return e;
        if (!a.is_hex)
            e = dn_append(to, &n, separator, (struct str){a.type, a.type_n}, (struct str){a.value, a.value_n});
        else if ((separator && !put(to, &n, (struct str){&separator, 1})) || !put(to, &n, (struct str){a.type, a.type_n}) ||
                 !put(to, &n, STR("=")) || !put(to, &n, (struct str){a.value, a.value_n}))
            e = E_LIMIT;
        if (e != E_OK)
            return e;
        separator = next;
    } while (next);
    *out_n = n;
    return E_OK;
}

err dn_find(struct str dn, struct str type, char to[DN_BYTES], size_t *out_n)
{
    struct attribute a;
    char next;

    do {
        err e = dn.n ? take_attribute(&dn, &a, &next) : E_NOTFOUND;

        if (e != E_OK)
            return e;
        if (!a.is_hex && str_equal((struct str){a.type, a.type_n}, type)) {
            memcpy(to, a.value, a.value_n);
            *out_n = a.value_n;
            return E_OK;
        }
    } while (next);
    return E_NOTFOUND;
}

static const struct {
    struct str placeholder, type;
} placeholders[] = {
    {STR_INIT("{{subject-dn}}"), {0}},
    {STR_INIT("{{subject-cn}}"), STR_INIT("CN")},
    {STR_INIT("{{subject-ou}}"), STR_INIT("OU")},
    {STR_INIT("{{subject-o}}"), STR_INIT("O")},
};

/* The row of the placeholder that `form` begins with; -1: none, -2: an unknown one. */
static int placeholder_at(struct str form)
{
    if (!str_starts_with(form, STR("{{")))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(placeholders); i++)
        if (str_starts_with(form, placeholders[i].placeholder))
            return (int)i;
    return -2;
}

bool dn_is_template(struct str form)
{
    for (; form.n; form = str_from_offset(form, 1))
        if (placeholder_at(form) == -2)
            return false;
    return true;
}

err dn_expand(struct str form, struct str dn, char to[DN_BYTES], size_t *out_n)
{
    size_t n = 0;

    while (form.n) {
        int row = placeholder_at(form);
        char value[DN_BYTES];
        struct str piece = {form.p, 1};
        err e = E_OK;

        if (row == -2)
            return E_INVAL;
        if (row >= 0) {
            piece = dn;
            if (placeholders[row].type.n) {
                e = dn_find(dn, placeholders[row].type, value, &piece.n);
                piece.p = value;
            }
        }
        if (e != E_OK)
            return e;
        if (!put(to, &n, piece))
            return E_LIMIT;
        form = str_from_offset(form, row >= 0 ? placeholders[row].placeholder.n : 1);
    }
    *out_n = n;
    return E_OK;
}
