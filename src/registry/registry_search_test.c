#include "registry/registry_search.h"

#include <stdio.h>

#include "registry/table_fixture_test.h"

#include "registry/registry_key.h"

static struct table t;

static const struct {
    const char *id, *json;
} devices[] = {
    {"d1", "{\"enabled\":true,\"ext\":{\"n\":1,\"name\":\"alpha\",\"tags\":[\"x\",\"y\"]}}"},
    {"d2", "{\"enabled\":false,\"ext\":{\"n\":3,\"name\":\"beta\"},\"via\":[\"d4\"]}"},
    {"d3", "{\"ext\":{\"n\":2.5,\"name\":\"alphabet\",\"a/b\":\"c~d\"},\"memberOf\":[\"g\"]}"},
    {"d4", "{\"defaults\":{\"ttl\":60}}"},
    {"d5", "{\"ext\":{\"name\":\"*\"}}"},
};

static void put(struct registry_key key, const char *before, const char *json)
{
    struct table_txn txn = {&t};
    char state[512];

    snprintf(state, sizeof state, "{%s,\"document\":%s}", before, json);
    assert_int_equal(table_txn_put(&txn, registry_key_str(&key), str_from(state)), E_OK);
}

static int set_up(void **state)
{
    (void)state;
    put(registry_key_tenant(STR("t1")), "\"v\":1,\"version\":\"x\"", "{\"alias\":\"a\"}");
    put(registry_key_tenant(STR("t2")), "\"v\":1,\"version\":\"x\"", "{}");
    put(registry_key_tenant(STR("t3")), "\"v\":1,\"deleting\":true", "{}");
    put(registry_key_tenant(STR("t4")), "\"v\":2", "{}");
    for (size_t i = 0; i < ARRAY_LEN(devices); i++)
        put(registry_key_device(STR("t1"), str_from(devices[i].id)),
            "\"v\":1,\"version\":\"x\",\"status\":{\"created\":\"2026-01-01T00:00:00Z\"}", devices[i].json);
    put(registry_key_device(STR("t2"), STR("other")), "\"v\":1", "{}");
    put(registry_key_via(STR("t1"), STR("d4"), STR("d2")), "\"v\":1", "1");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    table_fixture_free(&t);
    return 0;
}

/* The ids that are found, with blanks between them, and the total. */
static const char *run(struct registry_search *search, const char *tenant)
{
    static char text[256];
    struct document_fault fault = {0};
    json_t *result, *list;
    size_t n;

    assert_int_equal(registry_search_begin(search, &t, str_from(tenant), &fault), E_OK);
    while (registry_search_step(search))
        continue;
    result = registry_search_result(search);
    list = json_object_get(result, "result");
    n = (size_t)snprintf(text, sizeof text, "%lld:", (long long)document_get_integer(result, "total", 0));
    for (size_t i = 0; i < json_array_size(list); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", document_get_text(json_array_get(list, i), "id").p);
    json_decref(result);
    registry_search_end(search);
    return text;
}

static void filters_orders_and_pages_select(void **state)
{
    static const struct {
        const char *filters[2], *sorts[2];
        unsigned page_size, page_offset;
        enum registry_search_gateways gateways;
        const char *want;
    } rows[] = {
        {.want = "5: d1 d2 d3 d4 d5"},
        {.page_size = 2, .want = "5: d1 d2"},
        {.page_size = 2, .page_offset = 2, .want = "5: d5"},
        {.page_size = 2, .page_offset = 3, .want = "0:"},
        {{"{\"field\":\"/ext/name\",\"value\":\"alpha\"}"}, .want = "1: d1"},
        {{"{\"field\":\"/ext/name\",\"op\":\"eq\",\"value\":\"alpha*\"}"}, .want = "2: d1 d3"},
        {{"{\"field\":\"/ext/name\",\"value\":\"?eta\"}"}, .want = "1: d2"},
        {{"{\"field\":\"/ext/name\",\"value\":\"*\"}"}, .want = "4: d1 d2 d3 d5"},
        {{"{\"field\":\"/ext/name\",\"op\":\"neq\",\"value\":\"alpha*\"}"}, .want = "3: d2 d4 d5"},
        {{"{\"field\":\"/ext/n\",\"op\":\"gt\",\"value\":2}"}, .want = "2: d2 d3"},
        {{"{\"field\":\"/ext/n\",\"op\":\"gte\",\"value\":3}"}, .want = "1: d2"},
        {{"{\"field\":\"/ext/n\",\"op\":\"lt\",\"value\":2.5}"}, .want = "1: d1"},
        {{"{\"field\":\"/ext/name\",\"op\":\"lte\",\"value\":\"alpha\"}"}, .want = "2: d1 d5"},
        {{"{\"field\":\"/id\",\"op\":\"in\",\"value\":[\"d1\",\"d4\",\"d9\"]}"}, .want = "2: d1 d4"},
        {{"{\"field\":\"/enabled\",\"value\":false}"}, .want = "1: d2"},
        {{"{\"field\":\"/ext/tags\",\"value\":\"y\"}"}, .want = "1: d1"},
        {{"{\"field\":\"/ext/tags/0\",\"value\":\"y\"}"}, .want = "0:"},
        {{"{\"field\":\"/ext/a~1b\",\"value\":\"c~d\"}"}, .want = "1: d3"},
        {{"{\"field\":\"/defaults\",\"value\":{\"ttl\":60}}"}, .want = "1: d4"},
        {{"{\"field\":\"/status/created\",\"value\":\"2026*\"}"}, .want = "5: d1 d2 d3 d4 d5"},
        {{"{\"field\":\"/enabled\",\"value\":true}", "{\"field\":\"/ext/n\",\"value\":1}"}, .want = "1: d1"},
        {{"{\"field\":\"/enabled\",\"value\":true}", "{\"field\":\"/ext/n\",\"value\":2}"}, .want = "0:"},
        {.sorts = {"{\"field\":\"/ext/n\"}"}, .want = "5: d4 d5 d1 d3 d2"},
        {.sorts = {"{\"field\":\"/ext/n\",\"direction\":\"desc\"}"}, .want = "5: d2 d3 d1 d4 d5"},
        {.sorts = {"{\"field\":\"/enabled\"}", "{\"field\":\"/ext/name\",\"direction\":\"desc\"}"},
         .want = "5: d3 d5 d4 d2 d1"},
        {.sorts = {"{\"field\":\"/id\",\"direction\":\"desc\"}"}, .page_size = 2, .page_offset = 1, .want = "5: d3 d2"},
        {.gateways = REGISTRY_SEARCH_GATEWAYS, .want = "2: d3 d4"},
        {.gateways = REGISTRY_SEARCH_NO_GATEWAYS, .want = "3: d1 d2 d5"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_search search = {
            .page_size = rows[i].page_size, .page_offset = rows[i].page_offset, .gateways = rows[i].gateways};
        struct document_fault fault = {0};
        const char *found;

        for (size_t k = 0; k < 2; k++) {
            if (rows[i].filters[k])
                assert_int_equal(registry_search_add_filter(&search, str_from(rows[i].filters[k]), &fault), E_OK);
            if (rows[i].sorts[k])
                assert_int_equal(registry_search_add_sort(&search, str_from(rows[i].sorts[k]), &fault), E_OK);
        }
        found = run(&search, "t1");
        if (strcmp(found, rows[i].want) != 0)
            fail_msg("row %zu: %s instead of %s", i, found, rows[i].want);
    }
}

static void tenants_are_found_but_not_those_on_their_way_out(void **state)
{
    struct registry_search all = {0}, one = {0};
    struct document_fault fault = {0};

    (void)state;
    assert_string_equal(run(&all, ""), "2: t1 t2");
    assert_int_equal(registry_search_add_filter(&one, STR("{\"field\":\"/alias\",\"value\":\"a\"}"), &fault), E_OK);
    assert_string_equal(run(&one, ""), "1: t1");
}

static void wrong_parameters_are_told(void **state)
{
    static const struct {
        const char *filter, *sort, *field;
    } rows[] = {
        {"", NULL, ""},
        {"[]", NULL, ""},
        {"{}", NULL, "/field"},
        {"{\"field\":\"ext\",\"value\":1}", NULL, "/field"},
        {"{\"field\":1,\"value\":1}", NULL, "/field"},
        {"{\"field\":\"/ext\"}", NULL, "/value"},
        {"{\"field\":\"/ext\",\"op\":\"like\",\"value\":1}", NULL, "/op"},
        {"{\"field\":\"/ext\",\"op\":1,\"value\":1}", NULL, "/op"},
        {"{\"field\":\"/ext\",\"value\":1,\"x\":1}", NULL, "/x"},
        {"{\"field\":\"/ext\",\"op\":\"in\",\"value\":1}", NULL, "/value"},
        {"{\"field\":\"/ext\",\"op\":\"gt\",\"value\":true}", NULL, "/value"},
        {NULL, "{}", "/field"},
        {NULL, "{\"field\":\"ext\"}", "/field"},
        {NULL, "{\"field\":\"/ext\",\"direction\":\"up\"}", "/direction"},
        {NULL, "{\"field\":\"/ext\",\"x\":1}", "/x"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_search search = {0};
        struct document_fault fault = {0};
        err e = rows[i].filter ? registry_search_add_filter(&search, str_from(rows[i].filter), &fault)
                               : registry_search_add_sort(&search, str_from(rows[i].sort), &fault);

        assert_int_equal(e, E_INVAL);
        assert_string_equal(fault.field, rows[i].field);
        registry_search_end(&search);
    }
}

static void a_page_far_away_cannot_be_sorted(void **state)
{
    struct registry_search search = {.page_size = 200, .page_offset = 100};
    struct document_fault fault = {0};

    (void)state;
    assert_int_equal(registry_search_add_sort(&search, STR("{\"field\":\"/id\"}"), &fault), E_OK);
    assert_int_equal(registry_search_begin(&search, &t, STR("t1"), &fault), E_INVAL);
    assert_int_equal(fault.status, 400);
    registry_search_end(&search);
}

static void wildcards_stand_for_characters(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool want;
    } rows[] = {
        {"", "", true},         {"", "a", false},       {"*", "", true},         {"*", "abc", true},
        {"a*", "abc", true},    {"*c", "abc", true},    {"*b*", "abc", true},    {"a*d", "abc", false},
        {"a**c", "abc", true},  {"?", "", false},       {"?", "\xc3\xa4", true}, {"??", "\xc3\xa4", false},
        {"*a*a", "aaaa", true}, {"*ab", "aabab", true}, {"*ab", "aaba", false},  {"a?c", "abc", true},
        {"a?c", "ac", false},   {"abc", "abd", false},  {"a", "ab", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (registry_search_matches(str_from(rows[i].pattern), str_from(rows[i].text)) != rows[i].want)
            fail_msg("row %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(filters_orders_and_pages_select, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_are_found_but_not_those_on_their_way_out, set_up, tear_down),
        cmocka_unit_test(wrong_parameters_are_told),
        cmocka_unit_test(a_page_far_away_cannot_be_sorted),
        cmocka_unit_test(wildcards_stand_for_characters),
    };

    return cmocka_run_group_tests_name("registry_search", tests, NULL, NULL);
}
