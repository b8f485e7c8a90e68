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
#include "registry/revocation_list.h"

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

static bool take_path(X509_STORE_CTX *context, struct trust_path *out)
{
    STACK_OF(X509) *found = X509_STORE_CTX_get0_chain(context);

    if (!found || sk_X509_num(found) > TRUST_CHAIN_MAX + 1)
        return false;
    for (int i = 0; i < sk_X509_num(found); i++) {
        out->items[out->n++] = sk_X509_value(found, i);
        (void)X509_up_ref(sk_X509_value(found, i)); /* given back by trust_free_path() */
    }
    return out->n >= 2;
}

static bool verify(const struct trust_chain *chain, STACK_OF(X509) * anchors, int64_t now_s, struct trust_path *out)
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
                  X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_CLIENT) == 1 && X509_verify_cert(context) == 1 &&
                  take_path(context, out);
    } else {
        is_good = false;
    }
    X509_STORE_CTX_free(context);
    sk_X509_free(others);
    return is_good;
}

/* Each CA is tried for itself, since several may have one name: while a CA changes its key. */
static bool leads_to(const struct trust_chain *chain, X509 *child, const json_t *ca, int64_t now_s, struct trust_path *out)
{
    X509 *anchor = make_anchor(child, ca);
    STACK_OF(X509) *anchors = sk_X509_new_null();
    bool is_good = anchor && anchors && sk_X509_push(anchors, anchor) > 0 && verify(chain, anchors, now_s, out);

    sk_X509_free(anchors);
    X509_free(anchor);
    ERR_clear_error();
    return is_good;
}

/* --- what was revoked --- */

/* The list that the tenant gives goes before that of the folder, unless the latter has the certificate. */
static enum revocation_status look_up(const struct trust_path *path, size_t i, const json_t *ca,
                                      const struct trust_rules *rules, int64_t *out_until_s)
{
    struct str own = document_get_text(ca, "crl");
    enum revocation_status status =
        revocation_list_check(rules->lists, path->items[i], path->items[i + 1], rules->now_s, out_until_s);
    int64_t own_until_s = INT64_MAX;
    enum revocation_status by_own;

    if (!own.n || i + 2 < path->n || status == REVOCATION_REVOKED)
        return status;
    by_own = revocation_list_check_one(own, path->items[i], path->items[i + 1], rules->now_s, &own_until_s);
    if (by_own == REVOCATION_UNLISTED)
        return status;
    *out_until_s = own_until_s;
    return by_own;
}

/* All on the path but the CA itself, which is trusted as long as the tenant does. */
static enum trust_result check_lists(const struct trust_path *path, const json_t *ca, const struct trust_rules *rules,
                                     int64_t *until_s)
{
    for (size_t i = 0; i + 1 < path->n; i++) {
        int64_t list_until_s = INT64_MAX;
        enum revocation_status status = look_up(path, i, ca, rules, &list_until_s);

        if (status == REVOCATION_REVOKED)
            return TRUST_REVOKED;
        if (status == REVOCATION_FOREIGN)
            return TRUST_FOREIGN_LIST;
        if (status == REVOCATION_OVER && !rules->takes_old_lists)
            return TRUST_OLD_LIST;
        if (status == REVOCATION_GOOD && list_until_s < *until_s && !rules->takes_old_lists)
            *until_s = list_until_s;
    }
    return TRUST_GOOD;
}

static int64_t end_of(const struct trust_path *path)
{
    int64_t end_s = INT64_MAX;

    for (size_t i = 0; i < path->n; i++) {
        struct tm tm;

        if (ASN1_TIME_to_tm(X509_get0_notAfter(path->items[i]), &tm) && (int64_t)timegm(&tm) < end_s)
            end_s = (int64_t)timegm(&tm);
    }
    return end_s;
}

/* --- all together --- */

void trust_free_path(struct trust_path *path)
{
    while (path->n)
        X509_free(path->items[--path->n]);
    path->ca = NULL;
}

/* Whether the search has ended. What a list says is final: another CA of that name would not make it good. */
static bool try_ca(const struct trust_chain *chain, size_t i, const json_t *ca, const struct trust_rules *rules,
                   struct trust_path *out)
{
    if (!leads_to(chain, chain->items[i], ca, rules->now_s, out)) {
        trust_free_path(out);
        return false;
    }
    out->until_s = end_of(out);
    out->result = check_lists(out, ca, rules, &out->until_s);
    if (out->result == TRUST_GOOD)
        out->ca = ca;
    else
        trust_free_path(out);
    return true;
}

void trust_find_ca(const struct trust_chain *chain, const json_t *tenant, const struct trust_rules *rules,
                   struct trust_path *out)
{
    const json_t *cas = json_object_get(tenant, "trusted-ca");
    unsigned n_tried = 0;

    *out = (struct trust_path){.result = TRUST_STRANGER};
    for (size_t i = 0; i < chain->n; i++)
        for (size_t k = 0; k < json_array_size(cas) && n_tried < TRUST_ANCHORS_MAX; k++) {
            const json_t *ca = json_array_get(cas, k);

            if (!str_equal(document_get_text(ca, "subject-dn"), trust_issuer(chain, i)))
                continue;
            n_tried++;
            if (try_ca(chain, i, ca, rules, out))
                return;
        }
}
