#include "registry/trust_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"

enum { NOW_S = 1800000000 };

static void make(const struct trust_cache *c, const char *one, const char *two, unsigned char token[KEYED_DIGEST_BYTES])
{
    const struct str parts[] = {str_from(one), str_from(two)};

    trust_cache_token(c, parts, 2, token);
}

static void verdicts_are_remembered_for_their_time(void **state)
{
    static const struct {
        int64_t until_s, now_s;
        int is_there;
    } rows[] = {
        {NOW_S + 1000, NOW_S, 1},
        {NOW_S + 1000, NOW_S + TRUST_CACHE_S - 1, 1},
        {NOW_S + 1000, NOW_S + TRUST_CACHE_S, 0},
        {NOW_S + 5, NOW_S + 4, 1},
        {NOW_S + 5, NOW_S + 5, 0},
        {NOW_S + 1000, NOW_S - 1, 0},
    };
    struct trust_cache *c = trust_cache_new();
    unsigned char token[KEYED_DIGEST_BYTES], other[KEYED_DIGEST_BYTES];
    int ca;

    (void)state;
    make(c, "ab", "c", token);
    make(c, "a", "bc", other);
    assert_false(trust_cache_find(c, token, NOW_S, &ca));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trust_cache_keep(c, token, NOW_S, rows[i].until_s, (int)i - 1);
        assert_int_equal(trust_cache_find(c, token, rows[i].now_s, &ca), rows[i].is_there);
        if (rows[i].is_there)
            assert_int_equal(ca, (int)i - 1);
        assert_false(trust_cache_find(c, other, rows[i].now_s, &ca));
    }
    trust_cache_free(c);
    assert_int_equal(mem_used(MEM_REGISTRY), 0);
}

static void the_oldest_go_when_there_are_many(void **state)
{
    struct trust_cache *c = trust_cache_new();
    unsigned char token[KEYED_DIGEST_BYTES];
    char name[32];
    int ca;

    (void)state;
    for (int i = 0; i <= TRUST_CACHE_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        make(c, name, "", token);
        trust_cache_keep(c, token, NOW_S, NOW_S + 10, i);
    }
    assert_true(trust_cache_find(c, token, NOW_S, &ca) && ca == TRUST_CACHE_MAX);
    make(c, "0", "", token);
    assert_false(trust_cache_find(c, token, NOW_S, &ca));
    make(c, "1", "", token);
    assert_true(trust_cache_find(c, token, NOW_S, &ca) && ca == 1);
    trust_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_remembered_for_their_time),
        cmocka_unit_test(the_oldest_go_when_there_are_many),
    };

    return cmocka_run_group_tests_name("trust_cache", tests, NULL, NULL);
}
