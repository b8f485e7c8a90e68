#include "loop/tls.h"

#include <openssl/err.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/tls_private.h"
#include "loop/tls_tickets.h"

enum {
    CHAIN_DEPTH = 8,
    PEER_CERTIFICATES_BYTES = 64 << 10, /* of a whole chain; OpenSSL's own bound is 100 KiB */
    SECURITY_LEVEL = 2,                 /* 112 bits: RSA of 2048 bits, no SHA-1 */
};

/* Forward secrecy and authenticated encryption; with pre-shared keys what small devices have besides. */
static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AESCCM:!aPSK";
static const char ciphers_with_psk[] =
    "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AESCCM:kECDHEPSK+CHACHA20:kDHEPSK+AESGCM:kDHEPSK+AESCCM:"
    "PSK+AESGCM:PSK+AESCCM:PSK+CHACHA20:!kRSAPSK";
/* An external key goes with SHA-256 only, so that its suite comes first. */
static const char suites_with_psk[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";

static err no_memory(struct errinfo *ei)
{
    return errinfo_set(ei, E_NOMEM, "TLS: %s", ERR_reason_error_string(ERR_peek_last_error()));
}

/* --- certificates --- */

static err load_pairs(struct tls *tls, const struct tls_options *options, struct tls_files *files, struct errinfo *ei)
{
    err e = E_OK;

    tls->pairs = mem_alloc_zero(MEM_LOOP, (options->n_certs + 1) * sizeof *tls->pairs);
    for (size_t i = 0; i < options->n_certs && e == E_OK; i++) {
        e = tls_files_load_pair(files, options->cert_files[i], options->key_files[i], &tls->pairs[i], ei);
        tls->n_pairs += e == E_OK;
    }
    return e;
}

/* One pair lies in the context; of several, one is chosen in each handshake (tls_server.c). */
static err use_pair(const struct tls *tls, const struct tls_options *options, struct errinfo *ei)
{
    const struct tls_pair *pair = &tls->pairs[0];

    if (tls->n_pairs != 1 || SSL_CTX_use_cert_and_key(tls->context, pair->leaf, pair->key, pair->chain, 1) == 1)
        return E_OK;
    return errinfo_set(ei, E_INVAL, "%s: cannot be used: %s", options->cert_files[0],
                       ERR_reason_error_string(ERR_peek_last_error()));
}

/* A list is wanted of whoever issued the peer's certificate; those above have one or not. */
static int check_certificate(int is_good, X509_STORE_CTX *store)
{
    if (is_good || X509_STORE_CTX_get_error(store) != X509_V_ERR_UNABLE_TO_GET_CRL ||
        X509_STORE_CTX_get_error_depth(store) == 0)
        return is_good;
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
}

/* The peer must have a key for its certificate; what that is worth is found out elsewhere. */
static int accept_certificate(int is_good, X509_STORE_CTX *store)
{
    (void)is_good;
    (void)store;
    return 1;
}

static err load_trust(struct tls *tls, const struct tls_options *options, struct tls_files *files, struct errinfo *ei)
{
    X509_STORE *store = SSL_CTX_get_cert_store(tls->context);
    STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
    unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN; /* what is trusted need not be a root */
    err e = names ? E_OK : no_memory(ei);

    for (size_t i = 0; i < options->n_cas && e == E_OK; i++)
        e = tls_files_load_cas(files, options->ca_files[i], store, tls->is_server ? names : NULL, ei);
    for (size_t i = 0; i < options->n_crls && e == E_OK; i++)
        e = tls_files_load_crls(files, options->crl_files[i], store, ei);
    if (options->n_crls)
        flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
    X509_STORE_set_flags(store, flags);
    if (e == E_OK && tls->is_server && options->n_cas)
        SSL_CTX_set_client_CA_list(tls->context, names); /* takes them */
    else
        sk_X509_NAME_pop_free(names, X509_NAME_free);
    if (e == E_OK && !tls->is_server && !options->n_cas && SSL_CTX_set_default_verify_paths(tls->context) != 1)
        e = no_memory(ei);
    return e;
}

static void set_verification(struct tls *tls, const struct tls_options *options)
{
    static const int modes[] = {
        [TLS_CLIENT_NONE] = SSL_VERIFY_NONE,
        [TLS_CLIENT_OPTIONAL] = SSL_VERIFY_PEER,
        [TLS_CLIENT_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    };
    int mode = tls->is_server ? modes[options->client_auth] : SSL_VERIFY_PEER;

    tls->is_judging = !tls->is_server || options->n_cas > 0;
    SSL_CTX_set_verify(tls->context, mode, tls->is_judging ? check_certificate : accept_certificate);
    SSL_CTX_set_verify_depth(tls->context, CHAIN_DEPTH);
    SSL_CTX_set_max_cert_list(tls->context, PEER_CERTIFICATES_BYTES);
}

/* --- the rest --- */

/* What decides whether a client's session may be resumed here. */
static void note_trust(struct tls_files *files, const struct tls_options *options)
{
    uint64_t numbers[] = {options->n_cas, options->n_crls, options->client_auth, options->find_psk != NULL};

    (void)EVP_DigestUpdate(files->digest, numbers, sizeof numbers); /* cannot fail once the digest is begun */
}

static void note_rest(struct tls_files *files, const struct tls_options *options, const unsigned char *trust)
{
    uint64_t numbers[] = {options->n_certs, options->min_version, options->handshake_timeout_ms, options->max_handshakes};

    (void)EVP_DigestUpdate(files->digest, trust, TLS_FINGERPRINT_BYTES);
    (void)EVP_DigestUpdate(files->digest, numbers, sizeof numbers);
    for (size_t i = 0; options->alpn && options->alpn[i]; i++)
        (void)EVP_DigestUpdate(files->digest, options->alpn[i], strlen(options->alpn[i]) + 1);
}

static void set_alpn(struct tls *tls, const char *const *alpn)
{
    size_t n = 0;

    for (size_t i = 0; alpn && alpn[i]; i++)
        n += strlen(alpn[i]) + 1;
    tls->alpn = mem_alloc(MEM_LOOP, n + 1);
    for (size_t i = 0; alpn && alpn[i]; i++) {
        size_t size = strlen(alpn[i]);

        ASSERT(size > 0 && size < 256);
        tls->alpn[tls->alpn_bytes++] = (unsigned char)size;
        memcpy(tls->alpn + tls->alpn_bytes, alpn[i], size);
        tls->alpn_bytes += (unsigned)size;
    }
}

static err set_protocol(struct tls *tls, const struct tls_options *options, struct errinfo *ei)
{
    SSL_CTX *context = tls->context;
    bool has_psk = options->find_psk != NULL;
    uint64_t flags =
        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA;

    /* A ticket keeps the certificate alone: whoever judges the chain must see it each time. */
    if (!options->tickets || (options->client_auth != TLS_CLIENT_NONE && !tls->is_judging))
        flags |= SSL_OP_NO_TICKET;
    SSL_CTX_set_options(context, flags);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(context, TLS_TICKET_LIFE_S);
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set_app_data(context, tls);
    if (SSL_CTX_set_min_proto_version(context, options->min_version == TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, has_psk ? ciphers_with_psk : ciphers) != 1 ||
        (has_psk && SSL_CTX_set_ciphersuites(context, suites_with_psk) != 1) ||
        SSL_CTX_set_num_tickets(context, flags & SSL_OP_NO_TICKET ? 0 : 1) != 1)
        return no_memory(ei);
    if (tls->is_server)
        tls_server_set_callbacks(tls, context);
    return E_OK;
}

/* --- life --- */

static struct tls *tls_new(const struct tls_options *options, bool is_server)
{
    struct tls *tls = mem_alloc_zero(MEM_LOOP, sizeof *tls);

    atomic_init(&tls->refs, 1);
    tls->is_server = is_server;
    tls->tickets = options->tickets ? tls_tickets_ref(options->tickets) : NULL;
    tls->find_psk = options->find_psk;
    tls->psk_context = options->psk_context;
    tls->psk_release = options->psk_release;
    tls->handshake_timeout_ms = options->handshake_timeout_ms;
    tls->max_handshakes = options->max_handshakes;
    tls->stats = options->stats;
    set_alpn(tls, options->alpn);
    tls->bio = tls_conn_new_method();
    tls->context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    return tls;
}

/* A finished digest begins anew. */
static void finish(struct tls_files *files, unsigned char out[TLS_FINGERPRINT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];

    ASSERT(EVP_DigestFinal_ex(files->digest, digest, NULL) == 1 && EVP_DigestInit_ex(files->digest, EVP_sha256(), NULL) == 1);
    memcpy(out, digest, TLS_FINGERPRINT_BYTES);
}

/* A session is resumed only where its client would be judged alike: by the same CAs and the same revocation lists. */
static err fill(struct tls *tls, const struct tls_options *options, struct tls_files *files, struct errinfo *ei)
{
    unsigned char trust[TLS_FINGERPRINT_BYTES];
    err e;

    note_trust(files, options);
    e = load_trust(tls, options, files, ei);
    finish(files, trust);
    if (e == E_OK && tls->is_server && SSL_CTX_set_session_id_context(tls->context, trust, sizeof trust) != 1)
        e = no_memory(ei);
    set_verification(tls, options);
    note_rest(files, options, trust);
    if (e == E_OK)
        e = load_pairs(tls, options, files, ei);
    if (e == E_OK)
        e = use_pair(tls, options, ei);
    if (e == E_OK)
        e = set_protocol(tls, options, ei);
    finish(files, tls->fingerprint);
    return e;
}

static err make(const struct tls_options *options, bool is_server, struct tls **out_tls, struct errinfo *ei)
{
    struct tls *tls = tls_new(options, is_server);
    struct tls_files files = {.digest = EVP_MD_CTX_new()};
    err e = E_OK;

    if (!tls->context || !tls->bio || !files.digest || EVP_DigestInit_ex(files.digest, EVP_sha256(), NULL) != 1)
        e = no_memory(ei);
    if (e == E_OK)
        e = fill(tls, options, &files, ei);
    EVP_MD_CTX_free(files.digest);
    ERR_clear_error();
    if (e == E_OK)
        *out_tls = tls;
    else
        tls_unref(tls);
    return e;
}

err tls_new_server(const struct tls_options *options, struct tls **out_tls, struct errinfo *ei)
{
    return make(options, true, out_tls, ei);
}

err tls_new_client(const struct tls_options *options, struct tls **out_tls, struct errinfo *ei)
{
    return make(options, false, out_tls, ei);
}

struct tls *tls_ref(struct tls *tls)
{
    atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
    return tls;
}

void tls_unref(struct tls *tls)
{
    if (!tls || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < tls->n_pairs; i++)
        tls_files_free_pair(&tls->pairs[i]);
    mem_free(MEM_LOOP, tls->pairs);
    mem_free(MEM_LOOP, tls->alpn);
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->bio);
    tls_tickets_unref(tls->tickets);
    if (tls->psk_release)
        tls->psk_release(tls->psk_context);
    mem_free(MEM_LOOP, tls);
}

bool tls_is_same(const struct tls *a, const struct tls *b)
{
    if (!a || !b)
        return a == b;
    return a->is_server == b->is_server && tls_tickets_is_same(a->tickets, b->tickets) &&
           memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

int64_t tls_not_after(const struct tls *tls)
{
    static const int64_t day_s = 24 * 3600;
    int64_t first = 0;

    for (size_t i = 0; i < tls->n_pairs; i++) {
        ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
        int days = 0, seconds = 0;

        if (epoch && ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(tls->pairs[i].leaf)) == 1 &&
            (first == 0 || days * day_s + seconds < first))
            first = days * day_s + seconds;
        ASN1_TIME_free(epoch);
    }
    return first;
}
