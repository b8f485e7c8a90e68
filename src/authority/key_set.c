#include "authority/key_set.h"

#include <stdatomic.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/x509.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/check.h"
#include "registry/device_token.h"
#include "registry/document.h"

enum {
    NUMBER_BYTES_MAX = 1 << 10, /* of RSA with 8,192 bits */
    COORDINATE_BYTES_MAX = 66,  /* of P-521 */
    UNCOMPRESSED = 4,
};

struct key {
    struct str kid;
    const char *algorithm; /* the only one it is for; NULL: any that fits */
    struct str der;        /* SubjectPublicKeyInfo */
};

struct key_set {
    atomic_uint refs;
    struct arena arena;
    struct key keys[KEY_SET_KEYS_MAX];
    size_t n;
};

static const struct {
    struct str name;
    const char *group;
    size_t bytes; /* of a coordinate */
} curves[] = {
    {STR_INIT("P-256"), "prime256v1", 32},
    {STR_INIT("P-384"), "secp384r1", 48},
    {STR_INIT("P-521"), "secp521r1", 66},
};

/* --- one key --- */

static bool decode(const json_t *jwk, const char *member, unsigned char *to, size_t room, size_t *out_n)
{
    struct str text = document_get_text(jwk, member);

    return text.n > 0 && BASE64_DECODED_BYTES(text.n) <= room + 2 && base64_decode_url(text, (char *)to, out_n) &&
           *out_n <= room;
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *parts)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(parts);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;

    if (!params || !context || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *read_rsa(const json_t *jwk)
{
    unsigned char n[NUMBER_BYTES_MAX + 2], e[NUMBER_BYTES_MAX + 2];
    OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
    BIGNUM *modulus = NULL, *exponent = NULL;
    EVP_PKEY *key = NULL;
    size_t n_bytes, e_bytes;

    if (parts && decode(jwk, "n", n, NUMBER_BYTES_MAX, &n_bytes) && decode(jwk, "e", e, NUMBER_BYTES_MAX, &e_bytes)) {
        modulus = BN_bin2bn(n, (int)n_bytes, NULL);
        exponent = BN_bin2bn(e, (int)e_bytes, NULL);
    }
    if (modulus && exponent && OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
        key = make_key("RSA", parts);
    OSSL_PARAM_BLD_free(parts);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

/* RFC 7518 section 6.2.1: coordinates have the full length of the curve. */
static EVP_PKEY *read_ec(const json_t *jwk)
{
    unsigned char x[COORDINATE_BYTES_MAX + 2], y[COORDINATE_BYTES_MAX + 2],
        point[1 + 2 * COORDINATE_BYTES_MAX] = {UNCOMPRESSED};
    struct str name = document_get_text(jwk, "crv");
    OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    size_t i = 0, x_bytes, y_bytes;

    while (i < ARRAY_LEN(curves) && !str_equal(curves[i].name, name))
        i++;
    if (parts && i < ARRAY_LEN(curves) && decode(jwk, "x", x, COORDINATE_BYTES_MAX, &x_bytes) &&
        decode(jwk, "y", y, COORDINATE_BYTES_MAX, &y_bytes) && x_bytes == curves[i].bytes && y_bytes == x_bytes) {
        memcpy(point + 1, x, x_bytes);
        memcpy(point + 1 + x_bytes, y, y_bytes);
        if (OSSL_PARAM_BLD_push_utf8_string(parts, OSSL_PKEY_PARAM_GROUP_NAME, curves[i].group, 0) == 1 &&
            OSSL_PARAM_BLD_push_octet_string(parts, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * x_bytes) == 1)
            key = make_key("EC", parts);
    }
    OSSL_PARAM_BLD_free(parts);
    return key;
}

/* RFC 7517 sections 4.2 and 4.3. */
static bool is_for_signatures(const json_t *jwk)
{
    const json_t *use = json_object_get(jwk, "use"), *operations = json_object_get(jwk, "key_ops");

    if (use && !str_equal(document_text(use), STR("sig")))
        return false;
    for (size_t i = 0; i < json_array_size(operations); i++)
        if (str_equal(document_text(json_array_get(operations, i)), STR("verify")))
            return true;
    return !operations;
}

static void keep(struct key_set *set, const json_t *jwk, EVP_PKEY *key, const char *algorithm)
{
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(key, &der);

    if (n > 0)
        set->keys[set->n++] = (struct key){
            .kid = arena_copy(&set->arena, MEM_REGISTRY, document_get_text(jwk, "kid")),
            .algorithm = algorithm,
            .der = arena_copy(&set->arena, MEM_REGISTRY, (struct str){(const char *)der, (size_t)n}),
        };
    OPENSSL_free(der);
}

static void read_one(struct key_set *set, const json_t *jwk)
{
    const json_t *algorithm = json_object_get(jwk, "alg");
    const char *only = algorithm ? device_token_find_algorithm(document_text(algorithm)) : NULL;
    struct str type = document_get_text(jwk, "kty");
    EVP_PKEY *key = NULL;

    if ((algorithm && !only) || !is_for_signatures(jwk))
        return;
    if (str_equal(type, STR("RSA")))
        key = read_rsa(jwk);
    else if (str_equal(type, STR("EC")))
        key = read_ec(jwk);
    if (key)
        keep(set, jwk, key, only);
    EVP_PKEY_free(key);
    ERR_clear_error();
}

/* --- the set --- */

err key_set_read(struct str text, struct key_set **out_set)
{
    struct document_fault fault = {0};
    json_t *document;
    const json_t *keys;
    struct key_set *set;
    err e = E_OK;

    if (text.n > KEY_SET_BYTES_MAX)
        return E_LIMIT;
    if (document_parse(text, false, &document, &fault) != E_OK)
        return E_INVAL;
    keys = json_object_get(document, "keys");
    if (!json_is_array(keys))
        e = E_INVAL;
    else if (json_array_size(keys) > KEY_SET_KEYS_MAX)
        e = E_LIMIT;
    if (e == E_OK) {
        set = mem_alloc_zero(MEM_REGISTRY, sizeof *set);
        atomic_init(&set->refs, 1);
        for (size_t i = 0; i < json_array_size(keys); i++)
            read_one(set, json_array_get(keys, i));
        *out_set = set;
    }
    json_decref(document);
    return e;
}

struct key_set *key_set_ref(struct key_set *set)
{
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

void key_set_unref(struct key_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1)
        return;
    arena_free(&set->arena, MEM_REGISTRY);
    mem_free(MEM_REGISTRY, set);
}

size_t key_set_count(const struct key_set *set)
{
    return set->n;
}

static bool is_meant(const struct key *key, struct str kid)
{
    return kid.n == 0 || str_equal(key->kid, kid);
}

bool key_set_has(const struct key_set *set, struct str kid)
{
    for (size_t i = 0; i < set->n; i++)
        if (is_meant(&set->keys[i], kid))
            return true;
    return false;
}

bool key_set_verify(const struct key_set *set, struct str kid, const struct device_token *token)
{
    unsigned n_tried = 0;

    for (size_t i = 0; i < set->n && n_tried < KEY_SET_TRIED_MAX; i++) {
        const struct key *key = &set->keys[i];
        enum device_token_result result;

        if (!is_meant(key, kid) || (key->algorithm && key->algorithm != token->algorithm))
            continue;
        result = device_token_verify(token, key->der);
        if (result == DEVICE_TOKEN_OK)
            return true;
        n_tried += result == DEVICE_TOKEN_SIGNATURE; /* else it is of another kind, which costs little */
    }
    return false;
}
