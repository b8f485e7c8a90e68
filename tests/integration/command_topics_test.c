/* The transport by topics, its workers turned by hand, with a fake sink: what is written to the topics of others, what comes of it, and
 * what a record of the own topic becomes. */
#include "command/command_topics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "command/command_envelope.h"
#include "command/command_port.h"
#include "command/command_topics_metrics.h"
#include "fake/fake_sink.h"

enum { WORKERS = 2, HEADERS = 32, BIG_BYTES = 1 << 20, REQUESTS_MAX = 64 };

static struct {
    struct workers workers;
    struct fake_sink sink;
    struct source source;
    struct command_transport *transport;
    struct source_partition partition;
    bool is_dead; /* the peer */
    size_t n_settled, n_begun, n_ensured, n_ready;
    unsigned rooms[WORKERS];
    /* Told of by the transport. */
    int64_t requests[REQUESTS_MAX];
    unsigned request_worker;
    size_t n_requests, n_results;
    struct command_result_message result;
    size_t n_headers;
    bool answers; /* to each request, within the call */
} b;

static struct command_request request_of(const char *tenant, int64_t offset)
{
    static const struct record_header headers[] = {{STR_INIT("device_id"), STR_INIT("d1")}};

    return (struct command_request){.ticket = {str_from(tenant), 0, offset},
                                    .from = {STR("one"), 1},
                                    .to = {STR("two"), 2},
                                    .key = STR("d1"),
                                    .value = STR("on"),
                                    .headers = headers,
                                    .n_headers = ARRAY_LEN(headers)};
}

/* --- what the transport asks and tells --- */

/* By the tenant's last character. */
static unsigned worker_of(void *context, struct str tenant)
{
    (void)context;
    return tenant.n && tenant.p[tenant.n - 1] == '1' ? 1 : 0;
}

static bool lives(void *context, unsigned worker, const struct command_peer *peer)
{
    (void)context;
    (void)worker;
    (void)peer;
    return !b.is_dead;
}

static void begin(void *context, struct mail *ready, struct mailbox *home)
{
    (void)context;
    b.n_begun++;
    mailbox_post(home, ready);
}

static void ensure(void *context)
{
    (void)context;
    b.n_ensured++;
}

static void on_request(struct command_plane *plane, const struct command_request *request)
{
    (void)plane;
    b.requests[b.n_requests++] = request->ticket.offset;
    b.n_headers = request->n_headers;
    assert_true(str_equal(request->to.instance, STR("one")));
    if (b.answers) {
        const struct command_result_message result = {
            .ticket = request->ticket, .from = request->to, .to = request->from, .result = COMMAND_RECEIVED};

        assert_int_equal(b.transport->ops->send_result(b.transport, worker_of(NULL, request->ticket.tenant), &result), E_OK);
        assert_true(str_equal(request->headers[0].name, STR("device_id"))); /* still */
    }
}

static void on_result(struct command_plane *plane, const struct command_result_message *result)
{
    (void)plane;
    b.n_results++;
    b.result = *result;
}

static void on_room(struct command_plane *plane, unsigned worker)
{
    (void)plane;
    b.rooms[worker]++;
}

static void settle(struct source *source, struct source_record *record)
{
    (void)source;
    (void)record;
    b.n_settled++;
}

static const struct source_ops source_ops = {.settle = settle};

static void turn(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        loop_turn(&b.workers.list[i].loop, 0);
}

static int64_t counted(enum command_topics_metric which)
{
    return metric_value(&command_topics_metrics[which]);
}

static int64_t bytes_before;

static int set_up(void **state)
{
    const struct command_topics_settings settings = {
        .workers = &b.workers,
        .sink = &b.sink.sink,
        .user = {.on_request = on_request, .on_result = on_result, .on_room = on_room},
        .instance = STR("one"),
        .worker_of = worker_of,
        .lives = lives,
        .begin = begin,
        .ensure = ensure,
    };
    struct errinfo ei;

    (void)state;
    bytes_before = mem_used(MEM_COMMAND);
    memset(&b, 0, sizeof b);
    assert_int_equal(workers_init(&b.workers, WORKERS, SIZE_MAX, NULL, &ei), E_OK);
    fake_sink_init(&b.sink);
    b.transport = command_topics_new(&settings);
    assert_non_null(b.transport);
    b.source.ops = &source_ops;
    command_topics_attach(b.transport, &b.source);
    b.partition =
        (struct source_partition){.topic = command_topics_own(b.transport), .reader = command_topics_reader(b.transport)};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    turn();
    b.transport->ops->free(b.transport);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_SENT),
                     counted(COMMAND_TOPICS_COUNT_STORED) + counted(COMMAND_TOPICS_COUNT_LOST));
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING), 0);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING_BYTES), 0);
    workers_fini(&b.workers);
    fake_sink_fini(&b.sink);
    assert_int_equal(mem_used(MEM_COMMAND), bytes_before);
    return 0;
}

/* Sends a request of worker 0. */
static err ask(int64_t offset)
{
    struct command_request request = request_of("t0", offset);

    return b.transport->ops->send_request(b.transport, 0, &request);
}

static int64_t offset_sent(size_t i)
{
    return strtoll(fake_sink_header(fake_sink_record(&b.sink, i), STR("orig-offset")).p, NULL, 10);
}

/* A record of the own topic comes. */
static void receive(struct source_record *r, const struct record *record)
{
    const struct source_reader *reader = command_topics_reader(b.transport);

    *r = (struct source_record){.mail = {.on_mail = reader->on_record},
                                .partition = &b.partition,
                                .key = record->key,
                                .value = record->value,
                                .headers = record->headers,
                                .n_headers = record->n_headers};
    mailbox_post(reader->home(reader->context, b.partition.topic, 0), &r->mail);
    turn();
    turn();
}

static void receive_request(const char *tenant, int64_t offset)
{
    struct command_request request = request_of(tenant, offset);
    struct record_header room[HEADERS];
    struct command_envelope_text text;
    struct source_record r;
    struct record record;

    command_envelope_write_request(&request, room, &text, &record);
    receive(&r, &record);
}

/* --- tests --- */

static void what_is_sent_is_written_to_the_topic_of_the_instance(void **state)
{
    const struct fake_record *record;

    (void)state;
    assert_int_equal(ask(7), E_OK);
    turn();
    record = fake_sink_record(&b.sink, 0);
    assert_true(str_equal(record->topic, STR("hono.command_internal.two")));
    assert_true(str_equal(record->key, STR("d1")));
    assert_int_equal(offset_sent(0), 7);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING), 0);
}

static void what_kafka_refuses_is_written_again_before_anything_new(void **state)
{
    int64_t again = counted(COMMAND_TOPICS_COUNT_AGAIN);

    (void)state;
    fake_sink_hold(&b.sink);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(ask(i), E_OK);
    fake_sink_answer(&b.sink, 1, OUTCOME_UNKNOWN_TOPIC);
    turn();
    assert_int_equal(ask(99), E_IO);
    fake_sink_answer(&b.sink, 0, OUTCOME_UNKNOWN_TOPIC);
    fake_sink_answer(&b.sink, 2, OUTCOME_STORED);
    while (counted(COMMAND_TOPICS_COUNT_AGAIN) == again && fake_sink_count(&b.sink) == 4) {
        fake_sink_release(&b.sink, 1); /* the last one that is out */
        loop_turn(&b.workers.list[0].loop, 10);
    }
    fake_sink_release(&b.sink, SIZE_MAX);
    turn();
    assert_int_equal(fake_sink_count(&b.sink), 6);
    assert_int_equal(offset_sent(4), 1); /* in the order in which they failed */
    assert_int_equal(offset_sent(5), 0);
    assert_int_equal(ask(4), E_OK);
    turn();
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING), 0);
}

static void what_is_for_an_instance_that_is_gone_is_lost(void **state)
{
    int64_t lost = counted(COMMAND_TOPICS_COUNT_LOST);

    (void)state;
    fake_sink_hold(&b.sink);
    assert_int_equal(ask(1), E_OK);
    assert_int_equal(ask(2), E_OK);
    fake_sink_answer(&b.sink, 0, OUTCOME_UNKNOWN_TOPIC);
    turn();
    b.is_dead = true;
    b.transport->ops->on_instances(b.transport);
    turn();
    assert_int_equal(b.n_ensured, 1);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_LOST), lost + 1);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING), 1); /* Kafka has it */
    fake_sink_answer(&b.sink, 1, OUTCOME_UNKNOWN_TOPIC);
    while (counted(COMMAND_TOPICS_COUNT_WAITING))
        loop_turn(&b.workers.list[0].loop, 10);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_LOST), lost + 2);
    assert_int_equal(fake_sink_count(&b.sink), 2);
}

static void what_kafka_never_takes_fails_and_is_told(void **state)
{
    (void)state;
    fake_sink_add_step(&b.sink, OUTCOME_TOO_LARGE, true);
    fake_sink_add_step(&b.sink, OUTCOME_TOO_LARGE, false);
    assert_int_equal(ask(1), E_LIMIT); /* known at once */
    assert_int_equal(ask(2), E_OK);
    turn();
    assert_int_equal(b.n_results, 1);
    assert_int_equal(b.result.ticket.offset, 2);
    assert_int_equal(b.result.result, COMMAND_FAILED);
    assert_int_equal(b.result.status, 413);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_WAITING), 0);
    assert_int_equal(ask(3), E_OK); /* nothing stands before it */
}

static void without_room_a_sender_waits_and_is_told(void **state)
{
    (void)state;
    fake_sink_hold(&b.sink);
    fake_sink_set_room(&b.sink, 1);
    assert_int_equal(ask(1), E_OK);
    assert_int_equal(ask(2), E_AGAIN);
    assert_int_equal(b.rooms[0], 0);
    fake_sink_release(&b.sink, SIZE_MAX);
    turn();
    assert_int_equal(b.rooms[0], 1);
    assert_int_equal(ask(2), E_OK);
}

/* Sends big requests to an instance until it does not go on; how many were taken. */
static unsigned fill(const char *instance, err expected)
{
    static char big[BIG_BYTES];
    struct command_request request = request_of("t0", 1);
    unsigned n = 0;
    err e;

    request.value = (struct str){big, sizeof big};
    request.to.instance = str_from(instance);
    while ((e = b.transport->ops->send_request(b.transport, 0, &request)) == E_OK)
        n++;
    assert_int_equal(e, expected);
    return n;
}

static void a_worker_has_so_many_bytes_on_the_way_and_half_of_them_to_one_instance(void **state)
{
    struct command_request request = request_of("t0", 1);

    (void)state;
    fake_sink_hold(&b.sink);
    assert_int_equal(fill("two", E_IO), COMMAND_TOPICS_WINDOW_BYTES / BIG_BYTES / 2);
    assert_int_equal(fill("three", E_AGAIN), COMMAND_TOPICS_WINDOW_BYTES / BIG_BYTES / 2);
    assert_int_equal(fill("four", E_AGAIN), 0);
    assert_int_equal(b.transport->ops->send_request(b.transport, 1, &request), E_OK); /* another worker's */
    fake_sink_release(&b.sink, COMMAND_TOPICS_WINDOW_BYTES / BIG_BYTES / 2 - 2);
    turn();
    assert_int_equal(b.rooms[0], 0);
    fake_sink_release(&b.sink, SIZE_MAX);
    turn();
    assert_int_equal(b.rooms[0], 1);
}

static void records_come_in_order_to_the_worker_of_their_tenant(void **state)
{
    (void)state;
    receive_request("t0", 1);
    receive_request("t1", 2);
    receive_request("t1", 3);
    assert_int_equal(b.n_requests, 3);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(b.requests[i], i + 1);
    assert_int_equal(b.n_settled, 3);
    assert_int_equal(b.n_headers, 1);
}

static void a_request_may_be_answered_at_once(void **state)
{
    (void)state;
    b.answers = true;
    receive_request("t1", 5);
    assert_int_equal(fake_sink_count(&b.sink), 1);
    assert_true(str_equal(fake_sink_header(fake_sink_record(&b.sink, 0), STR("millrace-result")), STR("0")));
}

static void a_result_comes_to_whoever_waits(void **state)
{
    const struct command_result_message result = {.ticket = {STR("t1"), 0, 9},
                                                  .from = {STR("two"), 2},
                                                  .to = {STR("one"), 1},
                                                  .result = COMMAND_ATTEMPTED,
                                                  .status = 202};
    struct record_header room[HEADERS];
    struct command_envelope_text text;
    struct source_record r;
    struct record record;

    (void)state;
    command_envelope_write_result(&result, room, &text, &record);
    receive(&r, &record);
    assert_int_equal(b.n_results, 1);
    assert_int_equal(b.result.ticket.offset, 9);
    assert_int_equal(b.result.result, COMMAND_ATTEMPTED);
}

static void what_is_neither_is_dropped_and_counted(void **state)
{
    int64_t malformed = counted(COMMAND_TOPICS_COUNT_MALFORMED);
    struct source_record r;

    (void)state;
    receive(&r, &(struct record){.key = STR("d1"), .value = STR("on")});
    assert_int_equal(b.n_requests + b.n_results, 0);
    assert_int_equal(b.n_settled, 1);
    assert_int_equal(counted(COMMAND_TOPICS_COUNT_MALFORMED), malformed + 1);
}

static void on_ready(struct mail *m)
{
    (void)m;
    b.n_ready++;
}

static void it_begins_when_it_is_told(void **state)
{
    static struct mail ready = {.on_mail = on_ready};

    (void)state;
    b.transport->ops->start(b.transport, &ready, &b.workers.list[0].loop.mailbox);
    turn();
    assert_int_equal(b.n_begun, 1);
    assert_int_equal(b.n_ready, 1);
}

static void a_name_that_no_topic_can_have_is_refused(void **state)
{
    char longest[300], out[COMMAND_TOPICS_NAME_BYTES];
    struct command_request request = request_of("t0", 1);

    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_int_equal(command_topics_name((struct str){longest, 249 - strlen("hono.command_internal.")}, out), E_OK);
    assert_int_equal(command_topics_name((struct str){longest, 250 - strlen("hono.command_internal.")}, out), E_INVAL);
    request.to.instance = (struct str){longest, sizeof longest};
    assert_int_equal(b.transport->ops->send_request(b.transport, 0, &request), E_IO);
    request.to.instance = (struct str){0};
    assert_int_equal(b.transport->ops->send_request(b.transport, 0, &request), E_IO);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_sent_is_written_to_the_topic_of_the_instance),
        TEST(what_kafka_refuses_is_written_again_before_anything_new),
        TEST(what_is_for_an_instance_that_is_gone_is_lost),
        TEST(what_kafka_never_takes_fails_and_is_told),
        TEST(without_room_a_sender_waits_and_is_told),
        TEST(a_worker_has_so_many_bytes_on_the_way_and_half_of_them_to_one_instance),
        TEST(records_come_in_order_to_the_worker_of_their_tenant),
        TEST(a_request_may_be_answered_at_once),
        TEST(a_result_comes_to_whoever_waits),
        TEST(what_is_neither_is_dropped_and_counted),
        TEST(it_begins_when_it_is_told),
        TEST(a_name_that_no_topic_can_have_is_refused),
    };

    return cmocka_run_group_tests_name("command_topics", tests, NULL, NULL);
}
