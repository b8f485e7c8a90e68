#include "base/arena.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    static const size_t sizes[] = {1, 0, 7, 16, 1000, 5000, 3, 2 << 20, 1};
    struct arena a = {0};
    char *last = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = arena_alloc(&a, MEM_TEST, sizes[i]);

        assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(p[k], 0);
        memset(p, 'x', sizes[i]);
        if (sizes[i])
            assert_ptr_not_equal(p, last);
        last = p;
    }
    arena_free(&a, MEM_TEST);
    assert_int_equal(mem_used(MEM_TEST), 0);
    assert_null(a.blocks);
}

static void a_copy_is_ended_by_a_nul(void **state)
{
    struct arena a = {0};
    struct str copy = arena_copy(&a, MEM_TEST, (struct str){"abcdef", 3}), empty = arena_copy(&a, MEM_TEST, (struct str){0});

    (void)state;
    assert_string_equal(copy.p, "abc");
    assert_int_equal(copy.n, 3);
    assert_string_equal(empty.p, "");
    arena_wipe(&a, MEM_TEST);
    assert_int_equal(mem_used(MEM_TEST), 0);
}

static void what_was_reset_is_zeroed_and_keeps_a_small_block(void **state)
{
    struct arena a = {0};
    char *small;

    (void)state;
    arena_reset(&a, MEM_TEST);
    assert_null(a.blocks);
    memset(arena_alloc(&a, MEM_TEST, 100), 'x', 100);
    memset(arena_alloc(&a, MEM_TEST, 5000), 'x', 5000);
    arena_reset(&a, MEM_TEST);
    assert_null(a.blocks); /* the newest was large */
    memset(arena_alloc(&a, MEM_TEST, 100), 'x', 100);
    arena_reset(&a, MEM_TEST);
    assert_non_null(a.blocks);
    small = arena_alloc(&a, MEM_TEST, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(small[i], 0);
    assert_true(a.used_bytes >= 100 && a.used_bytes < 200);
    arena_free(&a, MEM_TEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_copy_is_ended_by_a_nul),
        cmocka_unit_test(what_was_reset_is_zeroed_and_keeps_a_small_block),
    };

    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
