#include "proto/cloudevents/cloudevent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "proto/cloudevents/cloudevent_kafka.h"

static void names_are_lower_case_letters_and_digits(void **state)
{
    static const struct {
        const char *name;
        bool is_name;
    } rows[] = {
        {"id", true},
        {"comexampleextension1", true},
        {"0", true},
        {"", false},
        {"data", false},
        {"data1", true},
        {"Id", false},
        {"a_b", false},
        {"a-b", false},
        {"a b", false},
        {"\xc3\xa9", false},
        {"a234567890b234567890c234567890d234567890e234567890f2345678901234", true},
        {"a234567890b234567890c234567890d234567890e234567890f23456789012345", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (cloudevent_is_name(str_from(rows[i].name)) != rows[i].is_name)
            fail_msg("'%s'", rows[i].name);
}

static void media_types_of_json_are_known(void **state)
{
    static const struct {
        const char *type;
        bool is_json;
    } rows[] = {
        {"application/json", true},
        {"text/json", true},
        {"Application/JSON; charset=utf-8", true},
        {"application/json ;x", true},
        {"application/a+json", true},
        {"application/jsonp", false},
        {"application/json-seq", false},
        {"text/plain; a/json", false},
        {"json", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (cloudevent_is_json(str_from(rows[i].type)) != rows[i].is_json)
            fail_msg("'%s'", rows[i].type);
}

static struct cloudevent_attribute attributes[] = {
    {.name = STR_INIT("specversion"), .value = STR_INIT("1.0")},
    {.name = STR_INIT("id"), .value = STR_INIT("1 %\xe2\x82\xac")},
    {.name = STR_INIT("empty"), .value = STR_INIT("")},
    {.name = STR_INIT("datacontenttype"), .value = STR_INIT("text/plain")},
};

static void attributes_are_found_by_name(void **state)
{
    struct cloudevent event = {.attributes = attributes, .n_attributes = ARRAY_LEN(attributes)};
    struct str value = STR("untouched");

    (void)state;
    assert_false(cloudevent_find(&event, STR("emp"), &value));
    assert_true(str_equal(value, STR("untouched")));
    assert_true(cloudevent_find(&event, STR("empty"), &value));
    assert_int_equal(value.n, 0);
    assert_true(cloudevent_find(&event, STR("specversion"), &value));
    assert_true(str_equal(value, STR("1.0")));
}

static void expect_record(const struct cloudevent *event, const struct cloudevent_extras *extras, const char *want)
{
    const struct cloudevent_kafka_header *headers;
    struct arena a = {0};
    char got[512] = "";
    size_t n = cloudevent_kafka_headers(&a, MEM_TEST, event, extras, &headers), at = 0;

    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%.*s=%.*s;", STR_ARG(headers[i].name), STR_ARG(headers[i].value));
    assert_string_equal(got, want);
    arena_free(&a, MEM_TEST);
}

/* Kafka binding section 3.2. */
static void a_record_has_the_attributes_in_its_headers(void **state)
{
    static const struct cloudevent_attribute more[] = {{.name = STR_INIT("id"), .value = STR_INIT("2")},
                                                       {.name = STR_INIT("hops"), .value = STR_INIT("1")},
                                                       {.name = STR_INIT("empty")}};
    const struct cloudevent_extras extras = {more, ARRAY_LEN(more)};
    struct cloudevent event = {
        .attributes = attributes, .n_attributes = ARRAY_LEN(attributes), .datacontenttype = STR("text/plain")};

    (void)state;
    expect_record(&event, NULL, "ce_specversion=1.0;ce_id=1 %\xe2\x82\xac;ce_empty=;content-type=text/plain;");
    expect_record(&event, &extras, "ce_specversion=1.0;ce_id=2;ce_hops=1;content-type=text/plain;");
    event = (struct cloudevent){.attributes = attributes, .n_attributes = 1, .data = STR("{}"), .data_kind = CLOUDEVENT_JSON};
    expect_record(&event, NULL, "ce_specversion=1.0;content-type=application/json;");
}

static void only_an_event_without_data_is_a_null_record(void **state)
{
    struct cloudevent event = {.data_kind = CLOUDEVENT_NO_DATA};

    (void)state;
    assert_null(cloudevent_kafka_value(&event).p);
    event.data_kind = CLOUDEVENT_BYTES;
    assert_non_null(cloudevent_kafka_value(&event).p);
    event.data = STR("x");
    assert_true(str_equal(cloudevent_kafka_value(&event), STR("x")));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_lower_case_letters_and_digits),
        cmocka_unit_test(media_types_of_json_are_known),
        cmocka_unit_test(attributes_are_found_by_name),
        cmocka_unit_test(a_record_has_the_attributes_in_its_headers),
        cmocka_unit_test(only_an_event_without_data_is_a_null_record),
    };

    return cmocka_run_group_tests_name("cloudevent", tests, NULL, NULL);
}
