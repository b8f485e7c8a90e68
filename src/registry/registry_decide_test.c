#include "registry/registry_decide.h"

#include <stdio.h>

#include "registry/table_fixture_test.h"

#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/registry_key.h"
#include "registry/registry_request.h"
#include "registry/tenant_document.h"

static const struct table_ops ops = {.decide = registry_decide};
static struct table t = {.ops = &ops};
static struct registry_reply reply;

static int tear_down(void **state)
{
    (void)state;
    table_fixture_free(&t);
    return 0;
}

struct ask {
    enum registry_op op;
    const char *args[5]; /* tenant, device, document, credentials, If-Match; NULL: not given */
};

static json_t *read_document(const char *json, enum registry_op op, bool is_credentials)
{
    struct document_fault fault = {0};
    json_t *value = NULL;
    err e;

    if (!json)
        return NULL;
    e = document_parse(str_from(json), false, &value, &fault);
    if (e == E_OK && (is_credentials || op == REGISTRY_CREDENTIALS_UPDATE))
        e = credentials_document_normalise(value, 10, &fault);
    else if (e == E_OK && op <= REGISTRY_TENANT_DELETE)
        e = tenant_document_normalise(value, &fault);
    else if (e == E_OK)
        e = device_document_normalise(value, &fault);
    if (e != E_OK)
        fail_msg("%s: %s %s", json, fault.field, fault.text);
    return value;
}

/* The status of the refusal, 0 when it was accepted. Versions are v1, v2 ... */
static int ask(struct ask a)
{
    static unsigned n_asked;
    char version[16];
    struct buf request = {0}, answer = {0};
    struct registry_request r = {
        .op = a.op,
        .tenant = str_from(a.args[0]),
        .device = str_from(a.args[1]),
        .if_match = str_from(a.args[4]),
        .version = {version, (size_t)snprintf(version, sizeof version, "v%u", ++n_asked)},
        .at = STR("2026-01-01T00:00:00Z"),
        .user = STR("admin"),
        .source = STR("api"),
        .document = read_document(a.args[2], a.op, false),
        .credentials = read_document(a.args[3], a.op, true),
    };
    enum table_verdict verdict;

    assert_int_equal(registry_request_write(&r, &request), E_OK);
    verdict = table_fixture_decide(&t, buf_str(&request), &answer);
    assert_int_equal(registry_request_read_reply(buf_str(&answer), &reply), E_OK);
    assert_int_equal(verdict == TABLE_REFUSED, reply.fault.status != 0);
    buf_free(&request, MEM_REGISTRY);
    buf_free(&answer, MEM_TABLE);
    json_decref(r.document);
    json_decref(r.credentials);
    return reply.fault.status;
}

#define TENANT_CREATE(...) ask((struct ask){REGISTRY_TENANT_CREATE, {__VA_ARGS__}})
#define DEVICE_CREATE(...) ask((struct ask){REGISTRY_DEVICE_CREATE, {__VA_ARGS__}})

static json_t *state_at(struct registry_key key)
{
    struct table_item item;

    if (!table_fixture_get(&t, registry_key_str(&key), &item))
        return NULL;
    return json_loadb(item.value.p, item.value.n, 0, NULL);
}

static char *version_at(struct registry_key key)
{
    static char version[32];
    json_t *state = state_at(key);

    assert_non_null(state);
    snprintf(version, sizeof version, "%s", json_string_value(json_object_get(state, "version")));
    json_decref(state);
    return version;
}

static bool has(struct registry_key key)
{
    struct table_item item;

    return table_fixture_get(&t, registry_key_str(&key), &item);
}

#define PASSWORD(auth_id)                                                                                                      \
    "[{\"type\":\"hashed-password\",\"auth-id\":\"" auth_id                                                                    \
    "\",\"secrets\":[{\"pwd-hash\":\"E2Ab2k6njlWge5iGbSvmvgdE44ZvE8AMgRyrYIoo8yI=\"}]}]"

static void requests_are_accepted_and_refused_by_what_is_there(void **state)
{
    static const struct {
        struct ask ask;
        int want;
        const char *field;
    } rows[] = {
        {{REGISTRY_DEVICE_CREATE, {"t1", "d1", "{}"}}, 404, ""},
        {{REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}"}}, 404, ""},
        {{REGISTRY_TENANT_DELETE, {"t1"}}, 404, ""},
        {{REGISTRY_TENANT_CREATE, {"t1", NULL, "{\"alias\":\"acme\"}"}}, 0, ""},
        {{REGISTRY_TENANT_CREATE, {"t1", NULL, "{}"}}, 409, ""},
        {{REGISTRY_TENANT_CREATE, {"acme", NULL, "{}"}}, 409, ""},
        {{REGISTRY_TENANT_CREATE, {"t2", NULL, "{\"alias\":\"acme\"}"}}, 409, "/alias"},
        {{REGISTRY_TENANT_CREATE, {"t2", NULL, "{\"alias\":\"t1\"}"}}, 409, "/alias"},
        {{REGISTRY_TENANT_UPDATE,
          {"t1", NULL,
           "{\"alias\":\"acme\",\"registration-limits\":{\"max-devices\":2,"
           "\"max-credentials-per-device\":1}}"}},
         0,
         ""},
        {{REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}", NULL, "v0"}}, 412, ""},
        {{REGISTRY_DEVICE_UPDATE, {"t1", "d1", "{}"}}, 404, ""},
        {{REGISTRY_DEVICE_DELETE, {"t1", "d1"}}, 404, ""},
        {{REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", "[]"}}, 404, ""},
        {{REGISTRY_DEVICE_CREATE, {"t1", "d1", "{}"}}, 0, ""},
        {{REGISTRY_DEVICE_CREATE, {"t1", "d1", "{}"}}, 409, ""},
        {{REGISTRY_DEVICE_CREATE, {"t1", "d2", "{\"via\":\"g1\"}", PASSWORD("a2")}}, 0, ""},
        {{REGISTRY_DEVICE_CREATE, {"t1", "d3", "{}"}}, 403, ""},
        {{REGISTRY_DEVICE_UPDATE, {"t1", "d1", "{}", NULL, "v0"}}, 412, ""},
        {{REGISTRY_DEVICE_DELETE, {"t1", "d1", NULL, NULL, "v0"}}, 412, ""},
        {{REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", PASSWORD("a1")}}, 0, ""},
        {{REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", PASSWORD("a1")}}, 0, ""},
        {{REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", PASSWORD("a2")}}, 409, "/0/auth-id"},
        {{REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", "[]", NULL, "v0"}}, 412, ""},
        {{REGISTRY_CREDENTIALS_UPDATE,
          {"t1", "d1",
           "[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"key\":\"AAAA\"}]},{\"type\":\"psk\",\"auth-id\":\"b\","
           "\"secrets\":[{\"key\":\"AAAA\"}]}]"}},
         403,
         ""},
        {{REGISTRY_CREDENTIALS_UPDATE,
          {"t1", "d1", "[{\"type\":\"psk\",\"auth-id\":\"a2\",\"secrets\":[{\"key\":\"AAAA\"}]}]"}},
         0,
         ""},
        {{REGISTRY_CREDENTIALS_UPDATE,
          {"t1", "d1", "[{\"type\":\"psk\",\"auth-id\":\"a2\",\"secrets\":[{\"id\":\"unknown\"}]}]"}},
         400,
         "/0/secrets/0/id"},
        {{REGISTRY_TENANT_CREATE, {"t2", NULL, "{}"}}, 0, ""},
        {{REGISTRY_DEVICE_CREATE, {"t2", "d1", "{}", PASSWORD("a2")}}, 0, ""}, /* tenants share no log-ins */
        {{REGISTRY_DEVICE_DELETE, {"t1", "d1"}}, 0, ""},
        {{REGISTRY_DEVICE_CREATE, {"t1", "d3", "{}"}}, 0, ""},
        {{REGISTRY_TENANT_DELETE, {"t1", NULL, NULL, NULL, "v0"}}, 412, ""},
        {{REGISTRY_TENANT_DELETE, {"t1"}}, 0, ""},
        {{REGISTRY_TENANT_CREATE, {"acme", NULL, "{\"alias\":\"t1\"}"}}, 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = ask(rows[i].ask);

        if (status != rows[i].want || strcmp(reply.fault.field, rows[i].field) != 0)
            fail_msg("row %zu: %d \"%s\" %s", i, status, reply.fault.field, reply.fault.text);
        if (status)
            assert_int_not_equal(strlen(reply.fault.text), 0);
    }
}

static void nothing_is_left_of_a_device_or_tenant(void **state)
{
    (void)state;
    assert_int_equal(TENANT_CREATE("t1", NULL, "{\"alias\":\"acme\"}"), 0);
    assert_int_equal(TENANT_CREATE("t2", NULL, "{}"), 0);
    assert_int_equal(t.count, 3);
    assert_int_equal(DEVICE_CREATE("t1", "d1", "{\"via\":[\"g1\",\"g2\"]}", PASSWORD("a1")), 0);
    assert_int_equal(DEVICE_CREATE("t1", "g1", "{\"memberOf\":\"all\"}", PASSWORD("ga")), 0);
    assert_true(has(registry_key_via(STR("t1"), STR("g2"), STR("d1"))));
    assert_true(has(registry_key_member(STR("t1"), STR("all"), STR("g1"))));
    assert_true(has(registry_key_login(STR("t1"), STR("hashed-password"), STR("a1"))));
    assert_int_equal(ask((struct ask){REGISTRY_DEVICE_UPDATE, {"t1", "d1", "{\"via\":[\"g1\"]}"}}), 0);
    assert_false(has(registry_key_via(STR("t1"), STR("g2"), STR("d1"))));
    assert_int_equal(ask((struct ask){REGISTRY_DEVICE_DELETE, {"t1", "d1"}}), 0);
    assert_int_equal(t.count, 3 + 5); /* device, credentials, log-in, group, count */
    assert_int_equal(ask((struct ask){REGISTRY_DEVICES_DELETE, {"t1"}}), 0);
    assert_int_equal(t.count, 3);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t1"}}), 0);
    assert_int_equal(t.count, 1);
}

static void many_devices_are_deleted_some_at_a_time(void **state)
{
    enum { DEVICES = 2 * REGISTRY_DELETED_AT_ONCE + 1 };

    (void)state;
    assert_int_equal(TENANT_CREATE("t1", NULL, "{\"alias\":\"acme\"}"), 0);
    for (int i = 0; i < DEVICES; i++) {
        char id[16];

        snprintf(id, sizeof id, "d%d", i);
        assert_int_equal(DEVICE_CREATE("t1", id, "{}"), 0);
    }
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t1"}}), 0);
    assert_true(reply.has_more);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}"}}), 404); /* it is as good as gone */
    assert_int_equal(DEVICE_CREATE("t1", "new", "{}"), 404);
    assert_int_equal(TENANT_CREATE("t1", NULL, "{}"), 409);
    assert_int_equal(TENANT_CREATE("acme", NULL, "{}"), 0); /* the alias is free */
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t1", NULL, NULL, NULL, "v0"}}), 0);
    assert_true(reply.has_more);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t1"}}), 0);
    assert_false(reply.has_more);
    assert_int_equal(t.count, 1 + 0);
    assert_int_equal(TENANT_CREATE("t1", NULL, "{}"), 0);
}

static void versions_change_with_each_write(void **state)
{
    char first[32];
    json_t *device;

    (void)state;
    assert_int_equal(TENANT_CREATE("t1", NULL, "{}"), 0);
    strcpy(first, version_at(registry_key_tenant(STR("t1"))));
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}", NULL, first}}), 0);
    assert_string_not_equal(first, version_at(registry_key_tenant(STR("t1"))));
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}", NULL, first}}), 412);
    assert_int_equal(DEVICE_CREATE("t1", "d1", "{}"), 0);
    strcpy(first, version_at(registry_key_device(STR("t1"), STR("d1"))));
    assert_int_equal(ask((struct ask){REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", "[]", NULL, first}}),
                     0); /* none: the device's */
    assert_int_equal(ask((struct ask){REGISTRY_CREDENTIALS_UPDATE, {"t1", "d1", "[]", NULL, first}}), 412);
    assert_int_equal(ask((struct ask){REGISTRY_DEVICE_UPDATE, {"t1", "d1", "{\"enabled\":false}", NULL, first}}), 0);
    device = state_at(registry_key_device(STR("t1"), STR("d1")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(device, "status"), "created")),
                        "2026-01-01T00:00:00Z");
    assert_string_equal(json_string_value(json_object_get(json_object_get(device, "status"), "last-user")), "admin");
    assert_string_equal(json_string_value(json_object_get(device, "source")), "api");
    json_decref(device);
}

/* The keys of CAs need no certificate here. */
static int put_ca(enum registry_op op, const char *tenant, const char *dn, const char *group)
{
    char json[512];
    struct buf request = {0}, answer = {0};

    snprintf(json, sizeof json,
             "{\"v\":1,\"op\":\"%s\",\"tenant\":\"%s\",\"version\":\"v\",\"at\":\"\",\"source\":\"api\",\"document\":{"
             "\"trusted-ca\":[{\"subject-dn\":\"%s\","
             "\"auth-id-template\":\"{{subject-cn}}\"}]%s%s%s}}",
             registry_request_op_name(op), tenant, dn, group ? ",\"trust-anchor-group\":\"" : "", group ? group : "",
             group ? "\"" : "");
    assert_int_equal(buf_append(&request, MEM_REGISTRY, str_from(json)), E_OK);
    (void)table_fixture_decide(&t, buf_str(&request), &answer);
    assert_int_equal(registry_request_read_reply(buf_str(&answer), &reply), E_OK);
    buf_free(&request, MEM_REGISTRY);
    buf_free(&answer, MEM_TABLE);
    return reply.fault.status;
}

static void a_ca_belongs_to_one_tenant_or_one_group(void **state)
{
    (void)state;
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t1", "CN=a", NULL), 0);
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t2", "CN=a", NULL), 409);
    assert_string_equal(reply.fault.field, "/trusted-ca/0/subject-dn");
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t2", "CN=a", "g"), 409);
    assert_int_equal(put_ca(REGISTRY_TENANT_UPDATE, "t1", "CN=a", "g"), 0);
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t2", "CN=a", "other"), 409);
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t2", "CN=a", "g"), 0);
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t3", "CN=a", "g"), 0);
    assert_int_equal(put_ca(REGISTRY_TENANT_UPDATE, "t1", "CN=a", NULL), 409); /* not out of the group while others trust it */
    assert_int_equal(put_ca(REGISTRY_TENANT_UPDATE, "t1", "CN=b", NULL), 0);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t2"}}), 0);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t3"}}), 0);
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t4", "CN=a", NULL), 0);
}

static void an_auth_id_comes_from_the_template_of_the_ca(void **state)
{
    static const char request[] =
        "{\"v\":1,\"op\":\"credentials-update\",\"tenant\":\"t1\",\"device\":\"d1\",\"version\":\"v\",\"document\":"
        "[{\"type\":\"x509-cert\",\"auth-id\":\"CN=s4,O=acme\",\"issuer-dn\":\"%s\",\"secrets\":[{\"id\":\"x\",\"is-new\":true}"
        "]}]}";
    static const struct {
        const char *issuer, *want;
    } rows[] = {{"CN=a", "s4"}, {"CN=b", "CN=s4,O=acme"}};
    char text[512];

    (void)state;
    assert_int_equal(put_ca(REGISTRY_TENANT_CREATE, "t1", "CN=a", NULL), 0);
    assert_int_equal(DEVICE_CREATE("t1", "d1", "{}"), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf answer = {0};

        snprintf(text, sizeof text, request, rows[i].issuer);
        assert_int_equal(table_fixture_decide(&t, str_from(text), &answer), TABLE_ACCEPTED);
        buf_free(&answer, MEM_TABLE);
        assert_true(has(registry_key_login(STR("t1"), STR("x509-cert"), str_from(rows[i].want))));
    }
    assert_false(has(registry_key_login(STR("t1"), STR("x509-cert"), STR("s4"))));
}

static void requests_of_another_kind_are_refused(void **state)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"", 503},
        {"nonsense", 503},
        {"{\"v\":2,\"op\":\"tenant-create\",\"tenant\":\"t\",\"document\":{}}", 503},
        {"{\"v\":1,\"op\":\"tenant-rename\",\"tenant\":\"t\",\"document\":{}}", 503},
        {"{\"v\":1,\"op\":\"tenant-create\",\"tenant\":\"a/b\",\"document\":{}}", 400},
        {"{\"v\":1,\"op\":\"tenant-create\",\"tenant\":\"t\"}", 400},
        {"{\"v\":1,\"op\":\"tenant-create\",\"tenant\":\"t\",\"document\":[]}", 400},
        {"{\"v\":1,\"op\":\"device-create\",\"tenant\":\"t\",\"document\":{}}", 400},
        {"{\"v\":1,\"op\":\"tenant-update\",\"tenant\":\"t\",\"document\":{}}", 404}, /* nor time, user or version */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf answer = {0};

        assert_int_equal(table_fixture_decide(&t, str_from(rows[i].request), &answer), TABLE_REFUSED);
        assert_int_equal(registry_request_read_reply(buf_str(&answer), &reply), E_OK);
        assert_int_equal(reply.fault.status, rows[i].status);
        buf_free(&answer, MEM_TABLE);
    }
    assert_int_equal(t.count, 0);
}

static void parts_of_any_length_make_keys(void **state)
{
    static char name[3000], request[8000];
    struct buf answer = {0};

    (void)state;
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(TENANT_CREATE("t1", NULL, "{}"), 0);
    snprintf(request, sizeof request,
             "{\"v\":1,\"op\":\"device-create\",\"tenant\":\"t1\",\"device\":\"d1\",\"document\":{\"via\":[\"%s\"]},"
             "\"credentials\":[{\"type\":\"%s\",\"auth-id\":\"a\"},5]}",
             name, name);
    assert_int_equal(table_fixture_decide(&t, str_from(request), &answer), TABLE_ACCEPTED);
    buf_free(&answer, MEM_TABLE);
}

static void states_of_a_later_version_are_left_alone(void **state)
{
    struct registry_key key = registry_key_tenant(STR("t1"));
    struct table_txn txn = {&t};

    (void)state;
    assert_int_equal(table_txn_put(&txn, registry_key_str(&key), STR("{\"v\":2,\"shape\":\"unknown\"}")), E_OK);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_UPDATE, {"t1", NULL, "{}"}}), 503);
    assert_int_equal(ask((struct ask){REGISTRY_TENANT_DELETE, {"t1"}}), 503);
    assert_int_equal(DEVICE_CREATE("t1", "d1", "{}"), 503);
    assert_int_equal(TENANT_CREATE("t1", NULL, "{}"), 409);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(requests_are_accepted_and_refused_by_what_is_there, tear_down),
        cmocka_unit_test_teardown(nothing_is_left_of_a_device_or_tenant, tear_down),
        cmocka_unit_test_teardown(many_devices_are_deleted_some_at_a_time, tear_down),
        cmocka_unit_test_teardown(versions_change_with_each_write, tear_down),
        cmocka_unit_test_teardown(a_ca_belongs_to_one_tenant_or_one_group, tear_down),
        cmocka_unit_test_teardown(an_auth_id_comes_from_the_template_of_the_ca, tear_down),
        cmocka_unit_test_teardown(requests_of_another_kind_are_refused, tear_down),
        cmocka_unit_test_teardown(parts_of_any_length_make_keys, tear_down),
        cmocka_unit_test_teardown(states_of_a_later_version_are_left_alone, tear_down),
    };

    return cmocka_run_group_tests_name("registry_decide", tests, NULL, NULL);
}
