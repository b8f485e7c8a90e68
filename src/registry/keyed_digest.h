/* keyed_digest: a name for a secret under which what was found out about it can be remembered: a SHA-256 with a key that is drawn at start and never
 * leaves the process, so that nobody can tell from it what the secret is, nor try. Any thread. */
#pragma once

#include <stddef.h>

#include "base/str.h"

enum { KEYED_DIGEST_BYTES = 32 };

struct keyed_digest {
    unsigned char key[KEYED_DIGEST_BYTES];
};

/* Draws the key. keyed_digest_wipe() forgets it. */
void keyed_digest_init(struct keyed_digest *d);
void keyed_digest_wipe(struct keyed_digest *d);

/* Of all parts, each with its length, so that no two lists of parts are alike. */
void keyed_digest_make(const struct keyed_digest *d, const struct str *parts, size_t n_parts,
                       unsigned char out[KEYED_DIGEST_BYTES]);
