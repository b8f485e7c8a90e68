/* tls_files: certificates, keys, CAs and CRLs from PEM files, with errors that name the file. Blocks on the disk: for whoever
 * reads configurations. Only for loop/tls*. */
#pragma once

#include <openssl/ssl.h>

#include "base/buf.h"
#include "base/err.h"

enum { TLS_FILE_MAX_BYTES = 4 << 20 };

/* A certificate, what stands above it, and its key. */
struct tls_pair {
    X509 *leaf;
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
};

/* What was read, as a fingerprint: two readings of the same bytes in the same order agree. */
struct tls_files {
    EVP_MD_CTX *digest;
};

/* All of an ordinary file, appended to `out`, which the caller wipes. E_IO, E_LIMIT; `ei` begins with the path. */
MUST_USE err tls_files_read(struct tls_files *files, const char *path, struct buf *out, struct errinfo *ei);

/* `key_path` NULL: the key is in the same file. E_INVAL: there is no certificate or key, or they do not belong together. The
 * caller owns `*out_pair`, written only on success, and gives it to tls_files_free_pair(). */
MUST_USE err tls_files_load_pair(struct tls_files *files, const char *cert_path, const char *key_path,
                                 struct tls_pair *out_pair, struct errinfo *ei);
void tls_files_free_pair(struct tls_pair *pair);

/* Adds a file's certificates to what is trusted, and (if `names` is not NULL) their names to it. E_INVAL: there is none. */
MUST_USE err tls_files_load_cas(struct tls_files *files, const char *path, X509_STORE *store, STACK_OF(X509_NAME) * names,
                                struct errinfo *ei);

/* Adds a file's revocation lists. E_INVAL: there is none. */
MUST_USE err tls_files_load_crls(struct tls_files *files, const char *path, X509_STORE *store, struct errinfo *ei);
