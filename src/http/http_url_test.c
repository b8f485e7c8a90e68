#include "http/http_url.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static void urls_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *authority, *host, *target;
        uint16_t port;
        bool is_https;
    } rows[] = {
        {"http://mapper", "mapper", "mapper", "/", 80, false},
        {"HTTP://mapper:8080/a/b?c=d", "mapper:8080", "mapper", "/a/b?c=d", 8080, false},
        {"http://[::1]:81/", "[::1]:81", "::1", "/", 81, false},
        {"http://[::1]", "[::1]", "::1", "/", 80, false},
        {"http://10.0.0.1:65535", "10.0.0.1:65535", "10.0.0.1", "/", 65535, false},
        {"https://mapper/x", "mapper", "mapper", "/x", 443, true},
        {"HTTPS://mapper:8443", "mapper:8443", "mapper", "/", 8443, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_url url;

        assert_int_equal(http_url_parse(str_from(rows[i].text), &url, NULL), E_OK);
        assert_true(str_equal(url.authority, str_from(rows[i].authority)));
        assert_true(str_equal(url.host, str_from(rows[i].host)));
        assert_true(str_equal(url.target, str_from(rows[i].target)));
        assert_int_equal(url.port, rows[i].port);
        assert_int_equal(url.is_https, rows[i].is_https);
    }
}

static void what_is_no_url_for_a_request_is_refused_with_a_reason(void **state)
{
    static const char *const rows[] = {
        "",           "mapper:80",     "ftp://mapper",   "http://",         "http:///x",       "http://user@mapper/",
        "http://a:",  "http://a:0",    "http://a:65536", "http://a:b",      "http://a/ b",     "http://a/#top",
        "http://a?x", "http://a\r\nb", "http://[::1",    "http://[::1]80/", "http://a:80:90/",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errinfo ei = {0};
        struct http_url url;

        assert_int_equal(http_url_parse(str_from(rows[i]), &url, &ei), E_INVAL);
        assert_true(ei.text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(what_is_no_url_for_a_request_is_refused_with_a_reason),
    };

    return cmocka_run_group_tests_name("http_url", tests, NULL, NULL);
}
