#include "broker/broker.h"

#include "base/check.h"
#include "base/siphash.h"
#include "broker/broker_metrics.h"
#include "broker/outgoing.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "broker/tracker.h"

enum { IDS_MAX = 64 /* identifiers of one delivery gathered without an allocation */ };

struct broker {
    struct shard *shards;
    struct workers *workers;
    struct broker_hooks hooks;
    const struct broker_watcher *watcher;
    atomic_uint_fast64_t sequence;
};

/* A message on its way to another worker; freed there. */
struct post {
    struct mail mail;
    struct shard *to;
    struct message *message;
    struct tracker *tracker; /* NULL: nobody follows it */
};

struct broker *broker_new(struct workers *workers, const struct broker_limits *limits, const struct broker_hooks *hooks)
{
    struct broker *b = mem_alloc_zero(MEM_BROKER, sizeof *b);

    metrics_register(broker_metrics, BROKER_METRICS);
    *b = (struct broker){.workers = workers, .hooks = *hooks};
    b->shards = mem_alloc_zero(MEM_BROKER, workers->n * sizeof *b->shards);
    for (unsigned i = 0; i < workers->n; i++) {
        struct shard *shard = &b->shards[i];

        shard->broker = b;
        shard->worker = &workers->list[i];
        shard->limits = *limits;
        shard->session_slab =
            (struct slab){.object_bytes = sizeof(struct session) + SESSION_INLINE_ID_BYTES, .sub = MEM_BROKER};
        shard->outgoing_slab = (struct slab){.object_bytes = sizeof(struct outgoing), .sub = MEM_BROKER};
        subscriptions_init(&shard->subscriptions);
        retained_init(&shard->retained, &shard->worker->loop.wheel);
    }
    return b;
}

static void drop_sessions(struct shard *shard)
{
    uint32_t cursor = 0;
    struct session *ss;

    while ((cursor = 0, ss = map_next(&shard->sessions, &cursor))) {
        message_unref(ss->will);
        ss->will = NULL;
        session_end(ss);
    }
    map_free(&shard->sessions, MEM_BROKER);
}

void broker_free(struct broker *broker)
{
    if (!broker)
        return;
    for (unsigned i = 0; i < broker->workers->n; i++) {
        struct shard *shard = &broker->shards[i];

        drop_sessions(shard);
        subscriptions_fini(&shard->subscriptions);
        retained_fini(&shard->retained);
        slab_fini(&shard->session_slab);
        slab_fini(&shard->outgoing_slab);
    }
    mem_free(MEM_BROKER, broker->shards);
    mem_free(MEM_BROKER, broker);
}

struct shard *broker_shard(struct broker *broker, unsigned worker_id)
{
    return &broker->shards[worker_id];
}

const struct broker_limits *broker_limits(const struct shard *shard)
{
    return &shard->limits;
}

void broker_set_limits(struct shard *shard, const struct broker_limits *limits)
{
    ASSERT_ON(shard->worker);
    shard->limits = *limits;
}

const struct broker_hooks *broker_hooks(const struct shard *shard)
{
    return &shard->broker->hooks;
}

unsigned broker_home(const struct broker *broker, struct str tenant, struct str device, struct str client_id)
{
    return (unsigned)(siphash_pair(tenant, device.n ? device : client_id) % broker->workers->n);
}

static void deliver_match(struct subscriptions *subs, const struct match *match, struct message *m, struct tracker *t)
{
    uint32_t few[IDS_MAX], *ids = few;
    uint16_t n = 0;
    struct outgoing_request request;

    if (match->n_ids > IDS_MAX)
        ids = mem_alloc(MEM_BROKER, match->n_ids * sizeof *ids);
    for (int32_t i = match->first_id; i >= 0; i = subs->ids[i].next)
        ids[n++] = subs->ids[i].id;
    request = (struct outgoing_request){
        .message = m,
        .tracker = t,
        .ids = ids,
        .n_ids = n,
        .qos = m->qos < match->qos ? m->qos : match->qos,
        .retain = match->retain_as_published && m->retain, /* [MQTT-3.3.1-12, 3.3.1-13] */
    };
    outgoing_deliver(match->session, &request);
    if (ids != few)
        mem_free(MEM_BROKER, ids);
}

static void deliver_here(struct shard *shard, struct message *m, struct tracker *t)
{
    struct subscriptions *subs = &shard->subscriptions;

    if (m->retain && retained_set(&shard->retained, m) != E_OK)
        broker_count(BROKER_RETAINED_LOST, 1);
    if (subscriptions_match(subs, m) != E_OK) { /* nobody knows how many were left out */
        broker_count(BROKER_MATCHED, 1);
        broker_count(BROKER_DROPPED_NO_MEMORY, 1);
    }
    /* Delivering may close a connection and publish its will, but only at the end of the turn: the matches stay valid. */
    for (uint32_t i = 0; i < subs->n_matches; i++)
        deliver_match(subs, &subs->matches[i], m, t);
}

static void on_post(struct mail *mail)
{
    struct post *post = CONTAINER_OF(mail, struct post, mail);

    deliver_here(post->to, post->message, post->tracker);
    if (post->tracker && tracker_decide(post->tracker))
        mailbox_post(post->tracker->home, &post->tracker->mail);
    mailbox_release(&post->to->worker->loop.mailbox, message_size(post->message));
    message_unref(post->message);
    mem_free(MEM_BROKER, post);
}

/* Retained messages concern every worker. */
static bool is_wanted(const struct shard *shard, const struct message *m)
{
    return m->retain || subscriptions_may_match(&shard->subscriptions, m->tenant, m->topic);
}

err broker_reserve(struct shard *shard, const struct message *message, struct broker_room *out_room)
{
    struct broker *b = shard->broker;
    size_t bytes = message_size(message);
    const struct broker_limits *limits = broker_limits(shard);
    struct broker_room room = {0};

    ASSERT_ON(shard->worker);
    if (message->retain && !retained_may_set(&shard->retained, message, limits->retained_messages, limits->retained_bytes))
        return E_LIMIT;
    for (unsigned i = 0; i < b->workers->n; i++) {
        struct shard *to = &b->shards[i];

        if (to == shard || !is_wanted(to, message))
            continue;
        if (mailbox_reserve(&to->worker->loop.mailbox, bytes)) {
            room.workers |= 1ull << i;
            continue;
        }
        for (unsigned j = 0; j < i; j++)
            if (room.workers >> j & 1)
                mailbox_release(&b->shards[j].worker->loop.mailbox, bytes);
        return bytes > to->worker->loop.mailbox.limit_bytes ? E_LIMIT : E_AGAIN; /* waiting would not help */
    }
    *out_room = room;
    return E_OK;
}

static void deliver(struct shard *shard, struct message *message, const struct broker_room *room, struct tracker *t)
{
    struct broker *b = shard->broker;

    ASSERT_ON(shard->worker);
    if (message->retain)
        message->sequence = atomic_fetch_add_explicit(&b->sequence, 1, memory_order_relaxed) + 1;
    for (unsigned i = 0; i < b->workers->n; i++) {
        struct post *post;

        if (!(room->workers >> i & 1))
            continue;
        post = mem_alloc(MEM_BROKER, sizeof *post);
        *post = (struct post){.mail = {.on_mail = on_post}, .to = &b->shards[i], .message = message_ref(message), .tracker = t};
        mailbox_post(&b->workers->list[i].loop.mailbox, &post->mail);
    }
    deliver_here(shard, message, t);
}

void broker_deliver(struct shard *shard, struct message *message, const struct broker_room *room)
{
    deliver(shard, message, room, NULL);
}

err broker_publish(struct shard *shard, struct message *message)
{
    struct broker_room room;
    err e = broker_reserve(shard, message, &room);

    if (e == E_OK)
        broker_deliver(shard, message, &room);
    return e;
}

err broker_publish_tracked(struct shard *shard, struct message *message, struct tracker *t)
{
    struct broker_room room;
    err e = broker_reserve(shard, message, &room);

    if (e != E_OK)
        return e;
    tracker_expect(t, 1 + (unsigned)__builtin_popcountll(room.workers));
    deliver(shard, message, &room, t);
    t->is_decided = tracker_decide(t);
    return E_OK;
}

void broker_watch(struct broker *broker, const struct broker_watcher *watcher)
{
    broker->watcher = watcher;
}

void shard_tell_subscribed(struct shard *shard, struct str tenant, struct str filter)
{
    const struct broker_watcher *watcher = shard->broker->watcher;

    if (watcher)
        watcher->on_subscribed(watcher->context, shard, tenant, filter);
}

struct worker *broker_worker(const struct shard *shard)
{
    return shard->worker;
}
