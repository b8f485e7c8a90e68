#include "main/authentication_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\n"

static struct config_errors errors;

static err check(const char *text)
{
    struct config_source source = {.text = str_from(text), .name = "test.yaml"};
    struct config *config;
    err e = config_load(&source, &config, &errors);

    if (e != E_OK)
        return e;
    e = authentication_options_check(config, source.name, &errors);
    config_unref(config);
    return e;
}

static void urls_and_tokens_that_can_be_used_are_good(void **state)
{
    (void)state;
    assert_int_equal(check(BASE), E_OK);
    assert_int_equal(check(BASE "authentication: {webhook: {url: \"https://idm:8443/ask\", token: secret, order: last}}\n"),
                     E_OK);
}

static void a_provider_has_an_issuer_and_an_audience(void **state)
{
    (void)state;
    assert_int_equal(check(BASE "authentication: {jwks: {url: \"http://idm/keys\", issuer: i, audience: [a, b]}}\n"), E_OK);
}

static void what_cannot_be_used_is_told(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {BASE "authentication: {webhook: {url: \"ftp://idm\"}}\n", "authentication.webhook.url: does not begin with http://"},
        {BASE "authentication: {webhook: {url: \"http://idm\", token: \"a\\r\\nb\"}}\n",
         "authentication.webhook.token: has characters that no header can have"},
        {BASE "authentication: {jwks: {url: \"idm\", issuer: i, audience: a}}\n",
         "authentication.jwks.url: does not begin with http://"},
        {BASE "authentication: {jwks: {url: \"http://idm\", audience: a}}\n", "authentication.jwks.issuer is missing"},
        {BASE "authentication: {jwks: {url: \"http://idm\", issuer: i}}\n", "authentication.jwks.audience is missing"},
        {BASE "authentication: {jwks: {url: \"http://idm\", issuer: i, audience: a, max_age: 1m}}\n",
         "authentication.jwks.max_age: is less"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(check(rows[i].text), E_INVAL);
        assert_int_equal(errors.count, 1);
        if (strncmp(errors.items[0].text, rows[i].want, strlen(rows[i].want)) != 0)
            fail_msg("%s, not: %s", errors.items[0].text, rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_and_tokens_that_can_be_used_are_good),
        cmocka_unit_test(a_provider_has_an_issuer_and_an_audience),
        cmocka_unit_test(what_cannot_be_used_is_told),
    };

    return cmocka_run_group_tests_name("authentication_options", tests, NULL, NULL);
}
