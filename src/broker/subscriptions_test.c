#include "broker/subscriptions.h"

#include "broker/broker_fixture.h"

static struct subscriptions *subs_of(unsigned worker)
{
    return &shard_at(worker)->subscriptions;
}

static bool may_match(const struct registry_tenant *ten, const char *topic)
{
    return subscriptions_may_match(subs_of(0), ten->id, str_from(topic));
}

static void overlapping_filters_deliver_once_with_the_highest_qos_and_all_identifiers(void **state)
{
    struct client cl;
    uint32_t sum = 0;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "a/b", .id = 1, .qos = 0);
    SUBSCRIBE(&cl, "a/+", .id = 2, .qos = 2);
    SUBSCRIBE(&cl, "#", .id = 4, .qos = 1);
    SUBSCRIBE(&cl, "a/#", .qos = 0);
    SUBSCRIBE(&cl, "b", .id = 8, .qos = 2);
    PUBLISH("a/b", "x", .qos = 2);
    assert_int_equal(cl.n_sent, 1);
    assert_int_equal(sent_at(&cl, 0)->qos, 2);
    assert_int_equal(sent_at(&cl, 0)->n_ids, 3);
    for (size_t i = 0; i < 3; i++)
        sum += sent_at(&cl, 0)->ids[i];
    assert_int_equal(sum, 7);
}

static void the_message_is_delivered_at_the_lower_of_both_qos(void **state)
{
    (void)state;
    for (uint8_t published = 0; published <= 2; published++)
        for (uint8_t granted = 0; granted <= 2; granted++) {
            struct client cl;

            CONNECT(&cl, "c", .clean_start = true);
            SUBSCRIBE(&cl, "a", .qos = granted);
            PUBLISH("a", "x", .qos = published);
            assert_int_equal(sent_at(&cl, 0)->qos, published < granted ? published : granted);
            assert_int_equal(sent_at(&cl, 0)->packet_id != 0, sent_at(&cl, 0)->qos > 0);
            lose(&cl);
        }
}

static void no_local_keeps_back_what_the_session_itself_published(void **state)
{
    struct client cl, other;

    (void)state;
    CONNECT(&cl, "c");
    CONNECT(&other, "d");
    SUBSCRIBE(&cl, "a", .no_local = true);
    SUBSCRIBE(&other, "a", .no_local = true);
    PUBLISH("a", "x", .publisher = cl.ss->number);
    assert_string_equal(payloads_from(&cl, 0), "");
    assert_string_equal(payloads_from(&other, 0), "x");
    SUBSCRIBE(&cl, "+"); /* another subscription, without it */
    PUBLISH("a", "y", .publisher = cl.ss->number);
    assert_string_equal(payloads_from(&cl, 0), "y");
}

static void retain_as_published_is_of_any_of_the_filters(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "a");
    PUBLISH("a", "x", .retain = true);
    assert_false(sent_at(&cl, 0)->retain);
    SUBSCRIBE(&cl, "#", .retain_as_published = true);
    PUBLISH("a", "x", .retain = true);
    PUBLISH("a", "x");
    assert_true(sent_at(&cl, 1)->retain);
    assert_false(sent_at(&cl, 2)->retain);
}

static void subscribing_again_replaces_the_options(void **state)
{
    struct subscription_options options = {.id = 2, .qos = 1};
    struct client cl;
    bool existed = false;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "a", .id = 1, .no_local = true);
    assert_int_equal(session_subscribe(cl.ss, STR("a"), &options, &existed), E_OK);
    assert_true(existed);
    assert_int_equal(cl.ss->n_subscriptions, 1);
    PUBLISH("a", "x", .qos = 2, .publisher = cl.ss->number);
    assert_int_equal(sent_at(&cl, 0)->qos, 1);
    assert_int_equal(sent_at(&cl, 0)->ids[0], 2);
}

static void at_the_limit_only_a_replacement_is_possible(void **state)
{
    struct subscription_options options = {0};
    struct client cl;
    char filter[FIXTURE_TEXT];
    bool existed;

    (void)state;
    CONNECT(&cl, "c");
    for (uint32_t i = 0; i < fixture_limits.subscriptions_per_session; i++) {
        snprintf(filter, sizeof filter, "f/%u", i);
        SUBSCRIBE(&cl, filter);
    }
    assert_int_equal(session_subscribe(cl.ss, STR("more"), &options, &existed), E_LIMIT);
    assert_int_equal(session_subscribe(cl.ss, STR("f/7"), &options, &existed), E_OK);
    assert_true(session_unsubscribe(cl.ss, STR("f/8")));
    assert_int_equal(session_subscribe(cl.ss, STR("more"), &options, &existed), E_OK);
    assert_false(existed);
}

/* The two lists of a subscription are walked together; whichever is longer must not matter. */
static void a_subscription_is_found_however_many_others_there_are(void **state)
{
    struct client many[20], busy;
    char text[FIXTURE_TEXT];

    (void)state;
    CONNECT(&busy, "busy");
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "c%d", i);
        connect_on(0, &many[i], (struct connect_fields){.id = text});
        SUBSCRIBE(&many[i], "popular");
        snprintf(text, sizeof text, "f/%d", i);
        SUBSCRIBE(&busy, text);
        if (i == 10)
            SUBSCRIBE(&busy, "popular");
    }
    assert_true(session_is_subscribed(busy.ss, STR("popular")));
    assert_true(session_is_subscribed(busy.ss, STR("f/0")));
    assert_true(session_is_subscribed(busy.ss, STR("f/19")));
    for (int i = 0; i < 20; i++) {
        assert_true(session_is_subscribed(many[i].ss, STR("popular")));
        assert_false(session_is_subscribed(many[i].ss, STR("f/0")));
    }
    assert_true(session_unsubscribe(busy.ss, STR("popular")));
    assert_false(session_unsubscribe(busy.ss, STR("popular")));
    PUBLISH("popular", "x");
    assert_int_equal(busy.n_sent, 0);
    assert_int_equal(many[0].n_sent + many[19].n_sent, 2);
}

static void the_summary_shows_first_levels_and_leading_wildcards(void **state)
{
    struct client cl, of_b;

    (void)state;
    CONNECT(&cl, "c");
    CONNECT(&of_b, "c", .tenant = &tenant_b);
    assert_false(may_match(&tenant_a, "a"));
    SUBSCRIBE(&cl, "a/b");
    assert_true(may_match(&tenant_a, "a"));
    assert_true(may_match(&tenant_a, "a/x/y")); /* a needless post is allowed */
    assert_false(may_match(&tenant_b, "a"));
    SUBSCRIBE(&cl, "a/c");
    assert_true(session_unsubscribe(cl.ss, STR("a/b")));
    assert_true(may_match(&tenant_a, "a"));
    assert_true(session_unsubscribe(cl.ss, STR("a/c")));
    assert_false(may_match(&tenant_a, "a"));
    SUBSCRIBE(&of_b, "+/x");
    SUBSCRIBE(&of_b, "#");
    assert_true(may_match(&tenant_b, "whatever"));
    assert_false(may_match(&tenant_a, "whatever"));
    assert_true(session_unsubscribe(of_b.ss, STR("+/x")));
    assert_true(may_match(&tenant_b, "whatever"));
    lose(&of_b); /* the session ends, and its subscriptions with it */
    assert_false(may_match(&tenant_b, "whatever"));
}

static void without_memory_a_subscription_is_not_made(void **state)
{
    struct subscription_options options = {0};
    struct client cl;
    bool existed;

    (void)state;
    CONNECT(&cl, "c");
    mem_fail_after(1);
    assert_int_equal(session_subscribe(cl.ss, STR("a/b"), &options, &existed), E_NOMEM);
    mem_fail_after(0);
    assert_int_equal(cl.ss->n_subscriptions, 0);
    assert_int_equal(subs_of(0)->tree.n_nodes, 0);
}

/* Who is left out for want of memory is counted, and the others get it. */
static void without_memory_the_ledger_still_balances(void **state)
{
    struct client clients[3];
    char id[FIXTURE_TEXT];

    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(id, sizeof id, "c%d", i);
        connect_on(0, &clients[i], (struct connect_fields){.id = id, .expiry_s = 100});
        for (uint32_t f = 1; f < 6; f++) {
            snprintf(id, sizeof id, "%s%u", f % 2 ? "a/+/" : "a/x/", f);
            SUBSCRIBE(&clients[i], f == 1 ? "#" : id, .id = f, .qos = 1);
        }
    }
    for (unsigned nth = 1; nth < 12; nth++) {
        struct message *m = new_message((struct message_fields){.topic = "a/x/3", .payload = "p", .qos = 1});

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
        FIXTURE_TEST(overlapping_filters_deliver_once_with_the_highest_qos_and_all_identifiers),
        FIXTURE_TEST(the_message_is_delivered_at_the_lower_of_both_qos),
        FIXTURE_TEST(no_local_keeps_back_what_the_session_itself_published),
        FIXTURE_TEST(retain_as_published_is_of_any_of_the_filters),
        FIXTURE_TEST(subscribing_again_replaces_the_options),
        FIXTURE_TEST(at_the_limit_only_a_replacement_is_possible),
        FIXTURE_TEST(a_subscription_is_found_however_many_others_there_are),
        FIXTURE_TEST(the_summary_shows_first_levels_and_leading_wildcards),
        FIXTURE_TEST(without_memory_a_subscription_is_not_made),
        FIXTURE_TEST(without_memory_the_ledger_still_balances),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
