#include "registry/trust.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/moment.h"
#include "loop/tls_peer.h"
#include "registry/certificate.h"

enum {
    SECURITY_LEVEL = 2, /* as in TLS: 112 bits */
    MS_PER_S = 1000,
    X509_VERSION_OF_V3 = 2,
};

/* --- what the client has shown --- */

static err read_one(struct str der, struct trust_chain *out)
{
    const unsigned char *p = (const unsigned char *)der.p;
    X509 *x509 = d2i_X509(NULL, &p, (long)der.n);
    size_t i = out->n;

    if (!x509)
        return E_INVAL;
    out->items[out->n++] = x509;
    return certificate_name(X509_get_issuer_name(x509), out->issuers[i], &out->issuer_n[i]);
}

err trust_read(const struct tls_peer *peer, struct trust_chain *out)
{
    err e;

    out->n = 0;
    e = read_one(peer->der, out);
    if (e == E_OK)
        e = certificate_name(X509_get_subject_name(out->items[0]), out->subject, &out->subject_n);
    for (size_t i = 0; i < peer->n_chain && e == E_OK && out->n < TRUST_CHAIN_MAX; i++)
        e = read_one(peer->chain[i], out);
    ERR_clear_error();
    return e;
}

void trust_free(struct trust_chain *chain)
{
    while (chain->n)
        X509_free(chain->items[--chain->n]);
}

/* --- the CA as a certificate, which is what OpenSSL wants --- */

static bool set_key(X509 *anchor, struct str base64)
{
    char der[BASE64_DECODED_BYTES(CERTIFICATE_KEY_BYTES)];
    const unsigned char *p = (const unsigned char *)der;
    EVP_PKEY *key = NULL;
    size_t n;
    bool is_set;

    if (base64.n <= CERTIFICATE_KEY_BYTES && base64_decode(base64, der, &n))
        key = d2i_PUBKEY(NULL, &p, (long)n);
    is_set = key && X509_set_pubkey(anchor, key) == 1;
    EVP_PKEY_free(key);
    return is_set;
}

/* Without a time it holds always. */
static bool set_validity(X509 *anchor, const json_t *ca)
{
    static const char first[] = "19700101000000Z", last[] = "99991231235959Z";
    struct str from = document_get_text(ca, "not-before"), to = document_get_text(ca, "not-after");
    ASN1_TIME *start = X509_getm_notBefore(anchor), *end = X509_getm_notAfter(anchor);
    int64_t ms = 0;
    bool is_set = start && end;

    if (from.n)
        is_set = is_set && moment_parse(from, &ms) == E_OK && ASN1_TIME_set(start, ms / MS_PER_S);
    else
        is_set = is_set && ASN1_TIME_set_string_X509(start, first) == 1;
    if (to.n)
        return is_set && moment_parse(to, &ms) == E_OK && ASN1_TIME_set(end, ms / MS_PER_S);
    return is_set && ASN1_TIME_set_string_X509(end, last) == 1;
}

/* A certificate may say which of its issuer's certificates it means, by issuer and number (RFC 5280 section 4.2.1.1): that is this one, then. */
static bool set_names(X509 *anchor, X509 *child)
{
    const GENERAL_NAMES *names = X509_get0_authority_issuer(child);
    const ASN1_INTEGER *serial = X509_get0_authority_serial(child);
    const X509_NAME *issuer = X509_get_issuer_name(child);
    bool is_set = X509_set_subject_name(anchor, issuer) == 1;

    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++)
        if (sk_GENERAL_NAME_value(names, i)->type == GEN_DIRNAME)
            issuer = sk_GENERAL_NAME_value(names, i)->d.directoryName;
    is_set = is_set && X509_set_issuer_name(anchor, issuer) == 1;
    if (serial)
        return is_set && X509_set_serialNumber(anchor, (ASN1_INTEGER *)(uintptr_t)serial) == 1; /* which copies it */
    return is_set && ASN1_INTEGER_set(X509_get_serialNumber(anchor), 1) == 1;
}

/* Nobody looks at the signature of what is trusted; but without any it has no encoding. */
static bool sign(X509 *anchor)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    bool is_signed = key && X509_sign(anchor, key, NULL) > 0;

    EVP_PKEY_free(key);
    return is_signed;
}

static X509 *make_anchor(X509 *child, const json_t *ca)
{
    BASIC_CONSTRAINTS constraints = {.ca = 1};
    X509 *anchor = X509_new();

    if (anchor && X509_set_version(anchor, X509_VERSION_OF_V3) == 1 && set_names(anchor, child) && set_validity(anchor, ca) &&
        set_key(anchor, document_get_text(ca, "public-key")) &&
        X509_add1_ext_i2d(anchor, NID_basic_constraints, &constraints, 1, 0) == 1 && sign(anchor))
        return anchor;
    X509_free(anchor);
    return NULL;
}

/* --- the path between them --- */

static bool verify(const struct trust_chain *chain, STACK_OF(X509) * anchors, int64_t now_s)
{
    STACK_OF(X509) *others = sk_X509_new_null();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    bool is_good = others && context;

    for (size_t i = 1; i < chain->n && is_good; i++)
        is_good = sk_X509_push(others, chain->items[i]) > 0;
    if (is_good && X509_STORE_CTX_init(context, NULL, chain->items[0], others) == 1) {
        X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(context);

        X509_STORE_CTX_set0_trusted_stack(context, anchors);
        X509_VERIFY_PARAM_set_time(param, (time_t)now_s);
        X509_VERIFY_PARAM_set_depth(param, TRUST_CHAIN_MAX);
        X509_VERIFY_PARAM_set_auth_level(param, SECURITY_LEVEL);
        is_good = X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN) == 1 && /* it need not be a root */
                  X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_CLIENT) == 1 && X509_verify_cert(context) == 1;
    } else {
        is_good = false;
    }
    X509_STORE_CTX_free(context);
    sk_X509_free(others);
    return is_good;
}

/* Each CA is tried for itself, since several may have one name: while a CA changes its key. */
static bool leads_to(const struct trust_chain *chain, X509 *child, const json_t *ca, int64_t now_s)
{
    X509 *anchor = make_anchor(child, ca);
    STACK_OF(X509) *anchors = sk_X509_new_null();
    bool is_good = anchor && anchors && sk_X509_push(anchors, anchor) > 0 && verify(chain, anchors, now_s);

    sk_X509_free(anchors);
    X509_free(anchor);
    ERR_clear_error();
    return is_good;
}

const json_t *trust_find_ca(const struct trust_chain *chain, const json_t *tenant, int64_t now_s)
{
    const json_t *cas = json_object_get(tenant, "trusted-ca");
    unsigned n_tried = 0;

    for (size_t i = 0; i < chain->n; i++)
        for (size_t k = 0; k < json_array_size(cas) && n_tried < TRUST_ANCHORS_MAX; k++) {
            const json_t *ca = json_array_get(cas, k);

            if (!str_equal(document_get_text(ca, "subject-dn"), trust_issuer(chain, i)))
                continue;
            n_tried++;
            if (leads_to(chain, chain->items[i], ca, now_s))
                return ca;
        }
    return NULL;
}
