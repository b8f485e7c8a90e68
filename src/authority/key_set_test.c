#include "authority/key_set.h"

#include "registry/token_fixture_test.h"

#include "base/mem.h"
#include "registry/device_token.h"

enum { SET_BYTES = 16 << 10 };

#define CLAIMS "{\"aud\":\"hono-adapter\",\"tid\":\"t1\",\"sub\":\"a1\",\"iat\":1800000000,\"exp\":1800086400}"

static char set_text[SET_BYTES];

/* One more key, with members besides those of the key. */
static void add(const struct token_fixture_pair *pair, const char *more)
{
    char *json = cjose_jwk_to_json(pair->jwk, false, NULL);
    size_t n = strlen(set_text);

    assert_non_null(json);
    (void)snprintf(set_text + n, sizeof set_text - n, "%s{%s%s%s", n ? "," : "{\"keys\":[", more, *more ? "," : "", json + 1);
    free(json);
}

static struct key_set *finish(void)
{
    struct key_set *set;
    size_t n = strlen(set_text);

    (void)snprintf(set_text + n, sizeof set_text - n, "]}");
    assert_int_equal(key_set_read(str_from(set_text), &set), E_OK);
    set_text[0] = '\0';
    return set;
}

/* Whether the set takes a token signed by that pair. */
static bool takes(const struct key_set *set, const char *kid, const char *algorithm, const struct token_fixture_pair *pair)
{
    char *text = token_fixture_sign(pair, algorithm, "JWT", CLAIMS);
    struct device_token token;
    bool is_taken;

    assert_int_equal(device_token_read(str_from(text), (struct str){0}, (struct str){0}, &token), DEVICE_TOKEN_OK);
    is_taken = key_set_verify(set, str_from(kid), &token);
    free(text);
    return is_taken;
}

static void tokens_are_verified_by_the_key_they_name(void **state)
{
    static const struct {
        const char *kid, *algorithm;
        const struct token_fixture_pair *pair;
        bool want;
    } rows[] = {
        {"r", "RS256", &token_fixture_keys.rsa, true},     {"r", "PS512", &token_fixture_keys.rsa, true},
        {"a", "ES256", &token_fixture_keys.p256, true},    {"b", "ES384", &token_fixture_keys.p384, true},
        {"c", "ES512", &token_fixture_keys.p521, true},    {"", "ES384", &token_fixture_keys.p384, true},
        {"a", "RS256", &token_fixture_keys.rsa, false},    {"r", "ES256", &token_fixture_keys.p256, false},
        {"x", "ES256", &token_fixture_keys.p256, false},   {"only", "RS256", &token_fixture_keys.rsa, true},
        {"only", "RS384", &token_fixture_keys.rsa, false}, {"weak", "RS256", &token_fixture_keys.small_rsa, false},
    };
    struct key_set *set;

    (void)state;
    add(&token_fixture_keys.rsa, "\"kid\":\"r\",\"use\":\"sig\"");
    add(&token_fixture_keys.p256, "\"kid\":\"a\",\"alg\":\"ES256\"");
    add(&token_fixture_keys.p384, "\"kid\":\"b\",\"key_ops\":[\"verify\"]");
    add(&token_fixture_keys.p521, "\"kid\":\"c\",\"x5c\":[\"whatever\"]");
    add(&token_fixture_keys.rsa, "\"kid\":\"only\",\"alg\":\"RS256\"");
    add(&token_fixture_keys.small_rsa, "\"kid\":\"weak\"");
    set = finish();
    assert_int_equal(key_set_count(set), 6);
    assert_true(key_set_has(set, STR("r")) && key_set_has(set, STR("")) && !key_set_has(set, STR("x")));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (takes(set, rows[i].kid, rows[i].algorithm, rows[i].pair) != rows[i].want)
            fail_msg("key %s with %s", rows[i].kid, rows[i].algorithm);
    key_set_unref(set);
}

static void keys_that_are_of_no_use_are_passed_over(void **state)
{
    static const char *const rows[] = {
        "\"use\":\"enc\"",      "\"use\":5", "\"key_ops\":[\"sign\"]", "\"key_ops\":[]", "\"alg\":\"HS256\"",
        "\"alg\":\"RSA-OAEP\"", "\"alg\":1",
    };
    static const char others[] =
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"},{},5,null,"
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQ\",\"y\":\"AQ\"},{\"kty\":\"EC\",\"crv\":\"P-1\"},"
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\","
        "\"y\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"},{\"kty\":\"RSA\",\"n\":\"\",\"e\":\"AQAB\"},"
        "{\"kty\":\"RSA\",\"n\":\"AQAB\"}]}";
    struct key_set *set;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        add(&token_fixture_keys.p256, rows[i]);
        set = finish();
        if (key_set_count(set) != 0)
            fail_msg("taken: %s", rows[i]);
        key_set_unref(set);
    }
    assert_int_equal(key_set_read(str_from(others), &set), E_OK);
    assert_int_equal(key_set_count(set), 0);
    key_set_unref(set);
}

static void what_is_no_set_is_refused(void **state)
{
    static const struct {
        const char *text;
        err want;
    } rows[] = {
        {"", E_INVAL},       {"[]", E_INVAL}, {"{}", E_INVAL}, {"{\"keys\":{}}", E_INVAL}, {"{\"keys\":[]", E_INVAL},
        {"<html>", E_INVAL},
    };
    static char many[SET_BYTES] = "{\"keys\":[{}", large[KEY_SET_BYTES_MAX + 2];
    int64_t before = (int64_t)mem_used(MEM_REGISTRY);
    struct key_set *set;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(key_set_read(str_from(rows[i].text), &set), rows[i].want);
    for (int i = 0; i < KEY_SET_KEYS_MAX; i++)
        strcat(many, ",{}");
    strcat(many, "]}");
    assert_int_equal(key_set_read(str_from(many), &set), E_LIMIT);
    memset(large, ' ', sizeof large - 1);
    assert_int_equal(key_set_read(str_from(large), &set), E_LIMIT);
    assert_int_equal(mem_used(MEM_REGISTRY), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_verified_by_the_key_they_name),
        cmocka_unit_test(keys_that_are_of_no_use_are_passed_over),
        cmocka_unit_test(what_is_no_set_is_refused),
    };

    return cmocka_run_group_tests_name("key_set", tests, token_fixture_make_keys, token_fixture_free_keys);
}
