#include "registry/trust.h"

#include <time.h>

#include "registry/crl_fixture_test.h"

#include "base/check.h"
#include "registry/revocation_list.h"

#define OVER  ",\"not-after\":\"2020-01-01T00:00:00Z\""
#define LATER ",\"not-before\":\"2120-01-01T00:00:00Z\""
#define LONG  ",\"not-before\":\"2020-01-01T00:00:00Z\",\"not-after\":\"2120-01-01T00:00:00+01:00\""

static struct chain_fixture_party root, other, below, no_ca, over_below, p; /* `other` has the name of `root` */

static int make_cas(void **state)
{
    (void)state;
    root = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    other = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    below = chain_fixture_issue("below", &root, (struct chain_fixture_traits){.is_ca = true});
    no_ca = chain_fixture_issue("no-ca", &root, (struct chain_fixture_traits){0});
    over_below =
        chain_fixture_issue("over", &root, (struct chain_fixture_traits){.is_ca = true, .from_days = -9, .to_days = -1});
    return 0;
}

static int free_cas(void **state)
{
    struct chain_fixture_party *all[] = {&root, &other, &below, &no_ca, &over_below, &p};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        chain_fixture_free(all[i]);
    return 0;
}

/* The place of the CA among `cas` (a list in JSON) that is found; -1: none. */
static int find(const struct chain_fixture_party *leaf, const struct chain_fixture_party *above, const char *cas)
{
    struct tls_peer peer = chain_fixture_peer(leaf, above);
    struct trust_chain chain = {0};
    char text[8192];
    struct trust_rules rules = {.now_s = (int64_t)time(NULL)};
    struct trust_path found;
    json_t *tenant;
    int at = -1;

    snprintf(text, sizeof text, "{\"trusted-ca\":[%s]}", cas);
    tenant = json_loads(text, 0, NULL);
    assert_non_null(tenant);
    assert_int_equal(trust_read(&peer, &chain), E_OK);
    trust_find_ca(&chain, tenant, &rules, &found);
    for (size_t i = 0; i < json_array_size(json_object_get(tenant, "trusted-ca")); i++)
        if (found.ca == json_array_get(json_object_get(tenant, "trusted-ca"), i))
            at = (int)i;
    trust_free_path(&found);
    json_decref(tenant);
    trust_free(&chain);
    return at;
}

static void a_chain_is_followed_to_a_ca_with_its_name_and_key(void **state)
{
    static const struct {
        const char *what;
        const struct chain_fixture_party *issuer, *above;
        struct chain_fixture_traits traits;
        const char *more; /* of the CA */
        bool is_good;
    } rows[] = {
        {"directly", &root, NULL, {0}, "", true},
        {"with another certificate that does not matter", &root, &other, {0}, "", true},
        {"by an intermediate", &below, &below, {0}, "", true},
        {"by one that is not shown", &below, NULL, {0}, "", false},
        {"by one that is no CA", &no_ca, &no_ca, {0}, "", false},
        {"by one that is over", &over_below, &over_below, {0}, "", false},
        {"by somebody with the same name", &other, NULL, {0}, "", false},
        {"by himself", NULL, NULL, {0}, "", false},
        {"over", &root, NULL, {.from_days = -9, .to_days = -1}, "", false},
        {"not valid yet", &root, NULL, {.from_days = 1, .to_days = 9}, "", false},
        {"by a CA that is over", &root, NULL, {0}, OVER, false},
        {"by a CA that does not hold yet", &root, NULL, {0}, LATER, false},
        {"by a CA that holds for long", &root, NULL, {0}, LONG, true},
        {"for clients", &root, NULL, {.extension = "extendedKeyUsage", .value = "clientAuth"}, "", true},
        {"for servers only", &root, NULL, {.extension = "extendedKeyUsage", .value = "serverAuth"}, "", false},
        {"with the name of the CA's key",
         &root,
         NULL,
         {.extension = "authorityKeyIdentifier", .value = "keyid:always"},
         "",
         true},
        {"with the number of the CA's certificate",
         &root,
         NULL,
         {.extension = "authorityKeyIdentifier", .value = "keyid:always,issuer:always"},
         "",
         true},
        {"with a key of 1,024 bits", &root, NULL, {.rsa_bits = 1024}, "", false},
        {"with a key of 2,048 bits", &root, NULL, {.rsa_bits = 2048}, "", true},
        {"with something critical that nobody knows",
         &root,
         NULL,
         {.extension = "1.2.3.4", .value = "critical,DER:0500"},
         "",
         false},
    };
    char ca[2048];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        chain_fixture_free(&p);
        p = chain_fixture_issue("device", rows[i].issuer, rows[i].traits);
        if (find(&p, rows[i].above, chain_fixture_ca(&root, "root", rows[i].more, ca)) != (rows[i].is_good ? 0 : -1))
            fail_msg("%s", rows[i].what);
    }
}

static void of_cas_with_one_name_the_one_with_the_key_is_found(void **state)
{
    char one[2048], two[2048], cas[4200];

    (void)state;
    chain_fixture_free(&p);
    p = chain_fixture_issue("device", &root, (struct chain_fixture_traits){0});
    chain_fixture_ca(&other, "root", "", one);
    snprintf(cas, sizeof cas, "%s,%s", one, chain_fixture_ca(&root, "root", "", two));
    assert_int_equal(find(&p, NULL, cas), 1);
    assert_int_equal(find(&p, NULL, ""), -1);
    chain_fixture_ca(&root, "another name", "", two);
    assert_int_equal(find(&p, NULL, two), -1);
    assert_int_equal(find(&p, NULL, "{\"subject-dn\":\"CN=root,O=acme\",\"public-key\":\"AAAA\"}"), -1);
}

static void an_intermediate_may_be_trusted_itself(void **state)
{
    char ca[2048];

    (void)state;
    chain_fixture_free(&p);
    p = chain_fixture_issue("device", &below, (struct chain_fixture_traits){0});
    assert_int_equal(find(&p, NULL, chain_fixture_ca(&below, "below", "", ca)), 0);
    assert_int_equal(find(&p, &root, ca), 0);
}

/* What is found of `leaf` below `root`, with `own` as the list that the tenant gives (NULL: none). */
static enum trust_result judge(const struct chain_fixture_party *leaf, const struct chain_fixture_party *above, const char *own,
                               struct trust_rules rules, int64_t *out_until_s)
{
    struct tls_peer peer = chain_fixture_peer(leaf, above);
    static char more[8192], ca[10240];
    struct trust_chain chain = {0};
    struct trust_path path;
    json_t *tenant, *cas;
    char plain[2048];

    (void)snprintf(more, sizeof more, "%s%s%s", own ? ",\"crl\":\"" : "", own ? own : "", own ? "\"" : "");
    chain_fixture_ca(&root, "root", "", plain);
    (void)snprintf(ca, sizeof ca, "{\"trusted-ca\":[%.*s%s}]}", (int)strlen(plain) - 1, plain, more);
    tenant = json_loads(ca, 0, NULL);
    cas = json_object_get(tenant, "trusted-ca");
    assert_int_equal(trust_read(&peer, &chain), E_OK);
    rules.now_s = (int64_t)time(NULL);
    trust_find_ca(&chain, tenant, &rules, &path);
    assert_true((path.result == TRUST_GOOD) == (path.ca != NULL));
    assert_true(!path.ca || (path.ca == json_array_get(cas, 0) && path.n == (above ? 3 : 2)));
    *out_until_s = path.until_s;
    trust_free_path(&path);
    json_decref(tenant);
    trust_free(&chain);
    return path.result;
}

static struct revocation_lists *lists_of(const struct crl_fixture *crl)
{
    struct revocation_lists *lists = revocation_list_new();

    assert_int_equal(revocation_list_add(lists, (struct str){crl->der, crl->der_n}, NULL), E_OK);
    return lists;
}

static void lists_say_what_was_revoked(void **state)
{
    struct chain_fixture_party good =
        chain_fixture_issue("good", &root, (struct chain_fixture_traits){.to_days = 9, .from_days = -1});
    struct chain_fixture_party gone = chain_fixture_issue("gone", &root, (struct chain_fixture_traits){0});
    struct chain_fixture_party deep = chain_fixture_issue("deep", &below, (struct chain_fixture_traits){0});
    const struct {
        const char *what;
        struct crl_fixture crl;
        const struct chain_fixture_party *leaf, *above;
        bool takes_old_lists;
        enum trust_result want;
    } rows[] = {
        {"not on it", crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0}), &good, NULL, false, TRUST_GOOD},
        {"on it", crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0}), &gone, NULL, false, TRUST_REVOKED},
        {"what stands above is", crl_fixture_make(&root, &below, (struct crl_fixture_traits){0}), &deep, &below, false,
         TRUST_REVOKED},
        {"on that of what stands above", crl_fixture_make(&below, &deep, (struct crl_fixture_traits){0}), &deep, &below, false,
         TRUST_REVOKED},
        {"the CA itself, which its tenant trusts", crl_fixture_make(&root, &root, (struct crl_fixture_traits){0}), &good, NULL,
         false, TRUST_GOOD},
        {"over", crl_fixture_make(&root, NULL, (struct crl_fixture_traits){.from_days = -9, .to_days = -1}), &good, NULL, false,
         TRUST_OLD_LIST},
        {"over, which does not matter",
         crl_fixture_make(&root, NULL, (struct crl_fixture_traits){.from_days = -9, .to_days = -1}), &good, NULL, true,
         TRUST_GOOD},
        {"of somebody with that name", crl_fixture_make(&other, NULL, (struct crl_fixture_traits){0}), &good, NULL, false,
         TRUST_FOREIGN_LIST},
        {"of another CA", crl_fixture_make(&below, NULL, (struct crl_fixture_traits){0}), &good, NULL, false, TRUST_GOOD},
    };
    int64_t until_s;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct revocation_lists *lists = lists_of(&rows[i].crl);
        struct trust_rules rules = {.lists = lists, .takes_old_lists = rows[i].takes_old_lists};

        if (judge(rows[i].leaf, rows[i].above, NULL, rules, &until_s) != rows[i].want)
            fail_msg("in a folder: %s", rows[i].what);
        rules.lists = NULL;
        if (!rows[i].above && judge(rows[i].leaf, NULL, rows[i].crl.base64, rules, &until_s) != rows[i].want &&
            i + 1 < ARRAY_LEN(rows))
            fail_msg("of the tenant: %s", rows[i].what);
        revocation_list_unref(lists);
    }
    (void)judge(&good, NULL, NULL, (struct trust_rules){0}, &until_s);
    assert_in_range(until_s, time(NULL) + 8 * CHAIN_FIXTURE_DAY_S, time(NULL) + 9 * CHAIN_FIXTURE_DAY_S);
    (void)judge(&good, NULL, rows[0].crl.base64, (struct trust_rules){0}, &until_s);
    assert_in_range(until_s, time(NULL) + CHAIN_FIXTURE_DAY_S - 60, time(NULL) + CHAIN_FIXTURE_DAY_S); /* the list's */
    chain_fixture_free(&good);
    chain_fixture_free(&gone);
    chain_fixture_free(&deep);
}

static void what_is_no_certificate_is_refused(void **state)
{
    struct tls_peer peer = {.der = STR("no certificate")};
    struct trust_chain chain = {0};

    (void)state;
    assert_int_equal(trust_read(&peer, &chain), E_INVAL);
    trust_free(&chain);
    chain_fixture_free(&p);
    p = chain_fixture_issue("device", &root, (struct chain_fixture_traits){0});
    peer = chain_fixture_peer(&p, &root);
    peer.chain[0] = STR("none either");
    assert_int_equal(trust_read(&peer, &chain), E_INVAL);
    trust_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_followed_to_a_ca_with_its_name_and_key),
        cmocka_unit_test(of_cas_with_one_name_the_one_with_the_key_is_found),
        cmocka_unit_test(an_intermediate_may_be_trusted_itself),
        cmocka_unit_test(lists_say_what_was_revoked),
        cmocka_unit_test(what_is_no_certificate_is_refused),
    };

    return cmocka_run_group_tests_name("trust", tests, make_cas, free_cas);
}
