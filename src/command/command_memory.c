#include "command/command_memory.h"

#include <string.h>

#include "base/check.h"
#include "base/siphash.h"

struct question {
    const struct command_ticket *ticket;
    int64_t timestamp_ms;
};

static bool is_item_of(const void *entry, const void *key)
{
    const struct command_item *item = entry;
    const struct question *q = key;

    return item->ticket.offset == q->ticket->offset && item->ticket.partition == q->ticket->partition &&
           item->timestamp_ms == q->timestamp_ms && str_equal(item->ticket.tenant, q->ticket->tenant);
}

static uint64_t hash_of(const struct command_ticket *ticket)
{
    return siphash_pair(ticket->tenant, (struct str){(const char *)&ticket->offset, sizeof ticket->offset}) ^
           (uint64_t)(uint32_t)ticket->partition * 0x9e3779b97f4a7c15u;
}

struct command_item *command_memory_find(struct command_memory *m, const struct command_ticket *ticket, int64_t timestamp_ms)
{
    struct question q = {ticket, timestamp_ms};

    return map_find(&m->items, hash_of(ticket), &q, is_item_of);
}

struct command_item *command_memory_add(struct command_memory *m, const struct command_ticket *ticket, int64_t timestamp_ms)
{
    struct command_item *item = mem_alloc(MEM_COMMAND, sizeof *item + ticket->tenant.n);

    *item = (struct command_item){.ticket = *ticket, .timestamp_ms = timestamp_ms, .hash = hash_of(ticket)};
    memcpy(item->tenant, ticket->tenant.p, ticket->tenant.n);
    item->ticket.tenant.p = item->tenant;
    map_add(&m->items, MEM_COMMAND, item->hash, item);
    return item;
}

void command_memory_set_asker(struct command_item *item, const struct command_peer *asker)
{
    mem_free(MEM_COMMAND, item->asker);
    item->asker = mem_copy_text(MEM_COMMAND, asker->instance.p, asker->instance.n);
    item->asker_incarnation = asker->incarnation;
}

void command_memory_remove(struct command_memory *m, struct command_item *item)
{
    if (list_is_linked(&item->by_age))
        m->n_over--;
    list_remove(&item->by_age);
    list_remove(&item->reply);
    ASSERT(map_remove(&m->items, item->hash, item));
    mem_free(MEM_COMMAND, item->asker);
    mem_free(MEM_COMMAND, item);
}

void command_memory_keep(struct command_memory *m, struct command_item *item, uint64_t now_ms)
{
    size_t max = m->max ? m->max : COMMAND_MEMORY_MAX;

    if (!m->by_age.next)
        list_init(&m->by_age);
    item->over_at_ms = now_ms;
    item->served = NULL;
    list_push(&m->by_age, &item->by_age);
    m->n_over++;
    for (;;) {
        struct command_item *oldest = CONTAINER_OF(m->by_age.next, struct command_item, by_age);
        bool is_old = oldest->over_at_ms + COMMAND_MEMORY_MS < now_ms;

        if (oldest == item || (!is_old && m->n_over <= max))
            return;
        m->n_forgotten += !is_old;
        command_memory_remove(m, oldest);
    }
}

void command_memory_fini(struct command_memory *m)
{
    uint32_t cursor = 0;
    struct command_item *item;

    while ((item = map_next(&m->items, &cursor))) {
        mem_free(MEM_COMMAND, item->asker);
        mem_free(MEM_COMMAND, item);
    }
    map_free(&m->items, MEM_COMMAND);
    *m = (struct command_memory){0};
}
