/* broker_fixture: a broker whose workers' mail and time are driven by hand, and clients that write down what reaches them. For
 * tests only. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "broker/link.h"
#include "broker/outgoing.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "core/message.h"
#include "loop/worker.h"

enum { FIXTURE_WORKERS = 2, FIXTURE_MAILBOX_BYTES = 4096, FIXTURE_TEXT = 32, FIXTURE_LOG = 256, FIXTURE_IDS = 8 };

/* One packet that a client was sent. */
struct sent {
    char topic[FIXTURE_TEXT], payload[FIXTURE_TEXT];
    uint32_t ids[FIXTURE_IDS];
    size_t n_ids;
    uint32_t expiry_left_s;
    uint16_t packet_id;
    uint8_t qos;
    bool dup, retain, is_pubrel;
};

struct client {
    struct link link;
    struct session *ss;
    struct sent log[FIXTURE_LOG]; /* the last ones; number i is at i % FIXTURE_LOG */
    size_t n_sent;
    size_t room;  /* PUBLISH packets that its output still takes */
    err refusal;  /* what others get instead; E_OK: E_AGAIN */
    int n_losses; /* of its session to another link */
    int n_barred;
    bool is_present;
};

struct fixture {
    struct workers workers;
    struct broker *broker;
    int64_t broker_bytes, message_bytes;
    char wills[FIXTURE_TEXT]; /* payloads of the wills published, one after the other */
};

static struct fixture fx;

static const struct registry_tenant tenant_a = {.id = STR_INIT("a")}, tenant_b = {.id = STR_INIT("b")};
static const struct registry_device device_1 = {.id = STR_INIT("1"), .tenant = &tenant_a};

static inline err fixture_publish(struct link *link, const struct link_publish *p)
{
    struct client *cl = CONTAINER_OF(link, struct client, link);
    struct sent *s = &cl->log[cl->n_sent % FIXTURE_LOG];

    if (cl->room == 0)
        return cl->refusal == E_OK ? E_AGAIN : cl->refusal;
    cl->room--;
    cl->n_sent++;
    *s = (struct sent){.n_ids = p->n_subscription_ids,
                       .expiry_left_s = p->expiry_left_s,
                       .packet_id = p->packet_id,
                       .qos = p->qos,
                       .dup = p->dup,
                       .retain = p->retain};
    assert_true(p->n_subscription_ids <= FIXTURE_IDS);
    for (size_t i = 0; i < p->n_subscription_ids; i++)
        s->ids[i] = p->subscription_ids[i];
    snprintf(s->topic, sizeof s->topic, "%.*s", STR_ARG(p->message->topic));
    snprintf(s->payload, sizeof s->payload, "%.*s", STR_ARG(p->message->payload));
    return E_OK;
}

static inline void fixture_pubrel(struct link *link, uint16_t packet_id)
{
    struct client *cl = CONTAINER_OF(link, struct client, link);

    cl->log[cl->n_sent++ % FIXTURE_LOG] = (struct sent){.is_pubrel = true, .packet_id = packet_id};
}

static inline void fixture_taken_over(struct link *link)
{
    struct client *cl = CONTAINER_OF(link, struct client, link);

    cl->n_losses++;
    cl->ss = NULL;
}

static inline void fixture_barred(struct link *link)
{
    struct client *cl = CONTAINER_OF(link, struct client, link);
    struct session *ss = cl->ss;

    cl->n_barred++;
    cl->ss = NULL;
    session_detach(ss, link, true);
}

static const struct link_ops fixture_link_ops = {
    .publish = fixture_publish,
    .pubrel = fixture_pubrel,
    .taken_over = fixture_taken_over,
    .barred = fixture_barred,
};

static inline void fixture_will(void *context, struct shard *shard, const struct principal *principal, unsigned origin,
                                struct message *will)
{
    struct fixture *f = context;
    size_t n = strlen(f->wills);

    (void)origin;
    assert_non_null(principal->tenant);
    snprintf(f->wills + n, sizeof f->wills - n, "%.*s", STR_ARG(will->payload));
    assert_int_equal(broker_publish(shard, will), E_OK);
}

static const struct broker_limits fixture_limits = {
    .subscriptions_per_session = 100,
    .queued_messages = 10,
    .queued_bytes = 10000,
    .in_flight = 3,
    .sessions = 60,
    .retained_messages = 30,
    .retained_bytes = 20000,
};

static inline void fixture_open(unsigned workers, size_t mailbox_bytes, const struct broker_limits *limits)
{
    struct broker_hooks hooks = {.context = &fx, .publish_will = fixture_will};

    memset(&fx, 0, sizeof fx);
    fx.broker_bytes = mem_used(MEM_BROKER);
    fx.message_bytes = mem_used(MEM_MESSAGE);
    assert_int_equal(workers_init(&fx.workers, workers, mailbox_bytes, NULL, NULL), E_OK);
    fx.broker = broker_new(&fx.workers, limits, &hooks);
}

static inline int64_t fixture_dropped(void)
{
    int64_t sum = 0;

    for (unsigned i = BROKER_DROPPED_OFFLINE; i <= BROKER_DROPPED_NO_MEMORY; i++)
        sum += metric_value(&broker_metrics[i]);
    return sum;
}

/* The ledger balances at every moment. */
static inline void fixture_check_ledger(void)
{
    assert_int_equal(metric_value(&broker_metrics[BROKER_MATCHED]), metric_value(&broker_metrics[BROKER_ACKNOWLEDGED]) +
                                                                        fixture_dropped() +
                                                                        metric_value(&broker_metrics[BROKER_QUEUED]));
}

static inline int fixture_set_up(void **state)
{
    (void)state;
    fixture_open(FIXTURE_WORKERS, FIXTURE_MAILBOX_BYTES, &fixture_limits);
    return 0;
}

/* Clients lie in the tests' stack frames. */
static inline void fixture_forget_clients(void)
{
    for (unsigned i = 0; i < fx.workers.n; i++) {
        uint32_t cursor = 0;
        struct session *ss;

        while ((ss = map_next(&broker_shard(fx.broker, i)->sessions, &cursor)))
            ss->link = NULL;
    }
}

/* Nothing may be left behind. */
static inline int fixture_tear_down(void **state)
{
    (void)state;
    fixture_forget_clients();
    for (unsigned i = 0; i < fx.workers.n; i++)
        (void)mailbox_drain(&fx.workers.list[i].loop.mailbox);
    fixture_check_ledger();
    broker_free(fx.broker);
    fixture_check_ledger();
    assert_int_equal(metric_value(&broker_metrics[BROKER_QUEUED]), 0);
    assert_int_equal(metric_value(&broker_metrics[BROKER_SESSIONS]), 0);
    assert_int_equal(metric_value(&broker_metrics[BROKER_SUBSCRIPTIONS]), 0);
    for (unsigned i = 0; i < fx.workers.n; i++)
        assert_int_equal(atomic_load(&fx.workers.list[i].loop.mailbox.reserved_bytes), 0);
    workers_fini(&fx.workers);
    assert_int_equal(mem_used(MEM_BROKER), fx.broker_bytes);
    assert_int_equal(mem_used(MEM_MESSAGE), fx.message_bytes);
    return 0;
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

static inline struct shard *shard_at(unsigned i)
{
    return broker_shard(fx.broker, i);
}

/* Moves the time of all workers on, whose timers run as they come due. */
static inline void pass_ms(uint64_t ms)
{
    for (unsigned i = 0; i < fx.workers.n; i++) {
        struct loop *l = &fx.workers.list[i].loop;

        l->now_ms += ms;
        wheel_set_clock(&l->wheel, l->now_ms);
        wheel_advance(&l->wheel, l->now_ms);
    }
}

static inline size_t deliver_mail(unsigned worker)
{
    return mailbox_drain(&fx.workers.list[worker].loop.mailbox);
}

struct message_fields {
    const char *topic, *payload;
    uint8_t qos;
    bool retain;
    uint32_t expiry_s; /* 0: none */
    uint64_t publisher;
    const struct registry_tenant *tenant; /* NULL: tenant_a */
};

static inline struct message *new_message(struct message_fields f)
{
    struct str tenant = f.tenant ? f.tenant->id : tenant_a.id;
    struct message *m = message_new(tenant, str_from(f.topic), f.payload ? str_from(f.payload) : (struct str){0}, 0);

    assert_non_null(m);
    m->qos = f.qos;
    m->retain = f.retain;
    m->has_expiry = f.expiry_s > 0;
    m->expiry_s = f.expiry_s;
    m->publisher = f.publisher;
    m->received_ms = fx.workers.list[0].loop.now_ms;
    return m;
}

static inline err publish_from(unsigned worker, struct message_fields f)
{
    struct message *m = new_message(f);
    err e = broker_publish(shard_at(worker), m);

    message_unref(m);
    return e;
}

/* From worker 0, where it is expected to be taken. */
#define PUBLISH(name, text, ...)                                                                                               \
    assert_int_equal(publish_from(0, (struct message_fields){.topic = (name), .payload = (text), ##__VA_ARGS__}), E_OK)

struct connect_fields {
    const char *id;
    const struct registry_tenant *tenant; /* NULL: tenant_a */
    const struct registry_device *device;
    bool clean_start;
    uint32_t expiry_s;
    uint16_t receive_maximum; /* 0: 65535 */
    const char *will;         /* its payload; the topic is `will`, QoS 1 */
    uint32_t will_delay_s;
};

/* Links a client on a worker; its output has room for everything. */
static inline void connect_on(unsigned worker, struct client *cl, struct connect_fields f)
{
    struct session_request request = {
        .principal = {f.tenant ? f.tenant : &tenant_a, f.device},
        .client_id = str_from(f.id),
        .clean_start = f.clean_start,
        .expiry_s = f.expiry_s,
        .receive_maximum = f.receive_maximum ? f.receive_maximum : UINT16_MAX,
        .will = f.will ? new_message((struct message_fields){.topic = "will", .payload = f.will, .qos = 1, .tenant = f.tenant})
                       : NULL,
        .will_delay_s = f.will_delay_s,
    };

    *cl = (struct client){.link = {&fixture_link_ops}, .room = SIZE_MAX};
    cl->ss = session_attach(shard_at(worker), &request, &cl->link, &cl->is_present);
    assert_non_null(cl->ss);
    session_pump(cl->ss);
}

#define CONNECT(cl, name, ...) connect_on(0, (cl), (struct connect_fields){.id = (name), ##__VA_ARGS__})

/* The connection goes without a DISCONNECT. */
static inline void lose(struct client *cl)
{
    session_detach(cl->ss, &cl->link, true);
    cl->ss = NULL;
}

static inline void subscribe(struct client *cl, const char *filter, struct subscription_options options)
{
    bool existed;

    assert_int_equal(session_subscribe(cl->ss, str_from(filter), &options, &existed), E_OK);
}

#define SUBSCRIBE(cl, filter, ...) subscribe((cl), (filter), (struct subscription_options){__VA_ARGS__})

static inline const struct sent *sent_at(const struct client *cl, size_t i)
{
    assert_true(i < cl->n_sent && i + FIXTURE_LOG >= cl->n_sent);
    return &cl->log[i % FIXTURE_LOG];
}

/* The payloads of everything from number `from` on, with `!` behind a repeated one; a PUBREL is `R` and its identifier. */
static inline const char *payloads_from(const struct client *cl, size_t from)
{
    static char text[1024];
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = from; i < cl->n_sent; i++) {
        const struct sent *s = sent_at(cl, i);

        if (s->is_pubrel)
            n += (size_t)snprintf(text + n, sizeof text - n, "R%u", s->packet_id);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", s->payload, s->dup ? "!" : "");
    }
    return text;
}
