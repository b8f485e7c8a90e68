#include "core/rule_name.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

static void put(struct rule_name *name, char c)
{
    if (name->n == name->max_bytes) {
        name->is_too_long = true;
        return;
    }
    name->text[name->n++] = c;
    name->has_other = name->has_other || c != '.';
}

static void put_hex(struct rule_name *name, char c)
{
    static const char digits[] = "0123456789abcdef";

    put(name, '_');
    put(name, digits[(unsigned char)c >> 4]);
    put(name, digits[(unsigned char)c & 15]);
}

void rule_name_add_text(struct rule_name *name, struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        put(name, text.p[i]);
}

void rule_name_add_value(struct rule_name *name, struct str value, char stop)
{
    for (size_t i = 0; i < value.n && !name->is_too_long; i++) {
        char c = value.p[i];

        if (c == '_') {
            put(name, '_');
            put(name, '_');
        } else if (!is_plain(c) || c == stop || (c == '.' && !name->has_other)) {
            put_hex(name, c);
        } else {
            put(name, c);
        }
    }
}

bool rule_name_is_legal(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_plain(text.p[i]) && text.p[i] != '_')
            return false;
    return true;
}
