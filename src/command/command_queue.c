/* Commands that wait for devices that are away (`command.policy: queue`): in the table of routes, in order for each device. Whoever would answer that
 * nobody takes a command keeps it there instead; whoever has the device then, or is to tell that its time is over, loads it into the lane, in front of
 * everything newer. It is delivered, told of and taken out of the table, in this order: at least once, and by one instance at a time, as with the
 * design direct. */
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "command/command_link_frame.h"
#include "command/command_router.h"
#include "loop/loop.h"

/* Of one lane: so many are loaded and not out. */
enum { LOAD_MAX = 16, ID_BYTES = 64 };

bool command_queue_takes(const struct command *c)
{
    return c->router->generation->config->command.policy == CONFIG_COMMAND_QUEUE && c->record.has_ttl && !c->number &&
           c->source;
}

/* --- keeping --- */

static void on_kept(struct mail *m)
{
    struct command *c = CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct command, write);
    struct command_lane *lane = c->lane;
    err result = c->write.result;

    lane->is_keeping = false;
    command_watch_lane(lane);
    if (result == E_OK) {
        lane->has_waiting = true;
        command_notice_put_away(c);
    } else if (result == E_LIMIT) {
        command_notice_conclude(c, COMMAND_COUNT_REFUSED_QUEUE_FULL, 429, "too many commands wait for the device");
    } else {
        command_lane_take_on(c); /* to be kept again: that is keeping it once */
    }
}

void command_queue_keep(struct command *c)
{
    const struct config_command *config = &c->router->generation->config->command;
    struct command_request request = {
        .ticket = {c->tenant, c->partition->source->number, c->source->offset},
        .timestamp_ms = c->source->timestamp_ms,
        .key = c->source->key,
        .value = c->source->value,
        .headers = c->source->headers,
        .n_headers = c->source->n_headers,
    };
    struct buf value = {0};
    char id[ID_BYTES];
    int n = snprintf(id, sizeof id, "%d/%lld/%lld", (int)request.ticket.partition, (long long)request.ticket.offset,
                     (long long)request.timestamp_ms);

    if (command_link_frame_write_request(&value, 0, &request) != E_OK) {
        command_notice_conclude(c, COMMAND_COUNT_REFUSED_QUEUE_FULL, 413, "command is too large to wait");
        return;
    }
    c->lane->is_keeping = true;
    c->write = (struct routes_write){.mail = {.on_mail = on_kept}};
    routes_keep(c->router->replica, &c->write, c->tenant, c->record.device_id, (struct str){id, (size_t)n}, buf_str(&value),
                (uint32_t)config->queue_per_device, (uint32_t)config->queue_per_tenant);
    buf_free(&value, MEM_COMMAND);
}

/* --- loading --- */

static void on_removed(struct mail *m)
{
    mem_free(MEM_COMMAND, CONTAINER_OF(m, struct routes_write, mail));
}

/* What nobody can read is of no use to anybody. */
static void remove_unreadable(struct command_lane *lane, uint64_t number)
{
    struct routes_write *write = mem_alloc(MEM_COMMAND, sizeof *write);

    LOG_WARN(LOG_COMMAND, "command.unreadable", F_STR("tenant", lane->tenant), F_STR("device", lane->device));
    *write = (struct routes_write){.mail = {.on_mail = on_removed}};
    routes_forget(lane->router->replica, write, lane->tenant, lane->device, number);
}

/* In front of what is newer. */
static void put_in(struct command_lane *lane, struct command *c)
{
    struct list *link = lane->commands.next;

    while (link != &lane->commands && CONTAINER_OF(link, struct command, link)->number)
        link = link->next;
    list_push(link, &c->link);
}

/* False: there is none any more. */
static bool load_next(struct command_lane *lane)
{
    struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_router *r = lane->router;
    struct command_link_frame frame;
    struct routes_waiting waiting;
    struct arena arena = {0};
    struct command *c = NULL;
    size_t n;
    bool is_found = routes_next_waiting(r->replica, lane->tenant, lane->device, lane->loaded, &arena, &waiting);

    if (is_found) {
        lane->loaded = waiting.number;
        if (command_link_frame_read(waiting.value, waiting.value.n, headers, &frame, &n) == E_OK &&
            frame.kind == COMMAND_LINK_REQUEST && str_equal(frame.request.ticket.tenant, lane->tenant))
            c = command_serve_copy(r, &frame.request);
        else
            remove_unreadable(lane, waiting.number);
    }
    if (c) {
        c->lane = lane;
        c->number = waiting.number;
        lane->has_kept = true;
        command_count(COMMAND_COUNT_RESUMED, 1);
        command_count(COMMAND_COUNT_WAITING, 1);
        put_in(lane, c);
    }
    arena_free(&arena, MEM_COMMAND);
    return is_found;
}

static unsigned count_loaded(const struct command_lane *lane)
{
    unsigned n = 0;

    for (struct list *link = lane->commands.next; link != &lane->commands; link = link->next)
        n += CONTAINER_OF(link, struct command, link)->number && !CONTAINER_OF(link, struct command, link)->is_sent;
    return n;
}

void command_queue_load(struct command_lane *lane)
{
    struct command_router *r = lane->router;
    struct command_choice choice;
    struct routes_waiting waiting;
    struct arena arena = {0};
    unsigned n = count_loaded(lane);

    command_choice_make(r, lane->tenant, lane->device, &choice);
    lane->has_gateways = choice.has_gateways;
    if (command_queue_turn(r, lane, &choice) == COMMAND_TURN_ACT) {
        while (lane->has_waiting && n++ < LOAD_MAX)
            lane->has_waiting = load_next(lane);
        return;
    }
    lane->has_waiting = routes_next_waiting(r->replica, lane->tenant, lane->device, lane->loaded, &arena, &waiting);
    arena_free(&arena, MEM_COMMAND);
}

enum command_turn command_queue_turn(struct command_router *r, const struct command_lane *lane,
                                     const struct command_choice *choice)
{
    if (!routes_is_leased(r->replica) || choice->is_recent || lane->is_held)
        return COMMAND_TURN_WAIT;
    return command_choice_is_ours(r, lane->tenant, lane->device, choice) ? COMMAND_TURN_ACT : COMMAND_TURN_OTHERS;
}

static void drop(struct command *c)
{
    list_remove(&c->link);
    command_count(COMMAND_COUNT_ELSEWHERE, 1);
    command_count(COMMAND_COUNT_WAITING, -1);
    command_serve_free(c);
}

bool command_queue_drop_if_gone(struct command *c)
{
    struct routes_waiting waiting;
    struct arena arena = {0};
    bool is_there = routes_next_waiting(c->router->replica, c->tenant, c->lane->device, c->number - 1, &arena, &waiting) &&
                    waiting.number == c->number;

    arena_free(&arena, MEM_COMMAND);
    if (!is_there)
        drop(c);
    return !is_there;
}

void command_queue_unload(struct command_lane *lane)
{
    struct list *next;

    for (struct list *link = lane->commands.next; link != &lane->commands; link = next) {
        struct command *c = CONTAINER_OF(link, struct command, link);

        next = link->next;
        if (!c->number || c->is_sent)
            continue;
        if (!lane->has_waiting || lane->loaded >= c->number)
            lane->loaded = c->number - 1;
        lane->has_waiting = true;
        drop(c);
    }
}

/* --- the end --- */

static void on_forgotten(struct mail *m);

void command_queue_forget(struct command *c)
{
    c->write = (struct routes_write){.mail = {.on_mail = on_forgotten}};
    routes_forget(c->router->replica, &c->write, c->tenant, c->record.device_id, c->number);
}

void command_queue_retry(struct command_router *r)
{
    struct list again, *link;

    list_init(&again);
    list_move(&again, &r->unforgotten);
    while ((link = list_pop(&again)))
        command_queue_forget(CONTAINER_OF(link, struct command, link));
}

/* That it is not there any more is as good. */
static void on_forgotten(struct mail *m)
{
    struct command *c = CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct command, write);
    struct command_lane *lane = c->lane;

    if (c->write.result == E_OK || c->write.result == E_DENIED || c->write.result == E_CLOSED) {
        command_serve_free(c);
        command_lane_note_settled(lane);
        return;
    }
    list_push(&c->router->unforgotten, &c->link);
    command_watch_tick(c->router);
}

void command_queue_on_waiting(struct command_router *r, struct str tenant, struct str device)
{
    struct command_lane *lane = command_lane_make(r, tenant, device);

    lane->has_waiting = true;
    command_watch_lane(lane);
}
