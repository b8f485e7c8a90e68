#include "base/jsonr.h"

#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"

enum { REPLACEMENT = 0xfffd };

static bool skip_value(struct jsonr *r, unsigned depth, struct jsonr_value *out);

static void skip_space(struct jsonr *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

static bool take(struct jsonr *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

/* --- strings --- */

/* Four digits at `p`, or -1. */
static int32_t read_hex(const char *p, const char *end)
{
    int32_t value = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = str_hex_digit(p[i]);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* What `\uXXXX`, at `*p` behind the `u`, stands for; a pair of surrogates is taken together, REPLACEMENT stands for half of one.
 * Moves `*p` behind it. -1: these are no four digits. */
static int32_t take_code_point(const char **p, const char *end, bool *out_is_lone)
{
    int32_t high = read_hex(*p, end);

    *out_is_lone = false;
    if (high < 0)
        return -1;
    *p += 4;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int32_t low = read_hex(*p + 2, end);

        if (low >= 0xdc00 && low <= 0xdfff) {
            *p += 6;
            return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    *out_is_lone = true;
    return REPLACEMENT;
}

/* Behind the backslash. */
static bool skip_escape(struct jsonr *r, struct jsonr_value *string)
{
    static const char plain[] = "\"\\/bfnrt";
    bool is_lone;

    if (r->p == r->end)
        return false;
    if (*r->p != 'u')
        return memchr(plain, *r->p++, sizeof plain - 1) != NULL;
    r->p++;
    if (take_code_point(&r->p, r->end, &is_lone) < 0)
        return false;
    string->has_lone_surrogate |= is_lone;
    return true;
}

/* Over what is a string's without a closer look, eight bytes at a time. */
static void skip_plain(struct jsonr *r)
{
    while (r->end - r->p >= (ptrdiff_t)sizeof(uint64_t)) {
        uint64_t w = utf8_word_load(r->p);

        if (utf8_word_high(w) || utf8_word_control(w) || utf8_word_equal(w, '"') || utf8_word_equal(w, '\\'))
            return;
        r->p += sizeof w;
    }
}

/* Behind the opening quote; leaves the reader behind the closing one. */
static bool take_string(struct jsonr *r, struct jsonr_value *out)
{
    const char *start = r->p;

    *out = (struct jsonr_value){.kind = JSONR_STRING};
    skip_plain(r);
    while (r->p < r->end) {
        unsigned char c = (unsigned char)*r->p++;

        if (c == '"') {
            out->raw = (struct str){start, (size_t)(r->p - start) - 1};
            return true;
        }
        if (c < 0x20)
            return false;
        if (c != '\\')
            continue;
        out->has_escapes = true;
        if (!skip_escape(r, out))
            return false;
        skip_plain(r);
    }
    return false;
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

size_t jsonr_take_character(struct str *raw, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *p = raw->p, *end, *found;
    size_t n = 1;
    bool is_lone;

    if (!raw->n)
        return 0;
    end = p + raw->n;
    out[0] = *p++;
    if (out[0] == '\\') {
        char c = *p++;

        found = memchr(from, c, sizeof from - 1);
        if (c == 'u')
            n = put_utf8((uint32_t)take_code_point(&p, end, &is_lone), out);
        else
            out[0] = found ? to[found - from] : c;
    }
    *raw = (struct str){p, (size_t)(end - p)};
    return n;
}

size_t jsonr_decode(struct str raw, char *out)
{
    char character[4];
    size_t n = 0, k;

    while ((k = jsonr_take_character(&raw, character)) > 0) {
        memcpy(out + n, character, k);
        n += k;
    }
    return n;
}

/* --- values --- */

static bool skip_digits(struct jsonr *r)
{
    const char *start = r->p;

    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > start;
}

static bool skip_number(struct jsonr *r)
{
    (void)take(r, '-');
    if (!take(r, '0') && !skip_digits(r))
        return false;
    if (take(r, '.') && !skip_digits(r))
        return false;
    if (r->p < r->end && (*r->p | 0x20) == 'e') {
        r->p++;
        if (!take(r, '+'))
            (void)take(r, '-');
        return skip_digits(r);
    }
    return true;
}

static bool skip_word(struct jsonr *r, struct str word)
{
    if (!str_starts_with(jsonr_rest(r), word))
        return false;
    r->p += word.n;
    return true;
}

static bool skip_members(struct jsonr *r, char closing, unsigned depth)
{
    struct jsonr_value ignored;
    bool is_ok, is_first = true;

    r->p++; /* what opens it */
    if (depth == JSONR_MAX_DEPTH)
        return false;
    /* jsonr_has_next() takes the white space behind the end as well: harmless here. */
    while (jsonr_has_next(r, closing, &is_first, &is_ok)) {
        if (closing == '}' && !jsonr_take_name(r, &ignored))
            return false;
        if (!skip_value(r, depth + 1, &ignored))
            return false;
    }
    return is_ok;
}

/* At the value's first byte; recursion is bounded by JSONR_MAX_DEPTH. */
static bool skip_value(struct jsonr *r, unsigned depth, struct jsonr_value *out)
{
    *out = (struct jsonr_value){0};
    if (r->p == r->end)
        return false;
    switch (*r->p) {
    case '"':
        r->p++;
        return take_string(r, out);
    case '{':
        out->kind = JSONR_OBJECT;
        return skip_members(r, '}', depth);
    case '[':
        out->kind = JSONR_ARRAY;
        return skip_members(r, ']', depth);
    case 't':
        out->kind = JSONR_TRUE;
        return skip_word(r, STR("true"));
    case 'f':
        out->kind = JSONR_FALSE;
        return skip_word(r, STR("false"));
    case 'n':
        return skip_word(r, STR("null"));
    default:
        out->kind = JSONR_NUMBER;
        return skip_number(r);
    }
}

/* A container's end was taken with the white space behind it. */
static struct str without_space_behind(const char *from, const char *to)
{
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\n' || to[-1] == '\r'))
        to--;
    return (struct str){from, (size_t)(to - from)};
}

struct jsonr jsonr_begin(struct str text)
{
    const char *begin = text.n ? text.p : "";
    struct jsonr r = {begin, begin + text.n};

    skip_space(&r);
    return r;
}

bool jsonr_take_value(struct jsonr *r, struct jsonr_value *out_value)
{
    const char *start = r->p;
    struct jsonr_value value;

    if (!skip_value(r, 0, &value))
        return false;
    if (value.kind != JSONR_STRING)
        value.raw = without_space_behind(start, r->p);
    skip_space(r);
    *out_value = value;
    return true;
}

bool jsonr_enter(struct jsonr *r, char opening)
{
    return take(r, opening);
}

bool jsonr_has_next(struct jsonr *r, char closing, bool *is_first, bool *out_ok)
{
    bool was_first = *is_first;

    *is_first = false;
    *out_ok = true;
    skip_space(r);
    if (take(r, closing)) {
        skip_space(r);
        return false;
    }
    if (was_first)
        return true;
    *out_ok = take(r, ',');
    skip_space(r);
    return *out_ok;
}

bool jsonr_take_name(struct jsonr *r, struct jsonr_value *out_name)
{
    if (!take(r, '"') || !take_string(r, out_name))
        return false;
    skip_space(r);
    if (!take(r, ':'))
        return false;
    skip_space(r);
    return true;
}
