#include "main/revocation_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "registry/crl_fixture_test.h"
#include "registry/revocation_list.h"

#define BASE "kafka: {bootstrap: k1:9092}\nlisteners: [{mqtt: 127.0.0.1:1883}]\n"

static struct config_errors errors;
static char folder[64], config_file[96];
static struct chain_fixture_party root, gone;

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/millrace-crls-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(config_file, sizeof config_file, "%s/millrace.yaml", folder);
    root = chain_fixture_issue("root", NULL, (struct chain_fixture_traits){.is_ca = true});
    gone = chain_fixture_issue("gone", &root, (struct chain_fixture_traits){0});
    return 0;
}

/* All that a test has put there. */
static void clear(void)
{
    static const char *const names[] = {"root.crl", "notes.txt", ".hidden.crl", "a.crl", "b.pem"};
    char path[128];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

static err load(const char *dir, struct revocation_lists **out_lists, void (*each)(void *context, const char *path),
                void *context)
{
    char text[256];
    struct config_source source = {.text = {text, 0}, .name = config_file};
    struct config *config;
    err e;

    source.text.n = (size_t)snprintf(text, sizeof text, BASE "authentication: {revocation: {crl_dir: \"%s\"}}\n", dir);
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    e = revocation_options_load(config, config_file, out_lists, &errors);
    if (each)
        revocation_options_list_files(config, config_file, each, context);
    config_unref(config);
    return e;
}

static int tear_down(void **state)
{
    (void)state;
    clear();
    chain_fixture_free(&root);
    chain_fixture_free(&gone);
    return 0;
}

static void put(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void count_each(void *context, const char *path)
{
    assert_true(strncmp(path, folder, strlen(folder)) == 0);
    ++*(unsigned *)context;
}

static void the_lists_of_a_folder_are_read_and_watched(void **state)
{
    struct crl_fixture crl = crl_fixture_make(&root, &gone, (struct crl_fixture_traits){0});
    struct revocation_lists *lists;
    unsigned n = 0;
    int64_t until_s;

    (void)state;
    put("root.crl", crl.pem);
    put("notes.txt", "no list");
    put(".hidden.crl", "no list");
    assert_int_equal(load(".", &lists, count_each, &n), E_OK); /* relative to the configuration's file */
    assert_int_equal(n, 2);
    assert_int_equal(revocation_list_check(lists, gone.cert, root.cert, (int64_t)time(NULL), &until_s), REVOCATION_REVOKED);
    revocation_list_unref(lists);
    assert_int_equal(load("", &lists, NULL, NULL), E_OK);
    assert_null(lists);
}

static void what_is_wrong_with_them_is_told_by_file(void **state)
{
    struct revocation_lists *lists;

    (void)state;
    put("a.crl", "nonsense");
    put("b.pem", "");
    assert_int_equal(load(".", &lists, NULL, NULL), E_INVAL);
    assert_int_equal(errors.count, 2);
    assert_non_null(strstr(errors.items[0].text, "/a.crl: has no certificate revocation list"));
    assert_int_equal(load("nowhere", &lists, NULL, NULL), E_INVAL);
    assert_non_null(strstr(errors.items[0].text, "No such file or directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lists_of_a_folder_are_read_and_watched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_them_is_told_by_file, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("revocation_options", tests, NULL, NULL);
}
