#include "kafka/kafka_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/mailbox.h"

static struct mailbox mailbox;
static unsigned told;

static void on_room(struct mail *m)
{
    (void)m;
    told++;
}

static struct sink_waiter waiter(void)
{
    return (struct sink_waiter){.mail.on_mail = on_room, .home = &mailbox};
}

static int open_mailbox(void **state)
{
    (void)state;
    told = 0;
    return mailbox_init(&mailbox, 0) == E_OK ? 0 : -1;
}

static int close_mailbox(void **state)
{
    (void)state;
    mailbox_fini(&mailbox);
    return 0;
}

static void room_is_given_until_the_limit_is_reached_and_then_to_nobody(void **state)
{
    struct kafka_budget b;

    (void)state;
    kafka_budget_init(&b, 100);
    assert_true(kafka_budget_take(&b, 60));
    assert_true(kafka_budget_take(&b, 60)); /* the last one may pass the limit */
    assert_false(kafka_budget_take(&b, 1));
    assert_int_equal(b.bytes, 120);
    assert_int_equal(b.records, 2);
    kafka_budget_give(&b, 60, 1);
    assert_true(kafka_budget_take(&b, 1));
    assert_int_equal(b.records, 2);
}

static void waiters_are_told_below_four_fifths_and_once(void **state)
{
    struct kafka_budget b;
    struct sink_waiter one = waiter(), other = waiter();

    (void)state;
    kafka_budget_init(&b, 100);
    assert_true(kafka_budget_take(&b, 100));
    kafka_budget_wait(&b, &one);
    kafka_budget_wait(&b, &one);
    kafka_budget_wait(&b, &other);
    kafka_budget_give(&b, 20, 0); /* 80 is not below 80 */
    assert_int_equal(mailbox_drain(&mailbox), 0);
    kafka_budget_give(&b, 1, 0);
    assert_int_equal(mailbox_drain(&mailbox), 2);
    assert_int_equal(told, 2);
    kafka_budget_give(&b, 79, 1);
    assert_int_equal(mailbox_drain(&mailbox), 0);
}

static void a_waiter_is_told_at_once_when_there_is_room(void **state)
{
    struct kafka_budget b;
    struct sink_waiter w = waiter();

    (void)state;
    kafka_budget_init(&b, 100);
    kafka_budget_wait(&b, &w);
    assert_int_equal(mailbox_drain(&mailbox), 1);
    kafka_budget_wait(&b, &w);
    assert_int_equal(mailbox_drain(&mailbox), 1);
    assert_int_equal(told, 2);
}

static void a_waiter_that_is_told_finds_room_whatever_the_sizes(void **state)
{
    (void)state;
    for (uint64_t limit = 1; limit < 300; limit++) {
        struct kafka_budget b;
        struct sink_waiter w = waiter();

        kafka_budget_init(&b, limit);
        while (kafka_budget_take(&b, 7))
            ;
        kafka_budget_wait(&b, &w);
        told = 0;
        while (!told && b.bytes) {
            kafka_budget_give(&b, 7, 1);
            (void)mailbox_drain(&mailbox);
        }
        assert_int_equal(told, 1);
        assert_true(kafka_budget_take(&b, 1000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(room_is_given_until_the_limit_is_reached_and_then_to_nobody, open_mailbox,
                                        close_mailbox),
        cmocka_unit_test_setup_teardown(waiters_are_told_below_four_fifths_and_once, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(a_waiter_is_told_at_once_when_there_is_room, open_mailbox, close_mailbox),
        cmocka_unit_test_setup_teardown(a_waiter_that_is_told_finds_room_whatever_the_sizes, open_mailbox, close_mailbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
