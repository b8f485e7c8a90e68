/* siphash: keyed hashing of bytes that a peer chose, so that nobody can aim at one bucket. SipHash-1-3, the variant of
 * tables (Aumasson and Bernstein, 2012). Pure functions apart from the process key. */
#pragma once

#include "base/str.h"

struct siphash_key {
    uint64_t k0, k1;
};

/* Hashes `s` under `key`. */
uint64_t siphash_with(struct siphash_key key, struct str s);

/* Hashes under the process's own random key, made at first use. Any thread. */
uint64_t siphash(struct str s);

/* Hashes two strings as a pair: ("a", "bc") differs from ("ab", "c"). Process key. Any thread. */
uint64_t siphash_pair(struct str a, struct str b);
