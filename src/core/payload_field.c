#include "core/payload_field.h"

#include <stdint.h>

#include "base/check.h"

enum { REPLACEMENT = 0xfffd };

/* What is not read yet. */
struct scan {
    const char *p, *end;
};

static bool skip_value(struct scan *s, unsigned depth);

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four digits at `p`, or -1. */
static int32_t read_hex(const char *p, const char *end)
{
    int32_t value = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Behind the backslash. */
static bool skip_escape(struct scan *s)
{
    static const char plain[] = "\"\\/bfnrt";

    if (s->p == s->end)
        return false;
    if (*s->p == 'u') {
        if (read_hex(s->p + 1, s->end) < 0)
            return false;
        s->p += 5;
        return true;
    }
    return memchr(plain, *s->p++, sizeof plain - 1) != NULL;
}

/* Behind the opening quote; leaves the scan behind the closing one. */
static bool take_string(struct scan *s, struct payload_field *out)
{
    const char *start = s->p;

    *out = (struct payload_field){.is_string = true};
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p++;

        if (c == '"') {
            out->raw = (struct str){start, (size_t)(s->p - start) - 1};
            return true;
        }
        if (c < 0x20)
            return false;
        if (c != '\\')
            continue;
        out->has_escapes = true;
        if (!skip_escape(s))
            return false;
    }
    return false;
}

static bool skip_digits(struct scan *s)
{
    const char *start = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > start;
}

static bool skip_number(struct scan *s)
{
    (void)take(s, '-');
    if (!take(s, '0') && !skip_digits(s))
        return false;
    if (take(s, '.') && !skip_digits(s))
        return false;
    if (s->p < s->end && (*s->p | 0x20) == 'e') {
        s->p++;
        if (!take(s, '+'))
            (void)take(s, '-');
        return skip_digits(s);
    }
    return true;
}

static bool skip_word(struct scan *s, struct str word)
{
    if ((size_t)(s->end - s->p) < word.n || memcmp(s->p, word.p, word.n) != 0)
        return false;
    s->p += word.n;
    return true;
}

/* A member's name and its colon; the value comes next. */
static bool take_name(struct scan *s, struct payload_field *out_name)
{
    skip_space(s);
    if (!take(s, '"') || !take_string(s, out_name))
        return false;
    skip_space(s);
    if (!take(s, ':'))
        return false;
    skip_space(s);
    return true;
}

/* Between two members or elements: true when there is another one. `*out_ok` is false when neither that nor the end stands
 * there. */
static bool has_next(struct scan *s, char end, bool is_first, bool *out_ok)
{
    skip_space(s);
    *out_ok = true;
    if (take(s, end))
        return false;
    if (is_first)
        return true;
    *out_ok = take(s, ',');
    skip_space(s);
    return *out_ok;
}

static bool skip_members(struct scan *s, char end, unsigned depth)
{
    struct payload_field name;
    bool is_ok, is_first = true;

    while (has_next(s, end, is_first, &is_ok)) {
        is_first = false;
        if (end == '}' && !take_name(s, &name))
            return false;
        if (!skip_value(s, depth + 1))
            return false;
    }
    return is_ok;
}

/* At the value's first byte; recursion is bounded by PAYLOAD_FIELD_MAX_DEPTH. */
static bool skip_value(struct scan *s, unsigned depth)
{
    struct payload_field string;

    if (s->p == s->end || depth > PAYLOAD_FIELD_MAX_DEPTH)
        return false;
    if (take(s, '"'))
        return take_string(s, &string);
    if (take(s, '{'))
        return skip_members(s, '}', depth);
    if (take(s, '['))
        return skip_members(s, ']', depth);
    if (*s->p == 't')
        return skip_word(s, STR("true"));
    if (*s->p == 'f')
        return skip_word(s, STR("false"));
    if (*s->p == 'n')
        return skip_word(s, STR("null"));
    return skip_number(s);
}

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* What `\uXXXX`, at `p` behind the `u`, stands for; a pair of surrogates is taken together. Moves `*p` behind it. */
static uint32_t take_code_point(const char **p, const char *end)
{
    uint32_t high = (uint32_t)read_hex(*p, end);

    *p += 4;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int32_t low = read_hex(*p + 2, end);

        if (low >= 0xdc00 && low <= 0xdfff) {
            *p += 6;
            return 0x10000 + ((high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        }
    }
    return REPLACEMENT;
}

/* The next character of a checked string into `out`, at most 4 bytes; returns how many. */
static size_t take_character(const char **p, const char *end, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *found;
    char c = *(*p)++;

    if (c != '\\') {
        out[0] = c;
        return 1;
    }
    c = *(*p)++;
    if (c == 'u')
        return put_utf8(take_code_point(p, end), out);
    found = memchr(from, c, sizeof from - 1);
    out[0] = found ? to[found - from] : c;
    return 1;
}

size_t payload_field_decode(struct str raw, char *out)
{
    const char *p = raw.p, *end = raw.p + raw.n;
    size_t n = 0;

    while (p < end) {
        char character[4];
        size_t k = take_character(&p, end, character);

        memcpy(out + n, character, k);
        n += k;
    }
    return n;
}

/* --- pointers --- */

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

static bool is_name(const struct payload_field *name, struct str token)
{
    const char *p = name->raw.p, *end = name->raw.p + name->raw.n;
    size_t at = 0;

    while (p < end) {
        char character[4];
        size_t n = take_character(&p, end, character);

        for (size_t i = 0; i < n; i++) {
            if (at == token.n)
                return false;
            char want = token.p[at++];
            if (want == '~')
                want = token.p[at++] == '1' ? '/' : '~';
            if (character[i] != want)
                return false;
        }
    }
    return at == token.n;
}

static bool enter_member(struct scan *s, struct str token)
{
    struct payload_field name;
    bool is_ok, is_first = true;

    while (has_next(s, '}', is_first, &is_ok)) {
        is_first = false;
        if (!take_name(s, &name))
            return false;
        if (is_name(&name, token))
            return true;
        if (!skip_value(s, 1))
            return false;
    }
    return false;
}

/* Indexes have no leading zeros (RFC 6901 section 4). */
static bool enter_element(struct scan *s, struct str token)
{
    bool is_ok, is_first = true;
    uint64_t left;

    if (!str_to_u64(token, UINT32_MAX, &left) || (token.n > 1 && token.p[0] == '0'))
        return false;
    while (has_next(s, ']', is_first, &is_ok)) {
        is_first = false;
        if (left-- == 0)
            return true;
        if (!skip_value(s, 1))
            return false;
    }
    return false;
}

static bool take_field(struct scan *s, struct payload_field *out)
{
    const char *start = s->p;

    if (s->p < s->end && *s->p == '"') {
        s->p++;
        return take_string(s, out);
    }
    if (!skip_value(s, 0))
        return false;
    *out = (struct payload_field){.raw = {start, (size_t)(s->p - start)}};
    return true;
}

static bool is_null(const struct payload_field *field)
{
    return !field->is_string && str_equal(field->raw, STR("null"));
}

bool payload_field_find(struct str text, struct str pointer, struct payload_field *out_field)
{
    const char *begin = text.n ? text.p : "";
    struct scan s = {begin, begin + text.n};
    struct payload_field field;

    skip_space(&s);
    while (pointer.n > 0) {
        struct str token = take_token(&pointer);

        if (take(&s, '{')) {
            if (!enter_member(&s, token))
                return false;
        } else if (!take(&s, '[') || !enter_element(&s, token)) {
            return false;
        }
    }
    if (!take_field(&s, &field) || is_null(&field))
        return false;
    *out_field = field;
    return true;
}

static struct str rest_of(const struct scan *s)
{
    return (struct str){s->p, (size_t)(s->end - s->p)};
}

bool payload_field_take(struct str *rest, struct payload_field *out_field)
{
    const char *begin = rest->n ? rest->p : "";
    struct scan s = {begin, begin + rest->n};

    skip_space(&s);
    if (!take_field(&s, out_field))
        return false;
    skip_space(&s);
    *rest = rest_of(&s);
    return true;
}

err payload_field_next_element(struct str *rest, bool *is_first, struct payload_field *out_field)
{
    const char *begin = rest->n ? rest->p : "";
    struct scan s = {begin, begin + rest->n};
    bool was_first = *is_first, is_ok;

    skip_space(&s);
    if (was_first && !take(&s, '['))
        return E_INVAL;
    *is_first = false;
    if (!has_next(&s, ']', was_first, &is_ok)) {
        skip_space(&s);
        return is_ok && s.p == s.end ? E_CLOSED : E_INVAL;
    }
    if (!take_field(&s, out_field))
        return E_INVAL;
    *rest = rest_of(&s);
    return E_OK;
}
