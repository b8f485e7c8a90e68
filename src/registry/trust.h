/* trust: whether a client's certificate was issued, directly or by intermediates that the client has sent, by a CA that a tenant trusts (RFC 5280
 * section 6). A trusted CA is a name, a key and a time in which it holds (tenant_document.h); there need not be a certificate of it. Revocation is not
 * looked at. Any thread; never logs. */
#pragma once

#include "registry/dn.h"
#include "registry/document.h"

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

/* The CA of the tenant (its document) that the chain leads to, if all is in order for a TLS client at this time, in seconds since 1970. NULL: there is
 * none. Borrowed from `tenant`. Computes for about 0.5 ms, for each CA that is tried. */
const json_t *trust_find_ca(const struct trust_chain *chain, const json_t *tenant, int64_t now_s);
