/* For tests with revocation lists: lists of the CAs of chain_fixture_test.h. */
#pragma once

#include "registry/chain_fixture_test.h"

#include <openssl/pem.h>

struct crl_fixture {
    char der[4096], base64[6000], pem[6000];
    size_t der_n;
};

/* What is particular about a list; all-zero is one from yesterday to tomorrow. */
struct crl_fixture_traits {
    int from_days, to_days; /* from now */
    bool is_delta, is_endless;
};

static inline void crl_fixture_write(X509_CRL *crl, struct crl_fixture *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    unsigned char *p = (unsigned char *)out->der;
    int n = i2d_X509_CRL(crl, &p);

    assert_true(n > 0 && (size_t)n <= sizeof out->der);
    out->der_n = (size_t)n;
    (void)base64_encode((struct str){out->der, out->der_n}, out->base64);
    assert_int_equal(PEM_write_bio_X509_CRL(bio, crl), 1);
    n = BIO_read(bio, out->pem, sizeof out->pem - 1);
    assert_true(n > 0);
    BIO_free(bio);
}

/* The list of a CA with one certificate on it; NULL: with none. */
static inline struct crl_fixture crl_fixture_make(const struct chain_fixture_party *ca,
                                                  const struct chain_fixture_party *revoked, struct crl_fixture_traits traits)
{
    struct crl_fixture out = {.der_n = 0};
    bool is_today = traits.from_days == 0 && traits.to_days == 0;
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *at = ASN1_TIME_new();

    assert_int_equal(X509_CRL_set_version(crl, 1), 1);
    assert_int_equal(X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->cert)), 1);
    assert_non_null(X509_gmtime_adj(at, (is_today ? -1 : traits.from_days) * CHAIN_FIXTURE_DAY_S));
    assert_int_equal(X509_CRL_set1_lastUpdate(crl, at), 1);
    if (revoked) {
        X509_REVOKED *entry = X509_REVOKED_new();

        assert_int_equal(X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->cert)), 1);
        assert_int_equal(X509_REVOKED_set_revocationDate(entry, at), 1);
        assert_int_equal(X509_CRL_add0_revoked(crl, entry), 1);
    }
    assert_non_null(X509_gmtime_adj(at, (is_today ? 1 : traits.to_days) * CHAIN_FIXTURE_DAY_S));
    if (!traits.is_endless)
        assert_int_equal(X509_CRL_set1_nextUpdate(crl, at), 1);
    if (traits.is_delta) {
        ASN1_INTEGER *base = ASN1_INTEGER_new();

        assert_int_equal(ASN1_INTEGER_set(base, 1), 1);
        assert_int_equal(X509_CRL_add1_ext_i2d(crl, NID_delta_crl, base, 1, 0), 1);
        ASN1_INTEGER_free(base);
    }
    assert_int_equal(X509_CRL_sort(crl), 1);
    assert_true(X509_CRL_sign(crl, ca->key, EVP_sha256()) > 0);
    crl_fixture_write(crl, &out);
    X509_CRL_free(crl);
    ASN1_TIME_free(at);
    return out;
}
