#include "registry/trust.h"

#include <time.h>

#include "registry/chain_fixture_test.h"

#include "base/check.h"

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
    const json_t *found;
    json_t *tenant;
    int at = -1;

    snprintf(text, sizeof text, "{\"trusted-ca\":[%s]}", cas);
    tenant = json_loads(text, 0, NULL);
    assert_non_null(tenant);
    assert_int_equal(trust_read(&peer, &chain), E_OK);
    found = trust_find_ca(&chain, tenant, (int64_t)time(NULL));
    for (size_t i = 0; i < json_array_size(json_object_get(tenant, "trusted-ca")); i++)
        if (found == json_array_get(json_object_get(tenant, "trusted-ca"), i))
            at = (int)i;
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
        cmocka_unit_test(what_is_no_certificate_is_refused),
    };

    return cmocka_run_group_tests_name("trust", tests, make_cas, free_cas);
}
