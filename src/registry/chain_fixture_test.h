/* For tests with chains of certificates: CAs and what they issue. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/base64.h"
#include "base/str.h"
#include "loop/tls_peer.h"

enum { CHAIN_FIXTURE_DAY_S = 24 * 3600 };

/* Somebody with a key and a certificate. All-zero is nobody. */
struct chain_fixture_party {
    EVP_PKEY *key;
    X509 *cert;
    unsigned char *der;
    size_t der_n;
};

/* What is particular about a certificate; all-zero is a device's that is valid today. */
struct chain_fixture_traits {
    bool is_ca;
    int from_days, to_days; /* from now; both 0: yesterday to tomorrow */
    const char *extension;  /* another extension: its name, */
    const char *value;      /* and value as in openssl.cnf; may refer to the issuer */
    unsigned rsa_bits;      /* 0: P-256 */
};

static inline void chain_fixture_extend(X509 *cert, X509 *issuer, const char *name, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_nconf(NULL, &context, name, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* `issuer` NULL: itself. Subject O=acme, CN=`cn`. */
static inline struct chain_fixture_party chain_fixture_issue(const char *cn, const struct chain_fixture_party *issuer,
                                                             struct chain_fixture_traits traits)
{
    static long last_serial;
    struct chain_fixture_party p = {.key = traits.rsa_bits ? EVP_RSA_gen(traits.rsa_bits) : EVP_EC_gen("P-256"),
                                    .cert = X509_new()};
    const struct chain_fixture_party *by = issuer ? issuer : &p;
    X509_NAME *name = X509_get_subject_name(p.cert);
    bool is_today = traits.from_days == 0 && traits.to_days == 0;
    int n;

    assert_true(p.key && p.cert);
    assert_int_equal(X509_set_version(p.cert, 2), 1);
    assert_true(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"acme", -1, -1, 0));
    assert_true(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0));
    assert_true(X509_set_issuer_name(p.cert, X509_get_subject_name(by->cert)));
    assert_true(ASN1_INTEGER_set(X509_get_serialNumber(p.cert), ++last_serial + 1000));
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(p.cert), (is_today ? -1 : traits.from_days) * CHAIN_FIXTURE_DAY_S));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(p.cert), (is_today ? 1 : traits.to_days) * CHAIN_FIXTURE_DAY_S));
    assert_true(X509_set_pubkey(p.cert, p.key));
    chain_fixture_extend(p.cert, by->cert, "basicConstraints", traits.is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    chain_fixture_extend(p.cert, by->cert, "subjectKeyIdentifier", "hash");
    if (traits.extension)
        chain_fixture_extend(p.cert, by->cert, traits.extension, traits.value);
    assert_true(X509_sign(p.cert, by->key, EVP_sha256()) > 0);
    n = i2d_X509(p.cert, &p.der);
    assert_true(n > 0);
    p.der_n = (size_t)n;
    return p;
}

static inline void chain_fixture_free(struct chain_fixture_party *p)
{
    EVP_PKEY_free(p->key);
    X509_free(p->cert);
    OPENSSL_free(p->der);
    *p = (struct chain_fixture_party){0};
}

static inline struct str chain_fixture_der(const struct chain_fixture_party *p)
{
    return (struct str){(const char *)p->der, p->der_n};
}

/* Who has shown `leaf`, and `above` unless that is NULL. */
static inline struct tls_peer chain_fixture_peer(const struct chain_fixture_party *leaf,
                                                 const struct chain_fixture_party *above)
{
    struct tls_peer peer = {.der = chain_fixture_der(leaf), .n_chain = above != NULL};

    if (above)
        peer.chain[0] = chain_fixture_der(above);
    return peer;
}

/* The CA as a member of `trusted-ca`, into `to`. `more` begins with a comma, or is empty. */
static inline const char *chain_fixture_ca(const struct chain_fixture_party *ca, const char *cn, const char *more,
                                           char to[2048])
{
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(ca->key, &der);
    char text[1024] = "";

    assert_true(n > 0 && BASE64_ENCODED_BYTES((size_t)n) < sizeof text);
    (void)base64_encode((struct str){(const char *)der, (size_t)n}, text);
    OPENSSL_free(der);
    n = snprintf(to, 2048, "{\"subject-dn\":\"CN=%s,O=acme\",\"public-key\":\"%s\"%s}", cn, text, more);
    assert_true(n > 0 && n < 2048);
    return to;
}
