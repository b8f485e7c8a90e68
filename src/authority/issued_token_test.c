#include "authority/issued_token.h"

#include "registry/token_fixture_test.h"

#define ISS  "\"iss\":\"https://idm\","
#define GOOD ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000"

static struct str audiences[] = {STR_INIT("fleet"), STR_INIT("others")};
static struct config_jwks config = {
    .issuer = STR_INIT("https://idm"),
    .audience = {audiences, 2},
    .tenant_claim = STR_INIT("tid"),
    .device_claim = STR_INIT("sub"),
};

static struct token_fixture_pair key;

static int make_key(void **state)
{
    (void)state;
    key = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    return 0;
}

static int free_key(void **state)
{
    (void)state;
    cjose_jwk_release(key.jwk);
    OPENSSL_free(key.der);
    return 0;
}

static enum issued_token_result read_claims(const char *type, const char *claims, struct issued_token *out)
{
    char *text = token_fixture_sign_named(&key, "ES256", type, "k1", claims);
    enum issued_token_result result = issued_token_read(str_from(text), &config, out);

    out->signature.text = (struct str){0}; /* it ends here */
    free(text);
    return result;
}

static void assert_text(const char *text, size_t n, const char *want)
{
    assert_true(str_equal((struct str){text, n}, str_from(want)));
}

static void claims_say_which_device_it_is(void **state)
{
    struct issued_token token;

    (void)state;
    assert_int_equal(read_claims("JWT", "{" GOOD ",\"nbf\":1700000000,\"iat\":1700000005.5}", &token), ISSUED_TOKEN_OK);
    assert_text(token.who.tenant, token.who.tenant_n, "t1");
    assert_text(token.who.device, token.who.device_n, "d1");
    assert_text(token.kid, token.kid_n, "k1");
    assert_string_equal(token.signature.algorithm, "ES256");
    assert_int_equal(token.who.expires_at_s, 1800000000);
    assert_int_equal(token.from_s, 1700000005);
    config.tenant = STR("fixed");
    config.device_claim = STR("/device/id");
    assert_int_equal(read_claims("at+jwt", "{" GOOD ",\"device\":{\"id\":\"deep\"}}", &token), ISSUED_TOKEN_OK);
    assert_text(token.who.tenant, token.who.tenant_n, "fixed");
    assert_text(token.who.device, token.who.device_n, "deep");
    assert_int_equal(read_claims(NULL, "{" GOOD ",\"device\":{\"id\":\"deep\"}}", &token), ISSUED_TOKEN_OK);
    assert_int_equal(read_claims(NULL, "{" GOOD ",\"device\":\"deep\"}", &token), ISSUED_TOKEN_BAD);
    config.tenant = (struct str){0};
    config.device_claim = STR("sub");
}

static void tokens_of_others_are_theirs(void **state)
{
    static const char *const rows[] = {
        "{\"iss\":\"https://idm2\",\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{\"iss\":[\"https://idm\"]}",
        "{}",
        "[]",
        "nonsense",
        "{" GOOD "," GOOD "}",
    };
    static const char *const texts[] = {"", "a.b.c", "pw", "....", "e30.e30.", "e30.e30.AA"};
    struct issued_token token;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(read_claims("JWT", rows[i], &token), ISSUED_TOKEN_FOREIGN);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(issued_token_read(str_from(texts[i]), &config, &token), ISSUED_TOKEN_FOREIGN);
}

static void what_the_provider_did_not_issue_for_us_is_no_good(void **state)
{
    static const char *const rows[] = {
        "{" ISS "\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":\"them\",\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":[\"them\",5,[\"fleet\"]],\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":\"fleet\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":7,\"exp\":1800000000}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"\",\"sub\":\"d1\",\"exp\":1800000000}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"d1\"}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":\"1800000000\"}",
        "{" ISS "\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1e30}",
        "{" GOOD ",\"nbf\":-1}",
    };
    struct issued_token token;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (read_claims("JWT", rows[i], &token) != ISSUED_TOKEN_BAD)
            fail_msg("not bad: %s", rows[i]);
    assert_int_equal(
        read_claims("JWT", "{" ISS "\"aud\":[\"x\",\"others\"],\"tid\":\"t1\",\"sub\":\"d1\",\"exp\":1800000000}", &token),
        ISSUED_TOKEN_OK);
    assert_int_equal(read_claims("JOSE", "{" GOOD "}", &token), ISSUED_TOKEN_BAD);
}

static void it_holds_for_a_time(void **state)
{
    static const struct {
        int64_t now_s;
        bool want;
    } rows[] = {{999, false}, {1000, true}, {1500, true}, {2119, true}, {2120, false}};
    struct issued_token token = {.from_s = 1060, .who = {.expires_at_s = 2060}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(issued_token_holds(&token, rows[i].now_s), rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_say_which_device_it_is),
        cmocka_unit_test(tokens_of_others_are_theirs),
        cmocka_unit_test(what_the_provider_did_not_issue_for_us_is_no_good),
        cmocka_unit_test(it_holds_for_a_time),
    };

    return cmocka_run_group_tests_name("issued_token", tests, make_key, free_key);
}
