#include "command/command_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static struct command_memory memory;

static int set_up(void **state)
{
    (void)state;
    memory = (struct command_memory){.max = 3};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    command_memory_fini(&memory);
    return 0;
}

static struct command_ticket ticket(const char *tenant, int32_t partition, int64_t offset)
{
    return (struct command_ticket){str_from(tenant), partition, offset};
}

static void a_place_is_known_by_all_of_it(void **state)
{
    static const struct {
        const char *tenant;
        int32_t partition;
        int64_t offset, timestamp_ms;
        bool is_same;
    } cases[] = {{"t", 1, 2, 3, true},  {"u", 1, 2, 3, false}, {"t", 2, 2, 3, false},
                 {"t", 1, 3, 3, false}, {"t", 1, 2, 4, false}, {"", 1, 2, 3, false}};
    struct command_ticket first = ticket("t", 1, 2);
    struct command_item *item = command_memory_add(&memory, &first, 3);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct command_ticket asked = ticket(cases[i].tenant, cases[i].partition, cases[i].offset);

        assert_ptr_equal(command_memory_find(&memory, &asked, cases[i].timestamp_ms), cases[i].is_same ? item : NULL);
    }
}

static struct command_item *add(int64_t offset)
{
    struct command_ticket t = ticket("t", 0, offset);

    return command_memory_add(&memory, &t, 0);
}

static bool has(int64_t offset)
{
    struct command_ticket t = ticket("t", 0, offset);

    return command_memory_find(&memory, &t, 0) != NULL;
}

static void what_is_under_way_is_never_forgotten(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 100; i++)
        (void)add(i);
    for (int64_t i = 100; i < 110; i++)
        command_memory_keep(&memory, add(i), 1);
    for (int64_t i = 0; i < 100; i++)
        assert_true(has(i));
}

static void what_is_over_is_forgotten_for_want_of_room_and_counted(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 5; i++)
        command_memory_keep(&memory, add(i), (uint64_t)i);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(has(i), i >= 2);
    assert_int_equal(memory.n_forgotten, 2);
}

static void what_is_over_for_long_is_forgotten_without_a_word(void **state)
{
    (void)state;
    command_memory_keep(&memory, add(0), 0);
    command_memory_keep(&memory, add(1), COMMAND_MEMORY_MS);
    assert_true(has(0));
    command_memory_keep(&memory, add(2), COMMAND_MEMORY_MS + 1);
    assert_false(has(0));
    assert_true(has(1));
    assert_int_equal(memory.n_forgotten, 0);
}

static void the_newest_asker_takes_the_place_of_the_one_before(void **state)
{
    struct command_peer one = {STR("one"), 1}, two = {STR("two"), 2};
    struct command_item *item = add(0);

    (void)state;
    command_memory_set_asker(item, &one);
    command_memory_set_asker(item, &two);
    assert_string_equal(item->asker, "two");
    assert_int_equal(item->asker_incarnation, 2);
    command_memory_remove(&memory, item);
    assert_false(has(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(a_place_is_known_by_all_of_it),
        TEST(what_is_under_way_is_never_forgotten),
        TEST(what_is_over_is_forgotten_for_want_of_room_and_counted),
        TEST(what_is_over_for_long_is_forgotten_without_a_word),
        TEST(the_newest_asker_takes_the_place_of_the_one_before),
    };

    return cmocka_run_group_tests_name("command_memory", tests, NULL, NULL);
}
