/* tls_fixture: certificates made while a test runs, so that none expires and no key lies in the repository, and the files that they
 * are read from. For tests of TLS, of any folder. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"

enum { TLS_FIXTURE_DAY_S = 24 * 3600 };

/* A certificate with its key; a CA can sign others. */
struct identity {
    X509 *cert;
    EVP_PKEY *key;
};

static char tls_folder[] = "/tmp/millrace-tls-XXXXXX";

static inline void tls_fixture_open(void)
{
    assert_non_null(mkdtemp(tls_folder));
}

/* A file's path in the test's folder; eight at a time. */
static inline const char *tls_fixture_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];

    snprintf(path, sizeof paths[0], "%s/%s", tls_folder, name);
    return path;
}

static inline void tls_fixture_close(void)
{
    char command[300];

    snprintf(command, sizeof command, "rm -rf %s", tls_folder);
    assert_int_equal(system(command), 0);
}

static inline void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* `names` as in "DNS:a.example,IP:127.0.0.1"; NULL: none. `issuer` NULL: it signs itself. The time begins and ends that many seconds from now. */
static inline struct identity identity_new(const char *name, const struct identity *issuer, bool is_ca, const char *names,
                                           long from_s, long to_s)
{
    static long serial;
    struct identity id = {X509_new(), EVP_EC_gen("P-256")};
    X509_NAME *subject = X509_get_subject_name(id.cert);

    assert_true(id.cert && id.key);
    assert_int_equal(X509_set_version(id.cert, 2), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(id.cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(id.cert), from_s);
    X509_gmtime_adj(X509_getm_notAfter(id.cert), to_s);
    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const unsigned char *)"Millrace", -1, -1, 0);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
    X509_set_pubkey(id.cert, id.key);
    X509_set_issuer_name(id.cert, issuer ? X509_get_subject_name(issuer->cert) : subject);
    add_extension(id.cert, id.cert, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    add_extension(id.cert, id.cert, NID_key_usage, is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
    if (names)
        add_extension(id.cert, id.cert, NID_subject_alt_name, names);
    assert_true(X509_sign(id.cert, issuer ? issuer->key : id.key, EVP_sha256()) > 0);
    return id;
}

static inline struct identity identity_leaf(const char *name, const struct identity *issuer, const char *names)
{
    return identity_new(name, issuer, false, names, -TLS_FIXTURE_DAY_S, TLS_FIXTURE_DAY_S);
}

static inline struct identity identity_ca(const char *name, const struct identity *issuer)
{
    return identity_new(name, issuer, true, NULL, -2 * TLS_FIXTURE_DAY_S, 2 * TLS_FIXTURE_DAY_S);
}

static inline void identity_free(struct identity *id)
{
    X509_free(id->cert);
    EVP_PKEY_free(id->key);
}

/* Writes certificates, up to the first NULL, into `name`. */
static inline void identity_write_certs(const char *name, const struct identity *const *ids)
{
    FILE *f = fopen(tls_fixture_path(name), "we");

    assert_non_null(f);
    for (; *ids; ids++)
        assert_int_equal(PEM_write_X509(f, (*ids)->cert), 1);
    fclose(f);
}

static inline void identity_write_key(const char *name, const struct identity *id)
{
    FILE *f = fopen(tls_fixture_path(name), "we");

    assert_non_null(f);
    assert_int_equal(PEM_write_PrivateKey(f, id->key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
}

/* `<name>.pem` and `<name>.key`, with `above`, which may be NULL, as the chain. */
static inline void identity_write(const char *name, const struct identity *id, const struct identity *above)
{
    char file[64];

    snprintf(file, sizeof file, "%s.pem", name);
    identity_write_certs(file, (const struct identity *const[]){id, above, NULL});
    snprintf(file, sizeof file, "%s.key", name);
    identity_write_key(file, id);
}

/* What `issuer` has revoked: `revoked`, or nothing if NULL. It is good until `to_s` seconds from now. */
static inline void identity_write_crl(const char *name, const struct identity *issuer, const struct identity *revoked,
                                      long to_s)
{
    FILE *f = fopen(tls_fixture_path(name), "we");
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *from = X509_gmtime_adj(NULL, -2 * TLS_FIXTURE_DAY_S), *to = X509_gmtime_adj(NULL, to_s);

    assert_true(f && crl && from && to);
    X509_CRL_set_version(crl, 1);
    X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer->cert));
    X509_CRL_set1_lastUpdate(crl, from);
    X509_CRL_set1_nextUpdate(crl, to);
    if (revoked) {
        X509_REVOKED *entry = X509_REVOKED_new();

        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->cert));
        X509_REVOKED_set_revocationDate(entry, from);
        assert_int_equal(X509_CRL_add0_revoked(crl, entry), 1);
    }
    assert_true(X509_CRL_sign(crl, issuer->key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509_CRL(f, crl), 1);
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
    X509_CRL_free(crl);
    fclose(f);
}

static inline void tls_fixture_write(const char *name, const char *text)
{
    FILE *f = fopen(tls_fixture_path(name), "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
