#include "fanout/fanout_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

enum { MINUTE_MS = 60 * 1000, TEXT_BYTES = 2048 };

static const struct fanout_abilities everything = {.has_kafka = true, .has_disk = true}, nothing = {0};

static struct fanout_snapshot *build(const char *text)
{
    struct config_errors errors;
    struct fanout_snapshot *snapshot = NULL;

    if (fanout_config_build(str_from(text), "test", 7, &everything, &snapshot, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    assert_non_null(snapshot);
    return snapshot;
}

static void expect_error(const struct fanout_abilities *abilities, const char *text, unsigned line, const char *part)
{
    struct config_errors errors;
    struct fanout_snapshot *snapshot = NULL;

    if (fanout_config_build(str_from(text), "test", 7, abilities, &snapshot, &errors) != E_INVAL)
        fail_msg("accepted: %s", text);
    assert_null(snapshot);
    assert_true(errors.count > 0);
    assert_string_equal(errors.items[0].file, "test");
    if (errors.items[0].line != line || !strstr(errors.items[0].text, part))
        fail_msg("%s\nline %u: %s", text, errors.items[0].line, errors.items[0].text);
}

static void assert_text(struct str s, const char *text)
{
    assert_string_equal(s.p, text);
    assert_int_equal(s.n, strlen(text));
}

#define CHANNEL "channels:\n- {namespace: default, name: c1, "

static void an_empty_document_has_no_channels(void **state)
{
    static const char *const texts[] = {"",           "---\n", "{}", "channels: []\n", "channels:\n", "channelConfigs: []",
                                        "# nothing\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct fanout_snapshot *s = build(texts[i]);

        assert_int_equal(s->n_channels, 0);
        assert_int_equal(s->generation, 7);
        assert_null(fanout_snapshot_find_key(s, STR("default/c1")));
        fanout_snapshot_unref(s);
    }
}

static void the_first_sidecars_form_is_read(void **state)
{
    struct fanout_snapshot *s = build("channelConfigs:\n"
                                      "- namespace: default\n"
                                      "  name: c1\n"
                                      "  fanoutConfig:\n"
                                      "    subscriptions:\n"
                                      "    - callableDomain: a.default.svc.cluster.local\n"
                                      "      sinkableDomain: b.default.svc.cluster.local:8080\n"
                                      "    - callableDomain: \"\"\n"
                                      "      sinkableDomain: c.default.svc.cluster.local\n"
                                      "- namespace: default\n"
                                      "  name: c2\n"
                                      "  fanoutConfig: {}\n");
    const struct fanout_channel *c = fanout_snapshot_find_key(s, STR("default/c1"));
    const struct fanout_subscription *sub;

    (void)state;
    assert_int_equal(s->n_channels, 2);
    assert_false(s->has_https);
    assert_int_equal(s->n_subscriptions, 2);
    assert_int_equal(fanout_snapshot_find_key(s, STR("default/c2"))->n_subscriptions, 0);
    assert_text(c->ns, "default");
    assert_text(c->name, "c1");
    assert_int_equal(c->line, 2);
    sub = &c->subscriptions[0];
    assert_int_equal(sub->subscriber.kind, FANOUT_TARGET_HTTP);
    assert_false(sub->subscriber.is_h2c);
    assert_text(sub->subscriber.text, "http://a.default.svc.cluster.local");
    assert_int_equal(sub->subscriber.url.port, 80);
    assert_true(str_equal(sub->subscriber.url.target, STR("/")));
    assert_int_equal(sub->reply.url.port, 8080);
    assert_int_equal(sub->dead_letter.kind, FANOUT_TARGET_NONE);
    assert_int_equal(sub->line, 6);
    sub = &c->subscriptions[1];
    assert_int_equal(sub->subscriber.kind, FANOUT_TARGET_NONE);
    assert_int_equal(sub->reply.kind, FANOUT_TARGET_HTTP);
    assert_int_equal(sub->index, 1);
    fanout_snapshot_unref(s);
}

static void its_later_names_are_read(void **state)
{
    struct fanout_snapshot *s =
        build("channelConfigs:\n"
              "- namespace: default\n"
              "  name: c1\n"
              "  hostname: C1.default.channels.example.\n"
              "  fanoutConfig:\n"
              "    asyncHandler: true\n"
              "    subscriptions:\n"
              "    - subscriberURI: http://a/x?y=1\n"
              "      replyURI: http://b\n"
              "      uid: u-1\n"
              "      generation: 3\n"
              "      delivery:\n"
              "        retry: 3\n"
              "        backoffPolicy: Linear\n"
              "        backoffDelay: PT0.5S\n"
              "        timeout: PT2M\n"
              "        retryAfterMax: PT10S\n"
              "        format: json\n"
              "        deadLetterSink: {uri: \"http://dls/\", ref: null}\n"
              "    - {subscriberURI: \"http://d\", deadLetter: dls2, ref: {kind: Subscription, name: s2, uid: u-2}}\n"
              "    - {subscriberURI: \"http://e\", deadLetterURI: dls3}\n");
    const struct fanout_channel *c;
    const struct fanout_subscription *sub;

    (void)state;
    assert_true(fanout_snapshot_find_host(s, STR("c1.default.channels.example"), &c));
    assert_int_equal(c->ack, FANOUT_ACK_ASYNC_MEMORY);
    sub = &c->subscriptions[0];
    assert_text(sub->uid, "u-1");
    assert_int_equal(sub->retry.retries, 3);
    assert_int_equal(sub->retry.backoff, FANOUT_BACKOFF_LINEAR);
    assert_int_equal(sub->retry.delay_ms, 500);
    assert_int_equal(sub->retry.attempt_timeout_ms, 2 * MINUTE_MS);
    assert_int_equal(sub->retry.retry_after_max_ms, 10000);
    assert_int_equal(sub->format, FANOUT_FORMAT_JSON);
    assert_text(sub->dead_letter.text, "http://dls/");
    assert_int_equal(sub->on_exhausted, FANOUT_EXHAUSTED_DEAD_LETTER);
    assert_text(c->subscriptions[1].uid, "u-2");
    assert_text(c->subscriptions[1].dead_letter.text, "http://dls2");
    assert_text(c->subscriptions[2].dead_letter.text, "http://dls3");
    fanout_snapshot_unref(s);
}

static void defaults_hold_where_nothing_is_said(void **state)
{
    struct fanout_snapshot *s = build(CHANNEL "subscriptions: [{subscriber: \"http://a/\"}]}");
    const struct fanout_channel *c = &s->channels[0];
    const struct fanout_subscription *sub = &c->subscriptions[0];

    (void)state;
    assert_int_equal(c->ack, FANOUT_ACK_ALL);
    assert_int_equal(c->order, FANOUT_ORDER_NONE);
    assert_int_equal(c->redeliver, FANOUT_REDELIVER_ALL);
    assert_int_equal(c->nack, FANOUT_NACK_ALL);
    assert_false(c->is_reply_any_2xx);
    assert_false(c->is_header_raw);
    assert_int_equal(c->timeout_ms, MINUTE_MS);
    assert_int_equal(c->max_body_bytes, 1 << 20);
    assert_int_equal(c->max_hops, 32);
    assert_int_equal(c->n_forward_headers, 1);
    assert_text(c->forward_headers[0], "x-request-id");
    assert_int_equal(c->n_forward_prefixes, 3);
    assert_int_equal(sub->retry.retries, 5);
    assert_int_equal(sub->retry.backoff, FANOUT_BACKOFF_EXPONENTIAL);
    assert_int_equal(sub->retry.delay_ms, 200);
    assert_int_equal(sub->retry.delay_max_ms, 30000);
    assert_int_equal(sub->retry.retry_after_max_ms, 30000);
    assert_int_equal(sub->retry.attempt_timeout_ms, 30000);
    assert_int_equal(sub->on_exhausted, FANOUT_EXHAUSTED_NACK);
    assert_int_equal(sub->format, FANOUT_FORMAT_BINARY);
    assert_int_equal(sub->max_inflight, 0);
    assert_null(sub->filter);
    fanout_snapshot_unref(s);
}

static void every_field_of_a_channel_is_reached(void **state)
{
    struct fanout_snapshot *s = build("generation: 41\n"
                                      "channels:\n"
                                      "- namespace: shop\n"
                                      "  name: orders\n"
                                      "  hosts: [Orders.Example.com, o.example.com]\n"
                                      "  ack: quorum(2)\n"
                                      "  order: key\n"
                                      "  order_key: customer\n"
                                      "  redeliver: failed-only\n"
                                      "  remember: 5m\n"
                                      "  nack: first\n"
                                      "  reply_on: any2xx\n"
                                      "  ce_header_encoding: raw\n"
                                      "  timeout: PT20S\n"
                                      "  max_body: 64KiB\n"
                                      "  max_queued: 1MiB\n"
                                      "  max_hops: 8\n"
                                      "  forward_headers: [X-Tenant, authorization]\n"
                                      "  forward_prefixes: X-My-\n"
                                      "  subscriptions:\n"
                                      "  - {uid: a, subscriber: \"h2c://a:9000/p\"}\n"
                                      "  - {uid: b, subscriber: \"kafka:orders.copy\"}\n"
                                      "  - {uid: c, subscriber: \"HTTP://c:81/\", delivery: {on_exhausted: park, "
                                      "max_inflight: 4, backoff_max: 1s, backoff: linear}}\n");
    const struct fanout_channel *c = fanout_snapshot_find_key(s, STR("shop/orders"));

    (void)state;
    assert_int_equal(s->generation, 41);
    assert_int_equal(c->n_hosts, 2);
    assert_text(c->hosts[0], "orders.example.com");
    assert_int_equal(c->ack, FANOUT_ACK_QUORUM);
    assert_int_equal(c->quorum, 2);
    assert_int_equal(c->order, FANOUT_ORDER_KEY);
    assert_text(c->order_key, "customer");
    assert_int_equal(c->redeliver, FANOUT_REDELIVER_FAILED_ONLY);
    assert_int_equal(c->remember_ms, 5 * MINUTE_MS);
    assert_int_equal(c->nack, FANOUT_NACK_FIRST);
    assert_true(c->is_reply_any_2xx);
    assert_true(c->is_header_raw);
    assert_int_equal(c->timeout_ms, 20000);
    assert_int_equal(c->max_body_bytes, 64 << 10);
    assert_int_equal(c->max_queued_bytes, 1 << 20);
    assert_int_equal(c->max_hops, 8);
    assert_text(c->forward_headers[0], "x-tenant");
    assert_text(c->forward_headers[1], "authorization");
    assert_int_equal(c->n_forward_prefixes, 1);
    assert_text(c->forward_prefixes[0], "x-my-");
    assert_true(c->subscriptions[0].subscriber.is_h2c);
    assert_text(c->subscriptions[0].subscriber.text, "h2c://a:9000/p");
    assert_int_equal(c->subscriptions[0].subscriber.url.port, 9000);
    assert_true(str_equal(c->subscriptions[0].subscriber.url.target, STR("/p")));
    assert_int_equal(c->subscriptions[1].subscriber.kind, FANOUT_TARGET_KAFKA);
    assert_text(c->subscriptions[1].subscriber.topic, "orders.copy");
    assert_int_equal(c->subscriptions[2].on_exhausted, FANOUT_EXHAUSTED_PARK);
    assert_int_equal(c->subscriptions[2].max_inflight, 4);
    assert_int_equal(c->subscriptions[2].retry.delay_max_ms, 1000);
    assert_int_equal(c->subscriptions[2].subscriber.url.port, 81);
    fanout_snapshot_unref(s);
}

static void json_is_read_as_well(void **state)
{
    struct fanout_snapshot *s =
        build("{\"generation\": 3, \"channels\": [{\"namespace\":\"a\",\"name\":\"b\",\"ack\":\"first\","
              "\"subscriptions\":[{\"subscriber\":\"http:\\/\\/x\\/\",\"delivery\":{\"retry\":0}}]}]}");

    (void)state;
    assert_int_equal(s->generation, 3);
    assert_int_equal(s->channels[0].ack, FANOUT_ACK_FIRST);
    assert_int_equal(s->channels[0].quorum, 1);
    assert_int_equal(s->channels[0].subscriptions[0].retry.retries, 0);
    fanout_snapshot_unref(s);
}

static void delivery_is_inherited_field_by_field(void **state)
{
    struct fanout_snapshot *s = build("channels:\n"
                                      "- namespace: n\n"
                                      "  name: c\n"
                                      "  subscriptions:\n"
                                      "  - {subscriber: a}\n"
                                      "  - {subscriber: b, delivery: {retry: 1}}\n"
                                      "  - {subscriber: c, delivery: {retry: null, dead_letter: null, format: ~}}\n"
                                      "  - {subscriber: d, dead_letter: other, delivery: {on_exhausted: drop}}\n"
                                      "  delivery: {retry: 9, dead_letter: dls, format: json, timeout: 7s}\n");
    const struct fanout_subscription *sub = s->channels[0].subscriptions;

    (void)state;
    assert_int_equal(sub[0].retry.retries, 9);
    assert_text(sub[0].dead_letter.text, "http://dls");
    assert_int_equal(sub[0].on_exhausted, FANOUT_EXHAUSTED_DEAD_LETTER);
    assert_int_equal(sub[1].retry.retries, 1);
    assert_int_equal(sub[1].retry.attempt_timeout_ms, 7000);
    assert_int_equal(sub[1].format, FANOUT_FORMAT_JSON);
    assert_int_equal(sub[2].retry.retries, 5);
    assert_int_equal(sub[2].dead_letter.kind, FANOUT_TARGET_NONE);
    assert_int_equal(sub[2].on_exhausted, FANOUT_EXHAUSTED_NACK);
    assert_int_equal(sub[2].format, FANOUT_FORMAT_BINARY);
    assert_int_equal(sub[2].retry.attempt_timeout_ms, 7000);
    assert_text(sub[3].dead_letter.text, "http://other");
    assert_int_equal(sub[3].on_exhausted, FANOUT_EXHAUSTED_DROP);
    fanout_snapshot_unref(s);
}

static void what_follows_a_dead_letter_that_fails_is_read(void **state)
{
    static const struct {
        const char *text;
        enum fanout_exhausted first, second;
    } rows[] = {
        {"on_exhausted: [dead-letter, park]", FANOUT_EXHAUSTED_DEAD_LETTER, FANOUT_EXHAUSTED_PARK},
        {"on_exhausted: [dead-letter, drop]", FANOUT_EXHAUSTED_DEAD_LETTER, FANOUT_EXHAUSTED_DROP},
        {"on_exhausted: dead-letter", FANOUT_EXHAUSTED_DEAD_LETTER, FANOUT_EXHAUSTED_NACK},
        {"retry: 1", FANOUT_EXHAUSTED_DEAD_LETTER, FANOUT_EXHAUSTED_PARK}, /* the channel's */
        {"on_exhausted: drop", FANOUT_EXHAUSTED_DROP, FANOUT_EXHAUSTED_NACK},
        {"on_exhausted: null", FANOUT_EXHAUSTED_DEAD_LETTER, FANOUT_EXHAUSTED_NACK},
    };
    char text[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct fanout_subscription *sub;
        struct fanout_snapshot *s;

        snprintf(text, sizeof text,
                 CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter, park]}, "
                         "subscriptions: [{subscriber: a, delivery: {%s}}]}",
                 rows[i].text);
        s = build(text);
        sub = &s->channels[0].subscriptions[0];
        assert_int_equal(sub->on_exhausted, rows[i].first);
        assert_int_equal(sub->on_dead_letter_failed, rows[i].second);
        fanout_snapshot_unref(s);
    }
}

static void a_derived_uid_follows_the_addresses(void **state)
{
    struct fanout_snapshot *s = build(CHANNEL "subscriptions: [{subscriber: a}, {subscriber: b, reply: c}, {subscriber: a}]}");
    struct fanout_snapshot *turned = build(CHANNEL "subscriptions: [{reply: c, subscriber: b}, {subscriber: \"http://a\"}]}");
    const struct fanout_subscription *sub = s->channels[0].subscriptions, *other = turned->channels[0].subscriptions;

    (void)state;
    assert_true(str_equal(sub[0].uid, other[1].uid));
    assert_true(str_equal(sub[1].uid, other[0].uid));
    assert_false(str_equal(sub[0].uid, sub[2].uid));
    assert_true(str_starts_with(sub[2].uid, sub[0].uid));
    fanout_snapshot_unref(s);
    fanout_snapshot_unref(turned);
}

static const struct {
    const char *text;
    unsigned line;
    const char *part;
} wrong[] = {
    {"channels:\n- namespace: a\n  name: b\n  subscritions: []\n", 4, "did you mean subscriptions?"},
    {"chan: []\n", 1, "did you mean channels?"},
    {"channelConfigs: []\nchannels: []\n", 2, "the same as channelConfigs"},
    {"channels: {}\n", 1, "expected a list"},
    {"[]", 1, "expected a map"},
    {"channels:\n- a\n", 2, "expected a map"},
    {"channels: [}", 1, "not YAML"},
    {"generation: 0\n", 1, "no whole number from 1"},
    {"channels:\n- {name: b}\n", 2, "needs a namespace and a name"},
    {"channels:\n- {namespace: a, name: null}\n", 2, "needs a namespace and a name"},
    {"channels:\n- {namespace: a, name: \"b/c\"}\n", 2, "lower-case"},
    {"channels:\n- {namespace: A, name: b}\n", 2, "lower-case"},
    {"channels:\n- {namespace: a, name: b}\n- {namespace: a, name: b}\n", 3, "the channel a/b is in line 2"},
    {"channels:\n- {namespace: a, name: b, hosts: [x.y]}\n- {namespace: a, name: c, hosts: X.y.}\n", 3,
     "means the channel a/b"},
    {"channels:\n- {namespace: a, name: b}\n- {namespace: a, name: c, hosts: b.a.svc}\n", 3, "means the channel a/b"},
    {CHANNEL "hosts: \"x.y:80\"}", 2, "without port"},
    {CHANNEL "subscriptions: [{uid: u, subscriber: a},\n {uid: u, subscriber: b}]}", 3, "that of the subscription in line 2"},
    {CHANNEL "subscriptions: [{uid: \"a/b\", subscriber: a}]}", 2, "the uid"},
    {CHANNEL "subscriptions: [{subscriber: a, callableDomain: b}]}", 2, "the same as subscriber"},
    {CHANNEL "subscriptions: [{suscriber: a}]}", 2, "did you mean subscriber?"},
    {CHANNEL "subscriptions: [{subscriber: \"https://\"}]}", 2, "has no host"},
    {CHANNEL "subscriptions: [{subscriber: \"http://\"}]}", 2, "has no host"},
    {CHANNEL "subscriptions: [{subscriber: \"ftp://a/\"}]}", 2, "ftp://a/"},
    {CHANNEL "subscriptions: [{subscriber: \"kafka:a b\"}]}", 2, "no topic"},
    {CHANNEL "subscriptions: [{subscriber: {ref: {name: x}}}]}", 2, "has only a uri"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {retri: 1}}]}", 2, "did you mean retry?"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {retry: -1}}]}", 2, "not from 0"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {timeout: PT0S}}]}", 2, "not from 1ms"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {retryAfterMax: \"-PT1S\"}}]}", 2, "such as 30s or PT30S"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {backoff: cubic}}]}", 2, "none of exponential, linear"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {on_exhausted: dead-letter}}]}", 2, "has no dead_letter"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {on_exhausted: keep}}]}", 2, "none of nack"},
    {CHANNEL "delivery: {dead_letter: d, on_exhausted: [park, drop]}}", 2, "the first is dead-letter"},
    {CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter, dead-letter]}}", 2, "the second nack"},
    {CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter]}}", 2, "a list has two"},
    {CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter, keep]}}", 2, "none of nack"},
    {CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter, {}]}}", 2, "a single value"},
    {CHANNEL "subscriptions: [{subscriber: a, delivery: {on_exhausted: [dead-letter, park]}}]}", 2, "has no dead_letter"},
    {CHANNEL "subscriptions: [{subscriber: a, filter: {attribute: {}}}]}", 2, "only attributes"},
    {CHANNEL "subscriptions: [{subscriber: a, filters: {}}]}", 2, "expected a list"},
    {CHANNEL "ack: quorum(2), subscriptions: [{subscriber: a}]}", 2, "cannot be reached by 1"},
    {CHANNEL "ack: quorum(0)}", 2, "none of all, quorum(K)"},
    {CHANNEL "ack: \"quorum(\"}", 2, "none of all, quorum(K)"},
    {CHANNEL "ack: some}", 2, "none of all, quorum(K)"},
    {CHANNEL "ack: all, fanoutConfig: {asyncHandler: true}}", 2, "contradicts asyncHandler"},
    {CHANNEL "subscriptions: [], fanoutConfig: {subscriptions: []}}", 2, "not in both"},
    {CHANNEL "order: keys}", 2, "none of none, key, strict"},
    {CHANNEL "order: key, order_key: \"Not A Name\"}", 2, "no name of an attribute"},
    {CHANNEL "max_body: 1KiB}", 2, "not from 64KiB"},
    {CHANNEL "max_hops: 0}", 2, "not from 1 to 255"},
    {CHANNEL "forward_headers: [Host]}", 2, "never passed on"},
    {CHANNEL "forward_headers: [ce-id]}", 2, "never passed on"},
    {CHANNEL "forward_headers: [\"a b\"]}", 2, "no name of a header"},
};

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        expect_error(&everything, wrong[i].text, wrong[i].line, wrong[i].part);
}

static void what_the_process_cannot_do_is_refused(void **state)
{
    (void)state;
    expect_error(&nothing, CHANNEL "subscriptions: [{subscriber: \"kafka:t\"}]}", 2, "needs Kafka");
    expect_error(&nothing, CHANNEL "delivery: {on_exhausted: park}}", 2, "park needs");
    expect_error(&nothing, CHANNEL "delivery: {dead_letter: d, on_exhausted: [dead-letter, park]}}", 2, "park needs");
}

static void all_errors_are_found_in_one_run(void **state)
{
    struct config_errors errors;
    struct fanout_snapshot *snapshot = NULL;

    (void)state;
    assert_int_equal(
        fanout_config_build(STR(CHANNEL "ack: x, order: y,\n nack: z}"), "test", 1, &everything, &snapshot, &errors), E_INVAL);
    assert_int_equal(errors.count, 3);
    assert_int_equal(errors.items[2].line, 3);
}

static void a_snapshot_lives_as_long_as_somebody_holds_it(void **state)
{
    int64_t before = mem_used(MEM_CONFIG);
    struct fanout_snapshot *s = build(CHANNEL "hosts: [x.y], subscriptions: [{subscriber: a}]}");

    (void)state;
    assert_ptr_equal(fanout_snapshot_ref(s), s);
    fanout_snapshot_unref(s);
    assert_text(s->channels[0].key, "default/c1");
    fanout_snapshot_unref(s);
    fanout_snapshot_unref(NULL);
    assert_int_equal(mem_used(MEM_CONFIG), before);
}

static void a_refused_text_leaves_nothing_behind(void **state)
{
    int64_t before = mem_used(MEM_CONFIG);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        expect_error(&everything, wrong[i].text, wrong[i].line, wrong[i].part);
    assert_int_equal(mem_used(MEM_CONFIG), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_document_has_no_channels),
        cmocka_unit_test(the_first_sidecars_form_is_read),
        cmocka_unit_test(its_later_names_are_read),
        cmocka_unit_test(defaults_hold_where_nothing_is_said),
        cmocka_unit_test(every_field_of_a_channel_is_reached),
        cmocka_unit_test(json_is_read_as_well),
        cmocka_unit_test(delivery_is_inherited_field_by_field),
        cmocka_unit_test(what_follows_a_dead_letter_that_fails_is_read),
        cmocka_unit_test(a_derived_uid_follows_the_addresses),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(what_the_process_cannot_do_is_refused),
        cmocka_unit_test(all_errors_are_found_in_one_run),
        cmocka_unit_test(a_snapshot_lives_as_long_as_somebody_holds_it),
        cmocka_unit_test(a_refused_text_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
