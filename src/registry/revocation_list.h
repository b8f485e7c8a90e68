/* revocation_list: what CAs have revoked (RFC 5280 section 5): full lists, of one issuer each, signed by the CA that has issued the certificates. A set of them is
 * filled by one thread, and after that immutable and counted, any thread; never logs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct X509_crl_st;
struct revocation_lists;
struct x509_st;

enum { REVOCATION_LIST_FILE_BYTES = 32 << 20 };

/* What a CA's lists say of a certificate. */
enum revocation_status {
    REVOCATION_UNLISTED, /* there is no list of this CA */
    REVOCATION_GOOD,
    REVOCATION_REVOKED,
    REVOCATION_OVER,    /* the list is: a newer one was due */
    REVOCATION_FOREIGN, /* the list has the CA's name, but it was not signed by its key */
};

/* An empty set. The caller owns one reference. */
struct revocation_lists *revocation_list_new(void);

/* Adds the lists of a file, PEM (one or more) or DER. E_INVAL: there is none, or one that cannot be judged by: a delta, an indirect or a partial one. Before
 * the set is shared. */
MUST_USE err revocation_list_add(struct revocation_lists *lists, struct str bytes, struct errinfo *ei);

struct revocation_lists *revocation_list_ref(struct revocation_lists *lists);
void revocation_list_unref(struct revocation_lists *lists); /* NULL is a no-op */

/* Whether both were made of the same bytes in the same order; NULL is an empty one. */
bool revocation_list_is_same(const struct revocation_lists *a, const struct revocation_lists *b);

/* Of each set another number; 0: of none. */
uint64_t revocation_list_number(const struct revocation_lists *lists);

/* What the set (which may be NULL) says of a certificate and its issuer. `*out_until_s`: until when that is so, with GOOD. Computes for 0.1 ms, and for as
 * long as a long list takes to be read once. */
enum revocation_status revocation_list_check(struct revocation_lists *lists, struct x509_st *certificate,
                                             struct x509_st *issuer, int64_t now_s, int64_t *out_until_s);

/* The same by one list, in base64 of its DER. UNLISTED: it is none. */
enum revocation_status revocation_list_check_one(struct str base64, struct x509_st *certificate, struct x509_st *issuer,
                                                 int64_t now_s, int64_t *out_until_s);

/* Whether a text is such a list, by the key (base64 of SubjectPublicKeyInfo) of a CA with that name (dn.h). NULL, or what is wrong, in words. */
const char *revocation_list_fault(struct str base64, struct str subject_dn, struct str key);
