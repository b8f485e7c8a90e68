#include "routes/routes_done.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "routes/routes_record.h"

enum { OFFSETS = 300, ROUNDS = 4000 };

static void ranges_that_touch_become_one(void **state)
{
    static const struct {
        uint64_t from, to;
        size_t n;
        uint64_t watermark;
    } steps[] = {
        {5, 6, 1, 0},   {7, 8, 2, 0}, {6, 7, 1, 0}, {20, 30, 2, 0}, {22, 25, 2, 0}, {10, 10, 2, 0},
        {15, 40, 2, 0}, {0, 3, 2, 3}, {2, 5, 1, 8}, {8, 9, 1, 9},   {0, 50, 0, 50}, {3, 4, 0, 50},
    };
    struct routes_done done = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        assert_true(routes_done_add(&done, steps[i].from, steps[i].to));
        assert_int_equal(done.n, steps[i].n);
        assert_int_equal(done.watermark, steps[i].watermark);
    }
    routes_done_free(&done);
}

static void it_has_what_was_added_in_any_order(void **state)
{
    struct routes_done done = {0}, again;
    bool has[OFFSETS] = {0};
    uint64_t random = 1;
    struct buf bytes = {0};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t from, to;

        random = random * 6364136223846793005u + 1442695040888963407u;
        from = (random >> 33) % OFFSETS;
        to = from + (random >> 60);
        to = to < OFFSETS ? to : OFFSETS;
        if (i % 1000 == 0) {
            routes_done_free(&done);
            memset(has, 0, sizeof has);
        }
        assert_true(routes_done_add(&done, from, to));
        for (; from < to; from++)
            has[from] = true;
        for (unsigned k = 0; k < OFFSETS; k++)
            assert_int_equal(routes_done_has(&done, k), has[k]);
    }
    routes_done_write(&done, &bytes);
    assert_int_equal(routes_done_read(buf_str(&bytes), &again), E_OK);
    for (unsigned k = 0; k < OFFSETS; k++)
        assert_int_equal(routes_done_has(&again, k), has[k]);
    routes_done_free(&again);
    routes_done_free(&done);
    buf_free(&bytes, MEM_ROUTES);
    assert_int_equal(mem_used(MEM_ROUTES), 0);
}

static void too_many_ranges_are_refused_and_those_that_join_are_not(void **state)
{
    struct routes_done done = {0};

    (void)state;
    for (uint64_t i = 0; i < ROUTES_DONE_RANGES_MAX; i++)
        assert_true(routes_done_add(&done, 2 * i + 2, 2 * i + 3));
    assert_false(routes_done_add(&done, 10 * ROUTES_DONE_RANGES_MAX, 10 * ROUTES_DONE_RANGES_MAX + 1));
    assert_true(routes_done_add(&done, 3, 4));
    assert_true(routes_done_add(&done, 10 * ROUTES_DONE_RANGES_MAX, 10 * ROUTES_DONE_RANGES_MAX + 1));
    routes_done_free(&done);
}

static void bytes_of_no_set_are_refused(void **state)
{
    static const struct {
        uint64_t numbers[5];
        size_t n;
    } cases[] = {
        {{5, 5, 6}, 3},                       /* touches the watermark */
        {{5, 7, 7}, 3},                       /* empty */
        {{5, 7, 8, 8, 9}, 5},                 /* two that touch */
        {{5, 9, 10, 7, 8}, 5},                /* in no order */
        {{5, 7, UINT64_MAX}, 3},              /* no offset */
        {{UINT64_MAX}, 1},       {{5, 7}, 2}, /* half */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct routes_done done;
        struct buf bytes = {0};

        for (size_t k = 0; k < cases[i].n; k++)
            routes_record_put_number(&bytes, cases[i].numbers[k], 8);
        assert_int_equal(routes_done_read(buf_str(&bytes), &done), E_INVAL);
        assert_int_equal(done.n, 0);
        buf_free(&bytes, MEM_ROUTES);
    }
    assert_int_equal(mem_used(MEM_ROUTES), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_touch_become_one),
        cmocka_unit_test(it_has_what_was_added_in_any_order),
        cmocka_unit_test(too_many_ranges_are_refused_and_those_that_join_are_not),
        cmocka_unit_test(bytes_of_no_set_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
