/* fuzz_base64url: encodes what a fuzzer made, so that it reaches what is inside a token (RFC 7515, section 2). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* `to` has room for 4 characters for each 3 bytes begun; the number of characters. */
static inline size_t fuzz_base64url(char *to, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t out = 0;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);

        for (size_t k = 0; k < 4 && k <= n - i; k++)
            to[out++] = digits[three >> (18 - 6 * k) & 63];
    }
    return out;
}
