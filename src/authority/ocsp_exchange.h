/* ocsp_exchange: one question to an OCSP responder about one certificate, and what its answer is worth (RFC 6960). An answer counts if it is signed by the CA that has
 * issued the certificate, by somebody whom that CA has named for it, or by the one certificate that the tenant gives. No I/O; one thread at a time; never logs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct x509_st;

enum {
    OCSP_EXCHANGE_BYTES_MAX = 64 << 10,
    OCSP_EXCHANGE_URI_BYTES = 1024,
    OCSP_EXCHANGE_SKEW_S = 300,         /* that the responder's clock may differ by */
    OCSP_EXCHANGE_AGE_S = 24 * 60 * 60, /* of an answer that does not say when the next one is due */
    OCSP_EXCHANGE_FRESH_S = 60,         /* how long that one holds */
};

enum ocsp_status {
    OCSP_GOOD,
    OCSP_REVOKED,
    OCSP_UNKNOWN,   /* the responder does not know the certificate */
    OCSP_REFUSED,   /* it does not answer questions like this, or not now */
    OCSP_MALFORMED, /* no answer, or about another certificate */
    OCSP_UNTRUSTED, /* not signed by somebody who may, or by too weak a digest */
    OCSP_OLD,       /* a newer one was due, or it is from the future */
    OCSP_REPLAYED,  /* without the nonce of the question */
    OCSP_STATUSES,
};

struct ocsp_exchange {
    struct x509_st *issuer, *responder; /* responder NULL: the CA, or whom it has named */
    struct ocsp_request_st *request;
    struct ocsp_cert_id_st *id;
    bool has_nonce;
};

/* `responder` is a certificate in base64 of its DER, or empty. ocsp_exchange_fini() is due in any case. E_INVAL: that is none; E_NOMEM. */
MUST_USE err ocsp_exchange_init(struct ocsp_exchange *x, struct x509_st *certificate, struct x509_st *issuer,
                                struct str responder, bool has_nonce);
void ocsp_exchange_fini(struct ocsp_exchange *x);

/* Appends the request, which goes by POST as application/ocsp-request. */
MUST_USE err ocsp_exchange_write(const struct ocsp_exchange *x, struct buf *to);

/* What the body of a response says at this time, in seconds since 1970. `*out_until_s`: until when that is so, if it is GOOD, REVOKED or UNKNOWN. */
enum ocsp_status ocsp_exchange_read(const struct ocsp_exchange *x, struct str body, int64_t now_s, int64_t *out_until_s);

/* Where a certificate says that it can be asked about, by HTTP. Returns the length; 0: nowhere, or the address is too long. */
size_t ocsp_exchange_find_uri(struct x509_st *certificate, char to[OCSP_EXCHANGE_URI_BYTES]);
