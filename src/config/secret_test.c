#include "config/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

struct folder {
    struct arena arena;
    char path[64];
    char config_file[96]; /* beside which relative references are looked for; need not exist */
    char secret_file[96];
};

static int make_folder(void **state)
{
    static struct folder folder;

    folder = (struct folder){.path = "/tmp/millrace-secret-XXXXXX"};
    if (!mkdtemp(folder.path))
        return -1;
    (void)snprintf(folder.config_file, sizeof folder.config_file, "%s/millrace.yaml", folder.path);
    (void)snprintf(folder.secret_file, sizeof folder.secret_file, "%s/secret", folder.path);
    *state = &folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;

    arena_wipe(&folder->arena, MEM_CONFIG);
    (void)unlink(folder->secret_file); /* some tests make none */
    return rmdir(folder->path);
}

static void write_secret(const struct folder *folder, const char *bytes, size_t n)
{
    FILE *file = fopen(folder->secret_file, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void only_two_prefixes_make_a_reference(void **state)
{
    (void)state;
    assert_true(secret_is_reference(STR("file:/x")));
    assert_true(secret_is_reference(STR("env:X")));
    assert_false(secret_is_reference(STR("files:/x")));
    assert_false(secret_is_reference(STR("File:/x")));
    assert_false(secret_is_reference(STR("")));
}

static void a_file_is_read_without_one_line_end(void **state)
{
    static const struct {
        const char *content, *want;
    } rows[] = {
        {"s3cret", "s3cret"}, {"s3cret\n", "s3cret"}, {"s3cret\r\n", "s3cret"}, {"two\n\n", "two\n"}, {" a b ", " a b "}};
    struct folder *folder = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str value;
        char reference[128];

        write_secret(folder, rows[i].content, strlen(rows[i].content));
        assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, NULL), E_OK);
        assert_string_equal(value.p, rows[i].want);
        (void)snprintf(reference, sizeof reference, "file:%s", folder->secret_file);
        assert_int_equal(secret_read(&folder->arena, str_from(reference), NULL, &value, NULL), E_OK);
        assert_string_equal(value.p, rows[i].want);
    }
}

static void what_is_no_usable_file_is_refused_without_waiting(void **state)
{
    struct folder *folder = *state;
    static char large[SECRET_MAX_BYTES + 1];
    struct errinfo ei = {0};
    struct str value;

    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_NOTFOUND);
    assert_string_equal(ei.text, "No such file or directory");
    assert_int_equal(secret_read(&folder->arena, STR("file:"), folder->config_file, &value, &ei), E_INVAL);
    assert_int_equal(secret_read(&folder->arena, STR("file:."), folder->config_file, &value, &ei), E_IO);
    assert_int_equal(mkfifo(folder->secret_file, 0600), 0);
    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_IO);
    assert_string_equal(ei.text, "it is not an ordinary file");
    assert_int_equal(unlink(folder->secret_file), 0);
    write_secret(folder, "\n", 1);
    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_INVAL);
    write_secret(folder, "a\0b", 3);
    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_INVAL);
    memset(large, 'x', sizeof large);
    write_secret(folder, large, sizeof large);
    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_LIMIT);
    write_secret(folder, large, SECRET_MAX_BYTES);
    assert_int_equal(secret_read(&folder->arena, STR("file:secret"), folder->config_file, &value, &ei), E_OK);
    assert_int_equal(value.n, SECRET_MAX_BYTES);
}

static void a_variable_is_read_as_it_is(void **state)
{
    struct folder *folder = *state;
    struct errinfo ei = {0};
    struct str value;

    assert_int_equal(setenv("MILLRACE_TEST_SECRET", "a b\n", 1), 0);
    assert_int_equal(secret_read(&folder->arena, STR("env:MILLRACE_TEST_SECRET"), NULL, &value, &ei), E_OK);
    assert_string_equal(value.p, "a b\n");
    assert_int_equal(setenv("MILLRACE_TEST_SECRET", "", 1), 0);
    assert_int_equal(secret_read(&folder->arena, STR("env:MILLRACE_TEST_SECRET"), NULL, &value, &ei), E_INVAL);
    assert_int_equal(unsetenv("MILLRACE_TEST_SECRET"), 0);
    assert_int_equal(secret_read(&folder->arena, STR("env:MILLRACE_TEST_SECRET"), NULL, &value, &ei), E_NOTFOUND);
    assert_int_equal(secret_read(&folder->arena, STR("env:"), NULL, &value, &ei), E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_two_prefixes_make_a_reference, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_is_read_without_one_line_end, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_usable_file_is_refused_without_waiting, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_variable_is_read_as_it_is, make_folder, remove_folder),
    };

    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
