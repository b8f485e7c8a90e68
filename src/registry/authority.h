/* authority: the port behind which somebody outside the process has a say in who may connect (src/authority implements it). The registry asks, and
 * judges the answers: the devices that they name are its own.
 *
 * All of it may be called on any worker, and does not block: what cannot be told at once is AUTHORITY_PENDING, and the mail of the log-in's
 * `wait` comes (registry_wait.h). Without a `wait` that is AUTHORITY_UNAVAILABLE. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "registry/schema.h"

struct config;
struct registry_login;
struct registry_wait;
struct x509_st;

enum authority_verdict {
    AUTHORITY_NONE, /* it has nothing to say about this one */
    AUTHORITY_ALLOWED,
    AUTHORITY_DENIED,
    AUTHORITY_UNAVAILABLE, /* it cannot be asked now: nobody is let in by that */
    AUTHORITY_PENDING,
};

/* Who somebody is whom it allows in. */
struct authority_answer {
    char tenant[SCHEMA_MAX_ID_BYTES];
    char device[SCHEMA_MAX_ID_BYTES];
    uint16_t tenant_n, device_n; /* no tenant: the one that the log-in names */
    int64_t expires_at_s;        /* when it has to ask again, since 1970; 0: it need not */
};

/* A certificate whose CA wants it to be asked about. Borrowed for the call. */
struct authority_certificate {
    struct x509_st *certificate, *issuer;
    struct str responder_uri;  /* empty: the certificate says it */
    struct str responder_cert; /* in base64 of its DER; empty: the CA signs, or whom it has named */
    bool has_nonce;
};

struct authority {
    /* Who has this user name and password, or this token. */
    enum authority_verdict (*ask_webhook)(struct authority *a, const struct config *config, const struct registry_login *login,
                                          struct authority_answer *out);
    /* Whether an identity provider has issued this token. */
    enum authority_verdict (*judge_token)(struct authority *a, const struct config *config, const struct registry_login *login,
                                          struct authority_answer *out);
    /* Whether it is still good: ALLOWED, DENIED and so on. */
    enum authority_verdict (*check_certificate)(struct authority *a, const struct config *config,
                                                const struct authority_certificate *certificate, struct registry_wait *wait);
};
