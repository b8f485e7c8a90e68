#include "cesql/cesql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "cesql/cesql_case.h"

static struct arena arena, scratch;

static int drop_arenas(void **state)
{
    (void)state;
    arena_free(&arena, MEM_CONFIG);
    arena_free(&scratch, MEM_FANOUT);
    return mem_used(MEM_CONFIG) != 0 || mem_used(MEM_FANOUT) != 0;
}

/* The event of these tests. */
static bool find(const void *event, struct str name, struct cesql_value *out_value)
{
    static const struct {
        struct str name;
        struct cesql_value value;
    } attributes[] = {
        {STR_INIT("id"), {CESQL_STRING, false, 0, STR_INIT("id-1")}},
        {STR_INIT("source"), {CESQL_STRING, false, 0, STR_INIT("/plant/berlin")}},
        {STR_INIT("type"), {CESQL_STRING, false, 0, STR_INIT("com.example.opened")}},
        {STR_INIT("five"), {CESQL_STRING, false, 0, STR_INIT("5")}},
        {STR_INIT("truth"), {CESQL_STRING, false, 0, STR_INIT("True")}},
        {STR_INIT("empty"), {CESQL_STRING, false, 0, STR_INIT("")}},
        {STR_INIT("2nd"), {CESQL_STRING, false, 0, STR_INIT("second")}},
        {STR_INIT("12"), {CESQL_STRING, false, 0, STR_INIT("twelve")}},
        {STR_INIT("city"), {CESQL_STRING, false, 0, STR_INIT("Z\xc3\xbcrich \xe2\x82\xac")}},
        {STR_INIT("number"), {CESQL_INTEGER, false, 7, {0}}},
        {STR_INIT("flag"), {CESQL_BOOLEAN, true, 0, {0}}},
    };

    (void)event;
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
        if (!str_equal(attributes[i].name, name))
            continue;
        *out_value = attributes[i].value;
        return true;
    }
    return false;
}

static const struct cesql_attributes attributes = {find, NULL};

/* A result as text: `true`, `-3`, `'abc'`, followed by ` !error` if there is one. */
static const char *evaluate(struct str text)
{
    static char result[400];
    const struct cesql *expression;
    struct cesql_value value;
    struct errinfo ei = {0};
    enum cesql_error error;
    int n;

    if (cesql_compile(&arena, text, &expression, &ei) != E_OK) {
        snprintf(result, sizeof result, "parse: %s", ei.text);
        return result;
    }
    error = cesql_evaluate(expression, &attributes, &scratch, &value);
    if (value.type == CESQL_STRING)
        n = snprintf(result, sizeof result, "'%.*s'", STR_ARG(value.string));
    else if (value.type == CESQL_INTEGER)
        n = snprintf(result, sizeof result, "%d", value.integer);
    else
        n = snprintf(result, sizeof result, "%s", value.boolean ? "true" : "false");
    if (error)
        snprintf(result + n, sizeof result - (size_t)n, " !%s", cesql_error_name(error));
    return result;
}

struct row {
    const char *expression, *want;
};

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = evaluate(str_from(rows[i].expression));

        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s: wanted %s, got %s", rows[i].expression, rows[i].want, got);
    }
}

static void literals_are_what_section_2_2_says(void **state)
{
    static const struct row rows[] = {
        {"true", "true"},
        {"FaLsE", "false"},
        {"0", "0"},
        {"007", "7"},
        {"+7", "7"},
        {"-2147483648", "-2147483648"},
        {"2147483647", "2147483647"},
        {"2147483648", "parse: column 1: an integer has 32 bits, but found 2147483648"},
        {"-2147483649", "parse: column 2: an integer has 32 bits, but found 2147483649"},
        {"'it''s'", "parse: column 5: expected an operator, but found s"},
        {"'it\\'s'", "'it's'"},
        {"\"say \\\"x\\\"\"", "'say \"x\"'"},
        {"'a\\\"b'", "'a\\\"b'"},
        {"'a\\\\'", "'a\\\\'"},
        {"'a\\nb'", "'a\\nb'"},
        {"''", "''"},
        {"'\xe2\x82\xac'", "'\xe2\x82\xac'"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void attributes_are_found_by_name_in_either_case(void **state)
{
    static const struct row rows[] = {
        {"id", "'id-1'"},
        {"TYPE", "'com.example.opened'"},
        {"2nd", "'second'"},
        {"12", "12"},
        {"number", "7"},
        {"flag", "true"},
        {"missing", "false !missing_attribute"},
        {"EXISTS id", "true"},
        {"EXISTS ID", "true"},
        {"EXISTS 12", "true"},
        {"EXISTS missing", "false"},
        {"NOT EXISTS missing", "true"},
        {"EXISTS empty", "true"},
        {"(EXISTS missing) OR id = 'id-1'", "true"},
        {"exists missing and missing = 1", "false"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void operators_have_the_precedence_of_section_3_6(void **state)
{
    static const struct row rows[] = {
        {"2 + 3 * 4", "14"},
        {"(2 + 3) * 4", "20"},
        {"10 - 3 - 2", "5"},
        {"100 / 10 / 5", "2"},
        {"10-3", "7"},
        {"10 -3", "7"},
        {"1+-1", "0"},
        {"1 + 1 = 2", "true"},
        {"1 < 2 = true", "true"},
        {"-five + 6", "1"},
        {"- 5 * -2", "10"},
        {"NOT true = false", "true"},
        {"NOT five LIKE 'x'", "false !cast"},
        {"-five LIKE '-_'", "true"},
        {"1 + 2 IN (3)", "1"},
        {"true OR true AND false", "false"},
        {"false AND true OR true", "true"},
        {"true XOR true XOR true", "true"},
        {"NOT NOT true", "true"},
        {"--five", "5"},
        {"---five", "-5"},
        {"((((1))))", "1"},
        {"1 = 1 AND 2 = 2 OR 1 / 0 = 1", "true"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void arithmetic_stays_in_32_bits(void **state)
{
    static const struct row rows[] = {
        {"7 / 2", "3"},
        {"-7 / 2", "-3"},
        {"7 / -2", "-3"},
        {"-7 % 3", "-1"},
        {"7 % -3", "1"},
        {"1 / 0", "0 !math"},
        {"1 % 0", "0 !math"},
        {"2147483647 + 1", "0 !math"},
        {"-2147483648 - 1", "0 !math"},
        {"65536 * 65536", "0 !math"},
        {"-2147483648 / -1", "0 !math"},
        {"-2147483648 % -1", "0"},
        {"-(-2147483648)", "0 !math"},
        {"46341 * 46340", "2147441940"},
        {"five + 1", "6"},
        {"five + true", "6"},
        {"'x' + 1", "0 !cast"},
        {"' 5' + 1", "0 !cast"},
        {"'+5' + 1", "6"},
        {"'-' + 1", "0 !cast"},
        {"'2147483648' + 0", "0 !cast"},
        {"'-2147483648' + 0", "-2147483648"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void comparison_casts_to_the_type_on_the_right(void **state)
{
    static const struct row rows[] = {
        {"five = 5", "true"},      {"five = '5'", "true"},    {"5 = five", "true"},
        {"'05' = 5", "true"},      {"5 = '05'", "false"},     {"truth = true", "true"},
        {"true = truth", "false"}, {"id = 5", "false !cast"}, {"id != 5", "false !cast"},
        {"id <> 'x'", "true"},     {"2 = true", "true"},      {"number > five", "true"},
        {"number >= 7", "true"},   {"number <= 6", "false"},  {"'10' < '9'", "false"},
        {"true > false", "true"},  {"id < 5", "false !cast"}, {"missing = missing", "false !missing_attribute"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void logic_stops_at_what_decides(void **state)
{
    static const struct row rows[] = {
        {"false AND missing", "false"},
        {"true OR missing", "true"},
        {"true AND missing", "false !missing_attribute"},
        {"false OR missing", "false !missing_attribute"},
        {"missing OR true", "false !missing_attribute"},
        {"false XOR missing", "false !missing_attribute"},
        {"'true' AND 'TRUE'", "true"},
        {"1 AND 2", "true"},
        {"'yes' AND true", "false !cast"},
        {"'yes' OR true", "false !cast"},
        {"NOT 'false'", "true"},
        {"NOT 'yes'", "true !cast"},
        {"NOT 0", "true !cast"},
        {"NOT missing", "false !missing_attribute"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void in_casts_its_elements_to_what_is_looked_for(void **state)
{
    static const struct row rows[] = {
        {"number IN (1, '7', 9)", "true"},
        {"number NOT IN (1, '7', 9)", "false"},
        {"number IN (1, 2)", "false"},
        {"number IN (7, 1 / 0)", "true"},
        {"number IN (1 / 0, 7)", "false !math"},
        {"number IN (id, 7)", "false !cast"},
        {"five IN (5)", "true"},
        {"id IN (missing, 'id-1')", "false !missing_attribute"},
        {"missing IN (1)", "false !missing_attribute"},
        {"missing NOT IN (1)", "false !missing_attribute"},
        {"id IN (five IN (5), id)", "true"},
        {"1 IN (1) IN (true)", "true"},
        {"id IN ()", "parse: column 8: expected a value, but found )"},
        {"id IN 'id-1'", "parse: column 7: expected `(` behind IN, but found id-1"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void like_takes_a_string_as_its_pattern(void **state)
{
    static const struct row rows[] = {
        {"type LIKE 'com.%.opened'", "true"},
        {"type NOT LIKE 'com.%.opened'", "false"},
        {"number LIKE '_'", "true"},
        {"flag LIKE 'tr%'", "true"},
        {"missing LIKE '%'", "false !missing_attribute"},
        {"missing NOT LIKE '%'", "false !missing_attribute"},
        {"'a\\'b' LIKE '_\\'_'", "true"},
        {"id LIKE id", "parse: column 9: expected a string as the pattern of LIKE, but found id"},
        {"id NOT 'x'", "parse: column 8: expected LIKE or IN behind NOT, but found x"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void functions_do_what_section_3_5_says(void **state)
{
    static const struct row rows[] = {
        {"length(city)", "8"},
        {"LENGTH(number)", "1"},
        {"LENGTH(missing)", "0 !missing_attribute"},
        {"CONCAT()", "''"},
        {"CONCAT(id, 1, true, '')", "'id-11true'"},
        {"CONCAT('a', 'b', 'c', 'd', 'e')", "'abcde'"},
        {"CONCAT('', '')", "''"},
        {"CONCAT_WS(', ', 'a', '', 'b')", "'a, , b'"},
        {"CONCAT_WS('', 'a', 'b')", "'ab'"},
        {"concat_ws()", "false !missing_function"},
        {"LOWER('\xc3\x9c\xc3\x84 \xce\xa9X1')", "'\xc3\xbc\xc3\xa4 \xcf\x89x1'"},
        {"UPPER('stra\xc3\x9f"
         "e \xd0\xb6')",
         "'STRA\xc3\x9f"
         "E \xd0\x96'"},
        {"LOWER('\xc8\xba')", "'\xe2\xb1\xa5'"},
        {"TRIM(' \t\xe2\x80\x83 a \xc2\xa0 b \xc2\x85\xe3\x80\x80')", "'a \xc2\xa0 b'"},
        {"TRIM('   ')", "''"},
        {"TRIM('\\x01 a')", "'\\x01 a'"},
        {"LEFT(city, 2)", "'Z\xc3\xbc'"},
        {"LEFT(city, 0)", "''"},
        {"LEFT(city, 2147483647)", "'Z\xc3\xbcrich \xe2\x82\xac'"},
        {"RIGHT(city, 2)", "' \xe2\x82\xac'"},
        {"RIGHT(city, 0)", "''"},
        {"RIGHT('abc', -2147483648)", "'abc' !function_evaluation"},
        {"LEFT('abc', 'x')", "'' !cast"},
        {"SUBSTRING(city, 2, 1)", "'\xc3\xbc'"},
        {"SUBSTRING(city, -1)", "'\xe2\x82\xac'"},
        {"SUBSTRING(city, -8, 2)", "'Z\xc3\xbc'"},
        {"SUBSTRING(city, 8)", "'\xe2\x82\xac'"},
        {"SUBSTRING(city, 9)", "'' !function_evaluation"},
        {"SUBSTRING(city, -9)", "'' !function_evaluation"},
        {"SUBSTRING(city, 1, -1)", "'' !function_evaluation"},
        {"SUBSTRING(city, 1, 0)", "''"},
        {"SUBSTRING(city, 0, 5)", "''"},
        {"SUBSTRING(city, 2, 2147483647)", "'\xc3\xbcrich \xe2\x82\xac'"},
        {"SUBSTRING('abc', -2147483648)", "'' !function_evaluation"},
        {"ABS('-4')", "4"},
        {"ABS(-2147483648)", "2147483647 !math"},
        {"INT('12')", "12"},
        {"INT(missing)", "0 !missing_attribute"},
        {"INT('1.5')", "0 !cast"},
        {"BOOL(7)", "true"},
        {"BOOL('no')", "false !cast"},
        {"STRING(-3) = '-3'", "true"},
        {"STRING(missing)", "'' !missing_attribute"},
        {"NOSUCH(1 / 0)", "false !missing_function"},
        {"ABS(1, 2)", "false !missing_function"},
        {"ABS(1 / 0) + 1", "0 !math"},
        {"abs (1)", "1"},
        {"LENGTH(CONCAT(id, ABS(-1)))", "5"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void faulty_expressions_are_refused_with_the_column(void **state)
{
    static const struct row rows[] = {
        {"", "parse: column 1: expected a value, but the expression ends"},
        {"   ", "parse: column 4: expected a value, but the expression ends"},
        {"1 +", "parse: column 4: expected a value, but the expression ends"},
        {"1 1", "parse: column 3: expected an operator, but found 1"},
        {"(1", "parse: column 3: expected `)`, but the expression ends"},
        {"1)", "parse: column 2: expected an operator, but found )"},
        {"ABC(", "parse: column 5: expected a value, but the expression ends"},
        {"ABC(1", "parse: column 6: expected `,` or `)`, but the expression ends"},
        {"ABC(1,)", "parse: column 7: expected a value, but found )"},
        {"abc1(2)", "parse: column 5: expected an operator, but found ("},
        {"a_b = 1", "parse: column 5: expected `(` behind the name of a function, but found ="},
        {"a_1(2)", "parse: column 1: a_1 is neither an attribute (letters and digits) nor a function (letters and _)"},
        {"_a(2)", "parse: column 1: _a is neither an attribute (letters and digits) nor a function (letters and _)"},
        {"'\xc3\xbc' = 'abc", "parse: column 7: the string does not end"},
        {"'abc\\'", "parse: column 1: the string does not end"},
        {"id & 1", "parse: column 4: unexpected character"},
        {"id == 1", "parse: column 5: expected a value, but found ="},
        {"+ 5", "parse: column 3: expected digits behind the sign, but found 5"},
        {"+id", "parse: column 2: expected digits behind the sign, but found id"},
        {"EXISTS 'id'", "parse: column 8: expected the name of an attribute behind EXISTS, but found id"},
        {"EXISTS and", "parse: column 8: expected the name of an attribute behind EXISTS, but found and"},
        {"\xff", "parse: the expression is not valid UTF-8"},
    };

    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void functions_that_do_not_exist_are_known_at_once(void **state)
{
    static const struct {
        const char *expression, *want;
    } rows[] = {
        {"LENGTH(id) = 3", ""}, {"id = 'x' AND NoSuch(1) = 2", "NoSuch"}, {"ABS()", "ABS"}, {"A(1) = B(1)", "A"}, {"id", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct cesql *expression;

        assert_int_equal(cesql_compile(&arena, str_from(rows[i].expression), &expression, NULL), E_OK);
        assert_true(str_equal(cesql_missing_function(expression), str_from(rows[i].want)));
    }
}

/* `n` times `open`, `middle`, `n` times `close`. */
static struct str repeat(const char *open, const char *middle, const char *close, size_t n)
{
    size_t open_n = strlen(open), middle_n = strlen(middle), close_n = strlen(close);
    char *p = arena_alloc(&arena, MEM_CONFIG, n * (open_n + close_n) + middle_n + 1), *to = p;

    for (size_t i = 0; i < n; i++)
        to = mempcpy(to, open, open_n);
    to = mempcpy(to, middle, middle_n);
    for (size_t i = 0; i < n; i++)
        to = mempcpy(to, close, close_n);
    return (struct str){p, (size_t)(to - p)};
}

static void nesting_has_a_bound_and_chains_have_none(void **state)
{
    (void)state;
    assert_string_equal(evaluate(repeat("(", "1", ")", CESQL_DEPTH_MAX - 1)), "1");
    assert_string_equal(evaluate(repeat("(", "1", ")", CESQL_DEPTH_MAX)), "parse: column 129: more than 128 levels");
    assert_string_equal(evaluate(repeat("NOT ", "true", "", CESQL_DEPTH_MAX - 1)), "false");
    assert_string_equal(evaluate(repeat("NOT ", "true", "", CESQL_DEPTH_MAX)), "parse: column 513: more than 128 levels");
    assert_string_equal(evaluate(repeat("1 + ABS(", "1", ")", CESQL_DEPTH_MAX - 1)), "128");
    assert_string_equal(evaluate(repeat("1+", "1", "", 8000)), "8001");
    assert_string_equal(evaluate(repeat("false OR ", "true", "", 1500)), "true");
    assert_string_equal(evaluate(repeat("id IN (", "'id-1'", ")", 1)), "true");
    assert_string_equal(evaluate(repeat("", "LENGTH(CONCAT('a'", ",id", 0)),
                        "parse: column 18: expected `,` or `)`, but the expression ends");
    assert_non_null(strstr(evaluate(repeat(" ", "1", "", CESQL_TEXT_MAX)), "more than 16384"));
    assert_string_equal(evaluate(repeat(" ", "1", "", CESQL_TEXT_MAX - 1)), "1");
}

static void many_arguments_are_taken(void **state)
{
    struct str text = repeat("", "LENGTH(CONCAT('a'", ",id", 3000);
    char *p = arena_alloc(&arena, MEM_CONFIG, text.n + 3);

    (void)state;
    memcpy(mempcpy(p, text.p, text.n), "))", 3);
    assert_string_equal(evaluate((struct str){p, text.n + 2}), "12001");
}

static bool find_long(const void *event, struct str name, struct cesql_value *out_value)
{
    (void)name;
    *out_value = (struct cesql_value){.type = CESQL_STRING, .string = *(const struct str *)event};
    return true;
}

static void one_evaluation_makes_strings_up_to_a_bound(void **state)
{
    struct str text = repeat("x", "", "", CESQL_WORK_MAX / 2);
    const struct cesql_attributes long_ones = {find_long, &text};
    const struct cesql *expression;
    struct cesql_value value;

    (void)state;
    assert_int_equal(cesql_compile(&arena, STR("CONCAT(a, a)"), &expression, NULL), E_OK);
    assert_int_equal(cesql_evaluate(expression, &long_ones, &scratch, &value), CESQL_OK);
    assert_int_equal(value.string.n, CESQL_WORK_MAX);
    static const char *const too_much[] = {"CONCAT(a, a, 'x')", "CONCAT(CONCAT(a, a), STRING(1))", "LOWER(CONCAT(a, 'x'))"};
    for (size_t i = 0; i < ARRAY_LEN(too_much); i++) {
        assert_int_equal(cesql_compile(&arena, str_from(too_much[i]), &expression, NULL), E_OK);
        assert_int_equal(cesql_evaluate(expression, &long_ones, &scratch, &value), CESQL_GENERIC_ERROR);
        assert_int_equal(value.type, CESQL_STRING);
        assert_int_equal(value.string.n, 0);
    }
}

static void cases_come_from_unicode(void **state)
{
    static const struct {
        uint32_t lower, upper;
    } pairs[] = {{'a', 'A'},       {'z', 'Z'},       {0xe9, 0xc9},       {0x101, 0x100},
                 {0x3b1, 0x391},   {0x44f, 0x42f},   {0x561, 0x531},     {0x1e01, 0x1e00},
                 {0x24d0, 0x24b6}, {0xff41, 0xff21}, {0x10428, 0x10400}, {0x23a + 0x2a2b, 0x23a}};
    static const uint32_t alone[] = {'1', '@', '[', '`', '{', 0xd7, 0xf7, 0x130, 0xdf, 0x149, 0x4e00, 0x1f600};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_int_equal(cesql_case_lower(pairs[i].upper), pairs[i].lower);
        assert_int_equal(cesql_case_upper(pairs[i].lower), pairs[i].upper);
        assert_int_equal(cesql_case_lower(pairs[i].lower), pairs[i].lower);
        assert_int_equal(cesql_case_upper(pairs[i].upper), pairs[i].upper);
    }
    for (size_t i = 0; i < ARRAY_LEN(alone); i++)
        assert_int_equal(cesql_case_upper(alone[i]), alone[i]);
}

static void errors_have_names(void **state)
{
    (void)state;
    assert_string_equal(cesql_error_name(CESQL_MISSING_ATTRIBUTE_ERROR), "missing_attribute");
    for (enum cesql_error e = CESQL_OK; e < CESQL_ERRORS; e++)
        assert_string_not_equal(cesql_error_name(e), "?");
    assert_string_equal(cesql_error_name(CESQL_ERRORS), "?");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(literals_are_what_section_2_2_says, drop_arenas),
        cmocka_unit_test_teardown(attributes_are_found_by_name_in_either_case, drop_arenas),
        cmocka_unit_test_teardown(operators_have_the_precedence_of_section_3_6, drop_arenas),
        cmocka_unit_test_teardown(arithmetic_stays_in_32_bits, drop_arenas),
        cmocka_unit_test_teardown(comparison_casts_to_the_type_on_the_right, drop_arenas),
        cmocka_unit_test_teardown(logic_stops_at_what_decides, drop_arenas),
        cmocka_unit_test_teardown(in_casts_its_elements_to_what_is_looked_for, drop_arenas),
        cmocka_unit_test_teardown(like_takes_a_string_as_its_pattern, drop_arenas),
        cmocka_unit_test_teardown(functions_do_what_section_3_5_says, drop_arenas),
        cmocka_unit_test_teardown(faulty_expressions_are_refused_with_the_column, drop_arenas),
        cmocka_unit_test_teardown(functions_that_do_not_exist_are_known_at_once, drop_arenas),
        cmocka_unit_test_teardown(nesting_has_a_bound_and_chains_have_none, drop_arenas),
        cmocka_unit_test_teardown(many_arguments_are_taken, drop_arenas),
        cmocka_unit_test_teardown(one_evaluation_makes_strings_up_to_a_bound, drop_arenas),
        cmocka_unit_test_teardown(cases_come_from_unicode, drop_arenas),
        cmocka_unit_test_teardown(errors_have_names, drop_arenas),
    };

    return cmocka_run_group_tests_name("cesql", tests, NULL, NULL);
}
