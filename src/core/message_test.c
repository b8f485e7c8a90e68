#include "core/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

static void a_message_holds_copies(void **state)
{
    char tenant[] = "t", topic[] = "a/b", payload[] = "hello";
    struct message *m = message_new(str_from(tenant), str_from(topic), str_from(payload), 3);

    (void)state;
    assert_non_null(m);
    memset(tenant, 'x', sizeof tenant);
    memset(topic, 'x', sizeof topic);
    memset(payload, 'x', sizeof payload);
    memcpy(message_properties(m), "abc", 3);
    assert_true(str_equal(m->tenant, STR("t")));
    assert_true(str_equal(m->topic, STR("a/b")));
    assert_true(str_equal(m->payload, STR("hello")));
    assert_true(str_equal(m->properties, STR("abc")));
    assert_int_equal(message_size(m), sizeof *m + 1 + 3 + 5 + 3);
    assert_int_equal(m->qos + m->retain + m->has_expiry + m->publisher + m->sequence, 0);
    message_unref(m);
}

static void a_payload_may_be_empty(void **state)
{
    struct message *m = message_new(STR("t"), STR("a"), (struct str){0}, 0);

    (void)state;
    assert_int_equal(m->payload.n, 0);
    message_unref(m);
}

static void the_last_reference_frees(void **state)
{
    int64_t before = mem_used(MEM_MESSAGE);
    struct message *m = message_new(STR("t"), STR("a"), STR("x"), 0);

    (void)state;
    assert_ptr_equal(message_ref(m), m);
    message_unref(m);
    assert_true(mem_used(MEM_MESSAGE) > before);
    message_unref(m);
    assert_int_equal(mem_used(MEM_MESSAGE), before);
    message_unref(NULL);
}

static void without_memory_there_is_no_message(void **state)
{
    (void)state;
    mem_fail_after(1);
    assert_null(message_new(STR("t"), STR("a"), STR("x"), 0));
    mem_fail_after(0);
}

static void the_expiry_shrinks_to_the_second_and_ends(void **state)
{
    static const struct {
        bool has_expiry;
        uint32_t expiry_s;
        uint64_t received_ms, now_ms;
        bool is_alive;
        uint32_t left_s;
    } rows[] = {
        {false, 0, 5000, UINT64_MAX, true, 0},
        {true, 10, 5000, 5000, true, 10},
        {true, 10, 5000, 5999, true, 10},
        {true, 10, 5000, 6000, true, 9},
        {true, 10, 5000, 14999, true, 1},
        {true, 10, 5000, 15000, false, 0},
        {true, 10, 5000, 4000, true, 10}, /* the clock of another worker may be a turn behind */
        {true, 0, 5000, 5000, false, 0},
        {true, UINT32_MAX, 0, 1000ull * UINT32_MAX - 1, true, 1},
        {true, UINT32_MAX, 0, 1000ull * UINT32_MAX, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct message m = {.has_expiry = rows[i].has_expiry, .expiry_s = rows[i].expiry_s, .received_ms = rows[i].received_ms};
        uint32_t left_s = 0;

        if (message_is_alive(&m, rows[i].now_ms, &left_s) != rows[i].is_alive || left_s != rows[i].left_s)
            fail_msg("row %zu: %u", i, left_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_holds_copies),
        cmocka_unit_test(a_payload_may_be_empty),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(without_memory_there_is_no_message),
        cmocka_unit_test(the_expiry_shrinks_to_the_second_and_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
