#include "broker/retained.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "core/message.h"

enum { TEXT = 64, DELETION_MS = 10000 };

static struct wheel wheel;
static struct retained r;
static int64_t broker_bytes, message_bytes;

static int set_up(void **state)
{
    (void)state;
    broker_bytes = mem_used(MEM_BROKER);
    message_bytes = mem_used(MEM_MESSAGE);
    wheel_init(&wheel, 1000);
    retained_init(&r, &wheel);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    retained_fini(&r);
    assert_int_equal(wheel_next_ms(&wheel), -1);
    assert_int_equal(mem_used(MEM_BROKER), broker_bytes);
    assert_int_equal(mem_used(MEM_MESSAGE), message_bytes);
    return 0;
}

static void pass_ms(uint64_t ms)
{
    uint64_t now = wheel.now_ms + ms;

    wheel_set_clock(&wheel, now);
    wheel_advance(&wheel, now);
}

static err set(const char *topic, const char *payload, uint64_t sequence, uint32_t expiry_s)
{
    struct message *m = message_new(STR("t"), str_from(topic), str_from(payload), 0);
    err e;

    assert_non_null(m);
    m->retain = true;
    m->sequence = sequence;
    m->has_expiry = expiry_s > 0;
    m->expiry_s = expiry_s;
    m->received_ms = wheel.now_ms;
    e = retained_set(&r, m);
    message_unref(m);
    return e;
}

static void on_message(void *context, struct message *m)
{
    char *text = context;
    size_t n = strlen(text);

    snprintf(text + n, TEXT - n, "%.*s", STR_ARG(m->payload));
}

/* The payloads that match, one after the other; their topics are chosen so that the order does not matter. */
static const char *matching(const char *tenant, const char *filter)
{
    static char text[TEXT];

    text[0] = '\0';
    retained_match(&r, str_from(tenant), str_from(filter), wheel.now_ms, on_message, text);
    return text;
}

static void the_higher_sequence_wins_in_whatever_order_they_come(void **state)
{
    static const struct {
        const char *first;
        uint64_t first_sequence;
        const char *second;
        uint64_t second_sequence;
        const char *left;
    } rows[] = {
        {"a", 1, "b", 2, "b"}, {"b", 2, "a", 1, "b"}, {"a", 1, "", 2, ""},
        {"", 2, "a", 1, ""},   {"", 1, "a", 2, "a"},  {"a", 2, "", 1, "a"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char topic[TEXT];

        snprintf(topic, sizeof topic, "topic/%zu", i);
        assert_int_equal(set(topic, rows[i].first, rows[i].first_sequence, 0), E_OK);
        assert_int_equal(set(topic, rows[i].second, rows[i].second_sequence, 0), E_OK);
        assert_string_equal(matching("t", topic), rows[i].left);
    }
    assert_int_equal(r.n_messages, 4);
    assert_int_equal(r.n_deleted, 2);
}

static void a_deletion_is_forgotten_when_no_older_set_can_come(void **state)
{
    (void)state;
    assert_int_equal(set("a", "x", 1, 0), E_OK);
    assert_int_equal(set("a", "", 3, 0), E_OK);
    pass_ms(DELETION_MS - 1);
    assert_int_equal(set("a", "x", 2, 0), E_OK);
    assert_string_equal(matching("t", "#"), "");
    assert_int_equal(r.n_deleted, 1);
    pass_ms(1);
    assert_int_equal(r.n_deleted, 0);
    assert_int_equal(r.bytes, 0);
    assert_int_equal(r.tree.n_nodes, 0);
}

static void a_set_after_a_deletion_stays(void **state)
{
    (void)state;
    assert_int_equal(set("a", "", 1, 0), E_OK);
    assert_int_equal(set("a", "x", 2, 0), E_OK);
    pass_ms(2 * DELETION_MS);
    assert_string_equal(matching("t", "a"), "x");
    assert_int_equal(r.n_messages, 1);
}

static void an_expired_message_is_forgotten(void **state)
{
    (void)state;
    assert_int_equal(set("a", "x", 1, 10), E_OK);
    assert_int_equal(set("b", "y", 2, 0), E_OK);
    pass_ms(9999);
    assert_string_equal(matching("t", "a"), "x");
    pass_ms(1);
    assert_string_equal(matching("t", "a"), "");
    assert_int_equal(r.n_messages, 1);
    assert_int_equal(r.tree.n_nodes, 2);
}

static void an_expiry_longer_than_a_timer_is_kept(void **state)
{
    const uint32_t expiry_s = 3000000; /* 2^30 ms are 1,073,741 s */

    (void)state;
    assert_int_equal(set("a", "x", 1, expiry_s), E_OK);
    for (uint32_t day = 0; day < expiry_s / 86400; day++)
        pass_ms(86400000);
    assert_string_equal(matching("t", "a"), "x");
    pass_ms(86400000);
    assert_string_equal(matching("t", "a"), "");
    assert_int_equal(r.n_messages, 0);
}

static void a_replacement_has_an_expiry_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(set("a", "x", 1, 10), E_OK);
    assert_int_equal(set("a", "y", 2, 0), E_OK);
    pass_ms(20000);
    assert_string_equal(matching("t", "a"), "y");
}

static void wildcards_find_all_that_match_of_one_tenant(void **state)
{
    (void)state;
    assert_int_equal(set("a/b", "x", 1, 0), E_OK);
    assert_int_equal(set("a/c", "x", 2, 0), E_OK);
    assert_int_equal(set("a", "x", 3, 0), E_OK);
    assert_int_equal(set("$SYS/a", "s", 4, 0), E_OK);
    assert_string_equal(matching("t", "#"), "xxx");
    assert_string_equal(matching("t", "a/#"), "xxx");
    assert_string_equal(matching("t", "a/+"), "xx");
    assert_string_equal(matching("t", "+"), "x");
    assert_string_equal(matching("t", "$SYS/#"), "s");
    assert_string_equal(matching("u", "#"), "");
}

static void counts_and_bytes_follow_what_is_held(void **state)
{
    struct message *m = message_new(STR("t"), STR("a"), STR("x"), 0);
    size_t one = message_size(m);

    (void)state;
    message_unref(m);
    assert_int_equal(set("a", "x", 1, 0), E_OK);
    assert_int_equal(set("b", "x", 2, 0), E_OK);
    assert_int_equal(r.bytes, 2 * one);
    assert_int_equal(set("a", "", 3, 0), E_OK);
    assert_int_equal(r.n_messages, 1);
    assert_int_equal(r.bytes, 2 * one - 1);
    pass_ms(DELETION_MS);
    assert_int_equal(r.bytes, one);
}

static void a_set_without_memory_changes_nothing(void **state)
{
    unsigned nth = 1;

    (void)state;
    for (err e = E_NOMEM; e != E_OK; nth++) {
        struct message *m = message_new(STR("t"), STR("a/b"), STR("x"), 0);

        mem_fail_after(nth);
        e = retained_set(&r, m);
        mem_fail_after(0);
        message_unref(m);
        assert_int_equal(r.n_messages, e == E_OK);
        assert_int_equal(r.tree.n_nodes, e == E_OK ? 3 : 0);
    }
    assert_true(nth > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_higher_sequence_wins_in_whatever_order_they_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deletion_is_forgotten_when_no_older_set_can_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_after_a_deletion_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expired_message_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expiry_longer_than_a_timer_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_replacement_has_an_expiry_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wildcards_find_all_that_match_of_one_tenant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_and_bytes_follow_what_is_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_without_memory_changes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
