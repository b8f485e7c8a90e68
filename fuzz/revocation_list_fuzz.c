/* revocation_list_fuzz: whatever a file has in place of revocation lists, reading ends with a set or none, and nothing in it is signed by a key that it does not
 * know. */
#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/check.h"
#include "registry/revocation_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A CA by the name of the seeds, with a key that has signed none of them. */
static X509 *make_ca(void)
{
    X509 *ca = X509_new();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    ASSERT(ca && key && X509_set_pubkey(ca, key) == 1);
    ASSERT(
        X509_NAME_add_entry_by_txt(X509_get_subject_name(ca), "CN", MBSTRING_UTF8, (const unsigned char *)"root", -1, -1, 0));
    EVP_PKEY_free(key);
    return ca;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static X509 *ca;
    struct revocation_lists *lists = revocation_list_new();
    int64_t until_s;

    if (!ca)
        ca = make_ca();
    if (revocation_list_add(lists, (struct str){(const char *)data, size}, NULL) == E_OK) {
        enum revocation_status status = revocation_list_check(lists, ca, ca, 1800000000, &until_s);

        ASSERT(status == REVOCATION_UNLISTED || status == REVOCATION_FOREIGN);
    }
    revocation_list_unref(lists);
    return 0;
}
