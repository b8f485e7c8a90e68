#include "kafka/kafka_consumer_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

enum { N = 64 };

static struct source_record records[N];

/* A window that has handed out offsets `from` to `from` + n - 1; record i has offset from + i. */
static void open_window(struct kafka_window *w, int64_t from, size_t n)
{
    kafka_window_start(w, from, (struct str){0});
    for (size_t i = 0; i < n; i++) {
        records[i] = (struct source_record){.offset = from + (int64_t)i, .bytes = 10};
        assert_true(kafka_window_wants(w, records[i].offset));
        kafka_window_add(w, &records[i]);
    }
}

static void close_window(struct kafka_window *w)
{
    struct list stale;

    list_init(&stale);
    kafka_window_clear(w, &stale);
    assert_int_equal(w->n_unsettled, 0);
    assert_int_equal(w->unsettled_bytes, 0);
}

static struct str format(const struct kafka_window *w)
{
    static char text[KAFKA_WINDOW_METADATA_BYTES];

    return (struct str){text, kafka_window_format(w, text, sizeof text)};
}

static void the_commit_point_is_the_first_offset_not_done(void **state)
{
    struct kafka_window w;

    (void)state;
    open_window(&w, 100, 4);
    assert_int_equal(kafka_window_commit_point(&w), 100);
    kafka_window_settle(&w, &records[1]);
    assert_int_equal(kafka_window_commit_point(&w), 100);
    kafka_window_settle(&w, &records[0]);
    assert_int_equal(kafka_window_commit_point(&w), 102);
    kafka_window_settle(&w, &records[3]);
    kafka_window_settle(&w, &records[2]);
    assert_int_equal(kafka_window_commit_point(&w), 104);
    assert_int_equal(format(&w).n, 0);
    assert_int_equal(w.n_unsettled, 0);
    assert_int_equal(w.unsettled_bytes, 0);
    close_window(&w);
}

static void without_anything_done_behind_it_there_is_no_metadata(void **state)
{
    struct kafka_window w;

    (void)state;
    open_window(&w, 7, 5);
    assert_int_equal(format(&w).n, 0);
    kafka_window_settle(&w, &records[0]);
    assert_int_equal(format(&w).n, 0);
    close_window(&w);
}

/* What a window that starts where another one left wants of the offsets up to `end` is what that had not settled. */
static void check_restart(struct kafka_window *w, int64_t end)
{
    struct kafka_window next;
    int64_t from = kafka_window_commit_point(w);

    kafka_window_start(&next, from, format(w));
    for (int64_t offset = from; offset < end; offset++) {
        struct source_record *r = &records[offset - records[0].offset];
        struct source_record copy = *r;
        bool is_open = list_is_linked(&r->link);

        assert_int_equal(kafka_window_wants(&next, offset), is_open);
        if (is_open) {
            kafka_window_add(&next, &copy);
            kafka_window_settle(&next, &copy);
        }
    }
    assert_int_equal(kafka_window_commit_point(&next), end);
    assert_true(kafka_window_wants(&next, end));
    close_window(&next);
}

static void a_restart_gets_what_was_not_settled_and_only_that(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 500; round++) {
        struct kafka_window w;

        open_window(&w, 1000, N);
        for (size_t i = 0; i < N; i++)
            if (rand() % (2 + round % 5) == 0)
                kafka_window_settle(&w, &records[i]);
        check_restart(&w, 1000 + N);
        close_window(&w);
    }
}

static void what_an_earlier_run_left_is_kept_until_it_comes(void **state)
{
    struct kafka_window w, next;

    (void)state;
    open_window(&w, 0, 10);
    for (size_t i = 1; i < 10; i++)
        if (i != 5 && i != 8)
            kafka_window_settle(&w, &records[i]);
    kafka_window_start(&next, 0, format(&w));
    assert_int_equal(next.n_undone, 3);
    close_window(&w);
    assert_true(kafka_window_wants(&next, 0));
    records[0].is_stale = false;
    kafka_window_add(&next, &records[0]);
    kafka_window_settle(&next, &records[0]);
    assert_int_equal(kafka_window_commit_point(&next), 5);
    kafka_window_start(&w, 5, format(&next)); /* a third run, begun from the second's metadata */
    assert_true(kafka_window_wants(&w, 5));
    w.next_offset = 6;
    assert_false(kafka_window_wants(&w, 6));
    assert_false(kafka_window_wants(&w, 7));
    assert_true(kafka_window_wants(&w, 8));
    w.next_offset = 9;
    assert_false(kafka_window_wants(&w, 9));
    assert_true(kafka_window_wants(&w, 10));
    close_window(&next);
    close_window(&w);
}

static void offsets_that_do_not_exist_hold_nothing_up(void **state)
{
    static const int64_t offsets[] = {3, 7, 8, 20};
    struct kafka_window w;

    (void)state;
    kafka_window_start(&w, 0, (struct str){0});
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        records[i] = (struct source_record){.offset = offsets[i]};
        assert_true(kafka_window_wants(&w, offsets[i]));
        kafka_window_add(&w, &records[i]);
    }
    assert_false(kafka_window_wants(&w, 8));
    kafka_window_settle(&w, &records[0]);
    assert_int_equal(kafka_window_commit_point(&w), 7);
    kafka_window_settle(&w, &records[2]);
    kafka_window_settle(&w, &records[1]);
    assert_int_equal(kafka_window_commit_point(&w), 20);
    close_window(&w);
}

static void without_room_for_all_metadata_more_comes_again(void **state)
{
    struct kafka_window w, next;
    char text[8];
    size_t n;

    (void)state;
    open_window(&w, 0, N);
    for (size_t i = 1; i < N; i += 2)
        kafka_window_settle(&w, &records[i]);
    n = kafka_window_format(&w, text, sizeof text);
    assert_int_equal(n, 8);
    kafka_window_start(&next, 0, (struct str){text, n});
    assert_int_equal(next.done_end, 6);
    assert_true(kafka_window_wants(&next, 6));
    assert_int_equal(kafka_window_format(&w, text, 3), 0);
    assert_int_equal(kafka_window_format(&w, text, 0), 0);
    close_window(&next);
    close_window(&w);
}

static void foreign_metadata_counts_as_none(void **state)
{
    static const char *const texts[] = {
        "", "x", "1:", "2:BB", "1:B", "1:B!", "1:AB", "1:BA", "1:ggggggggggggggggg", "1:99999999gBB"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct kafka_window w;

        kafka_window_start(&w, 5, str_from(texts[i]));
        assert_true(w.done_end <= 5);
        assert_true(kafka_window_wants(&w, 5));
        close_window(&w);
    }
}

static void records_of_a_topic_made_anew_are_stale(void **state)
{
    struct kafka_window w;
    struct list stale;

    (void)state;
    list_init(&stale);
    open_window(&w, 50, 3);
    kafka_window_clear(&w, &stale);
    kafka_window_start(&w, 0, (struct str){0});
    for (size_t i = 0; i < 3; i++) {
        assert_true(records[i].is_stale);
        assert_true(list_is_linked(&records[i].link));
    }
    assert_true(kafka_window_wants(&w, 0));
    close_window(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_commit_point_is_the_first_offset_not_done),
        cmocka_unit_test(without_anything_done_behind_it_there_is_no_metadata),
        cmocka_unit_test(a_restart_gets_what_was_not_settled_and_only_that),
        cmocka_unit_test(what_an_earlier_run_left_is_kept_until_it_comes),
        cmocka_unit_test(offsets_that_do_not_exist_hold_nothing_up),
        cmocka_unit_test(without_room_for_all_metadata_more_comes_again),
        cmocka_unit_test(foreign_metadata_counts_as_none),
        cmocka_unit_test(records_of_a_topic_made_anew_are_stale),
    };

    return cmocka_run_group_tests_name("kafka_consumer_window", tests, NULL, NULL);
}
