/* config_authentication: what the configuration says about those outside the process who have a say in who may connect. A part of config.h. */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "config/config_strings.h"

/* When the webhook is asked. */
enum config_webhook_order {
    CONFIG_WEBHOOK_FIRST, /* before the registry, which is asked if it does not decide */
    CONFIG_WEBHOOK_LAST,  /* after the registry has found a password or token wrong */
    CONFIG_WEBHOOK_ONLY,  /* instead of it */
};

struct config_webhook {
    struct str url;   /* empty: there is none */
    struct str token; /* a secret that it is shown; empty: none */
    int order;        /* enum config_webhook_order */
    uint64_t timeout_ms;
    uint64_t cache_ms, cache_denied_ms; /* 0: each log-in is asked about */
    uint64_t max_cached;
    uint64_t connections, max_waiting;
};

/* The keys of an identity provider, whose tokens devices may bring. */
struct config_jwks {
    struct str url; /* empty: there is none */
    struct str issuer;
    struct config_strings audience;
    struct str tenant; /* of all its tokens; empty: tenant_claim says it */
    struct str tenant_claim, device_claim;
    uint64_t refresh_ms, retry_ms, max_age_ms, timeout_ms;
};

enum config_revocation_failure { CONFIG_REVOCATION_REFUSE, CONFIG_REVOCATION_ACCEPT };

/* How certificates of devices are checked for being revoked. */
struct config_revocation {
    struct str crl_dir; /* empty: there is none */
    int old_crl;        /* enum config_revocation_failure */
    int ocsp_failure;   /* likewise */
    uint64_t ocsp_timeout_ms, ocsp_cache_ms;
};

struct config_authentication {
    struct config_webhook webhook;
    struct config_jwks jwks;
    struct config_revocation revocation;
};
