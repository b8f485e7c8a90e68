/* Reports: what instances tell each other. */
#include "routes/routes_fixture_test.h"

enum { TEXT_BYTES = 64 };

/* What a node has heard last, and from whom. */
struct ears {
    unsigned n;
    uint64_t incarnation;
    char instance[TEXT_BYTES], key[TEXT_BYTES], value[TEXT_BYTES];
};

static void copy(char *out, struct str text)
{
    assert_true(text.n < TEXT_BYTES);
    memcpy(out, text.n ? text.p : "", text.n);
    out[text.n] = '\0';
}

static void on_report(void *context, struct str instance, uint64_t incarnation, struct str key, struct str value)
{
    struct ears *ears = context;

    ears->n++;
    ears->incarnation = incarnation;
    copy(ears->instance, instance);
    copy(ears->key, key);
    copy(ears->value, value);
}

static struct fixture_node *add(const char *name, struct ears *ears)
{
    struct fixture_node *node = fixture_add(name, false);

    routes_listen_reports(node->routes, on_report, ears);
    return node;
}

static void send_all(void)
{
    for (unsigned i = 0; i < fixture.n; i++)
        if (!fixture.nodes[i].is_stopped)
            routes_reports_send(fixture.nodes[i].routes);
    fixture_settle();
}

static void what_one_tells_all_hear_the_teller_too(void **state)
{
    struct ears of_a = {0}, of_b = {0};
    struct fixture_node *a = add("a", &of_a), *b = add("b", &of_b);

    (void)state;
    fixture_settle();
    routes_tell(a->routes, STR("t"), STR("1"));
    routes_tell(a->routes, STR("t"), STR("2")); /* in place of it */
    send_all();
    assert_int_equal(of_a.n, 1);
    assert_int_equal(of_b.n, 1);
    assert_string_equal(of_b.instance, "a");
    assert_string_equal(of_b.key, "t");
    assert_string_equal(of_b.value, "2");
    assert_non_null(routes_find_instance(fixture_replica(b, "t"), STR("a"), of_b.incarnation));
}

static void it_is_kept_when_the_teller_is_gone(void **state)
{
    struct ears of_a = {0}, of_b = {0}, of_c = {0};
    struct fixture_node *a = add("a", &of_a), *c;

    (void)state;
    (void)add("b", &of_b);
    fixture_settle();
    routes_tell(a->routes, STR("t"), STR("kept"));
    send_all();
    fixture_kill(a);
    fixture_pass(2 * FIXTURE_LEASE_MS);
    c = add("c", &of_c);
    fixture_settle();
    assert_string_equal(of_c.value, "kept");
    assert_null(routes_find_instance(fixture_replica(c, "t"), STR("a"), of_c.incarnation));
}

static void what_could_not_be_told_is_told_again_unless_it_is_old(void **state)
{
    struct ears of_a = {0};
    struct fixture_node *a = add("a", &of_a);

    (void)state;
    routes_tell(a->routes, STR("t"), STR("early")); /* there is no lease yet */
    routes_reports_send(a->routes);
    fixture_settle();
    assert_int_equal(of_a.n, 0);
    atomic_store(&a->routes->incarnation, atomic_load(&a->routes->incarnation) + 1); /* one that the table does not know */
    send_all();
    assert_int_equal(of_a.n, 0);
    atomic_store(&a->routes->incarnation, atomic_load(&a->routes->incarnation) - 1);
    send_all();
    assert_int_equal(of_a.n, 1);
    assert_string_equal(of_a.value, "early");
}

static void more_than_fits_goes_in_parts(void **state)
{
    enum { KEYS = 3 * ROUTES_ITEMS_MAX / 2 };
    struct ears of_a = {0};
    struct fixture_node *a = add("a", &of_a);
    char key[16];

    (void)state;
    fixture_settle();
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "t%u", i);
        routes_tell(a->routes, str_from(key), STR("x"));
    }
    send_all();
    assert_int_equal(of_a.n, ROUTES_ITEMS_MAX);
    send_all();
    assert_int_equal(of_a.n, KEYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_one_tells_all_hear_the_teller_too, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(it_is_kept_when_the_teller_is_gone, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_could_not_be_told_is_told_again_unless_it_is_old, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(more_than_fits_goes_in_parts, fixture_set_up, fixture_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
