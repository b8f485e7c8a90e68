/* Commands that go to other instances: out until their result comes, or their instance is gone. What is sent twice is delivered once
 * (command_serve.c), so whatever is in doubt is sent again. */
#include "base/check.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"

/* A result that has not come for so long, beyond what the device has, is asked for again. */
enum { PATIENCE_MS = 10 * 1000 };

static uint64_t hash_of(const struct command_ticket *ticket)
{
    return siphash_pair(ticket->tenant, (struct str){(const char *)&ticket->offset, sizeof ticket->offset}) ^
           (uint64_t)(uint32_t)ticket->partition;
}

static struct command_ticket ticket_of(const struct command *c)
{
    return (struct command_ticket){c->tenant, c->partition->source->number, c->source->offset};
}

static bool is_command_of(const void *entry, const void *key)
{
    const struct command *c = entry;
    const struct command_ticket *ticket = key;

    return c->source->offset == ticket->offset && c->partition->source->number == ticket->partition &&
           str_equal(c->tenant, ticket->tenant);
}

static struct command *find_out(struct command_router *r, const struct command_ticket *ticket)
{
    return map_find(&r->out, hash_of(ticket), ticket, is_command_of);
}

/* --- sending --- */

static err send_request(struct command *c)
{
    struct command_router *r = c->router;
    struct command_transport *transport = r->plane->transport;
    const struct command_way *way = &c->lane->way;
    const struct routes_instance *self = routes_self(r->replica);
    const struct routes_instance *peer = routes_find_instance(r->replica, way->instance, way->incarnation);
    struct command_request request = {
        .ticket = ticket_of(c),
        .to = {way->instance, way->incarnation},
        .after = routes_applied(r->replica),
        .epoch = way->epoch,
        .gateway = way->gateway,
        .timestamp_ms = c->source->timestamp_ms,
        .key = c->source->key,
        .value = c->source->value,
        .headers = c->source->headers,
        .n_headers = c->source->n_headers,
    };

    if (!self || !peer)
        return E_IO;
    request.from = (struct command_peer){self->name, self->incarnation};
    request.address = peer->address;
    c->sent_ms = r->worker->loop.now_ms;
    return transport->ops->send_request(transport, r->worker->id, &request);
}

static void on_refused(struct mail *m)
{
    command_lane_take_back(CONTAINER_OF(m, struct command, mail));
}

static void take_out(struct command *c)
{
    struct command_ticket ticket = ticket_of(c);

    ASSERT(map_remove(&c->router->out, hash_of(&ticket), c));
    c->is_passed_on = false;
    if (list_is_linked(&c->unsent))
        c->lane->n_unsent--;
    list_remove(&c->unsent);
}

/* By mail: whoever sends is busy with the lane. */
static void refuse(struct command *c, enum command_result result, int status, const char *text)
{
    take_out(c);
    c->result = result;
    c->status = status;
    c->text = text;
    c->mail.on_mail = on_refused;
    mailbox_post(&c->router->worker->loop.mailbox, &c->mail);
}

static void wait_to_send(struct command *c)
{
    if (!list_is_linked(&c->unsent)) {
        list_push(&c->router->unsent, &c->unsent);
        c->lane->n_unsent++;
    }
    command_watch_tick(c->router);
}

/* False: the transport has no room, for nobody. */
static bool try_to_send(struct command *c)
{
    struct command_router *r = c->router;
    err e = send_request(c);

    if (e == E_OK) {
        command_count(COMMAND_COUNT_ROUTED, 1);
        if (list_is_linked(&c->unsent))
            c->lane->n_unsent--;
        list_remove(&c->unsent);
        return true;
    }
    if (e == E_LIMIT) {
        refuse(c, COMMAND_FAILED, 413, "command is too large to be passed on");
        return true;
    }
    r->has_no_room |= e == E_AGAIN;
    wait_to_send(c);
    return e != E_AGAIN;
}

void command_remote_send(struct command *c)
{
    struct command_ticket ticket = ticket_of(c);

    map_add(&c->router->out, MEM_COMMAND, hash_of(&ticket), c);
    c->is_passed_on = true;
    if (c->router->has_no_room)
        wait_to_send(c);
    else
        (void)try_to_send(c);
    command_watch_tick(c->router);
}

/* Those that wait, in their order; a lane whose first could not be sent has no other in the list. */
static void send_waiting(struct command_router *r)
{
    struct list waiting, *link;

    list_init(&waiting);
    list_move(&waiting, &r->unsent);
    while (!r->has_no_room && (link = waiting.next) != &waiting) {
        struct command *c = CONTAINER_OF(link, struct command, unsent);

        list_remove(&c->unsent);
        c->lane->n_unsent--;
        (void)try_to_send(c);
        if (!list_is_linked(&c->unsent))
            command_watch_lane(c->lane);
    }
    list_move(&waiting, &r->unsent); /* what was tried in vain comes behind the rest */
    list_move(&r->unsent, &waiting);
}

void command_remote_on_room(struct command_plane *plane, unsigned worker)
{
    struct command_router *r = &plane->routers[worker];

    r->has_no_room = false;
    send_waiting(r);
    command_serve_retry(r);
}

/* --- again --- */

/* Asks again for everything that has been out for so long, a lane's commands in their order: what has arrived is not delivered again, what has
 * not comes behind it. */
static void ask_again(struct command_router *r, uint64_t patience_ms)
{
    uint64_t now_ms = r->worker->loop.now_ms;
    uint32_t cursor = 0;
    struct command_lane *lane;

    while ((lane = map_next(&r->lanes, &cursor))) {
        if (lane->way.is_self || !lane->n_sent || lane->n_unsent)
            continue;
        for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next) {
            struct command *c = CONTAINER_OF(link, struct command, link);

            if (!c->is_passed_on || c->sent_ms + patience_ms > now_ms || r->has_no_room)
                continue;
            if (send_request(c) == E_OK)
                command_count(COMMAND_COUNT_ROUTED_AGAIN, 1);
        }
    }
}

void command_remote_retry(struct command_router *r)
{
    send_waiting(r);
    if (r->out.n_entries)
        ask_again(r, PATIENCE_MS + r->generation->config->command.ack_timeout_ms);
}

void command_remote_on_leased(struct command_router *r)
{
    if (r->out.n_entries)
        ask_again(r, 0);
}

/* --- results --- */

/* The text of a result ends up in JSON. */
static void keep_text(struct command *c, struct str text)
{
    size_t n = text.n < sizeof c->answer - 1 ? text.n : sizeof c->answer - 1;

    for (size_t i = 0; i < n; i++)
        c->answer[i] = text.p[i] >= ' ' && text.p[i] <= '~' && text.p[i] != '"' && text.p[i] != '\\' ? text.p[i] : ' ';
    c->answer[n] = '\0';
    c->text = c->answer;
}

void command_remote_on_result(struct command_plane *plane, const struct command_result_message *result)
{
    struct command_router *r = command_router_of(plane, result->ticket.tenant);
    struct command *c = find_out(r, &result->ticket);
    const struct command_way *way = c ? &c->lane->way : NULL;

    ASSERT_ON(r->worker);
    if (!c || way->incarnation != result->from.incarnation || !str_equal(way->instance, result->from.instance)) {
        command_count(COMMAND_COUNT_RESULTS_LATE, 1);
        return;
    }
    command_count(COMMAND_COUNT_RESULTS, 1);
    take_out(c);
    c->result = result->result >= COMMAND_RECEIVED && result->result <= COMMAND_FAILED ? (enum command_result)result->result
                                                                                       : COMMAND_RETURNED;
    c->status = result->status >= 400 && result->status <= 599 ? result->status : 503;
    keep_text(c, result->text);
    command_lane_take_back(c);
}

void command_remote_on_instances(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_lane *lane;

    if (!r->out.n_entries)
        return;
    while ((lane = map_next(&r->lanes, &cursor))) {
        if (lane->way.is_self || !lane->n_sent || routes_find_instance(r->replica, lane->way.instance, lane->way.incarnation))
            continue;
        for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next) {
            struct command *c = CONTAINER_OF(link, struct command, link);

            if (c->is_passed_on)
                refuse(c, COMMAND_RETURNED, 0, NULL);
        }
    }
    send_waiting(r);
}

void command_remote_forget(struct command *c)
{
    struct command_lane *lane = c->lane;

    take_out(c);
    c->is_sent = false;
    lane->n_sent--;
    command_watch_lane(lane);
    command_lane_leave(c);
}
