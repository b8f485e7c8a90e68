#include "core/command_id.h"

#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"

enum {
    PREFIX_BYTES = 3,
    FLAGS_KAFKA = 2,
    FLAGS_MESSAGING = 6, /* the bits that say which messaging system it was */
    FLAGS_ALL = 7,
    SUPPLEMENTARY = 0x10000, /* from here on a code point takes two UTF-16 units */
};

/* The bytes of the first `units` UTF-16 units of `s`; false when it has fewer, or the last would be half of a code point. */
static bool take_units(struct str s, unsigned units, size_t *out_n)
{
    size_t n = 0;

    while (units > 0) {
        uint32_t code_point;
        unsigned bytes = utf8_read(str_from_offset(s, n), &code_point);
        unsigned takes = bytes && code_point >= SUPPLEMENTARY ? 2 : 1;

        if (bytes == 0 || takes > units)
            return false;
        n += bytes;
        units -= takes;
    }
    *out_n = n;
    return true;
}

/* In UTF-16 units; `s` is valid UTF-8. */
static unsigned count_units(struct str s)
{
    unsigned units = 0;

    for (size_t n = 0; n < s.n;) {
        uint32_t code_point = 0;

        n += utf8_read(str_from_offset(s, n), &code_point);
        units += code_point >= SUPPLEMENTARY ? 2 : 1;
    }
    return units;
}

bool command_id_is_legal(struct str correlation_id)
{
    if (correlation_id.n == 0 || correlation_id.n > 3 * COMMAND_ID_UNITS_MAX || !utf8_is_plain(correlation_id))
        return false;
    for (size_t i = 0; i < correlation_id.n; i++)
        if (correlation_id.p[i] == '/' || correlation_id.p[i] == '+' || correlation_id.p[i] == '#')
            return false;
    return count_units(correlation_id) <= COMMAND_ID_UNITS_MAX;
}

size_t command_id_write(struct str correlation_id, char to[COMMAND_ID_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned units;

    DASSERT(command_id_is_legal(correlation_id));
    units = count_units(correlation_id);
    to[0] = '0' + FLAGS_KAFKA;
    to[1] = digits[units >> 4 & 15];
    to[2] = digits[units & 15];
    memcpy(to + PREFIX_BYTES, correlation_id.p, correlation_id.n);
    return PREFIX_BYTES + correlation_id.n;
}

bool command_id_read(struct str request_id, struct str *out_correlation_id)
{
    int flags, high, low;
    size_t n;

    if (request_id.n <= PREFIX_BYTES)
        return false;
    flags = request_id.p[0] - '0';
    /* Capital letters too: whoever wrote it, the number is clear. */
    high = str_hex_digit(request_id.p[1]);
    low = str_hex_digit(request_id.p[2]);
    if (flags < 0 || flags > FLAGS_ALL || (flags & FLAGS_MESSAGING) != FLAGS_KAFKA || high < 0 || low < 0 || high + low == 0)
        return false;
    if (!take_units(str_from_offset(request_id, PREFIX_BYTES), (unsigned)(high << 4 | low), &n))
        return false;
    *out_correlation_id = (struct str){request_id.p + PREFIX_BYTES, n};
    return true;
}
