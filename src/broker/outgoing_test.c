#include "broker/outgoing.h"

#include "broker/broker_fixture.h"
#include "broker/tracker.h"

enum { EVERY_ID = UINT16_MAX };

static void publish_all(const char *payloads, uint8_t qos)
{
    for (; *payloads; payloads++) {
        char text[] = {*payloads, '\0'};

        PUBLISH("a", text, .qos = qos);
    }
}

static uint16_t id_of(const struct client *cl, size_t i)
{
    return sent_at(cl, i)->packet_id;
}

static int64_t counted(enum broker_metric which)
{
    return metric_value(&broker_metrics[which]);
}

/* A client with one subscription at QoS 2, whose session lasts. */
static void connect_subscriber(struct client *cl)
{
    CONNECT(cl, "c", .expiry_s = 1000);
    SUBSCRIBE(cl, "a", .qos = 2);
}

static void messages_leave_in_order_up_to_the_window(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    publish_all("12345", 1);
    assert_string_equal(payloads_from(&cl, 0), "123");
    assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, 1)), OUTGOING_ANSWERED); /* in whatever order they are acknowledged */
    assert_string_equal(payloads_from(&cl, 0), "1234");
    assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, 0)), OUTGOING_ANSWERED);
    assert_string_equal(payloads_from(&cl, 0), "12345");
    assert_int_equal(cl.ss->n_queued, 0);
    assert_int_equal(cl.ss->queued_bytes, 0);
}

static void the_clients_receive_maximum_is_the_window_if_it_is_smaller(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .receive_maximum = 1);
    SUBSCRIBE(&cl, "a", .qos = 2);
    publish_all("12", 2);
    assert_string_equal(payloads_from(&cl, 0), "1");
    assert_int_equal(outgoing_on_pubrec(cl.ss, id_of(&cl, 0), false), OUTGOING_ANSWERED);
    assert_string_equal(payloads_from(&cl, 0), "1"); /* PUBREC frees no place, PUBCOMP does [MQTT-3.3.4-9] */
    assert_int_equal(outgoing_on_pubcomp(cl.ss, id_of(&cl, 0)), OUTGOING_ANSWERED);
    assert_string_equal(payloads_from(&cl, 0), "12");
}

static void qos_0_is_written_or_dropped_and_never_kept(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    cl.room = 1;
    publish_all("12", 0);
    assert_string_equal(payloads_from(&cl, 0), "1");
    assert_int_equal(cl.ss->n_queued, 0);
    lose(&cl);
    publish_all("3", 0);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "");
}

static void without_room_in_the_output_messages_wait_in_order(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    cl.room = 0;
    publish_all("12", 1);
    assert_int_equal(cl.ss->n_queued, 2);
    cl.room = SIZE_MAX;
    publish_all("3", 1);
    session_pump(cl.ss);
    assert_string_equal(payloads_from(&cl, 0), "123");
}

static void a_message_the_client_cannot_take_is_dropped_and_counted(void **state)
{
    int64_t before = counted(BROKER_DROPPED_TOO_LARGE);
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    cl.room = 0;
    cl.refusal = E_LIMIT;
    publish_all("1", 0);
    publish_all("2", 1);
    publish_all("3", 2);
    assert_int_equal(counted(BROKER_DROPPED_TOO_LARGE), before + 3);
    assert_int_equal(cl.ss->n_in_flight, 0);
    cl.room = SIZE_MAX;
    publish_all("4", 1);
    assert_string_equal(payloads_from(&cl, 0), "4");
}

static void the_queue_is_bounded_by_messages(void **state)
{
    int64_t before = counted(BROKER_DROPPED_QUEUE_FULL);
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    lose(&cl);
    publish_all("123456789abc", 1);
    assert_int_equal(counted(BROKER_DROPPED_QUEUE_FULL), before + 2);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "123");
}

static void the_queue_is_bounded_by_bytes(void **state)
{
    static char payload[6000];
    struct client cl;

    (void)state;
    memset(payload, 'x', sizeof payload - 1);
    connect_subscriber(&cl);
    lose(&cl);
    PUBLISH("a", payload, .qos = 1);
    PUBLISH("a", payload, .qos = 1);
    assert_int_equal(((struct session *)map_next(&shard_at(0)->sessions, &(uint32_t){0}))->n_queued, 1);
    publish_all("1", 1);
    assert_int_equal(((struct session *)map_next(&shard_at(0)->sessions, &(uint32_t){0}))->n_queued, 2);
}

static void a_message_that_expires_in_the_queue_is_dropped(void **state)
{
    int64_t before = counted(BROKER_DROPPED_EXPIRED);
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    lose(&cl);
    PUBLISH("a", "1", .qos = 1, .expiry_s = 10);
    PUBLISH("a", "2", .qos = 1, .expiry_s = 20);
    pass_ms(12000);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "2");
    assert_int_equal(sent_at(&cl, 0)->expiry_left_s, 8);
    assert_int_equal(counted(BROKER_DROPPED_EXPIRED), before + 1);
}

/* It had been given a packet identifier when there was no room for it; it must not fill a place in the window. */
static void a_message_that_expires_while_it_waits_for_room_is_not_in_flight(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    cl.room = 0;
    PUBLISH("a", "1", .qos = 1, .expiry_s = 10);
    pass_ms(10000);
    cl.room = SIZE_MAX;
    session_pump(cl.ss);
    assert_int_equal(cl.n_sent, 0);
    assert_int_equal(cl.ss->n_in_flight, 0);
    assert_int_equal(cl.ss->n_queued, 0);
    fixture_check_ledger();
}

static void qos_2_goes_through_its_stages(void **state)
{
    struct client cl;
    uint16_t id;

    (void)state;
    connect_subscriber(&cl);
    publish_all("1", 2);
    id = id_of(&cl, 0);
    assert_int_equal(outgoing_on_pubcomp(cl.ss, id), OUTGOING_MISMATCH);
    assert_int_equal(outgoing_on_puback(cl.ss, id), OUTGOING_MISMATCH);
    assert_int_equal(outgoing_on_pubrec(cl.ss, id, false), OUTGOING_ANSWERED);
    assert_int_equal(outgoing_on_pubrec(cl.ss, id, false), OUTGOING_ANSWERED); /* again */
    assert_int_equal(cl.ss->n_in_flight, 1);
    assert_int_equal(outgoing_on_pubcomp(cl.ss, id), OUTGOING_ANSWERED);
    assert_int_equal(outgoing_on_pubcomp(cl.ss, id), OUTGOING_UNKNOWN);
    assert_int_equal(cl.ss->n_in_flight, 0);
}

static void a_pubrec_with_an_error_ends_the_message(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    publish_all("1", 2);
    assert_int_equal(outgoing_on_pubrec(cl.ss, id_of(&cl, 0), true), OUTGOING_ANSWERED);
    assert_int_equal(cl.ss->n_in_flight, 0);
}

static void answers_that_fit_nothing_are_told_apart(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    publish_all("1", 1);
    assert_int_equal(outgoing_on_puback(cl.ss, 77), OUTGOING_UNKNOWN);
    assert_int_equal(outgoing_on_pubrec(cl.ss, 77, false), OUTGOING_UNKNOWN);
    assert_int_equal(outgoing_on_pubrec(cl.ss, id_of(&cl, 0), false), OUTGOING_MISMATCH);
    assert_int_equal(outgoing_on_pubcomp(cl.ss, id_of(&cl, 0)), OUTGOING_MISMATCH);
    assert_int_equal(cl.ss->n_in_flight, 1);
}

static void what_was_in_flight_is_sent_again_in_order_with_dup(void **state)
{
    struct client cl;
    uint16_t ids[3];

    (void)state;
    connect_subscriber(&cl);
    publish_all("123", 2);
    publish_all("4", 1);
    for (size_t i = 0; i < 3; i++)
        ids[i] = id_of(&cl, i);
    assert_int_equal(outgoing_on_pubrec(cl.ss, ids[1], false), OUTGOING_ANSWERED);
    lose(&cl);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_true(cl.is_present);
    assert_int_equal(id_of(&cl, 0), ids[0]);
    assert_int_equal(id_of(&cl, 2), ids[2]);
    assert_true(sent_at(&cl, 1)->is_pubrel);
    assert_int_equal(id_of(&cl, 1), ids[1]);
    assert_true(sent_at(&cl, 0)->dup && sent_at(&cl, 2)->dup);
    assert_int_equal(cl.n_sent, 3); /* the window is full */
    assert_int_equal(outgoing_on_pubcomp(cl.ss, ids[1]), OUTGOING_ANSWERED);
    assert_string_equal(sent_at(&cl, 3)->payload, "4");
    assert_false(sent_at(&cl, 3)->dup);
}

static void on_over(struct mail *m)
{
    (void)m;
}

/* Delivers a message that is followed, as commands are. */
static void deliver_tracked(struct client *cl, const char *payload, struct tracker *t)
{
    struct message *m = new_message((struct message_fields){.topic = "a", .payload = payload, .qos = 1});
    struct outgoing_request request = {.message = m, .tracker = t, .qos = 1};

    *t = (struct tracker){.mail = {.on_mail = on_over}, .home = &shard_at(0)->worker->loop.mailbox};
    tracker_start(t, 1000);
    outgoing_deliver(cl->ss, &request);
    assert_false(tracker_note_decided(t));
    message_unref(m);
}

static void what_is_followed_can_be_repeated_until_it_is_acknowledged(void **state)
{
    struct tracker first, second;
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    deliver_tracked(&cl, "1", &first);
    deliver_tracked(&cl, "2", &second);
    assert_true(outgoing_repeat(cl.ss, &first));
    assert_string_equal(payloads_from(&cl, 0), "121!");
    assert_int_equal(id_of(&cl, 2), id_of(&cl, 0));
    assert_int_equal(cl.ss->n_resend, 0);
    cl.room = 0;
    assert_true(outgoing_repeat(cl.ss, &second));
    assert_false(outgoing_repeat(cl.ss, &second)); /* it waits for room already */
    assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, 1)), OUTGOING_ANSWERED);
    assert_int_equal(cl.ss->n_resend, 0);
    assert_false(outgoing_repeat(cl.ss, &second));
    cl.room = SIZE_MAX;
    lose(&cl);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "1!");
    assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, 0)), OUTGOING_ANSWERED);
    assert_int_equal(atomic_load(&first.acknowledged) + atomic_load(&second.acknowledged), 2);
    assert_int_equal(deliver_mail(0), 2);
}

static void a_second_loss_neither_loses_nor_doubles_anything(void **state)
{
    struct client cl, next;

    (void)state;
    connect_subscriber(&cl);
    publish_all("123", 1);
    lose(&cl);
    CONNECT(&cl, "c", .expiry_s = 1000);
    lose(&cl);
    CONNECT(&next, "c", .expiry_s = 1000, .receive_maximum = 2); /* less than is in flight */
    assert_string_equal(payloads_from(&next, 0), "1!2!3!");
    assert_int_equal(next.ss->n_in_flight, 3);
}

static void a_full_output_interrupts_sending_again(void **state)
{
    struct client cl;
    struct session *ss;

    (void)state;
    connect_subscriber(&cl);
    publish_all("123", 1);
    ss = cl.ss;
    lose(&cl);
    cl = (struct client){.link = {&fixture_link_ops}, .room = 1};
    cl.ss = session_attach(shard_at(0),
                           &(struct session_request){
                               .principal = {&tenant_a, NULL}, .client_id = STR("c"), .expiry_s = 1000, .receive_maximum = 10},
                           &cl.link, &cl.is_present);
    assert_ptr_equal(cl.ss, ss);
    session_pump(ss);
    assert_string_equal(payloads_from(&cl, 0), "1!");
    publish_all("4", 1);                                            /* must not overtake */
    assert_int_equal(outgoing_on_puback(ss, 2), OUTGOING_ANSWERED); /* answers what the earlier connection sent */
    cl.room = SIZE_MAX;
    session_pump(ss);
    assert_string_equal(payloads_from(&cl, 0), "1!3!4");
    assert_int_equal(ss->n_resend, 0);
}

static void an_expired_message_in_flight_is_sent_again_all_the_same(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    PUBLISH("a", "1", .qos = 1, .expiry_s = 10);
    lose(&cl);
    pass_ms(20000);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "1!");
    assert_int_equal(sent_at(&cl, 0)->expiry_left_s, 0);
}

static void a_message_too_large_for_the_new_connection_leaves_the_window(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    publish_all("12", 1);
    lose(&cl);
    cl = (struct client){.link = {&fixture_link_ops}, .refusal = E_LIMIT};
    cl.ss = session_attach(shard_at(0),
                           &(struct session_request){
                               .principal = {&tenant_a, NULL}, .client_id = STR("c"), .expiry_s = 1000, .receive_maximum = 10},
                           &cl.link, &cl.is_present);
    session_pump(cl.ss);
    assert_int_equal(cl.ss->n_in_flight, 0);
    assert_int_equal(cl.ss->n_resend, 0);
}

static void packet_identifiers_go_round_without_zero(void **state)
{
    struct client cl;
    uint16_t last = 0;

    (void)state;
    connect_subscriber(&cl);
    for (uint32_t i = 0; i < 2 * EVERY_ID + 10; i++) {
        uint16_t id;

        publish_all("x", 1);
        id = id_of(&cl, i);
        assert_int_equal(id, last == EVERY_ID ? 1 : last + 1);
        last = id;
        assert_int_equal(outgoing_on_puback(cl.ss, id), OUTGOING_ANSWERED);
    }
}

/* One message is never acknowledged; its identifier must not be given out again, nor may the counter's end matter. */
static void an_identifier_in_flight_is_never_given_out_again(void **state)
{
    static const uint32_t starts[] = {0, EVERY_ID - 3, UINT32_MAX - 3, UINT32_MAX - EVERY_ID - 3};
    struct client cl;

    (void)state;
    for (size_t start = 0; start < ARRAY_LEN(starts); start++) {
        uint16_t stays;

        CONNECT(&cl, "c", .clean_start = true);
        SUBSCRIBE(&cl, "a", .qos = 1);
        cl.ss->n_assigned = starts[start];
        publish_all("s", 1);
        stays = id_of(&cl, 0);
        for (uint32_t i = 1; i < EVERY_ID + 100; i++) {
            publish_all("x", 1);
            assert_int_not_equal(id_of(&cl, i), 0);
            if (id_of(&cl, i) == stays)
                fail_msg("%u was given out again from %u on", stays, starts[start]);
            assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, i)), OUTGOING_ANSWERED);
        }
        lose(&cl);
    }
}

static void retained_messages_are_queued_beyond_the_limits(void **state)
{
    struct client cl;
    char topic[FIXTURE_TEXT];

    (void)state;
    CONNECT(&cl, "c");
    for (int i = 0; i < 20; i++) {
        snprintf(topic, sizeof topic, "r/%d", i);
        PUBLISH(topic, "x", .qos = 1, .retain = true);
        (void)deliver_mail(1);
    }
    cl.room = 0;
    session_send_retained(cl.ss, STR("r/#"), &(struct subscription_options){.qos = 1});
    assert_int_equal(cl.ss->n_queued, 20);
    cl.room = SIZE_MAX;
    session_pump(cl.ss);
    for (size_t i = 0; i < cl.n_sent; i++)
        assert_int_equal(outgoing_on_puback(cl.ss, id_of(&cl, i)), OUTGOING_ANSWERED);
    assert_int_equal(cl.n_sent, 20);
    assert_true(sent_at(&cl, 0)->retain);
}

/* A client that subscribes again and again and reads nothing. */
static void retained_messages_asked_for_again_and_again_are_bounded(void **state)
{
    struct client cl;
    char topic[FIXTURE_TEXT];

    (void)state;
    CONNECT(&cl, "c");
    for (int i = 0; i < 20; i++) {
        snprintf(topic, sizeof topic, "r/%d", i);
        PUBLISH(topic, "x", .qos = (uint8_t)(i % 2), .retain = true);
        (void)deliver_mail(1);
    }
    cl.room = 0;
    for (int i = 0; i < 100; i++)
        session_send_retained(cl.ss, STR("r/#"), &(struct subscription_options){.qos = 1});
    assert_true(cl.ss->n_queued <= 2 * fixture_limits.queued_messages + 20);
    fixture_check_ledger();
}

/* A retained message of QoS 0 that waits must not come behind what was published after it [MQTT-4.6.0-6]. */
static void a_retained_message_is_not_overtaken(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    PUBLISH("a", "old", .retain = true);
    cl.room = 0;
    SUBSCRIBE(&cl, "a");
    session_send_retained(cl.ss, STR("a"), &(struct subscription_options){0});
    cl.room = SIZE_MAX;
    PUBLISH("a", "new");
    session_pump(cl.ss);
    assert_string_equal(payloads_from(&cl, 0), "oldnew");
}

static void every_allocation_may_fail(void **state)
{
    struct client cl;

    (void)state;
    connect_subscriber(&cl);
    SUBSCRIBE(&cl, "+", .qos = 1, .id = 5);
    SUBSCRIBE(&cl, "#", .qos = 1, .id = 6);
    for (unsigned nth = 1; nth < 8; nth++) {
        struct message *m = new_message((struct message_fields){.topic = "a", .payload = "x", .qos = 1});

        mem_fail_after(nth);
        assert_int_equal(broker_publish(shard_at(0), m), E_OK);
        mem_fail_after(0);
        message_unref(m);
        fixture_check_ledger();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(messages_leave_in_order_up_to_the_window),
        FIXTURE_TEST(the_clients_receive_maximum_is_the_window_if_it_is_smaller),
        FIXTURE_TEST(qos_0_is_written_or_dropped_and_never_kept),
        FIXTURE_TEST(without_room_in_the_output_messages_wait_in_order),
        FIXTURE_TEST(a_message_the_client_cannot_take_is_dropped_and_counted),
        FIXTURE_TEST(the_queue_is_bounded_by_messages),
        FIXTURE_TEST(the_queue_is_bounded_by_bytes),
        FIXTURE_TEST(a_message_that_expires_in_the_queue_is_dropped),
        FIXTURE_TEST(a_message_that_expires_while_it_waits_for_room_is_not_in_flight),
        FIXTURE_TEST(qos_2_goes_through_its_stages),
        FIXTURE_TEST(a_pubrec_with_an_error_ends_the_message),
        FIXTURE_TEST(answers_that_fit_nothing_are_told_apart),
        FIXTURE_TEST(what_was_in_flight_is_sent_again_in_order_with_dup),
        FIXTURE_TEST(what_is_followed_can_be_repeated_until_it_is_acknowledged),
        FIXTURE_TEST(a_second_loss_neither_loses_nor_doubles_anything),
        FIXTURE_TEST(a_full_output_interrupts_sending_again),
        FIXTURE_TEST(an_expired_message_in_flight_is_sent_again_all_the_same),
        FIXTURE_TEST(a_message_too_large_for_the_new_connection_leaves_the_window),
        FIXTURE_TEST(packet_identifiers_go_round_without_zero),
        FIXTURE_TEST(an_identifier_in_flight_is_never_given_out_again),
        FIXTURE_TEST(retained_messages_are_queued_beyond_the_limits),
        FIXTURE_TEST(retained_messages_asked_for_again_and_again_are_bounded),
        FIXTURE_TEST(a_retained_message_is_not_overtaken),
        FIXTURE_TEST(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
