#include "config/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

static void the_word_that_was_probably_meant_is_named(void **state)
{
    static const char *const valid[] = {"bootstrap", "properties", "topic_prefix", "tls", "warn"};
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"bootstrap", "bootstrap"},
        {"botstrap", "bootstrap"},
        {"bootstarp", "bootstrap"},
        {"Bootstrap", "bootstrap"},
        {"boot", "bootstrap"},
        {"property", "properties"},
        {"topicprefix", "topic_prefix"},
        {"warning", "warn"},
        {"tsl", "tls"},
        {"xyz", ""},
        {"listeners", ""},
        {"", ""},
        {"t", ""},
        {"a_word_that_is_longer_than_anything_that_anybody_would_ever_have_meant", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct nearest n = {.word = str_from(rows[i].word)};

        for (size_t k = 0; k < ARRAY_LEN(valid); k++)
            nearest_offer(&n, str_from(valid[k]));
        if (!str_equal(nearest_result(&n), str_from(rows[i].want)))
            fail_msg("%s gave %.*s", rows[i].word, STR_ARG(nearest_result(&n)));
    }
}

static void nothing_offered_is_nothing_found(void **state)
{
    struct nearest n = {.word = STR("a")};

    (void)state;
    assert_int_equal(nearest_result(&n).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_that_was_probably_meant_is_named),
        cmocka_unit_test(nothing_offered_is_nothing_found),
    };

    return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
