#include "loop/tls_tickets.h"

#include <pthread.h>
#include <stdatomic.h>

#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/mem.h"
#include "loop/loop.h"

enum { LINE_MIN_BYTES = 32, MS_PER_S = 1000 };

struct tls_tickets {
    atomic_uint refs;
    pthread_mutex_t lock; /* of the rest; held for a copy only */
    bool is_random;
    uint64_t made_ms; /* the first key, if random */
    unsigned n;
    struct tls_ticket_key keys[TLS_TICKETS_MAX];
};

static struct tls_tickets *tickets_new(void)
{
    struct tls_tickets *tickets = mem_alloc_zero(MEM_LOOP, sizeof *tickets);

    atomic_init(&tickets->refs, 1);
    pthread_mutex_init(&tickets->lock, NULL);
    return tickets;
}

struct tls_tickets *tls_tickets_ref(struct tls_tickets *tickets)
{
    atomic_fetch_add_explicit(&tickets->refs, 1, memory_order_relaxed);
    return tickets;
}

void tls_tickets_unref(struct tls_tickets *tickets)
{
    if (!tickets || atomic_fetch_sub_explicit(&tickets->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&tickets->lock);
    explicit_bzero(tickets, sizeof *tickets);
    mem_free(MEM_LOOP, tickets);
}

/* Puts a random key before the others. */
static bool make_key(struct tls_tickets *tickets)
{
    struct tls_ticket_key key;

    if (RAND_bytes(key.name, sizeof key.name) != 1 || RAND_priv_bytes(key.cipher, sizeof key.cipher) != 1 ||
        RAND_priv_bytes(key.mac, sizeof key.mac) != 1)
        return false;
    tickets->keys[1] = tickets->keys[0];
    tickets->keys[0] = key;
    tickets->n = tickets->n ? 2 : 1;
    tickets->made_ms = loop_clock_ms();
    explicit_bzero(&key, sizeof key);
    return true;
}

struct tls_tickets *tls_tickets_new(void)
{
    struct tls_tickets *tickets = tickets_new();

    tickets->is_random = true;
    if (make_key(tickets))
        return tickets;
    tls_tickets_unref(tickets);
    return NULL;
}

/* One part of a key: HMAC-SHA256 of what it is for, with the line as the secret. */
static void derive(struct str line, const char *what, unsigned char *out, size_t n)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    HMAC(EVP_sha256(), line.p, (int)line.n, (const unsigned char *)what, strlen(what), digest, &size);
    memcpy(out, digest, n);
    explicit_bzero(digest, sizeof digest);
}

static struct str without_space(struct str line)
{
    while (line.n && (unsigned char)line.p[line.n - 1] <= ' ')
        line.n--;
    while (line.n && (unsigned char)line.p[0] <= ' ')
        line = str_from_offset(line, 1);
    return line;
}

err tls_tickets_parse(struct str text, struct tls_tickets **out_tickets, struct errinfo *ei)
{
    struct tls_tickets *tickets = tickets_new();
    bool has_more = text.n > 0;
    err e = E_OK;

    for (unsigned number = 1; has_more && e == E_OK; number++) {
        struct str line = without_space(str_take(&text, '\n', &has_more));

        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (line.n < LINE_MIN_BYTES) {
            e = errinfo_set(ei, E_INVAL, "line %u: a key has at least %d characters", number, LINE_MIN_BYTES);
        } else if (tickets->n == TLS_TICKETS_MAX) {
            e = errinfo_set(ei, E_LIMIT, "line %u: more than %d keys", number, TLS_TICKETS_MAX);
        } else {
            struct tls_ticket_key *key = &tickets->keys[tickets->n++];

            derive(line, "millrace ticket name", key->name, sizeof key->name);
            derive(line, "millrace ticket cipher", key->cipher, sizeof key->cipher);
            derive(line, "millrace ticket mac", key->mac, sizeof key->mac);
        }
    }
    if (e == E_OK && tickets->n == 0)
        e = errinfo_set(ei, E_INVAL, "has no key");
    if (e == E_OK)
        *out_tickets = tickets;
    else
        tls_tickets_unref(tickets);
    return e;
}

bool tls_tickets_current(struct tls_tickets *tickets, struct tls_ticket_key *out_key)
{
    bool is_good = true;

    pthread_mutex_lock(&tickets->lock);
    if (tickets->is_random && loop_clock_ms() - tickets->made_ms >= (uint64_t)TLS_TICKET_LIFE_S * MS_PER_S)
        is_good = make_key(tickets);
    *out_key = tickets->keys[0];
    pthread_mutex_unlock(&tickets->lock);
    return is_good;
}

bool tls_tickets_find(struct tls_tickets *tickets, const unsigned char name[TLS_TICKET_NAME_BYTES],
                      struct tls_ticket_key *out_key, bool *out_is_old)
{
    unsigned i = 0;

    pthread_mutex_lock(&tickets->lock);
    while (i < tickets->n && memcmp(tickets->keys[i].name, name, TLS_TICKET_NAME_BYTES) != 0)
        i++;
    if (i < tickets->n)
        *out_key = tickets->keys[i];
    *out_is_old = i > 0;
    i = i < tickets->n;
    pthread_mutex_unlock(&tickets->lock);
    return i;
}

bool tls_tickets_is_same(const struct tls_tickets *a, const struct tls_tickets *b)
{
    if (a == b || !a || !b || a->is_random || b->is_random || a->n != b->n)
        return a == b;
    return memcmp(a->keys, b->keys, a->n * sizeof *a->keys) == 0; /* those from a file never change */
}
