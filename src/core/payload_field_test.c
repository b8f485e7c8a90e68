#include "core/payload_field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static void expect(const char *text, const char *pointer, const char *want)
{
    struct jsonr_value f;
    char decoded[200];
    struct str got;
    bool found = payload_field_find(str_from(text), str_from(pointer), &f);

    if (found != (want != NULL))
        fail_msg("%s at '%s': %s", text, pointer, found ? "found" : "not found");
    if (!found)
        return;
    got = f.raw;
    if (f.has_escapes)
        got = (struct str){decoded, jsonr_decode(f.raw, decoded)};
    if (!str_equal(got, str_from(want)))
        fail_msg("%s at '%s': %.*s instead of %s", text, pointer, STR_ARG(got), want);
}

/* RFC 6901 section 5, and what templates meet. */
static void a_pointer_leads_to_its_value(void **state)
{
    static const char text[] = "{\"foo\":[\"bar\",\"baz\",[1,{\"x\":-0.5e+3}]],\"\":0,\"a/b\":1,\"c%d\":2,\"m~n\":8,\" \":7,"
                               "\"k\\\"l\":6,\"\\u00e9\":5,\"t\":true,\"f\":false,\"n\":null,\"o\":{\"p\":\"q\\n\"}}";
    static const struct {
        const char *pointer, *want;
    } rows[] = {
        {"/foo/0", "bar"},
        {"/foo/1", "baz"},
        {"/foo/2/0", "1"},
        {"/foo/2/1/x", "-0.5e+3"},
        {"/", "0"},
        {"/a~1b", "1"},
        {"/c%d", "2"},
        {"/m~0n", "8"},
        {"/ ", "7"},
        {"/k\"l", "6"},
        {"/\xc3\xa9", "5"},
        {"/t", "true"},
        {"/f", "false"},
        {"/n", NULL},
        {"/o/p", "q\n"},
        {"/foo/3", NULL},
        {"/foo/00", NULL},
        {"/foo/-", NULL},
        {"/nope", NULL},
        {"/t/x", NULL},
        {"/foo", "[\"bar\",\"baz\",[1,{\"x\":-0.5e+3}]]"},
        {"/o", "{\"p\":\"q\\n\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect(text, rows[i].pointer, rows[i].want);
    expect(" \t\n 42 ", "", "42");
    expect("\"x\"", "", "x");
    expect("{\"a\":1,\"a\":2}", "/a", "1");
}

static void escapes_become_characters(void **state)
{
    (void)state;
    expect("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\"", "", "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac");
    expect("\"\\ud83d\\ude00\"", "", "\xf0\x9f\x98\x80");
    expect("\"\\ud83dx\"", "", "\xef\xbf\xbdx");
    expect("\"\\ude00\"", "", "\xef\xbf\xbd");
}

static void what_is_not_json_has_no_fields(void **state)
{
    static const char *const texts[] = {
        "",        "{",         "nul", "{\"a\"1}",           "{\"a\":}",          "{a:1}", "[1,]", "\"\x01\"",
        "\"\\x\"", "\"\\u12\"", "01",  "{\"b\":[},\"a\":1}", "{\"b\":1 \"a\":2}", "-",     "1.",   "plain text"};
    struct jsonr_value f;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        expect(texts[i], "/a", NULL);
    expect("[1,]", "/1", NULL);
    expect("-", "", NULL);
    expect("1.", "", NULL);
    expect("1e", "", NULL);
    assert_false(payload_field_find((struct str){0}, STR("/a"), &f));
    /* Torn behind the value: it was not read so far. */
    expect("{\"a\":\"x\",\"b", "/a", "x");
}

static void nesting_is_bounded(void **state)
{
    char text[4 * JSONR_MAX_DEPTH];
    size_t deep = 2 * JSONR_MAX_DEPTH;

    (void)state;
    memset(text, '[', deep);
    memset(text + deep, ']', deep);
    text[2 * deep - 1] = '\0';
    expect(text, "", NULL);
}

static void every_cut_of_a_text_is_safe(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5e3,{\"b\":\"\\ud83d\\ude00\"}],\"c\":null,\"d\":[true,false]}";
    struct jsonr_value f;
    char out[64];

    (void)state;
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = mem_alloc(MEM_TEST, n + 1); /* of exactly this length, for the sanitizers */
        memcpy(copy, text, n);
        copy = mem_try_realloc(MEM_TEST, copy, n ? n : 1);
        if (payload_field_find((struct str){copy, n}, STR("/a/2/b"), &f))
            assert_int_equal(jsonr_decode(f.raw, out), 4);
        (void)payload_field_find((struct str){copy, n}, STR("/d/1"), &f);
        mem_free(MEM_TEST, copy);
    }
}

static void pointers_are_checked(void **state)
{
    (void)state;
    assert_true(payload_field_is_pointer(STR("")));
    assert_true(payload_field_is_pointer(STR("/a~0~1/")));
    assert_false(payload_field_is_pointer(STR("a")));
    assert_false(payload_field_is_pointer(STR("/a~")));
    assert_false(payload_field_is_pointer(STR("/a~2")));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pointer_leads_to_its_value),   cmocka_unit_test(escapes_become_characters),
        cmocka_unit_test(what_is_not_json_has_no_fields), cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(every_cut_of_a_text_is_safe),    cmocka_unit_test(pointers_are_checked),
    };

    return cmocka_run_group_tests_name("payload_field", tests, NULL, NULL);
}
