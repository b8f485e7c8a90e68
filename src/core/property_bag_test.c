#include "core/property_bag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static char scratch[PROPERTY_BAG_SCRATCH_BYTES];

static struct property_bag parse(const char *raw)
{
    struct property_bag bag = {0};
    enum device_fault fault = property_bag_parse(str_from(raw), scratch, sizeof(scratch), &bag);

    if (fault)
        fail_msg("%s: %s", raw, device_fault_name(fault));
    return bag;
}

static void content_types_are_decoded(void **state)
{
    static const struct {
        const char *raw;
        const char *want;
    } rows[] = {
        {"", ""},
        {"content-type=application%2Fjson", "application/json"},
        {"content-type=application%2fjson", "application/json"},
        {"content-type=application/json", "application/json"},
        {"content-type=%61%62", "ab"},
        {"content-type=text/plain;charset=utf-8", "text/plain;charset=utf-8"},
        {"content-type=a%3Db%26c", "a=b&c"},
        {"content-type=a=b", "a=b"},
        {"content-type=a+b", "a b"},
        {"content-type=a%2Bb", "a+b"},
        {"content-type=%C3%A9", "\xc3\xa9"},
        {"content-type=%25", "%"},
        {"content-type=%2525", "%25"},
        {"content-type=%25+%2B", "% +"},
        /* Names. */
        {"Content-Type=a", "a"},
        {"CONTENT-TYPE=a", "a"},
        {"content%2Dtype=a", "a"},
        {"%63%6f%6e%74%65%6e%74%2d%74%79%70%65=a", "a"},
        {"content-typ=a", ""},
        {"content-type2=a", ""},
        {"content-type%00=a", ""},
        {"content_type=a", ""},
        /* Empty and odd pairs. */
        {"content-type", ""},
        {"content-type=", ""},
        {"=a", ""},
        {"&&content-type=a&&", "a"},
        {"=&content-type=a", "a"},
        /* The first wins. */
        {"content-type=a&content-type=b", "a"},
        {"content-type=&content-type=b", ""},
        {"x=y&a=b%20&content-type=a", "a"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag = parse(rows[i].raw);

        if (!str_equal(bag.content_type, str_from(rows[i].want)))
            fail_msg("%s: '%.*s'", rows[i].raw, STR_ARG(bag.content_type));
    }
}

static void ttl_is_whole_seconds_or_absent(void **state)
{
    static const struct {
        const char *raw;
        bool has_ttl;
        uint64_t ttl_s;
    } rows[] = {
        {"hono-ttl=30", true, 30},
        {"hono-ttl=0", true, 0},
        {"HONO-TTL=%33%30", true, 30},
        {"hono-ttl=9223372036854775", true, 9223372036854775}, /* the most that fits as milliseconds */
        {"hono-ttl=9223372036854776", false, 0},
        {"hono-ttl=99999999999999999999999", false, 0},
        {"hono-ttl=-1", false, 0}, /* ignored (docs/DEVICES.md) */
        {"hono-ttl=abc", false, 0},
        {"hono-ttl=3.5", false, 0},
        {"hono-ttl=", false, 0},
        {"hono-ttl", false, 0},
        {"ttl=30", false, 0},
        {"hono-ttl=abc&hono-ttl=3", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag = parse(rows[i].raw);

        if (bag.has_ttl != rows[i].has_ttl || bag.ttl_s != rows[i].ttl_s)
            fail_msg("%s: %d", rows[i].raw, bag.has_ttl);
    }
}

static void on_error_knows_four_values(void **state)
{
    static const struct {
        const char *raw;
        enum property_bag_on_error want;
    } rows[] = {
        {"", PROPERTY_BAG_ON_ERROR_DEFAULT},
        {"on-error=default", PROPERTY_BAG_ON_ERROR_DEFAULT},
        {"on-error=ignore", PROPERTY_BAG_ON_ERROR_IGNORE},
        {"On-Error=ignore", PROPERTY_BAG_ON_ERROR_IGNORE},
        {"on-error=disconnect", PROPERTY_BAG_ON_ERROR_DISCONNECT},
        {"on-error=skip-ack", PROPERTY_BAG_ON_ERROR_SKIP_ACK},
        {"on-error=skip%2dack", PROPERTY_BAG_ON_ERROR_SKIP_ACK},
        {"on-error=IGNORE", PROPERTY_BAG_ON_ERROR_DEFAULT},
        {"on-error=whatever", PROPERTY_BAG_ON_ERROR_DEFAULT},
        {"on-error=", PROPERTY_BAG_ON_ERROR_DEFAULT},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (parse(rows[i].raw).on_error != rows[i].want)
            fail_msg("%s", rows[i].raw);
}

static void a_full_bag_gives_all_its_properties(void **state)
{
    struct property_bag bag = parse("content-type=a%2Fb&hono-ttl=5&on-error=ignore&correlation-id=c%201&traceparent=00-ab-cd-01"
                                    "&tracestate=k%3Dv&other=1");

    (void)state;
    assert_true(str_equal(bag.content_type, STR("a/b")));
    assert_true(bag.has_ttl && bag.ttl_s == 5);
    assert_int_equal(bag.on_error, PROPERTY_BAG_ON_ERROR_IGNORE);
    assert_true(str_equal(bag.correlation_id, STR("c 1")));
    assert_true(str_equal(bag.traceparent, STR("00-ab-cd-01")));
    assert_true(str_equal(bag.tracestate, STR("k=v")));
}

static void broken_encoding_is_refused_wherever_it_is(void **state)
{
    static const char *const rows[] = {
        "content-type=%",
        "content-type=%2",
        "content-type=%2g",
        "content-type=%g2",
        "content-type=a%2",
        "content-type=%&a=b",
        "content-type=%2&a=b",
        "content%=a",
        "unknown=%zz",
        "%",
        "a=b&c=d%",
        "content-type=%%32",
        "content-type=a%2Fb%-1",
        "content-type=% 20",
        "a=b%2",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag = {.ttl_s = 77};

        if (property_bag_parse(str_from(rows[i]), scratch, sizeof(scratch), &bag) != DEVICE_FAULT_BAG)
            fail_msg("%s is taken", rows[i]);
        assert_int_equal(bag.ttl_s, 77); /* nothing was written */
    }
}

static void values_that_are_not_plain_text_are_refused(void **state)
{
    static const char *const rows[] = {
        "content-type=a%00b",       /* NUL */
        "content-type=a%0D%0AX: y", /* would split a header elsewhere */
        "correlation-id=%ff",       /* no UTF-8 */
        "content-type=%C3",         /* cut */
        "correlation-id=%ED%A0%80", /* a surrogate */
        "traceparent=%7f",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct property_bag bag;

        if (property_bag_parse(str_from(rows[i]), scratch, sizeof(scratch), &bag) != DEVICE_FAULT_BAG)
            fail_msg("%s is taken", rows[i]);
    }
    assert_int_equal(parse("unknown=%00%ff").content_type.n, 0);
}

static void only_encoded_values_use_the_scratch_area(void **state)
{
    struct property_bag bag;
    struct str raw = STR("content-type=abc&correlation-id=%64%65%66");

    (void)state;
    assert_int_equal(property_bag_parse(raw, scratch, 3, &bag), DEVICE_FAULT_NONE);
    assert_ptr_equal(bag.content_type.p, raw.p + 13);
    assert_ptr_equal(bag.correlation_id.p, scratch);
    assert_int_equal(property_bag_parse(raw, scratch, 2, &bag), DEVICE_FAULT_BAG_SIZE);
    assert_int_equal(property_bag_parse(STR("content-type=abc"), NULL, 0, &bag), DEVICE_FAULT_NONE);
    assert_int_equal(property_bag_parse((struct str){0}, NULL, 0, &bag), DEVICE_FAULT_NONE);
    assert_int_equal(property_bag_parse(STR("content-type=%61"), NULL, 0, &bag), DEVICE_FAULT_BAG_SIZE);
    assert_int_equal(device_fault_status(DEVICE_FAULT_BAG_SIZE), 400);
}

/* Blocks of exactly the right sizes, so that a sanitizer sees any access past their ends. */
static void a_bag_cut_anywhere_needs_no_more_scratch_than_its_size(void **state)
{
    static const char whole[] = "content-type=%61%2F%62&hono-ttl=%31&correlation-id=+++&x=%20&traceparent=%30";

    (void)state;
    for (size_t n = 0; n < sizeof(whole); n++) {
        char *raw = malloc(n ? n : 1);
        char *area = malloc(n ? n : 1);
        struct property_bag bag;

        assert_non_null(raw);
        assert_non_null(area);
        memcpy(raw, whole, n);
        assert_int_not_equal(property_bag_parse((struct str){raw, n}, area, n, &bag), DEVICE_FAULT_BAG_SIZE);
        free(raw);
        free(area);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_types_are_decoded),
        cmocka_unit_test(ttl_is_whole_seconds_or_absent),
        cmocka_unit_test(on_error_knows_four_values),
        cmocka_unit_test(a_full_bag_gives_all_its_properties),
        cmocka_unit_test(broken_encoding_is_refused_wherever_it_is),
        cmocka_unit_test(values_that_are_not_plain_text_are_refused),
        cmocka_unit_test(only_encoded_values_use_the_scratch_area),
        cmocka_unit_test(a_bag_cut_anywhere_needs_no_more_scratch_than_its_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
