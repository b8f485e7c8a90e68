#include "registry/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static const char text[] = "kafka: {bootstrap: k:9092}\n"
                           "listeners: [{mqtt: \"127.0.0.1:1883\"}]\n"
                           "tenants:\n"
                           "  demo:\n"
                           "    defaults: {ttl: 60}\n"
                           "    resource-limits: {max-ttl: 3600}\n"
                           "    devices:\n"
                           "      sensor-1: {password: right, defaults: {a: b}}\n"
                           "      gateway-1: {auth_id: gw, password: right}\n"
                           "      gateway-2: {password: right, enabled: false}\n"
                           "      sensor-2: {via: [gateway-1, gateway-2]}\n"
                           "      broken: {password: right, enabled: false}\n"
                           "  other:\n"
                           "    devices: {sensor-1: {password: elsewhere}}\n"
                           "  http-only:\n"
                           "    adapters: [{type: hono-http, enabled: true}, {type: hono-mqtt}]\n"
                           "    devices: {d: {password: right}}\n"
                           "  off:\n"
                           "    enabled: false\n"
                           "    devices: {d: {password: right}}\n";

static int open_registry(void **state)
{
    static struct config_errors errors;
    struct config_source source = {.text = STR_INIT(text), .name = "test.yaml"};
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK) {
        print_error("line %u: %s\n", errors.items[0].line, errors.items[0].text);
        return -1;
    }
    *state = registry_new(config);
    config_unref(config); /* the registry has its own */
    return 0;
}

static int close_registry(void **state)
{
    registry_unref(*state);
    return mem_used(MEM_REGISTRY) != 0 || mem_used(MEM_CONFIG) != 0;
}

/* A login by name and password (NULL: none) at a listener of `tenant`. */
static struct registry_login login(const char *tenant, const char *user_name, const char *password)
{
    return (struct registry_login){
        .tenant = str_from(tenant),
        .adapter = CONFIG_ADAPTER_MQTT,
        .has_user_name = user_name != NULL,
        .user_name = str_from(user_name),
        .has_password = password != NULL,
        .password = str_from(password),
    };
}

static void names_and_passwords_decide_who_enters(void **state)
{
    static const struct {
        const char *listener_tenant, *user_name, *password;
        enum registry_result want;
        const char *tenant, *device;
    } rows[] = {
        {"", "sensor-1@demo", "right", REGISTRY_OK, "demo", "sensor-1"},
        {"demo", "sensor-1", "right", REGISTRY_OK, "demo", "sensor-1"},
        {"demo", "sensor-1@other", "elsewhere", REGISTRY_OK, "other", "sensor-1"},
        {"demo", "gw", "right", REGISTRY_OK, "demo", "gateway-1"}, /* by auth id, not by device id */
        {"demo", "gateway-1", "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1@demo", "wrong", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1@demo", "", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1@demo", NULL, REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1@other", "right", REGISTRY_BAD_CREDENTIALS, 0, 0}, /* tenants share nothing */
        {"", "sensor-1@nowhere", "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "nobody@demo", "nobody's password", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1", "right", REGISTRY_BAD_CREDENTIALS, 0, 0}, /* of no tenant */
        {"", "sensor-1@", "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "@demo", "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "sensor-1@demo@demo", "right", REGISTRY_BAD_CREDENTIALS, 0, 0}, /* split at the first @ */
        {"", "sensor-2@demo", "", REGISTRY_BAD_CREDENTIALS, 0, 0},           /* has no password */
        {"", "sensor-2@demo", NULL, REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "d@off", "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
        {"", "d@http-only", "right", REGISTRY_ADAPTER_DISABLED, 0, 0},
        {"", "broken@demo", "right", REGISTRY_DEVICE_DISABLED, 0, 0},
        {"", "broken@demo", "wrong", REGISTRY_BAD_CREDENTIALS, 0, 0}, /* nothing is told to a stranger */
        {"demo", NULL, NULL, REGISTRY_BAD_CREDENTIALS, 0, 0},         /* anonymous is not allowed here */
        {"demo", NULL, "right", REGISTRY_BAD_CREDENTIALS, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_login ask = login(rows[i].listener_tenant, rows[i].user_name, rows[i].password);
        struct principal who = {0};
        enum registry_result result = registry_authenticate(*state, &ask, &who);

        if (result != rows[i].want)
            fail_msg("row %zu: %s", i, registry_result_name(result));
        if (result == REGISTRY_OK) {
            assert_string_equal(who.tenant->id.p, rows[i].tenant);
            assert_string_equal(who.device->id.p, rows[i].device);
        } else {
            assert_null(who.tenant);
        }
        principal_release(&who);
    }
}

static void the_adapter_that_asks_must_be_one_of_the_tenant(void **state)
{
    struct registry_login ask = login("", "d@http-only", "right");
    struct principal who;

    ask.adapter = CONFIG_ADAPTER_HTTP;
    assert_int_equal(registry_authenticate(*state, &ask, &who), REGISTRY_OK);
    principal_release(&who);
    ask.adapter = CONFIG_ADAPTER_COAP;
    assert_int_equal(registry_authenticate(*state, &ask, &who), REGISTRY_ADAPTER_DISABLED);
}

static void a_listener_can_keep_other_tenants_out(void **state)
{
    struct registry_login own = login("demo", "sensor-1@demo", "right"), other = login("demo", "sensor-1@other", "elsewhere");
    struct principal who;

    own.is_tenant_fixed = other.is_tenant_fixed = true;
    assert_int_equal(registry_authenticate(*state, &own, &who), REGISTRY_OK);
    principal_release(&who);
    assert_int_equal(registry_authenticate(*state, &other, &who), REGISTRY_TENANT_REFUSED);
    other.user_name = STR("sensor-1@nowhere"); /* nor does it tell which tenants there are */
    assert_int_equal(registry_authenticate(*state, &other, &who), REGISTRY_TENANT_REFUSED);
}

static void anonymous_clients_have_the_listeners_tenant_and_no_device(void **state)
{
    static const struct {
        const char *tenant, *password;
        enum registry_result want;
    } rows[] = {
        {"demo", NULL, REGISTRY_OK},
        {"demo", "some", REGISTRY_BAD_CREDENTIALS}, /* a password of nobody */
        {"off", NULL, REGISTRY_BAD_CREDENTIALS},
        {"nowhere", NULL, REGISTRY_BAD_CREDENTIALS},
        {"", NULL, REGISTRY_BAD_CREDENTIALS},
        {"http-only", NULL, REGISTRY_ADAPTER_DISABLED},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_login ask = login(rows[i].tenant, i % 2 ? NULL : "", rows[i].password);
        struct principal who = {0};

        ask.is_anonymous_allowed = true;
        assert_int_equal(registry_authenticate(*state, &ask, &who), rows[i].want);
        assert_null(who.device);
        if (rows[i].want == REGISTRY_OK)
            assert_string_equal(who.tenant->id.p, rows[i].tenant);
        principal_release(&who);
    }
}

static void a_principal_outlives_the_registry_it_came_from(void **state)
{
    struct registry_login ask = login("", "gw@demo", "right");
    struct principal who, copy, nobody = {0};

    assert_int_equal(registry_authenticate(*state, &ask, &who), REGISTRY_OK);
    registry_unref(*state);
    *state = NULL;
    copy = principal_copy(&who);
    principal_release(&who);
    assert_null(who.tenant);
    assert_string_equal(copy.device->id.p, "gateway-1");
    assert_true(copy.device->is_gateway);
    assert_int_equal(copy.tenant->limits->max_ttl_s, 3600);
    principal_release(&copy);
    principal_release(&nobody);
    assert_null(principal_copy(&nobody).tenant);
}

static void an_assertion_follows_section_6_1(void **state)
{
    static const struct {
        const char *tenant, *device, *gateway;
        enum registry_assertion want;
        int status;
    } rows[] = {
        {"demo", "sensor-1", "", REGISTRY_ASSERTED, 200},
        {"demo", "sensor-1", "sensor-1", REGISTRY_ASSERTED, 200},
        {"demo", "sensor-2", "gateway-1", REGISTRY_ASSERTED, 200},
        {"demo", "sensor-2", "", REGISTRY_ASSERTED, 200},
        {"demo", "sensor-1", "gateway-1", REGISTRY_NOT_AUTHORISED, 403},
        {"demo", "gateway-1", "sensor-2", REGISTRY_NOT_AUTHORISED, 403}, /* one way only */
        {"demo", "sensor-2", "gateway-2", REGISTRY_NO_GATEWAY, 403},     /* disabled */
        {"demo", "sensor-2", "gateway-3", REGISTRY_NO_GATEWAY, 403},
        {"demo", "sensor-9", "gateway-1", REGISTRY_NO_DEVICE, 404},
        {"demo", "sensor-9", "gateway-3", REGISTRY_NO_DEVICE, 404}, /* the device is asked for first */
        {"demo", "broken", "", REGISTRY_NO_DEVICE, 404},
        {"nowhere", "sensor-1", "", REGISTRY_NO_TENANT, 404},
        {"off", "d", "", REGISTRY_NO_TENANT, 404},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registration found = {0};
        enum registry_assertion result =
            registry_assert(*state, str_from(rows[i].tenant), str_from(rows[i].device), str_from(rows[i].gateway), &found);

        if (result != rows[i].want)
            fail_msg("row %zu: %s", i, registry_assertion_name(result));
        assert_int_equal(registry_assertion_status(result), rows[i].status);
        assert_int_equal(found.device != NULL, result == REGISTRY_ASSERTED);
        assert_int_equal(found.gateway != NULL, i == 2);
    }
}

static void entries_tell_what_headers_and_limits_need(void **state)
{
    struct registration found;

    assert_int_equal(registry_assert(*state, STR("demo"), STR("sensor-1"), STR(""), &found), REGISTRY_ASSERTED);
    assert_string_equal(found.tenant->defaults->items[0].name.p, "ttl");
    assert_string_equal(found.device->defaults->items[0].value.p, "b");
    assert_false(found.device->is_gateway || found.device->has_gateways);
    assert_int_equal(registry_assert(*state, STR("demo"), STR("sensor-2"), STR("gateway-1"), &found), REGISTRY_ASSERTED);
    assert_true(found.device->has_gateways && found.gateway->is_gateway);
}

static void tenants_are_listed_in_the_order_of_the_file(void **state)
{
    static const char *const want[] = {"demo", "other", "http-only", "off"};

    assert_int_equal(registry_tenant_count(*state), ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_string_equal(registry_tenant_at(*state, i)->id.p, want[i]);
        assert_ptr_equal(registry_find_tenant(*state, str_from(want[i])), registry_tenant_at(*state, i));
    }
    assert_false(registry_tenant_at(*state, 3)->is_enabled);
    assert_null(registry_find_tenant(*state, STR("nowhere")));
}

static void every_result_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < REGISTRY_RESULTS; i++)
        assert_non_null(registry_result_name((enum registry_result)i));
    for (int i = 0; i < REGISTRY_ASSERTIONS; i++)
        assert_non_null(registry_assertion_name((enum registry_assertion)i));
}

static struct registry *reload(const char *changed)
{
    static struct config_errors errors;
    struct config_source source = {.text = str_from(changed), .name = "test.yaml"};
    struct registry *registry;
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    registry = registry_new(config);
    config_unref(config);
    return registry;
}

#define CHANGED(tenants) "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\ntenants: " tenants "\n"

static void a_newer_registry_says_what_became_of_a_principal(void **state)
{
    static const struct {
        const char *changed;
        enum registry_standing want;
    } rows[] = {
        {CHANGED("{demo: {devices: {sensor-1: {password: right}}}}"), REGISTRY_STANDS},
        {CHANGED("{demo: {devices: {sensor-1: {password: new}}}}"), REGISTRY_STANDS},
        {CHANGED("{demo: {devices: {sensor-1: {}}}}"), REGISTRY_STANDS},
        {CHANGED("{demo: {devices: {sensor-1: {enabled: false, password: right}}}}"), REGISTRY_BARRED},
        {CHANGED("{demo: {enabled: false, devices: {sensor-1: {password: right}}}}"), REGISTRY_BARRED},
        {CHANGED("{demo: {adapters: [{type: hono-http, enabled: true}], devices: {sensor-1: {}}}}"), REGISTRY_BARRED},
        {CHANGED("{demo: {devices: {sensor-2: {password: right}}}}"), REGISTRY_GONE},
        {CHANGED("{other: {devices: {sensor-1: {password: right}}}}"), REGISTRY_GONE},
        {CHANGED("{}"), REGISTRY_GONE},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_login who = login("", "sensor-1@demo", "right");
        struct registry *newer = reload(rows[i].changed);
        struct principal principal;
        enum registry_standing standing;

        assert_int_equal(registry_authenticate(*state, &who, &principal), REGISTRY_OK);
        standing = registry_refresh(newer, CONFIG_ADAPTER_MQTT, &principal);
        if (standing != rows[i].want)
            fail_msg("row %zu: %d", i, standing);
        assert_true(standing == REGISTRY_GONE || principal.tenant->registry == newer);
        assert_true(str_equal(principal.device->id, STR("sensor-1")));
        assert_int_equal(registry_refresh(*state, CONFIG_ADAPTER_MQTT, &principal), REGISTRY_STANDS); /* the older one */
        principal_release(&principal);
        registry_unref(newer);
    }
}

static void the_older_registry_dies_when_its_principals_have_moved(void **state)
{
    struct registry *older = reload(CHANGED("{demo: {devices: {sensor-1: {password: right}}}}"));
    struct registry *newer = reload(CHANGED("{demo: {devices: {sensor-1: {}, sensor-2: {}}}}"));
    struct registry_login who = login("", "sensor-1@demo", "right");
    int64_t before = mem_used(MEM_REGISTRY);
    struct principal principal;

    (void)state;
    assert_int_equal(registry_authenticate(older, &who, &principal), REGISTRY_OK);
    registry_unref(older);
    assert_int_equal(mem_used(MEM_REGISTRY), before);
    assert_int_equal(registry_refresh(newer, CONFIG_ADAPTER_MQTT, &principal), REGISTRY_STANDS);
    assert_true(mem_used(MEM_REGISTRY) < before);
    principal_release(&principal);
    registry_unref(newer);
}

static void an_anonymous_client_stands_and_falls_with_its_tenant(void **state)
{
    struct registry *newer = reload(CHANGED("{demo: {}}")), *newest = reload(CHANGED("{}"));
    struct registry_login who = login("demo", NULL, NULL);
    struct principal principal;

    who.is_anonymous_allowed = true;
    assert_int_equal(registry_authenticate(*state, &who, &principal), REGISTRY_OK);
    assert_int_equal(registry_refresh(newer, CONFIG_ADAPTER_MQTT, &principal), REGISTRY_STANDS);
    assert_null(principal.device);
    assert_int_equal(registry_refresh(newest, CONFIG_ADAPTER_MQTT, &principal), REGISTRY_GONE);
    principal_release(&principal);
    registry_unref(newer);
    registry_unref(newest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_and_passwords_decide_who_enters, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(the_adapter_that_asks_must_be_one_of_the_tenant, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(a_listener_can_keep_other_tenants_out, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(anonymous_clients_have_the_listeners_tenant_and_no_device, open_registry,
                                        close_registry),
        cmocka_unit_test_setup_teardown(a_principal_outlives_the_registry_it_came_from, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(an_assertion_follows_section_6_1, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(entries_tell_what_headers_and_limits_need, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(tenants_are_listed_in_the_order_of_the_file, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(a_newer_registry_says_what_became_of_a_principal, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(the_older_registry_dies_when_its_principals_have_moved, open_registry, close_registry),
        cmocka_unit_test_setup_teardown(an_anonymous_client_stands_and_falls_with_its_tenant, open_registry, close_registry),
        cmocka_unit_test(every_result_has_a_name),
    };

    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
