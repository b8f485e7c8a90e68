#include "broker/broker.h"

#include "broker/broker_fixture.h"

static size_t reserved(unsigned worker)
{
    return atomic_load(&fx.workers.list[worker].loop.mailbox.reserved_bytes);
}

static void a_publish_reaches_subscribers_of_its_worker_at_once_and_others_by_mail(void **state)
{
    struct client here, there;

    (void)state;
    connect_on(0, &here, (struct connect_fields){.id = "here"});
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&here, "a");
    SUBSCRIBE(&there, "#", .qos = 1);
    PUBLISH("a", "x", .qos = 1);
    assert_string_equal(payloads_from(&here, 0), "x");
    assert_int_equal(there.n_sent, 0);
    assert_true(reserved(1) > 0);
    assert_int_equal(deliver_mail(1), 1);
    assert_string_equal(payloads_from(&there, 0), "x");
    assert_int_equal(reserved(1), 0);
}

static void a_worker_that_does_not_want_it_gets_no_mail(void **state)
{
    struct client there;

    (void)state;
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&there, "a/b");
    PUBLISH("b", "x");
    assert_int_equal(deliver_mail(1), 0);
    PUBLISH("a/c", "x"); /* the summary errs on the side of a needless post */
    assert_int_equal(deliver_mail(1), 1);
    assert_int_equal(there.n_sent, 0);
}

static void order_is_kept_between_two_workers(void **state)
{
    struct client there;
    char text[] = "a";

    (void)state;
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&there, "t");
    for (text[0] = 'a'; text[0] <= 'z'; text[0]++)
        PUBLISH("t", text);
    (void)deliver_mail(1);
    assert_string_equal(payloads_from(&there, 0), "abcdefghijklmnopqrstuvwxyz");
}

static void without_room_nobody_gets_anything(void **state)
{
    struct message_fields f = {.topic = "t", .payload = "x", .qos = 1};
    struct client clients[3];

    (void)state;
    broker_free(fx.broker);
    workers_fini(&fx.workers);
    fixture_open(3, FIXTURE_MAILBOX_BYTES, &fixture_limits);
    for (unsigned i = 0; i < 3; i++) {
        connect_on(i, &clients[i], (struct connect_fields){.id = "c"});
        SUBSCRIBE(&clients[i], "t");
    }
    assert_true(mailbox_reserve(&fx.workers.list[2].loop.mailbox, FIXTURE_MAILBOX_BYTES));
    assert_int_equal(publish_from(0, f), E_AGAIN);
    assert_int_equal(clients[0].n_sent, 0);
    assert_int_equal(deliver_mail(1), 0);
    assert_int_equal(reserved(1), 0); /* what had been reserved there was given back */
    mailbox_release(&fx.workers.list[2].loop.mailbox, FIXTURE_MAILBOX_BYTES);
    assert_int_equal(publish_from(0, f), E_OK);
    for (unsigned i = 0; i < 3; i++) {
        (void)deliver_mail(i);
        assert_string_equal(payloads_from(&clients[i], 0), "x");
    }
}

static void a_message_larger_than_any_mailbox_is_refused(void **state)
{
    static char big[FIXTURE_MAILBOX_BYTES];
    struct client here, there;

    (void)state;
    memset(big, 'x', sizeof big - 1);
    connect_on(0, &here, (struct connect_fields){.id = "here"});
    SUBSCRIBE(&here, "t");
    assert_int_equal(publish_from(0, (struct message_fields){.topic = "t", .payload = big}), E_OK); /* nobody else wants it */
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&there, "t");
    assert_int_equal(publish_from(0, (struct message_fields){.topic = "t", .payload = big}), E_LIMIT);
    assert_int_equal(here.n_sent, 1);
    assert_int_equal(reserved(1), 0);
}

static void every_worker_keeps_retained_messages(void **state)
{
    struct client there;

    (void)state;
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    PUBLISH("r", "1", .retain = true);
    assert_int_equal(publish_from(1, (struct message_fields){.topic = "r", .payload = "2", .retain = true}), E_OK);
    (void)deliver_mail(1); /* the first one arrives after the second was set here: the second stays */
    (void)deliver_mail(0);
    session_send_retained(there.ss, STR("r"), &(struct subscription_options){0});
    assert_string_equal(payloads_from(&there, 0), "2");
    connect_on(0, &there, (struct connect_fields){.id = "here"});
    session_send_retained(there.ss, STR("r"), &(struct subscription_options){0});
    assert_string_equal(payloads_from(&there, 0), "2");
}

static void an_empty_payload_deletes_and_is_delivered(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "r", .retain_as_published = true);
    PUBLISH("r", "1", .retain = true);
    PUBLISH("r", "", .retain = true);
    assert_int_equal(cl.n_sent, 2);
    assert_true(sent_at(&cl, 1)->retain);
    session_send_retained(cl.ss, STR("r"), &(struct subscription_options){0});
    assert_int_equal(cl.n_sent, 2);
}

static void retained_messages_are_bounded(void **state)
{
    static char big[20000];
    struct message_fields f = {.topic = "more", .payload = "x", .retain = true};
    struct client cl;
    char topic[FIXTURE_TEXT];

    (void)state;
    memset(big, 'x', sizeof big - 1);
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "more");
    for (uint32_t i = 0; i < fixture_limits.retained_messages; i++) {
        snprintf(topic, sizeof topic, "r/%u", i);
        PUBLISH(topic, "x", .retain = true);
        (void)deliver_mail(1);
    }
    assert_int_equal(publish_from(0, f), E_LIMIT);
    assert_int_equal(cl.n_sent, 0);
    assert_int_equal(publish_from(0, (struct message_fields){.topic = "more", .payload = "x"}), E_OK);
    PUBLISH("r/3", "y", .retain = true); /* a topic that is there may change */
    (void)deliver_mail(1);
    assert_int_equal(publish_from(0, (struct message_fields){.topic = "r/3", .payload = big, .retain = true}), E_LIMIT);
    PUBLISH("r/4", "", .retain = true);
    (void)deliver_mail(1);
    assert_int_equal(publish_from(0, f), E_LIMIT); /* the deletion is still remembered */
    pass_ms(10000);
    assert_int_equal(publish_from(0, f), E_OK);
}

static void tenants_do_not_see_each_other(void **state)
{
    struct client a, b;

    (void)state;
    CONNECT(&a, "c");
    CONNECT(&b, "c", .tenant = &tenant_b);
    SUBSCRIBE(&a, "#");
    SUBSCRIBE(&b, "#");
    PUBLISH("t", "x", .retain = true, .tenant = &tenant_b);
    assert_int_equal(a.n_sent, 0);
    assert_int_equal(b.n_sent, 1);
    session_send_retained(a.ss, STR("#"), &(struct subscription_options){0});
    assert_int_equal(a.n_sent, 0);
}

static void the_home_of_a_device_does_not_depend_on_its_client_id(void **state)
{
    unsigned on[FIXTURE_WORKERS] = {0};
    char id[FIXTURE_TEXT];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_int_equal(broker_home(fx.broker, STR("a"), str_from(id), STR("x")),
                         broker_home(fx.broker, STR("a"), str_from(id), STR("y")));
        on[broker_home(fx.broker, STR("a"), (struct str){0}, str_from(id))]++;
    }
    assert_true(on[0] > 10 && on[1] > 10);
}

/* Between the two, nothing can fail. */
static void what_was_reserved_is_delivered(void **state)
{
    struct message *m = new_message((struct message_fields){.topic = "t", .payload = "x"});
    struct broker_room room;
    struct client there;

    (void)state;
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&there, "t");
    assert_int_equal(broker_reserve(shard_at(0), m, &room), E_OK);
    assert_int_equal(reserved(1), message_size(m));
    broker_deliver(shard_at(0), m, &room);
    message_unref(m);
    (void)deliver_mail(1);
    assert_int_equal(there.n_sent, 1);
}

/* The broker goes with sessions, mail and messages in every state. */
static void freeing_the_broker_leaves_nothing(void **state)
{
    struct client clients[3];

    (void)state;
    CONNECT(&clients[0], "linked", .will = "w");
    CONNECT(&clients[1], "waiting", .expiry_s = 10, .will = "w", .will_delay_s = 5);
    CONNECT(&clients[2], "queued", .expiry_s = SESSION_NEVER_EXPIRES);
    for (size_t i = 0; i < 3; i++)
        SUBSCRIBE(&clients[i], "#", .qos = 2);
    lose(&clients[1]);
    lose(&clients[2]);
    for (int i = 0; i < 5; i++)
        PUBLISH("a/b", "x", .qos = 2, .retain = true);
    PUBLISH("a/b", "", .qos = 2, .retain = true);
}

static void new_limits_hold_at_once(void **state)
{
    struct broker_limits limits = *broker_limits(shard_at(0));
    struct subscription_options options = {0};
    struct client cl;
    bool existed;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "a");
    limits.subscriptions_per_session = 1;
    broker_set_limits(shard_at(0), &limits);
    assert_int_equal(session_subscribe(cl.ss, STR("b"), &options, &existed), E_LIMIT);
    assert_true(session_is_subscribed(cl.ss, STR("a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_publish_reaches_subscribers_of_its_worker_at_once_and_others_by_mail),
        FIXTURE_TEST(a_worker_that_does_not_want_it_gets_no_mail),
        FIXTURE_TEST(order_is_kept_between_two_workers),
        FIXTURE_TEST(without_room_nobody_gets_anything),
        FIXTURE_TEST(a_message_larger_than_any_mailbox_is_refused),
        FIXTURE_TEST(every_worker_keeps_retained_messages),
        FIXTURE_TEST(an_empty_payload_deletes_and_is_delivered),
        FIXTURE_TEST(retained_messages_are_bounded),
        FIXTURE_TEST(tenants_do_not_see_each_other),
        FIXTURE_TEST(the_home_of_a_device_does_not_depend_on_its_client_id),
        FIXTURE_TEST(what_was_reserved_is_delivered),
        FIXTURE_TEST(new_limits_hold_at_once),
        FIXTURE_TEST(freeing_the_broker_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
