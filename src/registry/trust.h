/* trust: whether a client's certificate was issued, directly or by intermediates that the client has sent, by a CA that a tenant trusts (RFC 5280
 * section 6), and has not been revoked by lists (revocation_list.h). A trusted CA is a name, a key and a time in which it holds (tenant_document.h); there need
 * not be a certificate of it. Any thread; never logs. */
#pragma once

#include "registry/dn.h"
#include "registry/document.h"

struct revocation_lists;
struct tls_peer;

enum {
    TRUST_CHAIN_MAX = 9,   /* certificates, the client's own included */
    TRUST_ANCHORS_MAX = 8, /* CAs that are tried: those with the name of an issuer */
};

/* What a client has shown. All-zero is none. */
struct trust_chain {
    struct x509_st *items[TRUST_CHAIN_MAX]; /* its own first */
    size_t n;
    char subject[DN_BYTES]; /* of its own, in the one spelling (dn.h) */
    size_t subject_n;
    char issuers[TRUST_CHAIN_MAX][DN_BYTES]; /* of each, likewise */
    size_t issuer_n[TRUST_CHAIN_MAX];
};

/* Reads it; trust_free() is due in any case. E_INVAL, E_LIMIT: one of the certificates is none, or a name is too long. */
MUST_USE err trust_read(const struct tls_peer *peer, struct trust_chain *out);
void trust_free(struct trust_chain *chain);

static inline struct str trust_issuer(const struct trust_chain *chain, size_t i)
{
    return (struct str){chain->issuers[i], chain->issuer_n[i]};
}

/* By what is judged. */
struct trust_rules {
    int64_t now_s;                  /* since 1970 */
    struct revocation_lists *lists; /* NULL: none, but those that tenants give with their CAs */
    bool takes_old_lists;           /* one that is over counts still */
};

enum trust_result {
    TRUST_GOOD,
    TRUST_STRANGER,     /* no CA of the tenant has issued it, or not for this time or use */
    TRUST_REVOKED,      /* a CA's list says so, */
    TRUST_OLD_LIST,     /* is over, */
    TRUST_FOREIGN_LIST, /* or was not signed by that CA */
};

/* What was found. */
struct trust_path {
    enum trust_result result;
    const json_t *ca;                           /* borrowed from the tenant; NULL unless it is good, as the rest */
    struct x509_st *items[TRUST_CHAIN_MAX + 1]; /* the client's, what has issued each, at the end the CA as a certificate */
    size_t n;
    int64_t until_s; /* that it is so */
};

/* Finds the CA of the tenant (its document) that the chain leads to, if all is in order for a TLS client. trust_free_path() is due in any case. Computes
 * for about 0.5 ms, for each CA that is tried. */
void trust_find_ca(const struct trust_chain *chain, const json_t *tenant, const struct trust_rules *rules,
                   struct trust_path *out);
void trust_free_path(struct trust_path *path);
