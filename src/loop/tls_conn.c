#include "loop/tls_conn.h"

#include <arpa/inet.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/log.h"
#include "loop/tls_peer.h"
#include "loop/tls_private.h"

/* What a record takes beside its content, at most: header, explicit nonce, tag. */
enum { RECORD_OVERHEAD_BYTES = 64, RECORD_BYTES = 16 * 1024 };

/* --- the BIO between OpenSSL and the two buffers --- */

static int on_bio_read(BIO *bio, char *to, size_t room, size_t *out_n)
{
    struct tls_conn *tc = BIO_get_data(bio);
    size_t n = tc->in.n < room ? tc->in.n : room;

    BIO_clear_retry_flags(bio);
    *out_n = n;
    if (n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(to, tc->in.p, n);
    tc->in = str_from_offset(tc->in, n);
    return 1;
}

static int on_bio_write(BIO *bio, const char *from, size_t n, size_t *out_n)
{
    struct tls_conn *tc = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *out_n = 0;
    if (buf_size(&tc->out) + n > TLS_CONN_OUTPUT_BYTES || buf_append(&tc->out, MEM_LOOP, (struct str){from, n}) != E_OK) {
        tc->is_broken = true;
        return 0;
    }
    *out_n = n;
    return 1;
}

static long on_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_conn_new_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");

    if (method && BIO_meth_set_read_ex(method, on_bio_read) == 1 && BIO_meth_set_write_ex(method, on_bio_write) == 1 &&
        BIO_meth_set_ctrl(method, on_bio_ctrl) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* --- counting --- */

static void count_failure(struct tls_conn *tc, enum tls_failure why)
{
    struct tls_stats *stats = tc->tls->stats;

    atomic_fetch_sub_explicit(&stats->shaking, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->failed[why], 1, memory_order_relaxed);
    tc->is_broken = true;
}

void tls_conn_give_up(struct tls_conn *tc, enum tls_failure why)
{
    if (!tc->is_ready && !tc->is_broken)
        count_failure(tc, why);
}

static enum tls_failure failure_of_certificate(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_FAILED_EXPIRED;
    case X509_V_ERR_CERT_REVOKED:
        return TLS_FAILED_REVOKED;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
        return TLS_FAILED_CRL;
    default:
        return TLS_FAILED_UNTRUSTED;
    }
}

static const struct {
    int reason;
    enum tls_failure failure;
} failures[] = {
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, TLS_FAILED_NO_CERTIFICATE},
    {SSL_R_HTTP_REQUEST, TLS_FAILED_NOT_TLS},
    {SSL_R_HTTPS_PROXY_REQUEST, TLS_FAILED_NOT_TLS},
    {SSL_R_WRONG_VERSION_NUMBER, TLS_FAILED_NOT_TLS},
    {SSL_R_UNEXPECTED_MESSAGE, TLS_FAILED_NOT_TLS},
    {SSL_R_BAD_RECORD_TYPE, TLS_FAILED_NOT_TLS},
    {SSL_R_UNSUPPORTED_PROTOCOL, TLS_FAILED_INCOMPATIBLE},
    {SSL_R_VERSION_TOO_LOW, TLS_FAILED_INCOMPATIBLE},
    {SSL_R_NO_SHARED_CIPHER, TLS_FAILED_INCOMPATIBLE},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, TLS_FAILED_INCOMPATIBLE},
    {SSL_R_NO_SUITABLE_KEY_SHARE, TLS_FAILED_INCOMPATIBLE},
    {SSL_R_NO_APPLICATION_PROTOCOL, TLS_FAILED_PROTOCOL},
    {SSL_R_PSK_IDENTITY_NOT_FOUND, TLS_FAILED_PSK},
    {SSL_R_BINDER_DOES_NOT_VERIFY, TLS_FAILED_PSK},
};

static enum tls_failure failure_of(const struct tls_conn *tc, unsigned long error)
{
    int reason = ERR_GET_REASON(error);

    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return failure_of_certificate(SSL_get_verify_result(tc->ssl));
    if (reason >= SSL_AD_REASON_OFFSET)
        return TLS_FAILED_PEER;
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (failures[i].reason == reason)
            return failures[i].failure;
    return TLS_FAILED_OTHER;
}

/* --- life --- */

/* Its certificate must be for this name (RFC 6125), and it is told the name unless it is an address (RFC 6066 section 3). */
static bool set_server_name(SSL *ssl, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* SSL_set_tlsext_host_name() is a macro that casts the const away, which clang minds. */
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)name) == 1;
}

static bool set_server(SSL *ssl, const struct tls_server *server)
{
    unsigned char alpn[256];
    size_t n = server->alpn ? strlen(server->alpn) : 0;

    SSL_set_connect_state(ssl);
    ASSERT(n < sizeof alpn);
    alpn[0] = (unsigned char)n;
    if (n)
        memcpy(alpn + 1, server->alpn, n);
    return set_server_name(ssl, server->name) && (n == 0 || SSL_set_alpn_protos(ssl, alpn, (unsigned)n + 1) == 0);
}

static bool set_up(struct tls_conn *tc, const struct tls_server *server)
{
    BIO *bio = BIO_new(tc->tls->bio);

    tc->ssl = SSL_new(tc->tls->context);
    if (!tc->ssl || !bio) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, tc);
    BIO_set_init(bio, 1);
    SSL_set_bio(tc->ssl, bio, bio);
    if (!tc->tls->is_server)
        return set_server(tc->ssl, server);
    SSL_set_accept_state(tc->ssl);
    return true;
}

err tls_conn_new(struct tls *tls, const struct tls_server *server, struct tls_conn **out_conn)
{
    struct tls_stats *stats = tls->stats;
    struct tls_conn *tc;

    if (tls->max_handshakes && atomic_load_explicit(&stats->shaking, memory_order_relaxed) >= tls->max_handshakes) {
        atomic_fetch_add_explicit(&stats->refused, 1, memory_order_relaxed);
        return E_LIMIT;
    }
    tc = mem_alloc_zero(MEM_LOOP, sizeof *tc);
    tc->tls = tls_ref(tls);
    atomic_fetch_add_explicit(&stats->open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->shaking, 1, memory_order_relaxed);
    if (set_up(tc, server)) {
        *out_conn = tc;
        return E_OK;
    }
    tls_conn_give_up(tc, TLS_FAILED_OTHER);
    tls_conn_free(tc);
    return E_NOMEM;
}

void tls_conn_free(struct tls_conn *tc)
{
    if (!tc)
        return;
    tls_conn_give_up(tc, TLS_FAILED_CLOSED);
    wheel_stop(&tc->deadline);
    atomic_fetch_sub_explicit(&tc->tls->stats->open, 1, memory_order_relaxed);
    SSL_free(tc->ssl); /* with its BIO */
    buf_free(&tc->out, MEM_LOOP);
    tls_peer_forget(tc);
    tls_unref(tc->tls);
    mem_free(MEM_LOOP, tc);
}

/* --- handshake --- */

/* A ticket outlives the certificate that was checked when it was given. */
static bool is_over(const struct tls_conn *tc)
{
    X509 *leaf = SSL_session_reused(tc->ssl) ? SSL_get0_peer_certificate(tc->ssl) : NULL;

    return leaf && X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0;
}

static enum tls_step complete(struct tls_conn *tc)
{
    struct tls_stats *stats = tc->tls->stats;

    if (is_over(tc)) {
        count_failure(tc, TLS_FAILED_EXPIRED);
        return TLS_STEP_FAILED;
    }
    tc->is_ready = true;
    atomic_fetch_sub_explicit(&stats->shaking, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(SSL_session_reused(tc->ssl) ? &stats->resumed : &stats->full, 1, memory_order_relaxed);
    return TLS_STEP_MORE;
}

static enum tls_step fail_handshake(struct tls_conn *tc)
{
    unsigned long error = ERR_peek_error();
    enum tls_failure why = failure_of(tc, error);
    const char *text = ERR_reason_error_string(error);

    LOG_DEBUG(LOG_LOOP, "tls.handshake_failed", F_TEXT("reason", tls_stats_failure_name(why)),
              F_TEXT("detail", text ? text : ""));
    count_failure(tc, why);
    return TLS_STEP_FAILED;
}

static enum tls_step shake(struct tls_conn *tc)
{
    int result = SSL_do_handshake(tc->ssl);

    if (result == 1)
        return complete(tc);
    if (SSL_get_error(tc->ssl, result) == SSL_ERROR_WANT_READ)
        return TLS_STEP_MORE;
    return fail_handshake(tc);
}

/* --- bytes --- */

static enum tls_step fail(struct tls_conn *tc)
{
    if (!tc->is_broken)
        atomic_fetch_add_explicit(&tc->tls->stats->broken, 1, memory_order_relaxed);
    tc->is_broken = true;
    return TLS_STEP_FAILED;
}

static enum tls_step open_records(struct tls_conn *tc, char *to, size_t room, size_t *out_n)
{
    while (*out_n < room) {
        size_t n = 0;

        if (SSL_read_ex(tc->ssl, to + *out_n, room - *out_n, &n) == 1) {
            *out_n += n;
            continue;
        }
        switch (SSL_get_error(tc->ssl, 0)) {
        case SSL_ERROR_WANT_READ:
            return TLS_STEP_MORE;
        case SSL_ERROR_ZERO_RETURN:
            return TLS_STEP_END;
        default:
            return fail(tc);
        }
    }
    ASSERT(tc->in.n == 0 && SSL_pending(tc->ssl) == 0); /* there was room for all */
    return TLS_STEP_MORE;
}

enum tls_step tls_conn_receive(struct tls_conn *tc, struct str sealed, char *to, size_t room, size_t *out_n)
{
    enum tls_step step = TLS_STEP_MORE;

    *out_n = 0;
    if (tc->is_broken)
        return TLS_STEP_FAILED;
    ERR_clear_error();
    tc->in = sealed;
    if (!tc->is_ready)
        step = shake(tc);
    if (tc->is_ready && step == TLS_STEP_MORE)
        step = open_records(tc, to, room, out_n);
    tc->in = (struct str){0};
    return step;
}

err tls_conn_send(struct tls_conn *tc, struct buf *plain)
{
    size_t sealed = buf_size(&tc->out), bytes = buf_size(plain);

    if (!tc->is_ready || bytes == 0 || sealed >= TLS_CONN_SEALED_BYTES)
        return E_OK;
    if (tc->is_broken)
        return E_PROTO;
    ERR_clear_error();
    if (bytes > TLS_CONN_SEALED_BYTES)
        bytes = TLS_CONN_SEALED_BYTES;
    if (!buf_reserve(&tc->out, MEM_LOOP, bytes + (bytes / RECORD_BYTES + 1) * RECORD_OVERHEAD_BYTES))
        return E_NOMEM;
    while (bytes > 0 && buf_size(&tc->out) < TLS_CONN_SEALED_BYTES) {
        size_t n = 0;

        if (SSL_write_ex(tc->ssl, buf_str(plain).p, bytes, &n) != 1) {
            (void)fail(tc);
            return E_PROTO;
        }
        buf_consume(plain, n);
        bytes -= n;
        tc->has_output = true;
    }
    return E_OK;
}

void tls_conn_end(struct tls_conn *tc)
{
    if (!tc->is_ready || tc->is_broken || (SSL_get_shutdown(tc->ssl) & SSL_SENT_SHUTDOWN))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(tc->ssl); /* 0: the peer has not said so yet, which is its matter */
    ERR_clear_error();
}

void tls_conn_note_sent(struct tls_conn *tc)
{
    buf_free(&tc->out, MEM_LOOP);
    tc->has_output = false;
}

uint32_t tls_conn_timeout_ms(const struct tls_conn *tc)
{
    return tc->tls->handshake_timeout_ms;
}

struct str tls_conn_alpn(const struct tls_conn *tc)
{
    const unsigned char *name = NULL;
    unsigned n = 0;

    SSL_get0_alpn_selected(tc->ssl, &name, &n);
    return (struct str){(const char *)name, n};
}
