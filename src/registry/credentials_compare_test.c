#include "registry/credentials_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

#define A "{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"1\",\"key\":\"AAAA\"},{\"id\":\"2\",\"key\":\"BBBB\"}]}"
#define A_                                                                                                                     \
    "{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"8\",\"is-new\":true,\"key\":\"AAAA\"},{\"id\":\"9\",\"key\":"  \
    "\"BBBB\"}]}"
#define B "{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"id\":\"1\",\"pwd-hash\":\"h\"}]}"

static void what_says_the_same_is_equal(void **state)
{
    static const struct {
        const char *a, *b;
        bool is_equal;
    } rows[] = {
        {"[]", "[]", true},
        {"[]", NULL, true},
        {NULL, "[" A "]", false},
        {"[" A "]", "[" A "]", true},
        {"[" A "]", "[" A_ "]", true},
        {"[" A "," B "]", "[" B "," A_ "]", true},
        {"[" A "," B "]", "[" B "]", false},
        {"[" A "]", "[" B "]", false},
        {"[" A "]", "[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"key\":\"AAAA\"}]}]", false},
        {"[" A "]", "[{\"type\":\"psk\",\"auth-id\":\"a\",\"secrets\":[{\"key\":\"BBBB\"},{\"key\":\"AAAA\"}]}]", false},
        {"[" B "]", "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"pwd-plain\":\"x\"}]}]", false},
        {"[" B "]", "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"enabled\":false,\"secrets\":[{\"pwd-hash\":\"h\"}]}]",
         false},
        {"[" B "]", "[{\"type\":\"hashed-password\",\"auth-id\":\"a\",\"secrets\":[{\"pwd-hash\":\"h\",\"comment\":\"c\"}]}]",
         false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *a = rows[i].a ? json_loads(rows[i].a, 0, NULL) : NULL, *b = rows[i].b ? json_loads(rows[i].b, 0, NULL) : NULL;

        if (credentials_compare_equal(a, b) != rows[i].is_equal || credentials_compare_equal(b, a) != rows[i].is_equal)
            fail_msg("row %zu", i);
        json_decref(a);
        json_decref(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_says_the_same_is_equal)};

    return cmocka_run_group_tests_name("credentials_compare", tests, NULL, NULL);
}
