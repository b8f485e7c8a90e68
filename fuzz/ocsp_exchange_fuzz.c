/* ocsp_exchange_fuzz: whatever a responder answers, reading ends with a status, and none counts that nobody has signed: the CA's key is drawn here. */
#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "authority/ocsp_exchange.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static X509 *make(const char *name)
{
    X509 *made = X509_new();
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    ASSERT(made && key && X509_set_pubkey(made, key) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(made), 1) == 1);
    ASSERT(
        X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0));
    ASSERT(
        X509_NAME_add_entry_by_txt(X509_get_issuer_name(made), "CN", MBSTRING_UTF8, (const unsigned char *)"root", -1, -1, 0));
    EVP_PKEY_free(key);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ocsp_exchange x;
    enum ocsp_status status;
    int64_t until_s;

    if (!x.issuer) {
        X509 *issuer = make("root"), *certificate = make("device");

        ASSERT(ocsp_exchange_init(&x, certificate, issuer, (struct str){0}, false) == E_OK);
        X509_free(issuer);
        X509_free(certificate);
    }
    status = ocsp_exchange_read(&x, (struct str){(const char *)data, size}, 1800000000, &until_s);
    ASSERT(status == OCSP_MALFORMED || status == OCSP_REFUSED || status == OCSP_UNTRUSTED);
    return 0;
}
