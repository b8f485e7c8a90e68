#include "base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

/* RFC 4648 section 10, and bytes that need every character. */
static void the_texts_of_the_rfc_are_decoded_and_encoded(void **state)
{
    static const struct {
        struct str text, bytes;
    } rows[] = {
        {STR_INIT(""), STR_INIT("")},
        {STR_INIT("Zg=="), STR_INIT("f")},
        {STR_INIT("Zm8="), STR_INIT("fo")},
        {STR_INIT("Zm9v"), STR_INIT("foo")},
        {STR_INIT("Zm9vYg=="), STR_INIT("foob")},
        {STR_INIT("Zm9vYmE="), STR_INIT("fooba")},
        {STR_INIT("Zm9vYmFy"), STR_INIT("foobar")},
        {STR_INIT("AP+/"), STR_INIT("\x00\xff\xbf")},
        {STR_INIT("YTFAdDE6cHc="), STR_INIT("a1@t1:pw")},
    };
    char out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(base64_decode(rows[i].text, out, &n));
        assert_true(str_equal((struct str){out, n}, rows[i].bytes));
        n = base64_encode(rows[i].bytes, out);
        assert_int_equal(n, BASE64_ENCODED_BYTES(rows[i].bytes.n));
        assert_true(str_equal((struct str){out, n}, rows[i].text));
    }
}

/* RFC 4648 section 5, RFC 7515 appendix C. */
static void the_alphabet_of_urls_is_decoded(void **state)
{
    static const struct {
        struct str text, bytes;
    } rows[] = {
        {STR_INIT(""), STR_INIT("")},
        {STR_INIT("Zg"), STR_INIT("f")},
        {STR_INIT("Zm8"), STR_INIT("fo")},
        {STR_INIT("Zm9v"), STR_INIT("foo")},
        {STR_INIT("A-z_4ME"), STR_INIT("\x03\xec\xff\xe0\xc1")},
    };
    static const struct str bad[] = {STR_INIT("Zg=="), STR_INIT("Z"),    STR_INIT("Zh"),    STR_INIT("AP+/"),
                                     STR_INIT("Zm9 "), STR_INIT("Zm8="), STR_INIT("Zm9vZ"), STR_INIT("====")};
    char out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(base64_decode_url(rows[i].text, out, &n));
        assert_true(str_equal((struct str){out, n}, rows[i].bytes));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(base64_decode_url(bad[i], out, &n));
}

static void what_is_not_the_one_text_of_its_bytes_is_refused(void **state)
{
    static const char *const texts[] = {
        "Z",    "Zg",   "Zg=",  "Zg===", "=",    "==",   "===",    "====",  "Zm9v=", "Zg==Zg==",
        "Z===", "Zh==", "Zm9=", "Zm-v",  "Zm_v", "Zm v", "Zm9v\n", " Zm9v", "Z=g=",  "Zm9v\xff\xff\xff\xff",
        "*m9v",
    };
    char out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (base64_decode(str_from(texts[i]), out, &n))
            fail_msg("%s is taken", texts[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_texts_of_the_rfc_are_decoded_and_encoded),
        cmocka_unit_test(the_alphabet_of_urls_is_decoded),
        cmocka_unit_test(what_is_not_the_one_text_of_its_bytes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
