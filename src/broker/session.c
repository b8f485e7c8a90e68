#include "broker/session.h"

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "broker/broker_metrics.h"
#include "broker/outgoing.h"
#include "broker/shard.h"
#include "core/message.h"

enum { MS_PER_S = 1000, FIRST_INCOMING = 8, SHARD_SHIFT = 48 };

/* An idle client costs a session and a connection; 15,000 of them are to fit in 15 MB with everything around them. */
static_assert(sizeof(struct session) + SESSION_INLINE_ID_BYTES <= 264, "a session has outgrown its budget");

struct identity {
    const struct principal *principal;
    struct str client_id;
};

static struct str device_id(const struct principal *p)
{
    return p->device ? p->device->id : (struct str){0};
}

static struct str tenant_id(const struct principal *p)
{
    return p->tenant->id;
}

static uint64_t hash_of(const struct identity *id)
{
    return siphash_pair(tenant_id(id->principal), id->client_id) ^ siphash_pair(device_id(id->principal), STR("device"));
}

static bool is_same(const void *entry, const void *key)
{
    const struct session *ss = entry;
    const struct identity *id = key;

    return str_equal(session_client_id(ss), id->client_id) && str_equal(tenant_id(&ss->principal), tenant_id(id->principal)) &&
           str_equal(device_id(&ss->principal), device_id(id->principal));
}

static void publish_will(struct session *ss)
{
    const struct broker_hooks *hooks = broker_hooks(ss->shard);
    struct message *will = ss->will;

    ss->will = NULL;
    if (!will)
        return;
    will->received_ms = ss->shard->worker->loop.now_ms;
    hooks->publish_will(hooks->context, ss->shard, &ss->principal, ss->origin, will);
    message_unref(will);
}

static void drop_will(struct session *ss)
{
    message_unref(ss->will);
    ss->will = NULL;
}

static void free_session(struct session *ss)
{
    struct shard *shard = ss->shard;
    struct list *link;

    while ((link = list_pop(&ss->unsettled)))
        CONTAINER_OF(link, struct unsettled, link)->session = NULL;
    wheel_stop(&ss->timer);
    broker_count(BROKER_SUBSCRIPTIONS, -(int64_t)ss->n_subscriptions);
    subscriptions_remove_all(&shard->subscriptions, ss);
    outgoing_clear(ss);
    mem_free(MEM_BROKER, ss->incoming);
    ASSERT(map_remove(&shard->sessions, ss->hash, ss));
    principal_release(&ss->principal);
    broker_count(BROKER_SESSIONS, -1);
    if (ss->is_large)
        mem_free(MEM_BROKER, ss);
    else
        slab_free(&shard->session_slab, ss);
}

void session_end(struct session *ss)
{
    struct link *link = ss->link;

    ss->link = NULL;
    if (link)
        link->ops->taken_over(link);
    publish_will(ss);
    free_session(ss);
}

/* session_end() of one that nobody takes down with the whole. */
static void end_and_tell(struct session *ss, bool is_replaced)
{
    const struct broker_hooks *hooks = broker_hooks(ss->shard);

    if (hooks->session_ended)
        hooks->session_ended(hooks->context, ss->shard, ss, is_replaced);
    session_end(ss);
}

/* Milliseconds from `now_ms` until `after_s` seconds after the session lost its client; 0 when they have passed. */
static uint64_t left_ms(const struct session *ss, uint32_t after_s, uint64_t now_ms)
{
    uint64_t due = ss->detached_ms + (uint64_t)after_s * MS_PER_S;

    return due > now_ms ? due - now_ms : 0;
}

/* What is due of a session without a client, and the timer for the rest. May end it. */
static void settle_detached(struct session *ss)
{
    struct wheel *wheel = &ss->shard->worker->loop.wheel;
    uint64_t now = ss->shard->worker->loop.now_ms, wait = UINT64_MAX;

    if (ss->expiry_s != SESSION_NEVER_EXPIRES) {
        wait = left_ms(ss, ss->expiry_s, now);
        if (wait == 0) {
            end_and_tell(ss, false); /* and with it goes the will [MQTT-3.1.3-9] */
            return;
        }
    }
    if (ss->will) {
        uint64_t will_ms = left_ms(ss, ss->will_delay_s, now);

        if (will_ms == 0)
            publish_will(ss);
        else if (will_ms < wait)
            wait = will_ms;
    }
    if (wait != UINT64_MAX)
        wheel_start(wheel, &ss->timer, wait);
}

/* The client is there and owes an answer. May end the session, by closing the link. */
static void check_silence(struct session *ss)
{
    uint32_t silent_ms = (uint32_t)ss->shard->worker->loop.now_ms - ss->answered_ms;

    if (ss->n_tracked == 0)
        return;
    if (silent_ms >= ss->ack_timeout_ms) {
        LOG_INFO(LOG_BROKER, "session.overdue", F_STR("tenant", tenant_id(&ss->principal)),
                 F_STR("client", session_client_id(ss)), F_INT("unacknowledged", ss->n_tracked));
        if (ss->link->ops->overdue && ss->link->ops->overdue(ss->link)) {
            broker_count(BROKER_OVERDUE, 1);
            return;
        }
        ss->answered_ms += silent_ms;
        silent_ms = 0;
    }
    wheel_start(&ss->shard->worker->loop.wheel, &ss->timer, ss->ack_timeout_ms - silent_ms);
}

static void on_timer(struct timer *t)
{
    struct session *ss = CONTAINER_OF(t, struct session, timer);

    if (ss->link)
        check_silence(ss);
    else
        settle_detached(ss);
}

void session_expect_answer(struct session *ss, uint32_t timeout_ms)
{
    if (ss->n_tracked++ == 0) {
        ss->answered_ms = (uint32_t)ss->shard->worker->loop.now_ms;
        ss->ack_timeout_ms = timeout_ms;
    } else if (timeout_ms < ss->ack_timeout_ms) {
        ss->ack_timeout_ms = timeout_ms;
    }
    if (ss->link && !wheel_is_set(&ss->timer))
        wheel_start(&ss->shard->worker->loop.wheel, &ss->timer, ss->ack_timeout_ms);
}

/* A client has come: what it was sent before, it owes an answer to from now on. */
static void begin_silence(struct session *ss)
{
    if (ss->n_tracked == 0)
        return;
    ss->answered_ms = (uint32_t)ss->shard->worker->loop.now_ms;
    wheel_start(&ss->shard->worker->loop.wheel, &ss->timer, ss->ack_timeout_ms);
}

static struct session *session_new(struct shard *shard, const struct session_request *request, uint64_t hash)
{
    bool is_large = request->client_id.n > SESSION_INLINE_ID_BYTES;
    struct session *ss;

    if (is_large) {
        ss = mem_try_alloc(MEM_BROKER, sizeof *ss + request->client_id.n);
        if (!ss)
            return NULL;
        memset(ss, 0, sizeof *ss);
    } else {
        ss = slab_new(&shard->session_slab);
    }
    ss->hash = hash;
    ss->number = (uint64_t)(shard->worker->id + 1) << SHARD_SHIFT | ++shard->next_session_number;
    ss->shard = shard;
    ss->is_large = is_large;
    ss->timer.on_timer = on_timer;
    list_init(&ss->in_flight);
    list_init(&ss->queued);
    list_init(&ss->unsettled);
    ss->client_id_bytes = (uint16_t)request->client_id.n;
    memcpy(ss->client_id, request->client_id.p, request->client_id.n);
    map_add(&shard->sessions, MEM_BROKER, hash, ss);
    broker_count(BROKER_SESSIONS, 1);
    return ss;
}

/* Takes the session from the connection that has it. NULL when it ended by that. */
static struct session *take_over(struct session *ss, bool clean_start)
{
    struct link *old = ss->link;

    if (old) {
        broker_count(BROKER_TAKEOVERS, 1);
        LOG_INFO(LOG_BROKER, "session.takeover", F_STR("tenant", tenant_id(&ss->principal)),
                 F_STR("client", session_client_id(ss)));
        ss->link = NULL;
        ss->detached_ms = ss->shard->worker->loop.now_ms;
        old->ops->taken_over(old);
        if (ss->expiry_s == 0)
            clean_start = true;
        else if (ss->will && ss->will_delay_s == 0)
            publish_will(ss);
    }
    wheel_stop(&ss->timer);
    if (clean_start) {
        end_and_tell(ss, true);
        return NULL;
    }
    drop_will(ss);
    return ss;
}

bool session_is_linked(const struct shard *shard, const struct principal *principal, struct str client_id)
{
    struct identity id = {principal, client_id};
    const struct session *ss = map_find(&shard->sessions, hash_of(&id), &id, is_same);

    return ss && ss->link;
}

/* The worker's part of the limit. */
static bool has_room(const struct shard *shard)
{
    uint32_t limit = broker_limits(shard)->sessions, n_workers = shard->worker->all->n;

    return limit == 0 || shard->sessions.n_entries < (limit + n_workers - 1) / n_workers;
}

static uint16_t smaller(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

struct session *session_attach(struct shard *shard, const struct session_request *request, struct link *link, bool *out_present)
{
    struct identity id = {&request->principal, request->client_id};
    uint64_t hash = hash_of(&id);
    struct principal principal = request->principal;
    struct session *ss = map_find(&shard->sessions, hash, &id, is_same);

    if (ss)
        ss = take_over(ss, request->clean_start);
    *out_present = ss != NULL;
    if (!ss && has_room(shard))
        ss = session_new(shard, request, hash);
    if (!ss) {
        principal_release(&principal);
        message_unref(request->will);
        return NULL;
    }
    /* A resumed session takes the new principal, whose rights are the ones that hold now. */
    principal_release(&ss->principal);
    ss->principal = principal;
    ss->link = link;
    ss->was_resumed = *out_present;
    ss->expiry_s = request->expiry_s;
    ss->window = smaller(request->receive_maximum, broker_limits(shard)->in_flight);
    ss->will = request->will;
    ss->will_delay_s = request->will_delay_s;
    ss->origin = request->origin;
    for (uint16_t i = 0; i < ss->n_incoming; i++)
        ss->incoming[i] = (struct incoming){
            .packet_id = ss->incoming[i].packet_id, .is_stored = ss->incoming[i].is_stored, .is_inherited = true};
    ss->n_inherited = ss->n_incoming;
    outgoing_resume(ss);
    begin_silence(ss);
    return ss;
}

void session_detach(struct session *ss, struct link *link, bool publishes_will)
{
    if (ss->link != link)
        return;
    ss->link = NULL;
    ss->detached_ms = ss->shard->worker->loop.now_ms;
    wheel_stop(&ss->timer);
    if (!publishes_will)
        drop_will(ss);
    settle_detached(ss);
}

void session_set_expiry(struct session *ss, uint32_t expiry_s)
{
    ss->expiry_s = expiry_s;
}

void session_pump(struct session *ss)
{
    outgoing_pump(ss);
}

struct incoming *session_find_incoming(struct session *ss, uint16_t packet_id)
{
    for (uint16_t i = 0; i < ss->n_incoming; i++)
        if (ss->incoming[i].packet_id == packet_id)
            return &ss->incoming[i];
    return NULL;
}

err session_add_incoming(struct session *ss, uint16_t packet_id)
{
    if (ss->n_incoming == ss->incoming_capacity) {
        uint32_t twice = ss->incoming_capacity ? ss->incoming_capacity * 2u : FIRST_INCOMING;
        uint16_t wanted = twice < UINT16_MAX ? (uint16_t)twice : UINT16_MAX; /* there are no more packet identifiers */
        struct incoming *p = mem_try_realloc(MEM_BROKER, ss->incoming, wanted * sizeof *p);

        if (!p)
            return E_NOMEM;
        ss->incoming = p;
        ss->incoming_capacity = wanted;
    }
    ss->incoming[ss->n_incoming++] = (struct incoming){.packet_id = packet_id};
    return E_OK;
}

void session_claim_incoming(struct session *ss, struct incoming *incoming)
{
    ss->n_inherited -= incoming->is_inherited;
    incoming->is_inherited = false;
}

bool session_remove_incoming(struct session *ss, uint16_t packet_id)
{
    struct incoming *found = session_find_incoming(ss, packet_id);

    if (!found)
        return false;
    session_claim_incoming(ss, found);
    *found = ss->incoming[--ss->n_incoming];
    if (ss->n_incoming == 0) {
        mem_free(MEM_BROKER, ss->incoming);
        ss->incoming = NULL;
        ss->incoming_capacity = 0;
    }
    return true;
}

void session_add_unsettled(struct session *ss, struct unsettled *u, uint16_t packet_id)
{
    u->session = ss;
    u->packet_id = packet_id;
    list_push(&ss->unsettled, &u->link);
}

struct unsettled *session_find_unsettled(struct session *ss, uint16_t packet_id)
{
    for (struct list *link = ss->unsettled.next; link != &ss->unsettled; link = link->next) {
        struct unsettled *u = CONTAINER_OF(link, struct unsettled, link);

        if (u->packet_id == packet_id)
            return u;
    }
    return NULL;
}

void session_settle(struct unsettled *u, bool is_stored)
{
    struct session *ss = u->session;
    struct incoming *incoming;

    if (!ss)
        return;
    list_remove(&u->link);
    u->session = NULL;
    incoming = session_find_incoming(ss, u->packet_id);
    if (!is_stored)
        (void)session_remove_incoming(ss, u->packet_id); /* it may have been taken back before */
    else if (incoming)
        incoming->is_stored = true;
}
