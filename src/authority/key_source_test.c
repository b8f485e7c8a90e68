#include "authority/authority_fixture_test.h"

#include "registry/token_fixture_test.h"

enum { KEYS_BYTES = 4096 };

#define PROVIDER "jwks: {url: \"http://@/keys\", issuer: idm, audience: fleet"

static struct token_fixture_pair first, second;
static char first_keys[KEYS_BYTES], both_keys[KEYS_BYTES];
static char *good, *other_key, *unknown_key, *foreign, *over, *stranger;

static char *token_of(const struct token_fixture_pair *pair, const char *kid, const char *issuer, const char *device,
                      int64_t life_s)
{
    char claims[256];

    (void)snprintf(claims, sizeof claims, "{\"iss\":\"%s\",\"aud\":\"fleet\",\"tid\":\"t1\",\"sub\":\"%s\",\"exp\":%lld}",
                   issuer, device, (long long)(int64_t)(loop_wall_ms() / 1000) + life_s);
    return token_fixture_sign_named(pair, "ES256", "JWT", kid, claims);
}

static int make_tokens(void **state)
{
    char *one, *two;

    (void)state;
    first = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    second = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    assert_true(cjose_jwk_set_kid(first.jwk, "k1", 2, NULL) && cjose_jwk_set_kid(second.jwk, "k2", 2, NULL));
    one = cjose_jwk_to_json(first.jwk, false, NULL);
    two = cjose_jwk_to_json(second.jwk, false, NULL);
    (void)snprintf(first_keys, sizeof first_keys, "{\"keys\":[%s]}", one);
    (void)snprintf(both_keys, sizeof both_keys, "{\"keys\":[%s,%s]}", one, two);
    free(one);
    free(two);
    good = token_of(&first, "k1", "idm", "d1", 600);
    other_key = token_of(&second, "k1", "idm", "d1", 600);
    unknown_key = token_of(&second, "k2", "idm", "d1", 600);
    foreign = token_of(&first, "k1", "somebody", "d1", 600);
    over = token_of(&first, "k1", "idm", "d1", -600);
    stranger = token_of(&first, "k1", "idm", "nobody", 600);
    return 0;
}

static int free_tokens(void **state)
{
    char **texts[] = {&good, &other_key, &unknown_key, &foreign, &over, &stranger};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(*texts[i]);
    cjose_jwk_release(first.jwk);
    cjose_jwk_release(second.jwk);
    OPENSSL_free(first.der);
    OPENSSL_free(second.der);
    return 0;
}

static struct log_in *begin(unsigned worker, const char *token)
{
    return authority_fixture_begin(worker, "unused", str_from(token));
}

static enum registry_result log_in(const char *token)
{
    return authority_fixture_finish(begin(0, token));
}

static void tokens_of_the_provider_let_in(void **state)
{
    struct log_in *l;

    (void)state;
    t.answer = first_keys;
    authority_fixture_use_config(PROVIDER "}");
    l = begin(1, good);
    assert_int_equal(authority_fixture_finish(l), REGISTRY_OK);
    assert_true(str_equal(l->who.device->id, STR("d1")) && str_equal(l->who.tenant->id, STR("t1")));
    assert_in_range(l->expires_at_s, loop_wall_ms() / 1000 + 500, loop_wall_ms() / 1000 + 600);
    assert_int_equal(log_in(other_key), REGISTRY_BAD_CREDENTIALS);
    assert_int_equal(log_in(over), REGISTRY_BAD_CREDENTIALS);
    assert_int_equal(log_in(stranger), REGISTRY_BAD_CREDENTIALS);
    assert_int_equal(log_in(foreign), REGISTRY_BAD_CREDENTIALS); /* the registry has no keys for it */
    assert_int_equal(t.n_asked, 1);
}

static void keys_are_fetched_before_anybody_asks(void **state)
{
    (void)state;
    t.answer = first_keys;
    authority_fixture_use_config(PROVIDER "}");
    while (!t.plane.keys.set)
        authority_fixture_turn();
    assert_int_equal(begin(0, good)->result, REGISTRY_OK);
}

static void who_comes_meanwhile_waits_for_the_same_keys(void **state)
{
    struct log_in *list[4];

    (void)state;
    authority_fixture_use_config(PROVIDER "}");
    for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
        list[i] = begin(i % WORKERS, good);
        assert_int_equal(list[i]->result, REGISTRY_PENDING);
    }
    authority_fixture_wait_for_questions(1);
    authority_fixture_answer_held(first_keys);
    for (unsigned i = 0; i < ARRAY_LEN(list); i++)
        assert_int_equal(authority_fixture_finish(list[i]), REGISTRY_OK);
    assert_int_equal(t.n_asked, 1);
}

static void a_key_that_is_not_there_has_them_fetched_but_not_too_often(void **state)
{
    (void)state;
    t.answer = first_keys;
    authority_fixture_use_config(PROVIDER ", retry: 100ms}");
    assert_int_equal(log_in(good), REGISTRY_OK);
    t.answer = both_keys;
    while (log_in(unknown_key) != REGISTRY_OK) {
        assert_int_equal(t.n_asked, 1); /* not before its time */
        authority_fixture_forget();
    }
    assert_int_equal(t.n_asked, 2);
    authority_fixture_forget();
    authority_fixture_use_config(PROVIDER ", retry: 1h}");
    for (int i = 0; i < 3; i++)
        assert_int_equal(log_in(good), REGISTRY_OK);
    assert_int_equal(t.n_asked, 2);
}

static void without_keys_nobody_is_let_in(void **state)
{
    static const struct {
        const char *answer;
        uint16_t status;
    } rows[] = {{"{}", 200}, {"nonsense", 200}, {first_keys, 500}, {"", 404}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char config[128];

        t.answer = rows[i].answer;
        t.status = rows[i].status;
        (void)snprintf(config, sizeof config, "jwks: {url: \"http://@/keys?%zu\", issuer: idm, audience: fleet}", i);
        authority_fixture_use_config(config);
        assert_int_equal(log_in(good), REGISTRY_UNAVAILABLE);
    }
    assert_int_equal(log_in(foreign), REGISTRY_BAD_CREDENTIALS);
}

static void keys_are_kept_when_they_cannot_be_fetched_until_they_are_too_old(void **state)
{
    enum registry_result result;

    (void)state;
    t.answer = first_keys;
    authority_fixture_use_config(PROVIDER ", refresh: 100ms, retry: 100ms, max_age: 500ms}");
    assert_int_equal(log_in(good), REGISTRY_OK);
    t.status = 500;
    do {
        authority_fixture_forget();
        result = log_in(good);
    } while (result == REGISTRY_OK);
    assert_int_equal(result, REGISTRY_UNAVAILABLE);
    assert_true(loop_clock_ms() - t.plane.keys.fetched_ms >= 500);
    assert_true(t.n_asked >= 2);
}

static void keys_of_another_place_do_not_count(void **state)
{
    (void)state;
    t.answer = first_keys;
    authority_fixture_use_config(PROVIDER "}");
    assert_int_equal(log_in(good), REGISTRY_OK);
    t.answer = "{\"keys\":[]}";
    authority_fixture_use_config("jwks: {url: \"http://@/keys?new\", issuer: idm, audience: fleet}");
    assert_int_equal(log_in(good), REGISTRY_BAD_CREDENTIALS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, authority_fixture_set_up, authority_fixture_tear_down)
        TEST(tokens_of_the_provider_let_in),
        TEST(keys_are_fetched_before_anybody_asks),
        TEST(who_comes_meanwhile_waits_for_the_same_keys),
        TEST(a_key_that_is_not_there_has_them_fetched_but_not_too_often),
        TEST(without_keys_nobody_is_let_in),
        TEST(keys_are_kept_when_they_cannot_be_fetched_until_they_are_too_old),
        TEST(keys_of_another_place_do_not_count),
    };

    return cmocka_run_group_tests_name("key_source", tests, make_tokens, free_tokens);
}
