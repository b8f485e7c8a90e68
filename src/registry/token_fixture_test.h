/* For tests with tokens: pairs of keys, and tokens signed with them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjose/cjose.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/check.h"
#include "base/str.h"

/* A pair of keys, the private one as cjose signs with it, the public one as a registry keeps it. */
struct token_fixture_pair {
    cjose_jwk_t *jwk;
    unsigned char *der;
    size_t der_n;
};

static inline void token_fixture_take_public(struct token_fixture_pair *pair, EVP_PKEY *key)
{
    int n = i2d_PUBKEY(key, &pair->der);

    assert_true(n > 0);
    pair->der_n = (size_t)n;
    EVP_PKEY_free(key);
}

static inline BIGNUM *token_fixture_number(const EVP_PKEY *key, const char *name)
{
    BIGNUM *n = NULL;

    assert_int_equal(EVP_PKEY_get_bn_param(key, name, &n), 1);
    return n;
}

static inline size_t token_fixture_bytes(const EVP_PKEY *key, const char *name, uint8_t to[1024])
{
    BIGNUM *n = token_fixture_number(key, name);
    int size = BN_bn2bin(n, to);

    BN_free(n);
    return (size_t)size;
}

static inline struct token_fixture_pair token_fixture_make_rsa(unsigned bits)
{
    struct token_fixture_pair pair = {0};
    EVP_PKEY *key = EVP_RSA_gen(bits);
    uint8_t n[1024], e[1024], d[1024];
    cjose_jwk_rsa_keyspec spec = {.n = n, .e = e, .d = d};

    spec.nlen = token_fixture_bytes(key, "n", n);
    spec.elen = token_fixture_bytes(key, "e", e);
    spec.dlen = token_fixture_bytes(key, "d", d);
    pair.jwk = cjose_jwk_create_RSA_spec(&spec, NULL);
    assert_non_null(pair.jwk);
    token_fixture_take_public(&pair, key);
    return pair;
}

static inline struct token_fixture_pair token_fixture_make_ec(const char *group, cjose_jwk_ec_curve curve)
{
    struct token_fixture_pair pair = {0};
    EVP_PKEY *key = EVP_EC_gen(group);
    uint8_t x[1024], y[1024], d[1024];
    cjose_jwk_ec_keyspec spec = {.crv = curve, .x = x, .y = y, .d = d};

    spec.xlen = token_fixture_bytes(key, "qx", x);
    spec.ylen = token_fixture_bytes(key, "qy", y);
    spec.dlen = token_fixture_bytes(key, "priv", d);
    pair.jwk = cjose_jwk_create_EC_spec(&spec, NULL);
    assert_non_null(pair.jwk);
    token_fixture_take_public(&pair, key);
    return pair;
}

/* NULL: it says nothing of that. The caller frees. */
static inline char *token_fixture_sign_named(const struct token_fixture_pair *pair, const char *algorithm, const char *type,
                                             const char *kid, const char *claims)
{
    cjose_header_t *header = cjose_header_new(NULL);
    cjose_jws_t *jws;
    const char *compact;
    char *copy;

    assert_true(cjose_header_set(header, CJOSE_HDR_ALG, algorithm, NULL));
    if (type)
        assert_true(cjose_header_set(header, "typ", type, NULL));
    if (kid)
        assert_true(cjose_header_set(header, "kid", kid, NULL));
    jws = cjose_jws_sign(pair->jwk, header, (const uint8_t *)claims, strlen(claims), NULL);
    assert_non_null(jws);
    assert_true(cjose_jws_export(jws, &compact, NULL));
    copy = strdup(compact);
    cjose_jws_release(jws);
    cjose_header_release(header);
    return copy;
}

static inline char *token_fixture_sign(const struct token_fixture_pair *pair, const char *algorithm, const char *type,
                                       const char *claims)
{
    return token_fixture_sign_named(pair, algorithm, type, NULL, claims);
}

static inline struct str token_fixture_public_key(const struct token_fixture_pair *pair)
{
    return (struct str){(const char *)pair->der, pair->der_n};
}

/* --- a pair of each kind, for all tests of a program: set-up and tear-down of its group --- */

static struct {
    struct token_fixture_pair rsa, small_rsa, p256, p384, p521;
} token_fixture_keys;

static inline int token_fixture_make_keys(void **state)
{
    (void)state;
    token_fixture_keys.rsa = token_fixture_make_rsa(2048);
    token_fixture_keys.small_rsa = token_fixture_make_rsa(1024);
    token_fixture_keys.p256 = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    token_fixture_keys.p384 = token_fixture_make_ec("P-384", CJOSE_JWK_EC_P_384);
    token_fixture_keys.p521 = token_fixture_make_ec("P-521", CJOSE_JWK_EC_P_521);
    return 0;
}

static inline int token_fixture_free_keys(void **state)
{
    struct token_fixture_pair *all[] = {&token_fixture_keys.rsa, &token_fixture_keys.small_rsa, &token_fixture_keys.p256,
                                        &token_fixture_keys.p384, &token_fixture_keys.p521};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        cjose_jwk_release(all[i]->jwk);
        OPENSSL_free(all[i]->der);
    }
    return 0;
}
