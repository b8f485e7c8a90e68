/* stream_fixture: a stream over a socket pair, its owner and its peer, for the tests of the stream. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/stream.h"

enum { BIG = 4 << 20, TURNS_MAX = 20 };

/* A stream's owner, freed by on_close as a connection is, so that ASan sees every late touch. */
struct owner {
    struct stream s;
    void (*on_bytes)(struct owner *o, struct str bytes); /* first thing in on_data */
    void (*on_drained)(struct owner *o);
    void (*on_closed)(struct owner *o);
    size_t least, most; /* on_data uses nothing of less than `least` bytes, and never more than `most` */
};

/* What happened; survives the owner. */
static struct {
    char offered[512], used[512]; /* bytes of the last offer, all bytes used */
    size_t n_offered, n_used;
    int offers, drains, connects, closes;
    bool was_connecting; /* when it closed */
    err why;
    struct stream_parts parts;
    err released;
} seen;

static struct loop l;
static struct owner *o;
static int peer; /* the other end of o's socket */
static char big[BIG];

static inline size_t on_data(struct stream *s, struct str bytes)
{
    struct owner *me = CONTAINER_OF(s, struct owner, s);
    size_t n = bytes.n < me->least ? 0 : bytes.n < me->most ? bytes.n : me->most;

    assert_true(bytes.n > 0);
    assert_false(s->is_paused);
    seen.offers++;
    seen.n_offered = bytes.n < sizeof seen.offered ? bytes.n : sizeof seen.offered;
    memcpy(seen.offered, bytes.p, seen.n_offered);
    if (me->on_bytes)
        me->on_bytes(me, bytes);
    for (size_t i = 0; i < n && seen.n_used < sizeof seen.used; i++)
        seen.used[seen.n_used++] = bytes.p[i];
    return n;
}

static inline void on_drain(struct stream *s)
{
    struct owner *me = CONTAINER_OF(s, struct owner, s);

    assert_int_equal(stream_pending(s), 0);
    seen.drains++;
    if (me->on_drained)
        me->on_drained(me);
}

static inline void on_connect(struct stream *s)
{
    assert_false(s->is_connecting);
    seen.connects++;
}

static inline void on_close(struct stream *s, err why)
{
    struct owner *me = CONTAINER_OF(s, struct owner, s);

    assert_false(stream_is_open(s));
    seen.closes++;
    seen.why = why;
    seen.was_connecting = s->is_connecting;
    if (me->on_closed)
        me->on_closed(me);
    if (me == o)
        o = NULL;
    mem_free(MEM_TEST, me);
}

static const struct stream_ops ops = {
    .on_data = on_data, .on_drain = on_drain, .on_connect = on_connect, .on_close = on_close, .is_edge_triggered = true};

static inline struct owner *owner_new(void)
{
    struct owner *me = mem_alloc_zero(MEM_TEST, sizeof *me);

    me->most = SIZE_MAX;
    return me;
}

static inline void forget(void)
{
    memset(&seen, 0, sizeof seen);
}

static inline void open_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static inline int set_up(void **state)
{
    int fds[2];

    (void)state;
    forget();
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 31 + i / 4096);
    if (loop_init(&l, 1000, NULL) != E_OK)
        return -1;
    open_pair(fds);
    peer = fds[1];
    o = owner_new();
    return stream_open(&o->s, &l, fds[0], &ops) == E_OK ? 0 : -1;
}

static inline void turn(void)
{
    loop_turn(&l, 0);
}

/* Turns until the stream has closed. */
static inline void turn_to_close(void)
{
    for (int i = 0; i < TURNS_MAX && !seen.closes; i++)
        turn();
    assert_int_equal(seen.closes, 1);
}

static inline int tear_down(void **state)
{
    (void)state;
    mem_fail_after(0);
    if (o) {
        stream_close(&o->s, E_OK);
        turn();
        turn();
    }
    if (peer >= 0)
        close(peer);
    loop_fini(&l);
    return seen.closes <= 2 && mem_used(MEM_TEST) == 0 && mem_used(MEM_LOOP) == 0 ? 0 : -1;
}

static inline void say(const char *text)
{
    assert_int_equal(write(peer, text, strlen(text)), strlen(text));
}

static inline void hang_up(void)
{
    close(peer);
    peer = -1;
}

#define assert_bytes(field, text) assert_true(str_equal((struct str){seen.field, seen.n_##field}, STR(text)))

/* What the peer can read now, up to `size`; 0 for nothing, -1 for the end. */
static inline int hear(char *to, size_t size)
{
    ssize_t n = read(peer, to, size);

    assert_true(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
    return n < 0 && errno == EAGAIN ? 0 : n > 0 ? (int)n : -1;
}

static inline void assert_heard(const char *text)
{
    char got[256];
    int n = hear(got, sizeof got);

    assert_int_equal(n, strlen(text));
    assert_memory_equal(got, text, n);
}

static inline void assert_nothing_heard(void)
{
    char byte;

    assert_int_equal(hear(&byte, 1), 0);
}

static inline void assert_end_heard(void)
{
    char byte;

    assert_int_equal(hear(&byte, 1), -1);
}

/* Reads and turns until `n` bytes of `big` have come. */
static inline void hear_big(size_t n)
{
    static char got[256 * 1024];
    size_t at = 0;

    while (at < n) {
        int heard = hear(got, sizeof got);

        assert_true(heard >= 0);
        assert_memory_equal(got, big + at, heard);
        at += (size_t)heard;
        turn();
    }
    assert_int_equal(at, n);
}

/* Fills the socket, so that the stream waits for its peer. */
static inline void block(void)
{
    assert_int_equal(stream_write(&o->s, (struct str){big, BIG}), E_OK);
    turn();
    assert_true(o->s.is_blocked);
    assert_true(stream_pending(&o->s) > 0);
}

static inline void pauses(struct owner *me, struct str bytes)
{
    (void)bytes;
    stream_pause(&me->s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
