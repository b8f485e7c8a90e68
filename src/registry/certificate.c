#include "registry/certificate.h"

#include <string.h>

#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/check.h"

enum { OID_BYTES = 64, MAX_ENCODED_BYTES = 16 << 10, MS_PER_S = 1000 };

/* RFC 2253 section 2.3; every other type is written by its number and its DER, as Java does. */
static const struct {
    int nid;
    struct str name;
} types[] = {
    {NID_commonName, STR_INIT("CN")},
    {NID_localityName, STR_INIT("L")},
    {NID_stateOrProvinceName, STR_INIT("ST")},
    {NID_organizationName, STR_INIT("O")},
    {NID_organizationalUnitName, STR_INIT("OU")},
    {NID_countryName, STR_INIT("C")},
    {NID_streetAddress, STR_INIT("STREET")},
    {NID_domainComponent, STR_INIT("DC")},
    {NID_userId, STR_INIT("UID")},
};

static struct str type_name(int nid)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].nid == nid)
            return types[i].name;
    return (struct str){0};
}

static err append_text(char to[DN_BYTES], size_t *n, char separator, struct str type, const ASN1_STRING *value)
{
    unsigned char *utf8 = NULL;
    int bytes = ASN1_STRING_to_UTF8(&utf8, value);
    err e = E_INVAL;

    if (bytes >= 0 && (bytes == 0 || !memchr(utf8, 0, (size_t)bytes)))
        e = dn_append(to, n, separator, type, (struct str){(const char *)utf8, (size_t)bytes});
    OPENSSL_free(utf8);
    return e;
}

static err append_number(char to[DN_BYTES], size_t *n, char separator, const ASN1_OBJECT *type, ASN1_STRING *value)
{
    char oid[OID_BYTES], hex[DN_BYTES];
    unsigned char der[DN_BYTES / 2], *end = der;
    ASN1_TYPE any = {.type = ASN1_STRING_type(value), .value.asn1_string = value};
    int oid_n = OBJ_obj2txt(oid, sizeof oid, type, 1), der_n = i2d_ASN1_TYPE(&any, NULL);
    size_t hex_n = 0;

    if (oid_n <= 0 || (size_t)oid_n >= sizeof oid || der_n <= 0)
        return E_INVAL;
    if ((size_t)der_n > sizeof der || *n + 3 + (size_t)oid_n + 2 * (size_t)der_n > DN_BYTES)
        return E_LIMIT;
    (void)i2d_ASN1_TYPE(&any, &end); /* as long as it said */
    for (int i = 0; i < der_n; i++) {
        hex[hex_n++] = "0123456789abcdef"[der[i] >> 4];
        hex[hex_n++] = "0123456789abcdef"[der[i] & 15];
    }
    if (separator)
        to[(*n)++] = separator;
    memcpy(to + *n, oid, (size_t)oid_n);
    *n += (size_t)oid_n;
    to[(*n)++] = '=';
    to[(*n)++] = '#';
    memcpy(to + *n, hex, hex_n);
    *n += hex_n;
    return E_OK;
}

err certificate_name(const struct X509_name_st *name, char to[DN_BYTES], size_t *out_n)
{
    size_t n = 0;
    int last_set = -1;

    for (int i = X509_NAME_entry_count(name) - 1; i >= 0; i--) {
        const X509_NAME_ENTRY *entry = X509_NAME_get_entry(name, i);
        const ASN1_OBJECT *type = X509_NAME_ENTRY_get_object(entry);
        ASN1_STRING *value = X509_NAME_ENTRY_get_data(entry);
        struct str known = type_name(OBJ_obj2nid(type));
        int set = X509_NAME_ENTRY_set(entry);
        char separator = n == 0 ? '\0' : set == last_set ? '+' : ',';
        err e = known.n ? append_text(to, &n, separator, known, value) : append_number(to, &n, separator, type, value);

        if (e != E_OK)
            return e;
        last_set = set;
    }
    *out_n = n;
    return n ? E_OK : E_INVAL;
}

static const char *algorithm_of(const EVP_PKEY *key)
{
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
    case EVP_PKEY_RSA_PSS:
        return "RSA";
    case EVP_PKEY_EC:
        return "EC";
    default:
        return NULL;
    }
}

static err write_key(X509 *x509, struct certificate *out)
{
    unsigned char der[BASE64_DECODED_BYTES(CERTIFICATE_KEY_BYTES)], *end = der;
    const X509_PUBKEY *key = X509_get_X509_PUBKEY(x509);
    int n = i2d_X509_PUBKEY(key, NULL);

    if (n <= 0)
        return E_INVAL;
    if ((size_t)n > CERTIFICATE_KEY_BYTES / 4 * 3 - 3)
        return E_LIMIT;
    (void)i2d_X509_PUBKEY(key, &end); /* as long as it said */
    out->key_n = (size_t)EVP_EncodeBlock((unsigned char *)out->key, der, n);
    out->algorithm = algorithm_of(X509_get0_pubkey(x509));
    return E_OK;
}

static err read_time(const ASN1_TIME *time, int64_t *out_ms)
{
    struct tm tm;

    if (!ASN1_TIME_to_tm(time, &tm))
        return E_INVAL;
    *out_ms = (int64_t)timegm(&tm) * MS_PER_S;
    return E_OK;
}

static err decode(struct str base64, unsigned char der[MAX_ENCODED_BYTES], size_t *out_n)
{
    if (BASE64_DECODED_BYTES(base64.n) > MAX_ENCODED_BYTES)
        return E_LIMIT;
    return base64_decode(base64, (char *)der, out_n) ? E_OK : E_INVAL;
}

err certificate_read(struct str base64, struct certificate *out)
{
    unsigned char der[MAX_ENCODED_BYTES];
    const unsigned char *end = der;
    X509 *x509 = NULL;
    size_t n;
    err e = decode(base64, der, &n);

    if (e != E_OK)
        return e;
    x509 = d2i_X509(NULL, &end, (long)n);
    if (!x509 || end != der + n)
        e = E_INVAL;
    if (e == E_OK)
        e = certificate_name(X509_get_subject_name(x509), out->subject, &out->subject_n);
    if (e == E_OK)
        e = certificate_name(X509_get_issuer_name(x509), out->issuer, &out->issuer_n);
    if (e == E_OK)
        e = write_key(x509, out);
    if (e == E_OK)
        e = read_time(X509_get0_notBefore(x509), &out->not_before_ms);
    if (e == E_OK)
        e = read_time(X509_get0_notAfter(x509), &out->not_after_ms);
    X509_free(x509);
    return e;
}

err certificate_read_key(struct str base64, const char **out_algorithm)
{
    unsigned char der[MAX_ENCODED_BYTES];
    const unsigned char *end = der;
    EVP_PKEY *key;
    size_t n;
    err e = decode(base64, der, &n);

    if (e != E_OK)
        return e;
    key = d2i_PUBKEY(NULL, &end, (long)n);
    if (!key || end != der + n)
        e = E_INVAL;
    else
        *out_algorithm = algorithm_of(key);
    EVP_PKEY_free(key);
    return e;
}
