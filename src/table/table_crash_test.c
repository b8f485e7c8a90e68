/* A table over the local log in a process that is killed at any point of its work: what was accepted is there, what was refused has
 * no effect, and a view that has lost something is built again to the same. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "table/table_fixture.h"

enum { KEYS = 20000, WINDOW = 300 };

/* What the child says of each answer. */
struct said {
    unsigned number;
    err result;
};

struct world {
    struct table_fixture f; /* not open while there is a child */
    enum { UNKNOWN, ACCEPTED } state[KEYS];
    unsigned next; /* the first key that nobody has asked for */
};

static const char letters[] = "abcdefg";

/* Each fourth request is for a key of before, which is refused if that one was accepted. */
static void request_of(unsigned number, char *out, size_t n)
{
    if (number % 4 == 3)
        snprintf(out, n, "create %c/%u again", letters[(number - 3) % 7], number - 3);
    else
        snprintf(out, n, "create %c/%u value-%u", letters[number % 7], number, number);
}

/* The child: writes, keeping a window of requests open, until it is killed. */
static void write_until_killed(const struct world *before, int to)
{
    struct fixture_write *writes = calloc(WINDOW, sizeof *writes);
    struct table_fixture f = before->f;
    struct errinfo ei;
    unsigned first = before->next, next = first;

    if (loop_init(&f.loop, 0, &ei) != E_OK)
        _exit(1);
    fixture_open(&f);
    while (next < KEYS) {
        struct said said = {.number = first};
        char text[64];

        if (next - first < WINDOW) {
            request_of(next, text, sizeof text);
            fixture_ask(&f, &writes[next % WINDOW], text);
            next++;
            continue;
        }
        said.result = fixture_answer(&f, &writes[first % WINDOW]);
        fixture_forget(&writes[first % WINDOW]);
        if (write(to, &said, sizeof said) != sizeof said)
            _exit(1);
        first++;
    }
    _exit(0);
}

/* Lets a child work until it has said so many answers, and kills it in the middle of what it does then. */
static void work_and_kill(struct world *w, unsigned n_answers)
{
    struct said said;
    int pipe_fds[2];
    unsigned n = 0;
    pid_t pid;

    assert_int_equal(pipe(pipe_fds), 0);
    pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        write_until_killed(w, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    while (n < n_answers && read(pipe_fds[0], &said, sizeof said) == sizeof said) {
        n++;
        w->state[said.number] = said.result == E_OK ? ACCEPTED : UNKNOWN;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    while (read(pipe_fds[0], &said, sizeof said) == sizeof said) {
        n++;
        w->state[said.number] = said.result == E_OK ? ACCEPTED : UNKNOWN;
    }
    close(pipe_fds[0]);
    assert_true(n >= n_answers);
    w->next = (w->next + n + WINDOW + 3) / 4 * 4;
    assert_true(w->next < KEYS);
}

static void check(struct world *w)
{
    char key[32], value[32];
    unsigned n_accepted = 0;

    for (unsigned i = 0; i < w->next; i++) {
        if (i % 4 == 3)
            continue;
        snprintf(key, sizeof key, "%c/%u", letters[i % 7], i);
        snprintf(value, sizeof value, "value-%u", i);
        if (w->state[i] == ACCEPTED) {
            n_accepted++;
            assert_true(fixture_has(&w->f, key, value));
        } else {
            assert_true(fixture_has(&w->f, key, value) || fixture_has(&w->f, key, NULL));
        }
    }
    for (unsigned i = 3; i < w->next; i += 4)
        assert_true(w->state[i] != ACCEPTED);
    assert_true(n_accepted > 0 || w->next < 2 * WINDOW);
}

/* Writes over, or cuts off, the view's file. */
static void damage_view(const struct world *w, unsigned how)
{
    static const char garbage[8192] = "this is no database";
    struct errinfo ei;
    struct stat st;
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/data.mdb", w->f.view_path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    switch (how % 4) {
    case 0: /* lost */
        assert_int_equal(store_erase(w->f.view_path, &ei), E_OK);
        break;
    case 1: /* half-written */
        assert_int_equal(ftruncate(fd, st.st_size / 2 + 123), 0);
        break;
    case 2: /* something else */
        assert_int_equal(pwrite(fd, garbage, sizeof garbage, 0), sizeof garbage);
        break;
    case 3: /* a piece of something else */
        for (off_t at = 2 * 4096; at < st.st_size; at += 5 * 4096)
            assert_int_equal(pwrite(fd, garbage, 64, at), 64);
        break;
    }
    close(fd);
}

static int set_up(void **state)
{
    struct world *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);

    memset(w, 0, sizeof *w);
    fixture_init(&w->f);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    fixture_fini(&w->f);
    free(w);
    return 0;
}

static const unsigned points[] = {1, 0, 2, 700, 5, 350, 0, 13, 100, 50, 3, 1000, 21, 299, 301, 8};

static void test_a_process_killed_at_any_point_keeps_what_it_promised(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        work_and_kill(w, points[i]);
        fixture_open(&w->f);
        check(w);
        fixture_close(&w->f);
    }
}

static void test_a_process_killed_again_and_again_while_it_recovers_keeps_what_it_promised(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        work_and_kill(w, points[i] / 2);
    fixture_open(&w->f);
    check(w);
}

static void test_a_damaged_view_is_built_again_to_the_same(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 8; i++) {
        char *before, *after;

        work_and_kill(w, points[i] + 20);
        fixture_open(&w->f);
        before = fixture_dump(&w->f);
        fixture_close(&w->f);
        damage_view(w, i);
        fixture_open(&w->f);
        check(w);
        after = fixture_dump(&w->f);
        assert_string_equal(before, after);
        fixture_close(&w->f);
        free(before);
        free(after);
    }
}

static void test_a_view_damaged_by_the_crash_itself_is_built_again(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 8; i++) {
        work_and_kill(w, points[i] + 20);
        damage_view(w, i);
        fixture_open(&w->f);
        check(w);
        fixture_close(&w->f);
    }
}

static void test_a_damaged_log_is_refused_not_replaced(void **state)
{
    struct world *w = *state;
    const struct store_options options = {.path = w->f.log_path};
    struct errinfo ei = {0};
    struct store *s = NULL;
    struct stat st;
    char path[128];

    work_and_kill(w, 1000);
    snprintf(path, sizeof path, "%s/data.mdb", w->f.log_path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
    assert_int_equal(store_open(&options, &s, &ei), E_PROTO);
    assert_non_null(strstr(ei.text, "is damaged: it ends before"));
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_process_killed_at_any_point_keeps_what_it_promised),
        TEST(test_a_process_killed_again_and_again_while_it_recovers_keeps_what_it_promised),
        TEST(test_a_damaged_view_is_built_again_to_the_same),
        TEST(test_a_view_damaged_by_the_crash_itself_is_built_again),
        TEST(test_a_damaged_log_is_refused_not_replaced),
    };

    return cmocka_run_group_tests_name("table, crashing", tests, NULL, NULL);
}
