/* What the source promises when instances share a group. Needs a real Kafka, at MILLRACE_TEST_KAFKA (HOST:PORT), since the embedded
 * one takes no commit from a member while its group changes; tests/e2e/test_kafka_group.py runs it. One member is a process of its
 * own, to be killed and stopped. */
#include "kafka/kafka_consumer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "integration/kafka_rig.h"
#include "kafka/kafka_consumer_metrics.h"

enum { KEYS = 12, N = 240, MEMBERS = 2, FIND_MS = 100, NAME_BYTES = 64 };

/* What became of a record. */
struct seen {
    unsigned n_read, n_settled;
    bool was_settled_before; /* when it was read last */
};

struct member {
    struct source_reader reader;
    struct kafka_consumer *consumer;
    struct source_record *held[4 * N];
    size_t n_held, n_read, n_lost, n_full;
    bool settles; /* at once */
    bool tells;   /* on the standard output: the process */
};

static struct {
    struct rig rig;
    struct kafka_settings settings;
    char group[NAME_BYTES], first[2 * NAME_BYTES], second[2 * NAME_BYTES]; /* the topics */
    struct sink_topic *topic;
    size_t n_produced, n_removed;
    struct seen seen[8 * N]; /* by number, which is the value */
    struct member members[MEMBERS];
    /* The process. */
    pid_t pid;
    int pipe;
    size_t n_child_read, n_child_lost;
} b;

static const char *program;

/* --- the reader --- */

static void *ref(void *wants)
{
    return wants;
}

static void unref(void *wants)
{
    (void)wants;
}

/* The wants are the beginning of a topic's name. */
static int interest(void *wants, struct str topic)
{
    return str_starts_with(topic, str_from(wants)) ? 0 : -1;
}

static struct str name(void *wants, int which)
{
    return which == 0 ? str_from(wants) : (struct str){0};
}

static bool begins_at_end(void *wants, int which)
{
    (void)wants;
    (void)which;
    return true; /* does not count in a shared group */
}

static struct mailbox *home(void *context, struct str topic, int32_t partition)
{
    (void)context;
    (void)topic;
    (void)partition;
    return &b.rig.loop.mailbox;
}

static size_t number_of(struct str value)
{
    char text[16];

    snprintf(text, sizeof text, "%.*s", STR_ARG(value));
    return (size_t)atoi(text);
}

static void settle(struct member *m, struct source_record *r)
{
    b.seen[number_of(r->value)].n_settled++;
    source_settle(kafka_consumer_source(m->consumer), r);
}

static void on_record(struct mail *mail)
{
    struct source_record *r = CONTAINER_OF(mail, struct source_record, mail);
    struct member *m = r->partition->reader->context;
    struct seen *seen = &b.seen[number_of(r->value)];

    m->n_read++;
    if (m->tells)
        (void)!write(STDOUT_FILENO, "r", 1);
    seen->n_read++;
    seen->was_settled_before = seen->n_settled > 0;
    if (m->settles)
        settle(m, r);
    else
        m->held[m->n_held++] = r;
}

static void on_full(void *context, struct source_partition *partition)
{
    struct member *m = context;

    (void)partition;
    m->n_full++;
}

static void on_lost(void *context, struct source_partition *partition)
{
    struct member *m = context;

    (void)partition;
    m->n_lost++;
    if (m->tells)
        (void)!write(STDOUT_FILENO, "l", 1);
}

/* --- members --- */

static void open_member(struct member *m, const char *wants)
{
    struct kafka_consumer_settings settings = {.group = str_from(b.group),
                                               .instance = STR("test"),
                                               .is_shared = true,
                                               .find_ms = FIND_MS,
                                               .reader = &m->reader,
                                               .wants = (char *)(uintptr_t)wants};
    struct errinfo ei = {0};

    *m = (struct member){.reader = {.context = m,
                                    .ref = ref,
                                    .unref = unref,
                                    .interest = interest,
                                    .name = name,
                                    .begins_at_end = begins_at_end,
                                    .home = home,
                                    .on_record = on_record,
                                    .on_full = on_full,
                                    .on_lost = on_lost}};
    if (kafka_consumer_open(b.rig.k, &b.settings, &settings, &m->consumer, &ei) != E_OK)
        fail_msg("%s", ei.text);
    kafka_consumer_start(m->consumer);
}

static void close_member(struct member *m)
{
    kafka_consumer_stop(m->consumer);
    loop_turn(&b.rig.loop, 0);
    kafka_consumer_free(m->consumer);
    m->consumer = NULL;
    m->n_held = 0;
}

static void settle_held(struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        settle(m, m->held[i]);
    m->n_held -= n;
    memmove(m->held, m->held + n, m->n_held * sizeof *m->held);
}

/* --- waiting --- */

static void read_child(void)
{
    char c;

    while (b.pid && read(b.pipe, &c, 1) == 1) {
        b.n_child_read += c == 'r';
        b.n_child_lost += c == 'l';
    }
}

static bool turn(uint64_t since_ms, const char *what)
{
    if (loop_clock_ms() - since_ms > RIG_WAIT_MS)
        fail_msg("waited in vain for %s", what);
    loop_turn(&b.rig.loop, 20);
    read_child();
    return true;
}

static void wait_for(const size_t *counter, size_t n, const char *what)
{
    uint64_t since_ms = loop_clock_ms();

    while (*counter < n)
        turn(since_ms, what);
}

static bool all_settled(void)
{
    for (size_t i = 0; i < b.n_produced; i++)
        if (b.seen[i].n_settled == 0)
            return false;
    return true;
}

static void wait_all_settled(void)
{
    uint64_t since_ms = loop_clock_ms();

    while (!all_settled())
        turn(since_ms, "everything");
}

static int64_t count(enum kafka_consumer_metric which)
{
    return metric_value(&kafka_consumer_metrics[KAFKA_CONSUMER_RULES][which]);
}

static void wait_partitions(int64_t n)
{
    uint64_t since_ms = loop_clock_ms();

    while (count(KAFKA_CONSUMER_PARTITIONS) != n)
        turn(since_ms, "partitions");
}

/* --- the bench --- */

static void produce(size_t n)
{
    for (size_t i = b.n_produced; i < b.n_produced + n; i++) {
        char key[32], value[32];

        snprintf(key, sizeof key, "key%zu", i % KEYS);
        snprintf(value, sizeof value, "%zu", i);
        rig_send(&b.rig, i, b.topic, key, value);
    }
    b.n_produced += n;
    rig_wait(&b.rig, &b.rig.counts[OUTCOME_STORED], b.n_produced);
}

static struct sink_topic *make_topic(const char *topic)
{
    static const struct kafka_topic_spec spec = {.n_partitions = KAFKA_MOCK_PARTITIONS};

    b.rig.topics.specs = &spec;
    return rig_topic(&b.rig, topic);
}

static void open_bench(void)
{
    static unsigned run;
    struct kafka_settings settings = {.bootstrap = str_from(getenv("MILLRACE_TEST_KAFKA"))};

    memset(&b, 0, sizeof b);
    snprintf(b.group, sizeof b.group, "group-%d-%u", (int)getpid(), ++run);
    snprintf(b.first, sizeof b.first, "%s.first", b.group);
    snprintf(b.second, sizeof b.second, "%s.second", b.group);
    rig_open(&b.rig, settings, ARRAY_LEN(b.seen));
    b.rig.n_items = 0;
    b.settings = (struct kafka_settings){.bootstrap = kafka_bootstrap(b.rig.k)};
    b.topic = make_topic(b.first);
}

static void close_bench(void)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (b.members[i].consumer)
            close_member(&b.members[i]);
    rig_close(&b.rig);
}

/* Both of them, with half the partitions each. */
static void open_two(void)
{
    open_member(&b.members[0], b.first);
    wait_partitions(KAFKA_MOCK_PARTITIONS);
    open_member(&b.members[1], b.first);
    wait_for(&b.members[0].n_lost, KAFKA_MOCK_PARTITIONS / 2, "the other to get its part");
    wait_partitions(KAFKA_MOCK_PARTITIONS);
}

/* --- the process --- */

_Noreturn static void run_member(char **argv)
{
    struct kafka_settings settings = {.bootstrap = str_from(argv[0])};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(b.group, sizeof b.group, "%s", argv[1]);
    rig_open(&b.rig, settings, 0);
    b.settings = settings;
    open_member(&b.members[0], b.group);
    b.members[0].tells = true;
    for (;;)
        loop_turn(&b.rig.loop, 1000);
}

static void start_process(void)
{
    static char mode[] = "member";
    char bootstrap[NAME_BYTES];
    char *argv[] = {(char *)(uintptr_t)program, mode, bootstrap, b.group, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];

    snprintf(bootstrap, sizeof bootstrap, "%.*s", STR_ARG(kafka_bootstrap(b.rig.k)));
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&b.pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    b.pipe = ends[0];
    assert_int_equal(fcntl(b.pipe, F_SETFL, O_NONBLOCK), 0);
}

static void kill_process(void)
{
    kill(b.pid, SIGKILL);
    assert_int_equal(waitpid(b.pid, NULL, 0), b.pid);
    b.pid = 0;
    close(b.pipe);
}

/* One member here, and one there that holds what it reads. */
static void open_with_process(void)
{
    struct member *here = &b.members[0];

    open_member(here, b.group);
    here->settles = true;
    wait_partitions(KAFKA_MOCK_PARTITIONS);
    start_process();
    wait_for(&here->n_lost, KAFKA_MOCK_PARTITIONS / 2, "the other to get its part");
    produce(N);
    while (here->n_read + b.n_child_read < N)
        turn(loop_clock_ms(), "records");
    assert_true(b.n_child_read > 0);
    assert_true(here->n_read > 0);
    assert_false(all_settled());
}

/* --- tests --- */

static void members_divide_what_there_is_and_everything_is_read_once(void **state)
{
    (void)state;
    open_bench();
    produce(N / 2); /* before the first came */
    open_member(&b.members[0], b.first);
    b.members[0].settles = true;
    wait_all_settled();
    open_member(&b.members[1], b.first);
    b.members[1].settles = true;
    wait_for(&b.members[0].n_lost, KAFKA_MOCK_PARTITIONS / 2, "the other to get its part");
    produce(N / 2);
    wait_all_settled();
    for (size_t i = 0; i < N; i++)
        assert_int_equal(b.seen[i].n_read, 1);
    assert_true(b.members[0].n_read > N / 2);
    assert_true(b.members[1].n_read > 0);
    close_bench();
}

static void what_one_that_leaves_has_not_settled_is_read_by_another(void **state)
{
    struct member *one = &b.members[0], *two = &b.members[1];
    size_t n_settled = 0;

    (void)state;
    open_bench();
    open_two();
    produce(N);
    while (one->n_held + two->n_held < N)
        turn(loop_clock_ms(), "records");
    for (size_t i = 0; i < one->n_held; i += 2, n_settled++) /* with gaps */
        settle(one, one->held[i]);
    two->settles = true;
    settle_held(two, two->n_held);
    close_member(one);
    wait_all_settled();
    for (size_t i = 0; i < N; i++) {
        assert_false(b.seen[i].was_settled_before);
        assert_int_equal(b.seen[i].n_settled, 1);
    }
    assert_int_equal(two->n_read, N - n_settled);
    close_bench();
}

static void what_is_out_of_partitions_that_stay_is_not_read_again(void **state)
{
    struct member *one = &b.members[0], *two = &b.members[1];
    size_t n_twice = 0;

    (void)state;
    open_bench();
    open_member(one, b.first);
    produce(N);
    wait_for(&one->n_held, N, "records");
    open_member(two, b.first);
    two->settles = true;
    wait_for(&one->n_lost, KAFKA_MOCK_PARTITIONS / 2, "the other to get its part");
    wait_partitions(KAFKA_MOCK_PARTITIONS);
    settle_held(one, N); /* of what was lost it counts for nothing */
    produce(KEYS);       /* behind all that comes again */
    one->settles = true;
    settle_held(one, one->n_held);
    wait_all_settled();
    for (size_t i = 0; i < N; i++)
        n_twice += b.seen[i].n_read == 2;
    assert_int_equal(one->n_read + two->n_read, N + n_twice + KEYS);
    assert_true(n_twice > 0 && n_twice < N);
    close_member(one);
    close_member(two);
    open_member(one, b.first); /* all is committed, whoever settled it */
    one->settles = true;
    produce(KEYS);
    wait_all_settled();
    assert_int_equal(one->n_read, KEYS);
    close_bench();
}

static void one_that_ends_leaves_as_soon_as_nothing_is_out(void **state)
{
    struct member *one = &b.members[0], *two = &b.members[1];

    (void)state;
    open_bench();
    open_two();
    two->settles = true;
    produce(KEYS);
    while (one->n_held + two->n_read < KEYS)
        turn(loop_clock_ms(), "records");
    kafka_consumer_pause(one->consumer);
    produce(N);
    wait_for(&two->n_read, 2 * KEYS, "records of its own partitions"); /* the other still has its part */
    settle_held(one, one->n_held);
    wait_all_settled();
    for (size_t i = 0; i < N + KEYS; i++)
        assert_int_equal(b.seen[i].n_read, 1);
    close_bench();
}

static void new_topics_are_read_from_their_beginning(void **state)
{
    (void)state;
    open_bench();
    open_member(&b.members[0], b.group);
    b.members[0].settles = true;
    wait_partitions(KAFKA_MOCK_PARTITIONS);
    b.topic = make_topic(b.second);
    produce(N);
    wait_all_settled();
    assert_int_equal(b.members[0].n_read, N);
    assert_int_equal(b.members[0].n_lost, 0); /* of the first one nothing was lost for it */
    close_bench();
}

static void on_removed(struct mail *m)
{
    (void)m;
    b.n_removed++;
}

static void a_topic_that_was_made_anew_is_read_from_its_beginning(void **state)
{
    struct member *one = &b.members[0];
    struct str names[] = {str_from(b.first)};
    struct kafka_topics topics = {.mail = {.on_mail = on_removed}, .names = names, .n_names = 1};

    (void)state;
    open_bench();
    names[0] = str_from(b.first);
    topics.home = &b.rig.loop.mailbox;
    open_member(one, b.first);
    one->settles = true;
    produce(N);
    wait_all_settled();
    kafka_remove_topics(b.rig.k, &topics);
    wait_for(&b.n_removed, 1, "the topic to go");
    assert_int_equal(topics.result.code, E_OK);
    wait_for(&one->n_lost, KAFKA_MOCK_PARTITIONS, "its end to be seen");
    b.topic = make_topic(b.first);
    produce(N / 2);
    wait_all_settled();
    assert_int_equal(one->n_read, N + N / 2);
    close_bench();
}

static void on_changed(struct mail *m)
{
    (void)m;
}

static void other_wants_are_subscribed_to_at_once(void **state)
{
    static struct mail done = {.on_mail = on_changed};
    struct member *one = &b.members[0];

    (void)state;
    open_bench();
    b.topic = make_topic(b.second);
    open_member(one, b.first);
    one->settles = true;
    wait_partitions(KAFKA_MOCK_PARTITIONS);
    produce(N);
    kafka_consumer_want(one->consumer, b.second, &done, &b.rig.loop.mailbox);
    kafka_consumer_read_wanted(one->consumer);
    wait_all_settled();
    wait_for(&one->n_lost, KAFKA_MOCK_PARTITIONS, "the first topic to go");
    close_bench();
}

static void what_one_that_dies_had_is_read_by_another(void **state)
{
    (void)state;
    open_bench();
    open_with_process();
    kill_process();
    wait_all_settled();
    for (size_t i = 0; i < N; i++)
        assert_int_equal(b.seen[i].n_read, 1); /* here */
    close_bench();
}

static void one_that_slept_too_long_loses_everything_and_comes_back(void **state)
{
    struct member *here = &b.members[0];
    size_t before;

    (void)state;
    open_bench();
    open_with_process();
    kill(b.pid, SIGSTOP);
    wait_all_settled();
    before = b.n_child_read;
    kill(b.pid, SIGCONT);
    wait_for(&b.n_child_lost, KAFKA_MOCK_PARTITIONS / 2, "the other to learn of it");
    wait_for(&here->n_lost, KAFKA_MOCK_PARTITIONS, "the other to come back");
    produce(N);
    while (here->n_read + b.n_child_read < before + 2 * N)
        turn(loop_clock_ms(), "records");
    assert_true(b.n_child_read > before);
    kill_process();
    close_bench();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_divide_what_there_is_and_everything_is_read_once),
        cmocka_unit_test(what_one_that_leaves_has_not_settled_is_read_by_another),
        cmocka_unit_test(what_is_out_of_partitions_that_stay_is_not_read_again),
        cmocka_unit_test(one_that_ends_leaves_as_soon_as_nothing_is_out),
        cmocka_unit_test(new_topics_are_read_from_their_beginning),
        cmocka_unit_test(a_topic_that_was_made_anew_is_read_from_its_beginning),
        cmocka_unit_test(other_wants_are_subscribed_to_at_once),
        cmocka_unit_test(what_one_that_dies_had_is_read_by_another),
        cmocka_unit_test(one_that_slept_too_long_loses_everything_and_comes_back),
    };

    if (argc == 4)
        run_member(argv + 2);
    if (!getenv("MILLRACE_TEST_KAFKA")) {
        fprintf(stderr, "MILLRACE_TEST_KAFKA names no Kafka\n");
        return 77;
    }
    program = argv[0];
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("kafka_group", tests, NULL, NULL);
}
