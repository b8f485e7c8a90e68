/* base64: RFC 4648 section 4, as HTTP's Basic credentials and JSON's binary values have it. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The most bytes that a text of `n` characters becomes. */
#define BASE64_DECODED_BYTES(n) (((n) + 3) / 4 * 3)

/* The characters that `n` bytes become. */
#define BASE64_ENCODED_BYTES(n) (((n) + 2) / 3 * 4)

/* Writes `bytes` as BASE64_ENCODED_BYTES(bytes.n) characters to `out`, with padding. Returns how many. */
size_t base64_encode(struct str bytes, char *out);

/* Decodes the whole of `text` into `out`, which has room for BASE64_DECODED_BYTES(text.n). False when it is not the one text that
 * stands for its bytes: a foreign character, white space, padding that is missing or too much, bits that would be lost. */
bool base64_decode(struct str text, char *out, size_t *out_n);

/* The same of the alphabet of section 5, without padding, as JSON Web Signatures have it (RFC 7515 section 2). */
bool base64_decode_url(struct str text, char *out, size_t *out_n);
