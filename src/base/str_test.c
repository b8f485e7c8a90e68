#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static void equality_and_prefixes_look_at_bytes_not_at_pointers(void **state)
{
    static const struct {
        struct str a, b;
        bool equal, nocase, secret, starts;
    } rows[] = {
        {STR_INIT(""), {0}, true, true, true, true},
        {{0}, {0}, true, true, true, true},
        {STR_INIT("a"), STR_INIT("a"), true, true, true, true},
        {STR_INIT("a"), {0}, false, false, false, true},
        {{0}, STR_INIT("a"), false, false, false, false},
        {STR_INIT("ab"), STR_INIT("a"), false, false, false, true},
        {STR_INIT("a\0b"), STR_INIT("a\0b"), true, true, true, true},
        {STR_INIT("a\0b"), STR_INIT("a\0c"), false, false, false, false},
        {STR_INIT("Content-TYPE"), STR_INIT("content-type"), false, true, false, false},
        /* Neighbours of the letters, and letters beyond ASCII, have no case. */
        {STR_INIT("@[`{"), STR_INIT("`{@["), false, false, false, false},
        {STR_INIT("\xc3\x84"), STR_INIT("\xc3\xa4"), false, false, false, false},
        {STR_INIT("secret1"), STR_INIT("secret2"), false, false, false, false},
        {STR_INIT("1secret"), STR_INIT("2secret"), false, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(str_equal(rows[i].a, rows[i].b), rows[i].equal);
        assert_int_equal(str_equal_nocase(rows[i].a, rows[i].b), rows[i].nocase);
        assert_int_equal(str_equal_secret(rows[i].a, rows[i].b), rows[i].secret);
        assert_int_equal(str_starts_with(rows[i].a, rows[i].b), rows[i].starts);
    }
}

static void str_from_takes_text_and_null(void **state)
{
    (void)state;
    assert_true(str_equal(str_from("abc"), STR("abc")));
    assert_int_equal(str_from(NULL).n, 0);
}

static void an_offset_past_the_end_leaves_nothing(void **state)
{
    (void)state;
    assert_true(str_equal(str_from_offset(STR("abc"), 0), STR("abc")));
    assert_true(str_equal(str_from_offset(STR("abc"), 2), STR("c")));
    assert_int_equal(str_from_offset(STR("abc"), 3).n, 0);
    assert_int_equal(str_from_offset(STR("abc"), SIZE_MAX).n, 0);
    assert_int_equal(str_from_offset((struct str){0}, 0).n, 0);
}

static void taking_splits_at_the_first_separator(void **state)
{
    static const struct {
        struct str text, head, rest;
        bool found;
    } rows[] = {
        {STR_INIT("a/b/c"), STR_INIT("a"), STR_INIT("b/c"), true},
        {STR_INIT("/b"), {0}, STR_INIT("b"), true},
        {STR_INIT("a/"), STR_INIT("a"), {0}, true},
        {STR_INIT("/"), {0}, {0}, true},
        {STR_INIT("abc"), STR_INIT("abc"), {0}, false},
        {{0}, {0}, {0}, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str rest = rows[i].text;
        bool found = !rows[i].found;

        assert_true(str_equal(str_take(&rest, '/', &found), rows[i].head));
        assert_true(str_equal(rest, rows[i].rest));
        assert_int_equal(found, rows[i].found);
    }
}

static void a_number_is_decimal_whole_and_bounded(void **state)
{
    enum { REFUSED = 4711 };
    static const struct {
        struct str text;
        uint64_t max, value;
    } rows[] = {
        {STR_INIT("0"), UINT64_MAX, 0},
        {STR_INIT("000"), 0, 0},
        {STR_INIT("007"), 7, 7},
        {STR_INIT("65535"), 65535, 65535},
        {STR_INIT("65536"), 65535, REFUSED},
        {STR_INIT("65540"), 65535, REFUSED},
        {STR_INIT("655350"), 65535, REFUSED},
        {STR_INIT("18446744073709551615"), UINT64_MAX, UINT64_MAX},
        {STR_INIT("18446744073709551616"), UINT64_MAX, REFUSED},
        {STR_INIT("28446744073709551615"), UINT64_MAX, REFUSED},
        {STR_INIT("184467440737095516150"), UINT64_MAX, REFUSED},
        /* A bound below nine is smaller than a digit. */
        {STR_INIT("1"), 0, REFUSED},
        {STR_INIT("7"), 5, REFUSED},
        {STR_INIT("2"), 2, 2},
        {STR_INIT("3"), 2, REFUSED},
        {STR_INIT("9"), 2, REFUSED},
        {STR_INIT("15"), 5, REFUSED},
        {{0}, 10, REFUSED},
        {STR_INIT(" 1"), 10, REFUSED},
        {STR_INIT("1 "), 10, REFUSED},
        {STR_INIT("+1"), 10, REFUSED},
        {STR_INIT("-1"), UINT64_MAX, REFUSED},
        {STR_INIT("0x1"), 10, REFUSED},
        {STR_INIT("1\0"), 10, REFUSED},
        {STR_INIT("1/"), 1000, REFUSED},
        {STR_INIT("1:"), 1000, REFUSED},
        {STR_INIT("\xff"), 1000, REFUSED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t value = REFUSED;

        assert_int_equal(str_to_u64(rows[i].text, rows[i].max, &value), rows[i].value != REFUSED);
        assert_int_equal(value, rows[i].value);
    }
}

static void every_small_number_is_refused_exactly_above_the_bound(void **state)
{
    (void)state;
    for (unsigned max = 0; max <= 120; max++) {
        for (unsigned n = 0; n <= 1300; n++) {
            char text[8];
            uint64_t value = UINT64_MAX;

            snprintf(text, sizeof text, "%u", n);
            assert_int_equal(str_to_u64(str_from(text), max, &value), n <= max);
            assert_true(value == (n <= max ? n : UINT64_MAX));
        }
    }
}

static void trimming_takes_spaces_and_tabs_from_both_ends(void **state)
{
    (void)state;
    assert_true(str_equal(str_trim(STR(" \t a b\t ")), STR("a b")));
    assert_true(str_equal(str_trim(STR("a\n")), STR("a\n")));
    assert_int_equal(str_trim(STR(" \t ")).n, 0);
    assert_int_equal(str_trim((struct str){0}).n, 0);
}

static void of_all_bytes_only_hexadecimal_digits_have_a_value(void **state)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        const char *at = byte ? strchr(digits, byte) : NULL;

        assert_int_equal(str_hex_digit((char)byte), at ? (at - digits) % 16 : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_and_prefixes_look_at_bytes_not_at_pointers),
        cmocka_unit_test(str_from_takes_text_and_null),
        cmocka_unit_test(an_offset_past_the_end_leaves_nothing),
        cmocka_unit_test(taking_splits_at_the_first_separator),
        cmocka_unit_test(a_number_is_decimal_whole_and_bounded),
        cmocka_unit_test(every_small_number_is_refused_exactly_above_the_bound),
        cmocka_unit_test(trimming_takes_spaces_and_tabs_from_both_ends),
        cmocka_unit_test(of_all_bytes_only_hexadecimal_digits_have_a_value),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
