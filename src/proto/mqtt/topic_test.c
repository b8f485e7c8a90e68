#include "proto/mqtt/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/utf8.h"

static void names_have_at_least_one_character_and_no_wildcard(void **state)
{
    static const struct {
        struct str name;
        err want;
        uint32_t levels;
    } rows[] = {
        {STR_INIT("a/b"), E_OK, 2},
        {STR_INIT("/"), E_OK, 2}, /* two empty levels are legal */
        {STR_INIT("a"), E_OK, 1},
        {STR_INIT("1/2/3/4/5/6/7/8/9/10"), E_OK, 10},
        {STR_INIT("telemetry/tenant/device"), E_OK, 3},
        {STR_INIT("$SYS/x"), E_OK, 2},
        {STR_INIT(" "), E_OK, 1},
        {STR_INIT("\xef\xbb\xbf"), E_OK, 1},        /* U+FEFF is a character as any other [MQTT-1.5.4-3] */
        {STR_INIT("A\xf0\xaa\x9b\x94/b"), E_OK, 2}, /* U+2A6D4 */
        {STR_INIT(""), E_INVAL, 0},                 /* [MQTT-4.7.3-1] */
        {STR_INIT("a/+"), E_INVAL, 0},              /* [MQTT-4.7.1-1] */
        {STR_INIT("a#"), E_INVAL, 0},
        {STR_INIT("telemetry/+/device"), E_INVAL, 0},
        {STR_INIT("a\0b"), E_INVAL, 0},          /* [MQTT-4.7.3-2] */
        {STR_INIT("a\xed\xa0\x80"), E_INVAL, 0}, /* [MQTT-1.5.4-1] */
        {STR_INIT("to\x01p"), E_INVAL, 0},       /* section 1.5.4 */
        {STR_INIT("to\xc2\x9f"), E_INVAL, 0},
        {STR_INIT("telemetry/\x7f/device"), E_INVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t levels = 0;

        if (topic_check_name(rows[i].name, &levels) != rows[i].want || levels != rows[i].levels)
            fail_msg("row %zu: %.*s", i, STR_ARG(rows[i].name));
    }
}

static void a_name_may_have_65535_bytes_but_no_more(void **state)
{
    char *text = malloc(TOPIC_MAX_BYTES + 1);
    uint32_t levels;
    struct topic_filter f;

    (void)state;
    assert_non_null(text);
    memset(text, '/', TOPIC_MAX_BYTES + 1);
    assert_int_equal(topic_check_name((struct str){text, TOPIC_MAX_BYTES}, &levels), E_OK);
    assert_int_equal(levels, TOPIC_MAX_BYTES + 1);
    assert_int_equal(topic_check_name((struct str){text, TOPIC_MAX_BYTES + 1}, &levels), E_INVAL); /* [MQTT-4.7.3-3] */
    assert_int_equal(topic_parse_filter((struct str){text, TOPIC_MAX_BYTES}, &f), E_OK);
    assert_int_equal(topic_parse_filter((struct str){text, TOPIC_MAX_BYTES + 1}, &f), E_INVAL);
    free(text);
}

static void filter_wildcards_fill_a_level_and_hash_is_last(void **state)
{
    static const struct {
        const char *filter;
        err want;
        uint32_t levels;
    } rows[] = {
        {"#", E_OK, 1},        {"+", E_OK, 1},           {"a/#", E_OK, 2},      {"+/b/+", E_OK, 3},
        {"/+", E_OK, 2},       {"/#", E_OK, 2},          {"+/", E_OK, 2},       {"telemetry/+/+/#", E_OK, 4},
        {"#/a", E_INVAL, 0},   {"a/#/b", E_INVAL, 0},    {"a#", E_INVAL, 0},    {"a/b#", E_INVAL, 0},
        {"a+/b", E_INVAL, 0},  {"++", E_INVAL, 0},       {"ab/+e", E_INVAL, 0}, {"#/", E_INVAL, 0},
        {"##", E_INVAL, 0},    {"+#", E_INVAL, 0},       {"", E_INVAL, 0},      {"abcdefgh/ijklmn+", E_INVAL, 0},
        {"a\x01", E_INVAL, 0}, {"\xc0\x80", E_INVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct topic_filter f = {0};

        if (topic_parse_filter(str_from(rows[i].filter), &f) != rows[i].want || f.levels != rows[i].levels)
            fail_msg("%s", rows[i].filter);
        if (rows[i].want == E_OK)
            assert_true(str_equal(f.text, f.filter) && f.share_name.n == 0);
    }
}

static void shared_subscriptions_have_a_share_name_and_a_filter(void **state)
{
    static const struct {
        const char *text;
        err want;
        const char *share_name, *filter;
        uint32_t levels;
    } rows[] = {
        {"$share/consumers/a/+", E_OK, "consumers", "a/+", 2},
        {"$share/c/#", E_OK, "c", "#", 1},
        {"$share/c//a", E_OK, "c", "/a", 2}, /* the filter starts after the slash (section 4.8.2) */
        {"$share/c/$SYS/#", E_OK, "c", "$SYS/#", 2},
        {"$share", E_OK, "", "$share", 1}, /* no prefix: an ordinary filter */
        {"$shared/c/a", E_OK, "", "$shared/c/a", 3},
        {"$share/", E_INVAL, "", "", 0},    /* [MQTT-4.8.2-1] */
        {"$share//a", E_INVAL, "", "", 0},  /* [MQTT-4.8.2-1] */
        {"$share/c", E_INVAL, "", "", 0},   /* [MQTT-4.8.2-2] */
        {"$share/c/", E_INVAL, "", "", 0},  /* [MQTT-4.8.2-2], an empty filter */
        {"$share/+/a", E_INVAL, "", "", 0}, /* [MQTT-4.8.2-2] */
        {"$share/c#/a", E_INVAL, "", "", 0},
        {"$share/c/a#", E_INVAL, "", "", 0}, /* [MQTT-4.7.1-1] */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct topic_filter f = {0};

        if (topic_parse_filter(str_from(rows[i].text), &f) != rows[i].want || f.levels != rows[i].levels ||
            !str_equal(f.share_name, str_from(rows[i].share_name)) || !str_equal(f.filter, str_from(rows[i].filter)))
            fail_msg("%s", rows[i].text);
    }
}

static void matching_follows_section_4_7(void **state)
{
    static const struct {
        const char *filter, *name;
        bool want;
    } rows[] = {
        {"a/b", "a/b", true},
        {"a/b", "a/b/c", false},
        {"a/b/c", "a/b", false},
        {"a", "b", false},
        {"a/#", "a", true},
        {"a/#", "a/", true},
        {"a/#", "a/b/c", true},
        {"a/#", "ab", false},
        {"#", "a/b", true},
        {"+", "a", true},
        {"+", "/a", false},
        {"+/+", "/a", true},
        {"/+", "/a", true},
        {"a/+", "a", false},
        {"a/+", "a/", true},
        {"a/+/#", "a/b", true},
        {"a/+/#", "a", false},
        {"#", "$SYS/x", false},
        {"+/x", "$SYS/x", false},
        {"$SYS/#", "$SYS/x", true},
        {"$SYS/+", "$SYS/x", true},
        {"+/$x", "a/$x", true},
        {"#", "/", true},
        {"/#", "/", true},
        {"A", "a", false},                /* case matters */
        {"e\xcc\x81", "\xc3\xa9", false}, /* no normalisation [MQTT-4.7.3-4] */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (topic_matches(str_from(rows[i].filter), str_from(rows[i].name)) != rows[i].want)
            fail_msg("%s against %s: expected %d", rows[i].filter, rows[i].name, rows[i].want);
}

/* The slow reference, by recursion over characters: `f` and `n` are what is left of a filter and a name. */
static bool reference_rest_matches(const char *f, const char *n)
{
    if (strcmp(f, "#") == 0 || (strcmp(f, "/#") == 0 && *n == '\0'))
        return true;
    if (*f == '+')
        return reference_rest_matches(f + 1, n + strcspn(n, "/"));
    if (*f != *n)
        return false;
    return *f == '\0' || reference_rest_matches(f + 1, n + 1);
}

static bool reference_matches(const char *filter, const char *name)
{
    if (*name == '$' && strchr("+#", *filter))
        return false;
    return reference_rest_matches(filter, name);
}

/* Writes the `number`-th text of the alphabet to `out`. False when there are no more of up to `longest` characters. */
static bool nth_text(unsigned number, const char *alphabet, unsigned longest, char *out)
{
    const unsigned letters = (unsigned)strlen(alphabet);
    unsigned n = 1, count = letters;

    for (; number >= count; n++, count *= letters)
        number -= count;
    if (n > longest)
        return false;
    for (unsigned i = 0; i < n; i++, number /= letters)
        out[i] = alphabet[number % letters];
    out[n] = '\0';
    return true;
}

static void every_short_filter_matches_every_short_name_as_the_reference_says(void **state)
{
    char filter[8], name[8];
    struct topic_filter f;

    (void)state;
    for (unsigned i = 0; nth_text(i, "a$/+#", 5, filter); i++) {
        if (topic_parse_filter(str_from(filter), &f) != E_OK)
            continue;
        for (unsigned k = 0; nth_text(k, "a$/", 5, name); k++)
            if (topic_matches(str_from(filter), str_from(name)) != reference_matches(filter, name))
                fail_msg("%s against %s", filter, name);
    }
}

/* The slow reference for validity: level by level, on text that is known to be plain. */
static bool reference_is_filter(const char *text)
{
    size_t n = strcspn(text, "/");
    bool is_last = text[n] == '\0';

    if (memchr(text, '+', n) && n != 1)
        return false;
    if (memchr(text, '#', n) && (n != 1 || !is_last))
        return false;
    return is_last || reference_is_filter(text + n + 1);
}

static void every_short_text_is_judged_as_the_reference_says(void **state)
{
    char text[20];
    struct topic_filter f;
    uint32_t levels;

    (void)state;
    /* A prefix moves the text across the words of eight bytes in which it is read. */
    for (size_t prefix = 0; prefix <= 9; prefix++) {
        memset(text, 'x', prefix);
        for (unsigned i = 0; nth_text(i, "a/+#", 6, text + prefix); i++) {
            assert_int_equal(topic_parse_filter(str_from(text), &f) == E_OK, reference_is_filter(text));
            assert_int_equal(topic_check_name(str_from(text), &levels) == E_OK, !strpbrk(text, "+#"));
        }
    }
}

static void a_byte_is_judged_alike_at_every_place_of_a_name(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        for (size_t at = 0; at < n; at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[20];
                struct str s = {text, n};
                uint32_t levels = 0;

                memset(text, 'x', sizeof text);
                text[at] = (char)byte;
                bool want = utf8_is_plain(s) && byte != '+' && byte != '#';
                assert_int_equal(topic_check_name(s, &levels) == E_OK, want);
                assert_int_equal(levels, want ? 1 + (byte == '/') : 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_at_least_one_character_and_no_wildcard),
        cmocka_unit_test(a_name_may_have_65535_bytes_but_no_more),
        cmocka_unit_test(filter_wildcards_fill_a_level_and_hash_is_last),
        cmocka_unit_test(shared_subscriptions_have_a_share_name_and_a_filter),
        cmocka_unit_test(matching_follows_section_4_7),
        cmocka_unit_test(every_short_filter_matches_every_short_name_as_the_reference_says),
        cmocka_unit_test(every_short_text_is_judged_as_the_reference_says),
        cmocka_unit_test(a_byte_is_judged_alike_at_every_place_of_a_name),
    };

    return cmocka_run_group_tests_name("topic", tests, NULL, NULL);
}
