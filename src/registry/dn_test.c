#include "registry/dn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void equal_names_get_one_spelling(void **state)
{
    static const struct {
        const char *text, *want; /* NULL: it is no name */
    } rows[] = {
        {"CN=ca,O=acme", "CN=ca,O=acme"},
        {"cn=ca ; o = acme", "CN=ca,O=acme"},
        {"OID.2.5.4.3=ca", "2.5.4.3=ca"},
        {"CN=\"a, b\"", "CN=a\\, b"},
        {"CN=a\\2Cb\\20", "CN=a\\,b\\ "},
        {"CN=a+OU=b,O=c", "CN=a+OU=b,O=c"},
        {"CN=#0C02C3A4", "CN=#0c02c3a4"},
        {"CN=\\#x", "CN=\\#x"},
        {"CN=J\xc3\xbcrgen", "CN=J\xc3\xbcrgen"},
        {"CN=J\\C3\\BCrgen", "CN=J\xc3\xbcrgen"},
        {"CN=", "CN="},
        {"CN=a b", "CN=a b"},
        {"CN=a=b", "CN=a=b"},
        {"", NULL},
        {"ca", NULL},
        {"CN", NULL},
        {"=x", NULL},
        {"CN=a,", NULL},
        {"CN=a\\", NULL},
        {"CN=a\\0", NULL},
        {"CN=a\\00", NULL},
        {"CN=a<b", NULL},
        {"CN=\"a", NULL},
        {"CN=\"a\"b", NULL},
        {"CN=#1", NULL},
        {"CN=#", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[DN_BYTES], again[DN_BYTES];
        size_t n = 0, again_n;
        err e = dn_canonical(str_from(rows[i].text), name, &n);

        if ((e == E_OK) != (rows[i].want != NULL) || (e == E_OK && !str_equal((struct str){name, n}, str_from(rows[i].want))))
            fail_msg("row %zu: %s: %.*s", i, rows[i].text, (int)n, name);
        if (e != E_OK)
            continue;
        assert_int_equal(dn_canonical((struct str){name, n}, again, &again_n), E_OK);
        assert_true(str_equal((struct str){name, n}, (struct str){again, again_n}));
    }
}

static void names_that_are_too_long_are_refused(void **state)
{
    char text[2 * DN_BYTES], name[DN_BYTES];
    size_t n;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, "CN=", 3);
    assert_int_equal(dn_canonical((struct str){text, DN_BYTES}, name, &n), E_OK);
    assert_int_equal(dn_canonical((struct str){text, DN_BYTES + 1}, name, &n), E_LIMIT);
    assert_int_equal(dn_canonical((struct str){"CN=a\0b", 6}, name, &n), E_INVAL);
    memset(text + 3, '"', DN_BYTES / 2);
    memset(text, 'C', DN_BYTES);
    assert_int_equal(dn_canonical((struct str){text, DN_BYTES}, name, &n), E_INVAL);
}

static void templates_are_filled_from_the_name(void **state)
{
    static const struct {
        const char *form, *want;
        err e;
    } rows[] = {
        {"{{subject-cn}}", "s, 4", E_OK},
        {"dev-{{subject-cn}}-{{subject-o}}", "dev-s, 4-acme", E_OK},
        {"{{subject-dn}}", "CN=s\\, 4,OU=a,OU=b,O=acme", E_OK},
        {"{{subject-ou}}", "a", E_OK},
        {"plain", "plain", E_OK},
        {"{a}", "{a}", E_OK},
        {"", "", E_OK},
        {"{{subject-sn}}", NULL, E_INVAL},
        {"{{subject-cn", NULL, E_INVAL},
    };
    char to[DN_BYTES];
    size_t n;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(dn_expand(str_from(rows[i].form), STR("CN=s\\, 4,OU=a,OU=b,O=acme"), to, &n), rows[i].e);
        assert_int_equal(dn_is_template(str_from(rows[i].form)), rows[i].e == E_OK);
        if (rows[i].want)
            assert_true(str_equal((struct str){to, n}, str_from(rows[i].want)));
    }
    assert_int_equal(dn_expand(STR("{{subject-cn}}"), STR("O=acme"), to, &n), E_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_names_get_one_spelling),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(templates_are_filled_from_the_name),
    };

    return cmocka_run_group_tests_name("dn", tests, NULL, NULL);
}
