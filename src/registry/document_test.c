#include "registry/document.h"

#include "registry/document_fixture_test.h"

#include "base/check.h"
#include "base/utf8.h"

static err accept(json_t *value, struct document_fault *fault)
{
    (void)value;
    (void)fault;
    return E_OK;
}

static void only_strict_json_is_read(void **state)
{
    static const struct document_case rows[] = {
        {"{}", NULL, NULL},
        {"[]", NULL, NULL},
        {" {\"a\" : [1, 2.5, true, null, \"\\u00e4\"]} ", NULL, NULL},
        {"", "", "missing"},
        {"{", "", "not JSON: line 1"},
        {"{\"a\":1,\"a\":2}", "", "duplicate"},
        {"{\"a\":{\"b\":1,\"b\":1}}", "", "duplicate"},
        {"\"text\"", "", "not JSON"},
        {"1", "", "not JSON"},
        {"{} {}", "", "not JSON"},
        {"{\"a\":1,}", "", "not JSON"},
        {"{'a':1}", "", "not JSON"},
        {"{\"a\":NaN}", "", "not JSON"},
        {"{\"a\":1e999}", "", "not JSON"},
        {"{\"a\":99999999999999999999}", "", "not JSON"},
        {"{\"a\":\"\\u0000\"}", "", "not JSON"},
        {"{\"a\":\"\xff\"}", "", "not JSON"},
        {"{\"a\":\"\\ud800\"}", "", "not JSON"},
        {"{\"a\":\"\n\"}", "", "not JSON"},
        {"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", NULL, NULL},
        {"[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "", "more than 16"},
        {"{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[\\\"{{{\"}", NULL, NULL},
    };

    (void)state;
    document_check_cases(rows, ARRAY_LEN(rows), accept);
}

static void an_empty_text_is_an_object_where_that_is_allowed(void **state)
{
    struct document_fault fault = {0};
    json_t *value = NULL;

    (void)state;
    assert_int_equal(document_parse(STR(""), true, &value, &fault), E_OK);
    assert_true(json_is_object(value));
    json_decref(value);
}

static void a_place_is_a_json_pointer(void **state)
{
    struct document_fault fault = {0};
    struct document_place list = document_member(NULL, "a/b~"), element = document_element(&list, 12),
                          member = document_member(&element, "c");

    (void)state;
    assert_int_equal(document_refuse(&fault, 409, &member, "no %d", 5), E_INVAL);
    assert_string_equal(fault.field, "/a~1b~0/12/c");
    assert_string_equal(fault.text, "no 5");
    assert_int_equal(document_refuse(&fault, 400, NULL, "later"), E_INVAL);
    assert_int_equal(fault.status, 409); /* the first stays */
}

static void what_is_too_long_is_cut_between_characters(void **state)
{
    char name[2 * DOCUMENT_FIELD_BYTES + 1];
    struct document_fault fault = {0};
    struct document_place place;

    (void)state;
    for (size_t i = 0; i < 2 * DOCUMENT_FIELD_BYTES; i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    name[sizeof name - 1] = '\0';
    place = document_member(NULL, name);
    assert_int_equal(document_refuse(&fault, 400, &place, "x%s", name), E_INVAL);
    assert_true(strlen(fault.field) >= DOCUMENT_FIELD_BYTES - 4 && utf8_is_valid(str_from(fault.field)));
    assert_true(strlen(fault.text) >= sizeof fault.text - 4 && utf8_is_valid(str_from(fault.text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_strict_json_is_read),
        cmocka_unit_test(an_empty_text_is_an_object_where_that_is_allowed),
        cmocka_unit_test(a_place_is_a_json_pointer),
        cmocka_unit_test(what_is_too_long_is_cut_between_characters),
    };

    return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
