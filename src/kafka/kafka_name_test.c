#include "kafka/kafka_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

struct example {
    struct str name;
    bool is_legal;
};

static void names_follow_kafkas_own_rule(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("a"), true},      {STR_INIT("hono.telemetry.demo"), true},
        {STR_INIT("A-Z_09"), true}, {STR_INIT("..."), true},
        {STR_INIT("a..b"), true},   {STR_INIT(""), false},
        {STR_INIT("."), false},     {STR_INIT(".."), false},
        {STR_INIT("a/b"), false},   {STR_INIT("a b"), false},
        {STR_INIT("a\0b"), false},  {STR_INIT("t\xc3\xa4g"), false},
        {STR_INIT("a,b"), false},   {STR_INIT("a:b"), false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        assert_int_equal(kafka_name_is_legal(examples[i].name), examples[i].is_legal);
}

static void a_name_has_at_most_249_characters(void **state)
{
    char text[KAFKA_NAME_MAX_BYTES + 1];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_true(kafka_name_is_legal((struct str){text, KAFKA_NAME_MAX_BYTES}));
    assert_false(kafka_name_is_legal((struct str){text, KAFKA_NAME_MAX_BYTES + 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_kafkas_own_rule),
        cmocka_unit_test(a_name_has_at_most_249_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
