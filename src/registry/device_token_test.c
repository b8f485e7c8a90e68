#include "registry/device_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjose/cjose.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/check.h"

#define NOW 1800000000
#define AUD "\"aud\":\"hono-adapter\",\"tid\":\"t1\",\"sub\":\"a1\","
#define DAY "\"iat\":1800000000,\"exp\":1800086400"

/* A pair of keys, the private one as cjose signs with it, the public one as a registry keeps it. */
struct pair {
    cjose_jwk_t *jwk;
    unsigned char *der;
    size_t der_n;
};

static struct pair rsa, small_rsa, p256, p384, p521;

static void take_public(struct pair *pair, EVP_PKEY *key)
{
    int n = i2d_PUBKEY(key, &pair->der);

    assert_true(n > 0);
    pair->der_n = (size_t)n;
    EVP_PKEY_free(key);
}

static BIGNUM *number(const EVP_PKEY *key, const char *name)
{
    BIGNUM *n = NULL;

    assert_int_equal(EVP_PKEY_get_bn_param(key, name, &n), 1);
    return n;
}

static size_t bytes(const EVP_PKEY *key, const char *name, uint8_t to[1024])
{
    BIGNUM *n = number(key, name);
    int size = BN_bn2bin(n, to);

    BN_free(n);
    return (size_t)size;
}

static struct pair make_rsa(unsigned bits)
{
    struct pair pair = {0};
    EVP_PKEY *key = EVP_RSA_gen(bits);
    uint8_t n[1024], e[1024], d[1024];
    cjose_jwk_rsa_keyspec spec = {.n = n, .e = e, .d = d};

    spec.nlen = bytes(key, "n", n);
    spec.elen = bytes(key, "e", e);
    spec.dlen = bytes(key, "d", d);
    pair.jwk = cjose_jwk_create_RSA_spec(&spec, NULL);
    assert_non_null(pair.jwk);
    take_public(&pair, key);
    return pair;
}

static struct pair make_ec(const char *group, cjose_jwk_ec_curve curve)
{
    struct pair pair = {0};
    EVP_PKEY *key = EVP_EC_gen(group);
    uint8_t x[1024], y[1024], d[1024];
    cjose_jwk_ec_keyspec spec = {.crv = curve, .x = x, .y = y, .d = d};

    spec.xlen = bytes(key, "qx", x);
    spec.ylen = bytes(key, "qy", y);
    spec.dlen = bytes(key, "priv", d);
    pair.jwk = cjose_jwk_create_EC_spec(&spec, NULL);
    assert_non_null(pair.jwk);
    take_public(&pair, key);
    return pair;
}

static int make_keys(void **state)
{
    (void)state;
    rsa = make_rsa(2048);
    small_rsa = make_rsa(1024);
    p256 = make_ec("P-256", CJOSE_JWK_EC_P_256);
    p384 = make_ec("P-384", CJOSE_JWK_EC_P_384);
    p521 = make_ec("P-521", CJOSE_JWK_EC_P_521);
    return 0;
}

static int free_keys(void **state)
{
    struct pair *all[] = {&rsa, &small_rsa, &p256, &p384, &p521};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        cjose_jwk_release(all[i]->jwk);
        OPENSSL_free(all[i]->der);
    }
    return 0;
}

/* The caller frees. */
static char *sign(const struct pair *pair, const char *algorithm, const char *type, const char *claims)
{
    cjose_header_t *header = cjose_header_new(NULL);
    cjose_jws_t *jws;
    const char *compact;
    char *copy;

    assert_true(cjose_header_set(header, CJOSE_HDR_ALG, algorithm, NULL));
    if (type)
        assert_true(cjose_header_set(header, "typ", type, NULL));
    jws = cjose_jws_sign(pair->jwk, header, (const uint8_t *)claims, strlen(claims), NULL);
    assert_non_null(jws);
    assert_true(cjose_jws_export(jws, &compact, NULL));
    copy = strdup(compact);
    cjose_jws_release(jws);
    cjose_header_release(header);
    return copy;
}

static struct str public_key(const struct pair *pair)
{
    return (struct str){(const char *)pair->der, pair->der_n};
}

static void a_token_names_a_device_and_is_verified_with_its_key(void **state)
{
    static const struct {
        const char *algorithm;
        const struct pair *pair;
    } rows[] = {{"RS256", &rsa}, {"RS384", &rsa},  {"RS512", &rsa},  {"PS256", &rsa}, {"PS384", &rsa},
                {"PS512", &rsa}, {"ES256", &p256}, {"ES384", &p384}, {"ES512", &p521}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = sign(rows[i].pair, rows[i].algorithm, "JWT", "{" AUD DAY "}");
        struct device_token token;

        assert_true(device_token_is_one(str_from(text)));
        assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_OK);
        assert_string_equal(token.tenant, "t1");
        assert_string_equal(token.auth_id, "a1");
        assert_string_equal(token.algorithm, rows[i].algorithm);
        assert_int_equal(token.expires_at_s, NOW + 86400);
        assert_int_equal(device_token_verify(&token, public_key(rows[i].pair)), DEVICE_TOKEN_OK);
        text[strlen(text) - 8] ^= 1;
        assert_int_equal(device_token_verify(&token, public_key(rows[i].pair)), DEVICE_TOKEN_SIGNATURE);
        free(text);
    }
}

static void a_key_must_fit_the_algorithm(void **state)
{
    static const struct {
        const char *algorithm;
        const struct pair *signer, *key;
        enum device_token_result result;
    } rows[] = {
        {"RS256", &rsa, &p256, DEVICE_TOKEN_KEY},
        {"ES256", &p256, &rsa, DEVICE_TOKEN_KEY},
        {"ES256", &p256, &p384, DEVICE_TOKEN_KEY},
        {"RS256", &small_rsa, &small_rsa, DEVICE_TOKEN_KEY},
        {"RS256", &small_rsa, &rsa, DEVICE_TOKEN_SIGNATURE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = sign(rows[i].signer, rows[i].algorithm, "JWT", "{" AUD DAY "}");
        struct device_token token;

        assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_OK);
        assert_int_equal(device_token_verify(&token, public_key(rows[i].key)), rows[i].result);
        assert_int_equal(device_token_verify(&token, STR("no key")), DEVICE_TOKEN_KEY);
        free(text);
    }
}

static void what_a_token_must_say_is_checked(void **state)
{
    static const struct {
        const char *type, *claims, *tenant, *auth_id;
        enum device_token_result result;
        const char *want_tenant;
    } rows[] = {
        {"jwt", "{" AUD DAY "}", "", "", DEVICE_TOKEN_OK, "t1"},
        {"JWT", "{\"aud\":[\"x\",\"hono-adapter\"],\"tid\":\"t1\",\"sub\":\"a1\"," DAY "}", "t2", "a2", DEVICE_TOKEN_OK, "t1"},
        {"JWT", "{" DAY "}", "t2", "a2", DEVICE_TOKEN_OK, "t2"},
        {"JWT", "{\"aud\":\"other\",\"tid\":\"t1\",\"sub\":\"a1\"," DAY "}", "t2", "a2", DEVICE_TOKEN_OK, "t2"},
        {"JWT", "{" DAY "}", "", "", DEVICE_TOKEN_NAMES, ""},
        {"JWT", "{" DAY "}", "t2", "", DEVICE_TOKEN_NAMES, ""},
        {"JWT", "{\"aud\":\"hono-adapter\",\"tid\":1,\"sub\":\"a1\"," DAY "}", "t2", "a2", DEVICE_TOKEN_NAMES, ""},
        {"JWT", "{\"aud\":\"hono-adapter\",\"tid\":\"t\\u0000x\",\"sub\":\"a1\"," DAY "}", "", "", DEVICE_TOKEN_MALFORMED, ""},
        {"JWT", "{" AUD "\"iat\":1800000000}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"exp\":1800000000}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"iat\":\"1800000000\",\"exp\":1800000001}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"iat\":1800000000,\"exp\":1800000000}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"iat\":1800000000,\"exp\":1800087001}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"iat\":1800000000.5,\"exp\":1800087000}", "", "", DEVICE_TOKEN_OK, "t1"},
        {"JWT", "{" AUD "\"iat\":-5,\"exp\":1}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD "\"nbf\":\"x\"," DAY "}", "", "", DEVICE_TOKEN_CLAIMS, ""},
        {"JWT", "{" AUD DAY ",\"iat\":1}", "", "", DEVICE_TOKEN_MALFORMED, ""},
        {"JWT", "[1]", "", "", DEVICE_TOKEN_MALFORMED, ""},
        {"JWT", "[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "", "", DEVICE_TOKEN_MALFORMED, ""},
        {"JWT", "no json", "", "", DEVICE_TOKEN_MALFORMED, ""},
        {"JOSE", "{" AUD DAY "}", "", "", DEVICE_TOKEN_ALGORITHM, ""},
        {NULL, "{" AUD DAY "}", "", "", DEVICE_TOKEN_ALGORITHM, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = sign(&p256, "ES256", rows[i].type, rows[i].claims);
        struct device_token token;

        assert_int_equal(device_token_read(str_from(text), str_from(rows[i].tenant), str_from(rows[i].auth_id), &token),
                         rows[i].result);
        if (rows[i].result == DEVICE_TOKEN_OK)
            assert_string_equal(token.tenant, rows[i].want_tenant);
        free(text);
    }
}

static void algorithms_without_a_public_key_are_refused(void **state)
{
    static const uint8_t secret[32] = {1};
    struct pair shared = {.jwk = cjose_jwk_create_oct_spec(secret, sizeof secret, NULL)};
    char *text = sign(&shared, "HS256", "JWT", "{" AUD DAY "}");
    struct device_token token;

    (void)state;
    assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_ALGORITHM);
    free(text);
    cjose_jwk_release(shared.jwk);
    /* {"alg":"none","typ":"JWT"} */
    assert_int_equal(
        device_token_read(STR("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.e30.AA"), (struct str){0}, (struct str){0}, &token),
        DEVICE_TOKEN_ALGORITHM);
    /* {"alg":"ES256","typ":"JWT","crit":["x"],"x":1} */
    assert_int_equal(device_token_read(STR("eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImNyaXQiOlsieCJdLCJ4IjoxfQ.e30.AA"),
                                       (struct str){0}, (struct str){0}, &token),
                     DEVICE_TOKEN_ALGORITHM);
}

static void only_three_parts_of_base64url_are_a_token(void **state)
{
    static const struct {
        const char *text;
        bool is_one;
    } rows[] = {
        {"a.b.c", true}, {"a-_9.b.c", true}, {"", false},        {"secret", false}, {"a.b", false},     {"a..c", false},
        {".b.c", false}, {"a.b.", false},    {"a.b.c.d", false}, {"a.b=.c", false}, {"a.b c.d", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(device_token_is_one(str_from(rows[i].text)), rows[i].is_one);
}

static void a_client_id_of_three_levels_names_tenant_and_auth_id(void **state)
{
    static const struct {
        const char *client_id, *tenant, *auth_id;
    } rows[] = {
        {"tenants/t1/devices/a1", "t1", "a1"},
        {"t1/x/a1", "t1", "a1"},
        {"a/b/t1/x/a1", "t1", "a1"},
        {"x/a1", "", ""},
        {"a1", "", ""},
        {"", "", ""},
        {"//", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str tenant, auth_id;

        device_token_names_of_client(str_from(rows[i].client_id), &tenant, &auth_id);
        assert_true(str_equal(tenant, str_from(rows[i].tenant)));
        assert_true(str_equal(auth_id, str_from(rows[i].auth_id)));
    }
}

static void clocks_may_differ_by_ten_minutes(void **state)
{
    static const struct {
        int64_t now_s;
        enum device_token_result result;
    } rows[] = {
        {NOW - 601, DEVICE_TOKEN_EARLY},
        {NOW - 600, DEVICE_TOKEN_OK},
        {NOW + 100 + 599, DEVICE_TOKEN_OK},
        {NOW + 100 + 600, DEVICE_TOKEN_EXPIRED},
    };
    struct device_token token = {.issued_at_s = NOW, .expires_at_s = NOW + 100};
    struct device_token later = {.issued_at_s = NOW, .expires_at_s = NOW + 5000, .not_before_s = NOW + 1000};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(device_token_check_time(&token, rows[i].now_s), rows[i].result);
    assert_int_equal(device_token_check_time(&later, NOW + 399), DEVICE_TOKEN_EARLY);
    assert_int_equal(device_token_check_time(&later, NOW + 400), DEVICE_TOKEN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_names_a_device_and_is_verified_with_its_key),
        cmocka_unit_test(a_key_must_fit_the_algorithm),
        cmocka_unit_test(what_a_token_must_say_is_checked),
        cmocka_unit_test(algorithms_without_a_public_key_are_refused),
        cmocka_unit_test(only_three_parts_of_base64url_are_a_token),
        cmocka_unit_test(a_client_id_of_three_levels_names_tenant_and_auth_id),
        cmocka_unit_test(clocks_may_differ_by_ten_minutes),
    };

    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
