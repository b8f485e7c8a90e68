/* What is written to the topics of others, until Kafka has it. */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "command/command_port.h"
#include "command/command_topics_private.h"

/* A record on its way: a whole copy, since it may have to be written again. */
struct message {
    struct list link; /* in one of the peer's lists */
    struct command_topics_peer *peer;
    struct delivery delivery;
    struct record record;
    size_t bytes;
    struct record_header headers[];
};

/* --- messages --- */

/* A null value is not an empty one. */
static struct str copy(char **to, struct str from)
{
    return from.p ? str_put(to, from) : (struct str){0};
}

static void on_delivered(struct mail *m);

/* NULL: there is no memory. */
static struct message *message_new(struct command_topics_peer *peer, const struct record *record)
{
    size_t bytes = sizeof(struct message) + record->n_headers * sizeof(struct record_header) + record->key.n + record->value.n;
    struct message *m;
    char *text;

    for (size_t i = 0; i < record->n_headers; i++)
        bytes += record->headers[i].name.n + record->headers[i].value.n;
    m = mem_try_alloc(MEM_COMMAND, bytes);
    if (!m)
        return NULL;
    *m = (struct message){.peer = peer,
                          .delivery = {.mail = {.on_mail = on_delivered}, .home = &peer->worker->worker->loop.mailbox},
                          .record = *record,
                          .bytes = bytes};
    text = (char *)&m->headers[record->n_headers];
    m->record.topic = peer->topic;
    m->record.key = copy(&text, record->key);
    m->record.value = copy(&text, record->value);
    m->record.headers = m->headers;
    for (size_t i = 0; i < record->n_headers; i++)
        m->headers[i] = (struct record_header){copy(&text, record->headers[i].name), copy(&text, record->headers[i].value)};
    return m;
}

static void tell_room(struct command_topics_worker *tw)
{
    const struct command_transport_user *user = &tw->topics->settings.user;

    tw->wants_room = false;
    user->on_room(user->plane, tw->worker->id);
}

/* It was counted as sent. */
static void message_end(struct message *m, enum command_topics_metric how)
{
    struct command_topics_worker *tw = m->peer->worker;

    command_topics_count(how, 1);
    command_topics_count(COMMAND_TOPICS_COUNT_WAITING, -1);
    command_topics_count(COMMAND_TOPICS_COUNT_WAITING_BYTES, -(int64_t)m->bytes);
    tw->bytes -= m->bytes;
    m->peer->bytes -= m->bytes;
    mem_free(MEM_COMMAND, m);
    if (tw->wants_room && tw->bytes < COMMAND_TOPICS_WINDOW_BYTES / 2)
        tell_room(tw);
}

/* --- peers --- */

static bool is_same(const struct command_topics_peer *peer, const struct command_peer *id)
{
    return peer->id.incarnation == id->incarnation && str_equal(peer->id.instance, id->instance);
}

/* NULL: its name is none that a topic can have. */
static struct command_topics_peer *find_peer(struct command_topics_worker *tw, const struct command_peer *id)
{
    char name[COMMAND_TOPICS_NAME_BYTES];
    struct command_topics_peer *peer;
    struct sink_topic *topic;

    for (struct list *l = tw->peers.next; l != &tw->peers; l = l->next)
        if (is_same(CONTAINER_OF(l, struct command_topics_peer, link), id))
            return CONTAINER_OF(l, struct command_topics_peer, link);
    if (id->instance.n == 0 || command_topics_name(id->instance, name) != E_OK)
        return NULL;
    topic = sink_find_topic(tw->topics->settings.sink, str_from(name));
    if (!topic)
        return NULL;
    peer = mem_alloc_zero(MEM_COMMAND, sizeof *peer + id->instance.n);
    memcpy(peer->text, id->instance.p, id->instance.n);
    peer->worker = tw;
    peer->topic = topic;
    peer->id = (struct command_peer){{peer->text, id->instance.n}, id->incarnation};
    list_init(&peer->out);
    list_init(&peer->failed);
    list_push(&tw->peers, &peer->link);
    return peer;
}

static bool lives(const struct command_topics_peer *peer)
{
    const struct command_topics_settings *settings = &peer->worker->topics->settings;

    return settings->lives(settings->context, peer->worker->worker->id, &peer->id);
}

static void lose_failed(struct command_topics_peer *peer)
{
    struct list *link;

    while ((link = list_pop(&peer->failed)))
        message_end(CONTAINER_OF(link, struct message, link), COMMAND_TOPICS_COUNT_LOST);
}

static void peer_free(struct command_topics_peer *peer)
{
    list_remove(&peer->link);
    mem_free(MEM_COMMAND, peer);
}

/* --- on the way --- */

/* E_OK: Kafka's. E_AGAIN: no room now. E_INVAL: refused, see its outcome. */
static err submit(struct message *m)
{
    err e = sink_submit(m->peer->worker->topics->settings.sink, &m->record, &m->delivery);

    if (e == E_OK)
        list_push(&m->peer->out, &m->link);
    return e;
}

static void try_again_later(struct command_topics_worker *tw)
{
    if (!wheel_is_set(&tw->again))
        wheel_start(&tw->worker->loop.wheel, &tw->again, COMMAND_TOPICS_RETRY_MS);
}

/* Kafka will never take it: whoever waits is told as if the peer had failed. */
static void refuse_for_good(struct message *m)
{
    struct command_topics_worker *tw = m->peer->worker;
    const struct command_transport_user *user = &tw->topics->settings.user;
    struct record_header *room = command_topics_make_room(&tw->read, m->record.n_headers);
    struct command_envelope envelope;

    LOG_WARN(LOG_COMMAND, "topics.refused", F_STR("instance", m->peer->id.instance),
             F_TEXT("reason", sink_outcome_name(m->delivery.outcome)));
    if (room && command_envelope_read(&m->record, room, &envelope) == E_OK && !envelope.is_result) {
        const struct command_result_message result = {.ticket = envelope.request.ticket,
                                                      .from = m->peer->id,
                                                      .to = envelope.request.from,
                                                      .result = COMMAND_FAILED,
                                                      .status = m->delivery.outcome == OUTCOME_TOO_LARGE ? 413 : 503,
                                                      .text = STR("it cannot be passed on to the device's instance")};

        user->on_result(user->plane, &result);
    }
    message_end(m, COMMAND_TOPICS_COUNT_LOST);
}

/* Kafka has refused a message that it had, or that is written again. */
static void fail(struct message *m)
{
    if (m->delivery.outcome == OUTCOME_TOO_LARGE || m->delivery.outcome == OUTCOME_INVALID) {
        refuse_for_good(m);
        return;
    }
    list_push(&m->peer->failed, &m->link);
    try_again_later(m->peer->worker);
}

static void on_delivered(struct mail *mail)
{
    struct message *m = CONTAINER_OF(mail, struct message, delivery.mail);

    list_remove(&m->link);
    if (m->delivery.outcome == OUTCOME_STORED)
        message_end(m, COMMAND_TOPICS_COUNT_STORED);
    else
        fail(m);
}

/* The failed ones in their order, once nothing else is out that may fail as well. */
static void send_failed(struct command_topics_peer *peer)
{
    struct list failed;

    if (!list_is_empty(&peer->out))
        return;
    list_init(&failed);
    list_move(&failed, &peer->failed);
    while (!list_is_empty(&failed)) {
        struct message *m = CONTAINER_OF(list_pop(&failed), struct message, link);
        err e = list_is_empty(&peer->failed) ? submit(m) : E_AGAIN;

        if (e == E_OK)
            command_topics_count(COMMAND_TOPICS_COUNT_AGAIN, 1);
        else if (e == E_AGAIN)
            list_push(&peer->failed, &m->link);
        else
            fail(m);
    }
}

static void on_again(struct timer *t)
{
    struct command_topics_worker *tw = CONTAINER_OF(t, struct command_topics_worker, again);

    for (struct list *l = tw->peers.next; l != &tw->peers; l = l->next) {
        struct command_topics_peer *peer = CONTAINER_OF(l, struct command_topics_peer, link);

        if (list_is_empty(&peer->failed))
            continue;
        if (lives(peer))
            send_failed(peer);
        else
            lose_failed(peer);
        if (!list_is_empty(&peer->failed))
            try_again_later(tw);
    }
}

/* Instances have changed. What Kafka has for one that is gone is Kafka's to end. */
static void on_look(struct mail *m)
{
    struct command_topics_worker *tw = CONTAINER_OF(m, struct command_topics_worker, look);
    struct list *next;

    atomic_store(&tw->is_look_due, false);
    for (struct list *l = tw->peers.next; l != &tw->peers; l = next) {
        struct command_topics_peer *peer = CONTAINER_OF(l, struct command_topics_peer, link);

        next = l->next;
        if (lives(peer))
            continue;
        lose_failed(peer);
        if (list_is_empty(&peer->out))
            peer_free(peer);
    }
}

/* --- sending --- */

/* Refused within the call. */
static err refused(enum outcome outcome)
{
    return outcome == OUTCOME_TOO_LARGE ? E_LIMIT : E_IO;
}

static err send_new(struct command_topics_worker *tw, struct command_topics_peer *peer, const struct record *record)
{
    struct message *m = message_new(peer, record);
    err e = m ? submit(m) : E_IO;

    if (e == E_OK) {
        command_topics_count(COMMAND_TOPICS_COUNT_SENT, 1);
        command_topics_count(COMMAND_TOPICS_COUNT_WAITING, 1);
        command_topics_count(COMMAND_TOPICS_COUNT_WAITING_BYTES, (int64_t)m->bytes);
        tw->bytes += m->bytes;
        peer->bytes += m->bytes;
        return E_OK;
    }
    if (e == E_AGAIN)
        sink_wait(tw->topics->settings.sink, &tw->waiter);
    else if (m)
        e = refused(m->delivery.outcome);
    mem_free(MEM_COMMAND, m);
    return e;
}

static err send_to(struct command_topics_worker *tw, const struct command_peer *to, const struct record *record)
{
    struct command_topics_peer *peer = find_peer(tw, to);

    if (!peer || !list_is_empty(&peer->failed))
        return E_IO;
    if (peer->bytes >= COMMAND_TOPICS_WINDOW_BYTES / 2 || tw->bytes >= COMMAND_TOPICS_WINDOW_BYTES) {
        tw->wants_room = true;
        return tw->bytes >= COMMAND_TOPICS_WINDOW_BYTES ? E_AGAIN : E_IO; /* for others there is room */
    }
    return send_new(tw, peer, record);
}

err command_topics_out_send_request(struct command_topics_worker *tw, const struct command_request *request)
{
    struct record_header *room = command_topics_make_room(&tw->write, request->n_headers + COMMAND_ENVELOPE_HEADERS);
    struct command_envelope_text text;
    struct record record;

    if (!room)
        return E_IO;
    command_envelope_write_request(request, room, &text, &record);
    return send_to(tw, &request->to, &record);
}

err command_topics_out_send_result(struct command_topics_worker *tw, const struct command_result_message *result)
{
    struct record_header *room = command_topics_make_room(&tw->write, COMMAND_ENVELOPE_HEADERS);
    struct command_envelope_text text;
    struct record record;

    if (!room)
        return E_IO;
    command_envelope_write_result(result, room, &text, &record);
    return send_to(tw, &result->to, &record);
}

/* --- life --- */

static void on_room(struct mail *m)
{
    tell_room(CONTAINER_OF(m, struct command_topics_worker, waiter.mail));
}

void command_topics_out_init(struct command_topics_worker *tw)
{
    list_init(&tw->peers);
    tw->waiter = (struct sink_waiter){.mail = {.on_mail = on_room}, .home = &tw->worker->loop.mailbox};
    tw->again.on_timer = on_again;
    tw->look.on_mail = on_look;
}

static void free_messages(struct list *messages)
{
    struct list *link;

    while ((link = list_pop(messages))) {
        struct message *m = CONTAINER_OF(link, struct message, link);

        command_topics_count(COMMAND_TOPICS_COUNT_LOST, 1);
        command_topics_count(COMMAND_TOPICS_COUNT_WAITING, -1);
        command_topics_count(COMMAND_TOPICS_COUNT_WAITING_BYTES, -(int64_t)m->bytes);
        mem_free(MEM_COMMAND, m);
    }
}

void command_topics_out_fini(struct command_topics_worker *tw)
{
    struct list *link;

    wheel_stop(&tw->again);
    while ((link = list_pop(&tw->peers))) {
        struct command_topics_peer *peer = CONTAINER_OF(link, struct command_topics_peer, link);

        free_messages(&peer->out);
        free_messages(&peer->failed);
        mem_free(MEM_COMMAND, peer);
    }
}
