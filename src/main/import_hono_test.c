#include "main/import_hono.h"

#include "main/import_fixture_test.h"

static void on_told(void *context, enum import_kind kind, struct import_place place, const char *text)
{
    size_t n = strlen(import_fixture.told);

    (void)context;
    snprintf(import_fixture.told + n, sizeof import_fixture.told - n, "%s%u: %s\n", kind == IMPORT_MOVED ? "(moved) " : "",
             place.line, text);
}

static int set_up(void **state)
{
    (void)state;
    return import_fixture_begin(on_told);
}

static void read_text(const char *text)
{
    struct errinfo ei = {0};

    if (import_hono_read(&import_fixture.list, "f", str_from(text), &ei) != E_OK)
        fail_msg("%s", ei.text);
}

static void check_device(const char *tenant, const char *id, const char *device, const char *credentials)
{
    const struct import_device *d = import_list_find(&import_fixture.list, str_from(tenant), str_from(id));

    assert_non_null(d);
    assert_string_equal(d->device, device);
    if (credentials)
        assert_string_equal(d->credentials, credentials);
    else
        assert_null(d->credentials);
}

static void check_tenant(const char *id, const char *document)
{
    char *text = json_dumps(import_list_tenant(&import_fixture.list, str_from(id))->document, JSON_COMPACT | JSON_SORT_KEYS);

    assert_string_equal(text, document);
    free(text);
}

#define PSK "{\"type\":\"psk\",\"auth-id\":\"s1\",\"secrets\":[{\"key\":\"AAAA\"}]}"

/* Cut from Hono's example files of the file-based registry. */
static void files_of_the_file_based_registry_are_read(void **state)
{
    (void)state;
    read_text("[{\"tenant-id\":\"T1\",\"enabled\":true,\"trusted-ca\":{\"subject-dn\":\"CN=ca\",\"public-key\":\"AAAA\"}},\n"
              " {\"tenant-id\":\"T2\",\"enabled\":null,\"custom\":1,\"adapters\":[{\"type\":\"hono-http\",\"x\":\"y\"}]}]\n");
    read_text(
        "\n[{\"tenant\":\"T1\",\"devices\":[\n"
        "  {\"device-id\":\"4711\",\"data\":{\"enabled\":true,\"comment\":[\"a\"],\"defaults\":{\"importance\":\"high\"}}},\n"
        "  {\"device-id\":\"4712\",\"data\":{\"via\":\"gw-1\"}},\n"
        "  {\"device-id\":\"gw-1\",\"comment\":\"c\",\"data\":{}}]}]");
    read_text("[{\"tenant\":\"T1\",\"credentials\":[\n"
              "  {\"device-id\":\"4711\",\"type\":\"psk\",\"auth-id\":\"s1\",\"secrets\":[{\"key\":\"AAAA\"}]},\n"
              "  {\"device-id\":\"gw-1\",\"type\":\"psk\",\"auth-id\":\"s1\",\"secrets\":[{\"key\":\"AAAA\"}],\"note\":1},\n"
              "  {\"device-id\":\"gw-1\",\"type\":\"token\",\"auth-id\":\"s1\"},\n"
              "  {\"device-id\":\"4711\",\"type\":\"x509-cert\",\"auth-id\":\"CN=d\",\"secrets\":[{\"y\":1}]}]}]");
    import_hono_check(&import_fixture.list);
    check_tenant("T1", "{\"enabled\":true,\"trusted-ca\":[{\"public-key\":\"AAAA\",\"subject-dn\":\"CN=ca\"}]}");
    check_tenant("T2", "{\"adapters\":[{\"ext\":{\"x\":\"y\"},\"type\":\"hono-http\"}],\"ext\":{\"custom\":1}}");
    check_device("T1", "4711", "{\"enabled\":true,\"defaults\":{\"importance\":\"high\"},\"ext\":{\"comment\":[\"a\"]}}",
                 PSK ",{\"type\":\"x509-cert\",\"auth-id\":\"CN=d\",\"secrets\":[{}]}");
    check_device("T1", "4712", "{\"via\":\"gw-1\"}", NULL);
    check_device("T1", "gw-1", "{}",
                 "{\"type\":\"psk\",\"auth-id\":\"s1\",\"secrets\":[{\"key\":\"AAAA\"}],\"ext\":{\"note\":1}}");
    assert_int_equal(import_fixture.list.n_tenants, 2);
    assert_int_equal(import_fixture.list.n_devices, 3);
    assert_int_equal(import_fixture.list.n_lost, 3);
    assert_string_equal(import_fixture.told, "(moved) 1: T2: Tenant.custom is in ext now\n"
                                             "(moved) 1: T2: Adapter.x is in ext now\n"
                                             "(moved) 2: T1/4711: Device.comment is in ext now\n"
                                             "2: T1/gw-1: comment is left out\n"
                                             "(moved) 1: T1/gw-1: PSKCredentials.note is in ext now\n"
                                             "1: T1/gw-1: there are no credentials of the type token here\n"
                                             "1: T1/4711: X509CertificateSecret.y is left out\n");
}

/* As mongoexport writes the collections. */
static void documents_of_the_mongodb_based_registry_are_read(void **state)
{
    (void)state;
    read_text("{\"_id\":{\"$oid\":\"1\"},\"tenant-id\":\"T1\",\"device-id\":\"d1\",\"credentials\":[" PSK
              "],\"version\":\"v\"}\n"
              "{\"_id\":{\"$oid\":\"2\"},\"tenant-id\":\"T1\",\"device-id\":\"d2\",\"credentials\":[]}\n"
              "{\"_id\":{\"$oid\":\"3\"},\"tenant-id\":\"T1\",\"device-id\":\"d3\",\"credentials\":[]}\r\n"
              "{\"tenant-id\":\"T1\",\"tenant\":{\"enabled\":true},\"created\":{\"$date\":\"2026-01-01T00:00:00Z\"}}\n"
              "\n"
              "{\"tenant-id\":\"T1\",\"device-id\":\"d1\",\"device\":{\"enabled\":true},\"auto-provisioned\":false}\n"
              "{\"tenant-id\":\"T1\",\"device-id\":\"d2\",\"device\":{\"memberOf\":[\"g\"]}}\n"
              "{\"tenant-id\":\"T1\",\"device-id\":\"d2\",\"device\":{}}\n");
    import_hono_check(&import_fixture.list);
    check_tenant("T1", "{\"enabled\":true}");
    check_device("T1", "d1", "{\"enabled\":true}", PSK);
    check_device("T1", "d2", "{\"memberOf\":[\"g\"]}", "");
    assert_true(import_list_find(&import_fixture.list, STR("T1"), STR("d3"))->is_orphan);
    assert_false(import_list_find(&import_fixture.list, STR("T1"), STR("d2"))->is_orphan);
    assert_int_equal(import_fixture.list.n_failed_devices, 1);
    assert_string_equal(import_fixture.told,
                        "8: T1/d2 is there twice\n3: T1/d3: the device of these credentials is in none of the files\n");
}

static void what_the_management_interface_shows_is_read(void **state)
{
    static const char rows[] =
        "{\"total\":2,\"result\":[{\"id\":\"a\",\"enabled\":true,\"status\":{\"created\":\"x\"}},{\"id\":\"b\"}]}";

    (void)state;
    read_text(rows);
    check_tenant("b", "{}");
    assert_string_equal(import_fixture.told, "(moved) 1: a: Tenant.status is in ext now\n");
    assert_int_equal(import_fixture.list.n_tenants, 2);
    import_fixture.list.only_tenant = "T1";
    read_text(rows);
    check_device("T1", "a", "{\"enabled\":true,\"status\":{\"created\":\"x\"}}", NULL);
    read_text("{\"id\":\"c\",\"device\":{\"via\":\"a\"},\"credentials\":[" PSK "]}\n{\"id\":\"e\",\"credentials\":[]}");
    check_device("T1", "c", "{\"via\":\"a\"}", PSK);
    check_device("T1", "e", "{}", "");
    assert_int_equal(import_fixture.list.n_devices, 4);
}

static void others_tenants_are_skipped_and_counted(void **state)
{
    (void)state;
    import_fixture.list.only_tenant = "T1";
    read_text("[{\"tenant-id\":\"T1\"},{\"tenant-id\":\"T2\"}]"
              "[{\"tenant\":\"T2\",\"devices\":[{\"device-id\":\"a\",\"x\":1},{\"device-id\":\"b\"}]},"
              "{\"tenant\":\"T2\",\"credentials\":[{\"device-id\":\"a\",\"type\":\"token\"}]}]"
              "{\"tenant-id\":\"T2\",\"device-id\":\"c\",\"credentials\":[1]}");
    import_hono_check(&import_fixture.list);
    assert_string_equal(import_fixture.told, "");
    assert_int_equal(import_fixture.list.n_tenants, 1);
    assert_int_equal(import_fixture.list.n_skipped_tenants, 1);
    assert_int_equal(import_fixture.list.n_skipped_devices, 2);
    assert_int_equal(import_fixture.list.n_devices, 0);
}

static void what_is_no_export_is_told(void **state)
{
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"[1]", "1: is neither a tenant nor a device"},
        {"\n\n{\"x\":1}", "3: is neither a tenant nor a device"},
        {"{\"id\":\"d\",\"device\":{}}", "the tenant of d is not known: --tenant"},
        {"{\"tenant\":\"T\",\"devices\":[{}]}", "a device of T has no id"},
        {"{\"tenant\":\"T\",\"credentials\":[{}]}", "credentials without a tenant or a device"},
        {"{\"tenant-id\":\"\"}", "a tenant has no id"},
        {"[{\"tenant-id\":\"T\"},{\"tenant-id\":\"T\"}]", "tenant T is there twice"},
    };
    static const struct {
        const char *text, *error;
    } faults[] = {
        {"[]\n\n{\"a\":\n1", "f:4: "},
        {"nonsense", "f:1: "},
        {"{\"a\":1,\"a\":2}", "duplicate"},
    };
    struct errinfo ei = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(set_up(NULL), 0);
        read_text(rows[i].text);
        if (!strstr(import_fixture.told, rows[i].told))
            fail_msg("%s: %s", rows[i].text, import_fixture.told);
        assert_int_equal(import_fixture.list.n_lost, 1);
        assert_int_equal(import_fixture_tear_down(NULL), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        assert_int_equal(import_hono_read(&import_fixture.list, "f", str_from(faults[i].text), &ei), E_INVAL);
        if (!strstr(ei.text, faults[i].error))
            fail_msg("%s: %s", faults[i].text, ei.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, import_fixture_tear_down)
        TEST(files_of_the_file_based_registry_are_read),
        TEST(documents_of_the_mongodb_based_registry_are_read),
        TEST(what_the_management_interface_shows_is_read),
        TEST(others_tenants_are_skipped_and_counted),
        TEST(what_is_no_export_is_told),
    };

    return cmocka_run_group_tests_name("import_hono", tests, NULL, NULL);
}
