/* key_set: the public keys of an identity provider, from a JSON Web Key Set (RFC 7517): RSA and EC, for signatures; others are passed over. Immutable and
 * counted, any thread; never logs. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct device_token;
struct key_set;

enum {
    KEY_SET_BYTES_MAX = 256 << 10,
    KEY_SET_KEYS_MAX = 64,
};

/* Reads a set, which may have no key that is of use. The caller owns one reference to `*out_set`. E_INVAL: it is none. E_LIMIT: it is too long, or
 * has too many keys. */
MUST_USE err key_set_read(struct str text, struct key_set **out_set);

struct key_set *key_set_ref(struct key_set *set);
void key_set_unref(struct key_set *set); /* NULL is a no-op */

size_t key_set_count(const struct key_set *set);

/* Whether there is a key that a token means which names this one; one that names none means any. */
bool key_set_has(const struct key_set *set, struct str kid);

/* Whether a token was signed by a key of that name, or, if it is empty, by any. Computes for 0.05 to 0.3 ms a key; of several KEY_SET_TRIED_MAX are
 * tried. */
enum { KEY_SET_TRIED_MAX = 8 };
bool key_set_verify(const struct key_set *set, struct str kid, const struct device_token *token);
