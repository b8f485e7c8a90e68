#include "table/table.h"

#include "table/table_fixture.h"

static int set_up(void **state)
{
    struct table_fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);

    memset(f, 0, sizeof *f);
    fixture_init(f);
    fixture_open(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_fini(*state);
    free(*state);
    return 0;
}

static void test_a_change_is_in_the_view_when_it_is_answered(void **state)
{
    struct table_fixture *f = *state;

    assert_int_equal(fixture_do(f, "put a/1 x"), E_OK);
    assert_true(fixture_has(f, "a/1", "x"));
    assert_int_equal(fixture_do(f, "remove a/1"), E_OK);
    assert_true(fixture_has(f, "a/1", NULL));
    assert_int_equal(fixture_do(f, "put a/2 "), E_OK);
    assert_true(fixture_has(f, "a/2", ""));
    assert_int_equal(f->n_applied, 3);
}

static void test_a_refused_change_leaves_no_trace(void **state)
{
    struct table_fixture *f = *state;
    struct fixture_write w;
    char *before, *after;

    assert_int_equal(fixture_do(f, "put a/1 x"), E_OK);
    before = fixture_dump(f);
    assert_int_equal(fixture_do(f, "create a/1 y"), E_DENIED);
    assert_int_equal(fixture_do(f, "both a/2 a/1 z"), E_DENIED);
    assert_int_equal(fixture_do(f, "remove a/9"), E_DENIED);
    fixture_ask(f, &w, "dance");
    assert_int_equal(fixture_answer(f, &w), E_DENIED);
    assert_true(str_equal(buf_str(&w.write.reply), STR("what?")));
    fixture_forget(&w);
    after = fixture_dump(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
    fixture_close(f);
    fixture_open(f);
    assert_true(fixture_has(f, "a/2", NULL));
}

static void test_requests_are_decided_in_order_each_seeing_those_before(void **state)
{
    enum { N = 3000 };
    struct table_fixture *f = *state;
    struct fixture_write *writes = calloc(N, sizeof *writes);

    for (unsigned i = 0; i < N; i++)
        fixture_ask(f, &writes[i], i % 3 == 0 ? "add a/n" : i % 3 == 1 ? "both a/n a/n 7" : "create a/n 9");
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(fixture_answer(f, &writes[i]), i % 3 == 0 ? E_OK : E_DENIED);
    assert_true(fixture_has(f, "a/n", "1000"));
    free(writes);
}

/* What the owner walks is the view with the changes of the batch over it, whichever of both a key is in. */
static void test_the_owner_walks_what_was_decided_and_what_it_has_just_changed(void **state)
{
    static const char *const requests[] = {"put a/2 new", "remove a/3", "put a/1 x", "put b/1 x", "put a/6 x", "remove a/6"};
    struct table_fixture *f = *state;
    struct fixture_write writes[ARRAY_LEN(requests) + 1];

    assert_int_equal(fixture_do(f, "put a/2 x"), E_OK);
    assert_int_equal(fixture_do(f, "put a/3 x"), E_OK);
    assert_int_equal(fixture_do(f, "put a/4 x"), E_OK);
    assert_int_equal(fixture_do(f, "put a/5 x"), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++)
        fixture_ask(f, &writes[i], requests[i]);
    fixture_ask(f, &writes[ARRAY_LEN(requests)], "list a/");
    for (size_t i = 0; i < ARRAY_LEN(writes); i++)
        assert_int_equal(fixture_answer(f, &writes[i]), E_OK);
    assert_true(str_equal(buf_str(&writes[ARRAY_LEN(requests)].write.reply), STR("a/1 a/2 a/4 a/5 ")));
    fixture_forget(&writes[ARRAY_LEN(requests)]);
}

static void fill_key(char *out, size_t n, char last)
{
    memset(out, 'k', n);
    out[0] = 'a';
    out[1] = '/';
    out[n - 1] = last;
    out[n] = 0;
}

static void test_long_keys_are_keys_like_any_other(void **state)
{
    static const size_t lengths[] = {439, 440, 441, 500, 1000, TABLE_KEY_MAX};
    struct table_fixture *f = *state;
    struct table_item item = {.offset = 0};
    struct table_reader r;
    char key[TABLE_KEY_MAX + 1], text[TABLE_KEY_MAX + 32];
    unsigned n = 0;

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (char last = 'x'; last <= 'y'; last++) {
            fill_key(key, lengths[i], last);
            snprintf(text, sizeof text, "create %s %c%zu", key, last, lengths[i]);
            assert_int_equal(fixture_do(f, text), E_OK);
            assert_int_equal(fixture_do(f, text), E_DENIED);
        }
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        fill_key(key, lengths[i], 'y');
        snprintf(text, sizeof text, "y%zu", lengths[i]);
        assert_true(fixture_has(f, key, text));
        fill_key(key, lengths[i], 'z');
        assert_true(fixture_has(f, key, NULL));
    }
    assert_int_equal(table_reader_open(f->t, &r), E_OK);
    fill_key(key, 400, 'k');
    while (table_reader_next(&r, STR("a"), str_from(key), item.key, &item))
        n++;
    assert_int_equal(n, 2 * ARRAY_LEN(lengths));
    fill_key(key, 480, 'k');
    for (item = (struct table_item){.offset = 0}, n = 0; table_reader_next(&r, STR("a"), str_from(key), item.key, &item);)
        n++;
    assert_int_equal(n, 6);
    table_reader_close(&r);
}

static void test_keys_are_walked_by_prefix_and_from_any_place(void **state)
{
    struct table_fixture *f = *state;
    struct table_reader r;
    struct table_item item;

    assert_int_equal(fixture_do(f, "put a/b/1 x"), E_OK);
    assert_int_equal(fixture_do(f, "put a/b/2 y"), E_OK);
    assert_int_equal(fixture_do(f, "put a/c z"), E_OK);
    assert_int_equal(table_reader_open(f->t, &r), E_OK);
    assert_true(table_reader_next(&r, STR("a"), STR("a/b/"), STR(""), &item));
    assert_true(str_equal(item.key, STR("a/b/1")) && str_equal(item.value, STR("x")));
    assert_true(table_reader_next(&r, STR("a"), STR("a/b/"), STR("a/b/1"), &item));
    assert_true(str_equal(item.key, STR("a/b/2")));
    assert_false(table_reader_next(&r, STR("a"), STR("a/b/"), STR("a/b/2"), &item));
    assert_true(table_reader_next(&r, STR("a"), STR("a/"), STR("a/b/15"), &item));
    assert_true(str_equal(item.key, STR("a/b/2")));
    assert_true(table_reader_next(&r, STR("a"), STR("a/c"), STR("a/a"), &item));
    assert_true(str_equal(item.key, STR("a/c")));
    assert_false(table_reader_next(&r, STR("a"), STR("a/c"), STR("b"), &item));
    table_reader_close(&r);
}

static void test_a_reader_stays_at_its_moment(void **state)
{
    struct table_fixture *f = *state;
    struct table_reader r;
    struct table_item item;

    assert_int_equal(fixture_do(f, "put a/1 x"), E_OK);
    assert_int_equal(table_reader_open(f->t, &r), E_OK);
    assert_int_equal(fixture_do(f, "put a/1 longer"), E_OK);
    assert_true(table_reader_get(&r, STR("a"), STR("a/1"), &item));
    assert_true(str_equal(item.value, STR("x")));
    table_reader_renew(&r);
    assert_true(table_reader_get(&r, STR("a"), STR("a/1"), &item));
    assert_true(str_equal(item.value, STR("longer")));
    table_reader_rest(&r);
    assert_false(table_reader_get(&r, STR("a"), STR("a/1"), &item));
    table_reader_renew(&r);
    assert_true(table_reader_get(&r, STR("a"), STR("a/1"), &item));
    table_reader_close(&r);
}

static void fill(struct table_fixture *f, unsigned n)
{
    struct fixture_write *writes = calloc(n, sizeof *writes);
    char text[64];

    for (unsigned i = 0; i < n; i++) {
        snprintf(text, sizeof text, "put %c/%u value-%u", 'a' + (int)(i % 7), i % 500, i);
        fixture_ask(f, &writes[i], text);
    }
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(fixture_answer(f, &writes[i]), E_OK);
    free(writes);
}

static void test_a_restart_goes_on_where_it_was(void **state)
{
    struct table_fixture *f = *state;
    char *before, *after;

    fill(f, 2000);
    assert_int_equal(fixture_do(f, "remove a/0"), E_OK);
    before = fixture_dump(f);
    fixture_close(f);
    fixture_open(f);
    after = fixture_dump(f);
    assert_string_equal(before, after);
    assert_int_equal(f->n_applied, 0);
    assert_int_equal(f->n_rebuilt, 0);
    assert_int_equal(fixture_do(f, "create a/0 x"), E_OK);
    free(before);
    free(after);
}

static void test_a_lost_view_is_built_again_from_the_log(void **state)
{
    struct table_fixture *f = *state;
    struct errinfo ei;
    char *before, *after;

    fill(f, 2000);
    assert_int_equal(fixture_do(f, "remove b/1"), E_OK);
    before = fixture_dump(f);
    fixture_close(f);
    assert_int_equal(store_erase(f->view_path, &ei), E_OK);
    fixture_open(f);
    after = fixture_dump(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_a_view_of_another_log_is_built_again(void **state)
{
    struct table_fixture *f = *state;
    struct errinfo ei;

    fill(f, 100);
    fixture_close(f);
    assert_int_equal(store_erase(f->log_path, &ei), E_OK);
    fixture_open(f);
    assert_true(f->n_rebuilt > 0);
    assert_true(fixture_has(f, "a/0", NULL));
    assert_int_equal(fixture_do(f, "create a/0 x"), E_OK);
    assert_true(fixture_has(f, "a/0", "x"));
}

static uint64_t count_in_log(struct table_fixture *f, const char *database)
{
    struct errinfo ei;
    struct store_db db;
    struct store_txn txn;
    uint64_t n;

    assert_int_equal(store_db_open(f->log_store, database, &db, &ei), E_OK);
    assert_int_equal(store_reader_open(f->log_store, &txn), E_OK);
    n = store_count(&txn, db);
    store_reader_close(&txn);
    return n;
}

static void test_the_log_keeps_the_last_state_of_each_key_only(void **state)
{
    enum { N = 1500 };
    struct table_fixture *f = *state;
    struct fixture_write *writes = calloc(2 * N, sizeof *writes);
    char text[64];

    fill(f, 3000);
    /* 500 numbers with 7 letters: 3000 keys were written, and one mark in each partition. */
    assert_in_range(count_in_log(f, "things.log"), 3000, 3000 + FIXTURE_PARTITIONS);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(fixture_do(f, "add n/n"), E_OK);
    assert_in_range(count_in_log(f, "things.log"), 3001, 3001 + FIXTURE_PARTITIONS);
    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof text, "put z/%u x", i);
        fixture_ask(f, &writes[2 * i], text);
        snprintf(text, sizeof text, "remove z/%u", i);
        fixture_ask(f, &writes[2 * i + 1], text);
    }
    for (unsigned i = 0; i < 2 * N; i++)
        assert_int_equal(fixture_answer(f, &writes[i]), E_OK);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(fixture_do(f, "put z/0 x"), E_OK);
        assert_int_equal(fixture_do(f, "remove z/0"), E_OK);
    }
    assert_true(count_in_log(f, "things.removals") < N);
    assert_in_range(count_in_log(f, "things.log"), 4000, 4000 + N);
    free(writes);
}

struct barrier {
    struct table_barrier barrier;
    bool is_done;
};

static void on_barrier(struct mail *m)
{
    CONTAINER_OF(CONTAINER_OF(m, struct table_barrier, mail), struct barrier, barrier)->is_done = true;
}

static void test_whoever_catches_up_has_all_that_was_decided(void **state)
{
    struct table_fixture *f = *state;
    struct barrier barriers[20] = {0};

    assert_int_equal(fixture_do(f, "put a/1 x"), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(barriers); i++) {
        barriers[i].barrier.mail.on_mail = on_barrier;
        barriers[i].barrier.home = &f->loop.mailbox;
        table_catch_up(f->t, STR("a"), 60000, &barriers[i].barrier);
    }
    for (size_t i = 0; i < ARRAY_LEN(barriers); i++) {
        fixture_wait(f, &barriers[i].is_done, "a barrier");
        assert_int_equal(barriers[i].barrier.result, E_OK);
    }
}

static void test_what_cannot_be_stored_is_refused(void **state)
{
    struct table_fixture *f = *state;
    char *text = calloc(1, TABLE_REQUEST_MAX + 2);
    struct fixture_write w;

    memset(text, 'x', TABLE_REQUEST_MAX + 1);
    fixture_ask(f, &w, "put a/1 x");
    assert_int_equal(fixture_answer(f, &w), E_OK);
    w.is_done = false;
    w.write.request = (struct str){text, TABLE_REQUEST_MAX + 1};
    table_write(f->t, &w.write);
    assert_int_equal(fixture_answer(f, &w), E_LIMIT);
    memcpy(text, "put a/1 ", 8);
    w.is_done = false;
    w.write.request = (struct str){text, TABLE_VALUE_MAX + 9};
    table_write(f->t, &w.write);
    assert_int_equal(fixture_answer(f, &w), E_DENIED);
    w.is_done = false;
    w.write.request = (struct str){text, TABLE_VALUE_MAX + 8};
    table_write(f->t, &w.write);
    assert_int_equal(fixture_answer(f, &w), E_OK);
    w.is_done = false;
    w.write.request = STR("put  x");
    table_write(f->t, &w.write);
    assert_int_equal(fixture_answer(f, &w), E_DENIED);
    free(text);
}

static void test_every_request_is_answered_when_the_table_closes(void **state)
{
    enum { N = 2000 };
    struct table_fixture *f = *state;
    struct fixture_write *writes = calloc(N, sizeof *writes);
    unsigned n_accepted = 0;
    char text[64];

    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof text, "create a/%u x", i);
        fixture_ask(f, &writes[i], text);
    }
    fixture_close(f);
    for (unsigned i = 0; i < N; i++) {
        err e = fixture_answer(f, &writes[i]);

        assert_true(e == E_OK || e == E_CLOSED || e == E_TIMEOUT);
        n_accepted += e == E_OK;
    }
    fixture_open(f);
    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof text, "a/%u", i);
        assert_true(writes[i].write.result == E_TIMEOUT || fixture_has(f, text, writes[i].write.result == E_OK ? "x" : NULL));
    }
    assert_true(n_accepted > 0);
    free(writes);
}

static void test_a_log_with_another_number_of_partitions_is_refused(void **state)
{
    struct table_fixture *f = *state;
    struct table_log *log = NULL;
    struct errinfo ei = {0};

    assert_int_equal(table_log_local_open(f->log_store, "things", FIXTURE_PARTITIONS + 1, &log, &ei), E_INVAL);
    assert_string_equal(ei.text, "the log of table things has 3 partitions, not 4; their number cannot change");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_change_is_in_the_view_when_it_is_answered),
        TEST(test_a_refused_change_leaves_no_trace),
        TEST(test_requests_are_decided_in_order_each_seeing_those_before),
        TEST(test_the_owner_walks_what_was_decided_and_what_it_has_just_changed),
        TEST(test_long_keys_are_keys_like_any_other),
        TEST(test_keys_are_walked_by_prefix_and_from_any_place),
        TEST(test_a_reader_stays_at_its_moment),
        TEST(test_a_restart_goes_on_where_it_was),
        TEST(test_a_lost_view_is_built_again_from_the_log),
        TEST(test_a_view_of_another_log_is_built_again),
        TEST(test_the_log_keeps_the_last_state_of_each_key_only),
        TEST(test_whoever_catches_up_has_all_that_was_decided),
        TEST(test_what_cannot_be_stored_is_refused),
        TEST(test_every_request_is_answered_when_the_table_closes),
        TEST(test_a_log_with_another_number_of_partitions_is_refused),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
