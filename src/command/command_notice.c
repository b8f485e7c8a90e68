/* The end of a command: what the application is told of it, and the settling of its record behind that. */
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "command/command_router.h"
#include "loop/loop.h"

enum { TOPIC_BYTES = 600 };

/* What applications that want a notice of everything are told where Eclipse Hono says nothing. */
static const struct {
    enum command_metric what;
    int status;
    const char *text;
} dropped[] = {
    {COMMAND_COUNT_DROPPED_NO_DEVICE, 400, "malformed command message"},
    {COMMAND_COUNT_DROPPED_KEY, 400, "malformed command message"},
    {COMMAND_COUNT_DROPPED_EXPIRED, 504, "time to live of the command has elapsed"},
};

static void finish(struct command *c)
{
    struct command_router *r = c->router;
    struct command_lane *lane = c->lane;

    command_count(COMMAND_COUNT_WAITING, -1);
    list_remove(&c->of_partition);
    if (c->number) {
        command_queue_forget(c);
        return;
    }
    if (!c->source) {
        command_serve_free(c);
        return;
    }
    if (r->plane->design->note_settled)
        r->plane->design->note_settled(r, c);
    source_settle(r->plane->source, c->source);
    slab_free(&r->commands, c);
    command_lane_note_settled(lane);
}

void command_notice_leave(struct command *c)
{
    command_count(COMMAND_COUNT_ELSEWHERE, 1);
    finish(c);
}

void command_notice_put_away(struct command *c)
{
    command_count(COMMAND_COUNT_QUEUED, 1);
    finish(c);
}

static void on_stored(struct mail *m)
{
    struct command *c = CONTAINER_OF(m, struct command, delivery.mail);
    bool is_stored = c->delivery.outcome == OUTCOME_STORED;

    command_count(is_stored ? COMMAND_COUNT_NOTICES : COMMAND_COUNT_NOTICES_LOST, 1);
    if (!is_stored)
        LOG_WARN(LOG_COMMAND, "command.notice_lost", F_STR("tenant", c->tenant), F_STR("device", c->record.device_id),
                 F_TEXT("why", sink_outcome_name(c->delivery.outcome)));
    finish(c);
}

static bool is_success(const struct command *c)
{
    return c->status >= 200 && c->status < 300;
}

/* Where the notice goes: what was delivered may have a topic of its own. NULL: its name is none that Kafka has. */
static struct sink_topic *topic_of(const struct command *c)
{
    struct command_router *r = c->router;
    const struct config *config = r->generation->config;
    bool is_ack = is_success(c) && !config_acks_in_responses(config);
    struct str kind = is_ack ? config->command.ack_topic : STR("hono.command_response");
    char name[TOPIC_BYTES];
    int n = snprintf(name, sizeof name, "%.*s.%.*s", STR_ARG(kind), STR_ARG(c->tenant));

    return n < TOPIC_BYTES ? sink_find_topic(r->plane->settings.sink, (struct str){name, (size_t)n}) : NULL;
}

/* False: there is no room now, and nothing has happened. */
static bool submit(struct command *c)
{
    struct command_router *r = c->router;
    struct sink *sink = r->plane->settings.sink;
    struct command_answer answer;
    err e;

    command_record_build_notice(&c->record, c->tenant, c->status, str_from(c->text), (int64_t)loop_wall_ms(), &answer);
    answer.record.topic = topic_of(c);
    c->delivery = (struct delivery){.mail = {.on_mail = on_stored}, .home = &r->worker->loop.mailbox};
    e = answer.record.topic ? sink_submit(sink, &answer.record, &c->delivery) : E_INVAL;
    if (e == E_AGAIN)
        return false;
    if (e != E_OK) {
        command_count(COMMAND_COUNT_NOTICES_LOST, 1);
        finish(c);
    }
    return true;
}

/* Whether the application is told, and what; see docs/wire/commands.md. */
static bool is_told(struct command *c, enum command_metric what)
{
    bool tells_all = c->router->generation->config->command.notices == CONFIG_NOTICES_ALL;

    if (is_success(c))
        return c->record.is_ack_required;
    for (size_t i = 0; i < ARRAY_LEN(dropped) && tells_all; i++)
        if (dropped[i].what == what) {
            c->status = dropped[i].status;
            c->text = dropped[i].text;
        }
    if (c->status == 0 || c->record.device_id.n == 0)
        return false;
    return c->record.is_ack_required || (c->record.correlation_id.n > 0 && (c->record.is_response_required || tells_all));
}

void command_notice_conclude(struct command *c, enum command_metric what, int status, const char *text)
{
    struct command_router *r = c->router;

    c->status = status;
    c->text = text;
    command_count(what, 1);
    if (!is_told(c, what)) {
        finish(c);
    } else if (!list_is_empty(&r->blocked) || !submit(c)) {
        list_push(&r->blocked, &c->link);
        sink_wait(r->plane->settings.sink, &r->room);
    }
}

void command_notice_on_room(struct mail *m)
{
    struct command_router *r = CONTAINER_OF(m, struct command_router, room.mail);

    while (!list_is_empty(&r->blocked)) {
        struct command *c = CONTAINER_OF(r->blocked.next, struct command, link);

        list_remove(&c->link);
        if (submit(c))
            continue;
        list_push(r->blocked.next, &c->link); /* back to the front: notices keep the order of their commands */
        sink_wait(r->plane->settings.sink, &r->room);
        return;
    }
}
