#include "fanout/fanout_park_disk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "fanout/fanout_park_index.h"
#include "fanout/fanout_park_order.h"
#include "loop/loop.h"
#include "store/store_file.h"

enum { LIMIT_MS = 20 * 1000 };

static struct fixture {
    char path[64];
    struct loop loop; /* of whoever parks, and of the carrier */
    struct fanout_park_disk *disk;
    unsigned n_answered;
} f;

/* ---- parcels ---- */

static struct cloudevent_attribute attributes[] = {
    {.name = STR_INIT("specversion"), .value = STR_INIT("1.0")},
    {.name = STR_INIT("id"), .value = STR_INIT("1")},
    {.name = STR_INIT("source"), .value = STR_INIT("/s")},
    {.name = STR_INIT("type"), .value = STR_INIT("t")},
    {.name = STR_INIT("n"), .value = STR_INIT("7"), .type = CLOUDEVENT_INTEGER},
};

static const struct cloudevent_attribute why[] = {
    {.name = STR_INIT("knativeerrorcode"), .value = STR_INIT("503")},
    {.name = STR_INIT("knativeerrordest"), .value = STR_INIT("http://a/")},
};

static struct cloudevent event_of(struct str data)
{
    return (struct cloudevent){.attributes = attributes,
                               .n_attributes = ARRAY_LEN(attributes),
                               .specversion = attributes[0].value,
                               .id = attributes[1].value,
                               .source = attributes[2].value,
                               .type = attributes[3].value,
                               .data = data,
                               .data_kind = CLOUDEVENT_BYTES};
}

static void on_parked(struct mail *m)
{
    (void)m;
    f.n_answered++;
}

static void wait_for(unsigned n)
{
    uint64_t end_ms = loop_clock_ms() + LIMIT_MS;

    while (f.n_answered < n) {
        loop_turn(&f.loop, 100);
        if (loop_clock_ms() > end_ms)
            fail_msg("%u answers of %u", f.n_answered, n);
    }
}

static void put(struct fanout_parcel *parcel, const struct cloudevent *event, const char *uid)
{
    *parcel = (struct fanout_parcel){
        .mail = {.on_mail = on_parked},
        .home = &f.loop.mailbox,
        .channel = STR("ns/c"),
        .uid = str_from(uid),
        .event = event,
        .extras = {why, ARRAY_LEN(why)},
        .lines = STR("x-a: 1\r\n"),
    };
    fanout_park_put(fanout_park_disk_port(f.disk), parcel);
}

static err park(struct str data)
{
    struct cloudevent event = event_of(data);
    struct fanout_parcel parcel;
    unsigned n = f.n_answered;

    put(&parcel, &event, "u");
    wait_for(n + 1);
    return parcel.result;
}

/* ---- a carrier on the fixture's loop ---- */

static struct carrier {
    struct fanout_park_carrier port;
    err answers[64]; /* of the attempts, in their order */
    unsigned n_attempts, n_flying, most_flying;
    bool is_holding;
    const char *dead; /* the uid of a subscription whose attempts all fail */
    unsigned n_dead;
    struct fanout_park_attempt *held[64];
    char data[64], uid[8], lines[32];
} carrier;

static void on_attempt(struct mail *m)
{
    struct fanout_park_attempt *attempt = CONTAINER_OF(m, struct fanout_park_attempt, mail);
    const struct fanout_park_record *record = attempt->record;

    snprintf(carrier.data, sizeof carrier.data, "%.*s", STR_ARG(record->event.data));
    snprintf(carrier.uid, sizeof carrier.uid, "%.*s", STR_ARG(record->uid));
    snprintf(carrier.lines, sizeof carrier.lines, "%.*s", STR_ARG(record->lines));
    assert_true(str_equal(record->event.id, STR("1")));
    assert_int_equal(record->event.attributes[4].type, CLOUDEVENT_INTEGER);
    assert_true(str_equal(record->extras.attributes[1].value, STR("http://a/")));
    if (++carrier.n_flying > carrier.most_flying)
        carrier.most_flying = carrier.n_flying;
    attempt->result = carrier.answers[carrier.n_attempts % ARRAY_LEN(carrier.answers)];
    carrier.held[carrier.n_attempts++ % ARRAY_LEN(carrier.held)] = attempt;
    if (carrier.is_holding)
        return;
    if (carrier.dead && strcmp(carrier.uid, carrier.dead) == 0) {
        attempt->result = E_IO;
        carrier.n_dead++;
    }
    carrier.n_flying--;
    fanout_park_disk_answer(attempt);
}

static void carry(struct fanout_park_carrier *c, struct fanout_park_attempt *attempt)
{
    (void)c;
    attempt->mail.on_mail = on_attempt;
    mailbox_post(&f.loop.mailbox, &attempt->mail);
}

static void wait_for_attempts(unsigned n)
{
    uint64_t end_ms = loop_clock_ms() + LIMIT_MS;

    while (carrier.n_attempts < n) {
        loop_turn(&f.loop, 100);
        if (loop_clock_ms() > end_ms)
            fail_msg("%u attempts of %u", carrier.n_attempts, n);
    }
}

/* ---- set up ---- */

static void open_disk_with(uint64_t max_bytes, uint32_t delay_ms, uint32_t delay_max_ms)
{
    const struct fanout_park_settings settings = {
        .path = f.path, .max_bytes = max_bytes, .delay_ms = delay_ms, .delay_max_ms = delay_max_ms};
    struct errinfo ei = {0};

    if (fanout_park_disk_open(&settings, &f.disk, &ei) != E_OK)
        fail_msg("%s", ei.text);
}

static void open_disk(uint64_t max_bytes)
{
    open_disk_with(max_bytes, 2, 20);
}

/* How many are parked, from the disk itself. */
static uint64_t count_parked(void)
{
    struct fanout_park_index index;
    struct errinfo ei = {0};
    uint64_t n;

    fanout_park_disk_close(f.disk);
    f.disk = NULL;
    if (fanout_park_index_open(&index, f.path, 1 << 20, &ei) != E_OK)
        fail_msg("%s", ei.text);
    n = index.n;
    fanout_park_index_close(&index);
    return n;
}

static int set_up(void **state)
{
    (void)state;
    f = (struct fixture){0};
    carrier = (struct carrier){.port = {carry}};
    snprintf(f.path, sizeof f.path, "/tmp/park-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    assert_int_equal(loop_init(&f.loop, 0, NULL), E_OK);
    open_disk(1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    char path[STORE_PATH_BYTES];

    (void)state;
    fanout_park_disk_close(f.disk);
    loop_fini(&f.loop);
    assert_int_equal(store_erase(f.path, NULL), E_OK);
    unlink(store_file_path(path, f.path, STORE_FILE_OWNER));
    assert_int_equal(rmdir(f.path), 0);
    assert_int_equal(mem_used(MEM_FANOUT), 0);
    return 0;
}

/* ---- tests ---- */

static void what_is_parked_is_there_after_the_next_start(void **state)
{
    (void)state;
    assert_int_equal(park(STR("one")), E_OK);
    assert_int_equal(park(STR("two")), E_OK);
    assert_int_equal(count_parked(), 2);
    open_disk(1 << 20);
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(2);
    assert_string_equal(carrier.uid, "u");
    assert_string_equal(carrier.lines, "x-a: 1\r\n");
    assert_int_equal(count_parked(), 0);
}

static void an_attempt_in_vain_is_made_again_until_it_is_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; i++)
        carrier.answers[i] = i % 2 ? E_IO : E_NOTFOUND;
    assert_int_equal(park(STR("stubborn")), E_OK);
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(8);
    assert_string_equal(carrier.data, "stubborn");
    assert_int_equal(count_parked(), 0);
    assert_int_equal(carrier.n_attempts, 8);
}

static void a_full_park_takes_nothing_more_until_there_is_room(void **state)
{
    static char large[4000];

    (void)state;
    assert_int_equal(park(STR("x")), E_OK);
    assert_int_equal(count_parked(), 1);
    open_disk(8000);
    assert_int_equal(park((struct str){large, sizeof large}), E_OK);
    assert_int_equal(park((struct str){large, sizeof large}), E_LIMIT);
    assert_int_equal(park(STR("small")), E_OK);
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(3);
    assert_int_equal(count_parked(), 0);
    open_disk(8000);
    assert_int_equal(park((struct str){large, sizeof large}), E_OK);
    assert_int_equal(count_parked(), 1);
}

static void a_slow_subscription_leaves_the_others_their_share(void **state)
{
    struct cloudevent event = event_of(STR("d"));
    static struct fanout_parcel parcels[40];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(parcels); i++)
        put(&parcels[i], &event, i + 1 < ARRAY_LEN(parcels) ? "slow" : "quick");
    wait_for(ARRAY_LEN(parcels));
    carrier.is_holding = true;
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(5); /* four of the slow one, and the other's one, though it is the last of all */
    assert_int_equal(carrier.most_flying, 5);
    carrier.is_holding = false;
    for (size_t i = 0; i < 5; i++)
        fanout_park_disk_answer(carrier.held[i]);
    carrier.n_flying = 0;
    wait_for_attempts(ARRAY_LEN(parcels));
    assert_int_equal(count_parked(), 0);
}

static void park_many(const char *uid, size_t n)
{
    static struct fanout_parcel parcels[500];
    struct cloudevent event = event_of(STR("d"));
    unsigned before = f.n_answered;

    assert_true(n <= ARRAY_LEN(parcels));
    for (size_t i = 0; i < n; i++)
        put(&parcels[i], &event, uid);
    wait_for(before + (unsigned)n);
}

static void a_subscription_that_is_down_rests_however_much_waits_for_it(void **state)
{
    (void)state;
    park_many("down", 500);
    park_many("well", 20);
    fanout_park_disk_close(f.disk);
    open_disk_with(1 << 20, 3600 * 1000, 3600 * 1000); /* whatever fails rests for long */
    carrier.dead = "down";
    fanout_park_disk_start(f.disk, &carrier.port);
    while (carrier.n_attempts - carrier.n_dead < 20 || carrier.n_dead < 4)
        wait_for_attempts(carrier.n_attempts + 1);
    assert_in_range(carrier.n_dead, 4, 7); /* four in a row, and those that were under way with the fourth */
    assert_int_equal(count_parked(), 500);
}

static void a_subscription_that_is_well_again_gets_all_that_waits_for_it(void **state)
{
    (void)state;
    park_many("down", 200);
    carrier.dead = "down";
    fanout_park_disk_start(f.disk, &carrier.port);
    while (carrier.n_dead < 10)
        wait_for_attempts(carrier.n_attempts + 1);
    carrier.dead = NULL;
    wait_for_attempts(carrier.n_attempts + 200);
    assert_int_equal(count_parked(), 0);
}

static void a_folder_belongs_to_one_park(void **state)
{
    const struct fanout_park_settings settings = {.path = f.path, .max_bytes = 1 << 20, .delay_ms = 1, .delay_max_ms = 1};
    struct fanout_park_disk *second = NULL;
    struct errinfo ei = {0};

    (void)state;
    assert_int_equal(fanout_park_disk_open(&settings, &second, &ei), E_BUSY);
    assert_null(second);
    assert_non_null(strstr(ei.text, f.path));
}

static void what_is_under_way_at_the_end_stays_parked(void **state)
{
    (void)state;
    assert_int_equal(park(STR("x")), E_OK);
    carrier.is_holding = true;
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(1);
    assert_int_equal(count_parked(), 1);
}

static void what_the_carrier_does_not_try_costs_no_attempt(void **state)
{
    struct buf out = {0};

    (void)state;
    carrier.answers[0] = E_AGAIN;
    assert_int_equal(park(STR("x")), E_OK);
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(1);
    fanout_park_disk_rest(f.disk);
    assert_int_equal(fanout_park_disk_list(f.disk, 10, &out), E_OK);
    assert_non_null(memmem(out.p, out.tail, "\"attempts\":0", 12));
    buf_free(&out, MEM_FANOUT);
}

static void the_list_says_what_is_parked_and_why(void **state)
{
    struct buf out = {0};

    (void)state;
    assert_int_equal(park(STR("x")), E_OK);
    assert_int_equal(park(STR("y")), E_OK);
    assert_int_equal(fanout_park_disk_list(f.disk, 1, &out), E_OK);
    assert_int_equal(buf_append(&out, MEM_FANOUT, (struct str){"", 1}), E_OK);
    assert_non_null(strstr(out.p, "{\"events\":2,\"max_bytes\":1048576,\"parked\":[{\"number\":1,\"attempts\":0,\"due_ms\":"));
    assert_non_null(strstr(out.p, "\"channel\":\"ns/c\",\"subscription\":\"u\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\","
                                  "\"why\":{\"knativeerrorcode\":\"503\",\"knativeerrordest\":\"http://a/\"}}]}\n"));
    buf_free(&out, MEM_FANOUT);
}

/* ---- a process that is killed ---- */

/* ---- orders ---- */

static void on_ordered(struct mail *m)
{
    (void)m;
    f.n_answered++;
}

/* Gives the order and waits for its answer. `number` 0: all of the subscription. */
static struct fanout_park_order order(enum fanout_park_action action, uint64_t number, const char *uid)
{
    struct fanout_park_order o = {
        .mail = {.on_mail = on_ordered}, .home = &f.loop.mailbox, .action = action, .number = number, .channel = STR("ns/c")};
    unsigned n = f.n_answered;

    o.uid = str_from(uid);
    fanout_park_disk_order(f.disk, &o);
    wait_for(n + 1);
    return o;
}

static void one_event_is_thrown_away_and_no_other(void **state)
{
    (void)state;
    park_many("a", 3);
    assert_int_equal(order(FANOUT_PARK_DISCARD, 2, "").n, 1);
    assert_int_equal(order(FANOUT_PARK_DISCARD, 2, "").result, E_NOTFOUND);
    assert_int_equal(order(FANOUT_PARK_DISCARD, 4, "").result, E_NOTFOUND);
    assert_int_equal(order(FANOUT_PARK_DISCARD, 1, "").result, E_OK);
    assert_int_equal(count_parked(), 1);
}

static void all_of_a_subscription_are_thrown_away_and_no_others(void **state)
{
    struct fanout_park_order o;

    (void)state;
    fanout_park_disk_close(f.disk);
    open_disk(8 << 20);
    for (int i = 0; i < 21; i++) /* more than are chosen at a time */
        park_many("a", 500);
    park_many("b", 20);
    o = order(FANOUT_PARK_DISCARD, 0, "nobody");
    assert_int_equal(o.result, E_OK);
    assert_int_equal(o.n, 0);
    o = order(FANOUT_PARK_DISCARD, 0, "a");
    assert_int_equal(o.result, E_OK);
    assert_int_equal(o.n, 21 * 500);
    assert_int_equal(o.n_under_way, 0);
    assert_int_equal(count_parked(), 20);
    open_disk(1 << 20);
    carrier.dead = "a";
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(20);
    assert_int_equal(carrier.n_dead, 0);
    assert_int_equal(count_parked(), 0);
}

static void what_is_under_way_is_not_thrown_away(void **state)
{
    struct fanout_park_order o;

    (void)state;
    park_many("a", 10);
    carrier.is_holding = true;
    fanout_park_disk_start(f.disk, &carrier.port);
    wait_for_attempts(4); /* as many as go at a time */
    assert_int_equal(order(FANOUT_PARK_DISCARD, 1, "").result, E_BUSY);
    o = order(FANOUT_PARK_DISCARD, 0, "a");
    assert_int_equal(o.n, 6);
    assert_int_equal(o.n_under_way, 4);
    assert_int_equal(count_parked(), 4);
}

static void wait_for_successes(unsigned n)
{
    while (carrier.n_attempts - carrier.n_dead < n)
        wait_for_attempts(carrier.n_attempts + 1);
}

static void what_rests_for_long_can_be_tried_now(void **state)
{
    (void)state;
    fanout_park_disk_close(f.disk);
    open_disk_with(1 << 20, 3600 * 1000, 3600 * 1000);
    park_many("a", 20);
    park_many("b", 5);
    carrier.dead = "a";
    fanout_park_disk_start(f.disk, &carrier.port);
    assert_int_equal(order(FANOUT_PARK_RETRY, 7, "").n, 1);
    wait_for_attempts(1);
    assert_int_equal(carrier.n_dead, 1);
    carrier.dead = NULL;
    while (order(FANOUT_PARK_RETRY, 7, "").result == E_BUSY)
        ;
    wait_for_successes(1);
    assert_int_equal(order(FANOUT_PARK_RETRY, 0, "a").result, E_OK);
    wait_for_successes(20);
    assert_int_equal(count_parked(), 5);
}

static void a_subscription_that_rests_is_woken(void **state)
{
    (void)state;
    fanout_park_disk_close(f.disk);
    open_disk_with(1 << 20, 3600 * 1000, 3600 * 1000);
    park_many("b", 20);
    carrier.dead = "b";
    fanout_park_disk_start(f.disk, &carrier.port);
    assert_int_equal(order(FANOUT_PARK_RETRY, 0, "b").n, 20);
    while (carrier.n_dead < 4)
        wait_for_attempts(carrier.n_attempts + 1);
    carrier.dead = NULL;
    while (order(FANOUT_PARK_RETRY, 0, "b").n_under_way > 0)
        ;
    wait_for_successes(20);
    assert_int_equal(count_parked(), 0);
}

static void park_until_killed(const char *path, int to)
{
    const struct fanout_park_settings settings = {.path = path, .max_bytes = 1 << 24, .delay_ms = 1000, .delay_max_ms = 1000};
    struct cloudevent event = event_of(STR("d"));
    struct fanout_parcel parcels[8];
    struct errinfo ei;

    f.n_answered = 0;
    if (loop_init(&f.loop, 0, NULL) != E_OK || fanout_park_disk_open(&settings, &f.disk, &ei) != E_OK)
        _exit(2);
    for (;;) {
        unsigned n = f.n_answered + (unsigned)ARRAY_LEN(parcels);

        for (size_t i = 0; i < ARRAY_LEN(parcels); i++)
            put(&parcels[i], &event, "u");
        while (f.n_answered < n)
            loop_turn(&f.loop, -1);
        for (size_t i = 0; i < ARRAY_LEN(parcels); i++)
            if (parcels[i].result != E_OK || write(to, "k", 1) != 1)
                _exit(2);
    }
}

static void what_was_said_to_be_parked_survives_a_kill(void **state)
{
    uint64_t n_told = 0;
    char told[256];

    (void)state;
    fanout_park_disk_close(f.disk); /* threads do not survive fork() */
    f.disk = NULL;
    for (unsigned round = 0; round < 5; round++) {
        int fds[2], status;
        uint64_t want = n_told + 8 * (round + 1);
        ssize_t n;
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            park_until_killed(f.path, fds[1]);
        close(fds[1]);
        while (n_told < want && (n = read(fds[0], told, sizeof told)) > 0)
            n_told += (uint64_t)n;
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while ((n = read(fds[0], told, sizeof told)) > 0)
            n_told += (uint64_t)n;
        close(fds[0]);
        assert_true(count_parked() >= n_told);
    }
}

static void bytes_that_are_no_record_are_told(void **state)
{
    struct cloudevent event = event_of(STR("data"));
    struct fanout_park_record record = {.channel = STR("ns/c"), .uid = STR("u"), .event = event, .extras = {why, 2}};
    struct arena a = {0};
    struct buf out = {0};
    char *copy;

    (void)state;
    assert_int_equal(fanout_park_record_write(&out, &record), E_OK);
    assert_int_equal(fanout_park_record_read(&a, buf_str(&out), &record), E_OK);
    assert_true(str_equal(record.event.data, STR("data")));
    for (size_t n = 0; n < buf_size(&out); n++) {
        copy = mem_alloc(MEM_TEST, n ? n : 1); /* of exactly this length, for the sanitizers */
        memcpy(copy, out.p, n);
        assert_int_equal(fanout_park_record_read(&a, (struct str){copy, n}, &record), E_PROTO);
        mem_free(MEM_TEST, copy);
    }
    out.p[0] = 2;
    assert_int_equal(fanout_park_record_read(&a, buf_str(&out), &record), E_PROTO);
    arena_free(&a, MEM_FANOUT);
    buf_free(&out, MEM_FANOUT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(what_is_parked_is_there_after_the_next_start),
        TEST(an_attempt_in_vain_is_made_again_until_it_is_well),
        TEST(a_full_park_takes_nothing_more_until_there_is_room),
        TEST(a_slow_subscription_leaves_the_others_their_share),
        TEST(a_subscription_that_is_down_rests_however_much_waits_for_it),
        TEST(a_subscription_that_is_well_again_gets_all_that_waits_for_it),
        TEST(a_folder_belongs_to_one_park),
        TEST(what_is_under_way_at_the_end_stays_parked),
        TEST(what_the_carrier_does_not_try_costs_no_attempt),
        TEST(the_list_says_what_is_parked_and_why),
        TEST(one_event_is_thrown_away_and_no_other),
        TEST(all_of_a_subscription_are_thrown_away_and_no_others),
        TEST(what_is_under_way_is_not_thrown_away),
        TEST(what_rests_for_long_can_be_tried_now),
        TEST(a_subscription_that_rests_is_woken),
        TEST(what_was_said_to_be_parked_survives_a_kill),
        TEST(bytes_that_are_no_record_are_told),
    };
#undef TEST

    return cmocka_run_group_tests_name("fanout_park_disk", tests, NULL, NULL);
}
