/* tls_private: what the files of loop/tls* share. */
#pragma once

#include <stdatomic.h>

#include <openssl/ssl.h>

#include "loop/tls.h"
#include "loop/tls_files.h"

enum { TLS_FINGERPRINT_BYTES = 32 };

struct tls {
    atomic_uint refs;
    bool is_server;
    bool is_judging; /* the peer's certificate is checked against our CAs; else that is somebody else's matter */
    SSL_CTX *context;
    BIO_METHOD *bio; /* of the connections (tls_conn.c) */
    struct tls_pair *pairs;
    size_t n_pairs;
    struct tls_tickets *tickets;
    tls_find_psk find_psk;
    void *psk_context;
    void (*psk_release)(void *context);
    unsigned char *alpn; /* as on the wire: each with its length before it */
    unsigned alpn_bytes;
    uint32_t handshake_timeout_ms;
    unsigned max_handshakes;
    struct tls_stats *stats;
    unsigned char fingerprint[TLS_FINGERPRINT_BYTES];
};

/* The method of the BIO that lies between a connection and OpenSSL. NULL: no memory. */
BIO_METHOD *tls_conn_new_method(void);

/* What a server decides during a handshake: sets the callbacks of the context (tls_server.c). */
void tls_server_set_callbacks(struct tls *tls, SSL_CTX *context);
