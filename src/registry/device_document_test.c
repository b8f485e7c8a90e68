#include "registry/device_document.h"

#include "registry/document_fixture_test.h"

#include "base/check.h"

static void every_member_is_checked(void **state)
{
    static const struct document_case rows[] = {
        {"{}", NULL, NULL},
        {"[]", "", "object"},
        {"{\"unknown\":1}", "/unknown", "no such member"},
        {"{\"enabled\":true}", NULL, NULL},
        {"{\"enabled\":0}", "/enabled", "true or false"},
        {"{\"defaults\":{\"content-type\":\"text/plain\",\"ttl\":5}}", NULL, NULL},
        {"{\"defaults\":[]}", "/defaults", "object"},
        {"{\"defaults\":{\"a\":[]}}", "/defaults/a", NULL},
        {"{\"via\":[\"gw1\",\"gw2\"],\"viaGroups\":[\"grp\"]}", NULL, NULL},
        {"{\"via\":\"gw1\"}", NULL, NULL},
        {"{\"via\":1}", "/via", "list of texts"},
        {"{\"via\":[1]}", "/via/0", "text"},
        {"{\"via\":[\"gw 1\"]}", "/via/0", "letters"},
        {"{\"via\":[\"\"]}", "/via/0", "empty"},
        {"{\"via\":[\"a\",\"b\",\"a\"]}", "/via/2", "twice"},
        {"{\"viaGroups\":{}}", "/viaGroups", NULL},
        {"{\"memberOf\":[\"grp\"],\"authorities\":[\"auto-provisioning-enabled\"]}", NULL, NULL},
        {"{\"memberOf\":\"grp\",\"via\":[]}", NULL, NULL},
        {"{\"memberOf\":\"a/b\"}", "/memberOf", "letters"},
        {"{\"memberOf\":[\"grp\"],\"via\":[\"gw1\"]}", "/memberOf", "excludes"},
        {"{\"memberOf\":[\"grp\"],\"viaGroups\":\"grp\"}", "/memberOf", "excludes"},
        {"{\"authorities\":[\"fly\"]}", "/authorities/0", "one of auto-provisioning-enabled"},
        {"{\"downstream-message-mapper\":\"m1\",\"upstream-message-mapper\":\"m2\"}", NULL, NULL},
        {"{\"downstream-message-mapper\":5}", "/downstream-message-mapper", NULL},
        {"{\"upstream-message-mapper\":\"\"}", "/upstream-message-mapper", NULL},
        {"{\"command-endpoint\":{\"uri\":\"https://h/"
         "{{deviceId}}\",\"headers\":{\"k\":\"v\"},\"payload-properties\":{\"k\":\"v\"}}}",
         NULL, NULL},
        {"{\"command-endpoint\":{}}", "/command-endpoint/uri", "missing"},
        {"{\"command-endpoint\":{\"uri\":\"h\"}}", "/command-endpoint/uri", "URI"},
        {"{\"command-endpoint\":{\"uri\":\"http://h\",\"headers\":{\"k\":1}}}", "/command-endpoint/headers/k", "text"},
        {"{\"command-endpoint\":{\"uri\":\"http://h\",\"payload-properties\":[]}}", "/command-endpoint/payload-properties",
         NULL},
        {"{\"ext\":{\"any\":[\"thing\"]}}", NULL, NULL},
        {"{\"ext\":\"thing\"}", "/ext", "object"},
        {"{\"status\":{\"created\":\"whatever\",\"x\":1}}", NULL, NULL},
    };

    (void)state;
    document_check_cases(rows, ARRAY_LEN(rows), device_document_normalise);
}

static void texts_become_lists_and_the_status_is_left_out(void **state)
{
    char *stored = document_normal_form("{\"viaGroups\":\"g\",\"via\":\"gw\",\"status\":{\"created\":\"x\"},\"enabled\":false}",
                                        device_document_normalise);

    (void)state;
    assert_string_equal(stored, "{\"enabled\":false,\"via\":[\"gw\"],\"viaGroups\":[\"g\"]}");
    free(stored);
}

static void ids_have_the_characters_of_hono(void **state)
{
    static const struct {
        const char *id;
        bool tenant, device;
    } rows[] = {
        {"a", true, true},     {"A-b_c.9", true, true},    {"a:b=c", false, true},  {"", false, false},
        {".", false, false},   {"..", false, false},       {"...", true, true},     {"a b", false, false},
        {"a/b", false, false}, {"\xc3\xa4", false, false}, {"a%2Fb", false, false},
    };
    char longest[SCHEMA_MAX_ID_BYTES + 2];
    struct document_fault fault;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fault = (struct document_fault){0};
        assert_int_equal(schema_check_tenant_id(str_from(rows[i].id), &fault) == E_OK, rows[i].tenant);
        fault = (struct document_fault){0};
        assert_int_equal(schema_check_device_id(str_from(rows[i].id), &fault) == E_OK, rows[i].device);
        assert_int_equal(fault.status, rows[i].device ? 0 : 400);
    }
    memset(longest, 'x', sizeof longest);
    assert_int_equal(schema_check_device_id((struct str){longest, SCHEMA_MAX_ID_BYTES}, &fault), E_OK);
    assert_int_equal(schema_check_device_id((struct str){longest, SCHEMA_MAX_ID_BYTES + 1}, &fault), E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_checked),
        cmocka_unit_test(texts_become_lists_and_the_status_is_left_out),
        cmocka_unit_test(ids_have_the_characters_of_hono),
    };

    return cmocka_run_group_tests_name("device_document", tests, NULL, NULL);
}
