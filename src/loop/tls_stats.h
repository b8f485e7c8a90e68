/* tls_stats: what TLS counts, for whoever shows it (obs/tls_metrics.h). Shared by all connections of one side of the process; any
 * thread. All-zero is a fresh start. */
#pragma once

#include <stdatomic.h>

/* Why a handshake came to nothing. */
enum tls_failure {
    TLS_FAILED_TIMEOUT,        /* it took too long */
    TLS_FAILED_CLOSED,         /* the peer went away */
    TLS_FAILED_NOT_TLS,        /* it speaks something else */
    TLS_FAILED_INCOMPATIBLE,   /* no version, cipher or signature that both have */
    TLS_FAILED_PROTOCOL,       /* ALPN: no protocol that both have */
    TLS_FAILED_NO_CERTIFICATE, /* one is required */
    TLS_FAILED_UNTRUSTED,      /* the certificate comes from nobody we trust, or is for somebody else */
    TLS_FAILED_EXPIRED,        /* the certificate's time is over, or not yet come */
    TLS_FAILED_REVOKED,
    TLS_FAILED_CRL,  /* nothing, or nothing recent, is known of what its issuer has revoked */
    TLS_FAILED_PSK,  /* unknown identity, or not its key */
    TLS_FAILED_PEER, /* the peer refused us, by an alert */
    TLS_FAILED_OTHER,
    TLS_FAILURES,
};

struct tls_stats {
    atomic_uint_fast64_t full, resumed; /* handshakes that succeeded */
    atomic_uint_fast64_t failed[TLS_FAILURES];
    atomic_uint_fast64_t refused; /* connections closed at once: too many handshakes under way */
    atomic_uint_fast64_t broken;  /* connections ended after their handshake for a record that was no good */
    atomic_uint open;             /* connections now, */
    atomic_uint shaking;          /* and those of them whose handshake is under way */
};

/* The word for metrics and logs, as in "untrusted". */
const char *tls_stats_failure_name(enum tls_failure failure);
