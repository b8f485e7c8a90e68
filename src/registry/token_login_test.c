#include "registry/token_login.h"

#include "registry/token_fixture_test.h"

#include "registry/login_fixture_test.h"

static struct token_fixture_pair ours, other;
static char key_text[512]; /* base64 of ours */

static int make_keys(void **state)
{
    (void)state;
    ours = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    other = token_fixture_make_ec("P-256", CJOSE_JWK_EC_P_256);
    (void)base64_encode(token_fixture_public_key(&ours), key_text);
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    cjose_jwk_release(ours.jwk);
    cjose_jwk_release(other.jwk);
    OPENSSL_free(ours.der);
    OPENSSL_free(other.der);
    return 0;
}

/* `secret`: members of the secret besides its key. */
static void put_key(const char *entry, const char *secret)
{
    char json[1024];

    snprintf(json, sizeof json,
             "[{\"type\":\"rpk\",\"auth-id\":\"a1\"%s,\"secrets\":[{\"algorithm\":\"EC\",\"key\":\"%s\"%s}]}]", entry, key_text,
             secret);
    login_fixture_put(registry_key_credentials(STR("t1"), STR("d1")), json);
    login_fixture_point(registry_key_login(STR("t1"), STR("rpk"), STR("a1")), "d1");
}

static int set_up(void **state)
{
    (void)state;
    login_fixture_set_up();
    put_key("", "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    login_fixture_tear_down();
    return 0;
}

/* A token issued now that ends `life_s` later, of `a1` of `t1` unless `names` says something else. */
static char *make_token(const struct token_fixture_pair *pair, const char *names, int life_s)
{
    long long now = (long long)loop_wall_ms() / 1000;
    char claims[512];

    snprintf(claims, sizeof claims, "{%s\"iat\":%lld,\"exp\":%lld}", names, now + (life_s < 0 ? life_s - 60 : 0), now + life_s);
    return token_fixture_sign(pair, "ES256", "JWT", claims);
}

#define NAMES "\"aud\":\"hono-adapter\",\"tid\":\"t1\",\"sub\":\"a1\","

static enum registry_result enter(const char *token, struct registry_login login, struct principal *out, unsigned *out_n)
{
    login.token = str_from(token);
    return login_fixture_ask(&login, out, out_n);
}

static void a_token_lets_its_device_in_until_it_ends(void **state)
{
    char *token = make_token(&ours, NAMES, 60);
    struct principal who = {0};
    int64_t expires_at_s = -1;
    unsigned n;

    (void)state;
    assert_int_equal(enter(token, (struct registry_login){.out_expires_at_s = &expires_at_s}, &who, &n), REGISTRY_OK);
    assert_int_equal(n, 1);
    assert_string_equal(who.device->id.p, "d1");
    assert_in_range(expires_at_s, (int64_t)loop_wall_ms() / 1000 + 1, (int64_t)loop_wall_ms() / 1000 + 60);
    principal_release(&who);
    free(token);
}

static void a_token_just_over_is_good_for_what_clocks_may_differ_by(void **state)
{
    char *token = make_token(&ours, NAMES, -60);
    struct principal who = {0};
    int64_t expires_at_s = 0;
    unsigned n;

    (void)state;
    assert_int_equal(enter(token, (struct registry_login){.out_expires_at_s = &expires_at_s}, &who, &n), REGISTRY_OK);
    assert_in_range(expires_at_s, (int64_t)loop_wall_ms() / 1000 + 500, (int64_t)loop_wall_ms() / 1000 + 540);
    principal_release(&who);
    free(token);
}

static void the_address_names_a_device_that_the_token_does_not(void **state)
{
    char *token = make_token(&ours, "", 60);
    struct principal who = {0};
    struct registry_login login = {.token_tenant = STR("t1"), .token_auth_id = STR("a1")};
    unsigned n;

    (void)state;
    assert_int_equal(enter(token, login, &who, &n), REGISTRY_OK);
    principal_release(&who);
    login.token_auth_id = STR("a2");
    assert_int_equal(enter(token, login, &who, &n), REGISTRY_BAD_CREDENTIALS);
    free(token);
}

static void who_is_refused_is_told_no_more_than_that(void **state)
{
    static const struct {
        const char *names, *tenant, *device, *entry, *secret;
        int life_s;
        bool is_other;
        enum registry_result want;
        unsigned n; /* questions: what is not there is looked for in the log first */
    } rows[] = {
        {NAMES, "{}", "{}", "", "", 60, false, REGISTRY_OK, 1},
        {NAMES, "{}", "{}", "", "", 60, true, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", "{}", "", "", -700, false, REGISTRY_BAD_CREDENTIALS, 1},
        {"", "{}", "{}", "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 1},
        {"\"aud\":\"hono-adapter\",\"tid\":\"t1\",\"sub\":\"a9\",", "{}", "{}", "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {"\"aud\":\"hono-adapter\",\"tid\":\"t9\",\"sub\":\"a1\",", "{}", "{}", "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{\"enabled\":false}", "{}", "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 1},
        {NAMES, NULL, "{}", "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", NULL, "", "", 60, false, REGISTRY_BAD_CREDENTIALS, 1},
        {NAMES, "{\"adapters\":[{\"type\":\"hono-http\",\"enabled\":true}]}", "{}", "", "", 60, true, REGISTRY_ADAPTER_DISABLED,
         1},
        {NAMES, "{}", "{\"enabled\":false}", "", "", 60, false, REGISTRY_DEVICE_DISABLED, 1},
        {NAMES, "{}", "{\"enabled\":false}", "", "", 60, true, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", "{}", ",\"enabled\":false", "", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", "{}", "", ",\"enabled\":false", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", "{}", "", ",\"not-after\":\"2020-01-01T00:00:00Z\"", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
        {NAMES, "{}", "{}", "", ",\"not-before\":\"2120-01-01T00:00:00Z\"", 60, false, REGISTRY_BAD_CREDENTIALS, 2},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *token = make_token(rows[i].is_other ? &other : &ours, rows[i].names, rows[i].life_s);
        struct principal who = {0};
        enum registry_result result;
        unsigned n;

        login_fixture_put(registry_key_tenant(STR("t1")), rows[i].tenant);
        login_fixture_put(registry_key_device(STR("t1"), STR("d1")), rows[i].device);
        put_key(rows[i].entry, rows[i].secret);
        result = enter(token, (struct registry_login){0}, &who, &n);
        if (result != rows[i].want || n != rows[i].n)
            fail_msg("row %zu: %s after %u questions", i, registry_result_name(result), n);
        principal_release(&who);
        free(token);
    }
}

static void a_listener_of_another_tenant_refuses(void **state)
{
    char *token = make_token(&ours, NAMES, 60);
    struct registry_login login = {.tenant = STR("t2"), .is_tenant_fixed = true};
    struct principal who;
    unsigned n;

    (void)state;
    assert_int_equal(enter(token, login, &who, &n), REGISTRY_TENANT_REFUSED);
    free(token);
}

static void a_password_that_looks_like_a_token_is_a_password(void **state)
{
    /* SHA-256 of "a.b.c". */
    static const char password[] =
        "[{\"type\":\"hashed-password\",\"auth-id\":\"a1\",\"secrets\":[{\"hash-function\":\"sha-256\","
        "\"pwd-hash\":\"hF4wRIgJ4ryJWOsCW/x5UjXROwd6U9DDq70jhRcNybg=\"}]}]";
    struct registry_login login = {.password = STR("a.b.c"), .has_password = true};
    struct principal who = {0};
    unsigned n;

    (void)state;
    login_fixture_put(registry_key_credentials(STR("t1"), STR("d1")), password);
    login_fixture_point(registry_key_login(STR("t1"), STR("hashed-password"), STR("a1")), "d1");
    assert_int_equal(enter("a.b.c", login, &who, &n),
                     REGISTRY_BAD_CREDENTIALS); /* nobody is named, and nobody anonymous either */
    login.is_anonymous_allowed = true;
    assert_int_equal(enter("a.b.c", login, &who, &n), REGISTRY_BAD_CREDENTIALS);
    login.has_user_name = true;
    login.user_name = STR("a1@t1");
    assert_int_equal(enter("a.b.c", login, &who, &n), REGISTRY_OK);
    principal_release(&who);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(a_token_lets_its_device_in_until_it_ends),
        TEST(a_token_just_over_is_good_for_what_clocks_may_differ_by),
        TEST(the_address_names_a_device_that_the_token_does_not),
        TEST(who_is_refused_is_told_no_more_than_that),
        TEST(a_listener_of_another_tenant_refuses),
        TEST(a_password_that_looks_like_a_token_is_a_password),
    };

    return cmocka_run_group_tests_name("token_login", tests, make_keys, free_keys);
}
