#include "base/utf8.h"

/* The first byte of a sequence says its length and the smallest code point that may be written with it (RFC 3629). */
static const struct {
    uint8_t mask;
    uint8_t lead;
    uint32_t minimum;
} sequences[] = {
    {0x80, 0x00, 0x0},
    {0xe0, 0xc0, 0x80},
    {0xf0, 0xe0, 0x800},
    {0xf8, 0xf0, 0x10000},
};

unsigned utf8_read(struct str s, uint32_t *out_code_point)
{
    const unsigned longest = sizeof sequences / sizeof *sequences;
    unsigned n = 0;

    if (s.n == 0)
        return 0;
    uint8_t first = (uint8_t)s.p[0];
    while (n < longest && (first & sequences[n].mask) != sequences[n].lead)
        n++;
    if (n == longest || s.n < n + 1u)
        return 0;

    uint32_t code_point = first & (uint8_t)~sequences[n].mask;
    for (unsigned i = 1; i <= n; i++) {
        uint8_t next = (uint8_t)s.p[i];

        if ((next & 0xc0) != 0x80)
            return 0;
        code_point = code_point << 6 | (next & 0x3fu);
    }
    bool is_surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
    if (code_point < sequences[n].minimum || code_point > 0x10ffff || is_surrogate)
        return 0;
    *out_code_point = code_point;
    return n + 1;
}

bool utf8_is_discouraged(uint32_t code_point)
{
    return code_point <= 0x1f || (code_point >= 0x7f && code_point <= 0x9f) || (code_point >= 0xfdd0 && code_point <= 0xfdef) ||
           (code_point & 0xfffe) == 0xfffe;
}

/* Both checks; inlined, so that each becomes a loop of its own. */
static inline bool scan(struct str s, bool refuse_discouraged)
{
    size_t i = 0;

    while (i < s.n) {
        uint32_t code_point;

        if (s.n - i >= sizeof(uint64_t)) {
            uint64_t w = utf8_word_load(s.p + i);

            if (utf8_word_high(w) == 0) {
                if (refuse_discouraged ? utf8_word_control(w) : utf8_word_equal(w, '\0'))
                    return false;
                i += sizeof w;
                continue;
            }
        }
        unsigned n = utf8_read((struct str){s.p + i, s.n - i}, &code_point);

        if (n == 0 || (refuse_discouraged ? utf8_is_discouraged(code_point) : code_point == 0))
            return false;
        i += n;
    }
    return true;
}

bool utf8_is_valid(struct str s)
{
    return scan(s, false);
}

bool utf8_is_plain(struct str s)
{
    return scan(s, true);
}
