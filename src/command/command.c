#include "command/command.h"

#include "base/check.h"
#include "base/log.h"
#include "command/command_router.h"

static const struct str topic_prefix = STR_INIT("hono.command.");

struct command_router *command_router_of(struct command_plane *plane, struct str tenant)
{
    return &plane->routers[routes_worker_of(plane->settings.routes, tenant)];
}

/* --- the reader: the commands of the tenants that there are --- */

static void *ref_wants(void *wants)
{
    return generation_ref(wants);
}

static void unref_wants(void *wants)
{
    generation_unref(wants);
}

/* A tenant that we do not know may be another installation's: nobody answers its commands here. */
static int interest(void *wants, struct str topic)
{
    struct generation *generation = wants;

    if (!str_starts_with(topic, topic_prefix))
        return -1;
    return registry_find_tenant(generation->registry, str_from_offset(topic, topic_prefix.n)) ? 0 : -1;
}

static struct str name(void *wants, int which)
{
    (void)wants;
    return which == 0 ? topic_prefix : (struct str){0};
}

/* A command that was written before the first instance came is still one. */
static bool begins_at_end(void *wants, int which)
{
    (void)wants;
    (void)which;
    return false;
}

/* Where the first of an instance's readers begins, by what all instances have done. */
static int64_t begins_at(void *context, struct str topic, int32_t partition)
{
    struct command_plane *plane = context;

    return plane->design->begins_at && !plane->settings.is_alone
               ? plane->design->begins_at(plane->settings.routes, topic, partition)
               : -1;
}

static struct mailbox *home(void *context, struct str topic, int32_t partition)
{
    struct command_plane *plane = context;

    (void)partition;
    return &command_router_of(plane, str_from_offset(topic, topic_prefix.n))->worker->loop.mailbox;
}

static void on_full(void *context, struct source_partition *partition)
{
    (void)context;
    LOG_WARN(LOG_COMMAND, "commands.paused", F_STR("topic", partition->topic), F_INT("partition", partition->number));
}

/* --- generations --- */

static void on_use(struct mail *m)
{
    struct command_router *r = CONTAINER_OF(m, struct command_router, use);
    struct command_plane *plane = r->plane;

    generation_unref(r->generation);
    r->generation = r->next_generation;
    r->next_generation = NULL;
    if (atomic_fetch_sub(&plane->n_unchanged, 1) == 1)
        mailbox_post(plane->changed_home, plane->changed);
}

void command_use(struct command_plane *plane, struct generation *next, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&plane->n_unchanged) == 0);
    plane->changed = done;
    plane->changed_home = home;
    atomic_store(&plane->n_unchanged, plane->n_routers);
    for (unsigned i = 0; i < plane->n_routers; i++) {
        plane->routers[i].next_generation = generation_ref(next);
        mailbox_post(&plane->routers[i].worker->loop.mailbox, &plane->routers[i].use);
    }
}

/* --- the end of the subscriptions --- */

void command_router_note_left(struct command_router *r)
{
    struct command_plane *plane = r->plane;

    if (!r->is_leaving || r->seats.n_entries)
        return;
    r->is_leaving = false;
    if (atomic_fetch_sub(&plane->n_staying, 1) == 1)
        mailbox_post(plane->left_home, plane->left);
}

static void on_leave(struct mail *m)
{
    struct command_router *r = CONTAINER_OF(m, struct command_router, leave);

    r->is_leaving = true;
    command_router_note_left(r);
}

/* --- life --- */

void command_router_init(struct command_router *r, struct command_plane *plane, struct worker *w)
{
    *r = (struct command_router){
        .plane = plane,
        .worker = w,
        .generation = generation_ref(plane->settings.generation),
        .use = {.on_mail = on_use},
        .commands = {.object_bytes = sizeof(struct command), .sub = MEM_COMMAND},
        .room = {.mail = {.on_mail = command_notice_on_room}, .home = &w->loop.mailbox},
        .replica = routes_replica_at(plane->settings.routes, w->id),
        .leave = {.on_mail = on_leave},
    };
    list_init(&r->blocked);
    list_init(&r->acting);
    list_init(&r->heard_by_age);
    list_init(&r->waiting);
    list_init(&r->others);
    list_init(&r->due_lanes);
    list_init(&r->due_seats);
    list_init(&r->due_partitions);
    list_init(&r->unsettled);
    list_init(&r->unsent);
    list_init(&r->errands);
    list_init(&r->pending);
    list_init(&r->replies);
    list_init(&r->unforgotten);
    command_watch_listen(r);
}

void command_router_fini(struct command_router *r)
{
    wheel_stop(&r->tick);
    command_serve_fini(r);
    command_lane_fini_all(r);
    command_partition_fini_all(r);
    command_entry_fini_all(r);
    command_gateway_fini(r);
    arena_free(&r->scratch, MEM_REGISTRY);
    generation_unref(r->generation);
    generation_unref(r->next_generation);
    slab_fini(&r->commands);
}

struct command_plane *command_new(const struct command_settings *settings)
{
    struct command_plane *plane = mem_alloc_zero(MEM_COMMAND, sizeof *plane);

    metrics_register(command_metrics, COMMAND_COUNTS);
    plane->settings = *settings;
    plane->design = settings->is_alone ? &command_direct : command_design_of(settings->generation->config->command.routing);
    plane->user = (struct command_transport_user){.plane = plane,
                                                  .on_request = command_serve_on_request,
                                                  .on_result = command_remote_on_result,
                                                  .on_room = command_remote_on_room};
    plane->reader = (struct source_reader){.context = plane,
                                           .ref = ref_wants,
                                           .unref = unref_wants,
                                           .interest = interest,
                                           .name = name,
                                           .begins_at_end = begins_at_end,
                                           .begins_at = begins_at,
                                           .on_lost = command_partition_on_lost,
                                           .home = home,
                                           .on_record = command_lane_on_record,
                                           .on_full = on_full};
    plane->n_routers = settings->workers->n;
    plane->routers = mem_alloc_zero(MEM_COMMAND, plane->n_routers * sizeof *plane->routers);
    for (unsigned i = 0; i < plane->n_routers; i++)
        command_router_init(&plane->routers[i], plane, &settings->workers->list[i]);
    plane->settings.generation = NULL;
    return plane;
}

const struct source_reader *command_reader(struct command_plane *plane)
{
    return &plane->reader;
}

const struct command_design *command_design(const struct command_plane *plane)
{
    return plane->design;
}

const struct command_transport_user *command_user(struct command_plane *plane)
{
    return &plane->user;
}

void command_use_transport(struct command_plane *plane, struct command_transport *transport)
{
    plane->transport = transport;
}

void command_start(struct command_plane *plane, struct source *source)
{
    plane->source = source;
}

void command_note_answer(void)
{
    command_count(COMMAND_COUNT_ANSWERED, 1);
}

void command_drain(struct command_plane *plane)
{
    atomic_store(&plane->is_draining, true);
}

void command_leave(struct command_plane *plane, struct mail *done, struct mailbox *home)
{
    plane->left = done;
    plane->left_home = home;
    atomic_store(&plane->n_staying, plane->n_routers);
    for (unsigned i = 0; i < plane->n_routers; i++)
        mailbox_post(&plane->routers[i].worker->loop.mailbox, &plane->routers[i].leave);
}

void command_free(struct command_plane *plane)
{
    if (!plane)
        return;
    for (unsigned i = 0; i < plane->n_routers; i++)
        command_router_fini(&plane->routers[i]);
    mem_free(MEM_COMMAND, plane->routers);
    mem_free(MEM_COMMAND, plane);
}
