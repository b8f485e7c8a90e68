#include "registry/registry_view.h"

#include <stdio.h>

#include "registry/table_fixture_test.h"

#include "base/arena.h"
#include "base/moment.h"
#include "loop/loop.h"
#include "registry/hash_pool.h"
#include "registry/provision.h"
#include "registry/registry_key.h"
#include "registry/registry_wait.h"
#include "registry/secret_hash.h"

enum { MAX_WAITS = 50 };

/* Hash of "geheim", cost 4, and SHA-256 of "saltpassword". */
static char bcrypt[64];
#define SHA "E2Ab2k6njlWge5iGbSvmvgdE44ZvE8AMgRyrYIoo8yI="

static const char config_text[] =
    "kafka: {bootstrap: k:9092}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n"
    "tenants:\n"
    "  fixed: {defaults: {site: config}, devices: {d1: {auth_id: a1, password: pw}, d2: {via: d1}}}\n";

static struct {
    struct loop loop;
    struct table table;
    struct hash_pool *pool;
    struct registry_view *view;
    struct registry *registry;
    struct mail changed;
    unsigned n_changed, n_answers;
    uint64_t version;
} t;

static void on_changed(struct mail *m)
{
    (void)m;
    t.n_changed++;
}

static void on_answer(struct mail *m)
{
    (void)m;
    t.n_answers++;
}

static struct registry *make_registry(void)
{
    static struct config_errors errors;
    struct config_source source = {.text = str_from(config_text), .name = "test.yaml"};
    struct registry *registry;
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    registry = registry_new(config);
    config_unref(config);
    return registry;
}

/* Puts or removes (json NULL) a state and tells of it, as the table does. */
static void put(struct registry_key key, const char *members, const char *json)
{
    struct table_txn txn = {&t.table};
    struct table_change change = {.key = registry_key_str(&key)};
    static char state[1024];

    if (json) {
        int n = snprintf(state, sizeof state, "{\"v\":1,\"version\":\"v%llu\"%s,\"document\":%s}",
                         (unsigned long long)++t.version, members, json);

        assert_true(n > 0 && (size_t)n < sizeof state);
        change.value = str_from(state);
        assert_int_equal(table_txn_put(&txn, change.key, change.value), E_OK);
    } else {
        assert_int_equal(table_txn_remove(&txn, change.key), E_OK);
    }
    registry_view_on_applied(t.view, &change);
}

static void put_login(const char *tenant, const char *auth_id, const char *device)
{
    struct registry_key key = registry_key_login(str_from(tenant), STR("hashed-password"), str_from(auth_id));
    struct table_txn txn = {&t.table};

    assert_int_equal(table_txn_put(&txn, registry_key_str(&key), str_from(device)), E_OK);
}

static void put_password(const char *device, const char *auth_id, const char *secret)
{
    char json[2048];

    snprintf(json, sizeof json, "[{\"type\":\"hashed-password\",\"auth-id\":\"%s\",\"secrets\":[%s]}]", auth_id, secret);
    put(registry_key_credentials(STR("t1"), str_from(device)), "", json);
    put_login("t1", auth_id, device);
}

static int set_up(void **state)
{
    char secret[160];

    (void)state;
    t.table = (struct table){.next_offset = 1};
    t.changed = (struct mail){.on_mail = on_changed};
    t.n_changed = t.n_answers = 0;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(hash_pool_start(1, &t.pool, NULL), E_OK);
    t.view = registry_view_new(t.pool, &t.changed, &t.loop.mailbox);
    registry_view_use_table(t.view, &t.table);
    t.registry = make_registry();
    registry_use_view(t.registry, t.view);
    put(registry_key_tenant(STR("t1")), "",
        "{\"defaults\":{\"unit\":\"K\",\"n\":1.5,\"b\":true},\"resource-limits\":{\"max-ttl\":10}}");
    put(registry_key_device(STR("t1"), STR("d1")), "", "{\"defaults\":{\"unit\":\"C\"},\"viaGroups\":[\"hall\"]}");
    put(registry_key_device(STR("t1"), STR("g1")), "", "{\"memberOf\":[\"hall\"]}");
    put(registry_key_device(STR("t1"), STR("d2")), "", "{\"via\":[\"g1\"],\"enabled\":false}");
    snprintf(secret, sizeof secret, "{\"id\":\"x\",\"hash-function\":\"bcrypt\",\"pwd-hash\":\"%s\"}", bcrypt);
    put_password("d1", "a1", secret);
    put_password("g1", "ga", "{\"id\":\"x\",\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA "\"}");
    put_password("d2", "a2", "{\"id\":\"x\",\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA "\"}");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hash_pool_stop(t.pool);
    loop_turn(&t.loop, 0);
    registry_view_close(t.view);
    registry_view_free(t.view);
    registry_unref(t.registry);
    table_fixture_free(&t.table);
    loop_fini(&t.loop);
    return 0;
}

static struct registry_login login_of(const char *user_name, const char *password, struct registry_wait *wait)
{
    return (struct registry_login){.adapter = CONFIG_ADAPTER_MQTT,
                                   .has_user_name = true,
                                   .user_name = str_from(user_name),
                                   .has_password = true,
                                   .password = str_from(password),
                                   .wait = wait};
}

/* Asks until it is answered. */
static enum registry_result log_in(const char *user_name, const char *password, struct principal *out)
{
    struct registry_wait wait = {.mail = {.on_mail = on_answer}, .home = &t.loop.mailbox};
    struct registry_login login = login_of(user_name, password, &wait);
    enum registry_result result;

    for (;;) {
        unsigned before = t.n_answers;

        result = registry_authenticate(t.registry, &login, out);
        if (result != REGISTRY_PENDING)
            return result;
        while (t.n_answers == before)
            loop_turn(&t.loop, 10);
    }
}

static void managed_and_configured_accounts_log_in(void **state)
{
    static const struct {
        const char *user_name, *password;
        enum registry_result want;
        const char *device;
    } rows[] = {
        {"a1@t1", "geheim", REGISTRY_OK, "d1"},
        {"a1@t1", "geheim", REGISTRY_OK, "d1"}, /* known by now */
        {"a1@t1", "Geheim", REGISTRY_BAD_CREDENTIALS, NULL},
        {"a1@t1", "", REGISTRY_BAD_CREDENTIALS, NULL},
        {"ga@t1", "password", REGISTRY_OK, "g1"},
        {"ga@t1", "geheim", REGISTRY_BAD_CREDENTIALS, NULL},
        {"a2@t1", "password", REGISTRY_DEVICE_DISABLED, NULL},
        {"nobody@t1", "password", REGISTRY_BAD_CREDENTIALS, NULL},
        {"a1@t2", "geheim", REGISTRY_BAD_CREDENTIALS, NULL},
        {"a1@fixed", "pw", REGISTRY_OK, "d1"},
        {"a1@fixed", "geheim", REGISTRY_BAD_CREDENTIALS, NULL},
        {"d2@fixed", "", REGISTRY_BAD_CREDENTIALS, NULL}, /* has no password */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct principal who = {0};
        enum registry_result result = log_in(rows[i].user_name, rows[i].password, &who);

        if (result != rows[i].want)
            fail_msg("row %zu: %s", i, registry_result_name(result));
        if (rows[i].device)
            assert_string_equal(who.device->id.p, rows[i].device);
        principal_release(&who);
    }
}

static void without_somebody_who_waits_a_slow_hash_is_unavailable(void **state)
{
    struct registry_login login = login_of("a1@t1", "geheim", NULL);
    struct principal who;

    (void)state;
    assert_int_equal(registry_authenticate(t.registry, &login, &who), REGISTRY_UNAVAILABLE);
}

static void many_who_bring_the_same_password_share_a_run(void **state)
{
    static struct registry_wait waits[MAX_WAITS];

    (void)state;
    for (int i = 0; i < MAX_WAITS; i++) {
        struct registry_login login = login_of("a1@t1", "geheim", &waits[i]);
        struct principal who;

        waits[i] = (struct registry_wait){.mail = {.on_mail = on_answer}, .home = &t.loop.mailbox};
        assert_int_equal(registry_authenticate(t.registry, &login, &who), REGISTRY_PENDING);
        assert_true(hash_pool_count(t.pool) <= 1);
    }
    while (t.n_answers < MAX_WAITS)
        loop_turn(&t.loop, 10);
    for (int i = 0; i < MAX_WAITS; i++) {
        struct registry_login login = login_of("a1@t1", "geheim", &waits[i]);
        struct principal who;

        assert_int_equal(registry_authenticate(t.registry, &login, &who), REGISTRY_OK);
        principal_release(&who);
    }
}

static void a_changed_secret_is_not_taken_from_memory(void **state)
{
    struct principal who;

    (void)state;
    assert_int_equal(log_in("a1@t1", "geheim", &who), REGISTRY_OK);
    principal_release(&who);
    put_password("d1", "a1", "{\"id\":\"x\",\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA "\"}");
    assert_int_equal(log_in("a1@t1", "geheim", &who), REGISTRY_BAD_CREDENTIALS);
    assert_int_equal(log_in("a1@t1", "password", &who), REGISTRY_OK);
    principal_release(&who);
    put_password("d1", "a1",
                 "{\"id\":\"x\",\"enabled\":false,\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA
                 "\"}");
    assert_int_equal(log_in("a1@t1", "password", &who), REGISTRY_BAD_CREDENTIALS);
}

static void entries_tell_what_headers_and_limits_need(void **state)
{
    struct registration found;

    (void)state;
    assert_int_equal(registry_assert(t.registry, STR("t1"), STR("d1"), STR(""), &found), REGISTRY_ASSERTED);
    assert_int_equal(found.tenant->defaults->count, 3);
    assert_string_equal(found.tenant->defaults->items[1].value.p, "1.5");
    assert_string_equal(found.tenant->defaults->items[2].value.p, "true");
    assert_int_equal(found.tenant->limits->max_ttl_s, 10);
    assert_int_equal(found.tenant->limits->max_ttl_telemetry_qos0_s, -1);
    assert_int_equal(found.tenant->limits->max_connections, -1);
    assert_int_equal(found.tenant->limits->data_volume.max, -1);
    assert_int_equal(found.tenant->limits->connection_duration.max, -1);
    assert_int_equal(found.tenant->limits->minimum_message_size, 0);
    assert_string_equal(found.device->defaults->items[0].value.p, "C");
    assert_int_equal(found.tenant->adapters, (1u << CONFIG_ADAPTER_TYPES) - 1);
    put(registry_key_tenant(STR("t1")), "",
        "{\"adapters\":[{\"type\":\"hono-http\",\"enabled\":true},{\"type\":\"hono-mqtt\"}]}");
    assert_int_equal(registry_find_tenant(t.registry, STR("t1"))->adapters, 1u << CONFIG_ADAPTER_HTTP);
}

/* What is remembered of a password ends with the secret that it fitted. */
static void a_secret_that_is_over_is_not_taken_from_memory(void **state)
{
    enum { LIFE_MS = 300 };
    int64_t end_ms = (int64_t)loop_wall_ms() + LIFE_MS, asked_ms;
    char secret[160], end[MOMENT_BYTES];
    struct principal who = {0};
    enum registry_result result;

    (void)state;
    (void)moment_format(end_ms, end);
    snprintf(secret, sizeof secret, "{\"id\":\"y\",\"hash-function\":\"bcrypt\",\"pwd-hash\":\"%s\",\"not-after\":\"%s\"}",
             bcrypt, end);
    put_password("d1", "a1", secret);
    do {
        asked_ms = (int64_t)loop_wall_ms();
        result = log_in("a1@t1", "geheim", &who);
        if (result == REGISTRY_OK)
            principal_release(&who);
    } while (result == REGISTRY_OK && asked_ms <= end_ms);
    assert_int_equal(result, REGISTRY_BAD_CREDENTIALS);
}

/* Entries of Mosquitto's password files stand beside others, and any of them opens. */
static void passwords_of_mosquitto_open(void **state)
{
    static const char secrets[] = "{\"id\":\"x\",\"hash-function\":\"mosquitto\",\"pwd-hash\":\"$7$101$nHVjZWwZFTVxC3oL$"
                                  "EKl5KNx5Ta+VpQL0oVdUinhwQJm62zwE9mXmc/h3mYY0mitE2xoKdiVMHc8FsC5co5bEcyvG8Q7xEJ6qTfod+g==\"},"
                                  "{\"id\":\"y\",\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA "\"},"
                                  "{\"id\":\"z\",\"hash-function\":\"mosquitto\",\"pwd-hash\":\"$6$JWw/rDbOeNNDKPTS$"
                                  "MF4SXPTu7OOOzsKdXCPWkvUfzFkOkYImLuOWqGhRPI9xUh6LP51GrVP5FWNCYrx/+7C9ROYaR+Ixfh1PcsRuwg==\","
                                  "\"not-after\":\"2020-01-01T00:00:00Z\"}";
    struct principal who = {0};

    (void)state;
    put_password("d1", "a1", secrets);
    assert_int_equal(log_in("a1@t1", "geheim", &who), REGISTRY_OK);
    principal_release(&who);
    assert_int_equal(log_in("a1@t1", "password", &who), REGISTRY_OK);
    principal_release(&who);
    assert_int_equal(log_in("a1@t1", "geheiM", &who), REGISTRY_BAD_CREDENTIALS);
    put_password("d1", "a1", strstr(secrets, "{\"id\":\"z\"")); /* it is over */
    assert_int_equal(log_in("a1@t1", "geheim", &who), REGISTRY_BAD_CREDENTIALS);
}

static void a_tenant_tells_what_it_may_use(void **state)
{
    const struct config_tenant_limits *limits;
    const struct registry_tenant *ten;

    (void)state;
    put(registry_key_tenant(STR("t1")), "",
        "{\"minimum-message-size\":64,\"resource-limits\":{\"max-connections\":7,"
        "\"data-volume\":{\"effective-since\":\"1970-01-01T00:01:00Z\",\"max-bytes\":9,\"period\":{\"mode\":\"days\","
        "\"no-of-days\":3}},\"connection-duration\":{\"effective-since\":\"1970-01-01T02:00:00+01:00\",\"max-minutes\":5}}}");
    ten = registry_find_tenant(t.registry, STR("t1"));
    limits = ten->limits;
    assert_non_null(ten->usage);
    assert_int_equal(limits->minimum_message_size, 64);
    assert_int_equal(limits->max_connections, 7);
    assert_int_equal(limits->data_volume.max, 9);
    assert_int_equal(limits->data_volume.since_ms, 60000);
    assert_int_equal(limits->data_volume.period, CONFIG_PERIOD_DAYS);
    assert_int_equal(limits->data_volume.days, 3);
    assert_int_equal(limits->connection_duration.max, 5);
    assert_int_equal(limits->connection_duration.since_ms, 3600000);
    assert_int_equal(limits->connection_duration.period, CONFIG_PERIOD_MONTHLY);
}

static void gateways_speak_by_name_and_by_group(void **state)
{
    static const struct {
        const char *tenant, *device, *gateway;
        enum registry_assertion want;
    } rows[] = {
        {"t1", "d1", "g1", REGISTRY_ASSERTED},     {"t1", "g1", "d1", REGISTRY_NOT_AUTHORISED},
        {"t1", "d1", "g9", REGISTRY_NO_GATEWAY},   {"t1", "d2", "g1", REGISTRY_NO_DEVICE},
        {"t1", "d9", "g1", REGISTRY_NO_DEVICE},    {"t9", "d1", "g1", REGISTRY_NO_TENANT},
        {"fixed", "d2", "d1", REGISTRY_ASSERTED},  {"fixed", "d1", "d2", REGISTRY_NOT_AUTHORISED},
        {"fixed", "new", "d1", REGISTRY_ASSERTED}, {"fixed", "other", "d1", REGISTRY_NOT_AUTHORISED},
        {"fixed", "copy", "", REGISTRY_NO_DEVICE},
    };
    struct registration found;

    (void)state;
    put(registry_key_device(STR("fixed"), STR("new")), "", "{\"via\":[\"d1\"]}");
    put(registry_key_device(STR("fixed"), STR("other")), "", "{}");
    put(registry_key_device(STR("fixed"), STR("copy")), ",\"source\":\"configuration\"",
        "{}"); /* of what is not configured any more */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_assertion result =
            registry_assert(t.registry, str_from(rows[i].tenant), str_from(rows[i].device), str_from(rows[i].gateway), &found);

        if (result != rows[i].want)
            fail_msg("row %zu: %s", i, registry_assertion_name(result));
    }
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("new"), STR(""), &found), REGISTRY_ASSERTED);
    assert_string_equal(found.tenant->defaults->items[0].value.p, "config"); /* the tenant is still the configuration's */
}

static struct {
    err result;
    unsigned n;
} made;

static void make(void *context, struct provision *p)
{
    char *json = json_dumps(p->document, JSON_COMPACT);

    (void)context;
    made.n++;
    assert_string_equal(json, "{\"enabled\":true,\"via\":[\"g1\"],\"viaGroups\":[\"hall\"]}");
    assert_null(p->credentials);
    assert_true(str_equal(p->gateway, STR("g1")));
    if (made.result == E_OK)
        put(registry_key_device(p->tenant, p->device), "", json);
    free(json);
    provision_answer(p, made.result);
    provision_free(p);
}

static void a_gateway_with_the_authority_has_devices_made(void **state)
{
#define MAY "\"authorities\":[\"auto-provisioning-enabled\"]"
    static const struct {
        const char *gateway, *device;
        err result;
        unsigned n_made;
        enum registry_assertion want; /* afterwards */
    } rows[] = {
        {"{\"memberOf\":[\"hall\"]}", "new", E_OK, 0, REGISTRY_NO_DEVICE},
        {"{\"memberOf\":[\"hall\"],\"enabled\":false," MAY "}", "new", E_OK, 0, REGISTRY_NO_DEVICE},
        {"{\"memberOf\":[\"hall\"]," MAY "}", "d2", E_OK, 0, REGISTRY_NO_DEVICE}, /* is disabled */
        {"{\"memberOf\":[\"hall\"]," MAY "}", "d1", E_OK, 0, REGISTRY_ASSERTED},
        {"{\"memberOf\":[\"hall\"]," MAY "}", "no/id", E_OK, 0, REGISTRY_NO_DEVICE},
        {"{\"memberOf\":[\"hall\"]," MAY "}", "new", E_DENIED, 1, REGISTRY_NO_DEVICE},
        {"{\"memberOf\":[\"hall\"]," MAY "}", "new", E_OK, 1, REGISTRY_ASSERTED},
    };

    (void)state;
    registry_view_use_provisioner(t.view, make, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_wait wait = {.mail = {.on_mail = on_answer}, .home = &t.loop.mailbox};
        struct registration found;

        made.n = 0;
        made.result = rows[i].result;
        put(registry_key_device(STR("t1"), STR("g1")), "", rows[i].gateway);
        for (unsigned before = t.n_answers;
             registry_provision(t.registry, STR("t1"), str_from(rows[i].device), STR("g1"), &wait); before = t.n_answers)
            while (t.n_answers == before)
                loop_turn(&t.loop, 10);
        if (made.n != rows[i].n_made ||
            registry_assert(t.registry, STR("t1"), str_from(rows[i].device), STR("g1"), &found) != rows[i].want)
            fail_msg("row %zu: %u made", i, made.n);
    }
}

static void what_is_managed_goes_before_the_configuration(void **state)
{
    struct registration found;
    struct principal who;

    (void)state;
    put(registry_key_device(STR("fixed"), STR("d1")), ",\"source\":\"configuration\"", "{\"enabled\":false}");
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("d1"), STR(""), &found), REGISTRY_ASSERTED);
    put(registry_key_device(STR("fixed"), STR("d1")), ",\"source\":\"api\"", "{\"enabled\":false}");
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("d1"), STR(""), &found), REGISTRY_NO_DEVICE);
    put(registry_key_tenant(STR("fixed")), ",\"source\":\"api\"", "{\"enabled\":false}");
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("d2"), STR(""), &found), REGISTRY_NO_TENANT);
    assert_int_equal(log_in("a1@fixed", "pw", &who), REGISTRY_BAD_CREDENTIALS);
}

static void a_principal_stands_until_what_it_is_changes(void **state)
{
    static const struct {
        const char *what, *json;
        enum registry_standing want;
    } rows[] = {
        {"d", "{\"defaults\":{\"unit\":\"F\"}}", REGISTRY_STANDS},
        {"d", "{\"enabled\":false}", REGISTRY_BARRED},
        {"d", NULL, REGISTRY_GONE},
        {"t", "{\"enabled\":false}", REGISTRY_BARRED},
        {"t", "{\"adapters\":[{\"type\":\"hono-http\",\"enabled\":true}]}", REGISTRY_BARRED},
        {"t", NULL, REGISTRY_GONE},
        {"c", "[]", REGISTRY_BARRED},
        {"c", NULL, REGISTRY_BARRED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_key key = rows[i].what[0] == 't'   ? registry_key_tenant(STR("t1"))
                                  : rows[i].what[0] == 'd' ? registry_key_device(STR("t1"), STR("g1"))
                                                           : registry_key_credentials(STR("t1"), STR("g1"));
        struct principal who;
        enum registry_standing standing;

        assert_int_equal(log_in("ga@t1", "password", &who), REGISTRY_OK);
        assert_int_equal(registry_refresh(t.registry, CONFIG_ADAPTER_MQTT, &who), REGISTRY_STANDS);
        put(key, "", rows[i].json);
        standing = registry_refresh(t.registry, CONFIG_ADAPTER_MQTT, &who);
        if (standing != rows[i].want)
            fail_msg("row %zu: %d", i, standing);
        assert_string_equal(who.device->id.p, "g1");
        principal_release(&who);
        put(registry_key_tenant(STR("t1")), "", "{}");
        put(registry_key_device(STR("t1"), STR("g1")), "", "{\"memberOf\":[\"hall\"]}");
        put_password("g1", "ga", "{\"id\":\"x\",\"hash-function\":\"sha-256\",\"salt\":\"c2FsdA==\",\"pwd-hash\":\"" SHA "\"}");
    }
}

static void only_what_may_concern_somebody_is_told(void **state)
{
    (void)state;
    loop_turn(&t.loop, 0);
    registry_view_accept_changes(t.view);
    t.n_changed = 0;
    put(registry_key_device(STR("t1"), STR("d9")), ",\"status\":{\"created\":\"x\"}", "{}");
    put(registry_key_credentials(STR("t1"), STR("d9")), "", "[]");
    loop_turn(&t.loop, 0);
    assert_int_equal(t.n_changed, 0);
    put(registry_key_device(STR("t1"), STR("d9")), ",\"status\":{\"updated\":\"x\"}", "{}");
    put(registry_key_device(STR("t1"), STR("d9")), "", NULL);
    loop_turn(&t.loop, 0);
    assert_int_equal(t.n_changed, 1); /* once for both */
    registry_view_accept_changes(t.view);
    put(registry_key_tenant(STR("t1")), "", NULL);
    loop_turn(&t.loop, 0);
    assert_int_equal(t.n_changed, 2);
}

static enum registry_assertion assert_device(const char *device)
{
    struct registration registration;

    return registry_assert(t.registry, STR("t1"), str_from(device), STR(""), &registration);
}

/* The database uses no page again that a reader might still look at. */
static void nobody_reads_on_once_he_has_his_answer(void **state)
{
    static const struct {
        const char *user, *password;
        enum registry_result result;
    } rows[] = {
        {"a1@t1", "geheim", REGISTRY_OK},
        {"a1@t1", "wrong", REGISTRY_BAD_CREDENTIALS},
        {"ga@t1", "password", REGISTRY_OK},
        {"nobody@t1", "x", REGISTRY_BAD_CREDENTIALS},
        {"a1@nowhere", "x", REGISTRY_BAD_CREDENTIALS},
    };
    struct principal principal = {0};
    unsigned char key[16];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(log_in(rows[i].user, rows[i].password, &principal), rows[i].result);
        principal_release(&principal);
        assert_int_equal(t.table.n_reading, 0);
    }
    assert_int_equal(registry_find_psk(t.registry, STR("t1"), STR("a1"), key, sizeof key), 0);
    assert_int_equal(t.table.n_reading, 0);
    assert_int_equal(assert_device("g1"), REGISTRY_ASSERTED);
    assert_int_equal(assert_device("d9"), REGISTRY_NO_DEVICE);
    assert_int_equal(t.table.n_reading, 0);
}

static void more_devices_than_are_remembered_are_found(void **state)
{
    enum { MORE = 100100 };
    char device[24];

    (void)state;
    for (unsigned i = 0; i < MORE; i++) {
        snprintf(device, sizeof device, "x%u", i);
        assert_int_equal(assert_device(device), REGISTRY_NO_DEVICE);
        if (i % 1000 == 0)
            assert_int_equal(assert_device("d1"), REGISTRY_ASSERTED);
    }
    assert_int_equal(assert_device("d1"), REGISTRY_ASSERTED);
    assert_int_equal(assert_device("x0"), REGISTRY_NO_DEVICE);
}

static void another_configuration_takes_the_place_of_the_one_before(void **state)
{
    struct registry *before = t.registry;
    struct registration found;

    (void)state;
    put(registry_key_device(STR("fixed"), STR("new")), "", "{}");
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("new"), STR(""), &found), REGISTRY_ASSERTED);
    t.registry = make_registry();
    registry_use_view(t.registry, t.view);
    registry_unref(before);
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("new"), STR(""), &found), REGISTRY_ASSERTED);
    assert_int_equal(registry_assert(t.registry, STR("fixed"), STR("d1"), STR(""), &found), REGISTRY_ASSERTED);
}

static int prepare(void **state)
{
    (void)state;
    return secret_hash_bcrypt(STR("geheim"), SECRET_HASH_COST_MIN, bcrypt) != E_OK;
}

/* The index entry of a group's member, as the owner of the table writes it. */
static void put_member(const char *group, const char *device)
{
    struct registry_key key = registry_key_member(STR("t1"), str_from(group), str_from(device));
    struct table_txn txn = {&t.table};

    assert_int_equal(table_txn_put(&txn, registry_key_str(&key), STR("")), E_OK);
}

static void the_gateways_of_a_device_are_those_it_names_and_the_members_of_its_groups(void **state)
{
    static const struct {
        const char *device, *gateways[4];
    } cases[] = {
        {"{}", {0}},
        {"{\"via\":[\"g1\"]}", {"g1"}},
        {"{\"viaGroups\":[\"hall\"]}", {"g1", "g2"}},
        {"{\"via\":[\"g2\",\"g3\"],\"viaGroups\":[\"hall\",\"yard\",\"none\"]}", {"g2", "g3", "g1", "g4"}},
    };
    struct registration registration;

    (void)state;
    put_member("hall", "g1");
    put_member("hall", "g2");
    put_member("hallway", "g9");
    put_member("yard", "g1");
    put_member("yard", "g4");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena arena = {0};
        struct config_strings found;
        size_t n = 0;

        put(registry_key_device(STR("t1"), STR("d5")), "", cases[i].device);
        assert_int_equal(registry_assert(t.registry, STR("t1"), STR("d5"), (struct str){0}, &registration), REGISTRY_ASSERTED);
        found = registry_find_gateways(t.registry, registration.device, &arena);
        while (n < ARRAY_LEN(cases[i].gateways) && cases[i].gateways[n]) {
            assert_true(n < found.count && str_equal(found.items[n], str_from(cases[i].gateways[n])));
            n++;
        }
        assert_int_equal(found.count, n);
        arena_free(&arena, MEM_REGISTRY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(managed_and_configured_accounts_log_in),
        TEST(without_somebody_who_waits_a_slow_hash_is_unavailable),
        TEST(many_who_bring_the_same_password_share_a_run),
        TEST(a_changed_secret_is_not_taken_from_memory),
        TEST(a_secret_that_is_over_is_not_taken_from_memory),
        TEST(passwords_of_mosquitto_open),
        TEST(a_tenant_tells_what_it_may_use),
        TEST(entries_tell_what_headers_and_limits_need),
        TEST(gateways_speak_by_name_and_by_group),
        TEST(the_gateways_of_a_device_are_those_it_names_and_the_members_of_its_groups),
        TEST(what_is_managed_goes_before_the_configuration),
        TEST(a_principal_stands_until_what_it_is_changes),
        TEST(only_what_may_concern_somebody_is_told),
        TEST(nobody_reads_on_once_he_has_his_answer),
        TEST(more_devices_than_are_remembered_are_found),
        TEST(another_configuration_takes_the_place_of_the_one_before),
        TEST(a_gateway_with_the_authority_has_devices_made),
    };

    return cmocka_run_group_tests_name("registry_view", tests, prepare, NULL);
}
