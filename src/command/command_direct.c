/* direct: every instance reads all commands. The one with the route acts; for a device without any, the first living one by rendezvous. A command of
 * another's is kept until that one tells that it is done; so whoever has the device next still has it. docs/adr/0021. */
#include "base/check.h"
#include "base/log.h"
#include "command/command_making.h"
#include "command/command_router.h"

/* The set of what is done of the topic that a command came from. */
static void find_set(const struct command *c, struct command_making *out)
{
    command_making_name(out, c->partition->source->topic, c->making);
}

static bool is_done(struct command_router *r, const struct command *c)
{
    struct command_making set;

    find_set(c, &set);
    return routes_is_done(r->replica, set.name, c->partition->source->number, c->source->offset);
}

static void ask_to_begin(struct command_partition *p);

static enum command_turn turn(struct command_router *r, const struct command *c, const struct command_choice *choice)
{
    bool is_alone = r->plane->settings.is_alone;

    if (!is_alone && c->partition->is_begun && is_done(r, c))
        return COMMAND_TURN_DONE;
    if (!routes_is_leased(r->replica))
        return COMMAND_TURN_WAIT;
    if (!is_alone && !c->partition->is_begun && !c->partition->is_beginning)
        ask_to_begin(c->partition);
    if ((!is_alone && !c->partition->is_begun) || choice->is_recent)
        return COMMAND_TURN_WAIT;
    return command_choice_is_ours(r, c->tenant, c->record.device_id, choice) ? COMMAND_TURN_ACT : COMMAND_TURN_OTHERS;
}

static void note_settled(struct command_router *r, struct command *c)
{
    struct command_making set;

    if (r->plane->settings.is_alone || !c->partition->is_begun)
        return;
    find_set(c, &set);
    routes_mark_done(r->replica, set.name, c->partition->source->number, c->done_from, c->source->offset + 1);
}

/* --- the first record of a partition --- */

static void look_again(struct command_router *r)
{
    r->has_seen = true;
    command_watch_soon(r);
}

static int64_t first_undone(const struct command_partition *p)
{
    struct command_making set;

    command_making_name(&set, p->source->topic, p->making);
    return routes_first_undone(p->router->plane->settings.routes, set.name, p->source->number);
}

static void on_begun(struct mail *m)
{
    struct command_partition *p = CONTAINER_OF(CONTAINER_OF(m, struct routes_write, mail), struct command_partition, write);

    p->is_beginning = false;
    p->is_begun = first_undone(p) >= 0;
    if (p->is_begun)
        look_again(p->router);
    else
        command_watch_tick(p->router); /* its lanes wait: turn() */
}

static void ask_to_begin(struct command_partition *p)
{
    struct command_making set;

    command_making_name(&set, p->source->topic, p->making);
    p->is_beginning = true;
    p->write = (struct routes_write){.mail = {.on_mail = on_begun}};
    routes_begin_done(p->router->replica, &p->write, set.name, p->source->number, p->first);
}

/* Which topic of the name the records are of that come from `offset` on. Others may have seen before us that it was made anew. */
static unsigned find_making(struct command_router *r, const struct command_partition *p, int64_t offset)
{
    struct routes *routes = r->plane->settings.routes;
    unsigned last = command_making_last(routes, p->source->topic, p->source->number);
    int64_t lost_at = atomic_load(&p->source->lost_at);
    bool is_anew = offset < lost_at && command_making_first_undone(routes, p->source->topic, p->source->number) >= lost_at;

    if (p->next > 0) /* it was made anew while we read it */
        is_anew = last == p->making;
    return is_anew ? last + 1 : last;
}

static void begin(struct command_router *r, struct command_partition *p, int64_t offset)
{
    int64_t undone;

    if (r->plane->settings.is_alone)
        return;
    p->making = find_making(r, p, offset);
    p->next = 0;
    undone = first_undone(p);
    p->first = offset;
    p->is_begun = undone >= 0;
    if (p->is_begun && undone < offset)
        p->next = undone; /* what is between them was done by this instance, or is not there */
}

/* --- when somebody else has acted --- */

static void note_done(struct command_router *r, struct command_partition *p)
{
    struct list *next;

    for (struct list *link = p->commands.next; link != &p->commands; link = next) {
        struct command *c = CONTAINER_OF(link, struct command, of_partition);

        next = link->next;
        if (c->is_sent || c->is_over || !is_done(r, c))
            continue;
        command_watch_lane(c->lane);
        command_lane_leave(c);
    }
}

const struct command_design command_direct = {
    .name = "direct",
    .carrier = COMMAND_CARRIER_NONE,
    .turn = turn,
    .note_settled = note_settled,
    .begin = begin,
    .note_moved = command_lane_note_moved,
    .note_done = note_done,
    .begins_at = command_making_first_undone,
};
