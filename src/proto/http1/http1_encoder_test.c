#include "proto/http1/http1_encoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

static const struct str date = STR_INIT("Sun, 06 Nov 1994 08:49:37 GMT");

static void head_has_what_the_response_and_the_connection_say(void **state)
{
    static const struct http_header allow[] = {{STR_INIT("Allow"), STR_INIT("GET, HEAD")}, {STR_INIT("X"), STR_INIT("")}};
    static const struct {
        struct http_response r;
        enum http1_connection connection;
        const char *want;
    } rows[] = {
        {{.status = 200, .content_type = STR_INIT("text/plain"), .body = STR_INIT("ok\n")},
         HTTP1_CONNECTION_DEFAULT,
         "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\n"},
        {{.status = 405, .headers = allow, .n_headers = 2},
         HTTP1_CONNECTION_CLOSE,
         "HTTP/1.1 405 Method Not Allowed\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\nContent-Length: 0\r\n"
         "Allow: GET, HEAD\r\nX: \r\n\r\n"},
        {{.status = 204},
         HTTP1_CONNECTION_KEEP_ALIVE,
         "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n\r\n"},
        {{.status = 599},
         HTTP1_CONNECTION_DEFAULT,
         "HTTP/1.1 599 Unknown\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t bound = http1_encoder_bound(&rows[i].r);
        char *to = malloc(bound);
        size_t n = http1_encoder_write(to, &rows[i].r, date, rows[i].connection);

        assert_int_equal(n, strlen(rows[i].want));
        assert_memory_equal(to, rows[i].want, n);
        free(to);
    }
}

static void request_has_host_length_and_what_the_client_says(void **state)
{
    static const struct http_header headers[] = {{STR_INIT("a"), STR_INIT("b c")}};
    static const struct {
        struct http1_request_head r;
        const char *want; /* NULL: refused */
    } rows[] = {
        {{.method = HTTP_METHOD_POST,
          .target = STR_INIT("/map?x=1"),
          .host = STR_INIT("h:8080"),
          .content_type = STR_INIT("text/plain"),
          .headers = headers,
          .n_headers = 1,
          .body_bytes = 12},
         "POST /map?x=1 HTTP/1.1\r\nHost: h:8080\r\nContent-Type: text/plain\r\nContent-Length: 12\r\na: b c\r\n\r\n"},
        {{.method = HTTP_METHOD_POST, .target = STR_INIT("/"), .host = STR_INIT("h")},
         "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
        {{.method = HTTP_METHOD_GET, .target = STR_INIT("/"), .host = STR_INIT("h")}, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {{.method = HTTP_METHOD_GET, .target = STR_INIT("/ x"), .host = STR_INIT("h")}, NULL},
        {{.method = HTTP_METHOD_GET, .target = STR_INIT("/"), .host = STR_INIT("h\r\na: b")}, NULL},
        {{.method = HTTP_METHOD_GET, .target = STR_INIT("/"), .host = STR_INIT("h"), .content_type = STR_INIT("a\nb")}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char to[1024];
        size_t n = http1_encoder_write_request(to, &rows[i].r);

        assert_true(n <= http1_encoder_request_bound(&rows[i].r));
        assert_int_equal(n, rows[i].want ? strlen(rows[i].want) : 0);
        if (n)
            assert_memory_equal(to, rows[i].want, n);
    }
}

static void longest_head_stays_within_the_bound(void **state)
{
    static char body[1];
    struct http_response r = {.status = 431, .content_type = STR("a"), .body = {body, (size_t)-1}};
    char to[1024];

    (void)state;
    assert_true(http1_encoder_write(to, &r, date, HTTP1_CONNECTION_KEEP_ALIVE) <= http1_encoder_bound(&r));
}

static void header_that_would_break_out_of_its_line_is_refused(void **state)
{
    static const struct http_header rows[] = {
        {STR_INIT("A"), STR_INIT("b\r\nC: d")}, {STR_INIT("A"), STR_INIT("b\n")}, {STR_INIT("A"), STR_INIT("b\0c")},
        {STR_INIT("A: b"), STR_INIT("c")},      {STR_INIT("A\n"), STR_INIT("c")}, {STR_INIT(""), STR_INIT("c")},
    };
    char to[1024];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_response r = {.status = 200, .headers = &rows[i], .n_headers = 1};

        assert_int_equal(http1_encoder_write(to, &r, date, HTTP1_CONNECTION_DEFAULT), 0);
    }
    struct http_response r = {.status = 200, .content_type = STR("a\r\nB: c")};
    assert_int_equal(http1_encoder_write(to, &r, date, HTTP1_CONNECTION_DEFAULT), 0);
}

static void dates_have_the_form_of_rfc_9110(void **state)
{
    static const struct {
        uint64_t seconds;
        const char *want;
    } rows[] = {
        {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {1709210096, "Thu, 29 Feb 2024 12:34:56 GMT"},
    };
    char to[HTTP1_DATE_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        http1_encoder_date(to, rows[i].seconds);
        assert_memory_equal(to, rows[i].want, HTTP1_DATE_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_has_what_the_response_and_the_connection_say),
        cmocka_unit_test(request_has_host_length_and_what_the_client_says),
        cmocka_unit_test(longest_head_stays_within_the_bound),
        cmocka_unit_test(header_that_would_break_out_of_its_line_is_refused),
        cmocka_unit_test(dates_have_the_form_of_rfc_9110),
    };

    return cmocka_run_group_tests_name("http1_encoder", tests, NULL, NULL);
}
