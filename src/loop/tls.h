/* tls: what one side of TLS connections is set up with: certificates, whom it trusts, versions. Made from files once, immutable, shared
 * by all workers and counted; a reload makes another one, and connections keep the one they began with. OpenSSL's contexts may be
 * used by many threads as long as nobody changes them, and nobody does. The connections are tls_conn.h's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/tls_stats.h"

struct tls;
struct tls_tickets;

enum tls_version { TLS_1_2, TLS_1_3 };

enum tls_client_auth {
    TLS_CLIENT_NONE,     /* no certificate is asked for */
    TLS_CLIENT_OPTIONAL, /* one that is given must be good */
    TLS_CLIENT_REQUIRED,
};

enum { TLS_PSK_MAX_BYTES = 384 };

/* The key of an identity that a client without certificate names (RFC 4279, RFC 8446 section 4.2.11): writes at most
 * TLS_PSK_MAX_BYTES and returns how many; 0: there is none. Any text may come. On the worker's thread, must not block. */
typedef size_t (*tls_find_psk)(void *context, struct str identity, unsigned char *to);

/* All borrowed for the call, but for what find_psk needs. Paths are relative to the working directory. */
struct tls_options {
    const char *const *cert_files; /* certificates with their chains; by SNI one whose names match is taken, else the first */
    const char *const *key_files;  /* as many */
    size_t n_certs;
    /* Whom we trust. A server without any leaves that to whoever looks at the peer (tls_peer.h), a client trusts whom the system does. */
    const char *const *ca_files;
    size_t n_cas;
    /* Without any nothing is looked up. Else the issuer of a peer's certificate must have a list here that is not over; those above it
     * may have one. */
    const char *const *crl_files;
    size_t n_crls;
    enum tls_version min_version;
    enum tls_client_auth client_auth;   /* server */
    struct tls_tickets *tickets;        /* server; NULL: no session is resumed */
    tls_find_psk find_psk;              /* server; NULL: no keys */
    void *psk_context;                  /* what it is called with, kept as long as the result lives, */
    void (*psk_release)(void *context); /* and given back by this, also when it fails; may be NULL */
    const char *const
        *alpn; /* a server's protocols by preference, ended by NULL: who asks for others only is refused; NULL: any */
    uint32_t handshake_timeout_ms;
    unsigned max_handshakes; /* under way at a time, of all that share `stats`; a server's; 0: no bound */
    struct tls_stats *stats; /* lives as long as the process */
};

/* The caller owns one reference to `*out_tls`, written only on success. E_IO, E_LIMIT, E_INVAL: a file is no good; `ei` begins with
 * its path. Blocks on the disk. */
MUST_USE err tls_new_server(const struct tls_options *options, struct tls **out_tls, struct errinfo *ei);
MUST_USE err tls_new_client(const struct tls_options *options, struct tls **out_tls, struct errinfo *ei);

/* Any thread. The last tls_unref() frees; NULL is a no-op. */
struct tls *tls_ref(struct tls *tls);
void tls_unref(struct tls *tls);

/* Whether both were made from the same options and the same content of the files. NULL is like NULL only. */
bool tls_is_same(const struct tls *a, const struct tls *b);

/* Seconds since 1970 when the first of its own certificates is over; 0: it has none. */
int64_t tls_not_after(const struct tls *tls);
