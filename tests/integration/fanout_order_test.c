/* What a channel says of order, of events that come again, and of acknowledgement before delivery (docs/FANOUT.md). Two workers; which of
 * them takes a connection is up to the system. */
#include "fanout_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fanout/fanout_metrics.h"

static size_t count(int sink)
{
    return rig.sinks[sink - 1].n_requests;
}

/* The ids of the events that a sink got, in their order. */
static void assert_ids(int sink, const char *want)
{
    char got[512] = "";

    for (size_t i = 0; i < count(sink); i++) {
        const char *id = rig_header(rig.sinks[sink - 1].requests[i], "ce-id");

        strcat(strcat(got, i ? " " : ""), id ? id : "?");
    }
    assert_string_equal(got, want);
}

static void silence(int sink, bool is_silent)
{
    rig.sinks[sink - 1].is_silent = is_silent;
}

static void post(int client, const char *id, const char *key)
{
    char request[512];

    snprintf(request, sizeof request,
             "POST /ns/c HTTP/1.1\r\nHost: h\r\nce-specversion: 1.0\r\nce-id: %s\r\nce-source: /s\r\nce-type: t\r\n"
             "%s%s%sContent-Length: 1\r\n\r\nx",
             id, key ? "ce-partitionkey: " : "", key ? key : "", key ? "\r\n" : "");
    rig_send(client, request);
}

/* Long enough for everything that can happen to have happened: a connection made and used needs fewer. */
static void turn_often(void)
{
    for (int i = 0; i < 300; i++)
        rig_turn();
}

/* ---- order ---- */

static void strict_order_sends_an_event_when_the_one_before_is_done_everywhere(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, order: strict, subscriptions: [{uid: a, subscriber: '$1'},\n"
            "  {uid: b, subscriber: '$2'}]}]\n");
    silence(2, true);
    for (int i = 0; i < 4; i++) {
        char id[8];

        snprintf(id, sizeof id, "e%d", i);
        post(i, id, NULL);
        turn_often(); /* so that they come in this order, on whichever workers */
    }
    assert_ids(1, "e0");
    assert_ids(2, "e0");
    assert_false(rig_has_answer(0));
    silence(2, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_status(i), 202);
    assert_ids(1, "e0 e1 e2 e3");
    assert_ids(2, "e0 e1 e2 e3");
}

static void a_failure_lets_the_next_one_go(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, order: strict, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    rig_answer_with(1, RIG_FAIL(400), RIG_OK);
    silence(1, true);
    post(0, "bad", NULL);
    turn_often();
    post(1, "good", NULL);
    turn_often();
    assert_ids(1, "bad");
    silence(1, false);
    assert_int_equal(rig_status(0), 500);
    assert_int_equal(rig_status(1), 202);
    assert_ids(1, "bad good");
}

static void order_by_key_holds_for_events_with_one_key_only(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, order: key, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    silence(1, true);
    post(0, "a1", "a");
    rig_turn_until(count(1) == 1);
    post(1, "a2", "a");
    turn_often();
    post(2, "b1", "b");
    rig_turn_until(count(1) == 2);
    post(3, "free", NULL); /* no key: no order */
    rig_turn_until(count(1) == 3);
    turn_often();
    assert_ids(1, "a1 b1 free");
    silence(1, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_status(i), 202);
    assert_ids(1, "a1 b1 free a2");
}

static void a_batch_keeps_its_order(void **state)
{
    enum { EVENTS = 100 };
    static char body[EVENTS * 80], request[EVENTS * 80 + 256];
    size_t n = 0;

    (void)state;
    rig_use("channels: [{namespace: ns, name: c, order: strict, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    for (int i = 0; i < EVENTS; i++)
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "%c{\"specversion\":\"1.0\",\"id\":\"%d\",\"source\":\"/s\",\"type\":\"t\"}", i ? ',' : '[', i);
    snprintf(body + n, sizeof body - n, "]");
    snprintf(
        request, sizeof request,
        "POST /ns/c HTTP/1.1\r\nHost: h\r\nContent-Type: application/cloudevents-batch+json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    rig_send(0, request);
    assert_int_equal(rig_status(0), 202);
    assert_int_equal(count(1), EVENTS);
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(atoi(rig_header(rig.sinks[0].requests[i], "ce-id")), i);
}

static void no_event_waits_longer_than_its_own_time(void **state)
{
#define STRICT(timeout)                                                                                                        \
    "channels: [{namespace: ns, name: c, order: strict, timeout: " timeout ", subscriptions: [{uid: a, subscriber: '$1'}]}]\n"
    (void)state;
    rig_use(STRICT("1m"));
    silence(1, true);
    post(0, "patient", NULL);
    rig_turn_until(count(1) == 1);
    rig_use(STRICT("50ms"));
    post(1, "hasty", NULL);
    assert_int_equal(rig_status(1), 500);
    assert_non_null(strstr(rig.text, "deadline"));
    assert_ids(1, "patient");
    silence(1, false);
    assert_int_equal(rig_status(0), 202);
    post(1, "next", NULL);
    assert_int_equal(rig_status(1), 202);
    assert_ids(1, "patient next");
#undef STRICT
}

static void what_waits_for_its_turn_is_answered_when_the_process_ends(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, order: strict, subscriptions: [{uid: a, subscriber: '$1'}]}]\n");
    silence(1, true);
    for (int i = 0; i < 3; i++) {
        post(i, "e", NULL);
        turn_often();
    }
    fanout_drain(rig.fanout, 0, 1, &rig.drained, &rig.main.mailbox);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_status(i), 503);
    rig_turn_until(rig.is_drained);
    assert_int_equal(count(1), 1);
}

/* On which plane an event runs, and where it came in; -1 as long as none does. */
static int running_on(int *out_origin)
{
    int home = -1;

    for (unsigned i = 0; i < RIG_WORKERS; i++) {
        if (!list_is_empty(&rig.fanout->planes[i].jobs))
            home = (int)i;
        if (rig.fanout->planes[i].n_jobs)
            *out_origin = (int)i;
    }
    return home;
}

static void the_limit_of_a_drain_holds_for_what_runs_for_another_worker(void **state)
{
    enum { CHANNELS = 64 };
    static char config[CHANNELS * 100 + 20] = "channels:\n";
    int home = -1, origin = -1;

    (void)state;
    for (int i = 0; i < CHANNELS; i++)
        snprintf(config + strlen(config), sizeof config - strlen(config),
                 "- {namespace: ns, name: c%d, order: strict, subscriptions: [{uid: a, subscriber: '$1'}]}\n", i);
    rig_use(config);
    for (int i = 0; i < CHANNELS && home == origin; i++) { /* its worker is up to a random key */
        char request[256];

        if (i)
            assert_int_equal(rig_status(0), 202);
        silence(1, true);
        snprintf(request, sizeof request,
                 "POST /ns/c%d HTTP/1.1\r\nHost: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
                 "Content-Length: 1\r\n\r\nx",
                 i);
        rig_send(0, request);
        rig_turn_until((home = running_on(&origin)) >= 0 && count(1) == (size_t)i + 1);
        silence(1, home != origin);
    }
    assert_int_not_equal(home, origin);
    fanout_drain(rig.fanout, 0, 20, &rig.drained, &rig.main.mailbox);
    assert_int_equal(rig_status(0), 503);
    rig_turn_until(rig.is_drained);
}

/* ---- events that come again ---- */

static void only_who_has_not_had_it_gets_an_event_again(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, redeliver: failed-only, subscriptions: [{uid: a, subscriber: '$1'},\n"
            "  {uid: b, subscriber: '$2'}]}]\n");
    rig_answer_with(2, RIG_FAIL(400), RIG_FAIL(400), RIG_OK);
    for (int i = 0; i < 3; i++) { /* by several senders, on whichever workers */
        post(i, "e1", NULL);
        assert_int_equal(rig_status(i), i < 2 ? 500 : 202);
    }
    assert_ids(1, "e1");
    assert_ids(2, "e1 e1 e1");
    post(3, "e1", NULL);
    assert_int_equal(rig_status(3), 202);
    assert_ids(2, "e1 e1 e1");
    post(4, "e2", NULL);
    assert_int_equal(rig_status(4), 202);
    assert_ids(1, "e1 e2");
}

static void with_redeliver_all_everybody_gets_it_again(void **state)
{
    (void)state;
    rig_use("channels: [{namespace: ns, name: c, subscriptions: [{uid: a, subscriber: '$1'}, {uid: b, subscriber: '$2'}]}]\n");
    rig_answer_with(2, RIG_FAIL(400), RIG_OK);
    post(0, "e1", NULL);
    assert_int_equal(rig_status(0), 500);
    post(0, "e1", NULL);
    assert_int_equal(rig_status(0), 202);
    assert_ids(1, "e1 e1");
    assert_ids(2, "e1 e1");
}

/* ---- acknowledgement before delivery ---- */

#define ASYNC(more)                                                                                                            \
    "channels: [{namespace: ns, name: c, ack: async-memory, " more "subscriptions: [{uid: a, subscriber: '$1',\n"              \
    "  delivery: {retry: 0}}]}]\n"

static void async_memory_answers_before_anybody_has_the_event(void **state)
{
    (void)state;
    rig_use(ASYNC(""));
    silence(1, true);
    for (int i = 0; i < 3; i++) {
        post(0, "e", NULL);
        assert_int_equal(rig_status(0), 202);
    }
    rig_turn_until(count(1) == 3);
    silence(1, false);
    fanout_drain(rig.fanout, 0, 10 * 1000, &rig.drained, &rig.main.mailbox);
    rig_turn_until(rig.is_drained);
    assert_int_equal(rig.sinks[0].n_answered, 3);
}

static void async_memory_in_order_answers_what_still_waits(void **state)
{
    (void)state;
    rig_use(ASYNC("order: strict, "));
    silence(1, true);
    for (int i = 0; i < 3; i++) {
        char id[8];

        snprintf(id, sizeof id, "e%d", i);
        post(i, id, NULL);
        assert_int_equal(rig_status(i), 202);
    }
    turn_often();
    assert_ids(1, "e0");
    silence(1, false);
    rig_turn_until(count(1) == 3);
    assert_ids(1, "e0 e1 e2");
}

static void a_full_memory_is_told_with_retry_after(void **state)
{
    static char body[40 * 1024];

    (void)state;
    memset(body, 'x', sizeof body - 1);
    rig_use(ASYNC("max_queued: 64KiB, "));
    silence(1, true);
    rig_post(0, "", body);
    assert_int_equal(rig_status(0), 202);
    rig_post(0, "", body); /* the same connection, so the same worker */
    assert_int_equal(rig_status(0), 429);
    assert_non_null(rig_header(rig.text, "Retry-After"));
    silence(1, false);
    rig_turn_until(rig.sinks[0].n_answered == 1);
    turn_often();
    rig_post(0, "", body);
    assert_int_equal(rig_status(0), 202);
    rig_turn_until(count(1) == 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        RIG_TEST(strict_order_sends_an_event_when_the_one_before_is_done_everywhere),
        RIG_TEST(a_failure_lets_the_next_one_go),
        RIG_TEST(order_by_key_holds_for_events_with_one_key_only),
        RIG_TEST(a_batch_keeps_its_order),
        RIG_TEST(no_event_waits_longer_than_its_own_time),
        RIG_TEST(what_waits_for_its_turn_is_answered_when_the_process_ends),
        RIG_TEST(the_limit_of_a_drain_holds_for_what_runs_for_another_worker),
        RIG_TEST(only_who_has_not_had_it_gets_an_event_again),
        RIG_TEST(with_redeliver_all_everybody_gets_it_again),
        RIG_TEST(async_memory_answers_before_anybody_has_the_event),
        RIG_TEST(async_memory_in_order_answers_what_still_waits),
        RIG_TEST(a_full_memory_is_told_with_retry_after),
    };

    return cmocka_run_group_tests_name("fanout_order", tests, NULL, NULL);
}
