#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

enum { KEYS = 300 };

struct item {
    unsigned key;
    bool is_in;
};

static struct item items[KEYS];

static bool has_key(const void *entry, const void *key)
{
    return ((const struct item *)entry)->key == *(const unsigned *)key;
}

static int reset(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KEYS; i++)
        items[i] = (struct item){.key = i};
    return 0;
}

static int none_left(void **state)
{
    (void)state;
    return mem_used(MEM_TEST) == 0 ? 0 : -1;
}

/* Hashes from good to hopeless. The high half is what the map keeps. */
static uint64_t hash_spread(unsigned key)
{
    return (key + 1) * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_same(unsigned key)
{
    (void)key;
    return 0x1234567800000000u;
}

static uint64_t hash_three(unsigned key)
{
    return (uint64_t)(key % 3 + 0xfffffffeu) << 32;
}

static uint64_t hash_in_a_row(unsigned key)
{
    return (uint64_t)key << 32;
}

static uint64_t hash_last_slots(unsigned key)
{
    return (uint64_t)(0xffffffffu - key % 4) << 32;
}

static uint64_t hash_low_half_only(unsigned key)
{
    return key;
}

static void an_all_zero_map_is_empty(void **state)
{
    struct map m = {0};
    uint32_t cursor = 0;
    unsigned key = 1;

    (void)state;
    assert_null(map_find(&m, hash_spread(key), &key, has_key));
    assert_false(map_remove(&m, hash_spread(key), &items[key]));
    assert_null(map_next(&m, &cursor));
    map_free(&m, MEM_TEST);
}

/* Every key is found or not as the array says, and a walk meets each entry once. */
static void assert_same(const struct map *m, uint64_t (*hash)(unsigned key), unsigned n_in)
{
    bool was_met[KEYS] = {0};
    uint32_t cursor = 0;
    const struct item *met;

    assert_int_equal(m->n_entries, n_in);
    for (unsigned key = 0; key < KEYS; key++)
        assert_ptr_equal(map_find(m, hash(key), &key, has_key), items[key].is_in ? &items[key] : NULL);
    while ((met = map_next(m, &cursor))) {
        assert_true(met->is_in);
        assert_false(was_met[met->key]);
        was_met[met->key] = true;
        n_in--;
    }
    assert_int_equal(n_in, 0);
}

static void random_use_matches_an_array_whatever_the_hash(void **state)
{
    static uint64_t (*const hashes[])(unsigned key) = {hash_spread,   hash_same,       hash_three,
                                                       hash_in_a_row, hash_last_slots, hash_low_half_only};

    (void)state;
    for (size_t h = 0; h < ARRAY_LEN(hashes); h++) {
        struct map m = {0};
        unsigned n_in = 0;
        uint32_t seed = 7;

        reset(NULL);
        for (int step = 0; step < 4000; step++) {
            seed = seed * 1103515245 + 12345;
            struct item *item = &items[(seed >> 8) % KEYS];

            if (item->is_in) {
                assert_true(map_remove(&m, hashes[h](item->key), item));
                n_in--;
            } else {
                assert_false(map_remove(&m, hashes[h](item->key), item));
                map_add(&m, MEM_TEST, hashes[h](item->key), item);
                n_in++;
            }
            item->is_in = !item->is_in;
            assert_true(m.n_entries * 4 <= m.n_slots * 3);
            if (step % 16 == 0)
                assert_same(&m, hashes[h], n_in);
        }
        map_free(&m, MEM_TEST);
        assert_int_equal(m.n_entries, 0);
        assert_int_equal(mem_used(MEM_TEST), 0);
    }
}

static void removing_takes_out_this_very_entry(void **state)
{
    struct map m = {0};
    struct item twin = {.key = 5};
    unsigned key = 5;

    (void)state;
    map_add(&m, MEM_TEST, hash_same(5), &items[5]);
    assert_false(map_remove(&m, hash_same(5), &twin));
    assert_ptr_equal(map_find(&m, hash_same(5), &key, has_key), &items[5]);
    assert_true(map_remove(&m, hash_same(5), &items[5]));
    assert_null(map_find(&m, hash_same(5), &key, has_key));
    assert_false(map_remove(&m, hash_same(5), &items[5]));
    map_free(&m, MEM_TEST);
}

static unsigned comparisons;

static bool counts_and_compares(const void *entry, const void *key)
{
    comparisons++;
    return has_key(entry, key);
}

static void a_miss_touches_no_entry_of_another_hash(void **state)
{
    struct map m = {0};

    (void)state;
    comparisons = 0;
    for (unsigned key = 0; key < KEYS; key++)
        map_add(&m, MEM_TEST, hash_spread(key), &items[key]);
    for (unsigned key = KEYS; key < 3 * KEYS; key++)
        assert_null(map_find(&m, hash_spread(key), &key, counts_and_compares));
    assert_int_equal(comparisons, 0);
    map_free(&m, MEM_TEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_all_zero_map_is_empty, reset, none_left),
        cmocka_unit_test_setup_teardown(random_use_matches_an_array_whatever_the_hash, reset, none_left),
        cmocka_unit_test_setup_teardown(removing_takes_out_this_very_entry, reset, none_left),
        cmocka_unit_test_setup_teardown(a_miss_touches_no_entry_of_another_hash, reset, none_left),
    };

    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
