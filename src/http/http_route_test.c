#include "http/http_route.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/check.h"

static void handle(struct http_exchange *x, void *context)
{
    (void)x;
    (void)context;
}

static const struct http_route routes[] = {
    {.method = HTTP_METHOD_GET, .pattern = "/", .handler = handle},
    {.method = HTTP_METHOD_GET, .pattern = "/a", .handler = handle},
    {.method = HTTP_METHOD_POST, .pattern = "/a", .handler = handle},
    {.method = HTTP_METHOD_PUT, .pattern = "/t/{}/{}", .handler = handle},
    {.method = HTTP_METHOD_GET, .pattern = "/t/{}/fixed", .handler = handle},
    {.method = HTTP_METHOD_GET, .pattern = "/files/*", .handler = handle},
    {.method = HTTP_METHOD_DELETE, .pattern = "/d/", .handler = handle},
};

static void path_and_method_find_the_route(void **state)
{
    static const struct {
        enum http_method method;
        const char *path;
        int want;          /* -1: none */
        const char *allow; /* with none */
        const char *params[2];
    } rows[] = {
        {HTTP_METHOD_GET, "/", 0, "", {0}},
        {HTTP_METHOD_HEAD, "/a", 1, "", {0}},
        {HTTP_METHOD_POST, "/a", 2, "", {0}},
        {HTTP_METHOD_PUT, "/a", -1, "GET, HEAD, POST", {0}},
        {HTTP_METHOD_OTHER, "/a", -1, "GET, HEAD, POST", {0}},
        {HTTP_METHOD_PUT, "/t/x/y%2F", 3, "", {"x", "y%2F"}},
        {HTTP_METHOD_PUT, "/t/x/fixed", 3, "", {"x", "fixed"}},
        {HTTP_METHOD_GET, "/t/x/fixed", 4, "", {"x"}},
        {HTTP_METHOD_GET, "/t/x/y", -1, "PUT", {0}},
        {HTTP_METHOD_PUT, "/t//y", -1, "", {0}},
        {HTTP_METHOD_PUT, "/t/x", -1, "", {0}},
        {HTTP_METHOD_PUT, "/t/x/y/z", -1, "", {0}},
        {HTTP_METHOD_PUT, "/t/x/y/", -1, "", {0}},
        {HTTP_METHOD_GET, "/files/", 5, "", {0}},
        {HTTP_METHOD_GET, "/files/a/b", 5, "", {0}},
        {HTTP_METHOD_GET, "/files", -1, "", {0}},
        {HTTP_METHOD_GET, "/A", -1, "", {0}},
        {HTTP_METHOD_GET, "/a/", -1, "", {0}},
        {HTTP_METHOD_GET, "//a", -1, "", {0}},
        {HTTP_METHOD_GET, "*", -1, "", {0}},
        {HTTP_METHOD_DELETE, "/d/", 6, "", {0}},
        {HTTP_METHOD_DELETE, "/d", -1, "", {0}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_exchange x = {.request = {.method = rows[i].method, .path = str_from(rows[i].path)}};
        char allow[HTTP_ALLOW_BYTES];
        unsigned allowed;
        const struct http_route *route = http_route_find(routes, ARRAY_LEN(routes), &x, &allowed);

        if (route != (rows[i].want < 0 ? NULL : &routes[rows[i].want]))
            fail_msg("%s: route %td", rows[i].path, route ? route - routes : -1);
        for (size_t k = 0; k < 2; k++)
            if (rows[i].params[k])
                assert_true(k < x.n_params && str_equal(x.params[k], str_from(rows[i].params[k])));
            else
                assert_true(k >= x.n_params);
        if (!route) {
            assert_int_equal(http_route_format_allow(allowed, allow), strlen(rows[i].allow));
            assert_string_equal(allow, rows[i].allow);
        }
    }
}

static void all_methods_fit_into_allow(void **state)
{
    char allow[HTTP_ALLOW_BYTES];

    (void)state;
    http_route_format_allow(~0u, allow);
    assert_string_equal(allow, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_and_method_find_the_route),
        cmocka_unit_test(all_methods_fit_into_allow),
    };

    return cmocka_run_group_tests_name("http_route", tests, NULL, NULL);
}
