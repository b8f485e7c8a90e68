#include "base/jsonw.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static void text_becomes_a_json_string(void **state)
{
    static const struct {
        struct str text;
        const char *want;
    } rows[] = {
        {STR_INIT(""), "\"\""},
        {STR_INIT("plain"), "\"plain\""},
        {STR_INIT("a\"b\\c"), "\"a\\\"b\\\\c\""},
        {STR_INIT("\n\x01\x7f"), "\"\\u000a\\u0001\\u007f\""},
        {STR_INIT("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {STR_INIT("a\xff\xc3"), "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
        {STR_INIT("x\0y"), "\"x\\u0000y\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out = {0};

        assert_int_equal(jsonw_string(&out, MEM_TEST, rows[i].text), E_OK);
        if (!str_equal(buf_str(&out), str_from(rows[i].want)))
            fail_msg("%.*s instead of %s", STR_ARG(buf_str(&out)), rows[i].want);
        buf_free(&out, MEM_TEST);
    }
}

static void memory_may_be_short(void **state)
{
    struct buf out = {0};

    (void)state;
    mem_fail_after(1);
    assert_int_equal(jsonw_string(&out, MEM_TEST, STR("x")), E_NOMEM);
    mem_fail_after(0);
    buf_free(&out, MEM_TEST);
    assert_int_equal(mem_used(MEM_TEST), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_a_json_string),
        cmocka_unit_test(memory_may_be_short),
    };

    return cmocka_run_group_tests_name("jsonw", tests, NULL, NULL);
}
