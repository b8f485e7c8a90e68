/* tls_peer: who is at the other end, as the handshake has shown it: for whoever authenticates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct tls_conn;

enum { TLS_PEER_CHAIN_MAX = 8 };

/* Views live until tls_peer_forget() or the end of the connection. Of a peer without certificate those of the certificate are empty. */
struct tls_peer {
    struct str server_name;  /* what a client called us (SNI), as it was sent; empty: nothing */
    struct str psk_identity; /* the identity whose key the client has; empty: none was used */
    struct str der;          /* the peer's certificate; it has the key for it */
    struct str subject;      /* its names as RFC 2253 writes them */
    struct str issuer;
    int64_t not_before_s; /* seconds since 1970 */
    int64_t not_after_s;
    bool is_trusted;                      /* it was checked against our CAs and revocation lists */
    bool is_resumed;                      /* the session is an earlier one's: there is no chain */
    struct str chain[TLS_PEER_CHAIN_MAX]; /* DER, what a client sent above its certificate */
    size_t n_chain;
};

/* Made with the first call, after the handshake. NULL: no memory. */
const struct tls_peer *tls_peer_of(struct tls_conn *tc);

/* Gives the memory back until the next tls_peer_of(). A no-op without any. */
void tls_peer_forget(struct tls_conn *tc);

/* Whether the peer's certificate is for this host name or address: what a client asks of a server before anything is said (struct
 * tls_server), for a server that learns only later who its client says it is. False without a certificate. After the handshake. */
bool tls_peer_has_name(struct tls_conn *tc, struct str name);
