#include "fanout/fanout_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

enum { PATH_BYTES = 256 };

static char folder[PATH_BYTES / 2];

static const char *in_folder(const char *name)
{
    static char path[2][PATH_BYTES];
    static unsigned which;

    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", folder, name);
    return path[which];
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/fanout-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    (void)remove(in_folder("a")); /* not every test makes it */
    return rmdir(folder);         /* nothing else is left */
}

static void assert_content(const char *text)
{
    struct errinfo ei = {0};
    struct buf found = {0};

    assert_int_equal(fanout_file_read(in_folder("a"), &found, &ei), E_OK);
    assert_true(str_equal(buf_str(&found), str_from(text)));
    buf_free(&found, MEM_CONFIG);
}

static void a_file_is_replaced_as_a_whole(void **state)
{
    struct errinfo ei = {0};
    struct stat st;

    (void)state;
    assert_int_equal(fanout_file_replace(in_folder("a"), STR("head\n"), STR("text"), 0600, &ei), E_OK);
    assert_content("head\ntext");
    assert_int_equal(stat(in_folder("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(fanout_file_replace(in_folder("a"), (struct str){0}, (struct str){0}, 0644, &ei), E_OK);
    assert_content("");
    assert_int_equal(stat(in_folder("a"), &st), 0);
    assert_int_equal(st.st_mode & 0700, 0600);
}

static void what_cannot_be_replaced_is_left_alone(void **state)
{
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(fanout_file_replace(in_folder("none/a"), STR("x"), STR("y"), 0600, &ei), E_IO);
    assert_non_null(strstr(ei.text, "none/a"));
    assert_int_equal(mkdir(in_folder("a"), 0700), 0);
    assert_int_equal(fanout_file_replace(in_folder("a"), STR("x"), STR("y"), 0600, &ei), E_IO);
}

static void only_an_ordinary_file_of_bounded_size_is_read(void **state)
{
    struct errinfo ei = {0};
    struct buf text = {0};

    (void)state;
    assert_int_equal(fanout_file_read(in_folder("a"), &text, &ei), E_NOTFOUND);
    assert_int_equal(fanout_file_read("/dev/zero", &text, &ei), E_IO);
    assert_int_equal(fanout_file_read(folder, &text, &ei), E_IO);
    assert_int_equal(mkfifo(in_folder("a"), 0600), 0);
    assert_int_equal(fanout_file_read(in_folder("a"), &text, &ei), E_IO);
    assert_int_equal(remove(in_folder("a")), 0);
    assert_int_equal(fanout_file_replace(in_folder("a"), STR("x"), (struct str){0}, 0600, &ei), E_OK);
    assert_int_equal(truncate(in_folder("a"), CONFIG_MAX_TEXT_BYTES + 1), 0);
    assert_int_equal(fanout_file_read(in_folder("a"), &text, &ei), E_LIMIT);
    buf_free(&text, MEM_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_replaced_as_a_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_replaced_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_an_ordinary_file_of_bounded_size_is_read, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
