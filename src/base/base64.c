#include "base/base64.h"

#include <stdint.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* Four characters, of which the last `n_padding` are '='. */
static bool decode_group(const char *p, size_t n_padding, char *out)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < 4 - n_padding ? value_of(p[i]) : 0;

        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    if (bits & ((UINT32_C(1) << 8 * n_padding) - 1))
        return false;
    for (size_t i = 0; i < 3 - n_padding; i++)
        out[i] = (char)(unsigned char)(bits >> (16 - 8 * i));
    return true;
}

bool base64_decode(struct str text, char *out, size_t *out_n)
{
    size_t n = 0;

    if (text.n % 4)
        return false;
    for (size_t i = 0; i < text.n; i += 4) {
        const char *p = text.p + i;
        bool is_last = i + 4 == text.n;
        size_t n_padding = is_last && p[3] == '=' ? 1 + (p[2] == '=') : 0;

        if (!decode_group(p, n_padding, out + n))
            return false;
        n += 3 - n_padding;
    }
    *out_n = n;
    return true;
}

/* Up to four characters of the other alphabet, in this one. */
static bool translate(const char *p, size_t n, char group[4])
{
    for (size_t i = 0; i < 4; i++) {
        char c = i < n ? p[i] : '=';

        if (i < n && (c == '+' || c == '/' || c == '='))
            return false;
        group[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    return true;
}

bool base64_decode_url(struct str text, char *out, size_t *out_n)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i += 4) {
        size_t have = text.n - i < 4 ? text.n - i : 4;
        char group[4];

        if (have == 1 || !translate(text.p + i, have, group) || !decode_group(group, 4 - have, out + n))
            return false;
        n += have - 1;
    }
    *out_n = n;
    return true;
}

size_t base64_encode(struct str bytes, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;

    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t bits = 0;

        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < have ? (uint8_t)bytes.p[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            out[n++] = j <= have ? digits[bits >> (18 - 6 * j) & 0x3f] : '=';
    }
    return n;
}
