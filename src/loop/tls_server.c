/* What a server decides during a handshake: which certificate, which protocol, which session, which pre-shared key. */
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/utf8.h"
#include "loop/tls_private.h"
#include "loop/tls_tickets.h"

static struct tls *tls_of(SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* --- certificates --- */

/* Said yes to whatever name the client gives, so that the name is kept with its session. */
static int on_server_name(SSL *ssl, int *alert, void *context)
{
    (void)ssl;
    (void)alert;
    (void)context;
    return SSL_TLSEXT_ERR_OK;
}

static bool is_for(const struct tls_pair *pair, const char *name)
{
    return X509_check_host(pair->leaf, name, strlen(name), 0, NULL) == 1;
}

/* All pairs whose certificate has the name, or all; the first of each kind of key holds, since a later one takes its place. */
static int on_certificate(SSL *ssl, void *context)
{
    struct tls *tls = context;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    bool is_known = false;

    for (size_t i = 0; name && i < tls->n_pairs && !is_known; i++)
        is_known = is_for(&tls->pairs[i], name);
    SSL_certs_clear(ssl);
    for (size_t i = tls->n_pairs; i-- > 0;) {
        const struct tls_pair *pair = &tls->pairs[i];

        if ((!is_known || is_for(pair, name)) && SSL_use_cert_and_key(ssl, pair->leaf, pair->key, pair->chain, 1) != 1)
            return 0;
    }
    return 1;
}

/* RFC 7301 section 3.2: a client that speaks nothing of what we do is refused. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *theirs, unsigned n_theirs,
                   void *context)
{
    const struct tls *tls = context;
    unsigned char *chosen;

    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_n, tls->alpn, tls->alpn_bytes, theirs, n_theirs) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* --- session tickets --- */

static bool use_key(const struct tls_ticket_key *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                    int seals)
{
    char digest[] = "SHA256";
    unsigned char secret[TLS_TICKET_KEY_BYTES];
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, secret, sizeof secret),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    bool is_good;

    memcpy(secret, key->mac, sizeof secret);
    is_good = EVP_MAC_CTX_set_params(mac, params) == 1 &&
              EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv, seals) == 1;
    explicit_bzero(secret, sizeof secret);
    return is_good;
}

/* Returns as SSL_CTX_set_tlsext_ticket_key_evp_cb() wants it: -1 failed, 0 no such key, 1 good, 2 good and to be sealed anew. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int seals)
{
    struct tls *tls = tls_of(ssl);
    struct tls_ticket_key key;
    bool is_old = false;
    int result = 1;

    if (seals && (!tls_tickets_current(tls->tickets, &key) || RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1))
        result = -1;
    else if (seals)
        memcpy(name, key.name, sizeof key.name);
    else if (!tls_tickets_find(tls->tickets, name, &key, &is_old))
        return 0;
    if (result == 1 && !use_key(&key, iv, cipher, mac, seals))
        result = -1;
    explicit_bzero(&key, sizeof key);
    return result == 1 && is_old ? 2 : result;
}

/* --- pre-shared keys --- */

static size_t find_key(struct tls *tls, struct str identity, unsigned char *to)
{
    return identity.n && utf8_is_valid(identity) && !memchr(identity.p, '\0', identity.n)
               ? tls->find_psk(tls->psk_context, identity, to)
               : 0;
}

/* TLS 1.2. */
static unsigned on_psk(SSL *ssl, const char *identity, unsigned char *to, unsigned room)
{
    unsigned char key[TLS_PSK_MAX_BYTES];
    size_t n = SSL_version(ssl) < TLS1_3_VERSION && identity
                   ? find_key(tls_of(ssl), (struct str){identity, strlen(identity)}, key)
                   : 0;

    if (n > room)
        n = 0;
    memcpy(to, key, n);
    explicit_bzero(key, sizeof key);
    return (unsigned)n;
}

/* The identity goes with the session, so that it is there once the key has been proved, and when the session is resumed. */
static SSL_SESSION *session_of(SSL *ssl, const unsigned char *key, size_t n, const unsigned char *identity, size_t identity_n)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, key, n) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
        SSL_SESSION_set1_ticket_appdata(session, identity, identity_n) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* TLS 1.3. Called for every identity, those of session tickets too. */
static int on_psk_session(SSL *ssl, const unsigned char *identity, size_t identity_n, SSL_SESSION **out_session)
{
    unsigned char key[TLS_PSK_MAX_BYTES];
    size_t n = find_key(tls_of(ssl), (struct str){(const char *)identity, identity_n}, key);

    *out_session = n ? session_of(ssl, key, n, identity, identity_n) : NULL;
    explicit_bzero(key, sizeof key);
    return n == 0 || *out_session;
}

void tls_server_set_callbacks(struct tls *tls, SSL_CTX *context)
{
    SSL_CTX_set_tlsext_servername_callback(context, on_server_name);
    if (tls->n_pairs > 1)
        SSL_CTX_set_cert_cb(context, on_certificate, tls);
    if (tls->alpn_bytes)
        SSL_CTX_set_alpn_select_cb(context, on_alpn, tls);
    if (tls->tickets)
        SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
    if (tls->find_psk) {
        SSL_CTX_set_psk_server_callback(context, on_psk);
        SSL_CTX_set_psk_find_session_callback(context, on_psk_session);
    }
}
