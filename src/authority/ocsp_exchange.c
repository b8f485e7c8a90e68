#include "authority/ocsp_exchange.h"

#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/ocsp.h>
#include <openssl/x509v3.h>

#include "base/base64.h"
#include "base/check.h"

enum { CERTIFICATE_BYTES = 8 << 10, DIGEST_BYTES_MIN = 32 };

/* ---- the question ---- */

static X509 *read_certificate(struct str base64)
{
    char der[BASE64_DECODED_BYTES(CERTIFICATE_BYTES)];
    const unsigned char *p = (const unsigned char *)der;
    size_t n;

    return base64.n <= CERTIFICATE_BYTES && base64_decode(base64, der, &n) ? d2i_X509(NULL, &p, (long)n) : NULL;
}

err ocsp_exchange_init(struct ocsp_exchange *x, struct x509_st *certificate, struct x509_st *issuer, struct str responder,
                       bool has_nonce)
{
    OCSP_CERTID *id;

    *x = (struct ocsp_exchange){.issuer = issuer, .has_nonce = has_nonce};
    (void)X509_up_ref(issuer); /* held until ocsp_exchange_fini() */
    if (responder.n) {
        x->responder = read_certificate(responder);
        if (!x->responder)
            return E_INVAL;
    }
    x->id = OCSP_cert_to_id(EVP_sha1(), certificate, issuer); /* a name, no protection: what every responder knows */
    x->request = OCSP_REQUEST_new();
    id = x->id ? OCSP_CERTID_dup(x->id) : NULL;
    if (!id || !x->request || !OCSP_request_add0_id(x->request, id)) {
        OCSP_CERTID_free(id);
        return E_NOMEM;
    }
    return !has_nonce || OCSP_request_add1_nonce(x->request, NULL, -1) == 1 ? E_OK : E_NOMEM;
}

void ocsp_exchange_fini(struct ocsp_exchange *x)
{
    OCSP_REQUEST_free(x->request);
    OCSP_CERTID_free(x->id);
    X509_free(x->responder);
    X509_free(x->issuer);
    *x = (struct ocsp_exchange){0};
    ERR_clear_error();
}

err ocsp_exchange_write(const struct ocsp_exchange *x, struct buf *to)
{
    int n = i2d_OCSP_REQUEST(x->request, NULL);
    char *at = n > 0 ? buf_reserve(to, MEM_HTTP, (size_t)n) : NULL;
    unsigned char *end = (unsigned char *)at;

    if (!at)
        return E_NOMEM;
    (void)i2d_OCSP_REQUEST(x->request, &end); /* as long as it said */
    buf_commit(to, (size_t)n);
    return E_OK;
}

size_t ocsp_exchange_find_uri(struct x509_st *certificate, char to[OCSP_EXCHANGE_URI_BYTES])
{
    STACK_OF(OPENSSL_STRING) *uris = X509_get1_ocsp(certificate);
    size_t n = 0;

    for (int i = 0; i < sk_OPENSSL_STRING_num(uris) && n == 0; i++) {
        struct str uri = str_from(sk_OPENSSL_STRING_value(uris, i));

        if (uri.n < OCSP_EXCHANGE_URI_BYTES &&
            (str_starts_with(uri, STR("http://")) || str_starts_with(uri, STR("https://")))) {
            memcpy(to, uri.p, uri.n);
            n = uri.n;
        }
    }
    X509_email_free(uris);
    return n;
}

/* ---- the answer ---- */

static bool to_seconds(const ASN1_TIME *time, int64_t *out_s)
{
    struct tm tm;

    if (!time || !ASN1_TIME_to_tm(time, &tm))
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

static bool is_valid_at(const X509 *certificate, int64_t now_s)
{
    int64_t from_s, to_s;

    return to_seconds(X509_get0_notBefore(certificate), &from_s) && to_seconds(X509_get0_notAfter(certificate), &to_s) &&
           now_s >= from_s && now_s <= to_s;
}

/* At least SHA-256, where a digest is named. */
static bool is_strong(const OCSP_BASICRESP *basic)
{
    const X509_ALGOR *algorithm = OCSP_resp_get0_tbs_sigalg(basic);
    const ASN1_OBJECT *name;
    int digest;

    X509_ALGOR_get0(&name, NULL, NULL, algorithm);
    if (!OBJ_find_sigid_algs(OBJ_obj2nid(name), &digest, NULL))
        return false;
    return digest == NID_undef || EVP_MD_get_size(EVP_get_digestbynid(digest)) >= DIGEST_BYTES_MIN;
}

/* RFC 6960 section 4.2.2.2: whom the CA has named by a certificate for that. */
static bool is_named(X509 *signer, X509 *issuer, int64_t now_s)
{
    EVP_PKEY *key = X509_get0_pubkey(issuer);

    return key && X509_NAME_cmp(X509_get_issuer_name(signer), X509_get_subject_name(issuer)) == 0 &&
           X509_verify(signer, key) == 1 && (X509_get_extension_flags(signer) & EXFLAG_XKUSAGE) &&
           (X509_get_extended_key_usage(signer) & XKU_OCSP_SIGN) && (X509_get_key_usage(signer) & KU_DIGITAL_SIGNATURE) &&
           is_valid_at(signer, now_s);
}

static bool may_sign(const struct ocsp_exchange *x, X509 *signer, int64_t now_s)
{
    if (x->responder)
        return X509_cmp(signer, x->responder) == 0 && is_valid_at(signer, now_s);
    if (X509_get0_pubkey(signer) && EVP_PKEY_eq(X509_get0_pubkey(signer), X509_get0_pubkey(x->issuer)) == 1)
        return true;
    return is_named(signer, x->issuer, now_s);
}

static bool is_signed(const struct ocsp_exchange *x, OCSP_BASICRESP *basic, int64_t now_s)
{
    STACK_OF(X509) *known = sk_X509_new_null();
    X509 *signer = NULL;
    bool is_good = known && sk_X509_push(known, x->responder ? x->responder : x->issuer) > 0 && is_strong(basic) &&
                   OCSP_basic_verify(basic, known, NULL, OCSP_NOVERIFY) == 1 && /* the signature alone, by the one it names */
                   OCSP_resp_get0_signer(basic, &signer, known) == 1 && may_sign(x, signer, now_s);

    sk_X509_free(known);
    return is_good;
}

/* Whether the answer is of this time. */
static bool is_current(const ASN1_GENERALIZEDTIME *from, const ASN1_GENERALIZEDTIME *next, int64_t now_s, int64_t *out_until_s)
{
    int64_t from_s, next_s;

    if (!to_seconds(from, &from_s) || from_s > now_s + OCSP_EXCHANGE_SKEW_S)
        return false;
    if (!next) {
        *out_until_s = now_s + OCSP_EXCHANGE_FRESH_S;
        return from_s + OCSP_EXCHANGE_AGE_S > now_s;
    }
    if (!to_seconds(next, &next_s) || next_s < from_s || next_s + OCSP_EXCHANGE_SKEW_S <= now_s)
        return false;
    *out_until_s = next_s;
    return true;
}

static enum ocsp_status judge(const struct ocsp_exchange *x, OCSP_BASICRESP *basic, int64_t now_s, int64_t *out_until_s)
{
    ASN1_GENERALIZEDTIME *revoked, *from, *next;
    int status, reason;

    if (!is_signed(x, basic, now_s))
        return OCSP_UNTRUSTED;
    if (x->has_nonce && OCSP_check_nonce(x->request, basic) != 1)
        return OCSP_REPLAYED;
    if (OCSP_resp_find_status(basic, x->id, &status, &reason, &revoked, &from, &next) != 1)
        return OCSP_MALFORMED;
    if (!is_current(from, next, now_s, out_until_s))
        return OCSP_OLD;
    switch (status) {
    case V_OCSP_CERTSTATUS_GOOD:
        return OCSP_GOOD;
    case V_OCSP_CERTSTATUS_REVOKED:
        return OCSP_REVOKED;
    default:
        return OCSP_UNKNOWN;
    }
}

enum ocsp_status ocsp_exchange_read(const struct ocsp_exchange *x, struct str body, int64_t now_s, int64_t *out_until_s)
{
    const unsigned char *p = (const unsigned char *)body.p;
    OCSP_RESPONSE *response = body.n <= OCSP_EXCHANGE_BYTES_MAX ? d2i_OCSP_RESPONSE(NULL, &p, (long)body.n) : NULL;
    enum ocsp_status status = OCSP_MALFORMED;
    OCSP_BASICRESP *basic = NULL;

    if (response && p != (const unsigned char *)body.p + body.n) {
        OCSP_RESPONSE_free(response);
        response = NULL;
    }
    if (response && OCSP_response_status(response) != OCSP_RESPONSE_STATUS_SUCCESSFUL)
        status = OCSP_REFUSED;
    else if (response)
        basic = OCSP_response_get1_basic(response);
    if (basic)
        status = judge(x, basic, now_s, out_until_s);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    ERR_clear_error();
    return status;
}
