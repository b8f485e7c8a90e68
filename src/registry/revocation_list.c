#include "registry/revocation_list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/mem.h"
#include "registry/certificate.h"

enum { DIGEST_BYTES = 32 };

/* One list. */
struct issued {
    struct issued *next;
    X509_CRL *crl;
    char issuer[DN_BYTES];
    size_t issuer_n;
    int64_t from_s, until_s;
    /* The key that its signature was last checked with: a long list takes long. */
    pthread_mutex_t lock;
    unsigned char key[DIGEST_BYTES];
    bool is_checked, is_signed;
};

struct revocation_lists {
    atomic_uint refs;
    uint64_t number;
    struct issued *first;
    unsigned char digest[DIGEST_BYTES]; /* of all that was added */
};

/* ---- one list ---- */

static bool to_seconds(const ASN1_TIME *time, int64_t *out_s)
{
    struct tm tm;

    if (!time || !ASN1_TIME_to_tm(time, &tm))
        return false;
    *out_s = (int64_t)timegm(&tm);
    return true;
}

/* What is critical must be understood (section 5.2), and nothing is here: deltas, indirect and partial lists say so by that. A list that does not say
 * when the next one is due would hold for ever. */
static const char *fill(struct issued *l)
{
    if (X509_CRL_get_ext_by_critical(l->crl, 1, -1) >= 0)
        return "is a delta, an indirect or a partial list";
    if (!to_seconds(X509_CRL_get0_lastUpdate(l->crl), &l->from_s) || !to_seconds(X509_CRL_get0_nextUpdate(l->crl), &l->until_s))
        return "does not say when the next one is due";
    if (certificate_name(X509_CRL_get_issuer(l->crl), l->issuer, &l->issuer_n) != E_OK)
        return "has an issuer whose name is too long or no text";
    return NULL;
}

static bool verify(struct issued *l, EVP_PKEY *key)
{
    unsigned char digest[DIGEST_BYTES], *der = NULL;
    int n = i2d_PUBKEY(key, &der);
    bool is_signed;

    if (n <= 0 || EVP_Digest(der, (size_t)n, digest, NULL, EVP_sha256(), NULL) != 1) {
        OPENSSL_free(der);
        return false;
    }
    OPENSSL_free(der);
    pthread_mutex_lock(&l->lock);
    if (!l->is_checked || memcmp(l->key, digest, sizeof digest) != 0) {
        memcpy(l->key, digest, sizeof digest);
        l->is_signed = X509_CRL_verify(l->crl, key) == 1;
        l->is_checked = true;
    }
    is_signed = l->is_signed;
    pthread_mutex_unlock(&l->lock);
    ERR_clear_error();
    return is_signed;
}

static enum revocation_status judge(struct issued *l, X509 *certificate, X509 *issuer, int64_t now_s)
{
    EVP_PKEY *key = X509_get0_pubkey(issuer);
    X509_REVOKED *entry;

    if (!key || !verify(l, key))
        return REVOCATION_FOREIGN;
    if (X509_CRL_get0_by_cert(l->crl, &entry, certificate) == 1) /* 2: it was taken off the list */
        return REVOCATION_REVOKED;
    return now_s < l->from_s || now_s >= l->until_s ? REVOCATION_OVER : REVOCATION_GOOD;
}

static void list_fini(struct issued *l)
{
    X509_CRL_free(l->crl);
    pthread_mutex_destroy(&l->lock);
}

/* ---- a set ---- */

struct revocation_lists *revocation_list_new(void)
{
    static atomic_uint_fast64_t last_number;
    struct revocation_lists *lists = mem_alloc_zero(MEM_REGISTRY, sizeof *lists);

    atomic_init(&lists->refs, 1);
    lists->number = atomic_fetch_add(&last_number, 1) + 1;
    return lists;
}

struct revocation_lists *revocation_list_ref(struct revocation_lists *lists)
{
    atomic_fetch_add_explicit(&lists->refs, 1, memory_order_relaxed);
    return lists;
}

void revocation_list_unref(struct revocation_lists *lists)
{
    struct issued *l;

    if (!lists || atomic_fetch_sub_explicit(&lists->refs, 1, memory_order_acq_rel) != 1)
        return;
    while ((l = lists->first)) {
        lists->first = l->next;
        list_fini(l);
        mem_free(MEM_REGISTRY, l);
    }
    mem_free(MEM_REGISTRY, lists);
}

uint64_t revocation_list_number(const struct revocation_lists *lists)
{
    return lists ? lists->number : 0;
}

bool revocation_list_is_same(const struct revocation_lists *a, const struct revocation_lists *b)
{
    static const unsigned char none[DIGEST_BYTES];

    return memcmp(a ? a->digest : none, b ? b->digest : none, DIGEST_BYTES) == 0;
}

/* Takes the CRL. */
static err add(struct revocation_lists *lists, X509_CRL *crl, struct errinfo *ei)
{
    struct issued *l = mem_alloc_zero(MEM_REGISTRY, sizeof *l);
    const char *fault;

    l->crl = crl;
    pthread_mutex_init(&l->lock, NULL);
    fault = fill(l);
    if (fault) {
        list_fini(l);
        mem_free(MEM_REGISTRY, l);
        return errinfo_set(ei, E_INVAL, "%s", fault);
    }
    l->next = lists->first;
    lists->first = l;
    return E_OK;
}

static void note(struct revocation_lists *lists, struct str bytes)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    ASSERT(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
           EVP_DigestUpdate(context, lists->digest, sizeof lists->digest) && EVP_DigestUpdate(context, bytes.p, bytes.n) &&
           EVP_DigestFinal_ex(context, lists->digest, NULL));
    EVP_MD_CTX_free(context);
}

static X509_CRL *read_der(struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    X509_CRL *crl = d2i_X509_CRL(NULL, &p, (long)bytes.n);

    if (crl && p != (const unsigned char *)bytes.p + bytes.n) {
        X509_CRL_free(crl);
        crl = NULL;
    }
    return crl;
}

err revocation_list_add(struct revocation_lists *lists, struct str bytes, struct errinfo *ei)
{
    X509_CRL *crl = bytes.n <= REVOCATION_LIST_FILE_BYTES ? read_der(bytes) : NULL;
    BIO *bio = crl || bytes.n > REVOCATION_LIST_FILE_BYTES ? NULL : BIO_new_mem_buf(bytes.p, (int)bytes.n);
    size_t n = 0;
    err e = E_OK;

    note(lists, bytes);
    if (crl) {
        e = add(lists, crl, ei);
        n++;
    }
    while (bio && e == E_OK && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL))) {
        e = add(lists, crl, ei);
        n++;
    }
    BIO_free(bio);
    ERR_clear_error();
    return n || e != E_OK ? e : errinfo_set(ei, E_INVAL, "has no certificate revocation list");
}

/* Of several by that name the ones that its key has signed count; of those the newest. */
enum revocation_status revocation_list_check(struct revocation_lists *lists, X509 *certificate, X509 *issuer, int64_t now_s,
                                             int64_t *out_until_s)
{
    enum revocation_status status = REVOCATION_UNLISTED;
    char name[DN_BYTES];
    int64_t newest_s = INT64_MIN;
    size_t n;

    if (!lists || !lists->first)
        return REVOCATION_UNLISTED;
    if (certificate_name(X509_get_subject_name(issuer), name, &n) != E_OK)
        return REVOCATION_FOREIGN;
    for (struct issued *l = lists->first; l; l = l->next) {
        enum revocation_status by_this;

        if (!str_equal((struct str){l->issuer, l->issuer_n}, (struct str){name, n}))
            continue;
        by_this = judge(l, certificate, issuer, now_s);
        if (by_this == REVOCATION_FOREIGN && status == REVOCATION_UNLISTED)
            status = REVOCATION_FOREIGN;
        if (by_this == REVOCATION_FOREIGN || l->from_s <= newest_s)
            continue;
        newest_s = l->from_s;
        status = by_this;
        *out_until_s = l->until_s;
    }
    return status;
}

/* ---- a single one ---- */

/* NULL: it is one, which the caller ends with list_fini(). */
static const char *read_one(struct str base64, struct issued *out)
{
    char *der = mem_try_alloc(MEM_REGISTRY, BASE64_DECODED_BYTES(base64.n) + 1);
    const char *fault = "is no certificate revocation list (DER in base64)";
    size_t n;

    *out = (struct issued){0};
    if (der && base64_decode(base64, der, &n))
        out->crl = read_der((struct str){der, n});
    mem_free(MEM_REGISTRY, der);
    ERR_clear_error();
    if (out->crl)
        fault = fill(out);
    if (fault)
        X509_CRL_free(out->crl);
    else
        pthread_mutex_init(&out->lock, NULL);
    return fault;
}

enum revocation_status revocation_list_check_one(struct str base64, X509 *certificate, X509 *issuer, int64_t now_s,
                                                 int64_t *out_until_s)
{
    enum revocation_status status;
    struct issued l;

    if (read_one(base64, &l) != NULL)
        return REVOCATION_UNLISTED;
    status = judge(&l, certificate, issuer, now_s);
    *out_until_s = l.until_s;
    list_fini(&l);
    return status;
}

const char *revocation_list_fault(struct str base64, struct str subject_dn, struct str key)
{
    char der[BASE64_DECODED_BYTES(CERTIFICATE_KEY_BYTES)];
    const unsigned char *p = (const unsigned char *)der;
    EVP_PKEY *of = NULL;
    struct issued l;
    const char *fault = read_one(base64, &l);
    size_t n;

    if (fault)
        return fault;
    if (key.n <= CERTIFICATE_KEY_BYTES && base64_decode(key, der, &n))
        of = d2i_PUBKEY(NULL, &p, (long)n);
    if (!str_equal((struct str){l.issuer, l.issuer_n}, subject_dn))
        fault = "is of another CA";
    else if (!of || !verify(&l, of))
        fault = "is not signed by this CA";
    EVP_PKEY_free(of);
    list_fini(&l);
    return fault;
}
