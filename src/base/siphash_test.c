#include "base/siphash.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static uint64_t left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

/* SipHash-c-d as the paper's section 2 writes it down, one byte at a time into a padded message. */
static uint64_t reference(int c, int d, const uint8_t key[16], const uint8_t *text, size_t n)
{
    uint64_t k[2] = {0}, v[4];
    size_t n_words = n / 8 + 1;

    for (int i = 0; i < 16; i++)
        k[i / 8] |= (uint64_t)key[i] << (i % 8 * 8);
    v[0] = k[0] ^ 0x736f6d6570736575u;
    v[1] = k[1] ^ 0x646f72616e646f6du;
    v[2] = k[0] ^ 0x6c7967656e657261u;
    v[3] = k[1] ^ 0x7465646279746573u;
    for (size_t w = 0; w <= n_words; w++) {
        bool is_end = w == n_words;
        uint64_t m = 0;

        for (size_t i = w * 8; !is_end && i < w * 8 + 8; i++)
            m |= (uint64_t)(i < n ? text[i] : i % 8 == 7 ? n & 0xff : 0) << (i % 8 * 8);
        if (is_end)
            v[2] ^= 0xff;
        v[3] ^= m;
        for (int r = 0; r < (is_end ? d : c); r++) {
            v[0] += v[1], v[2] += v[3];
            v[1] = left(v[1], 13), v[3] = left(v[3], 16);
            v[1] ^= v[0], v[3] ^= v[2];
            v[0] = left(v[0], 32);
            v[2] += v[1], v[0] += v[3];
            v[1] = left(v[1], 17), v[3] = left(v[3], 21);
            v[1] ^= v[2], v[3] ^= v[0];
            v[2] = left(v[2], 32);
        }
        v[0] ^= m;
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void fill(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)i;
}

/* The vectors of the paper's authors for SipHash-2-4 (key 00..0f, text of i bytes 00, 01, ...): they prove the reference. */
static void the_reference_gives_the_published_values(void **state)
{
    static const struct {
        size_t n;
        uint64_t hash;
    } rows[] = {
        {0, 0x726fdb47dd0e0e31u}, {1, 0x74f839c593dc67fdu},  {2, 0x0d6c8009d9a94f5au},
        {8, 0x93f5f5799a932462u}, {15, 0xa129ca6149be45e5u}, {63, 0x958a324ceb064572u},
    };
    uint8_t key[16], text[64];

    (void)state;
    fill(key, sizeof key);
    fill(text, sizeof text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(reference(2, 4, key, text, rows[i].n), rows[i].hash);
}

static void every_length_hashes_as_siphash_1_3_does(void **state)
{
    uint8_t key_bytes[16], text[600];
    struct siphash_key key;

    (void)state;
    fill(key_bytes, sizeof key_bytes);
    fill(text, sizeof text);
    memcpy(&key, key_bytes, sizeof key);
    for (size_t n = 0; n < sizeof text - 8; n++)
        for (size_t from = 0; from < 8; from++)
            assert_int_equal(siphash_with(key, (struct str){(const char *)text + from, n}),
                             reference(1, 3, key_bytes, text + from, n));
    assert_int_equal(siphash_with(key, (struct str){0}), reference(1, 3, key_bytes, text, 0));
}

static void another_key_gives_another_hash(void **state)
{
    (void)state;
    assert_int_not_equal(siphash_with((struct siphash_key){1, 0}, STR("a")),
                         siphash_with((struct siphash_key){2, 0}, STR("a")));
    assert_int_not_equal(siphash_with((struct siphash_key){0, 1}, STR("a")),
                         siphash_with((struct siphash_key){0, 2}, STR("a")));
}

static void the_process_key_is_random_and_stays(void **state)
{
    (void)state;
    assert_int_equal(siphash(STR("topic")), siphash(STR("topic")));
    assert_int_not_equal(siphash(STR("topic")), siphash(STR("topid")));
    assert_int_not_equal(siphash(STR("topic")), siphash_with((struct siphash_key){0}, STR("topic")));
}

static void a_pair_knows_where_the_first_string_ends(void **state)
{
    static const struct {
        struct str a, b;
    } rows[] = {
        {STR_INIT("a"), STR_INIT("bc")}, {STR_INIT("ab"), STR_INIT("c")}, {STR_INIT("abc"), {0}},
        {{0}, STR_INIT("abc")},          {STR_INIT("bc"), STR_INIT("a")}, {{0}, {0}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < ARRAY_LEN(rows); k++)
            assert_int_equal(siphash_pair(rows[i].a, rows[i].b) == siphash_pair(rows[k].a, rows[k].b), i == k);
}

static void *hash_on_a_thread(void *out)
{
    *(uint64_t *)out = siphash(STR("shared"));
    return NULL;
}

static void all_threads_use_one_key(void **state)
{
    pthread_t threads[4];
    uint64_t hashes[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hash_on_a_thread, &hashes[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(hashes[i], siphash(STR("shared")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_use_one_key), /* first: the threads race to make the key */
        cmocka_unit_test(the_reference_gives_the_published_values),
        cmocka_unit_test(every_length_hashes_as_siphash_1_3_does),
        cmocka_unit_test(another_key_gives_another_hash),
        cmocka_unit_test(the_process_key_is_random_and_stays),
        cmocka_unit_test(a_pair_knows_where_the_first_string_ends),
    };

    return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
