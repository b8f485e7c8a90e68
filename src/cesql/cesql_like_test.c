#include "cesql/cesql_like.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static struct arena arena;

static int drop_arena(void **state)
{
    (void)state;
    arena_free(&arena, MEM_CONFIG);
    return mem_used(MEM_CONFIG) != 0;
}

static bool matches(struct str pattern, struct str text)
{
    const struct cesql_like *like;

    if (cesql_like_compile(&arena, pattern, &like) != E_OK)
        fail_msg("%.*s", STR_ARG(pattern));
    return cesql_like_matches(like, text);
}

static void patterns_match_as_section_3_4_3_says(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool want;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"%", "", true},
        {"%", "abc", true},
        {"%%", "abc", true},
        {"_", "", false},
        {"_", "a", true},
        {"_", "ab", false},
        {"_", "\xe2\x82\xac", true},
        {"__", "\xe2\x82\xac", false},
        {"a%", "abc", true},
        {"a%", "ba", false},
        {"%c", "abc", true},
        {"%c", "abcd", false},
        {"%b%", "abc", true},
        {"%bb%", "abc", false},
        {"a%a", "a", false},
        {"a%a", "aa", true},
        {"%ab%ab", "ab", false},
        {"%ab%ab", "abab", true},
        {"%ab%ab%", "aabbab", true},
        {"%_b%", "b", false},
        {"%_b%", "ab", true},
        {"%_b", "abb", true},
        {"%_b",
         "bb\xe2\x82\xac"
         "b",
         true},
        {"_%_", "a", false},
        {"_%_", "ab", true},
        {"%_", "", false},
        {"a_c%", "abcd", true},
        {"%x_z%z", "axyzxyz", true},
        {"%x_z%z", "axyz", false},
        {"\\%", "%", true},
        {"\\%", "\\a", false},
        {"\\_", "_", true},
        {"\\_", "a", false},
        {"a\\b", "a\\b", true},
        {"\\", "\\", true},
        {"\\\\%", "\\%", true},
        {"\\\\%", "\\abc", false},
        {"%\\%", "100%", true},
        {"_b*", "ab*", true},
        {"_b*", "abc", false},
        {"A", "a", false},
        {"_", "\xff", true},
        {"%a%",
         "\xff"
         "a\xff",
         true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (matches(str_from(rows[i].pattern), str_from(rows[i].text)) != rows[i].want)
            fail_msg("%s on %s", rows[i].pattern, rows[i].text);
}

/* Every way to share the text out, one character after the other. */
static bool reference_matches(const char *pattern, const char *text)
{
    if (*pattern == '%')
        return reference_matches(pattern + 1, text) || (*text && reference_matches(pattern, text + 1));
    if (*pattern == '\0' || *text == '\0')
        return *pattern == *text;
    return (*pattern == '_' || *pattern == *text) && reference_matches(pattern + 1, text + 1);
}

static void random_text(char *to, const char *letters, unsigned most, unsigned *seed)
{
    unsigned n = (unsigned)rand_r(seed) % (most + 1), kinds = (unsigned)strlen(letters);

    for (unsigned i = 0; i < n; i++)
        *to++ = letters[(unsigned)rand_r(seed) % kinds];
    *to = '\0';
}

static void matching_agrees_with_trying_everything(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char pattern[16], text[16];

        random_text(pattern, "ab%_", 8, &seed);
        random_text(text, "ab", 10, &seed);
        if (matches(str_from(pattern), str_from(text)) != reference_matches(pattern, text))
            fail_msg("%s on %s", pattern, text);
    }
}

/* With a way back, this one would outlast the test run. */
static void many_wildcards_cost_no_more_than_few(void **state)
{
    char pattern[2001], text[10000];

    (void)state;
    for (size_t i = 0; i + 1 < sizeof pattern; i += 2)
        memcpy(pattern + i, "%a", 2);
    pattern[sizeof pattern - 1] = 'b';
    memset(text, 'a', sizeof text);
    assert_false(matches((struct str){pattern, sizeof pattern}, (struct str){text, sizeof text}));
}

static void a_piece_with_an_underscore_has_a_bound(void **state)
{
    char pattern[CESQL_LIKE_PIECE_MAX * 2 + 4];
    const struct cesql_like *like;

    (void)state;
    memset(pattern, 'a', sizeof pattern);
    assert_int_equal(cesql_like_compile(&arena, (struct str){pattern, sizeof pattern}, &like), E_OK);
    pattern[0] = '_';
    assert_int_equal(cesql_like_compile(&arena, (struct str){pattern, CESQL_LIKE_PIECE_MAX}, &like), E_OK);
    assert_int_equal(cesql_like_compile(&arena, (struct str){pattern, CESQL_LIKE_PIECE_MAX + 1}, &like), E_LIMIT);
    pattern[CESQL_LIKE_PIECE_MAX] = '%';
    assert_int_equal(cesql_like_compile(&arena, (struct str){pattern, sizeof pattern}, &like), E_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(patterns_match_as_section_3_4_3_says, drop_arena),
        cmocka_unit_test_teardown(matching_agrees_with_trying_everything, drop_arena),
        cmocka_unit_test_teardown(many_wildcards_cost_no_more_than_few, drop_arena),
        cmocka_unit_test_teardown(a_piece_with_an_underscore_has_a_bound, drop_arena),
    };

    return cmocka_run_group_tests_name("cesql_like", tests, NULL, NULL);
}
