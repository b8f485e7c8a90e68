/* tls_tickets: the keys of session tickets (RFC 5077, RFC 8446 section 4.6.1). A client that comes back with a ticket resumes its
 * session without a full handshake, on any worker, and on any instance that has the same keys. Shared by reference count, any
 * thread; nothing here blocks for longer than it takes to copy a key. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum {
    TLS_TICKET_NAME_BYTES = 16,
    TLS_TICKET_KEY_BYTES = 32,
    TLS_TICKETS_MAX = 8,
    TLS_TICKET_LIFE_S = 24 * 3600, /* of a ticket, and between two random keys */
};

struct tls_ticket_key {
    unsigned char name[TLS_TICKET_NAME_BYTES];
    unsigned char cipher[TLS_TICKET_KEY_BYTES]; /* AES-256-CBC */
    unsigned char mac[TLS_TICKET_KEY_BYTES];    /* HMAC-SHA256 */
};

struct tls_tickets;

/* Random keys of this process: a new one each TLS_TICKET_LIFE_S, the one before is still accepted. The caller owns one reference.
 * NULL: the system gives no random bytes. */
struct tls_tickets *tls_tickets_new(void);

/* Keys made from the lines of `text`, at least 32 characters each, comments (#) and empty lines left out: the first one seals, all are
 * accepted, so that a new line is put on top and the last one removed a day later. Two instances with the same lines accept
 * each other's tickets. E_INVAL: a line is too short, or there is none; E_LIMIT: more than TLS_TICKETS_MAX; `ei` says which. */
MUST_USE err tls_tickets_parse(struct str text, struct tls_tickets **out_tickets, struct errinfo *ei);

/* The last tls_tickets_unref() wipes and frees; NULL is a no-op. */
struct tls_tickets *tls_tickets_ref(struct tls_tickets *tickets);
void tls_tickets_unref(struct tls_tickets *tickets);

/* A copy of the key that seals now. False: no random bytes. */
MUST_USE bool tls_tickets_current(struct tls_tickets *tickets, struct tls_ticket_key *out_key);

/* A copy of the key with this name, and whether another one seals by now. False: there is none. */
MUST_USE bool tls_tickets_find(struct tls_tickets *tickets, const unsigned char name[TLS_TICKET_NAME_BYTES],
                               struct tls_ticket_key *out_key, bool *out_is_old);

/* Whether both accept and make the same tickets. NULL is like NULL only. */
bool tls_tickets_is_same(const struct tls_tickets *a, const struct tls_tickets *b);
