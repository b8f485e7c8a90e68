#include "core/payload_field.h"

#include <stdint.h>

bool payload_field_is_pointer(struct str pointer)
{
    if (pointer.n > 0 && pointer.p[0] != '/')
        return false;
    for (size_t i = 0; i < pointer.n; i++)
        if (pointer.p[i] == '~' && (i + 1 == pointer.n || (pointer.p[i + 1] != '0' && pointer.p[i + 1] != '1')))
            return false;
    return true;
}

/* The token behind the leading slash, still escaped. */
static struct str take_token(struct str *pointer)
{
    struct str rest = str_from_offset(*pointer, 1);
    bool found;
    struct str token = str_take(&rest, '/', &found);

    *pointer = found ? (struct str){token.p + token.n, rest.n + 1} : (struct str){0};
    return token;
}

static bool is_name(struct str name, struct str token)
{
    char character[4];
    size_t at = 0, n;

    while ((n = jsonr_take_character(&name, character)) > 0)
        for (size_t i = 0; i < n; i++) {
            if (at == token.n)
                return false;
            char want = token.p[at++];
            if (want == '~')
                want = token.p[at++] == '1' ? '/' : '~';
            if (character[i] != want)
                return false;
        }
    return at == token.n;
}

/* Of equal names the first counts. */
static bool enter_member(struct jsonr *r, struct str token)
{
    struct jsonr_value name, ignored;
    bool is_ok, is_first = true;

    while (jsonr_has_next(r, '}', &is_first, &is_ok)) {
        if (!jsonr_take_name(r, &name))
            return false;
        if (is_name(name.raw, token))
            return true;
        if (!jsonr_take_value(r, &ignored))
            return false;
    }
    return false;
}

/* Indexes have no leading zeros (RFC 6901 section 4). */
static bool enter_element(struct jsonr *r, struct str token)
{
    struct jsonr_value ignored;
    bool is_ok, is_first = true;
    uint64_t left;

    if (!str_to_u64(token, UINT32_MAX, &left) || (token.n > 1 && token.p[0] == '0'))
        return false;
    while (jsonr_has_next(r, ']', &is_first, &is_ok)) {
        if (left-- == 0)
            return true;
        if (!jsonr_take_value(r, &ignored))
            return false;
    }
    return false;
}

bool payload_field_find(struct str text, struct str pointer, struct jsonr_value *out_field)
{
    struct jsonr r = jsonr_begin(text);
    struct jsonr_value field;

    while (pointer.n > 0) {
        struct str token = take_token(&pointer);

        if (jsonr_enter(&r, '{')) {
            if (!enter_member(&r, token))
                return false;
        } else if (!jsonr_enter(&r, '[') || !enter_element(&r, token)) {
            return false;
        }
    }
    if (!jsonr_take_value(&r, &field) || field.kind == JSONR_NULL)
        return false;
    *out_field = field;
    return true;
}
