#include "admin/admin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/listener.h"
#include "obs/exposition_test.h"
#include "obs/metrics.h"
#include "obs/process_metrics.h"

enum { TEXT_BYTES = 1 << 18, LINE_BYTES = 64 };

static struct {
    struct loop loop;
    struct admin *admin;
    char name[LINE_BYTES];
    enum admin_readiness readiness;
    char text[TEXT_BYTES];
} t;

static enum admin_readiness readiness(void *context)
{
    assert_ptr_equal(context, &t);
    return t.readiness;
}

static int set_up(void **state)
{
    const struct admin_probes probes = {.readiness = readiness, .context = &t};

    (void)state;
    t.readiness = ADMIN_READY;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(admin_open(&t.loop, STR("127.0.0.1:0"), &probes, &t.admin, NULL), E_OK);
    admin_name(t.admin, t.name, sizeof t.name);
    return 0;
}

static int tear_down(void **state)
{
    int64_t before = mem_used(MEM_HTTP);

    (void)state;
    admin_close(t.admin);
    loop_turn(&t.loop, 0);
    assert_true(mem_used(MEM_HTTP) < before);
    loop_fini(&t.loop);
    return 0;
}

static int connect_client(void)
{
    struct sockaddr_storage address;
    socklen_t size;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(listener_parse(str_from(t.name), &address, &size, NULL), E_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

/* Sends a request that ends the connection and turns the loop until the server has closed it. `piece` bytes at a time. */
static const char *ask(const char *request, size_t piece)
{
    int fd = connect_client();
    size_t sent = 0, total = strlen(request), n = 0;
    ssize_t got = -1;

    while (got != 0) {
        if (sent < total) {
            ssize_t k = send(fd, request + sent, piece < total - sent ? piece : total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

            sent += k > 0 ? (size_t)k : 0;
        }
        loop_turn(&t.loop, 1);
        got = recv(fd, t.text + n, sizeof t.text - n - 1, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
    }
    t.text[n] = '\0';
    close(fd);
    return t.text;
}

static const char *get(const char *path)
{
    char request[256];

    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, t.name);
    return ask(request, sizeof request);
}

static const char *body_of(const char *response)
{
    const char *at = strstr(response, "\r\n\r\n");

    assert_non_null(at);
    return at + 4;
}

static void livez_is_ok_whatever_the_readiness(void **state)
{
    (void)state;
    for (int i = 0; i < ADMIN_READINESSES; i++) {
        t.readiness = (enum admin_readiness)i;
        assert_true(str_starts_with(str_from(get("/livez")), STR("HTTP/1.1 200 OK\r\n")));
        assert_string_equal(body_of(t.text), "ok\n");
    }
}

static void readyz_tells_the_state(void **state)
{
    static const struct {
        enum admin_readiness readiness;
        const char *status, *body;
    } rows[] = {
        {ADMIN_STARTING, "HTTP/1.1 503 Service Unavailable\r\n", "starting\n"},
        {ADMIN_READY, "HTTP/1.1 200 OK\r\n", "ok\n"},
        {ADMIN_DEGRADED_KAFKA, "HTTP/1.1 200 OK\r\n", "degraded: kafka\n"},
        {ADMIN_DRAINING, "HTTP/1.1 503 Service Unavailable\r\n", "draining\n"},
    };

    (void)state;
    assert_int_equal(ARRAY_LEN(rows), ADMIN_READINESSES);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        t.readiness = rows[i].readiness;
        assert_true(str_starts_with(str_from(get("/readyz")), str_from(rows[i].status)));
        assert_string_equal(body_of(t.text), rows[i].body);
    }
}

static void metrics_can_be_read_by_prometheus(void **state)
{
    static struct exposition x;

    (void)state;
    get("/livez");
    get("/no");
    get("/metrics");
    assert_true(str_starts_with(str_from(t.text), STR("HTTP/1.1 200 OK\r\n")));
    assert_non_null(strstr(t.text, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    if (!exposition_read(&x, str_from(body_of(t.text))))
        fail_msg("%s", x.problem);
    assert_true(exposition_value(&x, "millrace_http_responses_total{server=\"admin\",class=\"2xx\"}") >= 1);
    assert_true(exposition_value(&x, "millrace_http_responses_total{server=\"admin\",class=\"4xx\"}") >= 1);
    assert_true(exposition_value(&x, "millrace_http_requests_in_flight{server=\"admin\"}") == 1);
    assert_true(exposition_value(&x, "millrace_loop_turns_total{loop=\"test\"}") > 0);
}

static void head_works_on_every_path(void **state)
{
    static const char *const paths[] = {"/livez", "/readyz", "/metrics"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char request[256];

        snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", paths[i]);
        ask(request, 1);
        assert_true(str_starts_with(str_from(t.text), STR("HTTP/1.1 200 OK\r\n")));
        assert_string_equal(body_of(t.text), "");
        assert_null(strstr(t.text, "Content-Length: 0\r\n"));
    }
}

static void other_methods_and_paths_are_refused(void **state)
{
    (void)state;
    assert_true(str_starts_with(str_from(get("/")), STR("HTTP/1.1 404 ")));
    ask("POST /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", 3);
    assert_true(str_starts_with(str_from(t.text), STR("HTTP/1.1 405 ")));
    assert_non_null(strstr(t.text, "\r\nAllow: GET, HEAD\r\n"));
}

/* As curl asks: several headers, in one piece, on a connection that stays; then a second time. */
static void request_of_an_ordinary_client_keeps_the_connection(void **state)
{
    char request[256];
    int fd = connect_client();

    (void)state;
    snprintf(request, sizeof request, "GET /livez HTTP/1.1\r\nHost: %s\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
             t.name);
    for (int round = 0; round < 2; round++) {
        size_t n = 0;

        assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
        while (n < 3 || strcmp(t.text + n - 3, "ok\n") != 0) {
            ssize_t got;

            loop_turn(&t.loop, 1);
            got = recv(fd, t.text + n, sizeof t.text - n - 1, MSG_DONTWAIT);
            assert_int_not_equal(got, 0);
            n += got > 0 ? (size_t)got : 0;
            t.text[n] = '\0';
        }
        assert_null(strstr(t.text, "Connection:"));
    }
    close(fd);
}

static void refusal_reaches_a_peer_that_is_still_sending(void **state)
{
    size_t n = 200000;
    char *request = malloc(n + 1);
    int head = snprintf(request, n, "POST /livez HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");

    (void)state;
    memset(request + head, 'x', n - (size_t)head);
    request[n] = '\0';
    assert_true(str_starts_with(str_from(ask(request, n)), STR("HTTP/1.1 413 Content Too Large\r\n"))); /* no reset */
    free(request);
}

static void address_that_cannot_be_used_is_told(void **state)
{
    const struct admin_probes probes = {.readiness = readiness, .context = &t};
    struct admin *other = NULL;
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(admin_open(&t.loop, STR("nowhere"), &probes, &other, &ei), E_INVAL);
    assert_int_equal(admin_open(&t.loop, str_from(t.name), &probes, &other, &ei), E_BUSY);
    assert_true(strlen(ei.text) > 0);
    assert_null(other);
    admin_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(livez_is_ok_whatever_the_readiness),
        TEST(readyz_tells_the_state),
        TEST(metrics_can_be_read_by_prometheus),
        TEST(head_works_on_every_path),
        TEST(other_methods_and_paths_are_refused),
        TEST(request_of_an_ordinary_client_keeps_the_connection),
        TEST(refusal_reaches_a_peer_that_is_still_sending),
        TEST(address_that_cannot_be_used_is_told),
    };

    process_metrics_register();
    process_metrics_register_loop(&t.loop, "test");
    return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
