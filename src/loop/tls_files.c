#include "loop/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

/* The newest of OpenSSL's reasons, as words. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());

    return text ? text : "it cannot be read";
}

static err read_descriptor(int fd, const char *path, struct buf *out, struct errinfo *ei)
{
    struct stat about;
    ssize_t got = -1;

    if (fstat(fd, &about) != 0)
        return errinfo_set(ei, E_IO, "%s: %m", path);
    if (!S_ISREG(about.st_mode))
        return errinfo_set(ei, E_IO, "%s: it is not an ordinary file", path);
    if (about.st_size > TLS_FILE_MAX_BYTES)
        return errinfo_set(ei, E_LIMIT, "%s: it is too large (at most %d MiB)", path, TLS_FILE_MAX_BYTES >> 20);
    while (buf_size(out) <= TLS_FILE_MAX_BYTES) {
        char *to = buf_reserve(out, MEM_LOOP, (size_t)about.st_size + 1);

        got = to ? read(fd, to, (size_t)about.st_size + 1) : -1;
        if (got <= 0)
            break;
        buf_commit(out, (size_t)got);
    }
    return got == 0 ? E_OK : errinfo_set(ei, E_IO, "%s: %s", path, got < 0 ? strerror(errno) : "it grows while it is read");
}

err tls_files_read(struct tls_files *files, const char *path, struct buf *out, struct errinfo *ei)
{
    /* Not blocking, so that a pipe is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t size;
    err e;

    if (fd < 0)
        return errinfo_set(ei, E_IO, "%s: %m", path);
    e = read_descriptor(fd, path, out, ei);
    (void)close(fd); /* only read from */
    size = buf_size(out);
    if (e == E_OK && (EVP_DigestUpdate(files->digest, &size, sizeof size) != 1 ||
                      EVP_DigestUpdate(files->digest, buf_str(out).p, size) != 1))
        e = errinfo_set(ei, E_NOMEM, "%s: no memory", path);
    return e;
}

static void wipe(struct buf *b)
{
    if (b->p)
        explicit_bzero(b->p, b->cap);
    buf_free(b, MEM_LOOP);
}

/* OpenSSL would ask the terminal. */
static int refuse_password(char *to, int size, int is_writing, void *context)
{
    (void)to;
    (void)size;
    (void)is_writing;
    *(bool *)context = true;
    return -1;
}

static BIO *bio_of(const struct buf *b)
{
    return BIO_new_mem_buf(b->p ? b->p + b->head : "", (int)buf_size(b));
}

/* The first certificate is the server's own, those behind it go up to the root, which may be left out (RFC 8446 section 4.4.2). */
static err read_certificates(const struct buf *pem, const char *path, struct tls_pair *pair, struct errinfo *ei)
{
    BIO *bio = bio_of(pem);
    X509 *next;

    ERR_clear_error();
    pair->chain = sk_X509_new_null();
    pair->leaf = bio && pair->chain ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    while (pair->leaf && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (!sk_X509_push(pair->chain, next)) {
            X509_free(next);
            break;
        }
    BIO_free(bio);
    if (!pair->leaf)
        return errinfo_set(ei, E_INVAL, "%s: no certificate in it (PEM): %s", path, reason());
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return errinfo_set(ei, E_INVAL, "%s: a certificate in it is damaged: %s", path, reason());
    ERR_clear_error();
    return E_OK;
}

static err read_key(const struct buf *pem, const char *path, struct tls_pair *pair, struct errinfo *ei)
{
    BIO *bio = bio_of(pem);
    bool is_encrypted = false;

    ERR_clear_error();
    pair->key = bio ? PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &is_encrypted) : NULL;
    BIO_free(bio);
    if (is_encrypted)
        return errinfo_set(ei, E_INVAL, "%s: the key is encrypted; it is to be without a password", path);
    if (!pair->key)
        return errinfo_set(ei, E_INVAL, "%s: no private key in it (PEM): %s", path, reason());
    return E_OK;
}

err tls_files_load_pair(struct tls_files *files, const char *cert_path, const char *key_path, struct tls_pair *out_pair,
                        struct errinfo *ei)
{
    struct tls_pair pair = {0};
    struct buf cert = {0}, key = {0};
    err e = tls_files_read(files, cert_path, &cert, ei);

    if (e == E_OK)
        e = read_certificates(&cert, cert_path, &pair, ei);
    if (e == E_OK && key_path)
        e = tls_files_read(files, key_path, &key, ei);
    if (e == E_OK)
        e = read_key(key_path ? &key : &cert, key_path ? key_path : cert_path, &pair, ei);
    if (e == E_OK && X509_check_private_key(pair.leaf, pair.key) != 1)
        e = errinfo_set(ei, E_INVAL, "%s: the key is not that of the certificate in %s", key_path ? key_path : cert_path,
                        cert_path);
    ERR_clear_error();
    wipe(&cert);
    wipe(&key);
    if (e == E_OK)
        *out_pair = pair;
    else
        tls_files_free_pair(&pair);
    return e;
}

void tls_files_free_pair(struct tls_pair *pair)
{
    X509_free(pair->leaf);
    sk_X509_pop_free(pair->chain, X509_free);
    EVP_PKEY_free(pair->key);
    *pair = (struct tls_pair){0};
}

static bool add_ca(X509 *ca, X509_STORE *store, STACK_OF(X509_NAME) * names)
{
    X509_NAME *name = names ? X509_NAME_dup(X509_get_subject_name(ca)) : NULL;
    bool is_good = X509_STORE_add_cert(store, ca) == 1 && (!names || (name && sk_X509_NAME_push(names, name) > 0));

    if (!is_good)
        X509_NAME_free(name);
    X509_free(ca);
    return is_good;
}

err tls_files_load_cas(struct tls_files *files, const char *path, X509_STORE *store, STACK_OF(X509_NAME) * names,
                       struct errinfo *ei)
{
    struct buf pem = {0};
    unsigned n = 0;
    err e = tls_files_read(files, path, &pem, ei);
    BIO *bio = e == E_OK ? bio_of(&pem) : NULL;
    X509 *ca;

    ERR_clear_error();
    while (bio && (ca = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) && add_ca(ca, store, names))
        n++;
    if (e == E_OK && n == 0)
        e = errinfo_set(ei, E_INVAL, "%s: no certificate in it (PEM): %s", path, reason());
    else if (e == E_OK && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        e = errinfo_set(ei, E_INVAL, "%s: a certificate in it is damaged: %s", path, reason());
    ERR_clear_error();
    BIO_free(bio);
    buf_free(&pem, MEM_LOOP);
    return e;
}

err tls_files_load_crls(struct tls_files *files, const char *path, X509_STORE *store, struct errinfo *ei)
{
    struct buf pem = {0};
    unsigned n = 0;
    err e = tls_files_read(files, path, &pem, ei);
    BIO *bio = e == E_OK ? bio_of(&pem) : NULL;
    X509_CRL *crl;

    ERR_clear_error();
    for (int is_added = 1; bio && is_added == 1 && (crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)); n++) {
        is_added = X509_STORE_add_crl(store, crl);
        X509_CRL_free(crl);
    }
    if (e == E_OK && n == 0)
        e = errinfo_set(ei, E_INVAL, "%s: no revocation list in it (PEM): %s", path, reason());
    else if (e == E_OK && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        e = errinfo_set(ei, E_INVAL, "%s: a revocation list in it is damaged: %s", path, reason());
    ERR_clear_error();
    BIO_free(bio);
    buf_free(&pem, MEM_LOOP);
    return e;
}
