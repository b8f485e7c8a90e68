#include "core/rule_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

static struct arena arena;

static struct rule_filter parse(const char *text)
{
    struct rule_filter f;
    struct errinfo ei = {0};

    if (rule_filter_parse(&arena, MEM_TEST, str_from(text), &f, &ei) != E_OK)
        fail_msg("%s: %s", text, ei.text);
    return f;
}

static int drop_arena(void **state)
{
    (void)state;
    arena_free(&arena, MEM_TEST);
    return mem_used(MEM_TEST) != 0;
}

/* `want`: the segments with commas between, NULL: no match. */
static void names_match_as_mqtt_says_and_segments_are_remembered(void **state)
{
    static const struct {
        const char *filter, *name, *want;
    } rows[] = {
        {"plant/{site}/+/{rest#}", "plant/berlin/x/a/b", "berlin,a/b"},
        {"plant/{site}/+/{rest#}", "plant/berlin/x", "berlin,"},
        {"plant/{site}/+/{rest#}", "plant/berlin", NULL},
        {"plant/{site}/+/{rest#}", "plants/berlin/x/a", NULL},
        {"{a}/{b}", "x/", "x,"},
        {"{a}/{b}", "/y", ",y"},
        {"{a}/{b}", "x", NULL},
        {"{a}/{b}", "x/y/z", NULL},
        {"{all#}", "a/b/c", "a/b/c"},
        {"{all#}", "$SYS/x", NULL},
        {"{a}/x", "$SYS/x", NULL},
        {"+/x", "$SYS/x", NULL},
        {"$SYS/{a}", "$SYS/x", "x"},
        {"a/#", "a", ""},
        {"a/#", "a/", ""},
        {"a/#", "ab", NULL},
        {"a/{r#}", "a", ""},
        {"a", "a", ""},
        {"a", "a/", NULL},
        {"a/", "a/", ""},
        {"\xc3\xa9/{x}", "\xc3\xa9/\xc3\xbc", "\xc3\xbc"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rule_filter f = parse(rows[i].filter);
        struct str segments[RULE_FILTER_MAX_SEGMENTS];
        bool found = rule_filter_matches(&f, str_from(rows[i].name), segments);
        char text[100] = "";
        size_t n = 0;

        for (size_t k = 0; found && k < f.n_segments; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", k ? "," : "", STR_ARG(segments[k]));
        if (found != (rows[i].want != NULL) || (found && strcmp(text, rows[i].want) != 0))
            fail_msg("%s on %s: %s %s", rows[i].filter, rows[i].name, found ? "found" : "not found", text);
    }
}

static void faulty_filters_are_refused(void **state)
{
    static const char *const filters[] = {
        "",     "a/{}",  "a/{x}y", "a/x{y}",     "a/{x",   "a/x}", "{x}/{x}", "#/a", "{r#}/a", "a+",    "a/b#",
        "{1a}", "{a b}", "{a.b}",  "$share/g/a", "a/\x01", "\xff", "{#}",     "{+}", "{a#b}",  "{a##}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct rule_filter f;
        struct errinfo ei = {0};

        if (rule_filter_parse(&arena, MEM_TEST, str_from(filters[i]), &f, &ei) == E_OK)
            fail_msg("%s was taken", filters[i]);
        assert_true(ei.text[0]);
    }
}

static void limits_hold(void **state)
{
    char text[1000] = "a";
    struct rule_filter f;
    struct errinfo ei;
    size_t n = 1;

    (void)state;
    for (int i = 1; i < RULE_FILTER_MAX_LEVELS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "/a");
    assert_int_equal(rule_filter_parse(&arena, MEM_TEST, str_from(text), &f, &ei), E_OK);
    snprintf(text + n, sizeof text - n, "/a");
    assert_int_equal(rule_filter_parse(&arena, MEM_TEST, str_from(text), &f, &ei), E_LIMIT);
    n = 0;
    for (int i = 0; i <= RULE_FILTER_MAX_SEGMENTS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{s%d}", i ? "/" : "", i);
    assert_int_not_equal(rule_filter_parse(&arena, MEM_TEST, str_from(text), &f, &ei), E_OK);
}

static void a_filter_covers_what_it_takes_all_of(void **state)
{
    static const struct {
        const char *a, *b;
        bool covers;
    } rows[] = {
        {"#", "a/b", true},         {"#", "+/b", true},       {"#", "$SYS/a", false}, {"+/b", "$SYS/b", false},
        {"a/#", "a", true},         {"a/#", "a/+/{x}", true}, {"a/+", "a/{x}", true}, {"a/{x}", "a/+", true},
        {"a/+", "a/#", false},      {"a/+", "a", false},      {"a/b", "a/+", false},  {"a/b", "a/b", true},
        {"{r#}", "#", true},        {"a/+/#", "a/b", true},   {"a/+/#", "a", false},  {"+/+", "a/b/c", false},
        {"$SYS/#", "$SYS/a", true}, {"#", "#", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rule_filter a = parse(rows[i].a), b = parse(rows[i].b);

        if (rule_filter_covers(&a, &b) != rows[i].covers)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

/* Small alphabets make hits likely. */
static void random_text(char *out, const char *const *levels, unsigned n, unsigned *seed)
{
    unsigned count = (unsigned)rand_r(seed) % 4 + 1;

    out[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        if (i)
            strncat(out, "/", 2);
        strncat(out, levels[(unsigned)rand_r(seed) % n], 8);
    }
}

static void covering_agrees_with_matching(void **state)
{
    static const char *const filter_levels[] = {"a", "b", "+", "{x}", ""}, *const name_levels[] = {"a", "b", "c", "", "$s"};
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text_a[64], text_b[64], name[64];
        struct rule_filter a, b;
        struct errinfo ei;
        struct str segments[RULE_FILTER_MAX_SEGMENTS];

        random_text(text_a, filter_levels, ARRAY_LEN(filter_levels), &seed);
        random_text(text_b, filter_levels, ARRAY_LEN(filter_levels), &seed);
        if (round % 3 == 0)
            strncat(text_a, "/#", 3);
        if (rule_filter_parse(&arena, MEM_TEST, str_from(text_a), &a, &ei) != E_OK ||
            rule_filter_parse(&arena, MEM_TEST, str_from(text_b), &b, &ei) != E_OK || !rule_filter_covers(&a, &b))
            continue;
        for (int k = 0; k < 50; k++) {
            random_text(name, name_levels, ARRAY_LEN(name_levels), &seed);
            if (rule_filter_matches(&b, str_from(name), segments) && !rule_filter_matches(&a, str_from(name), segments))
                fail_msg("%s covers %s, but not with %s", text_a, text_b, name);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_match_as_mqtt_says_and_segments_are_remembered, drop_arena),
        cmocka_unit_test_teardown(faulty_filters_are_refused, drop_arena),
        cmocka_unit_test_teardown(limits_hold, drop_arena),
        cmocka_unit_test_teardown(a_filter_covers_what_it_takes_all_of, drop_arena),
        cmocka_unit_test_teardown(covering_agrees_with_matching, drop_arena),
    };

    return cmocka_run_group_tests_name("rule_filter", tests, NULL, NULL);
}
