#include "command/command_link.h"

#include "command/command_link_fixture.h"

enum { ROUNDS = 6, BIG_BYTES = 1 << 20 };

static int64_t awaited; /* the offset that each tenant has to come to */
static char big[BIG_BYTES];

static bool all_requests_came(void)
{
    for (unsigned i = 0; i < TENANTS; i++)
        if (b.requests[i].last != awaited)
            return false;
    return true;
}

static bool all_results_came(void)
{
    for (unsigned i = 0; i < TENANTS; i++)
        if (a.results[i].last != awaited)
            return false;
    return true;
}

static bool nothing_is_kept(void)
{
    return counts(COMMAND_LINK_COUNT_KEPT_BYTES) == 0;
}

static void answers(struct side *side, const struct command_request *request)
{
    assert_int_equal(answer(side, request->from.instance, tenant_number(request->ticket.tenant), request->ticket.offset), E_OK);
}

static void requests_and_their_results_arrive_once_and_in_order(void **state)
{
    (void)state;
    open_both(false);
    b.on_request = answers;
    for (int64_t i = 1; i <= ROUNDS; i++)
        ask_all(i);
    awaited = ROUNDS;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(all_results_came);
    TURN_UNTIL(nothing_is_kept);
    for (unsigned i = 0; i < TENANTS; i++) {
        assert_int_equal(b.requests[i].n_again, 0);
        assert_int_equal(a.results[i].n_again, 0);
    }
    assert_int_equal(counts(COMMAND_LINK_COUNT_SENT), 2 * ROUNDS * TENANTS);
    assert_int_equal(counts(COMMAND_LINK_COUNT_RECEIVED), 2 * ROUNDS * TENANTS);
    assert_int_equal(counts(COMMAND_LINK_COUNT_CONNECTED), WORKERS_A + WORKERS_B);
    assert_int_equal(counts(COMMAND_LINK_COUNT_HANDED_BYTES), 0);
}

static void what_a_request_says_arrives(void **state)
{
    static const char *const names[] = {"subject", "correlation-id"};
    struct record_header headers[2];
    struct command_request request;

    (void)state;
    open_both(false);
    for (unsigned i = 0; i < 2; i++)
        headers[i] = (struct record_header){str_from(names[i]), {NULL, 0}};
    request = request_of(2, 1, (struct str){0});
    request.headers = headers;
    request.n_headers = 2;
    assert_int_equal(a.transport->ops->send_request(a.transport, 0, &request), E_OK);
    awaited = 1;
    for (unsigned i = 0; i < TENANTS; i++)
        if (i != 2)
            b.requests[i].last = 1; /* of those nothing is asked */
    TURN_UNTIL(all_requests_came);
}

/* The lengths of what A says over one connection: its hello, then the frames of worker 0, whose tenants are t0 and t2. */
static unsigned measure(size_t ends[1 + ROUNDS * TENANTS])
{
    const struct command_link_hello hello = {.version = COMMAND_LINK_VERSION, .first = 1, .from = STR("a"), .to = STR("b")};
    struct buf bytes = {0};
    unsigned n = 0;

    assert_int_equal(command_link_frame_write_hello(&bytes, &hello), E_OK);
    ends[n++] = buf_size(&bytes);
    for (int64_t i = 1; i <= ROUNDS; i++)
        for (unsigned tenant = 0; tenant < TENANTS; tenant += WORKERS_A) {
            struct command_request request = request_of(tenant, i, STR("on"));

            assert_int_equal(command_link_frame_write_request(&bytes, n, &request), E_OK);
            ends[n++] = buf_size(&bytes);
        }
    buf_free(&bytes, MEM_COMMAND);
    return n;
}

static bool half_came(void)
{
    return b.requests[0].last >= ROUNDS / 2;
}

/* One connection is cut after so many bytes, in one direction; whatever was under way comes all the same. */
static void cut_at(size_t to, size_t from)
{
    open_both(true);
    b.on_request = answers;
    proxy.cut_to = to;
    proxy.cut_from = from;
    for (int64_t i = 1; i <= ROUNDS; i++) {
        ask_all(i);
        if (i == ROUNDS / 2)
            TURN_UNTIL(half_came);
    }
    awaited = ROUNDS;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(all_results_came);
    TURN_UNTIL(nothing_is_kept);
    assert_int_equal(proxy.cut_to + proxy.cut_from, 0);
    assert_true(proxy.n_pairs > WORKERS_A);
    assert_int_equal(counts(COMMAND_LINK_COUNT_SENT), counts(COMMAND_LINK_COUNT_RECEIVED));
    close_both();
}

static void a_connection_that_is_cut_anywhere_loses_nothing(void **state)
{
    size_t ends[1 + ROUNDS * TENANTS], before = 0;
    unsigned n = measure(ends);

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        const size_t cuts[] = {before + 1, before + (ends[i] - before) / 2, ends[i] - 1, ends[i]};

        for (size_t k = 0; k < ARRAY_LEN(cuts); k++)
            cut_at(cuts[k], 0);
        before = ends[i];
    }
}

/* A welcome and two acknowledgements, each of 13 bytes: the sender does not learn that its frames have come. */
static void an_answer_that_is_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 26; i++)
        cut_at(0, i);
}

static void cut_one_after_the_other(void)
{
    proxy.cut_to = 150;
    proxy.cut_from = 1000000; /* never */
}

static bool has_been_cut(void)
{
    return proxy.cut_to == 0;
}

/* Each connection dies young, many times: it goes on from where it was. */
static void a_connection_that_is_cut_again_and_again_gets_on(void **state)
{
    (void)state;
    open_both(true);
    for (int64_t i = 1; i <= ROUNDS; i++)
        ask_all(i);
    for (unsigned i = 0; i < ROUNDS; i++) {
        cut_one_after_the_other();
        TURN_UNTIL(has_been_cut);
    }
    proxy.cut_from = 0;
    awaited = ROUNDS;
    TURN_UNTIL(all_requests_came);
}

static int64_t asked;

static bool was_refused_for_want_of_room(void)
{
    err e = ask(0, asked + 1, (struct str){big, sizeof big});

    asked += e == E_OK;
    assert_true(e == E_OK || e == E_IO);
    return e == E_IO;
}

static bool has_room(void)
{
    return a.n_rooms > 0;
}

static bool first_tenant_came(void)
{
    return b.requests[0].last == asked;
}

static void a_peer_that_stops_reading_is_given_no_more_and_goes_on_later(void **state)
{
    (void)state;
    open_both(true);
    asked = 1;
    assert_int_equal(ask(0, 1, STR("on")), E_OK);
    TURN_UNTIL(first_tenant_came);
    proxy.is_deaf = true;
    TURN_UNTIL(was_refused_for_want_of_room);
    assert_true(counts(COMMAND_LINK_COUNT_KEPT_BYTES) <= (8 << 20) + 2 * (int64_t)sizeof big);
    assert_true(counts(COMMAND_LINK_COUNT_NO_ROOM) > 0);
    assert_int_equal(ask(1, 1, STR("on")), E_OK); /* another worker's */
    proxy.is_deaf = false;
    for (size_t i = 0; i < ARRAY_LEN(proxy.pairs); i++)
        if (proxy.pairs[i].is_near_open)
            stream_resume(&proxy.pairs[i].near);
    TURN_UNTIL(has_room);
    TURN_UNTIL(first_tenant_came);
    TURN_UNTIL(nothing_is_kept);
}

static bool was_taken_for_dead(void)
{
    return counts(COMMAND_LINK_COUNT_DEAD) > 0;
}

static void a_peer_that_says_nothing_is_dead_and_what_it_should_have_comes_by_another_connection(void **state)
{
    (void)state;
    heartbeat_ms = 200;
    open_both(true);
    ask_all(1);
    awaited = 1;
    TURN_UNTIL(all_requests_came);
    proxy.is_mute = true;
    ask_all(2);
    TURN_UNTIL(was_taken_for_dead);
    proxy.is_mute = false;
    awaited = 2;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(nothing_is_kept);
}

static unsigned n_turns;

static bool many_heartbeats_have_passed(void)
{
    static uint64_t begun_ms;

    if (n_turns++ == 0)
        begun_ms = loop_clock_ms();
    return loop_clock_ms() - begun_ms > 5 * (uint64_t)heartbeat_ms;
}

static void a_connection_with_nothing_to_say_stays(void **state)
{
    (void)state;
    heartbeat_ms = 200;
    n_turns = 0;
    open_both(false);
    ask_all(1);
    awaited = 1;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(many_heartbeats_have_passed);
    assert_int_equal(counts(COMMAND_LINK_COUNT_CONNECTED), WORKERS_A);
    assert_int_equal(counts(COMMAND_LINK_COUNT_BROKEN) + counts(COMMAND_LINK_COUNT_DEAD), 0);
}

static bool connecting_has_failed(void)
{
    return counts(COMMAND_LINK_COUNT_FAILED) > 0;
}

static void what_waits_for_a_peer_that_cannot_be_reached_comes_once_it_can(void **state)
{
    char address[NAME_BYTES];

    (void)state;
    open_both(false);
    snprintf(address, sizeof address, "%.*s", STR_ARG(command_link_address(b.transport)));
    a.address_of_other = str_from(address);
    close_side(&b);
    asked = 0;
    while (ask(0, asked + 1, (struct str){big, sizeof big}) == E_OK)
        asked++;
    assert_int_equal(ask(0, asked + 1, STR("on")), E_IO);
    TURN_UNTIL(connecting_has_failed);
    assert_int_equal(a.n_rooms, 0);
    open_side(&b, "b", "root.pem", address);
    TURN_UNTIL(first_tenant_came);
    TURN_UNTIL(has_room);
    TURN_UNTIL(nothing_is_kept);
    assert_int_equal(ask(0, ++asked, STR("on")), E_OK);
    TURN_UNTIL(first_tenant_came);
}

static void of_a_peer_that_is_gone_nothing_is_kept(void **state)
{
    (void)state;
    open_both(true);
    ask_all(1);
    awaited = 1;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(nothing_is_kept);
    proxy.is_mute = true;
    ask_all(2);
    a.address_of_other = (struct str){0};
    assert_true(counts(COMMAND_LINK_COUNT_KEPT_BYTES) > 0);
    a.transport->ops->on_instances(a.transport);
    a.transport->ops->on_instances(a.transport); /* once is enough */
    TURN_UNTIL(nothing_is_kept);
    assert_int_equal(counts(COMMAND_LINK_COUNT_DROPPED), TENANTS);
    assert_int_equal(ask(0, 3, STR("on")), E_IO);
    assert_int_equal(answer(&a, STR("b"), 0, 3), E_OK); /* nobody misses it */
    assert_int_equal(counts(COMMAND_LINK_COUNT_DROPPED), TENANTS + 1);
    assert_int_equal(counts(COMMAND_LINK_COUNT_SENT), 2 * TENANTS);
}

static void an_address_that_is_none_is_as_if_the_peer_were_lost(void **state)
{
    static const struct str none[] = {STR_INIT(""), STR_INIT("b"), STR_INIT(":1"), STR_INIT("b:"), STR_INIT("b:65536")};

    (void)state;
    open_both(false);
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        a.address_of_other = none[i];
        assert_int_equal(ask(0, 1, STR("on")), E_IO);
    }
}

/* In capitals it is no number, and the system is asked. */
static void a_peer_can_be_reached_by_its_name(void **state)
{
    struct str port;
    char address[NAME_BYTES];

    (void)state;
    open_both(false);
    port = str_from_offset(command_link_address(b.transport), sizeof "127.0.0.1" - 1);
    snprintf(address, sizeof address, "LOCALHOST%.*s", STR_ARG(port));
    a.address_of_other = str_from(address);
    ask_all(1);
    awaited = 1;
    TURN_UNTIL(all_requests_came);
}

static void a_peer_whose_name_is_none_is_waited_for_until_it_is_gone(void **state)
{
    (void)state;
    open_both(false);
    a.address_of_other = STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid:1");
    ask_all(1);
    TURN_UNTIL(connecting_has_failed);
    a.address_of_other = (struct str){0};
    a.transport->ops->on_instances(a.transport);
    TURN_UNTIL(nothing_is_kept);
}

static void what_is_too_large_is_refused_and_takes_no_place(void **state)
{
    static char huge[COMMAND_LINK_FRAME_MAX_BYTES];

    (void)state;
    open_both(false);
    assert_int_equal(ask(0, 1, (struct str){huge, sizeof huge}), E_LIMIT);
    assert_int_equal(ask(0, 1, (struct str){huge, sizeof huge - 1000}), E_OK);
    asked = 1;
    TURN_UNTIL(first_tenant_came);
}

static void a_peer_that_has_begun_anew_gets_what_the_one_before_did_not_acknowledge(void **state)
{
    char address[NAME_BYTES];

    (void)state;
    open_both(true);
    ask_all(1);
    awaited = 1;
    TURN_UNTIL(all_requests_came);
    TURN_UNTIL(nothing_is_kept);
    proxy.is_mute = true;
    snprintf(address, sizeof address, "%.*s", STR_ARG(command_link_address(b.transport)));
    ask_all(2);
    close_side(&b);
    proxy.is_mute = false;
    open_side(&b, "b", "root.pem", address);
    for (unsigned i = 0; i < TENANTS; i++)
        b.requests[i].last = 1; /* the one before had them */
    awaited = 2;
    TURN_UNTIL(all_requests_came);
}

static bool name_was_refused(void)
{
    return counts(COMMAND_LINK_COUNT_REFUSED_NAME) > 0;
}

static bool handshake_was_refused(void)
{
    return counts(COMMAND_LINK_COUNT_REFUSED_TLS) > 0;
}

static void use_certificates(struct side *side, const char *name, const char *ca)
{
    struct tls *server = make_tls(name, ca, true), *client = make_tls(name, ca, false);

    command_link_use_tls(side->transport, server, client);
    tls_unref(server);
    tls_unref(client);
}

static void whoever_is_not_what_its_certificate_says_is_refused(void **state)
{
    static const struct {
        const char *a, *a_ca, *b, *b_ca;
        bool (*is_seen)(void);
    } cases[] = {
        {"c", "root.pem", "b", "root.pem", name_was_refused},           /* another instance's certificate */
        {"forged", "root.pem", "b", "root.pem", handshake_was_refused}, /* one of somebody else */
        {"a", "root.pem", "c", "root.pem", connecting_has_failed},      /* the server is another one */
        {"a", "stranger.pem", "b", "root.pem", connecting_has_failed},  /* or not to be trusted */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_both(false);
        use_certificates(&a, cases[i].a, cases[i].a_ca);
        use_certificates(&b, cases[i].b, cases[i].b_ca);
        ask_all(1);
        TURN_UNTIL(cases[i].is_seen);
        assert_int_equal(counts(COMMAND_LINK_COUNT_RECEIVED), 0);
        /* With the right ones in their place, it comes. */
        use_certificates(&a, "a", "root.pem");
        use_certificates(&b, "b", "root.pem");
        awaited = 1;
        TURN_UNTIL(all_requests_came);
        close_both();
    }
}

static bool stranger_was_refused(void)
{
    return counts(COMMAND_LINK_COUNT_REFUSED_STRANGER) > 0;
}

/* A certificate for all: only the names that are said tell them apart. */
static void whoever_reaches_another_than_it_meant_is_refused(void **state)
{
    (void)state;
    b.name = "c";
    open_both(false);
    b.name = "b";
    ask_all(1);
    TURN_UNTIL(stranger_was_refused);
    assert_int_equal(counts(COMMAND_LINK_COUNT_RECEIVED), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(requests_and_their_results_arrive_once_and_in_order, tear_down),
        cmocka_unit_test_teardown(what_a_request_says_arrives, tear_down),
        cmocka_unit_test_teardown(a_connection_that_is_cut_anywhere_loses_nothing, tear_down),
        cmocka_unit_test_teardown(an_answer_that_is_cut_anywhere_loses_nothing, tear_down),
        cmocka_unit_test_teardown(a_connection_that_is_cut_again_and_again_gets_on, tear_down),
        cmocka_unit_test_teardown(a_peer_that_stops_reading_is_given_no_more_and_goes_on_later, tear_down),
        cmocka_unit_test_teardown(a_peer_that_says_nothing_is_dead_and_what_it_should_have_comes_by_another_connection,
                                  tear_down),
        cmocka_unit_test_teardown(a_connection_with_nothing_to_say_stays, tear_down),
        cmocka_unit_test_teardown(what_waits_for_a_peer_that_cannot_be_reached_comes_once_it_can, tear_down),
        cmocka_unit_test_teardown(of_a_peer_that_is_gone_nothing_is_kept, tear_down),
        cmocka_unit_test_teardown(an_address_that_is_none_is_as_if_the_peer_were_lost, tear_down),
        cmocka_unit_test_teardown(a_peer_can_be_reached_by_its_name, tear_down),
        cmocka_unit_test_teardown(a_peer_whose_name_is_none_is_waited_for_until_it_is_gone, tear_down),
        cmocka_unit_test_teardown(what_is_too_large_is_refused_and_takes_no_place, tear_down),
        cmocka_unit_test_teardown(a_peer_that_has_begun_anew_gets_what_the_one_before_did_not_acknowledge, tear_down),
        cmocka_unit_test_teardown(whoever_is_not_what_its_certificate_says_is_refused, tear_down),
        cmocka_unit_test_teardown(whoever_reaches_another_than_it_meant_is_refused, tear_down),
    };

    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
