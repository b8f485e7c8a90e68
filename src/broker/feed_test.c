#include "broker/feed.h"

#include "broker/broker_fixture.h"
#include "broker/feed_private.h"
#include "proto/mqtt/mqtt_property.h"

enum { MAX_RECORDS = 64, ACK_TIMEOUT_MS = 30000 };

/* A source whose records the test makes; it writes down what is settled. */
static struct {
    struct source source;
    struct source_partition partition;
    struct source_record records[MAX_RECORDS];
    bool is_settled[MAX_RECORDS];
    size_t n_records, n_settled;
} src;

static struct feed *feed;
static int64_t before[FEED_METRICS];
static size_t n_used;

static void forget(struct source *source, struct source_record *record)
{
    (void)source;
    record->key = record->value = (struct str){0};
    record->n_headers = 0;
}

static void settle(struct source *source, struct source_record *record)
{
    size_t i = (size_t)(record - src.records);

    (void)source;
    assert_false(src.is_settled[i]);
    src.is_settled[i] = true;
    src.n_settled++;
}

static const struct source_ops source_ops = {.forget = forget, .settle = settle};

static int64_t counted(enum feed_metric which)
{
    return metric_value(&feed_metrics[which]) - before[which];
}

static void check_ledger(void)
{
    int64_t dropped = 0;

    for (int i = FEED_DROPPED_NO_RULE; i < FEED_METRICS; i++)
        dropped += counted((enum feed_metric)i);
    assert_int_equal(counted(FEED_RECORDS), counted(FEED_DELIVERED) + dropped + counted(FEED_WAITING));
}

/* Rules that differ in what they do with a record nobody wants: `now/..` drops it, `hold/..` waits an hour. */
static void open_feed(uint64_t start_hold_ms)
{
    const struct to_mqtt_spec specs[] = {
        {.topic = STR("t"), .key = STR("^now/(?<x>.+)$"), .mqtt = STR("now/{x#}"), .tenant = STR("a"), .qos = 1},
        {.topic = STR("t"),
         .key = STR("^hold/(?<x>.+)$"),
         .mqtt = STR("hold/{x#}"),
         .tenant = STR("a"),
         .qos = 1,
         .hold_ms = 3600000},
        {.topic = STR("t"), .key = STR("^zero/(?<x>.+)$"), .mqtt = STR("zero/{x#}"), .tenant = STR("a"), .qos = 0},
        {.topic = STR("t"), .key = STR("^two/(?<x>.+)$"), .mqtt = STR("two/{x#}"), .tenant = STR("a"), .qos = 2},
        {.topic = STR("t"),
         .key = STR("^kept/(?<x>.+)$"),
         .mqtt = STR("kept/{x#}"),
         .tenant = STR("a"),
         .qos = 1,
         .is_retained = true},
    };
    struct to_mqtt_rules *rules = to_mqtt_rules_new(10);
    struct to_mqtt_fault fault;

    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct to_mqtt_spec spec = specs[i];

        spec.ack_timeout_ms = ACK_TIMEOUT_MS;
        spec.start_hold_ms = start_hold_ms;
        assert_int_equal(to_mqtt_rules_add(rules, &spec, &fault), E_OK);
    }
    feed = feed_new(fx.broker, &fx.workers, rules);
    to_mqtt_rules_unref(rules);
    memset(&src, 0, sizeof src);
    src.source.ops = &source_ops;
    src.partition =
        (struct source_partition){.topic = STR("t"), .reader = feed_reader(feed), .home = &fx.workers.list[0].loop.mailbox};
    for (int i = 0; i < FEED_METRICS; i++)
        before[i] = metric_value(&feed_metrics[i]);
    feed_start(feed, &src.source);
    feed->started_ms = fx.workers.list[0].loop.now_ms; /* which only a turn of its loop takes forward */
}

static int set_up(void **state)
{
    (void)fixture_set_up(state);
    open_feed(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    check_ledger();
    fixture_forget_clients();
    for (unsigned i = 0; i < fx.workers.n; i++)
        (void)deliver_mail(i);
    broker_free(fx.broker);
    feed_free(feed);
    workers_fini(&fx.workers);
    assert_int_equal(mem_used(MEM_BROKER), fx.broker_bytes);
    assert_int_equal(mem_used(MEM_MESSAGE), fx.message_bytes);
    return 0;
}

/* Every worker's mail until there is none. */
static void settle_down(void)
{
    size_t n;

    do {
        n = 0;
        for (unsigned i = 0; i < fx.workers.n; i++)
            n += deliver_mail(i);
    } while (n);
}

static size_t put_with(const char *key, const char *value, const struct record_header *headers, size_t n_headers)
{
    size_t i = src.n_records++;
    struct source_record *r = &src.records[i];

    assert_true(i < MAX_RECORDS);
    *r = (struct source_record){.mail = {.on_mail = feed_reader(feed)->on_record},
                                .partition = &src.partition,
                                .offset = (int64_t)i,
                                .timestamp_ms = -1,
                                .key = str_from(key),
                                .value = str_from(value),
                                .headers = headers,
                                .n_headers = n_headers};
    mailbox_post(src.partition.home, &r->mail);
    return i;
}

/* A record comes; returns its number. */
static size_t put(const char *key, const char *value)
{
    return put_with(key, value, NULL, 0);
}

static void acknowledge(struct client *cl, size_t i)
{
    assert_int_equal(outgoing_on_puback(cl->ss, sent_at(cl, i)->packet_id), OUTGOING_ANSWERED);
}

static void a_record_is_settled_when_its_subscriber_has_acknowledged_it(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "now/+", .qos = 1);
    put("now/x", "1");
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1");
    assert_string_equal(sent_at(&cl, 0)->topic, "now/x");
    assert_int_equal(sent_at(&cl, 0)->qos, 1);
    assert_int_equal(src.n_settled, 0);
    acknowledge(&cl, 0);
    settle_down();
    assert_int_equal(src.n_settled, 1);
    assert_int_equal(counted(FEED_DELIVERED), 1);
}

static void at_qos_0_it_is_settled_when_it_is_written(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "#", .qos = 2);
    cl.room = 1;
    put("zero/x", "1");
    put("zero/x", "2");
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1");
    assert_int_equal(src.n_settled, 1);
    cl.room = SIZE_MAX; /* a slow reader gets it later */
    session_pump(cl.ss);
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "12");
    assert_int_equal(src.n_settled, 2);
    assert_int_equal(counted(FEED_DELIVERED), 2);
}

static void at_qos_2_it_is_settled_when_the_client_has_received_it(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "two/x", .qos = 2);
    put("two/x", "1");
    settle_down();
    assert_int_equal(sent_at(&cl, 0)->qos, 2);
    assert_int_equal(src.n_settled, 0);
    assert_int_equal(outgoing_on_pubrec(cl.ss, sent_at(&cl, 0)->packet_id, false), OUTGOING_ANSWERED);
    settle_down();
    assert_int_equal(src.n_settled, 1);
    assert_int_equal(outgoing_on_pubcomp(cl.ss, sent_at(&cl, 0)->packet_id), OUTGOING_ANSWERED);
    settle_down();
    assert_int_equal(counted(FEED_DELIVERED), 1);
}

static void every_session_that_got_it_counts(void **state)
{
    struct client here, there;

    (void)state;
    CONNECT(&here, "here");
    connect_on(1, &there, (struct connect_fields){.id = "there"});
    SUBSCRIBE(&here, "now/x", .qos = 1);
    SUBSCRIBE(&there, "#", .qos = 1);
    put("now/x", "1");
    settle_down();
    assert_string_equal(payloads_from(&here, 0), "1");
    assert_string_equal(payloads_from(&there, 0), "1");
    acknowledge(&here, 0);
    settle_down();
    assert_int_equal(src.n_settled, 0);
    acknowledge(&there, 0);
    settle_down();
    assert_int_equal(src.n_settled, 1);
}

static void without_subscribers_it_is_dropped_and_counted(void **state)
{
    struct client cl;

    (void)state;
    connect_on(1, &cl, (struct connect_fields){.id = "c"});
    SUBSCRIBE(&cl, "now/other", .qos = 1);
    put("now/x", "1");
    settle_down();
    assert_int_equal(src.n_settled, 1);
    assert_int_equal(counted(FEED_DROPPED_NO_SUBSCRIBER), 1);
}

static void with_hold_it_waits_for_a_subscriber_in_order(void **state)
{
    struct client cl, other;

    (void)state;
    CONNECT(&other, "other");
    SUBSCRIBE(&other, "hold/other", .qos = 1);
    put("hold/x", "1");
    put("hold/x", "2");
    put("hold/other", "o");
    put("hold/y", "3");
    settle_down();
    assert_string_equal(payloads_from(&other, 0), "o"); /* nobody waits for the absent */
    assert_int_equal(counted(FEED_HELD), 3);
    pass_ms(3000000);
    connect_on(1, &cl, (struct connect_fields){.id = "c"});
    SUBSCRIBE(&cl, "hold/x", .qos = 1);
    put("hold/x", "4");
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "124");
    assert_int_equal(counted(FEED_HELD), 1);
    for (size_t i = 0; i < 3; i++)
        acknowledge(&cl, i);
    settle_down();
    assert_int_equal(src.n_settled, 3);
    assert_false(src.is_settled[3]);
    pass_ms(700000);
    settle_down();
    assert_true(src.is_settled[3]);
    assert_int_equal(counted(FEED_DROPPED_NO_SUBSCRIBER), 1);
}

static void a_wildcard_wakes_all_that_wait(void **state)
{
    struct client cl;

    (void)state;
    put("hold/a", "1");
    put("hold/b", "2");
    put("hold/a/c", "3");
    settle_down();
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "hold/+", .qos = 1);
    settle_down();
    assert_int_equal(cl.n_sent, 2);
    assert_int_equal(counted(FEED_HELD), 1);
    SUBSCRIBE(&cl, "hold/#", .qos = 1);
    settle_down();
    assert_int_equal(cl.n_sent, 3);
    assert_int_equal(counted(FEED_HELD), 0);
}

static void after_the_start_every_rule_holds(void **state)
{
    struct client cl;

    (void)state;
    feed_free(feed);
    open_feed(60000);
    put("now/x", "1");
    put("now/y", "2");
    settle_down();
    assert_int_equal(src.n_settled, 0);
    pass_ms(50000);
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "now/x", .qos = 1);
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1");
    pass_ms(20000);
    put("now/y", "3");
    settle_down();
    assert_int_equal(counted(FEED_DROPPED_NO_SUBSCRIBER), 2);
}

static void what_a_session_that_ended_had_goes_to_the_next(void **state)
{
    struct client cl, next;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "#", .qos = 1);
    put("hold/x", "1");
    put("now/x", "n");
    put("hold/x", "2");
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1n2");
    acknowledge(&cl, 2);
    lose(&cl); /* it had no session expiry */
    settle_down();
    assert_int_equal(counted(FEED_DROPPED_SESSION_END), 1);
    assert_int_equal(counted(FEED_DELIVERED), 1);
    assert_int_equal(counted(FEED_HELD), 1);
    put("hold/x", "3");
    settle_down();
    CONNECT(&next, "c");
    SUBSCRIBE(&next, "hold/+", .qos = 1);
    settle_down();
    assert_string_equal(payloads_from(&next, 0), "13");
    acknowledge(&next, 0);
    acknowledge(&next, 1);
    settle_down();
    assert_int_equal(src.n_settled, 4);
}

static void a_persistent_session_keeps_it_until_its_client_is_back(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c", .expiry_s = 1000);
    SUBSCRIBE(&cl, "#", .qos = 1);
    put("now/x", "1");
    settle_down();
    lose(&cl);
    put("now/x", "2");
    settle_down();
    pass_ms(100000); /* nobody is blamed for silence while it is away */
    settle_down();
    assert_int_equal(src.n_settled, 0);
    CONNECT(&cl, "c", .expiry_s = 1000);
    assert_string_equal(payloads_from(&cl, 0), "1!2");
    acknowledge(&cl, 0);
    acknowledge(&cl, 1);
    settle_down();
    assert_int_equal(src.n_settled, 2);
}

static void a_full_partition_goes_on_without_what_stands_in_queues(void **state)
{
    struct client slow, fast;

    (void)state;
    CONNECT(&slow, "slow");
    CONNECT(&fast, "fast");
    SUBSCRIBE(&slow, "now/slow", .qos = 1);
    SUBSCRIBE(&fast, "now/fast", .qos = 1);
    put("hold/x", "h");
    for (int i = 0; i < 4; i++)
        put("now/slow", "s");
    put("now/fast", "f");
    settle_down();
    assert_string_equal(payloads_from(&fast, 0), "f");
    acknowledge(&fast, 0);
    settle_down();
    assert_int_equal(src.n_settled, 1);
    feed_reader(feed)->on_full(feed, &src.partition);
    assert_int_equal(src.n_settled, 3);
    assert_false(src.is_settled[0]); /* nobody has it yet */
    assert_true(src.is_settled[1] && src.is_settled[2]);
    assert_int_equal(counted(FEED_MOVED), 2);
    for (size_t i = 0; i < 4; i++)
        acknowledge(&slow, i);
    settle_down();
    assert_int_equal(src.n_settled, 5);
    assert_int_equal(counted(FEED_DELIVERED), 5);
}

static void queues_that_are_half_full_hold_the_partition(void **state)
{
    struct client slow;

    (void)state;
    CONNECT(&slow, "slow", .receive_maximum = 1);
    SUBSCRIBE(&slow, "now/slow", .qos = 1);
    for (int i = 0; i < 20; i++) /* twice as many as the queue's limit: none is lost */
        put("now/slow", "s");
    settle_down();
    feed_reader(feed)->on_full(feed, &src.partition);
    feed_reader(feed)->on_full(feed, &src.partition);
    assert_int_equal(src.n_settled, fixture_limits.queued_messages / 2 + 1);
    for (size_t i = 0; i < 20; i++)
        acknowledge(&slow, i);
    settle_down();
    assert_int_equal(counted(FEED_DELIVERED), 20);
}

static int n_overdue;
static bool is_deaf;

static bool on_overdue(struct link *link)
{
    struct client *cl = CONTAINER_OF(link, struct client, link);

    n_overdue++;
    if (!is_deaf)
        lose(cl);
    return !is_deaf;
}

static void a_client_that_acknowledges_nothing_is_closed(void **state)
{
    struct link_ops ops = fixture_link_ops;
    struct client cl;

    (void)state;
    ops.overdue = on_overdue;
    n_overdue = 0;
    CONNECT(&cl, "c", .expiry_s = 1000);
    cl.link.ops = &ops;
    SUBSCRIBE(&cl, "#", .qos = 1);
    PUBLISH("any", "p", .qos = 1);
    pass_ms(ACK_TIMEOUT_MS * 2); /* only who owes an answer to Kafka is waited for */
    put("now/x", "1");
    put("now/x", "2");
    settle_down();
    pass_ms(ACK_TIMEOUT_MS - 1);
    acknowledge(&cl, 1);
    pass_ms(ACK_TIMEOUT_MS - 1); /* slow, but alive */
    assert_int_equal(n_overdue, 0);
    is_deaf = true;
    pass_ms(1);
    assert_int_equal(n_overdue, 1);
    is_deaf = false;
    pass_ms(ACK_TIMEOUT_MS - 1);
    assert_int_equal(n_overdue, 1);
    pass_ms(1);
    assert_int_equal(n_overdue, 2);
    assert_null(cl.ss);
    settle_down();
    assert_int_equal(src.n_settled, 1);
    CONNECT(&cl, "c", .expiry_s = 1000);
    cl.link.ops = &ops;
    pass_ms(ACK_TIMEOUT_MS);
    assert_int_equal(n_overdue, 3);
    CONNECT(&cl, "c");
    acknowledge(&cl, 0);
    acknowledge(&cl, 1);
    settle_down();
    pass_ms(ACK_TIMEOUT_MS * 3);
    assert_int_equal(n_overdue, 3);
    assert_int_equal(src.n_settled, 2);
}

static void records_that_become_no_message_are_counted_and_settled(void **state)
{
    static const struct record_header hops[] = {{STR_INIT("mqtt.hops"), STR_INIT("9")}};
    static const struct record_header expired[] = {{STR_INIT("mqtt.expiry_s"), STR_INIT("1")}};
    size_t i;

    (void)state;
    put("nothing", "1");
    put("now/+", "2");
    put_with("now/x", "3", hops, 1);
    i = put_with("now/x", "4", expired, 1);
    src.records[i].timestamp_ms = 1000;
    settle_down();
    assert_int_equal(src.n_settled, 4);
    assert_int_equal(counted(FEED_DROPPED_NO_RULE), 1);
    assert_int_equal(counted(FEED_DROPPED_TOPIC), 1);
    assert_int_equal(counted(FEED_DROPPED_HOP_LIMIT), 1);
    assert_int_equal(counted(FEED_DROPPED_EXPIRED), 1);
}

static void while_draining_nothing_is_settled_that_was_not_acknowledged(void **state)
{
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "#", .qos = 1);
    put("now/x", "1");
    put("now/x", "2");
    settle_down();
    feed_drain(feed);
    acknowledge(&cl, 0);
    settle_down();
    lose(&cl);
    settle_down();
    assert_int_equal(src.n_settled, 1);
    assert_true(src.is_settled[0]);
    assert_int_equal(counted(FEED_WAITING), 1);
}

static void without_room_in_a_mailbox_records_keep_their_order(void **state)
{
    struct mailbox *there = &fx.workers.list[1].loop.mailbox;
    struct client cl;

    (void)state;
    connect_on(1, &cl, (struct connect_fields){.id = "c"});
    SUBSCRIBE(&cl, "#", .qos = 1);
    assert_true(mailbox_reserve(there, FIXTURE_MAILBOX_BYTES));
    put("now/x", "1");
    put("hold/x", "2");
    put("now/x", "3");
    put("hold/x", "4");
    put("now/y", "5");
    settle_down();
    pass_ms(10);
    settle_down();
    assert_int_equal(cl.n_sent, 0);
    mailbox_release(there, FIXTURE_MAILBOX_BYTES);
    for (int i = 0; i < 5; i++) {
        pass_ms(10);
        settle_down();
        while (cl.ss->n_in_flight)
            acknowledge(&cl, cl.n_sent - cl.ss->n_in_flight);
    }
    settle_down();
    assert_int_equal(cl.n_sent, 5);
    assert_int_equal(src.n_settled, 5);
    for (size_t i = 0, x = 0; i < 5; i++) { /* by topic */
        if (strcmp(sent_at(&cl, i)->topic, "now/x") == 0)
            assert_int_equal(sent_at(&cl, i)->payload[0], x++ ? '3' : '1');
    }
}

static void a_retained_record_needs_no_subscriber(void **state)
{
    struct subscription_options options = {.qos = 1};
    struct client cl;

    (void)state;
    put("kept/x", "1");
    put("kept/y", "2");
    put("kept/x", NULL); /* a null value deletes */
    settle_down();
    assert_int_equal(src.n_settled, 3);
    assert_int_equal(counted(FEED_DELIVERED), 3);
    connect_on(1, &cl, (struct connect_fields){.id = "c"});
    SUBSCRIBE(&cl, "kept/+", .qos = 1);
    session_send_retained(cl.ss, STR("kept/+"), &options);
    assert_string_equal(payloads_from(&cl, 0), "2");
    assert_true(sent_at(&cl, 0)->retain);
}

static void a_full_store_of_retained_messages_stops_nothing_else(void **state)
{
    static char keys[MAX_RECORDS][16];
    size_t n = fixture_limits.retained_messages;
    struct client cl;

    (void)state;
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "now/+", .qos = 0);
    for (size_t i = 0; i <= n; i++) {
        snprintf(keys[i], sizeof keys[i], "kept/%zu", i);
        put(keys[i], "x");
        settle_down();
    }
    assert_int_equal(counted(FEED_DROPPED_RETAINED_FULL), 1);
    put("now/x", "1");
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1");
    assert_int_equal(src.n_settled, n + 2);
}

static void on_used(struct mail *m)
{
    (void)m;
    n_used++;
}

static void other_rules_hold_for_records_that_come_later(void **state)
{
    const struct to_mqtt_spec spec = {.topic = STR("t"),
                                      .key = STR("^(?<x>.+)$"),
                                      .mqtt = STR("new/{x#}"),
                                      .tenant = STR("a"),
                                      .ack_timeout_ms = ACK_TIMEOUT_MS};
    struct to_mqtt_rules *rules = to_mqtt_rules_new(10);
    struct mail used = {.on_mail = on_used};
    struct to_mqtt_fault fault;
    struct client cl;

    (void)state;
    assert_int_equal(to_mqtt_rules_add(rules, &spec, &fault), E_OK);
    put("hold/x", "1");
    settle_down();
    put("now/x", "2"); /* handed to the worker before the rules */
    n_used = 0;
    feed_use(feed, rules, &used, &fx.workers.list[0].loop.mailbox);
    to_mqtt_rules_unref(rules);
    put("hold/y", "3");
    settle_down();
    assert_int_equal(n_used, 1);
    assert_int_equal(counted(FEED_DROPPED_NO_SUBSCRIBER), 2);
    assert_int_equal(src.n_settled, 2);
    CONNECT(&cl, "c");
    SUBSCRIBE(&cl, "#", .qos = 1);
    settle_down();
    assert_string_equal(payloads_from(&cl, 0), "1"); /* waits by the rule it came under */
    assert_string_equal(sent_at(&cl, 0)->topic, "hold/x");
    assert_int_equal(sent_at(&cl, 0)->qos, 1);
    put("hold/x", "4");
    settle_down();
    assert_string_equal(sent_at(&cl, 1)->topic, "new/hold/x");
    assert_int_equal(sent_at(&cl, 1)->qos, 0);
    acknowledge(&cl, 0);
    settle_down();
    assert_int_equal(src.n_settled, 4);
    assert_int_equal(counted(FEED_DELIVERED), 2);
}

static void headers_travel_as_properties(void **state)
{
    static const struct record_header headers[] = {
        {STR_INIT("content-type"), STR_INIT("application/json")},
        {STR_INIT("mqtt.response_topic"), STR_INIT("r/t")},
        {STR_INIT("mqtt.correlation_data"), STR_INIT("\x01\xff\x02")},
        {STR_INIT("traceparent"), STR_INIT("00-a-b-01")},
    };
    struct source_record r = {
        .partition = &src.partition, .key = STR("now/x"), .value = STR("v"), .headers = headers, .n_headers = 4};
    struct to_mqtt_route *route = to_mqtt_route_new(feed->list[0].rules, STR("t"));
    struct to_mqtt_message m;
    struct mqtt_properties props;
    struct mqtt_user_property up;
    struct message *message;
    struct str rest;

    (void)state;
    assert_int_equal(to_mqtt_route_map(route, &r, 0, &m), TO_MQTT_REFUSED_NOTHING);
    message = feed_message_new(&feed->list[0], &r, &m);
    assert_non_null(message);
    assert_int_equal(mqtt_property_decode(message->properties, MQTT_PUBLISH, &props), MQTT_REASON_SUCCESS);
    assert_true(str_equal(props.content_type, STR("application/json")));
    assert_true(str_equal(props.response_topic, STR("r/t")));
    assert_true(str_equal(props.correlation_data, STR("\x01\xff\x02")));
    rest = props.raw;
    assert_true(mqtt_property_next_user(&rest, &up));
    assert_true(str_equal(up.name, STR("traceparent")));
    assert_false(mqtt_property_next_user(&rest, &up));
    message_unref(message);
    r.n_headers = 0;
    message = feed_message_new(&feed->list[0], &r, &m);
    assert_non_null(message);
    to_mqtt_route_free(route);
    message_unref(message);
}

#define FEED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FEED_TEST(a_record_is_settled_when_its_subscriber_has_acknowledged_it),
        FEED_TEST(at_qos_0_it_is_settled_when_it_is_written),
        FEED_TEST(at_qos_2_it_is_settled_when_the_client_has_received_it),
        FEED_TEST(every_session_that_got_it_counts),
        FEED_TEST(without_subscribers_it_is_dropped_and_counted),
        FEED_TEST(with_hold_it_waits_for_a_subscriber_in_order),
        FEED_TEST(a_wildcard_wakes_all_that_wait),
        FEED_TEST(after_the_start_every_rule_holds),
        FEED_TEST(what_a_session_that_ended_had_goes_to_the_next),
        FEED_TEST(a_persistent_session_keeps_it_until_its_client_is_back),
        FEED_TEST(a_full_partition_goes_on_without_what_stands_in_queues),
        FEED_TEST(queues_that_are_half_full_hold_the_partition),
        FEED_TEST(a_client_that_acknowledges_nothing_is_closed),
        FEED_TEST(records_that_become_no_message_are_counted_and_settled),
        FEED_TEST(while_draining_nothing_is_settled_that_was_not_acknowledged),
        FEED_TEST(without_room_in_a_mailbox_records_keep_their_order),
        FEED_TEST(a_retained_record_needs_no_subscriber),
        FEED_TEST(a_full_store_of_retained_messages_stops_nothing_else),
        FEED_TEST(other_rules_hold_for_records_that_come_later),
        FEED_TEST(headers_travel_as_properties),
    };

    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
