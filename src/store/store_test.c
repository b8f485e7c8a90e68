#include "store/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/store_file.h"

struct fixture {
    char path[64];
    struct store *s;
    struct store_db db;
};

static void open_again(struct fixture *f, uint64_t max_bytes)
{
    const struct store_options options = {.path = f->path, .max_bytes = max_bytes};
    struct errinfo ei = {0};

    if (store_open(&options, &f->s, &ei) != E_OK)
        fail_msg("%s", ei.text);
    assert_int_equal(store_db_open(f->s, "things", &f->db, &ei), E_OK);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    snprintf(f->path, sizeof f->path, "/tmp/store-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    open_again(f, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char path[STORE_PATH_BYTES];
    struct errinfo ei;

    store_close(f->s);
    assert_int_equal(store_erase(f->path, &ei), E_OK);
    unlink(store_file_path(path, f->path, STORE_FILE_OWNER));
    assert_int_equal(rmdir(f->path), 0);
    assert_int_equal(mem_used(MEM_STORE), 0);
    free(f);
    return 0;
}

static struct str numbered(char out[32], const char *prefix, unsigned i)
{
    int n = snprintf(out, 32, "%s%06u", prefix, i);

    return (struct str){out, (size_t)n};
}

/* Keys from `from` on, each with `value_bytes` bytes of its own. */
static void fill(struct fixture *f, unsigned from, unsigned to, size_t value_bytes)
{
    char *value = calloc(1, value_bytes + 1);
    struct store_txn txn;
    char key[32];

    assert_int_equal(store_begin(f->s, &txn), E_OK);
    for (unsigned i = from; i < to; i++) {
        memset(value, 'a' + (int)(i % 26), value_bytes);
        assert_int_equal(store_put(&txn, f->db, numbered(key, "k", i), (struct str){value, value_bytes}), E_OK);
    }
    assert_int_equal(store_commit(&txn, NULL), E_OK);
    free(value);
}

static unsigned count(struct fixture *f)
{
    struct store_txn txn;
    uint64_t n;

    assert_int_equal(store_reader_open(f->s, &txn), E_OK);
    n = store_count(&txn, f->db);
    store_reader_close(&txn);
    return (unsigned)n;
}

static void test_what_is_committed_is_there_and_what_is_undone_is_not(void **state)
{
    struct fixture *f = *state;
    struct store_txn txn = {0};
    struct str value;

    assert_int_equal(store_begin(f->s, &txn), E_OK);
    assert_int_equal(store_put(&txn, f->db, STR("a"), STR("1")), E_OK);
    assert_int_equal(store_commit(&txn, NULL), E_OK);
    assert_int_equal(store_begin(f->s, &txn), E_OK);
    assert_int_equal(store_put(&txn, f->db, STR("a"), STR("2")), E_OK);
    assert_int_equal(store_put(&txn, f->db, STR("b"), STR("2")), E_OK);
    assert_int_equal(store_get(&txn, f->db, STR("a"), &value), E_OK);
    assert_true(str_equal(value, STR("2")));
    store_abort(&txn);
    store_close(f->s);
    open_again(f, 0);
    assert_int_equal(store_reader_open(f->s, &txn), E_OK);
    assert_int_equal(store_get(&txn, f->db, STR("a"), &value), E_OK);
    assert_true(str_equal(value, STR("1")));
    assert_int_equal(store_get(&txn, f->db, STR("b"), &value), E_NOTFOUND);
    store_reader_close(&txn);
}

static void test_a_reader_stays_at_its_moment_until_it_is_renewed(void **state)
{
    struct fixture *f = *state;
    struct store_txn reader;
    struct str value;

    fill(f, 0, 1, 3);
    assert_int_equal(store_reader_open(f->s, &reader), E_OK);
    assert_int_equal(store_get(&reader, f->db, STR("k000000"), &value), E_OK);
    fill(f, 0, 2, 5);
    assert_true(str_equal(value, STR("aaa")));
    assert_int_equal(store_get(&reader, f->db, STR("k000001"), &value), E_NOTFOUND);
    store_reader_rest(&reader);
    assert_int_equal(store_get(&reader, f->db, STR("k000001"), &value), E_IO);
    assert_int_equal(store_reader_renew(&reader), E_OK);
    assert_int_equal(store_get(&reader, f->db, STR("k000001"), &value), E_OK);
    assert_int_equal(value.n, 5);
    store_reader_close(&reader);
}

static void test_keys_are_walked_in_the_order_of_their_bytes(void **state)
{
    static const char *const keys[] = {"b", "ab", "a", "c", "abc"}, *const sorted[] = {"a", "ab", "abc", "b", "c"};
    struct fixture *f = *state;
    struct store_cursor c = {0};
    struct store_txn txn;
    size_t n = 0;

    assert_int_equal(store_begin(f->s, &txn), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_int_equal(store_put(&txn, f->db, str_from(keys[i]), STR("")), E_OK);
    assert_int_equal(store_cursor_open(&txn, f->db, &c), E_OK);
    for (err e = store_cursor_seek(&c, STR("")); e == E_OK; e = store_cursor_next(&c))
        assert_true(str_equal(c.key, str_from(sorted[n++])));
    assert_int_equal(n, ARRAY_LEN(sorted));
    assert_int_equal(store_cursor_seek(&c, STR("aa")), E_OK);
    assert_true(str_equal(c.key, STR("ab")));
    assert_int_equal(store_cursor_remove(&c), E_OK);
    assert_int_equal(store_cursor_next(&c), E_OK);
    assert_true(str_equal(c.key, STR("abc")));
    assert_int_equal(store_cursor_last(&c), E_OK);
    assert_true(str_equal(c.key, STR("c")));
    assert_int_equal(store_cursor_seek(&c, STR("d")), E_NOTFOUND);
    store_cursor_close(&c);
    assert_int_equal(store_count(&txn, f->db), 4);
    store_abort(&txn);
}

static void test_a_key_that_cannot_be_stored_fails_alone(void **state)
{
    static const char long_key[STORE_KEY_MAX + 1];
    struct fixture *f = *state;
    struct store_txn txn;
    struct str value;

    assert_int_equal(store_begin(f->s, &txn), E_OK);
    assert_int_equal(store_put(&txn, f->db, (struct str){long_key, sizeof long_key}, STR("1")), E_LIMIT);
    assert_int_equal(store_put(&txn, f->db, STR(""), STR("1")), E_LIMIT);
    assert_int_equal(store_get(&txn, f->db, (struct str){long_key, sizeof long_key}, &value), E_NOTFOUND);
    assert_int_equal(store_remove(&txn, f->db, STR("x")), E_NOTFOUND);
    assert_int_equal(store_put(&txn, f->db, (struct str){long_key, STORE_KEY_MAX}, STR("1")), E_OK);
    assert_int_equal(store_commit(&txn, NULL), E_OK);
    assert_int_equal(count(f), 1);
}

static void test_a_full_file_refuses_and_keeps_what_it_has(void **state)
{
    struct fixture *f = *state;
    struct errinfo ei = {0};
    struct store_txn txn;
    char value[3000] = "", key[32];
    err e = E_OK;

    store_close(f->s);
    open_again(f, 256 << 10);
    fill(f, 0, 10, sizeof value);
    assert_int_equal(store_begin(f->s, &txn), E_OK);
    for (unsigned i = 10; i < 1000 && e == E_OK; i++)
        e = store_put(&txn, f->db, numbered(key, "k", i), (struct str){value, sizeof value});
    assert_int_equal(e, E_LIMIT);
    assert_int_equal(store_put(&txn, f->db, STR("k"), STR("v")), E_LIMIT);
    assert_int_equal(store_commit(&txn, &ei), E_LIMIT);
    assert_non_null(strstr(ei.text, "is full: its bound is 262144 bytes"));
    assert_int_equal(count(f), 10);
    fill(f, 0, 11, 100);
    assert_int_equal(count(f), 11);
    assert_true(store_used_bytes(f->s) <= store_max_bytes(f->s));
}

static void test_a_directory_that_is_open_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct store_options options = {.path = f->path};
    struct errinfo ei = {0};
    struct store *second = NULL;
    int status;
    pid_t pid;

    assert_int_equal(store_open(&options, &second, &ei), E_BUSY);
    pid = fork();
    if (pid == 0)
        _exit(store_open(&options, &second, &ei) == E_BUSY && strstr(ei.text, "in use by another process") ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(store_erase(f->path, &ei), E_BUSY);
    assert_int_equal(count(f), 0);
}

static void test_what_stands_in_the_way_is_named(void **state)
{
    struct fixture *f = *state;
    char path[STORE_PATH_BYTES];
    struct store_options options = {.path = store_file_path(path, f->path, "no/such")};
    struct errinfo ei = {0};
    struct store *second = NULL;

    assert_int_equal(store_open(&options, &second, &ei), E_IO);
    assert_non_null(strstr(ei.text, "no/such cannot be made: No such file"));
    options.path = store_file_path(path, f->path, STORE_FILE_OWNER);
    assert_int_equal(store_open(&options, &second, &ei), E_IO);
    assert_non_null(strstr(ei.text, "Not a directory"));
}

static void *read_all(void *context)
{
    struct fixture *f = context;
    struct store_txn txn;
    struct str value;
    char key[32];
    unsigned n = 0, before = 0;

    assert_int_equal(store_reader_open(f->s, &txn), E_OK);
    while (n < 2000) {
        assert_int_equal(store_reader_renew(&txn), E_OK);
        n = (unsigned)store_count(&txn, f->db);
        assert_true(n >= before && n % 100 == 0);
        before = n;
        for (unsigned i = 0; i < n; i += 97)
            assert_int_equal(store_get(&txn, f->db, numbered(key, "k", i), &value), E_OK);
    }
    store_reader_close(&txn);
    return NULL;
}

static void test_threads_read_whole_commits_while_one_writes(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, f), 0);
    for (unsigned i = 0; i < 2000; i += 100)
        fill(f, i, i + 100, 50);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
}

/* Writes commits of ten keys each and says after each how many there are; ended by force by its parent. */
static void write_until_killed(const char *path, int to)
{
    struct fixture f = {0};

    snprintf(f.path, sizeof f.path, "%s", path);
    open_again(&f, 0);
    for (unsigned i = count(&f);; i += 10) {
        fill(&f, i, i + 10, i % 3 ? 100 : 6000);
        if (write(to, &(unsigned){i + 10}, sizeof i) != sizeof i)
            _exit(1);
    }
}

static void test_a_writer_killed_at_any_point_loses_nothing_it_had_committed(void **state)
{
    struct fixture *f = *state;
    unsigned told = 0;

    store_close(f->s);
    for (unsigned round = 0; round < 12; round++) {
        int pipe_fds[2];
        pid_t pid;

        assert_int_equal(pipe(pipe_fds), 0);
        pid = fork();
        if (pid == 0) {
            close(pipe_fds[0]);
            write_until_killed(f->path, pipe_fds[1]);
        }
        close(pipe_fds[1]);
        for (unsigned i = 0; i <= round % 4; i++)
            assert_int_equal(read(pipe_fds[0], &told, sizeof told), sizeof told);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (read(pipe_fds[0], &told, sizeof told) == sizeof told)
            ;
        close(pipe_fds[0]);
        open_again(f, 0);
        /* One more may have been committed and not told. */
        assert_true(count(f) == told || count(f) == told + 10);
        store_close(f->s);
    }
    open_again(f, 0);
}

/* A store with branches, large values and a free list, closed; its bytes, owned by the caller. */
static struct str closed_file(struct fixture *f)
{
    char path[STORE_PATH_BYTES];
    struct str file;
    struct stat st;
    int fd;

    fill(f, 0, 2000, 100);
    fill(f, 500, 520, 9000);
    fill(f, 0, 300, 10);
    store_close(f->s);
    f->s = NULL;
    fd = open(store_file_path(path, f->path, STORE_FILE_DATA), O_RDONLY);
    assert_int_equal(fstat(fd, &st), 0);
    file = (struct str){malloc((size_t)st.st_size), (size_t)st.st_size};
    assert_int_equal(read(fd, (char *)(uintptr_t)file.p, file.n), file.n);
    close(fd);
    return file;
}

static void replace_file(struct fixture *f, struct str content)
{
    char path[STORE_PATH_BYTES];
    int fd = open(store_file_path(path, f->path, STORE_FILE_DATA), O_WRONLY | O_TRUNC);

    assert_int_equal(write(fd, content.p, content.n), content.n);
    close(fd);
}

static void test_a_file_cut_off_anywhere_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct store_options options = {.path = f->path};
    struct str file = closed_file(f);
    struct errinfo ei = {0};
    unsigned n_refused = 0;

    for (size_t n = 1; n < file.n; n += 3989) {
        replace_file(f, (struct str){file.p, n});
        if (store_open(&options, &f->s, &ei) == E_OK) {
            /* Nothing that anybody needs was behind. */
            assert_true(n > file.n / 2);
            assert_int_equal(store_db_open(f->s, "things", &f->db, &ei), E_OK);
            assert_int_equal(count(f), 2000);
            fill(f, 0, 2000, 100);
            store_close(f->s);
        } else {
            assert_int_equal(ei.code, E_PROTO);
            assert_non_null(strstr(ei.text, "is damaged"));
            n_refused++;
        }
    }
    assert_true(n_refused > file.n / 3989 / 2);
    replace_file(f, file);
    open_again(f, 0);
    assert_int_equal(count(f), 2000);
    free((char *)(uintptr_t)file.p);
}

/* Every word of the pages' heads and entries, changed one at a time: refused, or harmless. Values are not LMDB's business. */
static void test_a_file_written_over_is_refused_or_harmless(void **state)
{
    struct fixture *f = *state;
    const struct store_options options = {.path = f->path};
    struct str file = closed_file(f);
    char *bytes = (char *)(uintptr_t)file.p;
    struct errinfo ei = {0};
    unsigned n_refused = 0;

    for (size_t page = 0; page < file.n; page += 4096)
        for (size_t at = page + 2; at < page + 32; at += 7) {
            char before = bytes[at];

            bytes[at] = (char)(before ^ 0x55);
            replace_file(f, file);
            bytes[at] = before;
            if (store_open(&options, &f->s, &ei) == E_OK)
                store_close(f->s);
            else
                n_refused++;
        }
    assert_true(n_refused > 100);
    replace_file(f, STR("#!/bin/sh\necho this is something else\n"));
    assert_int_equal(store_open(&options, &f->s, &ei), E_PROTO);
    assert_int_equal(store_erase(f->path, &ei), E_OK);
    open_again(f, 0);
    assert_int_equal(count(f), 0);
    free(bytes);
}

static void test_what_can_be_made_anew_begins_with_nothing_when_it_is_damaged(void **state)
{
    struct fixture *f = *state;
    const struct store_options options = {.path = f->path, .durability = STORE_REBUILDABLE};
    struct str file = closed_file(f);
    struct errinfo ei = {0};

    replace_file(f, (struct str){file.p, file.n / 2});
    assert_int_equal(store_open(&options, &f->s, &ei), E_OK);
    assert_non_null(strstr(store_damage(f->s), "is damaged: "));
    assert_int_equal(store_db_open(f->s, "things", &f->db, &ei), E_OK);
    fill(f, 0, 10, 10);
    store_close(f->s);
    assert_int_equal(store_open(&options, &f->s, &ei), E_OK);
    assert_null(store_damage(f->s));
    assert_int_equal(store_db_open(f->s, "things", &f->db, &ei), E_OK);
    assert_int_equal(count(f), 10);
    free((char *)(uintptr_t)file.p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_committed_is_there_and_what_is_undone_is_not),
        TEST(test_a_reader_stays_at_its_moment_until_it_is_renewed),
        TEST(test_keys_are_walked_in_the_order_of_their_bytes),
        TEST(test_a_key_that_cannot_be_stored_fails_alone),
        TEST(test_a_full_file_refuses_and_keeps_what_it_has),
        TEST(test_a_directory_that_is_open_is_refused),
        TEST(test_what_stands_in_the_way_is_named),
        TEST(test_threads_read_whole_commits_while_one_writes),
        TEST(test_a_writer_killed_at_any_point_loses_nothing_it_had_committed),
        TEST(test_a_file_cut_off_anywhere_is_refused),
        TEST(test_a_file_written_over_is_refused_or_harmless),
        TEST(test_what_can_be_made_anew_begins_with_nothing_when_it_is_damaged),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
