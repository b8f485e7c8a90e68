#include "base/jsonr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static bool is_whole_value(struct str text, struct jsonr_value *out_value)
{
    struct jsonr r = jsonr_begin(text);

    return jsonr_take_value(&r, out_value) && r.p == r.end;
}

static void values_are_taken_as_they_stand(void **state)
{
    static const struct {
        const char *text, *raw;
        enum jsonr_kind kind;
    } rows[] = {
        {"null", "null", JSONR_NULL},     {" true\n", "true", JSONR_TRUE},
        {"false ", "false", JSONR_FALSE}, {"0", "0", JSONR_NUMBER},
        {"-0", "-0", JSONR_NUMBER},       {"-0.5e+3", "-0.5e+3", JSONR_NUMBER},
        {"12E2", "12E2", JSONR_NUMBER},   {"\"\"", "", JSONR_STRING},
        {" \"a \" ", "a ", JSONR_STRING}, {"\"eight bytes and more \\\" \"", "eight bytes and more \\\" ", JSONR_STRING},
        {" [ ] ", "[ ]", JSONR_ARRAY},    {"[1, [2] , {\"a\" : 3 } ] \t", "[1, [2] , {\"a\" : 3 } ]", JSONR_ARRAY},
        {"{}", "{}", JSONR_OBJECT},       {"{\"a\":{\"b\":[]} }", "{\"a\":{\"b\":[]} }", JSONR_OBJECT},
    };
    struct jsonr_value value;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!is_whole_value(str_from(rows[i].text), &value))
            fail_msg("%s is refused", rows[i].text);
        assert_int_equal(value.kind, rows[i].kind);
        if (!str_equal(value.raw, str_from(rows[i].raw)))
            fail_msg("%s: %.*s", rows[i].text, STR_ARG(value.raw));
    }
}

static void what_is_not_json_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "nul",
        "nullx",
        "True",
        "01",
        "-",
        "1.",
        ".5",
        "+1",
        "1e",
        "1e+",
        "0x1",
        "'a'",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\t\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1]]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\"1}",
        "{1:2}",
        "{\"a\":1 \"b\":2}",
        "[}",
        "{]",
        "NaN",
    };
    struct jsonr_value value;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (is_whole_value(str_from(texts[i]), &value))
            fail_msg("%s is taken", texts[i]);
    assert_false(is_whole_value((struct str){0}, &value));
}

static void strings_are_decoded(void **state)
{
    static const struct {
        const char *text, *decoded;
        bool has_escapes, is_lone;
    } rows[] = {
        {"\"plain\"", "plain", false, false},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", true, false},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", true, false},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", true, false},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx", true, true},
        {"\"\\ud83d\\n\"", "\xef\xbf\xbd\n", true, true},
        {"\"\\ud83d\\u0041\"",
         "\xef\xbf\xbd"
         "A",
         true, true},
        {"\"\\ude00\"", "\xef\xbf\xbd", true, true},
    };
    struct jsonr_value value;
    char out[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(is_whole_value(str_from(rows[i].text), &value));
        assert_int_equal(value.has_escapes, rows[i].has_escapes);
        assert_int_equal(value.has_lone_surrogate, rows[i].is_lone);
        assert_true(str_equal((struct str){out, jsonr_decode(value.raw, out)}, str_from(rows[i].decoded)));
    }
}

static void nesting_is_bounded(void **state)
{
    char text[2 * (JSONR_MAX_DEPTH + 1)];
    struct jsonr_value value;

    (void)state;
    for (size_t deep = JSONR_MAX_DEPTH; deep <= JSONR_MAX_DEPTH + 1; deep++) {
        memset(text, '[', deep);
        memset(text + deep, ']', deep);
        assert_int_equal(is_whole_value((struct str){text, 2 * deep}, &value), deep == JSONR_MAX_DEPTH);
    }
}

static void an_object_is_walked_through(void **state)
{
    struct jsonr r = jsonr_begin(STR(" { \"a\" : 1 , \"b\\u0031\":[2] } rest"));
    static const char *const names[] = {"a", "b\\u0031"}, *const values[] = {"1", "[2]"};
    struct jsonr_value name, value;
    bool is_first = true, is_ok;
    size_t n = 0;

    (void)state;
    assert_false(jsonr_enter(&r, '['));
    assert_true(jsonr_enter(&r, '{'));
    for (; jsonr_has_next(&r, '}', &is_first, &is_ok); n++) {
        assert_true(jsonr_take_name(&r, &name));
        assert_true(str_equal(name.raw, str_from(names[n])));
        assert_true(jsonr_take_value(&r, &value));
        assert_true(str_equal(value.raw, str_from(values[n])));
    }
    assert_true(is_ok);
    assert_int_equal(n, 2);
    assert_true(str_equal(jsonr_rest(&r), STR("rest")));
}

static void every_cut_of_a_text_is_safe(void **state)
{
    static const char text[] = "{\"a\":[1,-2.5e3,{\"bbbbbbbbbb\":\"\\ud83d\\ude00\"}],\"c\":null,\"d\":[true,false]}";
    struct jsonr_value value;

    (void)state;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        char *copy = mem_alloc(MEM_TEST, n ? n : 1); /* of exactly this length, for the sanitizers */

        memcpy(copy, text, n);
        assert_false(is_whole_value((struct str){copy, n}, &value));
        mem_free(MEM_TEST, copy);
    }
    assert_true(is_whole_value(STR(text), &value));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken_as_they_stand),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(an_object_is_walked_through),
        cmocka_unit_test(every_cut_of_a_text_is_safe),
    };

    return cmocka_run_group_tests_name("jsonr", tests, NULL, NULL);
}
