#include "loop/file_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

enum { PATH_BYTES = 512 };

static struct {
    struct loop loop;
    struct file_watch watch;
    unsigned n_changes;
    char folder[PATH_BYTES / 4], path[PATH_BYTES / 2];
} fx;

/* A path in the test's folder. */
static const char *in_folder(const char *name)
{
    static char path[2][PATH_BYTES];
    static unsigned which;

    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", fx.folder, name);
    return path[which];
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void on_change(struct file_watch *fw)
{
    (void)fw;
    fx.n_changes++;
}

static void watch(const char *name)
{
    struct file_watch_stamp before;

    snprintf(fx.path, sizeof fx.path, "%s/%s", fx.folder, name);
    before = file_watch_stamp(fx.path);
    assert_int_equal(file_watch_open(&fx.watch, &fx.loop, fx.path, FILE_WATCH_SETTLE_MS, &before, on_change, NULL), E_OK);
}

/* Exactly one more change is told. */
static void expect_change(void)
{
    unsigned before = fx.n_changes;

    while (fx.n_changes == before)
        loop_turn(&fx.loop, -1);
    assert_int_equal(fx.n_changes, before + 1);
    assert_false(wheel_is_set(&fx.watch.settle));
}

static int set_up(void **state)
{
    (void)state;
    memset(&fx, 0, sizeof fx);
    snprintf(fx.folder, sizeof fx.folder, "/tmp/file-watch-XXXXXX");
    assert_non_null(mkdtemp(fx.folder));
    assert_int_equal(loop_init(&fx.loop, 0, NULL), E_OK);
    return 0;
}

static int tear_down(void **state)
{
    char command[PATH_BYTES];

    (void)state;
    file_watch_close(&fx.watch);
    loop_fini(&fx.loop);
    snprintf(command, sizeof command, "rm -rf %s", fx.folder);
    return system(command);
}

static void a_file_written_in_place_is_told(void **state)
{
    (void)state;
    write_file("c.yaml", "a: 1\n");
    watch("c.yaml");
    write_file("c.yaml", "a: 22\n");
    expect_change();
}

static void several_writes_are_one_change(void **state)
{
    FILE *f;

    (void)state;
    write_file("c.yaml", "a: 1\n");
    watch("c.yaml");
    f = fopen(fx.path, "w");
    for (int i = 0; i < 5; i++) {
        fprintf(f, "key%d: 1\n", i);
        fflush(f);
    }
    fclose(f);
    expect_change();
}

static void a_file_renamed_over_it_is_told(void **state)
{
    (void)state;
    write_file("c.yaml", "a: 1\n");
    watch("c.yaml");
    for (int i = 0; i < 2; i++) {
        write_file("new", "a: 2\n");
        assert_int_equal(rename(in_folder("new"), fx.path), 0);
        expect_change();
    }
}

static void a_link_that_turns_to_another_folder_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char data[32], name[32];

        snprintf(data, sizeof data, "..data-%d", i);
        snprintf(name, sizeof name, "..data-%d/c.yaml", i);
        assert_int_equal(mkdir(in_folder(data), 0700), 0);
        write_file(name, "a: 1\n");
        assert_int_equal(symlink(data, in_folder("..data.new")), 0);
        assert_int_equal(rename(in_folder("..data.new"), in_folder("..data")), 0);
        if (i == 0) {
            assert_int_equal(symlink("..data/c.yaml", in_folder("c.yaml")), 0);
            watch("c.yaml");
            continue;
        }
        expect_change();
    }
    write_file("..data-2/c.yaml", "a: in place\n"); /* behind the link */
    expect_change();
}

static void a_link_to_a_file_elsewhere_is_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("there"), 0700), 0);
    write_file("there/real.yaml", "a: 1\n");
    assert_int_equal(symlink("there/real.yaml", in_folder("c.yaml")), 0);
    watch("c.yaml");
    write_file("there/real.yaml", "a: 22\n");
    expect_change();
}

static void a_file_that_goes_and_comes_back_is_told(void **state)
{
    (void)state;
    write_file("c.yaml", "a: 1\n");
    watch("c.yaml");
    assert_int_equal(unlink(fx.path), 0);
    expect_change();
    write_file("c.yaml", "a: 1\n");
    expect_change();
}

static void other_files_are_no_change(void **state)
{
    (void)state;
    write_file("c.yaml", "a: 1\n");
    watch("c.yaml");
    write_file("other", "a: 1\n");
    loop_turn(&fx.loop, -1);
    assert_false(wheel_is_set(&fx.watch.settle));
    assert_int_equal(fx.n_changes, 0);
}

static void a_change_before_it_was_watched_is_told(void **state)
{
    struct file_watch_stamp before;

    (void)state;
    write_file("c.yaml", "a: 1\n");
    snprintf(fx.path, sizeof fx.path, "%s/c.yaml", fx.folder);
    before = file_watch_stamp(fx.path);
    write_file("c.yaml", "a: 22\n");
    assert_int_equal(file_watch_open(&fx.watch, &fx.loop, fx.path, FILE_WATCH_SETTLE_MS, &before, on_change, NULL), E_OK);
    expect_change();
}

static void a_missing_folder_is_an_error_that_leaves_it_usable(void **state)
{
    struct file_watch_stamp before = {0};
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(
        file_watch_open(&fx.watch, &fx.loop, "/nowhere/at/all.yaml", FILE_WATCH_SETTLE_MS, &before, on_change, &ei), E_IO);
    assert_non_null(strstr(ei.text, "/nowhere/at/all.yaml"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_written_in_place_is_told),
        TEST(several_writes_are_one_change),
        TEST(a_file_renamed_over_it_is_told),
        TEST(a_link_that_turns_to_another_folder_is_told),
        TEST(a_link_to_a_file_elsewhere_is_followed),
        TEST(a_file_that_goes_and_comes_back_is_told),
        TEST(other_files_are_no_change),
        TEST(a_change_before_it_was_watched_is_told),
        TEST(a_missing_folder_is_an_error_that_leaves_it_usable),
    };

    return cmocka_run_group_tests_name("file_watch", tests, NULL, NULL);
}
