#include "fanout/fanout_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static struct fanout_memory memory;

static struct fanout_subscription subscriptions[] = {{.uid = STR_INIT("a")}, {.uid = STR_INIT("b")}};
static struct fanout_channel channel = {.key = STR_INIT("ns/c"), .remember_ms = 1000};
static struct fanout_channel other = {.key = STR_INIT("ns/d"), .remember_ms = 5000};

static int set_up(void **state)
{
    (void)state;
    fanout_memory_init(&memory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fanout_memory_fini(&memory);
    assert_int_equal(mem_used(MEM_FANOUT), 0);
    return 0;
}

static struct cloudevent event_of(const char *source, const char *id)
{
    return (struct cloudevent){.source = str_from(source), .id = str_from(id)};
}

static void note(const struct fanout_channel *c, const char *source, const char *id, size_t subscription, uint64_t now_ms)
{
    struct cloudevent event = event_of(source, id);

    fanout_memory_note(&memory, c, &event, &subscriptions[subscription], now_ms);
}

static bool has(const struct fanout_channel *c, const char *source, const char *id, size_t subscription, uint64_t now_ms)
{
    struct cloudevent event = event_of(source, id);

    return fanout_memory_has(fanout_memory_find(&memory, c, &event, now_ms), &subscriptions[subscription]);
}

static void who_had_an_event_is_remembered_and_nobody_else(void **state)
{
    (void)state;
    note(&channel, "s", "1", 0, 100);
    assert_true(has(&channel, "s", "1", 0, 100));
    assert_false(has(&channel, "s", "1", 1, 100));
    assert_false(has(&channel, "s", "2", 0, 100));
    assert_false(has(&channel, "t", "1", 0, 100));
    assert_false(has(&channel, "s1", "", 0, 100));
    assert_false(has(&other, "s", "1", 0, 100));
    note(&channel, "s", "1", 1, 100);
    assert_true(has(&channel, "s", "1", 0, 100));
    assert_true(has(&channel, "s", "1", 1, 100));
}

static void it_is_forgotten_after_its_time(void **state)
{
    (void)state;
    note(&channel, "s", "1", 0, 100);
    assert_true(has(&channel, "s", "1", 0, 1099));
    assert_false(has(&channel, "s", "1", 0, 1100));
    note(&other, "s", "2", 0, 2000); /* takes its memory, too */
    assert_int_equal(memory.entries.n_entries, 1);
    note(&other, "s", "2", 1, 4000); /* from the last one on */
    assert_true(has(&other, "s", "2", 0, 8999));
}

static void an_event_that_came_is_known_until_it_fails(void **state)
{
    struct cloudevent event = event_of("s", "1");

    (void)state;
    fanout_memory_begin(&memory, &channel, &event, 100);
    assert_non_null(fanout_memory_find(&memory, &channel, &event, 1099));
    assert_false(fanout_memory_has(fanout_memory_find(&memory, &channel, &event, 100), NULL));
    assert_null(fanout_memory_find(&memory, &other, &event, 100));
    fanout_memory_note(&memory, &channel, &event, NULL, 200);
    assert_true(fanout_memory_has(fanout_memory_find(&memory, &channel, &event, 1199), NULL));
    assert_null(fanout_memory_find(&memory, &channel, &event, 1200));
    fanout_memory_drop(&memory, &channel, &event);
    fanout_memory_drop(&memory, &channel, &event); /* again: nothing happens */
    assert_null(fanout_memory_find(&memory, &channel, &event, 200));
    assert_int_equal(memory.used_bytes, 0);
}

static void an_event_is_known_as_long_as_it_may_be_under_way(void **state)
{
    const struct fanout_channel slow = {.key = STR_INIT("ns/s"), .remember_ms = 1000, .timeout_ms = 3000};
    struct cloudevent event = event_of("s", "1");

    (void)state;
    fanout_memory_begin(&memory, &slow, &event, 100);
    assert_non_null(fanout_memory_find(&memory, &slow, &event, 3099));
    assert_null(fanout_memory_find(&memory, &slow, &event, 3100));
}

static void the_oldest_is_forgotten_when_there_is_no_room(void **state)
{
    char id[300];
    unsigned n = 0;

    (void)state;
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    while (memory.entries.n_entries == n) {
        snprintf(id, 12, "%010u", n++);
        id[10] = 'x';
        note(&channel, "s", id, 0, 100);
        assert_true(memory.used_bytes <= FANOUT_MEMORY_MAX_BYTES);
    }
    assert_true(n > 10 * 1000);
    assert_true(has(&channel, "s", id, 0, 100));
    memcpy(id, "0000000000", 10);
    assert_false(has(&channel, "s", id, 0, 100));
    memcpy(id, "0000000001", 10);
    assert_true(has(&channel, "s", id, 0, 100));
}

static void many_subscriptions_of_one_event_are_remembered(void **state)
{
    struct cloudevent event = event_of("s", "1");
    const struct fanout_memory_entry *entry;
    static char uids[1000][8];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
        struct fanout_subscription s = {0};

        snprintf(uids[i], sizeof uids[i], "%zu", i);
        s.uid = str_from(uids[i]);
        fanout_memory_note(&memory, &channel, &event, &s, 100);
    }
    entry = fanout_memory_find(&memory, &channel, &event, 100);
    for (size_t i = 0; i < ARRAY_LEN(uids); i++)
        assert_true(fanout_memory_has(entry, &(struct fanout_subscription){.uid = str_from(uids[i])}));
    assert_false(fanout_memory_has(entry, &subscriptions[0]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(who_had_an_event_is_remembered_and_nobody_else), TEST(it_is_forgotten_after_its_time),
        TEST(an_event_that_came_is_known_until_it_fails),     TEST(an_event_is_known_as_long_as_it_may_be_under_way),
        TEST(the_oldest_is_forgotten_when_there_is_no_room),  TEST(many_subscriptions_of_one_event_are_remembered),
    };
#undef TEST

    return cmocka_run_group_tests_name("fanout_memory", tests, NULL, NULL);
}
