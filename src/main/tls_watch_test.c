#include "main/tls_watch.h"

#include <string.h>

#include "base/mem.h"
#include "loop/tls_fixture.h"

static struct loop l;
static struct tls_watch tw;
static unsigned n_changes;

static void on_change(struct tls_watch *which)
{
    assert_ptr_equal(which, &tw);
    n_changes++;
}

static void look(void)
{
    wheel_advance(&l.wheel, l.wheel.now_ms + TLS_WATCH_LOOK_MS);
}

static struct config *load(const char *listener)
{
    char text[1024];
    struct config_source source = {.name = "test.yaml"};
    static struct config_errors errors;
    struct config *config = NULL;

    snprintf(text, sizeof text, "kafka: {bootstrap: a}\nlisteners: [%s]\n", listener);
    source.text = str_from(text);
    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return config;
}

static const char *with_files(const char *more)
{
    static char text[512];

    snprintf(text, sizeof text, "{mqtts: \"127.0.0.1:0\", tls: {cert: %s, key: %s%s}}", tls_fixture_path("a.pem"),
             tls_fixture_path("a.key"), more);
    return text;
}

static int set_up(void **state)
{
    (void)state;
    n_changes = 0;
    tls_fixture_write("a.pem", "one");
    tls_fixture_write("a.key", "two");
    return loop_init(&l, 1000, NULL) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tls_watch_close(&tw);
    tls_watch_close(&tw); /* harmless */
    loop_fini(&l);
    return mem_used(MEM_CONFIG) == 0 ? 0 : -1;
}

static void a_change_is_told_once_when_it_is_over(void **state)
{
    struct config *config = load(with_files(""));

    (void)state;
    tls_watch_open(&tw, &l, config, "test.yaml", on_change);
    config_unref(config);
    look();
    look();
    assert_int_equal(n_changes, 0);
    tls_fixture_write("a.pem", "another");
    look();
    assert_int_equal(n_changes, 0); /* the key may follow */
    tls_fixture_write("a.key", "and its key");
    look();
    assert_int_equal(n_changes, 0);
    look();
    assert_int_equal(n_changes, 1);
    look();
    look();
    assert_int_equal(n_changes, 1);
}

static void a_file_that_goes_and_comes_back_is_a_change(void **state)
{
    struct config *config = load(with_files(""));

    (void)state;
    tls_watch_open(&tw, &l, config, "test.yaml", on_change);
    config_unref(config);
    unlink(tls_fixture_path("a.key"));
    look();
    look();
    assert_int_equal(n_changes, 1);
    tls_fixture_write("a.key", "back");
    look();
    look();
    assert_int_equal(n_changes, 2);
}

static void another_configuration_forgets_no_change_that_was_not_told(void **state)
{
    struct config *config = load(with_files("")), *next;
    char more[300];

    (void)state;
    tls_watch_open(&tw, &l, config, "test.yaml", on_change);
    config_unref(config);
    tls_fixture_write("a.pem", "changed while the next one was read");
    snprintf(more, sizeof more, ", client_ca: %s", tls_fixture_path("ca.pem"));
    next = load(with_files(more));
    tls_watch_use(&tw, next, "test.yaml");
    config_unref(next);
    look();
    look();
    assert_int_equal(n_changes, 1);
    tls_fixture_write("ca.pem", "a file that was not there");
    look();
    look();
    assert_int_equal(n_changes, 2);
}

static void without_files_nothing_is_looked_at(void **state)
{
    struct config *config = load("{mqtt: \"127.0.0.1:0\"}");

    (void)state;
    tls_watch_open(&tw, &l, config, "test.yaml", on_change);
    config_unref(config);
    assert_int_equal(wheel_next_ms(&l.wheel), -1);
}

static int open_all(void **state)
{
    (void)state;
    tls_fixture_open();
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    tls_fixture_close();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_change_is_told_once_when_it_is_over),
        TEST(a_file_that_goes_and_comes_back_is_a_change),
        TEST(another_configuration_forgets_no_change_that_was_not_told),
        TEST(without_files_nothing_is_looked_at),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
