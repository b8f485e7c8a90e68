/* Partitions whose records come to a router: what is not settled of each, in order. */
#include "base/check.h"
#include "base/siphash.h"
#include "command/command_router.h"

struct key {
    struct str topic;
    int32_t number;
};

static uint64_t hash_of(struct key key)
{
    return siphash_pair(key.topic, (struct str){(const char *)&key.number, sizeof key.number});
}

static bool is_partition(const void *entry, const void *key)
{
    const struct source_partition *source = ((const struct command_partition *)entry)->source;
    const struct key *wanted = key;

    return source->number == wanted->number && str_equal(source->topic, wanted->topic);
}

struct command_partition *command_partition_find(struct command_router *r, struct str topic, int32_t number)
{
    struct key key = {topic, number};

    return map_find(&r->partitions, hash_of(key), &key, is_partition);
}

struct command_partition *command_partition_of(struct command_router *r, struct source_partition *source)
{
    struct command_partition *p = source->reader_data;

    if (p)
        return p;
    p = mem_alloc(MEM_COMMAND, sizeof *p);
    *p =
        (struct command_partition){.router = r, .source = source, .hash = hash_of((struct key){source->topic, source->number})};
    list_init(&p->commands);
    map_add(&r->partitions, MEM_COMMAND, p->hash, p);
    source->reader_data = p;
    return p;
}

/* The next member reads again what was not settled. What is out on our behalf goes on, but it is the next member's to tell of. What is over stays:
 * its notice is on its way. */
void command_partition_on_lost(void *context, struct source_partition *source)
{
    struct command_partition *p = source->reader_data;
    struct list *next;

    (void)context;
    for (struct list *link = p ? p->commands.next : NULL; link && link != &p->commands; link = next) {
        struct command *c = CONTAINER_OF(link, struct command, of_partition);

        next = link->next;
        c->is_lost = true;
        if (c->is_over)
            continue;
        if (!c->is_sent)
            command_lane_leave(c);
        else if (c->is_passed_on)
            command_remote_forget(c);
    }
}

void command_partition_fini_all(struct command_router *r)
{
    uint32_t cursor = 0;
    struct command_partition *p;

    while ((p = map_next(&r->partitions, &cursor)))
        mem_free(MEM_COMMAND, p);
    map_free(&r->partitions, MEM_COMMAND);
}
