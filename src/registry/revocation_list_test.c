#include "registry/revocation_list.h"

#include <time.h>

#include "registry/chain_fixture_test.h"

#include <openssl/pem.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/crl_fixture_test.h"

static struct chain_fixture_party root, other, device, gone; /* `other` has the name of `root` */

static int make_parties(void **state)
{
    (void)state;
    root = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    other = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    device = chain_fixture_issue("device", &root, (struct chain_fixture_traits){0});
    gone = chain_fixture_issue("gone", &root, (struct chain_fixture_traits){0});
    return 0;
}

static int free_parties(void **state)
{
    struct chain_fixture_party *all[] = {&root, &other, &device, &gone};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        chain_fixture_free(all[i]);
    return 0;
}

static enum revocation_status check(struct revocation_lists *lists, const struct chain_fixture_party *p)
{
    int64_t until_s = 0;

    return revocation_list_check(lists, p->cert, root.cert, (int64_t)time(NULL), &until_s);
}

static void what_is_on_the_list_is_revoked(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0});
    struct revocation_lists *lists = revocation_list_new();
    int64_t until_s = 0;

    (void)state;
    assert_int_equal(check(NULL, &gone), REVOCATION_UNLISTED);
    assert_int_equal(check(lists, &gone), REVOCATION_UNLISTED);
    assert_int_equal(revocation_list_add(lists, (struct str){crl.der, crl.der_n}, NULL), E_OK);
    assert_int_equal(check(lists, &gone), REVOCATION_REVOKED);
    assert_int_equal(check(lists, &device), REVOCATION_GOOD);
    assert_int_equal(revocation_list_check(lists, device.cert, root.cert, (int64_t)time(NULL), &until_s), REVOCATION_GOOD);
    assert_in_range(until_s, time(NULL) + CHAIN_FIXTURE_DAY_S - 60, time(NULL) + CHAIN_FIXTURE_DAY_S + 60);
    assert_int_equal(revocation_list_check(lists, gone.cert, other.cert, (int64_t)time(NULL), &until_s), REVOCATION_FOREIGN);
    assert_int_equal(revocation_list_check_one(str_from(crl.base64), gone.cert, root.cert, (int64_t)time(NULL), &until_s),
                     REVOCATION_REVOKED);
    assert_int_equal(revocation_list_check_one(STR("AAAA"), gone.cert, root.cert, (int64_t)time(NULL), &until_s),
                     REVOCATION_UNLISTED);
    revocation_list_unref(lists);
}

static void a_list_that_is_over_says_so_but_not_of_what_is_on_it(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){.from_days = -9, .to_days = -1});
    struct revocation_lists *lists = revocation_list_new();

    (void)state;
    assert_int_equal(revocation_list_add(lists, (struct str){crl.der, crl.der_n}, NULL), E_OK);
    assert_int_equal(check(lists, &gone), REVOCATION_REVOKED);
    assert_int_equal(check(lists, &device), REVOCATION_OVER);
    revocation_list_unref(lists);
}

static void of_several_the_newest_of_the_ca_counts(void **state)
{
    struct crl_fixture old = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){.from_days = -5, .to_days = 1});
    struct crl_fixture newer = crl_fixture_make(&root, NULL, (struct crl_fixture_traits){.from_days = -1, .to_days = 1});
    struct crl_fixture foreign = crl_fixture_make(&other, &device, (struct crl_fixture_traits){0});
    struct revocation_lists *lists = revocation_list_new();
    char text[20000];

    (void)state;
    (void)snprintf(text, sizeof text, "%s%s%s", newer.pem, old.pem, foreign.pem);
    assert_int_equal(revocation_list_add(lists, str_from(text), NULL), E_OK);
    assert_int_equal(check(lists, &gone), REVOCATION_GOOD);
    assert_int_equal(check(lists, &device), REVOCATION_GOOD);
    revocation_list_unref(lists);
}

static void what_is_no_full_list_is_refused(void **state)
{
    struct crl_fixture delta = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){.is_delta = true});
    struct crl_fixture endless = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){.is_endless = true});
    const struct {
        struct str bytes;
        const char *want;
    } rows[] = {
        {STR(""), "has no certificate revocation list"},
        {STR("nonsense"), "has no certificate revocation list"},
        {chain_fixture_der(&device), "has no certificate revocation list"},
        {{delta.der, delta.der_n}, "is a delta, an indirect or a partial list"},
        {{endless.der, endless.der_n}, "does not say when the next one is due"},
    };
    int64_t before = (int64_t)mem_used(MEM_REGISTRY);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct revocation_lists *lists = revocation_list_new();
        struct errinfo ei = {0};

        assert_int_equal(revocation_list_add(lists, rows[i].bytes, &ei), E_INVAL);
        assert_string_equal(ei.text, rows[i].want);
        revocation_list_unref(lists);
    }
    assert_int_equal(mem_used(MEM_REGISTRY), before);
}

static void a_tenants_list_has_to_be_its_cas(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0});
    struct crl_fixture foreign = crl_fixture_make(&other, &gone, (struct crl_fixture_traits){0});
    char key[1024] = "";
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(root.key, &der);

    (void)state;
    (void)base64_encode((struct str){(const char *)der, (size_t)n}, key);
    OPENSSL_free(der);
    assert_null(revocation_list_fault(str_from(crl.base64), STR("CN=root,O=acme"), str_from(key)));
    assert_string_equal(revocation_list_fault(str_from(crl.base64), STR("CN=else,O=acme"), str_from(key)), "is of another CA");
    assert_string_equal(revocation_list_fault(str_from(foreign.base64), STR("CN=root,O=acme"), str_from(key)),
                        "is not signed by this CA");
    assert_string_equal(revocation_list_fault(STR("AAAA"), STR("CN=root,O=acme"), str_from(key)),
                        "is no certificate revocation list (DER in base64)");
}

static void sets_of_the_same_bytes_are_the_same(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0});
    struct revocation_lists *a = revocation_list_new(), *b = revocation_list_new();

    (void)state;
    assert_true(revocation_list_is_same(a, NULL));
    assert_int_equal(revocation_list_add(a, (struct str){crl.der, crl.der_n}, NULL), E_OK);
    assert_false(revocation_list_is_same(a, b));
    assert_int_equal(revocation_list_add(b, (struct str){crl.der, crl.der_n}, NULL), E_OK);
    assert_true(revocation_list_is_same(a, b));
    assert_int_not_equal(revocation_list_number(a), revocation_list_number(b));
    revocation_list_unref(a);
    revocation_list_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_on_the_list_is_revoked),
        cmocka_unit_test(a_list_that_is_over_says_so_but_not_of_what_is_on_it),
        cmocka_unit_test(of_several_the_newest_of_the_ca_counts),
        cmocka_unit_test(what_is_no_full_list_is_refused),
        cmocka_unit_test(a_tenants_list_has_to_be_its_cas),
        cmocka_unit_test(sets_of_the_same_bytes_are_the_same),
    };

    return cmocka_run_group_tests_name("revocation_list", tests, make_parties, free_parties);
}
