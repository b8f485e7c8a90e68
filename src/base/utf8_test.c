#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

/* The slow reference: encodes every code point there is and looks the bytes up, so it shares no idea with utf8.c. */
static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Whether `s` is a sequence of encoded code points, by the table 3-7 of the Unicode standard, byte range by byte range. */
static bool reference_is_valid(struct str s)
{
    static const struct {
        size_t n;
        uint8_t low[4], high[4];
    } rows[] = {
        {1, {0x01}, {0x7f}}, /* U+0000 is not allowed in MQTT */
        {2, {0xc2, 0x80}, {0xdf, 0xbf}},
        {3, {0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
        {3, {0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
        {3, {0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
        {3, {0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
        {4, {0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
        {4, {0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
        {4, {0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}},
    };

    while (s.n) {
        size_t used = 0;

        for (size_t r = 0; r < ARRAY_LEN(rows) && used == 0; r++) {
            size_t i = 0;

            while (i < rows[r].n && i < s.n && (uint8_t)s.p[i] >= rows[r].low[i] && (uint8_t)s.p[i] <= rows[r].high[i])
                i++;
            used = i == rows[r].n ? i : 0;
        }
        if (used == 0)
            return false;
        s = str_from_offset(s, used);
    }
    return true;
}

static void every_code_point_is_read_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110100; c++) {
        char bytes[4];
        size_t n = encode(c, bytes);
        uint32_t read = 0xffffffff;
        bool is_scalar = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);

        assert_int_equal(utf8_read((struct str){bytes, n}, &read), is_scalar ? n : 0);
        assert_true(read == (is_scalar ? c : 0xffffffff));
        assert_int_equal(utf8_is_valid((struct str){bytes, n}), is_scalar && c != 0);
        assert_int_equal(utf8_is_plain((struct str){bytes, n}), is_scalar && !utf8_is_discouraged(c));
        if (n > 1)
            assert_int_equal(utf8_read((struct str){bytes, n - 1}, &read), 0);
    }
}

static void ill_formed_text_is_refused(void **state)
{
    static const struct {
        const char *what;
        struct str text;
    } rows[] = {
        {"a lone continuation byte", STR_INIT("\x80")},
        {"a lead byte at the end", STR_INIT("a\xc3")},
        {"slash in two bytes", STR_INIT("\xc0\xaf")},
        {"slash in three bytes", STR_INIT("\xe0\x80\xaf")},
        {"U+0000 in two bytes", STR_INIT("\xc0\x80")},
        {"U+0000 [MQTT-1.5.4-2]", STR_INIT("a\0b")},
        {"U+0000 in a word [MQTT-1.5.4-2]", STR_INIT("abcdefg\0ijklmnop")},
        {"U+D800 [MQTT-1.5.4-1]", STR_INIT("\xed\xa0\x80")},
        {"U+DFFF [MQTT-1.5.4-1]", STR_INIT("\xed\xbf\xbf")},
        {"past U+10FFFF", STR_INIT("\xf4\x90\x80\x80")},
        {"five bytes", STR_INIT("\xf8\x88\x80\x80\x80")},
        {"0xff", STR_INIT("12345678\xff")},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (utf8_is_valid(rows[i].text) || utf8_is_plain(rows[i].text))
            fail_msg("accepted: %s", rows[i].what);
}

static void control_characters_and_non_characters_are_valid_but_not_plain(void **state)
{
    static const struct str rows[] = {
        STR_INIT("\x01"),         STR_INIT("abcdefg\x1f"),  STR_INIT("\x7f"),
        STR_INIT("a\xc2\x80"),    STR_INIT("\xc2\x9f"),     STR_INIT("\xef\xb7\x90"),
        STR_INIT("\xef\xb7\xaf"), STR_INIT("\xef\xbf\xbe"), STR_INIT("\xf4\x8f\xbf\xbf"),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(utf8_is_valid(rows[i]));
        assert_false(utf8_is_plain(rows[i]));
    }
}

static void the_byte_order_mark_and_the_empty_text_are_plain(void **state)
{
    (void)state;
    assert_true(utf8_is_plain(STR("\xef\xbb\xbf"))); /* [MQTT-1.5.4-3] */
    assert_true(utf8_is_plain((struct str){0}));
    assert_true(utf8_is_valid((struct str){0}));
    assert_true(utf8_is_plain(STR("A\xf0\xaa\x9b\x94"))); /* the specification's own example, U+2A6D4 */
}

/* Words of eight and what stands between them are tested differently, so every byte is put at every place. */
static void a_byte_is_judged_alike_at_every_place(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 24; n++) {
        for (size_t at = 0; at < n; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[24];
                struct str s = {text, n};

                memset(text, 'x', sizeof text);
                text[at] = (char)byte;
                assert_int_equal(utf8_is_valid(s), byte != 0 && byte < 0x80);
                assert_int_equal(utf8_is_plain(s), byte >= 0x20 && byte < 0x7f);
            }
        }
    }
}

static void random_bytes_are_judged_as_by_the_reference(void **state)
{
    /* Bytes near the edges of the ranges, so that long valid runs and near misses both happen. */
    static const uint8_t bytes[] = {'a',  'b',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0,
                                    0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0x00, 'z',  0xff};
    uint64_t random = 1;

    (void)state;
    for (unsigned round = 0; round < 400000; round++) {
        char text[20];
        size_t n = 0, want;

        random = random * 6364136223846793005u + 1442695040888963407u;
        want = (random >> 60) + 2;
        while (n < want) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            if (random >> 63)
                n += encode((uint32_t)(random >> 40) % 0x110000, text + n);
            else
                text[n++] = (char)bytes[(random >> 33) % sizeof bytes];
            if (n > sizeof text - 4)
                break;
        }
        assert_int_equal(utf8_is_valid((struct str){text, n}), reference_is_valid((struct str){text, n}));
    }
}

static void word_tests_mark_the_right_bytes(void **state)
{
    uint64_t w = utf8_word_load("a/b/\x1f\x7f~ ");

    (void)state;
    assert_int_equal(utf8_word_count(utf8_word_equal(w, '/')), 2);
    assert_int_equal(utf8_word_count(utf8_word_control(w)), 2);
    assert_int_equal(utf8_word_count(utf8_word_high(w)), 0);
    assert_int_equal(utf8_word_count(utf8_word_equal(utf8_word_load("////////"), '/')), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_read_back),
        cmocka_unit_test(ill_formed_text_is_refused),
        cmocka_unit_test(control_characters_and_non_characters_are_valid_but_not_plain),
        cmocka_unit_test(the_byte_order_mark_and_the_empty_text_are_plain),
        cmocka_unit_test(a_byte_is_judged_alike_at_every_place),
        cmocka_unit_test(random_bytes_are_judged_as_by_the_reference),
        cmocka_unit_test(word_tests_mark_the_right_bytes),
    };

    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
