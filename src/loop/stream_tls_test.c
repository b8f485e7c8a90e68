/* Streams with TLS, two ends in one loop, or one end and a peer that does not keep to the rules. */
#include "loop/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/tls.h"
#include "loop/tls_fixture.h"
#include "loop/tls_tickets.h"

enum { TURNS = 60, BIG = 1 << 20, HANDSHAKE_MS = 30, FAR_MS = 1000000 };

/* An end's owner, freed by on_close. */
struct end {
    struct stream s;
    struct seen *seen;
    bool releases, ignores, pauses;
};

/* What happened at an end; survives it. */
struct seen {
    char *bytes; /* BIG */
    size_t n;
    int connects, drains, closes;
    bool was_reset;
    err why;
    struct stream_parts parts;
};

static struct loop l, second;
static struct tls *server_tls, *hasty_tls, *client_tls; /* hasty: a server with little time for a handshake */
static struct tls_stats stats, client_stats;
static struct seen at_server, at_client;
static struct end *server, *client;
static struct identity root, server_id;
static char big[BIG];

static size_t on_data(struct stream *s, struct str bytes)
{
    struct end *e = CONTAINER_OF(s, struct end, s);

    assert_true(s->tls->is_ready);
    if (e->pauses)
        stream_pause(s);
    if (e->ignores || e->pauses)
        return 0;
    if (e->releases) {
        assert_int_equal(stream_release(s, bytes, &e->seen->parts), E_OK);
        return bytes.n;
    }
    assert_true(e->seen->n + bytes.n <= BIG);
    memcpy(e->seen->bytes + e->seen->n, bytes.p, bytes.n);
    e->seen->n += bytes.n;
    return bytes.n;
}

static void on_drain(struct stream *s)
{
    struct end *e = CONTAINER_OF(s, struct end, s);

    assert_int_equal(stream_pending(s), 0);
    e->seen->drains++;
}

static void on_connect(struct stream *s)
{
    CONTAINER_OF(s, struct end, s)->seen->connects++;
}

static void on_close(struct stream *s, err why)
{
    struct end *e = CONTAINER_OF(s, struct end, s);

    assert_null(s->tls);
    e->seen->closes++;
    e->seen->why = why;
    e->seen->was_reset = s->is_reset;
    if (e == server)
        server = NULL;
    if (e == client)
        client = NULL;
    mem_free(MEM_TEST, e);
}

static const struct stream_ops ops = {.on_data = on_data, .on_drain = on_drain, .on_connect = on_connect, .on_close = on_close};

static struct end *end_new(struct seen *seen)
{
    struct end *e = mem_alloc_zero(MEM_TEST, sizeof *e);

    e->seen = seen;
    return e;
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        loop_turn(&l, 0);
}

/* The server's end over a socket pair; returns the other descriptor. */
static int open_server(struct tls *tls)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    server = end_new(&at_server);
    assert_int_equal(stream_open_tls(&server->s, &l, fds[0], &ops, tls), E_OK);
    return fds[1];
}

/* Both ends, over a listening socket in memory. */
static void open_both(const char *name)
{
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } address = {.family = AF_UNIX};
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, path) +
                                 (size_t)snprintf(address.path + 1, sizeof address.path - 1, "millrace-tls-%d", getpid()) + 1);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

    assert_int_equal(bind(listening, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    client = end_new(&at_client);
    assert_int_equal(stream_connect_tls(&client->s, &l, (struct sockaddr *)&address, size, &ops, client_tls,
                                        &(struct tls_server){.name = name, .alpn = "mqtt"}),
                     E_OK);
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fd >= 0);
    close(listening);
    server = end_new(&at_server);
    assert_int_equal(stream_open_tls(&server->s, &l, fd, &ops, server_tls), E_OK);
}

static void forget(struct seen *seen)
{
    char *bytes = seen->bytes;

    *seen = (struct seen){.bytes = bytes};
}

static int set_up(void **state)
{
    (void)state;
    forget(&at_server);
    forget(&at_client);
    return loop_init(&l, 1000, NULL) == E_OK && loop_init(&second, 1000, NULL) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (server)
        stream_close(&server->s, E_OK);
    if (client)
        stream_close(&client->s, E_OK);
    turns(2);
    loop_turn(&second, 0);
    loop_turn(&second, 0);
    loop_fini(&l);
    loop_fini(&second);
    return server || client || atomic_load(&stats.open) || atomic_load(&client_stats.open) ? -1 : 0;
}

static void both_ends_see_plain_bytes_and_an_idle_one_keeps_no_buffer(void **state)
{
    (void)state;
    open_both("server.example");
    turns(TURNS);
    assert_int_equal(at_server.connects, 1);
    assert_int_equal(at_client.connects, 1);
    assert_true(str_equal(tls_conn_alpn(server->s.tls), STR("mqtt")));
    assert_int_equal(stream_write(&client->s, STR("up")), E_OK);
    assert_int_equal(stream_write(&server->s, STR("down")), E_OK);
    assert_int_equal(stream_pending(&server->s), 4);
    turns(TURNS);
    assert_int_equal(at_server.n, 2);
    assert_int_equal(at_client.n, 4);
    assert_memory_equal(at_client.bytes, "down", 4);
    assert_int_equal(at_server.drains, 1);
    assert_int_equal(at_client.drains, 1);
    assert_null(server->s.out.p);
    assert_null(server->s.in.p);
    assert_null(server->s.tls->out.p);
    assert_false(wheel_is_set(&server->s.tls->deadline));
}

static void output_may_be_written_before_the_handshake(void **state)
{
    const struct str pieces[] = {STR("in "), STR("pieces")};

    (void)state;
    open_both("server.example");
    assert_int_equal(stream_write(&server->s, STR("early")), E_OK);
    turns(TURNS);
    assert_int_equal(at_client.n, 5);
    assert_int_equal(stream_send(&client->s, pieces, 2), 9);
    turns(TURNS);
    assert_int_equal(at_server.n, 9);
    assert_memory_equal(at_server.bytes, "in pieces", 9);
}

static void large_output_comes_whole_and_in_order(void **state)
{
    (void)state;
    open_both("server.example");
    assert_int_equal(stream_write(&server->s, (struct str){big, BIG}), E_OK);
    for (int i = 0; i < 1000 && at_client.n < BIG; i++)
        turns(1);
    assert_int_equal(at_client.n, BIG);
    assert_memory_equal(at_client.bytes, big, BIG);
    turns(2);
    assert_int_equal(at_server.drains, 1);
}

static void a_paused_end_is_offered_later_what_was_opened(void **state)
{
    (void)state;
    open_both("server.example");
    turns(TURNS);
    server->ignores = true;
    assert_int_equal(stream_write(&client->s, STR("wait")), E_OK);
    turns(TURNS);
    assert_int_equal(at_server.n, 0);
    stream_pause(&server->s);
    turns(2);
    server->ignores = false;
    stream_resume(&server->s);
    turns(2);
    assert_int_equal(at_server.n, 4);
}

/* A client publishes, says DISCONNECT and goes: all of it is there in one piece when the server reads. */
static void say_and_end(const char *text)
{
    open_both("server.example");
    turns(TURNS);
    stream_pause(&server->s);
    assert_int_equal(stream_write(&client->s, str_from(text)), E_OK);
    turns(TURNS);
    stream_shut_output(&client->s);
}

static void what_came_before_the_end_is_offered_when_a_paused_end_resumes(void **state)
{
    (void)state;
    say_and_end("last words");
    server->pauses = true;
    stream_resume(&server->s);
    turns(TURNS);
    assert_int_equal(at_server.n, 0);
    assert_int_equal(at_server.closes, 0);
    server->pauses = false;
    stream_resume(&server->s);
    turns(TURNS);
    assert_int_equal(at_server.n, 10);
    assert_int_equal(at_server.why, E_CLOSED);
    assert_false(at_server.was_reset);
}

/* As a hand-over comes. */
static void on_arrival(struct mail *m)
{
    struct end *next = end_new(&at_server);

    (void)m;
    assert_int_equal(stream_adopt(&next->s, &second, &ops, &at_server.parts), E_OK);
    server = next;
    at_server.closes = 0;
}

static void an_end_that_came_before_the_move_is_found_after_it(void **state)
{
    struct mail arrival = {.on_mail = on_arrival};

    (void)state;
    say_and_end("hello");
    server->releases = true;
    stream_resume(&server->s);
    turns(TURNS);
    assert_int_equal(at_server.closes, 1);
    mailbox_post(&second.mailbox, &arrival);
    for (int i = 0; i < 4; i++)
        loop_turn(&second, 0);
    assert_int_equal(at_server.n, 5);
    assert_int_equal(at_server.closes, 1);
    assert_false(at_server.was_reset);
}

static void an_end_is_announced(void **state)
{
    (void)state;
    open_both("server.example");
    turns(TURNS);
    assert_int_equal(stream_write(&server->s, STR("bye")), E_OK);
    stream_close_after_output(&server->s);
    turns(TURNS);
    assert_int_equal(at_client.n, 3);
    assert_int_equal(at_client.closes, 1);
    assert_int_equal(at_client.why, E_CLOSED);
    assert_false(at_client.was_reset);
}

static void a_shut_output_leaves_the_other_way_open(void **state)
{
    (void)state;
    open_both("server.example");
    turns(TURNS);
    stream_shut_output(&server->s);
    turns(TURNS);
    assert_int_equal(at_client.why, E_CLOSED); /* what its owner makes of it */
    assert_false(at_client.was_reset);
}

static void an_end_without_a_word_is_not_taken_for_one_in_order(void **state)
{
    (void)state;
    open_both("server.example");
    turns(TURNS);
    shutdown(server->s.io.fd, SHUT_WR);
    turns(TURNS);
    assert_int_equal(at_client.why, E_CLOSED);
    assert_true(at_client.was_reset);
}

/* The first bytes are there before the handshake is done at the other end, as a client that does not wait sends them. */
static void a_connection_moves_to_another_loop_with_all_its_bytes(void **state)
{
    struct end *next = end_new(&at_server);

    (void)state;
    open_both("server.example");
    server->releases = true;
    assert_int_equal(stream_write(&client->s, STR("hello")), E_OK);
    assert_int_equal(stream_write(&server->s, STR("before")), E_OK);
    turns(TURNS);
    assert_int_equal(at_server.closes, 1);
    assert_int_equal(at_server.why, E_OK);
    assert_non_null(at_server.parts.tls);
    assert_int_equal(stream_write(&client->s, STR(", more")), E_OK);
    turns(2);
    assert_int_equal(stream_adopt(&next->s, &second, &ops, &at_server.parts), E_OK);
    assert_null(at_server.parts.tls);
    server = next;
    for (int i = 0; i < 4; i++)
        loop_turn(&second, 0);
    assert_int_equal(at_server.n, 11);
    assert_memory_equal(at_server.bytes, "hello, more", 11);
    assert_int_equal(stream_write(&next->s, STR(" and after")), E_OK);
    loop_turn(&second, 0);
    turns(TURNS);
    assert_int_equal(at_client.n, 16);
    assert_memory_equal(at_client.bytes, "before and after", 16);
}

static void released_parts_can_be_dropped(void **state)
{
    (void)state;
    open_both("server.example");
    server->releases = true;
    assert_int_equal(stream_write(&client->s, STR("hello")), E_OK);
    turns(TURNS);
    assert_int_equal(atomic_load(&stats.open), 1);
    stream_drop(&at_server.parts);
    assert_int_equal(atomic_load(&stats.open), 0);
    stream_drop(&at_server.parts);
}

static void wait_for_close(const struct seen *seen)
{
    for (int i = 0; i < 1000 && !seen->closes; i++)
        loop_turn(&l, HANDSHAKE_MS);
    assert_int_equal(seen->closes, 1);
}

static void a_handshake_has_a_time_limit_however_the_peer_spends_it(void **state)
{
    static const char *const rows[] = {"", "\x16\x03\x01"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t before = atomic_load(&stats.failed[TLS_FAILED_TIMEOUT]);
        int peer = open_server(hasty_tls);

        forget(&at_server);
        assert_int_equal(write(peer, rows[i], strlen(rows[i])), strlen(rows[i]));
        wait_for_close(&at_server);
        assert_int_equal(at_server.why, E_TIMEOUT);
        assert_int_equal(at_server.connects, 0);
        assert_int_equal(atomic_load(&stats.failed[TLS_FAILED_TIMEOUT]), before + 1);
        assert_int_equal(atomic_load(&stats.shaking), 0);
        close(peer);
    }
}

static void a_peer_that_speaks_something_else_hears_an_alert_at_most(void **state)
{
    int peer = open_server(server_tls);
    char got[64];
    ssize_t n;

    (void)state;
    assert_int_equal(write(peer, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    wait_for_close(&at_server);
    assert_int_equal(at_server.why, E_PROTO);
    n = read(peer, got, sizeof got);
    assert_true(n == 0 || n == 7);
    close(peer);
}

static void a_peer_that_goes_away_during_the_handshake_is_counted(void **state)
{
    uint64_t before = atomic_load(&stats.failed[TLS_FAILED_CLOSED]);
    int peer = open_server(server_tls);

    (void)state;
    close(peer);
    wait_for_close(&at_server);
    assert_int_equal(at_server.why, E_CLOSED);
    assert_int_equal(atomic_load(&stats.failed[TLS_FAILED_CLOSED]), before + 1);
}

static void a_client_does_not_talk_to_a_server_of_another_name(void **state)
{
    (void)state;
    open_both("other.example");
    assert_int_equal(stream_write(&client->s, STR("secret")), E_OK);
    turns(TURNS);
    assert_int_equal(at_client.why, E_PROTO);
    assert_int_equal(at_client.connects, 0);
    assert_int_equal(at_server.n, 0);
    assert_true(atomic_load(&client_stats.failed[TLS_FAILED_UNTRUSTED]) > 0);
}

/* Each step of a handshake may take a millisecond; connected clients must not wait for all of them. */
static void a_turn_does_a_few_handshakes_only(void **state)
{
    enum { MANY = 3 * LOOP_HANDSHAKES_PER_TURN };
    int peers[MANY];
    unsigned shaken = 0;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        peers[i] = open_server(server_tls);
        assert_int_equal(write(peers[i], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    }
    server = NULL;
    at_server.closes = 0;
    for (unsigned i = 1; i <= 3; i++) {
        loop_turn(&l, 0);
        shaken = (unsigned)at_server.closes;
        assert_int_equal(shaken, i * LOOP_HANDSHAKES_PER_TURN);
    }
    for (size_t i = 0; i < MANY; i++)
        close(peers[i]);
}

static int open_all(void **state)
{
    struct errinfo ei = {0};
    struct tls_tickets *tickets = tls_tickets_new();
    const char *cert, *key, *ca;

    (void)state;
    tls_fixture_open();
    root = identity_ca("root", NULL);
    server_id = identity_leaf("server", &root, "DNS:server.example");
    identity_write("server", &server_id, NULL);
    identity_write("root", &root, NULL);
    cert = tls_fixture_path("server.pem");
    key = tls_fixture_path("server.key");
    ca = tls_fixture_path("root.pem");
    {
        struct tls_options options = {
            .cert_files = &cert,
            .key_files = &key,
            .n_certs = 1,
            .tickets = tickets,
            .alpn = (const char *const[]){"mqtt", NULL},
            .handshake_timeout_ms = FAR_MS,
            .stats = &stats,
        };
        struct tls_options client_options = {
            .ca_files = &ca, .n_cas = 1, .handshake_timeout_ms = FAR_MS, .stats = &client_stats};

        if (tls_new_server(&options, &server_tls, &ei) != E_OK || tls_new_client(&client_options, &client_tls, &ei) != E_OK)
            fail_msg("%s", ei.text);
        options.handshake_timeout_ms = HANDSHAKE_MS;
        assert_int_equal(tls_new_server(&options, &hasty_tls, NULL), E_OK);
    }
    tls_tickets_unref(tickets);
    at_server.bytes = mem_alloc(MEM_TEST, BIG);
    at_client.bytes = mem_alloc(MEM_TEST, BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 31 + i / 4096);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    tls_unref(server_tls);
    tls_unref(hasty_tls);
    tls_unref(client_tls);
    identity_free(&root);
    identity_free(&server_id);
    mem_free(MEM_TEST, at_server.bytes);
    mem_free(MEM_TEST, at_client.bytes);
    tls_fixture_close();
    return mem_used(MEM_LOOP) == 0 && mem_used(MEM_TEST) == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_ends_see_plain_bytes_and_an_idle_one_keeps_no_buffer),
        TEST(output_may_be_written_before_the_handshake),
        TEST(large_output_comes_whole_and_in_order),
        TEST(a_paused_end_is_offered_later_what_was_opened),
        TEST(what_came_before_the_end_is_offered_when_a_paused_end_resumes),
        TEST(an_end_that_came_before_the_move_is_found_after_it),
        TEST(an_end_is_announced),
        TEST(a_shut_output_leaves_the_other_way_open),
        TEST(an_end_without_a_word_is_not_taken_for_one_in_order),
        TEST(a_connection_moves_to_another_loop_with_all_its_bytes),
        TEST(released_parts_can_be_dropped),
        TEST(a_handshake_has_a_time_limit_however_the_peer_spends_it),
        TEST(a_peer_that_speaks_something_else_hears_an_alert_at_most),
        TEST(a_peer_that_goes_away_during_the_handshake_is_counted),
        TEST(a_client_does_not_talk_to_a_server_of_another_name),
        TEST(a_turn_does_a_few_handshakes_only),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
