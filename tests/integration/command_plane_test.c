/* The command plane with scripted applications, subscribers and Kafka, its workers turned by hand. */
#include "command/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "command/command_metrics.h"
#include "command/command_port.h"
#include "fake/fake_routes.h"
#include "fake/fake_sink.h"
#include "registry/generation.h"

enum { RECORDS_MAX = 256, WORKERS = 2, MAILBOX_BYTES = 1 << 20, TAKEN_MAX = 256 };

static const char config_text[] =
    "kafka: {bootstrap: \"127.0.0.1:1\"}\n"
    "tenants: {t: {devices: {d1: {password: p}, d2: {via: [g1]}, d3: {via: [g1, g2]}, g1: {password: p}, g2: {password: p}}}, "
    "\n"
    "          s: {resource-limits: {data-volume: {max-bytes: 5}}, devices: {d1: {password: p}}}}\n"
    "listeners: [{mqtt: \"127.0.0.1:0\"}]\n";

/* A client that takes commands, and keeps them until the test says what comes of them. */
struct client {
    struct command_subscriber subscriber;
    err result;
    unsigned n_answers;
    struct command *taken[TAKEN_MAX];
    size_t n_taken;
};

static struct {
    struct workers workers;
    struct fake_sink sink;
    struct routes *routes;
    struct command_plane *plane;
    struct source source;
    struct source_partition partition;
    struct source_record records[RECORDS_MAX];
    struct record_header headers[RECORDS_MAX][4];
    char subjects[RECORDS_MAX][16];
    bool is_settled[RECORDS_MAX];
    size_t n_records;
    struct str payload; /* of the next commands */
    int64_t before[COMMAND_COUNTS];
    int64_t bytes;
} rig;

static void forget(struct source *source, struct source_record *record)
{
    (void)source;
    (void)record;
}

static void settle(struct source *source, struct source_record *record)
{
    size_t i = (size_t)(record - rig.records);

    (void)source;
    assert_false(rig.is_settled[i]);
    rig.is_settled[i] = true;
}

static const struct source_ops source_ops = {.forget = forget, .settle = settle};

static struct generation *make_generation(const char *text)
{
    struct config_source source = {.text = str_from(text), .name = "rig.yaml"};
    static struct config_errors errors;
    struct config *config;

    errors = (struct config_errors){0};
    assert_int_equal(config_load(&source, &config, &errors), E_OK);
    return generation_new(1, config, NULL);
}

static int set_up(void **state)
{
    struct generation *generation = make_generation(config_text);
    struct command_settings settings = {.workers = &rig.workers,
                                        .sink = &rig.sink.sink,
                                        .generation = generation,
                                        .is_alone = true,
                                        .takes_subscriptions = true};

    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.bytes = mem_used(MEM_COMMAND);
    assert_int_equal(workers_init(&rig.workers, WORKERS, MAILBOX_BYTES, NULL, NULL), E_OK);
    fake_sink_init(&rig.sink);
    settings.routes = rig.routes = fake_routes_new(&rig.workers);
    rig.plane = command_new(&settings);
    generation_unref(generation);
    rig.source.ops = &source_ops;
    command_start(rig.plane, &rig.source);
    rig.partition = (struct source_partition){.topic = STR("hono.command.t"), .reader = command_reader(rig.plane)};
    for (int i = 0; i < COMMAND_COUNTS; i++)
        rig.before[i] = metric_value(&command_metrics[i]);
    return 0;
}

/* Every worker's mail, and what it puts off, until there is none. */
static void turn(void)
{
    for (unsigned n_quiet = 0; n_quiet < 3; n_quiet++)
        for (unsigned i = 0; i < WORKERS; i++) {
            if (mailbox_drain(&rig.workers.list[i].loop.mailbox))
                n_quiet = 0;
            loop_turn(&rig.workers.list[i].loop, 0);
        }
}

static int64_t counted(enum command_metric which)
{
    return metric_value(&command_metrics[which]) - rig.before[which];
}

static int tear_down(void **state)
{
    int64_t ends = counted(COMMAND_COUNT_WAITING);

    (void)state;
    for (int i = COMMAND_COUNT_DELIVERED_RECEIVED; i <= COMMAND_COUNT_DROPPED_EXPIRED; i++)
        ends += counted((enum command_metric)i);
    assert_int_equal(counted(COMMAND_COUNT_RECEIVED), ends);
    command_free(rig.plane);
    fake_routes_free(rig.routes);
    workers_fini(&rig.workers);
    fake_sink_fini(&rig.sink);
    assert_int_equal(mem_used(MEM_COMMAND), rig.bytes);
    return 0;
}

/* --- applications --- */

/* A command to a device; its subject is its number. With a correlation id it asks for a response. */
static size_t put(const char *device, const char *correlation_id)
{
    const struct source_reader *reader = command_reader(rig.plane);
    size_t i = rig.n_records++;
    struct source_record *r = &rig.records[i];
    struct record_header *h = rig.headers[i];

    assert_true(i < RECORDS_MAX);
    snprintf(rig.subjects[i], sizeof rig.subjects[i], "%zu", i);
    h[0] = (struct record_header){STR("device_id"), str_from(device)};
    h[1] = (struct record_header){STR("subject"), str_from(rig.subjects[i])};
    h[2] = (struct record_header){STR("correlation-id"), str_from(correlation_id)};
    h[3] = (struct record_header){STR("response-required"), STR("true")};
    *r = (struct source_record){.mail = {.on_mail = reader->on_record},
                                .partition = &rig.partition,
                                .offset = (int64_t)i,
                                .timestamp_ms = -1,
                                .key = str_from(device),
                                .value = rig.payload,
                                .headers = h,
                                .n_headers = correlation_id ? 4 : 2};
    mailbox_post(reader->home(reader->context, rig.partition.topic, 0), &r->mail);
    turn();
    return i;
}

static size_t n_settled(void)
{
    size_t n = 0;

    for (size_t i = 0; i < rig.n_records; i++)
        n += rig.is_settled[i];
    return n;
}

/* --- clients --- */

static void on_subscribed(struct command_subscriber *subscriber, err result)
{
    struct client *cl = CONTAINER_OF(subscriber, struct client, subscriber);

    cl->result = result;
    cl->n_answers++;
}

static void on_command(struct command_subscriber *subscriber, struct command *command)
{
    struct client *cl = CONTAINER_OF(subscriber, struct client, subscriber);

    assert_true(cl->n_taken < TAKEN_MAX);
    cl->taken[cl->n_taken++] = command;
}

static const struct command_subscriber_ops ops = {.on_subscribed = on_subscribed, .on_command = on_command};

static void subscribe(struct client *cl, const char *device, const char *gateway, bool is_for_all)
{
    struct command_subscription subscription = {.tenant = STR("t"),
                                                .device = str_from(device),
                                                .gateway = str_from(gateway),
                                                .is_for_all = is_for_all,
                                                .has_events = true};

    *cl = (struct client){.subscriber = {.ops = &ops}};
    command_subscribe(rig.plane, &rig.workers.list[0], &cl->subscriber, &subscription);
    turn();
}

static void leave(struct client *cl)
{
    command_unsubscribe(&cl->subscriber);
    turn();
}

/* Gives back all that it has, in its order. */
static void give_back(struct client *cl, enum command_result result)
{
    for (size_t i = 0; i < cl->n_taken; i++)
        command_done(cl->taken[i], result, 503, "why");
    cl->n_taken = 0;
    turn();
}

static void expect_taken(const struct client *cl, size_t first, size_t n)
{
    assert_int_equal(cl->n_taken, n);
    for (size_t i = 0; i < n; i++)
        assert_true(str_equal(cl->taken[i]->record.subject, str_from(rig.subjects[first + i])));
}

/* --- tests --- */

static void what_was_sent_comes_back_before_another_subscriber_gets_more(void **state)
{
    struct client old, new;

    (void)state;
    subscribe(&old, "d1", "", false);
    put("d1", NULL);
    put("d1", NULL);
    expect_taken(&old, 0, 2);
    subscribe(&new, "d1", "", false);
    put("d1", NULL);
    expect_taken(&new, 0, 0);
    give_back(&old, COMMAND_RECEIVED);
    expect_taken(&new, 2, 1);
    give_back(&new, COMMAND_RECEIVED);
    assert_int_equal(n_settled(), 3);
    leave(&old);
    leave(&new);
}

static void what_comes_back_goes_to_the_next_in_its_old_order(void **state)
{
    struct client old, new;

    (void)state;
    subscribe(&old, "d1", "", false);
    for (int i = 0; i < 3; i++)
        put("d1", NULL);
    subscribe(&new, "d1", "", false);
    leave(&old);
    command_done(old.taken[0], COMMAND_RETURNED, 0, NULL);
    turn();
    put("d1", NULL);
    expect_taken(&new, 0, 0); /* the others are still out */
    command_done(old.taken[2], COMMAND_RETURNED, 0, NULL);
    command_done(old.taken[1], COMMAND_RECEIVED, 0, NULL);
    turn();
    assert_int_equal(new.n_taken, 3);
    assert_true(str_equal(new.taken[0]->record.subject, STR("0")));
    assert_true(str_equal(new.taken[1]->record.subject, STR("2")));
    assert_true(str_equal(new.taken[2]->record.subject, STR("3")));
    give_back(&new, COMMAND_ATTEMPTED);
    assert_int_equal(n_settled(), 4);
    assert_int_equal(counted(COMMAND_COUNT_RETURNED), 2);
    leave(&new);
}

static void one_that_does_not_answer_holds_up_no_other_device(void **state)
{
    struct client slow, quick;

    (void)state;
    subscribe(&slow, "d1", "", false);
    subscribe(&quick, "d2", "", false);
    for (int i = 0; i < 80; i++)
        put("d1", NULL);
    assert_int_equal(slow.n_taken, 64); /* the window */
    put("d2", NULL);
    expect_taken(&quick, 80, 1);
    give_back(&quick, COMMAND_RECEIVED);
    assert_true(rig.is_settled[80]);
    give_back(&slow, COMMAND_RECEIVED);
    expect_taken(&slow, 64, 16);
    give_back(&slow, COMMAND_RECEIVED);
    assert_int_equal(n_settled(), 81);
    leave(&slow);
    leave(&quick);
}

static void a_command_is_settled_once_its_notice_is_stored(void **state)
{
    size_t first = fake_sink_count(&rig.sink);

    (void)state;
    fake_sink_hold(&rig.sink);
    put("d1", "abc");
    put("d1", NULL); /* nobody is to be told */
    assert_false(rig.is_settled[0]);
    assert_true(rig.is_settled[1]);
    assert_true(str_equal(fake_sink_header(fake_sink_record(&rig.sink, first), STR("status")), STR("503")));
    fake_sink_release(&rig.sink, SIZE_MAX);
    turn();
    assert_true(rig.is_settled[0]);
    assert_int_equal(counted(COMMAND_COUNT_NOTICES), 1);
}

static void notices_without_room_wait_and_keep_their_order(void **state)
{
    static const char *const ids[] = {"a", "b", "c"};
    size_t first = fake_sink_count(&rig.sink);

    (void)state;
    fake_sink_set_room(&rig.sink, 0);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        put("d1", ids[i]);
    assert_int_equal(n_settled(), 0);
    fake_sink_hold(&rig.sink);
    fake_sink_set_room(&rig.sink, 1); /* and full again after the first */
    turn();
    assert_int_equal(fake_sink_count(&rig.sink), first + 1);
    fake_sink_set_room(&rig.sink, SIZE_MAX);
    fake_sink_release(&rig.sink, SIZE_MAX);
    turn();
    assert_int_equal(n_settled(), 3);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        assert_true(
            str_equal(fake_sink_header(fake_sink_record(&rig.sink, first + i), STR("correlation-id")), str_from(ids[i])));
}

static void a_notice_that_kafka_refuses_is_counted_and_the_partition_moves_on(void **state)
{
    (void)state;
    fake_sink_add_step(&rig.sink, OUTCOME_DENIED, false);
    fake_sink_add_step(&rig.sink, OUTCOME_UNKNOWN_TOPIC, true);
    put("d1", "a");
    put("d1", "b");
    assert_int_equal(n_settled(), 2);
    assert_int_equal(counted(COMMAND_COUNT_NOTICES_LOST), 2);
}

static void a_subscription_that_cannot_be_told_does_not_stand(void **state)
{
    struct client cl;

    (void)state;
    fake_sink_add_step(&rig.sink, OUTCOME_UNAVAILABLE, false);
    subscribe(&cl, "d1", "", false);
    assert_int_equal(cl.n_answers, 1);
    assert_int_equal(cl.result, E_IO);
    assert_int_equal(counted(COMMAND_COUNT_SUBSCRIPTIONS), 0);
    subscribe(&cl, "nobody", "", false);
    assert_int_equal(cl.result, E_DENIED);
    subscribe(&cl, "d1", "g1", false); /* which may not act for it */
    assert_int_equal(cl.result, E_DENIED);
}

static void who_leaves_before_the_answer_is_told_nothing(void **state)
{
    struct client cl;

    (void)state;
    fake_sink_hold(&rig.sink);
    subscribe(&cl, "d1", "", false);
    assert_int_equal(cl.n_answers, 0);
    leave(&cl);
    fake_sink_release(&rig.sink, SIZE_MAX);
    turn();
    assert_int_equal(cl.n_answers, 0);
    assert_int_equal(fake_sink_count(&rig.sink), 2); /* that it was there, and that it is gone */
    assert_true(str_equal(fake_sink_header(fake_sink_record(&rig.sink, 1), STR("ttd")), STR("0")));
    assert_int_equal(counted(COMMAND_COUNT_SUBSCRIPTIONS), 0);
}

static void a_late_end_takes_nothing_from_a_newer_subscription(void **state)
{
    struct client old, new;

    (void)state;
    subscribe(&old, "d1", "", false);
    subscribe(&new, "d1", "", false);
    leave(&old);
    put("d1", NULL);
    expect_taken(&new, 0, 1);
    assert_int_equal(fake_sink_count(&rig.sink), 2); /* two beginnings, no end */
    give_back(&new, COMMAND_RECEIVED);
    leave(&new);
    assert_int_equal(fake_sink_count(&rig.sink), 3);
}

static void gateways_are_chosen_by_who_was_heard_from(void **state)
{
    struct client one, two;

    (void)state;
    subscribe(&one, "g1", "", true);
    subscribe(&two, "g2", "", true);
    command_note_gateway(rig.plane, STR("t"), STR("d3"), STR("g2"));
    turn();
    put("d3", NULL);
    expect_taken(&two, 0, 1);
    assert_true(str_equal(two.taken[0]->target, STR("d3")));
    give_back(&two, COMMAND_RECEIVED);
    command_note_gateway(rig.plane, STR("t"), STR("d3"), STR("g1"));
    turn();
    put("d3", NULL);
    expect_taken(&one, 1, 1);
    give_back(&one, COMMAND_RECEIVED);
    leave(&one);
    leave(&two);
}

static void what_comes_back_in_the_end_is_left_for_the_next_start(void **state)
{
    struct client cl;

    (void)state;
    subscribe(&cl, "d1", "", false);
    put("d1", NULL);
    put("d1", NULL);
    command_drain(rig.plane);
    command_done(cl.taken[0], COMMAND_RECEIVED, 0, NULL);
    leave(&cl);
    command_done(cl.taken[1], COMMAND_RETURNED, 0, NULL);
    turn();
    assert_true(rig.is_settled[0]);
    assert_false(rig.is_settled[1]);
}

static void failures_carry_the_subscribers_words(void **state)
{
    struct client cl;
    const struct fake_record *notice;

    (void)state;
    subscribe(&cl, "d1", "", false);
    put("d1", "abc");
    give_back(&cl, COMMAND_FAILED);
    notice = fake_sink_record(&rig.sink, fake_sink_count(&rig.sink) - 1);
    assert_true(str_equal(notice->topic, STR("hono.command_response.t")));
    assert_true(str_equal(notice->value, STR("{\"error\":\"why\"}")));
    assert_int_equal(n_settled(), 1);
    leave(&cl);
}

static void expect_notice(size_t i, const char *status)
{
    assert_true(str_equal(fake_sink_header(fake_sink_record(&rig.sink, i), STR("status")), str_from(status)));
}

/* What is on its way counts; what comes back does not. */
static void what_goes_beyond_the_data_volume_is_refused(void **state)
{
    struct command_subscription subscription = {.tenant = STR("s"), .device = STR("d1")};
    struct client cl = {.subscriber = {.ops = &ops}};
    size_t first = fake_sink_count(&rig.sink);

    (void)state;
    rig.partition.topic = STR("hono.command.s");
    rig.payload = STR("abc");
    command_subscribe(rig.plane, &rig.workers.list[0], &cl.subscriber, &subscription);
    turn();
    put("d1", "a");
    put("d1", "b"); /* 6 */
    expect_taken(&cl, 0, 1);
    expect_notice(first, "429");
    assert_int_equal(counted(COMMAND_COUNT_REFUSED_DATA_VOLUME), 1);
    give_back(&cl, COMMAND_FAILED); /* 0 */
    expect_notice(first + 1, "503");
    put("d1", "c");
    expect_taken(&cl, 2, 1);
    give_back(&cl, COMMAND_RECEIVED);
    put("d1", "d");
    put("d1", NULL); /* a command without response: nobody is told */
    expect_taken(&cl, 3, 0);
    expect_notice(first + 2, "429");
    rig.payload = (struct str){0};
    put("d1", "e");
    expect_taken(&cl, 5, 1);
    give_back(&cl, COMMAND_RECEIVED);
    assert_int_equal(fake_sink_count(&rig.sink), first + 3);
    assert_int_equal(n_settled(), 6);
    leave(&cl);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_sent_comes_back_before_another_subscriber_gets_more),
        TEST(what_comes_back_goes_to_the_next_in_its_old_order),
        TEST(one_that_does_not_answer_holds_up_no_other_device),
        TEST(a_command_is_settled_once_its_notice_is_stored),
        TEST(notices_without_room_wait_and_keep_their_order),
        TEST(a_notice_that_kafka_refuses_is_counted_and_the_partition_moves_on),
        TEST(a_subscription_that_cannot_be_told_does_not_stand),
        TEST(who_leaves_before_the_answer_is_told_nothing),
        TEST(a_late_end_takes_nothing_from_a_newer_subscription),
        TEST(gateways_are_chosen_by_who_was_heard_from),
        TEST(what_comes_back_in_the_end_is_left_for_the_next_start),
        TEST(what_goes_beyond_the_data_volume_is_refused),
        TEST(failures_carry_the_subscribers_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
