#include "proto/http1/http1_response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static const struct http1_limits limits = {.max_line_bytes = 64, .max_head_bytes = 256, .max_headers = 4, .max_body_bytes = 16};

/* What came of the bytes: "200:body." for each complete response, then how the rest stands. */
struct result {
    char text[256];
    size_t n;
    enum http1_step last;
    enum http1_refusal refusal;
    bool ends_with_connection, is_kept_alive;
};

static void put(struct result *r, struct str s)
{
    assert_true(r->n + s.n < sizeof r->text);
    memcpy(r->text + r->n, s.p, s.n);
    r->n += s.n;
}

static struct result run(struct str bytes, size_t piece, enum http_method method)
{
    struct http1_response parser;
    struct http1_head head = {0};
    struct http1_response_head response = {0};
    struct result r = {.last = HTTP1_MORE};

    http1_response_init(&parser, &limits);
    http1_response_expect(&parser, method);
    while (bytes.n > 0 && r.last != HTTP1_BAD) {
        struct str in = {bytes.p, bytes.n < piece ? bytes.n : piece}, body = {0};

        bytes = str_from_offset(bytes, in.n);
        do {
            r.last = http1_response_next(&parser, &head, &response, &in, &body);
            if (r.last == HTTP1_HEAD) {
                char status[8];

                r.is_kept_alive = response.is_kept_alive;
                put(&r, (struct str){status, (size_t)snprintf(status, sizeof status, "%u:", response.status)});
            } else if (r.last == HTTP1_BODY) {
                put(&r, body);
            } else if (r.last == HTTP1_END) {
                put(&r, STR("."));
                http1_head_clear(&head);
                http1_response_expect(&parser, method);
            }
        } while (r.last != HTTP1_MORE && r.last != HTTP1_BAD);
    }
    r.refusal = parser.parser.refusal;
    r.ends_with_connection = http1_response_ends_with_connection(&parser);
    http1_head_free(&head);
    return r;
}

#define OK "HTTP/1.1 200 OK\r\n"

static void responses_are_told_however_their_bytes_are_split(void **state)
{
    static const struct {
        const char *bytes, *want;
        enum http_method method;
        bool is_kept_alive, ends_with_connection;
    } rows[] = {
        {OK "Content-Length: 3\r\n\r\nabc", "200:abc.", HTTP_METHOD_GET, true, false},
        {OK "Content-Length: 0\r\n\r\n" OK "content-length: 1\r\n\r\nx", "200:.200:x.", HTTP_METHOD_POST, true, false},
        {OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n", "200:abcde.", HTTP_METHOD_GET,
         true, false},
        {OK "\r\nup to the end", "200:up to the end", HTTP_METHOD_GET, false, true},
        {OK "Content-Length: 1000\r\n\r\n", "200:.", HTTP_METHOD_HEAD, true, false},
        {OK "Transfer-Encoding: chunked\r\n\r\n", "200:.", HTTP_METHOD_HEAD, true, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", "204:.", HTTP_METHOD_POST, true, false},
        {"HTTP/1.1 304 \r\nContent-Length: 99\r\n\r\n", "304:.", HTTP_METHOD_GET, true, false},
        {"HTTP/1.1 503\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "503:.", HTTP_METHOD_GET, false, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "200:.", HTTP_METHOD_GET, false, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", "200:.", HTTP_METHOD_GET, true, false},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", "200:x.",
         HTTP_METHOD_POST, true, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 1; piece < 200; piece = piece < 9 ? piece + 1 : piece * 3) {
            struct result r = run(str_from(rows[i].bytes), piece, rows[i].method);

            assert_int_equal(r.last, HTTP1_MORE);
            assert_true(str_equal((struct str){r.text, r.n}, str_from(rows[i].want)));
            assert_int_equal(r.is_kept_alive, rows[i].is_kept_alive);
            assert_int_equal(r.ends_with_connection, rows[i].ends_with_connection);
        }
    }
}

static void what_could_be_read_differently_or_is_too_much_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        enum http1_refusal refusal;
    } rows[] = {
        {"\r\n" OK "Content-Length: 0\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        {"HTTP/1.1 20 OK\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        {"HTTP/1.1 200OK\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        {"HTTP/1.1 099 No\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        {"HTTP/2.0 200 OK\r\n\r\n", HTTP1_REFUSED_VERSION},
        {"ICY 200 OK\r\n\r\n", HTTP1_REFUSED_SYNTAX},
        /* no line ends: the first byte that cannot be of a status line is enough */
        {"S", HTTP1_REFUSED_SYNTAX},
        {"\r", HTTP1_REFUSED_SYNTAX},
        {"\x16\x03\x01", HTTP1_REFUSED_SYNTAX},
        {"HTTPS", HTTP1_REFUSED_SYNTAX},
        {"HTTP/2", HTTP1_REFUSED_VERSION},
        {"HTTP/1,", HTTP1_REFUSED_VERSION},
        {"HTTP/1.1 100 Continue\r\n\r\nx", HTTP1_REFUSED_SYNTAX},
        {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", HTTP1_REFUSED_LINE_ENDING},
        {OK "A: b\r\n c\r\n\r\n", HTTP1_REFUSED_LINE_ENDING},
        {OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", HTTP1_REFUSED_LENGTH},
        {OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_REFUSED_LENGTH},
        {OK "Content-Length: x\r\n\r\n", HTTP1_REFUSED_LENGTH},
        {OK "Transfer-Encoding: gzip\r\n\r\n", HTTP1_REFUSED_TRANSFER_ENCODING},
        {OK "Transfer-Encoding: chunked\t\r\n\r\n12345678901234567", HTTP1_REFUSED_TRANSFER_ENCODING},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP1_REFUSED_LENGTH},
        {OK "Content-Length: 17\r\n\r\n", HTTP1_REFUSED_BODY_TOO_LARGE},
        {OK "Transfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n9\r\n", HTTP1_REFUSED_BODY_TOO_LARGE},
        {OK "Transfer-Encoding: chunked\r\n\r\nx\r\n", HTTP1_REFUSED_CHUNK},
        {OK "\r\n12345678901234567", HTTP1_REFUSED_BODY_TOO_LARGE},
        {OK "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", HTTP1_REFUSED_HEAD_TOO_LARGE},
        {"HTTP/1.1 200 1234567890123456789012345678901234567890123456789012345678901234567890\r\n\r\n",
         HTTP1_REFUSED_LINE_TOO_LONG},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 1; piece < 200; piece = piece * 3) {
            struct result r = run(str_from(rows[i].bytes), piece, HTTP_METHOD_POST);

            assert_int_equal(r.last, HTTP1_BAD);
            assert_int_equal(r.refusal, rows[i].refusal);
        }
    }
}

static void interim_responses_without_end_are_refused(void **state)
{
    char bytes[9 * 32] = "";

    (void)state;
    for (int i = 0; i < 9; i++)
        memcpy(bytes + strlen(bytes), "HTTP/1.1 102 Processing\r\n\r\n", 28);
    assert_int_equal(run(str_from(bytes), 1000, HTTP_METHOD_POST).refusal, HTTP1_REFUSED_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responses_are_told_however_their_bytes_are_split),
        cmocka_unit_test(what_could_be_read_differently_or_is_too_much_is_refused),
        cmocka_unit_test(interim_responses_without_end_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
