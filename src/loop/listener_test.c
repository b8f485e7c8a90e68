#include "loop/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

enum { FDS_MAX = 256, NAME_BYTES = 64 };

static struct loop l;
static struct listener first, second;
static int accepted[FDS_MAX], connected[FDS_MAX];
static size_t n_accepted, n_connected;
static bool closes_at_once;

static void on_accept(struct listener *ln, int fd)
{
    assert_true(n_accepted < FDS_MAX);
    accepted[n_accepted++] = fd;
    if (closes_at_once)
        listener_close(ln);
}

static int set_up(void **state)
{
    (void)state;
    n_accepted = n_connected = 0;
    closes_at_once = false;
    first = second = (struct listener){.on_accept = on_accept};
    return loop_init(&l, 1000, NULL) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    listener_close(&first);
    listener_close(&second);
    for (size_t i = 0; i < n_accepted; i++)
        close(accepted[i]);
    for (size_t i = 0; i < n_connected; i++)
        close(connected[i]);
    loop_fini(&l);
    return 0;
}

static err open_at(struct listener *ln, const char *text, bool is_shared, struct errinfo *ei)
{
    struct sockaddr_storage address;
    socklen_t size;

    assert_int_equal(listener_parse(str_from(text), &address, &size, NULL), E_OK);
    return listener_open(ln, &l, &address, size, is_shared, ei);
}

static void open_first(bool is_shared)
{
    assert_int_equal(open_at(&first, "127.0.0.1:0", is_shared, NULL), E_OK);
    assert_int_equal(listener_start(&first, NULL), E_OK);
}

/* Connects to the first listener's address; false when it is refused. */
static bool dial(const char *name)
{
    struct sockaddr_storage address;
    socklen_t size;
    int fd;

    assert_int_equal(listener_parse(str_from(name), &address, &size, NULL), E_OK);
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, size) != 0) {
        assert_int_equal(errno, ECONNREFUSED);
        close(fd);
        return false;
    }
    assert_true(n_connected < FDS_MAX);
    connected[n_connected++] = fd;
    return true;
}

static void addresses_are_numeric_with_a_port(void **state)
{
    static const struct {
        struct str text;
        int family; /* 0: refused */
        const char *host;
        unsigned port;
        const char *reason;
    } rows[] = {
        {STR_INIT("127.0.0.1:1883"), AF_INET, "127.0.0.1", 1883, ""},
        {STR_INIT("0.0.0.0:0"), AF_INET, "0.0.0.0", 0, ""},
        {STR_INIT("localhost:65535"), AF_INET, "127.0.0.1", 65535, ""},
        {STR_INIT("[::1]:1883"), AF_INET6, "::1", 1883, ""},
        {STR_INIT("[::]:80"), AF_INET6, "::", 80, ""},
        {STR_INIT("[2001:db8::1:2]:80"), AF_INET6, "2001:db8::1:2", 80, ""},
        {STR_INIT("[::ffff:10.0.0.1]:80"), AF_INET6, "::ffff:10.0.0.1", 80, ""},
        {{0}, 0, "", 0, "no port"},
        {STR_INIT("127.0.0.1"), 0, "", 0, "no port"},
        {STR_INIT("1883"), 0, "", 0, "no port"},
        {STR_INIT("127.0.0.1:"), 0, "", 0, "is no port"},
        {STR_INIT("127.0.0.1:65536"), 0, "", 0, "is no port"},
        {STR_INIT("127.0.0.1:-1"), 0, "", 0, "is no port"},
        {STR_INIT("127.0.0.1: 80"), 0, "", 0, "is no port"},
        {STR_INIT("127.0.0.1:mqtt"), 0, "", 0, "is no port"},
        {STR_INIT("127.0.0.1:80\0"), 0, "", 0, "is no port"},
        {STR_INIT("[::1]"), 0, "", 0, "is no port"},
        {STR_INIT(":1883"), 0, "", 0, "no numeric address"},
        {STR_INIT("[]:1883"), 0, "", 0, "no numeric address"},
        {STR_INIT("[:1883"), 0, "", 0, "no numeric address"},
        {STR_INIT("::1"), 0, "", 0, "no numeric address"},
        /* Without brackets nobody can tell the last group from a port. */
        {STR_INIT("2001:db8::1:1883"), 0, "", 0, "no numeric address"},
        {STR_INIT("::1:1883"), 0, "", 0, "no numeric address"},
        {STR_INIT("[127.0.0.1]:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("[localhost]:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("[::1:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("::1]:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("256.0.0.1:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("127.1:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("example.org:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("127.0.0.1\0.example.org:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("localhost\0:80"), 0, "", 0, "no numeric address"},
        {STR_INIT("111111111111111111111111111111111111111111111111111111111111111111111111:80"), 0, "", 0, "no numeric"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sockaddr_storage address, untouched;
        socklen_t size = 4711;
        struct errinfo ei = {0};
        char host[INET6_ADDRSTRLEN] = "";
        err e;

        memset(&address, 0xa5, sizeof address);
        untouched = address;
        e = listener_parse(rows[i].text, &address, &size, &ei);
        if (rows[i].family == 0) {
            assert_int_equal(e, E_INVAL);
            assert_non_null(strstr(ei.text, rows[i].reason));
            assert_memory_equal(&address, &untouched, sizeof address);
            assert_int_equal(size, 4711);
            assert_int_equal(listener_parse(rows[i].text, &address, &size, NULL), E_INVAL);
            continue;
        }
        assert_int_equal(e, E_OK);
        assert_int_equal(address.ss_family, rows[i].family);
        if (rows[i].family == AF_INET) {
            const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;

            assert_int_equal(size, sizeof *v4);
            assert_int_equal(ntohs(v4->sin_port), rows[i].port);
            assert_non_null(inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host));
        } else {
            const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

            assert_int_equal(size, sizeof *v6);
            assert_int_equal(ntohs(v6->sin6_port), rows[i].port);
            assert_non_null(inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host));
        }
        assert_string_equal(host, rows[i].host);
    }
}

static void port_0_gets_a_real_port_in_the_name(void **state)
{
    static const char *const texts[] = {"127.0.0.1:0", "[::1]:0"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char name[NAME_BYTES], cut[6];
        size_t n = strlen(texts[i]) - 1;

        if (open_at(&first, texts[i], false, NULL) == E_IO && i > 0)
            continue; /* this machine has no IPv6 */
        listener_name(&first, name, sizeof name);
        assert_memory_equal(name, texts[i], n);
        assert_string_not_equal(name + n, "0");
        listener_name(&first, cut, sizeof cut);
        assert_int_equal(strlen(cut), 5);
        assert_int_equal(listener_start(&first, NULL), E_OK);
        assert_true(dial(name));
        loop_turn(&l, -1);
        assert_int_equal(n_accepted, i + 1);
        listener_close(&first);
        listener_name(&first, name, sizeof name);
        assert_string_equal(name, "closed");
    }
}

static void an_accepted_connection_is_ready_for_a_stream(void **state)
{
    char name[NAME_BYTES];
    int no_delay = 0;
    socklen_t size = sizeof no_delay;

    (void)state;
    open_first(false);
    listener_name(&first, name, sizeof name);
    assert_true(dial(name));
    loop_turn(&l, -1);
    assert_int_equal(n_accepted, 1);
    assert_int_equal(first.accepted, 1);
    assert_true(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fcntl(accepted[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(getsockopt(accepted[0], IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
    assert_int_not_equal(no_delay, 0);
    assert_int_equal(write(connected[0], "x", 1), 1);
}

static void a_storm_of_connections_is_spread_over_turns(void **state)
{
    char name[NAME_BYTES];
    size_t before = 0;

    (void)state;
    open_first(false);
    listener_name(&first, name, sizeof name);
    for (int i = 0; i < 150; i++)
        assert_true(dial(name));
    while (n_accepted < 150) {
        loop_turn(&l, -1);
        assert_true(n_accepted - before <= 64);
        before = n_accepted;
    }
}

static void shared_listeners_get_connections_both(void **state)
{
    char name[NAME_BYTES];

    (void)state;
    assert_int_equal(open_at(&first, "127.0.0.1:0", true, NULL), E_OK);
    listener_name(&first, name, sizeof name);
    assert_int_equal(open_at(&second, name, true, NULL), E_OK);
    assert_int_equal(listener_start(&first, NULL), E_OK);
    assert_int_equal(listener_start(&second, NULL), E_OK);
    for (int i = 0; i < 128; i++)
        assert_true(dial(name));
    while (n_accepted < 128)
        loop_turn(&l, -1);
    assert_int_equal(first.accepted + second.accepted, 128);
    assert_true(first.accepted > 0 && second.accepted > 0); /* by hash of the ports: 2^-127 that it is otherwise */
}

static void an_address_in_use_is_busy(void **state)
{
    char name[NAME_BYTES];
    struct errinfo ei = {0};

    (void)state;
    for (int how = 0; how < 4; how++) { /* that both would share it makes no difference: another process might */
        open_first(how & 1);
        listener_name(&first, name, sizeof name);
        assert_int_equal(open_at(&second, name, how & 2, &ei), E_BUSY);
        assert_string_equal(ei.text, strerror(EADDRINUSE));
        listener_close(&second); /* harmless */
        listener_close(&first);
    }
}

static void of_two_that_bound_the_address_one_can_start(void **state)
{
    char name[NAME_BYTES];
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(open_at(&first, "127.0.0.1:0", false, NULL), E_OK);
    listener_name(&first, name, sizeof name);
    assert_int_equal(open_at(&second, name, false, NULL), E_OK);
    assert_int_equal(listener_start(&first, NULL), E_OK);
    assert_int_equal(listener_start(&second, &ei), E_BUSY);
    assert_string_equal(ei.text, strerror(EADDRINUSE));
}

static void a_foreign_address_is_an_error(void **state)
{
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(open_at(&first, "192.0.2.1:0", false, &ei), E_IO);
    assert_string_equal(ei.text, strerror(EADDRNOTAVAIL));
    assert_int_equal(first.io.fd, -1);
}

static void a_closed_listener_refuses_and_keeps_its_connections(void **state)
{
    char name[NAME_BYTES];
    char byte;

    (void)state;
    listener_close(&first); /* never opened */
    open_first(false);
    listener_name(&first, name, sizeof name);
    assert_true(dial(name));
    loop_turn(&l, -1);
    listener_close(&first);
    listener_close(&first);
    assert_false(dial(name));
    assert_int_equal(write(accepted[0], "x", 1), 1);
    assert_int_equal(read(connected[0], &byte, 1), 1);
}

static void closing_inside_on_accept_is_safe(void **state)
{
    char name[NAME_BYTES];

    (void)state;
    closes_at_once = true;
    open_first(false);
    listener_name(&first, name, sizeof name);
    assert_true(dial(name));
    assert_true(dial(name));
    loop_turn(&l, -1);
    assert_int_equal(n_accepted, 1);
    assert_false(dial(name));
}

static void without_a_free_descriptor_it_looks_away_for_a_while(void **state)
{
    struct rlimit before, limit;
    char name[NAME_BYTES];
    int lowest;

    (void)state;
    open_first(false);
    listener_name(&first, name, sizeof name);
    assert_true(dial(name));
    wheel_init(&l.wheel, loop_clock_ms() - 60000); /* as if the wait had been long */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    lowest = dup(STDERR_FILENO);
    close(lowest);
    limit = (struct rlimit){(rlim_t)lowest, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    loop_turn(&l, -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(n_accepted, 0);
    assert_int_equal(first.accept_failures, 1);
    assert_true(wheel_is_set(&first.retry));
    assert_int_equal(first.io.events, 0);
    wheel_advance(&l.wheel, first.retry.due_ms);
    loop_turn(&l, 0);
    assert_int_equal(n_accepted, 1);
    assert_int_equal(first.accept_failures, 1);
    loop_rewatch(&l, &first.io, 0);
    wheel_start(&l.wheel, &first.retry, 100);
    listener_close(&first); /* while it looks away */
    assert_false(wheel_is_set(&first.retry));
    loop_turn(&l, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_are_numeric_with_a_port),
        TEST(port_0_gets_a_real_port_in_the_name),
        TEST(an_accepted_connection_is_ready_for_a_stream),
        TEST(a_storm_of_connections_is_spread_over_turns),
        TEST(shared_listeners_get_connections_both),
        TEST(an_address_in_use_is_busy),
        TEST(of_two_that_bound_the_address_one_can_start),
        TEST(a_foreign_address_is_an_error),
        TEST(a_closed_listener_refuses_and_keeps_its_connections),
        TEST(closing_inside_on_accept_is_safe),
        TEST(without_a_free_descriptor_it_looks_away_for_a_while),
    };

    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
