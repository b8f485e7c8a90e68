/* trust_cache: what was found about certificates, remembered for a minute at most: over HTTP each request of a connection is a log-in with the same one. What a verdict
 * depends on is in the digest under which it is remembered: the certificates, the tenant as it is written, the lists. Any thread; the lock is held for a
 * look into a table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "registry/keyed_digest.h"

struct trust_cache;

enum { TRUST_CACHE_MAX = 20000, TRUST_CACHE_S = 60 };

struct trust_cache *trust_cache_new(void);
void trust_cache_free(struct trust_cache *c); /* NULL is a no-op */

/* The digest to ask with. */
void trust_cache_token(const struct trust_cache *c, const struct str *parts, size_t n_parts,
                       unsigned char token[KEYED_DIGEST_BYTES]);

/* What was found, at this time in seconds since 1970: `*out_ca` is the place of the CA among the tenant's, -1: there is none. */
bool trust_cache_find(struct trust_cache *c, const unsigned char token[KEYED_DIGEST_BYTES], int64_t now_s, int *out_ca);

/* Remembers it, no longer than `until_s`. */
void trust_cache_keep(struct trust_cache *c, const unsigned char token[KEYED_DIGEST_BYTES], int64_t now_s, int64_t until_s,
                      int ca);
