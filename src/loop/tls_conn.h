/* tls_conn: TLS between a stream's plain bytes and the sealed ones on its socket. Knows no socket: sealed bytes are given to it and
 * collect in its output. Owned by a stream, and moves with it to another thread. Plain bytes never stay behind: whatever was
 * received has been opened, but for an incomplete record. OpenSSL's buffers are gone while nothing is under way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "loop/tls.h"
#include "loop/wheel.h"

struct ssl_st;
struct stream;
struct tls_peer;

enum {
    TLS_CONN_SEALED_BYTES = 64 * 1024,  /* output is sealed in portions of about this size */
    TLS_CONN_OUTPUT_BYTES = 256 * 1024, /* what a peer can make us answer before it reads; past it the connection fails */
    TLS_CONN_RECORD_BYTES =
        18 * 1024, /* an incomplete record at most (RFC 8446 section 5.2), that of the next read may complete */
};

struct tls_conn {
    struct ssl_st *ssl;
    struct tls *tls;
    struct str in;         /* sealed bytes that OpenSSL is reading; empty but in tls_conn_receive() */
    struct buf out;        /* sealed bytes for the peer */
    struct timer deadline; /* of the handshake: the stream's */
    struct stream *stream; /* for it */
    struct tls_peer *peer; /* tls_peer.h; NULL: not asked for yet */
    bool is_ready;         /* the handshake is done */
    bool is_broken;        /* nothing can be read or written any more */
    bool has_output;       /* there are bytes of the owner's in `out` */
};

enum tls_step {
    TLS_STEP_MORE,   /* go on */
    TLS_STEP_END,    /* the peer has ended its side in order */
    TLS_STEP_FAILED, /* `out` may hold an alert that says why */
};

/* What a client knows of the server. */
struct tls_server {
    const char *name; /* the certificate must be for this host's name or address */
    const char *alpn; /* the protocol that will be spoken; NULL: nothing is said */
};

/* A new connection, of a client if a server is given. E_LIMIT: too many handshakes are under way (counted). E_NOMEM. */
MUST_USE err tls_conn_new(struct tls *tls, const struct tls_server *server, struct tls_conn **out_conn);

/* NULL is a no-op. A handshake that is not done is counted as failed: `why` of tls_conn_give_up(), else the peer has gone. */
void tls_conn_free(struct tls_conn *tc);

/* Opens sealed bytes, all of them, and goes on with the handshake, which a client begins by giving none. What was in them is
 * written to `to`, which has room for them and TLS_CONN_RECORD_BYTES; `*out_n` is how much, also with an END or failure
 * behind it. */
enum tls_step tls_conn_receive(struct tls_conn *tc, struct str sealed, char *to, size_t room, size_t *out_n);

/* Seals the owner's bytes from the front of `plain` until the output has TLS_CONN_SEALED_BYTES; a no-op before the handshake is done.
 * E_NOMEM, E_PROTO: the connection is broken. */
MUST_USE err tls_conn_send(struct tls_conn *tc, struct buf *plain);

/* Says that nothing more comes (close_notify). A no-op where that cannot be said. */
void tls_conn_end(struct tls_conn *tc);

/* All output was taken. */
void tls_conn_note_sent(struct tls_conn *tc);

/* The handshake is given up: counts it as failed for this reason. A no-op when it is done or was counted. */
void tls_conn_give_up(struct tls_conn *tc, enum tls_failure why);

/* How long a handshake may take. */
uint32_t tls_conn_timeout_ms(const struct tls_conn *tc);

/* The protocol that was agreed on by ALPN; empty: none. */
struct str tls_conn_alpn(const struct tls_conn *tc);

/* Bytes of the owner's that are sealed and wait. */
static inline size_t tls_conn_pending(const struct tls_conn *tc)
{
    return tc->has_output ? buf_size(&tc->out) : 0;
}
