#include "loop/tls_stats.h"

static const char *const names[TLS_FAILURES] = {
    [TLS_FAILED_TIMEOUT] = "timeout",
    [TLS_FAILED_CLOSED] = "closed",
    [TLS_FAILED_NOT_TLS] = "not_tls",
    [TLS_FAILED_INCOMPATIBLE] = "incompatible",
    [TLS_FAILED_PROTOCOL] = "protocol",
    [TLS_FAILED_NO_CERTIFICATE] = "no_certificate",
    [TLS_FAILED_UNTRUSTED] = "untrusted",
    [TLS_FAILED_EXPIRED] = "expired",
    [TLS_FAILED_REVOKED] = "revoked",
    [TLS_FAILED_CRL] = "crl",
    [TLS_FAILED_PSK] = "psk",
    [TLS_FAILED_PEER] = "peer",
    [TLS_FAILED_OTHER] = "other",
};

const char *tls_stats_failure_name(enum tls_failure failure)
{
    return names[failure];
}
