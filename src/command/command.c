#include "command/command.h"

#include "base/check.h"
#include "base/siphash.h"
#include "command/command_router.h"

static const struct str topic_prefix = STR_INIT("hono.command.");

struct command_router *command_router_of(struct command_plane *plane, struct str tenant)
{
    return &plane->routers[siphash(tenant) % plane->n_routers];
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
    };
    list_init(&r->blocked);
}

void command_router_fini(struct command_router *r)
{
    command_lane_fini_all(r);
    command_entry_fini_all(r);
    generation_unref(r->generation);
    generation_unref(r->next_generation);
    slab_fini(&r->commands);
}

struct command_plane *command_new(const struct command_settings *settings)
{
    struct command_plane *plane = mem_alloc_zero(MEM_COMMAND, sizeof *plane);

    metrics_register(command_metrics, COMMAND_COUNTS);
    plane->settings = *settings;
    plane->reader = (struct source_reader){.context = plane,
                                           .ref = ref_wants,
                                           .unref = unref_wants,
                                           .interest = interest,
                                           .name = name,
                                           .begins_at_end = begins_at_end,
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

void command_start(struct command_plane *plane, struct source *source)
{
    plane->source = source;
}

void command_drain(struct command_plane *plane)
{
    atomic_store(&plane->is_draining, true);
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
