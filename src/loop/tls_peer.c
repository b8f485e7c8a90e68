#include "loop/tls_peer.h"

#include <arpa/inet.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/tls_conn.h"
#include "loop/tls_private.h"

enum { NAME_MAX_BYTES = 255 };

/* The texts lie behind it, in the same block. */
struct holder {
    struct tls_peer peer;
    char bytes[];
};

/* What is copied into the holder. */
struct parts {
    BIO *subject, *issuer; /* texts */
    unsigned char *der[1 + TLS_PEER_CHAIN_MAX];
    int der_bytes[1 + TLS_PEER_CHAIN_MAX];
    size_t n_der;
};

static int64_t seconds_of(const ASN1_TIME *time)
{
    static const int64_t day_s = 24 * 3600;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;

    if (!epoch || ASN1_TIME_diff(&days, &seconds, epoch, time) != 1)
        days = seconds = 0;
    ASN1_TIME_free(epoch);
    return days * day_s + seconds;
}

static BIO *print_name(const X509_NAME *name)
{
    BIO *text = BIO_new(BIO_s_mem());

    /* RFC 2253, but UTF-8 as it is. */
    if (text && X509_NAME_print_ex(text, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) < 0) {
        BIO_free(text);
        return NULL;
    }
    return text;
}

static struct str text_of(BIO *bio)
{
    char *p = NULL;
    long n = bio ? BIO_get_mem_data(bio, &p) : 0;

    return (struct str){p, n > 0 ? (size_t)n : 0};
}

static bool add_der(struct parts *parts, X509 *certificate)
{
    unsigned char *der = NULL;
    int n = i2d_X509(certificate, &der);

    if (n <= 0)
        return false;
    parts->der[parts->n_der] = der;
    parts->der_bytes[parts->n_der++] = n;
    return true;
}

static bool collect(struct tls_conn *tc, X509 *leaf, struct parts *parts)
{
    STACK_OF(X509) *chain =
        SSL_get_peer_cert_chain(tc->ssl); /* without the certificate itself on a server, with it on a client */
    int first = tc->tls->is_server ? 0 : 1;

    if (!leaf)
        return true;
    parts->subject = print_name(X509_get_subject_name(leaf));
    parts->issuer = print_name(X509_get_issuer_name(leaf));
    if (!parts->subject || !parts->issuer || !add_der(parts, leaf))
        return false;
    for (int i = first; chain && i < sk_X509_num(chain) && parts->n_der <= TLS_PEER_CHAIN_MAX; i++)
        if (!add_der(parts, sk_X509_value(chain, i)))
            return false;
    return true;
}

static void release(struct parts *parts)
{
    BIO_free(parts->subject);
    BIO_free(parts->issuer);
    for (size_t i = 0; i < parts->n_der; i++)
        OPENSSL_free(parts->der[i]);
}

/* TLS 1.3 keeps the identity with the session (tls_server.c), 1.2 has a place for it. */
static struct str psk_identity(SSL *ssl)
{
    const char *old = SSL_get_psk_identity(ssl);
    void *data = NULL;
    size_t n = 0;

    if (SSL_version(ssl) < TLS1_3_VERSION)
        return str_from(old ? old : "");
    if (!SSL_session_reused(ssl) || SSL_SESSION_get0_ticket_appdata(SSL_get_session(ssl), &data, &n) != 1)
        return (struct str){0};
    return (struct str){data, n};
}

static struct str copy(struct holder *holder, size_t *at, struct str s)
{
    struct str here = {holder->bytes + *at, s.n};

    if (s.n)
        memcpy(holder->bytes + *at, s.p, s.n);
    *at += s.n;
    return here;
}

static struct tls_peer *assemble(struct tls_conn *tc, X509 *leaf, const struct parts *parts)
{
    const char *name = SSL_get_servername(tc->ssl, TLSEXT_NAMETYPE_host_name);
    struct str subject = text_of(parts->subject), issuer = text_of(parts->issuer);
    struct str identity = psk_identity(tc->ssl), server_name = str_from(name ? name : "");
    size_t n = subject.n + issuer.n + identity.n + server_name.n, at = 0;
    struct holder *holder;

    for (size_t i = 0; i < parts->n_der; i++)
        n += (size_t)parts->der_bytes[i];
    holder = mem_try_alloc(MEM_LOOP, sizeof *holder + n);
    if (!holder)
        return NULL;
    holder->peer = (struct tls_peer){
        .server_name = copy(holder, &at, server_name),
        .psk_identity = copy(holder, &at, identity),
        .subject = copy(holder, &at, subject),
        .issuer = copy(holder, &at, issuer),
        .not_before_s = leaf ? seconds_of(X509_get0_notBefore(leaf)) : 0,
        .not_after_s = leaf ? seconds_of(X509_get0_notAfter(leaf)) : 0,
        .is_trusted = leaf && tc->tls->is_judging && SSL_get_verify_result(tc->ssl) == X509_V_OK,
        .is_resumed = SSL_session_reused(tc->ssl),
    };
    for (size_t i = 0; i < parts->n_der; i++) {
        struct str der = copy(holder, &at, (struct str){(const char *)parts->der[i], (size_t)parts->der_bytes[i]});

        if (i == 0)
            holder->peer.der = der;
        else
            holder->peer.chain[holder->peer.n_chain++] = der;
    }
    return &holder->peer;
}

const struct tls_peer *tls_peer_of(struct tls_conn *tc)
{
    X509 *leaf = SSL_get0_peer_certificate(tc->ssl);
    struct parts parts = {0};

    ASSERT(tc->is_ready);
    if (!tc->peer && collect(tc, leaf, &parts))
        tc->peer = assemble(tc, leaf, &parts);
    release(&parts);
    ERR_clear_error();
    return tc->peer;
}

void tls_peer_forget(struct tls_conn *tc)
{
    mem_free(MEM_LOOP, tc->peer);
    tc->peer = NULL;
}

bool tls_peer_has_name(struct tls_conn *tc, struct str name)
{
    X509 *leaf = SSL_get0_peer_certificate(tc->ssl);
    char text[NAME_MAX_BYTES + 1] = "";
    unsigned char address[sizeof(struct in6_addr)];
    int is_so;

    ASSERT(tc->is_ready);
    if (!leaf || name.n == 0 || name.n > NAME_MAX_BYTES || memchr(name.p, '\0', name.n))
        return false;
    memcpy(text, name.p, name.n);
    if (inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1)
        is_so = X509_check_ip_asc(leaf, text, 0);
    else
        is_so = X509_check_host(leaf, text, name.n, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL);
    ERR_clear_error();
    return is_so == 1;
}
