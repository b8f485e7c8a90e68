#include "loop/resolver.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "loop/loop.h"

static struct loop l;
static struct resolver r;
static unsigned n_answers;

static void on_answer(struct mail *m)
{
    (void)m;
    n_answers++;
}

static int set_up(void **state)
{
    (void)state;
    n_answers = 0;
    resolver_init(&r);
    return loop_init(&l, 1000, NULL) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    resolver_fini(&r);
    loop_fini(&l);
    return 0;
}

static struct resolver_query ask_for(const char *name)
{
    struct resolver_query q = {.mail = {.on_mail = on_answer}, .home = &l.mailbox, .port = 1234};

    snprintf(q.name, sizeof q.name, "%s", name);
    return q;
}

static void names_and_numbers_are_answered_by_mail_with_the_port(void **state)
{
    struct resolver_query queries[] = {ask_for("localhost"), ask_for("127.0.0.1")};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(queries); i++)
        assert_int_equal(resolver_ask(&r, &queries[i]), E_OK);
    while (n_answers < ARRAY_LEN(queries))
        loop_turn(&l, -1);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        const struct sockaddr_storage *a = &queries[i].addresses[0];

        assert_int_equal(queries[i].result, E_OK);
        assert_true(queries[i].n_addresses >= 1);
        if (a->ss_family == AF_INET)
            assert_int_equal(ntohs(((const struct sockaddr_in *)a)->sin_port), 1234);
        else
            assert_int_equal(ntohs(((const struct sockaddr_in6 *)a)->sin6_port), 1234);
    }
}

/* A label of more than 63 characters, which no resolver sends anywhere. */
static void what_is_no_name_has_no_address(void **state)
{
    struct resolver_query q =
        ask_for("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid");

    (void)state;
    assert_int_equal(resolver_ask(&r, &q), E_OK);
    while (!n_answers)
        loop_turn(&l, -1);
    assert_int_not_equal(q.result, E_OK);
    assert_int_equal(q.n_addresses, 0);
}

static void questions_are_bounded_and_left_alone_once_it_stops(void **state)
{
    static struct resolver_query q;

    (void)state;
    q = ask_for("127.0.0.1");
    r.n_queued = RESOLVER_QUESTIONS;
    assert_int_equal(resolver_ask(&r, &q), E_LIMIT);
    r.n_queued = 0;
    resolver_fini(&r);
    assert_int_equal(resolver_ask(&r, &q), E_IO);
    loop_turn(&l, 0);
    assert_int_equal(n_answers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_and_numbers_are_answered_by_mail_with_the_port, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_name_has_no_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(questions_are_bounded_and_left_alone_once_it_stops, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("resolver", tests, NULL, NULL);
}
