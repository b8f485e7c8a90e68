#include "loop/stream.h"

#include "loop/stream_fixture.h"

static void closes(struct owner *me, struct str bytes)
{
    (void)bytes;
    stream_close(&me->s, E_PROTO);
    stream_close(&me->s, E_OK); /* the first reason holds */
    assert_int_equal(seen.closes, 0);
    assert_true(stream_is_open(&me->s));
}

static void closing_inside_on_data_ends_the_stream_with_the_turn(void **state)
{
    (void)state;
    o->on_bytes = closes;
    o->most = 1;
    assert_int_equal(stream_write(&o->s, STR("farewell")), E_OK);
    say("abc");
    turn();
    assert_int_equal(seen.offers, 1); /* nothing more is read */
    assert_int_equal(seen.closes, 1);
    assert_int_equal(seen.why, E_PROTO);
    assert_heard("farewell");
    assert_end_heard();
    turn();
    assert_int_equal(seen.closes, 1);
}

static void closing_inside_on_data_of_a_resumed_stream_is_safe(void **state)
{
    (void)state;
    o->on_bytes = pauses;
    o->most = 1;
    say("abc");
    turn();
    o->on_bytes = closes;
    stream_resume(&o->s);
    turn_to_close();
    assert_int_equal(seen.why, E_PROTO);
    turn();
    turn();
}

static void closes_when_drained(struct owner *me)
{
    stream_close(&me->s, E_TIMEOUT);
}

static void closing_inside_on_drain_is_safe(void **state)
{
    (void)state;
    o->on_drained = closes_when_drained;
    assert_int_equal(stream_write(&o->s, STR("x")), E_OK);
    turn_to_close();
    assert_int_equal(seen.why, E_TIMEOUT);
    turn();
}

static void does_everything_too_late(struct owner *me)
{
    stream_close(&me->s, E_IO);
    stream_close_after_output(&me->s);
    stream_pause(&me->s);
    stream_resume(&me->s);
    stream_flush(&me->s);
    assert_int_equal(stream_write(&me->s, STR("late")), E_CLOSED);
    assert_null(stream_reserve(&me->s, 10));
    assert_int_equal(stream_pending(&me->s), 0);
}

static void calls_inside_on_close_do_nothing(void **state)
{
    (void)state;
    o->on_closed = does_everything_too_late;
    stream_close(&o->s, E_OK);
    assert_int_equal(stream_write(&o->s, STR("late")), E_CLOSED);
    turn();
    assert_int_equal(seen.closes, 1);
    turn();
    assert_end_heard();
}

static void closing_writes_only_what_the_peer_takes_at_once(void **state)
{
    (void)state;
    block();
    stream_close(&o->s, E_OK);
    turn_to_close();
    assert_int_equal(seen.drains, 0);
}

static void closing_after_output_waits_for_the_peer_to_take_it(void **state)
{
    (void)state;
    block();
    stream_close_after_output(&o->s);
    assert_int_equal(stream_write(&o->s, STR("late")), E_CLOSED);
    say("not read any more");
    turn();
    turn();
    assert_int_equal(seen.closes, 0);
    hear_big(BIG);
    turn_to_close();
    assert_int_equal(seen.why, E_OK);
    assert_int_equal(seen.offers, 0);
    assert_int_equal(seen.drains, 0);
    turn();
}

static void closing_after_output_takes_output_of_the_same_turn_along(void **state)
{
    (void)state;
    assert_int_equal(stream_write(&o->s, STR("last words")), E_OK);
    stream_close_after_output(&o->s);
    stream_close_after_output(&o->s);
    turn();
    assert_int_equal(seen.closes, 1);
    assert_heard("last words");
    assert_end_heard();
    turn();
}

static void closing_after_no_output_closes(void **state)
{
    (void)state;
    stream_close_after_output(&o->s);
    turn();
    assert_int_equal(seen.closes, 1);
    assert_int_equal(seen.why, E_OK);
    turn();
}

static void a_close_ends_the_wait_for_the_output(void **state)
{
    (void)state;
    block();
    stream_close_after_output(&o->s);
    turn();
    stream_close(&o->s, E_TIMEOUT);
    turn_to_close();
    assert_int_equal(seen.why, E_TIMEOUT);
}

static void shuts_output(struct owner *me)
{
    stream_shut_output(&me->s);
}

static void shutting_output_ends_it_for_the_peer_and_goes_on_reading(void **state)
{
    (void)state;
    o->on_drained = shuts_output;
    assert_int_equal(stream_write(&o->s, STR("last words")), E_OK);
    turn();
    assert_heard("last words");
    assert_end_heard();
    say("not heard yet");
    turn();
    assert_int_equal(seen.offers, 1);
    assert_int_equal(seen.closes, 0);
    hang_up();
    turn_to_close();
    assert_int_equal(seen.why, E_CLOSED);
}

static void stay_open(void)
{
}

static void pause_it(void)
{
    stream_pause(&o->s);
    turn();
}

static void finish_it(void)
{
    block();
    stream_close_after_output(&o->s);
    turn();
}

static void pause_blocked(void)
{
    block();
    pause_it();
}

static void close_it(void)
{
    stream_close(&o->s, E_CLOSED);
}

static void write_some(void)
{
    assert_int_equal(stream_write(&o->s, STR("to nobody")), E_OK);
}

static void keep_a_rest(void)
{
    o->least = 100;
    say("rest");
    turn();
}

static void (*const conditions[])(void) = {stay_open, pause_it,   block,       finish_it,
                                           close_it,  write_some, keep_a_rest, pause_blocked};

static void a_peer_that_goes_closes_the_stream_in_every_state(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        conditions[i]();
        hang_up();
        turn_to_close();
        assert_int_equal(seen.why, E_CLOSED);
        turn();
        assert_int_equal(seen.closes, 1);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

/* The stream's socket becomes a TCP one. */
static void use_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), fd;

    stream_close(&o->s, E_OK);
    turn();
    hang_up();
    forget();
    assert_int_equal(bind(listening, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    peer = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(peer, (struct sockaddr *)&address, size), 0);
    assert_int_equal(fcntl(peer, F_SETFL, O_NONBLOCK), 0);
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    assert_true(fd >= 0);
    close(listening);
    o = owner_new();
    assert_int_equal(stream_open(&o->s, &l, fd, &ops), E_OK);
}

static void a_reset_closes_the_stream_in_every_state(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        use_tcp();
        conditions[i]();
        assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)), 0);
        hang_up();
        while (!seen.closes)
            loop_turn(&l, -1);
        assert_int_equal(seen.why, E_CLOSED);
        turn();
        assert_int_equal(seen.closes, 1);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

static void bytes_before_the_end_are_still_offered(void **state)
{
    (void)state;
    say("last");
    hang_up();
    turn_to_close();
    assert_bytes(used, "last");
    assert_int_equal(seen.why, E_CLOSED);
}

static void a_half_closed_peer_gets_the_output_of_that_turn(void **state)
{
    (void)state;
    assert_int_equal(stream_write(&o->s, STR("answer")), E_OK);
    assert_int_equal(shutdown(peer, SHUT_WR), 0);
    turn_to_close();
    assert_heard("answer");
}

static void a_write_error_closes_the_stream(void **state)
{
    (void)state;
    stream_pause(&o->s);
    turn();
    assert_int_equal(shutdown(o->s.io.fd, SHUT_WR), 0); /* EPIPE at the next write, no event before it */
    assert_int_equal(stream_write(&o->s, STR("x")), E_OK);
    turn_to_close();
    assert_int_equal(seen.why, E_CLOSED);
    assert_int_equal(seen.drains, 0);
    turn();
}

static struct owner *victim;

static void closes_the_other(struct owner *me, struct str bytes)
{
    (void)bytes;
    stream_close(me == o ? &victim->s : &o->s, E_OK);
}

static void a_stream_closed_by_another_ones_handler_gets_no_more_bytes(void **state)
{
    int fds[2];

    (void)state;
    open_pair(fds);
    victim = owner_new();
    victim->on_bytes = o->on_bytes = closes_the_other;
    assert_int_equal(stream_open(&victim->s, &l, fds[0], &ops), E_OK);
    assert_int_equal(write(fds[1], "x", 1), 1);
    say("x");
    turn();
    assert_int_equal(seen.offers, 1); /* whichever came first ended the other */
    assert_int_equal(seen.closes, 1);
    if (!o)
        o = victim;
    close(fds[1]);
}

static void a_stream_whose_loop_runs_no_more_is_ended_without_a_word_to_its_owner(void **state)
{
    (void)state;
    o->least = 100;
    say("kept");
    turn();
    assert_int_equal(stream_write(&o->s, STR("never sent")), E_OK);
    stream_fini(&o->s);
    assert_false(stream_is_open(&o->s));
    assert_int_equal(seen.closes, 0);
    assert_end_heard();
    stream_fini(&o->s); /* once is enough */
    stream_fini(&(struct stream){0});
    mem_free(MEM_TEST, o);
    o = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(closing_inside_on_data_ends_the_stream_with_the_turn),
        TEST(closing_inside_on_data_of_a_resumed_stream_is_safe),
        TEST(closing_inside_on_drain_is_safe),
        TEST(calls_inside_on_close_do_nothing),
        TEST(closing_writes_only_what_the_peer_takes_at_once),
        TEST(closing_after_output_waits_for_the_peer_to_take_it),
        TEST(closing_after_output_takes_output_of_the_same_turn_along),
        TEST(closing_after_no_output_closes),
        TEST(a_close_ends_the_wait_for_the_output),
        TEST(shutting_output_ends_it_for_the_peer_and_goes_on_reading),
        TEST(a_peer_that_goes_closes_the_stream_in_every_state),
        TEST(a_reset_closes_the_stream_in_every_state),
        TEST(bytes_before_the_end_are_still_offered),
        TEST(a_half_closed_peer_gets_the_output_of_that_turn),
        TEST(a_write_error_closes_the_stream),
        TEST(a_stream_closed_by_another_ones_handler_gets_no_more_bytes),
        TEST(a_stream_whose_loop_runs_no_more_is_ended_without_a_word_to_its_owner),
    };

    return cmocka_run_group_tests_name("stream_close", tests, NULL, NULL);
}
