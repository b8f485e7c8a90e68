#include "registry/certificate_login.h"

#include "registry/crl_fixture_test.h"

#include "registry/login_fixture_test.h"

#include "registry/authority.h"
#include "registry/document.h"
#include "registry/provision.h"
#include "registry/revocation_list.h"

#define SUBJECT "CN=sensor,O=acme"

static struct chain_fixture_party root, other, leaf, foreign;

static int make_parties(void **state)
{
    (void)state;
    root = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    other = chain_fixture_issue("other", NULL, (struct chain_fixture_traits){.is_ca = true});
    leaf = chain_fixture_issue("sensor", &root, (struct chain_fixture_traits){0});
    foreign = chain_fixture_issue("sensor", &other, (struct chain_fixture_traits){0});
    return 0;
}

static int free_parties(void **state)
{
    struct chain_fixture_party *all[] = {&root, &other, &leaf, &foreign};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        chain_fixture_free(all[i]);
    return 0;
}

/* A tenant that trusts `root`; `members` of its document and `more` of the CA begin with a comma, or are empty. */
static void put_tenant(const char *tenant, const char *members, const char *more)
{
    char ca[2048], json[3000];

    snprintf(json, sizeof json, "{\"trusted-ca\":[%s]%s}", chain_fixture_ca(&root, "root", more, ca), members);
    login_fixture_put(registry_key_tenant(str_from(tenant)), json);
    login_fixture_point(registry_key_subject(STR("CN=root,O=acme"), str_from(tenant)), "{}");
}

static void put_account(const char *tenant, const char *auth_id, const char *entry, const char *secret)
{
    char json[512];

    snprintf(json, sizeof json, "[{\"type\":\"x509-cert\",\"auth-id\":\"%s\"%s,\"secrets\":[{\"id\":\"x\"%s}]}]", auth_id,
             entry, secret);
    login_fixture_put(registry_key_device(str_from(tenant), STR("d1")), "{}");
    login_fixture_put(registry_key_credentials(str_from(tenant), STR("d1")), json);
    login_fixture_point(registry_key_login(str_from(tenant), STR("x509-cert"), str_from(auth_id)), "d1");
}

static int set_up(void **state)
{
    (void)state;
    login_fixture_set_up();
    put_tenant("t1", "", "");
    put_account("t1", SUBJECT, "", "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    login_fixture_tear_down();
    return 0;
}

static enum registry_result enter(const struct chain_fixture_party *who, const char *server_name, struct registry_login login,
                                  char tenant[16])
{
    struct tls_peer peer = chain_fixture_peer(who, NULL);
    struct principal principal = {0};
    enum registry_result result;
    unsigned n;

    peer.server_name = str_from(server_name);
    login.peer = &peer;
    result = login_fixture_ask(&login, &principal, &n);
    snprintf(tenant, 16, "%s", result == REGISTRY_OK ? principal.tenant->id.p : "");
    principal_release(&principal);
    return result;
}

static void the_ca_says_the_tenant_and_the_name_the_device(void **state)
{
    static const struct {
        const char *members, *more, *entry, *secret, *device;
        const struct chain_fixture_party *who;
        enum registry_result want;
    } rows[] = {
        {"", "", "", "", "{}", &leaf, REGISTRY_OK},
        {"", "", "", "", "{}", &foreign, REGISTRY_BAD_CREDENTIALS},
        {"", ",\"not-after\":\"2020-01-01T00:00:00Z\"", "", "", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {",\"enabled\":false", "", "", "", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {",\"adapters\":[{\"type\":\"hono-http\",\"enabled\":true}]", "", "", "", "{}", &leaf, REGISTRY_ADAPTER_DISABLED},
        {"", "", ",\"enabled\":false", "", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {"", "", "", ",\"enabled\":false", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {"", "", "", ",\"not-after\":\"2020-01-01T00:00:00Z\"", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {"", "", "", "", "{\"enabled\":false}", &leaf, REGISTRY_DEVICE_DISABLED},
        {"", ",\"auth-id-template\":\"x-{{subject-cn}}\"", "", "", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
        {"", ",\"auth-id-template\":\"{{subject-ou}}\"", "", "", "{}", &leaf, REGISTRY_BAD_CREDENTIALS},
    };
    char tenant[16];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_result result;

        put_tenant("t1", rows[i].members, rows[i].more);
        put_account("t1", SUBJECT, rows[i].entry, rows[i].secret);
        login_fixture_put(registry_key_device(STR("t1"), STR("d1")), rows[i].device);
        result = enter(rows[i].who, "", (struct registry_login){0}, tenant);
        if (result != rows[i].want)
            fail_msg("row %zu: %s", i, registry_result_name(result));
    }
}

static void a_template_makes_the_auth_id(void **state)
{
    char tenant[16];

    (void)state;
    put_tenant("t1", "", ",\"auth-id-template\":\"x-{{subject-cn}}\"");
    put_account("t1", "x-sensor", "", "");
    assert_int_equal(enter(&leaf, "", (struct registry_login){0}, tenant), REGISTRY_OK);
}

static void of_tenants_that_share_a_ca_the_server_name_or_the_listener_tells(void **state)
{
    static const struct {
        const char *server_name, *listener;
        bool is_fixed;
        const char *want;
    } rows[] = {
        {"t1.example.com", "", false, "t1"},
        {"t2.example.com", "", false, "t2"},
        {"second.example.com", "", false, "t2"},
        {"t2", "", false, "t2"},
        {"", "", false, ""},
        {"mqtt.example.com", "", false, ""},
        {"empty.example.com", "", false, ""},
        {"", "t2", false, "t2"},
        {"mqtt.example.com", "t1", false, "t1"},
        {"t2.example.com", "t1", false, "t2"},
        {"t2.example.com", "t1", true, "t1"},
        {"", "empty", true, ""},
    };
    char tenant[16];

    (void)state;
    put_tenant("t2", ",\"alias\":\"second\"", "");
    put_account("t2", SUBJECT, "", "");
    login_fixture_point(registry_key_alias(STR("second")), "t2");
    login_fixture_put(registry_key_tenant(STR("empty")), "{}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct registry_login login = {.tenant = str_from(rows[i].listener), .is_tenant_fixed = rows[i].is_fixed};
        enum registry_result result = enter(&leaf, rows[i].server_name, login, tenant);

        if (result != (*rows[i].want ? REGISTRY_OK : REGISTRY_BAD_CREDENTIALS) || strcmp(tenant, rows[i].want) != 0)
            fail_msg("row %zu: %s in %s", i, registry_result_name(result), tenant);
    }
}

static void a_certificate_that_only_the_listener_trusts_says_nothing(void **state)
{
    struct tls_peer peer = chain_fixture_peer(&foreign, NULL);
    struct registry_login login = {.tenant = STR("t1"), .is_anonymous_allowed = true, .peer = &peer};
    struct principal who = {0};
    unsigned n;

    (void)state;
    assert_int_equal(login_fixture_ask(&login, &who, &n), REGISTRY_BAD_CREDENTIALS);
    peer.is_trusted = true;
    assert_int_equal(login_fixture_ask(&login, &who, &n), REGISTRY_OK);
    assert_null(who.device);
    principal_release(&who);
    peer.der = chain_fixture_der(&leaf); /* which goes before */
    assert_int_equal(login_fixture_ask(&login, &who, &n), REGISTRY_OK);
    assert_string_equal(who.device->id.p, "d1");
    principal_release(&who);
}

static struct {
    err result;
    unsigned n;
    char device[64];
    bool is_gateway;
} made;

/* Makes nothing unless it is to go well. */
static void make(void *context, struct provision *p)
{
    const json_t *entry = json_array_get(p->credentials, 0);

    (void)context;
    made.n++;
    made.is_gateway = json_array_size(json_object_get(p->document, "authorities")) == 1;
    snprintf(made.device, sizeof made.device, "%.*s", STR_ARG(p->device));
    assert_true(str_equal(p->tenant, STR("t1")));
    assert_int_equal(p->gateway.n, 0);
    assert_true(str_equal(document_get_text(entry, "type"), STR("x509-cert")));
    if (made.result == E_OK)
        put_account("t1", json_string_value(json_object_get(entry, "auth-id")), "", "");
    provision_answer(p, made.result);
    provision_free(p);
}

static void a_device_that_is_not_there_is_made_if_its_ca_says_so(void **state)
{
#define AUTO ",\"auto-provisioning-enabled\":true"
#define ID   ",\"auto-provisioning-device-id-template\":"
    static const struct {
        const char *more;
        err result;
        enum registry_result want;
        unsigned n_made;
        const char *device; /* NULL: any */
        bool is_gateway;
    } rows[] = {
        {"", E_OK, REGISTRY_BAD_CREDENTIALS, 0, NULL, false},
        {",\"auto-provisioning-enabled\":false", E_OK, REGISTRY_BAD_CREDENTIALS, 0, NULL, false},
        {AUTO ID "\"dev-{{subject-cn}}\"", E_OK, REGISTRY_OK, 1, "dev-sensor", false},
        {AUTO, E_OK, REGISTRY_OK, 1, NULL, false},
        {AUTO ",\"auto-provision-as-gateway\":true", E_OK, REGISTRY_OK, 1, NULL, true},
        {AUTO ",\"auth-id-template\":\"x-{{subject-cn}}\"", E_OK, REGISTRY_OK, 1, NULL, false},
        {AUTO, E_DENIED, REGISTRY_BAD_CREDENTIALS, 1, NULL, false},
        {AUTO, E_TIMEOUT, REGISTRY_UNAVAILABLE, 1, NULL, false},
        {AUTO ID "\"{{subject-ou}}\"", E_OK, REGISTRY_BAD_CREDENTIALS, 0, NULL, false}, /* the name has none */
        {AUTO ID "\"{{subject-dn}}\"", E_OK, REGISTRY_BAD_CREDENTIALS, 0, NULL, false}, /* is no id */
    };
    char tenant[16];

    (void)state;
    registry_view_use_provisioner(t.view, make, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct table_txn txn = {&t.table};
        struct registry_key logins[] = {registry_key_login(STR("t1"), STR("x509-cert"), STR(SUBJECT)),
                                        registry_key_login(STR("t1"), STR("x509-cert"), STR("x-sensor"))};
        enum registry_result result;

        for (size_t k = 0; k < ARRAY_LEN(logins); k++)
            assert_int_equal(table_txn_remove(&txn, registry_key_str(&logins[k])), E_OK);
        put_tenant("t1", "", rows[i].more);
        memset(&made, 0, sizeof made);
        made.result = rows[i].result;
        result = enter(&leaf, "", (struct registry_login){0}, tenant);
        if (result != rows[i].want || made.n != rows[i].n_made || made.is_gateway != rows[i].is_gateway)
            fail_msg("row %zu: %s, %u made", i, registry_result_name(result), made.n);
        if (rows[i].device)
            assert_string_equal(made.device, rows[i].device);
    }
}

/* Who is asked about certificates: says what the test wants. */
static struct {
    struct authority port;
    enum authority_verdict verdict;
    unsigned n_asked;
    char uri[64];
    bool has_nonce;
} outside;

static enum authority_verdict check_certificate(struct authority *a, const struct config *config,
                                                const struct authority_certificate *c, struct registry_wait *wait)
{
    (void)a;
    (void)config;
    assert_non_null(wait);
    assert_int_equal(X509_cmp(c->certificate, leaf.cert), 0);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(c->issuer), root.key), 1);
    (void)snprintf(outside.uri, sizeof outside.uri, "%.*s", STR_ARG(c->responder_uri));
    outside.has_nonce = c->has_nonce;
    outside.n_asked++;
    return outside.verdict;
}

static void a_responder_is_asked_if_the_ca_wants_it(void **state)
{
    static const char wanted[] =
        ",\"ocsp-revocation-enabled\":true,\"ocsp-responder-uri\":\"http://r/\",\"ocsp-nonce-enabled\":true";
    static const struct {
        const char *more;
        const struct chain_fixture_party *who;
        enum authority_verdict verdict;
        enum registry_result want;
        unsigned n_asked; /* by two log-ins */
    } rows[] = {
        {"", &leaf, AUTHORITY_DENIED, REGISTRY_OK, 0},
        {wanted, &leaf, AUTHORITY_ALLOWED, REGISTRY_OK, 1},
        {wanted, &leaf, AUTHORITY_DENIED, REGISTRY_BAD_CREDENTIALS, 1},
        {wanted, &leaf, AUTHORITY_UNAVAILABLE, REGISTRY_UNAVAILABLE, 2}, /* which is not remembered */
        {wanted, &foreign, AUTHORITY_ALLOWED, REGISTRY_BAD_CREDENTIALS, 0},
    };
    char tenant[16];

    (void)state;
    outside.port.check_certificate = check_certificate;
    registry_use_authority(t.registry, &outside.port);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put_tenant("t1", "", rows[i].more);
        outside.verdict = rows[i].verdict;
        outside.n_asked = 0;
        for (int k = 0; k < 2; k++)
            assert_int_equal(enter(rows[i].who, "", (struct registry_login){0}, tenant), rows[i].want);
        if (outside.n_asked != rows[i].n_asked)
            fail_msg("row %zu: asked %u times", i, outside.n_asked);
    }
    assert_string_equal(outside.uri, "http://r/");
    assert_true(outside.has_nonce);
}

static void without_anybody_to_ask_nothing_is_known(void **state)
{
    char tenant[16];

    (void)state;
    put_tenant("t1", "", ",\"ocsp-revocation-enabled\":true");
    assert_int_equal(enter(&leaf, "", (struct registry_login){0}, tenant), REGISTRY_UNAVAILABLE);
}

static void another_list_is_heeded_at_once(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &leaf, (struct crl_fixture_traits){0});
    struct revocation_lists *lists = revocation_list_new();
    char tenant[16];

    (void)state;
    assert_int_equal(revocation_list_add(lists, (struct str){crl.der, crl.der_n}, NULL), E_OK);
    assert_int_equal(enter(&leaf, "", (struct registry_login){0}, tenant), REGISTRY_OK);
    registry_use_revocation_lists(t.registry, lists);
    assert_int_equal(enter(&leaf, "", (struct registry_login){0}, tenant), REGISTRY_BAD_CREDENTIALS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(the_ca_says_the_tenant_and_the_name_the_device),
        TEST(a_template_makes_the_auth_id),
        TEST(of_tenants_that_share_a_ca_the_server_name_or_the_listener_tells),
        TEST(a_certificate_that_only_the_listener_trusts_says_nothing),
        TEST(a_device_that_is_not_there_is_made_if_its_ca_says_so),
        TEST(a_responder_is_asked_if_the_ca_wants_it),
        TEST(without_anybody_to_ask_nothing_is_known),
        TEST(another_list_is_heeded_at_once),
    };

    return cmocka_run_group_tests_name("certificate_login", tests, make_parties, free_parties);
}
