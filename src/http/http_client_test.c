#include "http/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/resolver.h"

enum { CALLS = 8, TEXT_BYTES = 1 << 16, FAR_MS = 1000000, SOON_MS = 20, MAX_WAITING = 3 };

struct asked {
    struct http_call call;
    unsigned n_done;
    err result;
    uint16_t status;
    char body[64], note[64];
};

static struct http_client_metrics metrics;
static const struct http1_limits limits = {
    .max_line_bytes = 100, .max_head_bytes = 1000, .max_headers = 10, .max_body_bytes = 50};

static struct {
    struct loop loop;
    struct resolver resolver;
    struct http_client client;
    struct http_client_options options;
    struct asked asked[CALLS];
    unsigned n_asked;
    int listener;
    char url[64];
    void (*on_done)(struct asked *a);
    int64_t memory;
} t;

/* ---- what the client's user does ---- */

static void copy(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_ARG(s));
}

static void on_done(struct http_call *call)
{
    struct asked *a = CONTAINER_OF(call, struct asked, call);

    a->n_done++;
    a->result = call->result;
    if (call->result == E_OK) {
        a->status = call->response->status;
        copy(a->body, sizeof a->body, call->body);
        copy(a->note, sizeof a->note, http1_response_header(call->response, STR("note")));
    }
    if (t.on_done)
        t.on_done(a);
}

static err ask_at(const char *text, enum http_method method, uint32_t timeout_ms, struct asked **out)
{
    static const struct http_header headers[] = {{STR_INIT("tenant_id"), STR_INIT("T")}};
    struct asked *a = &t.asked[t.n_asked];
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = method,
        .content_type = STR("text/plain"),
        .headers = headers,
        .n_headers = 1,
        .body = method == HTTP_METHOD_POST ? STR("hello") : (struct str){0},
        .timeout_ms = timeout_ms,
    };
    err e;

    assert_true(t.n_asked < CALLS);
    assert_int_equal(http_url_parse(str_from(text), &url, NULL), E_OK);
    a->call.on_done = on_done;
    e = http_client_send(&t.client, &a->call, &request);
    if (e == E_OK)
        t.n_asked++;
    *out = a;
    return e;
}

static struct asked *ask(void)
{
    struct asked *a;

    assert_int_equal(ask_at(t.url, HTTP_METHOD_POST, FAR_MS, &a), E_OK);
    return a;
}

static void turn(void)
{
    loop_turn(&t.loop, 0);
}

static void wait_for(const struct asked *a)
{
    while (!a->n_done)
        loop_turn(&t.loop, -1);
    assert_int_equal(a->n_done, 1);
}

/* ---- the scripted server ---- */

static int listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%u/map?x=y", ntohs(address.sin_port));
    return fd;
}

/* The next connection, made within this turn and the next one. */
static int accept_one(void)
{
    int fd;

    while ((fd = accept4(t.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
        turn();
    return fd;
}

static void assert_nobody_connects(void)
{
    for (int i = 0; i < 4; i++)
        turn();
    assert_int_equal(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), -1);
}

/* Reads until the body of a request has come; returns what came. */
static const char *hear(int fd)
{
    static char text[TEXT_BYTES];
    size_t n = 0;

    do {
        ssize_t got = read(fd, text + n, sizeof text - 1 - n);

        if (got < 0)
            turn();
        else if (got == 0)
            break;
        else
            n += (size_t)got;
        text[n] = '\0';
    } while (n < 5 || strcmp(text + n - 5, "hello") != 0);
    return text;
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

#define OK(body_bytes, body) "HTTP/1.1 200 OK\r\nContent-Length: " #body_bytes "\r\nnote: n\r\n\r\n" body

/* ---- tests ---- */

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    t.memory = mem_used(MEM_HTTP) + mem_used(MEM_LOOP) + mem_used(MEM_PROTO);
    http_client_metrics_register(&metrics, "test");
    if (loop_init(&t.loop, 1000, NULL) != E_OK)
        return -1;
    resolver_init(&t.resolver);
    t.listener = listen_on_loopback();
    t.options = (struct http_client_options){
        .max_connections = 2, .max_waiting = MAX_WAITING, .limits = &limits, .metrics = &metrics, .resolver = &t.resolver};
    http_client_init(&t.client, &t.loop, &t.options);
    return 0;
}

static int tear_down(void **state)
{
    int64_t accounted;

    (void)state;
    http_client_close(&t.client);
    for (int i = 0; i < 4; i++)
        turn();
    resolver_fini(&t.resolver);
    http_client_fini(&t.client);
    loop_fini(&t.loop);
    close(t.listener);
    accounted = metric_value(metrics.in_flight);
    for (int i = 0; i < HTTP_CLIENT_CLASSES; i++)
        accounted += metric_value(&metrics.responses[i]);
    for (int i = 0; i < HTTP_CLIENT_FAILURES; i++)
        accounted += metric_value(&metrics.failures[i]);
    assert_int_equal(metric_value(metrics.requests), accounted);
    assert_int_equal(metric_value(metrics.in_flight), 0);
    assert_int_equal(metric_value(metrics.open), 0);
    assert_int_equal(mem_used(MEM_HTTP) + mem_used(MEM_LOOP) + mem_used(MEM_PROTO), t.memory);
    return 0;
}

static void a_request_is_sent_and_its_response_told(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();
    const char *text = hear(fd);

    (void)state;
    assert_non_null(strstr(text, "POST /map?x=y HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert_non_null(strstr(text, "\r\nContent-Type: text/plain\r\nContent-Length: 5\r\ntenant_id: T\r\n\r\nhello"));
    say(fd, "HTTP/1.1 100 Continue\r\n\r\n" OK(3, "abc"));
    wait_for(a);
    assert_int_equal(a->result, E_OK);
    assert_int_equal(a->status, 200);
    assert_string_equal(a->body, "abc");
    assert_string_equal(a->note, "n");
    close(fd);
}

static void a_connection_is_used_again(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();

    (void)state;
    for (int i = 0; i < 3; i++) {
        hear(fd);
        say(fd, OK(1, "x"));
        wait_for(a);
        a = ask();
    }
    hear(fd);
    assert_nobody_connects();
    close(fd);
}

static void bodies_end_as_their_heads_say(void **state)
{
    static const struct {
        const char *response, *body;
        enum http_method method;
        err result;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "abc", HTTP_METHOD_POST, E_OK},
        {"HTTP/1.0 200 OK\r\n\r\nto the end", "to the end", HTTP_METHOD_POST, E_OK},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "", HTTP_METHOD_HEAD, E_OK},
        {"HTTP/1.1 204 No Content\r\n\r\n", "", HTTP_METHOD_POST, E_OK},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "", HTTP_METHOD_POST, E_CLOSED},
        {"HTTP/1.1 200 OK\r\nContent-Length: 51\r\n\r\n", "", HTTP_METHOD_POST, E_LIMIT},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "", HTTP_METHOD_POST, E_PROTO},
        {"SSH-2.0\r\n\r\n", "", HTTP_METHOD_POST, E_PROTO},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct asked *a;
        int fd;

        memset(t.asked, 0, sizeof t.asked);
        t.n_asked = 0;
        assert_int_equal(ask_at(t.url, rows[i].method, FAR_MS, &a), E_OK);
        fd = accept_one();
        if (rows[i].method == HTTP_METHOD_POST)
            hear(fd);
        say(fd, rows[i].response);
        shutdown(fd, SHUT_WR);
        wait_for(a);
        assert_int_equal(a->result, rows[i].result);
        assert_string_equal(a->body, rows[i].body);
        for (int k = 0; k < 4; k++) /* none is kept for the next row */
            turn();
        close(fd);
    }
}

static void who_speaks_something_else_is_given_up_at_the_first_byte(void **state)
{
    static const char *const rows[] = {"S", "HTTP/2", "\x15\x03\x01"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct asked *a;
        int fd;

        memset(t.asked, 0, sizeof t.asked);
        t.n_asked = 0;
        a = ask();
        fd = accept_one();
        hear(fd);
        say(fd, rows[i]); /* and nothing more, with the connection open */
        wait_for(a);
        assert_int_equal(a->result, E_PROTO);
        for (int k = 0; k < 4; k++)
            turn();
        close(fd);
    }
}

static void a_kept_connection_that_the_server_closed_is_replaced_once(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();

    (void)state;
    hear(fd);
    say(fd, OK(0, ""));
    wait_for(a);
    a = ask();
    hear(fd);
    close(fd); /* saw the request, said nothing */
    fd = accept_one();
    hear(fd);
    close(fd);
    wait_for(a);
    assert_int_equal(a->result, E_CLOSED);
    assert_nobody_connects();
}

static void nothing_is_sent_again_once_a_byte_has_come(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();

    (void)state;
    hear(fd);
    say(fd, OK(0, ""));
    wait_for(a);
    a = ask();
    hear(fd);
    say(fd, "H");
    turn();
    close(fd);
    wait_for(a);
    assert_int_equal(a->result, E_CLOSED);
    assert_nobody_connects();
}

static void calls_wait_for_one_of_so_many_connections(void **state)
{
    struct asked *a[2 + MAX_WAITING], *one_more;
    int fds[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        a[i] = ask();
    fds[0] = accept_one();
    fds[1] = accept_one();
    for (int i = 2; i < 2 + MAX_WAITING; i++)
        a[i] = ask();
    assert_int_equal(ask_at(t.url, HTTP_METHOD_POST, FAR_MS, &one_more), E_LIMIT);
    assert_nobody_connects();
    while (metric_value(metrics.in_flight)) { /* whichever has one */
        char text[1024];

        for (int i = 0; i < 2; i++)
            if (read(fds[i], text, sizeof text) > 0)
                say(fds[i], OK(0, ""));
        turn();
    }
    for (int i = 0; i < 2 + MAX_WAITING; i++)
        wait_for(a[i]);
    close(fds[0]);
    close(fds[1]);
}

static void what_takes_too_long_fails_wherever_it_waits(void **state)
{
    struct asked *a[3];
    int fds[2];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask_at(t.url, HTTP_METHOD_POST, SOON_MS, &a[i]), E_OK);
    fds[0] = accept_one();
    fds[1] = accept_one();
    for (int i = 0; i < 3; i++) {
        wait_for(a[i]);
        assert_int_equal(a[i]->result, E_TIMEOUT);
    }
    close(fds[0]);
    close(fds[1]);
}

static void nobody_there_and_no_such_name_are_told(void **state)
{
    char nobody[sizeof t.url];
    struct asked *a;

    (void)state;
    copy(nobody, sizeof nobody, str_from(t.url));
    close(t.listener);
    assert_int_equal(ask_at(nobody, HTTP_METHOD_POST, FAR_MS, &a), E_OK);
    wait_for(a);
    assert_int_equal(a->result, E_IO);
    t.listener = listen_on_loopback();
    assert_int_equal(ask_at("http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid/",
                            HTTP_METHOD_POST, FAR_MS, &a),
                     E_OK);
    wait_for(a);
    assert_int_equal(a->result, E_NOTFOUND);
}

static void names_are_resolved_and_their_addresses_tried_in_turn(void **state)
{
    char url[64];
    struct asked *a;
    int fd;

    (void)state;
    snprintf(url, sizeof url, "http://localhost%s", strrchr(t.url, ':')); /* perhaps ::1, where nobody is, comes first */
    assert_int_equal(ask_at(url, HTTP_METHOD_POST, FAR_MS, &a), E_OK);
    while ((fd = accept4(t.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
        loop_turn(&t.loop, 1);
    assert_non_null(strstr(hear(fd), "Host: localhost:"));
    say(fd, OK(0, ""));
    wait_for(a);
    assert_int_equal(a->result, E_OK);
    close(fd);
}

static void a_cancelled_call_is_never_answered(void **state)
{
    struct asked *a[3];
    int fds[2];

    (void)state;
    for (int i = 0; i < 3; i++)
        a[i] = ask();
    fds[0] = accept_one();
    fds[1] = accept_one();
    for (int i = 0; i < 3; i++) {
        http_client_cancel(&a[i]->call);
        http_client_cancel(&a[i]->call); /* harmless */
    }
    say(fds[0], OK(0, ""));
    for (int i = 0; i < 4; i++)
        turn();
    for (int i = 0; i < 3; i++)
        assert_int_equal(a[i]->n_done, 0);
    close(fds[0]);
    close(fds[1]);
}

static void close_client(struct asked *a)
{
    (void)a;
    t.on_done = NULL;
    http_client_close(&t.client);
}

static void a_closed_client_answers_all_and_takes_nothing(void **state)
{
    struct asked *a[3], *late;
    int fd;

    (void)state;
    t.on_done = close_client;
    for (int i = 0; i < 3; i++)
        a[i] = ask();
    fd = accept_one();
    hear(fd);
    say(fd, OK(0, ""));
    for (int i = 0; i < 3; i++)
        wait_for(a[i]);
    assert_int_equal((a[0]->result == E_CLOSED) + (a[1]->result == E_CLOSED) + (a[2]->result == E_CLOSED), 2);
    assert_int_equal(ask_at(t.url, HTTP_METHOD_POST, FAR_MS, &late), E_CLOSED);
    close(fd);
}

static void a_connection_that_says_what_nobody_asked_for_is_closed(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();
    char byte;

    (void)state;
    hear(fd);
    say(fd, OK(0, ""));
    wait_for(a);
    say(fd, OK(0, ""));
    while (read(fd, &byte, 1) < 0 && errno == EAGAIN)
        turn();
    close(fd);
    a = ask();
    fd = accept_one();
    hear(fd);
    say(fd, OK(0, ""));
    wait_for(a);
    close(fd);
}

static void an_idle_connection_is_closed_after_a_while(void **state)
{
    struct asked *a;
    char byte;
    int fd;

    (void)state;
    t.options.idle_timeout_ms = SOON_MS;
    a = ask();
    fd = accept_one();
    hear(fd);
    say(fd, OK(0, ""));
    wait_for(a);
    while (read(fd, &byte, 1) < 0)
        loop_turn(&t.loop, -1);
    close(fd);
    turn();
    assert_int_equal(t.client.endpoints.n_entries, 0); /* forgotten with its last connection */
}

/* ---- requests that are prepared and large ---- */

static err ask_with(const struct http_client_request *extra, struct asked **out)
{
    struct asked *a = &t.asked[t.n_asked++];
    struct http_client_request request = *extra;
    struct http_url url;

    assert_true(t.n_asked <= CALLS);
    assert_int_equal(http_url_parse(str_from(t.url), &url, NULL), E_OK);
    request.url = &url;
    request.method = HTTP_METHOD_POST;
    request.timeout_ms = FAR_MS;
    a->call.on_done = on_done;
    *out = a;
    return http_client_send(&t.client, &a->call, &request);
}

static void lines_that_are_ready_follow_the_other_headers(void **state)
{
    const struct str lines[] = {STR("ce-id: 1\r\nce-type: t\r\n"), {0}, STR("x: y\r\n")};
    struct asked *a;
    int fd;

    (void)state;
    assert_int_equal(ask_with(&(struct http_client_request){.lines = lines, .n_lines = 3, .body = STR("hello")}, &a), E_OK);
    fd = accept_one();
    assert_non_null(strstr(hear(fd), "\r\nContent-Length: 5\r\nce-id: 1\r\nce-type: t\r\nx: y\r\n\r\nhello"));
    say(fd, OK(0, ""));
    wait_for(a);
    close(fd);
}

static void pools_share_no_connection(void **state)
{
    struct asked *a, *b, *c;
    int first, second;

    (void)state;
    assert_int_equal(ask_with(&(struct http_client_request){.pool = 1, .body = STR("hello")}, &a), E_OK);
    first = accept_one();
    hear(first);
    say(first, OK(0, ""));
    wait_for(a);
    assert_int_equal(ask_with(&(struct http_client_request){.pool = 2, .body = STR("hello")}, &b), E_OK);
    second = accept_one();
    hear(second);
    say(second, OK(0, ""));
    wait_for(b);
    assert_int_equal(ask_with(&(struct http_client_request){.pool = 1, .body = STR("hello")}, &c), E_OK);
    hear(first);
    say(first, OK(0, ""));
    wait_for(c);
    close(first);
    close(second);
}

/* More than the sockets take at once: what the kernel does not take waits where it lies. */
static void a_large_body_leaves_as_the_server_takes_it(void **state)
{
    enum { BODY_BYTES = 16 << 20 };
    char *body = mem_alloc(MEM_TEST, BODY_BYTES), *got = mem_alloc(MEM_TEST, BODY_BYTES + 4096), *end = NULL;
    size_t n = 0;
    struct asked *a;
    int fd;

    (void)state;
    for (size_t i = 0; i < BODY_BYTES; i++)
        body[i] = (char)('a' + i % 26);
    assert_int_equal(ask_with(&(struct http_client_request){.body = {body, BODY_BYTES}}, &a), E_OK);
    fd = accept_one();
    while (!end || n < (size_t)(end - got) + BODY_BYTES) {
        ssize_t more = read(fd, got + n, BODY_BYTES + 4096 - n);

        assert_true(more > 0 || (more < 0 && errno == EAGAIN));
        n += more > 0 ? (size_t)more : 0;
        turn();
        if (!end && (end = memmem(got, n, "\r\n\r\n", 4)))
            end += 4;
        assert_true(mem_used(MEM_LOOP) < BODY_BYTES);
    }
    assert_memory_equal(end, body, BODY_BYTES);
    say(fd, OK(0, ""));
    wait_for(a);
    assert_int_equal(a->result, E_OK);
    close(fd);
    mem_free(MEM_TEST, body);
    mem_free(MEM_TEST, got);
}

/* The rest of a request that nobody waits for any more must not be taken for the next one. */
static void a_connection_whose_server_answered_too_early_is_not_used_again(void **state)
{
    enum { BODY_BYTES = 16 << 20 };
    char *body = mem_alloc_zero(MEM_TEST, BODY_BYTES);
    struct asked *a;
    int first, second;

    (void)state;
    assert_int_equal(ask_with(&(struct http_client_request){.body = {body, BODY_BYTES}}, &a), E_OK);
    first = accept_one();
    say(first, OK(0, ""));
    wait_for(a);
    assert_int_equal(a->result, E_OK);
    a = ask();
    second = accept_one();
    hear(second);
    say(second, OK(0, ""));
    wait_for(a);
    close(first);
    close(second);
    mem_free(MEM_TEST, body);
}

static struct asked *asked_next;

/* The response before lies there until the next one comes. */
static void asks_again(struct asked *a)
{
    if (asked_next)
        return;
    asked_next = ask();
    assert_true(str_equal(a->call.body, STR("first")));
}

static void a_connection_is_used_again_by_whoever_just_got_its_response(void **state)
{
    struct asked *a = ask();
    int fd = accept_one();

    (void)state;
    asked_next = NULL;
    t.on_done = asks_again;
    hear(fd);
    say(fd, OK(5, "first"));
    wait_for(a);
    hear(fd);
    say(fd, OK(2, "2."));
    wait_for(asked_next);
    assert_string_equal(asked_next->body, "2.");
    assert_nobody_connects();
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_sent_and_its_response_told),
        TEST(a_connection_is_used_again),
        TEST(bodies_end_as_their_heads_say),
        TEST(who_speaks_something_else_is_given_up_at_the_first_byte),
        TEST(a_kept_connection_that_the_server_closed_is_replaced_once),
        TEST(nothing_is_sent_again_once_a_byte_has_come),
        TEST(calls_wait_for_one_of_so_many_connections),
        TEST(what_takes_too_long_fails_wherever_it_waits),
        TEST(nobody_there_and_no_such_name_are_told),
        TEST(names_are_resolved_and_their_addresses_tried_in_turn),
        TEST(a_cancelled_call_is_never_answered),
        TEST(a_closed_client_answers_all_and_takes_nothing),
        TEST(a_connection_that_says_what_nobody_asked_for_is_closed),
        TEST(an_idle_connection_is_closed_after_a_while),
        TEST(lines_that_are_ready_follow_the_other_headers),
        TEST(pools_share_no_connection),
        TEST(a_large_body_leaves_as_the_server_takes_it),
        TEST(a_connection_whose_server_answered_too_early_is_not_used_again),
        TEST(a_connection_is_used_again_by_whoever_just_got_its_response),
    };

    return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}
