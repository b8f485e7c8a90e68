/* A table over a log that does what the test says: owners that are not owners any more, commits that come to nothing, records of
 * other versions, states and replies in any order. */
#include "core/table_log.h"

#include <semaphore.h>

#include "table/table_fixture.h"
#include "table/table_key.h"
#include "table/table_record.h"

enum { RECORDS = 64, RECORD_BYTES = 512 };

struct fake_record {
    size_t key_n, n;
    bool is_removed;
    char key[RECORD_BYTES], bytes[RECORD_BYTES];
};

struct fake_log {
    struct table_log log;
    const struct table_log_user *user;
    struct fake_record requests[RECORDS], states[RECORDS], replies[RECORDS];
    unsigned n_requests, n_taken, n_states, n_replies; /* states and replies of the batch that is to be committed */
    unsigned partition;
    unsigned n_commits;
    uint64_t end_offset; /* what is answered, unless is_mute */
    bool is_mute;
    struct fake_end {
        struct mail mail;
        struct fake_log *log;
        unsigned partition;
    } ends[FIXTURE_PARTITIONS];
};

struct harness {
    struct table_fixture f; /* the first, so that it is found from it */
    struct fake_log log;
};

/* --- the table's thread --- */

struct call {
    struct mail mail;
    void (*run)(struct harness *h, void *argument);
    struct harness *h;
    void *argument;
    sem_t done;
};

static void on_call(struct mail *m)
{
    struct call *c = CONTAINER_OF(m, struct call, mail);

    c->run(c->h, c->argument);
    sem_post(&c->done);
}

/* Runs something on the table's thread, after all that was posted to it, and waits for it. */
static void on_thread(struct harness *h, void (*run)(struct harness *h, void *argument), void *argument)
{
    struct call c = {.mail = {.on_mail = on_call}, .run = run, .h = h, .argument = argument};

    sem_init(&c.done, 0, 0);
    mailbox_post(&h->log.user->loop->mailbox, &c.mail);
    while (sem_wait(&c.done))
        ;
    sem_destroy(&c.done);
}

static void do_nothing(struct harness *h, void *argument)
{
    (void)h;
    (void)argument;
}

/* Until what has been posted so far, and what comes of it at once, has been done. */
static void settle(struct harness *h)
{
    on_thread(h, do_nothing, NULL);
    on_thread(h, do_nothing, NULL);
}

/* --- the log --- */

static struct fake_log *fake_of(struct table_log *log)
{
    return CONTAINER_OF(log, struct fake_log, log);
}

static void fake_keep(struct fake_record *r, struct str key, struct str bytes)
{
    ASSERT(key.n <= sizeof r->key && bytes.n <= sizeof r->bytes);
    *r = (struct fake_record){.key_n = key.n, .n = bytes.n, .is_removed = bytes.p == NULL};
    memcpy(r->key, key.p ? key.p : "", key.n);
    memcpy(r->bytes, bytes.p ? bytes.p : "", bytes.n);
}

static err fake_attach(struct table_log *log, const struct table_log_user *user, const struct table_log_position *positions,
                       struct errinfo *ei)
{
    (void)positions;
    (void)ei;
    fake_of(log)->user = user;
    return E_OK;
}

static void fake_detach(struct table_log *log)
{
    (void)log;
}

static err fake_append(struct table_log *log, unsigned partition, uint64_t id, struct str key, struct str record)
{
    struct fake_log *l = fake_of(log);

    (void)id;
    (void)key;
    l->partition = partition;
    if (l->n_requests == RECORDS)
        return E_BUSY;
    fake_keep(&l->requests[l->n_requests++], (struct str){0}, record);
    return E_OK;
}

static bool fake_next(struct table_log *log, unsigned partition, struct table_log_request *out_request)
{
    struct fake_log *l = fake_of(log);

    if (l->n_taken == l->n_requests || partition != l->partition)
        return false;
    *out_request = (struct table_log_request){.position = l->n_taken,
                                              .record = {l->requests[l->n_taken].bytes, l->requests[l->n_taken].n}};
    l->n_taken++;
    return true;
}

static void fake_commit(struct table_log *log, unsigned partition, const struct table_log_batch *batch)
{
    struct fake_log *l = fake_of(log);

    ASSERT(partition == l->partition);
    l->n_commits++;
    l->n_states = l->n_replies = 0;
    for (size_t i = 0; i < batch->n_states; i++)
        fake_keep(&l->states[l->n_states++], batch->states[i].key, batch->states[i].value);
    for (size_t i = 0; i < batch->n_replies; i++)
        fake_keep(&l->replies[l->n_replies++], (struct str){0}, batch->replies[i]);
}

static void on_end(struct mail *m)
{
    struct fake_end *end = CONTAINER_OF(m, struct fake_end, mail);

    end->log->user->on_end(end->log->user->context, end->partition, E_OK, end->log->end_offset);
}

static void fake_ask_end(struct table_log *log, unsigned partition)
{
    struct fake_log *l = fake_of(log);

    l->ends[partition] = (struct fake_end){.mail = {.on_mail = on_end}, .log = l, .partition = partition};
    if (!l->is_mute)
        mailbox_post(&l->user->loop->mailbox, &l->ends[partition].mail);
}

static const struct table_log_ops fake_ops = {.attach = fake_attach,
                                              .detach = fake_detach,
                                              .append = fake_append,
                                              .next = fake_next,
                                              .commit = fake_commit,
                                              .ask_end = fake_ask_end};

/* --- what the test lets the log do --- */

struct states_call {
    const struct table_log_state *list;
    size_t n;
    uint64_t next_offset;
    bool is_taken;
};

static void call_states(struct harness *h, void *argument)
{
    struct states_call *c = argument;

    c->is_taken = h->log.user->on_states(h->log.user->context, h->log.partition, c->list, c->n, c->next_offset);
}

static bool give_states(struct harness *h, const struct table_log_state *list, size_t n, uint64_t next_offset)
{
    struct states_call c = {.list = list, .n = n, .next_offset = next_offset};

    on_thread(h, call_states, &c);
    return c.is_taken;
}

/* The states of the last batch, as those who read the log get them, from `offset` on. */
static void give_batch(struct harness *h, uint64_t offset)
{
    struct table_log_state list[RECORDS];
    struct fake_log *l = &h->log;

    for (unsigned i = 0; i < l->n_states; i++)
        list[i] = (struct table_log_state){
            .offset = offset + i,
            .key = {l->states[i].key, l->states[i].key_n},
            .value = {l->states[i].is_removed ? NULL : l->states[i].bytes, l->states[i].n},
        };
    assert_true(give_states(h, list, l->n_states, offset + l->n_states));
}

static void call_replies(struct harness *h, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < h->log.n_replies; i++)
        h->log.user->on_reply(h->log.user->context, (struct str){h->log.replies[i].bytes, h->log.replies[i].n});
}

static void give_replies(struct harness *h)
{
    on_thread(h, call_replies, NULL);
}

static void call_committed(struct harness *h, void *argument)
{
    const err result = *(const err *)argument;

    if (result == E_AGAIN)
        h->log.n_taken = 0;
    h->log.user->on_committed(h->log.user->context, h->log.partition, result);
}

static void end_commit(struct harness *h, err result)
{
    on_thread(h, call_committed, &result);
}

struct owner_call {
    bool is_owner;
    uint64_t end_offset;
};

static void call_owner(struct harness *h, void *argument)
{
    const struct owner_call *c = argument;

    h->log.user->on_owner(h->log.user->context, h->log.partition, c->is_owner, c->end_offset);
}

static void set_owner(struct harness *h, bool is_owner, uint64_t end_offset)
{
    struct owner_call c = {is_owner, end_offset};

    on_thread(h, call_owner, &c);
}

static void call_requests(struct harness *h, void *argument)
{
    (void)argument;
    h->log.user->on_requests(h->log.user->context, h->log.partition);
}

/* Lets the table see the requests it has appended. */
static void give_requests(struct harness *h)
{
    settle(h);
    on_thread(h, call_requests, NULL);
}

static int set_up(void **state)
{
    struct harness *h = aligned_alloc(64, (sizeof *h + 63) / 64 * 64);

    memset(h, 0, sizeof *h);
    fixture_init(&h->f);
    h->log.log.ops = &fake_ops;
    h->log.partition = table_key_partition(STR("a"), FIXTURE_PARTITIONS);
    h->f.view_store = fixture_store(h->f.view_path, STORE_REBUILDABLE);
    fixture_open_table(&h->f, &h->log.log);
    fixture_wait(&h->f, &h->f.is_opened, "the table to open");
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    struct harness *h = *state;

    fixture_fini(&h->f);
    free(h);
    return 0;
}

static struct str version_2 = STR_INIT("\002snew things");

static void test_an_answer_waits_until_the_view_has_the_states(void **state)
{
    struct harness *h = *state;
    struct fixture_write w;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "put a/1 x");
    give_requests(h);
    assert_int_equal(h->log.n_commits, 1);
    give_replies(h);
    end_commit(h, E_OK);
    settle(h);
    loop_turn(&h->f.loop, 0);
    assert_false(w.is_done);
    give_batch(h, 7);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    assert_true(fixture_has(&h->f, "a/1", "x"));
}

static void test_states_of_long_ago_do_not_answer_for_those_of_now(void **state)
{
    struct harness *h = *state;
    struct buf mark = {0};
    struct fixture_write w;
    struct table_log_state old = {.offset = 3, .key = STR(TABLE_RECORD_MARK_KEY)};

    /* The requests were numbered anew: a mark of before is of a later one. */
    assert_int_equal(table_record_write_mark(&mark, 1000), E_OK);
    old.value = buf_str(&mark);
    assert_true(give_states(h, &old, 1, 4));
    set_owner(h, true, 4);
    fixture_ask(&h->f, &w, "put a/1 x");
    give_requests(h);
    give_replies(h);
    end_commit(h, E_OK);
    settle(h);
    loop_turn(&h->f.loop, 0);
    assert_false(w.is_done);
    give_batch(h, 4);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    buf_free(&mark, MEM_TABLE);
}

static void test_nothing_is_decided_before_the_view_has_what_was_decided_before(void **state)
{
    struct harness *h = *state;
    struct buf record = {0};
    struct fixture_write w;
    struct table_log_state theirs = {.offset = 5, .key = STR("a/1")};

    fixture_ask(&h->f, &w, "create a/1 mine");
    settle(h);
    set_owner(h, true, 6);
    give_requests(h);
    assert_int_equal(h->log.n_commits, 0);
    assert_int_equal(table_record_write_state(&record, STR("theirs")), E_OK);
    theirs.value = buf_str(&record);
    assert_true(give_states(h, &theirs, 1, 6));
    assert_int_equal(h->log.n_commits, 1);
    assert_int_equal(h->log.n_states, 0);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &w), E_DENIED);
    assert_true(fixture_has(&h->f, "a/1", "theirs"));
    buf_free(&record, MEM_TABLE);
}

static void test_the_next_batch_waits_for_the_states_of_the_last(void **state)
{
    struct harness *h = *state;
    struct fixture_write w, second;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "create a/1 x");
    give_requests(h);
    end_commit(h, E_OK);
    fixture_ask(&h->f, &second, "create a/1 y");
    give_requests(h);
    assert_int_equal(h->log.n_commits, 1);
    give_replies(h);
    give_batch(h, 0);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    assert_int_equal(h->log.n_commits, 2);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &second), E_DENIED);
}

static void test_a_stale_owner_changes_nothing_and_says_nothing(void **state)
{
    struct harness *h = *state;
    struct fixture_write w;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "create a/1 x");
    give_requests(h);
    set_owner(h, false, 0);
    end_commit(h, E_DENIED);
    settle(h);
    loop_turn(&h->f.loop, 0);
    assert_false(w.is_done);
    assert_true(fixture_has(&h->f, "a/1", NULL));
    /* The other owner decides the same, and its reply answers. */
    give_batch(h, 9);
    give_replies(h);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    assert_true(fixture_has(&h->f, "a/1", "x"));
}

static void test_what_was_undone_is_decided_again_as_if_for_the_first_time(void **state)
{
    struct harness *h = *state;
    struct fixture_write w;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "add a/n");
    give_requests(h);
    end_commit(h, E_AGAIN);
    assert_int_equal(h->log.n_commits, 2);
    assert_int_equal(h->log.n_states, 2);
    give_batch(h, 0);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    assert_true(fixture_has(&h->f, "a/n", "1"));
}

static void test_writers_learn_that_the_disk_refused(void **state)
{
    struct harness *h = *state;
    struct fixture_write w;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "put a/1 x");
    give_requests(h);
    end_commit(h, E_LIMIT);
    assert_int_equal(fixture_answer(&h->f, &w), E_IO);
    assert_true(fixture_has(&h->f, "a/1", NULL));
}

static void test_states_of_a_later_version_are_kept_and_passed_over(void **state)
{
    struct harness *h = *state;
    const struct table_log_state list[] = {
        {.offset = 0, .key = STR("a/1"), .value = version_2},
        {.offset = 1, .key = STR("a/2"), .value = STR("")},
        {.offset = 2, .key = STR("a/3"), .value = STR("\001q")},
        {.offset = 3, .key = STR("\0later"), .value = version_2},
    };
    static const char *const requests[] = {"put a/1 x", "create a/1 x", "remove a/1", "both a/4 a/1 x"};
    struct fixture_write w;
    char *dump;

    assert_true(give_states(h, list, ARRAY_LEN(list), 4));
    dump = fixture_dump(&h->f);
    assert_string_equal(dump, "");
    free(dump);
    set_owner(h, true, 4);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        fixture_ask(&h->f, &w, requests[i]);
        give_requests(h);
        assert_int_equal(h->log.n_states, 0);
        give_replies(h);
        end_commit(h, E_OK);
        assert_int_equal(fixture_answer(&h->f, &w), E_DENIED);
    }
    assert_int_equal(h->f.n_applied, 0);
    /* Where nothing but garbage stood, there is nothing to be kept. */
    fixture_ask(&h->f, &w, "create a/2 x");
    give_requests(h);
    give_batch(h, 4);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
    assert_true(fixture_has(&h->f, "a/1", NULL));
    /* The version that wrote it may remove it. */
    assert_true(give_states(h, &(struct table_log_state){.offset = 6, .key = STR("a/1")}, 1, 7));
    fixture_ask(&h->f, &w, "create a/1 x");
    give_requests(h);
    give_batch(h, 7);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
}

static void test_requests_of_a_later_version_are_refused_and_answered(void **state)
{
    struct harness *h = *state;
    struct table_record_reply reply;
    static const char request[] = "\007qinstance-of-now-12345678new things";

    set_owner(h, true, 0);
    fake_keep(&h->log.requests[0], (struct str){0}, (struct str){request, sizeof request - 1});
    fake_keep(&h->log.requests[1], (struct str){0}, STR("nothing that anybody knows"));
    fake_keep(&h->log.requests[2], (struct str){0}, STR(""));
    h->log.n_requests = 3;
    give_requests(h);
    assert_int_equal(h->log.n_commits, 1);
    assert_int_equal(h->log.n_replies, 1);
    assert_int_equal(table_record_read_reply((struct str){h->log.replies[0].bytes, h->log.replies[0].n}, &reply), E_OK);
    assert_memory_equal(reply.instance, "instance-of-now-", sizeof reply.instance);
    assert_int_equal(reply.verdict, TABLE_RECORD_REFUSED);
    end_commit(h, E_OK);
}

static void call_garbage(struct harness *h, void *argument)
{
    static const char *const replies[] = {"", "\001", "\001r", "\002r0123456789012345678901234567890123456789",
                                          "\001qqqqqqqqqqq"};

    (void)argument;
    for (size_t i = 0; i < ARRAY_LEN(replies); i++)
        h->log.user->on_reply(h->log.user->context, str_from(replies[i]));
}

static void test_replies_that_nobody_understands_are_nobodys(void **state)
{
    struct harness *h = *state;
    struct fixture_write w;

    set_owner(h, true, 0);
    fixture_ask(&h->f, &w, "put a/1 x");
    give_requests(h);
    on_thread(h, call_garbage, NULL);
    loop_turn(&h->f.loop, 0);
    assert_false(w.is_done);
    give_batch(h, 0);
    give_replies(h);
    give_replies(h);
    end_commit(h, E_OK);
    assert_int_equal(fixture_answer(&h->f, &w), E_OK);
}

static void call_reset(struct harness *h, void *argument)
{
    struct table_log_position begin = {.identity = "another log", .first_offset = 2, .next_offset = 2};

    (void)argument;
    assert_true(h->log.user->on_reset(h->log.user->context, h->log.partition, &begin));
}

static void test_another_log_empties_its_partition_alone(void **state)
{
    struct harness *h = *state;
    struct buf record = {0};
    struct table_log_state list[] = {{.offset = 0, .key = STR("a/1")}};
    unsigned a = h->log.partition;
    char key[] = "a/1";

    assert_int_equal(table_record_write_state(&record, STR("x")), E_OK);
    list[0].value = buf_str(&record);
    assert_true(give_states(h, list, 1, 1));
    while (h->log.partition == a) {
        key[0]++;
        h->log.partition = table_key_partition((struct str){key, 1}, FIXTURE_PARTITIONS);
    }
    list[0].key = str_from(key);
    assert_true(give_states(h, list, 1, 1));
    h->log.partition = a;
    on_thread(h, call_reset, NULL);
    assert_int_equal(h->f.n_rebuilt, 1);
    assert_true(fixture_has(&h->f, "a/1", NULL));
    assert_true(fixture_has(&h->f, key, "x"));
    assert_true(give_states(h, list, 1, 3));
    buf_free(&record, MEM_TABLE);
}

struct barrier {
    struct table_barrier barrier;
    bool is_done;
};

static void on_barrier(struct mail *m)
{
    CONTAINER_OF(CONTAINER_OF(m, struct table_barrier, mail), struct barrier, barrier)->is_done = true;
}

static void begin_barrier(struct harness *h, struct barrier *b, uint32_t limit_ms)
{
    *b = (struct barrier){.barrier = {.mail = {.on_mail = on_barrier}, .home = &h->f.loop.mailbox}};
    table_catch_up(h->f.t, STR("a"), limit_ms, &b->barrier);
}

static void test_catching_up_ends_when_the_view_has_the_end_or_time_is_over(void **state)
{
    struct harness *h = *state;
    struct barrier late, in_time;

    h->log.end_offset = 5;
    begin_barrier(h, &late, 1);
    fixture_wait(&h->f, &late.is_done, "the time to be over");
    assert_int_equal(late.barrier.result, E_TIMEOUT);
    begin_barrier(h, &in_time, 60000);
    settle(h);
    loop_turn(&h->f.loop, 0);
    assert_false(in_time.is_done);
    assert_true(give_states(h, NULL, 0, 5));
    fixture_wait(&h->f, &in_time.is_done, "the end");
    assert_int_equal(in_time.barrier.result, E_OK);
}

static void test_barriers_are_answered_when_the_table_closes(void **state)
{
    struct harness *h = *state;
    struct barrier b;

    h->log.is_mute = true;
    begin_barrier(h, &b, 60000);
    settle(h);
    fixture_close(&h->f);
    fixture_wait(&h->f, &b.is_done, "an answer");
    assert_int_equal(b.barrier.result, E_CLOSED);
}

static void test_too_much_at_a_time_is_refused_not_kept(void **state)
{
    struct harness *h = *state;
    struct fixture_write *writes = calloc(RECORDS + 2, sizeof *writes);

    for (size_t i = 0; i < RECORDS + 2; i++)
        fixture_ask(&h->f, &writes[i], "put a/1 x");
    assert_int_equal(fixture_answer(&h->f, &writes[RECORDS]), E_BUSY);
    assert_int_equal(fixture_answer(&h->f, &writes[RECORDS + 1]), E_BUSY);
    fixture_close(&h->f);
    for (size_t i = 0; i < RECORDS; i++)
        assert_int_equal(fixture_answer(&h->f, &writes[i]), E_TIMEOUT);
    free(writes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_an_answer_waits_until_the_view_has_the_states),
        TEST(test_states_of_long_ago_do_not_answer_for_those_of_now),
        TEST(test_nothing_is_decided_before_the_view_has_what_was_decided_before),
        TEST(test_the_next_batch_waits_for_the_states_of_the_last),
        TEST(test_a_stale_owner_changes_nothing_and_says_nothing),
        TEST(test_what_was_undone_is_decided_again_as_if_for_the_first_time),
        TEST(test_writers_learn_that_the_disk_refused),
        TEST(test_states_of_a_later_version_are_kept_and_passed_over),
        TEST(test_requests_of_a_later_version_are_refused_and_answered),
        TEST(test_replies_that_nobody_understands_are_nobodys),
        TEST(test_another_log_empties_its_partition_alone),
        TEST(test_catching_up_ends_when_the_view_has_the_end_or_time_is_over),
        TEST(test_barriers_are_answered_when_the_table_closes),
        TEST(test_too_much_at_a_time_is_refused_not_kept),
    };

    return cmocka_run_group_tests_name("table over a scripted log", tests, NULL, NULL);
}
