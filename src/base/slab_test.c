#include "base/slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

enum { OBJECTS = 5000 };

static void objects_are_zeroed_aligned_apart_and_counted(void **state)
{
    static const size_t sizes[] = {8, 12, 24, 100, 192, 5000};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct slab s = {.object_bytes = sizes[i], .sub = MEM_TEST};
        static char *objects[OBJECTS];
        size_t n = sizes[i] > 1000 ? 100 : OBJECTS;

        for (size_t k = 0; k < n; k++) {
            objects[k] = slab_new(&s);
            assert_int_equal((uintptr_t)objects[k] % 8, 0);
            for (size_t b = 0; b < sizes[i]; b++)
                assert_int_equal(objects[k][b], 0);
            memset(objects[k], (int)(k % 251 + 1), sizes[i]);
        }
        assert_int_equal(s.in_use, n);
        for (size_t k = 0; k < n; k++) /* nobody wrote into a neighbour */
            for (size_t b = 0; b < sizes[i]; b++)
                assert_int_equal((unsigned char)objects[k][b], k % 251 + 1);
        slab_fini(&s);
        assert_int_equal(s.in_use, 0);
        assert_int_equal(mem_used(MEM_TEST), 0);
    }
}

static void a_freed_object_is_handed_out_again_zeroed(void **state)
{
    struct slab s = {.object_bytes = 40, .sub = MEM_TEST};
    char *a = slab_new(&s), *b = slab_new(&s), *again;

    (void)state;
    memset(a, 'x', 40);
    slab_free(&s, a);
    assert_int_equal(s.in_use, 1);
    again = slab_new(&s);
    assert_ptr_equal(again, a);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(again[i], 0);
    memset(b, 'y', 40);
    slab_free(&s, b);
    assert_ptr_equal(slab_new_raw(&s), b);
    slab_free(&s, NULL);
    assert_int_equal(s.in_use, 2);
    slab_fini(&s);
}

static void memory_does_not_grow_while_freed_objects_are_left(void **state)
{
    struct slab s = {.object_bytes = 64, .sub = MEM_TEST};
    static void *objects[OBJECTS];
    int64_t peak;

    (void)state;
    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = slab_new_raw(&s);
    peak = mem_used(MEM_TEST);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < OBJECTS; i++)
            slab_free(&s, objects[i]);
        assert_int_equal(s.in_use, 0);
        for (size_t i = 0; i < OBJECTS; i++)
            objects[i] = slab_new(&s);
    }
    assert_int_equal(mem_used(MEM_TEST), peak);
    slab_fini(&s);
    assert_int_equal(mem_used(MEM_TEST), 0);
}

static void an_unused_slab_is_empty_and_a_released_one_works_again(void **state)
{
    struct slab s = {.object_bytes = 16, .sub = MEM_TEST};

    (void)state;
    slab_fini(&s);
    (void)slab_new(&s);
    slab_fini(&s);
    slab_fini(&s);
    (void)slab_new(&s);
    assert_int_equal(s.in_use, 1);
    slab_fini(&s);
    assert_int_equal(mem_used(MEM_TEST), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_aligned_apart_and_counted),
        cmocka_unit_test(a_freed_object_is_handed_out_again_zeroed),
        cmocka_unit_test(memory_does_not_grow_while_freed_objects_are_left),
        cmocka_unit_test(an_unused_slab_is_empty_and_a_released_one_works_again),
    };

    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
