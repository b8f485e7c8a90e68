#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static int none_left(void **state)
{
    (void)state;
    mem_fail_after(0);
    return mem_used(MEM_TEST) == 0 ? 0 : -1;
}

static void fill(struct buf *b, size_t n, char with)
{
    char *to = buf_reserve(b, MEM_TEST, n);

    assert_non_null(to);
    memset(to, with, n);
    buf_commit(b, n);
}

static void an_all_zero_buffer_is_empty(void **state)
{
    struct buf b = {0};

    (void)state;
    assert_int_equal(buf_size(&b), 0);
    assert_int_equal(buf_str(&b).n, 0);
    buf_consume(&b, 0);
    buf_free(&b, MEM_TEST);
}

static void appending_nothing_to_an_empty_buffer_works(void **state)
{
    struct buf b = {0};

    (void)state;
    assert_int_equal(buf_append(&b, MEM_TEST, (struct str){0}), E_OK);
    assert_int_equal(buf_size(&b), 0);
    assert_null(b.p); /* and takes no memory */
    assert_non_null(buf_reserve(&b, MEM_TEST, 0));
    buf_free(&b, MEM_TEST);
}

static void bytes_come_out_as_they_went_in(void **state)
{
    struct buf b = {0};

    (void)state;
    assert_int_equal(buf_append(&b, MEM_TEST, STR("hello ")), E_OK);
    assert_int_equal(buf_printf(&b, MEM_TEST, "%s %d", "world", 42), E_OK);
    assert_true(str_equal(buf_str(&b), STR("hello world 42")));
    buf_consume(&b, 6);
    assert_true(str_equal(buf_str(&b), STR("world 42")));
    assert_int_equal(buf_printf(&b, MEM_TEST, "%s", ""), E_OK);
    assert_true(str_equal(buf_str(&b), STR("world 42")));
    buf_free(&b, MEM_TEST);
    assert_int_equal(buf_size(&b), 0);
    assert_null(b.p);
}

static void only_committed_bytes_count(void **state)
{
    struct buf b = {0};
    char *to = buf_reserve(&b, MEM_TEST, 100);

    (void)state;
    assert_non_null(to);
    assert_int_equal(buf_size(&b), 0);
    memcpy(to, "abc", 3);
    buf_commit(&b, 3);
    assert_true(str_equal(buf_str(&b), STR("abc")));
    buf_free(&b, MEM_TEST);
}

static void an_emptied_buffer_starts_again_at_its_beginning(void **state)
{
    struct buf b = {0};

    (void)state;
    fill(&b, 200, 'x');
    buf_consume(&b, 200);
    assert_int_equal(b.head, 0);
    assert_int_equal(b.tail, 0);
    fill(&b, b.cap, 'y');
    assert_int_equal(b.cap, 256);
    buf_free(&b, MEM_TEST);
}

/* Against a plain array: random appends, prints, consumes. */
static void random_use_matches_a_plain_array(void **state)
{
    enum { STEPS = 20000, MODEL_MAX = 1 << 16 };
    static char model[MODEL_MAX];
    size_t from = 0, to = 0;
    uint32_t seed = 1;
    struct buf b = {0};

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1103515245 + 12345;
        size_t n = seed >> 8 & 511;

        if (seed >> 30 < 2 && to + n < MODEL_MAX) {
            for (size_t i = 0; i < n; i++)
                model[to + i] = (char)(seed + i);
            assert_int_equal(buf_append(&b, MEM_TEST, (struct str){model + to, n}), E_OK);
            to += n;
        } else {
            n = n < to - from ? n : to - from;
            buf_consume(&b, n);
            from += n;
        }
        if (from == to || to > MODEL_MAX - 600) {
            memmove(model, model + from, to - from);
            to -= from;
            from = 0;
        }
        assert_true(str_equal(buf_str(&b), (struct str){model + from, to - from}));
    }
    buf_free(&b, MEM_TEST);
}

static void a_mostly_consumed_buffer_is_compacted_instead_of_grown(void **state)
{
    struct buf b = {0};

    (void)state;
    fill(&b, 256, 'x');
    buf_consume(&b, 200);
    fill(&b, 200, 'y');
    assert_int_equal(b.cap, 256);
    assert_int_equal(b.head, 0);
    assert_int_equal(buf_size(&b), 256);
    assert_int_equal(buf_str(&b).p[55], 'x');
    assert_int_equal(buf_str(&b).p[56], 'y');
    buf_free(&b, MEM_TEST);
}

/* A queue that stays nearly full must not move all its bytes for each one that joins. */
static void a_nearly_full_queue_moves_its_bytes_seldom(void **state)
{
    enum { QUEUE = 64 * 1024, STEPS = 4 * QUEUE };
    struct buf b = {0};
    size_t moved = 0;

    (void)state;
    fill(&b, QUEUE, 'x');
    for (int i = 0; i < STEPS; i++) {
        uint32_t head;

        buf_consume(&b, 1);
        head = b.head;
        fill(&b, 1, 'y');
        if (b.head < head)
            moved += buf_size(&b);
    }
    assert_true(moved <= 8 * (size_t)STEPS);
    assert_true(b.cap <= 4 * QUEUE);
    buf_free(&b, MEM_TEST);
}

static void a_size_past_the_bound_is_refused_and_changes_nothing(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 2, SIZE_MAX / 2, (size_t)UINT32_MAX + 1, UINT32_MAX, (1u << 30) - 2};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct buf b = {0};

        assert_int_equal(buf_append(&b, MEM_TEST, STR("abc")), E_OK);
        assert_null(buf_reserve(&b, MEM_TEST, sizes[i]));
        assert_true(str_equal(buf_str(&b), STR("abc")));
        buf_consume(&b, 1);
        assert_null(buf_reserve(&b, MEM_TEST, sizes[i] + (i == ARRAY_LEN(sizes) - 1)));
        assert_true(str_equal(buf_str(&b), STR("bc")));
        buf_free(&b, MEM_TEST);
    }
}

static void no_memory_is_reported_and_changes_nothing(void **state)
{
    struct buf b = {0};

    (void)state;
    mem_fail_after(1);
    assert_int_equal(buf_append(&b, MEM_TEST, STR("abc")), E_NOMEM);
    mem_fail_after(1);
    assert_int_equal(buf_printf(&b, MEM_TEST, "abc"), E_NOMEM);
    assert_int_equal(buf_size(&b), 0);
    fill(&b, 250, 'x');
    buf_consume(&b, 10);
    mem_fail_after(1);
    assert_int_equal(buf_append(&b, MEM_TEST, (struct str){(char[300]){0}, 300}), E_NOMEM);
    mem_fail_after(1);
    assert_int_equal(buf_printf(&b, MEM_TEST, "%300d", 1), E_NOMEM);
    mem_fail_after(1);
    assert_null(buf_reserve(&b, MEM_TEST, 300));
    assert_int_equal(buf_size(&b), 240);
    for (size_t i = 0; i < 240; i++)
        assert_int_equal(buf_str(&b).p[i], 'x');
    assert_int_equal(buf_append(&b, MEM_TEST, STR("again")), E_OK); /* fails once only */
    buf_free(&b, MEM_TEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_all_zero_buffer_is_empty, none_left),
        cmocka_unit_test_teardown(appending_nothing_to_an_empty_buffer_works, none_left),
        cmocka_unit_test_teardown(bytes_come_out_as_they_went_in, none_left),
        cmocka_unit_test_teardown(only_committed_bytes_count, none_left),
        cmocka_unit_test_teardown(an_emptied_buffer_starts_again_at_its_beginning, none_left),
        cmocka_unit_test_teardown(random_use_matches_a_plain_array, none_left),
        cmocka_unit_test_teardown(a_mostly_consumed_buffer_is_compacted_instead_of_grown, none_left),
        cmocka_unit_test_teardown(a_nearly_full_queue_moves_its_bytes_seldom, none_left),
        cmocka_unit_test_teardown(a_size_past_the_bound_is_refused_and_changes_nothing, none_left),
        cmocka_unit_test_teardown(no_memory_is_reported_and_changes_nothing, none_left),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
