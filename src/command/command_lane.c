/* Commands of one device, in order: from their records to whoever takes them, and back. */
#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "command/command_router.h"
#include "loop/loop.h"
#include "registry/usage.h"

/* So many of a device's commands may be on their way to it; an application's order is kept in any case. */
enum { WINDOW = 64 };

static const struct str topic_prefix = STR_INIT("hono.command.");

static bool is_lane_of(const void *entry, const void *key)
{
    const struct command_lane *lane = entry;

    return command_pair_is(key, lane->tenant, lane->device);
}

static struct command *command_at(struct list *link)
{
    return CONTAINER_OF(link, struct command, link);
}

struct command_lane *command_lane_find(struct command_router *r, struct str tenant, struct str device)
{
    struct command_pair pair = {tenant, device};

    return map_find(&r->lanes, siphash_pair(tenant, device), &pair, is_lane_of);
}

struct command_lane *command_lane_make(struct command_router *r, struct str tenant, struct str device)
{
    struct command_lane *lane = command_lane_find(r, tenant, device);

    if (lane)
        return lane;
    lane = mem_alloc(MEM_COMMAND, sizeof *lane + tenant.n + device.n);
    *lane = (struct command_lane){.router = r, .hash = siphash_pair(tenant, device)};
    list_init(&lane->commands);
    memcpy(lane->text, tenant.p, tenant.n);
    memcpy(lane->text + tenant.n, device.p ? device.p : "", device.n);
    lane->tenant = (struct str){lane->text, tenant.n};
    lane->device = (struct str){lane->text + tenant.n, device.n};
    map_add(&r->lanes, MEM_COMMAND, lane->hash, lane);
    return lane;
}

static void free_lane(struct command_lane *lane)
{
    list_remove(&lane->parked);
    list_remove(&lane->due);
    list_remove(&lane->acting);
    routes_release(lane->router->replica, &lane->hold);
    mem_free(MEM_COMMAND, lane->way.text);
    mem_free(MEM_COMMAND, lane);
}

static void drop_if_empty(struct command_lane *lane)
{
    if (!list_is_empty(&lane->commands) || lane->n_over || lane->has_waiting || lane->is_pumping)
        return;
    ASSERT(map_remove(&lane->router->lanes, lane->hash, lane));
    free_lane(lane);
}

/* --- what this instance does with its commands --- */

static void note_acting(struct command_lane *lane)
{
    struct command_router *r = lane->router;

    if (lane->n_sent + lane->n_over == 0) {
        list_remove(&lane->acting);
        if (lane->is_held)
            routes_release(r->replica, &lane->hold);
        lane->is_held = false;
    } else if (!list_is_linked(&lane->acting)) {
        list_push(&r->acting, &lane->acting);
    }
}

static void take_over(struct command *c)
{
    list_remove(&c->link);
    c->is_over = true;
    c->lane->n_over++;
    note_acting(c->lane);
}

void command_lane_take_on(struct command *c)
{
    struct command_lane *lane = c->lane;
    struct list *first = lane->commands.next;

    c->is_over = false;
    lane->n_over--;
    while (first != &lane->commands && (command_at(first)->number || command_at(first)->is_sent))
        first = first->next;
    list_push(first, &c->link);
    note_acting(lane);
}

void command_lane_note_moved(struct command_router *r, struct command_lane *lane)
{
    struct command_choice choice;
    bool is_still_ours;

    if (lane->is_held)
        return;
    command_choice_make(r, lane->tenant, lane->device, &choice);
    is_still_ours = command_choice_is_ours(r, lane->tenant, lane->device, &choice) &&
                    (!lane->n_sent || (choice.has_way && choice.route.epoch == lane->way.epoch));
    if (is_still_ours)
        return;
    lane->is_held = true;
    routes_hold(r->replica, &lane->hold);
}

static void conclude(struct command *c, enum command_metric what, int status, const char *text)
{
    take_over(c);
    command_notice_conclude(c, what, status, text);
}

void command_lane_leave(struct command *c)
{
    take_over(c);
    command_notice_leave(c);
}

void command_lane_note_settled(struct command_lane *lane)
{
    bool was_held = lane->is_held;

    lane->n_over--;
    note_acting(lane);
    if ((was_held && !lane->is_held) || lane->has_waiting)
        command_watch_lane(lane); /* what had to wait for that */
    drop_if_empty(lane);
}

/* Counts its volume: as sent, or as come back. */
static void count_volume(const struct command *c, bool is_sent)
{
    const struct registry_tenant *ten = registry_find_tenant(c->router->generation->registry, c->tenant);

    if (ten)
        (is_sent ? usage_count : usage_uncount)(ten, c->record.value.n, (int64_t)loop_wall_ms());
}

/* --- ways --- */

static bool is_way(const struct command_way *way, const struct routes_route *route)
{
    return way->epoch == route->epoch && way->incarnation == route->instance->incarnation &&
           (way->is_self ? route->instance->is_self : str_equal(way->instance, route->instance->name));
}

static void set_way(struct command_lane *lane, const struct command_choice *choice)
{
    const struct routes_instance *instance = choice->route.instance;
    struct str gateway = str_equal(choice->owner, lane->device) ? (struct str){0} : choice->owner;
    char *text;

    if (is_way(&lane->way, &choice->route))
        return;
    mem_free(MEM_COMMAND, lane->way.text);
    lane->way =
        (struct command_way){.incarnation = instance->incarnation, .epoch = choice->route.epoch, .is_self = instance->is_self};
    if (instance->is_self)
        return;
    text = lane->way.text = mem_alloc(MEM_COMMAND, instance->name.n + gateway.n + 1);
    memcpy(text, instance->name.p, instance->name.n);
    memcpy(text + instance->name.n, gateway.n ? gateway.p : "", gateway.n);
    lane->way.instance = (struct str){text, instance->name.n};
    lane->way.gateway = (struct str){text + instance->name.n, gateway.n};
}

/* --- to the subscriber --- */

static void on_arrival(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, mail);
    struct command_subscriber *subscriber = c->entry->subscriber;

    if (subscriber)
        subscriber->ops->on_command(subscriber, c);
    else
        command_done(c, COMMAND_RETURNED, 0, NULL);
}

void command_lane_deliver(struct command *c, struct command_entry *entry, bool is_through_gateway,
                          void (*on_back)(struct command *))
{
    command_entry_ref(entry);
    c->entry = entry;
    c->target = is_through_gateway ? c->record.device_id : (struct str){0};
    c->on_back = on_back;
    c->mail.on_mail = on_arrival;
    mailbox_post(entry->home, &c->mail);
}

static void on_result(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, mail);

    command_entry_unref(c->entry);
    c->entry = NULL;
    c->on_back(c);
}

void command_done(struct command *command, enum command_result result, int status, const char *text)
{
    command->result = result;
    command->status = status;
    command->text = text;
    command->mail.on_mail = on_result;
    mailbox_post(&command->router->worker->loop.mailbox, &command->mail);
}

/* --- the order --- */

/* While the device is away, those that wait for it do so, and what is newer joins them or is refused. */
static struct command *first_unsent(const struct command_lane *lane)
{
    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next)
        if (!command_at(link)->is_sent && !(lane->is_away && command_at(link)->number))
            return command_at(link);
    return NULL;
}

/* Whether something older than what comes from Kafka is not out yet. */
static bool has_older(const struct command_lane *lane)
{
    const struct command *first = list_is_empty(&lane->commands) ? NULL : command_at(lane->commands.next);

    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next) {
        first = command_at(link);
        if (!first->number || !first->is_sent)
            break;
    }
    return lane->has_waiting || (first && first->number && !first->is_sent);
}

/* One that came back keeps its place; it and what is behind it go on when all that were sent have come back. */
static bool has_returned(const struct command_lane *lane)
{
    bool has_unsent = false;

    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next) {
        bool is_sent = command_at(link)->is_sent;

        if (is_sent && has_unsent)
            return true;
        has_unsent |= !is_sent;
    }
    return false;
}

static void park(struct command_lane *lane, struct list *where)
{
    list_remove(&lane->parked);
    list_push(where, &lane->parked);
    if (where == &lane->router->waiting || lane->has_waiting)
        command_watch_tick(lane->router);
}

/* False: the subscriber of this process has ended, its route is about to go, or has to wait for what is under way by another; or it is another instance's that nothing carries commands to. */
static bool send(struct command *c, const struct command_choice *choice)
{
    struct command_lane *lane = c->lane;
    struct command_router *r = c->router;
    bool is_self = choice->route.instance->is_self;
    struct command_entry *entry = is_self ? command_entry_find(r, c->tenant, choice->owner, choice->route.epoch) : NULL;

    if (is_self ? !entry : !r->plane->transport)
        return false;
    if (is_self && r->plane->transport && !c->number && command_serve_is_busy(c, entry->epoch))
        return false;
    set_way(lane, choice);
    c->is_sent = true;
    lane->n_sent++;
    note_acting(lane);
    count_volume(c, true);
    if (!is_self)
        command_remote_send(c);
    else if (r->plane->transport && !c->number)
        command_serve_own(c, entry, choice->is_through_gateway);
    else
        command_lane_deliver(c, entry, choice->is_through_gateway, command_lane_take_back);
    return true;
}

/* Whether a command may go by the way that was chosen: nothing overtakes what is out by another way, nor goes by one that gave a command back. */
static bool may_go(struct command_lane *lane, const struct command_choice *choice)
{
    bool is_same = is_way(&lane->way, &choice->route);

    return is_same ? !lane->way.is_shunned : lane->n_sent == 0;
}

/* Does with a command what is to be done now. False: it, and what is behind it, has to wait. */
static bool advance(struct command_lane *lane, struct command *c)
{
    struct command_router *r = lane->router;
    struct command_choice choice;
    struct command_refusal refusal;
    enum command_turn turn;

    command_choice_make(r, lane->tenant, lane->device, &choice);
    lane->has_gateways = choice.has_gateways;
    turn = lane->is_held ? COMMAND_TURN_WAIT
           : c->number   ? command_queue_turn(r, lane, &choice)
                         : r->plane->design->turn(r, c, &choice);
    if (turn == COMMAND_TURN_DONE) {
        command_lane_leave(c);
        return true;
    }
    if (turn == COMMAND_TURN_ACT && !choice.has_way && choice.is_coming)
        turn = COMMAND_TURN_WAIT;
    if (turn == COMMAND_TURN_OTHERS && c->number) {
        command_queue_unload(lane);
        return true;
    }
    if (turn != COMMAND_TURN_ACT) {
        park(lane, turn == COMMAND_TURN_OTHERS ? &r->others : &r->waiting);
        return false;
    }
    if (c->number && command_queue_drop_if_gone(c))
        return true;
    refusal = command_choice_judge(c, &choice);
    if (refusal.is_absent && command_queue_takes(c) && lane->n_sent) {
        park(lane, &r->waiting); /* what is out may come back, and waits in front of it */
        return false;
    }
    if (refusal.is_absent && command_queue_takes(c)) {
        take_over(c);
        command_queue_keep(c);
        return true;
    }
    if (refusal.is_absent && c->number) {
        lane->is_away = true;
        park(lane, &r->waiting);
        return true;
    }
    if (refusal.is_refused) {
        conclude(c, refusal.what, refusal.status, refusal.text);
        return true;
    }
    if ((c->number || !has_older(lane)) && may_go(lane, &choice) && send(c, &choice))
        return true;
    park(lane, &r->waiting);
    return false;
}

void command_lane_pump(struct command_lane *lane)
{
    struct command *c;

    list_remove(&lane->parked);
    lane->is_pumping = true;
    lane->is_away = false;
    if (lane->has_waiting)
        command_queue_load(lane);
    while (lane->n_sent < WINDOW && !lane->n_unsent && !lane->is_keeping && !has_returned(lane) && (c = first_unsent(lane)))
        if (!advance(lane, c))
            break;
    lane->is_pumping = false;
    if (lane->has_waiting && !list_is_linked(&lane->parked))
        park(lane, &lane->router->others);
    drop_if_empty(lane);
}

/* --- from the subscriber --- */

static void conclude_result(struct command *c)
{
    bool is_acknowledged = c->result == COMMAND_RECEIVED;

    if (c->is_lost)
        command_lane_leave(c);
    else if (c->result == COMMAND_FAILED)
        conclude(c, COMMAND_COUNT_REFUSED_NOT_ACKNOWLEDGED, c->status, c->text);
    else
        conclude(c, is_acknowledged ? COMMAND_COUNT_DELIVERED_RECEIVED : COMMAND_COUNT_DELIVERED_ATTEMPTED, 202,
                 is_acknowledged ? "received" : "attempted");
}

static void note_returned(struct command_lane *lane, struct command *c)
{
    command_count(COMMAND_COUNT_RETURNED, 1);
    lane->way.is_shunned = true;
    if (c->is_lost)
        command_lane_leave(c);
}

void command_lane_take_back(struct command *c)
{
    struct command_lane *lane = c->lane;
    bool has_come_undone = c->result == COMMAND_RETURNED;

    lane->is_pumping = true; /* it stays while this is done */
    c->is_sent = false;
    lane->n_sent--;
    if (has_come_undone || c->result == COMMAND_FAILED)
        count_volume(c, false);
    if (has_come_undone)
        note_returned(lane, c);
    else
        conclude_result(c);
    note_acting(lane);
    if (has_come_undone && command_router_is_draining(lane->router)) {
        lane->is_pumping = false;
        return;
    }
    command_lane_pump(lane);
}

/* --- from Kafka --- */

/* The first record of a partition, or of a topic made anew under its name. */
static void begin(struct command_router *r, struct command_partition *p, int64_t offset)
{
    if (r->plane->design->begin)
        r->plane->design->begin(r, p, offset);
    else
        p->next = 0;
}

void command_lane_on_record(struct mail *m)
{
    struct source_record *record = CONTAINER_OF(m, struct source_record, mail);
    struct command_plane *plane = record->partition->reader->context;
    struct str tenant = str_from_offset(record->partition->topic, topic_prefix.n);
    struct command_router *r = command_router_of(plane, tenant);
    struct command_partition *p = command_partition_of(r, record->partition);
    struct command *c = slab_new(&r->commands);
    struct command_place place = {
        .topic = record->partition->topic,
        .partition = record->partition->number,
        .offset = record->offset,
        .timestamp_ms = record->timestamp_ms,
    };

    c->fault = command_record_read(record->key, record->value, record->headers, record->n_headers, &place,
                                   (int64_t)loop_wall_ms(), &c->record);
    c->tenant = tenant;
    c->router = r;
    c->source = record;
    c->partition = p;
    command_count(COMMAND_COUNT_RECEIVED, 1);
    command_count(COMMAND_COUNT_WAITING, 1);
    if (record->offset < p->next || p->next == 0)
        begin(r, p, record->offset);
    c->making = p->making;
    c->done_from = p->next && p->next < record->offset ? p->next : record->offset;
    p->next = record->offset + 1;
    list_push(&p->commands, &c->of_partition);
    if (c->fault != COMMAND_FAULT_NONE)
        LOG_INFO(LOG_COMMAND, "command.refused", F_STR("tenant", tenant), F_INT("partition", place.partition),
                 F_INT("offset", place.offset), F_TEXT("why", command_record_fault_name(c->fault)));
    c->lane = command_lane_make(r, tenant, c->record.device_id);
    list_push(&c->lane->commands, &c->link);
    if (!list_is_linked(&c->lane->parked) || c->lane->has_waiting)
        command_lane_pump(c->lane);
}

static void free_command(struct command_router *r, struct command *c)
{
    if (c->entry)
        command_entry_unref(c->entry);
    command_count(COMMAND_COUNT_WAITING, -1);
    slab_free(&r->commands, c);
}

void command_lane_fini_all(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_lane *lane;

    while ((lane = map_next(&r->lanes, &cursor))) {
        while (!list_is_empty(&lane->commands))
            free_command(r, command_at(list_pop(&lane->commands)));
        free_lane(lane);
    }
    map_free(&r->lanes, MEM_COMMAND);
}
