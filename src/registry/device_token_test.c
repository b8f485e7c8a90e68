#include "registry/device_token.h"

#include "registry/token_fixture_test.h"

#define NOW 1800000000
#define AUD "\"aud\":\"hono-adapter\",\"tid\":\"t1\",\"sub\":\"a1\","
#define DAY "\"iat\":1800000000,\"exp\":1800086400"

static void a_token_names_a_device_and_is_verified_with_its_key(void **state)
{
    static const struct {
        const char *algorithm;
        const struct token_fixture_pair *pair;
    } rows[] = {{"RS256", &token_fixture_keys.rsa},  {"RS384", &token_fixture_keys.rsa},  {"RS512", &token_fixture_keys.rsa},
                {"PS256", &token_fixture_keys.rsa},  {"PS384", &token_fixture_keys.rsa},  {"PS512", &token_fixture_keys.rsa},
                {"ES256", &token_fixture_keys.p256}, {"ES384", &token_fixture_keys.p384}, {"ES512", &token_fixture_keys.p521}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = token_fixture_sign(rows[i].pair, rows[i].algorithm, "JWT", "{" AUD DAY "}");
        struct device_token token;

        assert_true(device_token_is_one(str_from(text)));
        assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_OK);
        assert_string_equal(token.tenant, "t1");
        assert_string_equal(token.auth_id, "a1");
        assert_string_equal(token.algorithm, rows[i].algorithm);
        assert_int_equal(token.expires_at_s, NOW + 86400);
        assert_int_equal(device_token_verify(&token, token_fixture_public_key(rows[i].pair)), DEVICE_TOKEN_OK);
        text[strlen(text) - 8] ^= 1;
        assert_int_equal(device_token_verify(&token, token_fixture_public_key(rows[i].pair)), DEVICE_TOKEN_SIGNATURE);
        free(text);
    }
}

static void a_key_must_fit_the_algorithm(void **state)
{
    static const struct {
        const char *algorithm;
        const struct token_fixture_pair *signer, *key;
        enum device_token_result result;
    } rows[] = {
        {"RS256", &token_fixture_keys.rsa, &token_fixture_keys.p256, DEVICE_TOKEN_KEY},
        {"ES256", &token_fixture_keys.p256, &token_fixture_keys.rsa, DEVICE_TOKEN_KEY},
        {"ES256", &token_fixture_keys.p256, &token_fixture_keys.p384, DEVICE_TOKEN_KEY},
        {"RS256", &token_fixture_keys.small_rsa, &token_fixture_keys.small_rsa, DEVICE_TOKEN_KEY},
        {"RS256", &token_fixture_keys.small_rsa, &token_fixture_keys.rsa, DEVICE_TOKEN_SIGNATURE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = token_fixture_sign(rows[i].signer, rows[i].algorithm, "JWT", "{" AUD DAY "}");
        struct device_token token;

        assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_OK);
        assert_int_equal(device_token_verify(&token, token_fixture_public_key(rows[i].key)), rows[i].result);
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
        char *text = token_fixture_sign(&token_fixture_keys.p256, "ES256", rows[i].type, rows[i].claims);
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
    struct token_fixture_pair shared = {.jwk = cjose_jwk_create_oct_spec(secret, sizeof secret, NULL)};
    char *text = token_fixture_sign(&shared, "HS256", "JWT", "{" AUD DAY "}");
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

    return cmocka_run_group_tests(tests, token_fixture_make_keys, token_fixture_free_keys);
}
