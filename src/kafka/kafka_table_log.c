#include "kafka/kafka_table_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_table_private.h"

enum {
    REQUEST_LIMIT_MS = 8000, /* then its writer has given up; it must not be stored long after */
    AGAIN_MS = 1000,         /* before states are offered again that the view did not take */
    UNCHOKE_BYTES = 16 << 20,
    CLOSE_TURN_MS = 20,
};

static const char *const suffixes[KAFKA_TABLE_TOPICS] = {"requests", "states", "replies"};

static struct kafka_table *table_of(struct table_log *log)
{
    return CONTAINER_OF(log, struct kafka_table, log);
}

/* --- topics --- */

#define DAY_MS        "86400000"
#define MESSAGE_BYTES "1048576" /* more than any record of a table has */

/* Requests and replies are of no use once their writer has given up; a day is for people who look for what happened.
 * Removals stay in the states for a week, so that a view that was away for half of it may go on. */
static const struct kafka_property passing[] = {
    {STR_INIT("cleanup.policy"), STR_INIT("delete")},
    {STR_INIT("retention.ms"), STR_INIT(DAY_MS)},
    {STR_INIT("max.message.bytes"), STR_INIT(MESSAGE_BYTES)},
};
static const struct kafka_property lasting[] = {
    {STR_INIT("cleanup.policy"), STR_INIT("compact")},
    {STR_INIT("delete.retention.ms"), STR_INIT("604800000")},
    {STR_INIT("max.message.bytes"), STR_INIT(MESSAGE_BYTES)},
};

void kafka_table_log_topics(struct kafka *k, const char *table, unsigned n_partitions, unsigned n_replicas,
                            struct kafka_table_topics *out_topics)
{
    for (size_t i = 0; i < KAFKA_TABLE_TOPICS; i++) {
        bool lasts = i == 1;
        int n = snprintf(out_topics->texts[i], sizeof out_topics->texts[i], "millrace.%s.%s", table, suffixes[i]);

        out_topics->names[i] = (struct str){out_topics->texts[i], (size_t)n};
        out_topics->specs[i] = (struct kafka_topic_spec){
            .n_partitions = (int32_t)n_partitions,
            .n_replicas = (int32_t)n_replicas,
            .config = lasts ? lasting : passing,
            .n_config = lasts ? ARRAY_LEN(lasting) : ARRAY_LEN(passing),
        };
    }
    out_topics->topics.names = out_topics->names;
    out_topics->topics.specs = out_topics->specs;
    out_topics->topics.n_names = KAFKA_TABLE_TOPICS;
    /* The first to name it says how long its records may wait. */
    (void)sink_find_topic_limited(&k->sink.sink, out_topics->names[0], REQUEST_LIMIT_MS);
}

/* --- events, on the table's thread --- */

struct kafka_table_event *kafka_table_event_new(struct kafka_table_partition *p, enum kafka_table_event_kind kind, size_t n)
{
    struct kafka_table_event *event = mem_alloc_zero(MEM_KAFKA, sizeof *event + n * sizeof event->messages[0]);

    event->partition = p;
    event->kind = kind;
    event->n = n;
    return event;
}

static void free_event(struct kafka_table_event *event)
{
    struct kafka_table *l = event->partition->log;
    size_t before = atomic_fetch_sub(&l->out_bytes, event->bytes);

    for (size_t i = 0; i < event->n; i++)
        if (event->messages[i])
            rd_kafka_message_destroy(event->messages[i]);
    if (before - event->bytes < UNCHOKE_BYTES && atomic_load(&l->is_choked) && !atomic_exchange(&l->is_unchoking, true))
        mailbox_post(&l->loop.mailbox, &l->unchoke_mail);
    mem_free(MEM_KAFKA, event);
}

static struct str bytes_of(const void *p, size_t n)
{
    return (struct str){p, p ? n : 0};
}

/* False: the view does not take it now. */
static bool deliver(struct kafka_table *l, const struct kafka_table_event *event)
{
    const struct table_log_user *user = l->user;
    unsigned partition = (unsigned)event->partition->number;
    struct table_log_state *states;
    bool is_taken;

    if (event->kind == KAFKA_TABLE_RESET)
        return user->on_reset(user->context, partition, &event->position);
    states = mem_alloc(MEM_KAFKA, (event->n + 1) * sizeof *states);
    for (size_t i = 0; i < event->n; i++) {
        const rd_kafka_message_t *m = event->messages[i];

        states[i] = (struct table_log_state){
            .offset = (uint64_t)m->offset, .key = bytes_of(m->key, m->key_len), .value = bytes_of(m->payload, m->len)};
    }
    is_taken = user->on_states(user->context, partition, states, event->n, event->next_offset);
    mem_free(MEM_KAFKA, states);
    return is_taken;
}

/* In their order, until one is not taken. */
static void deliver_held(struct kafka_table *l, struct kafka_table_partition *p)
{
    while (!list_is_empty(&p->held)) {
        struct kafka_table_event *event = CONTAINER_OF(p->held.next, struct kafka_table_event, link);

        if (!deliver(l, event)) {
            wheel_start(&l->user->loop->wheel, &l->again, AGAIN_MS);
            return;
        }
        list_remove(&event->link);
        free_event(event);
    }
}

static void on_again(struct timer *timer)
{
    struct kafka_table *l = CONTAINER_OF(timer, struct kafka_table, again);

    for (unsigned i = 0; i < l->n_partitions; i++)
        deliver_held(l, &l->partitions[i]);
}

static void free_requests(struct list *list)
{
    struct list *link;

    while ((link = list_pop(list))) {
        struct kafka_table_request *r = CONTAINER_OF(link, struct kafka_table_request, link);

        rd_kafka_message_destroy(r->message);
        mem_free(MEM_KAFKA, r);
    }
}

static void take_requests(struct kafka_table *l, struct kafka_table_event *event)
{
    struct kafka_table_partition *p = event->partition;

    for (size_t i = 0; i < event->n && p->committer; i++) {
        struct kafka_table_request *r = mem_alloc(MEM_KAFKA, sizeof *r);

        *r = (struct kafka_table_request){.message = event->messages[i]};
        event->messages[i] = NULL;
        list_push(&p->requests, &r->link);
    }
    l->user->on_requests(l->user->context, (unsigned)p->number);
}

static void on_done(struct mail *m);

static void on_event(struct mail *m)
{
    struct kafka_table_event *event = CONTAINER_OF(m, struct kafka_table_event, mail);
    struct kafka_table_partition *p = event->partition;
    struct kafka_table *l = p->log;
    const struct table_log_user *user = l->user;

    switch (event->kind) {
    case KAFKA_TABLE_RESET:
    case KAFKA_TABLE_STATES:
        list_push(&p->held, &event->link);
        if (!wheel_is_set(&l->again))
            deliver_held(l, p);
        return;
    case KAFKA_TABLE_REQUESTS:
        take_requests(l, event);
        break;
    case KAFKA_TABLE_REPLIES:
        for (size_t i = 0; i < event->n; i++)
            user->on_reply(user->context, bytes_of(event->messages[i]->payload, event->messages[i]->len));
        break;
    case KAFKA_TABLE_OWNED:
        p->committer = event->owner;
        p->committer->done_mail.on_mail = on_done;
        user->on_owner(user->context, (unsigned)p->number, true, event->next_offset);
        break;
    case KAFKA_TABLE_LOST:
        p->committer = NULL;
        free_requests(&p->requests);
        user->on_owner(user->context, (unsigned)p->number, false, 0);
        break;
    case KAFKA_TABLE_GONE:
        kafka_table_owner_free(event->owner);
        break;
    }
    free_event(event);
}

void kafka_table_post(struct kafka_table *l, struct kafka_table_event *event)
{
    event->mail.on_mail = on_event;
    atomic_fetch_add(&l->out_bytes, event->bytes);
    mailbox_post(&l->user->loop->mailbox, &event->mail);
}

/* --- requests --- */

struct appending {
    struct delivery delivery;
    struct kafka_table *log;
    uint64_t id;
};

static void on_delivered(struct mail *m)
{
    struct appending *a = CONTAINER_OF(m, struct appending, delivery.mail);
    struct kafka_table *l = a->log;

    l->n_appending--;
    if (a->delivery.outcome == OUTCOME_TOO_LARGE)
        l->user->on_lost(l->user->context, a->id, E_LIMIT);
    else if (a->delivery.outcome != OUTCOME_STORED)
        l->user->on_lost(l->user->context, a->id, E_TIMEOUT);
    mem_free(MEM_KAFKA, a);
}

static err append(struct table_log *log, unsigned partition, uint64_t id, struct str key, struct str record)
{
    struct kafka_table *l = table_of(log);
    const struct record r = {
        .topic = l->requests, .key = key, .value = record, .has_partition = true, .partition = (int32_t)partition};
    struct appending *a;
    err e;

    if (!atomic_load(&l->is_ready))
        return E_BUSY;
    a = mem_alloc_zero(MEM_KAFKA, sizeof *a);
    *a = (struct appending){.log = l, .id = id};
    a->delivery.mail.on_mail = on_delivered;
    a->delivery.home = &l->user->loop->mailbox;
    e = sink_submit(&l->k->sink.sink, &r, &a->delivery);
    if (e == E_OK) {
        l->n_appending++;
        return E_OK;
    }
    if (e == E_INVAL && a->delivery.outcome == OUTCOME_TOO_LARGE)
        e = E_LIMIT;
    else
        e = E_BUSY;
    mem_free(MEM_KAFKA, a);
    return e;
}

static bool next(struct table_log *log, unsigned partition, struct table_log_request *out_request)
{
    struct kafka_table_partition *p = &table_of(log)->partitions[partition];
    struct list *link = list_pop(&p->requests);
    struct kafka_table_request *r;

    if (!link)
        return false;
    r = CONTAINER_OF(link, struct kafka_table_request, link);
    list_push(&p->taken, link);
    p->last_taken = r->message->offset;
    *out_request = (struct table_log_request){.position = (uint64_t)r->message->offset,
                                              .record = bytes_of(r->message->payload, r->message->len)};
    return true;
}

/* --- commits --- */

static void end_commit(struct kafka_table_partition *p, err result)
{
    const struct table_log_user *user = p->log->user;

    if (result == E_AGAIN && !p->committer)
        result = E_DENIED;
    if (result == E_AGAIN) {
        list_move(&p->taken, &p->requests);
        list_move(&p->requests, &p->taken);
    }
    free_requests(&p->taken);
    user->on_committed(user->context, (unsigned)p->number, result);
}

static void on_done(struct mail *m)
{
    struct kafka_table_owner *o = CONTAINER_OF(m, struct kafka_table_owner, done_mail);

    end_commit(o->partition, o->job_result);
}

static void on_refused(struct mail *m)
{
    end_commit(CONTAINER_OF(m, struct kafka_table_partition, refused_mail), E_DENIED);
}

static void commit(struct table_log *log, unsigned partition, const struct table_log_batch *batch)
{
    struct kafka_table *l = table_of(log);
    struct kafka_table_partition *p = &l->partitions[partition];

    if (p->committer && kafka_table_owner_commit(p->committer, batch, p->last_taken))
        return;
    p->refused_mail.on_mail = on_refused;
    mailbox_post(&l->user->loop->mailbox, &p->refused_mail);
}

static void ask_end(struct table_log *log, unsigned partition)
{
    kafka_table_asker_ask(&table_of(log)->partitions[partition]);
}

/* --- life --- */

static err attach(struct table_log *log, const struct table_log_user *user, const struct table_log_position *positions,
                  struct errinfo *ei)
{
    struct kafka_table *l = table_of(log);
    err e;

    if (user->n_partitions != l->n_partitions)
        return errinfo_set(ei, E_INVAL, "the log has %u partitions, the table %u", l->n_partitions, user->n_partitions);
    ASSERT(!l->user); /* a member that has left its group does not come back */
    l->user = user;
    l->again.on_timer = on_again;
    for (unsigned i = 0; i < l->n_partitions; i++)
        l->partitions[i].position = positions[i];
    e = kafka_table_reader_start(l, ei);
    if (e == E_OK)
        e = kafka_table_asker_start(l, ei);
    if (e != E_OK)
        log->ops->detach(log);
    return e;
}

/* What was appended is answered within its limit at the latest, and the answers come to the user's loop. */
static void detach(struct table_log *log)
{
    struct kafka_table *l = table_of(log);

    atomic_store(&l->is_stopping, true);
    atomic_store(&l->is_ready, false);
    kafka_table_asker_stop(l);
    kafka_table_reader_stop(l);
    while (l->n_appending > 0)
        loop_turn(l->user->loop, CLOSE_TURN_MS);
    loop_turn(l->user->loop, 0);
    wheel_stop(&l->again);
    for (unsigned i = 0; i < l->n_partitions; i++) {
        struct kafka_table_partition *p = &l->partitions[i];
        struct list *link;

        while ((link = list_pop(&p->held)))
            free_event(CONTAINER_OF(link, struct kafka_table_event, link));
        free_requests(&p->requests);
        free_requests(&p->taken);
    }
}

static const struct table_log_ops ops = {
    .attach = attach, .detach = detach, .append = append, .next = next, .commit = commit, .ask_end = ask_end};

static char *full_name(struct kafka *k, const char *table, const char *suffix)
{
    char name[KAFKA_TABLE_NAME_BYTES];
    int n = snprintf(name, sizeof name, "millrace.%s%s%s", table, *suffix ? "." : "", suffix);

    return (char *)(uintptr_t)kafka_sink_full_name(&k->sink, (struct str){name, (size_t)n}).p;
}

static rd_kafka_conf_t *make_producer_conf(struct kafka *k)
{
    static const char *const settings[][2] = {
        {"transaction.timeout.ms", "10000"},
        {"message.timeout.ms", "10000"},
        {"linger.ms", "0"},
        {"message.max.bytes", MESSAGE_BYTES},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(k->conf);
    char text[200];

    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        (void)rd_kafka_conf_set(conf, settings[i][0], settings[i][1], text, sizeof text);
    rd_kafka_conf_set_events(conf, 0); /* nobody polls; a commit says all there is to say */
    return conf;
}

static err open_parts(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei)
{
    struct kafka_table_topics topics = {.topics = {.n_names = 0}};

    kafka_table_log_topics(l->k, l->name, l->n_partitions, 0, &topics);
    l->requests = sink_find_topic(&l->k->sink.sink, topics.names[0]);
    if (!l->requests || !l->requests_topic)
        return errinfo_set(ei, E_INVAL, "table %s: its topics' names are not legal in Kafka", l->name);
    l->producer_conf = make_producer_conf(l->k);
    kafka_table_asker_init(l);
    return kafka_table_reader_open(l, settings, ei);
}

err kafka_table_log_open(struct kafka *k, const struct kafka_settings *settings, const char *table, unsigned n_partitions,
                         struct table_log **out_log, struct errinfo *ei)
{
    struct kafka_table *l = aligned_alloc(_Alignof(struct kafka_table), sizeof *l);
    err e;

    ASSERT(l && strlen(table) <= 40);
    memset(l, 0, sizeof *l);
    metrics_register(kafka_consumer_errors, 1);
    l->log.ops = &ops;
    l->k = k;
    l->n_partitions = n_partitions;
    l->wake.fd = l->loop.epoll_fd = l->loop.mailbox.wake_fd = -1;
    snprintf(l->name, sizeof l->name, "%s", table);
    l->requests_topic = full_name(k, table, suffixes[0]);
    l->states_topic = full_name(k, table, suffixes[1]);
    l->replies_topic = full_name(k, table, suffixes[2]);
    l->transactions = full_name(k, table, "");
    l->partitions = mem_alloc_zero(MEM_KAFKA, n_partitions * sizeof *l->partitions);
    for (unsigned i = 0; i < n_partitions; i++) {
        l->partitions[i].log = l;
        l->partitions[i].number = (int32_t)i;
        list_init(&l->partitions[i].held);
        list_init(&l->partitions[i].requests);
        list_init(&l->partitions[i].taken);
    }
    e = open_parts(l, settings, ei);
    if (e != E_OK) {
        kafka_table_log_close(&l->log);
        return e;
    }
    *out_log = &l->log;
    return E_OK;
}

void kafka_table_log_close(struct table_log *log)
{
    struct kafka_table *l;

    if (!log)
        return;
    l = table_of(log);
    kafka_table_reader_close(l);
    if (l->producer_conf)
        rd_kafka_conf_destroy(l->producer_conf);
    mem_free(MEM_KAFKA, l->requests_topic);
    mem_free(MEM_KAFKA, l->states_topic);
    mem_free(MEM_KAFKA, l->replies_topic);
    mem_free(MEM_KAFKA, l->transactions);
    mem_free(MEM_KAFKA, l->partitions);
    free(l);
}
