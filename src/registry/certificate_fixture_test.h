/* certificate_fixture: certificates made for tests, in base64 of their DER. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "base/str.h"

struct certificate_fixture {
    char cert[4096], key[1024]; /* with NULs */
};

static inline void certificate_encode(char *to, size_t size, unsigned char *der, int n)
{
    assert_true(n > 0 && (size_t)n / 3 * 4 + 5 < size);
    assert_true(EVP_EncodeBlock((unsigned char *)to, der, n) > 0);
    OPENSSL_free(der);
}

static inline void certificate_add_name(X509_NAME *name, const char *type, const char *value, int set)
{
    assert_true(X509_NAME_add_entry_by_txt(name, type, MBSTRING_UTF8, (const unsigned char *)value, -1, -1, set));
}

/* Subject C=DE, O=acme, `cn`, from the outermost in; issued by CN=`issuer`. Valid from 2026-01-01 to 2027-01-01. */
static inline void certificate_make(const char *algorithm, const char *cn, const char *issuer, struct certificate_fixture *out)
{
    EVP_PKEY *key = *algorithm == 'E'   ? EVP_EC_gen("P-256")
                    : *algorithm == 'R' ? EVP_RSA_gen(2048)
                                        : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *x509 = X509_new();
    X509_NAME *subject = X509_get_subject_name(x509), *issued_by = X509_get_issuer_name(x509);
    unsigned char *der = NULL;
    int n;

    assert_true(key && x509);
    certificate_add_name(subject, "C", "DE", 0);
    certificate_add_name(subject, "O", "acme", 0);
    certificate_add_name(subject, "CN", cn, 0);
    certificate_add_name(issued_by, "CN", issuer, 0);
    assert_true(ASN1_INTEGER_set(X509_get_serialNumber(x509), 1));
    assert_true(ASN1_TIME_set_string(X509_getm_notBefore(x509), "20260101000000Z"));
    assert_true(ASN1_TIME_set_string(X509_getm_notAfter(x509), "20270101000000Z"));
    assert_true(X509_set_pubkey(x509, key));
    assert_true(X509_sign(x509, key, *algorithm == 'D' ? NULL : EVP_sha256()) > 0);
    n = i2d_X509(x509, &der);
    certificate_encode(out->cert, sizeof out->cert, der, n);
    der = NULL;
    n = i2d_PUBKEY(key, &der);
    certificate_encode(out->key, sizeof out->key, der, n);
    X509_free(x509);
    EVP_PKEY_free(key);
}
