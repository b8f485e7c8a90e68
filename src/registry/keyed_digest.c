#include "registry/keyed_digest.h"

#include <string.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include "base/check.h"

void keyed_digest_init(struct keyed_digest *d)
{
    ASSERT(getrandom(d->key, sizeof d->key, 0) == (ssize_t)sizeof d->key);
}

void keyed_digest_wipe(struct keyed_digest *d)
{
    explicit_bzero(d->key, sizeof d->key);
}

void keyed_digest_make(const struct keyed_digest *d, const struct str *parts, size_t n_parts,
                       unsigned char out[KEYED_DIGEST_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned n = 0;
    bool is_done =
        context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) && EVP_DigestUpdate(context, d->key, sizeof d->key);

    for (size_t i = 0; i < n_parts; i++)
        is_done = is_done && EVP_DigestUpdate(context, &parts[i].n, sizeof parts[i].n) &&
                  EVP_DigestUpdate(context, parts[i].p, parts[i].n);
    ASSERT(is_done && EVP_DigestFinal_ex(context, out, &n));
    EVP_MD_CTX_free(context);
}
