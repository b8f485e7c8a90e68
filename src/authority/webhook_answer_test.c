#include "authority/webhook_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

static void what_a_webhook_may_say(void **state)
{
    static const struct {
        const char *body;
        enum authority_verdict verdict;
        const char *tenant, *device;
        int64_t ttl_s;
    } rows[] = {
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d1\",\"ttl\":60}", AUTHORITY_ALLOWED, "t1", "d1", 60},
        {"{\"result\":\"allow\",\"device\":\"d1\"}", AUTHORITY_ALLOWED, "", "d1", 0},
        {"{\"result\":\"deny\"}", AUTHORITY_DENIED, "", "", 0},
        {"{\"result\":\"ignore\",\"why\":{\"any\":[1,2]}}", AUTHORITY_NONE, "", "", 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct webhook_answer answer;

        assert_int_equal(webhook_answer_read(str_from(rows[i].body), &answer), E_OK);
        assert_int_equal(answer.verdict, rows[i].verdict);
        assert_int_equal(answer.ttl_s, rows[i].ttl_s);
        assert_true(str_equal((struct str){answer.who.tenant, answer.who.tenant_n}, str_from(rows[i].tenant)));
        assert_true(str_equal((struct str){answer.who.device, answer.who.device_n}, str_from(rows[i].device)));
    }
}

static void anything_else_is_no_answer(void **state)
{
    static const char *const rows[] = {
        "",
        "allow",
        "[]",
        "{}",
        "{\"result\":\"Allow\",\"device\":\"d1\"}",
        "{\"result\":true,\"device\":\"d1\"}",
        "{\"result\":\"allow\"}",
        "{\"result\":\"allow\",\"device\":\"\"}",
        "{\"result\":\"allow\",\"device\":1}",
        "{\"result\":\"allow\",\"device\":\"d1\",\"tenant\":null}",
        "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":0}",
        "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":-1}",
        "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":\"60\"}",
        "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":99999999999999}",
        "{\"result\":\"deny\",\"result\":\"allow\",\"device\":\"d1\"}",
        "{\"result\":\"deny\"} {}",
        "{\"result\":\"deny\",\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct webhook_answer answer;

        if (webhook_answer_read(str_from(rows[i]), &answer) != E_INVAL)
            fail_msg("taken for an answer: %s", rows[i]);
    }
}

static void names_are_bounded(void **state)
{
    char body[SCHEMA_MAX_ID_BYTES + 64], name[SCHEMA_MAX_ID_BYTES + 2];
    struct webhook_answer answer;

    (void)state;
    for (size_t n = SCHEMA_MAX_ID_BYTES; n <= SCHEMA_MAX_ID_BYTES + 1; n++) {
        memset(name, 'x', n);
        name[n] = '\0';
        (void)snprintf(body, sizeof body, "{\"result\":\"allow\",\"device\":\"%s\"}", name);
        assert_int_equal(webhook_answer_read(str_from(body), &answer), n <= SCHEMA_MAX_ID_BYTES ? E_OK : E_INVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_webhook_may_say),
        cmocka_unit_test(anything_else_is_no_answer),
        cmocka_unit_test(names_are_bounded),
    };

    return cmocka_run_group_tests_name("webhook_answer", tests, NULL, NULL);
}
