/* certificate: what the registry takes from X.509 certificates and public keys. Pure functions, any thread. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "registry/dn.h"

enum { CERTIFICATE_KEY_BYTES = 4096 }; /* of a public key, as base64: RSA with 16,384 bits has about 2,800 */

struct certificate {
    char subject[DN_BYTES], issuer[DN_BYTES]; /* as dn_canonical() writes them */
    size_t subject_n, issuer_n;
    char key[CERTIFICATE_KEY_BYTES]; /* base64 of the DER of SubjectPublicKeyInfo */
    size_t key_n;
    const char *algorithm; /* "RSA", "EC"; NULL: another one */
    int64_t not_before_ms, not_after_ms;
};

/* Reads a certificate in base64 of its DER. E_INVAL: it is none, or is more than one. E_LIMIT: a name or the key is too long. */
MUST_USE err certificate_read(struct str base64, struct certificate *out);

/* Says of which algorithm ("RSA", "EC", NULL for another) a public key is, in base64 of the DER of its SubjectPublicKeyInfo. E_INVAL. */
MUST_USE err certificate_read_key(struct str base64, const char **out_algorithm);

/* A name of a certificate in its one spelling. E_LIMIT, E_INVAL: it has a value that is no text. */
struct X509_name_st;
MUST_USE err certificate_name(const struct X509_name_st *name, char to[DN_BYTES], size_t *out_n);
