#include "broker/session.h"

#include "broker/broker_fixture.h"

static size_t n_sessions(void)
{
    return shard_at(0)->sessions.n_entries;
}

static bool is_waiting(unsigned worker)
{
    return wheel_next_ms(&fx.workers.list[worker].loop.wheel) >= 0;
}

static void a_session_is_resumed_as_its_expiry_and_clean_start_say(void **state)
{
    static const struct {
        uint32_t expiry_s;
        uint64_t away_s;
        bool clean_start, is_present;
    } rows[] = {
        {0, 0, false, false},
        {10, 9, false, true},
        {10, 10, false, false},
        {10, 9, true, false},
        {SESSION_NEVER_EXPIRES, 100000000, false, true}, /* three years, longer than any timer */
        {SESSION_NEVER_EXPIRES, 0, true, false},
        {3000000, 2999999, false, true}, /* longer than a timer, too */
        {3000000, 3000000, false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct client cl;

        CONNECT(&cl, "c", .clean_start = true, .expiry_s = rows[i].expiry_s);
        assert_false(cl.is_present);
        SUBSCRIBE(&cl, "a", .qos = 1);
        lose(&cl);
        for (uint64_t left = rows[i].away_s; left;) {
            uint64_t step = left < 1000000 ? left : 1000000;

            pass_ms(step * 1000);
            left -= step;
        }
        CONNECT(&cl, "c", .clean_start = rows[i].clean_start);
        if (cl.is_present != rows[i].is_present)
            fail_msg("row %zu", i);
        assert_int_equal(session_is_subscribed(cl.ss, STR("a")), rows[i].is_present);
        lose(&cl);
        assert_int_equal(n_sessions(), 0);
        assert_false(is_waiting(0));
    }
}

static void the_expiry_can_be_changed_by_the_disconnect(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 10);
    session_set_expiry(cl.ss, 0);
    session_detach(cl.ss, &cl.link, false);
    assert_int_equal(n_sessions(), 0);
    CONNECT(&cl, "c", .expiry_s = 10);
    session_set_expiry(cl.ss, 20);
    session_detach(cl.ss, &cl.link, false);
    pass_ms(19999);
    assert_int_equal(n_sessions(), 1);
    pass_ms(1);
    assert_int_equal(n_sessions(), 0);
}

static void sessions_are_told_apart_by_tenant_device_and_client_id(void **state)
{
    struct client clients[4];

    (void)state;
    CONNECT(&clients[0], "c", .expiry_s = 10);
    CONNECT(&clients[1], "c", .expiry_s = 10, .tenant = &tenant_b);
    CONNECT(&clients[2], "c", .expiry_s = 10, .device = &device_1);
    CONNECT(&clients[3], "d", .expiry_s = 10);
    for (size_t i = 0; i < 4; i++) {
        assert_false(clients[i].is_present);
        assert_int_equal(clients[i].n_losses, 0);
    }
    assert_int_equal(n_sessions(), 4);
}

static void a_long_client_id_is_kept_whole(void **state)
{
    char id[300];
    struct client cl;

    (void)state;
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    for (size_t n = SESSION_INLINE_ID_BYTES - 1; n <= SESSION_INLINE_ID_BYTES + 1; n++) {
        connect_on(0, &cl, (struct connect_fields){.id = id + sizeof id - 1 - n, .expiry_s = 10});
        assert_false(cl.is_present);
        lose(&cl);
        connect_on(0, &cl, (struct connect_fields){.id = id + sizeof id - 1 - n});
        assert_true(cl.is_present);
        assert_int_equal(session_client_id(cl.ss).n, n);
        lose(&cl);
    }
}

static void the_second_connection_takes_the_session_over(void **state)
{
    struct client first, second;

    (void)state;
    CONNECT(&first, "c", .expiry_s = 10);
    SUBSCRIBE(&first, "a", .qos = 1);
    PUBLISH("a", "1", .qos = 1);
    CONNECT(&second, "c", .expiry_s = 10);
    assert_int_equal(first.n_losses, 1);
    assert_true(second.is_present);
    assert_string_equal(payloads_from(&second, 0), "1!");
    PUBLISH("a", "2", .qos = 1);
    assert_string_equal(payloads_from(&first, 0), "1");
    assert_string_equal(payloads_from(&second, 0), "1!2");
    session_detach(second.ss, &first.link, true); /* the first one's end comes late, and is none of the session's */
    assert_ptr_equal(second.ss->link, &second.link);
}

static void a_session_without_expiry_ends_by_the_takeover(void **state)
{
    struct client first, second;

    (void)state;
    CONNECT(&first, "c");
    SUBSCRIBE(&first, "a");
    CONNECT(&second, "c", .expiry_s = 10);
    assert_int_equal(first.n_losses, 1);
    assert_false(second.is_present);
    assert_false(session_is_subscribed(second.ss, STR("a")));
}

static void without_memory_a_session_is_not_made(void **state)
{
    struct client cl = {.link = {&fixture_link_ops}};
    struct session_request request = {
        .principal = {&tenant_a, NULL},
        .client_id = STR("a client identifier that is too long for the slab"),
        .will = new_message((struct message_fields){.topic = "will", .payload = "w"}),
    };

    (void)state;
    mem_fail_after(1);
    assert_null(session_attach(shard_at(0), &request, &cl.link, &cl.is_present));
    mem_fail_after(0);
    assert_int_equal(n_sessions(), 0);
}

static void sessions_are_bounded_and_one_that_is_there_is_resumed(void **state)
{
    struct session_request request = {.principal = {&tenant_a, NULL}, .client_id = STR("more")};
    struct client cl;
    char id[FIXTURE_TEXT];

    (void)state;
    for (uint32_t i = 0; i < fixture_limits.sessions / FIXTURE_WORKERS; i++) {
        snprintf(id, sizeof id, "c%u", i);
        connect_on(0, &cl, (struct connect_fields){.id = id, .expiry_s = 10});
        lose(&cl);
    }
    assert_null(session_attach(shard_at(0), &request, &cl.link, &cl.is_present));
    CONNECT(&cl, "c7", .expiry_s = 10);
    assert_true(cl.is_present);
    lose(&cl);
    CONNECT(&cl, "c7", .clean_start = true); /* one ends, one begins */
    lose(&cl);
    CONNECT(&cl, "more");
}

/* --- wills --- */

static void a_will_is_published_when_it_is_due(void **state)
{
    enum how { LOST, DISCONNECTED, TAKEN_OVER, TAKEN_OVER_CLEAN };
    static const struct {
        enum how how;
        uint32_t expiry_s, delay_s;
        const char *at_once, *in_the_end;
    } rows[] = {
        {LOST, 0, 0, "w", "w"},
        {LOST, 100, 0, "w", "w"},
        {LOST, 100, 5, "", "w"},
        {LOST, 0, 5, "w", "w"}, /* the session ends, and the will with it [MQTT-3.1.3-9] */
        {LOST, 3, 5, "", "w"},  /* likewise, after 3 s */
        {DISCONNECTED, 100, 0, "", ""},
        {DISCONNECTED, 0, 0, "", ""},
        {TAKEN_OVER, 100, 0, "w", "w"},
        {TAKEN_OVER, 100, 5, "", ""}, /* the client is back in time */
        {TAKEN_OVER, 0, 5, "w", "w"},
        {TAKEN_OVER_CLEAN, 100, 5, "w", "w"},
        {TAKEN_OVER_CLEAN, 100, 0, "w", "w"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct client cl, next;

        fx.wills[0] = '\0';
        CONNECT(&cl, "c", .clean_start = true, .expiry_s = rows[i].expiry_s, .will = "w", .will_delay_s = rows[i].delay_s);
        if (rows[i].how == LOST || rows[i].how == DISCONNECTED)
            session_detach(cl.ss, &cl.link, rows[i].how == LOST);
        else
            CONNECT(&next, "c", .clean_start = rows[i].how == TAKEN_OVER_CLEAN);
        if (strcmp(fx.wills, rows[i].at_once) != 0)
            fail_msg("row %zu, at once: '%s'", i, fx.wills);
        if (rows[i].how != LOST && rows[i].how != DISCONNECTED)
            session_detach(next.ss, &next.link, false);
        pass_ms(4999);
        if (rows[i].delay_s == 5 && rows[i].expiry_s == 100 && rows[i].how == LOST)
            assert_string_equal(fx.wills, "");
        pass_ms(1);
        if (strcmp(fx.wills, rows[i].in_the_end) != 0)
            fail_msg("row %zu, in the end: '%s'", i, fx.wills);
        pass_ms(200000);
        assert_string_equal(fx.wills, rows[i].in_the_end);
        assert_int_equal(n_sessions(), 0);
    }
}

static void a_delayed_will_is_dropped_when_the_client_comes_back(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 100, .will = "w", .will_delay_s = 50);
    lose(&cl);
    pass_ms(49999);
    CONNECT(&cl, "c", .expiry_s = 100);
    pass_ms(1000000);
    assert_string_equal(fx.wills, "");
}

static void a_will_reaches_its_own_session(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 100, .will = "w");
    SUBSCRIBE(&cl, "will", .qos = 1);
    lose(&cl);
    CONNECT(&cl, "c", .expiry_s = 0, .will = "v");
    assert_string_equal(payloads_from(&cl, 0), "w");
    lose(&cl); /* and ends with it, when the session ends by that */
    assert_string_equal(fx.wills, "wv");
}

/* --- incoming QoS 2 --- */

static void a_packet_identifier_is_in_use_until_it_is_released(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    assert_null(session_find_incoming(cl.ss, 7));
    assert_int_equal(session_add_incoming(cl.ss, 7), E_OK);
    assert_false(session_find_incoming(cl.ss, 7)->is_stored);
    assert_true(session_remove_incoming(cl.ss, 7));
    assert_false(session_remove_incoming(cl.ss, 7));
}

/* A 3.1.1 client may have all 65,535 of them in use. */
static void every_packet_identifier_may_be_in_use(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    for (unsigned id = 1; id <= UINT16_MAX; id++)
        assert_int_equal(session_add_incoming(cl.ss, (uint16_t)id), E_OK);
    assert_int_equal(cl.ss->n_incoming, UINT16_MAX);
    assert_non_null(session_find_incoming(cl.ss, UINT16_MAX));
    for (unsigned id = UINT16_MAX; id >= 1; id--)
        assert_true(session_remove_incoming(cl.ss, (uint16_t)id));
}

static void without_memory_an_identifier_is_not_noted(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    mem_fail_after(1);
    assert_int_equal(session_add_incoming(cl.ss, 7), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(cl.ss->n_incoming, 0);
}

static void an_outcome_finds_the_session_whatever_became_of_the_connection(void **state)
{
    struct unsettled stored = {0}, refused = {0}, late = {0};
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 10);
    assert_int_equal(session_add_incoming(cl.ss, 1), E_OK);
    assert_int_equal(session_add_incoming(cl.ss, 2), E_OK);
    assert_int_equal(session_add_incoming(cl.ss, 3), E_OK);
    session_add_unsettled(cl.ss, &stored, 1);
    session_add_unsettled(cl.ss, &refused, 2);
    session_add_unsettled(cl.ss, &late, 3);
    assert_ptr_equal(session_find_unsettled(cl.ss, 2), &refused);
    lose(&cl);
    session_settle(&stored, true);
    session_settle(&refused, false);
    CONNECT(&cl, "c");
    assert_true(session_find_incoming(cl.ss, 1)->is_stored);
    assert_null(session_find_incoming(cl.ss, 2));
    assert_false(session_find_incoming(cl.ss, 3)->is_stored);
    assert_null(session_find_unsettled(cl.ss, 2));
    lose(&cl); /* the session ends */
    assert_null(late.session);
    session_settle(&late, true);
}

/* Section 4.9: the window is the connection's. */
static void inherited_identifiers_fill_the_window_only_when_sent_again(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 10);
    for (uint16_t id = 1; id <= 3; id++)
        assert_int_equal(session_add_incoming(cl.ss, id), E_OK);
    assert_int_equal(cl.ss->n_inherited, 0);
    lose(&cl);
    CONNECT(&cl, "c", .expiry_s = 10);
    assert_int_equal(cl.ss->n_inherited, 3);
    assert_int_equal(session_add_incoming(cl.ss, 4), E_OK);
    session_claim_incoming(cl.ss, session_find_incoming(cl.ss, 1));
    session_claim_incoming(cl.ss, session_find_incoming(cl.ss, 1));
    assert_int_equal(cl.ss->n_inherited, 2);
    assert_true(session_remove_incoming(cl.ss, 2));
    assert_true(session_remove_incoming(cl.ss, 1));
    assert_true(session_remove_incoming(cl.ss, 4));
    assert_int_equal(cl.ss->n_inherited, 1);
    assert_true(session_remove_incoming(cl.ss, 3));
    assert_int_equal(cl.ss->n_inherited, 0);
}

/* --- retained messages --- */

static void retained_messages_are_sent_with_retain_at_the_lower_qos(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    PUBLISH("r/1", "1", .qos = 2, .retain = true, .publisher = cl.ss->number);
    PUBLISH("r/2", "2", .qos = 0, .retain = true, .expiry_s = 10);
    pass_ms(3000);
    session_send_retained(cl.ss, STR("r/2"), &(struct subscription_options){.qos = 1, .id = 9});
    session_send_retained(cl.ss, STR("r/+"), &(struct subscription_options){.qos = 1, .no_local = true});
    session_send_retained(cl.ss, STR("r/1"), &(struct subscription_options){.qos = 1});
    assert_string_equal(payloads_from(&cl, 0), "221");
    assert_true(sent_at(&cl, 0)->retain);
    assert_int_equal(sent_at(&cl, 0)->ids[0], 9);
    assert_int_equal(sent_at(&cl, 0)->expiry_left_s, 7);
    assert_int_equal(sent_at(&cl, 1)->n_ids, 0);
    assert_int_equal(sent_at(&cl, 2)->qos, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_session_is_resumed_as_its_expiry_and_clean_start_say),
        FIXTURE_TEST(the_expiry_can_be_changed_by_the_disconnect),
        FIXTURE_TEST(sessions_are_told_apart_by_tenant_device_and_client_id),
        FIXTURE_TEST(a_long_client_id_is_kept_whole),
        FIXTURE_TEST(the_second_connection_takes_the_session_over),
        FIXTURE_TEST(a_session_without_expiry_ends_by_the_takeover),
        FIXTURE_TEST(without_memory_a_session_is_not_made),
        FIXTURE_TEST(sessions_are_bounded_and_one_that_is_there_is_resumed),
        FIXTURE_TEST(a_will_is_published_when_it_is_due),
        FIXTURE_TEST(a_delayed_will_is_dropped_when_the_client_comes_back),
        FIXTURE_TEST(a_will_reaches_its_own_session),
        FIXTURE_TEST(a_packet_identifier_is_in_use_until_it_is_released),
        FIXTURE_TEST(every_packet_identifier_may_be_in_use),
        FIXTURE_TEST(without_memory_an_identifier_is_not_noted),
        FIXTURE_TEST(an_outcome_finds_the_session_whatever_became_of_the_connection),
        FIXTURE_TEST(inherited_identifiers_fill_the_window_only_when_sent_again),
        FIXTURE_TEST(retained_messages_are_sent_with_retain_at_the_lower_qos),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
