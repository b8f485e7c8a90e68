#include "base/str.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

struct str str_trim(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_from_offset(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool str_equal_nocase(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

bool str_to_u64(struct str s, uint64_t max, uint64_t *out_value)
{
    uint64_t value = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        uint64_t digit = (uint64_t)(unsigned char)s.p[i] - '0';

        if (digit > 9 || digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out_value = value;
    return true;
}

bool str_equal_secret(struct str a, struct str b)
{
    /* volatile: the compiler must not find out early that the answer is settled. */
    volatile unsigned char difference = a.n != b.n;

    for (size_t i = 0; i < a.n && i < b.n; i++)
        difference = difference | ((unsigned char)a.p[i] ^ (unsigned char)b.p[i]);
    return difference == 0;
}
