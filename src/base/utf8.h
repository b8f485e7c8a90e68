/* utf8: checks text from outside. Pure functions, any thread. */
#pragma once

#include "base/str.h"

/* Whether `s` is well-formed UTF-8 as MQTT demands: no overlong form, no surrogate, nothing past U+10FFFF and no U+0000
 * [MQTT-1.5.4-1, 1.5.4-2]. The empty string is valid. Cost is linear; eight ASCII bytes are tested at a time. */
bool utf8_is_valid(struct str s);

/* Whether `s` is valid and also free of what MQTT section 1.5.4 advises against: the control characters U+0001 to U+001F and
 * U+007F to U+009F, and the non-characters (U+FDD0 to U+FDEF and the last two of each plane). */
bool utf8_is_plain(struct str s);

/* Reads the first code point of `s`. Returns how many bytes it takes, 1 to 4, or 0 when `s` is empty or does not start with
 * well-formed UTF-8; U+0000 counts as well-formed here. `*out_code_point` is written only on success. */
unsigned utf8_read(struct str s, uint32_t *out_code_point);

/* Whether a code point is one of those that utf8_is_plain() refuses, U+0000 among them. */
bool utf8_is_discouraged(uint32_t code_point);

/* Tests on eight bytes at once, `w` being any eight bytes of a text, for scanners of their own. A result of 0 says that no
 * byte has the property; a bit set at the top of a byte says that it has. The tests after the first are meaningful only
 * when utf8_word_high(w) is 0. */
static inline uint64_t utf8_word_load(const char *p)
{
    uint64_t w;

    memcpy(&w, p, sizeof w);
    return w;
}

static inline uint64_t utf8_word_high(uint64_t w)
{
    return w & 0x8080808080808080u;
}

/* Bytes that are not printable ASCII: 0x00 to 0x1f and 0x7f. */
static inline uint64_t utf8_word_control(uint64_t w)
{
    const uint64_t high = 0x8080808080808080u;
    uint64_t below_space = ~((w | high) - 0x2020202020202020u);
    uint64_t is_delete = w + 0x0101010101010101u;

    return (below_space | is_delete) & high;
}

/* Bytes equal to `c`, which is ASCII. */
static inline uint64_t utf8_word_equal(uint64_t w, char c)
{
    const uint64_t high = 0x8080808080808080u;
    uint64_t different = w ^ (0x0101010101010101u * (uint8_t)c);

    return ~(different + 0x7f7f7f7f7f7f7f7fu) & high;
}

/* How many bytes a result of the tests above marks. */
static inline unsigned utf8_word_count(uint64_t marks)
{
    return (unsigned)(((marks >> 7) * 0x0101010101010101u) >> 56);
}
