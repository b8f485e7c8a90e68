#include <netinet/in.h>
#include <sys/un.h>

#include "loop/stream_fixture.h"

/* A listening socket on loopback; with `is_open` false its port is free again and nobody answers there. */
static int listen_on_loopback(struct sockaddr_in *out, bool is_open)
{
    socklen_t size = sizeof *out;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)out, sizeof *out), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)out, &size), 0);
    if (is_open)
        assert_int_equal(listen(fd, 1), 0);
    else
        close(fd);
    return fd;
}

static struct owner *connect_to(const struct sockaddr_in *address, err want)
{
    struct owner *me = owner_new();

    assert_int_equal(stream_connect(&me->s, &l, (const struct sockaddr *)address, sizeof *address, &ops), want);
    return me;
}

static void output_written_before_the_connection_is_there_leaves_with_it(void **state)
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address, true), accepted;
    struct owner *me = connect_to(&address, E_OK);
    char got[16];

    (void)state;
    assert_true(me->s.is_connecting);
    assert_int_equal(stream_write(&me->s, STR("first")), E_OK);
    accepted = accept(listener, NULL, NULL);
    for (int i = 0; i < TURNS_MAX && !seen.connects; i++)
        loop_turn(&l, -1);
    assert_int_equal(seen.connects, 1);
    assert_int_equal(read(accepted, got, sizeof got), 5);
    assert_memory_equal(got, "first", 5);
    assert_int_equal(write(accepted, "answer", 6), 6);
    while (!seen.n_used)
        loop_turn(&l, -1);
    assert_bytes(used, "answer");
    close(accepted);
    close(listener);
    while (!seen.closes)
        loop_turn(&l, -1);
    assert_int_equal(seen.why, E_CLOSED);
    assert_false(seen.was_connecting);
    assert_int_equal(seen.connects, 1);
}

static void nobody_there_is_told_by_on_close(void **state)
{
    struct sockaddr_in address;

    (void)state;
    (void)listen_on_loopback(&address, false);
    assert_int_equal(stream_write(&connect_to(&address, E_OK)->s, STR("lost")), E_OK);
    while (!seen.closes)
        loop_turn(&l, -1);
    assert_int_equal(seen.why, E_IO);
    assert_true(seen.was_connecting);
    assert_int_equal(seen.connects, 0);
}

static void a_stream_closed_while_it_connects_never_connects(void **state)
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address, true);
    struct owner *me = connect_to(&address, E_OK);

    (void)state;
    stream_close(&me->s, E_TIMEOUT);
    turn_to_close();
    assert_int_equal(seen.why, E_TIMEOUT);
    assert_int_equal(seen.connects, 0);
    close(listener);
}

static void what_the_system_refuses_at_once_is_told_at_once(void **state)
{
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
    struct owner *me = owner_new();

    (void)state;
    assert_int_equal(stream_connect(&me->s, &l, (struct sockaddr *)&nowhere, sizeof nowhere, &ops), E_IO);
    assert_false(stream_is_open(&me->s));
    turn();
    assert_int_equal(seen.closes, 0);
    mem_free(MEM_TEST, me);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(output_written_before_the_connection_is_there_leaves_with_it),
        TEST(nobody_there_is_told_by_on_close),
        TEST(a_stream_closed_while_it_connects_never_connects),
        TEST(what_the_system_refuses_at_once_is_told_at_once),
    };

    return cmocka_run_group_tests_name("stream_connect", tests, NULL, NULL);
}
