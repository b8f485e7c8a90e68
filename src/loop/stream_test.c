#include "loop/stream.h"

#include "loop/stream_fixture.h"

static void bytes_are_used_and_an_idle_stream_keeps_no_buffer(void **state)
{
    (void)state;
    say("hello");
    turn();
    assert_bytes(used, "hello");
    assert_int_equal(seen.offers, 1);
    assert_int_equal(stream_write(&o->s, STR("world")), E_OK);
    turn();
    assert_heard("world");
    turn();
    assert_null(o->s.in.p);
    assert_null(o->s.out.p);
    assert_int_equal(seen.offers, 1);
    assert_int_equal(mem_used(MEM_LOOP) > 0, 1); /* the loop's own scratch */
}

static void an_unused_rest_is_offered_again_with_more_behind_it(void **state)
{
    (void)state;
    o->least = 10;
    say("0123");
    turn();
    assert_bytes(offered, "0123");
    turn();
    turn();
    assert_int_equal(seen.offers, 1); /* not without more */
    say("4567");
    turn();
    assert_bytes(offered, "01234567");
    say("89ab");
    turn();
    assert_bytes(used, "0123456789ab");
    assert_int_equal(seen.offers, 3);
    assert_null(o->s.in.p);
}

static void output_does_not_offer_the_unused_rest_again(void **state)
{
    (void)state;
    o->least = 10;
    say("0123");
    turn();
    assert_int_equal(stream_write(&o->s, STR("ping")), E_OK);
    turn();
    assert_heard("ping");
    assert_int_equal(seen.offers, 1);
}

static void bytes_are_offered_until_none_are_used(void **state)
{
    (void)state;
    o->most = 3;
    say("0123456789");
    turn();
    assert_int_equal(seen.offers, 4);
    assert_bytes(used, "0123456789");
    o->least = 3;
    say("abcde");
    turn();
    assert_bytes(used, "0123456789abc");
    assert_bytes(offered, "de");
    say("f");
    turn();
    assert_bytes(used, "0123456789abcdef");
}

static void a_stream_of_single_bytes_comes_whole(void **state)
{
    (void)state;
    o->least = 5;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(write(peer, big + i, 1), 1);
        turn();
    }
    assert_int_equal(seen.n_used, 50);
    assert_memory_equal(seen.used, big, 50);
}

static void more_than_one_read_takes_is_read_to_its_end(void **state)
{
    enum { BYTES = 3 * LOOP_SCRATCH_BYTES / 2 };
    size_t sent = 0;

    (void)state;
    assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &(int){2 * BYTES}, sizeof(int)), 0);
    while (sent < BYTES) {
        ssize_t n = write(peer, big + sent, BYTES - sent);

        assert_true(n > 0);
        sent += (size_t)n;
    }
    for (int i = 0; i < 4; i++)
        turn();
    assert_int_equal(ioctl(o->s.io.fd, FIONREAD, &(int){0}), 0);
    assert_true(seen.offers >= 2);
    hang_up();
    turn_to_close();
    assert_int_equal(seen.why, E_CLOSED);
    o = NULL;
}

static void the_end_is_seen_when_it_comes_with_the_last_bytes(void **state)
{
    (void)state;
    say("last");
    hang_up();
    turn_to_close();
    assert_bytes(used, "last");
    assert_int_equal(seen.why, E_CLOSED);
    o = NULL;
}

static void resumes(struct task *t)
{
    (void)t;
    stream_resume(&o->s);
}

/* What came in between was told once, and is not told again. */
static void a_pause_that_ends_in_the_turn_in_which_bytes_come_loses_nothing(void **state)
{
    struct task task = {.run = resumes};

    (void)state;
    loop_defer(&l, &task);
    stream_pause(&o->s);
    say("hello");
    turn();
    assert_bytes(used, "hello");
}

static void a_paused_stream_reads_nothing_and_goes_on_where_it_was(void **state)
{
    int unread;

    (void)state;
    o->on_bytes = pauses;
    o->most = 2;
    say("abcdef");
    turn();
    assert_int_equal(seen.offers, 1);
    assert_bytes(used, "ab");
    say("ghi");
    turn();
    turn();
    assert_int_equal(seen.offers, 1);
    assert_int_equal(ioctl(o->s.io.fd, FIONREAD, &unread), 0);
    assert_int_equal(unread, 3);
    stream_resume(&o->s); /* the rest comes at the end of the turn, and pauses again */
    assert_int_equal(seen.offers, 1);
    turn();
    assert_int_equal(seen.offers, 2);
    assert_bytes(offered, "cdef");
    assert_bytes(used, "abcd");
    o->on_bytes = NULL;
    o->most = SIZE_MAX;
    stream_resume(&o->s);
    turn();
    turn();
    assert_bytes(used, "abcdefghi");
}

static void pauses_and_resumes(struct owner *me, struct str bytes)
{
    (void)bytes;
    stream_pause(&me->s);
    stream_resume(&me->s);
}

static void pausing_and_resuming_at_once_changes_nothing(void **state)
{
    (void)state;
    stream_pause(&o->s);
    stream_resume(&o->s);
    turn();
    o->on_bytes = pauses_and_resumes;
    o->most = 2;
    say("abcdef");
    turn();
    turn();
    assert_bytes(used, "abcdef");
}

static void a_paused_stream_still_writes(void **state)
{
    (void)state;
    stream_pause(&o->s);
    block();
    hear_big(BIG);
    assert_int_equal(seen.drains, 1);
}

static void output_leaves_at_the_end_of_the_turn_in_order(void **state)
{
    char *to;

    (void)state;
    assert_int_equal(stream_write(&o->s, STR("ab")), E_OK);
    to = stream_reserve(&o->s, 100);
    assert_non_null(to);
    memcpy(to, "cd", 2);
    stream_commit(&o->s, 2);
    assert_int_equal(buf_append(&o->s.out, MEM_LOOP, STR("ef")), E_OK);
    stream_flush(&o->s);
    assert_int_equal(stream_pending(&o->s), 6);
    assert_nothing_heard();
    turn();
    assert_heard("abcdef");
    assert_int_equal(stream_pending(&o->s), 0);
    assert_int_equal(seen.drains, 1);
    stream_flush(&o->s); /* nothing to flush, nothing drained */
    turn();
    assert_int_equal(seen.drains, 1);
}

static void output_larger_than_the_sockets_buffer_waits_for_the_peer(void **state)
{
    (void)state;
    block();
    assert_int_equal(seen.drains, 0);
    turn();
    hear_big(BIG);
    assert_int_equal(seen.drains, 1);
    assert_null(o->s.out.p);
    say("still reads");
    turn();
    assert_bytes(used, "still reads");
}

static void writes_more(struct owner *me)
{
    if (seen.drains == 1)
        assert_int_equal(stream_write(&me->s, STR("more")), E_OK);
}

static void on_drain_may_write_more(void **state)
{
    (void)state;
    o->on_drained = writes_more;
    assert_int_equal(stream_write(&o->s, STR("first ")), E_OK);
    turn();
    turn();
    assert_heard("first more");
    assert_int_equal(seen.drains, 2);
}

static struct str unsent; /* of `big` */

static void sends_the_rest(struct owner *me)
{
    unsent = str_from_offset(unsent, stream_send(&me->s, &unsent, 1));
}

static void pieces_leave_at_once_and_the_rest_when_the_peer_takes_more(void **state)
{
    const struct str pieces[] = {{big, 5}, {0}, {big + 5, BIG - 5}};

    (void)state;
    o->on_drained = sends_the_rest;
    unsent = str_from_offset((struct str){big, BIG}, stream_send(&o->s, pieces, ARRAY_LEN(pieces)));
    assert_true(unsent.n > 0 && unsent.n < BIG);
    assert_null(o->s.out.p);
    hear_big(BIG);
    turn();
    assert_int_equal(unsent.n, 0);
    assert_true(seen.drains > 0);
    forget();
    assert_int_equal(stream_send(&o->s, &STR("all"), 1), 3);
    assert_heard("all"); /* without a turn */
    turn();
    assert_int_equal(seen.drains, 0);
}

static void pieces_wait_for_output_before_them(void **state)
{
    (void)state;
    unsent = (struct str){big, 3};
    o->on_drained = sends_the_rest;
    assert_int_equal(stream_write(&o->s, STR("first ")), E_OK);
    assert_int_equal(stream_send(&o->s, &unsent, 1), 0);
    assert_nothing_heard();
    turn();
    assert_int_equal(unsent.n, 0);
    stream_close(&o->s, E_OK);
    assert_int_equal(stream_send(&o->s, &STR("late"), 1), 0);
    assert_true(stream_is_closing(&o->s));
    turn();
    o = NULL;
}

static void no_memory_is_the_callers_or_the_streams_end(void **state)
{
    (void)state;
    mem_fail_after(1);
    assert_int_equal(stream_write(&o->s, STR("x")), E_NOMEM);
    mem_fail_after(1);
    assert_null(stream_reserve(&o->s, 1));
    assert_int_equal(stream_pending(&o->s), 0);
    o->least = 100;
    say("kept");
    mem_fail_after(1);
    turn_to_close();
    assert_int_equal(seen.why, E_NOMEM);
}

static void no_memory_for_more_of_a_rest_closes_the_stream(void **state)
{
    (void)state;
    o->least = 1000;
    say("kept");
    turn();
    assert_int_equal(write(peer, big, 300), 300);
    mem_fail_after(1);
    turn_to_close();
    assert_int_equal(seen.why, E_NOMEM);
}

static void releases_all_but_two(struct owner *me, struct str bytes)
{
    seen.released = stream_release(&me->s, str_from_offset(bytes, 2), &seen.parts);
}

/* Adopts what `seen` holds into a second loop, as another thread would. */
static struct owner *adopt_in(struct loop *second)
{
    struct owner *next = owner_new();

    assert_int_equal(stream_adopt(&next->s, second, &ops, &seen.parts), E_OK);
    assert_null(seen.parts.in.p);
    assert_null(seen.parts.out.p);
    assert_int_equal(seen.parts.fd, -1);
    return next;
}

static void a_released_stream_goes_on_elsewhere_with_all_its_bytes(void **state)
{
    static const bool is_kept_row[] = {false, true};

    for (size_t i = 0; i < ARRAY_LEN(is_kept_row); i++) {
        struct loop second;
        struct owner *next;

        assert_int_equal(loop_init(&second, 1000, NULL), E_OK);
        if (is_kept_row[i]) { /* the bytes lie in the stream's own buffer, offered by the task */
            o->on_bytes = pauses;
            o->most = 0;
            say("12unread");
            turn();
            stream_resume(&o->s);
            o->most = SIZE_MAX;
        } else {
            say("12unread");
        }
        forget();
        o->on_bytes = releases_all_but_two;
        assert_int_equal(stream_write(&o->s, (struct str){big, 1000}), E_OK);
        turn_to_close();
        assert_int_equal(seen.released, E_OK);
        assert_int_equal(seen.why, E_OK);
        assert_int_equal(seen.offers, 1);
        assert_nothing_heard(); /* the descriptor is open, the output waits */
        turn();
        seen.n_used = 0;
        next = adopt_in(&second);
        o = next;
        loop_turn(&second, -1);
        assert_bytes(used, "unread");
        hear_big(1000);
        say("more");
        loop_turn(&second, -1);
        assert_bytes(used, "unreadmore");
        stream_close(&next->s, E_OK);
        loop_turn(&second, 0);
        assert_int_equal(seen.closes, 2);
        assert_end_heard();
        loop_fini(&second);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

static void releases_nothing_unused(struct owner *me, struct str bytes)
{
    (void)bytes;
    seen.released = stream_release(&me->s, (struct str){0}, &seen.parts);
}

static void a_stream_without_bytes_can_be_released_and_adopted(void **state)
{
    struct owner *next;

    (void)state;
    o->on_bytes = releases_nothing_unused;
    say("x");
    turn_to_close();
    assert_int_equal(seen.released, E_OK);
    next = adopt_in(&l);
    o = next;
    turn();
    assert_null(next->s.in.p);
    say("y");
    turn();
    assert_bytes(used, "xy");
}

static void output_that_blocked_before_the_release_is_written_after_it(void **state)
{
    (void)state;
    block();
    o->on_bytes = releases_nothing_unused;
    say("x");
    turn_to_close();
    o = adopt_in(&l);
    hear_big(BIG);
    assert_int_equal(seen.drains, 1);
}

static void closes_before_it_releases(struct owner *me, struct str bytes)
{
    stream_close(&me->s, E_PROTO);
    releases_all_but_two(me, bytes);
}

static void a_closing_stream_is_not_released(void **state)
{
    (void)state;
    o->on_bytes = closes_before_it_releases;
    say("abcd");
    turn_to_close();
    assert_int_equal(seen.released, E_CLOSED);
    assert_int_equal(seen.why, E_PROTO);
    assert_end_heard();
}

static void fails_to_release(struct owner *me, struct str bytes)
{
    mem_fail_after(1);
    releases_all_but_two(me, bytes);
}

static void nothing_is_released_without_memory(void **state)
{
    (void)state;
    o->on_bytes = fails_to_release;
    say("abcd");
    turn();
    assert_int_equal(seen.released, E_NOMEM);
    o->on_bytes = NULL;
    say("ef");
    turn();
    assert_bytes(used, "abcdef");
    assert_int_equal(seen.closes, 0);
}

static void a_descriptor_that_epoll_refuses_is_closed(void **state)
{
    struct owner *other = owner_new();
    struct stream_parts parts = {0};

    (void)state;
    for (int adopts = 0; adopts < 2; adopts++) {
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); /* a file */

        assert_true(fd >= 0);
        assert_int_equal(buf_append(&parts.in, MEM_LOOP, STR("in")), E_OK);
        assert_int_equal(buf_append(&parts.out, MEM_LOOP, STR("out")), E_OK);
        parts.fd = fd;
        if (adopts)
            assert_int_equal(stream_adopt(&other->s, &l, &ops, &parts), E_IO);
        else
            assert_int_equal(stream_open(&other->s, &l, fd, &ops), E_IO);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        assert_false(stream_is_open(&other->s));
        stream_close(&other->s, E_OK); /* harmless */
        if (!adopts) {
            buf_free(&parts.in, MEM_LOOP);
            buf_free(&parts.out, MEM_LOOP);
        }
    }
    turn();
    assert_int_equal(seen.closes, 0);
    mem_free(MEM_TEST, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_used_and_an_idle_stream_keeps_no_buffer),
        TEST(an_unused_rest_is_offered_again_with_more_behind_it),
        TEST(output_does_not_offer_the_unused_rest_again),
        TEST(bytes_are_offered_until_none_are_used),
        TEST(a_stream_of_single_bytes_comes_whole),
        TEST(more_than_one_read_takes_is_read_to_its_end),
        TEST(the_end_is_seen_when_it_comes_with_the_last_bytes),
        TEST(a_pause_that_ends_in_the_turn_in_which_bytes_come_loses_nothing),
        TEST(a_paused_stream_reads_nothing_and_goes_on_where_it_was),
        TEST(pausing_and_resuming_at_once_changes_nothing),
        TEST(a_paused_stream_still_writes),
        TEST(output_leaves_at_the_end_of_the_turn_in_order),
        TEST(output_larger_than_the_sockets_buffer_waits_for_the_peer),
        TEST(on_drain_may_write_more),
        TEST(pieces_leave_at_once_and_the_rest_when_the_peer_takes_more),
        TEST(pieces_wait_for_output_before_them),
        TEST(no_memory_is_the_callers_or_the_streams_end),
        TEST(no_memory_for_more_of_a_rest_closes_the_stream),
        TEST(a_released_stream_goes_on_elsewhere_with_all_its_bytes),
        TEST(a_stream_without_bytes_can_be_released_and_adopted),
        TEST(output_that_blocked_before_the_release_is_written_after_it),
        TEST(nothing_is_released_without_memory),
        TEST(a_closing_stream_is_not_released),
        TEST(a_descriptor_that_epoll_refuses_is_closed),
    };

    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
